"""The plan of a session: which launches and runs, in which order, and about how long they take.

A block launches every level once, in an order drawn from the order seed; within a launch every number of users is run
once, in an order that all levels of the block share. With `fresh_server_per_seed: false` a level is launched once and
all its seeds run on that server.
"""

import random
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from study.design.counting import format_counted
from study.design.levels import Level
from study.design.parameters import Parameters
from study.design.pool import describe_pool, read_pool
from study.design.root import find_root

START_S = {"cuda": 70.0, "cpu": 33.0}
FIRST_START_S = {"cuda": 200.0, "cpu": 60.0}
STOP_AND_CANARY_S = {"cuda": 20.0, "cpu": 6.0}
TOKEN_S = {"cuda": 0.006, "cpu": 0.012}
HOST_LAUNCHED_TOKEN_S = {"cuda": 0.035, "cpu": 0.012}
"""First guesses, used until the study's own records tell better: starts and tokens as seen on one H200 and on two CPU
cores (a token takes the same time whatever the users, which holds for small numbers of them)."""


@dataclass(frozen=True)
class PlannedRun:
    """One load at one number of users; `seed` draws its prompts."""

    block: int
    level: str
    users: int
    seed: int

    @property
    def key(self) -> str:
        """Name that records of this run start with; without the attempt."""
        return f"b{self.seed}-{self.level}-u{self.users}"


@dataclass(frozen=True)
class PlannedLaunch:
    """One fresh server. `fills_caches` marks an unmeasured start, which has no runs."""

    block: int
    level: Level
    position: int
    runs: tuple[PlannedRun, ...]
    fills_caches: bool = False

    @property
    def key(self) -> str:
        """Name that records of this launch start with; without the attempt."""
        return f"{'fill' if self.fills_caches else f'b{self.block}'}-{self.level.name}"


@dataclass(frozen=True)
class Plan:
    """All launches of a session, in order."""

    launches: tuple[PlannedLaunch, ...]
    estimates_s: Mapping[str, float] = field(default_factory=dict)

    @property
    def measured(self) -> tuple[PlannedLaunch, ...]:
        """The launches that are measured: all but the cache-filling ones."""
        return tuple(launch for launch in self.launches if not launch.fills_caches)

    @property
    def runs(self) -> tuple[PlannedRun, ...]:
        """Every run, in order."""
        return tuple(run for launch in self.launches for run in launch.runs)

    def estimate_s(self) -> float:
        """Return about how long the session takes, in seconds."""
        return sum(self.estimates_s[launch.key] for launch in self.launches)


def make_plan(parameters: Parameters, levels: Collection[Level], seen_s: Mapping[str, float] | None = None) -> Plan:
    """Lay out a session.

    Args:
        parameters: the session.
        levels: the levels, in the order asked for.
        seen_s: seconds that launches of a level took in this study (`fill-O0` or `O0`), where records tell.

    """
    launches = [*_cache_fills(parameters, levels)]
    if parameters.fresh_server_per_seed:
        for block in parameters.seeds:
            launches += _block(parameters, levels, block, (block,))
    else:
        launches += _block(parameters, levels, parameters.seeds[0], tuple(parameters.seeds))
    estimates: dict[str, float] = {}
    for launch in launches:
        fills = parameters.cache == "cold" or not estimates
        estimates[launch.key] = _estimate_s(parameters, launch, seen_s or {}, FIRST_START_S if fills else START_S)
    return Plan(tuple(launches), estimates)


def _cache_fills(parameters: Parameters, levels: Collection[Level]) -> list[PlannedLaunch]:
    """One unmeasured start for each level that compiles or captures, unless another's start warms it too."""
    if parameters.cache == "cold":
        return []
    names = {level.name for level in levels}
    need = [level for level in levels if level.fills_caches and not names & set(level.warmed_by)]
    return [PlannedLaunch(0, level, index, (), fills_caches=True) for index, level in enumerate(need)]


def _block(
    parameters: Parameters, levels: Collection[Level], block: int, seeds: tuple[int, ...]
) -> list[PlannedLaunch]:
    """Every level once, in random order; users in one random order for all of them, those that are added later too."""
    draw = random.Random(f"{parameters.order_seed}:{block}")
    order = draw.sample(list(levels), len(levels))
    draw = random.Random(f"{parameters.order_seed}:{block}:users")
    users = draw.sample(parameters.users, len(parameters.users)) if parameters.measure == "speed" else []
    return [
        PlannedLaunch(
            block,
            level,
            position,
            tuple(PlannedRun(block, level.name, count, seed) for seed in seeds for count in users),
        )
        for position, level in enumerate(order)
    ]


def _estimate_s(
    parameters: Parameters, launch: PlannedLaunch, seen_s: Mapping[str, float], start_s: Mapping[str, float]
) -> float:
    """Seconds of one launch: as seen, or start, stop and canary, and a warm-up wave and the waves of each run."""
    name = seen_name(launch.level.name, launch.fills_caches)
    if name in seen_s:
        return seen_s[name]
    device = parameters.device
    slow = launch.level.run_length_factor > 1
    wave_s = parameters.output_tokens * (HOST_LAUNCHED_TOKEN_S if slow else TOKEN_S)[device]
    least_s = parameters.min_run_s * launch.level.run_length_factor
    run_s = _soak_s(parameters) + wave_s + max(parameters.waves * wave_s, least_s + wave_s / 2)
    return start_s[device] + STOP_AND_CANARY_S[device] + len(launch.runs) * run_s


def seen_name(level: str, fills_caches: bool) -> str:
    """Return by which name the seconds of a level's launches are kept in what was seen: `O0` or `fill-O0`."""
    return f"fill-{level}" if fills_caches else level


def _soak_s(parameters: Parameters) -> float:
    """Seconds of load ahead of each run, at most: a card that is never throttled is soaked up to the deadline."""
    soaks = parameters.device == "cuda" and parameters.session == "throttled" and parameters.throttle == "soak"
    return parameters.cool_deadline_s if soaks else 0.0


def describe_plan(plan: Plan, parameters: Parameters, root: Path | None = None) -> str:
    """Write a plan as text: one line a launch, in order, with users and the estimated minutes, and a user's own pool.

    Args:
        plan: the plan.
        parameters: what it was made of.
        root: the project's root, from which the path of a pool is taken; by default that of the working folder.

    Raises:
        InputError: the user's pool is unusable.

    """
    fills = len(plan.launches) - len(plan.measured)
    counts = [
        format_counted(len(plan.measured), "measured launch"),
        format_counted(len(plan.runs), "run"),
        format_counted(fills, "unmeasured start"),
    ]
    lines = [
        f"study {parameters.study}: {parameters.session} session, {', '.join(counts)}, "
        f"about {plan.estimate_s() / 60:.0f} minutes",
    ]
    for launch in plan.launches:
        minutes = f"{plan.estimates_s[launch.key] / 60:5.1f} min"
        if launch.fills_caches:
            lines.append(f"  {minutes}  unmeasured start of {launch.level.name}, to fill the caches")
            continue
        users = ", ".join(str(run.users) for run in launch.runs) or "none: starts alone are measured"
        lines.append(f"  {minutes}  block {launch.block}  {launch.level.name:<14} users {users}")
    if parameters.pool != "generated":
        pool = read_pool((root or find_root()) / parameters.pool)
        lines += [f"  {line}" for line in describe_pool(pool)]
    return "\n".join(lines)
