"""Thermal conditions of a card, each with its evidence: cooled, as found, at rest; under load see `thermal_load`.

Nothing here sets anything on the card. Every wait has a deadline, and a card that tells no temperature gives a gate
that is `unavailable`, not one that passed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import mean, median
from typing import Literal, NamedTuple

from study.design.card_facts import CardGate
from study.measure.gpu import GpuReader, GpuSample
from study.measure.telemetry import NO_GPU
from study.records import Gate

POLL_S = 0.5
SILENT_READINGS = 5
"""Readings in a row without a temperature after which a wait gives up: the card tells none."""
SETTLED_OVER_S = 10.0
SETTLED_WITHIN_C = 1.0
SETTLE_DEADLINE_S = 60.0
REST_S = 5.0
"""Length of the power reading at rest; NVML averages power over 1 s, and the energy counter moves in steps."""

Clock = Callable[[], float]
Sleep = Callable[[float], object]
Kind = Literal["cooled", "soak", "as_found", "clock_lock"]
Status = Literal["reached", "timed_out", "unavailable"]


class IdleReading(NamedTuple):
    """The card at rest; what is None has its reason, by field name of the launch record."""

    idle_c: float | None
    idle_power_w: float | None
    missing: dict[str, str]


def wait_until_cool(reader: GpuReader | None, target_c: float, deadline_s: float, clock: Clock, sleep: Sleep) -> Gate:
    """Wait until the card is at or below `target_c` (degC), for at most `deadline_s`.

    Returns:
        Gate: `reached`, `timed_out` with the last temperature, or `unavailable` where the card tells none.

    """
    start_s = clock()
    temperature_c: float | None = None
    silent = 0
    while True:
        read_c = reader.read().temperature_c if reader else None
        waited_s = clock() - start_s
        temperature_c, silent = (temperature_c, silent + 1) if read_c is None else (read_c, 0)
        if read_c is not None and read_c <= target_c:
            status: Status = "reached"
        elif reader is None or silent >= SILENT_READINGS:
            status, temperature_c = "unavailable", None
        elif waited_s >= deadline_s:
            status = "timed_out"
        else:
            sleep(min(POLL_S, deadline_s - waited_s))
            continue
        facts = {"target_c": target_c, "temperature_c": temperature_c}
        return make_gate("cooled", status, waited_s, facts, why_no_temperature(reader))


def as_found(reader: GpuReader | None, clock: Clock = time.monotonic) -> Gate:
    """Change nothing; record the temperature that the card happens to have."""
    start_s = clock()
    temperature_c = reader.read().temperature_c if reader else None
    status: Status = "unavailable" if temperature_c is None else "reached"
    facts = {"temperature_c": temperature_c}
    return make_gate("as_found", status, clock() - start_s, facts, why_no_temperature(reader))


def measure_idle(reader: GpuReader | None, clock: Clock, sleep: Sleep, settle: bool = True) -> IdleReading:
    """Read temperature (degC) and power (W) at rest, with the server loaded and no request in flight.

    Args:
        reader: of the card; None on a machine without one.
        clock: monotonic, s.
        sleep: sleeps for so many s.
        settle: first wait until the temperature stopped falling (by less than 1 degC over 10 s), at most 60 s.

    Power is the energy counter's growth over 5 s where the card has one, else the mean of NVML's power readings.

    """
    if reader is None:
        return IdleReading(None, None, dict.fromkeys(("idle_c", "idle_power_w"), NO_GPU))
    return measure_all_idle((reader,), clock, sleep, settle)[0]


def measure_all_idle(
    readers: Sequence[GpuReader], clock: Clock, sleep: Sleep, settle: bool = True
) -> list[IdleReading]:
    """Do what `measure_idle` does for several cards: they settle together and are read over the same seconds."""
    for reader in readers if settle else ():
        _wait_until_settled(reader, clock, sleep)
    rest = _read_for(readers, REST_S, clock, sleep)
    return [_read_idle(reader, seen) for reader, seen in zip(readers, rest, strict=True)]


def _read_idle(reader: GpuReader, rest: list[tuple[float, GpuSample]]) -> IdleReading:
    read_c = [sample.temperature_c for _, sample in rest if sample.temperature_c is not None]
    idle_c, idle_power_w = median(read_c) if read_c else None, _power_at_rest_w(rest)
    reasons = {"idle_c": why_no_temperature(reader), "idle_power_w": reader.field_errors.get("power_w", "no reading")}
    values = {"idle_c": idle_c, "idle_power_w": idle_power_w}
    return IdleReading(idle_c, idle_power_w, {name: reasons[name] for name, value in values.items() if value is None})


def make_card_gate(uuid: str, status: Status, facts: Mapping[str, float | None], why: str) -> CardGate:
    """Return how a gate ended for one card of several; `why` explains what is null and should be there."""
    values = {name: facts.get(name) for name in ("target_c", "temperature_c", "sm_clock_mhz")}
    missing = {name: why if name in facts else "not part of this gate" for name, one in values.items() if one is None}
    return CardGate.model_validate({"gpu_uuid": uuid, "status": status, "missing": missing, **values})


def make_gate(kind: Kind, status: Status, waited_s: float, facts: Mapping[str, float | str | None], why: str) -> Gate:
    """Return a gate; `why` explains a temperature or clock that should be there and is not."""
    names = ("target_c", "target_source", "temperature_c", "sm_clock_mhz")
    values = {name: facts.get(name) for name in names}
    reasons = {
        "target_c": f"a gate of kind {kind} has no target temperature",
        "target_source": "not stated" if kind == "cooled" else f"a gate of kind {kind} has no target",
        "temperature_c": why,
        "sm_clock_mhz": why if kind in ("soak", "clock_lock") else "read at the end of a soak alone",
    }
    missing = {name: reasons[name] for name in names if values[name] is None}
    return Gate.model_validate({"kind": kind, "status": status, "waited_s": waited_s, "missing": missing, **values})


def why_no_temperature(reader: GpuReader | None) -> str:
    """Return why a card's temperature is null."""
    return reader.field_errors.get("temperature_c", "no reading") if reader else NO_GPU


