"""The figures of what a start costs: the parts of starts as bars, and tokens served since the spawn.

    draw_start_parts    one bar a level and state of the caches; its segments add up to the start
    draw_served         one panel a number of users; where two lines cross, the level that started sooner falls behind

A part has its colour and pattern wherever it is drawn, a level its colour and marker.
"""

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Patch
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FuncFormatter, MaxNLocator

from study.analyze.breakeven import Regime, StartAndSpeed
from study.analyze.findings_parts import BreakEvenAt
from study.analyze.formats import format_seconds, listed
from study.analyze.startup_parts import MODULE_BUILD
from study.publish.level_marks import mark_level
from study.publish.panels import Frame, add_legend, say_why_not, warn_of_rehearsal
from study.publish.plain_text import clean_text
from study.publish.plates import INK, WIDTH_IN, Plate, figure_style
from study.publish.start_parts import STAMPS_FIT_S, WHICH_START, LevelParts
from study.publish.wording import say_users

BAR_IN = 0.3
PANEL_IN = 1.75
LABELLED_SHARE = 0.07
"""Of the longest bar: a narrower segment has no number on it; the table of parts has them all."""
NAMED_PARTS = 3
WIDEST_OF_TWO = 34
"""Characters of a line of text that fit into a panel where two stand side by side."""
FARTHEST_CROSSING = 25.0
"""Crossings later than this many times the spread of the starts leave the panel, which would show nothing else."""


@dataclass(frozen=True)
class PartLook:
    """How a part is drawn; related parts share a colour and differ by their pattern."""

    colour: str
    hatch: str = ""


OTHER = "silence or other, named in the table"
UNACCOUNTED = "no line accounts for it"
LEAST_S = 0.001
"""Shorter parts are what rounding leaves."""
PART_LOOKS: Mapping[str, PartLook] = {
    "imports and configuration": PartLook("#84786c"),
    "model inspection": PartLook("#84786c", "xx"),
    "engine process up": PartLook("#84786c", ".."),
    "weights": PartLook("#0072b2"),
    "compile": PartLook("#d55e00"),
    "memory profiling": PartLook("#cc79a7"),
    "discarded capture": PartLook("#009e73", "xx"),
    "KV cache": PartLook("#cc79a7", ".."),
    "JIT warm-up and autotuning": PartLook("#a87900"),
    MODULE_BUILD: PartLook("#a87900", "xx"),
    "capture": PartLook("#009e73"),
    "API up": PartLook("#3d94c9"),
    "after the last figure": PartLook("#3d94c9", "xx"),
    "ready": PartLook("#3d94c9", ".."),
    "first token": PartLook("#7a5ab8"),
    OTHER: PartLook("#a8576a", "||"),
    UNACCOUNTED: PartLook("none", "//"),
}
"""Colours after Okabe and Ito, as those of levels; the one part that nothing accounts for is hatched without colour."""


