"""What a number of blocks can find, and how many blocks an answer takes.

Scatter is the standard deviation of the log ratio over blocks, sd(d); effects and margins are shares (0.01 is 1 %).
Powers hold for one comparison tested at `alpha`, with normal d.
"""

import math
from collections.abc import Callable

import numpy as np
from scipy import optimize
from scipy import stats as scipy_stats

from study.analyze import stats
from study.analyze.stats import FloatArray
from study.errors import InputError

POWER = 0.8
LEAST_BLOCKS = 3
FULL_BLOCKS = 5
MOST_BLOCKS = 1000
GRID = 1000

# Blocks after which a study may be looked at, each with the alpha spent there; they add up to 0.05 (Bonferroni).
LOOKS: tuple[tuple[int, float], ...] = ((3, 0.01), (5, 0.015), (8, 0.025))


def alpha_of_look(blocks: int) -> float:
    """Return the alpha that a look after `blocks` blocks may spend, for difference and equivalence alike.

    Raises:
        InputError: where no look is planned after so many blocks.

    """
    for at, alpha in LOOKS:
        if at == blocks:
            return alpha
    planned = ", ".join(str(at) for at, _ in LOOKS)
    raise InputError(f"no look is planned after {blocks} blocks; a study that may stop early is read after {planned}")


def power_of_difference(log_effect: float, sd: float, blocks: int, alpha: float = 0.05) -> float:
    """Return the chance that a two-sided t test over `blocks` blocks finds a mean log ratio of `log_effect`."""
    if blocks < 2:
        return 0.0
    return _reject_chance(abs(log_effect) / sd * math.sqrt(blocks), _rejection_bounds(blocks, alpha))


def power_of_equivalence(margin: float, sd: float, blocks: int, alpha: float = 0.05, log_effect: float = 0.0) -> float:
    """Return the chance that the (1 - alpha) interval over `blocks` blocks lies inside the margin.

    Args:
        margin: largest effect that does not matter, as a share.
        sd: standard deviation of the log ratio over blocks.
        blocks: number of blocks.
        alpha: one minus the coverage of the interval.
        log_effect: the true mean log ratio.

    """
    if blocks < 2:
        return 0.0
    scale = sd / math.sqrt(blocks)
    room = math.log1p(margin) / scale - _rejection_bounds(blocks, alpha)
    offset = log_effect / scale
    inside = scipy_stats.norm.cdf(room - offset) - scipy_stats.norm.cdf(-room - offset)
    return float(np.mean(np.maximum(inside, 0.0)))


def smallest_effect(sd: float, blocks: int, alpha: float = 0.05, power: float = POWER) -> float:
    """Return the least slowdown, as a share, that `blocks` blocks (two at least) find with chance `power`."""
    bounds = _rejection_bounds(blocks, alpha)
    noncentrality = float(optimize.brentq(lambda x: _reject_chance(x, bounds) - power, 0.0, 10.0 + 2.0 * bounds.max()))
    return stats.to_percent(noncentrality * sd / math.sqrt(blocks)) / 100.0


def blocks_for_difference(log_effect: float, sd: float, alpha: float = 0.05, power: float = POWER) -> int | None:
    """Return the blocks, three at least, that find a true mean of `log_effect`; None above 1,000."""
    return _fewest_blocks(lambda blocks: power_of_difference(log_effect, sd, blocks, alpha), power)


def blocks_for_equivalence(
    margin: float, sd: float, alpha: float = 0.05, power: float = POWER, log_effect: float = 0.0
) -> int | None:
    """Return the blocks, three at least, that show a true mean of `log_effect` to be inside the margin.

    None above 1,000, and where the true mean is itself not inside the margin (given as a share).
    """
    if abs(log_effect) >= math.log1p(margin):
        return None
    return _fewest_blocks(lambda blocks: power_of_equivalence(margin, sd, blocks, alpha, log_effect), power)


def _rejection_bounds(blocks: int, alpha: float) -> FloatArray:
    """Return how many true standard errors the mean must lie off 0, for equally likely sample variances (grid,).

    Given the sample's variance the mean is normal, so a power is the average of normal chances over this grid. scipy's
    noncentral t distribution says the same, but gives NaN far out, where a level takes several times as long.
    """
    df = blocks - 1
    share = (np.arange(GRID) + 0.5) / GRID
    sample_sd = np.sqrt(scipy_stats.chi2.ppf(share, df) / df)
    return np.asarray(scipy_stats.t.ppf(1.0 - alpha / 2.0, df) * sample_sd, dtype=np.float64)


def _reject_chance(noncentrality: float, bounds: FloatArray) -> float:
    upper = scipy_stats.norm.sf(bounds - noncentrality)
    lower = scipy_stats.norm.cdf(-bounds - noncentrality)
    return float(np.mean(upper + lower))


def _fewest_blocks(chance: Callable[[int], float], power: float) -> int | None:
    """Return the least number of blocks whose chance reaches `power`; the chance rises with the blocks."""
    if chance(MOST_BLOCKS) < power:
        return None
    low, high = LEAST_BLOCKS, MOST_BLOCKS
    while low < high:
        middle = (low + high) // 2
        if chance(middle) >= power:
            high = middle
        else:
            low = middle + 1
    return low
