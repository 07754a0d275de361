"""Resolved sets and their differences as text for a terminal, and as JSON for a program."""

import dataclasses
import json
from collections.abc import Iterable, Sequence
from typing import Any

from study.analyze.switches import (
    GRAPHS,
    MODE,
    PASSES,
    changed_requests,
    find_lookalikes,
    group_alike,
    name_value,
    shared_lines,
    switches_row,
    value_at,
)
from study.analyze.switches_diff import FieldChange, LevelDiff, SetDiff
from study.design.resolved_set import ResolvedLevel, ResolvedSet

HEADINGS = ("level", "mode", "graphs", "sizes", "backend", "fusions", "custom ops", "autotune", "JIT warm-up")
ONLY_A_WORKER = "only the running worker tells"


def summarize_set(resolved: ResolvedSet) -> dict[str, Any]:
    """Return a set's table as JSON: a row for each thing that levels resolved to, and what was changed on the way."""
    rows = []
    for group in group_alike(resolved.levels):
        first = group[0]
        if first.resolved is not None:
            rows.append({"levels": [level.name for level in group], **switches_row(first.resolved)})
            rows[-1]["cannot_tell"] = first.cannot_tell
    return {
        "vllm_version": resolved.vllm_version,
        "resolved_for": resolved.resolved_for.model_dump(mode="json"),
        "model": resolved.model,
        "rows": rows,
        "changed_requests": [
            {"level": level.name, **dataclasses.asdict(change)}
            for level in resolved.levels
            for change in changed_requests(level)
        ],
        "lines": {level.name: list(level.changed) for level in resolved.levels},
        "refused": {level.name: level.refusal for level in resolved.levels if level.refusal is not None},
        "llm": {level.name: level.llm for level in resolved.levels},
        "notes": list(find_notes(resolved)),
    }


def render_set(resolved: ResolvedSet) -> str:
    """Return a set as text: the table, one row for levels that are the same thing, and what vLLM changed."""
    parts = [
        f"vLLM {resolved.vllm_version}, {resolved.model}, for {resolved.resolved_for}",
        _table(resolved),
        *_section("The same thing, shown once", _say_alike(resolved)),
        *_section("Notes", find_notes(resolved)),
        *_section("Requests that vLLM changes", _say_changes(resolved)),
        *_section("Lines that vLLM logs about it", _say_lines(resolved)),
        *_section("Refused by vLLM", (f"{one.name}: {one.refusal}" for one in resolved.levels if one.refusal)),
        *_section("The same in Python, LLM(model, ...)", (_say_llm(level) for level in resolved.levels)),
    ]
    return "\n\n".join(parts)


def render_diff(diff: SetDiff) -> str:
    """Return two sets' differences as text: per level the switches that differ, then other fields."""
    parts = [f"vLLM {diff.old} -> {diff.new}: what each level means"]
    parts += _section("Other settings too: not every difference is of the release", map(_arrow, diff.settings))
    parts += _section("Levels added", diff.added) + _section("Levels removed", diff.removed)
    parts += _section("At every level", map(_arrow, diff.everywhere))
    by_change: dict[str, list[str]] = {}
    for level in diff.levels:
        if not level.same:
            by_change.setdefault("\n".join(_say_level(level)), []).append(level.name)
    for changes, names in by_change.items():
        parts += _section(", ".join(names), changes.split("\n"))
    same = [level.name for level in diff.levels if level.same]
    if same:
        parts.append(f"Unchanged{' otherwise' if diff.everywhere else ''}: {', '.join(same)}")
    return "\n\n".join(parts)


def diff_json(diff: SetDiff) -> str:
    """Return two sets' differences as JSON."""
    return json.dumps(dataclasses.asdict(diff), indent=2, sort_keys=True)


def find_notes(resolved: ResolvedSet) -> tuple[str, ...]:
    """Return what is to be known of the whole set: what its platform cannot do, and what only a worker tells."""
    told = [level for level in resolved.levels if level.resolved is not None]
    notes = []
    graphs = {name_value(GRAPHS, value_at(level.resolved, GRAPHS)) for level in told}
    if resolved.resolved_for.platform == "cpu" and graphs == {"NONE"}:
        notes.append("the CPU backend has no CUDA graphs: they are NONE at every level, whatever was asked for")
    if told and resolved.resolved_for.platform != "cpu":
        notes.append(_say_worker(told))
    notes += [
        f"{other} shows the same switches as {first} and differs in {', '.join(fields)}"
        for (first, other), fields in find_lookalikes(resolved).items()
    ]
    unknown = sorted({f"{path} {why}" for level in told for path, why in level.cannot_tell.items()})
    notes += [f"cannot tell: {text}" for text in unknown]
    return tuple(notes)


