"""Asks the installed vLLM about claims, in a process of its own: this one imports nothing heavy."""

from pathlib import Path

from study.design.claims import ClaimsFile, VllmAnswers
from study.measure.model import prepare_model
from study.measure.redact import redact
from study.measure.vllm_child import run_child

CHILD = "study.measure.claims_child"


def ask_vllm(file: ClaimsFile, card: str | None, root: Path) -> VllmAnswers:
    """Check every claim of a file against the installed vLLM.

    Args:
        file: the claims.
        card: for the claims that name none, before the file's own; None: the file's, else this machine's platform.
        root: the project's root, for the model's shape file and folder.

    Raises:
        InputError: vLLM is not installed here, or the model is unusable.
        StudyError: the process failed or did not end in time.

    """
    model = prepare_model(file.model, "dummy", root)
    checks = [
        {"claim": claim.id, "part": part, "place": place, "card": claim.card or card or file.card}
        | {"check": check.model_dump(mode="json")}
        for claim in file.claims
        for part, place, check in claim.checks()
    ]
    folder_or_name = str(root / model) if (root / model).is_dir() else model
    told = run_child(CHILD, {"model": folder_or_name, "checks": checks}, root, {"HF_HUB_OFFLINE": "1"})
    return VllmAnswers.model_validate(redact(told, root))