def draw_start_parts(parts: Sequence[LevelParts], frame: Frame) -> Plate:
    """Draw the parts of one start of each level and state of the caches as a bar, cold above warm.

    Args:
        parts: of `start_parts.read_level_parts`, of one study or of several that belong together.
        frame: levels, rehearsal.

    """
    title = "Where the time of a start goes"
    bars = order_bars(parts, frame.levels)
    if not bars:
        return say_why_not("start_parts", title, "no log of a measured start was read", frame.rehearsal)
    with figure_style():
        looks = {name: look for name, look in PART_LOOKS.items() if any(name in dict(segments(bar)) for bar in bars)}
        lines = -(-len(looks) // 2)
        figure = Figure(figsize=(WIDTH_IN, 0.9 + BAR_IN * len(bars) + 0.19 * lines), layout="constrained")
        axes = figure.subplots()
        longest_s = max(sum(seconds for _, seconds in segments(bar)) for bar in bars)
        for row, bar in enumerate(bars):
            _draw_bar(axes, row, bar, longest_s)
        axes.set_yticks(range(len(bars)), [clean_text(f"{bar.level}, {bar.cache}") for bar in bars])
        axes.set_ylim(len(bars) - 0.45, -0.55)
        axes.set_xlim(0.0, 1.14 * longest_s)
        axes.grid(visible=False, axis="y")
        axes.set_xlabel("seconds since the spawn")
        handles = [_patch(name, look) for name, look in looks.items()]
        figure.legend(handles=handles, loc="outside lower center", ncols=2)
        warn_of_rehearsal(figure, frame.rehearsal)
    caption = (
        f"One start a bar, {WHICH_START}. Segments do not overlap and add up to the start, which stands at the end of "
        f"the bar. Hatched without colour: no line of the log accounts for it.{_say_studies(parts)}"
    )
    return Plate("start_parts", title, _say_parts(bars), caption, figure, frame.rehearsal)


def _say_studies(parts: Sequence[LevelParts]) -> str:
    """Say which bars are of which study, where there are several."""
    studies = list(dict.fromkeys(one.study for one in parts))
    if len(studies) < 2:
        return ""
    said = []
    for study, cache in itertools.product(studies, dict.fromkeys(one.cache for one in parts)):
        levels = [one.level for one in parts if (one.study, one.cache) == (study, cache)]
        whole = len(levels) == sum(one.cache == cache for one in parts)
        if levels:
            said.append(f"{cache if whole else f'{listed(levels)}, {cache},'} of {study}")
    return f" Bars of several studies: {'; '.join(said)}."


def order_bars(parts: Sequence[LevelParts], levels: Sequence[str]) -> list[LevelParts]:
    """Return the bars from above: level by level, cold before warm."""
    names = list(dict.fromkeys([*levels, *(one.level for one in parts)]))
    return sorted(parts, key=lambda one: (names.index(one.level), one.cache))


def segments(bar: LevelParts) -> list[tuple[str, float]]:
    """Return the segments of a bar as (name, seconds), those of no length left out; silences share one name.

    A start whose log has no stamp is one segment that nothing accounts for.
    """
    known = [(name if name in PART_LOOKS else OTHER, seconds) for name, seconds in bar.parts]
    rest_s = bar.start_s - sum(seconds for _, seconds in known) if bar.wall_s is None else bar.unaccounted_s or 0.0
    return [(name, seconds) for name, seconds in [*known, (UNACCOUNTED, rest_s)] if seconds >= LEAST_S]


def _draw_bar(axes: Axes, row: int, bar: LevelParts, longest_s: float) -> None:
    at_s = 0.0
    for name, seconds in segments(bar):
        look = PART_LOOKS[name]
        axes.barh(
            row, seconds, left=at_s, height=0.66, color=look.colour, hatch=look.hatch, edgecolor=INK, linewidth=0.4
        )
        if seconds >= LABELLED_SHARE * longest_s:
            plain = look.colour == "none"
            axes.text(
                at_s + seconds / 2, row, f"{seconds:.0f}", ha="center", va="center_baseline", fontsize=7.5,
                color=INK if plain else "#ffffff", fontweight="bold",
                path_effects=[] if plain else [withStroke(linewidth=2.5, foreground=look.colour)],
            )  # fmt: skip
        at_s += seconds
    note = "" if bar.fits else " (clocks differ)"
    axes.text(at_s + 0.01 * longest_s, row, f"{bar.start_s:.1f} s{note}", va="center_baseline", fontsize=7.5)


def _patch(name: str, look: PartLook) -> Patch:
    return Patch(facecolor=look.colour, hatch=look.hatch, edgecolor=INK, linewidth=0.4, label=name)


def _say_parts(bars: Sequence[LevelParts]) -> str:
    """Say the finding: what warm caches save, and the longest parts of every start."""
    by_place = {(bar.level, bar.cache): bar for bar in bars}
    saved = [
        f"{clean_text(level)} {by_place[level, 'cold'].start_s:.1f} s cold, {warm.start_s:.1f} s warm"
        for (level, cache), warm in by_place.items()
        if cache == "warm" and (level, "cold") in by_place
    ]
    first = f"Start to the first token: {'; '.join(saved)}. " if saved else ""
    return f"{first}Longest parts. {' '.join(_say_bar(bar) for bar in bars)}"


def _say_bar(bar: LevelParts) -> str:
    found = segments(bar)
    longest = sorted((one for one in found if one[0] != UNACCOUNTED), key=lambda one: -one[1])[:NAMED_PARTS]
    said = [f"{name} {format_seconds(seconds, 1)}" for name, seconds in longest]
    rest = f"no line accounts for {format_seconds(dict(found).get(UNACCOUNTED, 0.0), 1)}"
    misfit = "" if bar.fits else f" (the log and our own stamps differ by more than {STAMPS_FIT_S:g} s)"
    where = f"{clean_text(bar.level)}, {bar.cache}, {format_seconds(bar.start_s, 1)}{misfit}"
    return f"{where}: {', '.join([*said, rest])}."


def draw_served(break_evens: Sequence[BreakEvenAt], frame: Frame, reason: str = "") -> Plate:
    """Draw the tokens that a server has served against the time since its spawn, by level and published users.

    Args:
        break_evens: of `Findings.break_evens`: every level against the default.
        frame: levels, users, rehearsal.
        reason: why there is none.

    """
    title = "Tokens served since the spawn"
    order = {users: place for place, users in enumerate(frame.users)}
    shown = [at for at in break_evens if at.users in order]
    if not shown:
        why = reason or "no level has a start and token times beside the default's"
        return say_why_not("served", title, why, frame.rehearsal)
    places = sorted({(order[at.users], at.cache != "warm", at.users, at.cache) for at in shown})
    panels = [[at for at in shown if (at.users, at.cache) == place[2:]] for place in places]
    with figure_style():
        longest = max(len(say_short(at)) for at in shown)
        columns = min(2 if longest <= WIDEST_OF_TWO else 1, len(panels))
        lines = -(-len(panels) // columns)
        figure = Figure(figsize=(WIDTH_IN, 0.6 + PANEL_IN * lines), layout="constrained")
        grid = figure.subplots(lines, columns, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.set_axis_off()
        for axes, panel in zip(grid.flat, panels, strict=False):
            _draw_panel(axes, panel)
        for axes in grid.flat[max(len(panels) - columns, 0) : len(panels)]:
            axes.set_xlabel("seconds since the spawn")
        figure.supylabel("tokens served", fontsize=9.0)
        add_legend(figure, [shown[0].default, *dict.fromkeys(at.level for at in shown)])
        warn_of_rehearsal(figure, frame.rehearsal)
    caption = (
        "Kept busy by so many users; a line begins at the first token, and runs by the means over blocks. A ring is "
        "where two levels have served equally many, the bar through it its interval. `By means`: the blocks do not "
        "show that lead. Time axes begin shortly before the first start."
    )
    said = " ".join(_say_panel(panel) for panel in panels)
    return Plate("served", title, f"Tokens served since the spawn. {said}", caption, figure, frame.rehearsal)


def _draw_panel(axes: Axes, panel: Sequence[BreakEvenAt]) -> None:
    low_s, high_s = _time_axis(panel)
    first = panel[0]
    _draw_line(axes, first.default, first.users, first.default_input, high_s)
    for row, at in enumerate(panel):
        _draw_line(axes, at.level, at.users, at.level_input, high_s)
        _draw_crossing(axes, at, high_s)
        axes.text(
            0.02, 0.98 - 0.085 * row, clean_text(say_short(at, high_s), 70), transform=axes.transAxes, va="top",
            fontsize=6.5,
        )  # fmt: skip
    axes.set_title(f"{say_users(first.users)}, {first.cache} caches")
    axes.set_xlim(low_s, high_s)
    axes.set_ylim(bottom=0.0, top=1.25 * max(axes.get_ylim()[1], 1.0))
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _time_axis(panel: Sequence[BreakEvenAt]) -> tuple[float, float]:
    """Return the ends of the time axis: from shortly before the first start to well after the last crossing shown."""
    starts_s = [float(side.start_s.mean()) for at in panel for side in (at.level_input, at.default_input)]
    first_s, last_s = min(starts_s), max(starts_s)
    spread_s = max(last_s - first_s, 0.01 * first_s)
    near = [at.result.t_star_s.point for at in panel if at.result.t_star_s is not None]
    near = [t_s for t_s in near if 0.0 < t_s - first_s <= FARTHEST_CROSSING * spread_s]
    high_s = first_s + 1.5 * (max([first_s + 1.5 * spread_s, *near]) - first_s)
    return max(0.0, first_s - 0.12 * (high_s - first_s)), high_s


def _tokens(users: int, side: StartAndSpeed, at_s: float) -> float:
    """Return the tokens that all users together have at a time, by the means over blocks."""
    return max(0.0, users * (at_s - float(side.start_s.mean())) / float(side.token_s.mean()))


def _draw_line(axes: Axes, level: str, users: int, side: StartAndSpeed, high_s: float) -> None:
    mark, start_s = mark_level(level), float(side.start_s.mean())
    axes.plot([start_s, high_s], [0.0, _tokens(users, side, high_s)], color=mark.colour, linewidth=1.6)
    axes.plot([start_s], [0.0], color=mark.colour, marker=mark.marker, markersize=5.0, clip_on=False)


def _first_tokens_s(at: BreakEvenAt) -> float:
    """Return when both levels have given a first token, by the means over blocks; no crossing comes before."""
    return max(float(side.start_s.mean()) for side in (at.level_input, at.default_input))


def _draw_crossing(axes: Axes, at: BreakEvenAt, high_s: float) -> None:
    """Ring the crossing and draw its interval, where it lies inside the panel."""
    t_star = at.result.t_star_s
    if t_star is None or t_star.point >= high_s:
        return
    tokens = _tokens(at.users, at.default_input, t_star.point)
    if t_star.low is not None:
        end_s = high_s if t_star.high is None else min(t_star.high, high_s)
        begin_s = max(t_star.low, _first_tokens_s(at))
        axes.hlines(tokens, begin_s, end_s, color=mark_level(at.level).colour, linewidth=3.0, alpha=0.5)
    axes.plot([t_star.point], [tokens], marker="o", markersize=7.0, markerfacecolor="none", color=INK, linewidth=0)


_WORDS: Mapping[Regime, str] = {Regime.NEVER_LOSES: "never behind", Regime.NEVER_WINS: "never ahead"}


def say_short(at: BreakEvenAt, high_s: float = math.inf) -> str:
    """Write who is ahead when in a few words: `O0: ahead until 88 s`; for a crossing beyond the panel, so."""
    t_star, regime = at.result.t_star_s, at.result.regime
    if t_star is None:
        return f"{at.level}: {_WORDS.get(regime, 'undecided')}"
    beyond = ", beyond the panel" if t_star.point >= high_s else ""
    if regime is Regime.WINS_UNTIL and at.result.ahead_at_least_s is None:
        return f"{at.level}: by means until {t_star.point:,.0f} s{beyond}"
    word = {Regime.WINS_UNTIL: "ahead until", Regime.WINS_FROM: "ahead from"}.get(regime, "undecided, t*")
    return f"{at.level}: {word} {t_star.point:,.0f} s{beyond}"


def _say_ends(at: BreakEvenAt, low_s: float, high_s: float | None) -> str:
    """Write the interval of t*; an end before the first tokens says only that nothing bounds it from below."""
    if low_s <= _first_tokens_s(at):
        return "not bounded" if high_s is None else f"{high_s:,.0f} s at most"
    return f"from {low_s:,.0f} s {'on' if high_s is None else f'to {high_s:,.0f} s'}"


def _say_panel(panel: Sequence[BreakEvenAt]) -> str:
    said = []
    for at in panel:
        t_star, text = at.result.t_star_s, clean_text(say_short(at))
        if t_star is not None and t_star.low is not None:
            text += f" ({_say_ends(at, t_star.low, t_star.high)})"
        said.append(f"{text}; {at.result.reason}" if at.result.regime is Regime.UNDECIDED else text)
    return f"{say_users(panel[0].users)}, {panel[0].cache} caches, against {panel[0].default}: {'. '.join(said)}."
