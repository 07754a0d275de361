"""What Ray does to the processes that it starts, and how a server of ours gets ordinary surroundings all the same.

Seen with Ray 2.60: niceness 15, the first to be killed when memory runs out (`oom_score_adj` 1000), signals blocked in
the threads that run an actor, OMP_NUM_THREADS=1, and names of its own in the environment.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from study.measure.server_spec import ALLOWED_ENVIRONMENT

OF_RAY = {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "PYTHONBREAKPOINT", "SPT_NOENV"}
"""What Ray sets beside the names that begin with RAY_; the runner names cards by UUID itself."""
OOM_SCORE = Path("/proc/self/oom_score_adj")


def be_ordinary() -> str | None:
    """Let what this thread starts run as if a person had started it; return one line where that is not allowed."""
    with suppress(OSError):
        OOM_SCORE.write_text("0", encoding="ascii")
    niceness = os.getpriority(os.PRIO_PROCESS, 0)
    try:
        if niceness > 0:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    except PermissionError:
        return f"Ray runs its work here at niceness {niceness}: start it with RAY_worker_niceness=0 in its environment"
    return None


@contextmanager
def no_signal_blocked() -> Iterator[None]:
    """Block no signal in this thread meanwhile: what is started would inherit that, and no server end by SIGINT."""
    before = signal.pthread_sigmask(signal.SIG_SETMASK, ())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def is_forwarded(name: str) -> bool:
    """Whether a variable of the driver's environment is that of every server of the fleet."""
    return bool(ALLOWED_ENVIRONMENT.match(name)) and name not in OF_RAY


def own_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what of a machine's environment a server there sees: neither what the driver sets nor what Ray does."""
    return {
        name: value
        for name, value in environment.items()
        if not (is_forwarded(name) or name in OF_RAY or name.startswith("RAY_"))
    }
