"""What the card did under each level: power, energy, host load; and the reference line, which no level can pass."""

import itertools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from study.analyze.findings import Findings
from study.analyze.formats import MISSING, format_count, format_ms, listed
from study.analyze.reference_line import ReferenceLine, find_reference_line, mean_context_tokens
from study.analyze.run_digest import Study
from study.analyze.startup import read_startup
from study.analyze.startup_record import Startup
from study.design.parameters import read_yaml
from study.design.plain_files import decode_utf8, is_file, parse_json, read_bytes
from study.errors import InputError
from study.publish.sheets import Sheet
from study.publish.start_parts import why_no_log
from study.records import LaunchRecord

MOST_CONFIG_BYTES = 2**20


def read_reference_lines(
    root: Path, records: Study, default: str, log_path: Callable[[str], Path]
) -> tuple[ReferenceLine, ...]:
    """Return the reference line of each card that a default server ran on, in the order of the cards' ids.

    Args:
        root: the project's root, for the model's shape or folder.
        records: of one study.
        default: name of the default level.
        log_path: launch id to where its server's log lies.

    """
    launches = [one for one in records.launches if one.first_token_s is not None and not one.fills_caches]
    found = []
    for machine in sorted({one.machine.unit for one in launches if one.level == default}):
        ours = [one for one in launches if one.machine.unit == machine]
        served = {one.launch_id for one in ours}
        tokens = mean_context_tokens([run for run in records.runs if run.launch_id in served])
        config = _read_config(root, str(ours[0].comparable.get("model", "")))
        log = _read_log([one for one in ours if one.level == default], log_path)
        found.append(find_reference_line(ours, log, config, tokens))
    return tuple(found)


def _read_config(root: Path, model: str) -> Mapping[str, Any] | None:
    """Return the configuration of a model that lies inside the project as a shape file or a folder, else None."""
    shape = model.endswith((".yaml", ".yml"))
    path = root / model if shape else root / model / "config.json"
    # A record may name anything: what lies outside, or is no name of a file, is not looked at.
    if not model or not is_file(path) or not path.resolve().is_relative_to(root.resolve()):
        return None
    if shape:
        config = read_yaml(path).get("config")
    else:
        text = decode_utf8(read_bytes(path, MOST_CONFIG_BYTES), f"'{path}'")
        try:
            config = parse_json(text)
        except ValueError as error:
            raise InputError(f"'{path}' is not JSON: {error}") from None
    return config if isinstance(config, dict) else None


def _read_log(launches: Sequence[LaunchRecord], log_path: Callable[[str], Path]) -> Startup | None:
    """Return what the first log that is there, and as recorded, tells of its one start."""
    for launch in launches:
        path = log_path(launch.launch_id)
        if not why_no_log(launch, path):
            with path.open(encoding="utf-8", errors="replace", newline="") as text:
                starts = read_startup(text)
            if len(starts) == 1:
                return starts[0]
    return None


def say_reference(lines: Sequence[ReferenceLine]) -> tuple[str, ...]:
    """Say what the least time of a token is made of, or why it is not known; nothing without a GPU.

    Cards on which a token reads as many bytes share a paragraph.
    """
    takes: dict[str, list[str]] = {}
    unknown = []
    for line in lines:
        if line.least_ms is None or line.weights_gb is None or line.kv_gb is None or line.read_gb_s is None:
            if line.reason != "no GPU":
                unknown.append(f"No reference line on {line.machine}: {line.reason}.")
            continue
        read = f"{line.weights_gb:.2f} GB of weights and {line.kv_gb:.2f} GB of KV cache"
        at = f"{line.least_ms:.2f} ms on {line.machine} ({line.read_gb_s / 1e3:.2f} TB/s)"
        takes.setdefault(read, []).append(at)
    told = [
        f"Reference line: a token for one user reads {read}, which takes, at the bandwidth that the canary read, "
        f"{listed(cards)}. It is a reference, not a bound to the digit: what a compile level could still win lies "
        "above it."
        for read, cards in takes.items()
    ]
    return (*told, *unknown)


def list_reference(found: Findings, lines: Sequence[ReferenceLine]) -> Sheet | None:
    """Lay out the median TPOT at one user beside the least time of a token on the same card; None without either."""
    least_ms = {line.machine: line.least_ms for line in lines if line.least_ms is not None}
    runs = found.runs[(found.runs["users"] == 1) & found.runs["counts"].astype(bool)]
    runs = runs[runs["machine"].isin(list(least_ms))].dropna(subset=["median_tpot_ms"])
    if not len(runs):
        return None
    least = runs["machine"].map(least_ms).astype(float)
    runs = runs.assign(least_ms=least, times=runs["median_tpot_ms"].astype(float) / least)
    rows = []
    for level in found.levels:
        part = runs[runs["level"] == level]
        if len(part):
            medians = part[["median_tpot_ms", "least_ms", "times"]].astype(float).median()
            figures = (format_ms([medians["median_tpot_ms"]]), format_ms([medians["least_ms"]]))
            rows.append((level, *figures, f"{medians['times']:.2f} x", format_count(len(part))))
    head = ("level", "median TPOT at one user", "least time of a token", "TPOT over it, median of runs", "runs")
    return Sheet("What a compile level could still win: the reference line", head, tuple(rows))


def list_card_use(found: Findings) -> Sheet | None:
    """Lay out power, energy and host load by users and level, medians over the runs that count; None without a GPU."""
    runs = found.runs[found.runs["counts"].astype(bool)]
    if not runs["mean_power_w"].notna().any():
        return None
    head = (
        *("users", "level", "power", "energy of a token", "energy counter over power x time", "host busy"),
        *("host steal", "runs"),
    )
    rows = []
    for users, level in itertools.product(sorted(set(runs["users"])), found.levels):
        part = runs[(runs["users"] == users) & (runs["level"] == level)]
        if len(part):
            rows.append((format_count(users), level, *_use_of(part), format_count(len(part))))
    return Sheet("What the card and its host did", head, tuple(rows), folded=len(rows) > 12)


def _use_of(runs: pd.DataFrame) -> tuple[str, ...]:
    """Return power, energy of a token, the check of the counter, and the host's load, as text."""
    return (
        _median(runs, "mean_power_w", "{:.0f} W"),
        _median(runs, "energy_per_token_j", "{:#.3g} J"),
        _median(runs, "energy_check", "{:.2f}"),
        _median(runs, "host_busy", "{:.1%}"),
        _median(runs, "host_steal", "{:.1%}"),
    )


def _median(runs: pd.DataFrame, name: str, pattern: str) -> str:
    values = runs[name].dropna().astype(float)
    return pattern.format(values.median()) if len(values) else MISSING
