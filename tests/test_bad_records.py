"""Raw files that a crash, a copy, an editor or another program spoiled: each is named with its field, none counts."""

import codecs
import json
import os
import socket
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from whole_study import write_whole_study

from study.check import check_study
from study.errors import RecordError
from study.record_files import MOST_RECORD_BYTES
from study.records import Telemetry

ROOT = Path(__file__).parent.parent
RUN, LAUNCH, SESSION = "run-b1-default-u1-a1.json", "launch-b1-default-a1.json", "session-1.json"


@pytest.fixture
def store(tmp_path):
    return write_whole_study(tmp_path)


def refusals(store, name):
    """What `check` says of one file; reading the study says the same first, in one line."""
    problems = [problem for problem in check_study(store) if name in problem]
    assert problems
    with pytest.raises(RecordError) as caught:
        store.read()
    assert str(caught.value).startswith(problems[0])
    assert all(text.isprintable() for text in (str(caught.value), *problems))
    return problems


def replace(old, new):
    return lambda data: data.replace(old.encode(), new.encode(), 1)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: data[:-20], "is not JSON"),
        (lambda data: b"", "is not JSON"),
        (lambda data: b"\0" * 512, "is not JSON"),
        (lambda data: data + data, "is not JSON (Extra data"),
        (lambda data: b"null", "schema_version None"),
        (lambda data: b"[" * 100_000, "nested too deeply"),
        (lambda data: b'{"schema_version":1,"x":' + b"[" * 500 + b"]" * 500 + b"}", "recursion limit"),
        (lambda data: codecs.BOM_UTF8 + data, "is not JSON (Unexpected UTF-8 BOM"),
        (lambda data: data.decode().encode("utf-16"), "it is UTF-16"),
        (lambda data: b"\x7fELF\x02\x01" + data, "is not JSON"),
        (lambda data: b"\x89PNG" + data, "byte 1 is not UTF-8"),
        (replace('"users":1', '"users":1,"users":2'), "the key 'users' stands twice"),
        (replace('"schema_version":1', '"schema_version":2'), "a newer version of the study wrote it"),
        (replace('"schema_version":1', '"schema_version":true'), "schema_version True"),
        (replace('"kind":"run"', '"kind":"walk"'), "field 'kind' 'walk'"),
        (replace('"users":1', '"users":"1"'), "field 'users' '1'"),
        (replace('"users":1', '"users":true'), "field 'users' True"),
        (replace('"level":"default"', '"level":"\\ud800"'), "field 'level' holds half a character"),
        (replace('"level":"default",', ""), "field 'level'"),
    ],
)
def test_a_file_that_is_no_record_is_named(store, spoil, said):
    path = store.raw / RUN
    path.write_bytes(spoil(path.read_bytes()))
    (problem,) = refusals(store, RUN)
    assert said in problem


def test_every_wrong_field_of_a_file_is_named(store):
    path = store.raw / RUN
    path.write_bytes(replace('"users":1', '"users":0')(replace('"seed":1', '"seed":-1')(path.read_bytes())))
    (problem,) = refusals(store, RUN)
    assert "field 'users' 0" in problem
    assert "field 'seed' -1" in problem


def edit(store, name, where, value):
    """Set the field under a dotted path of a record file; the value is JSON text."""
    path = store.raw / name
    data = json.loads(path.read_text())
    *parents, last = where.split(".")
    item = data
    for part in parents:
        item = item[int(part) if isinstance(item, list) else part]
    item[int(last) if isinstance(item, list) else last] = "@"
    path.write_text(json.dumps(data).replace('"@"', value))


