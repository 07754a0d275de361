"""Thermal conditions that load makes, each with its evidence: soaked, and a locked clock read back under load.

Of a server on several cards every one is looked at: a gate is reached when all of them are where they should be.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from study.design.card_facts import CardColumns
from study.design.clock_events import BusyWindow, ThrottleRule, judge_throttled
from study.measure.cards import Readers, list_readers
from study.measure.gpu import GpuReader, GpuSample
from study.measure.telemetry import NO_GPU, Sampler
from study.measure.thermal import Clock, Status, make_card_gate, make_gate
from study.records import Gate, Telemetry

BLIND_SLICES = 3
"""Slices of load in a row without evidence for or against throttling after which a soak gives up."""
LOCK_SLICES = 3
LOCK_WITHIN_SHARE = 0.05
"""A busy clock this near to the locked one has obeyed: NVML takes the nearest step that the card has."""


@dataclass(frozen=True)
class Watch:
    """What a soak is watched with: a clock, and a fresh sampler for each slice of load."""

    clock: Clock
    make_sampler: Callable[[], Sampler]


def is_throttled(
    samples: Sequence[GpuSample] | Telemetry | CardColumns, max_sm_clock_mhz: float | None, below_share: float
) -> tuple[bool | None, str]:
    """Say whether the card was throttled in samples taken while it was busy, and on what evidence.

    See `judge_throttled`; the columns of a record bring their throttle counters too.
    """
    if isinstance(samples, Telemetry | CardColumns):
        window = BusyWindow(
            event_reasons=samples.event_reasons or [],
            sm_clock_mhz=samples.sm_clock_mhz or [],
            counters_before_ns=samples.throttle_before_ns,
            counters_after_ns=samples.throttle_after_ns,
        )
    else:
        window = BusyWindow([one.event_reasons for one in samples], [one.sm_clock_mhz for one in samples])
    return judge_throttled(window, ThrottleRule(max_sm_clock_mhz, below_share))


def soak(
    readers: Readers,
    step: Callable[[], object],
    deadline_s: float,
    below_share: float = 0.35,
    watch: Watch | None = None,
) -> Gate:
    """Keep the card, or every card of the server, under load until it is throttled, for at most `deadline_s`.

    Args:
        readers: of the card or cards.
        step: runs one slice of load, best some seconds long, and returns when it is over; its errors pass through.
        deadline_s: no further slice begins after it, s.
        below_share: of the highest SM clock; see `ThrottleRule`.
        watch: by default this machine's clock and sampler. Samples are taken while a slice runs, and only then: a
            card at rest drops its reasons at once.

    Returns:
        Gate: `reached` or `timed_out`, with temperature and median busy SM clock of the last slice; `unavailable`
        where a card gives no evidence for or against. Of several cards each has its own state in `cards`.

    """
    cards = list_readers(readers)
    if not cards:
        return make_gate("soak", "unavailable", 0.0, {}, NO_GPU)
    watch = watch or Watch(time.monotonic, lambda: Sampler(cards))
    start_s, max_mhz, blind = watch.clock(), [one.identity().max_sm_clock_mhz for one in cards], 0
    while True:
        telemetry = _watch_slice(step, watch.make_sampler())
        seen = [is_throttled(*one, below_share) for one in zip(telemetry.by_card, max_mhz, strict=True)]
        throttled = _holds_for_all([state for state, _ in seen])
        waited_s = watch.clock() - start_s
        blind = blind + 1 if throttled is None else 0
        if throttled:
            status: Status = "reached"
        elif blind >= BLIND_SLICES:
            status = "unavailable"
        elif waited_s >= deadline_s:
            status = "timed_out"
        else:
            continue
        source = f"thermal, power-brake or HW-slowdown reason, or SM clock below {below_share:.0%}"
        facts = {"target_source": source, **_read_end(telemetry)}
        ends: list[Status] = [_SOAKED[state] for state, _ in seen]
        return _with_cards(make_gate("soak", status, waited_s, facts, seen[0][1]), cards, telemetry, ends)


_SOAKED: Mapping[bool | None, Status] = {True: "reached", False: "timed_out", None: "unavailable"}


def _holds_for_all(states: Sequence[bool | None]) -> bool | None:
    """Return whether every card was throttled; None where that hangs on cards without evidence."""
    return False if False in states else None if None in states else True


def read_lock_back(readers: Readers, step: Callable[[], object], mhz: float, watch: Watch | None = None) -> Gate:
    """Read back under load whether the SM clock of every card is where it was locked; see `soak` for the arguments.

    Returns:
        Gate: `reached`; `timed_out` where a busy clock is elsewhere after three slices of load; `unavailable` where
        a card tells no clock. It is no evidence of throttling: that is judged from the run's own samples.

    """
    cards = list_readers(readers)
    watch = watch or Watch(time.monotonic, lambda: Sampler(cards))
    start_s = watch.clock()
    for _ in range(LOCK_SLICES):
        telemetry = _watch_slice(step, watch.make_sampler())
        ends = [_compare_lock(part, mhz) for part in telemetry.by_card]
        status: Status = next((one for one in ("timed_out", "unavailable") if one in ends), "reached")
        if status == "reached":
            break
    facts = {"target_source": f"SM clock locked at {mhz:.0f} MHz", **_read_end(telemetry)}
    gate = make_gate("clock_lock", status, watch.clock() - start_s, facts, "not read under load")
    return _with_cards(gate, cards, telemetry, ends)


def _compare_lock(columns: Telemetry | CardColumns, mhz: float) -> Status:
    clock_mhz = _middle(columns.sm_clock_mhz)
    if clock_mhz is None:
        return "unavailable"
    return "reached" if abs(clock_mhz - mhz) <= LOCK_WITHIN_SHARE * mhz else "timed_out"


def _read_end(columns: Telemetry | CardColumns) -> dict[str, float | None]:
    """Return a card's temperature at the end of a slice of load, and its busy clock."""
    return {"temperature_c": _last(columns.temperature_c), "sm_clock_mhz": _middle(columns.sm_clock_mhz)}


def _with_cards(gate: Gate, cards: Sequence[GpuReader], telemetry: Telemetry, ends: Sequence[Status]) -> Gate:
    """Add how the gate ended for each card, where there are several."""
    if len(cards) == 1:
        return gate
    parts = zip(cards, telemetry.by_card, ends, strict=True)
    each = [make_card_gate(card.uuid, end, _read_end(columns), "not read under load") for card, columns, end in parts]
    return gate.model_copy(update={"cards": each})


def _watch_slice(step: Callable[[], object], sampler: Sampler) -> Telemetry:
    """Run one slice of load beside a sampler, which is stopped whatever happens."""
    sampler.start()
    try:
        step()
    finally:
        telemetry = sampler.stop()
    return telemetry


def _last(column: Sequence[float | None] | None) -> float | None:
    return next((value for value in reversed(column or []) if value is not None), None)


def _middle(column: Sequence[float | None] | None) -> float | None:
    read = [value for value in column or [] if value is not None]
    return median(read) if read else None
