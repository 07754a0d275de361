"""What rules of recommendation look at and what they are: a case, and lines of a table.

    question -> (Rule(when, status, say, level, rests_on), ...)    the first line that holds gives the answer

A rule names the comparisons that it rests on; figures, links and what would be enough follow from these.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal

from study.analyze.compare_types import Pair, Verdict
from study.analyze.findings import Findings
from study.analyze.recommend_words import counted, describe_pair, lacks_units, missing_units, units_of
from study.analyze.stats import Estimate

Status = Literal["recommended", "not_enough_evidence", "not_measured"]


class Standing(StrEnum):
    """How a level stands to the default, as far as a recommendation cares."""

    SLOWER = "slower"
    FASTER = "faster"
    ALIKE = "alike"
    UNDECIDED = "undecided"
    FEW = "few"
    ABSENT = "absent"


STANDINGS: Mapping[Verdict, Standing] = {
    Verdict.SLOWER: Standing.SLOWER,
    Verdict.FASTER: Standing.FASTER,
    Verdict.SLOWER_WITHIN_MARGIN: Standing.ALIKE,
    Verdict.FASTER_WITHIN_MARGIN: Standing.ALIKE,
    Verdict.EQUIVALENT: Standing.ALIKE,
    Verdict.UNDECIDED: Standing.UNDECIDED,
}
DECIDED = (Standing.SLOWER, Standing.FASTER, Standing.ALIKE)


@dataclass(frozen=True)
class Figure:
    """One named figure that a recommendation rests on, with its interval where it has one."""

    name: str
    value: float
    unit: str
    low: float | None = None
    high: float | None = None
    n: int | None = None


@dataclass(frozen=True)
class Case:
    """What the rules look at: the findings, and those of other sessions of the same card where they are at hand."""

    findings: Findings
    others: tuple[Findings, ...] = ()

    @cached_property
    def overall(self) -> dict[str, Pair]:
        """Overall comparisons of the levels that are results of their own."""
        pairs = {level: self.findings.pair(level) for level in self.findings.results}
        return {level: pair for level, pair in pairs.items() if pair is not None}

    @cached_property
    def users(self) -> tuple[int, ...]:
        """The numbers of users behind any of the overall comparisons."""
        return tuple(sorted({users for pair in self.overall.values() for users in pair.users_used}))

    def standing(self, level: str | None, users: int | None = None) -> Standing:
        """Return how a level stands at some users, or overall."""
        return stand(None if level is None else self.findings.pair(level, users))

    def having(self, *standings: Standing) -> list[Pair]:
        """Return the overall comparisons with one of `standings`, the least time per token first."""
        pairs = [pair for pair in self.overall.values() if stand(pair) in standings]
        return sorted(pairs, key=lambda pair: 0.0 if pair.effect_percent is None else pair.effect_percent.point)

    def by_users(self) -> dict[str, list[Pair]]:
        """Return the comparisons by users of the levels that are results of their own."""
        pairs = [] if self.findings.comparison is None else self.findings.comparison.by_users
        return {level: [pair for pair in pairs if pair.level == level] for level in self.overall}

    def level_with(self, **switches: Sequence[str]) -> str | None:
        """Return the first measured level but the default whose resolved switches have one of the given values each."""
        table = self.findings.level_table
        rows = table[(table["level"] != self.findings.default) & table["launches"].gt(0)]
        for name, values in switches.items():
            rows = rows[rows[name].isin(values)]
        return str(rows["level"].iloc[0]) if len(rows) else None

    def switch(self, level: str, name: str) -> str | None:
        """Return one resolved switch of a level as text; None where its servers did not tell it."""
        table = self.findings.level_table
        values = table.loc[table["level"] == level, name].dropna()
        return str(values.iloc[0]) if len(values) else None


@dataclass(frozen=True)
class Rule:
    """One line of a question's table.

    Attributes:
        when: whether the rule holds.
        status: what its answer is worth.
        say: the answer's sentences.
        level: the level that it names.
        rests_on: the comparisons behind it.
        figures: further figures behind it.
        enough: what would settle the question; without, what would settle the comparisons.

    """

    when: Callable[[Case], bool]
    status: Status
    say: Callable[[Case], Sequence[str]]
    level: Callable[[Case], str | None] = lambda _: None
    rests_on: Callable[[Case], Sequence[Pair]] = lambda _: ()
    figures: Callable[[Case], Sequence[Figure]] = lambda _: ()
    enough: Callable[[Case], str | None] | None = None


def stand(pair: Pair | None) -> Standing:
    """Return how a compared level stands; too few blocks are another thing than blocks that do not decide."""
    if pair is None:
        return Standing.ABSENT
    return Standing.FEW if lacks_units(pair) else STANDINGS[pair.verdict]


def link(pair: Pair) -> str:
    """Return the key of a comparison: `O0@8`, `O0@overall`."""
    return f"{pair.level}@{'overall' if pair.users is None else pair.users}"


def figure_of(name: str, estimate: Estimate, unit: str) -> Figure:
    """Return an estimate under a name."""
    return Figure(name, estimate.point, unit, estimate.low, estimate.high, estimate.n)


def settle(pairs: Sequence[Pair]) -> str | None:
    """Say what would settle comparisons that nothing is decided about; None where all are.

    The level is named where not all lack blocks. Where it has no figure at some users, what it lacks elsewhere is said.
    """
    few = [pair for pair in pairs if stand(pair) is Standing.FEW]
    if few:
        least = min(few, key=lambda pair: (pair.effect_percent is None, units_of(pair)))
        some_decided = len(few) < len(pairs)
        whose = f", for {least.level} against {least.default}" if some_decided else ""
        return f"{missing_units(least)}{whose}"
    open_pairs = [pair for pair in pairs if stand(pair) is Standing.UNDECIDED]
    more = [(pair.outlook.more_units, pair) for pair in open_pairs if pair.outlook and pair.outlook.more_units]
    if not more:
        return "no number of blocks in reach: the runs scatter too much for this margin" if open_pairs else None
    count, pair = max(more, key=lambda item: item[0])
    return f"about {counted(count, f'more {pair.pairing.unit}')}, for {pair.level} against {pair.default}"


def sentences(case: Case, pairs: Sequence[Pair]) -> list[str]:
    """Write each comparison as a sentence."""
    return [describe_pair(pair, case.findings.margin, case.users) for pair in pairs]
