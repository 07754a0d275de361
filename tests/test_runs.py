import numpy as np
import pytest
from h200_runs import make_h200_requests, make_h200_run, read_result, read_witness
from make_records import STARTED_S, make_launch, make_load, make_outcome, make_requests, make_run

from study.analyze.load_window import find_window
from study.analyze.runs import figures_of

LAUNCH = make_launch()


def figures(run):
    return figures_of(run, LAUNCH)


def drift_of(requests, users=1):
    found = figures(make_run(LAUNCH, users, load=make_load(requests, users)))
    return found.step_second_half_ms / found.step_first_half_ms - 1


@pytest.mark.parametrize("name", ["O2-1-1", "O2-8-1", "O0-8-2"])
def test_median_and_mean_tpot_are_those_of_vllms_benchmark(name):
    run, launch = make_h200_run(name)
    found, said = figures_of(run, launch), read_result(name)
    assert found.median_tpot_ms == pytest.approx(said["median_tpot_ms"], rel=1e-9)
    assert found.mean_tpot_ms == pytest.approx(said["mean_tpot_ms"], rel=1e-9)
    assert found.output_tokens_per_s == pytest.approx(said["output_throughput"], rel=1e-9)


def test_mean_is_over_complete_waves_and_median_over_requests():
    requests = make_requests(2, 2, [10.0, 20.0, 30.0, 90.0])
    cut = requests.model_copy(update={"error": ["", "", "", "broken"]})
    found = figures(make_run(LAUNCH, 2, load=make_load(cut, 2)))
    assert found.mean_tpot_ms == pytest.approx(15.0)
    assert found.median_tpot_ms == pytest.approx(20.0)
    assert found.waves_complete == 1


def test_users_over_throughput_counts_everything():
    # Two waves of 4 users, 101 tokens each: 0.1 s to the first, then 100 x 10 ms; and 1 ms between the waves.
    found = figures(make_run(LAUNCH, 4, waves=2, tokens=101, ttft_s=0.1, tpot_ms=10.0))
    assert found.n_over_throughput_ms == pytest.approx(1e3 * 2.201 / 202, rel=1e-3)


def test_only_samples_of_the_load_count():
    t_s = [STARTED_S - 1, STARTED_S + 1, STARTED_S + 2, STARTED_S + 900]
    found = figures(make_run(LAUNCH, telemetry_fields={"t_s": t_s, "sm_clock_mhz": [2040, 1200, 1300, 2040]}))
    assert found.median_sm_clock_mhz == 1250


def test_the_second_in_which_the_benchmark_reads_its_prompts_is_no_load():
    # Seen on an H200: 0.45 to 1.14 s from the benchmark's start to its first request, of runs of 10 to 14 s.
    sent = make_load(make_requests(8), 8)
    asked_s = STARTED_S - 1.0
    load = sent.model_copy(update={"started_s": asked_s, "ended_s": sent.ended_s + 0.2})
    t_s = [asked_s + 0.1 * place for place in range(10 * round(load.ended_s - asked_s))]
    busy = [at_s >= STARTED_S for at_s in t_s]
    seen = list(zip(t_s, busy, strict=True))
    columns = {
        "sm_clock_mhz": [1965 if now else 1980 for now in busy],
        "temperature_c": [60 if now else 30 for now in busy],
        "power_w": [70.0 if now else 10.0 for now in busy],
        "energy_j": [1e6 + (70.0 if now else 10.0) * (at_s - STARTED_S) for at_s, now in seen],
    }
    run = make_run(LAUNCH, users=8, load=load, telemetry_fields={"t_s": t_s, **columns})
    found, window = figures(run), find_window(run)
    assert found.energy_per_token_j == pytest.approx(70.0 * load.duration_s / (8 * 8 * 192))
    assert found.energy_check == pytest.approx(1.0)
    assert set(window.column("sm_clock_mhz")) == {1965.0}
    assert window.t_s.min() >= STARTED_S
    assert window.t_s.max() <= STARTED_S + load.duration_s


def test_power_leaves_out_the_first_second():
    t_s = [STARTED_S + at for at in (0.5, 0.9, 1.1, 1.5)]
    found = figures(make_run(LAUNCH, telemetry_fields={"t_s": t_s, "power_w": [10.0, 20.0, 70.0, 72.0]}))
    assert found.mean_power_w == pytest.approx(71.0)


def test_a_short_load_has_no_power_and_says_why():
    found = figures(make_run(LAUNCH, tokens=3, waves=1))
    assert found.mean_power_w is None
    assert "first 1 s" in found.reasons["mean_power_w"]


def test_energy_comes_from_the_counter_and_agrees_with_power():
    found = figures(make_run(LAUNCH, users=8))
    tokens = 8 * 8 * 192
    assert found.energy_per_token_j == pytest.approx(70.0 * found.duration_s / tokens)
    assert found.energy_check == pytest.approx(1.0)


def test_energy_is_cross_checked_on_long_runs_alone():
    assert "10 s" in figures(make_run(LAUNCH, waves=1, tokens=100)).reasons["energy_check"]


def test_an_energy_counter_that_went_back_is_no_energy():
    t_s = [STARTED_S + at for at in (1, 2, 3)]
    found = figures(make_run(LAUNCH, telemetry_fields={"t_s": t_s, "energy_j": [5.0, 7.0, 1.0]}))
    assert found.energy_per_token_j is None


