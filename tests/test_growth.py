"""Analysis at size: simulated studies are whole and marked, figures and lists bounded, growth is judged rightly."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from growth.build import Cost
from growth.campaign import Size, exponent, judge
from growth.simulate import COSTS, RUNS_A_BLOCK, USERS, write_simulated
from hypothesis import given
from hypothesis import strategies as st
from make_records import make_run
from matplotlib.collections import PathCollection

from study.analyze.compare_types import Verdict
from study.analyze.findings import find
from study.analyze.indented_json import write_indented
from study.analyze.run_traces import MOST_POINTS, POINT_COLUMNS, trace_run
from study.check import check_study
from study.publish.figures import draw_starts, draw_tpot
from study.publish.launch_order import order_launches
from study.publish.panels import Frame
from study.publish.picking import MOST_LINES, pick_places, pick_runs
from study.publish.picking import MOST_POINTS as MOST_DRAWN
from study.publish.run_figures import draw_clock, draw_order, draw_requests
from study.publish.sheets import MOST_ROWS, list_left_out, list_runs
from study.publish.site_studies import list_studies
from study.publish.traces import spread_requests, trace_card
from study.record_files import _parse_carefully, _parse_quickly, open_record
from study.store import Store

ROOT = Path(__file__).parent.parent
BLOCKS = 15
FRAME = Frame(tuple(COSTS), USERS, rehearsal=True)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    return write_simulated(tmp_path_factory.mktemp("data"), "simulated", BLOCKS * RUNS_A_BLOCK)


@pytest.fixture(scope="module")
def records(store):
    return store.read()


@pytest.fixture(scope="module")
def found(records):
    return find(records)


def test_a_simulated_study_is_whole_and_every_record_says_that_it_is_no_result(store, records):
    assert check_study(store) == []
    assert len(records.runs) == BLOCKS * RUNS_A_BLOCK
    assert all(one.rehearsal for one in (*records.launches, *records.runs))
    assert {one.machine.gpu_name for one in records.launches} == {"simulated card"}


def test_verdicts_of_a_simulated_study_are_what_was_put_in(found):
    assert found.rehearsal
    assert found.pair("eager").verdict is Verdict.SLOWER
    assert set(found.left_out["reason"]) == {"failed_requests"}
    assert found.pair("eager").effect_percent.contains(100 * COSTS["eager"])
    assert found.pair("O0").effect_percent.contains(100 * COSTS["O0"])


def test_the_stages_of_a_build_are_measured_in_their_own_process(tmp_path):
    write_simulated(tmp_path / "data", "s", RUNS_A_BLOCK)
    (tmp_path / "notebooks/parameters").mkdir(parents=True)
    command = [sys.executable, "-m", "tests.growth.build", str(tmp_path), "s"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    costs = json.loads(done.stdout)
    assert list(costs) == ["read and validate", "verdicts", "read again, and verdicts", "tables", "decide", "edition"]
    peaks = [cost["peak_mib"] for cost in costs.values()]
    assert peaks == sorted(peaks) and peaks[0] > 50
    assert (tmp_path / "editions/stages/index.html").is_file()


def size_of(runs, first_s, second_s=1.0, mib=100.0, same_bytes=True):
    return Size(runs, 1.0, Cost(first_s, first_s, mib), Cost(second_s, second_s, mib), {}, same_bytes)


def test_linear_and_quadratic_growth_are_told_apart():
    small, linear, quadratic = size_of(100, 1.0), size_of(1000, 10.0), size_of(1000, 100.0)
    assert exponent(small, linear, lambda size: size.first.wall_s) == pytest.approx(1.0)
    assert judge([small, linear])[1] == []
    growth, wrong = judge([quadratic, small])
    assert growth["first build, time"] == pytest.approx(2.0)
    assert wrong == ["first build, time grows with power 2.00 of the runs"]


@pytest.mark.parametrize(
    ("size", "said"),
    [
        (size_of(10_000, 61.0), "the first build of 10,000 runs: 61.0 s are more than 60 s"),
        (size_of(10_000, 60.0, 11.0), "the second build of 10,000 runs: 11.0 s are more than 10 s"),
        (size_of(10_000, 60.0, mib=2049.0), "memory of 10,000 runs: 2,049.0 MiB are more than 2,048 MiB"),
        (size_of(20, 1.0, same_bytes=False), "the second build of 20 runs gave other bytes"),
    ],
)
def test_a_bound_that_is_broken_is_said(size, said):
    assert judge([size])[1] == [said]
    assert judge([size_of(10_000, 60.0, 10.0, 2048.0)])[1] == []


def test_picks_are_even_and_hold_both_ends():
    assert pick_places(5, 5) == [0, 1, 2, 3, 4]
    assert pick_places(101, 5) == [0, 25, 50, 75, 100]
    runs = pd.DataFrame({"run_id": [f"r{one}" for one in range(9)], "level": "a", "users": 1, "value": range(9)})
    assert pick_runs(runs.sample(frac=1.0, random_state=1), "value", 3) == {"r0", "r4", "r8"}


def test_a_panel_draws_so_many_lines_of_a_level_and_says_so(records):
    runs = records.runs
    for plate in (draw_requests(spread_requests(runs), FRAME), draw_clock(trace_card(runs), FRAME)):
        assert {len(axes.lines) for axes in plate.figure.axes} == {MOST_LINES * len(COSTS)}
        assert f"Of {len(runs)} runs, at most {MOST_LINES} a level are drawn" in plate.caption


def test_the_words_of_a_figure_are_of_all_runs(records):
    spread = spread_requests(records.runs)
    slow = spread.copy()
    ranked = spread[(spread["level"] == "eager") & (spread["percent"] == 50.0)].sort_values("tpot_ms")["run_id"]
    middle = slow["run_id"].isin(list(ranked)[5:-5])
    slow.loc[middle, "tpot_ms"] += 1e-3 * 5.0
    assert draw_requests(slow, FRAME).alt != draw_requests(spread, FRAME).alt


def test_points_are_bounded_too(found, records):
    many = pd.concat([found.runs.assign(run_id=found.runs["run_id"] + f"-{copy}") for copy in range(20)])
    each = BLOCKS * 20
    assert each > MOST_DRAWN
    plate = draw_tpot(many, FRAME)
    assert f"Of {int(many['counts'].sum()):,} runs, at most {MOST_DRAWN} a level" in plate.caption
    clouds = [one for one in plate.figure.axes[0].collections if isinstance(one, PathCollection)]
    drawn = [len(one.get_offsets()) for one in clouds]
    assert drawn == [MOST_DRAWN] * len(COSTS)
    starts = pd.DataFrame({"level": "default", "cache": "warm", "start_s": np.linspace(60.0, 61.0, 500)})
    assert f"Of 500 launches, at most {MOST_DRAWN} a level" in draw_starts(starts, FRAME).caption
    order = order_launches(found.runs, records)
    longer = pd.concat([order.runs.assign(run_id=order.runs["run_id"] + f"-{copy}") for copy in range(20)])
    assert f"at most {MOST_DRAWN} a level" in draw_order(replace(order, runs=longer), FRAME).caption


def test_long_lists_are_cut_and_name_the_table_that_has_all(found):
    short = list_runs(found)
    assert short.title.startswith(f"All {BLOCKS * RUNS_A_BLOCK} runs, ")
    assert len(short.rows) == BLOCKS * RUNS_A_BLOCK
    runs = list_runs(replace(found, runs=pd.concat([found.runs] * 5)))
    assert len(runs.rows) == MOST_ROWS
    assert f"{MOST_ROWS} of 1,500 runs" in runs.title and "runs.csv has all" in runs.title
    left_out = pd.concat([found.left_out] * MOST_ROWS)
    sheet = list_left_out(replace(found, left_out=left_out))
    assert len(sheet.rows) == MOST_ROWS
    assert f"the first {MOST_ROWS} of {len(left_out):,}; left_out.csv has all" in sheet.title


def test_the_quick_and_the_careful_way_read_the_same():
    stores = [Store(ROOT / "data", name) for name in list_studies(ROOT / "data/raw")]
    for path in (path for one in stores for kind in ("launch", "run", "session") for path in one.record_files(kind)):
        file = open_record(path)
        assert _parse_quickly(file) == _parse_carefully(file)


@pytest.mark.parametrize("odd", ["1e400", "-1E+999", "1" * 401, "NaN", "Infinity", '"\\ud800"', '1,"odd":1'])
def test_the_quick_way_leaves_what_is_odd_to_the_careful_one(store, tmp_path, odd):
    path = tmp_path / "launch-b1-eager-a1.json"
    text = (store.raw / path.name).read_text()
    assert text.count('"expect":{') == 1
    path.write_text(text.replace('"expect":{', f'"expect":{{"odd":{odd},', 1))
    assert _parse_quickly(open_record(path)) is None


def schema_parts(schema):
    yield schema
    for inside in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list) else ():
        yield from schema_parts(inside)


def test_every_number_of_a_run_has_a_range():
    """What the quick way rests on: nothing in a run's schema may be any value, or a number without bounds."""
    schema = json.loads((ROOT / "data/raw/schema/run-1.schema.json").read_text())
    parts = [one for one in schema_parts(schema) if isinstance(one, dict)]
    fields = [field for one in parts for field in one.get("properties", {}).values()]
    assert all({"type", "$ref", "anyOf", "const", "enum"} & set(field) for field in fields)
    numbers = [one for one in parts if one.get("type") in ("number", "integer") and "const" not in one]
    assert numbers
    assert all({"minimum", "maximum"} <= set(one) for one in numbers)


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inside: st.lists(inside, max_size=4) | st.dictionaries(st.text(), inside, max_size=4),
)


