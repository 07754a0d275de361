import json
import shutil

import pytest

from study.__main__ import main
from study.check import check_study
from study.design.parameters import make_parameters
from study.errors import InputError, RecordError
from study.gather import gather_study
from study.session import follow_session
from study.store import Store


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """Blocks 1 and 2, as two machines measure them at the same time, each counting its sessions and fills from 1."""
    with pytest.MonkeyPatch.context() as patch:
        from conftest import TESTS

        patch.setenv("PYTHONPATH", str(TESTS / "fake_vllm"))
        folders = []
        for seed in (1, 2):
            folders.append(tmp_path_factory.mktemp(f"machine{seed}") / "data")
            follow_session(make_parameters({**ASKED, "seeds": [seed], "data_dir": str(folders[-1])}))
    return folders


ASKED = {
    "study": "small",
    "device": "cpu",
    "levels": ["default"],
    "users": [1],
    "model": "notebooks/parameters/models/rehearsal.yaml",
    "load_format": "dummy",
    "input_tokens": 8,
    "output_tokens": 8,
    "waves": 2,
    "min_run_s": 0,
    "ready_deadline_s": 20,
}


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "data", "small")


def content_of(folder):
    return {path.name: path.read_bytes() for path in (folder / "raw" / "small").iterdir()}


def test_blocks_of_machines_that_ran_at_once_become_one_whole_study(measured, store):
    before = [content_of(folder) for folder in measured]
    lines = gather_study(store, measured)
    assert [line.rpartition(": ")[2] for line in lines] == ["2 launches and 1 run came"] * 2
    records = store.read()
    assert [launch.launch_id for launch in records.launches] == [
        *("b1-default-a1", "b2-default-a1", "fill-default-a1", "fill-default-a2"),
    ]
    assert [(one.session_id, one.asked["seeds"]) for one in records.sessions] == [("1", [1]), ("2", [2])]
    assert check_study(store) == []
    assert [content_of(folder) for folder in measured] == before
    run = "run-b2-default-u1-a1.json"
    assert (store.raw / run).read_bytes() == before[1][run]


def test_gathering_again_brings_nothing_twice(measured, store):
    gather_study(store, measured)
    files = content_of(store.raw.parents[1])
    assert gather_study(store, measured)[0].endswith("0 launches and 0 runs came, 2 were here")
    assert content_of(store.raw.parents[1]) == files


def test_the_command_says_what_came(measured, store, capsys):
    folders = [str(folder) for folder in measured]
    assert main(["gather", "small", *folders, "--data-dir", str(store.raw.parents[1])]) == 0
    assert capsys.readouterr().out.count("2 launches and 1 run came") == 2


def test_two_machines_of_the_same_block_are_refused_before_anything_is_written(measured, store, tmp_path):
    twin = tmp_path / "twin"
    shutil.copytree(measured[0], twin)
    path = twin / "raw/small/launch-b1-default-a1.json"
    launch = json.loads(path.read_text())
    path.write_text(json.dumps({**launch, "spawn_unix_s": launch["spawn_unix_s"] + 1}))
    with pytest.raises(InputError, match=r"both made launch-b1-default-a1\.json; give each machine seeds of its own"):
        gather_study(store, [measured[0], twin])
    assert not list(store.raw.glob("launch-*"))


def test_a_study_of_other_parameters_is_refused_by_the_field_that_differs(measured, store, tmp_path):
    other = tmp_path / "other"
    shutil.copytree(measured[1], other)
    for path in (other / "raw/small").glob("*.json"):
        text = path.read_text()
        record = json.loads(text)
        if "comparable" in record:
            from study.design.parameters import fingerprint

            record["comparable"]["output_tokens"] = 16
            number = fingerprint(record["comparable"])
    for path in (other / "raw/small").glob("*.json"):
        record = json.loads(path.read_text())
        record["fingerprint"] = number
        if "comparable" in record:
            record["comparable"]["output_tokens"] = 16
        path.write_text(json.dumps(record))
    with pytest.raises(RecordError, match="output_tokens 16, the study 8"):
        gather_study(store, [measured[0], other])
    assert not list(store.raw.glob("launch-*"))


def test_a_folder_without_the_study_is_named(store, tmp_path):
    with pytest.raises(InputError, match="holds no raw/small"):
        gather_study(store, [tmp_path])


def test_the_own_folder_is_no_other_machine(measured, store):
    gather_study(store, measured[:1])
    with pytest.raises(InputError, match="is where the records come to"):
        gather_study(store, [store.raw.parents[1]])


def test_an_open_launch_is_closed_by_its_machine_first(measured, store, tmp_path):
    killed = tmp_path / "killed"
    shutil.copytree(measured[0], killed)
    raw = killed / "raw/small"
    (raw / "launch-b1-default-a1.json").rename(raw / "open-b1-default-a1.json")
    with pytest.raises(InputError, match=r"has an open launch, open-b1-default-a1\.json; `study run`"):
        gather_study(store, [killed])
