"""Verdicts on claims about vLLM's switches, from what the installed vLLM answered to their checks.

- *true*: every check of the claim holds.
- *changed*: a check fails, and either the claim's substance holds as a whole, so that it is right but for what a
  release may move (a line, a file, the cards that it holds for), or an earlier file of verdicts did not call it false.
- *false*: a check fails, and neither is so.
- *cannot tell*: no check fails, and at least one cannot be told here; only a worker on a GPU shows it.

What fails in part is no less false: the evidence says which checks hold. The correct form of a claim is checked too,
whatever the verdict.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from study.design.claims import THIS_MACHINE, Claim, ClaimsFile, Part, VllmAnswers
from study.errors import InputError

Verdict: TypeAlias = Literal["true", "false", "changed", "cannot_tell"]
_WORTH_SAYING: tuple[Verdict, ...] = ("false", "changed")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Evidence(_Frozen):
    """What vLLM answered to one check; `holds` is null where nothing here can tell."""

    holds: bool | None
    said: str


class CorrectForm(_Frozen):
    """The right form of a claim, and whether it is right: null where nothing checks it or can tell."""

    says: str
    holds: bool | None
    evidence: tuple[Evidence, ...]


class CheckedClaim(_Frozen):
    """A claim with its verdict.

    Attributes:
        id: of the claim.
        says: what it says.
        where: it stands in the text.
        card: that its checks were asked for, `cpu`, or `this machine` with its platform.
        verdict: see the module.
        because: for *changed*, what makes it so; else empty.
        evidence: one a check.
        correct: the right form, where the file gives one.

    """

    id: str
    says: str
    where: str
    card: str
    verdict: Verdict
    because: str
    evidence: tuple[Evidence, ...]
    correct: CorrectForm | None

    @property
    def telling(self) -> tuple[Evidence, ...]:
        """The evidence that decided: what fails, else what nobody can tell, else all."""
        failing = tuple(one for one in self.evidence if one.holds is False)
        return failing or tuple(one for one in self.evidence if one.holds is None) or self.evidence


class ClaimVerdicts(_Frozen):
    """The verdicts on one text's claims, as `study switches --check` writes them.

    Attributes:
        schema_version: of this file.
        title: of the text.
        date: of the text.
        claimed_version: the vLLM that the text speaks of; null: it does not say.
        vllm_version: the vLLM that was asked.
        claims: in the order of the text.

    """

    schema_version: Literal[1] = 1
    title: str
    date: str
    claimed_version: str | None
    vllm_version: str
    claims: tuple[CheckedClaim, ...]

    def count(self) -> dict[Verdict, int]:
        """Return how many claims got each verdict."""
        counts = Counter(claim.verdict for claim in self.claims)
        order: tuple[Verdict, ...] = ("true", "false", "changed", "cannot_tell")
        return {verdict: counts[verdict] for verdict in order}

    def misleading(self) -> tuple[CheckedClaim, ...]:
        """Return the claims that are false or changed now."""
        return tuple(claim for claim in self.claims if claim.verdict in _WORTH_SAYING)

    def wrong_corrections(self) -> tuple[CheckedClaim, ...]:
        """Return the claims whose correct form does not hold either."""
        return tuple(claim for claim in self.claims if claim.correct and claim.correct.holds is False)


def judge_claims(
    file: ClaimsFile, told: VllmAnswers, card: str | None = None, earlier: ClaimVerdicts | None = None
) -> ClaimVerdicts:
    """Judge every claim of a file.

    Args:
        file: the claims.
        told: what the installed vLLM answered to every check.
        card: that was asked for where a claim names none; None: the file's, else this machine.
        earlier: verdicts on the same text that were recorded before.

    """
    known = {(one.claim, one.part, one.place): one for one in told.answers}
    here = f"{THIS_MACHINE} ({told.platforms.get(THIS_MACHINE, 'unknown')})"
    before = {claim.id: claim.verdict for claim in earlier.claims} if earlier else {}
    checked = []
    for claim in file.claims:
        evidence: dict[Part, list[Evidence]] = {"check": [], "substance": [], "correct": []}
        for part, place, _ in claim.checks():
            answer = known[claim.id, part, place]
            evidence[part].append(Evidence(holds=answer.holds, said=answer.said))
        past = f"{before[claim.id]} in {earlier.vllm_version}" if earlier and claim.id in before else ""
        checked.append(_judge(claim, evidence, claim.card or card or file.card or here, past))
    return ClaimVerdicts(
        title=file.title,
        date=file.date,
        claimed_version=file.vllm_version,
        vllm_version=told.vllm_version,
        claims=tuple(checked),
    )


def _judge(claim: Claim, told: Mapping[Part, Sequence[Evidence]], card: str, past: str) -> CheckedClaim:
    verdict: Verdict
    holds, because = _all_hold(told["check"]), ""
    if holds is not False:
        verdict = "true" if holds else "cannot_tell"
    elif told["substance"] and _all_hold(told["substance"]):
        verdict, because = "changed", f"right in substance: {'; '.join(one.said for one in told['substance'])}"
    elif past.startswith(("true ", "changed ")):
        verdict, because = "changed", past
    else:
        verdict = "false"
    correct = claim.correct and CorrectForm(
        says=claim.correct.says,
        holds=_all_hold(told["correct"]) if told["correct"] else None,
        evidence=tuple(told["correct"]),
    )
    named = {"id": claim.id, "says": claim.says, "where": claim.where, "card": card}
    evidence = tuple(told["check"])
    return CheckedClaim(**named, verdict=verdict, because=because, evidence=evidence, correct=correct)


def _all_hold(evidence: Sequence[Evidence]) -> bool | None:
    """Tell whether everything holds; None where nothing fails and something cannot be told."""
    if any(one.holds is False for one in evidence):
        return False
    return None if any(one.holds is None for one in evidence) else True


def verdicts_json(verdicts: ClaimVerdicts) -> str:
    """Return the verdicts as JSON; the same answers give the same bytes."""
    return json.dumps(verdicts.model_dump(mode="json"), indent=1, ensure_ascii=False) + "\n"


def read_verdicts(path: Path) -> ClaimVerdicts:
    """Read a file of verdicts.

    Raises:
        InputError: it is not there, or no file of verdicts.

    """
    try:
        return ClaimVerdicts.model_validate_json(path.read_bytes())
    except OSError as error:
        raise InputError(f"verdicts '{path}' cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        raise InputError(
            f"'{path}' is no file of verdicts: {f'{where}: ' if where else ''}{first['msg']}; "
            "`study switches --check FILE --out VERDICTS.json` writes one"
        ) from None


def say_verdict(verdict: Verdict) -> str:
    """Write a verdict as it is printed."""
    return verdict.replace("_", " ")


def say_summary(verdicts: ClaimVerdicts) -> str:
    """Say in one line how the claims of a text fare."""
    counts = ", ".join(f"{number} {say_verdict(verdict)}" for verdict, number in verdicts.count().items() if number)
    wrong = verdicts.wrong_corrections()
    said = f"{verdicts.title} ({verdicts.date}), asked of vLLM {verdicts.vllm_version}: "
    said += f"{len(verdicts.claims)} claims: {counts}."
    return said + (f" The correct form fails too: {', '.join(claim.id for claim in wrong)}." if wrong else "")


def render_verdicts(verdicts: ClaimVerdicts) -> str:
    """Return the verdicts as text for a terminal: claim, evidence, correct form."""
    lines = []
    for claim in verdicts.claims:
        lines.append(f"{say_verdict(claim.verdict):<12} {claim.id} [{claim.card}]: {claim.says}")
        lines += [f"{'':<12}   vLLM: {one.said}" for one in claim.telling]
        if claim.because:
            lines.append(f"{'':<12}   {claim.because}")
        if claim.correct:
            state = {True: "checked", False: "FAILS TOO", None: "not checked"}[claim.correct.holds]
            lines.append(f"{'':<12}   correct ({state}): {claim.correct.says}")
            lines += [f"{'':<12}     vLLM: {one.said}" for one in claim.correct.evidence if one.holds is False]
    return "\n".join([*lines, "", say_summary(verdicts)]) + "\n"
