"""Arrival: launches that were measured elsewhere come into a store, each whole or not at all.

    .arriving-<launch>/  being written     .arrived-<launch>/  whole: its files are linked into place, the launch last

Whoever is killed in between leaves one of the two: what was whole is finished by the next one, the rest is removed.
Records keep their bytes and names; runs that were packed come unpacked. The unmeasured starts that fill caches alone
are called the same on every machine and enter no figure: they get the next number here.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from study.agreement import find_other_versions
from study.design.plain_files import explain_fields, shown
from study.design.whole_files import FOLDER, make_folder, sync_folder, write_through
from study.errors import RecordError
from study.record_files import identity_in, open_record, read_unpacked
from study.records import LaunchRecord, RunRecord, SessionRecord, find_contradictions
from study.store import Store, check_comparable

WRITING, WHOLE = ".arriving-", ".arrived-"
NUMBERED_HERE = {"launch_id", "attempt", "log"}
"""Fields of a cache-filling start that its number stands in."""
_R = TypeVar("_R", bound=BaseModel)


@dataclass(frozen=True)
class LaunchFiles:
    """One launch: its record, those of its runs (unpacked), and its server's log (None where there is none)."""

    launch: bytes
    runs: tuple[bytes, ...]
    log: bytes | None


def read_launches(store: Store, known: Collection[str]) -> Iterator[tuple[str, LaunchFiles]]:
    """Yield the name and the files of every finished launch in a store, but for those that are `known`."""
    finished = [path for path in store.record_files("launch") if path.name not in known]
    if not finished:
        return
    runs: dict[str, list[Path]] = {}
    for path in store.record_files("run"):
        if path.name not in known:
            runs.setdefault(json.loads(open_record(path).content).get("launch_id"), []).append(path)
    for path in finished:
        served = runs.get(identity_in(path.name), ())
        log = path.with_suffix(".log")
        contents = tuple(open_record(run).content for run in served)
        yield path.name, LaunchFiles(path.read_bytes(), contents, log.read_bytes() if log.is_file() else None)


def receive_launch(store: Store, files: LaunchFiles, first: LaunchRecord | None) -> LaunchRecord | None:
    """Write a launch with all that belongs to it into a store whose lock is held.

    Args:
        store: where it comes to.
        files: the launch.
        first: a launch that is there already, which it must be comparable with; None where there is none.

    Returns:
        The record as it lies in the store, or None where it was there already.

    Raises:
        RecordError: it does not belong here, contradicts itself, or another launch of its name is there.

    """
    launch, runs = _read(store.study, files)
    if first is not None:
        check_belongs(launch, first)
    if launch.fills_caches:
        twin = _same_fill(store, launch)
        if twin is not None:
            return None
        launch, files = _number_here(launch, files, store.next_attempt)
    wanted = _name_files(launch, runs, files)
    held = {name: read_unpacked(store.raw / name) for name in wanted}
    there = [name for name in wanted if (store.raw / name).exists() or held[name] is not None]
    if there and held == wanted:
        return None
    if there:
        clash = f"'{shown(store.raw / there[0])}' is there with other content"
        raise RecordError(f"{clash}: two machines made launch '{launch.launch_id}'; give each machine seeds of its own")
    _commit(store, launch.launch_id, wanted)
    return launch


def finish_arrivals(store: Store) -> None:
    """Carry out what whoever was killed while a launch arrived has left half done; the store's lock is held."""
    for folder in sorted(store.raw.glob(f"{WHOLE}*")):
        _link_into_place(folder)
    for folder in store.raw.glob(f"{WRITING}*"):
        shutil.rmtree(folder)


def add_session(
    store: Store, session: SessionRecord, all_known: tuple[SessionRecord, ...], alike: Iterable[SessionRecord]
) -> tuple[SessionRecord, ...]:
    """Keep what a session asked for under the next number, unless one of `alike` asked for the same; return all."""
    if any((one.asked, one.levels) == (session.asked, session.levels) for one in alike):
        return all_known
    numbered = session.model_copy(update={"session_id": str(len(all_known) + 1)})
    store.write(numbered)
    return (*all_known, numbered)


def check_belongs(launch: LaunchRecord, first: LaunchRecord) -> None:
    """Refuse a launch that cannot be compared with the first one of its study: parameters, vLLM or torch differ."""
    check_comparable(first.comparable, launch.comparable, f"launch '{launch.launch_id}'")
    for name, ours, theirs in find_other_versions(first, launch):
        raise RecordError(
            f"launch '{launch.launch_id}' ran on {name} {shown(theirs)}, the study on {ours}; install {ours} there"
        )


