"""The parts of what is found in a study beside its comparison: starts against speed, waiting for the host, throttling.

Each takes judged runs or launches and returns frozen results; whatever was not measured says so in words.
"""

import itertools
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from study.analyze import stats
from study.analyze.breakeven import BreakEven, StartAndSpeed, find_break_even
from study.analyze.cards import list_kinds
from study.analyze.evidence import JIT_WARM_UP, counting_start_s, resolved_value
from study.analyze.judged_runs import JudgedRun
from study.analyze.stats import Estimate, FloatArray
from study.analyze.stats_power import LEAST_BLOCKS
from study.analyze.validity import HOST_BOUND_ENERGY_SHARE, HOST_BOUND_STEP_RATIO
from study.design.counting import format_counted
from study.records import Gate, LaunchRecord

CACHES = ("warm", "cold")

Cells: TypeAlias = dict[tuple[str, int], list[tuple[float, ...]]]
"""(machine, block) to what was measured there, one tuple of figures a run."""


@dataclass(frozen=True)
class StartGain:
    """By how many seconds `level` starts sooner than the default, over blocks; `reason` where there is no interval.

    `level_s` and `default_s` are the starts behind it, one value a unit, in the same order; they are of `cards` cards
    (or sets of cards). `skips_warm_up` names the one of both that starts without vLLM's JIT kernel warm-up where the
    other has it, None where that is alike, untold, or on the CPU, which has none.
    """

    level: str
    default: str
    cache: str
    gain_s: Estimate
    reason: str
    level_s: FloatArray = field(compare=False)
    default_s: FloatArray = field(compare=False)
    cards: int = 1
    skips_warm_up: str | None = None


@dataclass(frozen=True)
class BreakEvenAt:
    """The break-even of a level, kept busy by `users`, with the starts and token times that it rests on.

    `unit` is what the inputs hold one value of: a block, or a machine where blocks share machines unevenly. `notes` say
    where starts and token times are of different studies, and what was cut to put them together.
    """

    level: str
    default: str
    users: int
    cache: str
    unit: str
    level_input: StartAndSpeed
    default_input: StartAndSpeed
    result: BreakEven
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class HostBound:
    """Whether the card waits for its host at a level; ratios are medians over runs, each against the default's run.

    Attributes:
        level: the level.
        users: requests in flight.
        holds: whether it does; None where energy or time was not measured.
        energy_ratio: dynamic energy of a step over the default's; None where unknown.
        time_ratio: mean TPOT over the default's; None where unknown.
        runs: pairs of runs behind the time ratio.
        evidence: what was seen, in words.

    """

    level: str
    users: int
    holds: bool | None
    energy_ratio: float | None
    time_ratio: float | None
    runs: int
    evidence: str


@dataclass(frozen=True)
class Throttling:
    """Whether the card was throttled while it was busy, over all runs, those that do not count among them.

    Attributes:
        asked: whether the session was to be throttled.
        reached: True where all runs with evidence were throttled, False where one was not, None without evidence.
        throttled: runs that were, on evidence.
        judged: runs with evidence.
        runs: all runs.
        evidence: what was seen, each text once, in the order of the runs.
        soaks: how the load before each run ended, where the card was to be throttled by it.

    """

    asked: bool
    reached: bool | None
    throttled: int
    judged: int
    runs: int
    evidence: tuple[str, ...]
    soaks: tuple[Gate, ...] = ()


def find_start_gains(
    launches: Iterable[LaunchRecord], levels: Sequence[str], default: str, alpha: float
) -> tuple[StartGain, ...]:
    """Set the starts of `levels` against the default's, block by block; caches cold and warm apart.

    A start counts if its server ran the level as asked and gave a first token; where a block has several, the last
    does. There is no gain over several kinds of card.
    """
    launches = list(launches)
    if len(list_kinds(launches)) > 1:
        return ()
    starts: dict[tuple[str, str], Cells] = {}
    for one in sorted(launches, key=lambda one: (one.attempt, one.launch_id)):
        start_s = counting_start_s(one)
        if start_s is not None:
            starts.setdefault((one.level, one.cache), {})[one.machine.unit, one.block] = [(start_s,)]
    gains = []
    for level, cache in itertools.product(levels, CACHES):
        ours, theirs = starts.get((level, cache), {}), starts.get((default, cache), {})
        unit, x, d = _set_beside(ours, theirs)
        if len(x):
            gain, reason = _estimate_gain(d[:, 0] - x[:, 0], unit, alpha)
            cards, skips = len({card for card, _ in set(ours) & set(theirs)}), _find_skipper(launches, level, default)
            gains.append(StartGain(level, default, cache, gain, reason, x[:, 0], d[:, 0], cards, skips))
    return tuple(gains)


