"""Builds simulated studies of several sizes and says how time and memory grow, and whether the bounds are kept."""

import math
import os
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

from .build import Cost, build_edition, forget, hash_edition, measure_stages
from .simulate import SAMPLES, write_simulated

ROOT = Path(__file__).parents[2]
BOUND_RUNS = 10_000
MOST_FIRST_S, MOST_SECOND_S, MOST_MIB = 60.0, 10.0, 2048.0
"""For `BOUND_RUNS` runs on two cores: a build, a second build, and the peak of either."""
LINEAR = 1.1
"""Largest exponent of growth that still counts as linear: what scatters from build to build is a few percent."""


@dataclass(frozen=True)
class Size:
    """What one size took: a build without a cache, one after it, and the stages of one in a third process."""

    runs: int
    raw_mib: float
    first: Cost
    second: Cost
    stages: dict
    same_bytes: bool


def measure_size(folder, runs):
    """Simulate a study of so many runs in `folder`, which becomes a project's root, and build it."""
    study = f"growth-{runs}"
    shutil.copytree(ROOT / "notebooks/parameters", folder / "notebooks/parameters", dirs_exist_ok=True)
    store = write_simulated(folder / "data", study, runs)
    raw_mib = sum(path.stat().st_size for path in store.raw.iterdir()) / 2**20
    forget(folder)
    first = build_edition(folder, study)
    built = hash_edition(folder)
    second = build_edition(folder, study)
    same_bytes = built == hash_edition(folder)
    size = Size(runs, raw_mib, first, second, measure_stages(folder, study), same_bytes)
    shutil.rmtree(store.raw)
    return size


def exponent(small, large, cost):
    """Return by which power of the number of runs a cost grows from one size to another; 1 is linear."""
    return math.log(cost(large) / cost(small)) / math.log(large.runs / small.runs)


def judge(sizes):
    """Return the exponents between the two largest sizes, and what is not as it should be, in words."""
    costs = {
        "first build, time": lambda size: size.first.wall_s,
        "second build, time": lambda size: size.second.wall_s,
        "first build, memory": lambda size: size.first.peak_mib,
        "second build, memory": lambda size: size.second.peak_mib,
    }
    ordered = sorted(sizes, key=lambda size: size.runs)
    growth = {name: exponent(*ordered[-2:], cost) for name, cost in costs.items()} if len(ordered) > 1 else {}
    wrong = [f"{name} grows with power {value:.2f} of the runs" for name, value in growth.items() if value > LINEAR]
    wrong += [f"the second build of {size.runs:,} runs gave other bytes" for size in ordered if not size.same_bytes]
    for size in ordered:
        if size.runs == BOUND_RUNS:
            wrong += _beyond_bounds(size)
    return growth, wrong


def _beyond_bounds(size):
    peak_mib = max(size.first.peak_mib, size.second.peak_mib)
    bounds = (
        ("the first build", size.first.wall_s, MOST_FIRST_S, "s"),
        ("the second build", size.second.wall_s, MOST_SECOND_S, "s"),
        ("memory", peak_mib, MOST_MIB, "MiB"),
    )
    return [
        f"{what} of {size.runs:,} runs: {value:,.1f} {unit} are more than {most:,.0f} {unit}"
        for what, value, most, unit in bounds
        if value > most
    ]


def tabulate(sizes):
    """Return lines: what each size took, and the stages of the largest."""
    head = ("runs", "raw MiB", "build s", "CPU s", "again s", "CPU s", "peak MiB", "again MiB", "s a 1,000 runs")
    rows = [
        (
            *(f"{size.runs:,}", f"{size.raw_mib:,.0f}", f"{size.first.wall_s:.1f}", f"{size.first.cpu_s:.1f}"),
            *(f"{size.second.wall_s:.1f}", f"{size.second.cpu_s:.1f}", f"{size.first.peak_mib:,.0f}"),
            *(f"{size.second.peak_mib:,.0f}", f"{1e3 * size.first.wall_s / size.runs:.1f}"),
        )
        for size in sizes
    ]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    lines = ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in (head, *rows)]
    for name, cost in sizes[-1].stages.items():
        lines.append(f"  {name:26}{cost.wall_s:7.1f} s, CPU {cost.cpu_s:6.1f} s, peak so far {cost.peak_mib:7,.0f} MiB")
    return lines


def to_json(sizes):
    """Return everything as JSON values."""
    growth, wrong = judge(sizes)
    return {
        "cpus": os.cpu_count(),
        "samples_a_run": SAMPLES,
        "bounds": {"runs": BOUND_RUNS, "first_s": MOST_FIRST_S, "second_s": MOST_SECOND_S, "mib": MOST_MIB},
        "sizes": [asdict(size) for size in sizes],
        "exponents": growth,
        "wrong": wrong,
    }
