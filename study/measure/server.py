"""One vLLM server: its own process group on 127.0.0.1, started by argument list, watched by the guard.

Ready means that `/health` answers on a socket that *our* process holds, and then that a first token came. A stop is
SIGINT, SIGTERM, SIGKILL with deadlines, and tells what was left over.
"""

import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from study.design.whole_files import open_private
from study.errors import InputError, ServerError
from study.measure.deaths import explain_end
from study.measure.guard import signal_group
from study.measure.key_gate import CONFIGURATION_PATH
from study.measure.listening import list_listening
from study.measure.processes import read_stat
from study.measure.redact import KEY_PREFIX, mask
from study.measure.server_spec import HOST, ServerSpec, command_of, environment_of, mask_secrets

POLL_S = 0.25
UMASK = 0o022
"""Of the server: nobody else may write to its files, nor connect to its sockets among them."""
STOP_DEADLINES_S = ((signal.SIGINT, 20.0), (signal.SIGTERM, 10.0), (signal.SIGKILL, 10.0))
FIRST_TOKEN_DEADLINE_S = 600.0
GUARD_DEADLINE_S = 15.0
JIT_LINE = "during inference: "
ERROR = re.compile(r"\b[A-Z]\w*(?:Error|Exception): .+")
DOWNGRADE = re.compile(r"setting cudagraph_mode|Overriding cudagraph_mode|cudagraph.*Overriding to")


@dataclass
class StopFacts:
    """How a server ended: the signal that did it (None: on its own) and what was left."""

    stopped_by: str | None
    left_over: list[str] = field(default_factory=list)


