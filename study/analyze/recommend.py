"""From findings to recommendations: the decide section's sentences, each with the figures that it rests on.

Findings -> rules, one table a question -> Advice
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from study.analyze.compare_types import Pair
from study.analyze.findings import Findings
from study.analyze.formats import capitalised, format_model, format_ms, format_users, listed
from study.analyze.recommend_case import (
    DECIDED,
    Case,
    Figure,
    Rule,
    Standing,
    Status,
    figure_of,
    link,
    settle,
    stand,
)
from study.analyze.recommend_parts import COMPILE_OR_GRAPHS, DEBUG_KERNEL, O3
from study.analyze.recommend_rules import BY_USERS, PRODUCTION, SESSION_KIND
from study.analyze.recommend_starts import RESTART_OFTEN, say_starts, starts_alone
from study.analyze.recommend_why import WHY
from study.analyze.recommend_words import (
    interval,
    margin_of,
    number,
    percent,
    preliminary_over,
    size_of,
    some_of,
    some_users,
    times,
    units_of,
)
from study.analyze.stats_power import FULL_BLOCKS, LEAST_BLOCKS
from study.analyze.throttling_words import say_never_throttled

REHEARSAL = "A rehearsal on the CPU backend: it shows the path and is no result."
AS_IF = "With such figures of a card it would read:"
NAMED_IN_HEADLINE = 4


@dataclass(frozen=True)
class Advice:
    """The answer to one question.

    Attributes:
        key: the question.
        title: the question in words.
        sentences: the answer, the advice itself first.
        level: the level that it names; None where it names none.
        status: what the answer is worth.
        figures: the figures that it rests on.
        links: the comparisons that it rests on, such as `O0@8`, `O0@overall`.
        enough: what would be enough where evidence is lacking; None where it is not.
        preliminary: whether a figure behind it rests on three or four blocks.

    """

    key: str
    title: str
    sentences: tuple[str, ...]
    level: str | None
    status: Status
    figures: tuple[Figure, ...]
    links: tuple[str, ...]
    enough: str | None
    preliminary: bool


QUESTIONS: Mapping[str, tuple[str, Sequence[Rule]]] = {
    "production": ("Which level in production", PRODUCTION),
    "restart_often": ("When servers restart often", RESTART_OFTEN),
    "debug_kernel": ("When debugging a kernel", DEBUG_KERNEL),
    "compile_or_graphs": ("Compile or CUDA graphs alone", COMPILE_OR_GRAPHS),
    "o3": ("What -O3 adds", O3),
    "by_users": ("Whether the number of users matters", BY_USERS),
    "session_kind": ("Whether the kind of session matters", SESSION_KIND),
    "why": ("Why", WHY),
}
"""Key to title and rules, in the order of the section."""


def recommend(findings: Findings, others: Sequence[Findings] = ()) -> tuple[Advice, ...]:
    """Answer every question of the decide section, in its order.

    Args:
        findings: of the study that is decided on.
        others: of sessions of the other kind; one of the same card and model is set beside it.

    """
    case = Case(findings, tuple(others))
    return tuple(_answer(key, title, rules, case) for key, (title, rules) in QUESTIONS.items())


def _answer(key: str, title: str, rules: Sequence[Rule], case: Case) -> Advice:
    rule = next(rule for rule in rules if rule.when(case))
    pairs = list(rule.rests_on(case))
    figures = [figure_of(link(pair), pair.effect_percent, "percent") for pair in pairs if pair.effect_percent]
    figures += rule.figures(case)
    advice = Advice(
        key=key,
        title=title,
        sentences=tuple(rule.say(case)),
        level=rule.level(case),
        status=rule.status,
        figures=tuple(figures),
        links=tuple(link(pair) for pair in pairs),
        enough=rule.enough(case) if rule.enough else settle(pairs),
        preliminary=any(figure.n is not None and LEAST_BLOCKS <= figure.n < FULL_BLOCKS for figure in figures),
    )
    return _mark_rehearsal(advice) if case.findings.rehearsal else advice


def _mark_rehearsal(advice: Advice) -> Advice:
    """Say first that it is no result, and recommend nothing; the order of switches for debugging needs no figure."""
    if advice.status != "recommended" or advice.key == "debug_kernel":
        return replace(advice, sentences=(REHEARSAL, *advice.sentences))
    return replace(
        advice,
        sentences=(REHEARSAL, AS_IF, *advice.sentences),
        level=None,
        status="not_enough_evidence",
        enough="the same study on a GPU",
    )


def headline(findings: Findings) -> str:
    """Return the measured cost in one or two sentences: on which card, in which session; a rehearsal says so first.

    Of a study on several kinds of card, each kind has its own.
    """
    if findings.by_kind:
        return " ".join(headline(part) for _, part in findings.by_kind)
    case = Case(findings)
    decided = case.having(*DECIDED)
    if starts_alone(findings):
        said = say_starts(findings, _where(findings))
    else:
        said = _say_costs(case, decided) if decided else _say_no_cost(case)
    return f"{REHEARSAL} {said}" if findings.rehearsal else said


def _where(findings: Findings) -> str:
    """Name the card, the session, the model and the version: `On one NVIDIA L4, cooled, with ... in vLLM 0.31.0`."""
    names = [card.name or "CPU host" for card in findings.cards]
    kinds = listed(
        [f"{'one' if names.count(name) == 1 else names.count(name)} {name}" for name in dict.fromkeys(names)]
    )
    version = findings.versions.get("vllm")
    model = format_model(findings.comparable) if "model" in findings.comparable else None
    rest = [f"{findings.session} session", model, version and f"vLLM {version}"]
    return f"On {kinds} ({', '.join(str(part) for part in rest if part)})" if kinds else f"In study {findings.study}"


COST_WORDS: Mapping[Standing, str] = {
    Standing.SLOWER: "{size} more time per token{times}",
    Standing.FASTER: "{size} less time per token",
    Standing.ALIKE: "the same time per token within {margin}, {signed}",
}


def _point(pair: Pair) -> float:
    return pair.effect_percent.point if pair.effect_percent else 0.0


def _say_costs(case: Case, decided: Sequence[Pair]) -> str:
    """Write the costs that are decided in one sentence, the largest first, and name the rest in a second."""
    pairs = sorted(decided, key=lambda pair: abs(_point(pair)), reverse=True)
    users = sorted({count for pair in pairs for count in pair.users_used})
    named = pairs[:NAMED_IN_HEADLINE]
    costs = [_cost(pair, users, case.findings.margin) for pair in named]
    over = format_users(users)
    shared = ""
    if all(pair.preliminary for pair in named) and len({pair.pairing.unit for pair in named}) == 1:
        shared = f" {capitalised(_note(named))}."
    else:
        notes = [f", {_note([pair])}" if pair.preliminary else "" for pair in named]
        costs = [f"{cost}{note}" for cost, note in zip(costs, notes, strict=True)]
    first = f"{_where(case.findings)}, at {over}, against {_default(case.findings)}: {'; '.join(costs)}.{shared}"
    left = [f"{pair.level} stands in the table" for pair in pairs[NAMED_IN_HEADLINE:]]
    left += [f"{pair.level} is undecided" for pair in case.having(Standing.UNDECIDED)]
    left += [f"{pair.level} was measured in too few blocks" for pair in case.having(Standing.FEW)]
    left += [f"{level} gave no figure" for level in case.findings.failed_levels]
    if case.findings.comparison is not None and case.findings.comparison.method_biased:
        left.append("the method is biased by its A/A pair")
    return f"{first} {listed(left)}." if left else first


def _default(findings: Findings) -> str:
    """Name the default with its median TPOT at the least number of users: `default (5.09 ms at 1 user)`."""
    table = findings.session_figures
    rows = table[(table["level"] == findings.default) & table["median_tpot_ms"].notna()]
    if not len(rows):
        return findings.default
    return f"{findings.default} ({format_ms([rows['median_tpot_ms'].iloc[0]])} at {some_users(rows['users'].iloc[0])})"


def _cost(pair: Pair, users: Sequence[int], margin: float) -> str:
    """Write what a level costs; the numbers of users behind it where they are not all of `users`."""
    effect, point = pair.effect_percent, _point(pair)
    words = COST_WORDS[stand(pair)].format(
        size=percent(point), times=times(point), margin=margin_of(margin), signed=f"{number(point)} percent"
    )
    one_sided = stand(pair) is not Standing.ALIKE
    behind = "" if effect is None else f" {interval(size_of(effect) if one_sided else effect, 'percent')}"
    where = some_of(pair, users)
    at = f" (at {where})" if where else ""
    return f"{pair.level}{at} takes {words}{behind}"


def _note(pairs: Sequence[Pair]) -> str:
    """Write that costs are preliminary, with the units behind them, which are of one kind."""
    return preliminary_over([units_of(pair) for pair in pairs], pairs[0].pairing.unit)


def _say_no_cost(case: Case) -> str:
    """Say that nothing is decided, and what would be enough."""
    advice = _answer("production", "", PRODUCTION, case)
    kinds = {"undecided": case.having(Standing.UNDECIDED), "too few blocks": case.having(Standing.FEW)}
    reasons = [f"{words} ({listed([pair.level for pair in pairs])})" for words, pairs in kinds.items() if pairs]
    reason = case.findings.comparison_reason or listed(reasons)
    if missed := say_never_throttled(case.findings):
        reason = f"the session was {missed}"
    enough = f" Enough would be {advice.enough}." if advice.enough else ""
    return f"{_where(case.findings)}, not enough evidence for a cost: {reason}.{enough}"
