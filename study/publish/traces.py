"""What the figures of single runs are drawn from: samples of the card within loads, thinned, and times of requests."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from study.analyze.load_window import LoadWindow, Missing, find_window
from study.analyze.runs import request_columns
from study.design.clock_events import SW_POWER_CAP, THERMAL_OR_BRAKE
from study.records import RunRecord

MOST_POINTS = 80
"""Of one run's line: a panel is 150 px wide, and a study has hundreds of runs."""
QUANTILES = 51
"""Points of one run's distribution; the middle one is the median."""
CARD_COLUMNS = {"mhz": "sm_clock_mhz", "temperature_c": "temperature_c", "power_w": "power_w"}
"""Column of the traces to column of the telemetry."""
_REASONS = {"slowed": THERMAL_OR_BRAKE, "capped": SW_POWER_CAP}
_SAMPLE_COLUMNS = ("run_id", "level", "users", "share", *CARD_COLUMNS, *_REASONS)


@dataclass(frozen=True)
class CardTraces:
    """The card over the time of runs.

    Attributes:
        samples: one row a point: `run_id`, `level`, `users`, `share` (of the load's length, 0 to 1), `mhz`,
            `temperature_c`, `power_w` (each NaN where not read), and the share of the point's samples that are `slowed`
            (heat, power brake or HW slowdown) and `capped` (software power cap), NaN where no reasons were read.
        why_missing: column of `CARD_COLUMNS` to why runs have none of it, the most common reason; without it, all have.
        least_s, greatest_s: lengths of the loads.

    """

    samples: pd.DataFrame
    why_missing: dict[str, str]
    least_s: float
    greatest_s: float


def trace_card(runs: Iterable[RunRecord]) -> CardTraces:
    """Return clock, temperature and power within the loads of `runs`, each run thinned to at most `MOST_POINTS`."""
    parts: list[pd.DataFrame] = []
    reasons: dict[str, Counter[str]] = {name: Counter() for name in CARD_COLUMNS}
    lengths_s = []
    for run in runs:
        window = find_window(run)
        if isinstance(window, Missing):
            for counter in reasons.values():
                counter[window.reason] += 1
            continue
        lengths_s.append(window.duration_s)
        for name, column in CARD_COLUMNS.items():
            values = window.column(column)
            if isinstance(values, Missing):
                reasons[name][values.reason] += 1
        parts.append(_thin(run, window))
    columns = list(_SAMPLE_COLUMNS)
    samples = pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
    why = {name: counter.most_common(1)[0][0] for name, counter in reasons.items() if counter}
    return CardTraces(samples, why, min(lengths_s, default=0.0), max(lengths_s, default=0.0))


def _thin(run: RunRecord, window: LoadWindow) -> pd.DataFrame:
    """Return one run's points: medians of equally many samples each."""
    frame = pd.DataFrame({"share": (window.t_s - window.started_s) / window.duration_s})
    for name, column in CARD_COLUMNS.items():
        values = window.column(column)
        frame[name] = np.nan if isinstance(values, Missing) else values
    masks = window.masks() or [None] * len(frame)
    for name, bits in _REASONS.items():
        frame[name] = [math.nan if mask is None else float(bool(mask & bits)) for mask in masks]
    groups = np.arange(len(frame)) // math.ceil(len(frame) / MOST_POINTS)
    grouped = frame.groupby(groups)
    thinned = grouped[["share", *CARD_COLUMNS]].median().join(grouped[list(_REASONS)].mean())
    return thinned.assign(run_id=run.run_id, level=run.level, users=run.users)


def request_tpot_ms(run: RunRecord) -> NDArray[np.float64]:
    """Return the TPOT (requests,) in ms of a run's successful requests of two tokens or more; empty without a load."""
    if run.load is None:
        return np.array([], dtype=np.float64)
    columns = request_columns(run.load.requests)
    timed = columns.success & (columns.output_tokens >= 2.0) & (columns.latency_s > columns.ttft_s)
    spent_s = columns.latency_s[timed] - columns.ttft_s[timed]
    tpot_ms: NDArray[np.float64] = 1e3 * spent_s / (columns.output_tokens[timed] - 1.0)
    return tpot_ms


def spread_requests(runs: Iterable[RunRecord]) -> pd.DataFrame:
    """Return the distribution of TPOT over each run's requests, as quantiles.

    One row a quantile: `run_id`, `level`, `users`, `requests` (how many), `percent` (0 to 100) and `tpot_ms`.
    """
    percents = np.linspace(0.0, 100.0, QUANTILES)
    parts = []
    for run in runs:
        tpot_ms = request_tpot_ms(run)
        if tpot_ms.size:
            frame = pd.DataFrame({"percent": percents, "tpot_ms": np.percentile(tpot_ms, percents)})
            parts.append(frame.assign(run_id=run.run_id, level=run.level, users=run.users, requests=tpot_ms.size))
    columns = ["run_id", "level", "users", "requests", "percent", "tpot_ms"]
    return pd.concat(parts, ignore_index=True)[columns] if parts else pd.DataFrame(columns=columns)
