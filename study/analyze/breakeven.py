"""Start against speed: until when a level that starts faster and decodes slower is ahead of the default.

    tokens                      D   X
      |                        /  .
      |                       / .
      |                      /.         equally many at t*
      |                  .  /
      |              .     /            X is ahead from S_X, its first token, to t*
      |          .        /
      +------ S_X ---- S_D -- t* -----> seconds after the spawn

A user of level L has (t - S_L) / T_L tokens at t seconds after the spawn, with S_L the start in seconds and T_L the
time of a token: N / output throughput, kept busy at N users.
"""

import math
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np
from scipy import stats as scipy_stats

from study.analyze import stats
from study.analyze.stats import Estimate, FloatArray
from study.analyze.stats_power import LEAST_BLOCKS
from study.design.counting import format_counted
from study.errors import InputError


class Regime(StrEnum):
    """Who is ahead when, by the block means."""

    NEVER_LOSES = "starts no later and decodes no slower: never behind"
    NEVER_WINS = "starts no sooner and decodes no faster: never ahead"
    WINS_UNTIL = "ahead until t*"
    WINS_FROM = "ahead from t* on"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class StartAndSpeed:
    """Starts and token times of one level, one value a block.

    Attributes:
        start_s: (blocks,) seconds from the spawn to the first token, all cold or all warm.
        token_s: (blocks,) N / output throughput in seconds, kept busy at N users. Where it is of another study than
            the starts, its blocks are others, and may be more or fewer.

    """

    start_s: FloatArray
    token_s: FloatArray

    @property
    def blocks(self) -> int:
        """How many blocks there are of both."""
        return min(self.start_s.size, self.token_s.size)


@dataclass(frozen=True)
class BreakEven:
    """When a level X that starts at another time than the default D, and decodes at another speed, stops being ahead.

    Attributes:
        regime: who is ahead when.
        t_star_s: seconds after the spawn at which both have equally many tokens; its `high` is None where the blocks do
            not bound it ("at least low"); None where the lines do not cross, or no lower end exists either.
        ahead_at_least_s: seconds after the spawn up to which a level that starts sooner is ahead at the least. None
            where the blocks do not tell the starts apart, show that it never falls behind, or do not put t* after the
            default's first token: until then a level leads with its first answer alone.
        never_behind: whether it starts sooner and decodes faster, both shown.
        start_gain_s: S_D - S_X with its interval: seconds by which X starts sooner; None without an interval.
        token_cost_percent: how much longer a token of X takes, with its interval; None likewise.
        reason: why, in one line.

    """

    regime: Regime
    t_star_s: Estimate | None
    ahead_at_least_s: float | None
    never_behind: bool
    start_gain_s: Estimate | None
    token_cost_percent: Estimate | None
    reason: str


def solve_break_even(level: StartAndSpeed, default: StartAndSpeed) -> float:
    """Return t* = S_D + T_D (S_D - S_X) / (T_X - T_D) of the block means, in seconds after the spawn.

    Raises:
        InputError: where both levels take the same time for a token, so that the lines do not cross.

    """
    s_x, t_x, s_d, t_d = (
        float(values.mean()) for values in (level.start_s, level.token_s, default.start_s, default.token_s)
    )
    if t_x == t_d:
        raise InputError(f"both levels take {t_x} s for a token; only levels of unlike speed break even")
    return s_d + t_d * (s_d - s_x) / (t_x - t_d)


def equal_token_times(
    level: StartAndSpeed, default: StartAndSpeed, alpha: float = 0.05, *, one_study: bool = True
) -> tuple[tuple[float, float], ...]:
    """Return all t at which a t test over blocks does not reject "equally many tokens at t" (Fieller 1954).

    The difference of tokens g(t) = u t - v is linear in t, so |g| <= c se(g) is a quadratic inequality in t.

    Args:
        level: X, by blocks, two at least.
        default: D, by the same blocks.
        alpha: one minus the confidence.
        one_study: starts and token times are of the same blocks; else of two studies, each with blocks of its own.

    Returns:
        Closed intervals in seconds after the spawn, in rising order: one finite interval where the speeds are told
        apart, two half lines or the whole line where they are not; none where the levels differ by the start alone.

    """
    a, b, c = (_within_blocks if one_study else _of_two_studies)(level, default, alpha)
    if a == 0.0 and b == 0.0 and c > 0.0:
        return ()
    if a == 0.0 or (a < 0.0 and b * b < a * c):
        return ((-math.inf, math.inf),)
    # Above zero `a` leaves a root by construction; without scatter, rounding may take it away.
    root = math.sqrt(max(b * b - a * c, 0.0))
    first, second = sorted(((b - root) / a, (b + root) / a))
    return ((first, second),) if a > 0.0 else ((-math.inf, first), (second, math.inf))


