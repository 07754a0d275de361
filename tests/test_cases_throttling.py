"""What throttling and drift do in public, kind by kind: a fault, a note, or nothing that a verdict may rest on."""

import numpy as np
import pandas as pd
import pytest
from make_records import make_canary, make_gate, make_launch, make_machine, make_run

from study.analyze.compare import compare_levels
from study.analyze.compare_types import Verdict
from study.analyze.runs import figures_of
from study.analyze.stats import log_ratio, paired_test
from study.analyze.validity import judge_run, note_run
from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.plan import make_plan

COUNTERS = ("sw_power_cap", "sw_thermal", "hw_thermal", "power_brake")


def run_on(launch, telemetry, **fields):
    return make_run(launch, telemetry_fields=telemetry, **fields)


def faults(telemetry, machine=None, **fields):
    launch = make_launch(**({"machine": machine} if machine else {}))
    return judge_run(run_on(launch, telemetry, **fields), launch).reasons


def counters(**grown_ns):
    before = dict.fromkeys(COUNTERS, 5)
    return {"throttle_before_ns": before, "throttle_after_ns": {name: 5 + grown_ns.get(name, 0) for name in COUNTERS}}


@pytest.mark.parametrize(
    "telemetry",
    [
        pytest.param({"event_reasons": 0x88, "sm_clock_mhz": 210.0}, id="e1-power-brake"),
        pytest.param({"event_reasons": 0x8}, id="e1-hardware-slowdown-cause-untold"),
        pytest.param({"event_reasons": 0x40, "sm_clock_mhz": 1000.0}, id="e2-heat"),
        pytest.param({"event_reasons": 0x20, "sm_clock_mhz": 1000.0}, id="e2-software-thermal"),
        pytest.param({"sm_clock_mhz": 500.0}, id="e3-slow-without-a-reason"),
        pytest.param(counters(sw_thermal=173_453_251_000, hw_thermal=403_805_000), id="e5-flags-clear-counters-not"),
        pytest.param({"sm_clock_mhz": 500.0, "gpu_utilisation": 100.0}, id="e9-busy-is-not-healthy"),
    ],
)
def test_a_cooled_session_does_not_take_a_throttled_run(telemetry):
    assert faults(telemetry) == ("throttled_in_cooled_session",)


def test_e5_counters_that_nobody_keeps_are_no_fault_where_reasons_and_clock_are_read():
    why = dict.fromkeys(("throttle_before_ns", "throttle_after_ns"), "Not Supported")
    launch = make_launch()
    run = make_run(launch)
    unread = {"throttle_before_ns": None, "throttle_after_ns": None, "missing": {**run.telemetry.missing, **why}}
    run = run.model_copy(update={"telemetry": run.telemetry.model_copy(update=unread)})
    assert judge_run(run, launch).valid


def test_e6_a_power_cap_alone_is_a_note_with_its_share_and_no_fault():
    capped = {"event_reasons": 0x4, "sm_clock_mhz": 1395.0, **counters(sw_power_cap=60_000_000_000)}
    assert faults(capped, make_machine(max_sm_clock_mhz=2100.0)) == ()
    launch = make_launch()
    figures = figures_of(run_on(launch, capped), launch)
    assert figures.event_shares == {"sw_power_cap": 1.0}
    assert "power_capped" in {note.code for note in note_run(figures, None) if note.state == "failed"}


def test_e2_a_launch_that_did_not_start_cool_is_a_fault():
    launch = make_launch(gate=make_gate(status="timed_out", temperature_c=70.0))
    assert "cool_gate_timed_out" in judge_run(make_run(launch), launch).reasons


def test_e1_a_machine_that_got_slower_between_two_canaries_is_a_fault():
    launch = make_launch(canary_after=make_canary(started_s=2003.0, gemm_tflops=60.0 / 6))
    assert "canary_moved" in judge_run(make_run(launch), launch).reasons


def test_e7_drift_within_a_run_is_a_note_and_no_fault():
    # 68.55 to 64.97 tokens a second: 5.5 % longer steps in the second half
    launch = make_launch()
    run = make_run(launch, tpot_ms=[14.588] * 4 + [15.392] * 4)
    notes = {note.code: note for note in note_run(figures_of(run, launch), None)}
    assert judge_run(run, launch).valid
    assert (notes["drift_within_run"].state, notes["drift_within_run"].detail[:5]) == ("failed", "+5.5%")


def test_e10_memory_heat_is_sampled_where_the_card_tells_it():
    launch = make_launch()
    assert run_on(launch, {"memory_temperature_c": 95.0}).telemetry.memory_temperature_c[0] == 95.0


def test_e11_a_card_that_somebody_else_uses_is_a_fault():
    launch = make_launch()
    run = make_run(launch)
    view = run.server.model_copy(update={"foreign_gpu_processes": [4242]})
    assert judge_run(run.model_copy(update={"server": view}), launch).reasons == ("foreign_gpu_process",)


STUDIES = 1000
MOST_FALSE = 0.055 + 3 * (0.055 * 0.945 / STUDIES) ** 0.5
"""METHOD.md allows 5.5 % false differences; three standard errors of so many studies on top."""


def false_share(make_ms):
    """Share of studies of equal levels, 5 blocks, whose difference between the two is called one.

    `make_ms(draw, order)` gives a launch's time per token; `order` is its place among all launches, 0 to 1.
    """
    levels = [Level(name="default"), Level(name="O0")]
    parameters = make_parameters({"study": "s", "model": "m", "users": [1]})
    times = {level.name: np.empty((STUDIES, 5)) for level in levels}
    for seed in range(STUDIES):
        draw = np.random.default_rng(seed)
        launches = make_plan(parameters.model_copy(update={"order_seed": seed}), levels).measured
        for place, one in enumerate(launches):
            noise = np.exp(draw.normal(0, 0.001))
            times[one.level.name][seed, one.block - 1] = make_ms(draw, place / (len(launches) - 1)) * noise
    return float((paired_test(log_ratio(times["O0"], times["default"])).p < 0.05).mean())


def test_e4_two_hidden_states_are_credited_to_no_level():
    # 63 or 94 ms a step at the same clock and with no reason given, whatever the level
    assert false_share(lambda draw, _order: draw.choice([63.0, 94.0])) <= MOST_FALSE


def test_e7_a_drift_larger_than_the_effect_is_credited_to_no_level():
    # 5.2 % slower from the first launch to the last, as a card gets warm: blocks in random order
    assert false_share(lambda _draw, order: 14.6 * (1 + 0.052 * order)) <= MOST_FALSE


def test_e4_two_states_that_follow_the_level_by_chance_stay_undecided_in_few_blocks():
    # A B A B A B: each level met each state, so that the scatter says that nothing is known
    values = {"default": (63.0, 94.0, 63.0), "O0": (94.0, 63.0, 94.0)}
    rows = [
        {"level": level, "users": 1, "block": block, "machine": "a", "value": value}
        for level, column in values.items()
        for block, value in enumerate(column, 1)
    ]
    pair = compare_levels(pd.DataFrame(rows)).pair("O0", 1)
    assert pair.verdict is Verdict.UNDECIDED
    assert pair.effect_percent.low < 0 < pair.effect_percent.high
