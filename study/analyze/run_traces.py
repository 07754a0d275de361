"""What figures draw of single runs: times of requests as quantiles, samples of the card within the load, thinned."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from study.analyze.array_text import FloatColumns
from study.analyze.load_window import FloatArray, LoadWindow, Missing, find_window
from study.analyze.runs import request_columns
from study.design.clock_events import SW_POWER_CAP, THERMAL_OR_BRAKE
from study.records import RunRecord

MOST_POINTS = 80
"""Of one run's line: a panel is 150 px wide, and a study has hundreds of runs."""
QUANTILES = 51
"""Points of one run's distribution; the middle one is the median."""
CARD_COLUMNS = {"mhz": "sm_clock_mhz", "temperature_c": "temperature_c", "power_w": "power_w"}
"""Column of the traces to column of the telemetry."""
REASONS = {"slowed": THERMAL_OR_BRAKE, "capped": SW_POWER_CAP}
POINT_COLUMNS = ("share", *CARD_COLUMNS, *REASONS)


@dataclass(frozen=True)
class WholeLoad:
    """What all samples of one load say of the card; None where they do not tell.

    Attributes:
        median_mhz: median SM clock.
        temperature_c, power_w: the least and the greatest.
        reasons: samples whose event reasons were read.
        held: by name of `REASONS`, in how many of these a reason held the clock down.

    """

    median_mhz: float | None = None
    temperature_c: tuple[float, float] | None = None
    power_w: tuple[float, float] | None = None
    reasons: int = 0
    held: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class RunTrace:
    """What is drawn of one run.

    Attributes:
        requests: requests with a TPOT.
        tpot_ms: (`QUANTILES`,) of their TPOT, ms; empty without one.
        points: (`POINT_COLUMNS`, points) of the card within the load; without a point where no sample lies in it.
        missing: column of `CARD_COLUMNS` that was not read to why.
        duration_s: of the load; None where no sample lies in it.
        whole: of all samples in the load, of which `points` are fewer.

    """

    requests: int
    tpot_ms: FloatColumns
    points: FloatColumns
    missing: Mapping[str, str]
    duration_s: float | None
    whole: WholeLoad


def trace_run(run: RunRecord) -> RunTrace:
    """Return what is drawn of one run: clock, temperature and power at `MOST_POINTS` times at most, and its TPOT."""
    tpot_ms = request_tpot_ms(run)
    percents = np.linspace(0.0, 100.0, QUANTILES)
    quantiles: FloatArray = tpot_ms
    if tpot_ms.size:
        quantiles = np.percentile(tpot_ms, percents).astype(np.float64)
    window = find_window(run)
    if isinstance(window, Missing):
        nothing = np.empty((len(POINT_COLUMNS), 0))
        unread = dict.fromkeys(CARD_COLUMNS, window.reason)
        return RunTrace(tpot_ms.size, quantiles, nothing, unread, None, WholeLoad())
    columns = {name: window.column(column) for name, column in CARD_COLUMNS.items()}
    missing = {name: values.reason for name, values in columns.items() if isinstance(values, Missing)}
    read = {name: values for name, values in columns.items() if not isinstance(values, Missing)}
    whole = _sum_up(window, read)
    return RunTrace(tpot_ms.size, quantiles, _thin(window, read), missing, window.duration_s, whole)


def _sum_up(window: LoadWindow, read: Mapping[str, FloatArray]) -> WholeLoad:
    ends = {name: (float(np.nanmin(row)), float(np.nanmax(row))) for name, row in read.items()}
    masks = [mask for mask in window.masks() if mask is not None]
    return WholeLoad(
        median_mhz=float(np.nanmedian(read["mhz"])) if "mhz" in read else None,
        temperature_c=ends.get("temperature_c"),
        power_w=ends.get("power_w"),
        reasons=len(masks),
        held={name: sum(bool(mask & bits) for mask in masks) for name, bits in REASONS.items()},
    )


def request_tpot_ms(run: RunRecord) -> NDArray[np.float64]:
    """Return the TPOT (requests,) in ms of a run's successful requests of two tokens or more; empty without a load."""
    if run.load is None:
        return np.array([], dtype=np.float64)
    columns = request_columns(run.load.requests)
    timed = columns.success & (columns.output_tokens >= 2.0) & (columns.latency_s > columns.ttft_s)
    spent_s = columns.latency_s[timed] - columns.ttft_s[timed]
    tpot_ms: NDArray[np.float64] = 1e3 * spent_s / (columns.output_tokens[timed] - 1.0)
    return tpot_ms


def _thin(window: LoadWindow, read: Mapping[str, FloatArray]) -> FloatArray:
    """Return a run's points (`POINT_COLUMNS`, points): medians of equally many samples each, shares of reasons."""
    samples = window.t_s.size
    unread = np.full(samples, np.nan)
    masks = window.masks() or [None] * samples
    rows = [(window.t_s - window.started_s) / window.duration_s, *(read.get(name, unread) for name in CARD_COLUMNS)]
    given = [[math.nan if mask is None else float(bool(mask & bits)) for mask in masks] for bits in REASONS.values()]
    together = math.ceil(samples / MOST_POINTS)
    medians = [_median_of_groups(row, together) for row in rows]
    shares = [_mean_of_groups(np.array(row), together) for row in given]
    return np.array([*medians, *shares])


def _in_groups(row: FloatArray, together: int) -> FloatArray:
    """Return a row as (groups, together), the last group filled up with NaN."""
    filled = np.full(-(-row.size // together) * together, np.nan)
    filled[: row.size] = row
    return filled.reshape(-1, together)


def _median_of_groups(row: FloatArray, together: int) -> FloatArray:
    """Return the medians (groups,) of the values that are no NaN; NaN for a group without one."""
    groups = np.sort(_in_groups(row, together), axis=1)
    known = np.isfinite(groups).sum(axis=1)
    at = np.arange(len(groups))
    middle: FloatArray = (groups[at, np.maximum(known - 1, 0) // 2] + groups[at, known // 2]) / 2
    return middle


def _mean_of_groups(row: FloatArray, together: int) -> FloatArray:
    """Return the means (groups,), likewise."""
    groups = _in_groups(row, together)
    known = np.isfinite(groups).sum(axis=1)
    sums = np.where(np.isnan(groups), 0.0, groups).sum(axis=1)
    means: FloatArray = np.divide(sums, known, out=np.full(len(groups), np.nan), where=known > 0)
    return means
