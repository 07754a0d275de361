"""Locked SM clocks (`throttle: clock_lock`): set on request alone, read back, undone whatever happens.

    python -m study.measure.clock_lock GPU-... --mhz 600      lock; undo when standard input closes
    python -m study.measure.clock_lock GPU-... --undo         undo

A process of its own, the holder, sets the lock and takes it back when the runner's pipe closes, whatever ended the
runner. A holder that was killed leaves the duty to the runner, and a runner that was killed with it leaves a note in
the temporary folder, which the next runner follows.

NVML tells no locked clocks: there is a call to set them and one to reset them, and none to ask (nvidia-ml-py 13). What
it does tell is the event reason *application clocks setting*, and an application clock other than the card's default.
Where either shows that somebody has set clocks before, nothing is locked: they could not be restored.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

import pynvml

from study.design.card_facts import name_card
from study.errors import InputError, StudyError
from study.measure.processes import MARK, make_mark, read_owner
from study.measure.server_spec import with_package

APPLICATION_CLOCKS = 0x2
"""Event reason: clocks are set by somebody. NVML's `nvmlClocksEventReasonApplicationsClocksSetting`."""
NOTE_PREFIX = "study-clock-lock-"
COMMAND = (sys.executable, "-m", "study.measure.clock_lock")
UNDO_DEADLINE_S = 30.0
ADVICE = "it needs root, or a driver that lets users set clocks; throttle: soak needs neither"


