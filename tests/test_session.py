"""The notebook's side: parameters as papermill gives them, and a session followed as its own process."""

import contextlib
import importlib
import io
import json
import math
import os
import signal
import threading
import time
import types
from pathlib import Path

import nbformat
import psutil
import pytest

from study.design.parameters import Parameters, make_parameters
from study.errors import InputError, StudyError
from study.session import (
    _follow,
    _parameter_file,
    describe_records,
    follow_session,
    plan_session,
    read_notebook_parameters,
)

ROOT = Path(__file__).parent.parent


def test_a_namespace_of_parameters_and_imports_is_read():
    namespace = {"study": "s", "model": "m", "users": [2], "math": math, "_hidden": 1, "In": [], "Path": Path}
    namespace["read_notebook_parameters"] = read_notebook_parameters
    assert read_notebook_parameters(namespace).users == [2]


def test_an_unknown_parameter_is_refused_where_papermill_only_warns():
    with pytest.raises(InputError, match="parameter 'concurency' is unknown"):
        read_notebook_parameters({"study": "s", "model": "m", "concurency": 8})


def test_a_lost_tag_is_noticed_since_the_study_has_no_default():
    # without the tag papermill's values come first and the notebook's own, study = None, win
    with pytest.raises(InputError, match="parameter 'study' is missing"):
        read_notebook_parameters({"study": None, "model": None})


def test_the_notebooks_parameters_cell_holds_every_parameter_with_its_default():
    notebook = nbformat.read(ROOT / "notebooks/run_session.ipynb", as_version=4)
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    namespace = {}
    exec(cell.source, namespace)
    del namespace["__builtins__"]
    assert list(namespace) == list(Parameters.model_fields)
    for name, field in Parameters.model_fields.items():
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        assert namespace[name] == default, name


def test_the_plan_is_text(small_study):
    assert "2 measured launches, 4 runs" in plan_session(make_parameters(small_study))


def test_a_session_is_followed_to_its_end(fake_vllm, small_study):
    end = follow_session(make_parameters({**small_study, "levels": ["O0"], "users": [1]}))
    assert (end.launches, end.runs, end.failed, end.left) == (1, 1, 0, 0)
    assert end.message.endswith("the plan is complete")
    text = describe_records("small", small_study["data_dir"])
    assert text.startswith("1 measured launch, 1 run")


def test_a_process_that_started_kernels_is_no_kernel():
    """Papermill has ipykernel imported in the process that starts a kernel, where nothing shows a cell's output."""
    importlib.import_module("ipykernel.kernelspec")
    end = {"event": "end", "message": "m", "study": "s", "launches": 1, "runs": 2, "failed": 0, "left": 0}
    process = types.SimpleNamespace(stdout=io.StringIO(json.dumps(end) + "\n"))
    assert _follow(process).runs == 2


def test_a_refusal_of_the_runner_is_the_notebooks_error(fake_vllm, small_study):
    with pytest.raises(InputError, match="nowhere"):
        follow_session(make_parameters({**small_study, "model": "./nowhere"}))


def test_a_failed_level_is_named_in_what_was_recorded(fake_vllm, small_study):
    fake_vllm.setenv("FAKE_VLLM_FAULT", "die")
    fake_vllm.setenv("FAKE_VLLM_FAULT_LEVEL", "-O0")
    end = follow_session(make_parameters({**small_study, "users": [1]}))
    assert end.failed == 1
    assert "b1-O0-a1: failed at ready" in describe_records("small", small_study["data_dir"])


def test_parameters_survive_the_way_to_the_runner():
    parameters = make_parameters({"study": "s", "model": "m", "users": [1], "cool_to_c": 43.5})
    assert make_parameters(json.loads(parameters.model_dump_json())) == parameters


def runner_of(test_mark):
    """Return the runners that this test's sessions have."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get("STUDY_TEST_MARK") == test_mark and " study run " in " ".join(process.cmdline()):
                found.append(process)
    return found


def strike_runner(number, test_mark):
    """Send a signal to the session's runner, once it is there and has begun."""
    deadline = time.monotonic() + 60
    while not runner_of(test_mark) and time.monotonic() < deadline:
        time.sleep(0.02)
    runner_of(test_mark)[0].send_signal(number)


def test_a_runner_that_was_killed_is_the_notebooks_error(fake_vllm, small_study):
    striker = threading.Thread(target=strike_runner, args=(signal.SIGKILL, os.environ["STUDY_TEST_MARK"]))
    striker.start()
    with pytest.raises(StudyError, match="ended with code -9"):
        follow_session(make_parameters(small_study))
    striker.join()


def test_launches_that_were_killed_are_the_notebooks_error_in_the_runners_words(fake_vllm, small_study):
    """A server that somebody asked to end, here itself, after its first token."""
    fake_vllm.setenv("FAKE_VLLM_FAULT", "leave")
    with pytest.raises(StudyError, match="killed from outside, everything measured is kept; the same command"):
        follow_session(make_parameters({**small_study, "levels": ["O0"], "users": [1]}))


def test_an_interrupted_cell_waits_until_the_runner_has_ended_in_order(fake_vllm, small_study, monkeypatch):
    def interrupt(_process):
        raise KeyboardInterrupt

    monkeypatch.setattr("study.session._follow", interrupt)  # as the kernel does for an interrupted cell
    with pytest.raises(KeyboardInterrupt):
        follow_session(make_parameters(small_study))
    assert runner_of(os.environ["STUDY_TEST_MARK"]) == []


def test_a_line_that_a_killed_runner_left_unfinished_is_no_event():
    line = json.dumps({"event": "end", "message": "m", "study": "s", "launches": 1, "runs": 1, "failed": 0, "left": 0})
    process = types.SimpleNamespace(stdout=io.StringIO(line[:20]))
    assert _follow(process) is None


def test_a_dead_kernel_leaves_no_parameter_file(monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with _parameter_file(make_parameters({"study": "s", "model": "m"})) as number:
        assert list(tmp_path.iterdir()) == []  # what it has no name for, it cannot leave
        assert json.loads(Path(f"/dev/fd/{number}").read_text())["study"] == "s"
