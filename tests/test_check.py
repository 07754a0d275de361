"""`study check`: what it says of a folder that is whole, and of one from which something was taken or changed."""

import json
import shutil
from pathlib import Path

import pytest
from make_records import make_launch
from whole_study import make_session, write_whole_study

from study.check import check_study
from study.errors import InputError, RecordError
from study.store import Store


@pytest.fixture
def store(tmp_path):
    return write_whole_study(tmp_path)


def edit(path, **changes):
    """Change fields of a record file, as an editor would."""
    data = json.loads(path.read_text())
    path.write_text(json.dumps(data | changes))


def one(store, pattern):
    (path,) = store.raw.glob(pattern)
    return path


def test_a_whole_folder_has_no_problem(store):
    assert check_study(store) == []


def test_every_file_is_read_once(store, monkeypatch):
    read = []
    monkeypatch.setattr("study.record_files.read_bytes", lambda path, most: read.append(path.name) or path.read_bytes())
    check_study(store)
    assert sorted(read) == sorted(path.name for path in store.raw.glob("*.json"))


def test_an_edited_log_is_found(store):
    one(store, "*.log").write_text("another log\n")
    (problem,) = check_study(store)
    assert "was changed" in problem


def test_a_lost_log_is_found(store):
    one(store, "*.log").unlink()
    (problem,) = check_study(store)
    assert "is not there" in problem


def test_a_folder_in_place_of_a_log_is_found(store):
    one(store, "*.log").unlink()
    store.log_path("b1-default-a1").mkdir()
    (problem,) = check_study(store)
    assert "is not there as a file" in problem


def test_a_log_whose_record_denies_it_is_found(store):
    path = one(store, "launch-*.json")
    missing = {"log_sha256": "the log is not there"}
    edit(path, log_sha256=None, missing=json.loads(path.read_text())["missing"] | missing)
    (problem,) = check_study(store)
    assert "its log is there" in problem


def test_a_log_without_a_record_is_found(store):
    (store.raw / "launch-b2-default-a1.log").write_text("x")
    (store.raw / "client.log").write_text("x")
    assert [problem.split(":")[0] for problem in check_study(store)] == ["client.log", "launch-b2-default-a1.log"]


def test_a_lost_launch_is_found(store):
    one(store, "launch-*.json").unlink()
    assert sum("has no record" in problem for problem in check_study(store)) == 2


@pytest.mark.parametrize("users", [1, 2])
def test_a_lost_run_is_found(store, users):
    # of two runs the last leaves no gap behind it: what the session asked for tells
    one(store, f"run-*-u{users}-a1.json").unlink()
    assert any(f"'b1-default-u{users}' is not there" in problem for problem in check_study(store))


def test_a_lost_run_in_the_middle_is_found_even_of_a_launch_that_failed(tmp_path):
    store = write_whole_study(tmp_path, (1, 2, 4))
    path = one(store, "launch-*.json")
    outcome = {"status": "failed", "stage": "serve", "message": "it died", "log_tail": [], "missing": {}}
    edit(path, outcome=outcome)
    assert check_study(store) == []
    one(store, "run-*-u2-a1.json").unlink()
    (problem,) = check_study(store)
    assert "its run at position 1 is not there" in problem


def test_runs_that_the_time_limit_left_out_are_no_problem(store):
    outcome = {"status": "ok", "stage": "done", "message": "the time limit came", "log_tail": [], "missing": {}}
    edit(one(store, "launch-*.json"), outcome=outcome)
    one(store, "run-*-u2-a1.json").unlink()
    assert check_study(store) == []


def test_users_that_a_later_session_asks_for_are_not_missed(store):
    store.write(make_session(store.read().launches[0].fingerprint, (1, 2, 8), number=2))
    assert check_study(store) == []


def test_a_lost_attempt_is_found(store):
    path = one(store, "run-*-u2-a1.json")
    edit(path, attempt=2, run_id="b1-default-u2-a2")
    path.rename(path.with_name("run-b1-default-u2-a2.json"))
    (problem,) = check_study(store)
    assert problem == "run-b1-default-u2-a1.json is not there, though attempt 2 is"


