"""Tables as an edition prints them: every cell is text, every missing figure a dash or its reason.

A `Sheet` is what the Markdown section, the page and the notebooks lay out, each in its own way.
"""

import itertools
import statistics
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pandas as pd
from pandas.io.formats.style import Styler

from study.analyze.findings import Findings
from study.analyze.formats import MISSING, format_count, format_ends, format_mhz, format_ms, format_seconds
from study.design.counting import format_counted
from study.publish.plain_text import clean_text
from study.publish.start_parts import LevelParts

LONGEST_CELL = 600
"""Characters of a cell; what is longer is cut, with an ellipsis. Tables on disk have it whole."""
MOST_ROWS = 400
"""Rows of a list of runs or launches; the table on disk, which is linked below it, has them all."""
Row: TypeAlias = Mapping[Hashable, Any]


@dataclass(frozen=True)
class Sheet:
    """One table of text.

    Attributes:
        title: what it holds.
        head: names of the columns.
        rows: cells, as many as the head has.
        folded: whether a page shows it on demand only, since it is long.

    """

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    folded: bool = False

    def __post_init__(self) -> None:
        """Make every cell one line of plain text; a message of a server may hold anything, at any length."""
        plain = tuple(tuple(clean_text(cell, LONGEST_CELL) for cell in row) for row in self.rows)
        object.__setattr__(self, "rows", plain)

    def to_styler(self) -> Styler:
        """Return the table as pandas shows it in a notebook: without an index, its text escaped."""
        frame = pd.DataFrame(list(self.rows), columns=list(self.head), dtype=object)
        shown = frame.style.hide(axis="index").format(escape="html")
        shown = shown.set_table_styles([{"selector": "th, td, caption", "props": "text-align: left"}])
        return shown.set_caption(clean_text(self.title))


def list_switches(found: Findings) -> Sheet:
    """Lay out every level's switches as its servers resolved them."""
    table = found.level_table.astype(object).where(found.level_table.notna(), None).to_dict("records")
    default = next((row for row in table if row["level"] == found.default), None)
    return lay_out_switches("Levels as their servers resolved them", table, default)


NOTHING_TOLD = "nothing that its server tells"


def lay_out_switches(title: str, table: Iterable[Row], default: Row | None, nothing: str = NOTHING_TOLD) -> Sheet:
    """Lay out rows of `LEVEL_COLUMNS`, each beside the default's; a missing value is None.

    Args:
        title: of the sheet.
        table: the rows.
        default: the default's row; None: there is none, and each row says what it has.
        nothing: what a row says that changes nothing else.

    """
    head = ("level", "flags", "compile", "CUDA graphs", "what else it changes", "what it is for")
    rows = [
        (
            str(row["level"]),
            str(row["flags"] or ("none" if row["mode"] or row["cudagraph_mode"] else MISSING)),
            _say_compile(row),
            str(row["cudagraph_mode"] or MISSING),
            _say_changes(row, default) or nothing,
            str(row["use_for"] or MISSING),
        )
        for row in table
    ]
    return Sheet(title, head, tuple(rows))


def _say_compile(row: Row) -> str:
    if row["mode"] is None:
        return MISSING
    return "off" if row["mode"] == "NONE" else f"on ({row['mode']}, {row['backend'] or 'no backend'})"


_SWITCHES = {
    "flashinfer_autotune": "FlashInfer autotuning",
    "jit_warmup": "JIT warm-up",
    "enforce_eager": "eager mode",
}


def _say_changes(row: Row, default: Row | None) -> str:
    """Say what sets a level apart from the default beside compile and graphs; of the default, what it has."""
    own = default is None or row["level"] == default["level"]
    said = [
        f"{text} {'on' if row[name] else 'off'}"
        for name, text in _SWITCHES.items()
        if row[name] is not None and (own or row[name] != (default or {}).get(name))
    ]
    sizes = row["capture_sizes"]
    if sizes and (own or sizes != (default or {}).get("capture_sizes")):
        said.append(f"{sizes} capture sizes up to {row['largest_capture_size']}")
    if row["alike"]:
        said.append(f"resolved like {row['alike'].replace('; ', ', ')}")
    said += [text for text in (row["downgrades"], row["reason"]) if text]
    return "; ".join(said)


