"""Runs packed by gzip, as an editor packs those of a study on file: nothing built or checked of them differs."""

import gzip
import json
import shutil
import subprocess
from dataclasses import replace

import pytest
from edition_study import make_root, write_study
from make_records import make_run
from whole_study import write_whole_study

from study.arrival import read_launches, receive_launch
from study.check import check_study
from study.errors import RecordError
from study.gather import gather_study
from study.publish.edition import write_edition
from study.publish.republish import publish_edition
from study.publish.site_downloads import pack_raw
from study.publish.site_studies import list_studies
from study.record_files import MOST_RECORD_BYTES
from study.store import Store


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return write_whole_study(tmp_path_factory.mktemp("whole") / "data")


@pytest.fixture
def store(whole, tmp_path):
    shutil.copytree(whole.raw, tmp_path / "data/raw" / whole.study)
    return Store(tmp_path / "data", whole.study)


def pack(store):
    """Pack all runs as docs/rerun.md has it; return how many."""
    runs = sorted(store.raw.glob("run-*.json"))
    subprocess.run(["gzip", "-9n", *runs], check=True)
    assert not list(store.raw.glob("run-*.json"))
    return len(runs)


def test_the_same_is_read(store):
    before = store.read()
    assert pack(store) == len(before.runs) > 1
    assert store.read() == before
    assert check_study(store) == []


def test_a_study_goes_on_after_the_last_attempt(store):
    pack(store)
    run = store.read().runs[0]
    key = run.run_id.rpartition("-a")[0]
    assert store.next_attempt(key) == run.attempt + 1


def test_a_run_that_is_lost_is_still_missed(store):
    pack(store)
    next(store.raw.glob("run-*-u2-a1.json.gz")).unlink()
    assert any("'b1-default-u2' is not there" in problem for problem in check_study(store))


def test_an_attempt_before_counts_where_it_is_packed(store):
    run = next(run for run in store.read().runs if run.users == 2)
    store.write(run.model_copy(update={"run_id": "b1-default-u2-a2", "attempt": 2, "position": 9}))
    pack(store)
    assert not any("though attempt 2 is" in problem for problem in check_study(store))


def with_both(store, packed=lambda held: held, plain=lambda held: held):
    """Leave one run packed and unpacked, as a `gzip` that was killed leaves it; return its name and what is said."""
    path = next(store.raw.glob("run-*-u1-a1.json"))
    subprocess.run(["gzip", "-9nk", path], check=True)
    twin = path.with_name(f"{path.name}.gz")
    twin.write_bytes(packed(twin.read_bytes()))
    path.write_bytes(plain(path.read_bytes()))
    return path.name, check_study(store)


def test_a_packed_copy_is_the_one_to_remove(store):
    name, (problem,) = with_both(store)
    assert problem == f"'{name}' lies there packed too; remove '{name}.gz', a copy of it"


def test_a_half_packed_copy_is_the_one_to_remove(store):
    name, (spoiled, problem) = with_both(store, packed=lambda held: held[:-20])
    assert f"{name}.gz' cannot be unpacked" in spoiled
    assert problem == f"'{name}' lies there packed too; remove '{name}.gz', which cannot be read"


def test_where_the_unpacked_one_is_spoiled_that_one_goes(store):
    name, (spoiled, problem) = with_both(store, plain=lambda held: held[:-20])
    assert f"{name}' is not JSON" in spoiled
    assert problem == f"'{name}' lies there packed too; '{name}.gz' can be read, so remove the other"


def test_two_files_of_one_run_that_differ_are_told_apart(store):
    name, (problem,) = with_both(store, packed=lambda held: gzip.compress(gzip.decompress(held) + b"\n"))
    held = f"with other content in '{name}.gz'; keep the one that was measured"
    assert problem == f"'{name}' lies there packed too, {held}"


def test_a_run_that_is_packed_while_the_folder_is_read_is_not_lost(store, monkeypatch):
    glob = type(store.raw).glob

    def packing(folder, pattern):
        found = list(glob(folder, pattern))
        if pattern == "*.json":
            subprocess.run(["gzip", "-9n", *glob(folder, "run-*-u1-a1.json")], check=True)
        return found

    monkeypatch.setattr(type(store.raw), "glob", packing)
    with pytest.raises(RecordError, match="u1-a1"):
        store.read()


def test_launches_are_read_one_at_a_time(store):
    pack(store)
    first = next(iter(read_launches(store, ())))
    assert first[1].runs
    assert first[1].launch.startswith(b"{")


