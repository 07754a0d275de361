"""Processes of ours, told by a mark in their environment; and their end.

    STUDY_OWNER=<pid namespace>:<pid>:<start>:<nonce>

Whoever starts a server marks it, and whatever it starts inherits the mark: it names the runner that owns it (its start,
in the kernel's ticks since boot, tells it from a later process of the same number) and, by the nonce, one launch. So a
process can be known as ours after everything around it was killed, and a stranger's never is. Standard library only:
the guard, which must be up in a blink, uses it. Linux alone has what is read here.
"""

import contextlib
import ctypes
import os
import secrets
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

MARK = "STUDY_OWNER"
POLL_S = 0.05
TRACKER = b"multiprocessing.resource_tracker"
TRACKER_GRACE_S = 1.0
"""How long Python's own resource trackers may take to remove shared memory after the processes that had it."""
PR_SET_PDEATHSIG = 1


class Stat(NamedTuple):
    """Of `/proc/<pid>/stat`: state letter, parent, process group, session, start in ticks since boot."""

    state: str
    parent: int
    group: int
    session: int
    start: int


@dataclass(frozen=True)
class Owner:
    """The process that a mark names."""

    namespace: str
    pid: int
    start: int

    def alive(self) -> bool:
        """Whether it is still there; True too where that cannot be told: it lives in another pid namespace."""
        if self.namespace != _namespace("self"):
            return True
        stat = read_stat(self.pid)
        return stat is not None and stat.state not in "ZX" and stat.start == self.start


def make_mark() -> str:
    """Return a fresh mark that names this process as the owner."""
    stat = read_stat(os.getpid())
    return f"{_namespace('self')}:{os.getpid()}:{stat.start if stat else 0}:{secrets.token_hex(8)}"


def read_owner(mark: str) -> Owner | None:
    """Return the owner that a mark names, None for a text that is no mark."""
    parts = mark.split(":")
    if len(parts) != 4 or not (parts[1].isdecimal() and parts[2].isdecimal()):
        return None
    return Owner(parts[0], int(parts[1]), int(parts[2]))


def read_stat(pid: int) -> Stat | None:
    """Return what the kernel says of a process, None where there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    # The command may hold spaces and brackets; what follows its last bracket is plain.
    words = text.rpartition(") ")[2].split()
    return Stat(words[0], int(words[1]), int(words[2]), int(words[3]), int(words[19]))


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be collected by its parent."""
    stat = read_stat(pid)
    return stat is not None and stat.state not in "ZX"


def read_mark(pid: int) -> str | None:
    """Return the mark in a process's environment, None where it has none or is not ours to look at."""
    try:
        entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return None
    name = f"{MARK}=".encode()
    return next((entry[len(name) :].decode(errors="replace") for entry in entries if entry.startswith(name)), None)


def list_pids() -> list[int]:
    """Return the ids of all processes that this one can see."""
    return [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]


def find_marked() -> dict[int, str]:
    """Return the running processes that carry a mark of an owner in this pid namespace: id to mark."""
    here = _namespace("self")
    found = {}
    for pid in list_pids():
        mark = read_mark(pid)
        if mark and mark.startswith(f"{here}:") and read_owner(mark) and _namespace(pid) == here and is_running(pid):
            found[pid] = mark
    return found


def with_sessions(marked: set[int]) -> set[int]:
    """Return marked processes and the rest of the sessions (`man 2 setsid`) that were made for them.

    vLLM's engine and workers write their titles over their environment, and the mark with it. They are in the server's
    session, which is ours where its leader is marked or gone; a session of somebody else's shell has another leader.
    """
    stats = {pid: stat for pid in list_pids() if (stat := read_stat(pid)) is not None and stat.state not in "ZX"}
    sessions = {stats[pid].session for pid in marked if pid in stats}
    ours = {session for session in sessions if session in marked or session not in stats}
    return marked | {pid for pid, stat in stats.items() if stat.session in ours and pid != os.getpid()}


def members_of(group: int, mark: str | None) -> set[int]:
    """Return the running processes of a group, and those with its mark that have left it; never this process."""
    found = set()
    for pid in list_pids():
        stat = read_stat(pid)
        if stat is None or stat.state in "ZX" or pid == os.getpid():
            continue
        if stat.group == group or (mark is not None and read_mark(pid) == mark):
            found.add(pid)
    return found


def kill_all(pids: set[int]) -> None:
    """Send SIGKILL to processes; Python's resource trackers get a moment to remove what the others had."""
    trackers = {pid for pid in pids if _is_tracker(pid)}
    for pid in pids - trackers:
        send_signal(pid, signal.SIGKILL)
    wait_until_gone(trackers, TRACKER_GRACE_S)
    for pid in trackers:
        send_signal(pid, signal.SIGKILL)


def wait_until_gone(pids: set[int], deadline_s: float) -> bool:
    """Wait until none of these processes runs, for at most `deadline_s`; whether that came."""
    deadline = time.monotonic() + deadline_s
    while any(is_running(pid) for pid in pids):
        if time.monotonic() >= deadline:
            return False
        time.sleep(POLL_S)
    return True


def send_signal(pid: int, number: int) -> None:
    """Send a signal to one process, which may be gone or not ours."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def die_with_owner() -> None:
    """Let the kernel kill this process when the process that started it dies, and end now if it is dead already."""
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    owner = read_owner(os.environ.get(MARK, ""))
    if owner is not None and not owner.alive():
        os._exit(1)


def _is_tracker(pid: int) -> bool:
    try:
        return TRACKER in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _namespace(pid: int | str) -> str:
    """Return what tells the pid namespace of a process from others: the kernel's number for it."""
    try:
        link = str(Path(f"/proc/{pid}/ns/pid").readlink())
    except OSError:
        return ""
    return link.strip("pid:[]")
