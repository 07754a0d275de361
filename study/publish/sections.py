"""The parts of an edition in the order of the guide; each says what it has, or why it has nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from study.analyze.findings import Findings
from study.analyze.formats import capitalised
from study.analyze.not_run import say_not_run
from study.analyze.recommend import Advice
from study.analyze.recommend_starts import starts_alone
from study.analyze.switches_diff import diff_sets
from study.analyze.throttling_words import (
    REASON_NOT_THROTTLED,
    say_never_throttled,
    say_throttled_in_cooled,
    say_throttling,
)
from study.publish import sheets
from study.publish.card_use import list_card_use, list_reference, say_reference
from study.publish.cards_part import list_across_cards, list_by_kind, list_sessions, say_kinds
from study.publish.claims_part import list_misleading, say_claims, warn_of_claims
from study.publish.plain_text import clean_text
from study.publish.plates import Plate
from study.publish.reading import list_host_bound, list_overall, list_pairs, say_method
from study.publish.references import References
from study.publish.sheets import LONGEST_CELL, Sheet
from study.publish.stamp import make_stamp
from study.publish.start_parts import WHICH_START
from study.publish.study_view import StudyView
from study.publish.switches_part import (
    MARK,
    list_meanings,
    list_unrecorded,
    say_meanings,
    say_set,
    warn_of_meanings,
    warn_of_set,
)

PARTS = ("headline", "switches", "start", "cooled", "throttled", "reading", "decide", "stamp")
"""Keys of the parts that every edition has, in the order of the guide."""
NO_REFERENCES = References()


@dataclass(frozen=True)
class Picture:
    """A figure and where its file lies, from the edition's folder; `place` begins the ids of a page's copy."""

    plate: Plate
    file: str
    place: str


@dataclass(frozen=True)
class Link:
    """A link with its text."""

    text: str
    target: str


@dataclass(frozen=True)
class Item:
    """One recommendation."""

    title: str
    status: str
    sentences: tuple[str, ...]
    enough: str
    rests_on: str


@dataclass(frozen=True)
class Block:
    """What one study says in a section; `heading` is empty where the edition has one study alone."""

    heading: str
    sentences: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    sheets: tuple[Sheet, ...] = ()
    pictures: tuple[Picture, ...] = ()
    items: tuple[Item, ...] = ()
    files: tuple[Link, ...] = ()


@dataclass(frozen=True)
class Section:
    """One part of an edition."""

    key: str
    title: str
    intro: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Shown:
    """A study with its figures and its table files (name to path from the edition's folder)."""

    view: StudyView
    advice: Sequence[Advice]
    plates: Mapping[str, Plate]
    tables: Mapping[str, str]
    heading: str

    def picture(self, key: str) -> Picture:
        """Return a figure with its file."""
        name = f"{self.view.found.study}-{key}"
        return Picture(self.plates[key], f"figures/{name}.svg", f"fig-{name.replace('.', '-')}")

    def links(self, *names: str) -> tuple[Link, ...]:
        """Return links to tables."""
        return tuple(Link(f"{name}.csv", self.tables[name]) for name in names if name in self.tables)


def make_sections(edition: str, studies: Sequence[Shown], references: References = NO_REFERENCES) -> list[Section]:
    """Return the parts of an edition: those of `PARTS`, and before the stamp `claims` where it has verdicts on some."""
    return [
        Section("headline", "Headline", "", tuple(_headline(one) for one in studies)),
        Section(
            "switches",
            "What each level switches",
            "From the configuration that each server resolved and told, never from documentation.",
            (*(_switches(one) for one in studies), *_reference_blocks(references, studies)),
        ),
        Section(
            "start",
            "What the start costs",
            "From each server's spawn to the first token of its first answer.",
            tuple(_starts(one) for one in studies),
        ),
        _session("cooled", "Full-clock (cooled) session", studies),
        _session("throttled", "Throttled session", studies),
        Section("reading", "Reading", _READING, tuple(_reading(one) for one in studies)),
        Section("decide", "Decide", "", tuple(_decide(one) for one in studies)),
        *_claims(references, studies),
        Section("stamp", "Stamp", "", tuple(_stamp(edition, one) for one in studies)),
    ]


_READING = (
    "Percentages compare a level with the default within blocks; the interval, not the range of seeds, carries the "
    "verdict. The range rule of the 2026.10 edition stands beside it, with how often it is wrong by chance."
)


def _headline(one: Shown) -> Block:
    return Block(one.heading, sentences=(one.view.headline,))


def _switches(one: Shown) -> Block:
    return Block(one.heading, sheets=(sheets.list_switches(one.view.found),), files=one.links("levels"))


def _reference_blocks(references: References, studies: Sequence[Shown]) -> Iterable[Block]:
    """Say what levels resolve to without a running server, and what they meant in an older release."""
    new, old = references.switches, references.switches_before
    if new is None:
        return
    tables = [one.view.found.level_table for one in studies]
    told = {str(level) for table in tables for level in table.loc[table["mode"].notna(), "level"]}
    sheet = list_unrecorded(new, told)
    if sheet is not None:
        yield Block(MARK, (say_set(new),), warn_of_set(new, _versions(studies)), (sheet,))
    if old is not None:
        diff = diff_sets(old, new)
        yield Block(
            "What each level means in this release", say_meanings(diff), warn_of_meanings(diff), (list_meanings(diff),)
        )


def _claims(references: References, studies: Sequence[Shown]) -> Iterable[Section]:
    """Say which claims of a text are false or changed now."""
    verdicts, before = references.claims, references.claims_before
    if verdicts is not None:
        warnings = warn_of_claims(verdicts, _versions(studies))
        block = Block("", say_claims(verdicts, before), warnings, (list_misleading(verdicts),))
        yield Section("claims", f"What changed since {verdicts.date}", "", (block,))


def _versions(studies: Sequence[Shown]) -> frozenset[str]:
    """Return the releases that the studies ran, without the name of a build (`+cpu`)."""
    ran = [one.view.found.versions.get("vllm", "") for one in studies]
    return frozenset(version.partition("+")[0] for text in ran for version in text.split(" / ") if version)


def _starts(one: Shown) -> Block:
    view = one.view
    said = _say_caches(view.found)
    if view.found.unmeasured:
        said.append(
            f"Starts that only filled caches enter no figure: {len(view.found.unmeasured)} "
            f"({', '.join(view.found.unmeasured)})."
        )
    if view.parts:
        said.append(
            f"The parts are those of one start of each level, {WHICH_START}: "
            f"{', '.join(part.launch_id for part in view.parts)}. They do not overlap, and each column adds up to its "
            "start."
        )
    said += [f"No parts of a start: {text}." for text in view.lost_logs]
    misfits = tuple(
        f"The log of {part.launch_id} lays out {part.wall_s:.1f} s, our own stamps {part.start_s:.1f} s: its clock "
        "does not fit, and its parts are not to be trusted."
        for part in view.parts
        if not part.fits
    )
    tables = [*list_by_kind(view.found, sheets.list_starts), *([sheets.list_parts(view.parts)] if view.parts else [])]
    first = view.found.first_requests
    if first["n"].sum():
        tables += list_by_kind(view.found, sheets.list_first_requests)
    elif len(first):
        said.append(f"What the first requests pay is not known: {'; '.join(dict.fromkeys(first['reason']))}.")
    pictures = (one.picture("starts"), one.picture("start_parts"))
    return Block(one.heading, tuple(said), misfits, tuple(tables), pictures, files=one.links("starts"))


def _say_caches(found: Findings) -> list[str]:
    """Say what cold and warm mean here: what was emptied before a start, and what was not."""
    cold = found.starts[(found.starts["cache"] == "cold") & (found.starts["n"] > 0)]
    said = [
        f"Before each cold start these caches were emptied: {emptied or 'none'}. Not emptied: {kept or 'nothing else'}."
        for emptied, kept in dict.fromkeys(zip(cold["emptied"], cold["not_emptied"], strict=True))
    ]
    if (found.starts["cache"] == "warm").any():
        said.append("Before a warm start nothing was emptied: it finds what earlier starts left.")
    return said


def _session(kind: str, title: str, studies: Iterable[Shown]) -> Section:
    blocks = tuple(_session_block(one, kind) for one in studies if one.view.found.session == kind)
    missing = f"Not measured: this edition has no {kind} session."
    return Section(kind, title, "" if blocks else missing, blocks)


def _session_block(one: Shown, kind: str) -> Block:
    found = one.view.found
    lacking = say_not_run(one.view.records)
    if not len(found.runs):
        return Block(one.heading, sentences=("No run was recorded: this study measured starts alone.", *lacking))
    tables = list_sessions(found, one.view.users)
    warnings = []
    heat = found.throttling
    if kind == "throttled":
        tables.append(sheets.list_throttling(found))
        if heat is not None and not heat.reached:
            warnings.append(f"This session was {say_throttling(heat)}.")
    elif heat is not None and heat.throttled:
        warnings.append(f"{capitalised(say_throttled_in_cooled(heat))}.")
    told = REASON_NOT_THROTTLED if say_never_throttled(found) else None
    warnings += [
        f"No figure of level {level}: {clean_text(why, LONGEST_CELL)}"
        for level, why in found.failed_levels.items()
        if told is None or not why.endswith(told)
    ]
    tables += [table for table in (list_reference(found, one.view.reference_lines), list_card_use(found)) if table]
    if len(found.left_out):
        tables.append(sheets.list_left_out(found))
    tables.append(sheets.list_runs(found))
    return Block(
        one.heading,
        sentences=(*say_kinds(found), *lacking, *say_reference(one.view.reference_lines)),
        warnings=tuple(warnings),
        sheets=tuple(tables),
        pictures=tuple(one.picture(key) for key in ("tpot", "requests", "clock", "order")),
        files=one.links("session", "session_figures", "runs", "run_cards", "left_out"),
    )


def _reading(one: Shown) -> Block:
    found = one.view.found
    if starts_alone(found):
        beside = "Starts alone were measured; their differences stand with what the start costs."
        return Block(one.heading, sentences=(beside,))
    said = say_method(found)
    biased = [text for text in said if text.startswith("METHOD BIASED")]
    users = one.view.users
    tables = (
        *(list_overall(found), list_pairs(found, users), list_host_bound(found, users)),
        list_across_cards(found, users),
    )
    return Block(
        one.heading,
        sentences=tuple(text for text in said if text not in biased),
        warnings=tuple(biased),
        sheets=tuple(table for table in tables if table is not None),
        pictures=(one.picture("costs"),),
        files=one.links("comparison_input", "cards"),
    )


def list_items(advice: Sequence[Advice]) -> list[Item]:
    """Return recommendations as they are printed."""
    return [
        Item(
            one.title,
            one.status.replace("_", " ") + (", preliminary" if one.preliminary else ""),
            one.sentences,
            f"Enough would be: {one.enough}." if one.enough else "",
            f"Rests on {', '.join(one.links)}." if one.links else "",
        )
        for one in advice
    ]


def _decide(one: Shown) -> Block:
    if starts_alone(one.view.found):
        asked = list_items([advice for advice in one.advice if advice.key == "restart_often"])
        pictures = (one.picture("served"),) if one.view.found.break_evens else ()
        alone = ("Starts alone were measured, so only this can be asked.",)
        return Block(one.heading, alone, pictures=pictures, items=tuple(asked))
    if say_never_throttled(one.view.found):
        tried = list_items([advice for advice in one.advice if advice.key in ("restart_often", "session_kind")])
        return Block(one.heading, ("No run counts, so only this can be asked.",), items=tuple(tried))
    items = list_items(one.advice)
    nothing = () if items else ("Not enough evidence to recommend anything.",)
    return Block(one.heading, sentences=nothing, pictures=(one.picture("served"),), items=tuple(items))


def _stamp(edition: str, one: Shown) -> Block:
    return Block(one.heading, sheets=(make_stamp(edition, one.view.found, one.view.records),))
