"""Rules on starts: which level to use where servers restart often, and up to what lifetime."""

import math
from collections.abc import Callable

from study.analyze import stats, stats_power
from study.analyze.findings_parts import BreakEvenAt
from study.analyze.recommend_case import Case, Figure, Rule, figure_of
from study.analyze.recommend_words import (
    counted,
    describe_gain,
    describe_lead,
    in_words,
    lead_s,
    lifetime,
    number,
    summarize_leads,
    units_to_go,
)


def _by_level(case: Case) -> dict[str, list[BreakEvenAt]]:
    """Return break-evens by level; of a study with cold and warm starts, the warm."""
    found = case.findings.break_evens
    cache = "warm" if any(at.cache == "warm" for at in found) else "cold"
    levels = dict.fromkeys(at.level for at in found if at.cache == cache)
    return {level: [at for at in found if (at.level, at.cache) == (level, cache)] for level in levels}


def _rank_leading(case: Case) -> list[tuple[str, list[BreakEvenAt]]]:
    """Return the levels that lead anywhere, the one with the longest lead at its worst number of users first."""

    def rank(entry: tuple[str, list[BreakEvenAt]]) -> tuple[float, float]:
        leads = [lead_s(at.result) or 0.0 for at in entry[1]]
        return min(leads), max(leads)

    leading = [entry for entry in _by_level(case).items() if any(lead_s(at.result) for at in entry[1])]
    return sorted(leading, key=rank, reverse=True)


def _never_sooner(case: Case) -> bool:
    """Say whether every level is shown to start later than the default."""
    gains = case.findings.start_gains
    return bool(gains) and all(gain.gain_s.high is not None and gain.gain_s.high < 0.0 for gain in gains)


def _say_best(case: Case) -> list[str]:
    level, best = _rank_leading(case)[0]
    shortest = min(lead for at in best if (lead := lead_s(at.result)))
    shown = len([at for at in best if lead_s(at.result)])
    where = (
        " at every number of users measured"
        if shown == len(best)
        else f", at {counted(shown, 'number')} of users of {in_words(len(best))}"
    )
    limit = (
        "however long a server lives"
        if math.isinf(shortest)
        else f"for servers that live up to {lifetime(shortest)} ({number(shortest)} s)"
    )
    rest = [summarize_leads(entries) for name, entries in _by_level(case).items() if name != level]
    return [f"Where servers restart often use {level} {limit}{where}.", *map(describe_lead, best), *rest]


def _say_gains(first: str) -> Callable[[Case], list[str]]:
    return lambda case: [first, *map(describe_gain, case.findings.start_gains)]


def _say_nothing(case: Case) -> list[str]:
    return [f"No start was set against another: {case.findings.break_even_reason or 'no block has both'}."]


def _say_undecided(case: Case) -> list[str]:
    judged = [at for entries in _by_level(case).values() for at in entries if at.result.start_gain_s is not None]
    said = [describe_lead(at) for at in judged]
    gains = [describe_gain(gain) for gain in case.findings.start_gains]
    return ["Not enough evidence to say until when a fast start pays.", *gains, *said]


def _figures(case: Case) -> list[Figure]:
    gains = [
        figure_of(f"start gain: {gain.level} ({gain.cache} caches)", gain.gain_s, "s")
        for gain in case.findings.start_gains
    ]
    return gains + [
        figure_of(f"t*: {at.level}@{at.users} ({at.cache} caches)", at.result.t_star_s, "s")
        for at in case.findings.break_evens
        if at.result.t_star_s is not None
    ]


def _enough_blocks(case: Case) -> str:
    """Say how many blocks would tell who is ahead: enough for a verdict, or to tell the speeds apart."""
    found = case.findings.break_evens
    fewest = min(found, key=lambda at: at.level_input.start_s.size)
    n = fewest.level_input.start_s.size
    if n < stats_power.LEAST_BLOCKS:
        return units_to_go(n, fewest.unit)
    counts = []
    for at in found:
        d = stats.log_ratio(at.level_input.token_s, at.default_input.token_s)
        if stats.has_scatter(d):
            counts.append(stats_power.blocks_for_difference(float(d.mean()), float(d.std(ddof=1))))
    known = [count for count in counts if count is not None]
    if not known:
        return "no number of blocks in reach: speeds and starts are too near to each other for their scatter"
    return f"about {counted(max(min(known), n + 1), fewest.unit)} in all, to tell the speeds apart"


RESTART_OFTEN = (
    Rule(
        lambda case: not case.findings.break_evens and not case.findings.start_gains,
        "not_measured",
        _say_nothing,
        enough=lambda case: f"starts and runs of {case.findings.default} and of another level, in five blocks",
    ),
    Rule(
        lambda case: bool(_rank_leading(case)),
        "recommended",
        _say_best,
        level=lambda case: _rank_leading(case)[0][0],
        figures=_figures,
    ),
    Rule(
        _never_sooner,
        "recommended",
        _say_gains("Nothing starts sooner than the default, so it is right where servers restart often too."),
        level=lambda case: case.findings.default,
        figures=_figures,
    ),
    Rule(
        lambda case: not case.findings.break_evens,
        "not_measured",
        _say_gains("Starts are known; until when a sooner start pays is not, since no run counts beside them."),
        figures=_figures,
        enough=lambda _: "runs under load on the same servers, in five blocks",
    ),
    Rule(lambda _: True, "not_enough_evidence", _say_undecided, figures=_figures, enough=_enough_blocks),
)
