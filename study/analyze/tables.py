"""The study's tables of runs, as pandas frames: every run, the guide's session table, what was left out, and why.

Rows and columns stand in an order of their own, so that the same records give the same tables, in whatever order
their files were read. Only runs that count enter a figure: valid, and not run again later.
"""

import json
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

import pandas as pd

from study.analyze.evidence import check_launch_level, counting_start_s
from study.analyze.formats import format_mhz, format_ms
from study.analyze.judged_runs import JudgedRun, judge_runs, order_levels, split_judged
from study.analyze.run_digest import Study
from study.analyze.runs import RunFigures
from study.records import LaunchRecord

FIGURES = tuple(field.name for field in fields(RunFigures) if field.name not in ("event_shares", "reasons", "cards"))
RUN_COLUMNS = (
    *("run_id", "launch_id", "session", "level", "block", "seed", "users", "position", "attempt", "machine", "gpu"),
    *("rehearsal", "valid", "counts", "reasons", "left_out", "notes", *FIGURES, "event_shares", "missing"),
)
_OF_RUN = ("run_id", "launch_id", "session", "level", "block", "seed", "users", "position")
COMPARISON_COLUMNS = ("level", "users", "block", "seed", "machine", "launch", "value", "median_ms")
SESSION_COLUMNS = ("card", "users", "levels", "tpot", "sm_clock")
SESSION_FIGURE_COLUMNS = (
    *("card", "users", "level", "runs", "machines", "median_tpot_ms", "least_tpot_ms", "greatest_tpot_ms"),
    *("median_ttft_ms", "median_sm_clock_mhz"),
)
LEFT_OUT_COLUMNS = ("kind", "id", "level", "block", "seed", "users", "reason", "detail")
_FLOAT_ENDINGS = ("_ms", "_s", "_w", "_c", "_mhz", "_j", "_per_request", "_share")
_FLOATS = ("value", "energy_check", "host_busy", "host_steal")
_TYPES = {"waves_complete": "Int64", "throttled": "boolean", "seed": "Int64", "users": "Int64", "block": "Int64"}

Judged = Sequence[JudgedRun]


def make_frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str]) -> pd.DataFrame:
    """Return rows as a frame whose columns keep their types where a value is missing, or where there is no row."""
    frame = pd.DataFrame(list(rows), columns=list(columns))
    floats = [name for name in columns if name.endswith(_FLOAT_ENDINGS) or name in _FLOATS]
    others = {name: _TYPES[name] for name in columns if name in _TYPES}
    return frame.astype({**dict.fromkeys(floats, "float64"), **others})


def run_table(study: Study, judged: Judged | None = None) -> pd.DataFrame:
    """Return one row a run (`RUN_COLUMNS`), whatever became of it.

    `reasons` are the codes of its faults, `left_out` why it enters no figure, `notes` the notes that hold, each joined
    with `; `; `event_shares` and `missing` (figure: why it is null) are JSON.
    """
    return make_frame([_run_row(one) for one in judged or judge_runs(study)], RUN_COLUMNS)


def _run_row(one: JudgedRun) -> dict[str, Any]:
    run, figures = one.run, one.figures
    seen = {} if figures is None else {name: getattr(figures, name) for name in FIGURES}
    missing = {"*": one.validity.faults[0].detail} if figures is None else dict(figures.reasons)
    shares = None if figures is None or figures.event_shares is None else _to_json(figures.event_shares)
    return {
        **{name: getattr(run, name) for name in _OF_RUN},
        "attempt": run.attempt,
        "machine": one.machine,
        "gpu": None if one.launch is None else one.launch.machine.gpu_name,
        "rehearsal": run.rehearsal,
        "valid": one.validity.valid,
        "counts": one.counts,
        "reasons": "; ".join(one.validity.reasons),
        "left_out": "; ".join(one.left_out),
        "notes": "; ".join(note.code for note in one.notes if note.state == "failed"),
        **seen,
        "event_shares": shares,
        "missing": _to_json(missing),
    }


def _to_json(values: Mapping[str, Any]) -> str:
    return json.dumps(dict(values), sort_keys=True, ensure_ascii=False)


def comparison_input(study: Study, judged: Judged | None = None, levels: Sequence[str] = ()) -> pd.DataFrame:
    """Return what `compare.compare_levels` takes: one row a run that counts (`COMPARISON_COLUMNS`).

    `value` is the mean TPOT over complete waves, `median_ms` the median TPOT, both in ms.

    Args:
        study: the records.
        judged: its judged runs, where they are at hand.
        levels: the order of levels; without, the default first and the rest by name.

    """
    counting = [one for one in judged or judge_runs(study) if one.counts]
    order = {name: place for place, name in enumerate(order_levels((one.run.level for one in counting), levels))}
    rows = [row for one in sorted(counting, key=lambda one: order[one.run.level]) if (row := _comparison_row(one))]
    return make_frame(rows, COMPARISON_COLUMNS)


def _comparison_row(one: JudgedRun) -> dict[str, Any] | None:
    figures = one.figures
    if figures is None or figures.mean_tpot_ms is None:
        return None
    return {
        **{name: getattr(one.run, name) for name in ("level", "users", "block", "seed")},
        "machine": one.machine,
        "launch": one.run.launch_id,
        "value": figures.mean_tpot_ms,
        "median_ms": figures.median_tpot_ms,
    }


