"""What a study and a machine look like after a fault and the resume: nothing lost, doubled, orphaned or left."""

import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from study.analyze.judged_runs import judge_runs
from study.check import check_study
from study.design.levels import select_levels
from study.design.parameters import make_parameters
from study.design.plan import make_plan
from study.errors import StudyError
from study.store import Store


@dataclass
class Audit:
    """Counts after one fault; every list names what is wrong."""

    planned: int = 0
    kept: int = 0
    launches: int = 0
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    orphans: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)
    locks: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def faults(self):
        """Return everything that is wrong, in words."""
        names = ("lost", "doubled", "orphans", "leftovers", "locks", "problems")
        return [f"{name}: {what}" for name in names for what in getattr(self, name)]


def snapshot(raw):
    """Return the bytes of every run that is recorded."""
    return {path.name: path.read_bytes() for path in raw.glob("run-*.json")}


def key_of(record_id):
    return record_id.rsplit("-a", 1)[0]


def audit_study(values, root, kept, session, places):
    """Look at a study after its resume.

    Args:
        values: the session's parameters.
        root: the project's folder.
        kept: `snapshot` taken after the fault, before the resume.
        session: the last session, whose mark all processes carry.
        places: the temporary folder of all sessions, and the names in /dev/shm that they had mapped.

    """
    audit = Audit()
    parameters = make_parameters(values)
    store = Store(root / parameters.data_dir, parameters.study)
    plan = make_plan(parameters, select_levels(parameters.levels, root), {})
    planned = {run.key for launch in plan.launches for run in launch.runs}
    records = store.read_all().records
    done = Counter(key_of(run.run_id) for run in records.runs if run.outcome.status == "ok")
    audit.planned, audit.kept = len(planned), len(planned & set(done))
    audit.launches = len(records.launches)
    audit.lost = without_canary(records)
    audit.lost += [f"run {key} is not done" for key in sorted(planned - set(done))]
    for name, content in kept.items():
        path = store.raw / name
        if not path.is_file() or path.read_bytes() != content:
            audit.lost.append(f"{name} was there before the resume and is not, or is another, after it")
    audit.doubled = [f"run {key} is done {count} times" for key, count in done.items() if count > 1]
    audit.doubled += [f"run {key} is not of the plan" for key in sorted(set(done) - planned)]
    audit.orphans = orphans(session)
    audit.leftovers = leftovers(store.raw, *places)
    try:
        with store.lock():
            pass
    except StudyError as error:
        audit.locks.append(str(error))
    audit.problems = check_study(store)
    return audit


def without_canary(records):
    """Return runs that the tables would leave out since no canary tells whether the machine moved meanwhile."""
    found = []
    for one in judge_runs(records):
        lacking = [item for item in one.validity.faults if (item.code, item.state) == ("canary_moved", "unavailable")]
        # A canary that was killed itself is a missing value with its reason, not a run that the resume lost.
        if lacking and "ended with code -9" not in lacking[0].detail:
            found.append(f"run {one.run.run_id} has no canary: {lacking[0].detail}")
    return found


def orphans(session, patience_s=5.0):
    """Return processes of the session that outlive it."""
    deadline = time.monotonic() + patience_s
    while session.processes() and time.monotonic() < deadline:
        time.sleep(0.05)
    return [f"process {pid}: {line[:80]}" for pid, line in session.processes().items()]


def leftovers(raw, temporary, shared):
    """Return files that are nobody's any more: in the raw folder, the temporary folder and shared memory."""
    found = [f"{path.name} in the raw folder" for path in raw.iterdir() if path.name.startswith((".", "open-"))]
    found = [text for text in found if not text.startswith(".lock ")]
    found += [f"{path.name} in the temporary folder" for path in temporary.iterdir() if _is_left(path)]
    return found + [f"{name} in shared memory" for name in sorted(shared) if Path("/dev/shm", name).exists()]


def _is_left(path):
    # TorchInductor's cache is meant to stay: a warm start needs it.
    return not path.name.startswith("torchinductor_")
