"""Builders of records for tests: a valid run of one user on a cooled card, unless a keyword says otherwise.

Every builder takes the record's own fields as keywords. A field that is None gets a reason by itself, or the one given
in `missing`.
"""

from typing import Any, TypeVar

from study.design.parameters import fingerprint
from study.records import (
    Canary,
    Facts,
    Gate,
    LaunchRecord,
    Load,
    Machine,
    Outcome,
    Requests,
    RunRecord,
    ServerView,
    Telemetry,
)
from study.store import StudyRecords

_F = TypeVar("_F", bound=Facts)

STUDY = "test"
STARTED_S = 1000.0
COMPARABLE = {"session": "cooled", "fresh_server_per_seed": True, "cache": "warm"}
RESOLVED: dict[str, Any] = {
    "instance_id": "a1b2c",
    "optimization_level": 2,
    "model_config": {"enforce_eager": False},
    "cache_config": {"enable_prefix_caching": False, "num_gpu_blocks": 27846},
    "kernel_config": {"enable_jit_warmup": True, "enable_flashinfer_autotune": True},
    "compilation_config": {
        **{"mode": 3, "cudagraph_mode": [2, 1], "backend": "inductor"},
        "cudagraph_capture_sizes": [1, 2, 4, 8, 16],
    },
}


def build(kind: type[_F], values: dict[str, Any]) -> _F:
    """Build a record; each null field without a reason gets one."""
    given = values.get("missing", {})
    empty = {name for name in kind.model_fields if name in values and values[name] is None}
    reasons = {name: given.get(name, "not measured in this test") for name in empty}
    return kind(**{**values, "missing": reasons})


def make_machine(**fields):
    """One L4."""
    card = {"gpu_name": "NVIDIA L4", "gpu_uuid": "GPU-1", "gpu_index": 0, "gpu_memory_gib": 22.5, "mig": "disabled"}
    clock = {"compute_capability": "8.9", "max_sm_clock_mhz": 2040.0, "power_limit_w": 72.0, "driver_version": "580"}
    host = {"hostname_sha256": "0123456789ab", "cpu_model": "x", "cpu_count": 8, "memory_gib": 64.0, "kernel": "6"}
    rest = {"python": "3.11", "versions": {"vllm": "0.31.0"}, "vllm_commit": "db9527a", "study_commit": "0"}
    return build(Machine, {"device": "cuda", "virtualised": True, **card, **clock, **host, **rest, **fields})


def make_cpu_machine(**fields):
    """A host without a card."""
    names = ("gpu_name", "gpu_uuid", "gpu_index", "gpu_memory_gib", "compute_capability", "max_sm_clock_mhz")
    none = dict.fromkeys((*names, "power_limit_w", "driver_version", "mig"))
    return make_machine(**{"device": "cpu", **none, **fields})


def make_gate(**fields):
    """A gate that was reached at once."""
    seen = {"target_c": 45.0, "target_source": "cool_to_c", "temperature_c": 44.0, "sm_clock_mhz": None}
    return build(Gate, {"kind": "cooled", "status": "reached", **seen, "waited_s": 12.0, **fields})


def make_canary(**fields):
    """A canary of an L4."""
    seen = {"gemm_tflops": 60.0, "copy_gb_s": 250.0, "read_gb_s": 260.0}
    return build(Canary, {"started_s": 900.0, "repeats": 20, **seen, **fields})


def make_launch(level="default", block=1, **fields):
    """One server that started in 69 s and was stopped."""
    identity = {"study": STUDY, "fingerprint": fingerprint(COMPARABLE), "comparable": COMPARABLE, "rehearsal": False}
    place = {"launch_id": f"b{block}-{level}-a1", "attempt": 1, "session": "cooled", "block": block, "position": 0}
    asked = {"level": level, "fills_caches": False, "flags": [], "environment": {}, "command": ["python"], "expect": {}}
    times = {"spawn_unix_s": 1.79e9, "spawn_s": 800.0, "healthy_s": 868.0, "first_token_s": 869.0}
    stop = {"stop_asked_s": 2000.0, "stopped_s": 2002.0, "stopped_by": "SIGINT", "log": "launch.log", "log_sha256": "0"}
    memory = {"kv_cache_blocks": 27846, "kv_cache_tokens": 445536, "idle_c": 42.0, "idle_power_w": 30.0}
    state = {"resolved": RESOLVED, "cache": "warm", "gate": make_gate(), "machine": make_machine()}
    canaries = {"canary_before": make_canary(), "canary_after": make_canary(started_s=2003.0)}
    outcome = {"outcome": make_outcome()}
    parts = {**identity, **place, **asked, **times, **stop, **memory, **state, **canaries, **outcome}
    return build(LaunchRecord, {**parts, **fields})


def make_outcome(**fields):
    """A good end."""
    return build(Outcome, {"status": "ok", "stage": "done", **fields})


