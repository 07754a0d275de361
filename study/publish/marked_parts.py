"""Generated parts of a Markdown file between markers; what a person writes around them stays.

    <!-- study:begin headline -->
    generated, and written anew each time
    <!-- study:end headline -->

    prose: kept as it is, after the part that it follows

A marker is a line of its own. A file whose markers are broken is refused as a whole, so that nothing of it is lost.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from study.errors import InputError, suggest

TOP = ""
"""Where prose stands that comes before the first part."""
_MARKER = re.compile(r"<!-- study:(begin|end) ([A-Za-z0-9._-]+) -->")
_NEARLY = re.compile(r"(?<!\\)<!--\s*study\b")  # what is escaped is text from a record


@dataclass(frozen=True)
class Prose:
    """What a person wrote, without the empty lines around it, and the number of its first line in the file."""

    text: str
    line: int


@dataclass(frozen=True)
class MarkedText:
    """A file with markers.

    Attributes:
        parts: name to what is generated, in the order of the file.
        prose: name of the part that it follows (`TOP` before the first) to what a person wrote there.

    """

    parts: Mapping[str, str]
    prose: Mapping[str, Prose]


def read_marked(text: str, file: str) -> MarkedText:
    """Read a file with markers.

    Args:
        text: of the file.
        file: its name, for errors.

    Raises:
        InputError: a marker that is misspelt, nested, without its other end, or there twice; or none at all.

    """
    parts: dict[str, str] = {}
    lines: dict[str, list[tuple[int, str]]] = {TOP: []}
    inside, opened, last = "", 0, TOP
    for number, line in enumerate(text.splitlines(), 1):
        marker = _read_marker(line, f"'{file}', line {number}")
        where = f"'{file}', line {number}"
        if marker is None:
            lines[last].append((number, line))
            continue
        kind, name = marker
        if kind == "begin":
            if inside:
                raise InputError(f"{where}: part '{name}' begins inside part '{inside}', which began at line {opened}")
            if name in parts:
                raise InputError(f"{where}: part '{name}' is there twice; keep one")
            inside, opened, last = name, number, f"in {name}"
        else:
            if name != inside:
                instead = f"part '{inside}' is open" if inside else "no part is open"
                raise InputError(f"{where}: part '{name}' ends here, but {instead}")
            parts[name] = "\n".join(one for _, one in lines.pop(last))
            inside, last = "", name
        lines[last] = []
    if inside:
        raise InputError(f"'{file}', line {opened}: part '{inside}' has no end; add '{end_of(inside)}' after it")
    if not parts:
        raise InputError(
            f"'{file}' has no markers, so nothing in it can be told from prose; move it away to begin anew"
        )
    return MarkedText(parts, dict(_find_prose(lines)))


def _read_marker(line: str, where: str) -> tuple[str, str] | None:
    found = _MARKER.fullmatch(line.strip())
    if found:
        return found[1], found[2]
    if _NEARLY.search(line):
        raise InputError(
            f"{where}: '{line.strip()[:80]}' is no marker; '{begin_of('NAME')}' on a line of its own works"
        )
    return None


def _find_prose(lines: Mapping[str, Sequence[tuple[int, str]]]) -> Iterator[tuple[str, Prose]]:
    for name, numbered in lines.items():
        full = [place for place, (_, line) in enumerate(numbered) if line.strip()]
        if full:
            kept = numbered[full[0] : full[-1] + 1]
            yield name, Prose("\n".join(line for _, line in kept), kept[0][0])


def begin_of(name: str) -> str:
    """Return the line before a part."""
    return f"<!-- study:begin {name} -->"


def end_of(name: str) -> str:
    """Return the line after a part."""
    return f"<!-- study:end {name} -->"


def write_marked(parts: Mapping[str, str], prose: Mapping[str, Prose]) -> str:
    """Return the text of a file: every part between its markers, and the prose after the part that it follows."""
    blocks = [prose[TOP].text] if TOP in prose else []
    for name, text in parts.items():
        blocks.append("\n".join((begin_of(name), text, end_of(name))))
        if name in prose:
            blocks.append(prose[name].text)
    return "\n\n".join(blocks) + "\n"


def keep_prose(fresh: MarkedText, old: MarkedText, needed: Collection[str], file: str) -> MarkedText:
    """Return the fresh parts with the prose of the old file.

    Args:
        fresh: what is generated now.
        old: what the file holds.
        needed: parts that a file always has; others may be new.
        file: its name, for errors.

    Raises:
        InputError: the old file has a part that is not generated, lacks one that is needed, or has them in another
            order.

    """
    for name in old.parts:
        if name not in fresh.parts:
            raise InputError(
                f"'{file}': part '{name}' is not generated{suggest(name, fresh.parts)}; take its markers away, and "
                "what stands between them"
            )
    missing = [name for name in fresh.parts if name in needed and name not in old.parts]
    if missing:
        raise InputError(
            f"'{file}' has no part '{missing[0]}'; put '{begin_of(missing[0])}' and '{end_of(missing[0])}' back where "
            "it stood"
        )
    order = [name for name in fresh.parts if name in old.parts]
    for name, found in zip(order, old.parts, strict=True):
        if name != found:
            raise InputError(f"'{file}': part '{found}' stands where '{name}' belongs; keep {', '.join(order)}")
    return MarkedText(fresh.parts, old.prose)
