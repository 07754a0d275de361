"""From readings to starts: which line belongs to which start of which service.

One pass over the log. A `StartLog` collects what one start says. A new one begins where a process does something that
it does once in its life and has done already: a command line, an engine that begins again, weights loaded after the KV
cache was sized, another process id under the same engine name. Stamps tell late lines (Ray) from new ones.
"""

import re
from collections import Counter
from dataclasses import dataclass, field

from study.analyze.startup_clock import seconds_between
from study.analyze.startup_lines import Line
from study.analyze.startup_patterns import Kind, Reading

MAX_EVENTS = 1_000
"""Readings of one kind kept for one start; more than this is no start, and memory must stay bounded."""

Key = tuple[str, str, int | None, str]

_EARLY = frozenset({Kind.LOAD_BEGIN, Kind.LOAD_WEIGHTS, Kind.MODEL_LOAD})
_COMPILE = frozenset(
    {
        Kind.COMPILE_BEGIN,
        Kind.DYNAMO,
        Kind.COMPILE_RANGE,
        Kind.COMPILE_TOTAL,
        Kind.COMPILE_TOTAL_OLD,
        Kind.COMPILE_AND_PROFILING,
        Kind.PROFILING_RUN,
    }
)
_SIZED = frozenset({Kind.KV_MEMORY, Kind.KV_TOKENS, Kind.KV_BLOCKS, Kind.GRAPH_POOL, Kind.INIT_ENGINE})
_FIGURES = _EARLY | _COMPILE | _SIZED | {Kind.CAPTURE, Kind.MEMORY_PROFILING, Kind.CONCURRENCY, Kind.GRAPH_ESTIMATE}
_SIGNS = frozenset({Kind.FAILURE, Kind.V2_RUNNER, Kind.EAGER, Kind.CAPTURE_OF_SIZE})
_OF_VLLM = _FIGURES | _SIGNS | {Kind.ENGINE_BEGIN, Kind.API_BEGIN}
_AFTERTHOUGHTS = frozenset({Kind.CONCURRENCY, Kind.GRAPH_POOL})
_ENGINE_NAME = re.compile(r"EngineCore")
_LATE_S = 1.0
_CONFIG = re.compile(r"enforce_eager['\"]?\s*[=:]\s*(True|False)")
_COMPILE_MODE = re.compile(r"CompilationMode\.(\w+)")
_GRAPH_MODE = re.compile(r"'cudagraph_mode': <CUDAGraphMode\.(\w+)")
_VERSION = re.compile(r"\(v(\d[^)\s]{0,60})\)|API server version (\S{1,60})")


@dataclass(slots=True)
class Event:
    """One reading with the process and the time it came from; `order` is its place in the log."""

    reading: Reading
    key: Key
    stamp: float | None
    order: int
    text: str

    @property
    def kind(self) -> Kind:
        """The kind of the reading."""
        return self.reading.kind


