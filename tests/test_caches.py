"""What a cold start finds empty: every cache of vLLM and its kernel libraries, wherever the user keeps it."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from study.design.parameters import make_parameters
from study.design.root import find_root
from study.measure.caches import CACHES, PAGE_CACHE, cold_environment, told_caches
from study.runner import RunOptions, run_session
from study.store import Store

NAMES = list(dict.fromkeys(CACHES.values()))
ROOT = find_root(Path(__file__).parent)


def test_every_cache_has_a_folder_of_its_own_that_is_not_there_yet(tmp_path):
    folders = [Path(value) for value in cold_environment(tmp_path).values()]
    assert len(set(folders)) == len(folders)
    assert {folder.parent for folder in folders} == {tmp_path}
    assert not any(folder.exists() for folder in folders)


@pytest.mark.parametrize(
    "name",
    [
        "VLLM_CACHE_ROOT",  # vllm/envs.py
        "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR",  # vllm/envs.py: goes before the root above
        "DG_JIT_CACHE_DIR",  # vllm/utils/deep_gemm.py: goes before the root above
        "HUMMING_CACHE_DIR",  # humming/utils/jit.py
        "FLASHINFER_AUTOTUNE_CACHE_DIR",  # flashinfer/autotune_cache.py
        "FLASHINFER_AUTOTUNE_DIR",  # flashinfer/mla/_sparse_mla_sm120/_calibration.py
        "QUACK_CACHE_DIR",  # quack/cache/__init__.py
        "TORCHINDUCTOR_CACHE_DIR",  # torch/_inductor/runtime/cache_dir_utils.py
        "TRITON_CACHE_DIR",  # triton/knobs.py
        "FLASHINFER_WORKSPACE_BASE",  # flashinfer/jit/env.py
        "TILELANG_CACHE_DIR",  # tilelang/env.py
        "CUTE_DSL_CACHE_DIR",  # CUTLASS 4.3.2's release notes
        "TVM_FFI_CACHE_DIR",  # tvm_ffi/cpp/extension.py
        "CUDA_CACHE_PATH",  # CUDA programming guide, environment variables
    ],
)
def test_a_cache_that_vllm_or_its_kernels_read_is_emptied(tmp_path, name):
    assert name in cold_environment(tmp_path)


def test_a_cold_start_tells_what_was_emptied_and_a_warm_one_nothing():
    assert told_caches("cold", {}) == {"cache_emptied": NAMES, "cache_not_emptied": [PAGE_CACHE]}
    assert told_caches("warm", {}) == {"cache_emptied": [], "cache_not_emptied": []}


def test_a_cache_that_the_level_places_itself_is_not_told_as_emptied():
    told = told_caches("cold", {"TRITON_CACHE_DIR": "elsewhere", "VLLM_USE_AOT_COMPILE": "0"})
    assert "Triton kernels" not in told["cache_emptied"]
    assert len(told["cache_emptied"]) == len(NAMES) - 1
    assert told["cache_not_emptied"] == ["Triton kernels (the level sets TRITON_CACHE_DIR)", PAGE_CACHE]


@pytest.mark.parametrize("flag", ["-cc.cache_dir=/k", "--compilation-config.cache_dir=/k", '{"cache_dir": "/k"}'])
def test_a_folder_that_a_flag_gives_torch_compile_is_not_told_as_emptied(flag):
    # vllm/compilation/backends.py: a given cache_dir goes before VLLM_CACHE_ROOT.
    told = told_caches("cold", {}, ["--max-model-len", "4096", flag])
    assert CACHES["VLLM_CACHE_ROOT"] not in told["cache_emptied"]
    assert told["cache_not_emptied"][0].endswith("model information (a flag sets cache_dir)")


@pytest.mark.parametrize("name", ["VLLM_CACHE_ROOT", "VLLM_FLASHINFER_AUTOTUNE_CACHE_DIR"])
def test_the_installed_vllm_reads_them(name):
    spec = find_spec("vllm")
    if spec is None or spec.origin is None:
        pytest.skip("no vLLM here")
    assert f'"{name}"' in (Path(spec.origin).parent / "envs.py").read_text()


@pytest.mark.usefixtures("made_canary", "fake_vllm")
def test_a_cold_session_starts_each_server_on_caches_of_its_own(small_study, monkeypatch):
    monkeypatch.setenv("DG_JIT_CACHE_DIR", "where-the-user-keeps-it")
    values = {**small_study, "cache": "cold", "measure": "start"}
    assert run_session(make_parameters(values), ROOT, RunOptions()) == 0
    launches = Store(Path(values["data_dir"]), values["study"]).read().launches
    assert {launch.outcome.status for launch in launches} == {"ok"}
    assert {launch.cache for launch in launches} == {"cold"}
    roots = {launch.environment["DG_JIT_CACHE_DIR"] for launch in launches}
    assert len(roots) == len(launches) == 2
    assert "where-the-user-keeps-it" not in roots
    assert all(launch.cache_emptied == NAMES for launch in launches)
