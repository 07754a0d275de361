"""Shares calls of one function out to processes of its own, and goes on without them where they cannot be had.

A new process imports the main module again. Where that is a script of somebody's, its unguarded lines would run once
more, so calls are shared out only where the main module is this package's own or a notebook's kernel.
"""

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Generic, TypeVar

A = TypeVar("A")
B = TypeVar("B")

_AHEAD = 8
"""Calls that wait, for each process."""
_here: list[Callable[[Any], Any]] = []
"""In one of the processes: the function that it was started for."""


@dataclass(frozen=True)
class Shared(Generic[A, B]):
    """A call that another process makes."""

    call: Callable[[A], B]
    argument: A
    future: "Future[B]"

    def wait(self) -> B:
        """Return its result; the call is made here where the other process was ended."""
        try:
            return self.future.result()
        except BrokenProcessPool:
            return self.call(self.argument)


class Pool(Generic[A, B]):
    """Processes that are started with the first call, and end with the block.

    Args:
        call: sent to each process once, as it is.
        processes: how many; with 1 every call is made here.

    """

    def __init__(self, call: Callable[[A], B], processes: int) -> None:
        self._call = call
        self._processes = processes if may_start() else 1
        self._executor: ProcessPoolExecutor | None = None

    @property
    def started(self) -> bool:
        """Whether calls are shared out."""
        return self._executor is not None

    @property
    def room(self) -> int:
        """How many results may wait."""
        return _AHEAD * self._processes if self.started else 0

    def share(self, argument: A) -> "B | Shared[A, B]":
        """Make a call, or have it made."""
        if self._processes == 1:
            return self._call(argument)
        if self._executor is None:
            context = multiprocessing.get_context("spawn")
            self._executor = ProcessPoolExecutor(self._processes, context, _begin, (self._call,))
        # A call may start a process. A terminal sends interrupts to all of them, and this one ends the others.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return Shared(self._call, argument, self._executor.submit(_make, argument))
        except BrokenProcessPool:
            return self._call(argument)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def __enter__(self) -> "Pool[A, B]":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._executor is not None:
            self._executor.shutdown(cancel_futures=True)


def may_start() -> bool:
    """Say whether a new process, which imports the main module again, runs nothing of somebody else's by that."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    name = getattr(spec, "name", "") or ""
    return name.split(".")[0] == "study" if spec is not None else not hasattr(main, "__file__")


def _begin(call: Callable[[Any], Any]) -> None:
    """Begin in a new process, which ends with the one that started it."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    _here[:] = [call]


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _make(argument: Any) -> Any:  # noqa: ANN401 (any function's)
    return _here[0](argument)
