"""Startup logs of vLLM 0.6 to 0.33, as found in the wild, to typed results.

    read_startup(open("server.log"))  ->  (Startup(status="ready", init_engine_s=159.39, ...),)

The text is read as a stream in bounded memory: most lines of a long-running server's log fail a substring test and cost
nothing more. Several starts or services in one text give several results, and no figure of one enters another.
"""

import dataclasses
from collections.abc import Iterable, Iterator, Mapping

from study.analyze.startup_captures import sort_captures
from study.analyze.startup_failures import NO_KV_MEMORY, name_cause
from study.analyze.startup_figures import (
    cache_state,
    compile_span_s,
    discarded_figures,
    kv_cache_gib,
    list_events,
    mode_changes,
    rank_figures,
    read_figures,
    slowest_of,
)
from study.analyze.startup_lines import Line, iter_raw, parse_line
from study.analyze.startup_patterns import Kind, Reading, may_matter
from study.analyze.startup_reasons import complete_ranks, find_warnings, give_reasons
from study.analyze.startup_record import FIGURE_KEYS, Startup, Status
from study.analyze.startup_starts import StartLog, StartSorter
from study.analyze.startup_wraps import WrapReader


def read_startup(text_or_lines: str | Iterable[str]) -> tuple[Startup, ...]:
    """Read every start that a server log tells of.

    Args:
        text_or_lines: the log as one text, an open text file (read in blocks), or any iterable of lines. Open files
            with `errors="replace"`: logs hold broken bytes. A line over `startup_lines.MAX_LINE_CHARS` characters is
            read in pieces.

    Returns:
        The starts in the order of their first line; for a text without any, one `incomplete` record without figures.

    """
    sorter = StartSorter()
    for line, readings in _iter_messages(text_or_lines):
        for reading in readings:
            sorter.add(reading, line)
    starts = _drop_strays(sorter.logs) or [StartLog("")]
    note = () if len(starts) == 1 else (f"{len(starts)} starts in one text; their figures are kept apart",)
    return tuple(_build(log, note) for log in starts)


def startup_json(text: str | Iterable[str]) -> object:
    """Return JSON-ready results: an object for one start, a list for several. Figures not in the text are null.

    The keys are those of `Figures` and of `Startup`; arguments as for `read_startup`.
    """
    results = [_as_json(start) for start in read_startup(text)]
    return results[0] if len(results) == 1 else results


def _iter_messages(text_or_lines: str | Iterable[str]) -> Iterator[tuple[Line, list[Reading]]]:
    reader = WrapReader()
    for raw in iter_raw(text_or_lines):
        if reader.waits or may_matter(raw):
            for line in parse_line(raw):
                yield from reader.read(line)
    yield from reader.flush()


def _drop_strays(logs: list[StartLog]) -> list[StartLog]:
    """Drop what is no start: another program's lines, a bare command, weights that a running engine loads again."""
    of_vllm = [log for log in logs if log.of_vllm]
    kept: list[StartLog] = []
    last_of: dict[str, StartLog] = {}
    for log in of_vllm:
        before = last_of.get(log.service)
        only_weights = set(log.counts) <= {Kind.LOAD_BEGIN, Kind.LOAD_WEIGHTS}
        if before is not None and only_weights and all(key[2] is not None and key in before.seen for key in log.seen):
            continue
        last_of[log.service] = log
        kept.append(log)
    return kept or logs[:1]


def _build(log: StartLog, notes: tuple[str, ...]) -> Startup:
    figures = read_figures(log)
    status, reason = _status_of(log)
    captures = sort_captures(log)
    discarded_s, discarded_gib = discarded_figures(captures)
    changes = mode_changes(log)
    eager = True if log.has(Kind.EAGER) else log.configured_eager
    ranks = rank_figures(log)
    blocks = [event.reading.count for event in log.events.get(Kind.KV_BLOCKS, []) if event.reading.count is not None]
    span_s = compile_span_s(log)
    mode = "NONE" if eager else log.graph_mode
    return Startup(
        **{key: getattr(figures, key) for key in FIGURE_KEYS},
        status=status,
        status_reason=reason,
        service=log.service or None,
        vllm_version=log.version,
        compile_cache=cache_state(log),
        compile_load_s=slowest_of(log.events.get(Kind.COMPILE_LOAD, [])),
        eager=eager,
        cudagraph_mode=changes[-1].effective if changes else mode,
        cudagraph_mode_changes=changes,
        discarded_capture_s=discarded_s,
        discarded_capture_gib=discarded_gib,
        jit_warmup_s=slowest_of(log.events.get(Kind.JIT_WARMUP, [])),
        kv_cache_blocks=min(blocks, default=None),
        compile_span_s=span_s,
        ranks_seen=len(ranks),
        per_rank=ranks if len(ranks) > 1 else (),
        per_rank_complete=complete_ranks(log, ranks),
        events=list_events(log),
        missing=give_reasons(log, figures, status=status, eager=eager is True),
        warnings=(*notes, *find_warnings(figures, (discarded_gib,), span_s, folded=log.folded)),
    )


def _status_of(log: StartLog) -> tuple[Status, str | None]:
    memory_gib = kv_cache_gib(log)
    went_on = log.ready or log.has(Kind.KV_TOKENS, Kind.INIT_ENGINE)
    if memory_gib is not None and memory_gib <= 0 and not went_on:
        return "failed", f"{NO_KV_MEMORY}: {memory_gib:g} GiB are left for the KV cache"
    if log.failures:
        return "failed", name_cause([*log.failures, *log.likely_failures])
    if log.ready:
        return "ready", None
    if log.likely_failures:
        return "failed", name_cause(log.likely_failures)
    return "incomplete", None if log.counts else "no line of a vLLM start in this text"


def _as_json(start: Startup) -> dict[str, object]:
    return {item.name: _plain(getattr(start, item.name)) for item in dataclasses.fields(start)}


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: _plain(getattr(value, item.name)) for item in dataclasses.fields(value)}
    return value
