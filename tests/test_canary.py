import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from study.measure import canary
from study.measure.canary import run_canary

FIGURES = {"gemm_tflops": 700.0, "copy_gb_s": 4000.0, "read_gb_s": 4200.0, "repeats": 20}


def child(code):
    return (sys.executable, "-c", code)


def prints(figures):
    return child(f"print('a warning'); print({json.dumps(figures)!r})")


def test_a_child_that_measures_is_a_record():
    found, reason = run_canary("cuda", "GPU-1", 20.0, lambda: 12.5, prints(FIGURES))
    assert reason == ""
    assert found is not None
    assert (found.started_s, found.gemm_tflops, found.read_gb_s, found.repeats) == (12.5, 700.0, 4200.0, 20)


def test_the_child_sees_the_asked_card_alone():
    code = "import os, sys; print(os.environ['CUDA_VISIBLE_DEVICES'], file=sys.stderr); sys.exit(3)"
    _, reason = run_canary("cuda", "GPU-1", 20.0, command=child(code))
    assert reason == "the canary ended with code 3: GPU-1"


@pytest.mark.parametrize(
    ("figures", "reason"),
    [
        (FIGURES | {"copy_gb_s": 0}, "copy_gb_s 0"),
        (FIGURES | {"copy_gb_s": float("nan")}, "copy_gb_s nan"),
        (FIGURES | {"gemm_tflops": None}, "gemm_tflops None"),
        ({"gemm_tflops": 1.0}, "no figures"),
        ([1], "no figures"),
    ],
)
def test_figures_that_cannot_be_are_refused(figures, reason):
    found, said = run_canary("cuda", None, 20.0, command=prints(figures))
    assert found is None
    assert reason in said


def test_a_child_that_says_nothing():
    assert run_canary("cuda", None, 20.0, command=child("")) == (None, "the canary printed no figures")


def test_a_child_that_fails_gives_its_last_line():
    found, reason = run_canary("cuda", None, 20.0, command=child("raise MemoryError('out of memory')"))
    assert found is None
    assert reason == "the canary ended with code 1: MemoryError: out of memory"


def test_a_program_that_is_not_there():
    assert run_canary("cpu", None, 5.0, command=("/nonexistent/program",))[0] is None


def test_a_child_that_hangs_is_killed_with_what_it_started(tmp_path):
    pid_file = tmp_path / "pid"
    code = (
        "import subprocess, sys, time\n"
        "grandchild = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(pid_file)!r}, 'w').write(str(grandchild.pid))\n"
        "time.sleep(60)\n"
    )
    found, reason = run_canary("cuda", None, 1.5, command=child(code))
    assert (found, reason) == (None, "the canary did not end within 1.5 s")
    deadline_s = time.monotonic() + 5
    while _runs(int(pid_file.read_text())) and time.monotonic() < deadline_s:
        time.sleep(0.05)
    assert not _runs(int(pid_file.read_text()))


def _runs(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"


def test_the_rehearsals_canary_measures_without_torch():
    code = (
        "import sys; sys.argv = ['canary', '--device', 'cpu']; from study.measure import canary; canary.main(); "
        "sys.exit('torch' in sys.modules)"
    )
    done = subprocess.run(child(code), capture_output=True, text=True, timeout=30, check=True)
    figures = json.loads(done.stdout)
    assert set(figures) == {*canary.FIGURES, "repeats"}
    assert all(value > 0 for value in figures.values())


def test_a_real_run_on_this_host():
    found, reason = run_canary("cpu", None, 60.0)
    assert reason == ""
    assert found is not None
    assert found.repeats == canary.CPU_REPEATS
