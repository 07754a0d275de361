"""From one start's readings to its figures: ranks, parts of a compilation, eras of wording."""

from collections.abc import Callable, Iterable

from study.analyze.startup_captures import Captures, by_process, sort_captures
from study.analyze.startup_clock import seconds_between
from study.analyze.startup_patterns import Kind
from study.analyze.startup_record import CacheState, CompileKind, CudagraphModeChange, Figures, RankFigures
from study.analyze.startup_starts import Event, StartLog

_OVERLAP_S = 1.0
_SEPARATE_S = 2.0
_TOTALS = (Kind.COMPILE_TOTAL, Kind.COMPILE_AND_PROFILING)
_OF_RANKS = (Kind.LOAD_WEIGHTS, Kind.MODEL_LOAD, Kind.DYNAMO, *_TOTALS, Kind.COMPILE_TOTAL_OLD, Kind.CAPTURE)
_EVENTS_OF = {
    "load_weights_s": (Kind.LOAD_WEIGHTS,),
    "model_load_s": (Kind.MODEL_LOAD,),
    "dynamo_s": (Kind.DYNAMO,),
    "compile_range_s": (Kind.COMPILE_RANGE,),
    "torch_compile_s": (*_TOTALS, Kind.COMPILE_TOTAL_OLD),
    "profiling_run_s": (Kind.PROFILING_RUN,),
    "init_engine_s": (Kind.INIT_ENGINE,),
}

Seconds = Callable[[Event], float | None]


def read_figures(log: StartLog) -> Figures:
    """Return the figures of one start, as `Figures` describes them."""
    captures = sort_captures(log)
    concurrency = min(log.events.get(Kind.CONCURRENCY, []), key=lambda event: event.reading.ratio or 0.0, default=None)
    return Figures(
        load_weights_s=_slowest(log, Kind.LOAD_WEIGHTS),
        model_load_gib=_largest(log.events.get(Kind.MODEL_LOAD, [])),
        model_load_s=_slowest(log, Kind.MODEL_LOAD),
        dynamo_s=_slowest(log, Kind.DYNAMO),
        compile_range_s=_slowest(log, Kind.COMPILE_RANGE),
        torch_compile_s=_compile_total(log),
        torch_compile_kind=_compile_kind(log),
        profiling_run_s=_slowest(log, Kind.PROFILING_RUN),
        memory_profiling_s=_max(event.reading.seconds for event in log.events.get(Kind.MEMORY_PROFILING, [])),
        kv_cache_gib=kv_cache_gib(log),
        kv_cache_tokens=_fewest(log, Kind.KV_TOKENS),
        max_concurrency_tokens=concurrency.reading.count if concurrency else None,
        max_concurrency_x=concurrency.reading.ratio if concurrency else None,
        cudagraph_estimated_gib=_largest(log.events.get(Kind.GRAPH_ESTIMATE, [])),
        graph_capture_s=slowest_of(captures.real),
        graph_capture_gib=_largest(captures.real),
        graph_pool_actual_gib=_largest(log.events.get(Kind.GRAPH_POOL, [])),
        graph_pool_estimated_gib=_max(event.reading.more_gib for event in log.events.get(Kind.GRAPH_POOL, [])),
        init_engine_s=_max(event.reading.seconds for event in log.events.get(Kind.INIT_ENGINE, [])),
        init_engine_compile_s=_max(event.reading.more_seconds for event in log.events.get(Kind.INIT_ENGINE, [])),
    )


def slowest_of(events: Iterable[Event]) -> float | None:
    """Return the seconds of the slowest process, each process's parts together; None for no event."""
    return _max(_added(group) for group in by_process(events).values())


def discarded_figures(captures: Captures) -> tuple[float | None, float | None]:
    """Return seconds and GiB of the discarded capture."""
    return slowest_of(captures.discarded), _largest(captures.discarded)


def kv_cache_gib(log: StartLog) -> float | None:
    """Return the smallest rank's memory for the KV cache in GiB, with its sign."""
    events = log.events.get(Kind.KV_MEMORY) or log.events.get(Kind.KV_MEMORY_IN_USE, [])
    return min((event.reading.gib for event in events if event.reading.gib is not None), default=None)


def cache_state(log: StartLog) -> CacheState | None:
    """Return `warm` when compiled code came from a cache, `cold` when it was made, None without clear evidence.

    Old versions print a compile line after a look-up too. `saved AOT` alone proves nothing: a warm CPU start has it.
    """
    if log.has(Kind.COMPILE_LOOKUP):
        return "warm"
    if log.has(Kind.COMPILE_RANGE):
        return "cold"
    if log.has(Kind.COMPILE_LOAD):
        return "warm"
    if log.has(Kind.COMPILE_SAVE) and log.has(Kind.DYNAMO, *_TOTALS):
        return "cold"
    return None


def compile_span_s(log: StartLog) -> float | None:
    """Return the seconds between the stamps around the compilation: its first line, less Dynamo's time, and its total.

    In some versions the printed total is far shorter than this.
    """
    totals = (event for kind in (*_TOTALS, Kind.COMPILE_TOTAL_OLD) for event in log.events.get(kind, []))
    ends = [event.stamp for event in totals if event.stamp is not None]
    begins = [
        (event.stamp - (event.reading.seconds or 0.0 if kind is Kind.DYNAMO else 0.0))
        for kind in (Kind.COMPILE_BEGIN, Kind.DYNAMO, Kind.COMPILE_RANGE)
        for event in log.events.get(kind, [])
        if event.stamp is not None
    ]
    if not begins or not ends:
        return None
    return round(max(max(seconds_between(begin, end) for begin in begins for end in ends), 0.0), 3)


