"""How an edition writes an effect, its interval and its verdict."""

import math

from study.analyze.compare_types import Pair, Verdict
from study.analyze.formats import MISSING
from study.analyze.stats import Estimate

NOT_ENOUGH = "not enough evidence"


def say_users(users: int | None) -> str:
    """Write a number of users: `1 user`, `8 users`, `all users` for the overall cost."""
    if users is None:
        return "all users"
    return "1 user" if users == 1 else f"{users:,} users"


def say_percent(percent: float | None) -> str:
    """Write a difference in percent with its sign: `+2.21`; two decimals below 100, one above."""
    if percent is None:
        return MISSING
    if math.isinf(percent):
        return "beyond all bounds"
    digits = 2 if abs(percent) < 100.0 else 1
    text = f"{percent:+,.{digits}f}"
    return text.replace("-", "\N{MINUS SIGN}") if float(percent) and round(percent, digits) else f"{0:.{digits}f}"


def say_interval(estimate: Estimate | None) -> str:
    """Write an effect with its interval: `+2.21 percent (+1.10 to +3.32)`; says where an end is missing."""
    if estimate is None:
        return MISSING
    point = f"{say_percent(estimate.point)} percent"
    if estimate.low is None and estimate.high is None:
        return f"{point} (no interval)"
    if estimate.high is None or math.isinf(estimate.high):
        return f"{point} (at least {say_percent(estimate.low)})"
    if estimate.low is None:
        return f"{point} (at most {say_percent(estimate.high)})"
    return f"{point} ({say_percent(estimate.low)} to {say_percent(estimate.high)})"


def say_verdict(pair: Pair) -> str:
    """Write a verdict; undecided is `not enough evidence`, and one that rests on few units is called preliminary."""
    if pair.verdict is Verdict.UNDECIDED:
        return NOT_ENOUGH
    return f"{pair.verdict.value} (preliminary)" if pair.preliminary else pair.verdict.value
