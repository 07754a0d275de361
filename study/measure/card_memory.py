"""Memory on the card that is not ours: before a launch, another's; after it, what the stop did not give back."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from study.design.card_facts import name_card
from study.measure.cards import Readers, list_readers
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
    """Memory that somebody holds on the card: GiB, and who, as far as NVML and this host tell; `card` if of several."""

    gib: float
    by: tuple[str, ...]
    card: str = ""

    def __str__(self) -> str:
        """Return it in words."""
        who = ", ".join(self.by) or "a process that NVML does not list here"
        return f"{f'{self.card}: ' if self.card else ''}{self.gib:.1f} GiB of GPU memory are held by {who}"


def find_held(reader: GpuReader) -> Held | None:
    """Return what is held on the card; None for nothing, and where NVML has no memory figure."""
    used_gib, size_gib = reader.memory_used_gib(), reader.identity().memory_gib
    if used_gib is None or used_gib <= max(HELD_GIB, HELD_SHARE * (size_gib or 0.0)):
        return None
    return Held(used_gib, tuple(_name(pid) for pid in reader.process_ids() or ()))


def wait_until_free(readers: Readers, deadline_s: float, clock: Clock, sleep: Sleep) -> Held | None:
    """Wait until nobody holds memory on any of the cards, for at most `deadline_s`; return what is held still."""
    start_s = clock()
    cards = list_readers(readers)
    while (held := _find_first_held(cards)) is not None and clock() - start_s < deadline_s:
        sleep(POLL_S)
    return held


def _find_first_held(cards: Sequence[GpuReader]) -> Held | None:
    for place, reader in enumerate(cards):
        held = find_held(reader)
        if held is not None:
            card = name_card(place, [one.uuid for one in cards]) if len(cards) > 1 else ""
            return Held(held.gib, held.by, card)
    return None


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


def all_memory_left(
    readers: Readers, before_gib: Sequence[float | None], clock: Clock, sleep: Sleep
) -> list[str]:
    """Say what GPU memory a stop left on each card, which is named where there are several; see `memory_left`."""
    cards = list_readers(readers)
    uuids = [one.uuid for one in cards]
    left = [memory_left(card, gib, clock, sleep) for card, gib in zip(cards, before_gib, strict=True)]
    if len(cards) == 1:
        return left[0]
    return [f"{text} on {name_card(place, uuids)}" for place, texts in enumerate(left) for text in texts]


def _name(pid: int) -> str:
    """Return a process in words; NVML's ids can be those of another namespace, where this host has no such process."""
    try:
        return f"process {pid} ({psutil.Process(pid).name()})"
    except psutil.Error:
        return f"process {pid}"
