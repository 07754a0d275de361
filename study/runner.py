"""The runner: carries out what is left of a session's plan, one launch after the other.

Faults of one launch or run become records and the session goes on; unusable input ends it. A signal, or the parent's
closed pipe, ends the launch in hand in order: its server is stopped and its record written as `interrupted`. What a
runner that was killed has left on the machine, the next one ends, removes and closes first.
"""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from study.arrival import add_session, finish_arrivals
from study.design.card_count import count_cards_of_levels
from study.design.levels import Level, select_levels
from study.design.parameters import Parameters
from study.design.plan import PlannedLaunch, make_plan
from study.design.pool import read_pool
from study.errors import InputError
from study.measure.canary import run_canary
from study.measure.cards import open_cards
from study.measure.clock_lock import COMMAND, ClockLocks, undo_abandoned
from study.measure.ending import Interrupted
from study.measure.flags import check_known_flags, request_of
from study.measure.gpu import GpuReader
from study.measure.launch import CANARY_TIMEOUT_S, Launch
from study.measure.launch_cards import make_up_canaries
from study.measure.left_out import LeftOut, check_left_out, comparable_with
from study.measure.leftovers import end_orphans, remove_leftovers
from study.measure.machine import read_machine
from study.measure.model import prepare_model
from study.measure.redact import redact_log
from study.measure.refusals import check_asked
from study.measure.server import find_port
from study.measure.setting import Setting
from study.measure.signals import ended_by_signals
from study.progress import Reporter, expect_as_seen, remaining_launches, seen_seconds
from study.records import Outcome, SessionRecord
from study.store import Store, StudyRecords, check_comparable

RUNNER_KILLED = "the runner was killed"
ENDED_EARLY = "ended early, everything measured is kept; the same command resumes"
KILLED_LEFT = "some launches were killed from outside, everything measured is kept; the same command makes them again"
CORES_KEPT = 2
"""Cores for the client and the sampler where the machine has at least twice as many; the server gets the rest."""


@dataclass(frozen=True)
class RunOptions:
    """How a session is run, apart from what it measures."""

    detach: bool = False
    events: bool = False
    time_limit_s: float | None = None
    left_out: LeftOut | None = None
    """Only for measuring the study itself: such a session's runs are never valid."""


def run_session(
    parameters: Parameters,
    root: Path,
    options: RunOptions,
    open_gpu: Callable[[str | int | None], GpuReader] = GpuReader.open,
    lock_command: Sequence[str] = COMMAND,
) -> int:
    """Carry out what is left of a session; return the exit code.

    Args:
        parameters: what is asked for.
        root: the project's folder.
        options: how the session is run.
        open_gpu: opens a card.
        lock_command: starts the holder of a clock lock.

    Raises:
        InputError: something in the input or the machine makes the session impossible, or has to be mended before it
            goes on; what was measured is kept.

    """
    _check_input(parameters, root)
    check_left_out(parameters, options.left_out)
    store = Store(root / parameters.data_dir, parameters.study)
    with store.lock(), ended_by_signals(options.detach) as ending, ExitStack() as stack:
        _clear_up(lock_command)
        finish_arrivals(store)
        _records_so_far(store, comparable_with(parameters, options.left_out))
        readers: tuple[GpuReader, ...] = ()
        if parameters.device == "cuda":
            count = count_cards_of_levels(parameters.server_flags, select_levels(parameters.levels, root))
            readers = stack.enter_context(open_cards(parameters.gpu, count, open_gpu))
        setting = _make_setting(parameters, root, store, readers, options)
        setting.ending = ending
        try:
            records = _close_left_open(store, setting)
            if parameters.throttle == "clock_lock":
                setting.clock_lock = stack.enter_context(_locked_clock(setting, lock_command))
            return _carry_out(store, records, setting, options)
        except Interrupted:
            return 1


def _clear_up(lock_command: Sequence[str]) -> None:
    """End and remove what runners that are dead have left on this machine: ours alone."""
    killed = end_orphans()
    if killed:
        print(f"ended processes that a dead runner left: {', '.join(map(str, killed))}", file=sys.stderr)
    remove_leftovers()
    for uuid in undo_abandoned(lock_command):
        print(f"undid the clock lock that a dead runner left on {uuid}", file=sys.stderr)


@contextmanager
def _locked_clock(setting: Setting, command: Sequence[str]) -> Iterator[ClockLocks]:
    """Hold the clock lock that the parameters ask for, on every card of the server."""
    asked, machine = setting.parameters.clock_lock_mhz, setting.machine
    assert asked is not None  # noqa: S101 (as the parameters were checked)
    highest = [machine.max_sm_clock_mhz, *(card.max_sm_clock_mhz for card in machine.further_cards)]
    told = [mhz for mhz in highest if mhz is not None]
    if told and asked > min(told):
        raise InputError(f"clock_lock_mhz {asked} is above this card's highest SM clock, {min(told):.0f} MHz")
    lock = ClockLocks.hold([reader.uuid for reader in setting.readers], asked, command)
    try:
        yield lock
    finally:
        lock.release()


def _check_input(parameters: Parameters, root: Path) -> None:
    """Refuse what can be refused before anything is started."""
    check_asked(parameters, select_levels(parameters.levels, root))
    find_port(parameters.port)
    if parameters.pool != "generated":
        read_pool(root / parameters.pool)
    if find_spec("vllm") is None:
        raise InputError("vLLM is not installed in this Python; `make rehearsal` or `make study` installs it")


