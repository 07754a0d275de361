"""The driver: hands the blocks that are left to the machines, stores what comes back, and begins a lost block again.

    store -> blocks left -> order -> [ machine ] -> finished launches -> store

The driver alone writes to the store and holds its lock. A launch comes whole or not at all, so a lost machine costs the
launch that it had in hand. Whether a block goes on or is begun again is the runner's own rule: the same card goes on,
another one begins again. So which block a place takes is decided when it is found: one that its card began, if any.
"""

import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path

from study.arrival import finish_arrivals, receive_launch
from study.design.levels import Level, select_levels
from study.design.parameters import Parameters, fingerprint
from study.design.pool import read_pool
from study.errors import InputError
from study.fleet.asked import FleetOptions
from study.fleet.blocks import Block, choose_block, describe_fleet, describe_need, list_blocks
from study.fleet.cluster import Cluster, LostError, Running, connect
from study.fleet.node import Brought, Ended, Message, Place, Told
from study.fleet.orders import OrderBook, Request
from study.fleet.telling import FleetReporter
from study.measure.ending import Ending
from study.measure.refusals import check_asked
from study.measure.signals import ended_by_signals
from study.records import LaunchRecord
from study.runner import ENDED_EARLY, record_session
from study.store import Store, StudyRecords, check_comparable

WAIT_S = 0.5
END_S = 120.0
"""How long machines may take to end in order: a server's stop, and a canary in short where a run was measured."""

Connect = Callable[[FleetOptions, Path], AbstractContextManager[Cluster]]


def run_fleet(parameters: Parameters, root: Path, options: FleetOptions, connect_to: Connect = connect) -> int:
    """Measure what is left of a study on the machines of a Ray cluster; return the exit code.

    Args:
        parameters: what is asked for.
        root: the project's folder.
        options: how the fleet is run.
        connect_to: opens the cluster.

    Raises:
        InputError: something in the input, or on a machine, has to be mended first; what was measured is kept.

    """
    levels = select_levels(parameters.levels, root)
    check_asked(parameters, levels)
    if parameters.pool != "generated":
        read_pool(root / parameters.pool)
    store = Store(root / parameters.data_dir, parameters.study)
    with store.lock():
        finish_arrivals(store)
        records = _read(store, parameters)
        blocks = list_blocks(parameters, levels, records, options)
        reporter = FleetReporter(parameters.study, options.events, sys.stdout)
        with connect_to(options, root) as cluster, ended_by_signals(detach=False) as ending:
            ends_s = None if options.time_limit_s is None else time.monotonic() + options.time_limit_s
            request = Request(parameters, options, root, ends_s)
            fleet = _Fleet(request, store, cluster, ending, reporter, OrderBook(request, store))
            for launch in records.launches:
                fleet.know(launch)
            _check_places(cluster, blocks, options)
            record_session(store, records.sessions, parameters, levels, fingerprint(parameters.comparable()))
            places = max((cluster.count_places(block) for block in blocks), default=0)
            reporter.begin(blocks, describe_fleet(parameters.study, blocks, places))
            fleet.measure(blocks)
            return fleet.finish(levels)


def _read(store: Store, parameters: Parameters) -> StudyRecords:
    """Return what the store holds, refusing a study of other parameters, or one with a launch left open."""
    records = store.read()
    if records.launches:
        check_comparable(records.launches[0].comparable, parameters.comparable(), "this fleet")
    for path in store.open_files():
        name = path.stem.removeprefix("open-")
        raise InputError(f"launch '{name}' was left open by a runner that was killed; `study run` closes it")
    return records


def _check_places(cluster: Cluster, blocks: tuple[Block, ...], options: FleetOptions) -> None:
    """Refuse what this machine alone can never do; a cluster may grow, so there it is waited for."""
    for block in blocks if options.address is None else ():
        if not cluster.count_places(block):
            kinds = ", ".join(cluster.list_kinds()) or "none"
            raise InputError(
                f"block {block.number} needs {describe_need(block)}, which this machine does not have "
                f"(kinds of card here: {kinds}); --address joins a cluster"
            )


