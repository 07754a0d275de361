"""Writes one edition beside another: for a terminal as text, or as Markdown."""

import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from study.analyze.formats import MISSING, capitalised, format_ms
from study.analyze.versus_types import Beside, Cell, Part, Row, SettingPair, Side, Versus
from study.design.counting import format_counted
from study.errors import InputError
from study.publish.plain_text import clean_text, escape_markdown
from study.publish.sheets import LONGEST_CELL, Sheet
from study.publish.versus_words import say_cost, say_differs, say_holds, say_setting
from study.publish.wording import say_users

WIDEST_COLUMN = {3: 64, 4: 48}
NARROW_COLUMN = 32
"""Characters of a column in a terminal, by columns of the table; longer cells go on in the next line."""
NO_IMPORT = (
    "Ratios are never imported from another card: each percentage is against the default of its own side, and no "
    "verdict is made across the two."
)
ONE_CARD = (
    "Ratios are never imported from another card, and even on one card these are sessions of their own: each "
    "percentage is against the default of its own side, and no verdict is made across the two."
)


@dataclass(frozen=True)
class Heading:
    """A heading; level 1 is the title."""

    level: int
    text: str


@dataclass(frozen=True)
class Warn:
    """A sentence that a reader must not miss."""

    text: str


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    items: tuple[str, ...]


Block = Heading | Warn | Bullets | Sheet | str


def render_versus(versus: Versus, style: Literal["text", "markdown"] = "text") -> str:
    """Return a comparison of two editions as text for a terminal, or as Markdown with every value escaped.

    Args:
        versus: the two sides.
        style: `text` or `markdown`.

    Raises:
        InputError: for another style.

    """
    if style not in ("text", "markdown"):
        raise InputError(f"style '{style}' is unknown; text and markdown work")
    write = _write_text if style == "text" else _write_markdown
    return "\n\n".join(write(block) for block in _lay_out(versus)) + "\n"


def _lay_out(versus: Versus) -> Iterator[Block]:
    sides = {"A": versus.a, "B": versus.b}
    for name in versus.rehearsal:
        yield Warn(f"REHEARSAL: {name} ({sides[name].kind} {sides[name].name}) is no result, and nothing here is.")
    yield Heading(1, f"{versus.a.name} beside {versus.b.name}")
    yield Bullets(tuple(f"{name}: {_say_side(side)}" for name, side in sides.items()))
    for one in versus.beside:
        yield from _lay_out_parts(one)
    if versus.alone:
        yield Heading(2, "Sessions of one side alone")
        yield Bullets(versus.alone)


def _say_side(side: Side) -> str:
    parts = ", ".join(part.name for part in side.parts)
    what = "published medians alone, without runs" if side.parts[0].published else "raw records"
    return f"{side.kind} {side.name}" + (f" of {parts}" if parts != side.name else "") + f" ({what})"


def _lay_out_parts(one: Beside) -> Iterator[Block]:
    yield Heading(2, f"A {one.a.name} beside B {one.b.name}")
    names = ", ".join(one.a.cards) or "no card", ", ".join(one.b.cards) or "no card"
    cards = names[0] if names[0] == names[1] else " and ".join(names)
    yield f"{capitalised(one.cards)} ({cards}). {ONE_CARD if one.cards.same else NO_IMPORT}"
    if one.same_records:
        yield Warn(f"Both sides rest on the records of {one.a.name}: what holds on both is one finding, not two.")
    for name, part in (("A", one.a), ("B", one.b)):
        yield from (Warn(f"{name}: {clean_text(text, LONGEST_CELL)}.") for text in part.cautions)
    yield _list_facts(one)
    yield from _list_meanings(one)
    yield from _list_figures(one)
    yield from _list_claims(one)
    if one.alone:
        yield Heading(3, "On one side alone")
        yield Bullets(tuple(clean_text(text, LONGEST_CELL) for text in one.alone))


def _list_facts(one: Beside) -> Sheet:
    said = {True: "yes", False: "no", None: "cannot be told"}
    rows = [(fact.name, fact.a or MISSING, fact.b or MISSING, said[fact.same]) for fact in one.facts]
    return Sheet("Versions and conditions", ("what", "A", "B", "the same?"), tuple(rows))


