"""Files have the mode of the rule, whatever the umask says: finished ones are readable, open ones private."""

import os
import stat
from pathlib import Path

import pytest
from edition_study import make_root, write_study

from study.analyze.tables_on_disk import write_tables
from study.design.parameters import make_parameters
from study.design.pool import Prompt, write_prompts
from study.design.whole_files import make_folder, write_whole
from study.measure.model import prepare_model
from study.measure.redact import redact_log
from study.measure.server import Server
from study.measure.server_spec import ServerSpec
from study.publish.edition import write_edition
from study.runner import RunOptions, run_session

ROOT = Path(__file__).parent.parent
UMASKS = pytest.mark.parametrize("umask", [0o000, 0o077], ids="{:03o}".format)
OPEN_UMASK = pytest.mark.parametrize("umask", [0o000], ids="{:03o}".format)
CLOSED_UMASK = pytest.mark.parametrize("umask", [0o077], ids="{:03o}".format)


@pytest.fixture
def with_umask(umask):
    before = os.umask(umask)
    yield
    os.umask(before)


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


def modes(folder):
    """The modes of all that lies in a folder, by kind, with one example each."""
    found = {}
    for path in folder.rglob("*"):
        found.setdefault((path.is_dir(), oct(mode_of(path))), path.name)
    return set(found)


FOLDER, FILE, PRIVATE = (True, "0o755"), (False, "0o644"), (False, "0o600")


@OPEN_UMASK
def test_a_session_leaves_readable_records_and_a_private_lock(fake_vllm, small_study, tmp_path, with_umask):
    run_session(make_parameters({**small_study, "levels": ["O0"], "users": [1]}), ROOT, RunOptions())
    raw = tmp_path / "data" / "raw" / "small"
    assert modes(tmp_path / "data") == {FOLDER, FILE, PRIVATE}
    assert [path.name for path in raw.iterdir() if mode_of(path) == 0o600] == [".lock"]
    assert sorted({path.suffix for path in raw.iterdir() if mode_of(path) == 0o644}) == [".json", ".log"]


@CLOSED_UMASK
def test_tables_and_editions_are_readable(tmp_path, with_umask):
    store = write_study(make_root(tmp_path) / "data", "s", blocks=1)
    records = store.read()
    write_tables(records, store.processed)
    assert modes(tmp_path / "data" / "processed") == {FOLDER, FILE}
    edition = write_edition(tmp_path, "e", ["s"])
    assert modes(edition) == {FOLDER, FILE}
    assert mode_of(edition) == 0o755


@UMASKS
def test_what_is_open_is_private(tmp_path, with_umask):
    store = write_study(tmp_path / "data", "s", blocks=1)
    store.write_open(store.read().launches[0])
    assert mode_of(store.open_files()[0]) == 0o600
    with store.lock():
        assert mode_of(store.raw / ".lock") == 0o600


@UMASKS
def test_prompts_are_private(tmp_path, with_umask):
    write_prompts(tmp_path / "prompts.jsonl", [Prompt("mine")], 8)
    assert mode_of(tmp_path / "prompts.jsonl") == 0o600


@UMASKS
def test_a_log_is_private_until_it_is_redacted(fake_vllm, tmp_path, with_umask):
    log = tmp_path / "log"
    parameters = make_parameters({"study": "s", "model": "m", "device": "cpu"})
    server = Server.start(ServerSpec("m", parameters, (), {}), log, ROOT)
    try:
        server.wait_healthy(20)
        assert mode_of(log) == 0o600
    finally:
        server.stop()
    redact_log(log, ROOT)
    assert mode_of(log) == 0o644


@UMASKS
def test_a_made_model_is_readable(tmp_path, with_umask):
    root = make_root(tmp_path)
    model = root / prepare_model("notebooks/parameters/models/rehearsal.yaml", "dummy", root)
    assert modes(model) == {FILE}
    assert mode_of(model) == mode_of(model.parent) == 0o755


def test_a_folder_that_is_there_keeps_its_mode(tmp_path):
    tmp_path.chmod(0o700)
    make_folder(tmp_path / "a" / "b")
    assert mode_of(tmp_path) == 0o700


def test_a_file_that_cannot_be_replaced_stays_as_it_was(tmp_path):
    path = tmp_path / "file"
    write_whole(path, "old")
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "new \ud800")
    assert path.read_text() == "old"
    assert [one.name for one in tmp_path.iterdir()] == ["file"]


def test_no_committed_file_of_the_study_can_be_executed_or_written_by_others():
    folders = [ROOT / name for name in ("study", "data", "editions", "notebooks", "docs")]
    paths = [path for folder in folders for path in folder.rglob("*") if path.suffix not in (".sh", ".pyc")]
    assert len(paths) > 100
    assert [path.name for path in paths if mode_of(path) & (0o022 if path.is_dir() else 0o133)] == []
