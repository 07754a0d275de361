"""From one sample and its test to one pair with its verdict, and all that is printed beside it."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from study.analyze import stats, stats_power
from study.analyze.compare_types import (
    AaCheck,
    CompareOptions,
    Outlook,
    Pair,
    Pairing,
    PercentOfMedians,
    RangeRule,
    Verdict,
)
from study.analyze.compare_units import Sample
from study.analyze.stats import Estimate, MeanTest
from study.design.counting import format_counted


@dataclass(frozen=True)
class Draft:
    """A comparison before its family is tested.

    Attributes:
        level: the level.
        default: what it is set against.
        users: requests in flight, None for overall.
        sample: what is compared.
        test: its t test; None where fewer than two units, or units without scatter, allow none.

    """

    level: str
    default: str
    users: int | None
    sample: Sample
    test: MeanTest | None

    @property
    def n(self) -> int:
        """Count independent units, of the smaller side."""
        return min(self.sample.level.size, self.sample.default.size)

    @property
    def earns_verdict(self) -> bool:
        """Say whether there are three independent units, and scatter to judge by."""
        enough = self.n >= stats_power.LEAST_BLOCKS and self.sample.pairing is not Pairing.ONE_LAUNCH_EACH
        return enough and self.test is not None


@dataclass(frozen=True)
class FamilyPlace:
    """A comparison's place in its family: its p after Holm (None outside), and the comparisons in it."""

    p_holm: float | None
    size: int


def make_draft(sample: Sample, levels: tuple[str, str], users: int | None, alpha: float) -> Draft:
    """Test a sample of `levels` (level, default) where it can be tested."""
    test = None
    if sample.pairing.is_paired:
        if stats.has_scatter(sample.d):
            test = stats.paired_test(sample.d, alpha)
    elif stats.has_scatter(sample.level) and stats.has_scatter(sample.default):
        test = stats.welch_test(sample.level, sample.default, alpha)
    return Draft(levels[0], levels[1], users, sample, test)


def estimate_effect(draft: Draft, alpha: float) -> Estimate | None:
    """Return the effect in percent with its interval; open ends where nothing bounds it, None without a ratio."""
    if not draft.n:
        return None
    if draft.test is None:
        point = stats.to_percent(float(draft.sample.level.mean() - draft.sample.default.mean()))
        return Estimate(point, None, None, draft.n, draft.sample.pairing.unit, 1.0 - alpha)
    low, point, high = (stats.to_percent(float(x)) for x in (draft.test.low, draft.test.mean, draft.test.high))
    return Estimate(point, low, high if math.isfinite(high) else None, draft.n, draft.sample.pairing.unit, 1.0 - alpha)


def judge(draft: Draft, place: FamilyPlace, aa: Sequence[AaCheck], options: CompareOptions, runs: pd.DataFrame) -> Pair:
    """Give a draft its verdict.

    Args:
        draft: the comparison.
        place: its place in its family.
        aa: all A/A checks of the study; those that speak for these levels set the floor of a difference.
        options: margin, alpha, and which levels launch from the host.
        runs: the checked table, for the figures over single runs.

    """
    speaking = [check for check in aa if _speaks_for(check, draft, options)]
    outlook = _look_ahead(draft.test, draft.n, place, options) if draft.test and draft.earns_verdict else None
    verdict, reason = _decide(draft, place, _floor(speaking), options, outlook)
    sample, test = draft.sample, draft.test
    is_single = draft.users is not None
    return Pair(
        level=draft.level,
        default=draft.default,
        users=draft.users,
        verdict=verdict,
        preliminary=verdict is not Verdict.UNDECIDED and draft.n < stats_power.FULL_BLOCKS,
        reason=reason,
        effect_percent=estimate_effect(draft, options.alpha),
        pairing=sample.pairing,
        n_level=sample.level.size,
        n_default=sample.default.size,
        p=None if test is None else float(test.p),
        p_holm=place.p_holm,
        family_size=place.size,
        p_equivalence=None if test is None else float(stats.equivalence_p(test, options.margin)),
        sign_flip=stats.sign_flip(sample.d) if sample.d.size else None,
        range_rule=_apply_range_rule(draft, runs) if is_single else None,
        medians=_compare_medians(draft, runs) if is_single else None,
        outlook=outlook,
        users_used=sample.users,
        notes=sample.notes + _aa_notes(draft, aa, speaking, options),
    )


def _decide(
    draft: Draft, place: FamilyPlace, floor: float | None, options: CompareOptions, outlook: Outlook | None
) -> tuple[Verdict, str]:
    test = draft.test
    if test is None or place.p_holm is None or outlook is None:
        return Verdict.UNDECIDED, _reason_without_verdict(draft)
    mean = float(test.mean)
    within = float(stats.equivalence_p(test, options.margin)) < options.alpha / 2.0
    differs = place.p_holm < options.alpha
    exceeds = floor is None or abs(mean) > floor
    margin = f"{100.0 * options.margin:g} %"
    if differs and exceeds:
        reason = f"p = {place.p_holm:.2g} after Holm over {place.size}"
        if within:
            verdict = Verdict.SLOWER_WITHIN_MARGIN if mean > 0.0 else Verdict.FASTER_WITHIN_MARGIN
            return verdict, f"{reason}; the interval lies inside +-{margin}"
        return (Verdict.SLOWER if mean > 0.0 else Verdict.FASTER), reason
    too_small = f"not larger than the overall A/A difference of {stats.to_percent(floor or 0.0):.2g} %"
    if within:
        reason = f"the interval lies inside +-{margin}"
        return Verdict.EQUIVALENT, f"{reason}; {too_small}" if differs else reason
    if differs:
        return Verdict.UNDECIDED, too_small
    return Verdict.UNDECIDED, _describe_outlook(draft, place, outlook)