def session_figures(study: Study, judged: Judged | None = None, levels: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row a kind of card, number of users and level (`SESSION_FIGURE_COLUMNS`); null where no run counts.

    Each figure is a median over runs: of their median TPOT and time to the first token over requests, and of their
    median SM clock. The least and the greatest of the runs' median TPOT are the seed range of the 2026.10 edition.
    """
    kinds = split_judged(study, judged or judge_runs(study))
    rows = [{"card": card, **row} for card, part, runs in kinds for row in _session_rows(part, runs, levels)]
    return make_frame(rows, SESSION_FIGURE_COLUMNS)


def _session_rows(study: Study, runs: Judged, levels: Sequence[str]) -> Iterator[dict[str, Any]]:
    names = order_levels([*(one.run.level for one in runs), *_measured_levels(study)], levels)
    cells: dict[tuple[int, str], list[JudgedRun]] = {}
    for one in runs:
        cells.setdefault((one.run.users, one.run.level), []).append(one)
    for users in sorted({one.run.users for one in runs}):
        for level in names:
            yield _session_row(users, level, cells.get((users, level), []))


def _measured_levels(study: Study) -> list[str]:
    return [launch.level for launch in study.launches if not launch.fills_caches]


def _session_row(users: int, level: str, runs: Judged) -> dict[str, Any]:
    counting = [one for one in runs if one.counts and one.figures is not None]
    names = ("median_tpot_ms", "median_ttft_ms", "median_sm_clock_mhz")
    known = {
        name: [value for one in counting if (value := getattr(one.figures, name)) is not None] for name in names
    }
    tpot = known["median_tpot_ms"]
    return {
        "users": users,
        "level": level,
        "runs": len(counting),
        "machines": len({one.machine for one in counting}),
        **{name: statistics.median(values) if values else None for name, values in known.items()},
        "least_tpot_ms": min(tpot, default=None),
        "greatest_tpot_ms": max(tpot, default=None),
    }


def session_table(
    study: Study, users: Sequence[int] | None = None, levels: Sequence[str] = (), judged: Judged | None = None
) -> pd.DataFrame:
    """Return the guide's table of a session, as text: one row a kind of card and number of users (`SESSION_COLUMNS`).

    `60.36 / 61.07 ms` and `1,275 / 1,290 MHz` stand in the order that `levels` gives (`default / eager`).

    Args:
        study: the records.
        users: which rows, in order; None: every number of users that was run.
        levels: the order of levels; without, the default first and the rest by name.
        judged: the study's judged runs, where they are at hand.

    """
    by_card: dict[str | None, list[dict[str, Any]]] = {}
    for row in session_figures(study, judged, levels).to_dict("records"):
        by_card.setdefault(row["card"], []).append({str(name): value for name, value in row.items()})
    rows = [row for card, figures in by_card.items() for row in _guide_rows(card, figures, users)]
    return make_frame(rows, SESSION_COLUMNS)


def _guide_rows(
    card: str | None, figures: Sequence[Mapping[str, Any]], users: Sequence[int] | None
) -> Iterator[dict[str, Any]]:
    names = list(dict.fromkeys(row["level"] for row in figures))
    by_cell = {(int(row["users"]), row["level"]): row for row in figures}
    for count in dict.fromkeys(count for count, _ in by_cell) if users is None else users:
        cells = [by_cell.get((count, name), {}) for name in names]
        yield {
            "card": card,
            "users": count,
            "levels": " / ".join(names),
            "tpot": format_ms([cell.get("median_tpot_ms") for cell in cells]),
            "sm_clock": format_mhz([cell.get("median_sm_clock_mhz") for cell in cells]),
        }


def left_out_table(study: Study, judged: Judged | None = None) -> pd.DataFrame:
    """Return what does not count and why (`LEFT_OUT_COLUMNS`): launches first, then runs.

    The start of a launch that came to its first token counts all the same, and its row says so.
    """
    launches = sorted(study.launches, key=lambda one: one.launch_id)
    rows = [row for launch in launches if (row := _left_out_launch(launch))]
    rows += [_left_out_run(one) for one in judged or judge_runs(study) if not one.counts]
    return make_frame(rows, LEFT_OUT_COLUMNS)


def _left_out_launch(launch: LaunchRecord) -> dict[str, Any] | None:
    """Return a row for a launch that failed, filled caches, or did not run its level; None for any other."""
    state, detail = check_launch_level(launch)
    if launch.outcome.status != "ok":
        reason, detail = f"{launch.outcome.status} at {launch.outcome.stage}", launch.outcome.message
    elif launch.fills_caches:
        reason, detail = "fills_caches", "an unmeasured start that fills the caches"
    elif state == "failed":
        reason = "level_not_as_asked"
    else:
        return None
    if counting_start_s(launch) is not None:
        detail = f"{detail}; its start counts" if detail else "its start counts"
    place = {"kind": "launch", "id": launch.launch_id, "level": launch.level, "block": launch.block}
    return {**place, "reason": reason, "detail": detail}


def _left_out_run(one: JudgedRun) -> dict[str, Any]:
    faults = one.validity.faults
    return {
        "kind": "run",
        "id": one.run.run_id,
        **{name: getattr(one.run, name) for name in ("level", "block", "seed", "users")},
        "reason": "; ".join(one.left_out),
        "detail": "; ".join(f"{fault.code}: {fault.detail}" for fault in faults),
    }
