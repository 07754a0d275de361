r"""Where the time of one start went: disjoint parts that add up to its wall time.

    spawn |imports and configuration \ model inspection|engine process up|weights|compile|
          |memory profiling \ discarded capture|KV cache|
          |JIT warm-up and autotuning \ FlashInfer module build \ named silences|capture|API up|ready|first token

A part is a figure of the log where vLLM prints one (laid so that it ends at its line's stamp), else the gap between two
stamps, else the distance to a stamp of our own. A long silence inside a gap is a part of its own: named by its cause
where the line before it tells one (FlashInfer says that it builds a module, and prints no duration), else by the lines
around it. What no part claims is `unaccounted_s`. Log stamps are whole seconds, cut off; a figure may push a boundary
later by up to one.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from study.analyze.startup_clock import STAMP_RESOLUTION_S, infer_utc_offset, seconds_between, stamp_to_unix
from study.analyze.startup_marks import MODULE_BUILD_LINE, Mark, Marks, Silence, read_marks

Source = Literal["log figure", "gap between stamps", "own stamp"]

SILENCE_S = 10.0
"""A silence of this length is named as a part of its own; the shortest that matters beside a start of half a minute."""
CONFIGURATION = "imports and configuration"
MODULE_BUILD = "FlashInfer module build"
_NAME_CHARS = 60


@dataclass(frozen=True, slots=True)
class OwnStamps:
    """Our own stamps of a launch, in seconds on one clock.

    Attributes:
        anchor_unix_s: Unix time at zero of that clock.
        spawn_s: the server's process was started.
        ready_s: `/health` answered 200.
        first_token_s: the first token of the first answer.
        utc_offset_s: local time of the log minus UTC; None takes the quarter hour that fits the first line.

    """

    anchor_unix_s: float
    spawn_s: float | None = None
    ready_s: float | None = None
    first_token_s: float | None = None
    utc_offset_s: float | None = None


@dataclass(frozen=True, slots=True)
class StartPart:
    """One part of a start: seconds of wall time that no other part claims, and the lines that say so."""

    name: str
    seconds: float
    source: Source
    evidence: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StartParts:
    """The parts of one start in order; `wall_s` is their sum and `unaccounted_s`, None without any stamp."""

    parts: tuple[StartPart, ...]
    wall_s: float | None
    unaccounted_s: float | None


def read_parts(
    text_or_lines: str | Iterable[str], stamps: OwnStamps | None = None, *, silence_s: float = SILENCE_S
) -> StartParts:
    """Read the parts of the first start in a log.

    Args:
        text_or_lines: as for `read_startup`.
        stamps: our own stamps; without them the wall time runs from the first to the last stamp of the start.
        silence_s: shortest silence in seconds that becomes a part of its own.

    Returns:
        The parts. Each part's seconds are disjoint from the others'; with `unaccounted_s` they add up to `wall_s`.

    """
    marks = read_marks(text_or_lines, silence_s)
    if marks.first is None:
        return _own_parts_only(stamps)
    clock = _Clock(marks.first, stamps)
    begin_s = clock.at(marks.first)
    if stamps is not None and stamps.spawn_s is not None:
        begin_s = min(stamps.spawn_s, begin_s)
    laid = _Timeline(begin_s, clock, tuple(marks.silences), silence_s)
    _lay_before_engine(laid, marks, stamps)
    _lay_weights_and_compile(laid, marks)
    _lay_memory(laid, marks)
    _lay_graphs(laid, marks)
    _lay_api(laid, marks)
    _lay_own(laid, stamps)
    wall_s = laid.cursor_s - begin_s
    unaccounted_s = wall_s - sum(part.seconds for part in laid.parts)
    return StartParts(tuple(laid.parts), round(wall_s, 6), round(max(unaccounted_s, 0.0), 6))


class _Clock:
    """Puts log stamps on the clock of our own stamps; without any, zero is the log's first stamp."""

    def __init__(self, first: Mark, stamps: OwnStamps | None) -> None:
        self._first = first
        self._stamps = stamps
        self._offset_s = 0.0
        if stamps is not None:
            near_s = stamps.anchor_unix_s + (stamps.spawn_s or 0.0)
            given = stamps.utc_offset_s
            self._offset_s = infer_utc_offset(first.stamp, near_s) if given is None else given

    def at(self, mark: Mark) -> float:
        """Return the seconds of a mark on the clock."""
        if self._stamps is None:
            return seconds_between(self._first.stamp, mark.stamp)
        near_s = self._stamps.anchor_unix_s + (self._stamps.spawn_s or 0.0)
        return stamp_to_unix(mark.stamp, near_s, self._offset_s) - self._stamps.anchor_unix_s


