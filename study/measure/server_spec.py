"""What to start: a server's flags and environment, and what of them may stand in a record."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.design.parameters import Parameters
from study.errors import InputError

HOST = "127.0.0.1"
OWNED_FLAGS = {"--host", "--port", "--model", "--load-format", "--api-key", "--kv-cache-memory-bytes", "--uds"}
OWNED_FLAGS |= {"--enable-prefix-caching", "--no-enable-prefix-caching", "--root-path"}
SECRET_FLAGS = {"--hf-token", "--ssl-keyfile-password"}
ALLOWED_ENVIRONMENT = re.compile(
    r"^(VLLM_|TORCH|TRITON_|FLASHINFER_|CUDA_VISIBLE_DEVICES$|CUDA_CACHE|CUDA_DEVICE_ORDER$|NCCL_|OMP_|MKL_|PYTORCH_|"
    r"HF_HUB_OFFLINE$|PYTHONDONTWRITEBYTECODE$|PYTHONOPTIMIZE$)"
)
SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
SECRET_ENTRY = re.compile(r"(?:_token|api_key|password|secret)$", re.IGNORECASE)


@dataclass(frozen=True)
class ServerSpec:
    """What to start: flags after the model, extra environment, cores (empty: any)."""

    model: str
    parameters: Parameters
    flags: tuple[str, ...]
    environment: dict[str, str]
    cores: tuple[int, ...] = ()
    gpu_uuid: str | None = None
    port: int | None = None


def check_server_flags(flags: list[str]) -> None:
    """Refuse flags that the study sets itself, before a server starts."""
    for flag in flags:
        name = flag.split("=")[0]
        if name in OWNED_FLAGS:
            raise InputError(f"server_flags has '{name}', which the study sets itself; leave it out")
        if name in SECRET_FLAGS:
            raise InputError(f"server_flags has '{name}', a secret; give it by the environment (HF_TOKEN) instead")


def command_of(spec: ServerSpec, port: int) -> list[str]:
    """Return the argument list of a server; no secret is in it."""
    cache = spec.parameters.kv_cache_memory_bytes
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--host", HOST, "--port", str(port), "--model", spec.model),
        *("--load-format", spec.parameters.load_format, "--no-enable-prefix-caching"),
        *(("--kv-cache-memory-bytes", str(cache)) if cache else ()),
        *spec.parameters.server_flags,
        *spec.flags,
    ]


def recorded_environment(extra: dict[str, str]) -> dict[str, str]:
    """Return the environment that may stand in a record: an allow-list, without anything that names a secret."""
    both = {**os.environ, **extra}
    return {
        name: value
        for name, value in sorted(both.items())
        if (ALLOWED_ENVIRONMENT.match(name) or name in extra) and not SECRET_NAME.search(name)
    }


def with_package(environment: Mapping[str, str]) -> str:
    """Return a PYTHONPATH with which a process that is started finds this package, wherever that is."""
    here = str(Path(__file__).resolve().parents[2])
    known = [part for part in environment.get("PYTHONPATH", "").split(os.pathsep) if part]
    return os.pathsep.join([*known, *([] if here in known else [here])])


def mask_secrets(value: Any) -> Any:  # noqa: ANN401 (any JSON value)
    """Replace texts under names such as `hf_token` or `api_key` in a JSON value."""
    if isinstance(value, dict):
        return {
            name: "<masked>" if isinstance(item, str) and SECRET_ENTRY.search(name) else mask_secrets(item)
            for name, item in value.items()
        }
    return [mask_secrets(item) for item in value] if isinstance(value, list) else value
