"""Everything that was found in one study, in one object: what an edition prints and what recommendations rest on.

    records -> judged runs -> tables, comparison, break-even, host-bound, throttling -> Findings

Whatever could not be found has its reason beside it: an empty study, one block or starts alone give findings too.
Levels that resolved alike are an A/A pair, so only the first of them is a result (`Findings.results`).
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from study.analyze import tables
from study.analyze.cards import KindOfCard, name_cards, split_kinds, why_not_pooled
from study.analyze.compare import compare_levels
from study.analyze.compare_types import CompareOptions, Comparison, Pair
from study.analyze.findings_parts import (
    BreakEvenAt,
    HostBound,
    StartGain,
    Throttling,
    find_break_evens,
    find_host_bound,
    find_start_gains,
    find_throttling,
    why_no_break_even,
    why_nothing_counts,
)
from study.analyze.first_requests import first_request_table
from study.analyze.judged_runs import DEFAULT_LEVEL, JudgedRun, judge_runs, order_levels
from study.analyze.level_tables import (
    NONE_MEASURED,
    alike_pairs,
    host_launched_levels,
    level_table,
    start_table,
    tell_configurations,
)
from study.analyze.run_digest import Study
from study.analyze.runs import DEFAULT_BELOW_SHARE
from study.errors import InputError
from study.records import LaunchRecord


@dataclass(frozen=True)
class FindOptions:
    """How to read a study.

    Attributes:
        margin: largest effect that does not matter, as a share.
        alpha: chance of a false difference that one family may carry.
        default: the level that the others are set against.
        levels: the order asked for; without, the default comes first and the rest by name.
        use_for: level to what it is for, from the level files.
        below_share: of the card's highest SM clock; a busy clock below counts as throttled.

    """

    margin: float = 0.01
    alpha: float = 0.05
    default: str = DEFAULT_LEVEL
    levels: tuple[str, ...] = ()
    use_for: Mapping[str, str] = field(default_factory=dict)
    below_share: float = DEFAULT_BELOW_SHARE

    def __post_init__(self) -> None:
        CompareOptions(margin=self.margin, alpha=self.alpha)
        if not 0.0 < self.below_share < 1.0:
            raise InputError(f"below_share {self.below_share} is not a share between 0 and 1; 0.35 works")

    @property
    def order(self) -> tuple[str, ...]:
        """The order of levels: the default, then as asked."""
        return tuple(dict.fromkeys((self.default, *self.levels)))


@dataclass(frozen=True)
class Card:
    """One card, the cards of one server (or, without a card, one host) and how many measured launches it served."""

    name: str | None
    uuid: str | None
    unit: str
    driver_version: str | None
    power_limit_w: float | None
    launches: int


@dataclass(frozen=True)
class Findings:
    """One study, read. Tables are those of `tables` and `level_tables`; a reason stands where a part is missing.

    Attributes:
        study: its name.
        fingerprint: of what makes its runs comparable; None for an empty study.
        rehearsal: whether it can be no result.
        session, device: cooled or throttled, cuda or cpu; None for an empty study.
        default: the level that the others are set against.
        margin: largest effect that does not matter, as a share.
        users: numbers of users with a run that counts, rising.
        levels: every level that was launched, the default first.
        blocks: blocks that were launched, rising; the starts that fill caches left out.
        seeds: seeds that were run, rising.
        cards: what served measured launches.
        versions: distribution to version; several are joined with ` / `.
        comparable: parameters that all records share.
        runs: `tables.run_table`.
        session_table, session_figures: the guide's table, as text and as numbers.
        starts: `level_tables.start_table`.
        first_requests: `first_requests.first_request_table`.
        level_table: `level_tables.level_table`.
        left_out: `tables.left_out_table`.
        comparison: every level against the default; None with `comparison_reason`.
        comparison_reason: why there is none; empty otherwise.
        start_gains: one a result level and cache state.
        break_evens: one a result level, number of users and cache state.
        break_even_reason: why there is none; empty otherwise.
        aa_pairs: levels that resolved alike, the default first or else by name.
        host_bound: one a level but the default and number of users.
        throttling: what the telemetry says; None without a run.
        failed_levels: level without a figure to why.
        fresh_servers: whether the replicate is a fresh server.
        unmeasured: launches kept out of every figure because they fill caches, by id.
        by_kind: where a study ran on several kinds of card, each with what was found on it alone; no comparison, start
            gain, break-even or host-bound is then of all of them together.

    """

    study: str
    fingerprint: str | None
    rehearsal: bool
    session: str | None
    device: str | None
    default: str
    margin: float
    users: tuple[int, ...]
    levels: tuple[str, ...]
    blocks: tuple[int, ...]
    seeds: tuple[int, ...]
    cards: tuple[Card, ...]
    versions: Mapping[str, str]
    comparable: Mapping[str, Any]
    runs: pd.DataFrame
    session_table: pd.DataFrame
    session_figures: pd.DataFrame
    starts: pd.DataFrame
    first_requests: pd.DataFrame
    level_table: pd.DataFrame
    left_out: pd.DataFrame
    comparison: Comparison | None
    comparison_reason: str
    start_gains: tuple[StartGain, ...]
    break_evens: tuple[BreakEvenAt, ...]
    break_even_reason: str
    aa_pairs: tuple[tuple[str, str], ...]
    host_bound: tuple[HostBound, ...]
    throttling: Throttling | None
    failed_levels: Mapping[str, str]
    fresh_servers: bool
    unmeasured: tuple[str, ...]
    by_kind: "tuple[tuple[KindOfCard, Findings], ...]" = ()

    @property
    def results(self) -> tuple[str, ...]:
        """Levels to set against the default: not itself, and of levels that resolved alike the first alone."""
        return _result_levels(self.levels, self.aa_pairs, self.default)

    def pair(self, level: str, users: int | None = None) -> Pair | None:
        """Return how `level` compares at `users`, or overall; None where it was not compared."""
        known = () if self.comparison is None else (*self.comparison.overall, *self.comparison.by_users)
        return next((pair for pair in known if (pair.level, pair.users) == (level, users)), None)


def find(
    study: Study, options: FindOptions | None = None, judged: Sequence[JudgedRun] | None = None
) -> Findings:
    """Read a study.

    Args:
        study: its records, however few or bad.
        options: how; without, the defaults of `FindOptions`.
        judged: its judged runs, where they are at hand.

    """
    options = options or FindOptions()
    default = options.default
    judged = judge_runs(study, options.below_share) if judged is None else judged
    levels = order_levels((one.level for one in study.launches), options.order)
    starts = start_table(study, options.order, default, options.alpha)
    failed = _find_failed(levels, starts, judged)
    told = tell_configurations(study)
    aa = _find_aa(alike_pairs(study, told), failed, default)
    results = _result_levels(levels, aa, default)
    by_kind = _find_by_kind(study, options)
    apart = why_not_pooled(kind for kind, _ in by_kind)
    comparison, reason = (None, apart) if apart else _compare(study, judged, aa, options)
    break_evens = () if apart else find_break_evens(judged, results, default, options.alpha)
    return Findings(
        **_identity(study),
        **_tables(study, judged, options),
        starts=starts,
        level_table=level_table(study, options.use_for, options.order, told),
        levels=levels,
        failed_levels=failed,
        aa_pairs=aa,
        default=default,
        margin=options.margin,
        users=tuple(sorted({one.run.users for one in judged if one.counts})),
        comparison=comparison,
        comparison_reason=reason,
        start_gains=find_start_gains(study.launches, results, default, options.alpha),
        break_evens=break_evens,
        break_even_reason="" if break_evens else apart or why_no_break_even(judged, levels, default),
        host_bound=() if apart else find_host_bound(judged, levels, default),
        throttling=find_throttling(judged),
        by_kind=by_kind,
    )


def _find_by_kind(study: Study, options: FindOptions) -> tuple[tuple[KindOfCard, Findings], ...]:
    """Read each kind of card alone, where there are several."""
    kinds = split_kinds(study)
    return tuple((kind, find(part, options)) for kind, part in kinds) if len(kinds) > 1 else ()


def _find_aa(
    alike: frozenset[tuple[str, str]], failed: Mapping[str, str], default: str
) -> tuple[tuple[str, str], ...]:
    """Return the pairs that resolved alike, the default first; a level that did not run as asked is none of them."""
    pairs = sorted(pair for pair in alike if not set(pair) & set(failed))
    return tuple((second, first) if second == default else (first, second) for first, second in pairs)


def _compare(
    study: Study,
    judged: Sequence[JudgedRun],
    aa: Sequence[tuple[str, str]],
    options: FindOptions,
) -> tuple[Comparison | None, str]:
    """Compare the levels, or say why that cannot be done."""
    table = tables.comparison_input(study, judged, options.order)
    measured = list(dict.fromkeys(table["level"]))
    if not measured:
        return None, why_nothing_counts(judged, bool(study.launches))
    if options.default not in measured:
        known = ", ".join(measured)
        return None, f"the default level '{options.default}' has no run that counts; levels that have: {known}"
    if len(measured) == 1:
        return None, f"only the default level '{options.default}' has runs that count"
    alike = tuple(pair for pair in aa if set(pair) <= set(measured))
    compare = CompareOptions(options.default, options.margin, options.alpha, alike, host_launched_levels(study))
    try:
        return compare_levels(table, compare), ""
    except InputError as error:
        return None, str(error)


def _result_levels(levels: Sequence[str], aa: Sequence[tuple[str, str]], default: str) -> tuple[str, ...]:
    kept: list[str] = [default]
    for level in levels:
        if level not in kept and not any({level, other} in map(set, aa) for other in kept):
            kept.append(level)
    return tuple(kept[1:])


def _identity(study: Study) -> dict[str, Any]:
    """Return what the records say of themselves; the store refuses records of unlike sessions and parameters."""
    launches = sorted(study.launches, key=lambda one: (one.block, one.launch_id))
    measured = [one for one in launches if not one.fills_caches]
    first = launches[0] if launches else None
    found: dict[str, set[str]] = {}
    for launch in launches:
        for name, version in launch.machine.versions.items():
            found.setdefault(name, set()).add(version)
    comparable = {} if first is None else first.comparable
    seeds: dict[str, set[int]] = {}
    for run in study.runs:
        seeds.setdefault(run.launch_id, set()).add(run.seed)
    shared = any(len(seeds.get(one.launch_id, ())) > 1 for one in measured)
    return {
        "study": study.study,
        "fingerprint": first and first.fingerprint,
        "rehearsal": any([*(one.rehearsal for one in launches), *(run.rehearsal for run in study.runs)]),
        "session": first and first.session,
        "device": first and first.machine.device,
        "blocks": tuple(sorted({one.block for one in measured})),
        "seeds": tuple(sorted({run.seed for run in study.runs})),
        "cards": _list_cards(measured),
        "versions": {name: " / ".join(sorted(versions)) for name, versions in sorted(found.items())},
        "comparable": comparable,
        "fresh_servers": comparable.get("fresh_server_per_seed") is not False and not shared,
        "unmeasured": tuple(one.launch_id for one in launches if one.fills_caches),
    }


def _list_cards(launches: Sequence[LaunchRecord]) -> tuple[Card, ...]:
    machines = {one.machine.unit: one.machine for one in launches}
    count = Counter(one.machine.unit for one in launches)
    return tuple(
        Card(name_cards(card), card.gpu_uuid, unit, card.driver_version, card.power_limit_w, count[unit])
        for unit, card in sorted(machines.items())
    )


def _tables(study: Study, judged: Sequence[JudgedRun], options: FindOptions) -> dict[str, Any]:
    return {
        "runs": tables.run_table(study, judged),
        "session_table": tables.session_table(study, None, options.order, judged),
        "session_figures": tables.session_figures(study, judged, options.order),
        "left_out": tables.left_out_table(study, judged),
        "first_requests": first_request_table(study, options.order),
    }


def _find_failed(levels: Sequence[str], starts: pd.DataFrame, judged: Sequence[JudgedRun]) -> dict[str, str]:
    """Return the levels that gave no figure: no good start, or, where anything was run, no run that counts."""
    failed = {}
    for level in levels:
        rows = starts[starts["level"] == level]
        runs = [one for one in judged if one.run.level == level]
        if not rows["n"].sum():
            why = rows["reason"].dropna()
            failed[level] = str(why.iloc[0]) if len(why) else NONE_MEASURED
        elif judged and not any(one.counts for one in runs):
            why_runs = dict.fromkeys("; ".join(one.left_out) for one in runs)
            failed[level] = f"no run counts: {' | '.join(why_runs) or 'none was recorded'}"
    return failed
