"""The figures of what happened within runs and between them."""

import math
import re

import pytest
from edition_study import BASE_MS, COSTS, write_study
from make_records import make_gate, make_launch, make_run, make_study

from study.analyze.run_traces import MOST_POINTS, request_tpot_ms
from study.analyze.tables import run_table
from study.publish.launch_order import order_launches
from study.publish.panels import Frame
from study.publish.run_figures import CARD_LABELS, draw_clock, draw_order, draw_requests
from study.publish.traces import spread_requests, trace_card

BLOCKS = 3
FRAME = Frame(tuple(COSTS), tuple(BASE_MS), rehearsal=False)
ONE = Frame(("default", "O0"), (1,), rehearsal=False)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    return write_study(tmp_path_factory.mktemp("data"), blocks=BLOCKS).read()


def trace_one(**telemetry):
    return trace_card([make_run(telemetry_fields=telemetry)])


def test_clock_temperature_and_power_have_a_line_a_run_and_few_points(records):
    traces = trace_card(records.runs)
    figure = draw_clock(traces, FRAME).figure
    titles = [axes.get_title() for axes in figure.axes[:3]]
    assert titles == list(CARD_LABELS.values())
    assert [len(axes.lines) for axes in figure.axes] == [BLOCKS * len(COSTS)] * 3 * len(BASE_MS)
    assert traces.samples.groupby("run_id").size().max() <= MOST_POINTS


def test_the_words_tell_clock_temperature_power_and_what_held_the_clock_down(records):
    alt = draw_clock(trace_card(records.runs), FRAME).alt
    assert "1 user: default 1,275 MHz" in alt
    assert "60 to 60 \N{DEGREE SIGN}C, 70 to 70 W, nothing held the clock down" in alt


def test_the_clock_in_words_is_the_median_of_all_samples_as_in_the_tables():
    # More than half of the samples are at 1980 MHz, most beside one at 1965: thinned by twos, the middle is 1972.5.
    run = make_run()
    count = len(run.telemetry.t_s)
    assert count > MOST_POINTS
    clocks = [1980.0 if place % 2 or place < count / 10 else 1965.0 for place in range(count)]
    telemetry = run.telemetry.model_copy(update={"sm_clock_mhz": clocks})
    traces = trace_card([run.model_copy(update={"telemetry": telemetry})])
    assert traces.samples["mhz"].median() == 1972.5
    assert "1 user: default 1,980 MHz" in draw_clock(traces, ONE).alt


def test_spans_and_shares_in_words_are_of_all_samples_not_of_the_points_drawn():
    # One sample of thousands is at 53 degC and 300 W, and a quarter has the power cap at a time: thinned, none tells.
    run = make_run(users=8)
    count = len(run.telemetry.t_s)
    assert count > 2 * MOST_POINTS
    one = count // 2
    changes = {
        "temperature_c": [53.0 if place == one else 40.0 for place in range(count)],
        "power_w": [300.0 if place == one else 200.0 for place in range(count)],
        "event_reasons": [0x4 if place % 4 == 0 else 0 for place in range(count)],
    }
    telemetry = run.telemetry.model_copy(update=changes)
    frame = Frame(("default",), (8,), rehearsal=False)
    alt = draw_clock(trace_card([run.model_copy(update={"telemetry": telemetry})]), frame).alt
    assert "40 to 53 \N{DEGREE SIGN}C, 200 to 300 W, software power cap in 25 percent of the samples" in alt


@pytest.mark.parametrize(
    ("mask", "words"),
    [
        (0x4, "software power cap in 100 percent of the samples"),
        (0x40, "heat, brake or HW slowdown in 100 percent of the samples"),
        (0x8, "heat, brake or HW slowdown in 100 percent of the samples"),
        (0x1, "nothing held the clock down"),
    ],
)
def test_event_reasons_are_shaded_and_told(mask, words):
    plate = draw_clock(trace_one(event_reasons=mask), ONE)
    assert words in plate.alt
    shaded = [len(axes.collections) for axes in plate.figure.axes]
    assert shaded == [int(mask != 0x1)] * 3


