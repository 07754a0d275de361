"""What asks a session to end from outside: a signal, or the closing of the pipe that a parent holds."""

import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from study.measure.ending import Ending


@contextmanager
def ended_by_signals(detach: bool) -> Iterator[Ending]:
    """Let SIGINT, SIGTERM, SIGHUP and the closing of the parent's pipe ask for an end, once.

    Args:
        detach: whether to go on when the parent's pipe closes.

    Yields:
        Ending: whether an end was asked for.

    """
    ending = Ending()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` asks for
        numbers.append(signal.SIGHUP)

    def ask(_number: int, _frame: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        ending.ask()

    before = {number: signal.signal(number, ask) for number in numbers}
    if not detach and _has_pipe():
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_pipe() -> bool:
    """Whether standard input is a pipe that a parent holds (it may be closed, a terminal or a file)."""
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False


def _end_with_parent() -> None:
    """Wait until standard input closes, then end this process in order."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
