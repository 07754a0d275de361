"""The figures of an edition that have one point a run or a launch: TPOT by users and level, and starts.

TPOT has a panel for every number of users, because the levels of one card often differ by a few percent, and 1 and 64
users by far more. No figure keeps state in pyplot.
"""

import statistics
from collections.abc import Mapping, Sequence

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from study.analyze.formats import format_ms, format_seconds
from study.design.counting import format_counted
from study.publish.panels import ROW_IN, Frame, label_bottom, make_panels, say_why_not, scale_times, warn_of_rehearsal
from study.publish.picking import MOST_POINTS, pick_values, say_picked
from study.publish.plain_text import clean_text
from study.publish.plates import INK, WIDTH_IN, Plate, figure_style
from study.publish.wording import say_users

_JITTER = 0.16


def draw_tpot(runs: pd.DataFrame, frame: Frame) -> Plate:
    """Draw the median TPOT of every run that counts, and the median over runs, by users and level.

    Args:
        runs: `tables.run_table`: of its columns `level`, `users`, `counts`, `median_tpot_ms`.
        frame: levels, users, rehearsal.

    """
    title = "Median TPOT by users and level"
    seen = runs[runs["counts"].astype(bool) & runs["median_tpot_ms"].notna() & runs["users"].isin(frame.users)]
    if seen.empty:
        return say_why_not("tpot", title, "no run of this study counts, so there is no TPOT to show", frame.rehearsal)
    with figure_style():
        figure, panels = make_panels(frame, len(frame.levels))
        for users, axes in panels.items():
            part = seen[seen["users"] == users]
            scale_times(axes, part["median_tpot_ms"])
            _draw_points(axes, _values_by_level(part, "median_tpot_ms"), frame, "no run counts")
            axes.set_title(say_users(users))
        label_bottom(panels, "median TPOT, ms per token")
    said = [
        f"{say_users(users)}: "
        + _say_medians(_values_by_level(seen[seen["users"] == users], "median_tpot_ms"), frame, "ms")
        for users in frame.users
    ]
    caption = (
        "One point a run: the median TPOT over its requests. The bar and the number are the median over runs. Lower is "
        "faster; each panel has its own axis, which starts above 0 and is logarithmic for wide spreads."
    ) + _say_drawn(seen, ["level", "users"], "runs")
    return Plate("tpot", title, f"Median TPOT. {'; '.join(said)}.", caption, figure, frame.rehearsal)


def draw_starts(starts: pd.DataFrame, frame: Frame) -> Plate:
    """Draw the seconds from the spawn of each measured server to its first token, by level.

    Args:
        starts: one row a launch: `level`, `cache` (warm, cold), `start_s`.
        frame: levels, rehearsal.

    """
    title = "Start of a server: spawn to first token"
    if starts.empty:
        return say_why_not("starts", title, "no measured server reached its first token", frame.rehearsal)
    with figure_style():
        figure = Figure(figsize=(WIDTH_IN, 1.0 + ROW_IN * len(frame.levels)), layout="constrained")
        axes = figure.subplots()
        for cache, rows in starts.groupby("cache", sort=True):
            _draw_points(axes, _values_by_level(rows, "start_s"), frame, "", hollow=cache == "cold")
        axes.set_xlim(left=0.0)
        axes.set_xlabel("seconds from spawn to first token")
        warn_of_rehearsal(figure, frame.rehearsal)
    said = [
        f"{cache} caches: " + _say_medians(_values_by_level(rows, "start_s"), frame, "s")
        for cache, rows in starts.groupby("cache", sort=True)
    ]
    caption = "One point a launch; hollow where caches were emptied first (cold). The bar is the median over launches."
    caption += _say_drawn(starts, ["level", "cache"], "launches")
    return Plate("starts", title, f"Start to the first token. {'; '.join(said)}.", caption, figure, frame.rehearsal)


def _say_drawn(rows: pd.DataFrame, cell: list[str], what: str) -> str:
    """Say, with a space before it, that not every point is drawn; nothing where all are."""
    drawn = sum(min(count, MOST_POINTS) for count in rows.groupby(cell).size())
    return say_picked(drawn, len(rows), MOST_POINTS, what)


def _values_by_level(rows: pd.DataFrame, column: str) -> dict[str, list[float]]:
    return {str(level): [float(one) for one in part[column].dropna()] for level, part in rows.groupby("level")}


def _draw_points(
    axes: Axes, values: Mapping[str, Sequence[float]], frame: Frame, without: str, hollow: bool = False
) -> None:
    """Draw one row of points a level, the first on top, a little spread, and each median as a bar and a number."""
    marks = frame.marks()
    for row, level in enumerate(frame.levels):
        points = sorted(values.get(level, ()))
        if not points:
            axes.text(0.02, row, without, transform=axes.get_yaxis_transform(), va="center_baseline", fontsize=7.5)
            continue
        median = statistics.median(points)
        points = pick_values(points)
        middle = (min(len(points), 3) - 1) / 2
        spread = [row + _JITTER * (place % 3 - middle) for place in range(len(points))]
        look = {"facecolor": "none", "edgecolor": marks[level].colour} if hollow else {"color": marks[level].colour}
        sns.scatterplot(x=points, y=spread, ax=axes, marker=marks[level].marker, s=26, legend=False, **look)
        axes.vlines(median, row - 0.36, row + 0.36, color=INK, linewidth=1.4)
        axes.annotate(
            f"{median:,.2f}", (points[-1], row), (5, 0), textcoords="offset points", va="center_baseline", fontsize=7.5
        )
    axes.set_yticks(range(len(frame.levels)), [clean_text(level) for level in frame.levels])
    axes.set_ylim(len(frame.levels) - 0.4, -0.6)
    axes.margins(x=0.3)
    axes.grid(visible=False, axis="y")


def _say_medians(values: Mapping[str, Sequence[float]], frame: Frame, unit: str) -> str:
    """Write the medians, level by level, with the number of runs (`ms`) or launches (`s`) behind each."""
    said = [
        f"{clean_text(level)} {format_ms([median]) if unit == 'ms' else format_seconds(median)} "
        f"({format_counted(len(points), 'run' if unit == 'ms' else 'launch')})"
        for level in frame.levels
        if (points := values.get(level)) and (median := statistics.median(points))
    ]
    return ", ".join(said) or "nothing that counts"
