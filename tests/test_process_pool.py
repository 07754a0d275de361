"""Calls that are shared out to processes: the same results, no one's script runs twice, and no process stays behind."""

import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import nbclient
import nbformat
import psutil
import pytest

from study import process_pool
from study.process_pool import Pool, Shared, may_start

ENDS_WITHIN_S = 10.0
HOLD = """
import signal, sys, time
from study.process_pool import Pool
signal.signal(signal.SIGINT, signal.default_int_handler)  # behind a shell it may be ignored
with Pool(time.sleep, 2) as pool:
    calls = [pool.share(0.0), pool.share(0.0), *(pool.share(float(sys.argv[1])) for _ in range(20))]
    [call.wait() for call in calls[:2]]
    print("shared", flush=True)
    [call.wait() for call in calls]
"""


@pytest.fixture
def shares(monkeypatch):
    """Let a test's processes share, though their main module is pytest."""
    monkeypatch.setattr(process_pool, "may_start", lambda: True)


def tell(argument):
    return os.getpid(), argument


def be_killed_elsewhere(here):
    if os.getpid() != here:
        os.kill(os.getpid(), signal.SIGKILL)
    return here


def refuse(argument):
    raise ValueError(f"no {argument}")


def wait_for(one):
    return one.wait() if isinstance(one, Shared) else one


def test_calls_are_made_by_other_processes_and_wait_in_order(shares):
    with Pool(tell, 2) as pool:
        assert (pool.started, pool.room) == (False, 0)
        told = [wait_for(one) for one in [pool.share(number) for number in range(20)]]
        assert pool.started
        assert pool.room > 0
    assert [argument for _, argument in told] == list(range(20))
    assert os.getpid() not in {process for process, _ in told}
    assert not [one for one in psutil.Process().children(recursive=True) if "spawn_main" in " ".join(one.cmdline())]


def test_a_pool_of_one_makes_every_call_here(shares):
    with Pool(tell, 1) as pool:
        assert pool.share(3) == (os.getpid(), 3)
        assert (pool.started, pool.room) == (False, 0)


def test_an_error_comes_back_as_it_was_raised(shares):
    with Pool(refuse, 2) as pool, pytest.raises(ValueError, match="no 3"):
        wait_for(pool.share(3))


def test_calls_of_a_process_that_was_killed_are_made_here(shares):
    with Pool(be_killed_elsewhere, 2) as pool:
        calls = [pool.share(os.getpid()) for _ in range(5)]
        assert [wait_for(one) for one in calls] == [os.getpid()] * 5
        assert wait_for(pool.share(os.getpid())) == os.getpid()


@pytest.mark.parametrize(
    ("main", "may"),
    [
        (SimpleNamespace(__spec__=SimpleNamespace(name="study.__main__"), __file__="study/__main__.py"), True),
        (SimpleNamespace(), True),
        (SimpleNamespace(__spec__=None, __file__="somebodys_script.py"), False),
        (SimpleNamespace(__spec__=SimpleNamespace(name="somebody.main"), __file__="main.py"), False),
        (SimpleNamespace(__spec__=SimpleNamespace(name="studying"), __file__="studying.py"), False),
    ],
    ids=["study", "kernel", "script", "module", "a name that begins alike"],
)
def test_processes_are_started_where_nobodys_script_would_run_again(monkeypatch, main, may):
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert may_start() is may


def test_somebodys_script_is_not_run_again(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "from study.process_pool import Pool\nprint('ran')\n"
        "with Pool(abs, 2) as pool:\n    print(pool.share(-3), pool.started)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split("\n") == ["ran", "3 False", ""]


@pytest.fixture
def hold():
    """Return a function that starts a process with two others, each in a call of so many seconds."""
    started = []

    def start(call_s):
        command = [sys.executable, "-c", HOLD, str(call_s)]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        parent = subprocess.Popen(command, start_new_session=True, **pipes)
        started.append(parent)
        assert parent.stdout.readline() == "shared\n"
        children = psutil.Process(parent.pid).children(recursive=True)
        assert len([one for one in children if "spawn_main" in " ".join(one.cmdline())]) == 2
        return parent, children

    yield start
    for parent in started:
        parent.kill()
        parent.communicate()


def test_no_process_outlives_one_that_is_killed(hold):
    parent, children = hold(600.0)
    parent.kill()
    assert not psutil.wait_procs(children, timeout=ENDS_WITHIN_S)[1]


def test_an_interrupt_from_the_keyboard_ends_all_of_them_and_is_told_once(hold):
    parent, children = hold(1.0)
    os.killpg(parent.pid, signal.SIGINT)
    _, said = parent.communicate(timeout=ENDS_WITHIN_S)
    assert not psutil.wait_procs(children, timeout=ENDS_WITHIN_S)[1]
    assert said.count("KeyboardInterrupt") == 1
    assert "SpawnProcess" not in said


def test_a_notebooks_kernel_shares():
    code = (
        "from study.process_pool import Pool\nwith Pool(abs, 2) as pool:\n"
        "    calls = [pool.share(-number) for number in range(3)]\n"
        "    print(pool.started, [call.wait() for call in calls])\n"
    )
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(code)])
    nbclient.NotebookClient(notebook, timeout=120).execute()
    assert notebook.cells[0].outputs[0]["text"] == "True [0, 1, 2]\n"