@given(values)
def test_indented_json_is_that_of_the_standard_library(value):
    assert write_indented(value) == json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False)


def test_a_number_that_is_none_is_refused_in_indented_json():
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_indented({"runs": [{"tpot_ms": float("nan")}]})


def test_points_of_a_trace_are_medians_of_equally_many_samples():
    plain = make_run()
    clock = [1000.0 + 7 * (place * 37 % 101) for place in range(len(plain.telemetry.t_s))]
    clock[50:90] = [None] * 40
    run = make_run(telemetry_fields={"sm_clock_mhz": clock, "power_w": None, "energy_j": None})
    trace = trace_run(run)
    inside = [place for place, at_s in enumerate(run.telemetry.t_s) if run.load.started_s <= at_s <= run.load.ended_s]
    together = -(-len(inside) // MOST_POINTS)
    values = pd.Series([clock[place] for place in inside], dtype=float)
    medians = values.groupby(np.arange(len(inside)) // together).median()
    points = dict(zip(POINT_COLUMNS, trace.points, strict=True))
    assert together > 2 and medians.isna().any()
    assert points["mhz"] == pytest.approx(medians.to_numpy(), nan_ok=True)
    assert np.isnan(points["power_w"]).all()
    assert set(trace.missing) == {"power_w"}


def test_a_command_takes_another_size(tmp_path):
    command = [sys.executable, "-m", "tests.growth", "--sizes", "30"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60, env={**os.environ})
    assert done.returncode != 0
    assert "30 runs are no whole blocks; a multiple of 20 works" in done.stderr


def test_a_store_reads_heads_without_columns(store):
    from study.reading_runs import HEADS

    heads = Store(store.raw.parents[1], "simulated").read_runs(lambda _: HEADS).accept().runs
    assert not any(hasattr(head, "load") or hasattr(head, "telemetry") for head in heads)
    assert {head.users for head in heads} == set(USERS)
