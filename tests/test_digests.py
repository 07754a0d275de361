"""Digests of runs on disk: never stale, never needed, and the same bytes with them and without."""

import os
import random
import shutil
from dataclasses import replace

import pytest
from growth.simulate import write_simulated

from study import process_pool, reading_runs
from study.analyze.cache import CACHE
from study.analyze.digests_on_disk import DigestCache, read_digests
from study.analyze.run_digest import Digester, digest_runs
from study.analyze.runs import DEFAULT_BELOW_SHARE
from study.analyze.tables_on_disk import write_tables
from study.errors import RecordError
from study.record_files import RecordFile
from study.store import Store

RUNS = 20
RUN = "run-b1-eager-u4-a1.json"


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    return write_simulated(tmp_path_factory.mktemp("data"), "s", RUNS)


@pytest.fixture
def store(simulated, tmp_path):
    shutil.copytree(simulated.raw, tmp_path / "raw/s")
    return Store(tmp_path, "s")


@pytest.fixture
def parsed(monkeypatch):
    """Names of the run files that are parsed, as that happens."""
    names, parse = [], RecordFile.parse
    monkeypatch.setattr(RecordFile, "parse", lambda file: names.append(file.path.name) or parse(file))
    return names


def read(store, share=DEFAULT_BELOW_SHARE, least_runs=RUNS):
    return read_digests(store, lambda _: share, least_runs)


def runs_of(names):
    return [name for name in names if name.startswith("run-")]


def tables(study, folder):
    return {path.name: path.read_bytes() for path in write_tables(study, folder)}


def change(path, old, new):
    """Change a file's bytes and neither its size nor its times."""
    facts, content = path.stat(), path.read_bytes()
    assert content.count(old) >= 1 and len(old) == len(new)
    path.write_bytes(content.replace(old, new, 1))
    os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def cache_of(store):
    return store.processed.parent / CACHE / "s.digests"


def test_a_second_reading_parses_no_run_and_gives_the_same_tables(store, parsed, tmp_path):
    first = tables(read(store), tmp_path / "first")
    assert len(runs_of(parsed)) == RUNS
    parsed.clear()
    second = read(store)
    assert runs_of(parsed) == []
    assert tables(second, tmp_path / "second") == first
    assert tables(store.read(), tmp_path / "records") == first


def test_what_is_drawn_comes_back_bit_for_bit(store):
    read(store)
    for kept, made in zip(read(store).runs, digest_runs(store.read()), strict=True):
        assert kept.trace.points.tobytes() == made.trace.points.tobytes()
        assert kept.trace.points.shape == made.trace.points.shape
        assert kept.trace.tpot_ms.tobytes() == made.trace.tpot_ms.tobytes()
        assert (kept.figures, kept.validity, kept.context) == (made.figures, made.validity, made.context)


def test_changed_bytes_are_noticed_whatever_the_size_and_the_times(store, parsed):
    before = read(store)
    change(store.raw / RUN, b'"latency_s":[7', b'"latency_s":[8')
    parsed.clear()
    with pytest.raises(RecordError, match="witness_us"):
        read(store)
    assert runs_of(parsed) == [RUN]
    change(store.raw / RUN, b'"latency_s":[8', b'"latency_s":[7')
    change(store.raw / RUN, b'"position":1,', b'"position":7,')
    found = {run.run_id: run.position for run in read(store).runs}
    assert found["b1-eager-u4-a1"] == 7
    assert len(found) == len(before.runs)


def test_digests_of_other_code_are_made_again(store, parsed, monkeypatch):
    read(store)
    parsed.clear()
    monkeypatch.setattr("study.analyze.digests_on_disk.code_number", lambda: "0" * 64)
    read(store)
    assert len(runs_of(parsed)) == RUNS


def test_digests_of_another_threshold_are_made_again(store):
    launch = store.raw / "launch-b1-eager-a1.json"
    change(launch, b'"max_sm_clock_mhz":1980.0', b'"max_sm_clock_mhz":9980.0')
    # The card's clock is 1980 MHz, a fifth of that.
    assert not any(run.figures.throttled for run in read(store, share=0.1).runs)
    assert {run.level for run in read(store, share=0.3).runs if run.figures.throttled} == {"eager"}


def test_digests_of_another_launch_are_made_again(store, parsed):
    read(store)
    launch = store.raw / "launch-b1-eager-a1.json"
    change(launch, b'"max_sm_clock_mhz":1980.0', b'"max_sm_clock_mhz":9980.0')
    parsed.clear()
    found = read(store)
    assert {name.split("-")[2] for name in runs_of(parsed)} == {"eager"}
    assert {run.level for run in found.runs if run.figures.throttled} == {"eager"}


