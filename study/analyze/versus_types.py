"""What stands where two editions or studies are set beside each other: frozen, without a verdict across the two.

A `Side` is what a person named: a study, an edition, or a publication of medians alone. Its `Part`s are sessions, one a
study; two parts make a `Beside`, and all of them a `Versus`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from study.analyze.compare_types import Verdict
from study.analyze.stats import Estimate

SideName = Literal["A", "B"]
Settings = Mapping[str, tuple[str, ...]]
"""Dotted path of a resolved setting to its values as JSON text, each once: several where servers differed."""


class CardMatch(StrEnum):
    """What can be said of the cards of two parts."""

    SAME = "the same card"
    SHARED = "some of the cards are the same"
    SAME_MODEL = "two cards of one model"
    NAME_ALONE = "one model of card; whether it is the same card cannot be told, since one side gives a name alone"
    DIFFERENT = "different cards"
    SAME_HOST = "no card on either side, the same host"
    OTHER_HOST = "no card on either side, different hosts"
    UNKNOWN = "whether it is the same card cannot be told"

    @property
    def same(self) -> bool | None:
        """Whether it is one card (or host) on both sides; None where that cannot be told, or where some are."""
        return _IS_SAME.get(self)


_IS_SAME = {
    CardMatch.SAME: True,
    CardMatch.SAME_HOST: True,
    CardMatch.SAME_MODEL: False,
    CardMatch.DIFFERENT: False,
    CardMatch.OTHER_HOST: False,
}


class Stance(StrEnum):
    """What one side's figures say of a level against the default of the same side."""

    SLOWER = "slower"
    FASTER = "faster"
    AS_FAST = "as fast, within the margin"
    UNDECIDED = "undecided"
    MIXED = "not one answer at all numbers of users"


class Outcome(StrEnum):
    """What may be said of one level on both sides."""

    HOLDS = "holds on both"
    DIFFERS = "does not hold on both"
    OPEN = "not decided on both"
    TWO_THINGS = "resolved differently"
    METHOD = "resolved like the default"
    APART = "no number of users in common"


@dataclass(frozen=True)
class Cost:
    """What a level costs against the default of its own side.

    Attributes:
        users: requests in flight; None for the overall cost.
        effect_percent: of mean TPOT, paired within blocks, with its interval where there is one; None without runs.
        medians_percent: percent of two median TPOTs, a label and not the effect; None overall.
        verdict: of the side itself, after Holm; None where too few blocks, or published medians, earn none.
        preliminary: whether that verdict rests on three or four units.
        users_used: numbers of users that went into the effect.

    """

    users: int | None
    effect_percent: Estimate | None
    medians_percent: float | None
    verdict: Verdict | None = None
    preliminary: bool = False
    users_used: tuple[int, ...] = ()

    @property
    def point_percent(self) -> float | None:
        """The effect, or else the percentage of medians."""
        return self.medians_percent if self.effect_percent is None else self.effect_percent.point


@dataclass(frozen=True)
class Cell:
    """One level at one number of users (None: overall) on one side; what was not measured is None."""

    median_tpot_ms: float | None
    cost: Cost | None


@dataclass(frozen=True)
class Part:
    """One session: a study with raw runs, or a published session with medians alone.

    Attributes:
        name: of the study, or of the published session.
        published: whether medians are all there is.
        rehearsal: whether it can be no result.
        session: cooled or throttled; None where not recorded.
        default: the level that the others are set against.
        margin: largest effect that does not matter, as a share.
        cards: model of each card, each once; empty where none was recorded, and without a card.
        units: what tells each card (or host) from another; empty where a name alone was published.
        device: cuda or cpu; None where not recorded.
        facts: name to what is printed of versions and conditions, such as `vLLM`; a missing name was not recorded.
        levels: all that were launched or published, in order.
        users: numbers of users to print, in order.
        cells: (users, level) to figures; users None is the overall cost.
        settings: level to the configuration that its servers resolved.
        unsettled: level to why its resolved configuration is not known.
        without_figure: level to why it has no figure.
        alike: levels that resolved like the default on this side, so that their cost measures the method.
        host_bound: (users, level) where the card waits for its host, on evidence.
        cautions: sentences that qualify every figure of the part.

    """

    name: str
    published: bool
    rehearsal: bool
    session: str | None
    default: str
    margin: float
    cards: tuple[str, ...]
    units: tuple[str, ...]
    device: str | None
    facts: Mapping[str, str]
    levels: tuple[str, ...]
    users: tuple[int, ...]
    cells: Mapping[tuple[int | None, str], Cell]
    settings: Mapping[str, Settings] = field(default_factory=dict)
    unsettled: Mapping[str, str] = field(default_factory=dict)
    without_figure: Mapping[str, str] = field(default_factory=dict)
    alike: frozenset[str] = frozenset()
    host_bound: frozenset[tuple[int, str]] = frozenset()
    cautions: tuple[str, ...] = ()

    def cost(self, users: int | None, level: str) -> Cost | None:
        """Return a cost, or None where it was not measured."""
        cell = self.cells.get((users, level))
        return None if cell is None else cell.cost


