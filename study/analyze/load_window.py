"""What telemetry says of one load: medians, power, energy, event reasons, in the load's own window.

    telemetry   . . . . . . . . . . . . . . . . . . . .
    benchmark   |started_s                   ended_s|  reads prompts first: the card idles for 0.5 s to more than 1 s
    requests        |first is sent      last ends|
    window           . . . . . . . . . . . . . . .     clock, temperature, host, event reasons, energy
    power                  . . . . . . . . . . . .     NVML averages power over 1 s, so the first second is dropped

*Busy* is taken from this window alone: a card with a loaded server can idle at its highest clock. A figure that cannot
be taken is a `Missing` with its reason, never 0.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from study.design.card_facts import CardColumns
from study.design.clock_events import SW_POWER_CAP, counter_growth_ns, decode_event_reasons
from study.records import RunRecord, Telemetry

POWER_SETTLES_S = 1.0
LEAST_CROSS_CHECK_S = 10.0
"""Runs below this are too short to set the energy counter against the averaged power."""

FloatArray = NDArray[np.float64]


@dataclass(frozen=True)
class Missing:
    """A figure that could not be taken, and why."""

    reason: str


Figure = float | Missing


@dataclass(frozen=True)
class LoadWindow:
    """The samples of one card taken while requests were in flight: times, and which of the telemetry's rows they are.

    Attributes:
        telemetry: of the run, or one card's columns of it.
        t_s: (samples,) times, s.
        rows: (samples,) places in the telemetry's columns.
        started_s: the first request was sent, s on the clock of `t_s`.
        duration_s: until the last one ended, as vLLM's benchmark counts it, s.

    """

    telemetry: Telemetry | CardColumns
    t_s: FloatArray
    rows: NDArray[np.intp]
    started_s: float
    duration_s: float

    def column(self, name: str) -> FloatArray | Missing:
        """Return one column (samples,), NaN where a sample has no value; Missing where no sample has one."""
        cells: Sequence[float | int | None] | None = getattr(self.telemetry, name)
        if cells is None:
            return Missing(self.telemetry.missing[name])
        values = np.array(cells, dtype=np.float64)[self.rows]
        if np.isnan(values).all():
            return Missing(self.telemetry.field_errors.get(name, f"no sample of the load has {name}"))
        return values

    def masks(self) -> list[int | None]:
        """Return the event reasons of the window's samples; empty where they were never read."""
        column = self.telemetry.event_reasons
        return [] if column is None else [column[row] for row in self.rows]


def find_window(run: RunRecord) -> LoadWindow | Missing:
    """Return the samples from the first request of the run's load to the end of the last."""
    if run.load is None:
        return Missing(run.missing["load"])
    if run.telemetry is None:
        return Missing(run.missing["telemetry"])
    t_s = np.array(run.telemetry.t_s, dtype=np.float64)
    started_s = min(run.load.requests.start_s, default=run.load.started_s)
    rows = np.flatnonzero((t_s >= started_s) & (t_s <= started_s + run.load.duration_s))
    if not rows.size:
        return Missing("no telemetry sample lies within the load")
    return LoadWindow(run.telemetry, t_s[rows], rows, started_s, run.load.duration_s)


def reduce_column(window: LoadWindow, name: str, reduce: Callable[[FloatArray], "np.floating"]) -> Figure:
    """Return one figure of a column's values, such as their median."""
    values = window.column(name)
    return values if isinstance(values, Missing) else float(reduce(values[~np.isnan(values)]))


def mean_power_w(window: LoadWindow) -> Figure:
    """Return the mean NVML power over the load without its first second, in W."""
    values = window.column("power_w")
    if isinstance(values, Missing):
        return values
    settled = values[(window.t_s >= window.started_s + POWER_SETTLES_S) & ~np.isnan(values)]
    if not settled.size:
        return Missing(f"no power sample after the load's first {POWER_SETTLES_S:g} s, in which NVML's average settles")
    return float(settled.mean())


def counter_power_w(window: LoadWindow, after_s: float = 0.0) -> Figure:
    """Return the energy counter's growth over time, in W, between the first and the last sample after `after_s`."""
    values = window.column("energy_j")
    if isinstance(values, Missing):
        return values
    read = np.flatnonzero((window.t_s >= window.started_s + after_s) & ~np.isnan(values))
    if read.size < 2:
        return Missing("fewer than two samples of the energy counter within the load")
    energy_j, t_s = values[read], window.t_s[read]
    if bool((np.diff(energy_j) < 0).any()):
        return Missing("the energy counter went back during the load")
    if energy_j[-1] == energy_j[0]:
        return Missing("the energy counter stood still during the load")
    return float((energy_j[-1] - energy_j[0]) / (t_s[-1] - t_s[0]))


def energy_check(window: LoadWindow) -> Figure:
    """Return energy by the counter over energy by mean power x time; 1 where they agree."""
    by_counter, by_power = counter_power_w(window, POWER_SETTLES_S), mean_power_w(window)
    if isinstance(by_counter, Missing):
        return by_counter
    if isinstance(by_power, Missing):
        return by_power
    if window.duration_s < LEAST_CROSS_CHECK_S:
        return Missing(f"the load is shorter than {LEAST_CROSS_CHECK_S:g} s")
    return by_counter / by_power if by_power > 0 else Missing("mean power is 0")


def event_shares(window: LoadWindow) -> dict[str, float] | Missing:
    """Return, for each event reason seen, the share of samples that give it (0 to 1), by name."""
    read = [mask for mask in window.masks() if mask is not None]
    if not read:
        return Missing(window.telemetry.missing.get("event_reasons", "no sample of the load has event reasons"))
    counts: Counter[str] = Counter()
    for mask, count in Counter(read).items():
        counts.update(dict.fromkeys(decode_event_reasons(mask), count))
    return {name: counts[name] / len(read) for name in sorted(counts)}


def power_capped_s(window: LoadWindow) -> Figure:
    """Return for how long the software power cap held the clock down, in s.

    From the counter where the card keeps one; else from the share of samples that give the reason.
    """
    telemetry = window.telemetry
    grown = counter_growth_ns(telemetry.throttle_before_ns, telemetry.throttle_after_ns).get("sw_power_cap")
    if grown is not None:
        return grown / 1e9
    read = [mask for mask in window.masks() if mask is not None]
    if not read:
        return Missing("neither the power cap's counter nor event reasons were read")
    return window.duration_s * sum(bool(mask & SW_POWER_CAP) for mask in read) / len(read)
