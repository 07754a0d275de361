"""The process that imports vLLM and asks its configuration code what each level becomes: no server, no GPU.

    python -m study.measure.resolve_child REQUEST ANSWER    (two JSON files; the parent is `resolve.py` or `flags.py`)

    card pretended -> vLLM imported, once -> for each level a fork: flags -> EngineArgs -> VllmConfig -> JSON

A fork for each level keeps levels apart: vLLM's configuration code sets environment variables, and says some lines only
once a process.
"""

import contextlib
import importlib
import json
import multiprocessing
import sys
import types
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from study.design.card import Card
from study.measure.flags_child import find_problem
from study.measure.processes import die_with_owner
from study.measure.resolve_levels import REFUSALS, differing_paths, make_parser, resolve_level
from study.measure.resolve_worker import expect_at_worker, pretend_flash_attention

FORK_DEADLINE_S = 180.0
"""The first time on a machine, vLLM imports the model in yet another process, to look at it."""
FUSION_OF_FLASHINFER = "vllm.compilation.passes.fusion.allreduce_rms_fusion"
"""Module that the configuration code asks for the sizes of a fusion; its import needs compiled operators."""
NEEDS_FLASHINFER = "depends on FlashInfer, which the worker's machine has or has not"

COMPILED_OPS = "vllm._C_stable_libtorch"
"""vLLM's compiled CUDA operators; its CUDA platform imports them, its configuration code calls none of them."""


def pretend_gpu(card: Card) -> bool:
    """Let vLLM's configuration code in this process believe that it runs on `card`, a CUDA card without NVML.

    To be called before anything of vLLM but `vllm.platforms` was imported, in a process that does nothing else. Seen to
    resolve as a real H200 did, field for field (vLLM 0.31.0).

    Returns:
        Whether the compiled CUDA operators had to be left out, as in vLLM's CPU build.

    """
    import vllm.platforms as platforms

    left_out = _leave_out_compiled_ops()
    before = platforms._current_platform
    platform = _pretended_platform(card)()
    platforms._current_platform = platform
    importlib.import_module("vllm.triton_utils")
    for name, module in list(sys.modules.items()):
        if not name.startswith("vllm"):
            continue
        # A module that was imported earlier may hold what it saw then.
        known = vars(module)
        if before is not None and known.get("current_platform") is before:
            module.__dict__["current_platform"] = platform
        if known.get("HAS_TRITON") is False:
            module.__dict__["HAS_TRITON"] = True
    return left_out


def _leave_out_compiled_ops() -> bool:
    try:
        importlib.import_module(COMPILED_OPS)
    except ImportError:
        sys.modules[COMPILED_OPS] = types.ModuleType(COMPILED_OPS)
        return True
    return False


def _pretended_platform(card: Card) -> Any:  # noqa: ANN401 (a class of vLLM)
    from vllm.platforms.cuda import NonNvmlCudaPlatform
    from vllm.platforms.interface import DeviceCapability

    class PretendedPlatform(NonNvmlCudaPlatform):  # type: ignore[misc]
        @classmethod
        def get_device_capability(cls, device_id: int = 0) -> Any:  # noqa: ANN401, ARG003
            return DeviceCapability(*card.capability)

        @classmethod
        def get_device_name(cls, device_id: int = 0) -> str:  # noqa: ARG003
            return card.name

        @classmethod
        def get_device_total_memory(cls, device_id: int = 0) -> int:  # noqa: ARG003
            return card.memory_bytes

        @classmethod
        def device_count(cls) -> int:
            return card.tp

        @classmethod
        def is_fully_connected(cls, physical_device_ids: list[int]) -> bool:  # noqa: ARG003
            return True

    return PretendedPlatform


def answer(request: Mapping[str, Any]) -> dict[str, Any]:
    """Answer one request: resolve its levels, or check its flags.

    A flag whose name vLLM does not have is a `problem` in both. A value that it does not take is one where flags are
    checked, and a refusal of its level where levels are resolved.

    Before it makes a model's first configuration on a machine, vLLM imports the model in yet another process and keeps
    what it saw. Keeping it can need compiled operators, so that a pretended card cannot be first: the answer is then
    `unready`, and the parent asks to `inspect` the model without a card.

    Args:
        request: `ask` (resolve, flags or inspect), `card` (or None), `inspected` (whether that was done), `model`,
            `flags` of every server, and `levels`, each with name, flags, llm and environment.

    """
    card = Card.model_validate(request["card"]) if request["card"] else None
    left_out: list[str] = []
    if card:
        left_out = [COMPILED_OPS] if pretend_gpu(card) else []
        left_out += pretend_flash_attention()
    parser = make_parser()
    problem = find_problem(parser, request)
    if problem or request["ask"] == "flags":
        return {"problem": problem}
    if request["ask"] == "inspect" or (card and not request["inspected"]):
        nothing: dict[str, Any] = {"flags": [], "llm": {}, "environment": {}}
        refused = _fork(lambda: {"refusal": resolve_level(parser, request, nothing).get("refusal")})["refusal"]
        if request["ask"] == "inspect" or refused:
            return {"unready": refused}
    import vllm
    from vllm.platforms import current_platform

    device_name = _device_name(current_platform)
    told = {"vllm_version": vllm.__version__, "platform": current_platform.device_type or "unknown"}
    levels = [_resolve_apart(parser, request, level) for level in request["levels"]]
    return told | {"device_name": device_name, "left_out": left_out, "levels": levels}


