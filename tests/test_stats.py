import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from study.analyze import stats, stats_power
from study.analyze.stats_waves import RequestColumns, summarize_tpot
from study.errors import InputError

D5 = np.array([0.031, 0.012, 0.022, 0.018, 0.027])


def closed_t(d, alpha=0.05):
    half = scipy_stats.t.ppf(1 - alpha / 2, d.size - 1) * d.std(ddof=1) / math.sqrt(d.size)
    return d.mean() - half, d.mean() + half


def test_paired_interval_is_the_closed_form():
    test = stats.paired_test(D5)
    assert (float(test.low), float(test.high)) == pytest.approx(closed_t(D5))


def test_paired_p_is_twice_the_tail_of_t():
    t = D5.mean() / (D5.std(ddof=1) / math.sqrt(5))
    assert float(stats.paired_test(D5).p) == pytest.approx(2 * scipy_stats.t.sf(t, 4))


def test_paired_test_of_many_studies_is_each_alone():
    d = np.random.default_rng(1).normal(size=(4, 3, 5))
    many = stats.paired_test(d)
    assert many.p.shape == (4, 3)
    assert float(many.p[2, 1]) == pytest.approx(float(stats.paired_test(d[2, 1]).p))


def test_a_higher_confidence_widens_the_interval():
    assert stats.paired_test(D5, 0.01).high > stats.paired_test(D5, 0.05).high


@pytest.mark.parametrize("d", [[0.1], [0.02, 0.02, 0.02]])
def test_one_block_or_copies_have_no_interval(d):
    with pytest.raises(InputError, match="block"):
        stats.paired_test(np.array(d))


def test_welch_is_scipys_and_its_closed_form():
    a, b = D5, np.array([0.001, 0.004, -0.003])
    test = stats.welch_test(a, b)
    va, vb = a.var(ddof=1) / 5, b.var(ddof=1) / 3
    df = (va + vb) ** 2 / (va**2 / 4 + vb**2 / 2)
    half = scipy_stats.t.ppf(0.975, df) * math.sqrt(va + vb)
    assert float(test.df) == pytest.approx(df)
    assert float(test.high) == pytest.approx(a.mean() - b.mean() + half)
    assert float(test.p) == pytest.approx(scipy_stats.ttest_ind(a, b, equal_var=False).pvalue)


def test_welch_refuses_a_side_without_scatter():
    with pytest.raises(InputError, match="default"):
        stats.welch_test(D5, np.array([0.1, 0.1]))


def test_percent_of_a_log_ratio():
    assert stats.to_percent(math.log(1.02)) == pytest.approx(2.0)


def test_holm_of_a_worked_example():
    # Holm 1979, step down: 4 x 0.01, 3 x 0.015, 2 x 0.03, 1 x 0.04, made monotone.
    adjusted = stats.adjust_holm(np.array([0.03, 0.01, 0.04, 0.015]))
    assert adjusted == pytest.approx([0.06, 0.04, 0.06, 0.045])


@settings(deadline=None)
@given(st.lists(st.floats(0.0001, 1.0), min_size=1, max_size=6))
def test_holm_rejects_what_stepping_down_rejects(p):
    rejected = set()
    for step, index in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if p[index] * (len(p) - step) >= 0.05:
            break
        rejected.add(index)
    adjusted = stats.adjust_holm(np.array(p))
    assert {i for i, value in enumerate(adjusted) if value < 0.05} == rejected


def test_holm_of_two_families_at_once():
    p = np.array([[0.01, 0.04], [0.5, 0.02]])
    assert stats.adjust_holm(p) == pytest.approx(np.array([[0.02, 0.04], [0.5, 0.04]]))


def test_equivalence_is_two_one_sided_t_tests():
    bound = math.log1p(0.01)
    d = np.array([0.001, 0.003, -0.002, 0.004])
    low = scipy_stats.ttest_1samp(d, -bound, alternative="greater").pvalue
    high = scipy_stats.ttest_1samp(d, bound, alternative="less").pvalue
    assert float(stats.equivalence_p(stats.paired_test(d), 0.01)) == pytest.approx(max(low, high))


@settings(deadline=None)
@given(st.lists(st.integers(-2000, 2000), min_size=3, max_size=8, unique=True), st.sampled_from([0.05, 0.025, 0.01]))
def test_one_interval_serves_equivalence(ticks, alpha):
    test = stats.paired_test(np.array(ticks) / 1e5, alpha)
    p = float(stats.equivalence_p(test, 0.01))
    if abs(p - alpha / 2) > 1e-9:
        assert (p < alpha / 2) == bool(stats.is_within_margin(test, 0.01))


