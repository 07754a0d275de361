"""A campaign: faults drawn from a seed, each followed by the resume and an audit; a table at the end."""

import itertools
import json
import os
import random
import signal
import sys
import time
import uuid
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from .audit import audit_study, snapshot
from .faults import HERE, MARK, ROOT, STAGES, Fault, Session, suffer

RUNNER_SIGNALS = (signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
VICTIMS = ("runner", "kernel", "client", "server", "engine", "guard", "canary", "runner+guard", "kernel+engine")
LOCKED_VICTIMS = ("holder", "runner+holder")
"""Beside the others in sessions with a locked clock, which every second study of the stand-in has."""
PRESENT = {
    "client": ("loading", "first_token", "warm_up", "load", "between"),
    "server": ("spawn", "loading", "first_token", "warm_up", "load", "between", "stop"),
    "engine": ("loading", "first_token", "warm_up", "load", "between"),
    "guard": ("spawn", "loading", "first_token", "warm_up", "load", "between", "stop"),
    "canary": ("canary",),
    "holder": ("canary", "spawn", "loading", "first_token", "warm_up", "load"),
}
"""Stages of the stand-in at which a victim is there."""
LIVES_S = {"canary": 1.0, "engine": 15.0, "kernel+engine": 15.0}
"""About how long the real victim lives, s; the others about as long as the session."""


@dataclass(frozen=True)
class Campaign:
    """How a campaign is made."""

    fake: bool
    folder: Path
    seed: int
    faults: int
    minutes: float
    session_s: float = 28.0


def draw_faults(campaign):
    """Yield the campaign's faults, the same for the same seed."""
    rng = random.Random(campaign.seed)
    for study in itertools.count():
        victim = rng.choice(VICTIMS + LOCKED_VICTIMS * (campaign.fake and study % 2))
        number = rng.choice(RUNNER_SIGNALS) if victim == "runner" else signal.SIGKILL
        if campaign.fake:
            parts = [PRESENT.get(part, STAGES) for part in victim.split("+")]
            stage = rng.choice([stage for stage in STAGES if all(stage in part for part in parts)])
            yield Fault(victim, number, stage, rng.uniform(0.0, 0.25))
        else:
            yield Fault(victim, number, None, rng.uniform(0.0, LIVES_S.get(victim, campaign.session_s)))


def values_of(campaign, number):
    """Return the parameters of one small study: one server, two runs."""
    level = ("O0", "eager")[number % 2]
    values = {
        "study": f"chaos-{number}",
        "device": "cuda" if campaign.fake else "cpu",
        "levels": [level],
        "users": [1, 2],
        "seeds": [1],
        "model": "notebooks/parameters/models/rehearsal.yaml",
        "load_format": "dummy",
        "input_tokens": 8 if campaign.fake else 32,
        "output_tokens": 8,
        "waves": 2,
        "min_run_s": 0,
        "data_dir": str(campaign.folder / "data"),
    }
    if campaign.fake:
        locked = {"session": "throttled", "throttle": "clock_lock", "clock_lock_mhz": 600}
        return {**values, "cool_to_c": 50, "ready_deadline_s": 30, **(locked if number % 2 else {})}
    return {**values, "server_flags": ["--max-model-len", "256"], "kv_cache_memory_bytes": 2**28}


def environment_of(campaign):
    """Return the environment of the campaign's sessions: a temporary folder of their own, and a mark."""
    temporary = campaign.folder / "tmp"
    temporary.mkdir(parents=True, exist_ok=True)
    environment = {**os.environ, MARK: uuid.uuid4().hex, "TMPDIR": str(temporary)}
    if campaign.fake:
        tests = HERE.parent
        environment |= {
            "PYTHONPATH": os.pathsep.join(map(str, (tests / "fake_vllm", tests, ROOT))),
            "FAKE_CARD": str(campaign.folder / "card.json"),
            "FAKE_VLLM_TRACE": str(campaign.folder / "trace"),
            "FAKE_VLLM_ENGINE": "1",
            "FAKE_VLLM_START_S": "0.3",
            "FAKE_VLLM_FIRST_TOKEN_S": "0.3",
            "FAKE_VLLM_STOP_S": "0.3",
        }
    return environment


class Study:
    """One small study of a campaign, which suffers one fault and is resumed."""

    def __init__(self, campaign, number):
        self.campaign = campaign
        self.values = values_of(campaign, number)
        self.raw = campaign.folder / "data/raw" / self.values["study"]
        self.environment = environment_of(campaign)
        self.file = campaign.folder / f"{self.values['study']}.yaml"
        self.file.write_text(json.dumps(self.values))

    def start(self):
        """Start a session of the study in the hands of a kernel."""
        session = [str(HERE / "fake_session.py"), str(self.file)]
        real = ["-m", "study", "run", "--parameters", str(self.file), "--events"]
        command = [sys.executable, *(session if self.campaign.fake else real)]
        trace = self.campaign.folder / "trace" if self.campaign.fake else None
        return Session(command, self.environment, self.raw, trace)

    def suffer_and_resume(self, fault):
        """Return what the fault did, how the resume ended, and the audit."""
        deadline_s = 60.0 if self.campaign.fake else 300.0
        suffered = suffer(self.start(), fault, deadline_s)
        kept = snapshot(self.raw)
        for _ in range(3):
            resumed = self.start()
            output, _ = resumed.kernel.communicate(timeout=2 * deadline_s)
            if resumed.kernel.returncode == 0:
                break
        places = (self.campaign.folder / "tmp", suffered.shared)
        audit = audit_study(self.values, ROOT, kept, resumed, places)
        audit.locks += self.locked_clocks()
        if resumed.kernel.returncode != 0:
            audit.problems.append(f"the resume ended with {resumed.kernel.returncode}: {output[-300:]}")
        return suffered, audit


    def locked_clocks(self):
        """Return what is locked still on the made-up card."""
        card = self.campaign.folder / "card.json"
        locked = json.loads(card.read_text())["locked_mhz"] if card.is_file() else None
        return [f"the card's clock is locked at {locked} MHz"] if locked else []


def run_campaign(campaign, say=print):
    """Make the campaign; return its table."""
    started_s = time.monotonic()
    kinds, totals, wrong, cleared = Counter(), Counter(), [], []
    for number, fault in enumerate(draw_faults(campaign)):
        spent_s = time.monotonic() - started_s
        if kinds.total() >= campaign.faults or spent_s > 60 * campaign.minutes:
            break
        suffered, audit = Study(campaign, number).suffer_and_resume(fault)
        kinds[f"{fault.victim} {signal.Signals(fault.number).name}"] += suffered.hit
        totals["missed"] += not suffered.hit
        totals += Counter({"planned": audit.planned, "kept": audit.kept})
        totals += Counter({name: len(getattr(audit, name)) for name in _WRONG})
        wrong += [f"{fault}: {text}" for text in audit.faults()]
        if suffered.cleared_s is not None:
            cleared.append(suffered.cleared_s)
        say(f"{number + 1}: {fault}{'' if suffered.hit else ' (came too late)'}: {audit.faults() or 'nothing lost'}")
    return {
        "campaign": {name: str(value) for name, value in asdict(campaign).items() if name != "folder"},
        "faults": {kind: count for kind, count in sorted(kinds.items()) if count},
        "injected": kinds.total(),
        **{name: totals[name] for name in ("missed", "planned", "kept", *_WRONG)},
        "longest_until_clear_s": round(max(cleared, default=0.0), 1),
        "time_s": round(time.monotonic() - started_s, 1),
        "wrong": wrong,
    }


_WRONG = ("lost", "doubled", "orphans", "leftovers", "locks", "problems")


def is_clean(table):
    """Whether a campaign's table has nothing that is wrong."""
    return not any(table[name] for name in _WRONG)
