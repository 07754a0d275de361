"""Thermal conditions of a card, each with its evidence: cooled, soaked, as found, at rest.

Nothing here sets anything on the card. Every wait has a deadline, and a card that tells no temperature gives a gate
that is `unavailable`, not one that passed.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, median
from typing import Literal, NamedTuple

from study.design.clock_events import BusyWindow, ThrottleRule, judge_throttled
from study.measure.gpu import GpuReader, GpuSample
from study.measure.telemetry import NO_GPU, Sampler
from study.records import Gate, Telemetry

POLL_S = 0.5
SILENT_READINGS = 5
"""Readings in a row without a temperature after which a wait gives up: the card tells none."""
SETTLED_OVER_S = 10.0
SETTLED_WITHIN_C = 1.0
SETTLE_DEADLINE_S = 60.0
REST_S = 5.0
"""Length of the power reading at rest; NVML averages power over 1 s, and the energy counter moves in steps."""
BLIND_SLICES = 3
"""Slices of load in a row without evidence for or against throttling after which a soak gives up."""
LOCK_SLICES = 3
LOCK_WITHIN_SHARE = 0.05
"""A busy clock this near to the locked one has obeyed: NVML takes the nearest step that the card has."""

Clock = Callable[[], float]
Sleep = Callable[[float], object]
Kind = Literal["cooled", "soak", "as_found", "clock_lock"]
Status = Literal["reached", "timed_out", "unavailable"]


class IdleReading(NamedTuple):
    """The card at rest; what is None has its reason, by field name of the launch record."""

    idle_c: float | None
    idle_power_w: float | None
    missing: dict[str, str]


@dataclass(frozen=True)
class Watch:
    """What a soak is watched with: a clock, and a fresh sampler for each slice of load."""

    clock: Clock
    make_sampler: Callable[[], Sampler]


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
        return _make_gate("cooled", status, waited_s, facts, _why_no_temperature(reader))


def as_found(reader: GpuReader | None, clock: Clock = time.monotonic) -> Gate:
    """Change nothing; record the temperature that the card happens to have."""
    start_s = clock()
    temperature_c = reader.read().temperature_c if reader else None
    status: Status = "unavailable" if temperature_c is None else "reached"
    facts = {"temperature_c": temperature_c}
    return _make_gate("as_found", status, clock() - start_s, facts, _why_no_temperature(reader))


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
    if settle:
        _wait_until_settled(reader, clock, sleep)
    rest = _read_for(reader, REST_S, clock, sleep)
    read_c = [sample.temperature_c for _, sample in rest if sample.temperature_c is not None]
    idle_c, idle_power_w = median(read_c) if read_c else None, _power_at_rest_w(rest)
    reasons = {"idle_c": _why_no_temperature(reader), "idle_power_w": reader.field_errors.get("power_w", "no reading")}
    values = {"idle_c": idle_c, "idle_power_w": idle_power_w}
    return IdleReading(idle_c, idle_power_w, {name: reasons[name] for name, value in values.items() if value is None})


def is_throttled(
    samples: Sequence[GpuSample] | Telemetry, max_sm_clock_mhz: float | None, below_share: float
) -> tuple[bool | None, str]:
    """Say whether the card was throttled in samples taken while it was busy, and on what evidence.

    See `judge_throttled`; a telemetry record brings its throttle counters too.
    """
    if isinstance(samples, Telemetry):
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
    reader: GpuReader | None,
    step: Callable[[], object],
    deadline_s: float,
    below_share: float = 0.35,
    watch: Watch | None = None,
) -> Gate:
    """Keep the card under load until it is throttled, for at most `deadline_s`.

    Args:
        reader: of the card.
        step: runs one slice of load, best some seconds long, and returns when it is over; its errors pass through.
        deadline_s: no further slice begins after it, s.
        below_share: of the highest SM clock; see `ThrottleRule`.
        watch: by default this machine's clock and sampler. Samples are taken while a slice runs, and only then: a
            card at rest drops its reasons at once.

    Returns:
        Gate: `reached` or `timed_out`, with temperature and median busy SM clock of the last slice; `unavailable`
        where the card gives no evidence for or against.

    """
    if reader is None:
        return _make_gate("soak", "unavailable", 0.0, {}, NO_GPU)
    watch = watch or Watch(time.monotonic, lambda: Sampler(reader))
    start_s, max_mhz, blind = watch.clock(), reader.identity().max_sm_clock_mhz, 0
    while True:
        telemetry = _watch_slice(step, watch.make_sampler())
        throttled, evidence = is_throttled(telemetry, max_mhz, below_share)
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
        facts = {
            "target_source": f"thermal, power-brake or HW-slowdown reason, or SM clock below {below_share:.0%}",
            "temperature_c": _last(telemetry.temperature_c),
            "sm_clock_mhz": _middle(telemetry.sm_clock_mhz),
        }
        return _make_gate("soak", status, waited_s, facts, evidence)


def read_lock_back(
    reader: GpuReader, step: Callable[[], object], mhz: float, watch: Watch | None = None
) -> Gate:
    """Read back under load whether the SM clock is where it was locked; see `soak` for `step` and `watch`.

    Returns:
        Gate: `reached`; `timed_out` where the busy clock is elsewhere after three slices of load; `unavailable` where
        the card tells no clock. It is no evidence of throttling: that is judged from the run's own samples.

    """
    watch = watch or Watch(time.monotonic, lambda: Sampler(reader))
    start_s, clock_mhz = watch.clock(), None
    status: Status = "unavailable"
    telemetry = None
    for _ in range(LOCK_SLICES):
        telemetry = _watch_slice(step, watch.make_sampler())
        clock_mhz = _middle(telemetry.sm_clock_mhz)
        if clock_mhz is None:
            continue
        status = "reached" if abs(clock_mhz - mhz) <= LOCK_WITHIN_SHARE * mhz else "timed_out"
        if status == "reached":
            break
    facts = {
        "target_source": f"SM clock locked at {mhz:.0f} MHz",
        "temperature_c": _last(telemetry.temperature_c) if telemetry else None,
        "sm_clock_mhz": clock_mhz,
    }
    return _make_gate("clock_lock", status, watch.clock() - start_s, facts, "not read under load")


def _watch_slice(step: Callable[[], object], sampler: Sampler) -> Telemetry:
    """Run one slice of load beside a sampler, which is stopped whatever happens."""
    sampler.start()
    try:
        step()
    finally:
        telemetry = sampler.stop()
    return telemetry


def _make_gate(kind: Kind, status: Status, waited_s: float, facts: Mapping[str, float | str | None], why: str) -> Gate:
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


def _why_no_temperature(reader: GpuReader | None) -> str:
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


def _read_for(reader: GpuReader, length_s: float, clock: Clock, sleep: Sleep) -> list[tuple[float, GpuSample]]:
    """Read the card over `length_s`, both ends included; returns times (s) and samples."""
    start_s = clock()
    seen = [(start_s, reader.read())]
    while clock() - start_s < length_s:
        sleep(POLL_S)
        seen.append((clock(), reader.read()))
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


def _last(column: Sequence[float | None] | None) -> float | None:
    return next((value for value in reversed(column or []) if value is not None), None)


def _middle(column: Sequence[float | None] | None) -> float | None:
    read = [value for value in column or [] if value is not None]
    return median(read) if read else None