def test_dynamic_energy_per_step():
    # (70 W - 30 W at rest) x 60 ms
    assert figures(make_run(LAUNCH)).dynamic_energy_per_step_j == pytest.approx(2.4)


def test_without_power_at_rest_dynamic_energy_is_null():
    launch = make_launch(idle_power_w=None, missing={"idle_power_w": "NVML: Not Supported"})
    found = figures_of(make_run(launch), launch)
    assert found.dynamic_energy_per_step_j is None
    assert "Not Supported" in found.reasons["dynamic_energy_per_step_j"]


def test_event_reasons_as_shares_of_samples():
    t_s = [STARTED_S + at for at in (1, 2, 3, 4)]
    found = figures(make_run(LAUNCH, telemetry_fields={"t_s": t_s, "event_reasons": [0x4, 0x4, 0x24, 0]}))
    assert found.event_shares == {"sw_power_cap": 0.75, "sw_thermal": 0.25}


def test_power_cap_in_seconds_a_request_from_the_counter():
    counters = {"throttle_before_ns": {"sw_power_cap": 0}, "throttle_after_ns": {"sw_power_cap": 4_000_000_000}}
    assert figures(make_run(LAUNCH, telemetry_fields=counters)).power_capped_s_per_request == 0.5


def test_power_cap_from_samples_where_no_counter_is_kept():
    around = {"throttle_before_ns": None, "throttle_after_ns": None, "event_reasons": 0x4}
    found = figures(make_run(LAUNCH, telemetry_fields=around))
    assert found.power_capped_s_per_request == pytest.approx(found.duration_s / 8)


def test_throttled_by_reason():
    found = figures(make_run(LAUNCH, telemetry_fields={"event_reasons": 0x88}))
    assert found.throttled is True
    assert "power_brake" in found.throttled_evidence


def test_throttled_by_clock_alone():
    assert figures(make_run(LAUNCH, telemetry_fields={"sm_clock_mhz": 210.0})).throttled is True


def test_a_power_cap_is_not_throttling():
    assert figures(make_run(LAUNCH, telemetry_fields={"event_reasons": 0x4})).throttled is False


def test_without_a_clock_throttling_is_unknown():
    found = figures(make_run(LAUNCH, telemetry_fields={"sm_clock_mhz": None}))
    assert found.throttled is None
    assert found.reasons["throttled"]


def test_steps_leave_out_stalls():
    requests = make_requests(1, 4, 10.0, tokens=5).model_copy(
        update={"witness_us": {place: [10_000, 10_000, 10_000, 30_001] for place in range(4)}}
    )
    found = figures(make_run(LAUNCH, load=make_load(requests)))
    assert found.step_ms == 10.0
    assert found.stalled_share == 0.25


def test_drift_is_second_half_against_first():
    assert drift_of(make_requests(1, 4, [10.0, 10.0, 11.0, 11.0])) == pytest.approx(0.10)


def test_one_wave_is_cut_in_its_middle():
    requests = make_requests(1, 1, 10.0, tokens=5).model_copy(update={"witness_us": {0: [10, 10, 12, 12]}})
    assert drift_of(requests) == pytest.approx(0.2)


def test_drift_above_5_percent_in_8_of_12_real_o0_runs_and_no_default_run():
    witness = read_witness()
    drifts = {}
    for name, gaps in witness.items():
        users = int(name.rsplit("-", 2)[1])
        drifts[name] = abs(drift_of(make_h200_requests(read_result(name), gaps, users), users))
    host = np.array([drift for name, drift in drifts.items() if name.startswith("O0")])
    graph = np.array([drift for name, drift in drifts.items() if name.startswith("O2")])
    assert (int((host > 0.05).sum()), host.size) == (8, 12)
    assert (int((graph > 0.05).sum()), graph.size) == (0, 18)


def test_no_success_gives_nulls_and_not_zeros():
    requests = make_requests(1, 2)
    failed = requests.model_copy(
        update={"error": ["refused"] * 2, "ttft_s": [None] * 2, "latency_s": [None] * 2, "output_tokens": [None] * 2}
    )
    found = figures(make_run(LAUNCH, load=make_load(failed, ended_s=STARTED_S + 9)))
    for name in ("mean_tpot_ms", "median_tpot_ms", "n_over_throughput_ms", "median_ttft_ms", "energy_per_token_j"):
        assert getattr(found, name) is None
        assert found.reasons[name]


def test_one_token_outputs_have_no_tpot():
    found = figures(make_run(LAUNCH, tokens=1))
    assert found.mean_tpot_ms is None
    assert "fewer than 2" in found.reasons["mean_tpot_ms"]


def test_a_first_token_after_no_time_is_no_success():
    found = figures(make_run(LAUNCH, ttft_s=0.0))
    assert found.median_ttft_ms is None


def test_every_missing_figure_of_a_failed_run_has_a_reason():
    why = {"load": "the server ended", "telemetry": "no load", "server": "no load"}
    gone = {"load": None, "telemetry": None, "server": None, "missing": why}
    found = figures(make_run(LAUNCH, **gone, outcome=make_outcome(status="failed", stage="load")))
    empty = {name for name in type(found).__dataclass_fields__ if getattr(found, name) is None}
    assert empty == set(found.reasons)
    assert found.reasons["mean_tpot_ms"] == "the server ended"
