"""What a worker's attention backend would do to the graphs, asked without a worker. To be called in `resolve_child`.

vLLM's own code answers: it chooses the backend for the card, the backend tells what graphs it supports, and the rule of
the worker (`resolve_cudagraph_mode_and_sizes` in vllm/config/compilation.py) is applied to a copy of the configuration.
It stays an expectation: a package that is missing here, or another kernel on the real card, changes the answer.
"""

import copy
import sys
import types
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Any

from study.measure.resolve_levels import REFUSALS, captured_lines, say_refusal

FLASH_ATTENTION = "vllm_flash_attn"
FLASH_ATTENTION_OPS = ("_vllm_fa2_C", "_vllm_fa3_C")
"""Compiled parts of FlashAttention 2 and 3, which every CUDA wheel of vLLM has and its CPU build has not."""


def pretend_flash_attention() -> list[str]:
    """Let FlashAttention be importable where a card is pretended; return what was left out for it."""
    import vllm

    folders = [str(Path(folder) / FLASH_ATTENTION) for folder in vllm.__path__]
    left_out = []
    for name in FLASH_ATTENTION_OPS:
        if PathFinder.find_spec(name, folders) is None:
            full_name = f"vllm.{FLASH_ATTENTION}.{name}"
            sys.modules[full_name] = types.ModuleType(full_name)
            left_out.append(full_name)
    return left_out


def expect_at_worker(config: Any) -> dict[str, Any]:  # noqa: ANN401 (VllmConfig)
    """Return the fields of `AtWorker` for a resolved configuration."""
    passed_over: list[str] = []
    lines: list[tuple[int, str]] = []
    try:
        backend = _choose_backend(config, passed_over)
        support = backend.get_builder_cls().get_cudagraph_support(config, _cache_spec(config))
        compilation = copy.deepcopy(config.compilation_config)
        with captured_lines(lines):
            mode = compilation.resolve_cudagraph_mode_and_sizes(support, backend.__name__)
    except REFUSALS as error:
        nothing = {"backend": None, "graph_support": None, "passed_over": passed_over}
        return {**nothing, "reason": say_refusal(error)}
    return {
        "backend": backend.get_name(),
        "graph_support": support.name,
        "cudagraph_mode": list(mode.value) if isinstance(mode.value, tuple) else mode.value,
        "said": [text for _, text in lines if "cudagraph" in text.lower()],
        "passed_over": passed_over,
    }


def _choose_backend(config: Any, passed_over: list[str]) -> Any:  # noqa: ANN401 (classes of vLLM)
    """Return the class that vLLM chooses, and note backends of higher rank that cannot be imported here."""
    from vllm.config import set_current_vllm_config
    from vllm.platforms import current_platform
    from vllm.v1.attention.selector import get_attn_backend

    ask = current_platform.get_valid_backends

    def ask_and_note(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401
        valid, invalid = ask(*args, **kwargs)
        best = min((one.priority for one in valid), default=0)
        for backend, (priority, reasons) in invalid.items():
            if priority < best and any("Error: " in reason for reason in reasons):
                passed_over.append(backend.name)
        return valid, invalid

    model = config.model_config
    type(current_platform).get_valid_backends = staticmethod(ask_and_note)
    with set_current_vllm_config(config):
        return get_attn_backend(
            model.get_head_size(),
            model.dtype,
            config.cache_config.cache_dtype,
            use_mla=model.use_mla,
            num_heads=model.get_num_attention_heads(config.parallel_config),
        )


def _cache_spec(config: Any) -> Any:  # noqa: ANN401 (a class of vLLM)
    from vllm.v1.kv_cache_interface import FullAttentionSpec

    model = config.model_config
    return FullAttentionSpec(
        block_size=config.cache_config.block_size or 16,
        num_kv_heads=model.get_num_kv_heads(config.parallel_config),
        head_size=model.get_head_size(),
        dtype=model.dtype,
    )
