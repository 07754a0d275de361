"""What to start: a server's flags and environment, and what of them may stand in a record."""

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from study.design.parameters import Parameters
from study.measure.redact import SECRET_NAME

HOST = "127.0.0.1"
GATE = "study.measure.key_gate.KeyGate"
TRUST = "--trust-remote-code"
CLOSED_ENVIRONMENT = {"VLLM_HOST_IP": HOST, "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
"""What keeps vLLM's inner sockets off the network: ZMQ's, Gloo's (by default on the host's own address) and NCCL's."""
OPEN_ENVIRONMENT = {"VLLM_LOOPBACK_IP", "VLLM_DP_MASTER_IP", "VLLM_ALLOW_INSECURE_SERIALIZATION"}
OPEN_ENVIRONMENT |= {"VLLM_DEBUG_LOG_API_SERVER_RESPONSE"}
"""What a server never gets, whoever set it: other addresses, pickle on a socket, answers in the log."""
ALLOWED_ENVIRONMENT = re.compile(
    r"^(VLLM_|TORCH|TRITON_|FLASHINFER_|CUDA_VISIBLE_DEVICES$|CUDA_CACHE|CUDA_DEVICE_ORDER$|NCCL_|OMP_|MKL_|PYTORCH_|"
    r"DG_|HUMMING_|TILELANG_|CUTE_DSL_|QUACK_|TVM_FFI_|NUMBA_|HF_HUB_OFFLINE$|PYTHONDONTWRITEBYTECODE$|PYTHONOPTIMIZE$)"
)
SECRET_ENTRY = re.compile(r"(?:_token|api_key|password|secret)$", re.IGNORECASE)


@dataclass(frozen=True)
class ServerSpec:
    """What to start: flags after the model, extra environment, cores (empty: any).

    `private_environment` ties the server to its launch and stands in no record.
    """

    model: str
    parameters: Parameters
    flags: tuple[str, ...]
    environment: dict[str, str]
    cores: tuple[int, ...] = ()
    gpu_uuid: str | None = None
    port: int | None = None
    private_environment: dict[str, str] = field(default_factory=dict)


def command_of(spec: ServerSpec, port: int) -> list[str]:
    """Return the argument list of a server; no secret is in it."""
    cache = spec.parameters.kv_cache_memory_bytes
    return [
        *(sys.executable, "-m", "vllm.entrypoints.openai.api_server"),
        *("--host", HOST, "--port", str(port), "--middleware", GATE, "--model", spec.model),
        *("--load-format", spec.parameters.load_format, "--no-enable-prefix-caching"),
        *(("--kv-cache-memory-bytes", str(cache)) if cache else ()),
        *((TRUST,) if spec.parameters.trust_remote_code else ()),
        *spec.parameters.server_flags,
        *spec.flags,
    ]


def environment_of(spec: ServerSpec, inherited: Mapping[str, str], key: str) -> dict[str, str]:
    """Return a server's environment: what it inherits, what its level sets, and what shuts it to others.

    Args:
        spec: what to start.
        inherited: the environment of this process.
        key: the launch's API key; nothing else carries it.

    """
    own = {"VLLM_API_KEY": key, "VLLM_SERVER_DEV_MODE": "1", "VLLM_NO_USAGE_STATS": "1", **CLOSED_ENVIRONMENT}
    if spec.gpu_uuid:
        own["CUDA_VISIBLE_DEVICES"] = spec.gpu_uuid
    both = {**inherited, **spec.environment, **own}
    both["PYTHONPATH"] = with_package(both)
    return {name: value for name, value in both.items() if name not in OPEN_ENVIRONMENT} | spec.private_environment


def recorded_environment(extra: dict[str, str]) -> dict[str, str]:
    """Return the environment that may stand in a record: an allow-list, without anything that names a secret."""
    both = {**os.environ, **extra}
    return {
        name: value
        for name, value in sorted(both.items())
        if (ALLOWED_ENVIRONMENT.match(name) or name in extra)
        and not SECRET_NAME.search(name)
        and name not in OPEN_ENVIRONMENT
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
