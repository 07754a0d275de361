"""The real runs of one H200 as records: what the benchmark and NVML wrote, in the study's form."""

import csv
import json
from pathlib import Path

from make_records import make_launch, make_load, make_machine, make_requests, make_run, make_telemetry

DATA = Path(__file__).parent / "data"
IDLE_POWER_W = 120.0


def read_result(name):
    return json.loads((DATA / "h200/bench" / f"{name}.json").read_text())


def read_witness():
    """Return LEVEL-USERS-SEED: {request: gaps in microseconds}."""
    runs = json.loads((DATA / "h200-bench/witness.json").read_text())
    return {name: {int(place): gaps for place, gaps in waves.items()} for name, waves in runs.items()}


def make_h200_launch(level):
    machine = make_machine(gpu_name="NVIDIA H200", gpu_uuid="GPU-H200", max_sm_clock_mhz=1980.0)
    return make_launch(level, machine=machine, idle_power_w=IDLE_POWER_W)


def make_h200_run(name):
    """Return one run with its launch; telemetry only for 1 and 8 users of O0 and O2."""
    level, users = name.rsplit("-", 2)[0], int(name.rsplit("-", 2)[1])
    result, launch = read_result(name), make_h200_launch(level)
    requests = make_h200_requests(result, read_witness()[name], users)
    started_s = min(requests.start_s)
    times = {"started_s": started_s, "ended_s": started_s + result["duration"], "duration_s": result["duration"]}
    load = make_load(requests, users, **times)
    return make_run(launch, users, load=load, telemetry=_read_telemetry(name, times)), launch


def make_h200_requests(result, witness, users):
    count = len(result["start_times"])
    columns = {"start_s": "start_times", "ttft_s": "ttfts", "latency_s": "latencies", "output_tokens": "output_lens"}
    real = {name: result[key] for name, key in columns.items()}
    return make_requests(users, count // users).model_copy(update={**real, "witness_us": witness})


def _read_telemetry(name, times):
    with (DATA / "h200-bench/telemetry.csv").open(newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["run"] == name]
    columns = {key: [float(row[key]) for row in rows] for key in ("t_s", "sm_clock_mhz", "temperature_c", "power_w")}
    masks = [int(row["event_reasons"], 16) for row in rows]
    return make_telemetry(times["started_s"], times["ended_s"], **columns, event_reasons=masks, energy_j=None)