def test_a_study_of_which_only_packed_runs_are_left_is_found(store, tmp_path):
    pack(store)
    for path in (*store.raw.glob("launch-*"), *store.raw.glob("session-*")):
        path.unlink()
    assert list_studies(tmp_path / "data/raw") == [store.study]


@pytest.mark.parametrize("kind", ["launch", "session"])
def test_runs_alone_may_be_packed(store, kind):
    path = next(store.raw.glob(f"{kind}-*.json"))
    subprocess.run(["gzip", "-9n", path], check=True)
    assert any(problem.startswith(f"{path.name}.gz: no file of a study") for problem in check_study(store))


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (lambda packed: packed[:-20], "cannot be unpacked (Compressed file ended"),
        (lambda packed: b"{}", "cannot be unpacked (Not a gzipped file"),
        (lambda packed: packed[:40] + bytes([packed[40] ^ 255]) + packed[41:], "cannot be unpacked ("),
        (lambda packed: gzip.compress(bytes(MOST_RECORD_BYTES + 1)), "unpacks to more than 64 MiB; no record does"),
        (lambda packed: gzip.compress(b"{"), "is not JSON"),
    ],
    ids=["cut", "not packed", "a byte changed", "far too large", "cut before it was packed"],
)
def test_a_packed_run_that_is_spoiled_is_named(store, held, said):
    pack(store)
    path = next(store.raw.glob("run-*-u1-a1.json.gz"))
    path.write_bytes(held(path.read_bytes()))
    with pytest.raises(RecordError) as caught:
        store.read()
    assert path.name in str(caught.value)
    assert said in str(caught.value)
    assert len(check_study(store)) == 1


def test_packed_runs_come_from_another_machine(store, tmp_path):
    here = Store(tmp_path / "here", store.study)
    before = {path.name: path.read_bytes() for path in store.raw.iterdir() if path.name.startswith("run-")}
    pack(store)
    gather_study(here, [tmp_path / "data"])
    assert {path.name: path.read_bytes() for path in here.raw.glob("run-*")} == before
    assert check_study(here) == []
    assert gather_study(store, [tmp_path / "here"])[0].endswith("0 launches and 0 runs came, 1 were here")
    assert not list(store.raw.glob("run-*.json"))


def test_another_run_of_the_same_name_is_refused(store):
    pack(store)
    ((_, files),) = read_launches(store, ())
    launch = store.read().launches[0]
    other = make_run(launch, users=1, run_id="b1-default-u1-a1")
    spoiled = json.dumps(json.loads(files.runs[0]) | {"started_unix_s": other.started_unix_s + 60.0}).encode()
    with pytest.raises(RecordError, match="is there with other content"), store.lock():
        receive_launch(store, replace(files, runs=(spoiled, *files.runs[1:])), None)


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    root = make_root(tmp_path_factory.mktemp("project"))
    write_study(root / "data", "november", blocks=1, costs={"default": 0.0, "eager": 0.02})
    write_edition(root, "2026.11", ["november"])
    return root


def test_an_edition_of_packed_runs_is_the_same(published, tmp_path):
    root = shutil.copytree(published, tmp_path / "project")
    store = Store(root / "data", "november")
    folder = root / "editions/2026.11"
    before = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    files = json.loads(before["manifest.json"])["studies"][0]["files"]
    archive = pack_raw(store.raw, files, tmp_path / "a.tar.gz")
    pack(store)
    publish_edition(root, "2026.11", [])
    after = {path.name: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert after == before
    assert pack_raw(store.raw, files, tmp_path / "b.tar.gz").sha256 == archive.sha256


def test_a_later_edition_does_not_call_packed_runs_changed(published, tmp_path):
    root = shutil.copytree(published, tmp_path / "project")
    store = Store(root / "data", "november")
    pack(store)
    publish_edition(root, "2026.12", ["november"])
    assert "changed since" not in (root / "editions/2026.12/comparison.md").read_text(encoding="utf-8")
    path = next(store.raw.glob("run-*.json.gz"))
    run = json.loads(gzip.decompress(path.read_bytes()))
    path.write_bytes(gzip.compress(json.dumps(run | {"started_unix_s": run["started_unix_s"] + 1.0}).encode()))
    publish_edition(root, "2026.12", [])
    assert "changed since" in (root / "editions/2026.12/comparison.md").read_text(encoding="utf-8")
