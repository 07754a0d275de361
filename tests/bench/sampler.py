"""The sampler alone: what its thread takes of a core, and how far its samples are from where they are due."""

import time
from dataclasses import dataclass

import numpy as np

from study.errors import StudyError
from study.measure.gpu import GpuReader
from study.measure.telemetry import PERIOD_S, Sampler

SAMPLES = 600
MOST_CORE_SHARE = 0.01
MOST_DRIFT_MS = 1.0


@dataclass(frozen=True)
class Drift:
    """How far samples are from `start + k * period`, ms; `missed` deadlines are left out, never caught up."""

    mean_ms: float
    most_ms: float
    trend_ms_a_minute: float
    samples: int
    missed: int


class CountedWait:
    """Waits as the sampler's own does, and notes the thread's CPU time at each wait (s)."""

    def __init__(self, waits):
        self.left = waits
        self.seen = []

    def __call__(self, length_s):
        self.seen.append((time.monotonic(), time.thread_time()))
        time.sleep(length_s)
        self.left -= 1
        return self.left <= 0

    @property
    def core_share(self):
        """CPU time over wall time, from the first wait to the last."""
        (first_s, first_cpu_s), (last_s, last_cpu_s) = self.seen[0], self.seen[-1]
        return (last_cpu_s - first_cpu_s) / (last_s - first_s)


def find_drift(t_s, period_s):
    """Return the drift of sample times (monotonic, s), the first of which sets the grid."""
    passed = np.asarray(t_s) - t_s[0]
    places = np.rint(passed / period_s)
    off_ms = 1e3 * (passed - places * period_s)
    trend = np.polyfit(passed / 60.0, off_ms, 1)[0] if len(t_s) > 2 else 0.0
    return Drift(
        mean_ms=float(np.abs(off_ms).mean()),
        most_ms=float(np.abs(off_ms).max()),
        trend_ms_a_minute=float(trend),
        samples=len(t_s),
        missed=int(places[-1]) + 1 - len(set(places)),
    )


def open_card():
    """Return this machine's card and its name; a made-up one where there is none."""
    try:
        reader = GpuReader.open(None)
    except StudyError:
        from tests import fake_nvml

        return GpuReader.open(None, fake_nvml.FakeNvml(fake_nvml.FakeCard())), "a made-up card"
    return reader, reader.identity().name or "a card"


def measure_sampler(samples=SAMPLES):
    """Sample as beside a load; return figures, JSON-ready."""
    reader, name = open_card()
    wait = CountedWait(samples - 1)
    sampler = Sampler(reader, wait=wait)
    sampler.start()
    sampler._thread.join()
    telemetry = sampler.stop()
    # The last sample is taken at the stop, which here falls on a deadline too.
    drift = find_drift(telemetry.t_s, PERIOD_S)
    return {"card": name, "period_s": PERIOD_S, "core_share": wait.core_share, "drift": drift.__dict__}


def render_sampler(figures):
    """Return the figures in words, with their verdicts."""
    drift, share = figures["drift"], figures["core_share"]
    return [
        f"sampler, {figures['card']} and this host, {1 / figures['period_s']:.0f} Hz, {drift['samples']} samples:",
        f"  {100 * share:.2f} % of a core; asked: under 1 %: {'met' if share < MOST_CORE_SHARE else 'NOT MET'}",
        f"  {drift['mean_ms']:.2f} ms from where samples are due, in the mean (at most {drift['most_ms']:.2f} ms, "
        f"trend {drift['trend_ms_a_minute']:+.3f} ms a minute, {drift['missed']} missed); asked: under 1 ms: "
        f"{'met' if drift['mean_ms'] < MOST_DRIFT_MS else 'NOT MET'}",
    ]
