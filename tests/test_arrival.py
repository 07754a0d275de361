import hashlib

import pytest
from make_records import make_launch, make_machine, make_run

from study.arrival import LaunchFiles, finish_arrivals, read_launches, receive_launch
from study.errors import RecordError
from study.store import Store

LOG = b"INFO started\n"


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "here", "test")
    with store.lock():
        yield store


def launch_of(level="O0", block=1, attempt=1, **fields):
    fills = fields.get("fills_caches", False)
    name = f"{'fill' if fills else f'b{block}'}-{level}-a{attempt}"
    own = {"launch_id": name, "attempt": attempt, "log": f"launch-{name}.log"}
    return make_launch(level, block=block, **own, log_sha256=hashlib.sha256(LOG).hexdigest(), **fields)


def files_of(launch, *runs, log=LOG):
    return LaunchFiles(as_bytes(launch), tuple(map(as_bytes, runs)), log)


def as_bytes(record):
    return f"{record.model_dump_json()}\n".encode()


def fill(spawn_s=800.0, attempt=1, **fields):
    return launch_of("default", block=0, attempt=attempt, fills_caches=True, spawn_s=spawn_s, **fields)


def names(store):
    return sorted(path.name for path in store.raw.iterdir() if path.name != ".lock")


def test_a_launch_comes_with_its_runs_and_log_byte_for_byte(store):
    launch = launch_of()
    run = make_run(launch)
    assert receive_launch(store, files_of(launch, run), None) == launch
    assert names(store) == ["launch-b1-O0-a1.json", "launch-b1-O0-a1.log", "run-b1-O0-u1-a1.json"]
    assert (store.raw / "run-b1-O0-u1-a1.json").read_bytes() == as_bytes(run)
    assert store.log_path(launch.launch_id).read_bytes() == LOG
    assert {path.stat().st_mode & 0o777 for path in store.raw.glob("[lr]*")} == {0o644}
    assert store.read().launches == (launch,)


def test_what_is_read_on_one_side_is_what_comes_to_the_other(store, tmp_path):
    launch, later = launch_of(), launch_of(attempt=2)
    run = make_run(launch)
    for one in (files_of(launch, run), files_of(later)):
        receive_launch(store, one, None)
    found = dict(read_launches(store, {"launch-b1-O0-a2.json"}))
    assert found == {"launch-b1-O0-a1.json": files_of(launch, run)}


def test_cache_fills_of_several_machines_are_numbered_here(store):
    first, other = fill(), fill(spawn_s=801.0)
    receive_launch(store, files_of(first), None)
    stored = receive_launch(store, files_of(other), None)
    assert (stored.launch_id, stored.attempt, stored.log) == ("fill-default-a2", 2, "launch-fill-default-a2.log")
    assert stored.spawn_s == 801.0
    assert [launch.launch_id for launch in store.read().launches] == ["fill-default-a1", "fill-default-a2"]
    assert store.log_path("fill-default-a2").read_bytes() == LOG


def test_what_is_there_already_comes_once(store):
    for _ in range(2):
        launch = launch_of()
        receive_launch(store, files_of(launch, make_run(launch)), None)
        receive_launch(store, files_of(fill()), None)
    assert [launch.launch_id for launch in store.read().launches] == ["b1-O0-a1", "fill-default-a1"]
    assert receive_launch(store, files_of(launch_of(), make_run(launch_of())), None) is None


def test_another_launch_of_the_same_name_is_refused_and_nothing_is_written(store):
    receive_launch(store, files_of(launch_of()), None)
    before = names(store)
    twin = launch_of(spawn_s=801.0)
    with pytest.raises(RecordError, match="two machines made launch 'b1-O0-a1'; give each machine seeds of its own"):
        receive_launch(store, files_of(twin, make_run(twin)), None)
    assert names(store) == before


@pytest.mark.parametrize(
    ("spoil", "named"),
    [
        (lambda files: LaunchFiles(files.launch, files.runs, b"changed"), "the log of launch 'b1-O0-a1' does not have"),
        (lambda files: LaunchFiles(files.launch, files.runs, None), "the log of launch 'b1-O0-a1' does not have"),
        (lambda files: LaunchFiles(files.launch[:-9], files.runs, LOG), "a LaunchRecord that came from elsewhere"),
        (
            lambda files: LaunchFiles(files.launch, (as_bytes(make_run(launch_of(attempt=2))),), LOG),
            "has launch_id 'b1-O0-a2', its launch 'b1-O0-a1'",
        ),
        (
            lambda files: LaunchFiles(as_bytes(launch_of(study="other")), (), LOG),
            "belongs to study 'other', not to 'test'",
        ),
    ],
)
def test_a_launch_that_is_not_whole_is_refused(store, spoil, named):
    with pytest.raises(RecordError, match=named):
        receive_launch(store, spoil(files_of(launch_of(), make_run(launch_of()))), None)
    assert names(store) == []


def test_a_launch_of_another_vllm_is_refused(store):
    other = launch_of(machine=make_machine(versions={"vllm": "0.30.0"}))
    with pytest.raises(RecordError, match=r"ran on vllm 0\.30\.0, the study on 0\.31\.0"):
        receive_launch(store, files_of(other), launch_of("default"))


@pytest.mark.parametrize("linked", [[], ["launch-b1-O0-a1.log"], ["launch-b1-O0-a1.log", "run-b1-O0-u1-a1.json"]])
def test_an_arrival_that_was_whole_is_finished_by_the_next(store, tmp_path, linked):
    launch = launch_of()
    wanted = {
        "launch-b1-O0-a1.json": as_bytes(launch),
        "launch-b1-O0-a1.log": LOG,
        "run-b1-O0-u1-a1.json": as_bytes(make_run(launch)),
    }
    folder = store.raw / ".arrived-b1-O0-a1"
    folder.mkdir()
    for name, content in wanted.items():
        (folder / name).write_bytes(content)
    for name in linked:
        (store.raw / name).hardlink_to(folder / name)
    finish_arrivals(store)
    assert {path.name: path.read_bytes() for path in store.raw.iterdir() if path.name != ".lock"} == wanted


def test_an_arrival_that_was_not_whole_is_removed(store):
    folder = store.raw / ".arriving-b1-O0-a1"
    folder.mkdir()
    (folder / "launch-b1-O0-a1.json").write_bytes(as_bytes(launch_of()))
    finish_arrivals(store)
    assert names(store) == []