class ClockLock:
    """The lock of one card, held by a process of its own; make one with `ClockLock.hold`."""

    def __init__(self, uuid: str, mhz: int, command: Sequence[str]) -> None:
        self.mhz = mhz
        self._uuid = uuid
        self._command = command
        self._mark = make_mark()
        self._holder = subprocess.Popen(
            [*command, uuid, "--mhz", str(mhz)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=_environment(self._mark),
            text=True,
            start_new_session=True,
        )

    @classmethod
    def hold(cls, uuid: str, mhz: int, command: Sequence[str] = COMMAND) -> "ClockLock":
        """Lock the SM clock of a card at `mhz` until `release`, or until this process is gone.

        Raises:
            InputError: no permission, no such card, or clocks that somebody set before; nothing is locked then.

        """
        lock = cls(uuid, mhz, command)
        assert lock._holder.stdout is not None  # noqa: S101 (asked for above)
        line = lock._holder.stdout.readline()
        if '"locked"' not in line:
            lock.release()
            said = json.loads(line)["error"] if line.endswith("\n") else "the process that holds the lock ended at once"
            raise InputError(f"clock_lock_mhz {mhz}: {said}")
        return lock

    def held(self) -> bool:
        """Whether the holder is there; a lock without one would outlive this session."""
        return self._holder.poll() is None

    def release(self) -> None:
        """Undo the lock; a second call does nothing.

        Raises:
            StudyError: the card did not take the lock back.

        """
        if self._holder.stdin is None or self._holder.stdin.closed:
            return
        try:
            self._holder.communicate(timeout=UNDO_DEADLINE_S)
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.communicate()
        if _read_note(note_path(self._uuid)) == self._mark:
            undo(self._uuid, self._command)


class ClockLocks:
    """The locks of all cards of a server, at one clock: all are held, or none; make one with `ClockLocks.hold`."""

    def __init__(self, mhz: int, locks: Sequence[ClockLock]) -> None:
        self.mhz = mhz
        self._locks = locks

    @classmethod
    def hold(cls, uuids: Sequence[str], mhz: int, command: Sequence[str] = COMMAND) -> "ClockLocks":
        """Lock the SM clock of every card at `mhz` until `release`, or until this process is gone.

        Raises:
            InputError: a card refuses (`ClockLock.hold`), and is named where there are several; nothing is locked then.

        """
        locks: list[ClockLock] = []
        for place, uuid in enumerate(uuids):
            try:
                locks.append(ClockLock.hold(uuid, mhz, command))
            except InputError as error:
                cls(mhz, locks).release()
                raise InputError(str(error) if len(uuids) == 1 else f"{name_card(place, uuids)}: {error}") from None
        return cls(mhz, locks)

    def held(self) -> bool:
        """Whether every holder is there."""
        return all(lock.held() for lock in self._locks)

    def release(self) -> None:
        """Undo every lock, whatever becomes of another.

        Raises:
            StudyError: a card did not take its lock back.

        """
        failed: list[str] = []
        for lock in self._locks:
            try:
                lock.release()
            except StudyError as error:
                failed.append(str(error))
        if failed:
            raise StudyError("; ".join(failed))


def note_path(uuid: str) -> Path:
    """Return where it is noted that a card's clocks are locked, and by which runner."""
    return Path(tempfile.gettempdir()) / f"{NOTE_PREFIX}{uuid}"


def _read_note(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace")
    except OSError:
        return ""


def undo(uuid: str, command: Sequence[str] = COMMAND) -> None:
    """Take a lock back from a process of its own.

    Raises:
        StudyError: the card did not take it back.

    """
    done = subprocess.run(
        [*command, uuid, "--undo"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env=_environment(make_mark()),
        text=True,
        timeout=UNDO_DEADLINE_S,
        check=False,
    )
    if '"undone"' not in done.stdout:
        raise StudyError(f"clocks of {uuid} may still be locked; undo it with: nvidia-smi -i {uuid} -rgc")


def _environment(mark: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": with_package(os.environ), MARK: mark}


def undo_abandoned(command: Sequence[str] = COMMAND) -> list[str]:
    """Undo locks whose runner and holder are both gone; return the cards' UUIDs."""
    undone = []
    for note in sorted(Path(tempfile.gettempdir()).glob(f"{NOTE_PREFIX}*")):
        if note.is_symlink() or note.stat().st_uid != os.getuid():
            continue
        owner = read_owner(_read_note(note))
        if owner is not None and not owner.alive():
            uuid = note.name.removeprefix(NOTE_PREFIX)
            undo(uuid, command)
            undone.append(uuid)
    return undone


def set_before(nvml: ModuleType, card: object) -> str:
    """Return what shows that somebody has set clocks on the card, empty for nothing."""
    try:
        if nvml.nvmlDeviceGetCurrentClocksEventReasons(card) & APPLICATION_CLOCKS:
            return "its event reasons name a clock setting"
        target = nvml.nvmlDeviceGetApplicationsClock(card, nvml.NVML_CLOCK_GRAPHICS)
        default = nvml.nvmlDeviceGetDefaultApplicationsClock(card, nvml.NVML_CLOCK_GRAPHICS)
    except nvml.NVMLError:
        return ""  # a card without application clocks has none set
    return "" if target == default else f"its application clock is {target} MHz, not {default}"


def main(arguments: Sequence[str] | None = None, nvml: ModuleType = pynvml) -> int:
    """Lock and wait, or undo; answers are JSON lines on standard output."""
    parser = argparse.ArgumentParser(prog="python -m study.measure.clock_lock", description="Locked SM clocks.")
    parser.add_argument("uuid")
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--mhz", type=int, help="lock the SM clock, until standard input closes")
    action.add_argument("--undo", action="store_true")
    options = parser.parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    try:
        nvml.nvmlInit()
        card = nvml.nvmlDeviceGetHandleByUUID(options.uuid)
        return _undo(nvml, card, options.uuid) if options.undo else _hold(nvml, card, options.uuid, options.mhz)
    except nvml.NVMLError as error:
        return _say(1, error=f"the clock cannot be set (NVML: {str(error).rstrip('.')}); {ADVICE}")


def _hold(nvml: ModuleType, card: object, uuid: str, mhz: int) -> int:
    """Lock, wait for the pipe's end, undo."""
    before = set_before(nvml, card) or ("another session holds a lock" if note_path(uuid).exists() else "")
    if before:
        how = "end that first: nvidia-smi -rgc and nvidia-smi -rac"
        return _say(1, error=f"somebody has set clocks on this card ({before}); {how}")
    # First the note, then the lock: a lock without a note would stay after both processes were killed.
    note_path(uuid).write_text(os.environ.get(MARK, ""), encoding="ascii")
    try:
        nvml.nvmlDeviceSetGpuLockedClocks(card, mhz, mhz)
    except nvml.NVMLError:
        note_path(uuid).unlink(missing_ok=True)
        raise
    try:
        _say(0, locked=mhz)
        while os.read(0, 4096):
            pass
    finally:
        code = _undo(nvml, card, uuid)
    return code


def _undo(nvml: ModuleType, card: object, uuid: str) -> int:
    nvml.nvmlDeviceResetGpuLockedClocks(card)
    note_path(uuid).unlink(missing_ok=True)
    return _say(0, undone=True)


def _say(code: int, **facts: object) -> int:
    try:
        print(json.dumps(facts), flush=True)
    except BrokenPipeError:
        # Nobody listens any more; what is left is not to fail over it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return code


if __name__ == "__main__":
    sys.exit(main())