def find_port(asked: int | None = None) -> int:
    """Return a free port on 127.0.0.1, or the one asked for.

    Raises:
        InputError: the port asked for is taken.

    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, asked or 0))
        except OSError:
            raise InputError(f"port {asked} on {HOST} is taken; name another, or null for a free one") from None
        port: int = probe.getsockname()[1]
        return port


class Server:
    """A running vLLM server; make one with `Server.start`."""

    def __init__(self, guard: subprocess.Popen[str], pid: int, port: int, key: str, log: Path) -> None:
        self.pid = pid
        self.port = port
        self.log = log
        self._guard = guard
        self._key = key
        self._started = _create_time(pid)
        self._stop_facts = StopFacts(None)

    @classmethod
    def start(cls, spec: ServerSpec, log: Path, root: Path) -> "Server":
        """Start the server through its guard, in the folder `root`.

        Raises:
            ServerError: the guard or the process did not come up.

        """
        port = find_port(spec.port)
        key = KEY_PREFIX + secrets.token_urlsafe(24)
        os.close(open_private(log))
        cores = ["--cores", ",".join(map(str, spec.cores))] if spec.cores else []
        guard = subprocess.Popen(
            [sys.executable, "-m", "study.measure.guard", str(log), *cores, "--", *command_of(spec, port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment_of(spec, os.environ, key),
            cwd=root,
            text=True,
            start_new_session=True,
            umask=UMASK,
        )
        assert guard.stdout is not None  # noqa: S101 (asked for above)
        line = guard.stdout.readline()
        if not line.endswith("\n"):
            raise explain_end(guard.wait())
        return cls(guard, int(json.loads(line)["pid"]), port, key, log)

    @property
    def url(self) -> str:
        """Address of the server."""
        return f"http://{HOST}:{self.port}"

    @property
    def client_environment(self) -> dict[str, str]:
        """What a load client needs in its environment: the key, and no proxy on the way."""
        return {"OPENAI_API_KEY": self._key, "NO_PROXY": f"{HOST},localhost", "no_proxy": f"{HOST},localhost"}

    @property
    def secret(self) -> str:
        """The API key, to be kept out of whatever is stored."""
        return self._key

    @property
    def guarded(self) -> bool:
        """Whether the guard is there, which ends the server should this process die."""
        return self._guard.poll() is None

    def healthy(self) -> bool:
        """Whether it answers `/health`."""
        return self._answers("/health")

    def exit_code(self, wait_s: float = 6.0) -> int | None:
        """Return the exit code that the guard saw, minus the signal's number where one ended it; None if not known."""
        try:
            self._guard.wait(wait_s)
        except subprocess.TimeoutExpired:
            return None
        line = "" if self._guard.stdout is None or self._guard.stdout.closed else self._guard.stdout.readline()
        return int(json.loads(line)["exit"]) if line.endswith("\n") else None

    def alive(self) -> bool:
        """Whether the process that was started is still there (not another one with its number)."""
        return self._started is not None and _create_time(self.pid) == self._started

    def pids(self) -> set[int]:
        """Return the ids of the server's processes: its group and their children."""
        group = {process.pid for process in psutil.process_iter() if _group_of(process.pid) == self.pid}
        for pid in list(group):
            try:
                group |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
            except psutil.Error:
                continue
        return group

    def wait_healthy(self, deadline_s: float, watch: Callable[[], object] = lambda: None) -> float:
        """Wait until `/health` of this very process answers 200; return the monotonic time of that answer.

        Args:
            deadline_s: longest wait, s.
            watch: looks at something else meanwhile, at every poll; what it raises ends the wait.

        Raises:
            ServerError: the process ended, the deadline passed, or a process of it listens where others can reach it.

        """
        deadline = time.monotonic() + deadline_s
        while time.monotonic() < deadline:
            watch()
            if not self.alive():
                raise ServerError("ready", f"the server ended before it was ready: {self.last_error()}")
            if self._answers("/health") and self._holds_port("ready"):
                return time.monotonic()
            time.sleep(POLL_S)
        raise ServerError("ready", f"the server was not ready within {deadline_s:.0f} s")

    def first_token(self, model: str) -> float:
        """Ask for one token; return the monotonic time when it came.

        Raises:
            ServerError: no token came, or the server listens where others can reach it.

        """
        body = {"model": model, "prompt": [7] * 16, "max_tokens": 1, "temperature": 0, "ignore_eos": True}
        try:
            answer = json.loads(self._request("/v1/completions", body, FIRST_TOKEN_DEADLINE_S))
            tokens = answer["usage"]["completion_tokens"]
        except (OSError, ValueError, KeyError) as error:
            raise ServerError("first_token", f"no first token: {error}") from None
        if tokens != 1:
            raise ServerError("first_token", f"asked for one token, got {tokens}")
        came_s = time.monotonic()
        self._holds_port("first_token")  # the first token may have opened more
        return came_s

    def resolved(self) -> dict[str, Any]:
        """Return `vllm_config` as this server resolved it: from the gate of the key, else from vLLM's own endpoint.

        The same object comes from both; the endpoint takes a second or more for what else it tells.

        Raises:
            ServerError: neither answered.

        """
        said = ""
        for path in (CONFIGURATION_PATH, "/server_info?config_format=json"):
            try:
                config: dict[str, Any] = mask_secrets(json.loads(self._request(path, None, 120.0))["vllm_config"])
            except (OSError, ValueError, KeyError) as error:
                said = f"{path} gave no configuration: {error}"
                continue
            return config
        raise ServerError("resolve", said)

    def metrics(self) -> dict[str, float]:
        """Return the counters `prefix_queries`, `prefix_hits`, `preemptions` (those that `/metrics` has)."""
        names = {"prefix_queries": "prefix_cache_queries", "prefix_hits": "prefix_cache_hits"}
        names["preemptions"] = "num_preemptions"
        try:
            text = self._request("/metrics", None, 30.0)
        except OSError:
            return {}
        found = {}
        for short, name in names.items():
            values = re.findall(rf"^vllm:{name}_total(?:{{[^}}]*}})? (\S+)$", text, re.MULTILINE)
            if values:
                found[short] = sum(map(float, values))
        return found

    def stop(self) -> StopFacts:
        """End the server and say how; nothing of its group stays. A stop that was cut short can be asked for again."""
        facts = self._stop_facts
        for number, deadline_s in STOP_DEADLINES_S:
            if not self._group_alive():
                break
            facts.stopped_by = signal.Signals(number).name
            signal_group(self.pid, number)
            self._wait_gone(deadline_s)
        self._release_guard()
        facts.left_over = [f"process {pid}" for pid in sorted(self.pids()) if _is_running(pid)]
        return facts

    def _release_guard(self) -> None:
        """Let the guard end: it clears what is left of the group once its pipe closes."""
        for pipe in (self._guard.stdin, self._guard.stdout):
            if pipe:
                pipe.close()
        try:
            self._guard.wait(timeout=GUARD_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            self._guard.wait()

    def last_error(self) -> str:
        """Return the last error that the log names, the cause rather than what followed from it, or its last line."""
        lines = tail_of(self.log, 300)
        found = [match[0] for line in lines if " WARNING " not in line and (match := ERROR.search(line))]
        causes = [text for text in found if "root cause above" not in text]
        return mask((causes or found or lines or ["the log is empty"])[-1]).strip()[:300]

    def _wait_gone(self, deadline_s: float) -> None:
        deadline = time.monotonic() + deadline_s
        while self._group_alive() and time.monotonic() < deadline:
            time.sleep(0.1)

    def _group_alive(self) -> bool:
        return any(_is_running(pid) for pid in self.pids())

    def _answers(self, path: str) -> bool:
        try:
            self._request(path, None, 5.0)
        except (OSError, ValueError):
            return False
        return True

    def _holds_port(self, stage: str) -> bool:
        """Whether a process of this server's group listens on its port: another's answer is not ours.

        Raises:
            ServerError: one listens where others can reach it.

        """
        listening = list_listening(self.pids())
        for pid, ip, port in (one for one in listening if one.open):
            what = f"process {pid} of the server listens on {ip}:{port}, where others can reach it"
            raise ServerError(stage, f"{what}; a server of the study listens on {HOST} alone")
        return any((one.ip, one.port) == (HOST, self.port) for one in listening)

    def _request(self, path: str, body: dict[str, Any] | None, timeout_s: float) -> str:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data)  # noqa: S310 (the address is our own)
        request.add_header("Authorization", f"Bearer {self._key}")
        request.add_header("Content-Type", "application/json")
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=timeout_s) as answer:
            text: str = answer.read().decode()
        return text


def tail_of(path: Path, lines: int = 40, most_bytes: int = 65536) -> list[str]:
    """Return the last lines of a text file (an empty list where there is none)."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - most_bytes))
            return file.read().decode(errors="replace").splitlines()[-lines:]
    except OSError:
        return []


def log_lines(path: Path, since: int = 0) -> Iterator[str]:
    """Yield the lines of a log from byte offset `since`."""
    with path.open("rb") as file:
        file.seek(since)
        for line in file:
            yield line.decode(errors="replace").rstrip("\r\n")


def _create_time(pid: int) -> float | None:
    """Return when a process was started, in ticks since boot: psutil's own time moves when the clock is set."""
    stat = read_stat(pid)
    return None if stat is None or stat.state in "ZX" else stat.start


def _is_running(pid: int) -> bool:
    return _create_time(pid) is not None


def _group_of(pid: int) -> int | None:
    try:
        return os.getpgid(pid)
    except OSError:
        return None
