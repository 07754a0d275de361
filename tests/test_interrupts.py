"""Ctrl-C ends a command with one line, wherever it falls."""

import signal
import subprocess
import sys
import threading

import pytest
from conftest import ROOT

from study.interrupts import noted_interrupts

IMPORTS = """
import os, signal, sys
from importlib.abc import MetaPathFinder
from study.__main__ import main

class CExtension(MetaPathFinder):
    # As numpy's and scipy's: what interrupts their initialisation comes out as an ImportError without its cause.
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "numpy":
            try:
                INTERRUPT
            except KeyboardInterrupt:
                pass
            raise ImportError("initialization failed") from None

sys.meta_path.insert(0, CExtension())
sys.exit(main(["calibrate", "--studies", "10"]))
"""


def run(interrupt):
    code = IMPORTS.replace("INTERRUPT", interrupt)
    return subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)


def test_an_interrupt_that_an_import_swallows_is_one_line():
    done = run("os.kill(os.getpid(), signal.SIGINT)")
    assert (done.returncode, done.stderr) == (130, "study: interrupted\n")


def test_an_import_that_fails_by_itself_is_no_interrupt():
    done = run("pass")
    assert done.returncode == 1
    assert "ImportError: initialization failed" in done.stderr
    assert "interrupted" not in done.stderr


def test_pythons_own_handler_is_back_afterwards():
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt), noted_interrupts() as noted:
        signal.raise_signal(signal.SIGINT)
    assert noted == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_handler_of_somebody_else_stays():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with noted_interrupts() as noted:
            signal.raise_signal(signal.SIGINT)
        assert noted == []
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_than_the_main_one_works_too():
    seen = []

    def work():
        with noted_interrupts() as noted:
            seen.append(noted)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [[]]
