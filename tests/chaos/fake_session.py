"""A session on the stand-in for vLLM and a made-up card that is warm at first; it goes through a launch in seconds.

    python tests/chaos/fake_session.py PARAMETERS
"""

import json
import os
import sys
import time
from functools import partial
from pathlib import Path

import fake_nvml
from vllm.engine import trace

import study.measure.launch
import study.measure.thermal
import study.runner
from study.design.parameters import read_parameters
from study.errors import StudyError
from study.measure.canary import run_canary
from study.measure.gpu import GpuReader

TESTS = Path(__file__).parent.parent
GATE_S = 0.3


class CoolingCard(fake_nvml.FakeCard):
    """Warm for a moment when it is first asked, as a card is that just worked."""

    first_s = None

    def __post_init__(self):
        pass

    @property
    def temperature_c(self):
        if self.first_s is None:
            self.first_s = time.monotonic()
            trace("gate")
        return 80 if time.monotonic() - self.first_s < GATE_S else 40

    @property
    def sm_clock_mhz(self):
        """As fast as it may, or as it was locked (`fake_clock_lock`)."""
        file = Path(os.environ.get("FAKE_CARD", "none"))
        return (json.loads(file.read_text()).get("locked_mhz") if file.is_file() else None) or 1980

    @sm_clock_mhz.setter
    def sm_clock_mhz(self, value):
        """Keep no value: the lock tells."""

    @temperature_c.setter
    def temperature_c(self, value):
        """Keep no value: the clock tells."""


def main(file):
    canary = partial(run_canary, command=[sys.executable, str(Path(__file__).with_name("quick_canary.py"))])
    study.measure.launch.run_canary = study.runner.run_canary = canary
    study.measure.thermal.REST_S = study.measure.thermal.POLL_S = 0.05
    lock = [sys.executable, str(TESTS / "fake_clock_lock.py")]
    options = study.runner.RunOptions(detach=bool(os.environ.get("CHAOS_DETACH")))
    reader = GpuReader.open(None, fake_nvml.FakeNvml(CoolingCard()))
    try:
        return study.runner.run_session(
            read_parameters(Path(file)), TESTS.parent, options, open_gpu=lambda _gpu: reader, lock_command=lock
        )
    except StudyError as error:
        print(f"study: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