def list_starts(found: Findings) -> Sheet:
    """Lay out the starts: seconds from the spawn to the first token by level and state of the caches."""
    shares = found.starts["difference_confidence"].dropna()
    share = f" ({100.0 * shares.iloc[0]:.3g} percent interval)" if len(shares) else ""
    head = (
        *("level", "caches", "launches", "median start", "least to greatest", f"later than {found.default}{share}"),
        *("of which ready to first token", "KV cache blocks", "failed"),
    )
    table = found.starts.astype(object).where(found.starts.notna(), None).to_dict("records")
    rows = [
        (
            str(row["level"]),
            str(row["cache"] or MISSING),
            format_count(row["n"]),
            format_seconds(row["median_s"], 1),
            format_ends(format_seconds(row["least_s"], 1), format_seconds(row["greatest_s"], 1)),
            _say_difference(row),
            format_seconds(row["to_first_token_s"]),
            format_ends(format_count(row["kv_cache_blocks_least"]), format_count(row["kv_cache_blocks_greatest"])),
            f"{row['failed']}: {row['reason']}" if row["failed"] else str(row["reason"] or "0"),
        )
        for row in table
    ]
    return Sheet("Starts, spawn to first token", head, tuple(rows))


def _say_difference(row: Row) -> str:
    """Write by how much a level starts later: `-33.0 s (-34.1 to -31.9, 5 blocks)`, or why there is no interval."""
    if row["difference_s"] is None:
        return MISSING
    point, low, high = (_signed(row[name]) for name in ("difference_s", "difference_low_s", "difference_high_s"))
    interval = f"{low} to {high}, {format_counted(row['difference_n'], row['difference_unit'])}"
    return f"{point} s ({row['difference_reason'] or interval})"


def _signed(seconds: float | None) -> str:
    text = MISSING if seconds is None else f"{seconds:+,.1f}"
    return text.replace("-", "\N{MINUS SIGN}")


def list_first_requests(found: Findings) -> Sheet:
    """Lay out what the first requests of a fresh server pay: its first warm-up wave against the last of that run."""
    head = (
        *("level", "caches", "first requests take", "least to greatest", "launches", "at users", "first, last wave"),
        *("ready to first token", "least to greatest", "launches"),
    )
    table = found.first_requests.astype(object).where(found.first_requests.notna(), None).to_dict("records")
    return Sheet("What the first requests pay", head, tuple(_first_request_row(row) for row in table))


def _first_request_row(row: Row) -> tuple[str, ...]:
    waves = f"{format_seconds(row['first_wave_s'])}, {format_seconds(row['last_wave_s'])}"
    token_ends = (row["to_first_token_least_s"], row["to_first_token_greatest_s"])
    return (
        str(row["level"]),
        str(row["cache"]),
        _times(row["times_median"]) if row["n"] else f"not known: {row['reason']}",
        format_ends(_times(row["times_least"]), _times(row["times_greatest"])),
        format_count(row["n"]),
        row["at_users"] or MISSING,
        waves if row["n"] else MISSING,
        format_seconds(row["to_first_token_s"]) if row["starts"] else f"not known: {row['token_reason']}",
        format_ends(*(format_seconds(end) for end in token_ends)),
        format_count(row["starts"]),
    )


def _times(ratio: float | None) -> str:
    return MISSING if ratio is None else f"{ratio:.2f} x as long"


def list_parts(parts: Sequence[LevelParts]) -> Sheet:
    """Lay out where the time of one start of each level went; the parts of a column add up to its start."""
    names = list(dict.fromkeys(name for one in parts for name, _ in one.parts))
    head = ("part of the start", *(f"{one.level}, {one.cache}" for one in parts))
    rows = [(name, *(format_seconds(dict(one.parts).get(name), 1) for one in parts)) for name in names]
    rows.append(("no line accounts for", *(format_seconds(one.unaccounted_s, 1) for one in parts)))
    rows.append(("spawn to first token", *(format_seconds(one.wall_s, 1) for one in parts)))
    return Sheet("Parts of the start with the median length", head, tuple(rows))


def list_session(found: Findings, users: Sequence[int]) -> Sheet:
    """Lay out the guide's table of a session: `60.36 / 61.07 ms` and `1,275 / 1,290 MHz` by users."""
    table = found.session_table[found.session_table["users"].isin(list(users))]
    levels = str(table["levels"].iloc[0]) if len(table) else " / ".join(found.levels)
    rows = [(format_count(row["users"]), row["tpot"], row["sm_clock"]) for row in table.to_dict("records")]
    return Sheet(f"{levels}: medians over runs", ("users", "median TPOT", "median SM clock"), tuple(rows))


