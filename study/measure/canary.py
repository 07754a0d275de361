"""The canary: a fixed GEMM, copy and read in a process of their own, before a server starts and after it stops.

    python -m study.measure.canary --device cuda --gpu GPU-...    prints one JSON line

It tells a machine that got slower from a level that is slow. On a card: a bf16 GEMM of 8192 cubed on random data; a
copy of 2 GiB (bytes read plus bytes written); and a sum over 4 GiB of float32, once over all and once by rows of 64 Ki
elements, of which the faster counts: both read every byte once, and which reaches the card's bandwidth differs by
card. Each is the median of up to 20 repeats timed by CUDA events. On a CPU: the same in numpy, small, for rehearsals.
"""

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from study.measure.processes import MARK, die_with_owner, make_mark
from study.records import Canary

REPEATS = 20
WARM_UPS = 3
BUDGET_S = 0.6
"""Each measurement on a card ends after this long too: a throttled one would take many seconds for all repeats."""
LEAST_REPEATS = 5
GEMM_WIDTH = 8192
COPY_BYTES = 2 * 2**30
ROW_ELEMENTS = 2**16
CPU_REPEATS = 20
CPU_GEMM_WIDTH = 1024
CPU_BYTES = 64 * 2**20

FIGURES = ("gemm_tflops", "copy_gb_s", "read_gb_s")
REASON_LENGTH = 300


def run_canary(
    device: str,
    gpu_uuid: str | None,
    timeout_s: float,
    clock: Callable[[], float] = time.monotonic,
    command: Sequence[str] | None = None,
) -> tuple[Canary | None, str]:
    """Run the canary in a process of its own.

    Args:
        device: cuda or cpu.
        gpu_uuid: the card or MIG slice; the only one that the child sees.
        timeout_s: after which the child and what it started are killed.
        clock: monotonic, s.
        command: the child, by default this module.

    Returns:
        tuple: the canary and "", or None and why there is none; a child that fails is no error here.

    """
    started_s = clock()
    child = list(command or (sys.executable, "-m", "study.measure.canary", "--device", device))
    if command is None and gpu_uuid and device == "cuda":
        child += ["--gpu", gpu_uuid]
    output, reason = _run_child(child, gpu_uuid if device == "cuda" else None, timeout_s)
    if reason:
        return None, reason
    figures, reason = _read_figures(output)
    if reason:
        return None, reason
    return Canary(started_s=started_s, repeats=int(figures.pop("repeats")), **figures), ""


def _run_child(command: list[str], gpu_uuid: str | None, timeout_s: float) -> tuple[str, str]:
    """Return what the child printed and "", or "" and why it did not get that far."""
    environment = {**os.environ, **({"CUDA_VISIBLE_DEVICES": gpu_uuid} if gpu_uuid else {}), MARK: make_mark()}
    try:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            cwd=Path(__file__).resolve().parents[2],
            env=environment,
            start_new_session=True,
        )
    except OSError as error:
        return "", f"the canary did not start: {error.strerror}"
    try:
        output, errors = child.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        return "", f"the canary did not end within {timeout_s:g} s"
    finally:
        _kill_group(child)
    if child.returncode:
        last = (errors.strip().splitlines() or ["it printed no error"])[-1]
        return "", f"the canary ended with code {child.returncode}: {last[:REASON_LENGTH]}"
    return output, ""


