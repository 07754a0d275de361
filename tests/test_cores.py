"""Who runs where during a load: the server on its cores, everything else of a session off them."""

import os
import threading
import time
from pathlib import Path

import psutil
import pytest

from study.design.parameters import make_parameters
from study.runner import RunOptions, run_session
from study.store import Store


@pytest.fixture
def two_cores(monkeypatch):
    """Let the machine have two cores, of which one is enough for the client; this process gets its own back."""
    had = os.sched_getaffinity(0)
    if len(had) < 2:
        pytest.skip("one core cannot be shared out")
    cores = sorted(had)[:2]
    os.sched_setaffinity(0, cores)
    monkeypatch.setattr("study.runner.CORES_KEPT", 1)
    yield cores
    os.sched_setaffinity(0, had)


class Watcher(threading.Thread):
    """Notes what a session has started and where it runs, whenever a server of it is up.

    Before a session shares its cores out it looks at the machine and asks git, which a server never sees.

    Attributes:
        seen: process id to command line and cores.

    """

    def __init__(self, mark):
        super().__init__()
        self.mark, self.over, self.seen = mark, threading.Event(), {}

    def run(self):
        while not self.over.is_set():
            now = dict(filter(None, map(self.look, psutil.process_iter())))
            if any(is_server(line) for line, _ in now.values()):
                self.seen |= now
            time.sleep(0.05)

    def look(self, process):
        try:
            if process.pid != os.getpid() and process.environ().get("STUDY_TEST_MARK") == self.mark:
                return process.pid, (" ".join(process.cmdline()), set(process.cpu_affinity()))
        except psutil.Error:
            pass
        return None


def is_server(line):
    """Tell a server's command line from that of its guard, which names the same module."""
    return "api_server" in line and ".guard" not in line


def test_the_server_alone_is_on_its_cores(fake_vllm, small_study, two_cores):
    first, last = two_cores
    watcher = Watcher(os.environ["STUDY_TEST_MARK"])
    watcher.start()
    try:
        from conftest import ROOT

        run_session(make_parameters({**small_study, "levels": ["O0"], "users": [1]}), ROOT, RunOptions())
    finally:
        watcher.over.set()
        watcher.join()
    (launch,) = Store(Path(small_study["data_dir"]), "small").read().launches
    assert launch.cores == {"server": [first], "client": [last]}
    servers = [one for one in watcher.seen.values() if is_server(one[0])]
    others = [one for one in watcher.seen.values() if one[0] and one not in servers]
    assert [cores for _, cores in servers] == [{first}]
    for name in ("study.measure.guard", "study.measure.client"):
        assert any(name in line for line, _ in others), name
    assert all(cores == {last} for _, cores in others), others
