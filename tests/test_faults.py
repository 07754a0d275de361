"""Processes of a session are killed at every stage, and the same command goes on: nothing is lost, done twice or left.

Each moment is a session on the stand-in for vLLM in real processes, a signal, the resume, and an audit. The moments
that are asked for run side by side, since they mostly wait.
"""

import shutil
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest
from chaos.audit import audit_study, leftovers
from chaos.campaign import Campaign, Study, draw_faults
from chaos.faults import ROOT, STAGES, Fault
from make_records import make_launch, make_run

from study.store import Store

KILL, INT, TERM, HUP = signal.SIGKILL, signal.SIGINT, signal.SIGTERM, signal.SIGHUP
AT_ONCE = 3
TRIES = 4
"""A busy machine can be past a stage before the signal comes; then the moment is tried again."""

MOMENTS = [
    *(("runner", KILL, stage) for stage in STAGES),
    *(("runner", INT, stage) for stage in ("gate", "loading", "load", "stop")),
    *(("runner", TERM, stage) for stage in ("canary", "spawn", "first_token", "warm_up", "between")),
    ("runner", HUP, "load"),
    *(("kernel", KILL, stage) for stage in ("gate", "loading", "load")),
    *(("client", KILL, stage) for stage in ("loading", "warm_up", "load")),
    *(("server", KILL, stage) for stage in ("loading", "load", "stop")),
    ("server", TERM, "load"),
    *(("engine", KILL, stage) for stage in ("loading", "load")),
    *(("guard", KILL, stage) for stage in ("loading", "load", "stop")),
    ("canary", KILL, "canary"),
    ("runner+guard", KILL, "load"),
    ("kernel+engine", KILL, "load"),
    # From here on the clock is locked, and the audit asks whether it is so still.
    ("runner", KILL, "load", "locked"),
    ("runner", TERM, "load", "locked"),
    ("holder", KILL, "warm_up", "locked"),
    ("runner+holder", KILL, "load", "locked"),
]


def name_of(moment):
    victim, number, *stage = moment
    return "-".join([victim, signal.Signals(number).name, *stage])


def suffer(moment):
    """Return what a moment did to a session of its own, and the audit after the resume."""
    victim, number, stage, *locked = moment
    for _ in range(TRIES):
        folder = Path(tempfile.mkdtemp(prefix="faults-"))
        try:
            study = Study(Campaign(True, folder, 0, 1, 1.0), 1 if locked else 0)
            suffered, audit = study.suffer_and_resume(Fault(victim, number, stage, 0.05))
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if suffered.hit:
            break
    return suffered, audit


@pytest.fixture(scope="module")
def outcomes(request):
    """The outcome of each moment that this session of tests asks for."""
    specs = [item.callspec.params["moment"] for item in request.session.items if "moment" in _params(item)]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {moment: pool.submit(suffer, moment) for moment in specs}


def _params(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


@pytest.mark.parametrize("moment", MOMENTS, ids=name_of)
def test_a_fault_loses_no_run_and_leaves_nothing(outcomes, moment):
    suffered, audit = outcomes[moment].result()
    assert suffered.hit
    assert audit.faults() == []
    assert (audit.planned, audit.kept) == (2, 2)
    if moment[0] == "client":
        assert audit.launches == 1  # the run is made again on the same server
    if suffered.cleared_s is not None and moment[1] == KILL:
        assert suffered.cleared_s <= 5.0  # the guard's duty, whatever killed the runner


def test_a_campaign_draws_the_same_faults_from_the_same_seed():
    campaign = Campaign(True, Path("."), 7, 5, 1.0)
    first, second = draw_faults(campaign), draw_faults(campaign)
    assert [next(first) for _ in range(20)] == [next(second) for _ in range(20)]


def test_an_audit_sees_what_is_left(tmp_path):
    raw, temporary = tmp_path / "raw", tmp_path / "tmp"
    raw.mkdir()
    temporary.mkdir()
    for name in (".lock", "run-a.json", "open-b1-O0-a1.json", ".run-a.json.12"):
        (raw / name).write_text("")
    (temporary / "study-launch-x").mkdir()
    (temporary / "torchinductor_me").mkdir()
    shared = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        found = leftovers(raw, temporary, {shared.name, "psm_gone"})
    finally:
        shared.rmdir()
    assert sorted(found) == [
        ".run-a.json.12 in the raw folder",
        "open-b1-O0-a1.json in the raw folder",
        "study-launch-x in the temporary folder",
        f"{shared.name} in shared memory",
    ]


def test_an_audit_sees_runs_that_are_lost_doubled_or_changed(tmp_path):
    """A study whose one of two runs is there twice, the first of them other than it was."""
    study = Study(Campaign(True, tmp_path, 0, 1, 1.0), 0)
    store = Store(tmp_path / "data", "chaos-0")
    store.raw.mkdir(parents=True)
    launch = make_launch("O0", launch_id="b1-O0-a1", study="chaos-0")
    store.write(launch)
    at = {"users": 1, "study": "chaos-0"}
    for attempt in (1, 2):
        store.write(make_run(launch, run_id=f"b1-O0-u1-a{attempt}", attempt=attempt, position=attempt, **at))
    kept = {"run-b1-O0-u1-a1.json": b"what it was"}
    session = SimpleNamespace(processes=dict)  # of a session that is over
    audit = audit_study(study.values, ROOT, kept, session, (tmp_path / "tmp", frozenset()))
    assert audit.lost == [
        "run b1-O0-u2 is not done",
        "run-b1-O0-u1-a1.json was there before the resume and is not, or is another, after it",
    ]
    assert audit.doubled == ["run b1-O0-u1 is done 2 times"]
