"""The study beside vLLM's own sweep: one matrix, both sides in one call, and where the study's time goes."""

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from .parts import PARTS, split_time
from .sides import ROOT, BenchError, Matrix, run_ours, run_sweep

MOST_SHARE = 0.45
MOST_ELSE_S = 0.3
MOST_COMMAND_S = 0.5
QUIET_LOAD = 0.5
"""Processes that may want to run before the benchmark begins; more than this is said beside the figures."""
COMMANDS = {"plan": ["plan", "--parameters", "notebooks/parameters/rehearsal.yaml"], "--help": ["--help"]}
REPEATS = 5


def bench_overhead(first, folder, json_file, matrix=None):
    """Run both sides and print the table; nothing is reported unless both did all of it.

    Raises:
        BenchError: a side failed.

    """
    matrix = matrix or Matrix()
    with tempfile.TemporaryDirectory(prefix="bench-") as temporary:
        place = (folder or Path(temporary)).resolve()
        figures = measure(matrix, first, place)
    if json_file:
        json_file.write_text(json.dumps(figures, indent=1) + "\n")
    print(render(figures))
    return 0


def measure(matrix, first, place):
    """Return the figures of one call."""
    if (place / "data").exists() or (place / "sweep-files").exists():
        raise BenchError(f"'{place}' holds an earlier benchmark; name a folder of its own")
    load = os.getloadavg()[0]
    sides = {"ours": lambda: run_ours(matrix, place), "sweep": lambda: run_sweep(matrix, place / "sweep-files")}
    order = [first, *(name for name in sides if name != first)]
    done = {}
    for name in order:
        print(f"{name}: {len(matrix.levels)} servers, {matrix.count} runs ...", file=sys.stderr, flush=True)
        done[name] = sides[name]()
    (ours, records), (sweep, results) = done["ours"], done["sweep"]
    parts, where = split_time(records.launches, records.runs, ours)
    return summarize(matrix, (ours.wall_s, sweep.wall_s), parts) | {
        "order": order,
        "cores": len(os.sched_getaffinity(0)),
        "load_average_before": load,
        "ours_parts_s": parts,
        "ours_everything_else_s": where,
        "sweep_load_s": sum(result["duration"] for result in results),
        "ours_load_s": sum(run.load.duration_s for run in records.runs),
        "commands_s": {name: time_command(words) for name, words in COMMANDS.items()},
    }


def summarize(matrix, walls, parts):
    """Return what the verdicts rest on.

    Args:
        matrix: what both sides ran.
        walls: seconds of ours and of the sweep.
        parts: ours by part.

    """
    ours_s, sweep_s = walls
    return {
        "servers": len(matrix.levels),
        "runs": matrix.count,
        "ours_s": ours_s,
        "sweep_s": sweep_s,
        "share": ours_s / sweep_s,
        "else_a_run_s": parts["everything_else"] / matrix.count,
    }


def time_command(words):
    """Return the median wall time of a command that needs no vLLM, s."""
    times_s = []
    for _ in range(REPEATS):
        begun_s = time.perf_counter()
        subprocess.run([sys.executable, "-m", "study", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        times_s.append(time.perf_counter() - begun_s)
    return median(times_s)


def render(figures):
    """Return the table and the verdicts as Markdown."""
    runs, ours_s, sweep_s = figures["runs"], figures["ours_s"], figures["sweep_s"]
    lines = [
        f"| {figures['servers']} servers, {runs} runs, {figures['cores']} cores | time | of the sweep's |",
        "|---|---|---|",
        f"| `vllm bench sweep serve` | {sweep_s:.1f} s | 1.00 |",
        f"| the study | {ours_s:.1f} s | {figures['share']:.2f} |",
    ]
    for name in PARTS:
        part_s = figures["ours_parts_s"][name]
        lines.append(f"| - {name.replace('_', ' ')} | {part_s:.1f} s | {part_s / sweep_s:.2f} |")
    lines += ["", f"Load, by the benchmark's own clock: {figures['ours_load_s']:.1f} s here, "
              f"{figures['sweep_load_s']:.1f} s in the sweep."]
    where = ", ".join(f"{name.replace('_', ' ')} {s:.2f} s" for name, s in figures["ours_everything_else_s"].items())
    lines += [f"Everything else: {where}.", f"First: {figures['order'][0]}.", ""]
    share, else_s = figures["share"], figures["else_a_run_s"]
    lines.append(say(f"{share:.2f} of the sweep's time", share, MOST_SHARE, ""))
    lines.append(say(f"everything else: {else_s:.2f} s a run", else_s, MOST_ELSE_S, " s"))
    for name, taken_s in figures["commands_s"].items():
        lines.append(say(f"python -m study {name}: {taken_s:.2f} s", taken_s, MOST_COMMAND_S, " s"))
    load = figures["load_average_before"]
    if load > QUIET_LOAD:
        lines.append(f"The machine was not quiet (load {load:.1f} before): no verdict rests on this.")
    return "\n".join(lines)


def say(what, value, most, unit):
    """Return a verdict line."""
    return f"{what}; asked: at most {most:g}{unit}: {'met' if value <= most else 'NOT MET'}"
