"""The stamped lines that bound the parts of one start, and the silences between lines.

One pass over the log, up to the start-up-complete line; only boundaries and long silences are kept.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from study.analyze.startup_captures import sort_captures
from study.analyze.startup_clock import STAMP_RESOLUTION_S, seconds_between
from study.analyze.startup_figures import read_figures
from study.analyze.startup_lines import Line, iter_raw, parse_line
from study.analyze.startup_patterns import Kind, find_readings
from study.analyze.startup_record import Figures
from study.analyze.startup_starts import Event, StartLog

_API_UP = re.compile(r"Starting vLLM (?:API )?server|Available routes are")
_ASKED = re.compile(r"non-default args")
_ARCHITECTURE = re.compile(r"Resolved architecture")
_CPU_COMPILE_BEGIN = re.compile(r"Warming up model for the compilation")
_CPU_COMPILE_END = re.compile(r"Warming up done")
_HEARTBEAT = re.compile(r"No available shared memory broadcast|Waiting for \d+ local|still waiting", re.IGNORECASE)
_TEXT_CHARS = 160
MODULE_BUILD_LINE = re.compile(r"Building JIT module \S")
"""FlashInfer begins to build a module; it prints no line at its end."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A stamped line: `stamp` as from `stamp_in_year`, and its text."""

    stamp: float
    text: str


@dataclass(frozen=True, slots=True)
class Silence:
    """Two consecutive stamped lines of the engine far apart."""

    before: Mark
    after: Mark


@dataclass(slots=True)
class Marks:
    """The boundaries of one start's parts; None where the log lacks the line. Filled in log order."""

    first: Mark | None = None
    asked: Mark | None = None
    architecture: Mark | None = None
    configured: Mark | None = None
    engine_begin: Mark | None = None
    load_begin: Mark | None = None
    load_end: Mark | None = None
    compile_begin: Mark | None = None
    compile_end: Mark | None = None
    discarded_end: Mark | None = None
    memory_end: Mark | None = None
    kv_end: Mark | None = None
    capture_end: Mark | None = None
    init_end: Mark | None = None
    api_up: Mark | None = None
    last: Mark | None = None
    figures: Figures = field(default_factory=Figures)
    discarded: tuple[Event, ...] = ()
    silences: list[Silence] = field(default_factory=list)


def read_marks(text_or_lines: str | Iterable[str], silence_s: float) -> Marks:
    """Read the boundaries of the first start in a log, and its silences of `silence_s` seconds or more."""
    marks, log, previous = Marks(), StartLog(""), None
    order = 0
    for raw in iter_raw(text_or_lines):
        for line in parse_line(raw):
            readings = find_readings(line.text)
            if line.stamp is not None:
                mark = Mark(line.stamp, line.message[:_TEXT_CHARS])
                previous = _note_silence(marks, previous, mark, line, silence_s)
                _note_progress(marks, mark, line)
            for reading in readings:
                order += 1
                if log.is_opened_by(reading, line) and marks.first is not None:
                    return _finish(marks, log)
                log.add(reading, line, order)
            if log.ready:
                return _finish(marks, log)
    return _finish(marks, log)


def _note_progress(marks: Marks, mark: Mark, line: Line) -> None:
    """Take a stamped line as the first, the last before the engine, or one that only parts need."""
    marks.first = marks.first or mark
    marks.last = mark
    of_engine = line.process.startswith(("EngineCore", "Worker", "VllmWorker")) or "LLM engine" in line.text
    if marks.engine_begin is None:
        if _ASKED.search(line.message):
            marks.asked = marks.asked or mark
        if _ARCHITECTURE.search(line.message) and marks.asked:
            marks.architecture = marks.architecture or mark
        if of_engine:
            marks.engine_begin = mark
        else:
            marks.configured = mark
    if _API_UP.search(line.message):
        marks.api_up = marks.api_up or mark
    if _CPU_COMPILE_BEGIN.search(line.message):
        marks.compile_begin = mark
    if _CPU_COMPILE_END.search(line.message):
        marks.compile_end = mark


def _note_silence(marks: Marks, previous: Mark | None, mark: Mark, line: Line, silence_s: float) -> Mark | None:
    """Return the last line that counts: the front end's and mere signs of life do not end an engine's silence."""
    if line.process == "APIServer" and marks.engine_begin is not None and marks.init_end is None and not marks.api_up:
        return previous
    if _HEARTBEAT.search(line.message):
        return previous
    if previous is None:
        return mark
    gap_s = seconds_between(previous.stamp, mark.stamp)
    if gap_s >= silence_s:
        marks.silences.append(Silence(previous, mark))
    # A line at the time of one that begins a build is another process's, and does not end the build.
    return previous if gap_s <= STAMP_RESOLUTION_S and MODULE_BUILD_LINE.search(previous.text) else mark


def _finish(marks: Marks, log: StartLog) -> Marks:
    captures = sort_captures(log)
    marks.figures = read_figures(log)
    marks.discarded = captures.discarded
    marks.load_begin = _first_of(log, Kind.LOAD_BEGIN)
    marks.load_end = _last_of(log, Kind.MODEL_LOAD) or _last_of(log, Kind.LOAD_WEIGHTS)
    total = _last_of(log, Kind.COMPILE_TOTAL, Kind.COMPILE_TOTAL_OLD, Kind.COMPILE_AND_PROFILING)
    marks.compile_end = total or marks.compile_end
    marks.discarded_end = _latest(captures.discarded)
    marks.memory_end = _last_of(log, Kind.KV_MEMORY) or _last_of(log, Kind.MEMORY_PROFILING)
    marks.kv_end = _last_of(log, Kind.KV_TOKENS, Kind.KV_BLOCKS, Kind.CONCURRENCY)
    marks.capture_end = _latest(captures.real)
    marks.init_end = _last_of(log, Kind.INIT_ENGINE)
    return marks


def _first_of(log: StartLog, kind: Kind) -> Mark | None:
    stamped = [event for event in log.events.get(kind, []) if event.stamp is not None]
    return _mark(stamped[0]) if stamped else None


def _last_of(log: StartLog, *kinds: Kind) -> Mark | None:
    return _latest([event for kind in kinds for event in log.events.get(kind, [])])


def _latest(events: Iterable[Event]) -> Mark | None:
    stamped = [event for event in events if event.stamp is not None]
    if not stamped:
        return None
    origin = stamped[0].stamp or 0.0
    return _mark(max(stamped, key=lambda event: seconds_between(origin, event.stamp or 0.0)))


def _mark(event: Event) -> Mark:
    return Mark(event.stamp or 0.0, event.text[:_TEXT_CHARS])