def _reason_without_verdict(draft: Draft) -> str:
    unit = draft.sample.pairing.unit
    if not draft.n:
        where = "at any number of users that all blocks have" if draft.users is None else f"at {draft.users} users"
        return f"no valid run of both '{draft.level}' and '{draft.default}' {where}"
    if draft.sample.pairing is Pairing.ONE_LAUNCH_EACH:
        return "one launch each is no block: what sets two server processes apart is charged to the level"
    if draft.n < stats_power.LEAST_BLOCKS:
        return f"{format_counted(draft.n, unit)}: three are preliminary, five earn a verdict"
    return f"{format_counted(draft.n, unit)} without scatter: copies of one measurement are no evidence"


def _describe_outlook(draft: Draft, place: FamilyPlace, outlook: Outlook) -> str:
    unit = draft.sample.pairing.unit
    more = "no number of blocks in reach would decide"
    if outlook.more_units:
        more = f"about {format_counted(outlook.more_units, 'more ' + unit)} would decide"
    return (
        f"p = {place.p_holm:.2g} after Holm over {place.size}; {format_counted(draft.n, unit)} find a cost of "
        f"{outlook.smallest_effect_percent:.2g} % in 80 % of studies; if the truth is what was seen, {more}"
    )


def _look_ahead(test: MeanTest, n: int, place: FamilyPlace, options: CompareOptions) -> Outlook:
    """Say what these units could find at Holm's first step, alpha over the family, and how many would decide."""
    mean, sd = float(test.mean), float(test.se) * math.sqrt(n)
    alpha = options.alpha / place.size
    difference = stats_power.blocks_for_difference(mean, sd, alpha)
    equivalence = stats_power.blocks_for_equivalence(options.margin, sd, options.alpha, log_effect=mean)
    missing = [max(count - n, 1) for count in (difference, equivalence) if count is not None]
    return Outlook(
        sd_percent=100.0 * sd,
        smallest_effect_percent=100.0 * stats_power.smallest_effect(sd, n, alpha),
        units_for_difference=difference,
        units_for_equivalence=equivalence,
        more_units=min(missing, default=None),
    )


def _speaks_for(check: AaCheck, draft: Draft, options: CompareOptions) -> bool:
    """Say whether an A/A check measured the scatter that one of the two levels has."""
    kinds = {name in options.host_launched for name in (draft.level, draft.default)}
    return check.contains_zero is not None and check.host_launched in kinds


def _floor(speaking: Sequence[AaCheck]) -> float | None:
    sizes = [abs(math.log1p(check.effect_percent.point / 100.0)) for check in speaking if check.effect_percent]
    return max(sizes, default=None)


def _aa_notes(
    draft: Draft, aa: Sequence[AaCheck], speaking: Sequence[AaCheck], options: CompareOptions
) -> tuple[str, ...]:
    hosted = [name for name in (draft.level, draft.default) if name in options.host_launched]
    measured = [check for check in aa if check.contains_zero is not None]
    if hosted and measured and not any(check.host_launched for check in speaking):
        return (
            f"the A/A pair is of graph levels and says nothing about {hosted[0]}; duplicate {hosted[0]} to measure it",
        )
    if measured and not speaking:
        return ("the A/A pair is of host-launched levels and says nothing about these",)
    return ()


def _run_figures(draft: Draft, runs: pd.DataFrame) -> tuple[stats.FloatArray, stats.FloatArray, str]:
    """Return the runs of both levels at the draft's users, in ms, by the guide's statistic where the table has it."""
    column, statistic = ("median_ms", "median TPOT") if "median_ms" in runs else ("value", "mean TPOT")
    rows = runs[runs["users"] == draft.users]
    level, default = (
        rows.loc[rows["level"] == name, column].to_numpy(dtype=np.float64) for name in (draft.level, draft.default)
    )
    return level, default, statistic


def _apply_range_rule(draft: Draft, runs: pd.DataFrame) -> RangeRule | None:
    level, default, _ = _run_figures(draft, runs)
    if not level.size or not default.size:
        return None
    return RangeRule(
        level_ms=(float(level.min()), float(level.max())),
        default_ms=(float(default.min()), float(default.max())),
        n_level=level.size,
        n_default=default.size,
        overlap=bool(stats.do_ranges_overlap(level, default)),
        false_rate=stats.range_rule_false_rate(level.size, default.size),
    )


def _compare_medians(draft: Draft, runs: pd.DataFrame) -> PercentOfMedians | None:
    level, default, statistic = _run_figures(draft, runs)
    if not level.size or not default.size:
        return None
    level_ms, default_ms = float(np.median(level)), float(np.median(default))
    return PercentOfMedians(level_ms, default_ms, 100.0 * (level_ms / default_ms - 1.0), statistic)
