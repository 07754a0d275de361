"""Figures in words: how a percentage, a time, an interval, a verdict or a break-even reads in a sentence.

`format_percent` and its kin write table cells; sentences say more: whether an interval is open, whether a verdict is
preliminary, how many times as long a large percentage is.
"""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from study.analyze.compare_types import Pair, Pairing, Verdict
from study.analyze.findings_parts import StartGain
from study.analyze.formats import capitalised, format_users
from study.analyze.stats import Estimate
from study.analyze.stats_power import FULL_BLOCKS, LEAST_BLOCKS
from study.design.counting import format_counted, plural

NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
LARGE_PERCENT = 100.0
MINUTE_S, HOUR_S, DAY_S = 60.0, 3600.0, 86400.0
UNITS_OF_TIME = (
    (90.0, 1.0, "second"),
    (90.0 * MINUTE_S, MINUTE_S, "minute"),
    (36.0 * HOUR_S, HOUR_S, "hour"),
    (math.inf, DAY_S, "day"),
)
"""(below this many seconds, seconds of the unit, its name)."""

VERDICT_WORDS: Mapping[Verdict, str] = {
    Verdict.SLOWER: "{level} takes {size} more time per token than {default}{times} {interval}",
    Verdict.FASTER: "{level} takes {size} less time per token than {default}{times} {interval}",
    Verdict.SLOWER_WITHIN_MARGIN: "{level} is slower than {default} by {size}, inside the {margin} margin {interval}",
    Verdict.FASTER_WITHIN_MARGIN: "{level} is faster than {default} by {size}, inside the {margin} margin {interval}",
    Verdict.EQUIVALENT: "{level} and {default} are equivalent within {margin}: the difference is {signed} {interval}",
    Verdict.UNDECIDED: "{level} against {default} is undecided: the difference is {signed} {interval}",
}

ONE_SIDED = tuple(verdict for verdict in Verdict if verdict not in (Verdict.EQUIVALENT, Verdict.UNDECIDED))
"""Verdicts whose words say which way the difference goes."""


def in_words(count: int) -> str:
    """Write a count up to twelve as a word: `five`, `13`."""
    return NUMBERS[count] if 0 <= count < len(NUMBERS) else f"{count:,}"


def counted(count: int, noun: str) -> str:
    """Write a count with its noun: `one block`, `five blocks`."""
    return f"{in_words(count)} {plural(noun, count)}"


def counted_over(counts: Collection[int], noun: str) -> str:
    """Write the least and the greatest of some counts: `three to four blocks`, or one where they are alike."""
    least = "" if min(counts) == max(counts) else f"{in_words(min(counts))} to "
    return f"{least}{counted(max(counts), noun)}"


def some_users(users: int) -> str:
    """Write a number of users as a figure: `1 user`, `8 users`."""
    return format_counted(users, "user")


def number(value: float) -> str:
    """Write a number with as many digits as a reader needs: 412, 33.1, 2.2, 0.04; one below zero with a minus sign."""
    size = abs(value)
    digits = 0 if size >= LARGE_PERCENT else 1 if size >= 0.95 else 2
    text = f"{value:,.{digits}f}"
    return text.removeprefix("-") if float(text.replace(",", "")) == 0.0 else text.replace("-", "\N{MINUS SIGN}")


def percent(value: float) -> str:
    """Write a percentage without its sign: `412 percent`."""
    return f"{number(abs(value))} percent"


def times(effect_percent: float) -> str:
    """Write a large percentage as a multiple too: `, 5.1 times as long`; nothing for a small one."""
    return f", {1.0 + effect_percent / 100.0:.1f} times as long" if effect_percent >= LARGE_PERCENT else ""


def margin_of(share: float) -> str:
    """Write a margin as it was asked for: `1 percent`."""
    return f"{100.0 * share:g} percent"


def size_of(effect_percent: Estimate) -> Estimate:
    """Return a saving as a positive percentage with its interval, since its sentence says `less`; a cost as it is."""
    if effect_percent.point >= 0.0:
        return effect_percent
    low, high = (None if end is None else -end for end in (effect_percent.high, effect_percent.low))
    return replace(effect_percent, point=-effect_percent.point, low=low, high=high)


