"""The figures of an edition: TPOT, clock within runs, starts, and the cost of each level against the default.

Each has a panel for every number of users where users matter, because the levels of one card often differ by a few
percent, and 1 and 64 users by far more. No figure keeps state in pyplot.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from study.analyze.formats import format_mhz, format_ms, format_seconds
from study.publish.level_marks import LevelMark, mark_levels
from study.publish.plain_text import clean_text
from study.publish.plates import ALARM, INK, REHEARSAL, WIDTH_IN, Plate, figure_style
from study.publish.traces import ClockTraces
from study.publish.wording import say_users

ROW_IN = 0.24
_JITTER = 0.16


@dataclass(frozen=True)
class Frame:
    """What the figures of one study share.

    Attributes:
        levels: the order of levels.
        users: numbers of users that are published, in order.
        rehearsal: whether the records are no result.

    """

    levels: tuple[str, ...]
    users: tuple[int, ...]
    rehearsal: bool

    def marks(self) -> Mapping[str, LevelMark]:
        """Return colour and marker by level."""
        return mark_levels(self.levels)


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
        figure, panels = _panels(frame, len(frame.levels))
        for users, axes in panels.items():
            _draw_points(axes, _values_by_level(seen[seen["users"] == users], "median_tpot_ms"), frame)
            axes.set_title(say_users(users))
        _label_bottom(panels, "median TPOT, ms per token")
    said = [
        f"{say_users(users)}: "
        + _say_medians(_values_by_level(seen[seen["users"] == users], "median_tpot_ms"), frame, "ms")
        for users in frame.users
    ]
    caption = (
        "One point a run: the median TPOT over its requests. The bar is the median over runs. Lower is faster; each "
        "panel has an axis of its own, which does not begin at 0."
    )
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
            _draw_points(axes, _values_by_level(rows, "start_s"), frame, hollow=cache == "cold")
        axes.set_xlim(left=0.0)
        axes.set_xlabel("seconds from spawn to first token")
        _warn_of_rehearsal(figure, frame.rehearsal)
    said = [
        f"{cache} caches: " + _say_medians(_values_by_level(rows, "start_s"), frame, "s")
        for cache, rows in starts.groupby("cache", sort=True)
    ]
    caption = "One point a launch; hollow where caches were emptied first (cold). The bar is the median over launches."
    return Plate("starts", title, f"Start to the first token. {'; '.join(said)}.", caption, figure, frame.rehearsal)


def draw_clock(traces: ClockTraces, frame: Frame) -> Plate:
    """Draw the SM clock over the time of each run, by users; in words why not, where no clock was read.

    Args:
        traces: samples within the loads, and why they are missing.
        frame: levels, users, rehearsal.

    """
    title = "SM clock within runs"
    samples = traces.samples[traces.samples["users"].isin(frame.users)]
    if samples.empty:
        why = traces.why_missing or "no run that counts has clock samples"
        return say_why_not("clock", title, f"No clock was read: {why}", frame.rehearsal)
    with figure_style():
        figure, panels = _panels(frame, 6)
        for users, axes in panels.items():
            _draw_traces(axes, samples[samples["users"] == users], frame)
            axes.set_title(say_users(users))
        _label_bottom(panels, "seconds since the load began")
        figure.supylabel("SM clock, MHz", fontsize=9.0)
        _add_legend(figure, frame)
    said = [
        f"{say_users(users)}: "
        + _say_medians(_values_by_level(samples[samples["users"] == users], "mhz"), frame, "MHz")
        for users in frame.users
    ]
    caption = f"One line a run, {traces.bin_text}. A clock that falls within a run is a card that heats up."
    return Plate("clock", title, f"Median SM clock within runs. {'; '.join(said)}.", caption, figure, frame.rehearsal)


def say_why_not(key: str, title: str, why: str, rehearsal: bool) -> Plate:
    """Make a figure that says in words why there is nothing to see, instead of empty axes."""
    said = clean_text(why, 300)
    with figure_style():
        figure = Figure(figsize=(WIDTH_IN, 1.1))
        figure.text(0.02, 0.5, _wrap(f"{title}: {said}", 72), va="center", fontsize=8.5)
        _warn_of_rehearsal(figure, rehearsal)
    return Plate(key, title, f"Nothing to see: {said}.", "There is no figure, for the reason given.", figure, rehearsal)


def _wrap(text: str, width: int) -> str:
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > width:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line])


def _panels(frame: Frame, rows: int) -> tuple[Figure, dict[int, Axes]]:
    """Make a grid of panels, two a line, one for each number of users."""
    columns = min(2, len(frame.users))
    lines = -(-len(frame.users) // columns)
    height = 0.5 + lines * (0.72 + ROW_IN * rows)
    figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(frame.users) :]:
        axes.set_axis_off()
    _warn_of_rehearsal(figure, frame.rehearsal)
    return figure, dict(zip(frame.users, grid.flat, strict=False))


def _label_bottom(panels: Mapping[int, Axes], label: str) -> None:
    """Name the horizontal axis below the lowest panels, and keep level names on the left panels alone."""
    for place, axes in enumerate(panels.values()):
        axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_xlabel(label if place + 2 >= len(panels) else "")
        axes.set_ylabel("")
        if place % 2 and axes.yaxis.get_inverted():
            axes.tick_params(labelleft=False)


def _warn_of_rehearsal(figure: Figure, rehearsal: bool) -> None:
    if rehearsal:
        figure.suptitle(REHEARSAL, color=ALARM, fontsize=9.0, fontweight="bold")


def _values_by_level(rows: pd.DataFrame, column: str) -> dict[str, list[float]]:
    return {str(level): [float(one) for one in part[column].dropna()] for level, part in rows.groupby("level")}


def _draw_points(axes: Axes, values: Mapping[str, Sequence[float]], frame: Frame, hollow: bool = False) -> None:
    """Draw one row of points a level, the first on top, spread a little by rank, and a bar at each median."""
    marks = frame.marks()
    for row, level in enumerate(frame.levels):
        points = sorted(values.get(level, ()))
        if not points:
            continue
        spread = [row + _JITTER * (place % 3 - 1) for place in range(len(points))]
        look = {"facecolor": "none", "edgecolor": marks[level].colour} if hollow else {"color": marks[level].colour}
        sns.scatterplot(x=points, y=spread, ax=axes, marker=marks[level].marker, s=26, legend=False, **look)
        axes.vlines(statistics.median(points), row - 0.36, row + 0.36, color=INK, linewidth=1.4)
    axes.set_yticks(range(len(frame.levels)), [clean_text(level) for level in frame.levels])
    axes.set_ylim(len(frame.levels) - 0.4, -0.6)
    axes.margins(x=0.12)
    axes.grid(visible=False, axis="y")


def _draw_traces(axes: Axes, samples: pd.DataFrame, frame: Frame) -> None:
    marks = frame.marks()
    colours = {level: mark.colour for level, mark in marks.items()}
    sns.lineplot(
        samples, x="t_s", y="mhz", hue="level", hue_order=frame.levels, palette=colours, units="run_id",
        estimator=None, linewidth=0.8, alpha=0.8, legend=False, ax=axes,
    )  # fmt: skip
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.set_xlim(left=0.0)


def _add_legend(figure: Figure, frame: Frame) -> None:
    marks = frame.marks()
    lines = [
        Line2D([], [], color=marks[level].colour, linewidth=2.0, label=clean_text(level)) for level in frame.levels
    ]
    figure.legend(handles=lines, loc="outside lower center", ncols=min(4, len(lines)))


def _say_medians(values: Mapping[str, Sequence[float]], frame: Frame, unit: str) -> str:
    """Write the medians, level by level, with the number of runs or launches behind each."""
    write: Callable[[float], str] = {
        "ms": lambda one: format_ms([one]),
        "MHz": lambda one: format_mhz([one]),
        "s": lambda one: format_seconds(one),
    }[unit]
    several = {"ms": "runs", "s": "launches"}.get(unit)
    said = [
        f"{clean_text(level)} {write(statistics.median(values[level]))}"
        + (f" ({len(values[level])} {several})" if several else "")
        for level in frame.levels
        if values.get(level)
    ]
    return ", ".join(said) or "nothing that counts"
