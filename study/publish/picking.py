"""Which runs a figure draws where there are more than a reader can tell apart: some, from the least to the greatest.

What is said in words, medians and means are of all runs; a study of the usual size is drawn whole.
"""

from collections.abc import Sequence

import pandas as pd

MOST_LINES = 12
"""Lines of one level in one panel."""
MOST_POINTS = 120
"""Points of one level in one panel."""


def pick_places(count: int, most: int) -> list[int]:
    """Return at most `most` places of 0 to `count` - 1 in even steps, the first and the last among them."""
    if count <= most:
        return list(range(count))
    return [round(step * (count - 1) / (most - 1)) for step in range(most)]


def pick_values(values: Sequence[float], most: int = MOST_POINTS) -> list[float]:
    """Return at most `most` of `values`, rising, in even steps from the least to the greatest."""
    ranked = sorted(values)
    return [ranked[place] for place in pick_places(len(ranked), most)]


def pick_runs(runs: pd.DataFrame, column: str, most: int) -> set[str]:
    """Return the runs to draw: of each level and number of users at most `most`, in even steps of a column.

    Args:
        runs: one row a run: `run_id`, `level`, `users` and the column.
        column: what they are ranked by; of equals the lesser `run_id` comes first.
        most: of one level at one number of users.

    """
    picked: set[str] = set()
    for _, part in runs.sort_values([column, "run_id"]).groupby(["level", "users"], sort=False):
        names = [str(name) for name in part["run_id"]]
        picked.update(names[place] for place in pick_places(len(names), most))
    return picked


def say_picked(drawn: int, known: int, most: int, what: str = "runs") -> str:
    """Say, with a space before it, that a figure does not draw all; nothing where it does."""
    if drawn == known:
        return ""
    steps = "in even steps from the least to the greatest"
    return f" Of {known:,} {what}, at most {most} a level are drawn in a panel, {steps}."
