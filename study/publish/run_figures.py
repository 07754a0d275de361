"""The figures of what happened within runs and between them.

    draw_requests   how TPOT spreads over the requests of each run
    draw_clock      clock, temperature and power over the length of each run, what held the clock down shaded
    draw_order      whether runs drift with the place of their launch in its block, and how warm the card was

Lines are runs; a level has its colour and marker everywhere.
"""

import statistics
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator, PercentFormatter

from study.analyze.formats import format_mhz, format_ms
from study.analyze.run_traces import CARD_COLUMNS, WholeLoad
from study.design.counting import format_counted
from study.publish.launch_order import LaunchOrder, mean_by_place
from study.publish.panels import (
    ROW_IN,
    Frame,
    add_legend,
    label_bottom,
    make_panels,
    say_why_not,
    scale_times,
    warn_of_rehearsal,
    widen_percents,
)
from study.publish.picking import MOST_LINES, MOST_POINTS, pick_runs, say_picked
from study.publish.plain_text import clean_text
from study.publish.plates import ALARM, FAINT, INK, WIDTH_IN, Plate, figure_style
from study.publish.traces import CardTraces
from study.publish.wording import say_percent, say_users

CARD_LABELS = {"mhz": "SM clock, MHz", "temperature_c": "temperature, \N{DEGREE SIGN}C", "power_w": "power, W"}
SHADES = {"capped": (FAINT, "software power cap"), "slowed": (ALARM, "heat, brake or HW slowdown")}
"""Column of the traces to the colour and the words of what held the clock down."""
ORDER_LABELS = {
    "drift_percent": "TPOT beyond level\nand block, percent",
    "gate_c": "temperature at\nthe gate, \N{DEGREE SIGN}C",
}
INNER_PERCENT = 2.0
"""A wide axis of drift is linear so far from 0."""
DARKEST = 0.55
CARD_ROW_IN = 1.15
_LINE: Mapping[str, Any] = {"linewidth": 0.9, "alpha": 0.85}


def draw_requests(spread: pd.DataFrame, frame: Frame) -> Plate:
    """Draw how TPOT spreads over the requests of each run: the share of requests that took at most so long.

    Args:
        spread: `traces.spread_requests` of the runs that count.
        frame: levels, users, rehearsal.

    """
    title = "TPOT of single requests"
    seen = spread[spread["users"].isin(frame.users)]
    if seen.empty:
        why = "no request of a run that counts has a TPOT"
        return say_why_not("requests", title, why, frame.rehearsal)
    levels = _levels_in(seen, frame)
    medians = seen[seen["percent"] == 50.0]
    picked = pick_runs(medians, "tpot_ms", MOST_LINES)
    drawn = seen[seen["run_id"].isin(picked)]
    with figure_style():
        figure, panels = make_panels(frame, 5)
        for users, axes in panels.items():
            part = drawn[drawn["users"] == users]
            scale_times(axes, part["tpot_ms"])
            _draw_lines(axes, part, ("tpot_ms", "percent"), frame)
            for level, runs in part[part["percent"] == 50.0].groupby("level"):
                mark = frame.marks()[str(level)]
                axes.scatter(runs["tpot_ms"], runs["percent"], s=22, marker=mark.marker, color=mark.colour, zorder=3)
            axes.set_title(say_users(users))
            axes.set_ylim(-3.0, 103.0)
            axes.yaxis.set_major_formatter(PercentFormatter(decimals=0))
        label_bottom(panels, "TPOT, ms per token")
        figure.supylabel("share of requests", fontsize=9.0)
        add_legend(figure, levels)
    caption = (
        "One line a run: the share of its requests that took at most so long for a token; the marker is the run's "
        "median. A steep line is a run whose requests all took the same time; a flat stretch parts two kinds of them."
    ) + say_picked(len(picked), len(medians), MOST_LINES)
    said = "; ".join(_say_spread(seen[seen["users"] == users], users, levels) for users in frame.users)
    return Plate("requests", title, f"TPOT over requests, with the {_ENDS}. {said}.", caption, figure, frame.rehearsal)


