import pytest
from h200_runs import make_h200_run
from make_records import (
    RESOLVED,
    STARTED_S,
    make_canary,
    make_cpu_machine,
    make_gate,
    make_launch,
    make_load,
    make_outcome,
    make_requests,
    make_run,
    make_server_view,
)

from study.analyze.runs import figures_of
from study.analyze.validity import CHECKS, REQUIRED, host_bound, judge_run, note_run

EAGER = {**RESOLVED, "model_config": {"enforce_eager": True}}
NO_WARM_UP = {**RESOLVED, "kernel_config": {"enable_jit_warmup": False}}


def judge(launch=None, **fields):
    launch = launch or make_launch()
    return judge_run(make_run(launch, **fields), launch)


def reasons(launch=None, **fields):
    return judge(launch, **fields).reasons


def state(code, launch=None, **fields):
    return next(one.state for one in judge(launch, **fields).evidence if one.code == code)


def notes(figures, default=None):
    return {note.code for note in note_run(figures, default) if note.state == "failed"}


def changed_requests(**columns):
    return make_load(make_requests(1, 8).model_copy(update=columns))


def test_a_good_run_is_valid():
    assert judge().valid


def test_every_code_of_the_method_is_judged():
    codes = {
        *("failed_requests", "tokens_not_as_requested", "prefix_cache_hit", "cool_gate_timed_out", "not_throttled"),
        *("throttled_in_cooled_session", "jit_during_run", "telemetry_gap", "foreign_gpu_process"),
        *("server_restarted", "canary_moved", "level_not_as_asked", "stream_bunched", "run_failed"),
    }
    assert set(CHECKS) == codes
    assert set().union(*REQUIRED.values()) == codes


def test_a_slow_run_is_kept():
    assert judge(tpot_ms=5000.0, waves=2).valid


def test_a_failed_request():
    assert reasons(load=changed_requests(error=["", "refused", *[""] * 6])) == ("failed_requests",)


def test_requests_that_were_never_sent():
    assert reasons(load=make_load(make_requests(1, 8), waves=9)) == ("failed_requests",)


def test_tokens_are_counted_per_request_not_in_sum():
    assert reasons(load=changed_requests(output_tokens=[191, 193, *[192] * 6])) == ("tokens_not_as_requested",)


def test_a_prefix_cache_hit():
    assert reasons(server=make_server_view(prefix_hits=16.0)) == ("prefix_cache_hit",)


def test_prefix_caching_that_is_on_is_a_fault_even_without_a_hit():
    launch = make_launch(resolved={**RESOLVED, "cache_config": {"enable_prefix_caching": True}})
    assert reasons(launch) == ("prefix_cache_hit",)


def test_without_the_hit_counter_the_cache_is_unknown():
    assert reasons(server=make_server_view(prefix_hits=None)) == ("prefix_cache_hit (unavailable)",)


@pytest.mark.parametrize("where", ["launch", "run"])
def test_a_gate_that_timed_out(where):
    late = make_gate(status="timed_out", temperature_c=61.0)
    found = reasons(make_launch(gate=late)) if where == "launch" else reasons(gate=late)
    assert found == ("cool_gate_timed_out",)


def test_a_card_without_temperature_cannot_show_that_it_was_cool():
    silent = make_gate(status="unavailable", temperature_c=None)
    assert reasons(gate=silent) == ("cool_gate_timed_out (unavailable)",)


def test_a_first_launch_without_a_known_idle_temperature_is_no_fault():
    none = make_gate(kind="none", status="unavailable", target_c=None, target_source=None, temperature_c=None)
    assert judge(make_launch(gate=none)).valid


def test_throttled_in_a_cooled_session():
    assert reasons(telemetry_fields={"event_reasons": 0x88}) == ("throttled_in_cooled_session",)


def test_a_software_power_cap_is_no_fault():
    assert judge(telemetry_fields={"event_reasons": 0x4}).valid


def test_unknown_throttling_is_a_fault_on_a_card():
    assert reasons(telemetry_fields={"event_reasons": None}) == ("throttled_in_cooled_session (unavailable)",)


def test_a_throttled_session_that_was_not():
    launch = make_launch(session="throttled", gate=make_gate(kind="soak"))
    assert reasons(launch, gate=make_gate(kind="soak")) == ("not_throttled",)