@dataclass(slots=True)
class _Timeline:
    """Lays parts one after the other; `cursor_s` is the end of what is laid, and never goes back."""

    cursor_s: float
    clock: _Clock
    silences: tuple[Silence, ...]
    silence_s: float
    parts: list[StartPart] = field(default_factory=list)

    def lay_gap(self, name: str, end: Mark | None, *, before: str = "", carve: bool = True) -> None:
        """Lay what lies between the cursor and a mark."""
        if end is not None:
            self.lay_until(name, self.clock.at(end), (before, end.text), carve=carve)

    def lay_until(self, name: str, end_s: float, evidence: tuple[str, ...], *, carve: bool = True) -> None:
        """Lay a gap up to a time, less the long silences in it, which become parts of their own."""
        if end_s < self.cursor_s:
            return
        silent = self._silent_parts(self.cursor_s, end_s) if carve else []
        rest_s = end_s - self.cursor_s - sum(part.seconds for part in silent)
        self._add(name, rest_s, "gap between stamps", evidence)
        self._add_silent(silent)
        self.cursor_s = end_s

    def lay_figure(self, name: str, seconds: float, end: Mark, *, lead: str | None = None) -> None:
        """Lay a figure of the log that ends at a mark; what lies before it is the gap `lead`, or stays unclaimed."""
        end_s = max(self.clock.at(end), self.cursor_s)
        begin_s = max(end_s - seconds, self.cursor_s)
        if lead is not None:
            self.lay_until(lead, begin_s, (f"until {seconds:g} s before: {end.text}",))
        else:
            self._add_silent(self._silent_parts(self.cursor_s, begin_s))
        room_s = end_s - begin_s
        laid_s = seconds if seconds <= room_s + STAMP_RESOLUTION_S else room_s
        evidence = (end.text,) if laid_s == seconds else (end.text, f"the stamps leave {room_s:g} s for {seconds:g} s")
        self._add(name, laid_s, "log figure", evidence)
        self.cursor_s = max(begin_s + laid_s, end_s)

    def lay_own(self, name: str, end_s: float, evidence: str) -> None:
        """Lay what lies between the cursor and a stamp of our own."""
        end_s = max(end_s, self.cursor_s)
        self._add(name, end_s - self.cursor_s, "own stamp", (evidence,))
        self.cursor_s = end_s

    def _add(self, name: str, seconds: float, source: Source, evidence: tuple[str, ...]) -> None:
        """Add a part; two stretches of the same name are one part."""
        texts = tuple(text for text in evidence if text)
        for index, part in enumerate(self.parts):
            if (part.name, part.source) == (name, source):
                self.parts[index] = StartPart(name, round(part.seconds + seconds, 6), source, part.evidence + texts)
                return
        self.parts.append(StartPart(name, round(seconds, 6), source, texts))

    def _add_silent(self, parts: Iterable[StartPart]) -> None:
        for part in parts:
            self._add(part.name, part.seconds, part.source, part.evidence)

    def _silent_parts(self, begin_s: float, end_s: float) -> list[StartPart]:
        parts = []
        for silence in self.silences:
            from_s, to_s = self.clock.at(silence.before), self.clock.at(silence.after)
            inside_s = min(to_s, end_s) - max(from_s, begin_s)
            if inside_s >= self.silence_s:
                note = f"{to_s - from_s:g} s between the stamps of these two lines"
                evidence = (silence.before.text, silence.after.text, note)
                parts.append(StartPart(_name_silence(silence), round(inside_s, 6), "gap between stamps", evidence))
        return parts


