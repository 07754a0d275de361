"""Draws how time and memory grow with the number of runs."""

import pandas as pd
import seaborn as sns
from matplotlib.figure import Figure

from .campaign import BOUND_RUNS, MOST_FIRST_S, MOST_MIB, MOST_SECOND_S

COLOURS = {"build": "#0072b2", "build again": "#d55e00"}
NOTE = "Simulated studies: 5 levels, 4 numbers of users, 600 samples a run. Figures of this package, of no card."


def draw_growth(sizes):
    """Return a figure of two panels: seconds and peak memory of a build and of a second one, both axes logarithmic."""
    rows = [
        {"runs": size.runs, "what": what, "s": cost.wall_s, "MiB": cost.peak_mib}
        for size in sizes
        for what, cost in zip(COLOURS, (size.first, size.second), strict=True)
    ]
    frame = pd.DataFrame(rows)
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    panels = figure.subplots(1, 2)
    bounds = {"s": {"build": MOST_FIRST_S, "build again": MOST_SECOND_S}, "MiB": {"build": MOST_MIB}}
    for axes, (unit, title) in zip(panels, (("s", "time, s"), ("MiB", "peak memory, MiB")), strict=True):
        axes.set(xscale="log", yscale="log", title=title)
        sns.lineplot(
            frame, x="runs", y=unit, hue="what", style="what", palette=COLOURS, markers=True, dashes=False, ax=axes
        )
        for what, most in bounds[unit].items():
            axes.plot([BOUND_RUNS], [most], marker="_", markersize=18, markeredgewidth=2, color=COLOURS[what])
            text = f"bound {most:,.0f} {unit}"
            axes.annotate(text, (BOUND_RUNS, most), (-12, 4), textcoords="offset points", ha="right")
        _draw_slope(axes, frame, unit)
        axes.set_ylim(top=2 * max(bounds[unit].values()))
        axes.set(xlabel="runs", ylabel="")
        axes.grid(alpha=0.35)
        axes.legend(title="")
    figure.suptitle(NOTE, fontsize=8.5)
    return figure


def _draw_slope(axes, frame, unit):
    """Draw what linear growth from the largest build would be, as a thin line."""
    last = frame[frame["what"] == "build"].iloc[-1]
    ends = [frame["runs"].min(), last["runs"]]
    axes.plot(ends, [last[unit] * one / last["runs"] for one in ends], color="#8b929a", linewidth=0.8, label="linear")
