"""The main job on the real engine, small: notebooks, a killed kernel, the resume, tables, edition and its rebuild."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import nbformat
import psutil
import pytest

from study.publish.edition import write_edition
from study.store import Store

ROOT = Path(__file__).parent.parent
STUDY = "rehearsal-small"
SMALL = ("levels: [O0, eager]", "users: [1]", "seeds: [1]", "output_tokens: 24", "waves: 3", f"study: {STUDY}")

pytestmark = [pytest.mark.server, pytest.mark.notebook]


def papermill(name, out, *values, parameters=None, cwd=ROOT):
    command = [str(Path(sys.executable).parent / "papermill"), "--no-progress-bar", f"{name}.ipynb", str(out)]
    command += ["-f", parameters] if parameters else []
    for value in values:
        command += ["-y", value]
    return subprocess.Popen(command, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def run_session(data_dir, out):
    values = [*SMALL, f"data_dir: {data_dir}"]
    return papermill("run_session", out, *values, parameters="parameters/rehearsal.yaml", cwd=ROOT / "notebooks")


def our_processes(mark):
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("STUDY_TEST_MARK") == mark and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def wait_for(condition, deadline_s):
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.2)
    return False


@pytest.fixture(scope="module")
def rehearsed(tmp_path_factory):
    """A small session whose notebook lost its kernel after the first run, and was run again."""
    folder = tmp_path_factory.mktemp("rehearsed")
    mark = f"rehearsal-{os.getpid()}"
    os.environ["STUDY_TEST_MARK"] = mark
    try:
        first = run_session(folder / "data", folder / "first.ipynb")
        raw = folder / "data/raw" / STUDY
        assert wait_for(lambda: list(raw.glob("run-*.json")), 240), first.communicate()[1]
        kernel = next(p for p in our_processes(mark) if "ipykernel_launcher" in " ".join(p.cmdline()))
        kernel.send_signal(signal.SIGKILL)
        first.communicate(timeout=60)
        gone = wait_for(lambda: not our_processes(mark), 30)
        kept = {path.name: path.read_bytes() for path in raw.glob("run-*.json")}
        again = run_session(folder / "data", folder / "again.ipynb")
        errors = again.communicate(timeout=400)[1]
    finally:
        del os.environ["STUDY_TEST_MARK"]
    return {"folder": folder, "raw": raw, "first": first, "gone": gone, "kept": kept, "again": again, "errors": errors}


def test_a_killed_kernel_leaves_no_process_and_loses_no_run(rehearsed):
    assert rehearsed["first"].returncode != 0
    assert rehearsed["gone"]
    assert rehearsed["kept"]
    for name, content in rehearsed["kept"].items():
        assert (rehearsed["raw"] / name).read_bytes() == content


def test_the_same_command_completes_the_plan(rehearsed):
    assert rehearsed["again"].returncode == 0, rehearsed["errors"]
    records = Store(rehearsed["folder"] / "data", STUDY).read()
    done = sorted((run.level, run.users) for run in records.runs if run.outcome.status == "ok")
    assert done == [("O0", 1), ("eager", 1)]
    notebook = nbformat.read(rehearsed["folder"] / "again.ipynb", as_version=4)
    assert all(cell.metadata.papermill.status == "completed" for cell in notebook.cells if cell.cell_type == "code")
    assert "2 measured launches" in str(notebook.cells)


def test_the_real_engine_did_what_was_asked(rehearsed):
    records = Store(rehearsed["folder"] / "data", STUDY).read()
    for run in records.runs:
        requests = run.load.requests
        assert requests.output_tokens == [24] * 3
        assert set(requests.input_tokens) == {128}
        assert all(ttft > 0 for ttft in requests.ttft_s)
        assert min(requests.chunks) > 12  # tokens came one by one, not in one bunch
        assert run.server.prefix_hits == 0
    # the launch that lost its notebook is among them: its run was done, so it is not made again
    launches = {launch.level: launch for launch in records.launches if launch.resolved is not None}
    assert launches["eager"].resolved["model_config"]["enforce_eager"] is True
    assert launches["O0"].resolved["optimization_level"] == 0
    for launch in launches.values():
        assert launch.machine.versions["vllm"].startswith("0.31.0")
        assert launch.kv_cache_blocks > 0
        assert (launch.stopped_by, launch.left_over) == ("SIGINT", [])
        assert launch.rehearsal
    assert "ok" in {launch.outcome.status for launch in launches.values()}


def test_the_tables_and_the_edition_follow_and_are_rebuilt_byte_for_byte(rehearsed):
    folder = rehearsed["folder"]
    values = [f"study: {STUDY}", f"data_dir: {folder / 'data'}"]
    read = papermill("notebooks/read_session", folder / "read.ipynb", *values)
    assert read.wait(timeout=180) == 0, read.stderr.read()
    read.stderr.close()
    edition = ROOT / "editions" / STUDY
    try:
        values = [f"edition: {STUDY}", f"studies: [{STUDY}]", f"data_dir: {folder / 'data'}"]
        published = papermill("publish_edition", folder / "publish.ipynb", *values, cwd=ROOT / "notebooks")
        assert published.wait(timeout=180) == 0, published.stderr.read()
        published.stderr.close()
        first = files_of(edition) | files_of(folder / "data/processed")
        shutil.rmtree(edition)
        shutil.rmtree(folder / "data/processed")
        write_edition(ROOT, STUDY, [STUDY], folder / "data")
        again = papermill("notebooks/read_session", folder / "read2.ipynb", *values[2:], f"study: {STUDY}")
        assert again.wait(timeout=180) == 0
        again.stderr.close()
        assert files_of(edition) | files_of(folder / "data/processed") == first
        page = (edition / "index.html").read_text()
        assert "no result" in page
        assert str(ROOT) not in page
    finally:
        shutil.rmtree(edition, ignore_errors=True)


def files_of(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("values", "named"),
    [
        (["concurency: 8"], "parameter 'concurency' is unknown"),
        (["users: 8"], 'a list is needed: -y "users: [8]"'),
        (["levels: [O0, egaer]"], "did you mean 'eager'"),
    ],
)
def test_a_wrong_parameter_ends_papermill_before_a_server_starts(tmp_path, values, named):
    values = [*values, f"data_dir: {tmp_path}"]
    parameters = "notebooks/parameters/rehearsal.yaml"
    done = papermill("notebooks/run_session", tmp_path / "out.ipynb", *values, parameters=parameters)
    _, errors = done.communicate(timeout=120)
    assert done.returncode == 1
    assert named in errors
    assert not list(tmp_path.glob("raw/*/launch-*"))