def _lay_before_engine(laid: _Timeline, marks: Marks, stamps: OwnStamps | None) -> None:
    spawned = stamps is not None and stamps.spawn_s is not None
    begin = "own stamp: spawn" if spawned else marks.first.text if marks.first else ""
    configured = marks.configured or marks.engine_begin
    if marks.engine_begin is not None or marks.load_begin is not None:
        if marks.architecture is not None:
            laid.lay_gap(CONFIGURATION, marks.asked, before=begin, carve=False)
            laid.lay_gap("model inspection", marks.architecture, carve=False)
        laid.lay_gap(CONFIGURATION, configured, before=begin, carve=False)
        laid.lay_gap("engine process up", marks.load_begin or marks.engine_begin, carve=False)


def _lay_weights_and_compile(laid: _Timeline, marks: Marks) -> None:
    figures = marks.figures
    load_s = figures.model_load_s if figures.model_load_s is not None else figures.load_weights_s
    if marks.load_end is not None and load_s is not None:
        laid.lay_figure("weights", load_s, marks.load_end)
    elif marks.load_end is not None or marks.compile_begin is not None:
        laid.lay_gap("weights", marks.load_end or marks.compile_begin)
    if marks.compile_end is not None and figures.torch_compile_s is not None:
        laid.lay_figure("compile", figures.torch_compile_s, marks.compile_end)
    elif marks.compile_end is not None and marks.compile_begin is not None:
        laid.lay_gap("compile", marks.compile_end, before=marks.compile_begin.text, carve=False)


def _lay_memory(laid: _Timeline, marks: Marks) -> None:
    seconds = max((event.reading.seconds or 0.0 for event in marks.discarded), default=None)
    if marks.discarded_end is not None and seconds is not None:
        laid.lay_figure("discarded capture", seconds, marks.discarded_end, lead="memory profiling")
    laid.lay_gap("memory profiling", marks.memory_end)
    laid.lay_gap("KV cache", marks.kv_end)


def _lay_graphs(laid: _Timeline, marks: Marks) -> None:
    seconds = marks.figures.graph_capture_s
    if marks.capture_end is not None and seconds is not None:
        laid.lay_figure("capture", seconds, marks.capture_end, lead="JIT warm-up and autotuning")
    else:
        laid.lay_gap("JIT warm-up and autotuning", marks.init_end)


def _lay_api(laid: _Timeline, marks: Marks) -> None:
    end = marks.api_up if marks.init_end is not None or marks.api_up is not None else marks.last
    laid.lay_gap("API up" if marks.api_up is not None else "after the last figure", end or marks.last)


def _lay_own(laid: _Timeline, stamps: OwnStamps | None) -> None:
    if stamps is not None and stamps.ready_s is not None:
        laid.lay_own("ready", stamps.ready_s, "own stamp: /health answered 200")
    if stamps is not None and stamps.first_token_s is not None:
        laid.lay_own("first token", stamps.first_token_s, "own stamp: first token")


def _own_parts_only(stamps: OwnStamps | None) -> StartParts:
    """Return what our own stamps say when the log has none: nothing of the time before ready is accounted for."""
    known = [s for s in (stamps.spawn_s, stamps.ready_s, stamps.first_token_s) if s is not None] if stamps else []
    if stamps is None or stamps.spawn_s is None or len(known) < 2:
        return StartParts((), None, None)
    parts: tuple[StartPart, ...] = ()
    if stamps.ready_s is not None and stamps.first_token_s is not None:
        seconds = stamps.first_token_s - stamps.ready_s
        parts = (StartPart("first token", round(seconds, 6), "own stamp", ("own stamp: first token",)),)
    wall_s = known[-1] - stamps.spawn_s
    return StartParts(parts, round(wall_s, 6), round(wall_s - sum(part.seconds for part in parts), 6))


def _name_silence(silence: Silence) -> str:
    if MODULE_BUILD_LINE.search(silence.before.text):
        return MODULE_BUILD
    return f"silent after '{_short(silence.before.text)}', before '{_short(silence.after.text)}'"


def _short(text: str) -> str:
    return text if len(text) <= _NAME_CHARS else f"{text[:_NAME_CHARS]}..."
