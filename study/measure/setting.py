"""The setting: what all launches of one session share, and the gates it passes."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from study.design.parameters import Parameters, fingerprint
from study.design.plan import PlannedRun
from study.design.pool import Prompt
from study.measure.clock_lock import ClockLock
from study.measure.ending import Ending
from study.measure.gpu import GpuReader
from study.measure.thermal import as_found, wait_until_cool
from study.records import Canary, Gate, LaunchRecord, Machine, RunRecord


@dataclass
class Setting:
    """What all launches of one session share."""

    parameters: Parameters
    root: Path
    model: str
    machine: Machine
    reader: GpuReader | None
    server_cores: tuple[int, ...]
    write: Callable[[LaunchRecord | RunRecord], object]
    keep_open: Callable[[LaunchRecord], None]
    log_path: Callable[[str], Path]
    next_attempt: Callable[[str], int]
    time_left_s: Callable[[], float]
    tell_run: Callable[[PlannedRun, RunRecord], None] = lambda _planned, _record: None
    target_c: float | None = None
    target_source: str | None = None
    last_canary: Canary | None = None
    ending: Ending = field(default_factory=Ending)
    clock_lock: ClockLock | None = None
    pools: dict[int, list[Prompt]] = field(default_factory=dict)

    @property
    def cores(self) -> dict[str, list[int]]:
        """Which cores the server and the client have, where they are kept apart."""
        if not self.server_cores:
            return {}
        return {"server": list(self.server_cores), "client": sorted(os.sched_getaffinity(0))}

    @property
    def fingerprint(self) -> str:
        """What makes this session's runs comparable."""
        return fingerprint(self.parameters.comparable())

    def reach_gate(self) -> Gate:
        """Wait until the card is cool enough, where it can tell and a target is known."""
        if self.reader is None:
            return no_gate("no GPU: a CPU machine has no temperature to wait for")
        if self.target_c is None:
            return no_gate("idle temperature with the server loaded is not measured yet")
        deadline_s = self.parameters.cool_deadline_s
        gate = wait_until_cool(self.reader, self.target_c, deadline_s, time.monotonic, time.sleep)
        return replace_facts(gate, target_source=self.target_source)

    def gate_before_launch(self) -> Gate:
        """Wait before a server starts; a throttled session takes the card as it is and soaks before each run."""
        if self.reader is not None and self.parameters.session == "throttled":
            return as_found(self.reader)
        return self.reach_gate()


def no_gate(reason: str) -> Gate:
    """Return the gate of a launch or run that waited for nothing, and why."""
    names = ("target_c", "target_source", "temperature_c", "sm_clock_mhz")
    missing = dict.fromkeys(names, reason)
    return Gate(kind="none", status="unavailable", waited_s=0.0, missing=missing, **dict.fromkeys(names))


def replace_facts(gate: Gate, **changes: Any) -> Gate:  # noqa: ANN401 (field values)
    """Return the gate with other values, its reasons kept in step."""
    facts = {**{name: getattr(gate, name) for name in type(gate).model_fields if name != "missing"}, **changes}
    missing = {name: reason for name, reason in gate.missing.items() if facts.get(name) is None}
    return Gate(**facts, missing=missing)