def test_a_throttled_session_that_was():
    launch = make_launch(session="throttled", gate=make_gate(kind="as_found"))
    cold, hot = make_canary(), make_canary(gemm_tflops=9.0)
    moved = launch.model_copy(update={"canary_before": cold, "canary_after": hot})
    assert judge(moved, gate=make_gate(kind="soak"), telemetry_fields={"sm_clock_mhz": 210.0}).valid


def test_jit_during_the_run():
    assert reasons(server=make_server_view(jit_lines=2)) == ("jit_during_run",)


@pytest.mark.parametrize("resolved", [EAGER, NO_WARM_UP])
def test_without_the_jit_monitor_silence_is_unknown_and_no_fault(resolved):
    launch = make_launch("eager", resolved=resolved)
    assert state("jit_during_run", launch) == "unavailable"
    assert judge(launch).valid


def test_jit_unknown_is_a_fault_where_the_monitor_should_run():
    assert reasons(server=make_server_view(jit_lines=None)) == ("jit_during_run (unavailable)",)


@pytest.mark.parametrize(("left_out", "found"), [(range(100, 102), ()), (range(100, 103), ("telemetry_gap",))])
def test_a_gap_of_more_than_three_periods(left_out, found):
    t_s = [STARTED_S + 0.1 * place for place in range(-5, 960) if place not in left_out]
    assert reasons(telemetry_fields={"t_s": t_s}) == found


def test_samples_that_end_before_the_load():
    assert reasons(telemetry_fields={"t_s": [STARTED_S + 0.1 * place for place in range(300)]}) == ("telemetry_gap",)


def test_rows_without_a_value_cover_nothing():
    half = [1275.0] * 400 + [None] * 565
    fields = {"t_s": [STARTED_S + 0.1 * place for place in range(-5, 960)], "sm_clock_mhz": half}
    fields |= dict.fromkeys(("temperature_c", "power_w", "event_reasons"), None)
    assert "telemetry_gap" in reasons(telemetry_fields=fields)


def test_a_load_without_a_sample():
    assert "telemetry_gap" in reasons(telemetry_fields={"t_s": [STARTED_S - 1]})


def test_a_foreign_process():
    assert reasons(server=make_server_view(foreign_gpu_processes=[4711])) == ("foreign_gpu_process",)


def test_another_server_after_the_load():
    assert reasons(server=make_server_view(same_server=False)) == ("server_restarted",)


@pytest.mark.parametrize(("after", "found"), [(57.1, ()), (56.9, ("canary_moved",)), (63.1, ("canary_moved",))])
def test_a_canary_may_move_by_5_percent(after, found):
    assert reasons(make_launch(canary_after=make_canary(gemm_tflops=after))) == found


@pytest.mark.parametrize(("after", "found"), [(45.0, ()), (41.0, ("canary_moved",))])
def test_a_canary_on_a_cpu_may_move_by_30_percent(after, found):
    launch = make_launch(machine=make_cpu_machine(), canary_after=make_canary(gemm_tflops=after))
    assert reasons(launch) == found


def test_a_canary_that_is_missing_is_a_fault():
    assert reasons(make_launch(canary_after=None)) == ("canary_moved (unavailable)",)


def test_a_level_that_resolved_otherwise():
    launch = make_launch("O0", expect={"compilation_config.mode": 0})
    assert reasons(launch) == ("level_not_as_asked",)


def test_a_list_in_the_configuration_compares():
    assert judge(make_launch(expect={"compilation_config.cudagraph_mode": [2, 1]})).valid


def test_false_is_not_zero():
    assert reasons(make_launch(expect={"model_config.enforce_eager": 0})) == ("level_not_as_asked",)


def test_a_downgrade_is_not_as_asked():
    line = "CUDAGraphMode.FULL_AND_PIECEWISE is not supported; setting cudagraph_mode=PIECEWISE"
    assert reasons(make_launch(downgrades=[line])) == ("level_not_as_asked",)


def test_without_a_resolved_configuration_nothing_is_as_asked():
    found = reasons(make_launch(resolved=None))
    assert {"level_not_as_asked (unavailable)", "prefix_cache_hit (unavailable)"} <= set(found)


