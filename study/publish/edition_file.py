"""`edition.yaml`: which studies an edition publishes, and which users. Written once; from then on a person's."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from study.design.parameters import Name, Users, read_yaml
from study.design.plain_files import show_value, shown
from study.errors import InputError

FILE_NAME = "edition.yaml"
_EDITION = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


OPTIONAL = ("switches", "switches_before", "claims", "claims_before")
"""Keys that a file need not have: an edition without them prints none of it."""


def _stays_inside(path: str) -> str:
    if Path(path).is_absolute() or ".." in Path(path).parts:
        raise ValueError("a path from the project's root works, such as data/reference/FILE.json")
    return path


Reference = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_stays_inside)]
"""A file's path from the project's root."""


class EditionFile(BaseModel):
    """What an edition publishes."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    edition: str = Field(min_length=1, max_length=64, description="printed in the stamp, as YYYY.MM")
    studies: list[Name] = Field(min_length=1, description="in the order printed")
    users: dict[str, list[Users] | None] = Field(
        default_factory=dict, description="printed, by study; null: as its last session asked, or all"
    )
    margin: float | None = Field(
        None, gt=0, lt=1, description="differences inside +-margin do not matter; null: as asked"
    )
    throttled_below_share: float | None = Field(
        None, gt=0, lt=1, description="of the highest SM clock: throttled below; null: as asked"
    )

    switches: Reference | None = Field(
        None, description="a resolved set on file, for levels of which no record tells (study switches --out)"
    )
    switches_before: Reference | None = Field(
        None, description="that of an older vLLM: what each level means in this release"
    )
    claims: Reference | None = Field(
        None, description="verdicts on a text's claims on file (study switches --check ... --out)"
    )
    claims_before: Reference | None = Field(None, description="earlier verdicts on the same claims")

    @model_validator(mode="after")
    def _fits_together(self) -> "EditionFile":
        for name in self.studies:
            if self.studies.count(name) > 1:
                raise ValueError(f"study '{name}' stands twice; name each once")
        for name in self.users:
            if name not in self.studies:
                raise ValueError(f"users are given for '{name}', which is not among the studies {self.studies}")
        for name in ("switches", "claims"):
            if getattr(self, f"{name}_before") and not getattr(self, name):
                raise ValueError(f"{name}_before needs {name} beside it: what is set against it")
        return self


def check_edition_name(edition: object) -> str:
    """Return the name of an edition's folder.

    Raises:
        InputError: a name that is no text, or that would leave `editions/`.

    """
    if isinstance(edition, str) and _EDITION.fullmatch(edition):
        return edition
    raise InputError(
        f"edition {edition!r} is no folder name; text of letters, digits, '.', '_' and '-' works, "
        'a version such as "2026.11" in quotes'
    )


def read_edition_file(folder: Path, edition: str, studies: Sequence[str]) -> EditionFile:
    """Read the edition's file, or make one of what was asked for where there is none (it is not written here).

    Args:
        folder: the edition's folder.
        edition: its name.
        studies: asked for, in order; none: those of the file, whose values win.

    Raises:
        InputError: an unusable file or name, or a study asked for that the file does not have.

    """
    path = folder / FILE_NAME
    if not os.path.lexists(path):
        if not studies:
            raise InputError(f"edition '{edition}' has no {FILE_NAME} yet; name the studies that it publishes")
        return _check({"edition": edition, "studies": list(studies)}, f"edition '{edition}'")
    found = _check(read_yaml(path), f"'{path}'")
    for name in studies:
        if name not in found.studies:
            raise InputError(
                f"study '{name}' is not in '{path}', which has {', '.join(found.studies)}; "
                "add it there or remove the file"
            )
    return found


def _check(values: Mapping[str, object], what: str) -> EditionFile:
    try:
        return EditionFile(**values)  # type: ignore[arg-type]  # pydantic checks each value
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(shown(part) for part in first["loc"])
        message = shown(first["msg"].removeprefix("Value error, "))
        if first["type"] == "string_type" and isinstance(first["input"], bool | int | float):
            message += "; put it in quotes"
        known = f"; known: {', '.join(EditionFile.model_fields)}" if first["type"] == "extra_forbidden" else ""
        value = f" {show_value(first['input'])}" if where and first["type"] != "missing" else ""
        raise InputError(f"{what}: {where}{value}{': ' if where else ''}{message}{known}") from None


def edition_yaml(file: EditionFile) -> str:
    """Return the text of an edition's file, each line with what it means."""
    values = file.model_dump()
    values["users"] = {name: values["users"].get(name) for name in file.studies}
    lines = ["# What this edition publishes. Written once; edit it, and build again: these values win."]
    for name, field in EditionFile.model_fields.items():
        if name in OPTIONAL and values[name] is None:
            continue
        lines.append(f"{name}: {json.dumps(values[name])}  # {field.description}")
    return "\n".join(lines) + "\n"
