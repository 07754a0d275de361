"""Which graph capture serves requests, and which one vLLM threw away.

The V2 runner captures twice with the same words: once while it profiles memory (discarded), once for good. In between
stand `Available KV cache memory` and `KV cache size`. Without those lines, a process that captured twice discarded the
first.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from study.analyze.startup_clock import seconds_between
from study.analyze.startup_patterns import Kind
from study.analyze.startup_starts import Event, Key, StartLog

_RANKS_APART_S = 5.0


@dataclass(frozen=True, slots=True)
class Captures:
    """The capture lines of one start, by what became of the graphs."""

    real: tuple[Event, ...]
    discarded: tuple[Event, ...]


def sort_captures(log: StartLog) -> Captures:
    """Tell the discarded captures of a start from the real ones, process by process."""
    captures = log.events.get(Kind.CAPTURE, [])
    marker = _sizing_marker(log)
    real: list[Event] = []
    discarded: list[Event] = []
    for events in by_process(captures).values():
        early = _early_ones(events, marker, log)
        discarded += early
        real += [event for event in events if event not in early]
    return Captures(tuple(real), tuple(discarded))


def by_process(events: Iterable[Event]) -> dict[Key, list[Event]]:
    """Return the events of each process, each list in log order."""
    groups: dict[Key, list[Event]] = {}
    for event in events:
        groups.setdefault(event.key, []).append(event)
    return groups


def _sizing_marker(log: StartLog) -> Event | None:
    """Return the line after which no capture is discarded: best the engine's own, which waits for all ranks."""
    for kind in (Kind.KV_TOKENS, Kind.KV_BLOCKS, Kind.CONCURRENCY, Kind.KV_MEMORY):
        if events := log.events.get(kind):
            return events[0]
    return None


def _early_ones(events: list[Event], marker: Event | None, log: StartLog) -> list[Event]:
    if marker is None:
        return _early_without_marker(events, log)
    early = [event for event in events if _is_before(event, marker)]
    if not early and len(events) == 2 and _same_second(events[0], marker) and not _same_second(events[1], marker):
        return events[:1]  # another process's line, written before the marker, that arrived behind it
    return early


def _early_without_marker(events: list[Event], log: StartLog) -> list[Event]:
    if len(events) == 1:
        went_on = log.ready or log.has(Kind.INIT_ENGINE, Kind.GRAPH_POOL)
        return events if log.has(Kind.V2_RUNNER) and not went_on else []
    if events[0].key[2] is not None:
        return events[:-1]
    last = events[-1]
    return [event for event in events if _seconds_apart(event, last) > _RANKS_APART_S]


def _is_before(event: Event, marker: Event) -> bool:
    if event.stamp is None or marker.stamp is None:
        return event.order < marker.order
    gap_s = seconds_between(event.stamp, marker.stamp)
    return gap_s > 0 or (gap_s == 0 and event.order < marker.order)


def _same_second(event: Event, other: Event) -> bool:
    return event.stamp is not None and event.stamp == other.stamp


def _seconds_apart(event: Event, later: Event) -> float:
    if event.stamp is None or later.stamp is None:
        return 0.0
    return seconds_between(event.stamp, later.stamp)
