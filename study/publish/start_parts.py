"""Where the time of a start went, for one start of each level: the one with the median length."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from study.analyze.evidence import counting_start_s
from study.analyze.judged_runs import order_levels
from study.analyze.startup_parts import OwnStamps, read_parts
from study.records import LaunchRecord
from study.store import sha256

STAMPS_FIT_S = 2.0
WHICH_START = "the one of median length (of two in the middle, the shorter)"


@dataclass(frozen=True)
class LevelParts:
    """Parts of one start of a level, disjoint; with `unaccounted_s` they add up to `wall_s`.

    Log stamps are whole seconds, so `wall_s` may differ from `start_s` by a little; by more than `STAMPS_FIT_S` the
    log's clock and ours do not fit.

    Attributes:
        level: the level.
        cache: warm or cold.
        launch_id: the launch that was read.
        parts: (name, seconds) in the order of the start.
        unaccounted_s: what no line accounts for; None where the log has no time stamp.
        wall_s: spawn to first token as the log's and our own stamps lay it out, s; likewise.
        start_s: spawn to first token by our own stamps alone, s.
        study: whose launch it is.

    """

    level: str
    cache: str
    launch_id: str
    parts: tuple[tuple[str, float], ...]
    unaccounted_s: float | None
    wall_s: float | None
    start_s: float
    study: str

    @property
    def fits(self) -> bool:
        """Whether the log's stamps and our own tell the same length."""
        return self.wall_s is None or abs(self.wall_s - self.start_s) <= STAMPS_FIT_S


def good_starts(launches: Sequence[LaunchRecord]) -> list[LaunchRecord]:
    """Return the measured launches that got to a first token and ran their level as asked."""
    return [one for one in launches if counting_start_s(one) is not None]


def read_level_parts(
    launches: Sequence[LaunchRecord], levels: Sequence[str], log_path: Callable[[str], Path]
) -> tuple[list[LevelParts], list[str]]:
    """Read the parts of one start of each level and cache state: the one of median length, of two the shorter.

    Args:
        launches: of one study.
        levels: the order of levels.
        log_path: launch id to where its server's log lies.

    Returns:
        The parts, and one line for each start whose log is not there, or is not the one that was recorded.

    """
    good = good_starts(launches)
    found, lost = [], []
    for level in order_levels((one.level for one in good), levels):
        for cache in ("warm", "cold"):
            ranked = sorted((one for one in good if (one.level, one.cache) == (level, cache)), key=_rank)
            if not ranked:
                continue
            middle = ranked[(len(ranked) - 1) // 2]
            path = log_path(middle.launch_id)
            why = why_no_log(middle, path)
            if why:
                lost.append(f"{level}, {cache}: {why}")
            else:
                found.append(_read(middle, path))
    return found, lost


def why_no_log(launch: LaunchRecord, path: Path) -> str:
    """Say why a launch's log cannot be read: it is not there, or is not the one whose hash the record holds."""
    if not path.is_file():
        return f"the log of launch {launch.launch_id} is not there"
    if launch.log_sha256 is not None and sha256(path) != launch.log_sha256:
        return f"the log of launch {launch.launch_id} is not the one that was recorded"
    return ""


def add_other_parts(parts: Sequence[LevelParts], others: Sequence[LevelParts]) -> tuple[LevelParts, ...]:
    """Return parts with those of another study whose level and state of the caches are not among them."""
    known = {(one.level, one.cache) for one in parts}
    return (*parts, *(one for one in others if (one.level, one.cache) not in known))


def _rank(launch: LaunchRecord) -> tuple[float, str]:
    return _start_s(launch), launch.launch_id


def _start_s(launch: LaunchRecord) -> float:
    return (launch.first_token_s or 0.0) - launch.spawn_s


def _read(launch: LaunchRecord, path: Path) -> LevelParts:
    stamps = OwnStamps(
        anchor_unix_s=launch.spawn_unix_s - launch.spawn_s,
        spawn_s=launch.spawn_s,
        ready_s=launch.healthy_s,
        first_token_s=launch.first_token_s,
    )
    with path.open(encoding="utf-8", errors="replace", newline="") as text:
        read = read_parts(text, stamps)
    parts = tuple((part.name, part.seconds) for part in read.parts)
    return LevelParts(
        level=launch.level,
        cache=launch.cache,
        launch_id=launch.launch_id,
        parts=parts,
        unaccounted_s=read.unaccounted_s,
        wall_s=read.wall_s,
        start_s=_start_s(launch),
        study=launch.study,
    )
