"""The checks that make a run invalid, one function a code, each with three answers: passed, failed, unavailable.

Unavailable is never a pass; where it is a fault stands in `validity.REQUIRED`. A check reads facts of the records and
the run's figures, and says in `detail` what it saw.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from study.analyze.evidence_cards import Finding, State, name_foreign, name_unavailable, say_cooling, worst_of_cards
from study.analyze.load_window import LoadWindow, Missing
from study.analyze.run_cards import find_windows
from study.analyze.runs import RunFigures, request_columns
from study.design.card_facts import CardOfLaunch
from study.design.counting import format_counted
from study.records import Canary, LaunchRecord, Requests, RunRecord

CANARY_TOLERANCE = {"cuda": 0.05, "cpu": 0.30}
"""Largest change of the canary's speed between before and after a launch; a shared CPU scatters by itself."""
JIT_WARM_UP = "kernel_config.enable_jit_warmup"
LONGEST_GAP_PERIODS = 3.0
FEWEST_CHUNKS_SHARE = 0.8
"""Chunks over output tokens. Real streams have 0.99 and more (H200, 1 to 64 users)."""
MOST_SHORT_GAPS_SHARE = 0.2
LEAST_TPOT_MS = 0.1
"""No server makes and streams a token faster; below it a request's tokens came all at once (0.003 ms was seen)."""
GPU_COLUMNS = ("sm_clock_mhz", "temperature_c", "power_w", "event_reasons")


@dataclass(frozen=True)
class Evidence:
    """What one check found.

    Attributes:
        code: the check's name in METHOD's list.
        state: passed, failed, or unavailable: what it needs was not measured. For a note, `failed` means that it holds.
        detail: what was seen, in words.

    """

    code: str
    state: State
    detail: str


@dataclass(frozen=True)
class Case:
    """What a check may look at: a run, the launch that served it, and the run's figures."""

    run: RunRecord
    launch: LaunchRecord
    figures: RunFigures


Check = Callable[[Case], Finding]


def check_run(case: Case) -> Finding:
    """`run_failed`: the run did not end well, so that nothing else about it need be asked."""
    outcome = case.run.outcome
    if outcome.status != "ok":
        return "failed", f"{outcome.status} at {outcome.stage}: {outcome.message}"
    return ("failed", case.run.missing["load"]) if case.run.load is None else ("passed", "")


def check_requests(case: Case) -> Finding:
    """`failed_requests`: a request with an error or without its times, or fewer requests than the load has."""
    load = case.run.load
    if load is None:
        return "unavailable", case.run.missing["load"]
    success = request_columns(load.requests).success
    asked = load.waves * case.run.users
    if success.size != asked:
        return "failed", f"{format_counted(success.size, 'request')} came back of {asked}"
    if success.all():
        return "passed", f"{asked} of {asked}"
    first = int(np.flatnonzero(~success)[0])
    return "failed", f"{int((~success).sum())} of {asked}, first: {load.requests.error[first] or 'no time to a token'}"


def check_tokens(case: Case) -> Finding:
    """`tokens_not_as_requested`: a request whose output is shorter or longer than asked for."""
    load = case.run.load
    if load is None:
        return "unavailable", case.run.missing["load"]
    pairs = list(zip(load.requests.output_tokens, load.requests.asked_tokens, strict=True))
    wrong = [(place, got, asked) for place, (got, asked) in enumerate(pairs) if got != asked]
    if not wrong:
        return "passed", f"{len(pairs)} of {len(pairs)}"
    place, got, asked = wrong[0]
    return "failed", f"{len(wrong)} of {len(pairs)}, first: request {place} gave {got} tokens of {asked}"


def check_prefix_cache(case: Case) -> Finding:
    """`prefix_cache_hit`: passed only where caching is off by the resolved configuration and the counter stayed 0."""
    hits = None if case.run.server is None else case.run.server.prefix_hits
    if hits:
        return "failed", f"{hits:g} tokens came from the prefix cache"
    enabled = resolved_value(case.launch.resolved, "cache_config.enable_prefix_caching")
    if enabled is True:
        return "failed", "prefix caching is on"
    if hits is None:
        return "unavailable", _missing_in_server(case.run, "prefix_hits")
    return ("unavailable", enabled.reason) if isinstance(enabled, Missing) else ("passed", "caching is off, no hit")


def check_cool_gate(case: Case) -> Finding:
    """`cool_gate_timed_out`: the card did not get cool in time, before the launch or before the run."""
    if case.run.session != "cooled":
        return "unavailable", "the session is not cooled"
    gates = {"launch": case.launch.gate, "run": case.run.gate}
    for what, gate in gates.items():
        if gate.kind == "cooled" and gate.status == "timed_out":
            return "failed", f"{what}: {say_cooling(gate)}"
    gate = case.run.gate
    if gate.kind != "cooled" or gate.status == "unavailable":
        why = gate.missing.get("temperature_c") or gate.missing.get("target_c") or f"gate: {gate.kind}"
        return "unavailable", name_unavailable(gate) or why
    return "passed", say_cooling(gate)


