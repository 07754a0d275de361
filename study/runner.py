"""The runner: carries out what is left of a session's plan, one launch after the other.

Faults of one launch or run become records and the session goes on; unusable input ends it. A signal, or the parent's
closed pipe, ends the launch in hand in order: its server is stopped and its record written as `interrupted`. What a
runner that was killed has left on the machine, the next one ends, removes and closes first.
"""

import os
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from study.design.levels import Level, select_levels
from study.design.parameters import Parameters, fingerprint
from study.design.plan import PlannedLaunch, make_plan
from study.design.pool import read_pool
from study.errors import InputError
from study.measure.canary import run_canary
from study.measure.clock_lock import COMMAND, ClockLock, undo_abandoned
from study.measure.ending import Ending, Interrupted
from study.measure.flags import check_known_flags
from study.measure.gpu import GpuReader
from study.measure.launch import CANARY_TIMEOUT_S, Launch
from study.measure.leftovers import end_orphans, remove_leftovers
from study.measure.machine import read_machine
from study.measure.model import prepare_model
from study.measure.redact import redact_log
from study.measure.refusals import check_asked
from study.measure.server import find_port
from study.measure.setting import Setting
from study.progress import Reporter, remaining_launches, seen_seconds
from study.records import Canary, Outcome, SessionRecord
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
        open_gpu: opens the card.
        lock_command: starts the holder of a clock lock.

    Raises:
        InputError: something in the input or the machine makes the session impossible, or has to be mended before it
            goes on; what was measured is kept.

    """
    _check_input(parameters, root)
    store = Store(root / parameters.data_dir, parameters.study)
    with store.lock(), _ended_by_signals(options.detach) as ending, ExitStack() as stack:
        _clear_up(lock_command)
        _records_so_far(store, parameters)
        reader = stack.enter_context(closing(open_gpu(parameters.gpu))) if parameters.device == "cuda" else None
        setting = _make_setting(parameters, root, store, reader, options)
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
def _locked_clock(setting: Setting, command: Sequence[str]) -> Iterator[ClockLock]:
    """Hold the clock lock that the parameters ask for."""
    asked, highest = setting.parameters.clock_lock_mhz, setting.machine.max_sm_clock_mhz
    assert asked is not None and setting.reader is not None  # noqa: S101 (as the parameters were checked)
    if highest is not None and asked > highest:
        raise InputError(f"clock_lock_mhz {asked} is above this card's highest SM clock, {highest:.0f} MHz")
    lock = ClockLock.hold(setting.reader.uuid, asked, command)
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


def _records_so_far(store: Store, parameters: Parameters) -> StudyRecords:
    """Return what the store holds, refusing a study of other parameters by the field that differs."""
    records = store.read()
    if records.launches:
        check_comparable(records.launches[0].comparable, parameters.comparable(), "this session")
    return records


def _record_session(
    store: Store, records: StudyRecords, parameters: Parameters, levels: tuple[Level, ...]
) -> None:
    """Keep what was asked for, unless the last session asked for the same."""
    asked = parameters.model_dump(mode="json", exclude={"data_dir"})
    shapes = [level.model_dump(mode="json") for level in levels]
    known = records.sessions
    if known and (known[-1].asked, known[-1].levels) == (asked, shapes):
        return
    number = fingerprint(parameters.comparable())
    record = SessionRecord(
        study=parameters.study, fingerprint=number, session_id=str(len(known) + 1), asked=asked, levels=shapes
    )
    store.write(record)


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
            changes["canary_after"] = _make_up_canary(setting)
        reasons = {"log_sha256": "the log is not there", "canary_after": RUNNER_KILLED}
        missing = {name: why for name, why in record.missing.items() if name not in reasons}
        missing |= {name: why for name, why in reasons.items() if changes[name] is None}
        store.write(record.model_copy(update={**changes, "missing": missing}))
    return store.read() if opened else records


def _make_up_canary(setting: Setting) -> Canary | None:
    with setting.ending:
        setting.last_canary, _ = run_canary(
            setting.parameters.device, setting.machine.gpu_uuid, CANARY_TIMEOUT_S, time.monotonic
        )
    return setting.last_canary


def _make_setting(
    parameters: Parameters, root: Path, store: Store, reader: GpuReader | None, options: RunOptions
) -> Setting:
    ends = None if options.time_limit_s is None else time.monotonic() + options.time_limit_s
    return Setting(
        parameters=parameters,
        root=root,
        model=prepare_model(parameters.model, parameters.load_format, root),
        machine=read_machine(parameters.device, reader),
        reader=reader,
        server_cores=_share_cores(),
        write=store.write,
        keep_open=store.write_open,
        log_path=store.log_path,
        next_attempt=store.next_attempt,
        time_left_s=lambda: float("inf") if ends is None else ends - time.monotonic(),
        target_c=parameters.cool_to_c,
        target_source="parameter cool_to_c" if parameters.cool_to_c is not None else None,
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
    _record_session(store, records, setting.parameters, levels)
    plan = make_plan(setting.parameters, levels, seen_seconds(records))
    reporter = Reporter(plan, setting.parameters.study, options.events)
    _reuse_target(setting, records)
    left = list(remaining_launches(plan, records, setting.machine.unit, setting.machine.hostname_sha256))
    killed: list[PlannedLaunch] = []
    reporter.begin(left)
    setting.tell_run = reporter.run
    try:
        with setting.ending:
            if left:
                check_known_flags(levels, setting.parameters.server_flags, setting.root)
    except Interrupted:
        return reporter.end(left, ENDED_EARLY)
    while left:
        planned = left[0]
        if plan.estimates_s[planned.key] > setting.time_left_s():
            break
        reporter.launch(planned)
        launch = Launch(setting, planned, setting.next_attempt(planned.key))
        try:
            record = launch.perform()
        except Interrupted:
            return reporter.end([*killed, *left], ENDED_EARLY)
        reporter.launched(planned, record)
        if launch.cut_short:
            break
        left.pop(0)
        killed += [planned] if record.outcome.status == "interrupted" else []
    return reporter.end([*killed, *left], KILLED_LEFT if killed else None)


def _reuse_target(setting: Setting, records: StudyRecords) -> None:
    """Keep the gate's temperature that this study measured on this card before."""
    if setting.target_c is not None:
        return
    for launch in records.launches:
        if launch.machine.unit == setting.machine.unit and launch.gate.target_c is not None:
            setting.target_c, setting.target_source = launch.gate.target_c, launch.gate.target_source
            return


@contextmanager
def _ended_by_signals(detach: bool) -> Iterator[Ending]:
    """Let SIGINT, SIGTERM, SIGHUP and the closing of the parent's pipe ask the session to end, once."""
    ending = Ending()
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` asks for
        numbers.append(signal.SIGHUP)

    def ask(_number: int, _frame: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        ending.ask()

    before = {number: signal.signal(number, ask) for number in numbers}
    if not detach and _has_pipe():
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        yield ending
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _has_pipe() -> bool:
    """Whether standard input is a pipe that a parent holds (it may be closed, a terminal or a file)."""
    try:
        return stat.S_ISFIFO(os.fstat(0).st_mode)
    except OSError:
        return False


def _end_with_parent() -> None:
    """Wait until standard input closes, then end this process in order."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