def _say_worker(levels: Sequence[ResolvedLevel]) -> str:
    asked = [level.at_worker for level in levels if level.at_worker is not None]
    known = sorted({f"{one.backend} (supports {one.graph_support})" for one in asked if one.backend is not None})
    missing = sorted({name for one in asked for name in one.passed_over})
    if not known:
        reasons = sorted({one.reason for one in asked if one.reason})
        return ": ".join(["cannot tell what a worker's attention backend does to the graphs", *reasons])
    said = f"graphs at a worker rest on its attention backend, here expected to be {', '.join(known)}; {ONLY_A_WORKER}"
    if missing:
        said += f"; {', '.join(missing)} would come first where its package is installed, which it is not here"
    return said


def _table(resolved: ResolvedSet) -> str:
    rows: list[tuple[str, ...]] = [HEADINGS]
    rows += [_cells(group[0]) for group in group_alike(resolved.levels)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEADINGS))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]])


def _cells(level: ResolvedLevel) -> tuple[str, ...]:
    if level.resolved is None:
        return (level.name, "refused", *[""] * (len(HEADINGS) - 2))
    row = switches_row(level.resolved)
    sizes = f"{row['capture_sizes']} to {row['largest_capture_size']}" if row["capture_sizes"] else "none"
    return (
        level.name,
        *(_say(row[name]) for name in ("mode", "cudagraph_mode")),
        sizes,
        _say(row["backend"]),
        "; ".join(part for part in (_say(row["fusions"]), _unknown_fusions(level)) if part),
        *(_say(row[name]) for name in ("custom_ops", "flashinfer_autotune", "jit_warmup")),
    )


def _unknown_fusions(level: ResolvedLevel) -> str:
    names = [path.removeprefix(f"{PASSES}.") for path in level.cannot_tell if path.startswith(PASSES)]
    return f"cannot tell {', '.join(names)}" if names else ""


def _say(value: object) -> str:
    return "-" if value is None else ("no", "yes")[value] if isinstance(value, bool) else str(value)


def _say_alike(resolved: ResolvedSet) -> list[str]:
    groups = [group for group in group_alike(resolved.levels) if len(group) > 1]
    return [" = ".join(level.name for level in group) for group in groups]


def _say_changes(resolved: ResolvedSet) -> list[str]:
    said = []
    for level in resolved.levels:
        for change in changed_requests(level):
            if change.where == "worker":
                text = f"{change.path} {change.asked} would become {change.became} at a worker ({change.why})"
                said.append(f"{level.name}: {text}; {ONLY_A_WORKER}")
            else:
                said.append(f"{level.name}: {change.path} asked {change.asked}, became {change.became}")
        row = switches_row(level.resolved) if level.resolved is not None else {}
        asked = MODE in level.requested and GRAPHS not in level.requested
        if asked and row["mode"] == "NONE" and row["cudagraph_mode"] != "NONE":
            said.append(f"{level.name}: mode NONE alone is not eager; {row['cudagraph_mode']} graphs stay on")
    return said


def _say_lines(resolved: ResolvedSet) -> list[str]:
    """Return each line once, with the levels at which it was logged."""
    everywhere = shared_lines(resolved)
    by_line: dict[str, list[str]] = {}
    for level in resolved.levels:
        for line in level.changed:
            if line not in everywhere:
                by_line.setdefault(line, []).append(level.name)
    own = [f"{', '.join(at)}: {line}" for line, at in by_line.items()]
    return [*(f"every level: {line}" for line in everywhere), *own]


def _say_llm(level: ResolvedLevel) -> str:
    arguments = ", ".join(f"{name}={value!r}" for name, value in level.llm.items())
    said = f"{level.name}: LLM(model{', ' if arguments else ''}{arguments})"
    if level.environment:
        said += f" with {' '.join(f'{name}={value}' for name, value in level.environment.items())}"
    if level.llm_differs:
        return f"{said}, which resolves otherwise in {', '.join(level.llm_differs)}"
    return f"{said}, not compared: {level.llm_reason}" if level.llm_differs is None else said


def _section(title: str, lines: Iterable[str]) -> list[str]:
    listed = list(lines)
    return ["\n".join([f"{title}:", *(f"  {line}" for line in listed)])] if listed else []


def _say_level(level: LevelDiff) -> list[str]:
    changes = [change for change in (level.refusal, level.flags) if change is not None]
    return [_arrow(change) for change in (*changes, *level.switches, *level.fields)]


def _arrow(change: FieldChange) -> str:
    old, new = change.old, change.new
    if isinstance(old, list) and isinstance(new, list):
        parts = [f"{word} {', '.join(map(str, items))}" for word, items in _list_changes(old, new) if items]
        return f"{change.name}: {'; '.join(parts) or 'in another order'}"
    return f"{change.name}: {_show(old)} -> {_show(new)}"


def _list_changes(old: list[Any], new: list[Any]) -> tuple[tuple[str, list[Any]], ...]:
    return ("without", [one for one in old if one not in new]), ("with", [one for one in new if one not in old])


def _show(value: object) -> str:
    text = "none" if value is None or value == "" else value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
