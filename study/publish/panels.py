"""What the figures of an edition share: levels and users, panels, the legend, and words where nothing can be drawn."""

import math
import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, NullLocator

from study.publish.level_marks import LevelMark, mark_levels
from study.publish.plain_text import clean_text
from study.publish.plates import ALARM, ALARM_INK, REHEARSAL, WIDTH_IN, Plate, figure_style

ROW_IN = 0.24
"""Height of a row of a level, inches."""
WIDE_SPREAD = 3.0
"""Times that are further apart than this are drawn on a logarithmic axis."""
WIDE_PERCENTS = 30.0
"""Percentages beyond this many margins are drawn on an axis that is logarithmic beyond two margins."""


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


def say_why_not(key: str, title: str, why: str, rehearsal: bool) -> Plate:
    """Make a figure that says in words why there is nothing to see, instead of empty axes."""
    said = clean_text(why, 300)
    with figure_style():
        figure = Figure(figsize=(WIDTH_IN, 1.1), layout="constrained")
        figure.text(0.02, 0.5, textwrap.fill(f"{title}: {said}", 72), va="center", fontsize=8.5)
        warn_of_rehearsal(figure, rehearsal)
    return Plate(key, title, f"Nothing to see: {said}.", "There is no figure, for the reason given.", figure, rehearsal)


def make_panels(frame: Frame, rows: int) -> tuple[Figure, dict[int, Axes]]:
    """Make a grid of panels, two a line, one for each number of users."""
    columns = min(2, len(frame.users))
    lines = -(-len(frame.users) // columns)
    height = 0.5 + lines * (0.72 + ROW_IN * rows)
    figure = Figure(figsize=(WIDTH_IN, height), layout="constrained")
    grid = figure.subplots(lines, columns, squeeze=False)
    for axes in grid.flat[len(frame.users) :]:
        axes.set_axis_off()
    warn_of_rehearsal(figure, frame.rehearsal)
    return figure, dict(zip(frame.users, grid.flat, strict=False))


def label_bottom(panels: Mapping[int, Axes], label: str) -> None:
    """Name the horizontal axis below the lowest panels, and keep level names on the left panels alone."""
    for place, axes in enumerate(panels.values()):
        if axes.get_xscale() == "linear":
            axes.xaxis.set_major_locator(MaxNLocator(4))
        axes.set_xlabel(label if place + 2 >= len(panels) else "")
        axes.set_ylabel("")
        if place % 2 and axes.yaxis.get_inverted():
            axes.tick_params(labelleft=False)


def scale_times(axes: Axes, values: Iterable[float]) -> None:
    """Choose the horizontal axis for times: logarithmic where the longest is over three times the shortest."""
    seen = list(values)
    if not seen or max(seen) <= WIDE_SPREAD * min(seen):
        return
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.xaxis.set_major_formatter(lambda value, _place: f"{value:,g}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_minor_formatter(NullFormatter())


def warn_of_rehearsal(figure: Figure, rehearsal: bool) -> None:
    """Write above a figure that it is no result, where it is none."""
    if rehearsal:
        box = {"facecolor": ALARM, "edgecolor": "none", "pad": 3.0}
        figure.suptitle(REHEARSAL, color=ALARM_INK, fontsize=8.5, fontweight="bold", bbox=box)


def add_legend(figure: Figure, levels: Iterable[str], *more: Artist) -> None:
    """Name the levels below a figure by colour and marker, and after them what else is drawn."""
    lines = [
        Line2D([], [], color=mark.colour, marker=mark.marker, markersize=5.0, label=clean_text(level))
        for level, mark in mark_levels(levels).items()
    ]
    handles = [*lines, *more]
    figure.legend(handles=handles, loc="outside lower center", ncols=min(3 if more else 4, len(handles)))


def widen_percents(axes: Axes, along: Literal["x", "y"], percents: Iterable[float], margin: float) -> bool:
    """Make an axis of percentages logarithmic beyond two margins on either side, where they reach far beyond.

    Args:
        axes: where they are drawn.
        along: the axis they are drawn along.
        percents: what is drawn, percent.
        margin: what does not matter, percent, above 0.

    Returns:
        Whether it was done; the label has to say so.

    """
    shown = [0.0, *percents]
    low, high, inner = min(shown), max(shown), 2.0 * margin
    if max(-low, high) <= WIDE_PERCENTS * margin:
        return False
    scale, axis = (axes.set_xscale, axes.xaxis) if along == "x" else (axes.set_yscale, axes.yaxis)
    scale("symlog", linthresh=inner, linscale=1.0)
    axis.set_ticks([*(-tick for tick in reversed(_powers(inner, -low))), -inner, 0.0, inner, *_powers(inner, high)])
    axis.set_major_formatter("{x:g}")
    axis.set_minor_locator(NullLocator())
    return True


def _powers(inner: float, most: float) -> list[float]:
    """Return powers of ten from the inner tick to the first that is no less than the most; none where it is inside."""
    if most <= inner:
        return []
    return [10.0**power for power in range(math.ceil(math.log10(inner)), math.ceil(math.log10(most)) + 1)]
