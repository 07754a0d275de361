"""Builds one simulated study in processes of their own, and says what each took.

    python -m tests.growth.build FOLDER STUDY     the stages of one build, one after the other, as JSON
"""

import contextlib
import hashlib
import json
import os
import resource
import subprocess
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from study.analyze.cache import CACHE
from study.analyze.digests_on_disk import read_digests
from study.analyze.findings import find
from study.analyze.runs import DEFAULT_BELOW_SHARE
from study.publish.edition import Edition, save_edition
from study.publish.edition_file import EditionFile
from study.publish.study_view import ViewOptions, read_view
from study.store import Store

EDITION = "growth"
MEMORY_PERIOD_S = 0.1


@dataclass(frozen=True)
class Cost:
    """What a process or a stage of it took; `peak_mib` is its peak so far, with that of the processes it started."""

    wall_s: float
    cpu_s: float
    peak_mib: float


def build_edition(folder, study):
    """Run `study edition` in a process of its own."""
    command = [sys.executable, "-m", "study", "edition", EDITION, study]
    started_s = time.monotonic()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    memory = _Memory(process.pid)
    memory.start()
    _, status, used = os.wait4(process.pid, 0)
    wall_s = time.monotonic() - started_s
    memory.join()
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with code {process.returncode}")
    return Cost(wall_s, used.ru_utime + used.ru_stime, max(memory.peak_mib, used.ru_maxrss / 1024))


class _Memory(threading.Thread):
    """Follows the memory of a process and of those that it started, until it ends; pages they share count in each."""

    def __init__(self, pid):
        super().__init__(daemon=True)
        self._process, self.peak_mib = psutil.Process(pid), 0.0

    def run(self):
        with contextlib.suppress(psutil.NoSuchProcess):
            while self._process.status() != psutil.STATUS_ZOMBIE:
                known = [self._process, *self._process.children(recursive=True)]
                self.peak_mib = max(self.peak_mib, sum(map(_resident_mib, known)))
                time.sleep(MEMORY_PERIOD_S)


def _resident_mib(process):
    try:
        return process.memory_info().rss / 2**20
    except psutil.NoSuchProcess:
        return 0.0


def measure_stages(folder, study):
    """Return the stages of one build without a cache, measured in a process of its own."""
    forget(folder)
    command = [sys.executable, "-m", "tests.growth.build", str(folder), study]
    done = subprocess.run(command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, check=True, text=True)
    return {name: Cost(**cost) for name, cost in json.loads(done.stdout).items()}


def forget(folder):
    """Delete what an earlier build kept."""
    for path in (folder / "data/processed" / CACHE).glob("*"):
        path.unlink()


def hash_edition(folder):
    """Return a SHA-256 of all files of the edition, with their names."""
    found = hashlib.sha256()
    for path in sorted((folder / "editions" / EDITION).rglob("*")):
        if path.is_file():
            found.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return found.hexdigest()


class _Clock:
    """Tells what each stage took since the one before it."""

    def __init__(self):
        self.costs = {}
        self._at = time.monotonic(), time.process_time()

    def end(self, stage):
        now = time.monotonic(), time.process_time()
        peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        self.costs[stage] = asdict(Cost(now[0] - self._at[0], now[1] - self._at[1], peak_mib))
        self._at = time.monotonic(), time.process_time()


def run_stages(folder, study):
    """Go through the stages of a build one by one."""
    clock = _Clock()
    store = Store(folder / "data", study)
    records = read_digests(store, lambda _: DEFAULT_BELOW_SHARE)
    clock.end("read and validate")
    find(records)
    clock.end("verdicts")
    view = read_view(folder, store, ViewOptions())
    clock.end("read again, and verdicts")
    view.write_tables()
    clock.end("tables")
    view.advise()
    clock.end("decide")
    file = EditionFile(edition=EDITION, studies=[study])
    save_edition(Edition(folder / "editions" / "stages", file, (view,)))
    clock.end("edition")
    return clock.costs


if __name__ == "__main__":
    print(json.dumps(run_stages(Path(sys.argv[1]), sys.argv[2])))
