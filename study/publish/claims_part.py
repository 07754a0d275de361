"""What changed since a text was written: its claims that are false or changed now, with the form that is right."""

from study.analyze.claims import CheckedClaim, ClaimVerdicts, say_summary, say_verdict
from study.publish.sheets import Sheet

_STATES = {True: "checked", False: "fails too", None: "not checked"}


def say_claims(verdicts: ClaimVerdicts, before: ClaimVerdicts | None = None) -> tuple[str, ...]:
    """Say how a text's claims fare, and which verdicts are others than before."""
    said = [say_summary(verdicts)]
    if before is not None:
        then = {claim.id: claim.verdict for claim in before.claims}
        moved = [claim for claim in verdicts.claims if then.get(claim.id, claim.verdict) != claim.verdict]
        texts = [f"{one.id}: {say_verdict(then[one.id])}, now {say_verdict(one.verdict)}" for one in moved]
        same = "every verdict is the same"
        said.append(f"Compared with vLLM {before.vllm_version}: {'; '.join(texts) or same}.")
    return tuple(said)


def warn_of_claims(verdicts: ClaimVerdicts, versions: frozenset[str]) -> tuple[str, ...]:
    """Warn where the claims were asked of another vLLM than the studies ran."""
    if not versions or versions == {verdicts.vllm_version}:
        return ()
    ran = ", ".join(sorted(versions))
    return (f"The claims were asked of vLLM {verdicts.vllm_version}; the studies ran {ran}.",)


def list_misleading(verdicts: ClaimVerdicts) -> Sheet:
    """Lay out the claims that are false or changed now, with the correct form and what vLLM answered."""
    head = ("claim", "verdict", "correct form", "what vLLM answers")
    rows = tuple(
        (claim.says, say_verdict(claim.verdict), _say_correct(claim), "; ".join(one.said for one in claim.telling))
        for claim in verdicts.misleading()
    )
    title = f"Claims of {verdicts.date} that vLLM {verdicts.vllm_version} does not bear out"
    return Sheet(title, head, rows, folded=len(rows) > 12)


def _say_correct(claim: CheckedClaim) -> str:
    if claim.correct is None:
        return "none given"
    return f"{claim.correct.says} ({_STATES[claim.correct.holds]})"