@dataclass(slots=True)
class StartLog:
    """What one start's lines have said so far; filled by `add`, read by `startup_figures`."""

    service: str
    events: dict[Kind, list[Event]] = field(default_factory=dict)
    seen: dict[Key, set[Kind]] = field(default_factory=dict)
    engine_pids: dict[tuple[str, str, str], int] = field(default_factory=dict)
    counts: Counter[Kind] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)
    likely_failures: list[str] = field(default_factory=list)
    failed_stamp: float | None = None
    failed_key: Key | None = None
    closed_stamp: float | None = None
    folded: bool = False
    ready: bool = False
    version: str | None = None
    configured_eager: bool | None = None
    compile_mode: str | None = None
    graph_mode: str | None = None

    @property
    def of_vllm(self) -> bool:
        """Whether any line could only come from vLLM."""
        return any(kind in _OF_VLLM for kind in self.counts)

    def has(self, *kinds: Kind) -> bool:
        """Tell whether any of `kinds` was read."""
        return any(kind in self.counts for kind in kinds)

    def is_opened_by(self, reading: Reading, line: Line) -> bool:
        """Tell whether a reading begins another start rather than going on with this one."""
        kind, key = reading.kind, line.key
        if kind is Kind.COMMAND:
            return any(other is not Kind.COMMAND for other in self.counts)
        if self._is_late(line):
            return False
        if kind is Kind.API_BEGIN:
            return any(other in _FIGURES or other is Kind.ENGINE_BEGIN for other in self.counts) or bool(self.failures)
        seen = self.seen.get(key, set())
        if kind is Kind.ENGINE_BEGIN:
            return bool(seen & _FIGURES) or self.ready or bool(self.failures) or self._is_other_engine(line)
        if kind not in _FIGURES:
            return False
        if self._is_other_engine(line):
            return True
        if Kind.INIT_ENGINE in seen:
            return kind not in _AFTERTHOUGHTS
        if self.ready:
            return kind in _EARLY or Kind.INIT_ENGINE in self.counts
        if self.failures:
            return key == self.failed_key or kind in seen or (line.pid is not None and not self._knows_pid(line.pid))
        return kind in _EARLY and bool(seen & _SIZED)

    def add(self, reading: Reading, line: Line, order: int) -> None:
        """Take in one reading."""
        kind = reading.kind
        self.counts[kind] += 1
        self.folded = self.folded or line.folded > 0
        if kind is Kind.READY:
            self.ready = self.ready or not self.failures
            self.closed_stamp = self.closed_stamp if line.stamp is None else line.stamp
        elif kind in (Kind.FAILURE, Kind.EXCEPTION):
            self._fail(reading, line)
        else:
            if kind in _FIGURES:
                self.likely_failures.clear()
            self._keep(reading, line, order)

    def _keep(self, reading: Reading, line: Line, order: int) -> None:
        kept = self.events.setdefault(reading.kind, [])
        if len(kept) >= MAX_EVENTS:
            return
        kept.append(Event(reading, line.key, line.stamp, order, line.message[:300]))
        self.seen.setdefault(line.key, set()).add(reading.kind)
        if _ENGINE_NAME.search(line.process) and line.pid is not None:
            self.engine_pids[(line.process, line.rank, line.node)] = line.pid
        if reading.kind is Kind.INIT_ENGINE and line.stamp is not None:
            self.closed_stamp = line.stamp
        if reading.kind in (Kind.API_BEGIN, Kind.ENGINE_BEGIN):
            self._read_configuration(line.text)

    def _read_configuration(self, text: str) -> None:
        if version := _VERSION.search(text):
            self.version = version.group(1) or version.group(2)
        if eager := _CONFIG.search(text):
            self.configured_eager = eager.group(1) == "True"
        if mode := _COMPILE_MODE.search(text):
            self.compile_mode = mode.group(1)
        if graph := _GRAPH_MODE.search(text):
            self.graph_mode = graph.group(1)

    def _fail(self, reading: Reading, line: Line) -> None:
        if self.ready:
            return
        messages = self.failures if reading.kind is Kind.FAILURE else self.likely_failures
        if len(messages) < MAX_EVENTS:
            messages.append(reading.note)
        if reading.kind is Kind.FAILURE and self.failed_key is None:
            self.failed_key, self.failed_stamp = line.key, line.stamp

    def _is_late(self, line: Line) -> bool:
        """Tell whether a line was written before this start ended, and only arrived later."""
        ends = [stamp for stamp in (self.closed_stamp, self.failed_stamp) if stamp is not None]
        if line.stamp is None or not ends:
            return False
        slack_s = _LATE_S if line.folded or line.node else 0.0
        return seconds_between(ends[0], line.stamp) < slack_s

    def _is_other_engine(self, line: Line) -> bool:
        known = self.engine_pids.get((line.process, line.rank, line.node))
        return known is not None and line.pid is not None and line.pid != known

    def _knows_pid(self, pid: int) -> bool:
        return any(key[2] == pid for key in self.seen)


class StartSorter:
    """Sends each reading to the start of its service and engine, and begins new starts."""

    def __init__(self) -> None:
        self.logs: list[StartLog] = []
        self._current: dict[str, StartLog] = {}
        self._of_engine: dict[tuple[str, Key], StartLog] = {}
        self._service = ""
        self._order = 0

    def add(self, reading: Reading, line: Line) -> None:
        """Take in one reading. A line without a service belongs to that of the line before it."""
        self._order += 1
        self._service = line.service or self._service
        log = self._current.get(self._service)
        if _ENGINE_NAME.search(line.process) and line.pid is not None:
            log = self._of_engine.get((self._service, line.key), log)  # engines side by side keep their own
        if log is None or log.is_opened_by(reading, line):
            log = self._current[self._service] = StartLog(self._service)
            self.logs.append(log)
        if _ENGINE_NAME.search(line.process) and line.pid is not None:
            self._of_engine[(self._service, line.key)] = log
        log.add(reading, line, self._order)
