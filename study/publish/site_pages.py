"""Pages of the site that are generated whole: parameters, level sets, data dictionary."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from study.analyze.formats import MISSING
from study.design.levels import LEVELS_DIR, Level, read_levels
from study.design.parameters import COMPARABLE, Parameters, describe_parameters, read_yaml
from study.publish.data_dictionary import Part, describe_records, describe_tables, say_type, unit_of
from study.publish.plain_text import escape_markdown
from study.publish.sheets import Sheet
from study.publish.site_markdown import join_blocks, write_sheet

PARAMETERS_DIR = Path("notebooks/parameters")


def write_parameters_page(root: Path) -> str:
    """Return the page of parameters: every one in one table, and the files on hand that hold some."""
    properties = Parameters.model_json_schema()["properties"]
    rows = [
        (
            row["name"],
            row["help"],
            say_type(properties[row["name"]]),
            unit_of(row["name"]),
            row["default"],
            "yes" if row["name"] in COMPARABLE else "no",
        )
        for row in describe_parameters()
    ]
    head = ("name", "what it is", "type", "unit", "default", "runs must share it")
    return join_blocks(
        "# Parameters",
        "A notebook's parameters cell, the YAML files under `notebooks/parameters/` and "
        "`python -m study run --set name=value` take the same names. A default is written as JSON. An unknown name or "
        "a wrong type is refused, with the nearest name that works. Runs are only compared where they share what the "
        "last column says: it makes the study's fingerprint.",
        write_sheet(Sheet("Every parameter", head, tuple(rows))),
        "## Files on hand",
        write_sheet(_list_files(root)),
    )


def _list_files(root: Path) -> Sheet:
    """Lay out the parameter files: which study each measures."""
    rows = []
    for path in sorted((root / PARAMETERS_DIR).glob("*.yaml")):
        found = read_yaml(path)
        asked = {name: found.get(name, field.get_default(call_default_factory=True, validated_data={}))
                 for name, field in Parameters.model_fields.items()}  # fmt: skip
        levels = asked["levels"]
        rows.append(
            (
                str(path.relative_to(root)),
                str(asked["study"]),
                f"{asked['session']}, {asked['measure']}" + (f", {asked['cache']}" if asked["cache"] == "cold" else ""),
                ", ".join(levels) if isinstance(levels, list) else str(levels),
                ", ".join(str(users) for users in asked["users"]),
                f"{len(asked['seeds'])}",
                "rehearsal, never a result" if asked["device"] == "cpu" else "GPU",
            )
        )
    head = ("file", "study", "session", "levels", "users", "blocks", "runs on")
    return Sheet("Parameter files", head, tuple(rows))


def write_levels_page(root: Path) -> str:
    """Return the page of level sets: every level of every file, with what must be true for it to have run as asked."""
    blocks = [
        "# Level sets",
        "A level is data: flags and environment of a server, and what its resolved configuration must show "
        "(`expect`) for the level to have run as asked. A file of your own under `notebooks/parameters/levels/`, or "
        "named by its path, works the same way.",
    ]
    for path in sorted((root / LEVELS_DIR).glob("*.yaml")):
        blocks += [f"## {path.stem}", write_sheet(_list_levels(path, read_levels(path).values()))]
    return join_blocks(*blocks)


def _list_levels(path: Path, levels: Iterable[Level]) -> Sheet:
    head = ("level", "flags", "environment", "what it is for", "times min_run_s", "fills caches", "expect")
    rows = [
        (
            one.name,
            " ".join(one.flags) or "none",
            ", ".join(f"{name}={value}" for name, value in one.environment.items()) or "none",
            one.use_for or MISSING,
            f"{one.run_length_factor:g}",
            "yes" + (f", or {', '.join(one.warmed_by)} does" if one.warmed_by else "") if one.fills_caches else "no",
            "; ".join(f"{name} = {json.dumps(value)}" for name, value in one.expect.items()) or MISSING,
        )
        for one in levels
    ]
    return Sheet(f"Levels of {path.name}", head, tuple(rows))


def write_dictionary_page() -> str:
    """Return the data dictionary: every kind of record, its parts, and every table's columns."""
    return join_blocks(
        "# Data dictionary",
        "A raw record is one JSON file, written once: a *launch* is one server from spawn to stop, a *run* one load "
        "on it, a *session* what was asked for. Times whose names end in `_s` are seconds on the machine's monotonic "
        "clock, or lengths of time; only names with `unix` are wall clock. A field that is null has its reason under "
        "its name in `missing`, in the same part of the record. Nothing is ever 0 because it is missing.",
        "The tables are built from the records and can be built again at any time. In CSV a figure that is missing "
        "is an empty cell, in JSON it is `null`.",
        "## Records",
        *_write_entries(describe_records()),
        "## Tables",
        *_write_entries(describe_tables()),
    )


def _write_entries(entries: Sequence[Part]) -> Iterable[str]:
    for one in entries:
        yield f"### {escape_markdown(one.name)}"
        yield one.about.replace("<", "&lt;")
        yield write_sheet(one.sheet(), title=False)
