"""Rules from verdicts to recommendations: production, numbers of users, kinds of session."""

from collections.abc import Callable, Mapping, Sequence

from study.analyze.compare_types import Pair
from study.analyze.findings import Findings
from study.analyze.formats import format_users, listed
from study.analyze.recommend_case import DECIDED, Case, Rule, Standing, sentences, stand
from study.analyze.recommend_words import (
    counted,
    describe_pair,
    interval,
    margin_of,
    number,
    some_users,
)
from study.analyze.throttling_words import THROTTLED_EVIDENCE, say_never_throttled


def everything(case: Case) -> list[Pair]:
    """Return all overall comparisons, the least time per token first."""
    return case.having(*Standing)


def caution(case: Case) -> list[str]:
    """Say what weakens every verdict: a biased method, shared servers, levels and runs left out."""
    comparison = case.findings.comparison
    biased = [] if comparison is None else [check for check in comparison.aa if check.contains_zero is False]
    said = [
        f"Method biased: {check.level} and {check.default} resolved alike and still differ by "
        f"{number(check.effect_percent.point)} percent {interval(check.effect_percent, 'percent')}."
        for check in biased
        if check.effect_percent is not None
    ]
    if comparison is not None and not case.findings.fresh_servers:
        said.append("The seeds of a level share one server, so what sets two servers apart is charged to the level.")
    throttling = case.findings.throttling
    if throttling is not None and throttling.asked and throttling.reached is False:
        missed = throttling.judged - throttling.throttled
        said.append(f"{missed} of {counted(throttling.judged, 'run')} were not throttled and are left out.")
    return [*said, *_name_failed(case)]


def _name_failed(case: Case) -> list[str]:
    return [f"{level} gave no figure: {reason}." for level, reason in case.findings.failed_levels.items()]


def _no_comparison(case: Case) -> list[str]:
    found = case.findings
    failed = _name_failed(case)
    if missed := say_never_throttled(found):
        return [f"The session was {missed}.", *failed]
    return [f"No level was compared: {found.comparison_reason}.", *failed]


def _nothing_compared(case: Case) -> bool:
    return not case.overall


def _nothing_run(case: Case) -> bool:
    return not case.overall and not len(case.findings.runs)


def _enough_to_compare(case: Case) -> str:
    throttling = case.findings.throttling
    if throttling is not None and throttling.asked and throttling.reached is not True:
        return THROTTLED_EVIDENCE
    if len(case.findings.by_kind) > 1:
        return "what each kind of card says of its own, in the table across cards; nothing is pooled over them"
    return f"valid runs of {case.findings.default} and of another level, in five blocks (three are preliminary)"


def _exceptions(case: Case, level: str) -> list[Pair]:
    """Return where the chosen level is slower than the default at some users after all."""
    return [pair for pair in case.by_users().get(level, []) if stand(pair) is Standing.SLOWER]


def _use_faster(case: Case) -> list[str]:
    best = case.having(Standing.FASTER)[0]
    rest = [pair for pair in everything(case) if pair is not best]
    first = f"In production use {best.level}. {describe_pair(best, case.findings.margin, case.users)}"
    return [first, *sentences(case, [*_exceptions(case, best.level), *rest]), *caution(case)]


def _keep_default(case: Case) -> list[str]:
    slower, alike = case.having(Standing.SLOWER), case.having(Standing.ALIKE)
    why = [f"{listed([one.level for one in slower])} cost{'s' if len(slower) == 1 else ''} more"] if slower else []
    if alike:
        names = listed([one.level for one in alike])
        why.append(f"{names} differ{'s' if len(alike) == 1 else ''} by less than {margin_of(case.findings.margin)}")
    first = f"In production keep {case.findings.default}: {', and '.join(why)}."
    return [first, *sentences(case, everything(case)), *caution(case)]


def _say_open(case: Case) -> list[str]:
    first = f"Not enough evidence to set any level before {case.findings.default}, which is what vLLM starts with."
    return [first, *sentences(case, everything(case)), *caution(case)]


NOTHING = (
    Rule(_nothing_run, "not_measured", _no_comparison, enough=_enough_to_compare),
    Rule(_nothing_compared, "not_enough_evidence", _no_comparison, enough=_enough_to_compare),
)

PRODUCTION = (
    *NOTHING,
    Rule(
        lambda case: bool(case.having(Standing.FASTER)),
        "recommended",
        _use_faster,
        level=lambda case: case.having(Standing.FASTER)[0].level,
        rests_on=everything,
    ),
    Rule(
        lambda case: bool(case.having(*DECIDED)),
        "recommended",
        _keep_default,
        level=lambda case: case.findings.default,
        rests_on=everything,
    ),
    Rule(lambda _: True, "not_enough_evidence", _say_open, rests_on=everything),
)


def _several_users(case: Case) -> bool:
    return len({pair.users for pairs in case.by_users().values() for pair in pairs}) > 1


def _all_by_users(case: Case) -> list[Pair]:
    return [pair for pairs in case.by_users().values() for pair in pairs]


def _differing(case: Case) -> list[str]:
    """Return the levels that stand otherwise at some users than at others, among those decided."""
    kinds = {level: {stand(pair) for pair in pairs} & set(DECIDED) for level, pairs in case.by_users().items()}
    return [level for level, found in kinds.items() if len(found) > 1]


