"""Raw folders of small studies for the tests of figures, editions and notebooks."""

import hashlib
import json
import random
import shutil
from pathlib import Path

from make_records import (
    COMPARABLE,
    RESOLVED,
    make_canary,
    make_cpu_machine,
    make_gate,
    make_launch,
    make_machine,
    make_run,
)

from study.design.parameters import fingerprint
from study.store import Store

COSTS = {"default": 0.0, "O0": 0.05, "O3": 0.0, "eager": 0.022}
START_S = {"default": 69.0, "O0": 31.0, "O3": 69.5, "eager": 28.0}
HOT = {"sm_clock_mhz": 210.0, "event_reasons": 0x40}
BASE_MS = {1: 60.36, 8: 65.75}
LOG = """INFO 09-21 14:13:25 [api_server.py:1] vLLM API server version 0.31.0
INFO 09-21 14:13:28 [core.py:1] Initializing a V1 LLM engine (v0.31.0) with config: model='m'
INFO 09-21 14:13:44 [gpu_model_runner.py:1] Model loading took 15.27 GiB memory and 11.1 seconds
"""


def make_root(folder):
    """Make `folder` a project's root, with the parameters of this one."""
    shutil.copytree(Path(__file__).parents[1] / "notebooks" / "parameters", folder / "notebooks" / "parameters")
    return folder


def write_study(
    data_dir, name="l4", *, session="cooled", rehearsal=False, blocks=3, model="Qwen/Qwen3-8B", costs=None, card=HOT
):
    """Write the records of a study to `data_dir/raw/name` and return its store.

    `costs` maps levels to their shares; `card` is what the samples of a throttled session say of it.
    """
    costs = COSTS if costs is None else costs
    store = Store(data_dir, name)
    store.raw.mkdir(parents=True)
    comparable = {**COMPARABLE, "session": session, "model": model, "pool": "generated", "throttle": "soak"}
    shared = {"study": name, "comparable": comparable, "fingerprint": fingerprint(comparable), "session": session}
    shared |= {"rehearsal": rehearsal, "machine": make_cpu_machine() if rehearsal else make_machine()}
    draw = random.Random(7)
    for block in range(1, blocks + 1):
        for level in costs:
            launch = _launch(level, block, draw, shared)
            store.write(launch)
            store.log_path(launch.launch_id).write_text(LOG, encoding="utf-8")
            for users, base_ms in BASE_MS.items():
                store.write(_run(launch, users, base_ms * (1 + costs[level] + draw.gauss(0, 0.001)), card))
    return store


def rewrite_log(store, launch_id, text):
    """Replace the log of a launch, and the hash that its record holds of it."""
    store.log_path(launch_id).write_text(text, encoding="utf-8")
    path = store.raw / f"launch-{launch_id}.json"
    record = json.loads(path.read_text())
    record["log_sha256"] = hashlib.sha256(text.encode()).hexdigest()
    path.write_text(json.dumps(record) + "\n")


def _launch(level, block, draw, shared):
    resolved = {**RESOLVED}
    if level in ("O0", "eager"):
        resolved |= {"compilation_config": {"mode": 0, "cudagraph_mode": 0, "backend": ""}}
        resolved |= {"model_config": {"enforce_eager": level == "eager"}}
    start_s = START_S.get(level, 50.0) + draw.gauss(0, 0.4)
    times = {"healthy_s": 800.0 + start_s - 1, "first_token_s": 800.0 + start_s}
    cool = shared["session"] == "cooled"
    canaries = {} if cool else {"canary_before": make_canary(), "canary_after": make_canary()}
    log = {"log_sha256": hashlib.sha256(LOG.encode()).hexdigest()}
    return make_launch(level, block, resolved=resolved, **times, **canaries, **log, **shared)


def _run(launch, users, tpot_ms, card):
    telemetry = {"sm_clock_mhz": 1275.0, "period_s": 0.2}
    if launch.session == "throttled":
        telemetry |= card
    if launch.machine.device == "cpu":
        none = ("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "power_w", "energy_j", "event_reasons")
        telemetry = {"period_s": 0.2, "missing": dict.fromkeys(none, "a CPU has no NVML"), **dict.fromkeys(none)}
        telemetry |= {"gpu_utilisation": None, "throttle_before_ns": None, "throttle_after_ns": None}
    gate = {} if launch.session == "cooled" else {"gate": make_gate(kind="soak", sm_clock_mhz=card["sm_clock_mhz"])}
    spread = [tpot_ms * (1 + 0.002 * ((place * 7) % 5 - 2)) for place in range(8 * users)]
    return make_run(launch, users, tpot_ms=spread, tokens=24, telemetry_fields=telemetry, **gate)
