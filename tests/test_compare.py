import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from tables_of_runs import flat_blocks, make_table, table_of

from study.analyze.compare import compare_levels
from study.analyze.compare_types import CompareOptions, Pairing, Verdict
from study.analyze.stats import adjust_holm
from study.analyze.stats_power import smallest_effect
from study.errors import InputError

MIRROR = {
    Verdict.SLOWER: Verdict.FASTER,
    Verdict.SLOWER_WITHIN_MARGIN: Verdict.FASTER_WITHIN_MARGIN,
    Verdict.EQUIVALENT: Verdict.EQUIVALENT,
    Verdict.UNDECIDED: Verdict.UNDECIDED,
    Verdict.FASTER: Verdict.SLOWER,
    Verdict.FASTER_WITHIN_MARGIN: Verdict.SLOWER_WITHIN_MARGIN,
}


def test_effect_is_the_mean_log_ratio_within_blocks():
    table = table_of([(5.0, 5.5), (6.0, 6.5), (4.0, 4.5)])
    d = np.log([5.5 / 5, 6.5 / 6, 4.5 / 4])
    pair = compare_levels(table).pair("O0", 1)
    low, high = scipy_stats.ttest_1samp(d, 0).confidence_interval(0.95)
    assert pair.effect_percent.point == pytest.approx(100 * math.expm1(d.mean()))
    assert (pair.effect_percent.low, pair.effect_percent.high) == pytest.approx(
        (100 * math.expm1(low), 100 * math.expm1(high))
    )
    assert pair.p == pytest.approx(scipy_stats.ttest_1samp(d, 0).pvalue)
    assert (pair.effect_percent.n, pair.effect_percent.unit, pair.pairing) == (3, "block", Pairing.BLOCKS)


@pytest.mark.parametrize(
    ("log_ratios", "verdict"),
    [
        ((0.051, 0.049, 0.050, 0.052, 0.048), Verdict.SLOWER),
        ((-0.051, -0.049, -0.050, -0.052, -0.048), Verdict.FASTER),
        ((0.0031, 0.0029, 0.0030, 0.0032, 0.0028), Verdict.SLOWER_WITHIN_MARGIN),
        ((-0.0031, -0.0029, -0.0030, -0.0032, -0.0028), Verdict.FASTER_WITHIN_MARGIN),
        ((0.001, -0.001, 0.002, -0.002, 0.0005), Verdict.EQUIVALENT),
        ((0.05, -0.03, 0.02, -0.04, 0.06), Verdict.UNDECIDED),
    ],
)
def test_verdicts(log_ratios, verdict):
    pair = compare_levels(flat_blocks(*log_ratios)).pair("O0", 1)
    assert pair.verdict is verdict
    assert not pair.preliminary
    assert pair.reason


@pytest.mark.parametrize(("blocks", "preliminary"), [(3, True), (4, True), (5, False)])
def test_three_blocks_are_preliminary_five_earn_a_verdict(blocks, preliminary):
    pair = compare_levels(make_table({"default": 0, "O0": 0.2}, blocks=blocks)).pair("O0")
    assert (pair.verdict, pair.preliminary) == (Verdict.SLOWER, preliminary)


@pytest.mark.parametrize("blocks", [1, 2])
def test_two_blocks_or_fewer_are_undecided(blocks):
    pair = compare_levels(make_table({"default": 0, "O0": 0.2}, blocks=blocks)).pair("O0")
    assert pair.verdict is Verdict.UNDECIDED
    assert pair.reason.startswith(f"{blocks} block")
    assert (pair.effect_percent.low is None) == (blocks == 1)
    assert pair.effect_percent.point == pytest.approx(20, abs=1)
    assert pair.p_holm is None


def test_copies_of_one_block_are_no_evidence():
    pair = compare_levels(table_of([(5.0, 5.5)] * 5)).pair("O0", 1)
    assert pair.verdict is Verdict.UNDECIDED
    assert "copies" in pair.reason
    assert pair.effect_percent.point == pytest.approx(10)


def test_undecided_says_what_would_decide():
    pair = compare_levels(flat_blocks(0.05, -0.03, 0.06, -0.02, 0.04)).pair("O0", 1)
    outlook = pair.outlook
    assert outlook.sd_percent == pytest.approx(100 * np.std([0.05, -0.03, 0.06, -0.02, 0.04], ddof=1))
    assert outlook.units_for_equivalence is None
    assert outlook.more_units == outlook.units_for_difference - 5 > 0
    assert f"about {outlook.more_units} more block" in pair.reason
    assert outlook.smallest_effect_percent > 5


def test_equivalence_takes_the_same_interval_as_the_difference():
    # The 90 % interval would lie inside 1 %; the 95 % interval, which is the one that is printed, does not.
    d = 0.9 * np.array([0.001, 0.012, 0.004, 0.009, 0.0005])
    pair = compare_levels(flat_blocks(*d)).pair("O0", 1)
    assert 0.025 < pair.p_equivalence < 0.05
    assert pair.verdict is Verdict.UNDECIDED


