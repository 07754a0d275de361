"""What a resolved configuration switches on: one row of it, and which configurations are the same thing.

The same code reads a launch's record and a resolved set: both hold what `/server_info?config_format=json` gives.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study.analyze.evidence import resolved_value
from study.analyze.load_window import Missing
from study.design.resolved_set import ResolvedLevel, ResolvedSet

IGNORED_WHEN_ALIKE: Mapping[str, str] = {
    "instance_id": "drawn at each start",
    "optimization_level": "the level's name; what it changes stands in the other fields",
    "cache_config.num_gpu_blocks": "outcome of memory profiling, recorded as KV cache blocks",
    "cache_config.num_cpu_blocks": "likewise",
    "cache_config.kv_cache_size_tokens": "likewise",
    "cache_config.kv_cache_max_concurrency": "likewise",
    "compilation_config.compilation_time": "a measured time",
    "compilation_config.encoder_compilation_time": "a measured time",
    "compilation_config.cache_dir": "where files lie",
    "compilation_config.local_cache_dir": "where files lie",
    "compilation_config.debug_dump_path": "where files lie",
    "parallel_config.data_parallel_master_port": "a free port, found at each start",
    "parallel_config.data_parallel_rpc_port": "a port",
    "parallel_config._data_parallel_master_port_list": "free ports, found at each start",
    "parallel_config._coord_store_port": "a free port, found at each start",
    "parallel_config.master_port": "a port",
}
"""Fields of the resolved configuration (dotted path) that may differ between levels that resolved alike, and why."""

MODES = {0: "NONE", 1: "STOCK_TORCH_COMPILE", 2: "DYNAMO_TRACE_ONCE", 3: "VLLM_COMPILE"}
CUDAGRAPH_MODES = {
    **{"0": "NONE", "1": "PIECEWISE", "2": "FULL"},
    **{"[2, 0]": "FULL_DECODE_ONLY", "[2, 1]": "FULL_AND_PIECEWISE"},
}
"""Names of vLLM 0.31.0's enumerations, which `/server_info` gives as numbers (vllm/config/compilation.py)."""

ABSENT = "(no such field)"
"""Stands for the value of a field that a configuration does not have, which is not null."""
MODE = "compilation_config.mode"
GRAPHS = "compilation_config.cudagraph_mode"
PASSES = "compilation_config.pass_config"
SWITCHES: Mapping[str, str] = {
    "optimization_level": "optimization_level",
    "mode": MODE,
    "cudagraph_mode": GRAPHS,
    "backend": "compilation_config.backend",
    "enforce_eager": "model_config.enforce_eager",
    "flashinfer_autotune": "kernel_config.enable_flashinfer_autotune",
    "jit_warmup": "kernel_config.enable_jit_warmup",
    "capture_sizes": "compilation_config.cudagraph_capture_sizes",
    "largest_capture_size": "compilation_config.cudagraph_capture_sizes",
    "fusions": PASSES,
    "custom_ops": "compilation_config.custom_ops",
}
"""Column of a level's row, and the field of the resolved configuration that it shows."""


@dataclass(frozen=True)
class ChangedRequest:
    """A request that did not stay what it was.

    Attributes:
        path: the field, dotted.
        asked: its value in the request, named.
        became: what vLLM made of it, named.
        where: `configuration` (certain) or `worker` (expected; only a running worker tells).
        why: for a worker, its attention backend and what that supports.

    """

    path: str
    asked: str
    became: str
    where: str = "configuration"
    why: str = ""