def mode_changes(log: StartLog) -> tuple[CudagraphModeChange, ...]:
    """Return the lines that change the CUDA-graph mode, each once, in log order."""
    changes: dict[CudagraphModeChange, None] = {}
    for event in log.events.get(Kind.MODE_CHANGE, []):
        effective = event.reading.note.strip(".").rpartition(".")[2]
        words = event.text.replace("CUDAGraphMode.", " ").replace(";", " ").split()
        asked = next((word for word in words if word.isupper() and word.startswith(("FULL", "PIECEWISE"))), None)
        asked = None if asked == effective else asked
        changes[CudagraphModeChange(asked=asked, effective=effective, line=event.text)] = None
    return tuple(changes)


def rank_figures(log: StartLog) -> tuple[RankFigures, ...]:
    """Return what each process printed itself, in order of first appearance."""
    captures = by_process(sort_captures(log).real)
    by_kind = {kind: by_process(log.events.get(kind, [])) for kind in _OF_RANKS}
    keys = dict.fromkeys(key for kind in _OF_RANKS for key in by_kind[kind])
    ranks = []
    for process, rank, pid, node in keys:
        key = (process, rank, pid, node)
        totals = [event for kind in _TOTALS for event in by_kind[kind].get(key, [])]
        cumulative = _max(event.reading.seconds for event in by_kind[Kind.COMPILE_TOTAL_OLD].get(key, []))
        ranks.append(
            RankFigures(
                process=process,
                rank=rank,
                pid=pid,
                node=node,
                load_weights_s=_added(by_kind[Kind.LOAD_WEIGHTS].get(key, [])),
                model_load_gib=_largest(by_kind[Kind.MODEL_LOAD].get(key, [])),
                model_load_s=_added(by_kind[Kind.MODEL_LOAD].get(key, [])),
                dynamo_s=_added(by_kind[Kind.DYNAMO].get(key, [])),
                torch_compile_s=_added(totals) if totals else cumulative,
                graph_capture_s=_added(captures.get(key, [])),
                graph_capture_gib=_largest(captures.get(key, [])),
            )
        )
    return tuple(ranks)


def list_events(log: StartLog) -> dict[str, tuple[float, ...]]:
    """Return every reading of the figures that more than one line gave, and of captures one size at a time."""
    lists: dict[str, tuple[float, ...]] = {}
    for name, kinds in _EVENTS_OF.items():
        events = sorted((e for kind in kinds for e in log.events.get(kind, [])), key=lambda event: event.order)
        values = tuple(event.reading.seconds for event in events if event.reading.seconds is not None)
        if len(values) > 1:
            lists[name] = values
    real = sort_captures(log).real
    sized = log.events.get(Kind.CAPTURE_OF_SIZE, [])
    captured = tuple(e.reading.seconds for e in real or sized if e.reading.seconds is not None)
    if len(captured) > 1 or (sized and not real):
        lists["graph_capture_s"] = captured
    if sized and not real:
        mib = (round(event.reading.gib * 1024.0, 6) for event in sized if event.reading.gib is not None)
        lists["graph_capture_mib"] = tuple(mib)
    return lists


def _slowest(log: StartLog, kind: Kind) -> float | None:
    return slowest_of(log.events.get(kind, []))


def _compile_total(log: StartLog) -> float | None:
    parts = [event for kind in _TOTALS for event in log.events.get(kind, [])]
    cumulative = _max(event.reading.seconds for event in log.events.get(Kind.COMPILE_TOTAL_OLD, []))
    return slowest_of(parts) if parts else cumulative


def _compile_kind(log: StartLog) -> CompileKind | None:
    if log.has(Kind.COMPILE_AND_PROFILING):
        return "compile_plus_profiling"
    return "compile_only" if log.has(Kind.COMPILE_TOTAL, Kind.COMPILE_TOTAL_OLD) else None


def _added(events: list[Event]) -> float | None:
    """Return the seconds that one process spent on a kind of work, its parts one after the other.

    A line without a process id may be another rank's: then only readings that lie clearly apart in time are added, and
    of those that overlap the longest counts. The same line twice (two log handlers) counts once.
    """
    timed = [event for event in events if event.reading.seconds is not None]
    unique = list({(event.reading.seconds, event.stamp, event.text): event for event in timed}.values())
    if not unique:
        return None
    if unique[0].key[2] is not None:
        return round(sum(event.reading.seconds or 0.0 for event in unique), 6)
    total, longest, end = 0.0, 0.0, None
    for event in unique:
        seconds = event.reading.seconds or 0.0
        if end is not None and _follows(event, end):
            total, longest = total + longest, 0.0
        longest, end = max(longest, seconds), event.stamp if event.stamp is not None else end
    return round(total + longest, 6)


def _follows(event: Event, end: float) -> bool:
    if event.stamp is None:
        return False
    gap_s = seconds_between(end, event.stamp)
    return gap_s >= _SEPARATE_S and gap_s - (event.reading.seconds or 0.0) >= -_OVERLAP_S


def _largest(events: Iterable[Event]) -> float | None:
    return _max(event.reading.gib for event in events)


def _fewest(log: StartLog, kind: Kind) -> int | None:
    counts = (event.reading.count for event in log.events.get(kind, []))
    return min((count for count in counts if count is not None), default=None)


def _max(values: Iterable[float | None]) -> float | None:
    return max((value for value in values if value is not None), default=None)