def _squared_quantile(alpha: float, blocks: int) -> float:
    return float(scipy_stats.t.ppf(1.0 - alpha / 2.0, blocks - 1)) ** 2


def _within_blocks(level: StartAndSpeed, default: StartAndSpeed, alpha: float) -> tuple[float, float, float]:
    """Return a, b, c of a t^2 - 2 b t + c <= 0, with g_b(t) = u_b t - v_b in block b."""
    u = 1.0 / level.token_s - 1.0 / default.token_s
    v = level.start_s / level.token_s - default.start_s / default.token_s
    bound = _squared_quantile(alpha, u.size) / u.size
    (s_uu, s_uv), (_, s_vv) = np.cov(u, v, ddof=1)
    return (
        float(u.mean() ** 2 - bound * s_uu),
        float(u.mean() * v.mean() - bound * s_uv),
        float(v.mean() ** 2 - bound * s_vv),
    )


def _of_two_studies(level: StartAndSpeed, default: StartAndSpeed, alpha: float) -> tuple[float, float, float]:
    """Return a, b, c likewise where no block has both: the variances of two independent means add up in se(g)^2.

    g(t) = (t - S_X) r_X - (t - S_D) r_D with r = 1 / T. To first order the starts add w' Cov(S) w / n_S with
    w = (-r_X, r_D), and the speeds y' Cov(r) y / n_T with y = (t - S_X, S_D - t). The fewer blocks give c its degrees
    of freedom.
    """
    starts = np.stack([level.start_s, default.start_s])
    rates = 1.0 / np.stack([level.token_s, default.token_s])
    s, r = starts.mean(axis=1), rates.mean(axis=1)
    of_starts, of_rates = (np.cov(one, ddof=1) / one.shape[1] for one in (starts, rates))
    sign, w = np.array([1.0, -1.0]), np.array([-r[0], r[1]])
    signed = sign * s
    u, v = float(sign @ r), float(signed @ r)
    bound = _squared_quantile(alpha, level.blocks)
    return (
        u**2 - bound * float(sign @ of_rates @ sign),
        u * v - bound * float(sign @ of_rates @ signed),
        v**2 - bound * float(signed @ of_rates @ signed + w @ of_starts @ w),
    )


def find_break_even(
    level: StartAndSpeed, default: StartAndSpeed, alpha: float = 0.05, *, one_study: bool = True, unit: str = "block"
) -> BreakEven:
    """Say until when `level` is ahead of `default`, with an interval by inverting the test of equally many tokens.

    Args:
        level: X, by blocks.
        default: D, by the same blocks in the same order.
        alpha: one minus the confidence.
        one_study: starts and token times are of the same blocks; else of two studies, each with blocks of its own.
        unit: what each value is of, block or machine; results and reasons count in it.

    Raises:
        InputError: for arrays of unequal length, or a time that is not positive and finite.

    """
    _check(level, default, one_study)
    blocks, counted = level.blocks, format_counted(level.blocks, unit)
    means = _regime_of_means(level, default)
    crosses = means in (Regime.WINS_UNTIL, Regime.WINS_FROM)
    point = solve_break_even(level, default) if crosses else None
    reason = _reason_without_interval(level, default, counted)
    if reason:
        t_star = None if point is None else Estimate(point, None, None, blocks, unit, 1.0 - alpha)
        return BreakEven(Regime.UNDECIDED, t_star, None, False, None, None, reason)
    gain = _estimate_mean(default.start_s - level.start_s, alpha, unit)
    log_cost = _estimate_mean(stats.log_ratio(level.token_s, default.token_s), alpha, unit)
    percents = [None if end is None else stats.to_percent(end) for end in (log_cost.low, log_cost.high)]
    cost = replace(log_cost, point=stats.to_percent(log_cost.point), low=percents[0], high=percents[1])
    low, high, told_apart = _bounds(equal_token_times(level, default, alpha, one_study=one_study))
    start_known = not gain.contains(0.0)
    if not told_apart and (low is None or not start_known):
        why = f"{counted} tell neither who is ahead first nor who decodes faster"
        return BreakEven(Regime.UNDECIDED, None, None, False, gain, cost, why)
    t_star = None if point is None else Estimate(point, low, high, blocks, unit, 1.0 - alpha)
    reason = _reason(counted, start_known, told_apart)
    ahead = None
    if start_known and (means is Regime.WINS_UNTIL or (means is Regime.NEVER_LOSES and not told_apart)):
        ahead, reason = _lead(low, float(default.start_s.mean()), counted, reason)
    never_behind = means is Regime.NEVER_LOSES and told_apart and start_known
    return BreakEven(means, t_star, ahead, never_behind, gain, cost, reason)