def make_requests(users=1, waves=8, tpot_ms=60.0, **fields):
    """Waves of requests in lockstep.

    `tpot_ms` is one number, or one a request in the order sent. `ttft_s` (of each) and `tokens` shape all requests.
    """
    count = users * waves
    tokens, ttft_s = fields.pop("tokens", 192), fields.pop("ttft_s", 0.05)
    tpot = list(tpot_ms) if isinstance(tpot_ms, list | tuple) else [tpot_ms] * count
    latency_s = [ttft_s + one * (tokens - 1) / 1e3 for one in tpot]
    starts, at_s = [], STARTED_S
    for wave in range(waves):
        starts += [at_s + place * 1e-5 for place in range(users)]
        at_s += max(latency_s[wave * users : (wave + 1) * users]) + 0.001
    witness = {place: [round(tpot[place] * 1e3)] * (tokens - 1) for place in range(0, count, users)}
    times = {"start_s": starts, "ttft_s": [ttft_s] * count, "latency_s": latency_s}
    sizes = {"input_tokens": [256] * count, "output_tokens": [tokens] * count, "asked_tokens": [tokens] * count}
    stream = {"chunks": [tokens] * count, "short_gaps": [0] * count, "error": [""] * count, "witness_us": witness}
    return build(Requests, {**times, **sizes, **stream, **fields})


def make_load(requests, users=1, **fields):
    """The load around requests."""
    ended = max(start + (latency or 0.0) for start, latency in zip(requests.start_s, requests.latency_s, strict=True))
    size = {"waves": len(requests.start_s) // users, "warm_up_waves": 1, "warm_up_wave_s": 11.5, "burst_s": 11.5}
    times = {"started_s": STARTED_S, "ended_s": ended, "duration_s": ended - STARTED_S}
    what = {"pool_sha256": "0" * 64, "arguments": [], "requests": requests}
    return build(Load, {**size, **times, **what, **fields})


def make_telemetry(started_s, ended_s, **fields):
    """Samples at 10 Hz from 0.5 s before a load to 0.5 s after; a column given as a number holds it throughout."""
    period_s = fields.pop("period_s", 0.1)
    count = round((ended_s - started_s + 1.0) / period_s) + 1
    t_s = fields.pop("t_s", [started_s - 0.5 + place * period_s for place in range(count)])
    power_w = 70.0
    columns = {"sm_clock_mhz": 1275.0, "memory_clock_mhz": 6250.0, "temperature_c": 60.0, "memory_temperature_c": None}
    columns |= {"power_w": power_w, "event_reasons": 0, "gpu_utilisation": 99.0, "host_busy": 0.2, "host_steal": 0.0}
    columns |= {"energy_j": [power_w * (one - started_s) + 1e6 for one in t_s], "cpu_clock_mhz": None, **fields}
    rest = ("throttle_before_ns", "throttle_after_ns", "field_errors", "missing")
    spread = {
        name: [value] * len(t_s) if isinstance(value, int | float) else value
        for name, value in columns.items()
        if name not in rest
    }
    counters = {"sw_power_cap": 0, "sw_thermal": 0, "hw_thermal": 0, "power_brake": 0}
    around = {"throttle_before_ns": counters, "throttle_after_ns": counters}
    kept = {name: fields[name] for name in rest if name in fields}
    return build(Telemetry, {"period_s": period_s, "t_s": t_s, **spread, **around, **kept})


def make_server_view(**fields):
    """A server that saw nothing amiss."""
    counters = {"prefix_queries": 0.0, "prefix_hits": 0.0, "preemptions": 0.0, "jit_lines": 0}
    return build(ServerView, {**counters, "foreign_gpu_processes": [], "same_server": True, **fields})


def make_run(launch=None, users=1, requests=None, **fields):
    """One load on a launch.

    `tpot_ms`, `waves` and `telemetry_fields` (a mapping) shape a load that is not given.
    """
    launch = launch or make_launch()
    shape = {name: fields.pop(name) for name in ("tpot_ms", "waves", "tokens", "ttft_s") if name in fields}
    telemetry_fields = fields.pop("telemetry_fields", {})
    load = make_load(requests or make_requests(users, **shape), users)
    same = launch.model_dump(include={"study", "fingerprint", "rehearsal", "launch_id", "session", "block", "level"})
    identity = {"run_id": f"b{launch.block}-{launch.level}-u{users}-a1", "attempt": 1, "users": users}
    place = {"seed": launch.block, "position": 0, "started_unix_s": 1.79e9, "gate": make_gate()}
    load = fields.pop("load", load)
    telemetry = None if load is None else make_telemetry(load.started_s, load.ended_s, **telemetry_fields)
    seen = {"load": load, "telemetry": telemetry, "server": make_server_view(), "outcome": make_outcome()}
    return build(RunRecord, {**same, **identity, **place, **seen, **fields})


def make_study(launches, runs=()):
    """Put records together, in the order given."""
    return StudyRecords(STUDY, tuple(launches), tuple(runs), {})
