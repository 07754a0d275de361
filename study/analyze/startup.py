"""Startup logs of vLLM 0.6 to 0.33, as found in the wild, to typed results.

    read_startup(open("server.log"))  ->  (Startup(status="ready", init_engine_s=159.39, ...),)

The text is read as a stream in bounded memory: most lines of a long-running server's log fail a substring test and cost
nothing more. Several starts or services in one text give several results, and no figure of one enters another.
"""

import dataclasses
from collections.abc import Iterable, Mapping

from study.analyze.startup_captures import sort_captures
from study.analyze.startup_failures import NO_KV_MEMORY, find_failure, name_cause
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
from study.analyze.startup_patterns import Kind, Reading, find_readings, is_open_ended, may_matter
from study.analyze.startup_reasons import complete_ranks, find_warnings, give_reasons
from study.analyze.startup_record import FIGURE_KEYS, Startup, Status
from study.analyze.startup_starts import StartLog

_MAX_JOINED = 2


def read_startup(text_or_lines: str | Iterable[str]) -> tuple[Startup, ...]:
    """Read every start that a server log tells of.

    Args:
        text_or_lines: the log as one text, an open text file (read in blocks), or any iterable of lines. Open files with
            `errors="replace"`: logs hold broken bytes. A line over `startup_lines.MAX_LINE_CHARS` is read in pieces.

    Returns:
        The starts in the order of their first line; for a text without any, one `incomplete` record without figures.

    """
    logs: list[StartLog] = []
    current: dict[str, StartLog] = {}
    reader = _MessageReader()
    service, order = "", 0
    for raw in iter_raw(text_or_lines):
        if not reader.waits and not may_matter(raw):
            continue
        for line, readings in reader.read(raw):
            service = line.service or service
            for reading in readings:
                order += 1
                log = current.get(service)
                if log is None or log.is_opened_by(reading, line):
                    log = current[service] = StartLog(service)
                    logs.append(log)
                log.add(reading, line, order)
    starts = _drop_strays(logs) or [StartLog("")]
    note = () if len(starts) == 1 else (f"{len(starts)} starts in one text; their figures are kept apart",)
    return tuple(_build(log, note) for log in starts)


def startup_json(text: str | Iterable[str]) -> object:
    """Return JSON-ready results: an object for one start, a list for several. Figures that are not in the text are null.

    The keys are those of `Figures` and of `Startup`; arguments as for `read_startup`.
    """
    results = [_as_json(start) for start in read_startup(text)]
    return results[0] if len(results) == 1 else results


class _MessageReader:
    """Reads raw lines into messages with readings, and joins a figure that was wrapped onto the next line."""

    def __init__(self) -> None:
        self._open: Line | None = None
        self._joined = 0

    @property
    def waits(self) -> bool:
        """Whether the next line may hold the rest of a figure."""
        return self._open is not None

    def read(self, raw: str) -> list[tuple[Line, list[Reading]]]:
        """Return the messages of a raw line with what they say."""
        results = []
        for line in parse_line(raw):
            readings = find_readings(line.text)
            if self._open is not None and not readings:
                line, readings = self._join(self._open, line)
            if failure := find_failure(line):
                readings = [*readings, failure]
            self._hold(line, readings)
            results.append((line, readings))
        return results

    def _join(self, before: Line, line: Line) -> tuple[Line, list[Reading]]:
        if line.stamp is not None and (line.key, line.stamp) != (before.key, before.stamp):
            return line, []
        for glue in (" ", ""):
            text = before.text.rstrip() + glue + line.message
            if readings := find_readings(text):
                return dataclasses.replace(before, text=text, message=before.message + glue + line.message), readings
        if line.stamp is None and self._joined < _MAX_JOINED:
            return dataclasses.replace(before, text=f"{before.text.rstrip()} {line.message}"), []
        return line, []

    def _hold(self, line: Line, readings: list[Reading]) -> None:
        goes_on = self._open is not None and line.text.startswith(self._open.text.rstrip())
        self._joined = self._joined + 1 if goes_on else 0
        self._open = line if not readings and self._joined <= _MAX_JOINED and is_open_ended(line.text) else None


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
