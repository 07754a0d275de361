"""The data dictionary: all fields and no others, with types and nulls as records on file have them."""

import csv
import json
from pathlib import Path

import pytest

from study.publish.data_dictionary import (
    NEVER,
    SOMETIMES,
    TABLES,
    describe_records,
    describe_tables,
    list_unexplained,
    read_meanings,
    say_type,
    unit_of,
)
from study.publish.site_pages import write_dictionary_page, write_levels_page, write_parameters_page
from study.record_files import open_record, read_unpacked
from study.store import Store

ROOT = Path(__file__).parents[1]
STUDY = "2026-11-h200-cooled"
PROCESSED = ROOT / "data" / "processed" / STUDY


def test_every_field_of_every_record_and_table_is_explained():
    assert list(list_unexplained([*describe_records(), *describe_tables()])) == []


@pytest.mark.parametrize(("kind", "parts"), [("records", describe_records()), ("tables", describe_tables())])
def test_no_meaning_is_of_a_field_that_is_gone(kind, parts):
    fields = {part.name: {one.name for one in part.fields} for part in parts}
    for name, known in read_meanings()[kind].items():
        there = set().union(*fields.values()) if name == "any" else fields[name]
        assert set(known) <= there, name


def test_every_kind_of_record_is_there_with_its_parts():
    names = [part.name for part in describe_records()]
    assert names[:3] == ["launch", "run", "session"]
    assert {"Machine", "Gate", "Telemetry", "Requests", "Load", "Outcome", "ServerView", "Canary"} <= set(names)


def test_a_record_on_file_has_these_fields():
    parts = {part.name: {one.name for one in part.fields} for part in describe_records()}
    for name in ("launch-b1-default-a1", "run-b1-default-u8-a1", "session-1"):
        found = json.loads(read_unpacked(ROOT / "data/raw" / STUDY / f"{name}.json"))
        assert set(found) <= parts[found["kind"]]
    assert set(found["missing"]) == set()


def test_what_is_never_null_is_never_null_in_a_record_on_file():
    never = {part.name: [one.name for one in part.fields if one.null == NEVER] for part in describe_records()}
    store = Store(ROOT / "data", STUDY)
    for path in (path for kind in ("launch", "run", "session") for path in store.record_files(kind)):
        record = json.loads(open_record(path).content)
        assert [name for name in never[record["kind"]] if record.get(name, "") is None] == []


def test_the_tables_on_file_are_the_ones_described():
    assert {path.stem for path in PROCESSED.glob("*.csv")} == set(TABLES) - set(SOMETIMES)


ON_FILE = [part for part in describe_tables() if part.name not in SOMETIMES]


@pytest.mark.parametrize("part", ON_FILE, ids=lambda part: part.name)
def test_columns_hold_what_their_type_says(part):
    holds = {"number": float, "whole number": int, "true or false": {"True": 1, "False": 0}.__getitem__, "text": str}
    with (PROCESSED / f"{part.name}.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    for one in part.fields:
        cells = [row[one.name] for row in rows if one.name in row]
        for cell in filter(None, cells):
            holds[one.kind](cell)
        if one.null == NEVER:
            assert "" not in cells, one.name


@pytest.mark.parametrize(
    ("name", "unit"),
    [
        *[("spawn_unix_s", "s since 1970, UTC"), ("waited_s", "s"), ("median_tpot_ms", "ms"), ("idle_c", "°C")],
        *[("max_sm_clock_mhz", "MHz"), ("power_limit_w", "W"), ("memory_gib", "GiB"), ("copy_gb_s", "GB/s")],
        ("gemm_tflops", "TFLOP/s"),
        *[("witness_us", "µs"), ("power_capped_s_per_request", "s per request"), ("level", ""), ("fingerprint", "")],
    ],
)  # fmt: skip
def test_units_come_from_the_ends_of_names(name, unit):
    assert unit_of(name) == unit


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": "string"}, "text"),
        ({"anyOf": [{"type": "number"}, {"type": "null"}]}, "number"),
        ({"type": "array", "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]}}, "list of whole number"),
        ({"enum": ["warm", "cold"], "type": "string"}, "one of warm, cold"),
        ({"type": "object", "additionalProperties": {"type": "string"}}, "map of text to text"),
        ({"type": "object", "additionalProperties": True}, "map of text to any value"),
        ({"$ref": "#/$defs/Gate"}, "Gate"),
        ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, "number, above 0 below 1"),
        ({"type": "integer", "minimum": 1, "maximum": 2**64}, "whole number, from 1"),
    ],
)
def test_types_are_words(schema, said):
    assert say_type(schema) == said


def test_no_page_shows_what_python_calls_a_type():
    for text in (write_parameters_page(ROOT), write_levels_page(ROOT), write_dictionary_page()):
        assert "FieldInfo" not in text
        assert "Annotated" not in text
        assert "None" not in text.replace("NONE", "")
