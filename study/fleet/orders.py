"""Orders: what goes along with a block to the machine that measures it."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

from study.design.parameters import Parameters
from study.fleet.asked import FleetOptions
from study.fleet.blocks import Block
from study.fleet.node import Order, versions_here
from study.fleet.surroundings import is_forwarded
from study.measure.machine import read_study_commit
from study.records import LaunchRecord
from study.store import Store

UNLIKE = ("nvidia-ml-py",)
"""Versions that may differ between machines: they read a card, and change nothing that is measured."""


@dataclass(frozen=True)
class Request:
    """What a fleet is asked for; `ends_s` is when nothing new is to begin, on this machine's monotonic clock."""

    parameters: Parameters
    options: FleetOptions
    root: Path
    ends_s: float | None = None


class OrderBook:
    """Makes orders out of what was asked for and what the store holds.

    Attributes:
        begun: number of a block: the cards that measured something of it (`Machine.unit`).

    """

    def __init__(self, request: Request, store: Store) -> None:
        self._request = request
        self._store = store
        self.begun: dict[int, set[str]] = {}
        self._latest: dict[str, str] = {}
        self._environment = _environment_to_send(request.root)
        self._versions = {name: version for name, version in versions_here().items() if name not in UNLIKE}

    def know(self, launch: LaunchRecord) -> None:
        """Note a launch of the store: the latest of each card goes along, since its gate's temperature is kept."""
        if not launch.fills_caches:
            self.begun.setdefault(launch.block, set()).add(launch.machine.unit)
        if launch.gate.target_c is not None:
            self._latest[launch.machine.unit] = f"launch-{launch.launch_id}.json"

    def make(self, block: Block) -> Order:
        """Return the order for a block as things are now."""
        options, ends_s = self._request.options, self._request.ends_s
        here = None if options.address else str(self._request.root)
        return Order(
            parameters=block.parameters.model_dump_json(),
            study=self._store.study,
            records=self._records_for(block),
            environment=self._environment,
            versions=self._versions,
            root=options.shared or here,
            ends_unix_s=None if ends_s is None else time.time() + ends_s - time.monotonic(),
        )

    def _records_for(self, block: Block) -> dict[str, bytes]:
        """Return the files that the runner decides by: all of this block, cache fills, one launch of each card."""
        runs = tuple(f"run-b{seed}-" for seed in block.parameters.seeds)
        starts = (f"launch-b{block.number}-", "launch-fill-", *runs)
        paths = [*self._store.record_files("launch"), *self._store.record_files("run")]
        wanted = [path for path in paths if path.name.startswith(starts) or path.name in self._latest.values()]
        return {path.name: path.read_bytes() for path in wanted}


def _environment_to_send(root: Path) -> dict[str, str]:
    """Return what servers see of this environment, and the commit, which a copy of the project does not know."""
    commit, _ = read_study_commit(root)
    told = {"STUDY_COMMIT": commit} if commit else {}
    return {name: value for name, value in os.environ.items() if is_forwarded(name)} | told
