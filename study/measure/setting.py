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
from study.measure.clock_lock import ClockLocks
from study.measure.ending import Ending
from study.measure.gpu import GpuReader
from study.measure.left_out import LeftOut, comparable_with
from study.measure.thermal import as_found, wait_until_cool
from study.measure.thermal_cards import take_all_as_found, wait_until_all_cool
from study.records import Canary, Gate, LaunchRecord, Machine, RunRecord


@dataclass
class Setting:
    """What all launches of one session share.

    `targets_c` are the gate's temperatures, one a card; empty until they are known. `canaries` are those after the last
    launch, one a card; empty where none is fresh.
    """

    parameters: Parameters
    root: Path
    model: str
    machine: Machine
    readers: tuple[GpuReader, ...]
    server_cores: tuple[int, ...]
    write: Callable[[LaunchRecord | RunRecord], object]
    keep_open: Callable[[LaunchRecord], None]
    log_path: Callable[[str], Path]
    next_attempt: Callable[[str], int]
    time_left_s: Callable[[], float]
    tell_run: Callable[[PlannedRun, RunRecord], None] = lambda _planned, _record: None
    targets_c: tuple[float, ...] = ()
    target_source: str | None = None
    canaries: tuple[Canary | None, ...] = ()
    ending: Ending = field(default_factory=Ending)
    clock_lock: ClockLocks | None = None
    pools: dict[int, list[Prompt]] = field(default_factory=dict)
    left_out: LeftOut | None = None
    flags_to_check: dict[str, Any] | None = None
    """Asked of the installed vLLM beside the first start (`flags.request_of`); None: nothing, or answered."""

    @property
    def cores(self) -> dict[str, list[int]]:
        """Which cores the server and the client have, where they are kept apart."""
        if not self.server_cores:
            return {}
        return {"server": list(self.server_cores), "client": sorted(os.sched_getaffinity(0))}

    @property
    def fingerprint(self) -> str:
        """What makes this session's runs comparable."""
        return fingerprint(self.comparable)

    @property
    def comparable(self) -> dict[str, Any]:
        """The part of what was asked for that runs must share to be compared."""
        return comparable_with(self.parameters, self.left_out)

    def reuse_targets(self, gate: Gate) -> None:
        """Keep the temperatures of an earlier gate on the same cards, where none are known yet and it has them all."""
        found = [one.target_c for one in gate.cards] or [gate.target_c]
        known = tuple(one for one in found if one is not None)
        if not self.targets_c and len(known) == len(self.readers):
            self.targets_c, self.target_source = known, gate.target_source

    def reach_gate(self) -> Gate:
        """Wait until every card is cool enough, where it can tell and a target is known."""
        if not self.readers:
            return no_gate("no GPU: a CPU machine has no temperature to wait for")
        if not self.targets_c:
            return no_gate("idle temperature with the server loaded is not measured yet")
        deadline_s = self.parameters.cool_deadline_s
        if len(self.readers) == 1:
            gate = wait_until_cool(self.readers[0], self.targets_c[0], deadline_s, time.monotonic, time.sleep)
        else:
            gate = wait_until_all_cool(self.readers, self.targets_c, deadline_s, time.monotonic, time.sleep)
        return replace_facts(gate, target_source=self.target_source)

    def take_as_found(self) -> Gate:
        """Take the card, or every card, as it is."""
        return as_found(self.readers[0]) if len(self.readers) == 1 else take_all_as_found(self.readers)

    def gate_before_launch(self) -> Gate:
        """Wait before a server starts; a throttled session takes the card as it is and soaks before each run."""
        if self.readers and self.parameters.session == "throttled":
            return self.take_as_found()
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