def _cut(path):
    path.write_bytes(path.read_bytes()[:-1000])


def _damage(path):
    content = bytearray(path.read_bytes())
    content[random.Random(1).randrange(200, len(content))] ^= 1
    path.write_bytes(bytes(content))


def _put_a_folder_there(path):
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    "spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b""), _cut, _damage, _put_a_folder_there]
)
def test_a_cache_that_is_gone_or_damaged_changes_nothing(store, parsed, tmp_path, spoil):
    first = tables(read(store), tmp_path / "first")
    spoil(cache_of(store))
    parsed.clear()
    assert tables(read(store), tmp_path / "second") == first
    assert len(runs_of(parsed)) == RUNS


def test_a_place_that_cannot_be_written_is_no_fault(store):
    store.processed.parent.mkdir()
    (store.processed.parent / CACHE).write_text("a file where the folder would be")
    assert len(read(store).runs) == RUNS


def test_a_small_study_leaves_no_cache(store):
    read(store, least_runs=RUNS + 1)
    assert not cache_of(store).exists()


def test_git_does_not_see_the_cache(store):
    read(store)
    assert "*" in (cache_of(store).parent / ".gitignore").read_text().splitlines()
    assert sorted(path.name for path in cache_of(store).parent.iterdir()) == [".gitignore", "s.digests"]


def test_a_wrong_record_is_named_with_its_field_at_every_reading(store):
    read(store)
    change(store.raw / RUN, b'"users":4', b'"users":x')
    for _ in range(2):
        with pytest.raises(RecordError, match=f"{RUN}.*is not JSON"):
            read(store)
    change(store.raw / RUN, b'"users":x', b'"users":0')
    for _ in range(2):
        with pytest.raises(RecordError, match=f"{RUN}.*field 'users' 0"):
            read(store)


def test_a_contradiction_is_told_at_every_reading(store):
    text = (store.raw / RUN).read_text()
    (store.raw / RUN).write_text(text.replace('"started_s":', '"started_s":9', 1))
    for _ in range(2):
        with pytest.raises(RecordError, match=RUN):
            read(store)


def test_records_are_held_against_each_other_at_every_reading(store):
    read(store)
    content = (store.raw / RUN).read_text()
    copy = content.replace('"run_id":"b1-eager-u4-a1"', '"run_id":"b1-eager-u4-a2"')
    copy = copy.replace('"attempt":1', '"attempt":2')
    (store.raw / RUN.replace("a1", "a2")).write_text(copy)
    for _ in range(2):
        with pytest.raises(RecordError, match="run 'b1-eager-u4-a2' is a copy of 'b1-eager-u4-a1'"):
            read(store)


def test_a_file_under_another_name_is_refused_though_its_bytes_are_known(store):
    read(store)
    (store.raw / RUN).rename(store.raw / "run-b9-eager-u4-a1.json")
    with pytest.raises(RecordError, match="a record keeps its file name"):
        read(store)


def test_digests_of_files_that_went_are_dropped(store):
    read(store)
    size = cache_of(store).stat().st_size
    (store.raw / RUN).unlink()
    read(store, least_runs=1)
    assert cache_of(store).stat().st_size < size


def test_several_processes_read_the_same_as_one(simulated, tmp_path, monkeypatch):
    shutil.copytree(simulated.raw, tmp_path / "raw/s")
    store = Store(tmp_path, "s")
    (store.raw / RUN).write_text("{}")
    contradicted = store.raw / "run-b1-O3-u8-a1.json"
    contradicted.write_text(contradicted.read_text().replace('"started_s":', '"started_s":9', 1))
    alone = store.read_runs(lambda frame: DigestCache(tmp_path / "none", Digester(frame.launches)).reader())
    monkeypatch.setattr(reading_runs, "FEW", 3)
    monkeypatch.setattr(process_pool, "may_start", lambda: True)
    shared = []
    share = process_pool.Pool.share
    monkeypatch.setattr(process_pool.Pool, "share", lambda pool, file: shared.append(file) or share(pool, file))
    cache = []

    def choose(frame):
        cache.append(DigestCache(tmp_path / "kept", Digester(frame.launches)))
        return replace(cache[0].reader(), processes=2)

    together = store.read_runs(choose)
    assert len(shared) == RUNS - 3
    assert together.problems == alone.problems
    for bad in (contradicted.name, RUN):
        assert any(bad in line for line in alone.problems)
    assert together.records.files == alone.records.files
    assert [one.run_id for one in together.records.runs] == [one.run_id for one in alone.records.runs]
    assert tables(together.records, tmp_path / "together") == tables(alone.records, tmp_path / "alone")
