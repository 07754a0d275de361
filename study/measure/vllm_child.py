"""Asks the installed vLLM in a process of its own, through two JSON files: this one imports nothing heavy."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from study.errors import InputError, StudyError
from study.measure.server_spec import with_package

DEADLINE_S = 300.0
PASSED_ON = {"VLLM_LOGGING_LEVEL": "INFO", "VLLM_NO_USAGE_STATS": "1", "VLLM_CONFIGURE_LOGGING": "1", "NO_COLOR": "1"}


def run_child(
    module: str, request: Mapping[str, Any], root: Path, extra: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Run `python -m MODULE REQUEST ANSWER` on one request and return its answer.

    Args:
        module: the child's.
        request: JSON-ready.
        root: the folder it runs in: the project's root.
        extra: environment beside this process's own.

    Raises:
        InputError: vLLM is not installed in this Python.
        StudyError: the child failed, or did not end in `DEADLINE_S`.

    """
    if find_spec("vllm") is None:
        raise InputError("vLLM is not installed in this Python; `make rehearsal` or `make study` installs it")
    environment = {**os.environ, **PASSED_ON, **(extra or {}), "PYTHONPATH": with_package(os.environ)}
    with tempfile.TemporaryDirectory(prefix="study-ask-") as name:
        folder = Path(name)
        (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
        command = [sys.executable, "-m", module, str(folder / "request.json"), str(folder / "answer.json")]
        with (folder / "log").open("w", encoding="utf-8") as log:
            code = _run(command, environment, root, log.fileno())
        if code != 0 or not (folder / "answer.json").is_file():
            lines = (folder / "log").read_text(encoding="utf-8", errors="replace").splitlines()
            said = next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")
            raise StudyError(f"vLLM could not be asked (exit code {code}): {said}")
        answer: dict[str, Any] = json.loads((folder / "answer.json").read_text(encoding="utf-8"))
    return answer


def _run(command: Sequence[str], environment: Mapping[str, str], root: Path, log: int) -> int:
    """Run a process group to its end and return its exit code."""
    child = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        start_new_session=True,
    )
    try:
        return child.wait(DEADLINE_S)
    except subprocess.TimeoutExpired:
        raise StudyError(f"vLLM could not be asked: no answer in {DEADLINE_S:g} s") from None
    finally:
        if child.poll() is None:
            os.killpg(child.pid, signal.SIGKILL)
            child.wait()
