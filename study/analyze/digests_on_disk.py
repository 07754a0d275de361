"""Reads a study as digests, and keeps them on disk, so that a file whose bytes were read before is not parsed again.

    data/processed/.cache/<study>.digests    of `cache`; a line a run: SHA-256 of its file and launch, digest as JSON

A digest is used for the same bytes of a run, the same launch, the same threshold and the same code alone. What cannot
be read is never kept, and whether records go together is asked each time.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pydantic

from study.analyze.cache import LEAST_RUNS, cache_path, hash_code, read_kept, write_kept
from study.analyze.run_digest import Digester, RunDigest
from study.reading import StudyOf
from study.reading_runs import RunReader
from study.store import Store

MOST_PROCESSES = 8
"""Of those that make digests; each holds all launches."""
_DIGITS = 64
_DIGESTS: pydantic.TypeAdapter[RunDigest] = pydantic.TypeAdapter(RunDigest)
_SOURCES = ("*.py", "design/*.py", "analyze/*.py")
_LIBRARIES = ("numpy", "pydantic")


def read_digests(
    store: Store, share_of: Callable[[StudyOf[Any]], float], least_runs: int = LEAST_RUNS
) -> StudyOf[RunDigest]:
    """Read a study, one run at a time.

    Args:
        store: its raw folder.
        share_of: is given the study without its runs, and returns the share of the card's highest SM clock below which
            a busy clock counts as throttled.
        least_runs: smallest study that leaves a cache.

    Raises:
        RecordError, InputError: what `Store.read` refuses, in the same words.

    """
    caches: list[DigestCache] = []

    def choose(frame: StudyOf[Any]) -> RunReader[RunDigest]:
        caches.append(DigestCache(cache_path(store, "digests"), Digester(frame.launches, share_of(frame))))
        return caches[0].reader()

    reading = store.read_runs(choose)
    if len(reading.records.runs) >= least_runs:
        caches[0].save()
    return reading.accept()


class DigestCache:
    """The digests of one study on disk, by the SHA-256 of each run's file."""

    def __init__(self, path: Path, digester: Digester) -> None:
        self._path = path
        self._digester = digester
        self._launches = {one: digester.hash_launch(one) for one in digester.launches}
        self._without = digester.hash_launch("")
        self._source = f"{code_number()} {digester.below_share!r}"
        self._found = self._read()
        self._used: dict[str, bytes] = {}
        self._new: dict[str, RunDigest] = {}

    def reader(self) -> RunReader[RunDigest]:
        """Return a reader that takes a digest from here where there is one, and else makes it."""
        keep = self._new.__setitem__
        processes = min(MOST_PROCESSES, len(os.sched_getaffinity(0)))
        return RunReader(self._digester.digest, lambda digest: digest, self.find, keep, processes)

    def find(self, sha256: str) -> RunDigest | None:
        """Return what is kept of a run's file; None where nothing is, or its launch is not the same any more."""
        line = self._found.get(sha256)
        if line is None:
            return None
        try:
            digest = _DIGESTS.validate_json(line[_DIGITS + 1 :])
        except pydantic.ValidationError:
            return None
        if line[:_DIGITS] != self._hash_of(digest):
            return None
        self._used[sha256] = line
        return digest

    def _hash_of(self, digest: RunDigest) -> bytes:
        return self._launches.get(digest.launch_id, self._without).encode()

    def _read(self) -> dict[str, bytes]:
        """Return what is on disk: SHA-256 of a file to its line."""
        lines = (read_kept(self._path, self._source) or b"").splitlines()
        return {line[:_DIGITS].decode(): line[_DIGITS + 1 :] for line in lines}

    def save(self) -> None:
        """Write what was used, unless it lies there; a place that cannot be written is left as it is."""
        if not self._new and len(self._used) == len(self._found):
            return
        made = {sha256: self._hash_of(one) + b" " + _DIGESTS.dump_json(one) for sha256, one in self._new.items()}
        lines = [sha256.encode() + b" " + line for sha256, line in (self._used | made).items()]
        write_kept(self._path, self._source, b"\n".join([*lines, b""]).decode())


def code_number() -> str:
    """Return a SHA-256 (hex) of all code that makes a digest, and of the versions of what it calculates with."""
    return hash_code(_SOURCES, _LIBRARIES)
