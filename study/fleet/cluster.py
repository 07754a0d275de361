"""The machines, by Ray: the one place that knows it. Ray decides where a block runs, and tells when a machine is lost.

One actor a block: it asks for the block's GPUs (and kind of card), so that all its levels stay on the same ones, and
for a share of a resource that every machine has once, so that no two blocks run on one machine at the same time.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.design.plain_files import shown
from study.errors import InputError, StudyError
from study.fleet.asked import FleetOptions
from study.fleet.blocks import Block
from study.fleet.node import BlockWork, Message, Order, Place, find_unit

QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_memory_monitor_refresh_ms": "0",
    "RAY_worker_niceness": "0",
}
"""Environment of a Ray of our own: it reports nothing, listens on 127.0.0.1 alone (`ray/_private/ray_constants.py`,
2.60: the name says Windows, but it is what makes Ray take the loopback address anywhere), kills no block for memory
(what a server may take is vLLM's business), and runs blocks as any process."""
STORE_BYTES = 100 * 2**20
"""Shared memory of a Ray of our own: launches pass through it one by one."""
EXCLUSIVE = "node:__internal_implicit_resource_vllm_compile_study"
"""A resource of which each machine has 1 without being told (`ray/serve/_private/deployment_scheduler.py` limits
replicas a node by the same prefix)."""
GRAIN = 10_000
"""Ray counts resources in parts of so many."""
ANSWER_S = 5.0
SHIPPED = ("study", "notebooks")
"""What a machine needs of the project."""


class LostError(StudyError):
    """A block's machine or process is gone, or its code failed there; what was in hand is lost as a whole."""


class _BlockActor:
    """Runs one block on the machine that Ray has given it."""

    def __init__(self) -> None:
        self._work = BlockWork()

    def find_place(self) -> Place:
        """Return where this is."""
        ray = _import_ray()
        gpus = tuple(int(gpu) if str(gpu).isdecimal() else str(gpu) for gpu in ray.get_gpu_ids())
        return Place(ray.util.get_node_ip_address(), gpus, find_unit(gpus))

    def measure(self, order: Order) -> Iterator[Message]:
        """Measure the block; yield what happens."""
        yield from self._work.measure(order, self.find_place())

    def end(self) -> None:
        """Ask the block to end in order."""
        self._work.end()


@dataclass(eq=False)
class Running:
    """A block that was handed to Ray.

    Attributes:
        block: which; until it has a place, it may be exchanged for another one that asks for the same.
        actor: Ray's handle of it.
        answer: what is waited for: where it is, then what it yields.
        place: where it is; None while it waits for room.

    """

    block: Block
    actor: Any
    answer: Any
    place: Place | None = None


class Cluster:
    """Machines that take blocks."""

    def __init__(self, ray: Any, options: FleetOptions) -> None:  # noqa: ANN401 (Ray is imported late)
        self._ray = ray
        self._options = options
        self._actor = ray.remote(_BlockActor)
        self._share = GRAIN // options.blocks_per_node / GRAIN

    def count_places(self, block: Block) -> int:
        """Return how many blocks like this one the machines that are there now can measure at once."""
        return sum(
            self._places_of(node["Resources"], block) for node in self._ray.nodes() if node["Alive"]
        )

    def _places_of(self, has: dict[str, float], block: Block) -> int:
        if block.kind and f"accelerator_type:{block.kind}" not in has:
            return 0
        room = has.get("GPU", 0) // block.cards if block.cards else has.get("CPU", 0)
        return int(min(self._options.blocks_per_node, room)) if has.get("CPU", 0) >= 1 else 0

    def list_kinds(self) -> list[str]:
        """Return the kinds of card that machines which are there now have, by Ray's names."""
        names = (name for node in self._ray.nodes() if node["Alive"] for name in node["Resources"])
        return sorted({name.partition(":")[2] for name in names if name.startswith("accelerator_type:")})

    def submit(self, block: Block) -> Running:
        """Hand a block to Ray, which finds a place for it as soon as there is room."""
        asked: dict[str, Any] = {"num_gpus": block.cards} if block.cards else {}
        asked |= {"accelerator_type": block.kind} if block.kind else {}
        actor = self._actor.options(
            num_cpus=1, max_restarts=0, max_concurrency=2, resources={EXCLUSIVE: self._share}, **asked
        ).remote()
        return Running(block, actor, actor.find_place.remote())

    def wait(self, running: Sequence[Running], timeout_s: float) -> Running | None:
        """Return a block that has something to tell, or None when `timeout_s` have passed without."""
        by_answer = {one.answer: one for one in running}
        ready, _ = self._ray.wait(list(by_answer), num_returns=1, timeout=timeout_s)
        return by_answer[ready[0]] if ready else None

    def begin(self, running: Running, order: Order) -> None:
        """Let a block that has a place be measured there."""
        running.answer = running.actor.measure.options(num_returns="streaming").remote(order)

    def next_message(self, running: Running) -> Place | Message | None:
        """Return what a block that has something to tell tells: its place first; None where it has told everything.

        Raises:
            LostError: its machine or process is gone, or its code failed there.

        """
        try:
            if running.place is None:
                running.place = self._ray.get(running.answer)
                return running.place
            message: Message = self._ray.get(next(running.answer))
        except StopIteration:
            return None
        except self._ray.exceptions.RayError as error:
            raise LostError(_explain(error)) from None
        return message

    def end(self, running: Running) -> None:
        """Ask a block that has begun to end in order."""
        running.actor.end.remote()

    def drop(self, running: Running) -> None:
        """Give up a block that has not begun, or that has ended."""
        self._ray.kill(running.actor)


@contextmanager
def connect(options: FleetOptions, root: Path) -> Iterator[Cluster]:
    """Start Ray on this machine, or join a running cluster; leave it in the end.

    Raises:
        InputError: Ray is not installed, or no cluster answers at the address.

    """
    # Ray prints the logs of a raylet that was lost to standard output, which may carry events.
    with (
        Path(os.devnull).open("w") as nowhere,
        redirect_stdout(nowhere),
        _started_here() if options.address is None else _joined(options, root) as ray,
    ):
        try:
            yield Cluster(ray, options)
        finally:
            ray.shutdown()


@contextmanager
def _started_here() -> Iterator[Any]:
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    ray = _import_ray()
    folder = tempfile.mkdtemp(prefix="study-ray-")
    try:
        # Its own name for "this machine alone": a RAY_ADDRESS in the environment does not count.
        ray.init(
            address="local",
            include_dashboard=False,
            object_store_memory=STORE_BYTES,
            log_to_driver=False,
            logging_level="ERROR",
            _temp_dir=folder,
        )
        yield ray
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _joined(options: FleetOptions, root: Path) -> Iterator[Any]:
    address = str(options.address)
    ray = _import_ray()
    _check_answers(address)
    try:
        ray.init(
            address=address,
            runtime_env=_runtime_environment(options, root),
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (OSError, RuntimeError, ValueError) as error:
        said = shown(str(error).strip().splitlines()[0]) if str(error).strip() else type(error).__name__
        raise InputError(f"address '{shown(address)}': {said}; --address auto or host:port of its head works") from None
    yield ray


def _check_answers(address: str) -> None:
    """Refuse an address where nothing listens; Ray itself would try for minutes."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=ANSWER_S).close()
    except (OSError, OverflowError) as error:
        reason = getattr(error, "strerror", None) or "no such address"
        raise InputError(
            f"address '{shown(address)}': nothing answers there ({reason}); `ray start --head` prints the address"
        ) from None


def _runtime_environment(options: FleetOptions, root: Path) -> dict[str, Any]:
    """Return how a machine gets the project: from its shared folder, or sent by Ray without data and results."""
    if options.shared is not None:
        known = os.environ.get("PYTHONPATH")
        return {"env_vars": {"PYTHONPATH": os.pathsep.join([options.shared, *([known] if known else [])])}}
    others = [path.name for path in root.iterdir() if path.name not in SHIPPED]
    return {"working_dir": str(root), "excludes": [*(f"/{name}" for name in others), "__pycache__", "*.ipynb"]}


def _import_ray() -> Any:  # noqa: ANN401 (a module)
    try:
        import ray
        import ray.exceptions
    except ImportError:
        raise InputError("Ray is not installed; `pip install .[fleet]` installs it, on every machine") from None
    return ray


def _explain(error: Exception) -> str:
    """Return one line of what Ray says of a lost block: the error's kind, or what the code there said."""
    cause = getattr(error, "cause", None)
    kind = type(cause if isinstance(cause, Exception) else error).__name__
    lines = [line.strip() for line in str(cause or error).splitlines() if line.strip()]
    return f"{kind}: {shown(lines[0])}" if lines else kind