def test_sign_flip_counts_all_patterns():
    # All five d are positive, so that only the pattern itself and its mirror are as extreme: 2 of 32.
    flip = stats.sign_flip(D5)
    assert (flip.p, flip.least_p) == (2 / 32, 2 / 32)


def test_sign_flip_by_enumeration():
    d = np.array([0.5, -0.1, 0.4, 0.2])
    signs = np.array(np.meshgrid(*[[-1, 1]] * 4)).reshape(4, -1).T
    extreme = np.mean(np.abs(signs @ d) >= abs(d.sum()) - 1e-12)
    assert stats.sign_flip(d).p == pytest.approx(extreme)


@pytest.mark.parametrize(("blocks", "least"), [(1, 1.0), (2, 0.5), (3, 0.25), (5, 0.0625)])
def test_least_sign_flip_p(blocks, least):
    assert stats.sign_flip(np.arange(1.0, blocks + 1)).least_p == least


def test_no_sign_flip_for_many_blocks_or_none():
    assert stats.sign_flip(np.arange(1.0, 14.0)) is None
    assert stats.sign_flip(np.empty(0)) is None


@pytest.mark.parametrize(("n", "m", "rate"), [(3, 3, 0.1), (3, 2, 0.2), (2, 3, 0.2), (5, 5, 2 / 252), (1, 1, 1.0)])
def test_range_rule_false_rate(n, m, rate):
    assert stats.range_rule_false_rate(n, m) == pytest.approx(rate)


def test_range_rule_needs_runs():
    with pytest.raises(InputError, match="0 and 3"):
        stats.range_rule_false_rate(0, 3)


