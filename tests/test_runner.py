"""Whole sessions on the stand-in for vLLM: real processes, guard, pipes and records; no figures worth anything."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import fake_nvml
import psutil
import pytest

from study import runner
from study.design.parameters import make_parameters
from study.design.plan import FIRST_START_S, STOP_AND_CANARY_S
from study.design.root import find_root
from study.errors import InputError, RecordError
from study.measure.gpu import GpuReader
from study.measure.launch import Launch
from study.runner import RunOptions, run_session
from study.store import Store

ROOT = find_root(Path(__file__).parent)


def run(values, open_gpu=None, **options):
    keywords = {"open_gpu": open_gpu} if open_gpu else {}
    return run_session(make_parameters(values), ROOT, RunOptions(**options), **keywords)


def read(values):
    return Store(Path(values["data_dir"]), values["study"]).read()


def servers():
    return [process for process in psutil.process_iter() if _is_ours(process)]


def _is_ours(process):
    """Whether it is a server that this test started: the mark in its environment tells."""
    try:
        mark = process.environ().get("STUDY_TEST_MARK")
        return mark == os.environ.get("STUDY_TEST_MARK") and "vllm.entrypoints" in " ".join(process.cmdline())
    except psutil.Error:
        return False


def start_runner(values, tmp_path, *options):
    file = tmp_path / "parameters.yaml"
    file.write_text(json.dumps(values))
    return subprocess.Popen(
        [sys.executable, "-m", "study", "run", "--parameters", str(file), "--events", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=ROOT,
        text=True,
    )


def wait_for_runs(values, count, deadline_s=60.0):
    folder = Path(values["data_dir"]) / "raw" / values["study"]
    deadline = time.monotonic() + deadline_s
    while len(list(folder.glob("run-*.json"))) < count and time.monotonic() < deadline:
        time.sleep(0.05)
    assert len(list(folder.glob("run-*.json"))) >= count


def wait_for_no_server(deadline_s=5.0):
    deadline = time.monotonic() + deadline_s
    while servers() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert servers() == []


def test_a_session_records_every_launch_and_run(fake_vllm, small_study):
    assert run(small_study) == 0
    records = read(small_study)
    assert [launch.launch_id for launch in records.launches] == ["b1-O0-a1", "b1-default-a1", "fill-default-a1"]
    assert sorted((item.level, item.users) for item in records.runs) == [
        ("O0", 1),
        ("O0", 2),
        ("default", 1),
        ("default", 2),
    ]
    launch = records.launches[0]
    assert launch.rehearsal
    assert launch.spawn_s < launch.healthy_s < launch.first_token_s < launch.stop_asked_s < launch.stopped_s
    assert (launch.stopped_by, launch.left_over) == ("SIGINT", [])
    assert launch.resolved["optimization_level"] == 0
    item = next(item for item in records.runs if item.users == 2)
    assert item.load.waves == 2
    assert len(item.load.requests.start_s) == 4
    assert item.load.requests.output_tokens == [8] * 4
    assert item.load.requests.input_tokens == [8] * 4
    assert sorted(item.load.requests.witness_us) == [0, 2]  # the first request of each wave
    assert item.telemetry.sm_clock_mhz is None
    assert item.telemetry.missing["sm_clock_mhz"]
    assert item.server.prefix_hits == 0
    assert servers() == []


@pytest.mark.usefixtures("made_canary")
def test_levels_of_a_block_get_the_same_prompts(fake_vllm, small_study):
    small_study["seeds"] = [1, 2]
    run(small_study)
    pools = {}
    for item in read(small_study).runs:
        pools.setdefault(item.block, set()).add(item.load.pool_sha256)
    assert all(len(hashes) == 1 for hashes in pools.values())
    assert pools[1] != pools[2]


@pytest.mark.usefixtures("made_canary")
def test_a_complete_session_measures_nothing_again(fake_vllm, small_study, capsys):
    run(small_study)
    before = read(small_study).files
    assert run(small_study) == 0
    assert read(small_study).files == before
    assert "0 launches and 0 runs recorded now" in capsys.readouterr().out


def test_no_key_and_no_folder_of_this_machine_stays_in_the_records(fake_vllm, small_study):
    run(small_study)
    for file in (Path(small_study["data_dir"]) / "raw" / "small").iterdir():
        text = file.read_text()
        assert str(ROOT) not in text
        assert "VLLM_API_KEY" not in text


@pytest.mark.usefixtures("made_canary")
@pytest.mark.parametrize(("fault", "stage"), [("die", "ready"), ("hang", "ready"), ("no_token", "first_token")])
def test_a_level_that_does_not_start_is_a_record_and_the_study_goes_on(fake_vllm, small_study, fault, stage):
    fake_vllm.setenv("FAKE_VLLM_FAULT", fault)
    fake_vllm.setenv("FAKE_VLLM_FAULT_LEVEL", "-O0")
    small_study["ready_deadline_s"] = 3
    assert run(small_study) == 0
    launches = {launch.level: launch for launch in read(small_study).launches if not launch.fills_caches}
    assert (launches["O0"].outcome.status, launches["O0"].outcome.stage) == ("failed", stage)
    assert launches["O0"].outcome.log_tail
    assert launches["O0"].kv_cache_blocks is None
    assert launches["O0"].missing["kv_cache_blocks"]
    assert launches["default"].outcome.status == "ok"
    assert {item.level for item in read(small_study).runs} == {"default"}
    assert servers() == []
    if fault == "die":
        assert "the fake model does not fit" in launches["O0"].outcome.message


def test_a_server_that_ignores_signals_is_killed(fake_vllm, small_study, monkeypatch):
    fake_vllm.setenv("FAKE_VLLM_FAULT", "stubborn")
    monkeypatch.setattr(
        "study.measure.server.STOP_DEADLINES_S", ((signal.SIGINT, 0.3), (signal.SIGTERM, 0.3), (signal.SIGKILL, 5.0))
    )
    small_study |= {"levels": ["O0"], "users": [1]}
    run(small_study)
    assert [launch.stopped_by for launch in read(small_study).launches] == ["SIGKILL"]
    assert servers() == []


@pytest.mark.parametrize("load", ["crash", "fail", "some", "short"])
def test_a_bad_load_is_recorded_as_it_was(fake_vllm, small_study, load):
    fake_vllm.setenv("FAKE_VLLM_LOAD", load)
    small_study |= {"levels": ["O0"], "users": [2]}
    run(small_study)
    (item,) = read(small_study).runs
    if load == "crash":
        assert item.outcome.status == "failed"
        assert "the fake benchmark broke" in item.outcome.message
        assert item.load is None
        assert tempfile.gettempdir() + "/" not in item.outcome.message  # where this machine keeps files
        return
    requests = item.load.requests
    assert item.outcome.status == "ok"
    assert requests.output_tokens == {"fail": [None] * 4, "some": [8, None, 8, 8], "short": [7] * 4}[load]
    assert requests.asked_tokens == [8] * 4
    if load != "short":
        assert requests.ttft_s[1] is None  # never 0
        assert requests.error[1] == "broken"


def test_a_closed_pipe_ends_the_session_in_order_and_the_same_command_resumes(fake_vllm, small_study, tmp_path):
    fake_vllm.setenv("FAKE_VLLM_START_S", "1")
    runner = start_runner(small_study, tmp_path)
    wait_for_runs(small_study, 1)
    runner.stdin.close()
    runner.stdout.read()
    runner.stdout.close()
    assert runner.wait(timeout=20) == 1
    wait_for_no_server()
    kept = {item.run_id for item in read(small_study).runs if item.outcome.status == "ok"}
    assert kept
    assert any(launch.outcome.status == "interrupted" for launch in read(small_study).launches)
    assert run(small_study) == 0
    done = [item for item in read(small_study).runs if item.outcome.status == "ok"]
    assert kept <= {item.run_id for item in done}
    assert sorted((item.level, item.users) for item in done) == [
        ("O0", 1),
        ("O0", 2),
        ("default", 1),
        ("default", 2),
    ]


def test_a_stop_that_has_begun_is_carried_to_its_end(fake_vllm, small_study, tmp_path):
    fake_vllm.setenv("FAKE_VLLM_STOP_S", "3")
    small_study |= {"levels": ["O0"], "users": [1]}
    runner = start_runner(small_study, tmp_path)
    wait_for_runs(small_study, 1)
    time.sleep(1)  # the server is being stopped now
    runner.stdin.close()
    runner.stdout.read()
    runner.stdout.close()
    assert runner.wait(timeout=20) == 0  # nothing was left to do
    (launch,) = read(small_study).launches
    assert (launch.outcome.status, launch.stopped_by, launch.left_over) == ("ok", "SIGINT", [])
    assert launch.canary_after is not None  # its run needs it
    assert servers() == []


def test_a_killed_runner_leaves_no_server_and_loses_no_run(fake_vllm, small_study, tmp_path):
    runner = start_runner(small_study, tmp_path)
    wait_for_runs(small_study, 1)
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    runner.stdin.close()
    runner.stdout.close()
    wait_for_no_server()
    folder = Path(small_study["data_dir"]) / "raw" / "small"
    kept = len(list(folder.glob("run-*.json")))
    assert kept >= 1
    assert list(folder.glob("open-*.json"))
    assert run(small_study) == 0
    assert not list(folder.glob("open-*.json"))
    records = read(small_study)
    assert len({(item.level, item.users) for item in records.runs if item.outcome.status == "ok"}) == 4
    assert all(records.launch_of(item) is not None for item in records.runs)


def test_a_detached_session_lives_on(fake_vllm, small_study, tmp_path):
    small_study |= {"levels": ["O0"], "users": [1]}
    runner = start_runner(small_study, tmp_path, "--detach")
    runner.stdin.close()
    runner.stdout.read()
    runner.stdout.close()
    assert runner.wait(timeout=60) == 0
    assert len(read(small_study).runs) == 1


def test_two_runners_on_one_study_are_one_too_many(fake_vllm, small_study):
    store = Store(Path(small_study["data_dir"]), "small")
    with store.lock(), pytest.raises(InputError, match="is being run by another process"):
        run(small_study)


@pytest.mark.usefixtures("made_canary")
def test_other_parameters_are_refused_by_the_field_that_differs(fake_vllm, small_study):
    run(small_study)
    with pytest.raises(RecordError, match="output_tokens 16"):
        run({**small_study, "output_tokens": 16})


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model": "./nowhere"}, "nowhere"),
        ({"server_flags": ["--port=80"]}, "--port"),
        ({"server_flags": ["--hf-token", "x"]}, "--hf-token"),
        ({"pool": "none.jsonl"}, r"none\.jsonl"),
        ({"levels": ["O9"]}, "O9"),
        ({"load_format": "auto"}, "load_format"),
    ],
)
def test_unusable_input_is_refused_before_a_server_starts(fake_vllm, small_study, change, named):
    with pytest.raises(InputError, match=named):
        run({**small_study, **change})
    assert not list((Path(small_study["data_dir"]) / "raw").glob("*/launch-*.json"))


def test_a_port_that_is_taken_is_refused_before_a_server_starts(fake_vllm, small_study):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} on 127.0.0.1 is taken"):
            run({**small_study, "port": port})


def test_a_model_folder_without_config_is_refused(fake_vllm, small_study, tmp_path):
    with pytest.raises(InputError, match=r"has no config\.json"):
        run({**small_study, "model": str(tmp_path)})


def test_the_time_limit_starts_nothing_that_would_not_fit(fake_vllm, small_study, capsys):
    assert run(small_study, time_limit_s=1.0) == 0
    assert "the time limit came" in capsys.readouterr().out
    assert read(small_study).launches == ()


class MovedClock:
    """The clock of the runner, moved on by hand as a gate does that nothing records."""

    moved_s = 0.0

    def monotonic(self):
        return time.monotonic() + self.moved_s


@pytest.mark.usefixtures("fake_vllm")
@pytest.mark.parametrize(("limit_s", "gate_s", "made"), [(85.0, 30.0, 2), (65.0, 40.0, 1)])
def test_the_time_limit_goes_by_what_a_launch_of_the_level_just_took(
    small_study, monkeypatch, limit_s, gate_s, made
):
    # The first guess is 60 s. After the first launch 85 - 30 s are left, less than the guess and more than it took;
    # or 65 - 40 s, less than it took with its gate and more than its server lived.
    monkeypatch.setitem(FIRST_START_S, "cpu", 60.0 - STOP_AND_CANARY_S["cpu"])
    clock, perform = MovedClock(), Launch.perform

    def perform_after_a_gate(launch):
        clock.moved_s += gate_s
        return perform(launch)

    monkeypatch.setattr(runner, "time", clock)
    monkeypatch.setattr(Launch, "perform", perform_after_a_gate)
    values = {**small_study, "levels": ["default"], "seeds": [1, 2], "cache": "cold", "measure": "start"}
    assert run(values, time_limit_s=limit_s) == 0
    assert len(read(values).launches) == made


@pytest.mark.usefixtures("brief_rest")
def test_a_session_on_a_card_reads_it_and_gates_on_its_idle_temperature(fake_vllm, small_study):
    card = fake_nvml.FakeCard(temperature_c=40)
    reader = GpuReader.open(None, fake_nvml.FakeNvml(card))
    small_study |= {"device": "cuda", "users": [1]}
    run(small_study, open_gpu=lambda _gpu: reader)
    records = read(small_study)
    assert not records.launches[0].rehearsal
    assert records.launches[0].machine.gpu_uuid == fake_nvml.UUID
    measured = [launch for launch in records.launches if not launch.fills_caches]
    assert {launch.idle_c for launch in measured} == {40}
    for item in records.runs:
        assert (item.gate.kind, item.gate.status, item.gate.target_c) == ("cooled", "reached", 43)
        assert item.telemetry.sm_clock_mhz is not None
        assert set(item.telemetry.sm_clock_mhz) == {1980}
    assert measured[0].canary_before is None  # no card here to measure it on
    assert measured[0].missing["canary_before"]


@pytest.mark.usefixtures("brief_rest")
def test_gpu_memory_that_a_stop_leaves_is_named(fake_vllm, small_study, monkeypatch):
    monkeypatch.setattr("study.measure.card_memory.MEMORY_DEADLINE_S", 0.3)
    card = fake_nvml.FakeCard(used_gib=2.0)
    reader = GpuReader.open(None, fake_nvml.FakeNvml(card))

    def canary(*_arguments):
        card.used_gib = 42.0  # what a server would take and not give back
        return None, "no torch"

    monkeypatch.setattr("study.measure.launch.run_canary", canary)
    small_study |= {"device": "cuda", "users": [1], "levels": ["O0"], "cool_to_c": 90}
    run(small_study, open_gpu=lambda _gpu: reader)
    assert read(small_study).launches[0].left_over == ["40.0 GiB of GPU memory"]


@pytest.mark.usefixtures("brief_rest", "made_canary")
def test_an_unfinished_block_is_begun_again_on_another_card(fake_vllm, small_study):
    small_study |= {"device": "cuda", "users": [1], "cool_to_c": 50}
    cards = [fake_nvml.FakeCard(), fake_nvml.FakeCard(uuid=fake_nvml.OTHER_UUID)]
    fake_vllm.setenv("FAKE_VLLM_FAULT", "")

    def reader(index):
        return lambda _gpu: GpuReader.open(None, fake_nvml.FakeNvml(cards[index]))

    run({**small_study, "levels": ["O0"]}, open_gpu=reader(0))
    run(small_study, open_gpu=reader(1))
    records = read(small_study)
    units = {launch.launch_id: launch.machine.gpu_uuid for launch in records.launches}
    done = sorted((item.level, units[item.launch_id]) for item in records.runs)
    assert done == [
        ("O0", fake_nvml.UUID),
        ("O0", fake_nvml.OTHER_UUID),
        ("default", fake_nvml.OTHER_UUID),
    ] or done == sorted(
        [("O0", fake_nvml.UUID), ("O0", fake_nvml.OTHER_UUID), ("default", fake_nvml.OTHER_UUID)]
    )


def test_a_missing_vllm_is_named(small_study, monkeypatch):
    monkeypatch.setattr("study.runner.find_spec", lambda _name: None)
    with pytest.raises(InputError, match="vLLM is not installed"):
        run(small_study)
