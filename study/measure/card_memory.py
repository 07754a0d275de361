"""Memory on the card that is not ours: before a launch, another's; after it, what the stop did not give back."""

from collections.abc import Callable
from dataclasses import dataclass

import psutil

from study.measure.gpu import GpuReader

HELD_GIB = 2.0
HELD_SHARE = 0.05
"""Memory in use counts as held from the greater of the two on: a driver and a desktop take less."""
POLL_S = 0.5
MEMORY_DEADLINE_S = 10.0
MEMORY_SLACK_GIB = 0.5

Clock = Callable[[], float]
Sleep = Callable[[float], object]


@dataclass(frozen=True)
class Held:
    """Memory that somebody holds on the card: GiB, and who, as far as NVML and this host tell."""

    gib: float
    by: tuple[str, ...]

    def __str__(self) -> str:
        """Return it in words."""
        who = ", ".join(self.by) or "a process that NVML does not list here"
        return f"{self.gib:.1f} GiB of GPU memory are held by {who}"


def find_held(reader: GpuReader) -> Held | None:
    """Return what is held on the card; None for nothing, and where NVML has no memory figure."""
    used_gib, size_gib = reader.memory_used_gib(), reader.identity().memory_gib
    if used_gib is None or used_gib <= max(HELD_GIB, HELD_SHARE * (size_gib or 0.0)):
        return None
    return Held(used_gib, tuple(_name(pid) for pid in reader.process_ids() or ()))


def wait_until_free(reader: GpuReader, deadline_s: float, clock: Clock, sleep: Sleep) -> Held | None:
    """Wait until nobody holds memory on the card, for at most `deadline_s`; return what is held still."""
    start_s = clock()
    while (held := find_held(reader)) is not None and clock() - start_s < deadline_s:
        sleep(POLL_S)
    return held


def memory_left(reader: GpuReader | None, before_gib: float | None, clock: Clock, sleep: Sleep) -> list[str]:
    """Say what GPU memory a stop left, after the driver had a moment to give it back."""
    if reader is None or before_gib is None:
        return []
    deadline = clock() + MEMORY_DEADLINE_S
    while True:
        used_gib = reader.memory_used_gib()
        if used_gib is None or used_gib - before_gib <= MEMORY_SLACK_GIB:
            return []
        if clock() > deadline:
            return [f"{used_gib - before_gib:.1f} GiB of GPU memory"]
        sleep(0.2)


def _name(pid: int) -> str:
    """Return a process in words; NVML's ids can be those of another namespace, where this host has no such process."""
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"process {pid}"
