import json
import os
import signal
import subprocess
import sys
import time

from study.measure.guard import end_group, signal_group

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
