"""Simulated studies of any size, in the shape of real ones: five levels, four numbers of users, fresh servers.

Launch records, server logs and what a session asked for are those of a real study, put into other blocks; runs are
drawn. Every record says that it is a rehearsal on a simulated card, so that nothing made of them looks like a result.
"""

import hashlib
import json
import random
import re
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path

import numpy as np

from study.design.parameters import fingerprint
from study.record_files import read_unpacked
from study.store import Store

TEMPLATE = Path(__file__).parents[2] / "data/raw/2026-11-h200-cooled"
COSTS = {"default": 0.0, "O3": 0.0, "graphs-only": 0.02, "O0": 0.04, "eager": 0.05}
"""Level to its simulated cost: a share of the default's time per token."""
USERS = (1, 4, 8, 16)
RUNS_A_BLOCK = len(COSTS) * len(USERS)
WAVES = 8
SAMPLES = 600
PERIOD_S = 0.1
TOKENS = 128
TTFT_S = 0.05
BASE_MS = 53.0
LAUNCH_NOISE, RUN_NOISE, WAVE_NOISE = 0.005, 0.003, 0.002
FAILED_SHARE = 0.02
"""Of the runs: a request of theirs failed, so that they are left out."""
TELEMETRY_VARIANTS = 32
BLOCK_S, LAUNCH_S, RUN_S = 3600.0, 700.0, 100.0
FIRST_RUN_S = 120.0
CARD = {"gpu_name": "simulated card", "gpu_uuid": "GPU-simulated", "cpu_model": "simulated host"}
_STAMP = re.compile(r"\b\d\d-\d\d \d\d:\d\d:\d\d\b")


@dataclass(frozen=True)
class Template:
    """One level's real launch as JSON values, and its log in pieces between the stamps of its lines."""

    launch: dict
    pieces: tuple[str, ...]
    stamps: tuple[datetime, ...]

    def log_at(self, later_s):
        """Return the log with every stamp so many seconds later."""
        later = timedelta(seconds=later_s)
        text = [self.pieces[0]]
        for stamp, piece in zip(self.stamps, self.pieces[1:], strict=True):
            text += [f"{stamp + later:%m-%d %H:%M:%S}", piece]
        return "".join(text)


def read_template(level):
    launch = json.loads((TEMPLATE / f"launch-b2-{level}-a1.json").read_text())
    log = (TEMPLATE / f"launch-b2-{level}-a1.log").read_text()
    year = datetime.fromtimestamp(launch["spawn_unix_s"]).year
    stamps = [datetime.strptime(f"{year}-{text}", "%Y-%m-%d %H:%M:%S") for text in _STAMP.findall(log)]
    return Template(launch, tuple(_STAMP.split(log)), tuple(stamps))


