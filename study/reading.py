"""Reads a raw folder: every file once, runs one at a time, so that thousands of them fit into the memory.

    launches, sessions -> a reader is chosen -> each run: read, checked, made into what is kept -> do all agree?

What is wrong with one file hides no other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, TypeAlias, TypeVar

from study.agreement import find_disagreements
from study.design.plain_files import shown
from study.errors import RecordError
from study.record_files import READERS, RecordFile, RunHead, check_place, head_of, open_record
from study.records import LaunchRecord, Record, RunRecord, SessionRecord, find_contradictions, number_of

R_co = TypeVar("R_co", covariant=True)
R = TypeVar("R")


@dataclass(frozen=True)
class StudyOf(Generic[R_co]):
    """All records of one raw folder, in the order of their ids; `files` maps file name to SHA-256.

    A run is its record, or what an analysis made of it and kept: a folder of thousands of runs does not fit into the
    memory with all columns of its telemetry.
    """

    study: str
    launches: tuple[LaunchRecord, ...]
    runs: tuple[R_co, ...]
    files: dict[str, str]
    sessions: tuple[SessionRecord, ...] = ()

    @cached_property
    def launches_by_id(self) -> dict[str, LaunchRecord]:
        """The launches by their id."""
        return {launch.launch_id: launch for launch in self.launches}

    def launch_of(self, run: RunRecord | RunHead) -> LaunchRecord | None:
        """Return the launch that served `run`, or None where its record is not there."""
        return self.launches_by_id.get(run.launch_id)


StudyRecords: TypeAlias = StudyOf[RunRecord]


@dataclass(frozen=True)
class RunReader(Generic[R]):
    """What a reader of a folder makes of each run, so that its columns are gone before the next one is read.

    Attributes:
        take: makes of a run's record what is kept of it.
        head: returns the run's head of what was kept.
        known: what was kept of a file of this SHA-256 before, or None: then the file is parsed.
        keep: is given the SHA-256 of a file without a fault, and what was taken of it.

    """

    take: Callable[[RunRecord], R]
    head: Callable[[R], RunHead]
    known: Callable[[str], R | None] = lambda _sha256: None
    keep: Callable[[str, R], None] = lambda _sha256, _kept: None


WHOLE = RunReader[tuple[RunRecord, RunHead]](take=lambda run: (run, head_of(run)), head=lambda kept: kept[1])
HEADS = RunReader[RunHead](take=head_of, head=lambda kept: kept)


@dataclass(frozen=True)
class ReadingOf(Generic[R_co]):
    """What a raw folder holds, as far as it could be read, and one line for each thing that is wrong with it."""

    records: StudyOf[R_co]
    problems: tuple[str, ...]

    def accept(self) -> StudyOf[R_co]:
        """Return the records, if nothing is wrong with them.

        Raises:
            RecordError: the first problem, and how many more there are.

        """
        if self.problems:
            more = len(self.problems) - 1
            rest = f" ({more} more; `study check {self.records.study}` lists them)" if more else ""
            raise RecordError(self.problems[0] + rest)
        return self.records


def read_folder(
    study: str, paths: Sequence[Path], choose: Callable[[StudyOf[Any]], RunReader[R]]
) -> ReadingOf[R]:
    """Read the record files of a study.

    Args:
        study: its name.
        paths: its files, in order.
        choose: is given the study without its runs, and says what is kept of each run.

    """
    folder = _Folder(study)
    for path in paths:
        if not path.name.startswith("run-"):
            folder.read(path, folder.take_other)
    frame = folder.frame()
    reader = choose(frame)
    runs: list[R] = []
    for path in paths:
        if path.name.startswith("run-"):
            folder.read(path, lambda file: runs.append(folder.take_run(file, reader)))
    records: StudyOf[R] = replace(frame, runs=tuple(runs), files=folder.files())
    disagreements = find_disagreements(records.launches, [reader.head(one) for one in runs])
    return ReadingOf(records, (*folder.faults(), *disagreements))


class _Folder:
    """What was read of a folder so far; faults and files stand under the file's name, so that their order is that."""

    def __init__(self, study: str) -> None:
        self._study = study
        self._records: dict[str, list[Any]] = {kind: [] for kind in READERS}
        self._files: dict[str, dict[str, str]] = {kind: {} for kind in READERS}
        self._faults: dict[str, list[str]] = {}

    def read(self, path: Path, take: Callable[[RecordFile], None]) -> None:
        """Read one file; a fault of it is kept."""
        try:
            file = open_record(path)
            take(file)
        except RecordError as error:
            self._faults.setdefault(path.name, []).append(str(error))
        else:
            self._files[file.kind][path.name] = file.sha256

    def take_other(self, file: RecordFile) -> None:
        """Take a launch or a session."""
        record = file.parse()
        check_place(file, record, self._study)
        self._find_contradictions(file, record)
        self._records[file.kind].append(record)

    def take_run(self, file: RecordFile, reader: RunReader[R]) -> R:
        """Take a run: what is known of its bytes, or else what the reader makes of its record."""
        known = reader.known(file.sha256)
        if known is not None:
            check_place(file, reader.head(known), self._study)
            return known
        record = file.parse()
        if not isinstance(record, RunRecord):
            raise RecordError(f"'{shown(file.path)}' holds no run")
        check_place(file, record, self._study)
        taken = reader.take(record)
        if not self._find_contradictions(file, record):
            reader.keep(file.sha256, taken)
        return taken

    def _find_contradictions(self, file: RecordFile, record: Record) -> bool:
        faults = [f"'{shown(file.path)}': {fault}" for fault in find_contradictions(record)]
        if faults:
            self._faults.setdefault(file.path.name, []).extend(faults)
        return bool(faults)

    def frame(self) -> StudyOf[Any]:
        """Return the study without its runs."""
        sessions = tuple(sorted(self._records["session"], key=number_of))
        return StudyOf(self._study, tuple(self._records["launch"]), (), {}, sessions)

    def files(self) -> dict[str, str]:
        """Return the SHA-256 of every file that was taken, by name."""
        return self._files["launch"] | self._files["run"] | self._files["session"]

    def faults(self) -> list[str]:
        """Return every fault, in the order of the files."""
        return [fault for name in sorted(self._faults) for fault in self._faults[name]]
