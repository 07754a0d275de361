"""Faults of the machine and of the card: full and read-only disks, clocks that jump, cards that vanish or are taken."""

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import fake_nvml
import psutil
import pynvml
import pytest

from study.check import check_study
from study.design.parameters import make_parameters
from study.errors import InputError
from study.measure.card_memory import find_held, wait_until_free
from study.measure.gpu import GpuReader
from study.measure.machine import read_machine
from study.measure.telemetry import Sampler
from study.measure.thermal import as_found, measure_idle, wait_until_cool
from study.runner import RunOptions, run_session
from study.store import Store

TESTS = Path(__file__).parent
ROOT = TESTS.parent
ONE = {"levels": ["O0"], "users": [1]}


@pytest.fixture
def quick(fake_vllm, brief_rest, monkeypatch):
    """Sessions in this process without a canary and a long rest, in others with short ones."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (TESTS / "fake_vllm", TESTS, ROOT))))
    monkeypatch.setattr("study.measure.launch.run_canary", lambda *_arguments: (None, "not measured here"))
    return fake_vllm


def run(values, open_gpu=None):
    keywords = {"open_gpu": open_gpu} if open_gpu else {}
    return run_session(make_parameters(values), ROOT, RunOptions(), **keywords)


def store_of(values):
    return Store(Path(values["data_dir"]), values["study"])


def command(values, tmp_path):
    file = tmp_path / "parameters.yaml"
    file.write_text(json.dumps(values))
    return [sys.executable, str(TESTS / "chaos/fake_session.py"), str(file)]


def servers():
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            ours = process.environ().get("STUDY_TEST_MARK") == os.environ["STUDY_TEST_MARK"]
            if ours and "vllm.entrypoints" in " ".join(process.cmdline()):
                found.append(process.pid)
    return found


def wait_until(condition, deadline_s):
    deadline = time.monotonic() + deadline_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def assert_complete(values):
    """The resume has done what is left, and the folder is whole."""
    assert run(values) == 0
    assert [item.outcome.status for item in store_of(values).read().runs if item.outcome.status == "ok"] == ["ok"]
    assert check_study(store_of(values)) == []


def test_a_server_that_ignores_signals_is_gone_five_seconds_after_its_runner_was_killed(quick, small_study, tmp_path):
    quick.setenv("FAKE_VLLM_FAULT", "stubborn")
    quick.setenv("FAKE_VLLM_START_S", "60")
    runner = subprocess.Popen(command(small_study | ONE, tmp_path), cwd=ROOT, stdout=subprocess.DEVNULL)
    assert wait_until(servers, 60.0)
    time.sleep(0.5)  # the guard starts it with ordinary signals, which it gives up then
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    killed_s = time.monotonic()
    assert wait_until(lambda: not servers(), 20.0)
    assert time.monotonic() - killed_s <= 5.0


def test_a_client_whose_requests_hang_dies_with_its_runner(quick, small_study, tmp_path):
    quick.setenv("FAKE_VLLM_LOAD", "hang")
    quick.setenv("FAKE_VLLM_TRACE", str(tmp_path / "trace"))
    runner = subprocess.Popen(command(small_study | ONE, tmp_path), cwd=ROOT, stdout=subprocess.DEVNULL)
    trace = tmp_path / "trace"
    assert wait_until(lambda: trace.is_file() and "warm_up" in trace.read_text(), 60.0)
    client = int(next(line for line in trace.read_text().splitlines() if line.startswith("warm_up")).split()[1])
    runner.kill()
    runner.wait()
    assert wait_until(lambda: not psutil.pid_exists(client), 5.0)


def test_a_reader_of_the_runners_lines_that_is_gone_costs_no_launch(quick, small_study, tmp_path):
    asked = small_study | ONE
    pipes = {"stdout": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    with subprocess.Popen(command(asked, tmp_path), cwd=ROOT, **pipes) as runner:
        runner.stdout.close()  # as of a notebook that died beside a detached session
        assert runner.wait(timeout=120) == 0
    assert [launch.outcome.status for launch in store_of(asked).read().launches] == ["ok"]


@pytest.mark.parametrize("limit", [2_000, 6_000], ids=["journal", "record"])
def test_a_full_disk_is_one_line_and_the_same_command_goes_on(quick, small_study, tmp_path, limit):
    """A limit on file size gives the write the same error path as a full disk, without a disk of its own."""

    def limit_files():
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))

    asked = small_study | ONE | {"output_tokens": 100, "waves": 8}  # a run's record of 8 kB, a launch's of 4
    done = subprocess.run(
        command(asked, tmp_path), cwd=ROOT, capture_output=True, text=True, preexec_fn=limit_files, timeout=120
    )
    assert done.returncode == 2
    assert len(done.stderr.strip().splitlines()) == 1
    assert "File too large" in done.stderr
    assert servers() == []
    assert_complete(asked)


def test_a_folder_that_cannot_be_made_is_one_line(small_study, fake_vllm):
    with pytest.raises(InputError, match="nowhere/raw/small' cannot be made"):
        run(small_study | {"data_dir": "/proc/self/nowhere"})


def test_a_folder_that_cannot_be_written_any_more_is_one_line_and_the_same_command_goes_on(
    quick, small_study, tmp_path
):
    quick.setenv("FAKE_VLLM_START_S", "2")
    asked = small_study | ONE
    raw = store_of(asked).raw
    runner = subprocess.Popen(command(asked, tmp_path), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert wait_until(servers, 60.0)
    with no_writing(raw):
        _, errors = runner.communicate(timeout=60)
    assert runner.returncode == 2
    assert "cannot be written" in errors
    assert len(errors.strip().splitlines()) == 1
    assert servers() == []
    assert_complete(asked)


@contextlib.contextmanager
def no_writing(folder):
    """Take away the right to write, from root too where the file system can."""
    folder.chmod(0o555)
    try:
        if os.getuid() == 0 and subprocess.run(["chattr", "+i", folder], capture_output=True).returncode:
            pytest.skip("root can write everywhere on this file system")
        yield
    finally:
        if os.getuid() == 0:
            subprocess.run(["chattr", "-i", folder], capture_output=True)
        folder.chmod(0o755)


def test_a_wall_clock_that_jumps_changes_nothing(quick, small_study, tmp_path):
    asked = small_study | ONE
    path = os.pathsep.join([str(ROOT / "tests/clock_jumps"), os.environ["PYTHONPATH"]])
    done = subprocess.run(
        command(asked, tmp_path), cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    records = store_of(asked).read()
    (launch,) = records.launches
    assert launch.outcome.status == "ok"
    assert 0 < launch.first_token_s - launch.spawn_s < 60
    assert 0 <= records.runs[0].gate.waited_s < 60
    assert records.runs[0].server.same_server


class VanishingNvml(fake_nvml.FakeNvml):
    """A card that falls off the bus after so many calls."""

    def __init__(self, card, calls):
        super().__init__(card)
        self.left = calls

    def _answer(self, call, card=None, number=None):
        self.left -= 1
        if self.left == 0:
            self.cards[0].vanish()
        super()._answer(call, card, number)


@pytest.mark.parametrize("calls", [30, 60, 90])
def test_a_card_that_vanishes_ends_no_session(quick, small_study, calls):
    reader = GpuReader.open(None, VanishingNvml(fake_nvml.FakeCard(), calls))
    asked = small_study | ONE | {"device": "cuda", "cool_to_c": 90}
    assert run(asked, lambda _gpu: reader) == 0
    (item,) = store_of(asked).read().runs
    assert item.outcome.status == "ok"
    gone = item.telemetry.missing.get("temperature_c", "") + str(item.telemetry.field_errors)
    assert "lost" in gone.lower()


CALLS = sorted(name for name in vars(fake_nvml.FakeNvml) if name.startswith("nvmlDeviceGet"))
CALLS = [name for name in CALLS if name not in ("nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex")]


@pytest.mark.parametrize("code", [pynvml.NVML_ERROR_NOT_SUPPORTED, pynvml.NVML_ERROR_TIMEOUT])
@pytest.mark.parametrize("call", [*CALLS, "*"])
def test_no_failing_call_ends_a_reading(call, code):
    card, clock = fake_nvml.FakeCard(), fake_nvml.FakeClock()
    reader = GpuReader.open(None, fake_nvml.FakeNvml(card))
    card.failures[call] = code
    gates = [wait_until_cool(reader, 60, 1.0, clock, clock.sleep), as_found(reader, clock)]
    assert all(gate.temperature_c is not None or gate.missing["temperature_c"] for gate in gates)
    idle = measure_idle(reader, clock, clock.sleep, settle=False)
    assert idle.idle_power_w is not None or idle.missing["idle_power_w"]
    sampler = Sampler(reader)
    sampler.start()
    telemetry = sampler.stop()
    for name in ("sm_clock_mhz", "temperature_c", "event_reasons"):
        assert getattr(telemetry, name) is not None or telemetry.missing[name]
    find_held(reader)
    read_machine("cuda", reader)


def test_memory_that_a_stranger_holds_is_waited_for(monkeypatch):
    card, clock = fake_nvml.FakeCard(used_gib=100.0), fake_nvml.FakeClock()
    reader = GpuReader.open(None, fake_nvml.FakeNvml(card))

    def give_back(_length_s):
        card.used_gib = 1.0 if clock.now_s > 110 else card.used_gib

    clock.on_sleep.append(give_back)
    assert wait_until_free(reader, 60.0, clock, clock.sleep) is None
    assert 110 < clock.now_s < 112


def test_a_stranger_that_stays_is_named_when_the_wait_is_over():
    card, clock = fake_nvml.FakeCard(used_gib=100.0, pids=[os.getpid(), 999_999_999]), fake_nvml.FakeClock()
    held = wait_until_free(GpuReader.open(None, fake_nvml.FakeNvml(card)), 60.0, clock, clock.sleep)
    name = psutil.Process().name()
    assert str(held) == f"100.0 GiB of GPU memory are held by process {os.getpid()} ({name}), process 999999999"
    assert clock.now_s >= 160


@pytest.mark.parametrize("used_gib", [2.0, 7.0])
def test_a_drivers_or_a_desktops_share_is_nobodys(used_gib):
    assert find_held(GpuReader.open(None, fake_nvml.FakeNvml(fake_nvml.FakeCard(used_gib=used_gib)))) is None


def test_a_card_without_a_memory_figure_is_not_waited_for():
    card = fake_nvml.FakeCard(failures={"nvmlDeviceGetMemoryInfo": pynvml.NVML_ERROR_NOT_SUPPORTED})
    assert find_held(GpuReader.open(None, fake_nvml.FakeNvml(card))) is None


def test_a_taken_card_ends_the_session_with_a_record_and_the_same_command_goes_on(quick, small_study):
    card = fake_nvml.FakeCard(used_gib=100.0)
    asked = small_study | ONE | {"device": "cuda", "cool_to_c": 90, "cool_deadline_s": 0}
    with pytest.raises(InputError, match=r"100\.0 GiB of GPU memory are held"):
        run(asked, lambda _gpu: GpuReader.open(None, fake_nvml.FakeNvml(card)))
    (launch,) = store_of(asked).read().launches
    assert (launch.outcome.status, launch.outcome.stage) == ("interrupted", "gate")
    card.used_gib = 1.0
    assert run(asked, lambda _gpu: GpuReader.open(None, fake_nvml.FakeNvml(card))) == 0
    assert [item.outcome.status for item in store_of(asked).read().runs] == ["ok"]


def test_requests_that_hang_are_a_result_and_the_next_run_has_a_client_of_its_own(quick, small_study, monkeypatch):
    monkeypatch.setattr("study.measure.load.WAVE_DEADLINE_S", 1.0)
    quick.setenv("FAKE_VLLM_LOAD", "hang")
    run(small_study | {"levels": ["O0"]})
    runs = store_of(small_study).read().runs
    assert [item.outcome.status for item in runs] == ["failed", "failed"]
    assert {item.outcome.message for item in runs} == {"the load client did not answer within 1 s"}


def test_a_second_runner_is_refused_while_the_first_lives_and_not_after_it_was_killed(quick, small_study, tmp_path):
    quick.setenv("FAKE_VLLM_START_S", "60")
    asked = small_study | ONE
    runner = subprocess.Popen(command(asked, tmp_path), cwd=ROOT, stdout=subprocess.DEVNULL)
    assert wait_until(servers, 60.0)
    with pytest.raises(InputError, match="is being run by another process"):
        run(asked)
    runner.kill()
    runner.wait()
    quick.setenv("FAKE_VLLM_START_S", "0.1")
    assert_complete(asked)


@pytest.mark.parametrize("left", [".run-b1-O0-u1-s1-a1.json.77", ".launch-b1-O0-a1.log.77", ".open-b1-O0-a1.json.77"])
def test_parts_of_files_are_removed_by_the_next_runner(small_study, left):
    store = store_of(small_study)
    store.raw.mkdir(parents=True)
    (store.raw / left).write_text("{")
    (store.raw / ".keep").write_text("")
    with store.lock():
        assert not (store.raw / left).exists()
        assert (store.raw / ".keep").exists()


def test_a_journal_beside_the_record_that_closed_it_is_removed(quick, small_study):
    asked = small_study | ONE
    run(asked)
    store = store_of(asked)
    (record,) = store.read().launches
    store.write_open(record)  # as of a runner that was killed between the two
    assert_complete(asked)
    assert store.open_files() == []
