import hashlib
import json
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from make_records import make_canary, make_gate, make_launch, make_outcome, make_run, make_study

from study.analyze.compare import compare_levels
from study.analyze.compare_types import CompareOptions
from study.analyze.formats import format_percent
from study.analyze.judged_runs import judge_runs, order_levels
from study.analyze.level_tables import level_table, start_table
from study.analyze.tables import (
    comparison_input,
    left_out_table,
    run_table,
    session_figures,
    session_table,
)
from study.analyze.tables_on_disk import validity_report, write_tables
from study.store import StudyRecords

EDITION = json.loads((Path(__file__).parents[1] / "data/reference/edition-2026.10.json").read_text())
DASH = "\N{EN DASH}"
SHORT = {"waves": 1, "tokens": 4}


def session_of(identity):
    return next(session for session in EDITION["sessions"] if session["id"] == identity)


def spread(median, seeds, step):
    """Values whose median is exactly `median`: two seeds lie on both sides of it, a third on it."""
    return {2: [median - step, median + step], 3: [median + step, median, median - step]}[seeds]


def published_study(name):
    """Runs whose medians are the published ones, as many a level as the edition had seeds."""
    session = session_of(name)
    throttled = session["kind"] == "throttled"
    launches, runs = [], []
    for level, by_users in session["median_tpot_ms"].items():
        for users, median in by_users.items():
            clock = session.get("median_sm_clock_mhz", {}).get(level, {}).get(users, 210)
            count = session["seeds"][level]
            values = zip(spread(median, count, 0.5), spread(clock, count, 7.5), strict=True)
            for block, (tpot_ms, mhz) in enumerate(values, 1):
                gate = make_gate(kind="as_found" if throttled else "cooled")
                identity = {"session": session["kind"], "gate": gate, "launch_id": f"{level}-{users}-{block}"}
                launch = make_launch(level, block, **identity)
                fields = {"sm_clock_mhz": mhz, "event_reasons": 0x80 if throttled else 0}
                run = make_run(launch, int(users), tpot_ms=tpot_ms, **SHORT, gate=gate, telemetry_fields=fields)
                launches.append(launch)
                runs.append(run)
    return make_study(launches, runs)


def small_study(levels=("default", "eager"), blocks=(1, 2), **fields):
    launches = [make_launch(level, block) for block in blocks for level in levels]
    slower_ms = {"default": 0.0, "O2": 0.5, "eager": 3.0}
    runs = [
        make_run(launch, users, tpot_ms=50.0 + launch.block + users + slower_ms[launch.level], **SHORT, **fields)
        for launch in launches
        for users in (1, 2)
    ]
    return make_study(launches, runs)