NUMBERS = (
    (RUN, "load.duration_s"),
    (RUN, "load.requests.ttft_s.3"),
    (RUN, "load.requests.output_tokens.0"),
    (RUN, "load.requests.witness_us.0.5"),
    (RUN, "telemetry.t_s.1"),
    (RUN, "telemetry.sm_clock_mhz.2"),
    (RUN, "telemetry.temperature_c.2"),
    (RUN, "telemetry.throttle_after_ns.sw_thermal"),
    (RUN, "gate.waited_s"),
    (LAUNCH, "first_token_s"),
    (LAUNCH, "machine.memory_gib"),
    (LAUNCH, "kv_cache_blocks"),
    (LAUNCH, "canary_before.gemm_tflops"),
    (LAUNCH, "resolved.cache_config.num_gpu_blocks"),
)


@pytest.mark.parametrize(("name", "where"), NUMBERS, ids=[where for _, where in NUMBERS])
@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity", "1e999", "9" * 500])
def test_what_is_no_number_is_named_with_its_field(store, name, where, value):
    edit(store, name, where, value)
    (problem,) = refusals(store, name)
    assert f"field '{where}' is " in problem


@pytest.mark.parametrize(("name", "where"), NUMBERS[:-1], ids=[where for _, where in NUMBERS[:-1]])
@pytest.mark.parametrize("value", ["-300", "1e308", "9" * 400, '"7"', "false", "[1]"])
def test_what_no_measurement_can_be_is_named_with_its_field(store, name, where, value):
    edit(store, name, where, value)
    (problem,) = refusals(store, name)
    assert where in problem


def test_cold_is_no_fault_and_colder_than_possible_is(store):
    edit(store, RUN, "telemetry.temperature_c.2", "-40.5")
    assert check_study(store) == []
    edit(store, RUN, "telemetry.temperature_c.2", "-273.2")
    refusals(store, RUN)


@pytest.mark.parametrize(
    ("name", "where", "value", "said"),
    [
        (RUN, "load.requests.error", '["", ""]', "'error' has 2 entries beside 8 requests"),
        (RUN, "telemetry.power_w", "[1.0]", "'power_w' has 1 entries beside"),
        (RUN, "load.requests.latency_s.0", "9.0", "do not add up"),
        (RUN, "load.requests.ttft_s.0", "0.06", "do not add up"),
        (RUN, "load.requests.latency_s.1", "0.01", "shorter than its 'ttft_s'"),
        (RUN, "load.requests.ttft_s.1", "null", "without the other"),
        (RUN, "load.requests.chunks.0", "7", "191 gaps in 'witness_us' beside 7 'chunks'"),
        (RUN, "load.requests.witness_us", '{"99": [1]}', "has request 99 of 8"),
        (RUN, "load.requests.start_s.2", "1.0", "request 2 lies outside"),
        (RUN, "load.ended_s", "999.0", "'load.ended_s' 999 lies before 'load.started_s' 1000"),
        (RUN, "load.duration_s", "9999.0", "'load.duration_s' 9999 is not within"),
        (RUN, "telemetry.t_s.4", "1.0", "field 'telemetry.t_s' goes back at sample 4"),
        (RUN, "block", "2", "has block 2, its launch 'b1-default-a1' 1"),
        (RUN, "session", '"throttled"', "has session 'throttled', its launch"),
        (RUN, "rehearsal", "true", "has rehearsal True, its launch"),
        (RUN, "users", "2", "its id is not that of its fields, 'b1-default-u2-a1'"),
        (RUN, "fingerprint", '"0"', "has fingerprint 0, its study"),
        (RUN, "study", '"another"', "belongs to study 'another'"),
        (LAUNCH, "healthy_s", "700.0", "'healthy_s' 700 lies before 'spawn_s' 800"),
        (LAUNCH, "stopped_s", "1.0", "'stopped_s' 1 lies before 'stop_asked_s'"),
        (LAUNCH, "level", '"O0"', "its id is not that of its fields, 'b1-O0-a1'"),
        (LAUNCH, "attempt", "2", "its id is not that of its fields, 'b1-default-a2'"),
        (LAUNCH, "comparable.cache", '"cold"', "does not stand for its comparable parameters"),
        (SESSION, "session_id", '"01"', "holds session '01'"),
    ],
)
def test_an_edited_figure_is_told_by_what_stands_beside_it(store, name, where, value, said):
    edit(store, name, where, value)
    problems = check_study(store)
    assert any(said in problem for problem in problems), problems
    with pytest.raises(RecordError) as caught:
        store.read()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["session-0.json", "session-x.json", "session-01.json"])