def _list_meanings(one: Beside) -> Iterator[Sheet]:
    if not one.meanings:
        return
    said = {True: "yes, its servers resolved alike", False: "NO, two things", None: "cannot be told"}
    rows = []
    for meaning in one.meanings:
        count = len(meaning.differences)
        why = f"{format_counted(count, 'setting')} of it, below" if count else MISSING
        rows.append((meaning.level, said[meaning.same], meaning.reason or why))
    yield Sheet("Does a label mean one thing on both sides?", ("level", "one thing?", "why"), tuple(rows))
    levels: dict[SettingPair, list[str]] = {}
    for meaning in one.meanings:
        for pair in meaning.differences:
            levels.setdefault(pair, []).append(meaning.level)
    if levels:
        settings = [(", ".join(names), *say_setting(pair)) for pair, names in levels.items()]
        yield Sheet("Settings of the levels that differ", ("levels", "setting", "A", "B"), tuple(settings))
    if one.around:
        around = tuple(say_setting(pair) for pair in one.around)
        yield Sheet("Settings around the levels that differ", ("setting", "A", "B"), around)


def _list_figures(one: Beside) -> Iterator[Sheet | str]:
    if not one.rows:
        yield "No level has a figure at a number of users that both sides have."
        return
    head = ("users", "level", "A: median TPOT", "A: cost", "B: median TPOT", "B: cost")
    rows = []
    for row in one.rows:
        level = row.level if row.only is None else f"{row.level} ({row.only})"
        cells = [*_say_cell(row, row.a, one.a, one), *_say_cell(row, row.b, one.b, one)]
        rows.append((say_users(row.users), level, *cells))
    yield Sheet(f"Side by side: median TPOT, and cost against {one.a.default}", head, tuple(rows))


def _say_cell(row: Row, cell: Cell | None, part: Part, one: Beside) -> tuple[str, str]:
    if cell is None:
        return MISSING, MISSING
    time = MISSING if row.users is None else format_ms([cell.median_tpot_ms])
    if row.level == part.default:
        return time, "the default"
    return time, say_cost(cell.cost, row.level in part.alike, one.a.published or one.b.published)


def _list_claims(one: Beside) -> Iterator[Block]:
    if not one.claims:
        return
    holds, differs = tuple(say_holds(one)), tuple(say_differs(one))
    yield Heading(3, "What holds on both")
    yield Bullets(holds) if holds else "Nothing that was measured on both."
    if differs:
        yield Heading(3, "What does not, or cannot be said of both")
        yield Bullets(differs)


def _write_text(block: Block) -> str:
    """Write a block for a terminal."""
    if isinstance(block, Heading):
        line = {1: "=", 2: "-"}.get(block.level)
        text = clean_text(block.text)
        return f"{text}\n{line * len(text)}" if line else f"{text}:"
    if isinstance(block, Bullets):
        return "\n".join(_wrap(f"- {clean_text(text)}", "  ") for text in block.items)
    if isinstance(block, Sheet):
        return _write_table(block)
    return _wrap(clean_text(block.text if isinstance(block, Warn) else block), "")


def _wrap(text: str, indent: str) -> str:
    return textwrap.fill(text, 110, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def _write_table(sheet: Sheet) -> str:
    """Write a table in columns two blanks apart; a long cell goes on in the next line."""
    widest = WIDEST_COLUMN.get(len(sheet.head), NARROW_COLUMN)
    cells = [[textwrap.wrap(cell, widest) or [""] for cell in row] for row in (sheet.head, *sheet.rows)]
    widths = [max(len(line) for row in cells for line in row[place]) for place in range(len(sheet.head))]
    lines = []
    for row in cells:
        for at in range(max(len(cell) for cell in row)):
            texts = [cell[at] if at < len(cell) else "" for cell in row]
            lines.append("  ".join(text.ljust(width) for text, width in zip(texts, widths, strict=True)).rstrip())
    head = max(len(cell) for cell in cells[0])
    title = clean_text(sheet.title)
    return "\n".join(
        [
            title if title.endswith("?") else f"{title}:",
            *lines[:head],
            "  ".join("-" * width for width in widths),
            *lines[head:],
        ]
    )


def _write_markdown(block: Block) -> str:
    """Write a block as Markdown; every value is escaped."""
    if isinstance(block, Heading):
        return f"{'#' * block.level} {escape_markdown(block.text)}"
    if isinstance(block, Warn):
        return f"> **{escape_markdown(block.text)}**"
    if isinstance(block, Bullets):
        return "\n".join(f"- {escape_markdown(text)}" for text in block.items)
    if isinstance(block, Sheet):
        rows = [block.head, tuple("---" for _ in block.head), *block.rows]
        lines = [" | ".join("---" if cell == "---" else escape_markdown(cell) for cell in row) for row in rows]
        return "\n".join([f"**{escape_markdown(block.title)}**", "", *(f"| {line} |" for line in lines)])
    return escape_markdown(block)
