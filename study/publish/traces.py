"""Clock samples within loads, thinned for a figure."""

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from study.analyze.load_window import Missing, find_window
from study.records import RunRecord

MOST_POINTS = 80
"""Of one run's line: a panel is 250 px wide, and a study has hundreds of runs."""


@dataclass(frozen=True)
class ClockTraces:
    """SM clock over time.

    Attributes:
        samples: one row a point: `run_id`, `level`, `users`, `t_s` (since the load began), `mhz`.
        why_missing: why runs have no clock, the most common reason first; empty where all have one.
        bin_text: how samples were thinned, in words.

    """

    samples: pd.DataFrame
    why_missing: str
    bin_text: str


def trace_clocks(runs: Iterable[RunRecord]) -> ClockTraces:
    """Return the SM clock within the loads of `runs`, each thinned to at most `MOST_POINTS` medians."""
    rows: list[tuple[str, str, int, float, float]] = []
    reasons: Counter[str] = Counter()
    widest_s = 0.0
    for run in runs:
        window = find_window(run)
        values = window if isinstance(window, Missing) else window.column("sm_clock_mhz")
        if isinstance(values, Missing) or isinstance(window, Missing):
            reasons[values.reason if isinstance(values, Missing) else "no window"] += 1
            continue
        read = ~np.isnan(values)
        t_s, mhz = window.t_s[read] - window.started_s, values[read]
        size = math.ceil(t_s.size / MOST_POINTS)
        for begin in range(0, t_s.size, size):
            part = slice(begin, begin + size)
            rows.append((run.run_id, run.level, run.users, float(np.median(t_s[part])), float(np.median(mhz[part]))))
            widest_s = max(widest_s, float(t_s[part][-1] - t_s[part][0]))
    samples = pd.DataFrame(rows, columns=["run_id", "level", "users", "t_s", "mhz"])
    why = reasons.most_common(1)[0][0] if reasons else ""
    thinned = f"thinned to medians over at most {widest_s:.1f} s" if widest_s else "every sample"
    return ClockTraces(samples, why, thinned)
