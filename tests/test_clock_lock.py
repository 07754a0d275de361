"""Locked clocks, on fakes alone: set on request, read back, undone whatever ends the session."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_nvml
import pynvml
import pytest
from fake_clock_lock import CardFile

from study.design.parameters import make_parameters
from study.errors import InputError, StudyError
from study.measure.clock_lock import ClockLock, note_path, undo_abandoned
from study.measure.gpu import GpuReader
from study.measure.telemetry import HostReader, Sampler
from study.measure.thermal_load import Watch, read_lock_back
from study.runner import RunOptions, run_session
from study.store import Store

ROOT = Path(__file__).parent.parent
COMMAND = (sys.executable, str(ROOT / "tests/fake_clock_lock.py"))
LOCKED = {"session": "throttled", "throttle": "clock_lock", "clock_lock_mhz": 600}


@pytest.fixture
def card(tmp_path, brief_rest, monkeypatch):
    """A card in a file, and a temporary folder of its own for the notes."""
    monkeypatch.setenv("FAKE_CARD", str(tmp_path / "card.json"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return CardFile(tmp_path / "card.json")


def wait_until(condition, deadline_s=10.0):
    deadline = time.monotonic() + deadline_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def test_a_lock_is_set_and_undone(card):
    lock = ClockLock.hold(fake_nvml.UUID, 600, COMMAND)
    assert card.read()["locked_mhz"] == 600
    assert lock.held()
    lock.release()
    lock.release()
    assert card.read()["calls"] == ["lock 600-600", "reset"]
    assert not note_path(fake_nvml.UUID).exists()


def test_without_permission_nothing_is_set_and_one_line_says_so(card):
    card.path.write_text(json.dumps({"calls": [], "refuse": pynvml.NVML_ERROR_NO_PERMISSION}))
    with pytest.raises(InputError, match=r"clock_lock_mhz 600: .*Insufficient Permissions.*soak"):
        ClockLock.hold(fake_nvml.UUID, 600, COMMAND)
    assert card.read()["calls"] == []
    assert not note_path(fake_nvml.UUID).exists()


def test_clocks_that_somebody_set_before_are_left_alone(card):
    card.path.write_text(json.dumps({"calls": [], "reasons": 0x2}))
    with pytest.raises(InputError, match="somebody has set clocks"):
        ClockLock.hold(fake_nvml.UUID, 600, COMMAND)
    assert card.read()["calls"] == []


def test_another_sessions_lock_is_left_alone(card):
    lock = ClockLock.hold(fake_nvml.UUID, 600, COMMAND)
    with pytest.raises(InputError, match="another session"):
        ClockLock.hold(fake_nvml.UUID, 900, COMMAND)
    assert card.read()["locked_mhz"] == 600
    lock.release()


def test_a_holder_that_was_killed_leaves_the_duty_to_the_runner(card):
    lock = ClockLock.hold(fake_nvml.UUID, 600, COMMAND)
    lock._holder.kill()
    lock._holder.wait()
    assert not lock.held()
    lock.release()
    assert card.read()["calls"] == ["lock 600-600", "reset"]


def test_a_card_that_does_not_take_the_lock_back_is_named(card, monkeypatch):
    lock = ClockLock.hold(fake_nvml.UUID, 600, COMMAND)
    lock._holder.kill()
    lock._holder.wait()
    lock._command = (sys.executable, "-c", "")
    with pytest.raises(StudyError, match=f"nvidia-smi -i {fake_nvml.UUID} -rgc"):
        lock.release()


HOLD = """
import sys
from study.measure.clock_lock import ClockLock
lock = ClockLock.hold(sys.argv[1], 600, sys.argv[2:])
print(lock._holder.pid, flush=True)
import time; time.sleep(60)
"""


def start_owner():
    """Start a process that holds a lock; return it and its holder's id."""
    owner = subprocess.Popen([sys.executable, "-c", HOLD, fake_nvml.UUID, *COMMAND], stdout=subprocess.PIPE, cwd=ROOT)
    return owner, int(owner.stdout.readline())


def end(owner):
    owner.kill()
    owner.wait()
    owner.stdout.close()


def test_a_lock_is_undone_within_five_seconds_of_a_runner_that_was_killed(card):
    owner, _ = start_owner()
    end(owner)
    assert wait_until(lambda: card.read()["locked_mhz"] is None, 5.0)
    assert wait_until(lambda: not note_path(fake_nvml.UUID).exists())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_to_the_holder_does_not_end_it(card, number):
    owner, holder = start_owner()
    os.kill(holder, number)
    time.sleep(0.2)
    assert card.read()["locked_mhz"] == 600
    end(owner)
    assert wait_until(lambda: card.read()["locked_mhz"] is None)


def test_a_lock_whose_runner_and_holder_were_both_killed_is_undone_by_the_next_runner(card):
    owner, holder = start_owner()
    os.kill(holder, signal.SIGKILL)
    end(owner)
    assert card.read()["locked_mhz"] == 600
    assert undo_abandoned(COMMAND) == [fake_nvml.UUID]
    assert card.read()["locked_mhz"] is None
    assert undo_abandoned(COMMAND) == []


def test_a_lock_of_a_runner_that_lives_is_not_touched(card):
    lock = ClockLock.hold(fake_nvml.UUID, 600, COMMAND)
    assert undo_abandoned(COMMAND) == []
    assert card.read()["locked_mhz"] == 600
    lock.release()


