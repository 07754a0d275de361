"""Asks the installed vLLM in a process of its own, through two JSON files: this one imports nothing heavy.

The child carries this process's mark and dies with it, so that a killed runner leaves neither it nor a file of it.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TextIO

from study.errors import InputError, StudyError
from study.measure.processes import MARK, make_mark
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
    environment = {**os.environ, **PASSED_ON, **(extra or {}), MARK: make_mark()}
    environment["PYTHONPATH"] = with_package(os.environ)
    # Files without a name: whatever kills this process, none is left.
    with ExitStack() as stack:
        asked, told, log = (stack.enter_context(tempfile.TemporaryFile("w+", encoding="utf-8")) for _ in range(3))
        json.dump(request, asked)
        asked.flush()
        command = [sys.executable, "-m", module, f"/dev/fd/{asked.fileno()}", f"/dev/fd/{told.fileno()}"]
        code = _run(command, environment, root, (log.fileno(), asked.fileno(), told.fileno()))
        answer = _read(told)
        if code != 0 or not answer:
            lines = [line.strip() for line in _read(log).splitlines() if line.strip()]
            said = lines[-1] if lines else "it said nothing"
            raise StudyError(f"vLLM could not be asked (exit code {code}): {said}")
    found: dict[str, Any] = json.loads(answer)
    return found


def _read(file: TextIO) -> str:
    """Return what the child wrote; its log may hold anything."""
    os.lseek(file.fileno(), 0, os.SEEK_SET)
    with open(file.fileno(), encoding="utf-8", errors="replace", closefd=False) as again:
        return again.read()


def _run(command: Sequence[str], environment: Mapping[str, str], root: Path, files: tuple[int, int, int]) -> int:
    """Run a process group to its end and return its exit code; `files` are its log, its request and its answer."""
    log = files[0]
    child = subprocess.Popen(
        command,
        cwd=root,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        pass_fds=files[1:],
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
