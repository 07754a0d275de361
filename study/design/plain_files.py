"""Files as people hand them over, read with bounds: no pipe hangs, no size fills the memory, no odd byte is a crash.

Whoever reads a file that a person, an editor or a cut connection may have changed reads it through here.
"""

import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from study.errors import InputError

MOST_DIGITS = 400
"""Longest whole number that is read, digits: beyond any quantity, and far below where Python refuses."""
_UTF16_OR_32 = (b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")
_KINDS: tuple[tuple[Callable[[int], bool], str], ...] = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)


def shown(value: object) -> str:
    """Return `value` as text that fits on one printed line: what cannot be printed is escaped, what is long is cut."""
    text = str(value)
    text = text if text.isprintable() else ascii(text)[1:-1]
    return text if len(text) <= 300 else f"{text[:300]}..."


def show_value(value: object) -> str:
    """Return a value as `repr` writes it, on one line and cut; a number too long for that by its size."""
    try:
        return shown(repr(value))
    except ValueError:
        return "a number of thousands of digits"


def is_file(path: Path) -> bool:
    """Say whether a regular file lies there; a name that no file can have is none."""
    try:
        return path.is_file()
    except (OSError, ValueError):
        return False


def read_bytes(path: Path, most_bytes: int) -> bytes:
    """Read a regular file of at most `most_bytes` bytes; anything else is refused without waiting for it.

    Raises:
        InputError: no such file, not a regular one (a folder, a pipe, a loop of links), too large, or not readable.

    """
    try:
        # O_NONBLOCK: opening a pipe that nobody writes to would wait for ever.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "no file can have this name"
        raise InputError(f"'{shown(path)}' cannot be read: {why}") from None
    try:
        facts = os.fstat(descriptor)
        if not stat.S_ISREG(facts.st_mode):
            kind = next((name for test, name in _KINDS if test(facts.st_mode)), "something else")
            raise InputError(f"'{shown(path)}' is {kind}, not a file; move it away")
        with os.fdopen(descriptor, "rb", closefd=False) as file:
            data = file.read(min(facts.st_size, most_bytes) + 1)
            data += file.read(most_bytes + 1 - len(data)) if len(data) > facts.st_size else b""
    except OSError as error:
        raise InputError(f"'{shown(path)}' cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(data) > most_bytes:
        size_mib = max(facts.st_size, len(data)) / 2**20
        raise InputError(f"'{shown(path)}' has {size_mib:,.1f} MiB; at most {most_bytes / 2**20:g} MiB are read")
    return data


def decode_utf8(data: bytes, what: str) -> str:
    """Return UTF-8 bytes as text, a byte order mark kept.

    Raises:
        InputError: other bytes; `what` names them.

    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        kind = "UTF-16 or UTF-32" if data.startswith(_UTF16_OR_32) else f"no text (byte {error.start + 1} is not UTF-8)"
        raise InputError(f"{what} is not readable: it is {kind}; save it as UTF-8") from None


def parse_json(text: str) -> Any:  # noqa: ANN401 (any JSON value)
    """Parse JSON as its standard has it: no key twice, no NaN or infinity by name or by size, bounded depth.

    Raises:
        ValueError: it is not such JSON; the message is one line, with the field of a number that is none.

    """
    odd: list[str] = []

    def take(name: str) -> float:
        odd.append(name)
        return math.nan

    def take_float(digits: str) -> float:
        value = float(digits)
        return take(digits) if math.isinf(value) else value

    def take_int(digits: str) -> float:
        return int(digits) if len(digits) <= MOST_DIGITS else take(f"of {len(digits)} digits")

    try:
        found = json.loads(
            text, object_pairs_hook=keys_once, parse_constant=take, parse_float=take_float, parse_int=take_int
        )
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"{error.msg} at line {error.lineno}, column {error.colno}") from None
    if odd:
        field = next((where for where, value in walk(found) if isinstance(value, float) and math.isnan(value)), "")
        raise ValueError(f"field '{field}' is {shown(odd[0])}, no number")
    if "\\u" in text and (half := next((where for where, value in walk(found) if _has_half(value)), None)) is not None:
        raise ValueError(f"field '{half}' holds half a character (a lone surrogate)")
    return found


def _has_half(value: object) -> bool:
    return isinstance(value, str) and not value.isascii() and any("\ud800" <= one <= "\udfff" for one in value)


def walk(value: object) -> Iterator[tuple[str, object]]:
    """Yield every value inside `value` that is no list and no mapping, with its dotted path, in order."""
    left: list[tuple[str, object]] = [("", value)]
    while left:
        where, item = left.pop()
        if not isinstance(item, dict | list):
            yield where, item
            continue
        inside = item.items() if isinstance(item, dict) else enumerate(item)
        left += reversed([(f"{where}.{shown(name)}" if where else shown(name), one) for name, one in inside])


def keys_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the pairs of a JSON object as a mapping.

    Raises:
        ValueError: a key stands twice.

    """
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"the key '{shown(name)}' stands twice")
        found[name] = value
    return found


def explain_fields(error: ValidationError, most: int = 5) -> str:
    """Return on one line which fields do not fit, with what they hold; of more than `most`, the number of the rest."""
    told = []
    for fault in error.errors(include_url=False)[:most]:
        field = ".".join(shown(part) for part in fault["loc"])
        held = fault["input"]
        value = f" {show_value(held)[:60]}" if isinstance(held, str | int | float | None) else ""
        message = shown(fault["msg"].removeprefix("Value error, "))
        told.append(f"field '{field}'{value}: {message}" if field else message)
    more = error.error_count() - len(told)
    return "; ".join(told) + (f"; {more} more" if more else "")
