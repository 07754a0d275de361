"""What one machine of a fleet does: it runs the study's own runner for one block, and hands over each finished launch.

    driver: order -> [ private data folder -> study run -> launch, launch, ... ] -> driver: files of each launch

The runner is a process of its own, whose standard input this one holds: when this process dies, the pipe closes and the
runner stops its server and ends. What is in hand then is lost as a whole; nothing of it has gone to the driver.
"""

import json
import os
import platform
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from study.arrival import LaunchFiles, read_launches
from study.design.root import find_root
from study.errors import InputError
from study.fleet.surroundings import be_ordinary, no_signal_blocked, own_environment
from study.measure.cards import open_cards
from study.measure.gpu import GpuReader
from study.measure.leftovers import LaunchFolder, remove_leftovers
from study.measure.machine import hash_host, read_versions
from study.measure.processes import MARK
from study.records import name_unit
from study.store import Store

POLL_S = 0.5


@dataclass(frozen=True)
class Order:
    """One block to measure.

    Attributes:
        parameters: JSON of the block's parameters.
        study: its name.
        records: files that the study's store holds and the runner decides by: name to content.
        environment: what servers see of the driver's environment; a machine's own settings of these names are dropped.
        versions: of what must be alike everywhere: name to version.
        root: the project's folder; None where Ray has sent it.
        ends_unix_s: when nothing new is to begin; None: no limit.

    """

    parameters: str
    study: str
    records: Mapping[str, bytes]
    environment: Mapping[str, str]
    versions: Mapping[str, str]
    root: str | None = None
    ends_unix_s: float | None = None


@dataclass(frozen=True)
class Place:
    """Where a block is measured.

    Attributes:
        machine: what it is called.
        gpus: those that Ray gave, by UUID or index.
        unit: what records call them (`Machine.unit`); None where the cards do not answer.

    """

    machine: str
    gpus: tuple[str | int, ...] = ()
    unit: str | None = None


@dataclass(frozen=True)
class Told:
    """One line of the runner."""

    message: str


@dataclass(frozen=True)
class Brought:
    """A finished launch."""

    files: LaunchFiles


@dataclass(frozen=True)
class Ended:
    """The runner has ended with an exit code; `left` launches of the block are not done (None: it did not say)."""

    code: int
    left: int | None
    message: str


Message = Told | Brought | Ended


@dataclass
class BlockWork:
    """Measures one block on this machine."""

    _asked: threading.Event = field(default_factory=threading.Event)

    def end(self) -> None:
        """Ask the runner to end in order; what it has in hand is finished as interrupted and still brought."""
        self._asked.set()

    def measure(self, order: Order, place: Place) -> Iterator[Message]:
        """Run the block here; yield what happens."""
        differing = find_difference(order.versions, versions_here())
        if differing:
            yield Ended(InputError.exit_code, None, f"{place.machine} has {differing}")
            return
        odd = be_ordinary()
        if odd:
            yield Told(odd)
        remove_leftovers()
        folder = LaunchFolder()
        try:
            yield from self._run(order, place, folder)
        finally:
            folder.remove()

    def _run(self, order: Order, place: Place, folder: LaunchFolder) -> Iterator[Message]:
        store = Store(folder.path / "data", order.study)
        store.raw.mkdir(parents=True)
        for name, content in order.records.items():
            (store.raw / name).write_bytes(content)
        known = set(order.records)
        with (folder.path / "errors").open("w+") as errors, _start_runner(order, place, folder, errors) as process:
            end: dict[str, Any] = {}
            for line in self._follow(process):
                event = json.loads(line)
                if event["event"] == "end":
                    end = event
                else:
                    yield Told(event["message"])
                yield from _bring(store, known)
            process.wait()
            yield from _bring(store, known)
            errors.seek(0)
            said = errors.read().strip().splitlines()
        code = process.returncode
        how = f"the runner was killed by signal {-code}" if code < 0 else f"the runner ended with code {code}"
        last = said[-1].removeprefix("study: ") if said and code >= 0 else how
        yield Ended(code, end.get("left"), end.get("message", last))

    def _follow(self, process: "subprocess.Popen[bytes]") -> Iterator[str]:
        """Yield the runner's lines until it ends; close its standard input once it is asked to end."""
        assert process.stdin is not None and process.stdout is not None  # noqa: S101 (pipes, see below)
        descriptor, rest = process.stdout.fileno(), b""
        while True:
            if self._asked.is_set():
                process.stdin.close()
            if not select.select([descriptor], [], [], POLL_S)[0]:
                continue
            content = os.read(descriptor, 2**16)
            if not content:
                return
            *lines, rest = (rest + content).split(b"\n")
            yield from (line.decode() for line in lines)


def find_unit(
    gpus: Sequence[str | int], open_gpu: Callable[[str | int | None], GpuReader] = GpuReader.open
) -> str | None:
    """Return what records call these cards of this machine, or the machine where there are none (`Machine.unit`).

    None where they do not answer: the runner is the one to say why.
    """
    try:
        with open_cards(list(gpus), len(gpus), open_gpu) as readers:
            return name_unit([reader.uuid for reader in readers], hash_host(socket.gethostname()))
    except InputError:
        return None


def versions_here() -> dict[str, str]:
    """Return the versions of what must be alike on all machines of a fleet, as far as it is installed."""
    return {"Python": platform.python_version(), **read_versions()}


def find_difference(asked: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """Return in words the first version that differs from what is asked; None where all are alike."""
    for name, version in sorted(asked.items()):
        if here.get(name) != version:
            seen = f"{name} {here[name]}" if name in here else f"no {name}"
            return f"{seen}, the machine that asks has {version}; install the same on every machine"
    return None


def _bring(store: Store, known: set[str]) -> Iterator[Message]:
    for name, files in read_launches(store, known):
        known.add(name)
        yield Brought(files)


def _start_runner(
    order: Order, place: Place, folder: LaunchFolder, errors: IO[str]
) -> "subprocess.Popen[bytes]":
    root = Path(order.root) if order.root else find_root()
    parameters = {**json.loads(order.parameters), "data_dir": str(folder.path / "data")}
    if place.gpus:
        parameters["gpu"] = place.gpus[0] if len(place.gpus) == 1 else list(place.gpus)
    file = folder.path / "parameters.yaml"
    file.write_text(json.dumps(parameters), encoding="utf-8")
    command = [sys.executable, "-m", "study", "run", "--parameters", str(file), "--events"]
    if order.ends_unix_s is not None:
        command += ["--time-limit-s", f"{max(0.0, order.ends_unix_s - time.time()):.1f}"]
    path = os.pathsep.join([str(root), *filter(None, [os.environ.get("PYTHONPATH")])])
    with no_signal_blocked():
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=root,
            env={**own_environment(os.environ), **order.environment, MARK: folder.mark, "PYTHONPATH": path},
            start_new_session=True,
        )
