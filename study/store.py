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
from typing import Any, TypeVar

from pydantic import TypeAdapter, ValidationError

from study.errors import InputError, RecordError
from study.records import SCHEMA_VERSION, LaunchRecord, Record, RunRecord, SessionRecord, identity_of

_R = TypeVar("_R", LaunchRecord, RunRecord, SessionRecord)
_LAUNCH: TypeAdapter[LaunchRecord] = TypeAdapter(LaunchRecord)
_RUN: TypeAdapter[RunRecord] = TypeAdapter(RunRecord)
_SESSION: TypeAdapter[SessionRecord] = TypeAdapter(SessionRecord)


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


def write_once(path: Path, text: str) -> None:
    """Write a file so that it is whole or not there: temporary file, fsync, link; an existing file is refused.

    Raises:
        RecordError: the file exists already, or the folder cannot be written.

    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
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
    """The raw folder of one study."""

    def __init__(self, data_dir: Path, study: str) -> None:
        self.study = study
        self.raw = data_dir / "raw" / study
        self.processed = data_dir / "processed" / study

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the study for one runner; the lock goes with the process, so a crash leaves none.

        Raises:
            InputError: another runner has it.

        """
        self.raw.mkdir(parents=True, exist_ok=True)
        with (self.raw / ".lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise InputError(f"study '{self.study}' is being run by another process; wait for it") from None
            yield

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
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_text(record.model_dump_json() + "\n", encoding="utf-8")
        temporary.replace(path)

    def read_open(self) -> list[LaunchRecord]:
        """Return launches that a runner left open."""
        return [_parse(path, _LAUNCH) for path in self.open_files()]

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
            RecordError: a file is unreadable, misplaced, of another schema or study, or not comparable with the rest.

        """
        if not self.raw.is_dir():
            raise InputError(f"no raw folder '{self.raw}'; run the session first, or name another study")
        launches = [(path, _parse(path, _LAUNCH)) for path in self._files("launch-*.json")]
        runs = [(path, _parse(path, _RUN)) for path in self._files("run-*.json")]
        sessions = [(path, _parse(path, _SESSION)) for path in self._files("session-*.json")]
        placed: list[tuple[Path, Record]] = [*launches, *runs, *sessions]
        for path, record in placed:
            _check_place(path, record, self.study)
        _check_alike([record for _, record in launches], [record for _, record in runs])
        files = {path.name: sha256(path) for path, _ in placed}
        return StudyRecords(
            study=self.study,
            launches=tuple(record for _, record in launches),
            runs=tuple(record for _, record in runs),
            files=files,
            sessions=tuple(sorted((record for _, record in sessions), key=lambda item: int(item.session_id))),
        )

    def read_each(self) -> list[str]:
        """Return what is wrong with single files, one line each; an unreadable one hides no other.

        Raises:
            InputError: there is no such folder.

        """
        if not self.raw.is_dir():
            raise InputError(f"no raw folder '{self.raw}'; run the session first, or name another study")
        problems = []
        for path in self._files("*.json"):
            try:
                self._read_one(path)
            except RecordError as error:
                problems.append(str(error))
        return problems

    def _read_one(self, path: Path) -> None:
        """Read one file as what its name says it is."""
        kind = path.name.split("-")[0]
        if kind == "run":
            _check_place(path, _parse(path, _RUN), self.study)
        elif kind == "launch":
            _check_place(path, _parse(path, _LAUNCH), self.study)
        elif kind == "session":
            _check_place(path, _parse(path, _SESSION), self.study)
        elif kind == "open":
            _parse(path, _LAUNCH)
        else:
            raise RecordError(f"'{path}' is no record: its name begins with run-, launch-, session- or open-")

    def _files(self, pattern: str) -> list[Path]:
        return sorted(self.raw.glob(pattern)) if self.raw.is_dir() else []


def sha256(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _parse(path: Path, adapter: TypeAdapter[_R]) -> _R:
    """Read one record file; every fault names the file, and the field where there is one."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"'{path}' is not readable: {error}") from None
    except json.JSONDecodeError as error:
        raise RecordError(f"'{path}' is not JSON ({error}); restore it from a copy or remove it") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION:
        raise RecordError(f"'{path}': schema_version {version!r} is not the {SCHEMA_VERSION} that this version reads")
    try:
        return adapter.validate_json(json.dumps(data))
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise RecordError(f"'{path}': field '{field}': {first['msg']}") from None


def _check_place(path: Path, record: Record, study: str) -> None:
    """Refuse a record that lies under another name or in another study's folder."""
    if path.stem != f"{record.kind}-{identity_of(record)}":
        raise RecordError(f"'{path}' holds {record.kind} '{identity_of(record)}'; a record keeps its file name")
    if record.study != study:
        raise RecordError(f"'{path}' belongs to study '{record.study}', not to '{study}'")


def _check_alike(launches: list[LaunchRecord], runs: list[RunRecord]) -> None:
    """Refuse records that cannot be compared, naming the field that differs and both values."""
    if not launches:
        return
    first = launches[0]
    for other in launches[1:]:
        check_comparable(first.comparable, other.comparable, f"launch '{other.launch_id}'")
        for name in sorted(set(first.machine.versions) & set(other.machine.versions)):
            ours, theirs = first.machine.versions[name], other.machine.versions[name]
            if name in ("vllm", "torch") and ours != theirs:
                raise RecordError(f"launch '{other.launch_id}' ran on {name} {theirs}, the rest on {ours}; split them")
    for run in runs:
        if run.fingerprint != first.fingerprint:
            raise RecordError(f"run '{run.run_id}' has fingerprint {run.fingerprint}, its study {first.fingerprint}")


def check_comparable(ours: dict[str, Any], theirs: dict[str, Any], what: str) -> None:
    """Refuse `theirs` where it differs from `ours` in what makes runs comparable."""
    for name in sorted(set(ours) | set(theirs)):
        if ours.get(name) != theirs.get(name):
            raise RecordError(
                f"{what} has {name} {theirs.get(name)!r}, the study {ours.get(name)!r}; use another study name"
            )


def schemas() -> dict[str, str]:
    """Return the JSON Schema of every kind of record: file name under `data/raw/schema/` to text."""
    kinds: dict[str, TypeAdapter[Any]] = {"launch": _LAUNCH, "run": _RUN, "session": _SESSION}
    return {
        f"{kind}-{SCHEMA_VERSION}.schema.json": json.dumps(adapter.json_schema(), indent=1, sort_keys=True) + "\n"
        for kind, adapter in kinds.items()
    }