def _wait_until_settled(reader: GpuReader, clock: Clock, sleep: Sleep) -> None:
    """Wait until the card has not got cooler by a degree within ten seconds; give up after a minute."""
    start_s = clock()
    seen: list[tuple[float, float]] = []
    while (waited_s := clock() - start_s) < SETTLE_DEADLINE_S:
        temperature_c = reader.read().temperature_c
        if temperature_c is None and waited_s >= SETTLED_OVER_S:
            return
        if temperature_c is not None:
            seen.append((waited_s, temperature_c))
            before = [old_c for old_s, old_c in seen if old_s <= waited_s - SETTLED_OVER_S]
            if before and before[-1] - temperature_c < SETTLED_WITHIN_C:
                return
        sleep(POLL_S)


def _read_for(
    readers: Sequence[GpuReader], length_s: float, clock: Clock, sleep: Sleep
) -> list[list[tuple[float, GpuSample]]]:
    """Read the cards over `length_s`, both ends included; returns times (s) and samples of each."""
    start_s = clock()
    seen = [[(clock(), reader.read())] for reader in readers]
    while clock() - start_s < length_s:
        sleep(POLL_S)
        for rows, reader in zip(seen, readers, strict=True):
            rows.append((clock(), reader.read()))
    return seen


def _power_at_rest_w(rest: list[tuple[float, GpuSample]]) -> float | None:
    """Return the mean power, W: from the energy counter if it moved, else from NVML's power."""
    counted = [(t_s, sample.energy_j) for t_s, sample in rest if sample.energy_j is not None]
    if len(counted) > 1:
        (first_s, first_j), (last_s, last_j) = counted[0], counted[-1]
        if last_j > first_j and last_s > first_s:
            return (last_j - first_j) / (last_s - first_s)
    read_w = [sample.power_w for _, sample in rest if sample.power_w is not None]
    return mean(read_w) if read_w else None
