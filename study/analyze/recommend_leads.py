"""Leads in words: until when a level that starts sooner is ahead of the default, or why that is not shown."""

import math
from collections.abc import Mapping, Sequence

from study.analyze.breakeven import BreakEven, Regime
from study.analyze.findings_parts import BreakEvenAt
from study.analyze.formats import format_users, listed
from study.analyze.recommend_words import confidence_of, lifetime, number, preliminary, span

NO_LEAD: Mapping[Regime, str] = {
    Regime.NEVER_WINS: "no sooner start and no faster decoding",
    Regime.WINS_FROM: "a later start, and faster decoding",
}
"""Why a level has no lead, where its block means say so; else the break-even's own reason."""


def lead_s(result: BreakEven) -> float | None:
    """Return up to how many seconds after the spawn a level is shown to be ahead; infinite: always; None: not shown."""
    return math.inf if result.never_behind else result.ahead_at_least_s


def describe_leads(found: Sequence[BreakEvenAt]) -> list[str]:
    """Write `describe_lead` of each, once for all users, and levels not shown to lead, of which the same is said."""
    by_level: dict[tuple[str, ...], list[BreakEvenAt]] = {}
    for at in found:
        own = "" if lead_s(at.result) is None else str(at.users)
        by_level.setdefault((at.level, at.cache, own, _why_no_lead(at)), []).append(at)
    groups: dict[tuple[str, ...], list[list[BreakEvenAt]]] = {}
    for (level, cache, own, why), ats in by_level.items():
        alone = level if own else ""
        groups.setdefault((alone, cache, why, *(str(at.users) for at in ats)), []).append(ats)
    return [
        describe_lead(alike[0][0], [at.users for at in alike[0]], [ats[0].level for ats in alike])
        for alike in groups.values()
    ]


def _why_no_lead(at: BreakEvenAt) -> str:
    why = NO_LEAD.get(at.result.regime, at.result.reason)
    return f"{why}{preliminary(at.level_input.blocks, at.unit)}"


def describe_lead(at: BreakEvenAt, users: Sequence[int] = (), levels: Sequence[str] = ()) -> str:
    """Write until when a level is ahead of the default, kept busy by some users (or at `users`, all alike).

    Where it is not shown to be ahead, `levels` names all of which the same is said.
    """
    result, lead = at.result, lead_s(at.result)
    busy = f"Kept busy by {format_users(users or [at.users])} (caches {at.cache}), "
    tail = preliminary(at.level_input.blocks, at.unit)
    t_star = result.t_star_s
    if lead is None:
        verb, start = ("is", "its start") if len(levels) < 2 else ("are", "their starts")
        who = f"{listed(levels or [at.level])} {verb}"
        return f"{busy}{who} not shown to be ahead of {at.default} by {start}: {_why_no_lead(at)}."
    if math.isinf(lead):
        gain = "" if result.start_gain_s is None else f" by {number(result.start_gain_s.point)} s"
        return f"{busy}{at.level} is never behind {at.default}: it starts sooner{gain} and decodes no slower{tail}."
    if t_star is None or t_star.high is None:
        return f"{busy}{at.level} is ahead of {at.default} for at least {lifetime(lead)} ({number(lead)} s){tail}."
    return (
        f"{busy}{at.default} is ahead of {at.level} once the server has lived {lifetime(t_star.point)} "
        f"(t* {number(t_star.point)} s, {confidence_of(t_star)} interval {span(t_star, 's')}){tail}."
    )


def summarize_leads(entries: Sequence[BreakEvenAt]) -> str:
    """Write the leads of a level that has some over all numbers of users as one sentence."""
    leads = [lead_s(at.result) for at in entries]
    shown = [lead for lead in leads if lead is not None]
    least, most = min(shown), max(shown)
    if math.isinf(least):
        return (
            f"{entries[0].level} is never behind where that is shown ({len(shown)} of {len(leads)} numbers of users)."
        )
    upper = "without end" if math.isinf(most) else f"{number(most)} s"
    ends = f"{number(least)} s" if number(least) == number(most) else f"{number(least)} s to {upper}"
    return f"{entries[0].level} is ahead for {ends}, by number of users."
