"""The guard: starts the server in its own process group and ends that group when the runner is gone.

    python -m study.measure.guard LOG [--cores 0,1] -- COMMAND ...

The runner holds the guard's standard input open; when that pipe closes, whatever killed the runner, the group gets
SIGINT and a moment later SIGKILL, and so does whatever left the group but carries the launch's mark. Killing the API
server alone would leave vLLM's engine and workers alive. The guard writes one JSON line when the server is started
(`{"pid": ...}`) and one when it has ended (`{"exit": ...}`). Standard library only, so that it is up in a blink.
"""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

from study.measure.processes import MARK, kill_all, members_of
from study.measure.shared_memory import note_shared_memory

FOLDER = "STUDY_FOLDER"
"""Environment variable that names the launch's private folder."""
GRACE_S = 2.0
POLL_S = 0.1
FOREVER_S = 3600.0


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; False where no process of it is left."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def end_group(group: int, grace_s: float = GRACE_S, mark: str | None = None, folder: Path | None = None) -> None:
    """End a process group: SIGINT, up to `grace_s` seconds, SIGKILL.

    Args:
        group: the group's id.
        grace_s: how long its processes may take to end in order, s.
        mark: what carries this mark is ended too, in the group or not.
        folder: the launch's private folder, where shared memory of the group is noted before the SIGKILL.

    """
    deadline = time.monotonic() + grace_s
    alive = members_of(group, mark)
    if alive:
        signal_group(group, signal.SIGINT)
    while alive and time.monotonic() < deadline:
        time.sleep(POLL_S)
        alive = members_of(group, mark)
    if folder is not None:
        note_shared_memory(folder, alive)
    while alive and time.monotonic() < deadline + grace_s:  # a process may have started another meanwhile
        kill_all(alive)
        alive = members_of(group, mark)


def _say(**facts: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(facts), flush=True)


def main(arguments: list[str]) -> int:
    """Run the command until it ends or standard input closes."""
    split = arguments.index("--")
    options, command = arguments[:split], arguments[split + 1 :]
    named = options[options.index("--cores") + 1] if "--cores" in options else ""
    cores = {int(core) for core in named.split(",") if core}
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with Path(options[0]).open("ab") as log:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            restore_signals=True,
            preexec_fn=partial(_become_server, cores),  # safe: this process has one thread
        )
    _say(pid=child.pid)
    _wait_for_end(child)
    folder = os.environ.get(FOLDER)
    end_group(child.pid, mark=os.environ.get(MARK), folder=Path(folder) if folder else None)
    _say(exit=child.wait())
    return 0


def _become_server(cores: set[int]) -> None:
    """Give the server the signal handling that the guard gave up, and cores of its own, off which the guard stays."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    if cores:
        os.sched_setaffinity(0, cores)


def _wait_for_end(child: subprocess.Popen[bytes]) -> None:
    """Wait, without waking up in between where the kernel can tell, until the command or standard input ends."""
    with contextlib.ExitStack() as stack:
        sources, wait_s = [sys.stdin.fileno()], POLL_S
        with contextlib.suppress(OSError):  # a kernel before 5.3, or a sandbox that does not have it
            sources.append(os.pidfd_open(child.pid))
            stack.callback(os.close, sources[-1])
            wait_s = FOREVER_S
        while child.poll() is None:
            readable, _, _ = select.select(sources, [], [], wait_s)
            if sources[0] in readable and not os.read(sources[0], 4096):
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
