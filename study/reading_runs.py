"""Takes runs out of their files, in order; where many are to be parsed, several processes share them.

    path -> bytes, SHA-256 -> known? -> what was kept before
                                 no  -> parse, check, take; by other processes once `FEW` were parsed in this one

The columns of a run are gone before the next one is read, so that a folder of thousands fits into the memory.
"""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from study.design.plain_files import shown
from study.errors import RecordError
from study.process_pool import Pool, Shared
from study.record_files import (
    RecordFile,
    RunHead,
    check_place,
    head_of,
    name_contradictions,
    open_record,
    unpacked_name,
)
from study.records import RunRecord

R = TypeVar("R")

FEW = 250
"""Runs that are parsed in the time that other processes take to start."""


@dataclass(frozen=True)
class RunReader(Generic[R]):
    """What a reader of a folder makes of each run, so that its columns are gone before the next one is read.

    Attributes:
        take: makes of a run's record what is kept of it; of a reader with several processes it is sent to them.
        head: returns the run's head of what was kept.
        known: what was kept of a file of this SHA-256 before, or None: then the file is parsed.
        keep: is given the SHA-256 of a file without a fault, and what was taken of it.
        processes: how many may share the parsing.

    """

    take: Callable[[RunRecord], R]
    head: Callable[[R], RunHead]
    known: Callable[[str], R | None] = lambda _sha256: None
    keep: Callable[[str, R], None] = lambda _sha256, _kept: None
    processes: int = 1


WHOLE = RunReader[tuple[RunRecord, RunHead]](take=lambda run: (run, head_of(run)), head=lambda kept: kept[1])
HEADS = RunReader[RunHead](take=head_of, head=lambda kept: kept)


@dataclass(frozen=True)
class Taken(Generic[R]):
    """What became of one run's file.

    Attributes:
        name: of the file, unpacked.
        faults: what is wrong with it.
        sha256: (hex) of its bytes, unpacked.
        kept: what was taken, of a record that contradicts itself too; empty where nothing could be.
        new: whether it was parsed now.

    """

    name: str
    faults: tuple[str, ...] = ()
    sha256: str = ""
    kept: tuple[R, ...] = ()
    new: bool = False


def take_runs(paths: Sequence[Path], study: str, reader: RunReader[R]) -> Iterator[Taken[R]]:
    """Yield what became of each run's file, in the order of `paths`.

    Args:
        paths: files of runs.
        study: whose they are.
        reader: what is made of them.

    """
    parse = _Parser(study, reader.take)
    waiting: deque[Taken[R] | Shared[RecordFile, Taken[R]]] = deque()
    parsed = 0
    with Pool(parse, reader.processes) as pool:
        for place, path in enumerate(paths):
            one = _look(path, study, reader)
            if not isinstance(one, RecordFile):
                waiting.append(one)
            elif pool.started or (parsed >= FEW and len(paths) - place > FEW):
                waiting.append(pool.share(one))
            else:
                waiting.append(parse(one))
                parsed += 1
            while len(waiting) > pool.room:
                yield _settle(waiting.popleft(), reader)
        while waiting:
            yield _settle(waiting.popleft(), reader)


def _look(path: Path, study: str, reader: RunReader[R]) -> Taken[R] | RecordFile:
    """Return what is known of a file's bytes, or the file where nothing is."""
    try:
        file = open_record(path)
        known = reader.known(file.sha256)
        if known is None:
            return file
        check_place(file, reader.head(known), study)
    except RecordError as error:
        return Taken(unpacked_name(path), (str(error),))
    return Taken(file.name, (), file.sha256, (known,))


@dataclass(frozen=True)
class _Parser(Generic[R]):
    """Parses a run's file and takes of it what is kept."""

    study: str
    take: Callable[[RunRecord], R]

    def __call__(self, file: RecordFile) -> Taken[R]:
        try:
            record = file.parse()
            if not isinstance(record, RunRecord):
                raise RecordError(f"'{shown(file.path)}' holds no run")
            check_place(file, record, self.study)
        except RecordError as error:
            return Taken(file.name, (str(error),))
        return Taken(file.name, name_contradictions(file, record), file.sha256, (self.take(record),), new=True)


def _settle(one: Taken[R] | Shared[RecordFile, Taken[R]], reader: RunReader[R]) -> Taken[R]:
    """Return what became of a file; what was parsed now and has no fault is given to the reader to keep."""
    taken = one.wait() if isinstance(one, Shared) else one
    if taken.new and not taken.faults:
        reader.keep(taken.sha256, *taken.kept)
    return taken
