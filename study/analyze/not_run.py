"""What the sessions of a study asked for and what has no record: never started, or stopped before it ran."""

from collections.abc import Iterator, Sequence
from typing import Any

from study.analyze.formats import format_users
from study.analyze.run_digest import Study


def say_not_run(study: Study) -> list[str]:
    """Return one sentence a block for what its sessions asked for and no record has; none where all was run.

    A launch or run that was made and does not count has a record, and stands with what is left out; so do the runs of
    a launch that failed.

    Args:
        study: its records, with those of its sessions.

    """
    lacking: dict[tuple[str, int], dict[str, list[int]]] = {}
    failed = _failed(study)
    for unit, number, level, users in sorted(_asked(study) - _recorded(study)):
        if (number, level) not in failed:
            lacking.setdefault((unit, number), {}).setdefault(level, []).append(users)
    return [f"Asked for and not run in {unit} {n}: {_list_levels(levels)}." for (unit, n), levels in lacking.items()]


Key = tuple[str, int, str, int]
"""Block or seed, its number, level, users; users 0 is the start, where starts alone are measured."""


def _asked(study: Study) -> set[Key]:
    return {key for session in study.sessions for key in _keys(session.asked, session.levels)}


def _keys(asked: dict[str, Any], levels: Sequence[dict[str, Any]]) -> Iterator[Key]:
    fresh, speed = asked.get("fresh_server_per_seed", True), asked.get("measure", "speed") == "speed"
    seeds = asked.get("seeds", [])
    for seed in seeds if fresh or speed else seeds[:1]:
        for level in levels:
            for count in asked.get("users", []) if speed else [0]:
                yield "block" if fresh else "seed", seed, str(level["name"]), count


def _recorded(study: Study) -> set[Key]:
    runs = {(run.seed, run.level, run.users) for run in study.runs}
    starts = {(launch.block, launch.level, 0) for launch in study.launches if not launch.fills_caches}
    return {(unit, *key) for key in runs | starts for unit in ("block", "seed")}


def _failed(study: Study) -> set[tuple[int, str]]:
    return {(launch.block, launch.level) for launch in study.launches if launch.outcome.status == "failed"}


def _list_levels(levels: dict[str, list[int]]) -> str:
    """Write levels with their numbers of users: `eager at 32 users, O0 at 1 and 64 users`; a start has none."""
    return ", ".join(f"{level}{_say_users(users)}" for level, users in levels.items())


def _say_users(users: Sequence[int]) -> str:
    return "" if list(users) == [0] else f" at {format_users(users)}"