def switches_row(resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of `SWITCHES` for one resolved configuration; a field that it does not have is None."""
    sizes = value_at(resolved, SWITCHES["capture_sizes"])
    custom_ops = value_at(resolved, SWITCHES["custom_ops"])
    plain = ("optimization_level", "backend", "enforce_eager", "flashinfer_autotune", "jit_warmup")
    return {
        **{column: value_at(resolved, SWITCHES[column]) for column in plain},
        "mode": name_value(MODE, value_at(resolved, MODE)),
        "cudagraph_mode": name_value(GRAPHS, value_at(resolved, GRAPHS)),
        "capture_sizes": None if sizes is None else len(sizes),
        "largest_capture_size": max(sizes, default=None) if sizes else None,
        "fusions": _fusions(resolved),
        "custom_ops": None if custom_ops is None else " ".join(custom_ops),
    }


def _fusions(resolved: Mapping[str, Any]) -> str | None:
    """Return the fusions that are on, or `none`; they do nothing where vLLM's own compile does not run."""
    passes = value_at(resolved, PASSES)
    if not isinstance(passes, Mapping):
        return None
    on = sorted(name for name, value in passes.items() if value is True and name.startswith(("fuse_", "enable_")))
    # vllm/config/vllm.py warns that these are ignored otherwise.
    runs = name_value(MODE, value_at(resolved, MODE)) == "VLLM_COMPILE"
    inductor = value_at(resolved, SWITCHES["backend"]) == "inductor"
    return ("; ".join(on) or "none") + (" (set, without effect)" if on and not (runs and inductor) else "")


def value_at(resolved: Mapping[str, Any] | None, path: str) -> Any:  # noqa: ANN401 (JSON)
    """Return the value under a dotted path, None where there is none."""
    value = resolved_value(resolved, path)
    return None if isinstance(value, Missing) else value


def name_value(path: str, value: Any) -> str | None:  # noqa: ANN401 (JSON)
    """Return an enumeration's name for the value of a field; a value that has no name here stays as it is."""
    if value is None or isinstance(value, str):
        return value
    if path == MODE and isinstance(value, int) and not isinstance(value, bool):
        return MODES.get(value, str(value))
    return CUDAGRAPH_MODES.get(str(value), str(value)) if path == GRAPHS else json.dumps(value)


def comparable_text(resolved: Mapping[str, Any] | None) -> str:
    """Return the configuration without what may differ between levels that resolved alike, as canonical JSON."""
    return json.dumps(_without_ignored(resolved or {}, ""), sort_keys=True)


_ABOVE_OTHERS = frozenset(
    ".".join(path.split(".")[:depth])
    for path in (*IGNORED_WHEN_ALIKE, f"{PASSES}.any")
    for depth in range(path.count(".") + 1)
)
"""Paths above those that are ignored or read in another way; what lies elsewhere stays as it is."""


def _without_ignored(value: Any, path: str) -> Any:  # noqa: ANN401 (JSON)
    in_passes = path.startswith(f"{PASSES}.")
    if not isinstance(value, Mapping):
        # A rule of vLLM's that asks for ROCm's library leaves null for off (-O2 and -O1 on an NVIDIA card differ so).
        return False if value is None and in_passes else value
    if path not in _ABOVE_OTHERS and not in_passes:
        return value
    kept = {name: f"{path}.{name}" if path else name for name in value}
    return {
        name: _without_ignored(value[name], at) if in_passes or at in _ABOVE_OTHERS or path == PASSES else value[name]
        for name, at in kept.items()
        if at not in IGNORED_WHEN_ALIKE
    }


def differing_fields(ours: Mapping[str, Any] | None, theirs: Mapping[str, Any] | None) -> dict[str, tuple[Any, Any]]:
    """Return dotted path to (ours, theirs) for every field that differs, but for `IGNORED_WHEN_ALIKE`.

    A field that one side does not have is `ABSENT` there; a mapping that only one side has is given whole.
    """
    found: dict[str, tuple[Any, Any]] = {}
    _compare(ours or {}, theirs or {}, "", found)
    return found


def _compare(ours: Any, theirs: Any, path: str, found: dict[str, tuple[Any, Any]]) -> None:  # noqa: ANN401 (JSON)
    if path in IGNORED_WHEN_ALIKE:
        return
    if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
        for name in sorted({*ours, *theirs}):
            here = f"{path}.{name}" if path else name
            _compare(ours.get(name, ABSENT), theirs.get(name, ABSENT), here, found)
    elif json.dumps(_without_ignored(ours, path), sort_keys=True) != json.dumps(
        _without_ignored(theirs, path), sort_keys=True
    ):
        found[path] = (ours, theirs)


def group_alike(levels: Iterable[ResolvedLevel]) -> tuple[tuple[ResolvedLevel, ...], ...]:
    """Return the levels in groups that are the same thing, in the order in which each group's first stands.

    Levels are the same where both their configurations and their environments are; a level that vLLM refuses is alone.
    """
    groups: dict[str, list[ResolvedLevel]] = {}
    for level in levels:
        environment = json.dumps(level.environment, sort_keys=True)
        key = f"refused: {level.name}" if level.resolved is None else comparable_text(level.resolved) + environment
        groups.setdefault(key, []).append(level)
    return tuple(tuple(group) for group in groups.values())


def changed_requests(level: ResolvedLevel) -> tuple[ChangedRequest, ...]:
    """Return the requests of a level that vLLM changed, and those that a worker is expected to change."""
    if level.resolved is None:
        return ()
    found = []
    for path, asked in level.requested.items():
        became = value_at(level.resolved, path)
        if became != asked:
            found.append(ChangedRequest(path, str(name_value(path, asked)), str(name_value(path, became))))
    graphs, worker = value_at(level.resolved, GRAPHS), level.at_worker
    if worker is not None and worker.backend is not None and worker.cudagraph_mode != graphs:
        now, then = str(name_value(GRAPHS, graphs)), str(name_value(GRAPHS, worker.cudagraph_mode))
        found.append(ChangedRequest(GRAPHS, now, then, "worker", f"{worker.backend} supports {worker.graph_support}"))
    return tuple(found)


def find_lookalikes(resolved: ResolvedSet) -> dict[tuple[str, str], tuple[str, ...]]:
    """Return pairs of levels that show the same switches and are not the same thing, with the fields that differ.

    Each level is set beside the first that shows the same; fields are dotted paths, or variables of the environment.
    """
    seen: dict[str, ResolvedLevel] = {}
    found: dict[tuple[str, str], tuple[str, ...]] = {}
    for level in (group[0] for group in group_alike(resolved.levels)):
        if level.resolved is None:
            continue
        row = {name: value for name, value in switches_row(level.resolved).items() if name != "optimization_level"}
        first = seen.setdefault(json.dumps(row), level)
        if first is not level:
            differ = {*level.environment.items()} ^ {*first.environment.items()}
            fields = (*differing_fields(first.resolved, level.resolved), *sorted({name for name, _ in differ}))
            found[first.name, level.name] = fields
    return found


def shared_lines(resolved: ResolvedSet) -> tuple[str, ...]:
    """Return the lines that vLLM logs at every level of a set: they tell of the platform, not of a level."""
    told: Sequence[ResolvedLevel] = [level for level in resolved.levels if level.resolved is not None]
    if len(told) < 2:
        return ()
    return tuple(line for line in told[0].changed if all(line in level.changed for level in told[1:]))
