"""No name in parameters, records or on the command line leads out of the folders that the study writes into."""

import json
import os

import pytest
from edition_study import make_root, write_study
from make_records import make_launch, make_run

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.whole_files import make_folder
from study.errors import InputError, RecordError
from study.measure.redact import redact_log
from study.publish.edition import write_edition
from study.records import LaunchRecord, RunRecord
from study.store import Store

HOSTILE = ("../x", "..", ".", "/etc/x", "a/b", "a\\b", "~", "", ".hidden", "a\n", "a\x00b", "-rf", "a b", "x" * 300)
NAMES = pytest.mark.parametrize("name", HOSTILE, ids=lambda name: repr(name)[:12])


@NAMES
def test_a_study_is_a_plain_name(name, tmp_path):
    with pytest.raises(InputError, match="study"):
        make_parameters({"study": name, "model": "m"})
    with pytest.raises(InputError, match="is no plain name"):
        Store(tmp_path, name)


@NAMES
def test_a_level_is_a_plain_name(name):
    with pytest.raises(ValueError, match="name"):
        Level(name=name)


@NAMES
def test_an_edition_is_a_plain_name(name, tmp_path):
    with pytest.raises(InputError, match="is no folder name"):
        write_edition(tmp_path, name, ["s"])


@NAMES
@pytest.mark.parametrize("field", ["log", "launch_id", "study"])
def test_a_launch_that_names_a_path_is_refused(name, field):
    facts = json.loads(make_launch().model_dump_json())
    with pytest.raises(ValueError, match=field):
        LaunchRecord(**{**facts, field: name})


@NAMES
@pytest.mark.parametrize("field", ["run_id", "launch_id", "study"])
def test_a_run_that_names_a_path_is_refused(name, field):
    facts = json.loads(make_run().model_dump_json())
    with pytest.raises(ValueError, match=field):
        RunRecord(**{**facts, field: name})


def test_a_record_on_disk_that_names_another_log_is_refused_when_read(tmp_path):
    store = write_study(tmp_path, "s", blocks=1)
    path = next(store.raw.glob("launch-*.json"))
    path.write_text(path.read_text().replace('"log":"launch.log"', '"log":"../../../etc/passwd"'))
    with pytest.raises(RecordError, match=r"launch-.*field 'log' '../../../etc/passwd'"):
        store.read()


def link_out(place, tmp_path):
    """Put a link to a folder outside in `place`, with a file of a stranger's in it."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "mine.csv").write_text("a stranger's")
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(outside)
    return outside


def test_a_study_folder_that_is_a_link_is_refused(tmp_path):
    store = Store(tmp_path / "data", "s")
    outside = link_out(store.raw, tmp_path)
    with pytest.raises(InputError, match="is a link to another folder"), store.lock():
        pass
    assert os.listdir(outside) == ["mine.csv"]


@pytest.mark.parametrize("place", ["editions/e", "editions/e/tables"])
def test_an_edition_folder_that_is_a_link_is_refused_and_nothing_is_cleared(tmp_path, place):
    write_study(make_root(tmp_path) / "data", "s", blocks=1)
    outside = link_out(tmp_path / place, tmp_path)
    with pytest.raises(InputError, match="is a link to another folder"):
        write_edition(tmp_path, "e", ["s"])
    assert (outside / "mine.csv").read_text() == "a stranger's"
    assert os.listdir(outside) == ["mine.csv"]


def test_a_data_folder_may_be_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "data").symlink_to(tmp_path / "disk")
    make_folder(tmp_path / "data" / "raw" / "s")
    assert (tmp_path / "disk" / "raw" / "s").is_dir()


def test_a_log_that_is_a_link_is_not_followed(tmp_path):
    (tmp_path / "private").write_text("a stranger's")
    (tmp_path / "log").symlink_to(tmp_path / "private")
    assert redact_log(tmp_path / "log", tmp_path) is None
    assert (tmp_path / "log").is_symlink()
    assert (tmp_path / "private").read_text() == "a stranger's"