def test_touching_ranges_overlap():
    assert stats.do_ranges_overlap(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    assert not stats.do_ranges_overlap(np.array([1.0, 1.9]), np.array([2.0, 3.0]))


def test_an_open_end_holds_everything():
    estimate = stats.Estimate(5.0, 2.0, None, 5, "block", 0.95)
    assert estimate.contains(1e9)
    assert not estimate.contains(1.9)


# METHOD's row: blocks for equivalence at 1 %, 80 % power.
@pytest.mark.parametrize(("sd_percent", "blocks"), [(0.1, 3), (0.3, 4), (0.5, 5), (1.0, 13), (1.58, 29)])
def test_blocks_for_equivalence(sd_percent, blocks):
    assert stats_power.blocks_for_equivalence(0.01, sd_percent / 100) == blocks


def test_equivalence_power_is_what_simulation_finds():
    d = np.random.default_rng(2).normal(0.002, 0.005, (40_000, 5))
    share = stats.is_within_margin(stats.paired_test(d), 0.01).mean()
    assert stats_power.power_of_equivalence(0.01, 0.005, 5, log_effect=0.002) == pytest.approx(share, abs=0.01)


def test_difference_power_is_what_simulation_finds():
    d = np.random.default_rng(3).normal(0.01, 0.01, (40_000, 5))
    share = (stats.paired_test(d).p < 0.05).mean()
    assert stats_power.power_of_difference(0.01, 0.01, 5) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(("effect", "sd", "blocks"), [(0.02, 0.0158, 5), (0.02, 0.01, 3), (0.005, 0.01, 40)])
def test_difference_power_is_that_of_the_noncentral_t(effect, sd, blocks):
    critical, shift = scipy_stats.t.ppf(0.975, blocks - 1), effect / sd * math.sqrt(blocks)
    exact = scipy_stats.nct.sf(critical, blocks - 1, shift) + scipy_stats.nct.cdf(-critical, blocks - 1, shift)
    assert stats_power.power_of_difference(effect, sd, blocks) == pytest.approx(exact, abs=5e-4)


def test_a_level_four_times_as_slow_is_found():
    assert stats_power.power_of_difference(math.log(4), 0.001, 3) == pytest.approx(1.0)


@settings(deadline=None)
@given(st.floats(0.0005, 0.05), st.integers(3, 12))
def test_smallest_effect_is_found_in_four_of_five(sd, blocks):
    effect = stats_power.smallest_effect(sd, blocks)
    assert stats_power.power_of_difference(math.log1p(effect), sd, blocks) == pytest.approx(0.8, abs=1e-4)


def test_blocks_for_a_difference_are_the_fewest():
    blocks = stats_power.blocks_for_difference(0.01, 0.0158)
    assert stats_power.power_of_difference(0.01, 0.0158, blocks) >= 0.8
    assert stats_power.power_of_difference(0.01, 0.0158, blocks - 1) < 0.8


def test_no_number_of_blocks_where_none_is_in_reach():
    assert stats_power.blocks_for_difference(1e-6, 0.01) is None
    assert stats_power.blocks_for_equivalence(0.01, 0.01, log_effect=0.02) is None


def test_one_block_finds_nothing():
    assert stats_power.power_of_difference(0.5, 0.01, 1) == 0.0
    assert stats_power.power_of_equivalence(0.01, 0.001, 1) == 0.0


def test_looks_spend_five_percent():
    assert [stats_power.alpha_of_look(blocks) for blocks in (3, 5, 8)] == [0.01, 0.015, 0.025]
    with pytest.raises(InputError, match="after 4 blocks"):
        stats_power.alpha_of_look(4)


def requests(count, users, **changes):
    # Lockstep waves 1 s apart; request i takes 10 + i ms a token.
    columns = {
        "start_s": np.arange(count) // users * 1.0,
        "ttft_s": np.full(count, 0.05),
        "latency_s": 0.05 + (10.0 + np.arange(count)) * 1e-3 * 9,
        "output_tokens": np.full(count, 10),
        "success": np.ones(count, dtype=bool),
    }
    return RequestColumns(**(columns | changes))


def test_tpot_over_waves():
    result = summarize_tpot(requests(6, 2), 2)
    assert result.mean_ms == pytest.approx(12.5)
    assert result.median_ms == pytest.approx(12.5)
    assert (result.waves_complete, result.waves_started, result.reason) == (3, 3, "")


def test_the_last_short_wave_is_left_out_of_the_mean_only():
    result = summarize_tpot(requests(5, 2), 2)
    assert result.mean_ms == pytest.approx(np.mean([10, 11, 12, 13]))
    assert result.median_ms == pytest.approx(12.0)
    assert (result.waves_complete, result.waves_started) == (2, 3)


def test_a_failed_request_takes_its_wave_along():
    success = np.array([True, True, False, True, True, True])
    latency = requests(6, 2).latency_s.copy()
    latency[2] = np.nan
    result = summarize_tpot(requests(6, 2, success=success, latency_s=latency), 2)
    assert result.mean_ms == pytest.approx(np.mean([10, 11, 14, 15]))
    assert result.median_ms == pytest.approx(13.0)


def test_waves_follow_the_order_of_starts():
    plain = requests(6, 2)
    order = np.array([4, 0, 5, 2, 1, 3])
    shuffled = RequestColumns(**{name: getattr(plain, name)[order] for name in RequestColumns.__dataclass_fields__})
    assert summarize_tpot(shuffled, 4) == summarize_tpot(plain, 4)


def test_no_complete_wave_has_a_reason_and_no_mean():
    result = summarize_tpot(requests(3, 4), 4)
    assert result.mean_ms is None
    assert result.median_ms == pytest.approx(11.0)
    assert "complete" in result.reason


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"output_tokens": np.array([10, 1, 10, 10])}, "request 1: 1"),
        ({"success": np.zeros(4, dtype=bool)}, "no request succeeded"),
        ({"latency_s": np.full(4, 0.05)}, "at once"),
    ],
)
def test_no_tpot_is_none_with_a_reason_and_never_zero(changes, words):
    result = summarize_tpot(requests(4, 2, **changes), 2)
    assert (result.mean_ms, result.median_ms) == (None, None)
    assert words in result.reason


@pytest.mark.parametrize(
    ("changes", "users", "words"),
    [
        ({}, 0, "0 users"),
        ({"ttft_s": np.full(3, 0.1)}, 2, "differ in length"),
        ({"latency_s": np.array([1.0, np.nan, 1.0, 1.0])}, 2, "request 1 is nan"),
        ({"start_s": np.array([1.0, 2.0, np.inf, 3.0])}, 2, "start_s of request 2 is inf"),
    ],
)
def test_unusable_request_columns_are_refused(changes, users, words):
    with pytest.raises(InputError, match=words):
        summarize_tpot(requests(4, 2, **changes), users)