def test_a_lost_session_is_found(store):
    store.write(make_session(store.read().launches[0].fingerprint, number=3))
    assert check_study(store) == ["session-2.json is not there: what was asked for is not known"]
    one(store, "session-3.json").unlink()
    one(store, "session-1.json").unlink()
    assert check_study(store) == ["session-1.json is not there: what was asked for is not known"]


@pytest.mark.parametrize(
    ("pattern", "changes", "said"),
    [
        ("launch-*.json", {"flags": ["-O0"]}, "no session asked for level 'default' with its flags"),
        ("session-*.json", {"levels": []}, "no session asked for level 'default'"),
        ("session-*.json", {"levels": [{"name": "a b"}]}, "levels: "),
        ("session-*.json", {"fingerprint": "0" * 16}, "does not stand for what it asked"),
    ],
)
def test_what_no_session_asked_for_is_found(store, pattern, changes, said):
    edit(one(store, pattern), **changes)
    assert any(said in problem for problem in check_study(store))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"users": "many"}, "parameter 'users'"),
        ({"users": [1]}, "run-b1-default-u2-a1.json: no session asked for it"),
        ({"cache": "cold", "measure": "start"}, "does not stand for what it asked"),
        ({"concurency": 8}, "parameter 'concurency' is unknown"),
    ],
)
def test_an_edited_question_is_found(store, changes, said):
    path = one(store, "session-*.json")
    edit(path, asked=json.loads(path.read_text())["asked"] | changes)
    assert any(said in problem for problem in check_study(store))


def test_a_copied_record_is_found_and_counts_nowhere(store):
    path = one(store, "run-*-u2-a1.json")
    copy = path.with_name("run-b1-default-u2-a2.json")
    shutil.copy(path, copy)
    edit(copy, attempt=2, run_id="b1-default-u2-a2")
    assert any("is a copy of" in problem for problem in check_study(store))
    with pytest.raises(RecordError, match="is a copy of"):
        store.read()


def test_a_launch_that_was_copied_is_found(store):
    path = one(store, "launch-*.json")
    shutil.copy(path, path.with_name("launch-b1-default-a2.json"))
    edit(path.with_name("launch-b1-default-a2.json"), attempt=2, launch_id="b1-default-a2")
    assert any("launch 'b1-default-a2' is a copy of 'b1-default-a1'" in problem for problem in check_study(store))


def test_edited_parameters_are_found(store):
    path = one(store, "launch-*.json")
    path.write_text(path.read_text().replace('"comparable":{', '"comparable":{"edited":1,', 1))
    assert any("does not stand for its comparable parameters" in problem for problem in check_study(store))


def test_every_unreadable_file_is_named(store):
    for path in store.raw.glob("*.json"):
        path.write_text("{")
    (store.raw / "notes.json").write_text("{}")
    problems = check_study(store)
    assert len(problems) == 5
    assert any("notes.json" in problem for problem in problems)


def test_a_file_that_cannot_be_read_hides_nothing_else(store):
    one(store, "run-*-u1-a1.json").write_text("{")
    one(store, "*.log").unlink()
    problems = check_study(store)
    assert len(problems) == 2
    assert any("is not JSON" in problem for problem in problems)
    assert any("its log" in problem for problem in problems)


@pytest.mark.parametrize("name", ["run-b1-default-u1-a1.json.bak", "records.zip", "old"])
def test_what_is_no_file_of_a_study_is_named(store, name):
    place = store.raw / name
    place.mkdir() if name == "old" else place.write_text("x")
    (problem,) = check_study(store)
    assert problem.startswith(name)


def test_an_open_launch_is_said(store):
    store.write_open(make_launch(launch_id="b9-O0-a1", level="O0", block=9))
    assert any("left open" in problem for problem in check_study(store))


def test_an_open_launch_that_was_closed_is_said(store):
    store.write_open(make_launch())
    (problem,) = check_study(store)
    assert "has a record already" in problem


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(InputError, match="no raw folder"):
        check_study(Store(tmp_path, "none"))


def test_the_committed_study_is_whole():
    root = Path(__file__).parent.parent
    assert check_study(Store(root / "data", "2026-11-h200-cooled")) == []
