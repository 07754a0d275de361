"""Whether the installed vLLM takes a command line, and which name it has that is nearest. To be called in its child."""

import dataclasses
import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from study.measure.resolve_levels import REFUSALS, say_refusal

LEVEL_FLAG = re.compile(r"-O=?\d*$")


def find_problem(parser: Any, request: Mapping[str, Any]) -> str | None:  # noqa: ANN401
    """Return one line about the first flags that vLLM does not take, and whose they are; None: it takes all.

    Args:
        parser: vLLM's own.
        request: `ask` (flags: values are checked too, otherwise those of levels are left to the levels), `flags` of
            every server, and `levels`, each with name and flags.

    """
    explain = explain_flags if request["ask"] == "flags" else find_unknown_flag
    said = [("server_flags", explain_flags(parser, request["flags"]))]
    said += [(f"level '{level['name']}'", explain(parser, level["flags"])) for level in request["levels"]]
    return next((f"{whose}: {problem}" for whose, problem in said if problem), None)


def explain_flags(parser: Any, flags: Sequence[str]) -> str | None:  # noqa: ANN401
    """Return one line about what vLLM does not take of a command line, with the nearest name; None: it takes all.

    Args:
        parser: vLLM's own.
        flags: of a server, without its model.

    """
    try:
        parsed = parser.parse_args(list(flags))
    except REFUSALS as error:
        return find_unknown_flag(parser, flags) or f"vLLM does not take {' '.join(flags)}: {say_refusal(error)}"
    tag = getattr(parsed, "model_tag", None)
    return None if tag is None else f"'{tag}' is no flag and no value of one"


def find_unknown_flag(parser: Any, flags: Iterable[str]) -> str | None:  # noqa: ANN401
    """Return one line about the first flag whose name the parser does not have, with the nearest that it has."""
    options: dict[str, Any] = parser._option_string_actions
    for flag in flags:
        if not re.match(r"--?[A-Za-z]", flag) or LEVEL_FLAG.match(flag):
            continue
        name, *path = flag.split("=", 1)[0].rstrip("+").split(".")
        name = name.replace("_", "-") if name.startswith("--") else name
        if name not in options and not (name.startswith("--") and any(one.startswith(name) for one in options)):
            return f"vLLM has no flag '{flag.split('=', 1)[0]}'{_nearest(name, options, '.'.join(['', *path]))}"
        unknown = _unknown_part(parser.get_default(options[name].dest), path) if name in options else None
        if unknown:
            wrong, known = unknown
            head = ".".join([name, *path[: path.index(wrong)]])
            return f"vLLM has no flag '{flag.split('=', 1)[0]}'{_nearest(wrong, known, '', f'{head}.')}"
    return None


def _nearest(name: str, known: Iterable[str], tail: str, head: str = "") -> str:
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f"; did you mean '{head}{near[0]}{tail}'?" if near else f"; no name of vLLM is near '{name}'"


def _unknown_part(default: Any, path: Sequence[str]) -> tuple[str, list[str]] | None:  # noqa: ANN401
    """Return the first part of a dotted flag that its configuration has no field for, and the fields it has.

    Args:
        default: the configuration that the parser starts from; without one nothing can be said.
        path: the parts behind the flag's name.

    """
    value = default
    for part in path:
        if not dataclasses.is_dataclass(value):
            return None  # a plain dictionary takes any name
        known = [field.name for field in dataclasses.fields(value)]
        if part not in known:
            return part, known
        value = getattr(value, part, None)
    return None
