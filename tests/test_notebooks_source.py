"""The rules that every notebook in `notebooks/` keeps, and the two that read records, carried out."""

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from edition_study import write_study

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
MOST_LINES, MOST_IN_A_CELL = 60, 10


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return nbformat.read(request.param, as_version=4)


def code_cells(notebook):
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def is_parameters(cell):
    return "parameters" in cell.metadata.get("tags", [])


def code_lines(cell):
    return [line for line in cell.source.splitlines() if line.strip() and not line.strip().startswith("#")]


def test_the_notebooks_are_there():
    assert {"publish_edition", "read_session", "run_fleet", "run_session"} <= {path.stem for path in NOTEBOOKS}


def test_it_is_a_valid_notebook(notebook):
    nbformat.validate(notebook)


def test_it_has_one_parameters_cell(notebook):
    assert sum(map(is_parameters, code_cells(notebook))) == 1


def test_the_parameters_cell_only_assigns(notebook):
    cell = next(filter(is_parameters, code_cells(notebook)))
    assert all(isinstance(line, ast.Assign) for line in ast.parse(cell.source).body)


def test_it_has_no_stored_outputs(notebook):
    assert all(not cell.outputs and cell.execution_count is None for cell in code_cells(notebook))


def test_it_is_short(notebook):
    sizes = [len(code_lines(cell)) for cell in code_cells(notebook) if not is_parameters(cell)]
    assert max(sizes) <= MOST_IN_A_CELL
    assert sum(sizes) <= MOST_LINES


def test_it_defines_nothing(notebook):
    made = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
    for cell in code_cells(notebook):
        assert not [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, made)]


def test_it_runs_on_any_python_kernel(notebook):
    assert notebook.metadata.kernelspec.name == "python3"


def test_it_opens_with_a_question(notebook):
    assert notebook.cells[0].cell_type == "markdown"
    assert "?" in notebook.cells[0].source.splitlines()[0]


def test_it_prints_nothing_raw(notebook):
    for cell in code_cells(notebook):
        calls = [node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)]
        assert "print" not in [call.func.id for call in calls if isinstance(call.func, ast.Name)]


def test_it_says_the_answer_before_how_it_is_known(notebook):
    titles = [line for cell in notebook.cells if cell.cell_type == "markdown" for line in cell.source.splitlines()]
    headings = [line for line in titles if line.startswith("## ")]
    known = [place for place, line in enumerate(headings) if line.startswith("## How it is known")]
    assert not known or headings.index("## The answer") < known[0]


def test_it_starts_measuring_only_as_a_process(notebook):
    source = "\n".join(cell.source for cell in code_cells(notebook))
    assert "study.measure" not in source
    assert "study.runner" not in source
    assert "study.fleet.driver" not in source


def execute(folder, name, *parameters, where="notebooks"):
    arguments = [item for parameter in parameters for item in ("-y", parameter)]
    source, copy = ROOT / "notebooks" / f"{name}.ipynb", folder / f"{name}-executed.ipynb"
    command = [sys.executable, "-m", "papermill", "--no-progress-bar", str(source), str(copy), *arguments]
    ended = subprocess.run([*command, "--cwd", str(folder / where)], capture_output=True, text=True, timeout=120)
    return ended, nbformat.read(copy, as_version=4)


def shown(notebook):
    outputs = [output for cell in code_cells(notebook) for output in cell.outputs]
    assert {output.output_type for output in outputs} == {"display_data"}
    return "".join(output.data["text/html"] for output in outputs)


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = tmp_path_factory.mktemp("project")
    shutil.copytree(ROOT / "notebooks" / "parameters", folder / "notebooks" / "parameters")
    write_study(folder / "data", "try", rehearsal=True)
    return folder


@pytest.mark.notebook
def test_read_session_shows_tables_and_figures_and_writes_the_tables(project):
    ended, executed = execute(project, "read_session", "study: try")
    assert ended.returncode == 0, ended.stderr
    text = shown(executed)
    assert text.count("REHEARSAL: this is no result") == 2
    assert text.count("<img") == text.count("<figcaption>REHEARSAL") == 7
    assert "default / O0 / O3 / eager: medians over runs" in text
    assert (project / "data" / "processed" / "try" / "runs.csv").is_file()


@pytest.mark.notebook
def test_publish_edition_writes_the_edition_and_shows_where(project):
    ended, executed = execute(project, "publish_edition", "edition: '2026.11'", "studies: [try]", where=".")
    assert ended.returncode == 0, ended.stderr
    text = shown(executed)
    assert text.count("REHEARSAL: this is no result") == 2
    assert "<code>editions/2026.11</code>" in text
    assert (project / "editions" / "2026.11" / "index.html").is_file()
    assert "2026.11" in (project / "editions" / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.notebook
def test_an_unknown_parameter_is_refused_in_one_line(project):
    ended, _ = execute(project, "read_session", "studdy: try")
    assert ended.returncode != 0
    assert "InputError: parameter 'studdy' is unknown; did you mean 'study'?" in ended.stderr