def _find_skipper(launches: Iterable[LaunchRecord], level: str, default: str) -> str | None:
    """Return which of two levels resolved without the JIT kernel warm-up where the other has it."""
    told: dict[str, set[bool]] = {level: set(), default: set()}
    for one in launches:
        warms_up = resolved_value(one.resolved, JIT_WARM_UP)
        if one.level in told and one.machine.device == "cuda" and isinstance(warms_up, bool):
            told[one.level].add(warms_up)
    if (told[level], told[default]) == ({False}, {True}):
        return level
    return default if (told[level], told[default]) == ({True}, {False}) else None


def _set_beside(level: Cells, default: Cells) -> tuple[str, FloatArray, FloatArray]:
    """Return the unit, and the values (units, figures) of a level and of the default, where both have them.

    Where several machines served and one of them more than one block, the machine is the unit. Units stand in the order
    of their blocks.
    """
    places = sorted(set(level) & set(default), key=lambda place: (place[1], place[0]))
    machines = list(dict.fromkeys(machine for machine, _ in places))
    x, d = (np.array([np.mean(side[place], axis=0) for place in places], dtype=np.float64) for side in (level, default))
    if not 1 < len(machines) < len(places):
        return "block", x, d
    rows = [[place[0] == machine for place in places] for machine in machines]
    x, d = (np.array([side[row].mean(axis=0) for row in rows], dtype=np.float64) for side in (x, d))
    return "machine", x, d


def _estimate_gain(gains: FloatArray, unit: str, alpha: float) -> tuple[Estimate, str]:
    """Return the mean gain (units,) with its t interval, or without it and why."""
    n = len(gains)
    alone = Estimate(float(gains.mean()), None, None, n, unit, 1.0 - alpha)
    if n < LEAST_BLOCKS:
        return alone, f"{format_counted(n, unit)}: three are preliminary, five earn a verdict"
    if not stats.has_scatter(gains):
        return alone, f"{format_counted(n, unit)} without scatter: copies of one start are no evidence"
    test = stats.paired_test(gains, alpha)
    return replace(alone, low=float(test.low), high=float(test.high)), ""


def find_break_evens(
    judged: Sequence[JudgedRun], levels: Sequence[str], default: str, alpha: float
) -> tuple[BreakEvenAt, ...]:
    """Return when each of `levels` stops being ahead of the default, by users and state of the caches.

    The start is that of the launch that served the run; a token takes N / output throughput. Seeds inside one block are
    averaged, since they share a server.
    """
    served: dict[tuple[str, int, str], Cells] = {}
    for one in judged:
        launch, times = one.launch, _start_and_token_s(one)
        if launch is not None and times is not None:
            cells = served.setdefault((one.run.level, one.run.users, launch.cache), {})
            cells.setdefault((launch.machine.unit, one.run.block), []).append(times)
    found = []
    for level, users, cache in itertools.product(levels, sorted({key[1] for key in served}), CACHES):
        unit, x, d = _set_beside(served.get((level, users, cache), {}), served.get((default, users, cache), {}))
        if len(x):
            ours, theirs = (StartAndSpeed(side[:, 0], side[:, 1]) for side in (x, d))
            result = find_break_even(ours, theirs, alpha, unit=unit)
            found.append(BreakEvenAt(level, default, users, cache, unit, ours, theirs, result))
    return tuple(found)


def _start_and_token_s(one: JudgedRun) -> tuple[float, float] | None:
    """Return the start of a run's server and the time of its tokens; None where the run does not count or lacks one."""
    if not one.counts or one.launch is None or one.figures is None:
        return None
    start_s, token_ms = counting_start_s(one.launch), one.figures.n_over_throughput_ms
    return None if start_s is None or token_ms is None else (start_s, token_ms / 1e3)


