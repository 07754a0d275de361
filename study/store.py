"""The store: raw records on disk, written once, read whole.

    data/raw/<study>/launch-<id>.json   one a launch        data/raw/<study>/launch-<id>.log   its server's log
    data/raw/<study>/run-<id>.json      one a run           data/raw/<study>/session-<n>.json    what was asked for

While a launch is open its record so far lies in `open-<id>.json`: a runner that dies leaves it, and the next one
closes it as `interrupted`.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from study.design.parameters import fingerprint, is_name
from study.design.plain_files import decode_utf8, explain_fields, parse_json, read_bytes, shown
from study.design.whole_files import PRIVATE, READABLE, make_folder, open_private, write_whole
from study.errors import InputError, RecordError
from study.records import (
    SCHEMA_VERSION,
    LaunchRecord,
    Record,
    RunRecord,
    SessionRecord,
    find_contradictions,
    identity_of,
    number_of,
)

_TYPES = (("launch", LaunchRecord), ("run", RunRecord), ("session", SessionRecord), ("open", LaunchRecord))
_READERS: dict[str, TypeAdapter[Any]] = {kind: TypeAdapter(record) for kind, record in _TYPES}

_PART = re.compile(r"\..+\.(?:json|log)\.\d+$")
"""Name of a file that is not whole yet."""
MOST_RECORD_BYTES = 64 * 2**20
"""A record with 40,000 requests has about 5 MB; a larger file than this is none of ours."""


@dataclass(frozen=True)
class StudyRecords:
    """All records of one raw folder, in the order of their ids; `files` maps file name to SHA-256."""

    study: str
    launches: tuple[LaunchRecord, ...]
    runs: tuple[RunRecord, ...]
    files: dict[str, str]
    sessions: tuple[SessionRecord, ...] = ()

    def launch_of(self, run: RunRecord) -> LaunchRecord | None:
        """Return the launch that served `run`, or None where its record is not there."""
        return next((launch for launch in self.launches if launch.launch_id == run.launch_id), None)


@dataclass(frozen=True)
class Reading:
    """What a raw folder holds, as far as it could be read, and one line for each thing that is wrong with it."""

    records: StudyRecords
    problems: tuple[str, ...]


def write_once(path: Path, text: str) -> None:
    """Write a file so that it is whole or not there: temporary file, fsync, link; an existing file is refused.

    Raises:
        RecordError: the file exists already, or the folder cannot be written.

    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(open_private(temporary), "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), READABLE)
        os.link(temporary, path)
        _sync_folder(path.parent)
    except FileExistsError:
        raise RecordError(f"'{path}' exists already; a raw record is written once") from None
    except OSError as error:
        raise RecordError(f"'{path}' cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class Store:
    """The raw folder of one study.

    Raises:
        InputError: the study's name would lead out of `data/raw`.

    """

    def __init__(self, data_dir: Path, study: str) -> None:
        if not is_name(study):
            raise InputError(f"study '{shown(study)}' is no plain name; letters a to z, digits, '.', '_', '-' work")
        self.study = study
        self.raw = data_dir / "raw" / study
        self.processed = data_dir / "processed" / study

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the study for one runner; the lock goes with the process, so a crash leaves none.

        Raises:
            InputError: another runner has it.

        """
        try:
            make_folder(self.raw)
            descriptor = open_private(self.raw / ".lock")
        except OSError as error:
            raise RecordError(f"'{self.raw}' cannot be made or written: {error.strerror}") from None
        with os.fdopen(descriptor, "w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"study '{self.study}' is being run by another process; wait for it") from None
            self._tidy()
            yield

    def _tidy(self) -> None:
        """Remove what a runner that was killed while it wrote has left: parts of files, journals of closed launches."""
        for path in self.raw.iterdir():
            closed = self.raw / path.name.replace("open-", "launch-", 1)
            if _PART.match(path.name) or (path.name.startswith("open-") and closed.is_file()):
                path.unlink(missing_ok=True)

    def log_path(self, launch_id: str) -> Path:
        """Return where a launch's server log lies."""
        return self.raw / f"launch-{launch_id}.log"

    def write(self, record: Record) -> Path:
        """Write one record; an open launch of the same id is closed by it."""
        path = self.raw / f"{record.kind}-{identity_of(record)}.json"
        write_once(path, record.model_dump_json() + "\n")
        if isinstance(record, LaunchRecord):
            (self.raw / f"open-{record.launch_id}.json").unlink(missing_ok=True)
        return path

    def write_open(self, record: LaunchRecord) -> None:
        """Keep what is known of a launch that is still open (replaced as more becomes known)."""
        path = self.raw / f"open-{record.launch_id}.json"
        write_whole(path, record.model_dump_json() + "\n", PRIVATE)

    def read_open(self) -> list[LaunchRecord]:
        """Return launches that a runner left open."""
        records = [_read_record(path, "open")[0] for path in self.open_files()]
        return [record for record in records if isinstance(record, LaunchRecord)]

    def record_files(self, kind: str) -> list[Path]:
        """Return the files named as records of a kind (`launch`, `run`, `session`), whatever is in them."""
        return self._files(f"{kind}-*.json")

    def open_files(self) -> list[Path]:
        """Return the files of launches that are open, or were left so."""
        return self._files("open-*.json")

    def next_attempt(self, key: str) -> int:
        """Return the first attempt number (from 1) that no file of this launch or run uses."""
        pattern = re.compile(rf"(?:launch|run|open)-{re.escape(key)}-a(\d+)\.(?:json|log)$")
        used = [int(match[1]) for path in self._files("*") if (match := pattern.match(path.name))]
        return max(used, default=0) + 1

    def read(self) -> StudyRecords:
        """Read every record of the folder.

        Raises:
            RecordError: a file is unreadable, misplaced, of another schema or study, contradicts itself or another, or
                is not comparable with the rest. The line names the first; `read_all` has them all.

        """
        reading = self.read_all()
        if reading.problems:
            more = len(reading.problems) - 1
            rest = f" ({more} more; `study check {self.study}` lists them)" if more else ""
            raise RecordError(reading.problems[0] + rest)
        return reading.records

    def read_all(self) -> "Reading":
        """Read every file once; what is wrong with one hides no other.

        Raises:
            InputError: there is no such folder.

        """
        if not self.raw.is_dir():
            raise InputError(f"no raw folder '{self.raw}'; run the session first, or name another study")
        problems: list[str] = []
        records: dict[str, list[Any]] = {kind: [] for kind in _READERS}
        files: dict[str, dict[str, str]] = {kind: {} for kind in _READERS}
        for path in self._files("*.json"):
            kind = path.name.split("-")[0]
            try:
                record, digest = _read_record(path, kind)
                _check_place(path, kind, record, self.study)
            except RecordError as error:
                problems.append(str(error))
                continue
            problems += [f"'{shown(path)}': {fault}" for fault in find_contradictions(record)]
            records[kind].append(record)
            files[kind][path.name] = digest
        found = StudyRecords(
            study=self.study,
            launches=tuple(records["launch"]),
            runs=tuple(records["run"]),
            files=files["launch"] | files["run"] | files["session"],
            sessions=tuple(sorted(records["session"], key=number_of)),
        )
        return Reading(found, (*problems, *_mixed(found), *_at_odds(found), *_copies(found)))

    def _files(self, pattern: str) -> list[Path]:
        return sorted(self.raw.glob(pattern)) if self.raw.is_dir() else []


def sha256(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_record(path: Path, kind: str) -> tuple[Record, str]:
    """Read one record file, and its SHA-256; every fault names the file, and the field where there is one."""
    if kind not in _READERS:
        raise RecordError(f"'{shown(path)}' is no record: its name begins with run-, launch-, session- or open-")
    try:
        content = read_bytes(path, MOST_RECORD_BYTES)
        data = parse_json(decode_utf8(content, f"'{shown(path)}'"))
    except InputError as error:
        raise RecordError(str(error)) from None
    except ValueError as error:
        raise RecordError(f"'{shown(path)}' is not JSON ({error}); restore it from a copy or remove it") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        what = "a newer version of the study wrote it" if newer else "restore it from a copy or remove it"
        raise RecordError(f"'{shown(path)}': schema_version {shown(version)} is not {SCHEMA_VERSION}; {what}")
    try:
        record: Record = _READERS[kind].validate_json(content, strict=True)
    except ValidationError as error:
        raise RecordError(f"'{shown(path)}': {explain_fields(error)}") from None
    return record, hashlib.sha256(content).hexdigest()


def _check_place(path: Path, kind: str, record: Record, study: str) -> None:
    """Refuse a record that lies under another name or in another study's folder."""
    if path.stem != f"{kind}-{identity_of(record)}":
        held = f"{record.kind} '{shown(identity_of(record))}'"
        raise RecordError(f"'{shown(path)}' holds {held}; a record keeps its file name")
    if record.study != study:
        raise RecordError(f"'{shown(path)}' belongs to study '{shown(record.study)}', not to '{study}'")


def _measured(found: StudyRecords) -> tuple[LaunchRecord | RunRecord, ...]:
    return (*found.launches, *found.runs)


def _mixed(found: StudyRecords) -> Iterator[str]:
    """Tell which records cannot be compared with the first, by the field that differs and both values."""
    for other in found.launches[1:]:
        first = found.launches[0]
        try:
            check_comparable(first.comparable, other.comparable, f"launch '{other.launch_id}'")
        except RecordError as error:
            yield str(error)
        for name in ("vllm", "torch"):
            ours, theirs = (one.machine.versions.get(name) for one in (first, other))
            if ours and theirs and ours != theirs:
                yield f"launch '{other.launch_id}' ran on {name} {theirs}, the rest on {ours}; split them"
    ours = next((one.fingerprint for one in _measured(found)), None)
    for run in found.runs:
        if run.fingerprint != ours:
            yield f"run '{run.run_id}' has fingerprint {run.fingerprint}, its study {ours}"
    for launch in found.launches:
        if fingerprint(launch.comparable) != launch.fingerprint:
            number = shown(launch.fingerprint)
            yield f"launch '{launch.launch_id}': fingerprint {number} does not stand for its comparable parameters"


def _at_odds(found: StudyRecords) -> Iterator[str]:
    """Tell which runs say otherwise than the launch that served them."""
    launches = {launch.launch_id: launch for launch in found.launches}
    for run in found.runs:
        launch = launches.get(run.launch_id)
        for name in ("session", "block", "level", "rehearsal"):
            ours, theirs = getattr(run, name), getattr(launch, name, None)
            if launch is not None and ours != theirs:
                yield f"run '{run.run_id}' has {name} {ours!r}, its launch '{run.launch_id}' {theirs!r}"


def _copies(found: StudyRecords) -> Iterator[str]:
    """Tell which records have the content of another: a copy, not two measurements."""
    seen: dict[str, str] = {}
    for record in _measured(found):
        content = record.model_dump_json(exclude={"launch_id", "run_id", "attempt", "log"})
        name = seen.setdefault(content, identity_of(record))
        if name != identity_of(record):
            yield f"{record.kind} '{identity_of(record)}' is a copy of '{name}'"


def check_comparable(ours: dict[str, Any], theirs: dict[str, Any], what: str) -> None:
    """Refuse `theirs` where it differs from `ours` in what makes runs comparable."""
    for name in sorted(set(ours) | set(theirs)):
        if ours.get(name) != theirs.get(name):
            raise RecordError(
                f"{what} has {name} {theirs.get(name)!r}, the study {ours.get(name)!r}; use another study name"
            )


def schemas() -> dict[str, str]:
    """Return the JSON Schema of every kind of record: file name under `data/raw/schema/` to text."""
    return {
        f"{kind}-{SCHEMA_VERSION}.schema.json": json.dumps(adapter.json_schema(), indent=1, sort_keys=True) + "\n"
        for kind, adapter in _READERS.items()
        if kind != "open"
    }