def list_first_tokens(found: Findings, users: Sequence[int]) -> Sheet:
    """Lay out the time to the first token, level by level: medians over runs that count of each run's median."""
    known = found.session_figures.dropna(subset=["median_ttft_ms"])
    cells = known.set_index(["users", "level"])["median_ttft_ms"].to_dict()
    levels = [level for level in found.levels if (known["level"] == level).any()]
    rows = [
        (format_count(count), *(format_ms([cells.get((count, level))]) for level in levels))
        for count in users
        if (known["users"] == count).any()
    ]
    return Sheet("Time to the first token: medians over runs", ("users", *levels), tuple(rows))


def list_runs(found: Findings) -> Sheet:
    """Lay out the runs with their validity and the reasons: all, or the first `MOST_ROWS`."""
    head = ("run", "level", "users", "seed", "median TPOT", "mean TPOT", "SM clock", "valid", "counts", "notes")
    table = found.runs.astype(object).where(found.runs.notna(), None).to_dict("records")
    order = {level: place for place, level in enumerate(found.levels)}
    table.sort(key=lambda row: (row["users"], row["block"], order.get(row["level"], len(order)), row["attempt"]))
    count, counted = len(table), sum(bool(row["counts"]) for row in table)
    title = f"All {format_counted(count, 'run')}, {counted:,} of which count"
    if count > MOST_ROWS:
        title = f"The first {MOST_ROWS} of {count:,} runs, {counted:,} of which count; runs.csv has all"
    rows = [
        (
            str(row["run_id"]),
            str(row["level"]),
            format_count(row["users"]),
            str(row["seed"]),
            format_ms([row["median_tpot_ms"]]),
            format_ms([row["mean_tpot_ms"]]),
            format_mhz([row["median_sm_clock_mhz"]]),
            "yes" if row["valid"] else f"no: {row['reasons']}",
            "yes" if row["counts"] else f"no: {row['left_out']}",
            str(row["notes"] or MISSING),
        )
        for row in table[:MOST_ROWS]
    ]
    return Sheet(title, head, tuple(rows), folded=True)


def list_left_out(found: Findings) -> Sheet:
    """Lay out what entered no figure, and why: all, or the first `MOST_ROWS`."""
    table = found.left_out.astype(object).where(found.left_out.notna(), None).to_dict("records")
    rows = [
        (f"{row['kind']} {row['id']}", str(row["level"]), str(row["reason"]), str(row["detail"] or MISSING))
        for row in table[:MOST_ROWS]
    ]
    title = "Left out of the figures"
    if len(table) > MOST_ROWS:
        title += f", the first {MOST_ROWS} of {len(table):,}; left_out.csv has all"
    return Sheet(title, ("what", "level", "why", "what was seen"), tuple(rows))


def list_throttling(found: Findings) -> Sheet:
    """Lay out how throttled the card was, by level and users: runs, clock, temperature, time under the power cap."""
    head = (
        *("users", "level", "throttled runs", "median SM clock", "median temperature"),
        *("under the power cap, s a request", "evidence"),
    )
    rows = []
    places = itertools.product(sorted(set(found.runs["users"])), found.levels)
    for users, level in places:
        part = found.runs[(found.runs["users"] == users) & (found.runs["level"] == level)]
        if not len(part):
            continue
        known = [bool(one) for one in part["throttled"].dropna()]
        rows.append(
            (
                format_count(users),
                level,
                f"{sum(known)} of {len(part)}" + ("" if len(known) == len(part) else f", {len(known)} with evidence"),
                format_mhz([_median(part["median_sm_clock_mhz"])]),
                _write_c(_median(part["median_temperature_c"])),
                format_ms([_median(part["power_capped_s_per_request"])]).removesuffix(" ms"),
                "; ".join(dict.fromkeys(str(one) for one in part["throttled_evidence"].dropna())),
            )
        )
    return Sheet("How throttled the card was", head, tuple(rows), folded=len(rows) > 12)


def _write_c(temperature_c: float | None) -> str:
    return MISSING if temperature_c is None else f"{temperature_c:.0f} °C"


def _median(values: Iterable[float | None]) -> float | None:
    read = [float(one) for one in values if one is not None and one == one]
    return statistics.median(read) if read else None