def _kill_group(child: subprocess.Popen[str]) -> None:
    """Kill the child's process group if it is still there, and collect the child."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.communicate()


def _read_figures(output: str) -> tuple[dict[str, Any], str]:
    """Return the figures in the last line of the child's output, or why there are none."""
    lines = output.strip().splitlines()
    try:
        figures = json.loads(lines[-1]) if lines else None
    except json.JSONDecodeError:
        figures = None
    if not isinstance(figures, dict) or set(figures) != {*FIGURES, "repeats"}:
        return {}, "the canary printed no figures"
    wrong = [name for name, value in figures.items() if not (isinstance(value, int | float) and 0 < value < math.inf)]
    return ({}, f"the canary printed {wrong[0]} {figures[wrong[0]]}") if wrong else (figures, "")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure once and print the figures as one JSON line."""
    parser = argparse.ArgumentParser(prog="python -m study.measure.canary", description="A fixed GEMM, copy and read.")
    parser.add_argument("--device", choices=("cuda", "cpu"), required=True)
    parser.add_argument("--gpu", help="UUID of the card or MIG slice; default: the first that CUDA sees")
    options = parser.parse_args(arguments)
    if options.gpu:
        # Before CUDA starts in this process: by UUID, since CUDA and NVML count cards in different orders.
        os.environ["CUDA_VISIBLE_DEVICES"] = options.gpu
    print(json.dumps(measure_card() if options.device == "cuda" else measure_cpu()))


def measure_card() -> dict[str, float]:
    """Measure the first card that CUDA sees; TFLOP/s and GB/s (1e9 bytes a second)."""
    import torch

    card = torch.device("cuda")
    torch.manual_seed(0)
    left, right, product = (torch.randn(GEMM_WIDTH, GEMM_WIDTH, device=card).bfloat16() for _ in range(3))
    gemm_s, repeats = _time_on_card(lambda: torch.mm(left, right, out=product))
    both = torch.rand(2 * COPY_BYTES // 4, device=card)
    source, target = both.chunk(2)
    copy_s, copies = _time_on_card(lambda: target.copy_(source))
    rows = both.view(-1, ROW_ELEMENTS)
    reads = [_time_on_card(lambda: both.sum()), _time_on_card(lambda: rows.sum(dim=1))]
    return {
        "gemm_tflops": 2 * GEMM_WIDTH**3 / gemm_s / 1e12,
        "copy_gb_s": 2 * COPY_BYTES / copy_s / 1e9,
        "read_gb_s": 2 * COPY_BYTES / min(reads)[0] / 1e9,
        "repeats": min(repeats, copies, *(count for _, count in reads)),
    }


def _time_on_card(work: Callable[[], object]) -> tuple[float, int]:
    """Return the median time of `work` on the card (s), and of how many repeats."""
    import torch

    for _ in range(WARM_UPS):
        work()
    torch.cuda.synchronize()
    times_s: list[float] = []
    started_s = time.monotonic()
    while len(times_s) < REPEATS and (len(times_s) < LEAST_REPEATS or time.monotonic() - started_s < BUDGET_S):
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        work()
        after.record()
        after.synchronize()
        times_s.append(before.elapsed_time(after) / 1e3)
    return median(times_s), len(times_s)


def measure_cpu() -> dict[str, float]:
    """Measure this host with numpy, in under half a second; TFLOP/s and GB/s (1e9 bytes a second)."""
    import numpy as np

    draw = np.random.default_rng(0)
    left, right = (draw.random((CPU_GEMM_WIDTH, CPU_GEMM_WIDTH), dtype=np.float32) for _ in range(2))
    product = np.empty_like(left)
    source = draw.random(CPU_BYTES // 4, dtype=np.float32)
    target = np.empty_like(source)
    gemm_s = _time_here(lambda: np.matmul(left, right, out=product))
    copy_s = _time_here(lambda: np.copyto(target, source))
    read_s = _time_here(lambda: source.sum())
    return {
        "gemm_tflops": 2 * CPU_GEMM_WIDTH**3 / gemm_s / 1e12,
        "copy_gb_s": 2 * CPU_BYTES / copy_s / 1e9,
        "read_gb_s": CPU_BYTES / read_s / 1e9,
        "repeats": CPU_REPEATS,
    }


def _time_here(work: Callable[[], object]) -> float:
    """Return the least time of `work`, s: what this host can do. A median would follow whatever else runs on it.

    The first call, which touches fresh memory, is left out.
    """
    work()
    times_s = []
    for _ in range(CPU_REPEATS):
        started_s = time.perf_counter()
        work()
        times_s.append(time.perf_counter() - started_s)
    return min(times_s)


if __name__ == "__main__":
    die_with_owner()
    main()