class Slices:
    """A watch on a card that has a clock of its own choice in each slice of load."""

    def __init__(self, reader, clocks_mhz, card):
        self.reader, self.clocks, self.card = reader, iter(clocks_mhz), card
        self.watch = Watch(fake_nvml.FakeClock(), self.make)

    def make(self):
        self.card.sm_clock_mhz = next(self.clocks)
        return Sampler(self.reader, HostReader(), wait=lambda _s: True)


@pytest.mark.parametrize(
    ("clocks", "status"), [([615], "reached"), ([1980, 1980, 600], "reached"), ([1980] * 3, "timed_out")]
)
def test_the_lock_is_read_back_under_load(clocks, status):
    made = fake_nvml.FakeCard()
    slices = Slices(GpuReader.open(None, fake_nvml.FakeNvml(made)), clocks, made)
    gate = read_lock_back(slices.reader, lambda: None, 600, slices.watch)
    assert (gate.kind, gate.status, gate.sm_clock_mhz) == ("clock_lock", status, clocks[-1])
    assert gate.target_source == "SM clock locked at 600 MHz"


def test_a_card_that_tells_no_clock_gives_no_read_back():
    made = fake_nvml.FakeCard(failures={"nvmlDeviceGetClockInfo": pynvml.NVML_ERROR_NOT_SUPPORTED})
    slices = Slices(GpuReader.open(None, fake_nvml.FakeNvml(made)), [600] * 3, made)
    gate = read_lock_back(slices.reader, lambda: None, 600, slices.watch)
    assert (gate.status, gate.sm_clock_mhz) == ("unavailable", None)


def run_locked(values, clock_mhz, monkeypatch):
    monkeypatch.setattr("study.measure.launch.run_canary", lambda *_arguments: (None, "not measured here"))
    reader = GpuReader.open(None, fake_nvml.FakeNvml(fake_nvml.FakeCard(sm_clock_mhz=clock_mhz)))
    asked = {**values, "device": "cuda", "levels": ["O0"], "users": [1], "cool_to_c": 90, **LOCKED}
    keywords = {"open_gpu": lambda _gpu: reader, "lock_command": COMMAND}
    return run_session(make_parameters(asked), ROOT, RunOptions(), **keywords)


def test_a_locked_session_records_what_was_read_back_and_unlocks(card, fake_vllm, small_study, monkeypatch):
    assert run_locked(small_study, 600, monkeypatch) == 0
    records = Store(Path(small_study["data_dir"]), "small").read()
    assert (records.runs[0].gate.kind, records.runs[0].gate.status) == ("clock_lock", "reached")
    assert records.launches[0].comparable["clock_lock_mhz"] == 600
    assert card.read()["calls"] == ["lock 600-600", "reset"]


def test_a_lock_that_the_card_does_not_obey_is_no_throttling(card, fake_vllm, small_study, monkeypatch):
    from study.analyze.validity import judge_run

    run_locked(small_study, 1980, monkeypatch)
    records = Store(Path(small_study["data_dir"]), "small").read()
    assert records.runs[0].gate.status == "timed_out"
    assert "not_throttled" in judge_run(records.runs[0], records.launches[0]).reasons


def test_no_permission_stops_the_session_before_a_server(card, fake_vllm, small_study, monkeypatch):
    card.path.write_text(json.dumps({"calls": [], "refuse": pynvml.NVML_ERROR_NO_PERMISSION}))
    with pytest.raises(InputError, match="Insufficient Permissions"):
        run_locked(small_study, 600, monkeypatch)
    assert Store(Path(small_study["data_dir"]), "small").read().launches == ()


def test_a_session_that_fails_unlocks(card, fake_vllm, small_study, monkeypatch):
    def fail(*_arguments):
        raise RuntimeError("a fault of the harness")

    monkeypatch.setattr("study.runner.make_plan", fail)
    with pytest.raises(RuntimeError, match="fault of the harness"):
        run_locked(small_study, 600, monkeypatch)
    assert card.read()["calls"] == ["lock 600-600", "reset"]


def test_a_lock_above_the_cards_highest_clock_is_refused(card, fake_vllm, small_study, monkeypatch):
    with pytest.raises(InputError, match="clock_lock_mhz 600 is above this card's highest SM clock, 500 MHz"):
        monkeypatch.setattr(fake_nvml.FakeNvml, "nvmlDeviceGetMaxClockInfo", lambda *_arguments: 500)
        run_locked(small_study, 600, monkeypatch)
    assert card.read()["calls"] == []


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"clock_lock_mhz": None}, "needs clock_lock_mhz"),
        ({"session": "cooled"}, "session: throttled"),
        ({"device": "cpu"}, "device: cuda"),
        ({"throttle": "soak"}, "clock_lock_mhz 600 does nothing without"),
    ],
)
def test_a_lock_that_is_asked_for_in_part_is_refused(change, named):
    with pytest.raises(InputError, match=named):
        make_parameters({"study": "s", "model": "m", **LOCKED, **change})


def test_sessions_locked_at_two_clocks_are_not_comparable_and_others_keep_their_fingerprint():
    plain = make_parameters({"study": "s", "model": "m"})
    locked = [make_parameters({"study": "s", "model": "m", **LOCKED, "clock_lock_mhz": mhz}) for mhz in (600, 900)]
    assert "clock_lock_mhz" not in plain.comparable()
    assert locked[0].comparable() != locked[1].comparable()
