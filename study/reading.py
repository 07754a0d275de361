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
from study.reading_runs import R, RunReader, Taken, take_runs
from study.record_files import PACKED, READERS, RunHead, check_place, name_contradictions, open_record
from study.records import LaunchRecord, RunRecord, SessionRecord, number_of

R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True)
class StudyOf(Generic[R_co]):
    """All records of one raw folder, in the order of their ids; `files` maps file name to SHA-256, unpacked.

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
            folder.read_other(path)
    frame = folder.frame()
    reader = choose(frame)
    runs: list[R] = []
    for taken in take_runs([path for path in paths if path.name.startswith("run-")], study, reader):
        runs.extend(folder.note(taken))
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

    def read_other(self, path: Path) -> None:
        """Read the file of a launch or a session; a fault of it is kept."""
        try:
            file = open_record(path)
            record = file.parse()
            check_place(file, record, self._study)
        except RecordError as error:
            self._faults.setdefault(path.name, []).append(str(error))
        else:
            self._files[file.kind][path.name] = file.sha256
            self._faults.setdefault(path.name, []).extend(name_contradictions(file, record))
            self._records[file.kind].append(record)

    def note(self, taken: Taken[R]) -> tuple[R, ...]:
        """Note what became of a run's file; return what was kept of it, of one that lies there twice once."""
        if taken.name in self._faults:
            self._faults[taken.name].extend((*taken.faults, self._name_twin(taken)))
            return ()
        self._faults[taken.name] = list(taken.faults)
        if taken.kept:
            self._files["run"][taken.name] = taken.sha256
        return taken.kept

    def _name_twin(self, packed: Taken[Any]) -> str:
        """Say which of two files of a run to remove: the packed one, if it is spoiled or a copy."""
        both, name = f"'{shown(packed.name)}' lies there packed too", f"'{shown(packed.name)}{PACKED}'"
        ours = self._files["run"].get(packed.name)
        if packed.kept and ours is None:
            return f"{both}; {name} can be read, so remove the other"
        if packed.kept and ours != packed.sha256:
            return f"{both}, with other content in {name}; keep the one that was measured"
        return f"{both}; remove {name}, " + ("a copy of it" if packed.kept else "which cannot be read")

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