def test_a_session_without_a_number_is_named(store, name):
    path = store.raw / name
    data = json.loads((store.raw / SESSION).read_text()) | {"session_id": path.stem.partition("-")[2]}
    path.write_text(json.dumps(data))
    assert any("is no number" in problem for problem in refusals(store, name))


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "socket", "device", "gone"])
def test_what_is_no_file_is_named_and_not_waited_for(store, kind, monkeypatch):
    path = store.raw / RUN
    path.unlink()
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    elif kind == "socket":
        monkeypatch.chdir(store.raw)  # the name of a socket is short
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(RUN)
    else:
        path.symlink_to({"loop": RUN, "device": "/dev/zero", "gone": "none"}[kind])
    started = time.monotonic()
    (problem,) = refusals(store, RUN)
    assert "cannot be read" in problem or "not a file" in problem
    assert time.monotonic() - started < 10


def test_a_record_that_lies_elsewhere_behind_a_link_is_read(store, tmp_path):
    path = store.raw / RUN
    path.rename(tmp_path / "annex")
    path.symlink_to(tmp_path / "annex")
    assert check_study(store) == []


def test_a_file_of_200_mb_is_refused_in_bounded_memory(store):
    path = store.raw / RUN
    with path.open("r+b") as file:
        file.truncate(200 * 10**6)  # sparse: it takes no room on the disk
    tracemalloc.start()
    (problem,) = refusals(store, RUN)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert "190.7 MiB" in problem
    assert peak < 3 * MOST_RECORD_BYTES


def test_a_name_that_cannot_be_printed_is_escaped(store):
    os.rename(os.fsencode(store.raw / RUN), os.fsencode(store.raw) + b"/run-\xff\n\x1b[2J.json")
    problems = check_study(store)
    assert any(r"run-\udcff\n\x1b[2J.json" in problem for problem in problems)
    assert all(problem.isprintable() for problem in problems)


def test_all_bad_files_are_named_on_the_command_line_and_no_table_is_built(store, tmp_path):
    (store.raw / RUN).write_text("{")
    edit(store, LAUNCH, "machine.memory_gib", "-1")
    edit(store, SESSION, "asked.waves", "NaN")
    (store.raw / "notes.json").mkdir()

    def study(command):
        arguments = [sys.executable, "-m", "study", command, store.study, "--data-dir", str(tmp_path)]
        return subprocess.run(arguments, capture_output=True, text=True, cwd=ROOT, timeout=120)

    checked = study("check")
    assert checked.returncode == 1
    for name in (RUN, LAUNCH, SESSION, "notes.json"):
        assert name in checked.stdout
    assert "field 'asked.waves' is NaN" in checked.stdout
    for command in ("tables", "decide"):
        done = study(command)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) == 1
        assert "3 more; `study check test` lists them" in done.stderr
    assert not (tmp_path / "processed").exists()


def test_the_ranges_are_wide_enough_for_what_nvml_gives_for_no_value():
    # 0xFFFFFFFF in any 32-bit field, 0xFFFFFFFFFFFFFFFF in a counter or mask: a strange reading, but one that was made
    column = [float(2**32 - 1)]
    clocks = dict.fromkeys(("sm_clock_mhz", "memory_clock_mhz", "temperature_c", "memory_temperature_c"), column)
    rest = dict.fromkeys(("power_w", "energy_j", "gpu_utilisation", "host_busy", "host_steal"), column)
    counters = {"sw_thermal": 2**64 - 1}
    around = {"throttle_before_ns": counters, "throttle_after_ns": counters, "event_reasons": [2**64 - 1]}
    assert Telemetry(period_s=0.1, t_s=[1.0], cpu_clock_mhz=column, **clocks, **rest, **around)
