"""Rules on starts: which level to use where servers restart often, and up to what lifetime."""

import math
from collections.abc import Callable, Sequence

from study.analyze import stats, stats_power
from study.analyze.findings import Findings
from study.analyze.findings_parts import BreakEvenAt, StartGain
from study.analyze.formats import capitalised, format_users, listed
from study.analyze.recommend_case import Case, Figure, Rule, figure_of
from study.analyze.recommend_leads import describe_leads, lead_s, summarize_leads
from study.analyze.recommend_words import (
    counted,
    describe_gains,
    in_words,
    lifetime,
    number,
    units_to_go,
)
from study.design.counting import plural


def starts_alone(found: Findings) -> bool:
    """Say whether a study has starts and no run at all."""
    return not len(found.runs) and bool((found.starts["n"] > 0).any())


def say_starts(found: Findings, where: str) -> str:
    """Write how long each level starts, by state of the caches, and which starts are told apart.

    Args:
        found: a study of starts.
        where: the card, the session and the model in words.

    """
    rows = [row for row in found.starts.to_dict("records") if row["n"]]
    if not rows:
        return f"{where}, no start came to its first token."
    said = []
    for cache in dict.fromkeys(row["cache"] for row in rows):
        each = [
            f"{row['level']} {number(row['median_s'])} s ({counted(row['n'], 'launch')})"
            for row in rows
            if row["cache"] == cache
        ]
        said.append(f"with {cache} caches {', '.join(each)}")
    gains = describe_gains(gain for gain in found.start_gains if not gain.reason)
    few = "" if gains else _say_few(found.start_gains)
    of_cards = {gain.cards for gain in found.start_gains if not gain.reason}
    if gains and max(of_cards) < len(found.cards):
        verb = "gave the blocks behind these gains"
        gains.append(f"Of the {in_words(len(found.cards))} cards, {in_words(max(of_cards))} {verb}.")
    told = [*gains, *say_unwarmed(found.start_gains)]
    return f"{where}, from spawn to first token: {'; '.join(said)}.{few}{''.join(f' {text}' for text in told)}"


def _say_few(gains: Sequence[StartGain]) -> str:
    units = sorted({gain.gain_s.unit for gain in gains}) or ["block"]
    why = " Where several machines served, the blocks of one count as one." if "machine" in units else ""
    what = " or ".join(plural(unit) for unit in units)
    return f" In too few {what} to tell levels apart: three are preliminary, five earn a verdict.{why}"


def say_unwarmed(gains: Sequence[StartGain]) -> list[str]:
    """Say which cold starts are short because a level leaves building kernels to the requests that need them."""
    skip = list(dict.fromkeys(gain.skips_warm_up for gain in gains if gain.cache == "cold" and gain.skips_warm_up))
    if not skip:
        return []
    start, leave, its = ("A cold start", "leaves", "its") if len(skip) == 1 else ("Cold starts", "leave", "their")
    return [
        f"{start} of {listed(skip)}, resolved without the JIT kernel warm-up, {leave} the kernels of that warm-up to "
        f"the first requests that need them: {its} time counts only what the first token needed."
    ]


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
        else f"for servers that live up to {number(shortest)} s{_about(shortest)}"
    )
    others = [entries for name, entries in _by_level(case).items() if name != level]
    rest = [summarize_leads(entries) for entries in others if _leads_anywhere(entries)]
    rest += describe_leads([at for entries in others if not _leads_anywhere(entries) for at in entries])
    first = f"Where servers restart often use {level} {limit}{where}."
    return [first, *describe_leads(best), *rest, *_say_cold_and_joined(case)]


def _leads_anywhere(entries: Sequence[BreakEvenAt]) -> bool:
    return any(lead_s(at.result) is not None for at in entries)


def _about(seconds: float) -> str:
    words = lifetime(seconds)
    return "" if words.endswith("seconds") else f" (about {words})"


def _say_cold_and_joined(case: Case) -> list[str]:
    """Say what holds with cold caches where the answer is by warm ones, and which figures are of two studies."""
    found = case.findings.break_evens
    cold = [at for at in found if at.cache == "cold"] if any(at.cache == "warm" for at in found) else []
    return [*say_unwarmed(case.findings.start_gains), *describe_leads(cold), *_say_notes(found)]


def _say_notes(found: Sequence[BreakEvenAt]) -> list[str]:
    """Write what joined starts rest on, cache by cache; a note that not all have names the levels and users that do."""
    said = []
    for cache in dict.fromkeys(at.cache for at in found):
        alike = [at for at in found if at.cache == cache]
        for note in dict.fromkeys(note for at in alike for note in at.notes):
            noted = [at for at in alike if note in at.notes]
            whose = "" if len(noted) == len(alike) else f"of {listed(_name_places(noted, alike))} "
            said.append(f"{capitalised(whose + note)}.")
    return said


def _name_places(some: Sequence[BreakEvenAt], among: Sequence[BreakEvenAt]) -> list[str]:
    """Name each level of `some`, and the numbers of users where it has more `among` all."""
    names = []
    for level in dict.fromkeys(at.level for at in some):
        users = [at.users for at in some if at.level == level]
        whole = len(users) == len([at for at in among if at.level == level])
        names.append(level if whole else f"{level} at {format_users(users)}")
    return names


def _say_gains(first: str) -> Callable[[Case], list[str]]:
    return lambda case: [first, *describe_gains(case.findings.start_gains), *say_unwarmed(case.findings.start_gains)]


def _say_nothing(case: Case) -> list[str]:
    return [f"No start was set against another: {case.findings.break_even_reason or 'no block has both'}."]


def _say_undecided(case: Case) -> list[str]:
    judged = [at for entries in _by_level(case).values() for at in entries if at.result.start_gain_s is not None]
    said = describe_leads(judged)
    gains = describe_gains(case.findings.start_gains)
    first = "Not enough evidence to say until when a fast start pays."
    return [first, *gains, *said, *_say_cold_and_joined(case)]


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
    """Say how many blocks would tell who is ahead: for a verdict on the levels with most, or to tell speeds apart."""
    every = [at for entries in _by_level(case).values() for at in entries]
    n = max(at.level_input.blocks for at in every)
    found = [at for at in every if at.level_input.blocks == n]
    unit = found[0].unit
    if n < stats_power.LEAST_BLOCKS:
        return units_to_go(n, unit)
    if n < stats_power.FULL_BLOCKS:
        return f"{counted(stats_power.FULL_BLOCKS - n, f'more {unit}')} for a full verdict"
    counts = []
    for at in found:
        d = stats.log_ratio(at.level_input.token_s, at.default_input.token_s)
        if stats.has_scatter(d):
            counts.append(stats_power.blocks_for_difference(float(d.mean()), float(d.std(ddof=1))))
    known = [count for count in counts if count is not None]
    if not known:
        return "no number of blocks in reach: speeds and starts are too near to each other for their scatter"
    return f"about {counted(max(min(known), n + 1), unit)} in all, to tell the speeds apart"


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
