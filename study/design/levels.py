"""Levels: named sets of server flags under study. They are data, under `notebooks/parameters/levels/`."""

import json
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from study.design.parameters import read_yaml
from study.design.plain_files import explain_fields, is_file, show_value, shown
from study.errors import InputError, suggest

LEVELS_DIR = Path("notebooks/parameters/levels")


class Level(BaseModel):
    """One level, as its file describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")
    flags: tuple[str, ...] = ()
    llm: dict[str, Any] = {}
    """The same level for a user of the Python API: keyword arguments of `vllm.LLM(model, ...)`."""
    environment: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str] = {}
    use_for: str = ""
    run_length_factor: float = Field(1.0, ge=1, le=100)
    """Times `min_run_s`: a level that launches every kernel from the host scatters and needs longer runs."""
    fills_caches: bool = False
    """Whether an unmeasured start comes first, to fill the caches: levels that compile or capture."""
    warmed_by: tuple[str, ...] = ()
    """Levels whose unmeasured start fills this one's caches too."""
    expect: dict[str, Any] = {}
    """What the resolved configuration must say (dotted path to value) for the level to have run as asked."""


def read_levels(path: Path) -> dict[str, Level]:
    """Read one level file: a mapping of level name to its fields.

    Raises:
        InputError: the file or a level in it is unusable.

    """
    levels = {}
    for name, fields in read_yaml(path).items():
        where = f"level '{shown(name)}' in '{shown(path)}'"
        if fields is not None and not isinstance(fields, dict):
            raise InputError(f"{where} is {show_value(fields)}; it needs lines such as 'flags: [-O1]', or none")
        if "name" in (fields or {}):
            raise InputError(f"{where}: field 'name' is its own name; leave it out")
        try:
            # As JSON, so that lists are taken for tuples while no text is taken for a number or for true.
            levels[name] = Level.model_validate_json(json.dumps({"name": name, **(fields or {})}), strict=True)
        except ValidationError as error:
            raise InputError(f"{where}: {explain_fields(error)}") from None
    return levels


def select_levels(asked: list[str] | str, root: Path) -> tuple[Level, ...]:
    """Return the levels that a study asks for, in its order.

    Args:
        asked: level names, looked up in every file of the levels folder; or one file, taken whole.
        root: the project's root.

    Raises:
        InputError: an unknown level (with the nearest known name) or an unreadable file.

    """
    folder = root / LEVELS_DIR
    if isinstance(asked, str):
        path = folder / asked if is_file(folder / asked) else root / asked
        if not is_file(path) and not asked.endswith((".yaml", ".yml")):
            given = shown(asked)
            raise InputError(f'levels: {given!r} is no file; name levels as a list: -y "levels: [{given}]"')
        return tuple(read_levels(path).values())
    known: dict[str, Level] = {}
    for path in sorted(folder.glob("*.yaml")):
        known = {**read_levels(path), **known}
    for name in asked:
        if name not in known:
            raise InputError(f"level '{shown(name)}' is unknown{suggest(shown(name), known)}")
    return tuple(known[name] for name in asked)