def _read(study: str, files: LaunchFiles) -> tuple[LaunchRecord, dict[str, bytes]]:
    """Check a launch's files; return its record, and the runs by the name of their files."""
    launch = _parse(LaunchRecord, files.launch)
    runs: dict[str, bytes] = {}
    for content in files.runs:
        run = _parse(RunRecord, content)
        runs[f"run-{run.run_id}.json"] = content
        for name in ("study", "fingerprint", "launch_id"):
            ours, theirs = getattr(launch, name), getattr(run, name)
            if ours != theirs:
                raise RecordError(f"run '{run.run_id}' has {name} '{shown(theirs)}', its launch '{shown(ours)}'")
    if launch.study != study:
        raise RecordError(f"launch '{launch.launch_id}' belongs to study '{shown(launch.study)}', not to '{study}'")
    if launch.log != f"launch-{launch.launch_id}.log":
        raise RecordError(f"launch '{launch.launch_id}' names a log '{shown(launch.log)}' that is not its own")
    digest = None if files.log is None else hashlib.sha256(files.log).hexdigest()
    if digest != launch.log_sha256:
        raise RecordError(f"the log of launch '{launch.launch_id}' does not have the SHA-256 that its record names")
    return launch, runs


def _parse(kind: type[_R], content: bytes) -> _R:
    try:
        record = kind.model_validate_json(content, strict=True)
    except ValidationError as error:
        raise RecordError(f"a {kind.__name__} that came from elsewhere: {explain_fields(error)}") from None
    assert isinstance(record, LaunchRecord | RunRecord)  # noqa: S101 (no other kind is asked for)
    faults = find_contradictions(record)
    if faults:
        raise RecordError(f"a {kind.__name__} that came from elsewhere: {faults[0]}")
    return record


def _same_fill(store: Store, launch: LaunchRecord) -> str | None:
    """Return the name of the same cache-filling start in the store, whatever number it has there."""
    content = launch.model_dump_json(exclude=NUMBERED_HERE)
    for path in store.record_files("launch"):
        if path.name.startswith(f"launch-fill-{launch.level}-a"):
            other = _parse(LaunchRecord, path.read_bytes())
            if other.model_dump_json(exclude=NUMBERED_HERE) == content:
                return path.name
    return None


def _number_here(
    launch: LaunchRecord, files: LaunchFiles, next_attempt: Callable[[str], int]
) -> tuple[LaunchRecord, LaunchFiles]:
    """Give a cache-filling start the next number of this store."""
    key = f"fill-{launch.level}"
    attempt = next_attempt(key)
    if attempt == launch.attempt:
        return launch, files
    name = f"{key}-a{attempt}"
    launch = launch.model_copy(update={"launch_id": name, "attempt": attempt, "log": f"launch-{name}.log"})
    return launch, LaunchFiles(f"{launch.model_dump_json()}\n".encode(), (), files.log)


def _name_files(launch: LaunchRecord, runs: Mapping[str, bytes], files: LaunchFiles) -> dict[str, bytes]:
    log = {} if files.log is None else {launch.log: files.log}
    return {**log, **runs, f"launch-{launch.launch_id}.json": files.launch}


def _commit(store: Store, launch_id: str, files: Mapping[str, bytes]) -> None:
    """Write files so that all of them come to be, or none."""
    writing, whole = (store.raw / f"{state}{launch_id}" for state in (WRITING, WHOLE))
    try:
        shutil.rmtree(writing, ignore_errors=True)
        make_folder(writing)
        writing.chmod(FOLDER)
        for name, content in files.items():
            write_through(writing / name, content)
        sync_folder(writing)
        writing.rename(whole)
        sync_folder(store.raw)
        _link_into_place(whole)
    except OSError as error:
        raise RecordError(f"launch '{launch_id}' cannot be written to '{store.raw}': {error.strerror}") from None


def _link_into_place(folder: Path) -> None:
    """Link the files of a whole arrival beside it, the launch last, and remove it; what is there already stays."""
    for path in sorted(folder.iterdir(), key=lambda path: (path.name.startswith("launch-"), path.suffix == ".json")):
        with suppress(FileExistsError):
            os.link(path, folder.parent / path.name)
    sync_folder(folder.parent)
    shutil.rmtree(folder)