def interval(estimate: Estimate, unit: str) -> str:
    """Write an interval in brackets: `(95 percent interval 2.0 to 2.4 percent, five blocks)`."""
    behind = counted(estimate.n, estimate.unit)
    if estimate.low is None and estimate.high is None:
        return f"({behind})"
    return f"({confidence_of(estimate)} interval {span(estimate, unit)}, {behind})"


def span(estimate: Estimate, unit: str) -> str:
    """Write an interval alone: `2.0 to 2.4 percent`, `at least 2.0 percent`."""
    if estimate.low is None or estimate.high is None:
        ends = ((estimate.low, "at least"), (estimate.high, "at most"))
        bound = [f"{word} {number(end)} {unit}" for end, word in ends if end is not None]
        return bound[0] if bound else "without bounds"
    return f"{number(estimate.low)} to {number(estimate.high)} {unit}"


def confidence_of(estimate: Estimate) -> str:
    """Write how sure an interval is: `95 percent`."""
    return f"{100.0 * estimate.confidence:.3g} percent"


def lifetime(seconds: float) -> str:
    """Write a time as people say it: `75 seconds`, `four minutes`, `2.5 hours`."""
    unit_s, name = next((unit_s, name) for limit, unit_s, name in UNITS_OF_TIME if seconds < limit)
    value = seconds / unit_s
    if name in ("hour", "day") and value < 10.0 and abs(value - round(value)) > 0.05:
        return f"{value:.1f} {name}s"
    return counted(round(value), name)


def preliminary(n: int, unit: str) -> str:
    """Write that a figure rests on three or four units, or nothing."""
    few = LEAST_BLOCKS <= n < FULL_BLOCKS
    return f"; {preliminary_over([n], unit)}" if few else ""


def preliminary_over(counts: Collection[int], unit: str) -> str:
    """Write that figures rest on so few units of one kind: `preliminary: three to four blocks, five earn a verdict`."""
    return f"preliminary: {counted_over(counts, unit)}, {in_words(FULL_BLOCKS)} earn a verdict"


def describe_pair(pair: Pair, margin: float, users: Sequence[int] = ()) -> str:
    """Write one comparison as a sentence: verdict, size, interval, and what would decide where nothing is decided.

    An overall comparison names the numbers of users behind it where they are not all of `users`.
    """
    effect = pair.effect_percent
    where = some_of(pair, users) if pair.users is None else some_users(pair.users)
    at = f"At {where} " if where else ""
    if effect is None:
        return f"{at}{pair.level} was not compared: {pair.reason}."
    text = VERDICT_WORDS[pair.verdict].format(
        level=pair.level,
        default=pair.default,
        size=percent(effect.point),
        times=times(effect.point),
        signed=f"{number(effect.point)} percent",
        margin=margin_of(margin),
        interval=interval(size_of(effect) if pair.verdict in ONE_SIDED else effect, "percent"),
    )
    if pair.outlook is None:
        behind = f"the difference is {number(effect.point)} percent {interval(effect, 'percent')}"
        said = f"not enough evidence on {pair.level} against {pair.default}"
        return f"{at}{said if at else capitalised(said)}: {behind}; enough would be {missing_units(pair)}."
    if pair.verdict is Verdict.UNDECIDED:
        return f"{at}{text}; {what_decides(pair)}."
    return f"{at}{text}{preliminary(effect.n, pair.pairing.unit) if pair.preliminary else ''}."


def some_of(pair: Pair, users: Sequence[int]) -> str:
    """Name the numbers of users behind an overall comparison, where `users` are told and these are not all of them."""
    used = sorted(pair.users_used)
    return format_users(used) if users and used != sorted(users) else ""


def units_of(pair: Pair) -> int:
    """Count the independent units behind a pair."""
    return min(pair.n_level, pair.n_default)


def lacks_units(pair: Pair) -> bool:
    """Say whether there was too little to judge at all: fewer than three units, one launch each, or copies."""
    return pair.outlook is None


def what_decides(pair: Pair) -> str:
    """Write what would settle an undecided pair, with the number of blocks."""
    unit = pair.pairing.unit
    if pair.outlook is None:
        return f"enough would be {missing_units(pair)}"
    found = percent(pair.outlook.smallest_effect_percent)
    least = f"{counted(units_of(pair), unit)} find a cost of {found} in four of five studies"
    if pair.p_holm is not None and pair.p_holm < 1.0 and pair.reason.startswith("not larger than"):
        return f"it is {pair.reason}, so more {plural(unit)} of the A/A pair must show less"
    if pair.outlook.more_units is None:
        return f"{least}, and no number of {plural(unit)} in reach decides"
    return f"{least}; about {counted(pair.outlook.more_units, f'more {unit}')} would decide"


