"""The same levels on other cards: what an edition says of a study whose launches came from several kinds of card."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd

from study.analyze.cards import KindOfCard
from study.analyze.cards_table import card_table
from study.analyze.findings import Findings
from study.analyze.formats import MISSING, format_count, format_ms
from study.design.counting import format_counted
from study.publish.sheets import Sheet, list_first_tokens, list_session
from study.publish.wording import say_interval, say_verdict

TITLE = "The same levels on other cards"


def tabulate_cards(found: Findings) -> dict[str, pd.DataFrame]:
    """Return the table across cards under its file name; nothing where a study ran on one kind of card."""
    return {"cards": card_table(found)} if found.by_kind else {}


def list_by_kind(found: Findings, lay_out: Callable[[Findings], Sheet]) -> list[Sheet]:
    """Lay out one table a kind of card: medians over unlike cards would say nothing."""
    if not found.by_kind:
        return [lay_out(found)]
    return [_name_kind(kind, lay_out(part)) for kind, part in found.by_kind]


def list_sessions(found: Findings, users: Sequence[int]) -> list[Sheet]:
    """Lay out the guide's table of a session, and times to the first token where runs have them, by kind of card."""
    tokens = list_by_kind(found, lambda part: list_first_tokens(part, users))
    return [*list_by_kind(found, lambda part: list_session(part, users)), *(sheet for sheet in tokens if sheet.rows)]


def _name_kind(kind: KindOfCard, sheet: Sheet) -> Sheet:
    return replace(sheet, title=f"{kind.label}: {sheet.title}")


def list_across_cards(found: Findings, users: Sequence[int]) -> Sheet | None:
    """Lay out each level on each kind of card, with the verdict of that kind alone; None for one kind."""
    if not found.by_kind:
        return None
    head = ("card", "users", "level", "median TPOT", "difference to the default", "verdict", "blocks")
    rows = [
        _row(kind, part, level, count)
        for level in found.levels
        for count in (None, *users)
        for kind, part in found.by_kind
        if count is not None or level != found.default
    ]
    return Sheet(TITLE, head, tuple(rows))


def _row(kind: KindOfCard, part: Findings, level: str, users: int | None) -> tuple[str, ...]:
    table = part.session_figures
    cell = table[(table["users"] == users) & (table["level"] == level)]["median_tpot_ms"].dropna()
    median = format_ms([cell.iloc[0]]) if len(cell) else MISSING
    pair = part.pair(level, users)
    judged = (say_interval(pair.effect_percent), say_verdict(pair)) if pair else (MISSING, MISSING)
    count = "all" if users is None else format_count(users)
    return (kind.label, count, level, median, *judged, format_count(len(part.blocks)))


def say_kinds(found: Findings) -> tuple[str, ...]:
    """Say why there is no verdict over all cards; nothing for one kind."""
    if not found.by_kind:
        return ()
    kinds = [
        f"{kind.label} ({len(kind.units)} with {format_counted(len(part.blocks), 'block')})"
        for kind, part in found.by_kind
    ]
    return (
        f"This study ran on {len(kinds)} kinds of card: {', '.join(kinds)}. Blocks from unlike cards differ by more "
        "than a level costs, so every verdict is that of one kind, from its own blocks.",
    )