_ENDS = "2nd to the 98th percentile"


def _say_spread(part: pd.DataFrame, users: int, levels: Sequence[str]) -> str:
    said = []
    for level in levels:
        rows = part[part["level"] == level]
        if len(rows):
            middle, low, high = (float(rows.loc[rows["percent"] == at, "tpot_ms"].median()) for at in (50.0, 2.0, 98.0))
            ends = f"{format_ms([low]).removesuffix(' ms')} to {format_ms([high])}"
            said.append(f"{clean_text(level)} {format_ms([middle])} ({ends})")
    return f"{say_users(users)}: {', '.join(said) or 'nothing that counts'}"


def draw_clock(traces: CardTraces, frame: Frame, note: str = "") -> Plate:
    """Draw SM clock, temperature and power over the length of each run, by users; or say why none was read.

    Args:
        traces: the card within loads, and why parts of it are missing.
        frame: levels, users, rehearsal.
        note: what a reader must know of these runs, as a sentence; it ends the caption.

    """
    title = "Clock, temperature and power within runs"
    samples = traces.samples[traces.samples["users"].isin(frame.users)]
    shown = [name for name in CARD_COLUMNS if samples[name].notna().any()]
    if not shown:
        unread = next(iter(traces.why_missing.values()), None)
        why = f"The card was not read: {unread}" if unread else "no run that counts has samples of the card"
        return say_why_not("clock", title, why, frame.rehearsal)
    users = [count for count in frame.users if (samples["users"] == count).any()]
    runs = samples.groupby(["run_id", "level", "users"], sort=False)[[shown[0]]].median().reset_index()
    picked = pick_runs(runs, shown[0], MOST_LINES)
    drawn = samples[samples["run_id"].isin(picked)]
    with figure_style():
        figure = Figure(figsize=(WIDTH_IN, 0.75 + CARD_ROW_IN * len(users)), layout="constrained")
        grid = figure.subplots(len(users), len(shown), squeeze=False, sharex=True, sharey="col")
        for row, count in zip(grid, users, strict=True):
            _draw_card(row, drawn[drawn["users"] == count], shown, frame)
            row[0].set_ylabel(say_users(count), fontweight="bold")
        for axes, name in zip(grid[0], shown, strict=True):
            axes.set_title(CARD_LABELS[name])
        grid[-1][len(shown) // 2].set_xlabel("time, share of the load's length")
        add_legend(figure, _levels_in(samples, frame), *_shade_patches(samples))
        warn_of_rehearsal(figure, frame.rehearsal)
    said = "; ".join(_say_card(runs[runs["users"] == count], traces.whole, count, frame) for count in users)
    caption = _say_shades(traces) + say_picked(len(picked), len(runs), MOST_LINES) + (note and f" {note}")
    return Plate("clock", title, f"The card within runs. {said}.", caption, figure, frame.rehearsal)


def _say_shades(traces: CardTraces) -> str:
    missing = [f"No {CARD_LABELS[name].split(',')[0]}: {why}." for name, why in traces.why_missing.items()]
    text = (
        f"One line a run, from its first to its last request ({traces.least_s:.0f} to {traces.greatest_s:.0f} s). "
        "Shaded: what held the clock down; the darker, the more of the runs at that time. A software power cap is "
        "how a card under load runs."
    )
    return " ".join([text, *missing])


def _draw_card(row: Sequence[Axes], samples: pd.DataFrame, shown: Sequence[str], frame: Frame) -> None:
    for axes, name in zip(row, shown, strict=True):
        _shade(axes, samples)
        _draw_lines(axes, samples.dropna(subset=[name]), ("share", name), frame)
        axes.set_xlim(0.0, 1.0)
        axes.set_xlabel("")
        axes.set_ylabel("")
        axes.xaxis.set_major_formatter(PercentFormatter(xmax=1.0, decimals=0))
        axes.xaxis.set_major_locator(MaxNLocator(2))
        axes.yaxis.set_major_locator(MaxNLocator(4, integer=True))


def _shade(axes: Axes, samples: pd.DataFrame) -> None:
    """Shade where something held the clock down, run over run, so that more runs at one time are darker."""
    runs = samples["run_id"].nunique()
    for name, (colour, _) in SHADES.items():
        for _, run in samples.groupby("run_id"):
            times = run["share"].to_numpy(float)
            step = float(np.median(np.diff(times))) if times.size > 1 else 1.0
            at = times[(run[name] > 0.0).to_numpy()]
            spans = _join_spans(at - step / 2, step)
            if spans:
                axes.broken_barh(
                    spans, (0.0, 1.0), transform=axes.get_xaxis_transform(), color=colour, linewidth=0,
                    alpha=max(0.06, DARKEST / runs), zorder=0.5,
                )  # fmt: skip


def _join_spans(begins: "np.ndarray[tuple[int], np.dtype[np.float64]]", length: float) -> list[tuple[float, float]]:
    """Return (begin, length) of spans of one length, those that touch each other as one."""
    spans: list[tuple[float, float]] = []
    for begin in begins:
        if spans and begin <= spans[-1][0] + spans[-1][1] + 0.5 * length:
            spans[-1] = (spans[-1][0], float(begin) + length - spans[-1][0])
        else:
            spans.append((float(begin), length))
    return spans


def _shade_patches(samples: pd.DataFrame) -> list[Patch]:
    return [
        Patch(facecolor=colour, alpha=DARKEST, label=words)
        for name, (colour, words) in SHADES.items()
        if (samples[name] > 0.0).any()
    ]


def _say_card(runs: pd.DataFrame, whole: Mapping[str, WholeLoad], users: int, frame: Frame) -> str:
    """Say the finding: clocks level by level, the span of temperatures, and how often the clock was held down."""
    said = []
    loads = [(str(level), whole[str(run_id)]) for run_id, level in zip(runs["run_id"], runs["level"], strict=True)]
    clocks = {
        level: [load.median_mhz for name, load in loads if name == level and load.median_mhz is not None]
        for level in frame.levels
    }
    told = [f"{clean_text(level)} {format_mhz([statistics.median(mhz)])}" for level, mhz in clocks.items() if mhz]
    said += [", ".join(told)] if told else []
    for name, unit in (("temperature_c", "\N{DEGREE SIGN}C"), ("power_w", "W")):
        ends = [span for _, load in loads if (span := getattr(load, name)) is not None]
        if ends:
            said.append(f"{min(least for least, _ in ends):.0f} to {max(most for _, most in ends):.0f} {unit}")
    samples = sum(load.reasons for _, load in loads)
    if samples:
        held = {words: sum(load.held[name] for _, load in loads) for name, (_, words) in SHADES.items()}
        shares = [f"{words} in {100.0 * n / samples:.0f} percent of the samples" for words, n in held.items() if n]
        said.append(", ".join(shares) or "nothing held the clock down")
    return f"{say_users(users)}: {', '.join(said)}"


def draw_order(order: LaunchOrder, frame: Frame) -> Plate:
    """Draw every run by the place of its launch in its block: its drift, and the temperature that it began at.

    Args:
        order: `launch_order.order_launches`.
        frame: levels, users, rehearsal.

    """
    title = "Order of launches and drift"
    runs = order.runs[order.runs["users"].isin(frame.users)]
    shown = {name: label for name, label in ORDER_LABELS.items() if runs[name].notna().any()}
    if not shown:
        why = order.why_no_drift or "no run counts"
        return say_why_not("order", title, why, frame.rehearsal)
    with figure_style():
        figure = Figure(figsize=(WIDTH_IN, 1.0 + 6 * ROW_IN * len(shown)), layout="constrained")
        grid = figure.subplots(len(shown), 1, squeeze=False, sharex=True)[:, 0]
        picked = pick_runs(runs, next(iter(shown)), MOST_POINTS)
        for axes, (name, label) in zip(grid, shown.items(), strict=True):
            _draw_places(axes, runs.dropna(subset=[name]), name, frame, picked)
            axes.set_ylabel(label)
        wide = False
        if "drift_percent" in shown:
            grid[0].axhline(0.0, color=INK, linewidth=0.8)
            wide = widen_percents(grid[0], "y", runs["drift_percent"].dropna(), INNER_PERCENT / 2)
        grid[-1].set_xlabel("place of the launch in its block")
        places = range(1, int(runs["place"].max()) + 1)
        grid[-1].set_xticks(places)
        grid[-1].set_xlim(0.5, len(places) + 0.5)
        bar = Line2D([], [], color=INK, linewidth=1.6, label="mean of a place")
        add_legend(figure, _levels_in(runs, frame), bar)
        warn_of_rehearsal(figure, frame.rehearsal)
    caption = (
        "One point a run. Drift: by how much its mean TPOT is above what its level and its block have at its number of "
        "users. Levels stand in another random order in each block, so points that rise from left to right are a "
        "machine that slows down, not a level. Levels that scatter more weigh less."
    )
    if wide:
        caption += f" The axis of the drift is logarithmic beyond {INNER_PERCENT:g} percent."
    if order.why_no_drift:
        caption = f"One point a run. No drift is shown: {order.why_no_drift}."
    caption += say_picked(len(picked), len(runs), MOST_POINTS)
    return Plate("order", title, _say_order(order, runs), caption, figure, frame.rehearsal)


def _draw_places(axes: Axes, runs: pd.DataFrame, name: str, frame: Frame, picked: Collection[str]) -> None:
    """Draw a point for each run that is picked, side by side by users, and the mean of each place as a bar."""
    marks = frame.marks()
    width = 0.5 / max(1, len(frame.users) - 1)
    beside = {users: -0.25 + width * place for place, users in enumerate(frame.users)}
    for level in _levels_in(runs, frame):
        part = runs[(runs["level"] == level) & runs["run_id"].isin(picked)]
        axes.scatter(
            part["place"] + part["users"].map(beside), part[name], s=16, marker=marks[level].marker,
            color=marks[level].colour, linewidth=0, zorder=3,
        )  # fmt: skip
    for place, value in mean_by_place(runs, name).items():
        axes.hlines(value, place - 0.35, place + 0.35, color=INK, linewidth=1.6)
    axes.yaxis.set_major_locator(MaxNLocator(4, integer=name == "gate_c"))
    axes.margins(y=0.15)


def _say_order(order: LaunchOrder, runs: pd.DataFrame) -> str:
    means = mean_by_place(runs, "drift_percent")
    said = f"No drift can be told: {order.why_no_drift}."
    if means:
        each = ", ".join(f"place {place} {say_percent(value)}" for place, value in means.items())
        blocks = format_counted(runs["block"].nunique(), "block")
        said = f"Mean drift in percent over {blocks}, by the launch's place in its block: {each}."
    gates = runs["gate_c"].dropna()
    if gates.empty:
        return f"{said} No temperature was read at the gates."
    return f"{said} Runs began at {gates.min():.0f} to {gates.max():.0f} \N{DEGREE SIGN}C."


def _levels_in(rows: pd.DataFrame, frame: Frame) -> list[str]:
    """Return the levels that have rows, in their order."""
    return [level for level in frame.levels if (rows["level"] == level).any()]


def _draw_lines(axes: Axes, rows: pd.DataFrame, columns: tuple[str, str], frame: Frame) -> None:
    """Draw one line a run in the colour of its level."""
    # One call a line: seaborn takes ten times as long for a line a run.
    for level, mark in frame.marks().items():
        for _, run in rows[rows["level"] == level].groupby("run_id", sort=False):
            axes.plot(*(run[name].to_numpy(float) for name in columns), color=mark.colour, **_LINE)
