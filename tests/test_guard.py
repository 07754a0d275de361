import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from study.measure.guard import FOLDER, end_group, signal_group
from study.measure.processes import MARK, make_mark
from study.measure.shared_memory import read_notes

STUBBORN = (
    "import signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(60)\n"
)


def start_guard(tmp_path, *command):
    return subprocess.Popen(
        [sys.executable, "-m", "study.measure.guard", str(tmp_path / "log"), "--", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def is_gone(pid, deadline_s=5.0):
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().split(") ")[1][0] == "Z":
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


def test_the_guard_ends_the_whole_group_within_five_seconds_of_the_pipes_end(tmp_path):
    guard = start_guard(tmp_path, sys.executable, "-c", STUBBORN)
    pid = json.loads(guard.stdout.readline())["pid"]
    deadline = time.monotonic() + 10
    while not (tmp_path / "log").read_text().strip() and time.monotonic() < deadline:
        time.sleep(0.05)
    child = int((tmp_path / "log").read_text())
    guard.stdin.close()
    assert is_gone(pid)
    assert is_gone(child)
    assert json.loads(guard.stdout.readline()) == {"exit": -signal.SIGKILL}
    guard.stdout.close()
    assert guard.wait(timeout=5) == 0


def test_the_guard_tells_how_a_command_ended(tmp_path):
    guard = start_guard(tmp_path, sys.executable, "-c", "print('hello'); raise SystemExit(3)")
    lines = [json.loads(line) for line in guard.stdout]
    assert lines[1] == {"exit": 3}
    assert (tmp_path / "log").read_text() == "hello\n"
    guard.stdin.close()
    guard.stdout.close()
    guard.wait(timeout=5)


LEAVE = (
    "import subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'], start_new_session=True)\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(60)\n"
)


def test_what_left_the_group_is_ended_by_its_mark(tmp_path, monkeypatch):
    monkeypatch.setenv(MARK, make_mark())
    guard = start_guard(tmp_path, sys.executable, "-c", LEAVE)
    guard.stdout.readline()
    assert wait_until(lambda: (tmp_path / "log").read_text().strip())
    left = int((tmp_path / "log").read_text())
    monkeypatch.setenv(MARK, make_mark())
    stranger = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
    guard.stdin.close()
    assert is_gone(left)
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()
    guard.stdout.close()
    guard.wait(timeout=5)


def test_a_group_that_is_killed_loses_its_shared_memory_too(tmp_path, monkeypatch):
    """Python's resource tracker removes it, which the guard spares until it has."""
    monkeypatch.setenv(FOLDER, str(tmp_path))
    code = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    code += "from multiprocessing.shared_memory import SharedMemory\n"
    code += "memory = SharedMemory(create=True, size=64)\nprint(memory.name, flush=True)\ntime.sleep(60)\n"
    guard = start_guard(tmp_path, sys.executable, "-c", code)
    guard.stdout.readline()
    assert wait_until(lambda: (tmp_path / "log").read_text().strip())
    name = (tmp_path / "log").read_text().strip()
    assert Path("/dev/shm", name).exists()
    guard.stdin.close()
    guard.wait(timeout=10)
    guard.stdout.close()
    assert not Path("/dev/shm", name).exists()
    assert [noted for _, noted in read_notes(tmp_path)] == [name]


def test_a_process_dies_with_its_owner():
    code = "from study.measure.processes import die_with_owner\nimport time\n"
    code += "die_with_owner()\nprint('up', flush=True)\ntime.sleep(60)\n"
    start = f"import subprocess, sys, time\nchild = subprocess.Popen([sys.executable, '-c', {code!r}], stdout=-1)\n"
    start += "child.stdout.readline()\nprint(child.pid, flush=True)\ntime.sleep(60)\n"
    owner = subprocess.Popen([sys.executable, "-c", start], stdout=subprocess.PIPE)
    child = int(owner.stdout.readline())
    owner.kill()
    owner.wait()
    owner.stdout.close()
    assert is_gone(child)


def wait_until(condition, deadline_s=10.0):
    deadline = time.monotonic() + deadline_s
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def test_a_signal_to_the_runner_does_not_end_the_guard(tmp_path):
    guard = start_guard(tmp_path, sys.executable, "-c", "import time; time.sleep(60)")
    guard.stdout.readline()
    os.kill(guard.pid, signal.SIGTERM)
    time.sleep(0.3)
    assert guard.poll() is None
    guard.stdin.close()
    guard.wait(timeout=5)
    guard.stdout.close()


def test_the_server_may_be_kept_off_cores(tmp_path):
    core = min(os.sched_getaffinity(0))
    guard = subprocess.Popen(
        [sys.executable, "-m", "study.measure.guard", str(tmp_path / "log"), "--cores", str(core), "--"]
        + [sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    guard.wait(timeout=10)
    guard.stdin.close()
    assert (tmp_path / "log").read_text() == f"{{{core}}}\n"


def test_a_group_that_is_gone_is_no_error():
    process = subprocess.Popen([sys.executable, "-c", ""], start_new_session=True)
    process.wait()
    assert not signal_group(process.pid, signal.SIGTERM)
    end_group(process.pid)