def test_the_smallest_effect_is_that_of_the_first_step_of_holm():
    result = compare_levels(make_table({"default": 0, "O0": 0.001, "O1": 0.0}))
    outlook, sd = result.pair("O0").outlook, result.pair("O0").outlook.sd_percent / 100
    assert outlook.smallest_effect_percent == pytest.approx(100 * smallest_effect(sd, 5, 0.05 / 2))


def test_holm_runs_over_the_users_of_a_level():
    result = compare_levels(make_table({"default": 0, "O0": 0.003, "O1": 0.001}, users=(1, 2, 4)))
    for level in ("O0", "O1"):
        pairs = [pair for pair in result.by_users if pair.level == level]
        assert [pair.p_holm for pair in pairs] == pytest.approx(list(adjust_holm(np.array([p.p for p in pairs]))))
        assert {pair.family_size for pair in pairs} == {3}


def test_holm_runs_over_the_overall_costs_of_levels():
    result = compare_levels(make_table({"default": 0, "O0": 0.003, "O1": 0.001, "eager": 0.002}))
    assert [p.p_holm for p in result.overall] == pytest.approx(
        list(adjust_holm(np.array([p.p for p in result.overall])))
    )
    assert [pair.level for pair in result.overall] == ["O0", "O1", "eager"]


def test_a_single_p_below_alpha_is_no_verdict_in_a_family():
    # d of 3 users at p just below 0.05 each alone; times 3 it is not.
    rng = np.random.default_rng(4)
    noise = rng.normal(0, 0.01, 5)
    noise = noise - noise.mean() + 2.9 * noise.std(ddof=1) / math.sqrt(5)
    rows = [
        {"level": level, "users": users, "block": block, "machine": "a", "value": 5 * math.exp(d)}
        for users in (1, 2, 4)
        for block in range(5)
        for level, d in (("default", 0.0), ("O0", noise[block] if users == 1 else rng.normal(0, 0.01)))
    ]
    pair = compare_levels(pd.DataFrame(rows)).pair("O0", 1)
    assert pair.p < 0.05 < pair.p_holm
    assert pair.verdict is Verdict.UNDECIDED


def test_aa_pair_that_holds_zero():
    table = make_table({"default": 0, "O3": 0, "O0": 0.05})
    result = compare_levels(table, CompareOptions(alike=(("default", "O3"),)))
    check = result.aa[0]
    assert (check.level, check.default, check.contains_zero) == ("O3", "default", True)
    assert not result.method_biased
    assert result.notes == ()
    assert result.pair("O0").verdict is Verdict.SLOWER


def test_aa_pair_that_leaves_out_zero_marks_the_method_biased():
    table = make_table({"default": 0, "O3": 0.03, "O0": 0.05})
    assert compare_levels(table, CompareOptions(alike=(("O3", "default"),))).method_biased


def test_a_difference_no_larger_than_the_aa_mean_does_not_count():
    table = make_table({"default": 0, "O3": 0.03, "eager": 0.02})
    pair = compare_levels(table, CompareOptions(alike=(("O3", "default"),))).pair("eager")
    assert pair.verdict is Verdict.UNDECIDED
    assert "A/A" in pair.reason
    assert compare_levels(table).pair("eager").verdict is Verdict.SLOWER


def test_aa_of_two_levels_beside_the_default():
    table = make_table({"default": 0, "O2": 0.01, "O3": 0.01})
    result = compare_levels(table, CompareOptions(alike=(("O2", "O3"),)))
    assert result.aa[0].effect_percent.contains(0)


def test_without_an_aa_pair_verdicts_stand_and_say_so():
    result = compare_levels(make_table({"default": 0, "O0": 0.05}))
    assert result.notes == ("A/A not measured",)
    assert result.pair("O0").verdict is Verdict.SLOWER


def test_an_aa_of_two_blocks_is_not_measured():
    table = make_table({"default": 0, "O3": 0.0}, blocks=2)
    result = compare_levels(table, CompareOptions(alike=(("O3", "default"),)))
    assert result.aa[0].contains_zero is None
    assert result.notes == ("A/A not measured",)


def test_an_aa_of_graph_levels_says_nothing_about_host_launched_ones():
    table = make_table({"default": 0, "O3": 0, "O0": 4.0})
    options = CompareOptions(alike=(("O3", "default"),), host_launched=frozenset({"O0"}))
    notes = compare_levels(table, options).pair("O0").notes
    assert "says nothing about O0; duplicate O0" in notes[0]


