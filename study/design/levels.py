"""Levels: named sets of server flags under study. They are data, under `notebooks/parameters/levels/`."""

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from study.design.parameters import read_yaml
from study.errors import InputError, suggest

LEVELS_DIR = Path("notebooks/parameters/levels")


class Level(BaseModel):
    """One level, as its file describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,39}$")
    flags: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    use_for: str = ""
    run_length_factor: float = Field(1.0, ge=1)
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
        try:
            levels[str(name)] = Level(name=str(name), **(fields or {}))
        except (ValidationError, TypeError) as error:
            first = error.errors()[0] if isinstance(error, ValidationError) else {"loc": (), "msg": str(error)}
            where = ".".join(str(part) for part in first["loc"])
            raise InputError(f"level '{name}' in '{path}': {where}: {first['msg']}") from None
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
        path = folder / asked if (folder / asked).is_file() else root / asked
        if not path.is_file() and not asked.endswith((".yaml", ".yml")):
            raise InputError(f'levels: {asked!r} is no file; name levels as a list: -y "levels: [{asked}]"')
        return tuple(read_levels(path).values())
    known: dict[str, Level] = {}
    for path in sorted(folder.glob("*.yaml")):
        known = {**read_levels(path), **known}
    for name in asked:
        if name not in known:
            raise InputError(f"level '{name}' is unknown{suggest(name, known)}")
    return tuple(known[name] for name in asked)
