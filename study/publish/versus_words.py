"""How a comparison of editions writes its settings, costs and claims."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from study.analyze.compare_types import Verdict
from study.analyze.formats import MISSING, format_ends, format_users
from study.analyze.switches import CUDAGRAPH_MODES, MODES
from study.analyze.versus_types import Beside, Claim, Cost, Outcome, Part, Says, SettingPair, Stance
from study.design.counting import format_counted
from study.publish.plain_text import clean_text
from study.publish.sheets import LONGEST_CELL
from study.publish.wording import NOT_ENOUGH, say_interval, say_percent

LONGEST_VALUE = 60
"""Characters of a setting's value."""
_NAMES: Mapping[str, Mapping[Any, str]] = {
    "compilation_config.mode": {str(number): name for number, name in MODES.items()},
    "compilation_config.cudagraph_mode": CUDAGRAPH_MODES,
}


def say_setting(pair: SettingPair) -> tuple[str, str, str]:
    """Write a setting that differs: its path, and both values, of long lists what each has alone."""
    a, b = pair.a, pair.b
    if len(a) == len(b) == 1:
        ours, theirs = json.loads(a[0]), json.loads(b[0])
        if isinstance(ours, list) and isinstance(theirs, list) and max(len(ours), len(theirs)) > 4:
            return pair.path, _say_list(ours, theirs), _say_list(theirs, ours)
    names = _NAMES.get(pair.path, {})
    # vLLM gives its enumerations as numbers.
    ours_text, theirs_text = (
        " or ".join(f"{value} ({names[value]})" if value in names else value for value in values) or "not known there"
        for values in (a, b)
    )
    same = 0
    while ours_text[: same + LONGEST_VALUE] == theirs_text[: same + LONGEST_VALUE] and ours_text != theirs_text:
        same += LONGEST_VALUE // 2
    return pair.path, _cut(ours_text, same), _cut(theirs_text, same)


def _cut(text: str, start: int) -> str:
    """Keep a value short, beginning where it still differs from the other side's."""
    return ("\N{HORIZONTAL ELLIPSIS}" if start else "") + clean_text(text[start:], LONGEST_VALUE)


def _say_list(ours: Sequence[Any], theirs: Sequence[Any]) -> str:
    only = [json.dumps(one) for one in ours if one not in theirs]
    if not only:
        return f"{len(ours)} entries" + (" in another order" if len(ours) == len(theirs) else "")
    return clean_text(f"{len(ours)} entries, alone here: {', '.join(only)}", 2 * LONGEST_VALUE)


def say_cost(cost: Cost | None, is_aa: bool, with_medians: bool) -> str:
    """Write a cost; the percentage of medians stands beside it where the other side has nothing else."""
    if cost is None:
        return MISSING
    said = [] if cost.effect_percent is None else [say_interval(cost.effect_percent)]
    if cost.medians_percent is not None and (with_medians or not said):
        said.append(f"{say_percent(cost.medians_percent)} percent of medians")
    if is_aa:
        said.append("A/A")
    elif cost.users is None:
        said.append(_say_verdict(cost))
    return "; ".join(said)


def _say_verdict(cost: Cost) -> str:
    if cost.verdict is None:
        return f"no verdict: {_say_units(cost)}"
    if cost.verdict is Verdict.UNDECIDED:
        return NOT_ENOUGH
    return f"{cost.verdict.value} (preliminary)" if cost.preliminary else cost.verdict.value


def _say_units(cost: Cost) -> str:
    effect = cost.effect_percent
    return "no runs" if effect is None else format_counted(effect.n, effect.unit)


def say_holds(one: Beside) -> Iterator[str]:
    """Write what holds on both sides, a sentence a level."""
    for claim in one.claims:
        if claim.outcome is Outcome.HOLDS and claim.a and claim.b:
            # A figure without a verdict of its own side is what was measured, and no more.
            earned = all(cost.verdict is not None for says in (claim.a, claim.b) for cost in says.costs)
            how = f"{claim.a.stance.value} than {one.a.default}"
            if claim.a.stance is Stance.AS_FAST:
                how = f"as fast as {one.a.default}, within the margin,"
            start = f"{claim.level} {'is' if earned else 'measured'} {how} on both, at {format_users(claim.users)}"
            yield f"{start}: {_say_both(claim, one)}.{_say_label(claim, one)}"


def say_differs(one: Beside) -> Iterator[str]:
    """Write what does not hold on both sides, or cannot be said of both, and why."""
    for claim in one.claims:
        text = _say_no(claim, one)
        if text:
            yield text + _say_host(claim, one)


def _say_no(claim: Claim, one: Beside) -> str:
    level, why = claim.level, clean_text(claim.why, LONGEST_CELL)
    if claim.outcome is Outcome.TWO_THINGS:
        return f"Nothing is said of {level} on both: {why}."
    if claim.outcome is Outcome.METHOD:
        return f"{level} resolved like the default in {why}: its figure there measures the method and is no cost."
    if claim.outcome is Outcome.APART:
        return f"{level} cannot be set beside itself: {why}."
    if claim.a is None or claim.b is None:
        return ""
    if claim.outcome is Outcome.HOLDS:
        if not claim.size_apart:
            return ""
        return f"How much {claim.a.stance.value} {level} is does not carry over: {_say_both(claim, one)}."
    start = f"{level}, at {format_users(claim.users)}: {claim.a.stance.value} in A, {claim.b.stance.value} in B"
    return f"{start}: {_say_both(claim, one)}.{_say_label(claim, one)}"


def _say_both(claim: Claim, one: Beside) -> str:
    said = [
        f"{name} {_say_one(says, part, claim.level)}"
        for name, says, part in (("A", claim.a, one.a), ("B", claim.b, one.b))
        if says is not None
    ]
    return "; ".join(said)


def _say_one(says: Says, part: Part, level: str) -> str:
    """Write what one side says, and what it rests on."""
    first = says.costs[0]
    if first.users is None:
        return f"{say_interval(first.effect_percent)} overall, {_say_verdict(first)}"
    points = sorted(cost.point_percent for cost in says.costs if cost.point_percent is not None)
    least, greatest = say_percent(points[0]), say_percent(points[-1])
    text = format_ends(f"{least} percent", f"{greatest} percent")
    if part.published:
        return f"{text} of published medians"
    counts = sorted(says.costs, key=lambda cost: 0 if cost.effect_percent is None else cost.effect_percent.n)
    units = format_ends(_say_units(counts[0]), _say_units(counts[-1]))
    text += f" ({units}, {'no verdict' if first.verdict is None else 'verdicts by users'})"
    overall = part.cost(None, level)
    if overall is None or overall.effect_percent is None:
        return text
    return f"{text}, {say_percent(overall.effect_percent.point)} percent over all its users"


def _say_label(claim: Claim, one: Beside) -> str:
    """Say where two sides are paired by a label alone."""
    unknown = {meaning.level for meaning in one.meanings if meaning.same is None}
    return " It is one label; whether it is one configuration cannot be told." if claim.level in unknown else ""


def _say_host(claim: Claim, one: Beside) -> str:
    said = ""
    for name, part in (("A", one.a), ("B", one.b)):
        users = [count for count in claim.users if (count, claim.level) in part.host_bound]
        if users:
            said += f" In {name} the card waits for its host at {format_users(users)}."
    return said