def _range_over_users(pairs: Sequence[Pair]) -> str:
    """Write where a level stands how, with its least and greatest percentage there, and where it has none."""
    parts = []
    for kind in Standing:
        members = [pair for pair in pairs if stand(pair) is kind and pair.effect_percent is not None]
        points = [pair.effect_percent.point for pair in members if pair.effect_percent is not None]
        if points:
            where = format_users([pair.users for pair in members if pair.users is not None])
            if kind is Standing.FASTER:
                points = [-point for point in points]
            ends = dict.fromkeys(number(point) for point in (min(points), max(points)))
            words = USERS_WORDS[kind]
            parts.append(f"{words} at {where} ({' to '.join(ends)} percent)")
    lacking = [pair.users for pair in pairs if pair.effect_percent is None and pair.users is not None]
    if parts and lacking:
        parts.append(f"not compared at {format_users(lacking)}")
    return f"{pairs[0].level} is {', '.join(parts)}." if parts else ""


USERS_WORDS: Mapping[Standing, str] = {
    Standing.SLOWER: "slower",
    Standing.FASTER: "faster",
    Standing.ALIKE: "alike within the margin",
    Standing.UNDECIDED: "undecided",
    Standing.FEW: "measured in too few blocks",
    Standing.ABSENT: "not measured",
}


def _users_sentences(first: str) -> Callable[[Case], list[str]]:
    def say(case: Case) -> list[str]:
        return [first, *filter(None, (_range_over_users(pairs) for pairs in case.by_users().values() if pairs))]

    return say


def _one_number(case: Case) -> list[str]:
    return [f"Only {some_users(case.findings.users[0])} was measured.", *_users_sentences("")(case)[1:]]


BY_USERS = (
    *NOTHING,
    Rule(
        lambda case: not _several_users(case),
        "not_measured",
        _one_number,
        rests_on=_all_by_users,
        enough=lambda _: "runs at other numbers of users, in five blocks",
    ),
    Rule(
        lambda case: bool(_differing(case)),
        "recommended",
        _users_sentences("The advice depends on the number of users."),
        rests_on=_all_by_users,
    ),
    Rule(
        lambda case: any(stand(pair) in DECIDED for pair in _all_by_users(case)),
        "recommended",
        _users_sentences("The advice is the same at every number of users that is decided."),
        rests_on=_all_by_users,
    ),
    Rule(
        lambda _: True,
        "not_enough_evidence",
        _users_sentences("Not enough evidence to tell numbers of users apart."),
        rests_on=_all_by_users,
    ),
)


def _same_kind_of_card(one: Findings, other: Findings) -> bool:
    """Say whether two studies may be set beside each other: the same cards and model, another kind of session."""
    cards = [{card.unit for card in found.cards} for found in (one, other)]
    models = [found.comparable.get("model") for found in (one, other)]
    return one.session != other.session and cards[0] == cards[1] and models[0] == models[1]


def _other_session(case: Case) -> Case | None:
    found = next((other for other in case.others if _same_kind_of_card(case.findings, other)), None)
    return None if found is None else Case(found)


def _both_sessions(case: Case) -> list[tuple[Pair, Pair]]:
    """Return the overall comparisons of the levels that both sessions compared."""
    other = _other_session(case)
    theirs = {} if other is None else other.overall
    return [(pair, theirs[level]) for level, pair in case.overall.items() if level in theirs]


def _decided_sessions(case: Case) -> list[tuple[Pair, Pair]]:
    return [pairs for pairs in _both_sessions(case) if all(stand(pair) in DECIDED for pair in pairs)]


def _say_sessions(first: str) -> Callable[[Case], list[str]]:
    def say(case: Case) -> list[str]:
        other = _other_session(case)
        theirs = "" if other is None else str(other.findings.session)
        said = [first]
        for pairs in _both_sessions(case):
            for session, pair in zip((case.findings.session, theirs), pairs, strict=True):
                said.append(f"{str(session).capitalize()}: {describe_pair(pair, case.findings.margin)}")
        return said

    return say


def _say_one_session(case: Case) -> list[str]:
    """Say that there is one kind of session alone, and which sessions were to be of the other kind and were not."""
    tried = [
        f"The session of study {other.study} was {missed}."
        for other in (case.findings, *case.others)
        if (missed := say_never_throttled(other))
    ]
    if say_never_throttled(case.findings):
        return [*tried, "No other kind of session is beside it."]
    return [f"This rests on a {case.findings.session or 'missing'} session alone.", *tried]


def _enough_sessions(case: Case) -> str:
    if any(say_never_throttled(one) for one in (case.findings, *case.others)):
        lock = "where load alone does not throttle the card, `throttle: clock_lock` holds its clock down"
        return f"a session that is throttled on evidence, with the same card, model and levels, in five blocks; {lock}"
    return "a session of the other kind with the same card, model and levels, in five blocks"


SESSION_KIND = (
    Rule(
        lambda case: not _both_sessions(case),
        "not_measured",
        _say_one_session,
        enough=_enough_sessions,
    ),
    Rule(
        lambda case: any(stand(one) is not stand(other) for one, other in _decided_sessions(case)),
        "recommended",
        _say_sessions("The advice depends on the kind of session."),
        rests_on=everything,
    ),
    Rule(
        lambda case: bool(_decided_sessions(case)),
        "recommended",
        _say_sessions("The advice is the same in both kinds of session."),
        rests_on=everything,
    ),
    Rule(
        lambda _: True,
        "not_enough_evidence",
        _say_sessions("Not enough evidence to tell the kinds of session apart."),
        rests_on=lambda case: [ours for ours, _ in _both_sessions(case)],
    ),
)
