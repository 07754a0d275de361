"""What levels resolve to without a running server: for levels that no record tells of, and between two releases."""

from collections.abc import Collection, Hashable, Sequence
from dataclasses import replace
from typing import Any

from study.analyze.judged_runs import DEFAULT_LEVEL
from study.analyze.level_tables import LEVEL_COLUMNS
from study.analyze.switches import ChangedRequest, changed_requests, find_lookalikes, group_alike, switches_row
from study.analyze.switches_diff import FieldChange, LevelDiff, SetDiff
from study.design.resolved_set import ResolvedLevel, ResolvedSet
from study.publish.plain_text import clean_text
from study.publish.sheets import Row, Sheet, lay_out_switches

MARK = "Resolved without a running server"
MOST_ROWS = 12
"""Levels that a page shows at once; more are shown on demand."""
MOST_FIELDS = 8
"""Other fields that are named where a level's configuration differs; more are counted."""
LONGEST_VALUE = 120
"""Characters of a value that differs; what is longer is cut."""


def list_unrecorded(resolved: ResolvedSet, told: Collection[str]) -> Sheet | None:
    """Lay out the levels of a set that no record tells of, or None where the records tell of all.

    Args:
        resolved: the set.
        told: levels whose configuration a server of the edition's studies told.

    """
    wanted = [level for level in resolved.levels if level.name not in told]
    if not wanted:
        return None
    alike = {level.name: group for group in group_alike(resolved.levels) for level in group}
    apart = {
        other: f"differs from {like} in {', '.join(at)}" for (like, other), at in find_lookalikes(resolved).items()
    }
    rows = {level.name: _row(level, alike[level.name], apart.get(level.name)) for level in resolved.levels}
    title = f"{MARK}: levels of which no record tells, vLLM {resolved.vllm_version}"
    table = [rows[level.name] for level in wanted]
    return replace(lay_out_switches(title, table, rows.get(DEFAULT_LEVEL), "nothing"), folded=len(wanted) > MOST_ROWS)


def say_set(resolved: ResolvedSet) -> str:
    """Say what a set was resolved for."""
    return (
        f"{MARK}: by vLLM {resolved.vllm_version}'s own configuration code, for {resolved.resolved_for}, model "
        f"{resolved.model}. A worker may still change the graphs."
    )


def warn_of_set(resolved: ResolvedSet, versions: Collection[str]) -> tuple[str, ...]:
    """Warn where a set is of another vLLM than the studies ran."""
    if not versions or set(versions) == {resolved.vllm_version}:
        return ()
    ran = ", ".join(sorted(versions))
    return (f"These levels were resolved by vLLM {resolved.vllm_version}; the studies ran {ran}.",)


def list_meanings(diff: SetDiff) -> Sheet:
    """Lay out what each level means in this release and no longer means as it did in the one before."""
    rows = [(level.name, _say_switches(level), _say_some(level.fields) or "none") for level in diff.levels]
    rows += [(name, f"new in this set: not in that of vLLM {diff.old}", "") for name in diff.added]
    rows += [(name, f"no longer in this set: only in that of vLLM {diff.old}", "") for name in diff.removed]
    title = f"What each level means in this release: vLLM {diff.old} to {diff.new}. {MARK}"
    return Sheet(title, ("level", "switches that differ", "other fields that differ"), tuple(rows))


def say_meanings(diff: SetDiff) -> tuple[str, ...]:
    """Say what differs at every level, where something does."""
    return (f"At every level: {_say_some(diff.everywhere)}.",) if diff.everywhere else ()


def warn_of_meanings(diff: SetDiff) -> tuple[str, ...]:
    """Warn where two sets differ in more than their release."""
    if not diff.settings:
        return ()
    return (f"Not every difference is of the release: {'; '.join(map(_arrow, diff.settings))}.",)


def _row(level: ResolvedLevel, alike: Collection[ResolvedLevel], apart: str | None) -> Row:
    """Return a level's row in the columns of the records' table; `apart` tells it from one that shows the same."""
    environment = [f"{name}={value}" for name, value in level.environment.items()]
    told: dict[Hashable, Any] = {}
    if level.resolved is not None:
        told.update(switches_row(level.resolved))
    changes = [_say_change(change) for change in changed_requests(level)]
    changes += [f"cannot tell {path.split('.')[-1]}: {why}" for path, why in level.cannot_tell.items()]
    return {
        **dict.fromkeys(LEVEL_COLUMNS),
        **told,
        "level": level.name,
        "flags": " ".join([*environment, *level.flags]),
        "use_for": level.use_for or None,
        "alike": "; ".join(one.name for one in alike if one is not level) or None,
        "downgrades": "; ".join(changes),
        "reason": apart if level.refusal is None else f"refused by vLLM: {level.refusal}",
    }


def _say_change(change: ChangedRequest) -> str:
    if change.where == "worker":
        return f"{change.asked} would become {change.became} at a worker ({change.why}); only the running worker tells"
    return f"{change.path} asked {change.asked}, became {change.became}"


def _say_switches(level: LevelDiff) -> str:
    changes = [change for change in (level.refusal, level.flags) if change is not None]
    return "; ".join(_arrow(change) for change in (*changes, *level.switches)) or "the same"


def _say_some(changes: Sequence[FieldChange]) -> str:
    named = "; ".join(map(_arrow, changes[:MOST_FIELDS]))
    more = len(changes) - MOST_FIELDS
    return f"{named}; and {more} more" if more > 0 else named


def _arrow(change: FieldChange) -> str:
    if isinstance(change.old, list) and isinstance(change.new, list):
        gained = [str(one) for one in change.new if one not in change.old]
        lost = [str(one) for one in change.old if one not in change.new]
        parts = [f"{verb} {', '.join(names)}" for verb, names in (("gains", gained), ("loses", lost)) if names]
        return f"{change.name} {' and '.join(parts) or 'is in another order'}"
    return f"{change.name}: {_say(change.old)} \N{RIGHTWARDS ARROW} {_say(change.new)}"


def _say(value: object) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return "none" if value is None or value == "" else clean_text(text, LONGEST_VALUE)