@dataclass
class _Fleet:
    """The blocks of one call, and what has become of them."""

    request: Request
    store: Store
    cluster: Cluster
    ending: Ending
    reporter: FleetReporter
    orders: OrderBook
    first: LaunchRecord | None = None
    running: list[Running] = field(default_factory=list)
    ended: dict[int, Ended] = field(default_factory=dict)
    tries: dict[int, int] = field(default_factory=dict)
    given_up: list[int] = field(default_factory=list)
    refusal: InputError | None = None
    end_asked_s: float | None = None

    def know(self, launch: LaunchRecord) -> None:
        """Note a launch that is in the store."""
        self.first = self.first or launch
        self.orders.know(launch)

    def measure(self, blocks: tuple[Block, ...]) -> None:
        """Have the blocks measured, until all are, or the fleet is asked to end."""
        for block in blocks:
            self._submit(block)
        while self.running:
            self._ask_to_end()
            ready = self.cluster.wait(self.running, WAIT_S) if self.running else None
            if ready is not None:
                self._hear(ready)
            elif self.end_asked_s is not None and time.monotonic() > self.end_asked_s + END_S:
                break
        for running in self.running:
            self.cluster.drop(running)

    def finish(self, levels: tuple[Level, ...]) -> int:
        """Look at what the store holds now, tell it, and return the exit code.

        Raises:
            InputError: a machine refused its input.

        """
        if self.refusal is not None:
            raise self.refusal
        left = list_blocks(self.request.parameters, levels, self.store.read(), self.request.options)
        why = ENDED_EARLY if self.ending.asked and left else None
        if self.given_up:
            numbers = ", ".join(map(str, sorted(self.given_up)))
            why = f"given up: block {numbers}; everything measured is kept, the same command tries again"
        return self.reporter.end(left, why)

    def _submit(self, block: Block) -> None:
        self.tries[block.number] = self.tries.get(block.number, 0) + 1
        self.running.append(self.cluster.submit(block))

    def _hear(self, running: Running) -> None:
        """Take what a block tells; its stream ends after the runner's end, or because its machine was lost."""
        block = running.block
        try:
            message = self.cluster.next_message(running)
            if message is not None:
                self._take(running, message)
                return
            why = "lost without a word"
        except LostError as error:
            where = f" on {running.place.machine}" if running.place else ""
            why = f"lost{where} ({error})"
        except InputError as error:
            self.refusal = self.refusal or error
            why = str(error)
        self._close(running)
        ended = self.ended.pop(block.number, None)
        if ended is None:
            self._begin_again(block, why)
        else:
            self._end_block(block, ended)

    def _take(self, running: Running, message: Place | Message) -> None:
        block = running.block
        match message:
            case Place():
                block = self._choose_for(running, message)
                # Made no sooner: what other blocks have brought meanwhile is in it, cache fills of that machine say.
                self.cluster.begin(running, self.orders.make(block))
                began = self.orders.begun.get(block.number)
                goes_on = message.unit in began if began and message.unit else None
                self.reporter.block_began(block, message, self.tries[block.number], goes_on)
            case Told():
                self.reporter.say("run", f"{running.place.machine if running.place else '?'}: {message.message}")
            case Brought():
                record = receive_launch(self.store, message.files, self.first)
                if record is not None:
                    self.know(record)
                    self.reporter.launch_came(block, record, message.files)
            case Ended():
                self.ended[block.number] = message

    def _choose_for(self, running: Running, place: Place) -> Block:
        """Return the block that suits a place's card best; the one that was meant for it waits on in its stead."""
        waiting = [running, *(one for one in self.running if one.place is None)]
        chosen = choose_block([one.block for one in waiting], self.orders.begun, place.unit)
        other = next(one for one in waiting if one.block is chosen)
        other.block, running.block = running.block, chosen
        return chosen

    def _end_block(self, block: Block, ended: Ended) -> None:
        if ended.code == InputError.exit_code:
            self.refusal = self.refusal or InputError(f"block {block.number}: {ended.message}")
        elif ended.left == 0:
            self.reporter.block_done(block)
        elif ended.code != 0:
            self._begin_again(block, ended.message)

    def _begin_again(self, block: Block, why: str) -> None:
        """Hand a block to Ray once more, unless its tries are spent or the fleet is to end."""
        if self.ending.asked or self.refusal is not None:
            return
        tries, most = self.tries[block.number], self.request.options.retries + 1
        if tries >= most:
            self.given_up.append(block.number)
            self.reporter.say("lost", f"block {block.number}: {why}; given up after try {tries} of {most}")
            return
        self.reporter.say("lost", f"block {block.number}: {why}; begun again, try {tries + 1} of {most}")
        self._submit(block)

    def _close(self, running: Running) -> None:
        self.running.remove(running)
        self.cluster.drop(running)

    def _ask_to_end(self) -> None:
        """Once the fleet is to end: give up what has not begun, and let the rest end in order."""
        if self.end_asked_s is not None:
            return
        stop = self.ending.asked or self.refusal is not None
        late = self.request.ends_s is not None and time.monotonic() > self.request.ends_s
        for running in list(self.running) if stop or late else ():
            if running.place is None:
                self._close(running)
            elif stop:
                self.cluster.end(running)
        if stop:
            self.end_asked_s = time.monotonic()