def test_an_aa_of_host_launched_levels_does_not_bar_graph_levels():
    table = make_table({"default": 0, "eager": 0.02, "O0": 4.0, "O0-again": 4.5})
    options = CompareOptions(alike=(("O0", "O0-again"),), host_launched=frozenset({"O0", "O0-again"}))
    result = compare_levels(table, options)
    assert result.pair("eager").verdict is Verdict.SLOWER
    assert "host-launched" in result.pair("eager").notes[0]
    assert result.method_biased


def test_sign_flip_is_printed_and_never_gates():
    pair = compare_levels(flat_blocks(0.051, 0.049, 0.050)).pair("O0", 1)
    assert (pair.sign_flip.p, pair.sign_flip.least_p) == (0.25, 0.25)
    assert pair.verdict is Verdict.SLOWER


def test_range_rule_and_medians_use_the_guides_figure_where_given():
    table = flat_blocks(0.02, 0.021, 0.022)
    table["median_ms"] = [1.0, 2.0, 1.1, 2.2, 1.2, 2.1]
    pair = compare_levels(table).pair("O0", 1)
    assert (pair.range_rule.level_ms, pair.range_rule.default_ms) == ((2.0, 2.2), (1.0, 1.2))
    assert not pair.range_rule.overlap
    assert pair.range_rule.false_rate == pytest.approx(0.1)
    assert (pair.medians.level_ms, pair.medians.default_ms, pair.medians.statistic) == (2.1, 1.1, "median TPOT")
    assert pair.medians.percent == pytest.approx(100 * (2.1 / 1.1 - 1))


def test_a_wider_margin_decides_more():
    table = flat_blocks(0.02, -0.01, 0.01, -0.02, 0.005)
    assert compare_levels(table).pair("O0").verdict is Verdict.UNDECIDED
    assert compare_levels(table, CompareOptions(margin=0.05)).pair("O0").verdict is Verdict.EQUIVALENT


def test_alpha_of_a_look_serves_test_and_interval():
    table = flat_blocks(0.05, 0.04, 0.06)
    assert compare_levels(table).pair("O0").verdict is Verdict.SLOWER
    strict = compare_levels(table, CompareOptions(alpha=0.01)).pair("O0")
    assert strict.verdict is Verdict.UNDECIDED
    assert strict.effect_percent.confidence == pytest.approx(0.99)


def test_the_default_alone_is_compared_with_nothing():
    result = compare_levels(make_table({"default": 0}))
    assert (result.overall, result.by_users) == ((), ())
    with pytest.raises(InputError, match="compared levels: none"):
        result.pair("O0", 1)


def test_unknown_alike_levels_and_bad_options_are_refused():
    with pytest.raises(InputError, match="'O9'"):
        compare_levels(make_table({"default": 0}), CompareOptions(alike=(("default", "O9"),)))
    with pytest.raises(InputError, match="margin 1"):
        CompareOptions(margin=1.0)


TIMES = st.lists(st.tuples(st.integers(4000, 6000), st.integers(4000, 6000)), min_size=1, max_size=6).map(
    lambda pairs: [(default / 1000, level / 1000) for default, level in pairs]
)


def near(first, second):
    if first is None or second is None:
        return first is second
    return first == pytest.approx(second, rel=1e-6, abs=1e-7)


def same_pair(first, second):
    ends = [
        (getattr(first.effect_percent, end), getattr(second.effect_percent, end)) for end in ("point", "low", "high")
    ]
    return first.verdict is second.verdict and all(near(a, b) for a, b in [*ends, (first.p_holm, second.p_holm)])


@settings(deadline=None, max_examples=25)
@given(TIMES)
def test_swapping_levels_inverts_the_effect(pairs):
    table = table_of(pairs)
    there = compare_levels(table).pair("O0", 1)
    back = compare_levels(table, CompareOptions(default="O0")).pair("default", 1)
    assert (1 + there.effect_percent.point / 100) * (1 + back.effect_percent.point / 100) == pytest.approx(1)
    if there.effect_percent.low is not None:
        assert (1 + there.effect_percent.low / 100) * (1 + back.effect_percent.high / 100) == pytest.approx(1)
    assert back.verdict is MIRROR[there.verdict]


@settings(deadline=None, max_examples=25)
@given(TIMES, st.sampled_from([0.001, 0.37, 3.0, 1e6]))
def test_scaling_all_times_changes_nothing(pairs, scale):
    table = table_of(pairs)
    scaled = table.assign(value=table["value"] * scale)
    assert same_pair(compare_levels(table).pair("O0"), compare_levels(scaled).pair("O0"))


@settings(deadline=None, max_examples=25)
@given(TIMES, st.randoms(use_true_random=False))
def test_permuting_blocks_changes_nothing(pairs, random):
    table = table_of(pairs)
    shuffled = list(pairs)
    random.shuffle(shuffled)
    rows = table_of(shuffled).sample(frac=1, random_state=random.randrange(1000))
    assert same_pair(compare_levels(table).pair("O0"), compare_levels(rows).pair("O0"))
