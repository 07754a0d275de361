"""The compile and kernel caches of a server: what a cold start finds empty, and what it does not.

Each cache is emptied by pointing its variable at a folder of the launch that does not exist yet: the user's own is not
touched, wherever it is kept, and the server does not find it. Files that are downloaded ready (FlashInfer's cubins, a
model's weights) are no caches of this kind.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

TORCH_COMPILE = "vLLM: torch.compile, AOT, model information"
AUTOTUNING = "FlashInfer autotuning"
CACHES = {
    "VLLM_CACHE_ROOT": TORCH_COMPILE,
    "TORCHINDUCTOR_CACHE_DIR": "inductor",
    "TRITON_CACHE_DIR": "Triton kernels",
    "FLASHINFER_WORKSPACE_BASE": "FlashInfer modules",
    "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR": AUTOTUNING,
    "FLASHINFER_AUTOTUNE_CACHE_DIR": AUTOTUNING,
    "FLASHINFER_AUTOTUNE_DIR": AUTOTUNING,
    "DG_JIT_CACHE_DIR": "DeepGEMM kernels",
    "HUMMING_CACHE_DIR": "Humming kernels",
    "TILELANG_CACHE_DIR": "TileLang kernels",
    "CUTE_DSL_CACHE_DIR": "CuTe DSL kernels",
    "QUACK_CACHE_DIR": "QuACK kernels",
    "TVM_FFI_CACHE_DIR": "TVM FFI modules",
    "TORCH_EXTENSIONS_DIR": "torch extensions",
    "NUMBA_CACHE_DIR": "Numba functions",
    "CUDA_CACHE_PATH": "CUDA driver's compute cache",
}
"""The variable that moves a cache, and what is kept in it, as vLLM 0.31.0 and its kernel libraries read them."""
PAGE_CACHE = "page cache of the operating system"
OWN_FOLDER = "cache_dir"
"""What a flag that gives torch.compile's cache a folder of its own is called (`-cc.cache_dir`), which goes first."""


def cold_environment(folder: Path) -> dict[str, str]:
    """Return the variables that move every cache into a launch's own folder, which has none of them yet."""
    return {name: str(folder / name.lower()) for name in CACHES}


def told_caches(cache: str, environment: Mapping[str, str], flags: Sequence[str] = ()) -> dict[str, list[str]]:
    """Return what a launch's record tells of its caches.

    Args:
        cache: cold or warm.
        environment: what the level sets itself; a cache that it moves is where it says, and was not emptied.
        flags: of the server; one may place torch.compile's cache likewise.

    Returns:
        `cache_emptied` and `cache_not_emptied`, both empty at a warm start.

    """
    if cache != "cold":
        return {"cache_emptied": [], "cache_not_emptied": []}
    kept = {what: f"the level sets {name}" for name, what in CACHES.items() if name in environment}
    if any(OWN_FOLDER in flag for flag in flags):
        kept[TORCH_COMPILE] = f"a flag sets {OWN_FOLDER}"
    emptied = [what for what in dict.fromkeys(CACHES.values()) if what not in kept]
    not_emptied = [*(f"{what} ({why})" for what, why in kept.items()), PAGE_CACHE]
    return {"cache_emptied": emptied, "cache_not_emptied": not_emptied}