def check_not_throttled(case: Case) -> Finding:
    """`not_throttled`: a session that was asked to be throttled and was not."""
    if case.run.session != "throttled":
        return "unavailable", "the session is not throttled"
    return _state_of(case.figures.throttled), case.figures.throttled_evidence


def check_throttled(case: Case) -> Finding:
    """`throttled_in_cooled_session`: evidence of throttling where the card was to be cool."""
    if case.run.session != "cooled":
        return "unavailable", "the session is not cooled"
    throttled = case.figures.throttled
    return _state_of(None if throttled is None else not throttled), case.figures.throttled_evidence


def check_jit(case: Case) -> Finding:
    """`jit_during_run`: kernels compiled during the load; unknown where nothing watches for that."""
    lines = None if case.run.server is None else case.run.server.jit_lines
    if lines:
        return "failed", f"{lines} JIT compilations during the load"
    if is_jit_monitor_off(case.launch):
        return "unavailable", "the level switches the JIT monitor off"
    if case.launch.machine.device == "cpu":
        return "unavailable", "the CPU backend has no JIT monitor"
    if case.launch.resolved is None:
        return "unavailable", f"whether the JIT monitor ran: {case.launch.missing['resolved']}"
    return ("unavailable", _missing_in_server(case.run, "jit_lines")) if lines is None else ("passed", "none")


def is_jit_monitor_off(launch: LaunchRecord) -> bool:
    """Say whether the resolved configuration switches vLLM's JIT monitor off: without JIT warm-up it does not run."""
    warm_up = resolved_value(launch.resolved, JIT_WARM_UP)
    return warm_up is False or resolved_value(launch.resolved, "model_config.enforce_eager") is True


def check_telemetry(case: Case) -> Finding:
    """`telemetry_gap`: a stretch of the load of more than three periods without a sample.

    On a card a sample counts only if it has a value of the card: empty rows cover nothing.
    """
    if case.run.load is None:
        return "unavailable", case.run.missing["load"]
    windows = find_windows(case.run)
    telemetry = case.run.telemetry
    if isinstance(windows, Missing) or telemetry is None:
        reason = windows.reason if isinstance(windows, Missing) else ""
        return "unavailable" if telemetry is None else "failed", reason
    on_card = case.launch.machine.device != "cpu"
    found = [_check_gaps(w, w.t_s[_has_gpu_value(w)] if on_card else w.t_s, telemetry.period_s) for w in windows]
    lacking = len(case.launch.machine.uuids) - len(found)
    found += [("unavailable", "the telemetry does not have this card")] * max(0, lacking)
    return worst_of_cards(found, case.launch.machine.uuids)


def _check_gaps(window: LoadWindow, t_s: NDArray[np.float64], period: float) -> Finding:
    """Look for a gap between the samples of one card."""
    if not t_s.size:
        return "unavailable", "no sample of the load has a value of the card"
    edges = np.concatenate([[window.started_s], t_s, [window.started_s + window.duration_s]])
    gaps = np.diff(edges)
    longest = float(gaps.max())
    at_s = float(edges[int(gaps.argmax())] - window.started_s)
    said = f"longest gap {longest:.2f} s at {at_s:.1f} s, period {period:g} s"
    # A microsecond on top: three periods to the rounding of a clock are three periods.
    return "failed" if longest > LONGEST_GAP_PERIODS * period + 1e-6 else "passed", said


def _has_gpu_value(window: LoadWindow) -> NDArray[np.bool_]:
    columns = [window.column(name) for name in GPU_COLUMNS]
    read = [~np.isnan(values) for values in columns if not isinstance(values, Missing)]
    return np.logical_or.reduce(read) if read else np.zeros(window.t_s.size, dtype=np.bool_)


def check_foreign(case: Case) -> Finding:
    """`foreign_gpu_process`: another process computed on the card."""
    foreign = None if case.run.server is None else case.run.server.foreign_gpu_processes
    if foreign is None:
        return "unavailable", _missing_in_server(case.run, "foreign_gpu_processes")
    if not foreign:
        return "passed", "none"
    cards = case.run.server.cards if case.run.server else []
    return "failed", name_foreign(cards) or f"{len(foreign)} on the card"


def check_server(case: Case) -> Finding:
    """`server_restarted`: the server after the load is not the one before it."""
    same = None if case.run.server is None else case.run.server.same_server
    return _state_of(same), _missing_in_server(case.run, "same_server") if same is None else ""


