"""Asks the installed vLLM about claims, in a process of its own: this one imports nothing heavy."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from study.design.claims import ClaimsFile, VllmAnswers
from study.errors import InputError, StudyError
from study.measure.claims_child import Answers
from study.measure.model import prepare_model
from study.measure.redact import redact
from study.measure.server_spec import with_package

TIMEOUT_S = 300.0
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
    with tempfile.TemporaryDirectory() as place:
        job = Path(place) / "job.json"
        job.write_text(json.dumps({"model": folder_or_name, "checks": checks}), encoding="utf-8")
        told = _run_child(job, Path(place))
    return VllmAnswers.model_validate(redact(dict(told), root))


def _run_child(job: Path, folder: Path) -> Answers:
    """Run the child in its own process group and return what it wrote."""
    answers, log = folder / "answers.json", folder / "child.log"
    asked = {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "VLLM_LOGGING_LEVEL": "INFO"}
    environment = {**os.environ, **asked, "PYTHONPATH": with_package(os.environ)}
    with log.open("w", encoding="utf-8") as output:
        child = subprocess.Popen(
            [sys.executable, "-m", CHILD, str(job), str(answers)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
        try:
            code = child.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise StudyError(f"vLLM did not answer the claims within {TIMEOUT_S:g} s") from None
        finally:
            if child.poll() is None:
                os.killpg(child.pid, signal.SIGKILL)
                child.wait()
    if code or not answers.is_file():
        raise _explain_failure(log.read_text(encoding="utf-8", errors="replace"))
    told: Answers = json.loads(answers.read_text(encoding="utf-8"))
    return told


def _explain_failure(log: str) -> StudyError:
    lines = log.strip().splitlines()
    if any("No module named 'vllm'" in line for line in lines):
        return InputError("vLLM is not installed here; claims are checked against it (make install)")
    return StudyError(f"the process that checks claims failed: {lines[-1] if lines else 'it says nothing'}")