@dataclass(frozen=True)
class Side:
    """What was named: a study, an edition of one or more studies, or a reference edition."""

    name: str
    kind: Literal["study", "edition", "reference edition"]
    parts: tuple[Part, ...]

    @property
    def rehearsal(self) -> bool:
        """Whether any part can be no result."""
        return any(part.rehearsal for part in self.parts)


@dataclass(frozen=True)
class Fact:
    """One condition on both sides; `same` is None where a side did not record it."""

    name: str
    a: str | None
    b: str | None
    same: bool | None


@dataclass(frozen=True)
class SettingPair:
    """One resolved setting that differs: its values as JSON text, empty where a side's vLLM does not know it."""

    path: str
    a: tuple[str, ...]
    b: tuple[str, ...]


@dataclass(frozen=True)
class Meaning:
    """Whether a label means one thing on both sides.

    Attributes:
        level: the label.
        same: whether its servers resolved alike; None where a side did not tell.
        differences: what differs; empty unless `same` is False.
        reason: why it cannot be told; empty otherwise.

    """

    level: str
    same: bool | None
    differences: tuple[SettingPair, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Row:
    """One level at one number of users (None: overall), side by side.

    `only` names the side that the row is about, where the label stands for two things and so has two rows.
    """

    users: int | None
    level: str
    a: Cell | None
    b: Cell | None
    only: SideName | None = None


@dataclass(frozen=True)
class Says:
    """What one side says of a level, and the costs that it rests on: the overall one, or one a number of users."""

    stance: Stance
    costs: tuple[Cost, ...]


@dataclass(frozen=True)
class Claim:
    """What is known of one level on both sides.

    Attributes:
        level: the label.
        outcome: whether one statement holds on both.
        users: numbers of users that both sides have a cost at, rising.
        a: what A says; None where nothing is said.
        b: the same of B.
        size_apart: whether both give one direction, and ranges or intervals that do not touch.
        why: what keeps a statement from being made; empty where one is.

    """

    level: str
    outcome: Outcome
    users: tuple[int, ...]
    a: Says | None = None
    b: Says | None = None
    size_apart: bool = False
    why: str = ""


@dataclass(frozen=True)
class Beside:
    """Two parts, side by side.

    Attributes:
        a, b: the parts.
        cards: what can be said of their cards.
        facts: versions and conditions.
        meanings: one a level that both have.
        around: settings outside the levels that differ, such as the model's name.
        rows: figures of levels that both have, at users that both have, then overall.
        claims: one a level that both have, the default left out.
        alone: levels and users that one side has, in words.
        same_records: whether both parts are one study, so that nothing independent is compared.

    """

    a: Part
    b: Part
    cards: CardMatch
    facts: tuple[Fact, ...]
    meanings: tuple[Meaning, ...]
    around: tuple[SettingPair, ...]
    rows: tuple[Row, ...]
    claims: tuple[Claim, ...]
    alone: tuple[str, ...]
    same_records: bool


@dataclass(frozen=True)
class Versus:
    """Two sides with every two of their parts that belong beside each other; `alone` says which parts found none."""

    a: Side
    b: Side
    beside: tuple[Beside, ...]
    alone: tuple[str, ...]

    @property
    def rehearsal(self) -> tuple[str, ...]:
        """Name the sides that can be no result: `A`, `B` or both."""
        return tuple(name for name, side in (("A", self.a), ("B", self.b)) if side.rehearsal)
