"""Gates of a server on several cards: one waits until all of them are cool, one takes them as they are.

    card 1   70 . 60 . 50 . 43 . 42 . 41     at its own target early, and watched until the end
    card 2   80 . 72 . 65 . 58 . 51 . 44     the gate ends when both are there at the same reading

A card's target is its own: cards of one host rest at different temperatures, by where the air comes from.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass

from study.measure.gpu import GpuReader
from study.measure.thermal import (
    POLL_S,
    SILENT_READINGS,
    Clock,
    Sleep,
    Status,
    as_found,
    make_card_gate,
    make_gate,
    why_no_temperature,
)
from study.records import Gate


@dataclass
class _Watched:
    """One card at a gate: its target, what it said last, and how many readings in a row said nothing."""

    reader: GpuReader
    target_c: float
    temperature_c: float | None = None
    silent: int = 0

    def read(self) -> None:
        read_c = self.reader.read().temperature_c
        self.silent = self.silent + 1 if read_c is None else 0
        self.temperature_c = self.temperature_c if read_c is None else read_c

    @property
    def status(self) -> Status | None:
        """None while it is warm, or silent for a moment only."""
        if self.silent >= SILENT_READINGS:
            return "unavailable"
        cool = self.temperature_c is not None and self.temperature_c <= self.target_c
        return "reached" if cool and not self.silent else None


def wait_until_all_cool(
    readers: Sequence[GpuReader], targets_c: Sequence[float], deadline_s: float, clock: Clock, sleep: Sleep
) -> Gate:
    """Wait until every card is at or below its own target (degC) at the same time, for at most `deadline_s`.

    Returns:
        Gate: `timed_out` where a card stayed warm, `unavailable` where one tells no temperature and the others are
        cool, else `reached`. The fields beside `cards` are those of the first card.

    """
    watched = [_Watched(*one) for one in zip(readers, targets_c, strict=True)]
    start_s = clock()
    while True:
        for one in watched:
            one.read()
        waited_s = clock() - start_s
        states = [one.status for one in watched]
        if None not in states or waited_s >= deadline_s:
            break
        sleep(min(POLL_S, deadline_s - waited_s))
    ends: list[Status] = ["timed_out" if state is None else state for state in states]
    whole: Status = next((state for state in ("timed_out", "unavailable") if state in ends), "reached")
    cards = [
        make_card_gate(one.reader.uuid, end, _facts(one, end), why_no_temperature(one.reader))
        for one, end in zip(watched, ends, strict=True)
    ]
    facts = _facts(watched[0], ends[0])
    gate = make_gate("cooled", whole, waited_s, facts, why_no_temperature(watched[0].reader))
    return gate.model_copy(update={"cards": cards})


def _facts(one: _Watched, end: Status) -> dict[str, float | None]:
    return {"target_c": one.target_c, "temperature_c": None if end == "unavailable" else one.temperature_c}


def take_all_as_found(readers: Sequence[GpuReader], clock: Clock = time.monotonic) -> Gate:
    """Change nothing; record the temperature that each card happens to have."""
    start_s = clock()
    found = [as_found(reader, clock) for reader in readers]
    whole: Status = "unavailable" if any(gate.status == "unavailable" for gate in found) else "reached"
    cards = [
        make_card_gate(reader.uuid, gate.status, {"temperature_c": gate.temperature_c}, why_no_temperature(reader))
        for reader, gate in zip(readers, found, strict=True)
    ]
    return found[0].model_copy(update={"status": whole, "waited_s": clock() - start_s, "cards": cards})
