import os
import sys
import uuid
from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent
ROOT = TESTS.parent


@pytest.fixture
def fake_vllm(monkeypatch):
    """Put the stand-in for vLLM first on the path of every process that a test starts."""
    known = os.environ.get("PYTHONPATH")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(TESTS / "fake_vllm"), *([known] if known else [])]))
    monkeypatch.setenv("STUDY_TEST_MARK", uuid.uuid4().hex)
    for name in ("FAKE_VLLM_FAULT", "FAKE_VLLM_FAULT_LEVEL", "FAKE_VLLM_LOAD", "FAKE_VLLM_START_S", "FAKE_VLLM_STOP_S"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.fixture
def brief_rest(monkeypatch):
    """Let a fake card settle and rest in half a second; the rules of both are tested against a clock of their own."""
    monkeypatch.setattr("study.measure.thermal.SETTLED_OVER_S", 0.4)
    monkeypatch.setattr("study.measure.thermal.REST_S", 0.05)


@pytest.fixture
def made_canary(monkeypatch):
    """Let sessions in this process have a made-up canary; the real one takes two seconds before and after a server."""
    from make_records import make_canary  # this folder is on the path by then

    def canary(_device, _uuid, _timeout_s, clock):
        return make_canary(started_s=clock()), ""

    monkeypatch.setattr("study.measure.launch.run_canary", canary)


@pytest.fixture
def small_study(tmp_path):
    """Values of a session that the stand-in goes through in seconds."""
    return {
        "study": "small",
        "device": "cpu",
        "levels": ["default", "O0"],
        "users": [1, 2],
        "seeds": [1],
        "model": "notebooks/parameters/models/rehearsal.yaml",
        "load_format": "dummy",
        "input_tokens": 8,
        "output_tokens": 8,
        "waves": 2,
        "min_run_s": 0,
        "ready_deadline_s": 20,
        "data_dir": str(tmp_path / "data"),
    }


sys.path.insert(0, str(TESTS))

# The same examples at every run, so that a pull request cannot fail on what another one did; STUDY_HYPOTHESIS=thorough
# looks for new ones, 25 times as many.
settings.register_profile("study", derandomize=True, max_examples=80, deadline=None)
settings.register_profile("thorough", max_examples=2_000, deadline=None)
settings.load_profile("thorough" if os.environ.get("STUDY_HYPOTHESIS") == "thorough" else "study")
