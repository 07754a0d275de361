"""The compile and kernel caches of a server: what a cold start finds empty, and what it does not.

Each cache is emptied by pointing its variable at a folder of the launch that does not exist yet: the user's own is not
touched, wherever it is kept, and the server does not find it.
"""

from collections.abc import Mapping
from pathlib import Path

CACHES = {
    "VLLM_CACHE_ROOT": "vLLM: torch.compile, AOT",
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "Triton kernels",
    "FLASHINFER_WORKSPACE_BASE": "FlashInfer modules",
    "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": "FlashInfer autotuning",
    "DG_JIT_CACHE_DIR": "DeepGEMM kernels",
    "TILELANG_CACHE_DIR": "TileLang kernels",
    "CUTE_DSL_CACHE_DIR": "CuTe DSL kernels",
    "TVM_FFI_CACHE_DIR": "TVM FFI modules",
    "CUDA_CACHE_PATH": "CUDA driver's compute cache",
}
"""The variable that moves a cache, and what is kept in it, as vLLM 0.31.0 and its kernel libraries read them."""
PAGE_CACHE = "page cache of the operating system"


def cold_environment(folder: Path) -> dict[str, str]:
    """Return the variables that move every cache into a launch's own folder, which has none of them yet."""
    return {name: str(folder / name.lower()) for name in CACHES}


def told_caches(cache: str, environment: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what a launch's record tells of its caches.

    Args:
        cache: cold or warm.
        environment: what the level sets itself; a cache that it moves is where it says, and was not emptied.

    Returns:
        `cache_emptied` and `cache_not_emptied`, both empty at a warm start.

    """
    if cache != "cold":
        return {"cache_emptied": [], "cache_not_emptied": []}
    kept = [f"{what} (the level sets {name})" for name, what in CACHES.items() if name in environment]
    emptied = [what for name, what in CACHES.items() if name not in environment]
    return {"cache_emptied": emptied, "cache_not_emptied": [*kept, PAGE_CACHE]}
