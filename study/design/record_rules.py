"""What no measurement can say: ranges of quantities, times out of order, requests that contradict themselves.

Plain values in, the contradiction in words out, so that whoever builds or reads a record can ask. The ranges are wide
on purpose: a strange reading is a fact for the analysis to judge; here only the impossible is refused, since it means
that a file was changed or a program is wrong.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated

from pydantic import Field

ABSOLUTE_ZERO_C = -273.15

Amount = Annotated[float, Field(ge=0, le=1e15, allow_inf_nan=False)]
"""A length of time, a clock, power, energy, memory, a share: whatever cannot be below 0."""
Celsius = Annotated[float, Field(ge=ABSOLUTE_ZERO_C, le=1e15, allow_inf_nan=False)]
Change = Annotated[float, Field(ge=-1e15, le=1e15, allow_inf_nan=False)]
"""A difference of two readings: of a counter it is below 0 where the server began anew in between."""
Count = Annotated[int, Field(ge=0, le=2**64)]
Number = Annotated[int, Field(ge=1, le=2**64)]
"""A count of at least one: users, waves, an attempt."""

CLOCK_SLACK_S = 0.05
"""Two readings of one clock by two programs may stand in the other order by this much."""
GAP_ROUNDING_US = 1.0
"""Gaps are kept as whole microseconds."""


@dataclass(frozen=True)
class LoadColumns:
    """What was seen of one load and of its requests, one entry a request; None where a request failed."""

    started_s: float
    ended_s: float
    duration_s: float
    start_s: Sequence[float]
    ttft_s: Sequence[float | None]
    latency_s: Sequence[float | None]
    chunks: Sequence[int]
    witness_us: Mapping[int, Sequence[int]]


def find_disorder(times: Mapping[str, float | None]) -> str | None:
    """Return which of `times`, given in the order in which they come, lies before the one ahead of it; None for none.

    Times that are None (not reached) are passed over.
    """
    known = [(name, value) for name, value in times.items() if value is not None]
    for (before, earlier), (name, later) in pairwise(known):
        if later < earlier:
            return f"'{name}' {later:g} lies before '{before}' {earlier:g}"
    return None


def find_step_back(column: Sequence[float]) -> int | None:
    """Return the place of the first entry that is smaller than the one before it; None where there is none."""
    return next((place for place, (one, two) in enumerate(pairwise(column), 1) if two < one), None)


def find_faults_of_load(seen: LoadColumns) -> list[str]:
    """Return what contradicts itself in a load; of its requests, the first fault of each kind."""
    disorder = find_disorder({"load.started_s": seen.started_s, "load.ended_s": seen.ended_s})
    found = [disorder] if disorder else []
    if not 0.0 <= seen.duration_s <= seen.ended_s - seen.started_s + CLOCK_SLACK_S:
        found.append(f"'load.duration_s' {seen.duration_s:g} is not within 'started_s' to 'ended_s'")
    requests = range(len(seen.start_s))
    outside = (fault for place in requests if (fault := _outside(seen, place)))
    at_odds = (fault for place in requests if (fault := _at_odds(seen.ttft_s[place], seen.latency_s[place])))
    broken = (fault for place in seen.witness_us if (fault := _gaps_at_odds(seen, place)))
    return found + [fault for kind in (outside, at_odds, broken) if (fault := next(kind, None))]


def _outside(seen: LoadColumns, place: int) -> str | None:
    begin_s = seen.start_s[place]
    end_s = begin_s + (seen.latency_s[place] or 0.0)
    if seen.started_s - CLOCK_SLACK_S <= begin_s and end_s <= seen.ended_s + CLOCK_SLACK_S:
        return None
    return f"request {place} lies outside of 'load.started_s' to 'load.ended_s'"


def _at_odds(ttft_s: float | None, latency_s: float | None) -> str | None:
    if (ttft_s is None) != (latency_s is None):
        return "a request has one of 'ttft_s' and 'latency_s' without the other"
    if ttft_s is not None and latency_s is not None and latency_s < ttft_s:
        return f"a request has 'latency_s' {latency_s:g}, shorter than its 'ttft_s' {ttft_s:g}"
    return None


def _gaps_at_odds(seen: LoadColumns, place: int) -> str | None:
    """Hold the gaps that are kept of a request against its times.

    They add up to what lies between its first token and its last: vLLM's benchmark takes all of them from the same
    readings of one clock (`vllm/benchmarks/lib/endpoint_request_func.py`).
    """
    gaps_us = seen.witness_us[place]
    if not 0 <= place < len(seen.start_s):
        return f"'witness_us' has request {place} of {len(seen.start_s)}"
    ttft_s, latency_s = seen.ttft_s[place], seen.latency_s[place]
    if ttft_s is None or latency_s is None:
        return None
    if len(gaps_us) + 1 != seen.chunks[place]:
        return f"request {place} has {len(gaps_us)} gaps in 'witness_us' beside {seen.chunks[place]} 'chunks'"
    if abs(sum(gaps_us) - 1e6 * (latency_s - ttft_s)) <= GAP_ROUNDING_US * (len(gaps_us) + 1):
        return None
    return f"request {place}: its gaps in 'witness_us' do not add up to 'latency_s' - 'ttft_s'"
