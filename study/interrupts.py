"""Ctrl-C, noted: an import of a C extension that it falls into makes an ImportError of it."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def noted_interrupts() -> Iterator[list[int]]:
    """Note every Ctrl-C of this block, in a list of signal numbers, and raise KeyboardInterrupt as ever.

    Where something else than Python's own handler is in charge (a shell's `&` ignores Ctrl-C), and outside of the main
    thread, nothing is changed and nothing noted.
    """
    noted: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        noted.append(number)
        raise KeyboardInterrupt

    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield noted
        return
    signal.signal(signal.SIGINT, note)
    try:
        yield noted
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