def _lead(low_s: float | None, first_token_s: float, counted: str, reason: str) -> tuple[float | None, str]:
    """Return until when a lead is shown; before the default's first token there is no speed to be behind."""
    if low_s is not None and low_s <= first_token_s:
        return None, f"{counted} do not put t* after the first token of the default ({first_token_s:.0f} s)"
    return low_s, reason


def _check(level: StartAndSpeed, default: StartAndSpeed, one_study: bool) -> None:
    starts, tokens = ({getattr(side, name).size for side in (level, default)} for name in ("start_s", "token_s"))
    sizes = starts | tokens
    if any(len(one) > 1 for one in ([sizes] if one_study else [starts, tokens])):
        raise InputError(f"starts and token times come from {sorted(sizes)} blocks; one of each a block works")
    for name, side in (("level", level), ("default", default)):
        for field in ("start_s", "token_s"):
            values = getattr(side, field)
            bad = np.flatnonzero(~(np.isfinite(values) & (values > 0.0)))
            if bad.size:
                raise InputError(f"{field} {values[bad[0]]} of the {name}, block {bad[0]}, is not positive and finite")
    if 0 in sizes:
        raise InputError("0 blocks of starts and token times; at least one works")


def _regime_of_means(level: StartAndSpeed, default: StartAndSpeed) -> Regime:
    gain = float(default.start_s.mean() - level.start_s.mean())
    cost = float(level.token_s.mean() - default.token_s.mean())
    if gain > 0.0 and cost > 0.0:
        return Regime.WINS_UNTIL
    if gain < 0.0 and cost < 0.0:
        return Regime.WINS_FROM
    return Regime.NEVER_WINS if gain < 0.0 or cost > 0.0 else Regime.NEVER_LOSES


def _reason_without_interval(level: StartAndSpeed, default: StartAndSpeed, counted: str) -> str:
    if level.blocks < LEAST_BLOCKS:
        return f"{counted}: three are preliminary, five earn a verdict"
    if not any(
        stats.has_scatter(np.log(values)) for side in (level, default) for values in (side.start_s, side.token_s)
    ):
        return f"{counted} without scatter: copies of one measurement are no evidence"
    return ""


def _estimate_mean(values: FloatArray, alpha: float, unit: str) -> Estimate:
    """Return the mean of (units,) values with its t interval, of no width where they do not scatter."""
    half = float(scipy_stats.t.ppf(1.0 - alpha / 2.0, values.size - 1) * values.std(ddof=1) / math.sqrt(values.size))
    mean = float(values.mean())
    return Estimate(mean, mean - half, mean + half, values.size, unit, 1.0 - alpha)


def _bounds(times: tuple[tuple[float, float], ...]) -> tuple[float | None, float | None, bool]:
    """Return the ends of t* and whether the speeds are told apart; of two half lines the later holds t*.

    The gap between the half lines is where one level is ahead for certain, by its start; t* comes after it.
    """
    if not times:
        return None, None, True
    low, high = times[-1]
    return (low if math.isfinite(low) else None), (high if math.isfinite(high) else None), math.isfinite(high)


def _reason(counted: str, start_known: bool, told_apart: bool) -> str:
    if not told_apart:
        return f"{counted} do not tell the speeds apart: t* has no upper end"
    if not start_known:
        return f"{counted} do not tell the starts apart: what they say of the first minutes is by the means alone"
    return f"{counted} tell both starts and speeds apart"
