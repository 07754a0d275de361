"""What the log of one start says, as frozen records.

Seconds and GiB stand as printed. A figure that the text does not give is None, and `missing` says why; it is never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Literal

Status = Literal["ready", "failed", "incomplete"]
CompileKind = Literal["compile_only", "compile_plus_profiling"]
CacheState = Literal["warm", "cold"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """The figures of one start.

    With several ranks, seconds are the slowest rank's; sizes are one GPU's and never a sum: the largest rank's, but the
    smallest rank's for the KV cache, which bounds the engine's cache.

    Attributes:
        load_weights_s: reading the weights.
        model_load_gib: GPU memory of the loaded model; `GB` of vLLM before 0.8 is GiB.
        model_load_s: loading the model, weights included.
        dynamo_s: tracing by Dynamo, all compiled parts together.
        compile_range_s: compiling graphs, all parts and ranges together; loading from a cache does not count.
        torch_compile_s: vLLM's own total. `takes` (old) is cumulative, the last one counts; `took` (new) is one part's,
            they add.
        torch_compile_kind: whether that total holds the initial profiling run too.
        profiling_run_s: the initial profiling or warm-up run.
        memory_profiling_s: memory profiling where vLLM prints a duration (0.6, 0.7).
        kv_cache_gib: memory for the KV cache.
        kv_cache_tokens: tokens of the KV cache; blocks are not tokens.
        max_concurrency_tokens: request length of the concurrency line.
        max_concurrency_x: how many such requests fit.
        cudagraph_estimated_gib: the estimate before the KV cache was sized; can be negative.
        graph_capture_s: the capture that serves requests, not one that memory profiling throws away.
        graph_capture_gib: memory of that capture; can be negative.
        graph_pool_actual_gib: memory of the graph pool.
        graph_pool_estimated_gib: the estimate beside it.
        init_engine_s: the engine's initialisation; weights, imports and process start are not in it.
        init_engine_compile_s: the compilation that this line names; may differ from `torch_compile_s`.

    """

    load_weights_s: float | None = None
    model_load_gib: float | None = None
    model_load_s: float | None = None
    dynamo_s: float | None = None
    compile_range_s: float | None = None
    torch_compile_s: float | None = None
    torch_compile_kind: CompileKind | None = None
    profiling_run_s: float | None = None
    memory_profiling_s: float | None = None
    kv_cache_gib: float | None = None
    kv_cache_tokens: int | None = None
    max_concurrency_tokens: int | None = None
    max_concurrency_x: float | None = None
    cudagraph_estimated_gib: float | None = None
    graph_capture_s: float | None = None
    graph_capture_gib: float | None = None
    graph_pool_actual_gib: float | None = None
    graph_pool_estimated_gib: float | None = None
    init_engine_s: float | None = None
    init_engine_compile_s: float | None = None


FIGURE_KEYS: tuple[str, ...] = tuple(item.name for item in fields(Figures))


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFigures:
    """Figures that one process printed itself."""

    process: str
    rank: str
    pid: int | None
    node: str
    load_weights_s: float | None = None
    model_load_gib: float | None = None
    model_load_s: float | None = None
    dynamo_s: float | None = None
    torch_compile_s: float | None = None
    graph_capture_s: float | None = None
    graph_capture_gib: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CudagraphModeChange:
    """A line that says vLLM serves with another CUDA-graph mode than asked; `asked` is None where the line lacks it."""

    asked: str | None
    effective: str
    line: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Startup(Figures):
    """One start: its figures, how it ended, and what must be known to read them.

    Attributes:
        status: `ready` (the start-up-complete line was seen), `failed` (a start failure was seen), else `incomplete`.
        status_reason: `cause: message` of a failure; why nothing is known of an incomplete start; else None.
        service: compose service, unit, pod or file that the lines came from, where given.
        vllm_version: as the engine printed it.
        compile_cache: `warm` when compiled code was loaded, `cold` when it was made, None without evidence.
        compile_load_s: loading compiled graphs from the cache.
        eager: True when a line says so, False when the engine's configuration says so, else None.
        cudagraph_mode: the effective mode, after the last change; None where nothing names it.
        cudagraph_mode_changes: the downgrade lines.
        discarded_capture_s: the capture of the V2 runner's memory profiling, thrown away afterwards.
        discarded_capture_gib: its memory.
        jit_warmup_s: the JIT kernel warm-up where vLLM prints a duration.
        kv_cache_blocks: blocks of the KV cache, where an old version prints these.
        compile_span_s: seconds between the stamps around the compilation, to hold against `torch_compile_s`.
        ranks_seen: processes that printed figures of their own.
        per_rank: those figures, when there is more than one process.
        per_rank_complete: False when Ray folded lines or rank numbers are missing; None without such figures.
        events: every reading of a figure that more than one line gave, in order, seconds and sizes apart.
        missing: the reason for each figure that is None.
        warnings: what a reader of the figures must know.

    """

    status: Status = "incomplete"
    status_reason: str | None = None
    service: str | None = None
    vllm_version: str | None = None
    compile_cache: CacheState | None = None
    compile_load_s: float | None = None
    eager: bool | None = None
    cudagraph_mode: str | None = None
    cudagraph_mode_changes: tuple[CudagraphModeChange, ...] = ()
    discarded_capture_s: float | None = None
    discarded_capture_gib: float | None = None
    jit_warmup_s: float | None = None
    kv_cache_blocks: int | None = None
    compile_span_s: float | None = None
    ranks_seen: int = 0
    per_rank: tuple[RankFigures, ...] = ()
    per_rank_complete: bool | None = None
    events: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    missing: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
