"""Reads a claims file; what does not fit is one line that names the claim, the key and the nearest that would work."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from study.design.claims import KINDS, Claim, ClaimsFile, Correct
from study.design.parameters import read_yaml
from study.errors import InputError, suggest

_LISTS = ("check", "substance")


def read_claims(path: Path) -> ClaimsFile:
    """Read a claims file (YAML).

    Raises:
        InputError: one line that names the claim, the key and, for a misspelt one, the nearest.

    """
    if not path.is_file():
        raise InputError(f"claims file '{path}' does not exist; data/reference/ has one")
    values = _plain(read_yaml(path))
    try:
        return ClaimsFile.model_validate(values)
    except ValidationError as error:
        raise InputError(f"'{path}': {_explain(error, values)}") from None


def _plain(values: Any) -> Any:  # noqa: ANN401 (YAML)
    """Make lists of single checks."""
    if isinstance(values, Mapping):
        plain = {name: _plain(value) for name, value in values.items()}
        return {name: [value] if name in _LISTS and isinstance(value, dict) else value for name, value in plain.items()}
    return [_plain(value) for value in values] if isinstance(values, list) else values


def _explain(error: ValidationError, values: Mapping[str, Any]) -> str:
    """Return one line for the first thing that does not fit."""
    first = error.errors()[0]
    loc = [part for part in first["loc"] if part not in KINDS]
    where = _say_where(loc, values)
    last = str(loc[-1]) if loc else ""
    if first["type"] == "extra_forbidden":
        return f"{_say_where(loc[:-1], values)}'{last}' is unknown{suggest(last, _known_keys(first['loc']))}"
    if first["type"] == "union_tag_invalid":
        kind = first["ctx"]["tag"]
        return f"{where}kind '{kind}' is unknown{suggest(str(kind), KINDS)}"
    if first["type"] == "union_tag_not_found":
        return f"{where}a check needs its kind; known: {', '.join(sorted(KINDS))}"
    if first["type"] == "missing":
        return f"{_say_where(loc[:-1], values)}'{last}' is missing"
    return f"{where}{first['msg'].removeprefix('Value error, ')}"


def _known_keys(loc: tuple[int | str, ...]) -> list[str]:
    """Return the keys that a place of the file may have."""
    model: type[BaseModel] = ClaimsFile
    for part in loc[:-1]:
        if part == "claims":
            model = Claim
        elif part == "correct":
            model = Correct
        elif part in KINDS:
            model = KINDS[str(part)]
    return list(model.model_fields)


def _say_where(loc: list[int | str], values: Mapping[str, Any]) -> str:
    """Write a place: `claim 'flags': check 2: expect: `; the top of the file is nothing."""
    said = []
    rest = loc
    if loc[:1] == ["claims"] and len(loc) > 1:
        said.append(f"claim {_name_claim(values, loc[1])}")
        rest = loc[2:]
    for part in rest:
        if isinstance(part, int):
            said[-1] += f" {part + 1}"
        else:
            said.append(str(part))
    return "".join(f"{text}: " for text in said)


def _name_claim(values: Mapping[str, Any], place: int | str) -> str:
    claims = values.get("claims")
    one = claims[place] if isinstance(claims, list) and isinstance(place, int) else None
    return f"'{one['id']}'" if isinstance(one, Mapping) and "id" in one else str(place)
