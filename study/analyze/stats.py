"""Estimators and tests on plain arrays: logarithms of times in, effects with their intervals out.

The replicate is the last axis of every array. For paired data it is the block, d[..., b] = ln(level_b / default_b), so
that a mean of 0.02 is a level whose tokens take 2 % longer; leading axes (users, levels, simulated studies) are carried
along. Nothing here knows of levels, files or verdicts.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy import stats as scipy_stats

from study.design.counting import format_counted
from study.errors import InputError

FloatArray: TypeAlias = NDArray[np.float64]
BoolArray: TypeAlias = NDArray[np.bool_]

# Log ratios that spread by less than this are copies of one measurement: rounding alone moves them so far.
LEAST_SCATTER = 1e-12
# Beyond it exp overflows; the ends of intervals with one degree of freedom get there.
MOST_LOG = 700.0
# 2^12 sign patterns take milliseconds; beyond that the sign-flip p adds nothing to the t test it stands beside.
MOST_SIGN_FLIP_BLOCKS = 12


@dataclass(frozen=True)
class Estimate:
    """A point that carries its interval.

    Attributes:
        point: the estimate, in the unit that the name of the field holding it ends with.
        low: lower end of the interval; None where the data bound it nowhere.
        high: upper end, likewise.
        n: number of independent units behind it; of the smaller side for unpaired data.
        unit: what is counted by `n`: `block`, `machine`, `launch`, `run` or `study`.
        confidence: nominal coverage of the interval, as a share.

    """

    point: float
    low: float | None
    high: float | None
    n: int
    unit: str
    confidence: float

    def contains(self, value: float) -> bool:
        """Say whether the closed interval holds `value`; an open end holds everything on its side."""
        return (self.low is None or self.low <= value) and (self.high is None or value <= self.high)


@dataclass(frozen=True)
class MeanTest:
    """t statistics of a mean log ratio; every array has the shape of the input without its last axis.

    Attributes:
        mean: mean log ratio.
        se: its standard error.
        df: degrees of freedom.
        low: lower end of the (1 - alpha) t interval of the mean.
        high: upper end.
        p: two-sided p of "the mean is 0".

    """

    mean: FloatArray
    se: FloatArray
    df: FloatArray
    low: FloatArray
    high: FloatArray
    p: FloatArray


@dataclass(frozen=True)
class SignFlip:
    """Exact sign-flip p of a mean, and the least value that it can take with so few blocks."""

    p: float
    least_p: float


def log_ratio(level: FloatArray, default: FloatArray) -> FloatArray:
    """Return d = ln(level / default), elementwise; both hold positive times in one unit, of one shape."""
    return np.asarray(np.log(level) - np.log(default), dtype=np.float64)


def to_percent(log_effect: float) -> float:
    """Return the effect in percent that a mean log ratio stands for, 100 (exp(d) - 1); infinite beyond all numbers."""
    return 100.0 * math.expm1(log_effect) if log_effect < MOST_LOG else math.inf


def has_scatter(values: FloatArray) -> bool:
    """Say whether `values` (replicates,) differ by more than rounding; copies of one run measure no scatter."""
    return values.size > 1 and bool(np.ptp(values) > LEAST_SCATTER)


def paired_test(d: FloatArray, alpha: float = 0.05) -> MeanTest:
    """Test whether the mean log ratio over blocks is 0 (Student's t test of one sample).

    Args:
        d: (..., blocks) log ratios within blocks, at least two blocks, not all equal.
        alpha: one minus the coverage of the interval.

    Returns:
        The test, with arrays of shape (...).

    Raises:
        InputError: where fewer than two blocks are given, or blocks do not scatter at all.

    """
    blocks = d.shape[-1]
    if blocks < 2:
        raise InputError(f"a t interval needs at least 2 blocks, got {blocks}; measure more blocks")
    if bool(np.any(np.ptp(d, axis=-1) <= LEAST_SCATTER)):
        raise InputError(f"{blocks} log ratios are copies of one value; a t interval needs blocks that were measured")
    result = scipy_stats.ttest_1samp(d, 0.0, axis=-1)
    interval = result.confidence_interval(1.0 - alpha)
    mean = np.asarray(d.mean(axis=-1))
    return MeanTest(
        mean=mean,
        se=np.asarray(d.std(axis=-1, ddof=1) / math.sqrt(blocks)),
        df=np.full(mean.shape, blocks - 1.0),
        low=np.asarray(interval.low),
        high=np.asarray(interval.high),
        p=np.asarray(result.pvalue),
    )


def welch_test(level_log: FloatArray, default_log: FloatArray, alpha: float = 0.05) -> MeanTest:
    """Test whether two unpaired groups of log times have one mean (Welch 1947).

    Args:
        level_log: (..., n) logarithms of the level's times, at least two, not all equal.
        default_log: (..., m) the default's, likewise.
        alpha: one minus the coverage of the interval.

    Returns:
        The test of mean(level_log) - mean(default_log), with arrays of shape (...).

    Raises:
        InputError: where a side has fewer than two values, or values that do not scatter.

    """
    for side, values in (("level", level_log), ("default", default_log)):
        if values.shape[-1] < 2 or bool(np.any(np.ptp(values, axis=-1) <= LEAST_SCATTER)):
            count = values.shape[-1]
            raise InputError(
                f"the {side} has {format_counted(count, 'value')} without scatter; "
                "an unpaired test needs 2 or more measured"
            )
    result = scipy_stats.ttest_ind(level_log, default_log, axis=-1, equal_var=False)
    interval = result.confidence_interval(1.0 - alpha)
    variances = (x.var(axis=-1, ddof=1) / x.shape[-1] for x in (level_log, default_log))
    return MeanTest(
        mean=np.asarray(level_log.mean(axis=-1) - default_log.mean(axis=-1)),
        se=np.asarray(np.sqrt(sum(variances))),
        df=np.asarray(result.df),
        low=np.asarray(interval.low),
        high=np.asarray(interval.high),
        p=np.asarray(result.pvalue),
    )


def equivalence_p(test: MeanTest, margin: float) -> FloatArray:
    """Return the larger p of the two one-sided tests of "the effect lies beyond the margin" (Schuirmann 1987).

    At alpha / 2 it falls exactly where the (1 - alpha) interval lies inside the margin, so one interval serves the
    difference and the equivalence.

    Args:
        test: a paired or an unpaired test, arrays of shape (...).
        margin: largest effect that does not matter, as a share (0.01 is 1 %).

    Returns:
        (...) p values. The bounds are +-ln(1 + margin), so that swapping the levels changes nothing.

    """
    bound = math.log1p(margin)
    above_low = scipy_stats.t.sf((test.mean + bound) / test.se, test.df)
    below_high = scipy_stats.t.cdf((test.mean - bound) / test.se, test.df)
    return np.asarray(np.maximum(above_low, below_high), dtype=np.float64)


def is_within_margin(test: MeanTest, margin: float) -> BoolArray:
    """Say for each interval (...) whether it lies inside the margin, given as a share."""
    bound = math.log1p(margin)
    return np.asarray((test.low > -bound) & (test.high < bound))


def adjust_holm(p: FloatArray) -> FloatArray:
    """Adjust p values for testing a whole family (Holm 1979).

    Args:
        p: (..., family) two-sided p values; the last axis is the family, each leading index one family.

    Returns:
        Adjusted p values of the same shape and order, at most 1: reject where they are below alpha.

    """
    family = p.shape[-1]
    order = np.argsort(p, axis=-1, kind="stable")
    stepped = np.take_along_axis(p, order, axis=-1) * np.arange(family, 0, -1)
    adjusted = np.minimum(np.maximum.accumulate(stepped, axis=-1), 1.0)
    result = np.empty(adjusted.shape)
    np.put_along_axis(result, order, adjusted, axis=-1)
    return result


def sign_flip(d: FloatArray) -> SignFlip | None:
    """Return the exact sign-flip p of the mean of d (blocks,), with its floor 2 / 2^n; None above 12 blocks.

    Were the two levels alike, every d could as well have had the other sign.
    """
    blocks = d.size
    if not 1 <= blocks <= MOST_SIGN_FLIP_BLOCKS:
        return None
    least = 2.0 / 2.0**blocks
    if blocks == 1:
        return SignFlip(1.0, least)
    result = scipy_stats.permutation_test(
        (d,), np.mean, permutation_type="samples", vectorized=True, n_resamples=np.inf, axis=-1
    )
    return SignFlip(float(result.pvalue), least)


def do_ranges_overlap(level: FloatArray, default: FloatArray) -> BoolArray:
    """Say for (..., n) and (..., m) values whether their ranges share a point: the 2026.10 edition's rule."""
    return np.asarray(
        (level.min(axis=-1) <= default.max(axis=-1)) & (default.min(axis=-1) <= level.max(axis=-1)), dtype=np.bool_
    )


def range_rule_false_rate(n: int, m: int) -> float:
    """Return how often ranges of n and m independent values of one distribution are apart: 2 n! m! / (n + m)!.

    All orders of the n + m values are equally likely, and in two groups of them one side lies below the other.

    Raises:
        InputError: where a side is empty.

    """
    if n < 1 or m < 1:
        raise InputError(f"ranges of {n} and {m} values cannot be compared; each side needs at least one")
    return 2.0 / math.comb(n + m, n)