def test_a_shade_is_as_long_as_what_it_shows():
    run = make_run()
    count = len(run.telemetry.t_s)
    masks = [0x4 if place >= count / 2 else 0 for place in range(count)]
    telemetry = run.telemetry.model_copy(update={"event_reasons": masks})
    plate = draw_clock(trace_card([run.model_copy(update={"telemetry": telemetry})]), ONE)
    (shade,) = plate.figure.axes[0].collections
    left, right = shade.get_paths()[0].get_extents().intervalx
    assert (left, right) == pytest.approx((0.5, 1.0), abs=2 / MOST_POINTS)


def test_a_quantity_that_was_not_read_has_no_panel_and_a_reason():
    plate = draw_clock(trace_one(power_w=None, missing={"power_w": "not supported"}), ONE)
    assert [axes.get_title() for axes in plate.figure.axes] == ["SM clock, MHz", "temperature, \N{DEGREE SIGN}C"]
    assert "No power: not supported." in plate.caption


def test_a_card_that_was_not_read_says_why_without_axes(tmp_path):
    records = write_study(tmp_path, rehearsal=True, blocks=1).read()
    plate = draw_clock(trace_card(records.runs), FRAME)
    assert plate.figure.axes == []
    assert "a CPU has no NVML" in plate.alt
    assert "a CPU has no NVML" in plate.figure.texts[0].get_text().replace("\n", " ")


def test_the_tpot_of_a_request_leaves_its_first_token_out():
    # (latency - TTFT) / (tokens - 1); the builder makes latency = TTFT + TPOT (tokens - 1)
    run = make_run(tpot_ms=[10.0, 20.0], waves=2, tokens=5)
    assert request_tpot_ms(run) == pytest.approx([10.0, 20.0])


def test_a_failed_request_has_no_tpot():
    run = make_run(tpot_ms=[10.0, 20.0], waves=2, tokens=5)
    requests = run.load.requests.model_copy(update={"error": ["", "refused"]})
    failed = run.model_copy(update={"load": run.load.model_copy(update={"requests": requests})})
    assert request_tpot_ms(failed) == pytest.approx([10.0])


def test_requests_are_spread_from_the_fastest_to_the_slowest():
    spread = spread_requests([make_run(tpot_ms=[float(place) for place in range(10, 18)], tokens=24)])
    by_percent = dict(zip(spread["percent"], spread["tpot_ms"], strict=True))
    assert (by_percent[0.0], by_percent[50.0], by_percent[100.0]) == pytest.approx((10.0, 13.5, 17.0))
    assert set(spread["requests"]) == {8}


def test_requests_have_a_line_a_run_and_its_median_marked(records):
    plate = draw_requests(spread_requests(records.runs), FRAME)
    axes = plate.figure.axes[0]
    assert len(axes.lines) == BLOCKS * len(COSTS)
    assert sum(len(points.get_offsets()) for points in axes.collections) == BLOCKS * len(COSTS)
    assert axes.get_title() == "1 user"
    assert plate.figure.get_supylabel() == "share of requests"
    assert "1 user: default 60.39 ms (60." in plate.alt


def test_without_requests_the_figure_says_why():
    assert "no request of a run that counts" in draw_requests(spread_requests([]), FRAME).alt


def drifting_study(orders, per_place=0.01, costs=(("default", 60.0), ("O0", 90.0))):
    """A study whose runs slow down with the place of their launch; `orders` is one order of levels a block."""
    base, launches, runs = dict(costs), [], []
    for block, order in enumerate(orders, 1):
        for place, level in enumerate(order):
            launch = make_launch(level, block, spawn_unix_s=1e9 + 1e5 * block + 1e3 * place)
            launches.append(launch)
            gate = make_gate(temperature_c=40.0 + place)
            runs.append(make_run(launch, tpot_ms=base[level] * math.exp(per_place * place), gate=gate))
    return make_study(launches, runs)


def order_of(study):
    return order_launches(run_table(study), study)


def test_a_drift_is_told_from_the_cost_of_a_level():
    order = order_of(drifting_study([("default", "O0"), ("O0", "default")]))
    drift = order.runs.groupby("place")["drift_percent"].mean()
    # each launch of the second place is 1 % slower; half of it on either side of the fit
    assert drift[1] == pytest.approx(100 * math.expm1(-0.005))
    assert drift[2] == pytest.approx(100 * math.expm1(0.005))