def test_a_field_that_the_server_does_not_tell_is_unknown():
    found = judge(make_launch(expect={"compilation_config.level": 3}))
    assert found.reasons == ("level_not_as_asked (unavailable)",)
    assert "compilation_config.level" in found.faults[0].detail


def test_few_chunks_are_a_bunched_stream():
    assert reasons(load=changed_requests(chunks=[100] * 8)) == ("stream_bunched",)


def test_many_short_gaps_are_a_bunched_stream():
    assert reasons(load=changed_requests(short_gaps=[39] * 8)) == ("stream_bunched",)
    assert judge(load=changed_requests(short_gaps=[38] * 8)).valid


def test_tokens_all_at_once_are_a_bunched_stream():
    assert reasons(tpot_ms=0.003, ttft_s=1.0, waves=8, tokens=192) == ("stream_bunched",)


def test_a_failed_run_has_one_reason():
    gone = {"load": None, "telemetry": None, "server": None}
    found = judge(**gone, outcome=make_outcome(status="failed", stage="load", message="the server ended"))
    assert found.reasons == ("run_failed",)
    assert "the server ended" in found.faults[0].detail


def test_an_interrupted_run_is_invalid():
    assert "run_failed" in reasons(outcome=make_outcome(status="interrupted", stage="load"))


def test_a_run_without_its_launch():
    assert judge_run(make_run(), None).reasons == ("run_failed",)


def test_a_rehearsal_needs_no_clock_temperature_or_process_list():
    launch = make_launch(machine=make_cpu_machine(), idle_c=None, idle_power_w=None)
    none = dict.fromkeys(("temperature_c", "sm_clock_mhz", "power_w", "energy_j", "event_reasons", "memory_clock_mhz"))
    nothing = {**none, "gpu_utilisation": None, "throttle_before_ns": None, "throttle_after_ns": None}
    gate = make_gate(kind="none", status="unavailable", target_c=None, target_source=None, temperature_c=None)
    server = make_server_view(foreign_gpu_processes=None)
    found = judge(launch, gate=gate, server=server, telemetry_fields=nothing)
    assert found.valid
    lacking = {one.code for one in found.evidence if one.state == "unavailable"}
    assert {"cool_gate_timed_out", "throttled_in_cooled_session", "jit_during_run", "foreign_gpu_process"} <= lacking


@pytest.mark.parametrize("users", [1, 8])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_o0_on_the_h200_is_host_bound_and_the_default_is_not(users, seed):
    eager, default = (figures_of(*make_h200_run(f"{level}-{users}-{seed}")) for level in ("O0", "O2"))
    assert host_bound(eager, default) is True
    assert host_bound(default, default) is False
    assert "host_bound" in notes(eager, default)


def test_the_h200_does_its_default_work_at_o0_in_4_to_7_times_the_time():
    for users in (1, 8):
        eager, default = (figures_of(*make_h200_run(f"{level}-{users}-1")) for level in ("O0", "O2"))
        assert 1.05 < eager.dynamic_energy_per_step_j / default.dynamic_energy_per_step_j < 1.25
        assert 4 <= eager.mean_tpot_ms / default.mean_tpot_ms <= 7


def test_more_work_in_more_time_is_not_host_bound():
    default = figures_of(make_run(), make_launch())
    slow = figures_of(make_run(tpot_ms=120.0), make_launch("x"))
    assert host_bound(slow, default) is False


def test_without_the_default_host_bound_is_unknown():
    found = figures_of(make_run(), make_launch())
    assert [note.state for note in note_run(found, None) if note.code == "host_bound"] == ["unavailable"]


def test_drift_is_a_note_and_no_fault():
    drifting = [10.0] * 4 + [11.0] * 4
    launch = make_launch()
    run = make_run(launch, requests=make_requests(1, 8, drifting))
    assert judge_run(run, launch).valid
    assert notes(figures_of(run, launch)) == {"drift_within_run"}


def test_power_capped_is_a_note():
    launch = make_launch()
    found = figures_of(make_run(launch, telemetry_fields={"throttle_after_ns": {"sw_power_cap": 10**9}}), launch)
    assert notes(found) == {"power_capped"}
