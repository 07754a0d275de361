"""Asking the installed vLLM in a process of its own; the children here are small modules of the test's."""

import os
import signal
import subprocess
import sys
import time

import pytest

from study.errors import StudyError
from study.measure.processes import is_running
from study.measure.vllm_child import run_child

ECHO = """
import json, sys
asked = json.load(open(sys.argv[1]))
json.dump({"got": asked, "extra": __import__("os").environ.get("EXTRA")}, open(sys.argv[2], "w"))
"""
SLOW = """
import os, sys, time
from study.measure.processes import die_with_owner
die_with_owner()
open("child.pid", "w").write(str(os.getpid()))
time.sleep(60)
"""
RUNNER = """
from pathlib import Path
from study.measure.vllm_child import run_child
run_child("slow", {}, Path.cwd())
"""


@pytest.fixture
def children(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return tmp_path


def test_a_request_comes_back_as_it_went(children):
    (children / "echo.py").write_text(ECHO)
    request = {"text": "\N{EM DASH}" * 100_000, "none": None}
    assert run_child("echo", request, children, {"EXTRA": "1"}) == {"got": request, "extra": "1"}


def test_a_child_that_fails_is_told_by_its_last_line(children):
    (children / "broken.py").write_text("print('half way', flush=True)\nraise ValueError('no such thing')\n")
    with pytest.raises(StudyError, match=r"exit code 1\): ValueError: no such thing"):
        run_child("broken", {}, children)


def test_a_child_that_says_nothing_is_no_answer(children):
    (children / "silent.py").write_text("")
    with pytest.raises(StudyError, match="it said nothing"):
        run_child("silent", {}, children)


def test_who_asks_and_is_killed_leaves_no_process_and_no_file(children, tmp_path_factory):
    temporary = tmp_path_factory.mktemp("temporary")
    (children / "slow.py").write_text(SLOW)
    environment = {**os.environ, "TMPDIR": str(temporary)}
    runner = subprocess.Popen([sys.executable, "-c", RUNNER], cwd=children, env=environment)
    deadline = time.monotonic() + 60
    while not (children / "child.pid").is_file() or not (children / "child.pid").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    child = int((children / "child.pid").read_text())
    runner.send_signal(signal.SIGKILL)
    runner.wait()
    while is_running(child):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert list(temporary.iterdir()) == []