def find_host_bound(judged: Sequence[JudgedRun], levels: Sequence[str], default: str) -> tuple[HostBound, ...]:
    """Say for each level and number of users whether the card waits for its host, by energy and time of a step.

    Each run is set against the default's of its block, seed, users and machine.
    """
    counting = [one for one in judged if one.counts and one.figures is not None]
    defaults = {_place(one): one for one in counting if one.run.level == default}
    pairs: dict[tuple[str, int], list[tuple[JudgedRun, JudgedRun]]] = {}
    for one in counting:
        if one.run.level != default and (beside := defaults.get(_place(one))) is not None:
            pairs.setdefault((one.run.level, one.run.users), []).append((one, beside))
    cells = itertools.product(levels, sorted({one.run.users for one in counting}))
    return tuple(_host_bound(*cell, pairs[cell]) for cell in cells if cell in pairs)


def _place(one: JudgedRun) -> tuple[int, int, int, str | None]:
    return one.run.block, one.run.seed, one.run.users, one.machine


def _host_bound(level: str, users: int, pairs: Sequence[tuple[JudgedRun, JudgedRun]]) -> HostBound:
    """METHOD's rule on medians: within 25 % of the default's energy while a step takes 1.5 times as long."""
    time = _median_ratio(pairs, "mean_tpot_ms")
    energy = _median_ratio(pairs, "dynamic_energy_per_step_j")
    runs = len(pairs)
    if time is None or energy is None:
        what = "mean_tpot_ms" if time is None else "dynamic_energy_per_step_j"
        reasons = [one.figures.reasons.get(what) for pair in pairs for one in pair if one.figures is not None]
        why = next((reason for reason in reasons if reason), "the default's energy of a step is not above 0")
        return HostBound(level, users, None, energy, time, runs, f"not measured: {why}")
    holds = abs(energy - 1.0) <= HOST_BOUND_ENERGY_SHARE and time >= HOST_BOUND_STEP_RATIO
    behind = f"median of {format_counted(runs, 'run')}"
    text = f"{energy:.2f} x the default's energy above rest and {time:.2f} x its time for a step, {behind}"
    return HostBound(level, users, holds, energy, time, runs, text)


def _median_ratio(pairs: Sequence[tuple[JudgedRun, JudgedRun]], name: str) -> float | None:
    values = [(getattr(one.figures, name), getattr(other.figures, name)) for one, other in pairs]
    ratios = [ours / theirs for ours, theirs in values if ours is not None and theirs is not None and theirs > 0.0]
    # Half of the runs must have the figure, or its median is that of a few.
    return statistics.median(ratios) if ratios and 2 * len(ratios) >= len(values) else None


def find_throttling(judged: Sequence[JudgedRun]) -> Throttling | None:
    """Gather what telemetry says of throttling; None where nothing was run."""
    if not judged:
        return None
    seen = [one.figures for one in judged if one.figures is not None]
    states = [figures.throttled for figures in seen if figures.throttled is not None]
    return Throttling(
        asked=judged[0].run.session == "throttled",
        reached=all(states) if states else None,
        throttled=sum(states),
        judged=len(states),
        runs=len(judged),
        evidence=tuple(dict.fromkeys(figures.throttled_evidence for figures in seen)),
        soaks=tuple(one.run.gate for one in judged if one.run.gate.kind == "soak"),
    )


def why_no_break_even(judged: Sequence[JudgedRun], levels: Sequence[str], default: str) -> str:
    """Say why a study has no break-even."""
    if not judged:
        return "starts alone were measured: without a run no token time is known" if levels else "nothing was launched"
    counting = {one.run.level for one in judged if one.counts}
    if default not in counting:
        return f"no run of the default level '{default}' counts"
    if counting == {default}:
        return f"no run of a level beside '{default}' counts"
    return "no block has a run and a start of both levels"


def why_nothing_counts(judged: Sequence[JudgedRun], launched: bool) -> str:
    """Say why a study has no run to compare."""
    if not judged:
        return "starts alone were measured: there is no run" if launched else "the study has no record"
    reasons = dict.fromkeys(reason for one in judged for reason in one.left_out)
    return f"none of {format_counted(len(judged), 'run')} counts: {', '.join(reasons) or 'no time per token was taken'}"