def _records_so_far(store: Store, comparable: dict[str, Any]) -> StudyRecords:
    """Return what the store holds, refusing a study of other parameters by the field that differs."""
    records = store.read()
    if records.launches:
        check_comparable(records.launches[0].comparable, comparable, "this session")
    return records


def record_session(
    store: Store, known: tuple[SessionRecord, ...], parameters: Parameters, levels: tuple[Level, ...], number: str
) -> None:
    """Keep what was asked for, unless the last session asked for the same.

    Args:
        store: where it is kept.
        known: the sessions that are there.
        parameters: what was asked for.
        levels: the levels, in their order.
        number: fingerprint of what makes the session's runs comparable.

    """
    record = SessionRecord(
        study=parameters.study,
        fingerprint=number,
        session_id="1",
        asked=parameters.model_dump(mode="json", exclude={"data_dir"}),
        levels=[level.model_dump(mode="json") for level in levels],
    )
    add_session(store, record, known, known[-1:])


def _close_left_open(store: Store, setting: Setting) -> StudyRecords:
    """Write the records of launches that a runner left open when it was killed; return all there are.

    What such a launch has measured needs the canary after it, which is made up for here on the same machine.
    """
    records = store.read()
    served = {run.launch_id for run in records.runs if run.outcome.status == "ok"}
    opened = store.read_open()
    for record in opened:
        digest = redact_log(store.log_path(record.launch_id), setting.root)
        changes: dict[str, Any] = {"outcome": Outcome(status="interrupted", stage="serve", message=RUNNER_KILLED)}
        changes |= {"log_sha256": digest, "canary_after": record.canary_after}
        here = (record.machine.unit, record.machine.hostname_sha256)
        if record.launch_id in served and here == (setting.machine.unit, setting.machine.hostname_sha256):
            with setting.ending:
                changes |= make_up_canaries(setting, record, run_canary, CANARY_TIMEOUT_S)
        reasons = {"log_sha256": "the log is not there", "canary_after": RUNNER_KILLED}
        missing = {name: why for name, why in record.missing.items() if name not in reasons}
        missing |= {name: why for name, why in reasons.items() if changes[name] is None}
        store.write(record.model_copy(update={**changes, "missing": missing}))
    return store.read() if opened else records


def _make_setting(
    parameters: Parameters, root: Path, store: Store, readers: tuple[GpuReader, ...], options: RunOptions
) -> Setting:
    ends = None if options.time_limit_s is None else time.monotonic() + options.time_limit_s
    return Setting(
        parameters=parameters,
        root=root,
        model=prepare_model(parameters.model, parameters.load_format, root),
        machine=read_machine(parameters.device, readers),
        readers=readers,
        server_cores=_share_cores(),
        write=store.write,
        keep_open=store.write_open,
        log_path=store.log_path,
        next_attempt=store.next_attempt,
        time_left_s=lambda: float("inf") if ends is None else ends - time.monotonic(),
        targets_c=() if parameters.cool_to_c is None else (parameters.cool_to_c,) * len(readers),
        target_source="parameter cool_to_c" if parameters.cool_to_c is not None else None,
        left_out=options.left_out,
    )


def _share_cores() -> tuple[int, ...]:
    """Keep this process and the client on two cores of their own where there are enough; return the server's."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2 * CORES_KEPT:
        return ()
    os.sched_setaffinity(0, cores[-CORES_KEPT:])
    return tuple(cores[:-CORES_KEPT])


def _carry_out(store: Store, records: StudyRecords, setting: Setting, options: RunOptions) -> int:
    """Make the launches that are left, in order; one that was killed from outside is left for the same command."""
    levels = select_levels(setting.parameters.levels, setting.root)
    record_session(store, records.sessions, setting.parameters, levels, setting.fingerprint)
    plan = make_plan(setting.parameters, levels, seen_seconds(records))
    reporter = Reporter(plan, setting.parameters.study, options.events)
    _reuse_target(setting, records)
    left = list(remaining_launches(plan, records, setting.machine.unit, setting.machine.hostname_sha256))
    killed: list[PlannedLaunch] = []
    expected_s = dict(plan.estimates_s)
    reporter.begin(left)
    setting.tell_run = reporter.run
    try:
        with setting.ending:
            if left:
                _ask_about_flags(setting, levels)
    except Interrupted:
        return reporter.end(left, ENDED_EARLY)
    while left:
        planned = left[0]
        if expected_s[planned.key] > setting.time_left_s():
            break
        reporter.launch(planned)
        began_s = time.monotonic()
        launch = Launch(setting, planned, setting.next_attempt(planned.key))
        try:
            record = launch.perform()
        except Interrupted:
            return reporter.end([*killed, *left], ENDED_EARLY)
        reporter.launched(planned, record)
        if launch.cut_short:
            break
        left.pop(0)
        if record.outcome.status == "ok":
            expect_as_seen(expected_s, planned, time.monotonic() - began_s, left)
        killed += [planned] if record.outcome.status == "interrupted" else []
    return reporter.end([*killed, *left], KILLED_LEFT if killed else None)


def _ask_about_flags(setting: Setting, levels: tuple[Level, ...]) -> None:
    """Have all flags checked: beside the first start, or ahead of it where starts are measured, undisturbed."""
    flags = setting.parameters.server_flags
    if setting.parameters.measure == "start":
        check_known_flags(levels, flags, setting.root)
    else:
        setting.flags_to_check = request_of(levels, flags)


def _reuse_target(setting: Setting, records: StudyRecords) -> None:
    """Keep the gate's temperatures that this study measured on the same cards before."""
    for launch in records.launches:
        if launch.machine.uuids == setting.machine.uuids:
            setting.reuse_targets(launch.gate)
