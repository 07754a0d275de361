"""The runner: carries out what is left of a session's plan, one launch after the other.

Faults of one launch or run become records and the session goes on; unusable input ends it. A signal, or the parent's
closed pipe, ends the launch in hand in order: its server is stopped and its record written as `interrupted`.
"""

import json
import os
import signal
import stat
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from study.design.levels import Level, select_levels
from study.design.parameters import Parameters, fingerprint
from study.design.plan import Plan, PlannedLaunch, PlannedRun, make_plan
from study.design.pool import read_pool
from study.errors import InputError
from study.measure.gpu import GpuReader
from study.measure.launch import Launch
from study.measure.machine import read_machine
from study.measure.model import prepare_model
from study.measure.redact import redact_log
from study.measure.server import find_port
from study.measure.server_spec import check_server_flags
from study.measure.setting import Interrupted, Setting
from study.progress import remaining_launches, seen_seconds
from study.records import LaunchRecord, Outcome, RunRecord, SessionRecord
from study.store import Store, StudyRecords, check_comparable

CORES_KEPT = 2
"""Cores for the client and the sampler where the machine has at least twice as many; the server gets the rest."""


@dataclass(frozen=True)
class RunOptions:
    """How a session is run, apart from what it measures."""

    detach: bool = False
    events: bool = False
    time_limit_s: float | None = None


@dataclass
class Tally:
    """What was recorded in this call, and the time the plan takes."""

    total_s: float
    done_s: float = 0.0
    launches: int = 0
    runs: int = 0
    failed: int = 0
    left: int = 0


def run_session(
    parameters: Parameters,
    root: Path,
    options: RunOptions,
    open_gpu: Callable[[str | int | None], GpuReader] = GpuReader.open,
) -> int:
    """Carry out what is left of a session; return the exit code.

    Raises:
        InputError: something in the input or the machine makes the session impossible; nothing was measured.

    """
    _check_input(parameters, root)
    store = Store(root / parameters.data_dir, parameters.study)
    with store.lock(), _ended_by_signals(options.detach):
        _close_left_open(store, root)
        records = _records_so_far(store, parameters)
        levels = select_levels(parameters.levels, root)
        _record_session(store, records, parameters, levels)
        plan = make_plan(parameters, levels, seen_seconds(records))
        reader = open_gpu(parameters.gpu) if parameters.device == "cuda" else None
        try:
            setting = _make_setting(parameters, root, store, reader, options)
            return _carry_out(plan, records, setting, _Reporter(plan, parameters.study, options))
        finally:
            if reader:
                reader.close()


def _check_input(parameters: Parameters, root: Path) -> None:
    """Refuse what can be refused before anything is started."""
    check_server_flags(parameters.server_flags)
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


def _close_left_open(store: Store, root: Path) -> None:
    """Write the records of launches that a runner left open when it was killed."""
    reason = "the runner was killed"
    for record in store.read_open():
        digest = redact_log(store.log_path(record.launch_id), root)
        changes = {"outcome": Outcome(status="interrupted", stage="serve", message=reason), "log_sha256": digest}
        missing = {name: why for name, why in record.missing.items() if name != "log_sha256"}
        if digest is None:
            missing["log_sha256"] = "the log is not there"
        store.write(record.model_copy(update={**changes, "missing": missing}))


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


def _carry_out(plan: Plan, records: StudyRecords, setting: Setting, reporter: "_Reporter") -> int:
    """Make the launches that are left, in order."""
    machine = setting.machine
    _reuse_target(setting, records)
    left = list(remaining_launches(plan, records, machine.unit, machine.hostname_sha256))
    reporter.begin(left)
    setting.tell_run = reporter.run
    while left:
        planned = left[0]
        if plan.estimates_s[planned.key] > setting.time_left_s():
            break
        reporter.launch(planned)
        launch = Launch(setting, planned, setting.next_attempt(planned.key))
        try:
            reporter.launched(planned, launch.perform())
        except Interrupted:
            reporter.end(left, "ended early, everything measured is kept; the same command resumes")
            return 1
        if launch.cut_short:
            break
        left.pop(0)
    return reporter.end(left, None)


def _reuse_target(setting: Setting, records: StudyRecords) -> None:
    """Keep the gate's temperature that this study measured on this card before."""
    if setting.target_c is not None:
        return
    for launch in records.launches:
        if launch.machine.unit == setting.machine.unit and launch.gate.target_c is not None:
            setting.target_c, setting.target_source = launch.gate.target_c, launch.gate.target_source
            return


class _Reporter:
    """Tells how far the session is: lines for a person, JSON lines for a program."""

    def __init__(self, plan: Plan, study: str, options: RunOptions) -> None:
        self._plan = plan
        self._events = options.events
        self._study = study
        self.tally = Tally(plan.estimate_s())

    def begin(self, left: list[PlannedLaunch]) -> None:
        left_s = sum(self._plan.estimates_s[launch.key] for launch in left)
        self.tally.done_s = self.tally.total_s - left_s
        self._say("plan", f"{len(left)} launches left, about {left_s / 60:.0f} minutes")

    def launch(self, planned: PlannedLaunch) -> None:
        what = "unmeasured start" if planned.fills_caches else f"block {planned.block}"
        self._say("launch", f"{what}, {planned.level.name}: starting")

    def run(self, planned: PlannedRun, record: RunRecord) -> None:
        self.tally.runs += 1
        self.tally.failed += record.outcome.status != "ok"
        launch = next(item for item in self._plan.launches if planned in item.runs)
        self.tally.done_s += 0.5 * self._plan.estimates_s[launch.key] / len(launch.runs)
        ended = "" if record.outcome.status == "ok" else f" {record.outcome.status}: {record.outcome.message}"
        self._say("run", f"block {planned.block}, {planned.level}, {planned.users} users{ended}")

    def launched(self, planned: PlannedLaunch, record: LaunchRecord) -> None:
        self.tally.launches += 1
        self.tally.failed += record.outcome.status != "ok"
        self.tally.done_s += self._plan.estimates_s[planned.key] * (0.5 if planned.runs else 1.0)
        if record.outcome.status != "ok":
            self._say("launch", f"{planned.level.name} failed at {record.outcome.stage}: {record.outcome.message}")

    def end(self, left: list[PlannedLaunch], why: str | None) -> int:
        tally = self.tally
        tally.left = len(left)
        if why is None:
            why = "the plan is complete" if not left else "the time limit came; the same command goes on"
        message = f"{tally.launches} launches and {tally.runs} runs recorded now, {tally.failed} failed; {why}"
        self._say("end", message)
        return 1 if tally.failed and not (tally.launches + tally.runs - tally.failed) else 0

    def _say(self, event: str, message: str) -> None:
        if not self._events:
            print(message, flush=True)
            return
        facts = {name: getattr(self.tally, name) for name in Tally.__dataclass_fields__}
        print(json.dumps({"event": event, "message": message, "study": self._study, **facts}), flush=True)


@contextmanager
def _ended_by_signals(detach: bool) -> Iterator[None]:
    """Turn SIGINT, SIGTERM and the closing of the parent's pipe into `Interrupted`, once."""

    def interrupt(_number: int, _frame: object) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        raise Interrupted

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    if not detach and _has_pipe():
        threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        yield
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