def check_canary(case: Case) -> Finding:
    """`canary_moved`: the machine itself got slower or faster between the start and the end of the launch.

    Judged in cooled sessions alone: the speed of a throttled card moves with its heat.
    """
    if case.run.session != "cooled":
        return "unavailable", "the session is not cooled"
    launch = case.launch
    device = launch.machine.device
    found = [_compare_canaries(launch, device), *(_compare_canaries(card, device) for card in launch.further_cards)]
    return worst_of_cards(found, launch.machine.uuids)


def _compare_canaries(around: LaunchRecord | CardOfLaunch, device: str) -> Finding:
    """Judge one card by its canaries before and after the launch."""
    before, after = around.canary_before, around.canary_after
    if before is None or after is None:
        return "unavailable", around.missing["canary_before" if before is None else "canary_after"]
    changes = _canary_changes(before, after)
    if not changes:
        return "unavailable", "no canary speed was measured both before and after"
    name = max(changes, key=lambda one: abs(changes[one]))
    moved = abs(changes[name]) > CANARY_TOLERANCE[device]
    return "failed" if moved else "passed", f"{name} {changes[name]:+.1%}"


def _canary_changes(before: Canary, after: Canary) -> dict[str, float]:
    pairs = {name: (getattr(before, name), getattr(after, name)) for name in ("gemm_tflops", "copy_gb_s", "read_gb_s")}
    return {name: new / old - 1.0 for name, (old, new) in pairs.items() if old and new is not None}


def check_level(case: Case) -> Finding:
    """`level_not_as_asked`: the resolved configuration is not as expected, or the server changed its mode."""
    return check_launch_level(case.launch)


def counting_start_s(launch: LaunchRecord) -> float | None:
    """Return the seconds from the spawn to the first token; None where the start does not count.

    A start counts if it was measured, got to its first token, and its server ran the level as asked.
    """
    if launch.fills_caches or launch.first_token_s is None or check_launch_level(launch)[0] == "failed":
        return None
    return launch.first_token_s - launch.spawn_s


def check_launch_level(launch: LaunchRecord) -> Finding:
    """Do what `check_level` does, for a launch alone."""
    if launch.downgrades:
        return "failed", launch.downgrades[0]
    if launch.resolved is None:
        return "unavailable", launch.missing["resolved"]
    found = {path: resolved_value(launch.resolved, path) for path in launch.expect}
    for path, value in found.items():
        asked = launch.expect[path]
        # 0 is not False here: a field that changed its type is not what was asked for.
        if not isinstance(value, Missing) and (value != asked or isinstance(value, bool) != isinstance(asked, bool)):
            return "failed", f"{path} is {value!r}, asked for {asked!r}"
    unknown = [value.reason for value in found.values() if isinstance(value, Missing)]
    return ("unavailable", unknown[0]) if unknown else ("passed", f"{len(found)} fields as asked")


def check_stream(case: Case) -> Finding:
    """`stream_bunched`: tokens arrived together, so that TPOT says nothing."""
    if case.run.load is None:
        return "unavailable", case.run.missing["load"]
    requests = case.run.load.requests
    tokens = sum(count or 0 for count in requests.output_tokens)
    if not tokens:
        return "unavailable", "no token came back"
    chunks = sum(requests.chunks)
    short = sum(requests.short_gaps) / max(chunks - len(requests.chunks), 1)
    at_once = _share_at_once(requests)
    bunched = chunks < FEWEST_CHUNKS_SHARE * tokens or short > MOST_SHORT_GAPS_SHARE or at_once > MOST_SHORT_GAPS_SHARE
    said = f"{chunks} chunks for {tokens} tokens, {short:.1%} short gaps, {at_once:.1%} of requests all at once"
    return "failed" if bunched else "passed", said


def _share_at_once(requests: Requests) -> float:
    """Share of the requests that succeeded whose tokens came faster than a server can stream them."""
    columns = request_columns(requests)
    several = columns.success & (columns.output_tokens > 1)
    if not several.any():
        return 0.0
    decode_s = (columns.latency_s - columns.ttft_s)[several]
    return float((1e3 * decode_s < LEAST_TPOT_MS * (columns.output_tokens[several] - 1)).mean())


def resolved_value(resolved: Mapping[str, Any] | None, path: str) -> Any | Missing:  # noqa: ANN401 (JSON)
    """Return the value under a dotted path of the resolved configuration, or why there is none."""
    value: Any = resolved
    for part in path.split("."):
        if not isinstance(value, Mapping) or part not in value:
            return Missing("no resolved configuration" if resolved is None else f"the server does not tell '{path}'")
        value = value[part]
    return value


def _state_of(good: bool | None) -> State:
    return "unavailable" if good is None else "passed" if good else "failed"


def _missing_in_server(run: RunRecord, name: str) -> str:
    return run.missing["server"] if run.server is None else run.server.missing[name]
