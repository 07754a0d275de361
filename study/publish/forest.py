"""The cost of each level against the default: a point with its interval, overall and by users, and the A/A checks."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from study.analyze.compare_types import AaCheck, Comparison, Pair
from study.analyze.stats import Estimate
from study.publish.level_marks import mark_level
from study.publish.panels import Frame, say_why_not, warn_of_rehearsal, widen_percents
from study.publish.plain_text import clean_text
from study.publish.plates import FAINT, INK, WIDTH_IN, Plate, figure_style
from study.publish.wording import say_interval, say_users, say_verdict

ROW_IN = 0.23
_MOST_PERCENT = 10_000.0


@dataclass(frozen=True)
class Row:
    """One line of the plot; `level` gives its colour, None is an A/A check."""

    label: str
    estimate: Estimate | None
    level: str | None
    overall: bool


def draw_costs(comparison: Comparison | None, frame: Frame, reason: str = "") -> Plate:
    """Draw every comparison with its interval, the margin as a band, and the A/A checks below.

    Args:
        comparison: every level against the default; None where there is none.
        frame: levels, users, rehearsal.
        reason: why there is no comparison.

    """
    title = "Cost of each level against the default"
    rows = [] if comparison is None else list_rows(comparison, frame)
    if comparison is None or not any(row.estimate for row in rows):
        return say_why_not("costs", title, reason or "there is no level to compare with the default", frame.rehearsal)
    margin = 100.0 * comparison.options.margin
    with figure_style():
        figure = Figure(figsize=(WIDTH_IN, 1.25 + ROW_IN * len(rows)), layout="constrained")
        axes = figure.subplots()
        axes.axvspan(-margin, margin, color=FAINT, alpha=0.3, linewidth=0)
        axes.axvline(0.0, color=INK, linewidth=0.8)
        for place, row in enumerate(rows):
            _draw_row(axes, place, row)
        _finish_axes(axes, rows, margin)
        warn_of_rehearsal(figure, frame.rehearsal)
        _add_legend(figure, bool(comparison.aa), margin)
    return Plate("costs", title, _say(comparison), _caption(comparison, margin), figure, frame.rehearsal)


def list_rows(comparison: Comparison, frame: Frame) -> list[Row]:
    """Return the lines of the plot, from above: each level overall, then by its users; then the A/A checks."""
    rows = []
    for overall in comparison.overall:
        name = clean_text(overall.level)
        rows.append(Row(f"{name}, overall", overall.effect_percent, overall.level, overall=True))
        rows += [
            Row(say_users(pair.users), pair.effect_percent, pair.level, overall=False)
            for pair in comparison.by_users
            if pair.level == overall.level and pair.users in frame.users
        ]
    return rows + [Row(f"A/A: {_name_aa(check)}", check.effect_percent, None, overall=True) for check in comparison.aa]


def _name_aa(check: AaCheck) -> str:
    return f"{clean_text(check.level)} and {clean_text(check.default)}"


def _draw_row(axes: Axes, place: int, row: Row) -> None:
    """Draw the point, and its interval where there is one; an end without a bound runs out of the plot."""
    if row.estimate is None:
        axes.text(0.0, place, "  no ratio", va="center", fontsize=8.0)
        return
    mark = None if row.level is None else mark_level(row.level)
    colour = INK if mark is None else mark.colour
    ends = (row.estimate.low, row.estimate.high)
    if ends != (None, None):
        low, high = (_clip(end, side) for end, side in zip(ends, (-_MOST_PERCENT, _MOST_PERCENT), strict=True))
        axes.hlines(place, low, high, color=colour, linewidth=2.2 if row.overall else 1.1)
    marker = "o" if mark is None else mark.marker
    face = "none" if mark is None else colour
    size = 46 if row.overall else 20
    axes.scatter(
        _clip(row.estimate.point, 0.0), place, marker=marker, s=size, facecolor=face, edgecolor=colour, zorder=3
    )


def _clip(value: float | None, where_none: float) -> float:
    return where_none if value is None else max(-_MOST_PERCENT, min(_MOST_PERCENT, value))


def _finish_axes(axes: Axes, rows: list[Row], margin: float) -> None:
    axes.set_yticks(range(len(rows)), [row.label for row in rows])
    for label, row in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if row.overall else "normal")
    axes.set_ylim(len(rows) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    seen = [_clip(value, 0.0) for row in rows if row.estimate for value in _values(row.estimate)]
    unit = "TPOT against default, percent"
    if widen_percents(axes, "x", seen, margin):
        unit += " (logarithmic beyond the inner ticks)"
    axes.set_xlabel(unit, loc="right" if len(unit) > 40 else "center")


def _values(estimate: Estimate) -> tuple[float | None, ...]:
    return estimate.point, estimate.low, estimate.high


def _add_legend(figure: Figure, has_aa: bool, margin: float) -> None:
    entries = [
        Line2D([], [], color=INK, linewidth=1.4, marker="o", markersize=4, label="effect with interval"),
        Line2D([], [], color=FAINT, alpha=0.5, linewidth=7, label=f"margin, \N{PLUS-MINUS SIGN}{margin:g} percent"),
    ]
    if has_aa:
        entries.append(Line2D([], [], color=INK, marker="o", markerfacecolor="none", label="A/A: resolved alike"))
    figure.legend(handles=entries, loc="outside lower center", ncols=3, columnspacing=1.0, handlelength=1.6)


def _caption(comparison: Comparison, margin: float) -> str:
    confidence = 100.0 * (1.0 - comparison.options.alpha)
    text = (
        f"Percent more time per token than the default; bars are {confidence:g} percent intervals over independent "
        f"units. Differences inside the band of {margin:g} percent do not matter. "
    )
    if comparison.aa:
        return text + "An A/A row compares two levels that resolved alike: it measures the method, not a level."
    return text + "No two levels resolved alike, so the method's own noise was not measured (A/A not measured)."


def _say(comparison: Comparison) -> str:
    said = [f"{clean_text(pair.level)} {_say_pair(pair)}" for pair in comparison.overall]
    said += [f"A/A of {_name_aa(check)} {say_interval(check.effect_percent)}" for check in comparison.aa]
    return f"Cost over all users against {clean_text(comparison.options.default)}: {'; '.join(said)}."


def _say_pair(pair: Pair) -> str:
    return f"{say_interval(pair.effect_percent)}, {say_verdict(pair)}"
