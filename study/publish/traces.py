"""What the figures of single runs are drawn from, as frames: samples of the card within loads, times of requests."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from study.analyze.run_digest import RunDigest
from study.analyze.run_traces import CARD_COLUMNS, POINT_COLUMNS, QUANTILES, RunTrace, WholeLoad, trace_run
from study.records import RunRecord

Run = RunRecord | RunDigest
_RUN_COLUMNS = ("run_id", "level", "users")


@dataclass(frozen=True)
class CardTraces:
    """The card over the time of runs.

    Attributes:
        samples: one row a point: `run_id`, `level`, `users`, `share` (of the load's length, 0 to 1), `mhz`,
            `temperature_c`, `power_w` (each NaN where not read), and the share of the point's samples that are `slowed`
            (heat, power brake or HW slowdown) and `capped` (software power cap), NaN where no reasons were read.
        why_missing: column of `CARD_COLUMNS` to why runs have none of it, the most common reason; without it, all have.
        least_s, greatest_s: lengths of the loads.
        whole: run to what all its samples say.

    """

    samples: pd.DataFrame
    why_missing: dict[str, str]
    least_s: float
    greatest_s: float
    whole: dict[str, WholeLoad]


def trace_card(runs: Iterable[Run]) -> CardTraces:
    """Return clock, temperature and power within the loads of `runs`, each run thinned to at most `MOST_POINTS`."""
    traced = [(run, _trace_of(run)) for run in runs]
    reasons: dict[str, Counter[str]] = {name: Counter() for name in CARD_COLUMNS}
    for _, trace in traced:
        for name, reason in trace.missing.items():
            reasons[name][reason] += 1
    seen = [(run, trace, trace.points.shape[1]) for run, trace in traced if trace.duration_s is not None]
    samples = _repeat([run for run, _, _ in seen], [points for _, _, points in seen])
    for place, name in enumerate(POINT_COLUMNS):
        samples[name] = np.concatenate([trace.points[place] for _, trace, _ in seen]) if seen else None
    why = {name: counter.most_common(1)[0][0] for name, counter in reasons.items() if counter}
    lengths_s = [trace.duration_s for _, trace, _ in seen if trace.duration_s is not None]
    whole = {run.run_id: trace.whole for run, trace, _ in seen}
    return CardTraces(samples, why, min(lengths_s, default=0.0), max(lengths_s, default=0.0), whole)


def spread_requests(runs: Iterable[Run]) -> pd.DataFrame:
    """Return the distribution of TPOT over each run's requests, as quantiles.

    One row a quantile: `run_id`, `level`, `users`, `requests` (how many), `percent` (0 to 100) and `tpot_ms`.
    """
    seen = [(run, trace) for run in runs if (trace := _trace_of(run)).tpot_ms.size]
    frame = _repeat([run for run, _ in seen], [QUANTILES] * len(seen))
    frame["requests"] = np.repeat([trace.requests for _, trace in seen], QUANTILES) if seen else None
    frame["percent"] = np.tile(np.linspace(0.0, 100.0, QUANTILES), len(seen))
    frame["tpot_ms"] = np.concatenate([trace.tpot_ms for _, trace in seen]) if seen else None
    return frame


def _trace_of(run: Run) -> RunTrace:
    return run.trace if isinstance(run, RunDigest) else trace_run(run)


def _repeat(runs: Sequence[Run], rows: Sequence[int]) -> pd.DataFrame:
    """Return a frame that names each run in so many rows."""
    columns = {name: [getattr(run, name) for run in runs] for name in _RUN_COLUMNS}
    frame = pd.DataFrame(columns, columns=list(_RUN_COLUMNS))
    return frame.loc[np.repeat(np.arange(len(runs)), rows)].reset_index(drop=True)
