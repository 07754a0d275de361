"""The store: raw records on disk, written once, read whole.

    data/raw/<study>/launch-<id>.json   one a launch        data/raw/<study>/launch-<id>.log   its server's log
    data/raw/<study>/run-<id>.json      one a run           data/raw/<study>/session-<n>.json    what was asked for

The runs of a study that is on file may be packed (`gzip -9n run-*.json`), which makes `run-<id>.json.gz` of them.

While a launch is open its record so far lies in `open-<id>.json`: a runner that dies leaves it, and the next one
closes it as `interrupted`.
"""

import fcntl
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from study.agreement import find_difference
from study.design.parameters import is_name
from study.design.plain_files import shown
from study.design.whole_files import PRIVATE, make_folder, open_private, sync_folder, write_through, write_whole
from study.errors import InputError, RecordError
from study.reading import ReadingOf, StudyOf, read_folder
from study.reading import StudyRecords as StudyRecords
from study.reading_runs import WHOLE, R, RunReader
from study.record_files import PACKED, READERS, open_record
from study.records import SCHEMA_VERSION, LaunchRecord, Record, RunRecord, identity_of

_PART = re.compile(r"\..+\.(?:json|log)\.\d+$")
"""Name of a file that is not whole yet."""


def write_once(path: Path, text: str) -> None:
    """Write a file so that it is whole or not there: temporary file, fsync, link; an existing file is refused.

    Raises:
        RecordError: the file exists already, or the folder cannot be written.

    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_through(temporary, text.encode())
        os.link(temporary, path)
        sync_folder(path.parent)
    except FileExistsError:
        raise RecordError(f"'{path}' exists already; a raw record is written once") from None
    except OSError as error:
        raise RecordError(f"'{path}' cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink(missing_ok=True)


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
        records = [open_record(path).parse() for path in self.open_files()]
        return [record for record in records if isinstance(record, LaunchRecord)]

    def record_files(self, kind: str) -> list[Path]:
        """Return the files named as records of a kind (`launch`, `run`, `session`), whatever is in them."""
        return self._record_files(f"{kind}-*.json") if kind == "run" else self._files(f"{kind}-*.json")

    def open_files(self) -> list[Path]:
        """Return the files of launches that are open, or were left so."""
        return self._files("open-*.json")

    def next_attempt(self, key: str) -> int:
        """Return the first attempt number (from 1) that no file of this launch or run uses."""
        pattern = re.compile(rf"(?:launch|run|open)-{re.escape(key)}-a(\d+)\.(?:json|log)(?:{re.escape(PACKED)})?$")
        used = [int(match[1]) for path in self._files("*") if (match := pattern.match(path.name))]
        return max(used, default=0) + 1

    def read(self) -> StudyRecords:
        """Read every record of the folder.

        Raises:
            RecordError: a file is unreadable, misplaced, of another schema or study, contradicts itself or another, or
                is not comparable with the rest. The line names the first; `read_all` has them all.

        """
        return self.read_all().accept()

    def read_all(self) -> ReadingOf[RunRecord]:
        """Read every file once, and keep all of it; what is wrong with one hides no other.

        Raises:
            InputError: there is no such folder.

        """
        reading = self.read_runs(lambda _: WHOLE)
        found = reading.records
        runs = tuple(run for run, _ in found.runs)
        return ReadingOf(StudyOf(found.study, found.launches, runs, found.files, found.sessions), reading.problems)

    def read_runs(self, choose: Callable[[StudyOf[Any]], RunReader[R]]) -> ReadingOf[R]:
        """Read every file once, the runs last and one at a time; what is wrong with one hides no other.

        Args:
            choose: is given the study without its runs, and says what is kept of each run.

        Raises:
            InputError: there is no such folder.

        """
        if not self.raw.is_dir():
            raise InputError(f"no raw folder '{self.raw}'; run the session first, or name another study")
        return read_folder(self.study, self._record_files("*.json"), choose)

    def _record_files(self, pattern: str) -> list[Path]:
        """Return files of a pattern and the packed runs; a run that is packed meanwhile is found twice, never lost."""
        plain = self._files(pattern)
        return sorted([*plain, *self._files(f"run-*.json{PACKED}")])

    def _files(self, pattern: str) -> list[Path]:
        return sorted(self.raw.glob(pattern)) if self.raw.is_dir() else []


def sha256(path: Path) -> str:
    """Return the SHA-256 (hex) of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def check_comparable(ours: dict[str, Any], theirs: dict[str, Any], what: str) -> None:
    """Refuse `theirs` where it differs from `ours` in what makes runs comparable."""
    difference = find_difference(ours, theirs, what)
    if difference:
        raise RecordError(difference)


def schemas() -> dict[str, str]:
    """Return the JSON Schema of every kind of record: file name under `data/raw/schema/` to text."""
    return {
        f"{kind}-{SCHEMA_VERSION}.schema.json": json.dumps(adapter.json_schema(), indent=1, sort_keys=True) + "\n"
        for kind, adapter in READERS.items()
        if kind != "open"
    }
