"""Faults: who is killed, by which signal, when; and a session that suffers one."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent.parent
HERE = Path(__file__).parent
MARK = "STUDY_TEST_MARK"

STAGES = ("gate", "canary", "spawn", "loading", "first_token", "warm_up", "load", "between", "stop")
"""Of the stand-in's launch, in their order; `between` is a run that was just recorded."""
NAMES = {
    "client": "study.measure.client",
    "guard": "study.measure.guard",
    "server": "vllm.entrypoints.openai.api_server",
    "engine": "VLLM::EngineCore",
    "worker": "VLLM::Worker",
    "canary": "canary",
    "holder": "--mhz",
}
"""Victim: what stands in its command line. The guard's command line holds the server's too."""


@dataclass(frozen=True)
class Fault:
    """One fault: at `delay_s` after a stage began or, without a stage, after its victims were first there."""

    victim: str
    number: int
    stage: str | None
    delay_s: float

    def __str__(self):
        return f"{signal.Signals(self.number).name} to {self.victim} at {self.stage or 'birth'} + {self.delay_s:.2f} s"


@dataclass
class Suffered:
    """What became of a session with a fault."""

    hit: bool
    code: int | None = None
    cleared_s: float | None = None
    shared: frozenset[str] = frozenset()
    output: str = ""


class Session:
    """A session in the hands of a kernel process, with everything that it starts under one mark."""

    def __init__(self, command, environment, raw, trace=None):
        self.raw, self.trace = raw, trace
        if trace:
            trace.write_text("")
        self.kernel = subprocess.Popen(
            [sys.executable, str(HERE / "kernel.py"), *command],
            env=environment,
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.mark = environment[MARK]
        self.recorded = len(list(raw.glob("run-*.json")))
        self.shared = set()

    def processes(self):
        """Return what the session has started and is there still: id to command line."""
        running = [each for each in psutil.process_iter() if each.pid != self.kernel.pid and _is_running(each)]
        marked = {process.pid for process in running if self._is_marked(process.pid)}
        # A server makes a session of its own, in which vLLM's engine writes its title over its environment.
        sessions = {_session(pid) for pid in marked} - {os.getsid(0), self.kernel.pid, None}
        ours = [process for process in running if process.pid in marked or _session(process.pid) in sessions]
        return {process.pid: _line(process) for process in ours}

    def _is_marked(self, pid):
        with contextlib.suppress(OSError):
            return f"{MARK}={self.mark}".encode() in Path(f"/proc/{pid}/environ").read_bytes()
        return False

    def find(self, victim):
        """Return the ids of a victim's processes."""
        if victim == "kernel":
            return [self.kernel.pid]
        found = self.processes()
        if victim == "runner":
            return [pid for pid, line in found.items() if " study run " in line or "fake_session" in line][:1]
        if victim == "engine" and self.trace:
            engines = [int(line.split()[1]) for line in self.stages() if line.startswith("engine ")]
            return [pid for pid in engines if pid in found]
        guards = {pid for pid, line in found.items() if NAMES["guard"] in line}
        named = {pid for pid, line in found.items() if NAMES[victim] in line}
        if victim == "server":
            named -= guards | {pid for pid in named if (_parent(pid) not in guards)}
        return sorted(named)

    def stages(self):
        """Return the lines of the trace so far."""
        return self.trace.read_text().splitlines() if self.trace and self.trace.is_file() else []

    def reached(self, stage):
        """Whether the session is, or was, at a stage."""
        if stage == "between":
            return len(list(self.raw.glob("run-*.json"))) > self.recorded
        return any(line.startswith(f"{stage} ") for line in self.stages())

    def over(self):
        return self.kernel.poll() is not None

    def note_shared_memory(self, pids):
        """Note what these processes have mapped in /dev/shm."""
        for pid in pids:
            with contextlib.suppress(OSError):
                for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
                    name = line.split(maxsplit=5)[-1]
                    if name.startswith("/dev/shm/") and not name.endswith(" (deleted)"):
                        self.shared.add(name.removeprefix("/dev/shm/"))


def suffer(session, fault, deadline_s):
    """Wait for the fault's moment, strike, and wait for the end of all that the session started."""
    while not session.over() and not _due(session, fault):
        time.sleep(0.01 if fault.stage else 0.1)
    due = time.monotonic() + fault.delay_s
    while not session.over() and time.monotonic() < due:
        time.sleep(0.01)
    hit = strike(session, fault)
    struck_s = time.monotonic()
    runner_dies = fault.victim.startswith(("kernel", "runner"))
    try:
        output, _ = session.kernel.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        return Suffered(hit, shared=frozenset(session.shared), output="the session did not end")
    guarded = "guard" not in fault.victim
    deadline = time.monotonic() + (deadline_s if guarded else 0.0)
    while guarded and session.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    cleared_s = time.monotonic() - struck_s if guarded and runner_dies else None
    return Suffered(hit, session.kernel.returncode, cleared_s, frozenset(session.shared), output)


def _due(session, fault):
    """Whether the moment from which the fault's delay counts is there."""
    return session.reached(fault.stage) if fault.stage else all(map(session.find, fault.victim.split("+")))


def strike(session, fault):
    """Send the fault's signal to its victims; whether all of them were there."""
    victims = [session.find(name) for name in fault.victim.split("+")]
    if not all(victims) or session.over():
        return False
    session.note_shared_memory(session.processes())
    # Of several victims none may react to the end of another before its own.
    struck = [pid for pids in victims for pid in pids]
    for number in (signal.SIGSTOP, fault.number) if len(struck) > 1 else (fault.number,):
        for pid in struck:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    return True


def _is_running(process):
    with contextlib.suppress(psutil.Error):
        return process.status() != psutil.STATUS_ZOMBIE
    return False


def _session(pid):
    with contextlib.suppress(OSError):
        return os.getsid(pid)
    return None


def _line(process):
    with contextlib.suppress(psutil.Error):
        return " ".join(process.cmdline())
    return ""


def _parent(pid):
    with contextlib.suppress(psutil.Error):
        return psutil.Process(pid).ppid()
    return None
