"""Why a server is gone: of its own doing, which is a result, or killed from outside, which says nothing of its level.

vLLM 0.31 names an engine's exit code only where it ends while loading (`Failed core proc(s): {'EngineCore': -9}`, in
`vllm/v1/engine/utils.py`; `{}` where it looks too early) and a worker's (`died unexpectedly (exit code: -9)`, in
`vllm/v1/executor/multiproc_executor.py`). Otherwise an engine that broke is told from one that was killed by its own
lines: the one logs an error with its trace, the other says no word, and the API server only that it is dead.
"""

import re
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from study.errors import LoadError, ServerError
from study.records import KILLED

DEATH_PATIENCE_S = 15.0
"""How long a server may take to end once it does not answer any more."""

OUTSIDE_SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
EXIT_CODE = re.compile(r"(?:'\w*(?:EngineCore|Coordinator|ApiServer)\w*': |exit code: |code=)(-?\d+)")
ENGINE_DEAD = re.compile(r"EngineDeadError|EngineCore encountered an issue|Engine core initialization failed")
ENGINE_SPOKE = re.compile(
    r"\((?:EngineCore|Worker|VllmWorker)[^)]*\)(?:\x1b\[[\d;]*m)* (?:ERROR|CRITICAL)|"
    r"EngineCore (?:failed to start|encountered a fatal error|hit an exception)|!!! Segfault|Fatal Python"
)


class KilledError(ServerError):
    """Processes of a launch were killed from outside; the launch is to be made again."""

    def __init__(self, message: str) -> None:
        super().__init__(KILLED, message)


class ClientKilledError(LoadError):
    """The load client was killed from outside; its run says nothing and is to be made again."""


class Mortal(Protocol):
    """What a server has to tell of its end."""

    log: Path

    def alive(self) -> bool:
        """Whether the process that was started is there."""

    def healthy(self) -> bool:
        """Whether it answers `/health`; vLLM's does not once its engine is dead."""

    def exit_code(self) -> int | None:
        """Return what the guard saw, None where that is not known."""

    def last_error(self) -> str:
        """Return the last error that the log names."""


@dataclass(frozen=True)
class Death:
    """How a server's end is to be read."""

    killed: bool
    message: str


def read_death(exit_code: int | None, lines: Iterable[str], last_error: str) -> Death:
    """Say whether a server that is gone was killed from outside.

    Args:
        exit_code: of the API server as its guard saw it (minus the signal's number), None where that is not known.
        lines: of its log.
        last_error: the last error that the log names.

    """
    if exit_code is not None and -exit_code in OUTSIDE_SIGNALS:
        return Death(True, f"the server was killed from outside by {signal.Signals(-exit_code).name}")
    told = spoke = dead = False
    for line in lines:
        code = EXIT_CODE.search(line)
        if code and -int(code[1]) in OUTSIDE_SIGNALS:
            name = signal.Signals(-int(code[1])).name
            return Death(True, f"a process of the server was killed from outside by {name}")
        told = told or code is not None
        spoke = spoke or ENGINE_SPOKE.search(line) is not None
        dead = dead or ENGINE_DEAD.search(line) is not None
    if exit_code == 0 and not (spoke or dead):
        return Death(True, "the server was asked to end from outside")
    if dead and not (spoke or told):
        return Death(True, "the engine's process vanished without a word: killed from outside, or out of memory")
    return Death(False, f"the server ended during the session: {last_error}")


def find_death(server: Mortal, patience_s: float = DEATH_PATIENCE_S) -> Death | None:
    """Say how a server ended that something went wrong with; None where it is there and well.

    A server whose engine is dead takes some seconds to end itself; one that stays, dead or not, has not ended.
    """
    deadline = time.monotonic() + patience_s
    while server.alive() and not server.healthy() and time.monotonic() < deadline:
        time.sleep(0.2)
    if server.alive():
        return None
    code = server.exit_code()
    with server.log.open(encoding="utf-8", errors="replace") as lines:
        return read_death(code, lines, server.last_error())


def explain_end(code: int) -> ServerError:
    """Return the error of a guard that ended before it said a word."""
    if -code in OUTSIDE_SIGNALS:
        return KilledError(f"the server's guard was killed from outside by {signal.Signals(-code).name}")
    return ServerError("spawn", f"the server's guard ended at once with code {code}")
