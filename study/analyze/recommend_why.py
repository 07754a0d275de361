"""Why a level costs what it costs: whether the card waits for its host, said of what has runs enough to say so."""

from collections.abc import Sequence

from study.analyze.findings_parts import HostBound
from study.analyze.formats import format_users, listed
from study.analyze.recommend_case import Case, Figure, Rule
from study.analyze.recommend_words import counted_over, units_to_go
from study.analyze.stats_power import LEAST_BLOCKS
from study.analyze.throttling_words import THROTTLED_EVIDENCE, say_never_throttled
from study.analyze.validity import HOST_BOUND_STEP_RATIO


def _seen(case: Case) -> list[HostBound]:
    return [found for found in case.findings.host_bound if found.holds is not None]


def _describe_host_bound(level: str, seen: Sequence[HostBound]) -> str:
    """Write one level's ratios over numbers of users."""
    ratios = {
        "energy": [found.energy_ratio for found in seen if found.energy_ratio is not None],
        "time": [found.time_ratio for found in seen if found.time_ratio is not None],
    }
    ends = {
        what: " to ".join(dict.fromkeys(f"{end:.2f}" for end in (min(values), max(values))))
        for what, values in ratios.items()
    }
    counts = {found.runs for found in seen}
    behind = "one run" if counts == {1} else f"medians, {counted_over(counts, 'run')}"
    where = f"{level} at {format_users([found.users for found in seen])}"
    energy = f"{ends['energy']} x the default's energy above rest for a step"
    return f"{where}: {energy}, {ends['time']} x its time ({behind} each)."


def _by_level(seen: Sequence[HostBound]) -> list[str]:
    levels = dict.fromkeys(found.level for found in seen)
    return [_describe_host_bound(level, [found for found in seen if found.level == level]) for level in levels]


def _bound(case: Case) -> list[HostBound]:
    """Return where the card waits for its host, of what has runs enough to say so."""
    return [found for found in _seen(case) if found.holds and found.runs >= LEAST_BLOCKS]


def _say_host_bound(case: Case) -> list[str]:
    bound = _bound(case)
    levels = list(dict.fromkeys(found.level for found in bound))
    first = f"With {listed(levels)} the card waits for its host: about as much energy above rest for a step, more time."
    not_there = [
        f"{level} shows no sign of it at {format_users(users)}."
        for level in levels
        if (users := [found.users for found in _seen(case) if found.level == level and not found.holds])
    ]
    few = [found for found in _seen(case) if found.holds and found.runs < LEAST_BLOCKS]
    unsaid = [f"Too few runs to say so of {listed(list(dict.fromkeys(found.level for found in few)))}."] if few else []
    return [first, *_by_level(bound), *not_there, *unsaid, *_by_level(few)]


def _say_not_bound(case: Case) -> list[str]:
    rule = f"no level takes {HOST_BOUND_STEP_RATIO:g} times the default's time for a step at about its energy"
    return [f"The card does not wait for its host more than with the default: {rule}.", *_by_level(_seen(case))]


def _say_why_unknown(case: Case) -> list[str]:
    reasons = dict.fromkeys(found.evidence for found in case.findings.host_bound)
    why = "; ".join(reasons) or case.findings.comparison_reason or "no level was run in one block with the default"
    return [f"Whether the card waits for its host is not known: {why}."]


def _ratios(case: Case) -> list[Figure]:
    pairs = [("energy of a step", "energy_ratio"), ("time of a step", "time_ratio")]
    return [
        Figure(f"{what} over the default's: {found.level}@{found.users}", getattr(found, name), "x", n=found.runs)
        for found in _seen(case)
        for what, name in pairs
    ]


WHY = (
    Rule(
        lambda case: not _seen(case),
        "not_measured",
        _say_why_unknown,
        enough=lambda case: THROTTLED_EVIDENCE
        if say_never_throttled(case.findings)
        else "power at rest and under load, read on a card",
    ),
    Rule(
        lambda case: max(found.runs for found in _seen(case)) < LEAST_BLOCKS,
        "not_enough_evidence",
        lambda case: ["Not enough evidence on whether the card waits for its host.", *_by_level(_seen(case))],
        figures=_ratios,
        enough=lambda case: units_to_go(max(found.runs for found in _seen(case)), "block"),
    ),
    Rule(lambda case: bool(_bound(case)), "recommended", _say_host_bound, figures=_ratios),
    Rule(lambda _: True, "recommended", _say_not_bound, figures=_ratios),
)
