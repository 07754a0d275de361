"""The page of an edition that was published before, of which printed medians are all there is."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from study.analyze.formats import MISSING, format_mhz, format_ms
from study.analyze.versus_types import Part, Side
from study.publish.plain_text import escape_markdown
from study.publish.sheets import Sheet
from study.publish.site_markdown import join_blocks, warn, write_sheet
from study.publish.wording import say_percent

_UNITS = {"_s": "s", "_gib": "GiB", "_percent": "percent"}
_NAMES = {"dgx": "DGX", "spark": "Spark", "tpot": "TPOT"}
NOT_REMEASURED = (
    "These figures stand as that edition printed them. The raw runs behind them are not on file, so nothing here "
    "was measured or checked again."
)
CLAIMS = (
    "It called a difference real where the ranges of its seeds do not overlap, a rule that "
    "errs by chance in 10 to 20 percent of comparisons where nothing differs; the methods page says what replaced it."
)


def write_reference_page(side: Side, path: Path) -> str:
    """Return the page of a published edition.

    Args:
        side: its sessions, as `versus_side.read_side` reads them from that file.
        path: the file, for what stands beside its medians: clocks, claims, dates.

    """
    data: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    sessions = {str(one.get("id")): one for one in data.get("sessions", [])}
    blocks = [
        f"# Edition {escape_markdown(side.name)}, as published",
        warn("As published, not remeasured", f"{NOT_REMEASURED} {data.get('note', '')}".strip()),
    ]
    for part in side.parts:
        blocks += _write_session(part, sessions.get(part.name, {}))
    blocks += [f"The sentences are the edition's own. {CLAIMS}"]
    rows = list(_flatten(data.get("other_published", {})))
    if rows:
        blocks += ["## Other published figures", write_sheet(Sheet("Also printed", ("what", "value"), tuple(rows)))]
    stamp = Sheet(f"Stamp of edition {side.name}", ("what", "value"), tuple(_list_stamp(side, data)))
    return join_blocks(*blocks, "## Stamp", write_sheet(stamp))


def _write_session(part: Part, printed: Mapping[str, Any]) -> Iterator[str]:
    yield f"## Session {escape_markdown(part.name)}"
    yield write_sheet(list_published(part, printed.get("median_sm_clock_mhz", {})))
    ranges = printed.get("median_sm_clock_mhz_range", {})
    if ranges:
        rows = [
            (users, f"{' to '.join(dict.fromkeys(f'{one:,}' for one in ends))} MHz") for users, ends in ranges.items()
        ]
        yield write_sheet(Sheet("Median SM clock, least to greatest over levels", ("users", "clock"), tuple(rows)))
    claims = printed.get("claims", [])
    if claims:
        yield "As the edition put it:"
        yield "\n".join(f"- {escape_markdown(text)}" for text in claims)


def list_published(part: Part, clocks: Mapping[str, Mapping[str, float]]) -> Sheet:
    """Lay out published medians by users and level, and by how many percent they differ.

    Args:
        part: the session.
        clocks: level to users to the median SM clock, MHz, where printed.

    """
    rows = []
    for users in part.users:
        for level in part.levels:
            cell = part.cells.get((users, level))
            cost = None if cell is None else cell.cost
            said = "the default" if level == part.default else MISSING
            if cost is not None:
                said = f"{say_percent(cost.medians_percent)} percent"
            clock = clocks.get(level, {}).get(str(users))
            median_ms = None if cell is None else cell.median_tpot_ms
            rows.append((f"{users:,}", level, format_ms([median_ms]), format_mhz([clock]), said))
    where = f"{' and '.join(part.cards) or 'no card'}, {part.session} session"
    head = ("users", "level", "median TPOT", "median SM clock", "difference of the medians")
    return Sheet(f"{where}: published medians", head, tuple(rows))


def _list_stamp(side: Side, data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "edition", side.name
    for name, text in (("vllm_version", "vLLM version"), ("vllm_commit", "vLLM commit"), ("date", "date")):
        yield text, str(data.get(name) or "not published")
    dates = {str(one.get("id")): one.get("date") for one in data.get("sessions", [])}
    for part in side.parts:
        facts = [*part.cards, part.facts.get("model"), part.facts.get("replicates"), dates.get(part.name)]
        yield f"session {part.name}", ", ".join(str(fact) for fact in facts if fact)


def _flatten(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, str]]:
    """List nested values as one name and one text each, with the unit that ends the name after the value."""
    for name, value in values.items():
        bare, unit = _split_unit(name.removesuffix("_about"))
        words = " ".join(_NAMES.get(word, word) for word in f"{before} {bare}".replace("_", " ").split())
        if isinstance(value, dict):
            yield from _flatten(value, words)
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            for place, one in enumerate(value, start=1):
                yield from _flatten(one, f"{words} {place}")
        else:
            text = " to ".join(str(one) for one in value) if isinstance(value, list) else str(value)
            yield words, f"{'about ' if name.endswith('_about') else ''}{text} {unit}".strip()


def _split_unit(name: str) -> tuple[str, str]:
    """Split `compile_s` into `compile` and `s`; a name that is a unit alone has nothing before it."""
    ending = next((one for one in _UNITS if f"_{name}".endswith(one)), "")
    return f"_{name}".removesuffix(ending).strip("_"), _UNITS.get(ending, "")
