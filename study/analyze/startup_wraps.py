"""Figures that a terminal or a formatter wrapped onto the next line."""

import dataclasses
from collections.abc import Iterator

from study.analyze.startup_failures import find_failure
from study.analyze.startup_lines import Line
from study.analyze.startup_patterns import Reading, find_readings, is_cut_off, is_open_ended

_MAX_JOINED = 2

Message = tuple[Line, list[Reading]]


class WrapReader:
    """Reads lines into messages with readings; a line whose figure may go on below is held until that is known."""

    def __init__(self) -> None:
        self._held: Message | None = None
        self._joined = 0

    @property
    def waits(self) -> bool:
        """Whether the next line may hold the rest of a figure."""
        return self._held is not None

    def read(self, line: Line) -> Iterator[Message]:
        """Yield the messages that are complete with this line."""
        readings = find_readings(line.text)
        joined = 0
        if self._held is not None:
            before, held = self._held
            self._held = None
            whole = None if readings else _join(before, line, held)
            if whole is not None and whole[1]:
                line, readings = whole
            elif held or whole is None or self._joined >= _MAX_JOINED:
                yield before, held
            else:
                line, joined = whole[0], self._joined + 1
        if failure := find_failure(line):
            readings = [*readings, failure]
        if is_cut_off(line.text) or (not readings and is_open_ended(line.text)):
            self._held, self._joined = (line, readings), joined
        else:
            yield line, readings

    def flush(self) -> Iterator[Message]:
        """Yield what is still held at the end of the text."""
        if self._held is not None:
            yield self._held
            self._held = None


def _join(before: Line, line: Line, held: list[Reading]) -> Message | None:
    """Return both lines as one with its readings, if they say more than `held`; None for a message of its own."""
    if line.stamp is not None and (line.key, line.stamp) != (before.key, before.stamp):
        return None
    for glue in (" ", ""):
        text = before.text.rstrip() + glue + line.message
        readings = find_readings(text)
        if readings and readings != held:
            return dataclasses.replace(before, text=text, message=f"{before.message}{glue}{line.message}"), readings
    text = f"{before.text.rstrip()} {line.message}"
    return dataclasses.replace(before, text=text, message=f"{before.message} {line.message}"), []