def missing_units(pair: Pair) -> str:
    """Write how many units are missing for a verdict, preliminary and full."""
    n, unit = units_of(pair), pair.pairing.unit
    if pair.pairing is Pairing.ONE_LAUNCH_EACH:
        return f"{in_words(FULL_BLOCKS)} blocks, each with a fresh server for each level"
    return units_to_go(n, unit)


def units_to_go(n: int, unit: str, where: str = "") -> str:
    """Write how many more units a verdict takes: `two more blocks for a preliminary verdict, four for a full one`.

    `where` says where they must be measured to count, as in `on the same card`.
    """
    if n >= LEAST_BLOCKS:
        return f"{plural(unit)} that were measured one by one; these are copies of one measurement"
    few = f"{counted(LEAST_BLOCKS - n, f'more {unit}')} {where}".rstrip()
    return f"{few} for a preliminary verdict, {in_words(FULL_BLOCKS - n)} for a full one"


def describe_gains(gains: Iterable[StartGain]) -> list[str]:
    """Write `describe_gain` of each, in one sentence where caches, units and confidence (or its lack) are the same."""
    groups: dict[tuple[str, ...], list[StartGain]] = {}
    for gain in gains:
        judged = "" if gain.reason else confidence_of(gain.gain_s)
        shared = (gain.cache, gain.default, gain.gain_s.unit, str(gain.gain_s.n), str(gain.cards), judged)
        groups.setdefault(shared, []).append(gain)
    return [_describe_together(group) if len(group) > 1 else describe_gain(group[0]) for group in groups.values()]


def _describe_together(gains: Sequence[StartGain]) -> str:
    """Write several levels' gains over the same number of units: those that are told apart from the default first."""
    default = gains[0].default
    if gains[0].reason:
        first, *rest = sorted(gains, key=lambda one: one.gain_s.point, reverse=True)
        levels = ", ".join(f"{gain.level} {_how_much_sooner(gain)}" for gain in rest)
        return f"{_begin_gain(first)}, {levels}{_not_judged(first)}."
    said: list[str] = []
    for gain in sorted(gains, key=lambda one: one.gain_s.contains(0.0)):
        what = "" if said else f"{confidence_of(gain.gain_s)} interval of the gain "
        ends = f"{what}{span(gain.gain_s, 's')}"
        if gain.gain_s.contains(0.0):
            said.append(f"{gain.level} is not told apart from {default} ({_how_much_sooner(gain)}; {ends})")
        else:
            said.append(f"{gain.level} starts {_how_much_sooner(gain)} than {default} ({ends})")
    n, unit = gains[0].gain_s.n, gains[0].gain_s.unit
    tail = preliminary(n, unit) or f" ({counted(n, unit)})"
    return f"With {gains[0].cache} caches {'; '.join(said)}{tail}."


def _how_much_sooner(gain: StartGain) -> str:
    return f"{number(abs(gain.gain_s.point))} s {'sooner' if gain.gain_s.point >= 0.0 else 'later'}"


def describe_gain(gain: StartGain) -> str:
    """Write by how much a level starts sooner or later than the default."""
    said = _begin_gain(gain)
    if gain.reason:
        return f"{said}{_not_judged(gain)}."
    told = "" if not gain.gain_s.contains(0.0) else ", so the starts are not told apart"
    late = f"{confidence_of(gain.gain_s)} interval of the gain {span(gain.gain_s, 's')}"
    behind = counted(gain.gain_s.n, gain.gain_s.unit)
    return f"{said} ({late}, {behind}){told}{preliminary(gain.gain_s.n, gain.gain_s.unit)}."


def _begin_gain(gain: StartGain) -> str:
    return f"With {gain.cache} caches {gain.level} starts {_how_much_sooner(gain)} than {gain.default}"


def _not_judged(gain: StartGain) -> str:
    n, unit = gain.gain_s.n, gain.gain_s.unit
    # Blocks count one by one where one card has them all, or each its own: METHOD's condition for a verdict over them.
    where = "" if n < 2 or unit != "block" else "on the same card" if gain.cards == 1 else "on another card"
    return f" ({counted(n, unit)}); enough would be {units_to_go(n, unit, where)}"