def test_without_a_drift_nothing_is_left(records):
    order = order_of(drifting_study([("default", "O0"), ("O0", "default")], per_place=0.0))
    assert order.runs["drift_percent"].abs().max() < 1e-6


def test_scatter_of_host_launched_levels_is_no_drift_of_graph_levels():
    # O0 and eager are 30 % off from block to block; whatever the place, the graph levels are where they always are.
    off = {"O0": (0.3, -0.3, 0.2, -0.2, 0.0), "eager": (0.3, 0.2, -0.3, 0.0, -0.2)}
    costs = {"default": 5.1, "O3": 5.1, "graphs-only": 5.5, "O0": 23.0, "eager": 27.0}
    names, launches, runs = list(costs), [], []
    for block in range(5):
        for place, level in enumerate(names[block:] + names[:block]):
            launches.append(make_launch(level, block + 1, spawn_unix_s=1e9 + 1e5 * block + 1e3 * place))
            factor = 1.0 + off.get(level, (0.0,) * 5)[block]
            runs.append(make_run(launches[-1], tpot_ms=costs[level] * factor))
    order = order_of(make_study(launches, runs))
    rows = order.runs
    graphs = rows["level"].isin(["default", "O3", "graphs-only"])
    assert rows.loc[graphs, "drift_percent"].abs().max() < 1.0
    for level, offs in off.items():
        seen = rows.loc[rows["level"] == level, "drift_percent"]
        assert seen.max() - seen.min() == pytest.approx(100 * (max(offs) - min(offs)), rel=0.15)
    plate = draw_order(order, Frame(tuple(costs), (1,), rehearsal=False))
    axes = plate.figure.axes[0]
    plate.figure.canvas.draw()
    means = [float(found) for found in re.findall(r"place \d \+?(\d+\.\d+)", plate.alt.replace("\N{MINUS SIGN}", ""))]
    assert len(means) == 5
    assert max(means) < 0.5
    said = [tick.get_text() for tick in axes.get_yticklabels()]
    assert said == ["\N{MINUS SIGN}100", "\N{MINUS SIGN}10", "\N{MINUS SIGN}2", "0", "2", "10", "100"]
    assert plate.caption.endswith("The axis of the drift is logarithmic beyond 2 percent.")


def test_one_block_cannot_tell_drift_from_cost():
    order = order_of(drifting_study([("default", "O0")]))
    assert order.runs["drift_percent"].isna().all()
    plate = draw_order(order, ONE)
    assert "in 1 block a level's cost and the place of its launch cannot be told apart" in plate.alt
    assert [axes.get_ylabel() for axes in plate.figure.axes] == ["temperature at\nthe gate, \N{DEGREE SIGN}C"]


def test_the_order_figure_has_drift_and_temperature_by_place():
    plate = draw_order(order_of(drifting_study([("default", "O0"), ("O0", "default")])), ONE)
    drift, heat = plate.figure.axes
    assert "percent" in drift.get_ylabel()
    assert heat.get_xlabel() == "place of the launch in its block"
    assert list(heat.get_xticks()) == [1, 2]
    assert "place 1 \N{MINUS SIGN}0.50, place 2 +0.50" in plate.alt
    assert "Runs began at 40 to 41 \N{DEGREE SIGN}C." in plate.alt


def test_a_launch_whose_runs_do_not_count_keeps_its_place():
    study = drifting_study([("default", "O0"), ("O0", "default")])
    runs = run_table(study)
    runs.loc[runs["run_id"] == "b1-default-u1-a1", "counts"] = False
    order = order_launches(runs, study)
    assert order.runs.set_index("run_id")["place"]["b1-O0-u1-a1"] == 2


@pytest.mark.parametrize(
    "draw",
    [
        lambda records: draw_clock(trace_card(records.runs), FRAME),
        lambda records: draw_requests(spread_requests(records.runs), FRAME),
        lambda records: draw_order(order_launches(run_table(records), records), FRAME),
    ],
)
def test_figures_are_the_same_twice(records, draw):
    assert draw(records).svg() == draw(records).svg()
