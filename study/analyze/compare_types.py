"""What a comparison says: frozen results, in which no figure travels without what qualifies it."""

from dataclasses import dataclass
from enum import StrEnum

from study.analyze.stats import Estimate, SignFlip
from study.errors import InputError


class Verdict(StrEnum):
    """What may be said of a level against the default; slower means more time per token."""

    SLOWER = "slower"
    FASTER = "faster"
    SLOWER_WITHIN_MARGIN = "slower, within the margin"
    FASTER_WITHIN_MARGIN = "faster, within the margin"
    EQUIVALENT = "equivalent"
    UNDECIDED = "undecided"


class Pairing(StrEnum):
    """How the runs of two levels were set against each other, and so what counts as one measurement."""

    BLOCKS = "paired within blocks"
    MACHINES = "paired within machines"
    UNPAIRED_LAUNCHES = "unpaired, launch against launch"
    UNPAIRED_MACHINES = "unpaired, machine against machine"
    ONE_LAUNCH_EACH = "unpaired, runs of one launch each"

    @property
    def unit(self) -> str:
        """Name what is counted: `block`, `machine`, `launch` or `run`."""
        return _UNITS[self]

    @property
    def is_paired(self) -> bool:
        """Say whether ratios were taken within units."""
        return self in (Pairing.BLOCKS, Pairing.MACHINES)


_UNITS = {
    Pairing.BLOCKS: "block",
    Pairing.MACHINES: "machine",
    Pairing.UNPAIRED_LAUNCHES: "launch",
    Pairing.UNPAIRED_MACHINES: "machine",
    Pairing.ONE_LAUNCH_EACH: "run",
}


@dataclass(frozen=True)
class CompareOptions:
    """How to compare.

    Attributes:
        default: the level that the others are set against.
        margin: largest effect that does not matter, as a share (0.01 is 1 %).
        alpha: chance of a false difference that one family may carry; 1 - alpha is the coverage of every interval. A
            study that may stop early takes it from `stats_power.alpha_of_look`.
        alike: pairs of levels that resolved to one configuration, each an A/A test.
        host_launched: levels that launch every kernel from the host; their scatter is of another size, so an A/A of
            graph levels does not speak for them.

    """

    default: str = "default"
    margin: float = 0.01
    alpha: float = 0.05
    alike: tuple[tuple[str, str], ...] = ()
    host_launched: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name, value in (("margin", self.margin), ("alpha", self.alpha)):
            if not 0.0 < value < 1.0:
                raise InputError(f"{name} {value} is not a share between 0 and 1; 0.01 is one percent")


@dataclass(frozen=True)
class RangeRule:
    """The 2026.10 edition's rule, seed ranges that do not overlap, beside how often it errs by chance.

    Attributes:
        level_ms: least and greatest run of the level.
        default_ms: the same of the default.
        n_level: runs of the level.
        n_default: runs of the default.
        overlap: whether the ranges share a point.
        false_rate: how often independent runs of one distribution, in these counts, would not overlap.

    """

    level_ms: tuple[float, float]
    default_ms: tuple[float, float]
    n_level: int
    n_default: int
    overlap: bool
    false_rate: float


@dataclass(frozen=True)
class PercentOfMedians:
    """Percentage of two medians over runs, as the 2026.10 edition gave it: a label, not the effect.

    Attributes:
        level_ms: median over the level's runs.
        default_ms: median over the default's runs.
        percent: 100 (level_ms / default_ms - 1).
        statistic: of each run, `median TPOT` or, where a table lacks that, `mean TPOT`.

    """

    level_ms: float
    default_ms: float
    percent: float
    statistic: str


@dataclass(frozen=True)
class Outlook:
    """What these blocks could have found, and how many would decide if the truth is what was seen.

    Attributes:
        sd_percent: standard deviation of the log ratio over units, times 100.
        smallest_effect_percent: smallest cost that this number of units finds in 80 % of studies.
        units_for_difference: units in all that would find the seen effect; None above 1,000.
        units_for_equivalence: units in all that would show the seen effect to be inside the margin; None where it is
            not inside, or above 1,000.
        more_units: units still missing for the nearer of the two; None where neither is in reach.

    """

    sd_percent: float
    smallest_effect_percent: float
    units_for_difference: int | None
    units_for_equivalence: int | None
    more_units: int | None


@dataclass(frozen=True)
class Pair:
    """One level against the default, at one number of users or overall.

    Attributes:
        level: the level.
        default: what it is set against.
        users: requests in flight; None for the overall cost, the block mean over users.
        verdict: what may be said.
        preliminary: whether a verdict rests on three or four units; five earn it.
        reason: why the verdict is what it is, in one line.
        effect_percent: exp(mean log ratio) - 1 in percent, with its t interval; None without a single ratio.
        pairing: how runs were set against each other.
        n_level: units of the level.
        n_default: units of the default.
        p: two-sided p of the t test; None where no interval exists.
        p_holm: the same after Holm over its family, which is what gates; None outside a family.
        family_size: comparisons in that family.
        p_equivalence: larger p of the two one-sided tests; equivalent below alpha / 2.
        sign_flip: exact sign-flip p and its floor; printed, never gates.
        range_rule: the 2026.10 edition's rule; None overall and without runs on both sides.
        medians: the percentage of two medians, labelled so; None likewise.
        outlook: what more blocks would do; None where nothing scatters.
        users_used: numbers of users that went into the effect.
        notes: what a reader must know beside the figure.

    """

    level: str
    default: str
    users: int | None
    verdict: Verdict
    preliminary: bool
    reason: str
    effect_percent: Estimate | None
    pairing: Pairing
    n_level: int
    n_default: int
    p: float | None
    p_holm: float | None
    family_size: int
    p_equivalence: float | None
    sign_flip: SignFlip | None
    range_rule: RangeRule | None
    medians: PercentOfMedians | None
    outlook: Outlook | None
    users_used: tuple[int, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True)
class AaCheck:
    """Two levels that resolved alike, set against each other overall: it measures the method.

    Attributes:
        level: one of them.
        default: the other.
        effect_percent: its overall effect; None where nothing could be compared.
        contains_zero: whether the interval holds 0; None where too few blocks say nothing.
        host_launched: whether it is a pair of host-launched levels.
        note: what it does and does not speak for.

    """

    level: str
    default: str
    effect_percent: Estimate | None
    contains_zero: bool | None
    host_launched: bool
    note: str


@dataclass(frozen=True)
class Comparison:
    """Every level against the default.

    Attributes:
        options: how it was compared.
        overall: one pair a level, in the table's order of levels.
        by_users: one pair a level and number of users, levels first.
        aa: A/A checks; empty where no two levels resolved alike.
        method_biased: whether an A/A interval leaves out 0.
        notes: what holds for all pairs, `A/A not measured` among them.

    """

    options: CompareOptions
    overall: tuple[Pair, ...]
    by_users: tuple[Pair, ...]
    aa: tuple[AaCheck, ...]
    method_biased: bool
    notes: tuple[str, ...]

    def pair(self, level: str, users: int | None = None) -> Pair:
        """Return the pair of `level` at `users`, or its overall pair.

        Raises:
            InputError: where it was not compared.

        """
        for pair in self.overall if users is None else self.by_users:
            if (pair.level, pair.users) == (level, users):
                return pair
        where = "overall" if users is None else f"at {users} users"
        known = ", ".join(sorted({pair.level for pair in self.overall}))
        raise InputError(f"level '{level}' was not compared {where}; compared levels: {known or 'none'}")
