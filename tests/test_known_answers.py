"""What METHOD states as known answers, each as it stands there."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from study.analyze import stats
from study.analyze.calibrate import calibrate, false_rate_of_ranges
from study.analyze.calibrate_noise import Regimes, SimulatedStudy
from study.analyze.compare import compare_levels
from study.analyze.compare_types import CompareOptions, Verdict
from study.analyze.stats_waves import RequestColumns, summarize_tpot

ROOT = Path(__file__).parent.parent
BENCH = ROOT / "tests" / "data" / "h200" / "bench"


@pytest.fixture(scope="module", params=[3, 5])
def nothing_built_in(request):
    study = SimulatedStudy(blocks=request.param, run_noise=0.005, launch_noise=0.01, studies=20_000)
    return calibrate(study, np.random.default_rng(2026))


def test_false_differences_a_comparison(nothing_built_in):
    assert nothing_built_in.comparison.point <= 0.055
    assert nothing_built_in.comparison_holm.point <= 0.055
    assert nothing_built_in.overall.point <= 0.055


def test_false_differences_a_holm_family(nothing_built_in):
    assert nothing_built_in.family_users.point <= 0.055
    assert nothing_built_in.family_overall.point <= 0.055


def test_half_of_all_studies_with_28_cells_err_without_holm(nothing_built_in):
    assert nothing_built_in.study_raw.point == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize(("n", "m", "rate"), [(3, 3, 0.10), (3, 2, 0.20)])
def test_range_rule(n, m, rate):
    simulated = false_rate_of_ranges(n, m, 20_000, np.random.default_rng(2026))
    assert simulated.point == pytest.approx(rate, abs=0.01)
    assert stats.range_rule_false_rate(n, m) == pytest.approx(rate)


def test_range_rule_in_simulated_studies_of_three_blocks():
    study = SimulatedStudy(blocks=3, run_noise=0.005, launch_noise=0.01)
    assert calibrate(study, np.random.default_rng(1)).range_rule.point == pytest.approx(0.10, abs=0.01)


@pytest.mark.parametrize("blocks", [3, 5])
def test_both_levels_in_regimes(blocks):
    regimes = Regimes(dwell_s=8.0, ratio=1.7, run_s=60.0)
    study = SimulatedStudy(blocks=blocks, users=2, levels=2, regimes=regimes, studies=20_000)
    result = calibrate(study, np.random.default_rng(2026))
    assert result.comparison.point <= 0.055
    assert result.family_users.point <= 0.055
    assert result.family_overall.point <= 0.055


def two_percent(run_noise, launch_noise):
    study = SimulatedStudy(
        blocks=5, users=1, levels=1, effect=0.02, run_noise=run_noise, launch_noise=launch_noise, studies=20_000
    )
    result = calibrate(study, np.random.default_rng(2026))
    return result.overall.point - result.wrong_sign.point


def test_a_two_percent_cost_is_found_without_launch_noise():
    assert two_percent(0.003, 0.0) >= 0.95


def test_a_two_percent_cost_is_found_in_56_percent_with_launch_noise():
    assert two_percent(0.005, 0.01) == pytest.approx(0.56, abs=0.03)


def edition_session(session_id):
    edition = json.loads((ROOT / "data" / "reference" / "edition-2026.10.json").read_text())
    return next(session for session in edition["sessions"] if session["id"] == session_id)


def runs_with_medians(session):
    """Make runs around each published median, which stays their median; two of them where two seeds ran."""
    spread = {2: (-0.01, 0.01), 3: (-0.02, 0.0, 0.01)}
    rows = [
        {"level": level, "users": int(users), "block": seed, "machine": "L4", "launch": level, "value": median + step}
        for level, by_users in session["median_tpot_ms"].items()
        for users, median in by_users.items()
        for seed, step in enumerate(spread[session["seeds"][level]], 1)
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("users", "cell"),
    [
        (1, "60.36 / 61.07 ms"),
        (8, "65.75 / 66.98 ms"),
        (32, "101.79 / 103.11 ms"),
        (64, "129.15 / 131.42 ms"),
    ],
)
def test_published_medians_come_back_character_for_character(users, cell):
    medians = compare_levels(runs_with_medians(edition_session("l4-full-clock"))).pair("eager", users).medians
    assert f"{medians.default_ms:.2f} / {medians.level_ms:.2f} ms" == cell


def test_published_o0_is_2_2_percent_of_the_medians_and_no_verdict():
    pair = compare_levels(runs_with_medians(edition_session("l4-throttled"))).pair("O0", 1)
    assert f"{pair.medians.percent:.1f}" == "2.2"
    assert (pair.range_rule.n_level, pair.range_rule.n_default) == (2, 3)
    assert pair.range_rule.false_rate == pytest.approx(0.20)
    assert pair.verdict is Verdict.UNDECIDED


def test_published_o3_is_an_aa_test():
    table = runs_with_medians(edition_session("l4-throttled"))
    result = compare_levels(table, CompareOptions(alike=(("O3", "default"),)))
    assert result.aa[0].contains_zero is None
    assert result.notes == ("A/A not measured",)


def bench_run(name):
    result = json.loads((BENCH / f"{name}.json").read_text())
    requests = RequestColumns(
        start_s=np.array(result["start_times"]),
        ttft_s=np.array(result["ttfts"]),
        latency_s=np.array(result["latencies"]),
        output_tokens=np.array(result["output_lens"]),
        success=np.array([error == "" for error in result["errors"]]),
    )
    return result, summarize_tpot(requests, result["max_concurrency"])


@pytest.mark.parametrize("path", sorted(BENCH.glob("*.json")), ids=lambda path: path.stem)
def test_tpot_is_that_of_vllms_own_benchmark(path):
    result, tpot = bench_run(path.stem)
    assert tpot.median_ms == pytest.approx(result["median_tpot_ms"], rel=1e-9)
    # Every wave of these runs is complete, so the mean over waves is the mean over all requests.
    assert tpot.waves_complete == tpot.waves_started == result["completed"] / result["max_concurrency"]
    assert tpot.mean_ms == pytest.approx(result["mean_tpot_ms"], rel=1e-9)


def h200_table(*levels, users=1):
    rows = []
    for level in levels:
        for seed in (1, 2, 3):
            _, tpot = bench_run(f"{level}-{users}-{seed}")
            rows.append(
                {
                    "level": level,
                    "users": users,
                    "block": seed,
                    "machine": "H200",
                    "launch": level,
                    "value": tpot.mean_ms,
                    "median_ms": tpot.median_ms,
                }
            )
    return pd.DataFrame(rows)


def test_o2_against_o2_warm_is_real_by_the_range_rule_and_no_verdict():
    pair = compare_levels(h200_table("O2", "O2-warm"), CompareOptions(default="O2")).pair("O2-warm", 1)
    assert not pair.range_rule.overlap
    assert pair.range_rule.default_ms == pytest.approx((5.0874, 5.0898), abs=5e-5)
    assert pair.range_rule.level_ms == pytest.approx((5.0820, 5.0860), abs=5e-5)
    assert pair.verdict is Verdict.UNDECIDED
    assert "one launch each is no block" in pair.reason


def test_o0_on_the_h200_is_four_times_as_slow_and_still_no_verdict():
    pair = compare_levels(h200_table("O2", "O0"), CompareOptions(default="O2")).pair("O0", 1)
    assert pair.medians.percent > 300
    assert pair.verdict is Verdict.UNDECIDED