def write_simulated(data_dir, study, runs, seed=0):
    """Write a study of so many runs (whole blocks of `RUNS_A_BLOCK`) to `data_dir/raw/study` and return its store."""
    if runs % RUNS_A_BLOCK:
        raise ValueError(f"{runs} runs are no whole blocks; a multiple of {RUNS_A_BLOCK} works")
    store = Store(Path(data_dir), study)
    store.raw.mkdir(parents=True)
    writer = _Writer(store, runs // RUNS_A_BLOCK, seed)
    writer.write_session()
    for block in range(1, writer.blocks + 1):
        writer.write_block(block)
    return store


class _Writer:
    """Writes one study; what all of its records share is made once."""

    def __init__(self, store, blocks, seed):
        self.store, self.blocks = store, blocks
        self.draw = np.random.default_rng(seed)
        self.order = random.Random(seed)
        self.templates = {level: read_template(level) for level in COSTS}
        first = self.templates["default"].launch
        self.comparable = {**first["comparable"], "output_tokens": TOKENS}
        self.shared = {"study": store.study, "fingerprint": fingerprint(self.comparable)}
        self.run = json.loads(read_unpacked(TEMPLATE / "run-b2-default-u1-a1.json") or "")
        # Four places of a run within its launch, each with its own times.
        self.telemetry = [
            [self._telemetry(FIRST_RUN_S + place * RUN_S) for _ in range(TELEMETRY_VARIANTS)]
            for place in range(len(USERS))
        ]

    def write_session(self):
        session = json.loads((TEMPLATE / "session-1.json").read_text())
        changes = {"study": self.store.study, "users": list(USERS), "output_tokens": TOKENS}
        asked = {**session["asked"], **changes, "seeds": list(range(1, self.blocks + 1))}
        self._write("session-1", {**session, **self.shared, "asked": asked})

    def write_block(self, block):
        levels = list(COSTS)
        self.order.shuffle(levels)
        for position, level in enumerate(levels):
            later_s = block * BLOCK_S + position * LAUNCH_S
            launch = self._launch(level, block, position, later_s)
            slower = (1 + COSTS[level]) * (1 + self.draw.normal(0, LAUNCH_NOISE))
            for place, users in enumerate(USERS):
                tpot_ms = BASE_MS * slower * (1 + 0.01 * place) * (1 + self.draw.normal(0, RUN_NOISE))
                self._run(launch, users, place, tpot_ms)

    def _launch(self, level, block, position, later_s):
        template = self.templates[level]
        key = f"b{block}-{level}-a1"
        log = template.log_at(later_s)
        self.store.log_path(key).write_text(log)
        place = {"launch_id": key, "block": block, "position": position, "log": f"launch-{key}.log"}
        # The spawn moves a little within the second that the log's stamps leave open.
        spawn_s = template.launch["spawn_s"] - float(self.draw.uniform(0, 0.4))
        offset_s = template.launch["spawn_unix_s"] - template.launch["spawn_s"]
        times = {"spawn_s": spawn_s, "spawn_unix_s": spawn_s + offset_s + later_s}
        machine = {**template.launch["machine"], **CARD, "hostname_sha256": "0" * 12}
        launch = {
            **template.launch, **self.shared, **place, **times, "machine": machine, "comparable": self.comparable,
            "rehearsal": True, "log_sha256": hashlib.sha256(log.encode()).hexdigest(),
            "outcome": {**template.launch["outcome"], "message": ""},
        }  # fmt: skip
        self._write(f"launch-{key}", launch)
        return launch

    def _run(self, launch, users, place, tpot_ms):
        began_s = FIRST_RUN_S + place * RUN_S
        requests, ended_s = self._requests(users, began_s, tpot_ms)
        same = {name: launch[name] for name in ("launch_id", "session", "block", "level", "rehearsal")}
        key = f"b{launch['block']}-{launch['level']}-u{users}-a1"
        who = {"run_id": key, "users": users, "seed": launch["block"], "position": place}
        load = {**self.run["load"], "waves": WAVES, "started_s": began_s, "ended_s": ended_s, "requests": requests}
        load["duration_s"] = ended_s - began_s
        started_unix_s = launch["spawn_unix_s"] + began_s
        text = json.dumps(
            {**self.run, **self.shared, **same, **who, "started_unix_s": started_unix_s, "load": load, "telemetry": 0},
            separators=(",", ":"),
        )
        telemetry = self.telemetry[place][self.draw.integers(TELEMETRY_VARIANTS)]
        text = text.replace('"telemetry":0', f'"telemetry":{telemetry}', 1)
        (self.store.raw / f"run-{key}.json").write_text(text + "\n")

    def _requests(self, users, began_s, tpot_ms):
        """Return columns of waves in lockstep, and when the last request ended."""
        count, at_s = users * WAVES, began_s
        start_s, latency_s, witness = [], [], {}
        for wave in range(WAVES):
            slower = 1 + self.draw.normal(0, WAVE_NOISE)
            gaps = self.draw.normal(1e3 * tpot_ms * slower, 200.0, TOKENS - 1).astype(int).tolist()
            witness[str(wave * users)] = gaps
            first_s = TTFT_S + sum(gaps) / 1e6
            others = first_s + self.draw.uniform(0, 1e-3, users - 1)
            start_s += [at_s + place * 1e-5 for place in range(users)]
            latency_s += [first_s, *others.tolist()]
            at_s += max(latency_s[-users:]) + 0.002
        requests = {"missing": {}, "start_s": start_s, "ttft_s": [TTFT_S] * count, "latency_s": latency_s}
        requests |= {"input_tokens": [256] * count, "output_tokens": [TOKENS] * count, "asked_tokens": [TOKENS] * count}
        requests |= {"chunks": [TOKENS] * count, "short_gaps": [0] * count, "error": [""] * count}
        if self.draw.random() < FAILED_SHARE:
            requests["error"][-1] = "the server closed the connection"
        return {**requests, "witness_us": witness}, at_s

    def _telemetry(self, began_s):
        """Return samples beside a load, as JSON text: a card at its usual clock that gets a little warmer."""
        place = np.arange(SAMPLES)
        t_s = began_s - 0.3 + place * PERIOD_S + self.draw.uniform(-5e-4, 5e-4, SAMPLES)
        power_w = self.draw.normal(430.0, 8.0, SAMPLES).round(3)
        columns = {
            "t_s": t_s.round(9),
            "sm_clock_mhz": self.draw.choice([1965.0, 1980.0], SAMPLES, p=[0.2, 0.8]),
            "memory_clock_mhz": np.full(SAMPLES, 3201.0),
            "temperature_c": np.round(45.0 + 10.0 * (1 - np.exp(-place / 150.0))),
            "memory_temperature_c": np.round(43.0 + 8.0 * (1 - np.exp(-place / 200.0))),
            "power_w": power_w,
            "energy_j": (1e5 + np.cumsum(power_w * PERIOD_S)).round(3),
            "event_reasons": np.zeros(SAMPLES, dtype=int),
            "gpu_utilisation": self.draw.choice([98.0, 99.0, 100.0], SAMPLES),
            "host_busy": self.draw.integers(8, 40, SAMPLES) / 161.0,
            "host_steal": self.draw.choice([0.0, 1 / 160], SAMPLES, p=[0.95, 0.05]),
        }
        real = self.run["telemetry"]
        samples = {**real, "period_s": PERIOD_S, **{name: values.tolist() for name, values in columns.items()}}
        return json.dumps(samples, separators=(",", ":"))

    def _write(self, name, record):
        (self.store.raw / f"{name}.json").write_text(json.dumps(record, separators=(",", ":")) + "\n")
