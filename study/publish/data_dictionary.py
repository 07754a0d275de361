"""The data dictionary: every field of a raw record and every column of a table, from the schema and the tables' code.

Types, and whether a field may be null, come from the JSON Schema of the records. What a field means comes from the
schema too where that says it, else from `templates/meanings.yaml`; a test holds that nothing is without a meaning.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import yaml

from study.analyze.cards_table import CARD_COLUMNS, RUN_CARD_COLUMNS
from study.analyze.first_requests import FIRST_REQUEST_COLUMNS
from study.analyze.level_tables import LEVEL_COLUMNS, START_COLUMNS
from study.analyze.tables import (
    COMPARISON_COLUMNS,
    LEFT_OUT_COLUMNS,
    RUN_COLUMNS,
    SESSION_COLUMNS,
    SESSION_FIGURE_COLUMNS,
)
from study.publish.sheets import Sheet
from study.store import schemas

UNITS = (
    *(("_unix_s", "s since 1970, UTC"), ("_gb_s", "GB/s"), ("_tflops", "TFLOP/s"), ("_mhz", "MHz"), ("_gib", "GiB")),
    *(("_ms", "ms"), ("_us", "\N{MICRO SIGN}s"), ("_ns", "ns"), ("_s", "s"), ("_c", "\N{DEGREE SIGN}C"), ("_w", "W")),
    *(("_j", "J"), ("_share", "share, 0 to 1"), ("_bytes", "bytes"), ("_s_per_request", "s per request")),
)
"""Ending of a name, and the unit that it stands for; the first that fits."""

TABLES: Mapping[str, Sequence[str]] = {
    "runs": RUN_COLUMNS,
    "comparison_input": COMPARISON_COLUMNS,
    "session": SESSION_COLUMNS,
    "session_figures": SESSION_FIGURE_COLUMNS,
    "levels": LEVEL_COLUMNS,
    "starts": START_COLUMNS,
    "first_requests": FIRST_REQUEST_COLUMNS,
    "left_out": LEFT_OUT_COLUMNS,
    "cards": CARD_COLUMNS,
    "run_cards": RUN_CARD_COLUMNS,
}
"""Every table of a study that is written as CSV, with its columns; the last ones only where there is something."""
SOMETIMES = ("cards", "run_cards")
"""Tables of a study on several kinds of card, and of one whose servers are on several cards each."""

MACHINE_BOUND = 10**15
NEVER = "never null"
EMPTY = "empty: there is none"


@dataclass(frozen=True)
class Field:
    """One field of a record, or one column of a table; `means` is empty where nobody wrote down what it is."""

    name: str
    kind: str
    unit: str
    means: str
    null: str


@dataclass(frozen=True)
class Part:
    """A kind of record, a part of one, or a table: its name, what it is, and its fields."""

    name: str
    about: str
    fields: tuple[Field, ...]

    def sheet(self) -> Sheet:
        """Lay it out as a table."""
        rows = tuple((one.name, one.means, one.kind, one.unit, one.null) for one in self.fields)
        return Sheet(self.name, ("field", "what it is", "type", "unit", "what null means"), rows)


def describe_records() -> list[Part]:
    """Return every kind of record and every part that records are made of: kinds first, parts by name."""
    meanings = read_meanings()["records"]
    kinds: list[Part] = []
    parts: dict[str, Part] = {}
    for text in schemas().values():
        schema = json.loads(text)
        kinds.append(_describe(schema["properties"]["kind"]["const"], schema, meanings))
        for name, part in schema.get("$defs", {}).items():
            parts[name] = _describe(name, part, meanings)
    return [*kinds, *(parts[name] for name in sorted(parts))]


def describe_tables() -> list[Part]:
    """Return every table with its columns."""
    meanings = read_meanings()["tables"]
    return [
        Part(
            name,
            f"One CSV and one JSON file: `{name}.csv`, `{name}.json`.",
            tuple(_column(column, {**meanings["any"], **meanings[name]}) for column in columns),
        )
        for name, columns in TABLES.items()
    ]


def read_meanings() -> dict[str, Any]:
    """Return `templates/meanings.yaml`: `records` and `tables`, each a mapping of kind to field to meaning."""
    text = (files("study.publish") / "templates" / "meanings.yaml").read_text(encoding="utf-8")
    found: dict[str, Any] = yaml.safe_load(text)
    return found


def list_unexplained(parts: Sequence[Part]) -> Iterator[str]:
    """Name every field that has no meaning, as `run.users`; one that may be null and does not say what that means."""
    for part in parts:
        for one in part.fields:
            if not one.means:
                yield f"{part.name}.{one.name}"
            if not one.null:
                yield f"{part.name}.{one.name}: null"


def say_type(schema: Mapping[str, Any]) -> str:
    """Write the type of one field of a JSON Schema in words: `list of number`, `one of cooled, throttled`."""
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(say_type(one) for one in schema["anyOf"] if one.get("type") != "null"))
    if "const" in schema:
        return f"always {schema['const']}"
    if "enum" in schema:
        return f"one of {', '.join(str(one) for one in schema['enum'])}"
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    kind = schema.get("type")
    if kind == "array":
        return f"list of {say_type(schema.get('items', {}))}"
    if kind == "object":
        inner = schema.get("additionalProperties")
        return f"map of text to {say_type(inner) if isinstance(inner, dict) else 'any value'}"
    return _TYPES.get(str(kind), "any value") + _say_limits(schema)


_TYPES = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}


def _say_limits(schema: Mapping[str, Any]) -> str:
    """Write what a number may be: `, 1 to 4096`; empty without limits."""
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    # A bound of the machine's own numbers says nothing to a reader.
    high = None if high is not None and high >= MACHINE_BOUND else high
    said = [
        *([] if low is None else [f"{'above' if 'exclusiveMinimum' in schema else 'from'} {low:,}"]),
        *([] if high is None else [f"{'below' if 'exclusiveMaximum' in schema else 'to'} {high:,}"]),
    ]
    return f", {' '.join(said)}" if said else ""


def unit_of(name: str) -> str:
    """Return the unit that a name's ending stands for; empty for a name without one."""
    longest_first = sorted(UNITS, key=lambda one: -len(one[0]))
    return next((unit for ending, unit in longest_first if name.endswith(ending)), "")


def _describe(name: str, schema: Mapping[str, Any], meanings: Mapping[str, Any]) -> Part:
    known = {**meanings["any"], **meanings.get(name, {})}
    fields = []
    for field, one in schema["properties"].items():
        says = _as_mapping(known.get(field))
        nullable = any(kind.get("type") == "null" for kind in one.get("anyOf", ()))
        fields.append(
            Field(
                field,
                say_type(one),
                says.get("unit", unit_of(field)),
                says.get("means") or one.get("description", ""),
                says.get("null", "") if nullable else NEVER,
            )
        )
    return Part(name, " ".join(str(schema.get("description", "")).split()), tuple(fields))


def _column(name: str, known: Mapping[str, Any]) -> Field:
    says = _as_mapping(known.get(name))
    unit = says.get("unit", unit_of(name))
    kind = says.get("kind", "number" if unit else "text")
    return Field(name, kind, unit, says.get("means", ""), says.get("null", EMPTY))


def _as_mapping(value: object) -> dict[str, str]:
    return value if isinstance(value, dict) else {"means": value} if isinstance(value, str) else {}