def digest(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


def test_published_medians_come_back_character_for_character():
    table = session_table(published_study("l4-full-clock"), EDITION["sessions"][0]["users_published"])
    assert list(table["levels"]) == ["default / eager"] * 4
    assert list(table["tpot"]) == ["60.36 / 61.07 ms", "65.75 / 66.98 ms", "101.79 / 103.11 ms", "129.15 / 131.42 ms"]
    clocks = ["1,275 / 1,290 MHz", "1,485 / 1,515 MHz", "1,275 / 1,313 MHz", "1,005 / 1,020 MHz"]
    assert list(table["sm_clock"]) == clocks


def test_published_throttled_medians_come_back_and_o0_costs_2_2_percent_of_the_medians():
    study = published_study("l4-throttled")
    table = session_table(study)
    assert list(table["tpot"]) == ["104.14 / 106.48 / 104.15 ms", "142.67 / 142.04 / 143.85 ms"]
    assert table["sm_clock"][0] == "210 / 210 / 210 MHz"
    pair = compare_levels(comparison_input(study), CompareOptions()).pair("O0", 1)
    assert format_percent(pair.medians.percent) == "2.2 percent"


def test_the_order_of_levels_can_be_asked_for():
    table = session_table(small_study(), [1], levels=["eager", "default"])
    assert table["levels"][0] == "eager / default"
    assert table["tpot"][0] == "55.50 / 52.50 ms"


def test_order_levels_puts_the_default_first():
    assert order_levels(["eager", "O2", "default", "O0"]) == ("default", "O0", "O2", "eager")


def test_a_level_without_a_valid_run_is_a_dash():
    launches = [make_launch("default"), make_launch("O0")]
    runs = [make_run(launches[0], tpot_ms=60.36, **SHORT), make_run(launches[1], gate=make_gate(status="timed_out"))]
    assert session_table(make_study(launches, runs))["tpot"][0] == f"60.36 / {DASH} ms"


def test_a_level_that_never_started_is_a_dash_too():
    failed = make_outcome(status="failed", stage="ready", message="out of memory")
    study = make_study([make_launch(), make_launch("O0", outcome=failed)], [make_run(tpot_ms=60.36, **SHORT)])
    assert session_table(study)["tpot"][0] == f"60.36 / {DASH} ms"


def test_seed_ranges_stand_beside_the_medians():
    row = session_figures(small_study()).iloc[0]
    assert (row["runs"], row["least_tpot_ms"], row["greatest_tpot_ms"]) == (2, pytest.approx(52), pytest.approx(53))


@settings(max_examples=15, deadline=None)
@given(
    level=st.sampled_from(["default", "eager"]),
    users=st.sampled_from([1, 2]),
    block=st.integers(1, 9),
    tpot_ms=st.floats(0.5, 900),
    fault=st.sampled_from(
        [
            {"gate": make_gate(status="timed_out")},
            {"telemetry_fields": {"event_reasons": 0x40}},
            {"outcome": make_outcome(status="interrupted", stage="load")},
            {"load": None, "telemetry": None, "server": None, "outcome": make_outcome(status="failed", stage="load")},
        ]
    ),
)
def test_an_invalid_run_changes_no_figure(level, users, block, tpot_ms, fault):
    study = small_study()
    launch = make_launch(level, block, launch_id="more")
    bad = make_run(launch, users, tpot_ms=tpot_ms, **SHORT, run_id="more", attempt=9, **fault)
    more = make_study([*study.launches, launch], [*study.runs, bad])
    assert session_table(more).equals(session_table(study))
    assert comparison_input(more).equals(comparison_input(study))


@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_order_of_files_changes_nothing(seed):
    study = small_study(("default", "O2", "eager"))
    draw = random.Random(seed)
    launches, runs = draw.sample(study.launches, len(study.launches)), draw.sample(study.runs, len(study.runs))
    other = StudyRecords(study.study, tuple(launches), tuple(runs), {})
    of_runs = (run_table, session_table, session_figures, comparison_input, left_out_table)
    for table in (*of_runs, level_table, start_table):
        assert table(other).equals(table(study))
    assert validity_report(other) == validity_report(study)


def test_the_same_records_give_the_same_bytes(tmp_path):
    study = small_study()
    write_tables(study, tmp_path / "a", use_for={"default": "production"})
    write_tables(make_study(study.launches[::-1], study.runs[::-1]), tmp_path / "b", use_for={"default": "production"})
    assert digest(tmp_path / "a") == digest(tmp_path / "b")
    assert not any(b"\r" in path.read_bytes() for path in (tmp_path / "a").iterdir())


def test_written_tables_hold_exact_figures_and_nulls(tmp_path):
    launch = make_launch(idle_power_w=None)
    study = make_study([launch], [make_run(launch, tpot_ms=1 / 3 + 60, waves=1)])
    names = {path.name for path in write_tables(study, tmp_path)}
    assert {"runs.csv", "runs.json", "session.csv", "starts.json", "validity.json", "left_out.csv"} <= names
    (row,) = json.loads((tmp_path / "runs.json").read_text())
    assert row["mean_tpot_ms"] == run_table(study)["mean_tpot_ms"][0]
    assert row["dynamic_energy_per_step_j"] is None
    assert "dynamic_energy_per_step_j" in json.loads(row["missing"])


def test_a_study_without_runs_has_its_tables_all_the_same(tmp_path):
    write_tables(make_study([make_launch()]), tmp_path)
    assert json.loads((tmp_path / "runs.json").read_text()) == []
    assert (tmp_path / "comparison_input.csv").read_text().startswith("level,users,block,seed,machine,launch,value")


def test_the_run_table_keeps_invalid_runs_with_their_reasons():
    study = make_study([make_launch()], [make_run(gate=make_gate(status="timed_out"), **SHORT)])
    (row,) = run_table(study).to_dict("records")
    assert (row["valid"], row["reasons"]) == (False, "cool_gate_timed_out")
    assert row["mean_tpot_ms"] == pytest.approx(60.0)


def test_a_run_whose_launch_is_gone_keeps_its_row():
    (row,) = run_table(make_study([], [make_run()])).to_dict("records")
    assert (row["valid"], row["reasons"], row["machine"]) == (False, "run_failed", None)


def test_comparison_takes_the_mean_and_keeps_the_median():
    study = make_study([make_launch()], [make_run(tpot_ms=[10.0, 10.0, 40.0], waves=3, tokens=4)])
    (row,) = comparison_input(study).to_dict("records")
    assert (row["value"], row["median_ms"]) == (pytest.approx(20.0), pytest.approx(10.0))
    assert (row["machine"], row["launch"], row["block"], row["seed"]) == ("GPU-1", "b1-default-a1", 1, 1)


def test_starts_that_fill_caches_never_enter_figures():
    fill = make_launch(launch_id="fill-default-a1", fills_caches=True, first_token_s=1000.0)
    study = make_study([fill, make_launch()], [make_run(fill, run_id="x", **SHORT)])
    assert comparison_input(study).empty
    (row,) = start_table(study).to_dict("records")
    assert (row["n"], row["median_s"]) == (1, 69.0)
    assert set(left_out_table(study)["reason"]) == {"fills_caches", "its launch filled the caches"}


def test_a_run_that_was_made_again_counts_once_and_the_last_counts():
    launch = make_launch()
    first, second = (
        make_run(launch, tpot_ms=ms, **SHORT, attempt=at, run_id=f"a{at}") for at, ms in ((1, 50.0), (2, 70.0))
    )
    study = make_study([launch], [first, second])
    assert comparison_input(study)["value"].tolist() == [pytest.approx(70.0)]
    assert left_out_table(study)["reason"].tolist() == ["run again as a2"]


def test_an_interrupted_launch_takes_the_next_canary_of_its_machine():
    ended = make_outcome(status="interrupted", stage="serve")
    cut = make_launch(block=1, canary_after=None, outcome=ended, spawn_unix_s=100.0)
    same = make_launch(block=2, spawn_unix_s=200.0)
    slow = make_launch(block=2, spawn_unix_s=200.0, canary_before=make_canary(copy_gb_s=200.0), canary_after=None)
    run = make_run(cut, **SHORT)
    assert judge_runs(make_study([cut, same], [run]))[0].validity.valid
    assert judge_runs(make_study([cut, slow], [run]))[0].validity.reasons == ("canary_moved",)
    assert judge_runs(make_study([cut], [run]))[0].validity.reasons == ("canary_moved (unavailable)",)
