import hashlib

import pytest
from make_records import make_launch, make_run

from study.check import check_study
from study.design.parameters import fingerprint
from study.errors import InputError
from study.store import Store


@pytest.fixture
def store(tmp_path):
    """A whole raw folder: one launch with its log, one run."""
    launch = make_launch()
    store = Store(tmp_path, launch.study)
    with store.lock():
        log = store.log_path(launch.launch_id)
        log.write_text("a log\n")
        digest = hashlib.sha256(b"a log\n").hexdigest()
        number = fingerprint(launch.comparable)
        missing = {name: why for name, why in launch.missing.items() if name != "log_sha256"}
        changes = {"log": log.name, "log_sha256": digest, "fingerprint": number, "missing": missing}
        launch = launch.model_copy(update=changes)
        store.write(launch)
        store.write(make_run(launch, fingerprint=number))
    return store


def test_a_whole_folder_has_no_problem(store):
    assert check_study(store) == []


def test_an_edited_log_is_found(store):
    next(store.raw.glob("*.log")).write_text("another log\n")
    (problem,) = check_study(store)
    assert "was changed" in problem


def test_a_lost_log_is_found(store):
    next(store.raw.glob("*.log")).unlink()
    (problem,) = check_study(store)
    assert "is not there" in problem


def test_a_lost_launch_is_found(store):
    next(store.raw.glob("launch-*.json")).unlink()
    assert any("has no record" in problem for problem in check_study(store))


def test_a_copied_record_is_found(store):
    (run,) = store.read().runs
    store.write(run.model_copy(update={"run_id": run.run_id[:-1] + "2", "attempt": 2}))
    (problem,) = check_study(store)
    assert "is a copy of" in problem


def test_edited_parameters_are_found(store):
    path = next(store.raw.glob("launch-*.json"))
    path.write_text(path.read_text().replace('"comparable":{', '"comparable":{"edited":1,', 1))
    assert any("does not stand for its comparable parameters" in problem for problem in check_study(store))


def test_every_unreadable_file_is_named(store):
    for path in store.raw.glob("*.json"):
        path.write_text("{")
    (store.raw / "notes.json").write_text("{}")
    problems = check_study(store)
    assert len(problems) == 3
    assert any("notes.json" in problem for problem in problems)


def test_an_open_launch_is_said(store):
    store.write_open(make_launch(launch_id="b9-O0-a1"))
    assert any("left open" in problem for problem in check_study(store))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="no raw folder"):
        check_study(Store(tmp_path, "none"))
