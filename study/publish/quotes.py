"""Figures that prose quotes, held against what the records give.

    <!-- figure: default.u1.tpot_ms -->5.12 ms<!-- /figure -->

The text between the two comments must be what the records say now, as the tables print it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from study.analyze.findings import Findings
from study.analyze.formats import MISSING, format_count, format_mhz, format_ms, format_seconds
from study.errors import InputError, suggest
from study.publish.marked_parts import Prose
from study.publish.wording import say_interval, say_percent, say_verdict

_MARK = re.compile(r"<!--\s*(?:figure:\s*(?P<name>[^\s]+)|(?P<end>/figure))\s*-->")
_NEARLY = re.compile(r"<!--\s*/?figure\b")


def list_figures(studies: Sequence[Findings]) -> dict[str, str]:
    """Return every figure that prose may quote: its name, and its text as the tables print it.

    Of a study on several kinds of card these are `blocks` and `vllm_version`: no other is of all its cards.

    `LEVEL.u8.tpot_ms`, `LEVEL.u8.sm_clock_mhz`, `LEVEL.u8.cost` (with its interval), `LEVEL.u8.cost_percent`,
    `LEVEL.u8.verdict`, the last three also as `LEVEL.overall.cost` and so on, `LEVEL.warm.start_s`, `blocks` and
    `vllm_version`. A name has its study before it, as in `2026-11-l4/blocks`, and may go without where only one study
    has it.
    """
    named = [(found.study, {name: text for name, text in _figures_of(found) if text != MISSING}) for found in studies]
    full = {f"{study}/{name}": text for study, figures in named for name, text in figures.items()}
    names = [name for _, figures in named for name in figures]
    short = {name: text for _, figures in named for name, text in figures.items() if names.count(name) == 1}
    return {**short, **full}


def _figures_of(found: Findings) -> Iterator[tuple[str, str]]:
    yield "blocks", format_count(len(found.blocks))
    yield "vllm_version", found.versions.get("vllm", MISSING)
    if found.by_kind:
        return
    for row in found.session_figures.to_dict("records"):
        place = f"{row['level']}.u{row['users']}"
        yield f"{place}.tpot_ms", format_ms([row["median_tpot_ms"]])
        yield f"{place}.sm_clock_mhz", format_mhz([row["median_sm_clock_mhz"]])
    pairs = () if found.comparison is None else (*found.comparison.overall, *found.comparison.by_users)
    for pair in pairs:
        place = f"{pair.level}.{'overall' if pair.users is None else f'u{pair.users}'}"
        yield f"{place}.cost", say_interval(pair.effect_percent)
        if pair.effect_percent is not None:
            yield f"{place}.cost_percent", f"{say_percent(pair.effect_percent.point)} percent"
        yield f"{place}.verdict", say_verdict(pair)
    for row in found.starts.to_dict("records"):
        yield f"{row['level']}.{row['cache']}.start_s", format_seconds(row["median_s"], 1)


def check_quotes(prose: Mapping[str, Prose], figures: Mapping[str, str], file: str) -> None:
    """Hold every figure that prose quotes against the records.

    Args:
        prose: what a person wrote, by place.
        figures: of `list_figures`.
        file: its name, for errors.

    Raises:
        InputError: a figure that is unknown, that no longer has the text quoted, or whose comments do not pair.

    """
    for part in prose.values():
        for name, text, line in _find_quotes(part, file):
            where = f"'{file}', line {line}"
            if name not in figures:
                raise InputError(f"{where}: figure '{name}' is unknown{_suggest(name, figures)}")
            if _plain(text) != _plain(figures[name]):
                raise InputError(f"{where}: '{name}' is quoted as '{_plain(text)}', the records say '{figures[name]}'")


def _find_quotes(part: Prose, file: str) -> Iterator[tuple[str, str, int]]:
    """Yield (name, text, line) of each quoted figure."""
    open_mark: re.Match[str] | None = None
    for nearly in _NEARLY.finditer(part.text):
        line = part.line + part.text.count("\n", 0, nearly.start())
        where = f"'{file}', line {line}"
        mark = _MARK.match(part.text, nearly.start())
        if mark is None:
            raise InputError(f"{where}: a figure is quoted as '<!-- figure: NAME -->text<!-- /figure -->'")
        if (mark["end"] is None) == (open_mark is not None):
            raise InputError(
                f"{where}: '{mark[0]}' does not pair; each figure has one begin and one '<!-- /figure -->'"
            )
        if mark["end"] and open_mark is not None:
            yield open_mark["name"], part.text[open_mark.end() : mark.start()], line
        open_mark = None if mark["end"] else mark
    if open_mark is not None:
        line = part.line + part.text.count("\n", 0, open_mark.start())
        raise InputError(f"'{file}', line {line}: '{open_mark[0]}' has no '<!-- /figure -->'")


def _plain(text: str) -> str:
    """Return text in one line; a minus may be typed as a hyphen."""
    return " ".join(text.split()).replace("\N{MINUS SIGN}", "-")


def _suggest(name: str, figures: Mapping[str, str]) -> str:
    near = suggest(name, figures)
    return near if near.startswith("; did") else "; 'python -m study edition EDITION --figures' lists all"
