import json
import os

import pytest
from make_records import make_launch, make_run

from study.errors import InputError, RecordError
from study.records import SessionRecord
from study.store import Store, write_once


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path, make_launch().study)
    with store.lock():
        yield store


def write(store, *records):
    return [store.write(record) for record in records]


def test_what_was_written_comes_back(store):
    launch = make_launch()
    run = make_run(launch)
    write(store, launch, run)
    records = store.read()
    assert records.launches == (launch,)
    assert records.runs == (run,)
    assert records.launch_of(run) == launch
    assert sorted(records.files) == [f"launch-{launch.launch_id}.json", f"run-{run.run_id}.json"]


def test_a_record_is_written_once(store):
    launch = make_launch()
    (path,) = write(store, launch)
    before = path.read_bytes()
    with pytest.raises(RecordError, match="exists already"):
        store.write(launch.model_copy(update={"position": 7}))
    assert path.read_bytes() == before
    assert [name.name for name in store.raw.iterdir() if name.name.startswith(".launch")] == []


def test_a_failed_write_leaves_nothing_half(tmp_path):
    path = tmp_path / "gone" / "x.json"
    with pytest.raises(RecordError, match="cannot be written"):
        write_once(path, "text")


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes anywhere")
def test_a_read_only_folder_is_named(tmp_path):
    tmp_path.chmod(0o500)
    with pytest.raises(RecordError, match="cannot be written"):
        write_once(tmp_path / "x.json", "text")


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda text: text[:-20], "is not JSON"),
        (lambda text: "", "is not JSON"),
        (lambda text: "[]", "schema_version None"),
        (lambda text: text.replace('"schema_version":1', '"schema_version":2'), "schema_version 2"),
        (lambda text: text.replace('"users":1', '"users":"many"'), "field 'users'"),
        (lambda text: text.replace('"users":1', '"users":1,"extra":2'), "field 'extra'"),
        (lambda text: text.replace('"duration_s":', '"duration_s":NaN,"x":'), "duration_s"),
    ],
)
def test_an_unreadable_file_is_named_with_its_field(store, spoil, named):
    _, path = write(store, make_launch(), make_run(make_launch()))
    path.write_text(spoil(path.read_text()))
    with pytest.raises(RecordError) as caught:
        store.read()
    assert path.name in str(caught.value)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_value_that_is_null_without_a_reason_is_refused(store):
    (path,) = write(store, make_launch())
    data = json.loads(path.read_text())
    data["kv_cache_blocks"] = None
    path.write_text(json.dumps(data))
    with pytest.raises(RecordError, match="'kv_cache_blocks' is null without a reason"):
        store.read()


def test_a_renamed_file_is_refused(store):
    _, path = write(store, make_launch(), make_run(make_launch()))
    path.rename(path.with_name("run-b9-other-u1-a1.json"))
    with pytest.raises(RecordError, match="a record keeps its file name"):
        store.read()


def test_a_record_of_another_study_is_refused(store):
    write(store, make_launch(study="another"))
    with pytest.raises(RecordError, match="belongs to study 'another'"):
        store.read()


def test_mixing_names_the_field_and_both_values(store):
    first = make_launch(block=1)
    other = dict(first.comparable) | {"output_tokens": 999}
    write(store, first, make_launch(block=2, comparable=other))
    with pytest.raises(RecordError, match="output_tokens 999"):
        store.read()


def test_mixing_versions_of_vllm_is_refused(store):
    first = make_launch(block=1)
    machine = first.machine.model_copy(update={"versions": {**first.machine.versions, "vllm": "0.32.0"}})
    write(store, first, make_launch(block=2, machine=machine))
    with pytest.raises(RecordError, match="vllm"):
        store.read()


def test_a_run_of_another_fingerprint_is_refused(store):
    launch = make_launch()
    write(store, launch, make_run(launch, fingerprint="0" * 16))
    with pytest.raises(RecordError, match="fingerprint"):
        store.read()


def test_attempts_count_up_over_every_kind_of_file(store):
    assert store.next_attempt("b1-O0") == 1
    store.write(make_launch(launch_id="b1-O0-a1"))
    (store.raw / "launch-b1-O0-a2.log").write_text("a launch that never got to its record")
    assert store.next_attempt("b1-O0") == 3
    assert store.next_attempt("b1-O") == 1


def test_an_open_launch_is_closed_by_its_record(store):
    launch = make_launch()
    store.write_open(launch)
    assert store.read_open() == [launch]
    assert store.read().launches == ()
    store.write(launch)
    assert store.read_open() == []


def test_a_second_runner_is_refused_and_a_dead_ones_lock_is_not_in_the_way(tmp_path):
    one, two = Store(tmp_path, "s"), Store(tmp_path, "s")
    with one.lock(), pytest.raises(InputError, match="another process"), two.lock():
        pass
    with two.lock():
        pass


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="no raw folder"):
        Store(tmp_path, "none").read()


def test_sessions_come_back_in_their_order(store):
    for number in (1, 2, 10):
        store.write(
            SessionRecord(study=store.study, fingerprint="f", session_id=str(number), asked={"n": number}, levels=[])
        )
    assert [session.asked["n"] for session in store.read().sessions] == [1, 2, 10]