def _device_name(platform: Any) -> str:  # noqa: ANN401 (a platform of vLLM)
    try:
        return str(platform.get_device_name()) if platform.is_cuda_alike() else ""
    except REFUSALS:
        return ""


def _resolve_apart(parser: Any, request: Mapping[str, Any], level: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Resolve one level in a fork, and once more with FlashInfer there (or gone) where a card is pretended."""

    def as_it_is() -> dict[str, Any]:
        before = set(sys.modules)
        told = resolve_level(parser, request, level)
        config = told.pop("config")
        graphs = config is not None and bool(_graphs_of(told["resolved"]))
        told["at_worker"] = expect_at_worker(config) if graphs else None
        return told | {"imported": sorted(set(sys.modules) - before)}

    told = _fork(as_it_is)
    _import_ahead(told.pop("imported", []))
    if told.get("resolved") is None or not request["card"]:
        return told
    other = _fork(lambda: _with_other_flashinfer(parser, request, level))
    if other.get("resolved") is None:
        return told | {"cannot_tell": {"compilation_config.pass_config": NEEDS_FLASHINFER}}
    differs = [path for path in differing_paths(other["resolved"], told["resolved"]) if path != "instance_id"]
    return told | {"cannot_tell": dict.fromkeys(differs, NEEDS_FLASHINFER)}


def _import_ahead(names: list[str]) -> None:
    """Import what one fork had to import, so that the next ones need not."""
    for name in names:
        # vLLM asks Ray in each configuration whether it runs, and imports it for that in a second.
        if name.startswith("vllm.") or name == "ray":
            with contextlib.suppress(*REFUSALS):
                importlib.import_module(name)


def _graphs_of(resolved: Mapping[str, Any]) -> Any:  # noqa: ANN401 (JSON)
    return resolved.get("compilation_config", {}).get("cudagraph_mode")


def _with_other_flashinfer(parser: Any, request: Mapping[str, Any], level: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Resolve a level as if FlashInfer were there where it is not, and the other way round."""
    flashinfer = importlib.import_module("vllm.utils.flashinfer")
    there = bool(flashinfer.has_flashinfer())
    flashinfer.has_flashinfer = lambda: not there  # type: ignore[attr-defined]
    try:
        importlib.import_module(FUSION_OF_FLASHINFER)
    except (ImportError, AttributeError):
        stub = types.ModuleType(FUSION_OF_FLASHINFER)
        stub.__getattr__ = lambda _name: {}  # type: ignore[method-assign]
        sys.modules[FUSION_OF_FLASHINFER] = stub
    told = resolve_level(parser, request, {**level, "llm": {}})
    del told["config"]
    return told


def _fork(work: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Do `work` in a fork of this process and return its result; a fork that dies or hangs is a refusal."""
    forking = multiprocessing.get_context("fork")
    mine, theirs = forking.Pipe(duplex=False)
    process = forking.Process(target=_send_result, args=(work, theirs))
    process.start()
    theirs.close()
    try:
        if not mine.poll(FORK_DEADLINE_S):
            return {"refusal": f"vLLM's configuration code gave no answer in {FORK_DEADLINE_S:g} s"}
        told: dict[str, Any] = json.loads(mine.recv_bytes())
        return told
    except EOFError:
        process.join()
        return {"refusal": f"vLLM's configuration code ended its process (exit code {process.exitcode})"}
    finally:
        mine.close()
        process.kill()
        process.join()


def _send_result(work: Callable[[], dict[str, Any]], pipe: Connection) -> None:
    pipe.send_bytes(json.dumps(work(), default=str).encode())
    pipe.close()


def main(arguments: list[str]) -> None:
    """Read the request file and write the answer file; what fails ends the process with its trace."""
    request, answer_file = (Path(name) for name in arguments)
    told = answer(json.loads(request.read_text(encoding="utf-8")))
    answer_file.write_text(json.dumps(told), encoding="utf-8")


if __name__ == "__main__":
    die_with_owner()
    main(sys.argv[1:])
