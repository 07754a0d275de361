"""What papermill does in public that misleads, on small notebooks that are really executed: judged by what is on disk.

papermill's exit code and its metadata contradict each other in both directions (a killed kernel leaves a cell
`completed`; `sys.exit(0)` ends with 0 and cells that never ran), so a run counts by its records and files alone.
"""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import nbformat
import psutil
import pytest
from edition_study import make_root

from study.session import describe_records
from study.store import Store

pytestmark = pytest.mark.notebook
ROOT = Path(__file__).parent.parent
DEFAULTS = "study = None\nmodel = None\nusers = [1, 2]\nserver_flags = []"
READ = (
    "from study.session import plan_session, read_notebook_parameters\n"
    "parameters = read_notebook_parameters(globals())\n"
    "print(plan_session(parameters))"
)
RESULT = "from pathlib import Path\nPath('result').touch()"
SWALLOW = "try:\n    read_notebook_parameters({})\nexcept Exception:\n    print('went on')"
GIVEN = ("-y", "study: s", "-y", "model: m")
NOTEBOOKS = {
    # name: (is its parameters cell tagged, its cells, arguments)
    "as_asked": (True, [READ, RESULT], [*GIVEN, "-y", "server_flags: ['--a=b']"]),
    "untagged": (False, [READ, RESULT], [*GIVEN]),
    "number_for_list": (True, [READ, RESULT], [*GIVEN, "-p", "users", "8"]),
    "killed": (True, [READ, "import os\nos.kill(os.getpid(), 9)", RESULT], [*GIVEN]),
    "left": (True, [READ, SWALLOW, "import sys\nsys.exit(0)", RESULT], [*GIVEN]),
    "no_kernel": (True, [READ, RESULT], [*GIVEN, "-k", "conda-env-none-py"]),
}


def write_notebook(path, parameters, tagged, cells):
    first = nbformat.v4.new_code_cell(parameters, metadata={"tags": ["parameters"]} if tagged else {})
    notebook = nbformat.v4.new_notebook(cells=[first, *map(nbformat.v4.new_code_cell, cells)])
    notebook.metadata.kernelspec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    nbformat.write(notebook, path)
    return path


def execute(source, cwd, *arguments):
    copy = source.with_name(f"{source.stem}-executed.ipynb")
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", str(source), str(copy), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [*command, "--cwd", str(cwd)], capture_output=True, text=True, timeout=180, env=environment, cwd=cwd
    )
    return done, nbformat.read(copy, as_version=4) if copy.is_file() else None


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Every notebook of `NOTEBOOKS`, executed in a project of its own: what papermill said, the copy, the project."""

    def run(name):
        tagged, cells, arguments = NOTEBOOKS[name]
        root = make_root(tmp_path_factory.mktemp(name))
        return *execute(write_notebook(root / f"{name}.ipynb", DEFAULTS, tagged, cells), root, *arguments), root

    with ThreadPoolExecutor(2) as pool:
        return dict(zip(NOTEBOOKS, pool.map(run, NOTEBOOKS), strict=True))


def test_values_arrive_as_they_were_given(executed):
    # a value that holds '=' is called unknown by papermill, and arrives
    done, notebook, root = executed["as_asked"]
    assert done.returncode == 0, done.stderr
    text = "".join(output.get("text", "") for cell in notebook.cells for output in cell.get("outputs", []))
    assert "study s: cooled session" in text
    assert "users 1, 2" in text or "users 2, 1" in text
    assert "\r" not in text  # no half-drawn bars
    assert (root / "result").is_file()


@pytest.mark.parametrize(
    ("name", "said"),
    [("untagged", "parameter 'study' is missing"), ("number_for_list", 'a list is needed: -y "users: [8]"')],
)
def test_what_papermill_lets_pass_is_refused_in_one_line(executed, name, said):
    done, _, root = executed[name]
    assert done.returncode == 1
    assert said in done.stderr
    assert not (root / "result").exists()


def test_a_killed_kernel_ends_in_138_with_no_exception_in_its_metadata(executed):
    done, notebook, root = executed["killed"]
    assert done.returncode == 138
    assert not notebook.metadata.papermill.exception
    assert not (root / "result").exists()


def test_exit_code_0_is_no_result(executed):
    # an error that a cell swallowed, then sys.exit(0): the cells behind it never ran
    done, _, root = executed["left"]
    assert done.returncode == 0
    assert not (root / "result").exists()


def test_a_copy_that_was_never_executed_is_no_run(executed):
    done, notebook, root = executed["no_kernel"]
    assert done.returncode == 1
    assert "No such kernel named conda-env-none-py" in done.stderr
    assert all(cell.execution_count is None for cell in notebook.cells)
    assert not (root / "result").exists()


def our_servers():
    """Processes of servers that a test of this run started."""
    found = []
    for process in psutil.process_iter():
        try:
            ours = process.environ().get("STUDY_TEST_MARK") == os.environ.get("STUDY_TEST_MARK")
            if ours and "vllm.entrypoints" in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def test_a_cell_that_runs_into_its_timeout_ends_the_session_in_order(fake_vllm, small_study, tmp_path):
    # papermill then writes `completed` and exception None, and exits with 1; the records tell what was measured
    fake_vllm.setenv("FAKE_VLLM_LOAD", "slow")
    values = {**small_study, "levels": ["O0"]}
    follow = "from study.session import follow_session\nend = follow_session(parameters)"
    source = write_notebook(tmp_path / "run.ipynb", "study = None\nmodel = None", True, [READ, follow])
    (tmp_path / "values.yaml").write_text(json.dumps(values))
    done, notebook = execute(source, ROOT, "-f", str(tmp_path / "values.yaml"), "--execution-timeout", "16")
    assert done.returncode == 1
    assert not notebook.metadata.papermill.exception
    assert our_servers() == []
    records = Store(Path(values["data_dir"]), "small").read()
    assert {launch.outcome.status for launch in records.launches} == {"interrupted"}
    assert "interrupted" in describe_records("small", values["data_dir"])
