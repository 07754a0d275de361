"""Evidence in words: values, calls and refusals of the installed vLLM, in one line that is the same at each check."""

import enum
import re
from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from study.design.claims import Accepts, Configured, Refuses
from study.measure.resolve_levels import UnusableFlagsError

_ADVICE = re.compile(r"^\s*For further information visit .*$", re.MULTILINE)
_INPUT = re.compile(r"\[type=\w+, input_value=.*\]")
REASON_LENGTH = 300
"""Characters of a reason; what is longer is cut."""


class NotThereError(Exception):
    """The installed package has no such module, object or field; the message says so, with the nearest there is."""


def explain_refusal(error: BaseException) -> str:
    """Return vLLM's reason in one line, without what differs from run to run."""
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return shorten(f"{error.title}: {f'{where}: ' if where else ''}{first['msg'].removeprefix('Value error, ')}")
    text = shorten(_INPUT.sub("", _ADVICE.sub("", str(error))))
    return text if isinstance(error, UnusableFlagsError) else f"{type(error).__name__}: {text}"


def same_value(value: Any, wanted: Any) -> bool:  # noqa: ANN401 (any value)
    """Tell whether a value is the wanted one; a member of an enumeration may be wanted by its name or its value."""
    if isinstance(value, enum.Enum) and isinstance(wanted, str):
        return value.name == wanted.upper()
    plain, other = plain_value(value), plain_value(wanted)
    return bool(plain == other) and isinstance(plain, bool) == isinstance(other, bool)


def plain_value(value: Any) -> Any:  # noqa: ANN401 (any value)
    """Return a value as YAML would hold it: members by their value, tuples as lists."""
    if isinstance(value, enum.Enum):
        return plain_value(value.value)
    return [plain_value(one) for one in value] if isinstance(value, tuple | list) else value


def say_value(value: Any) -> str:  # noqa: ANN401 (any value)
    """Write a value: a member of an enumeration by its name."""
    if isinstance(value, enum.Enum):
        return value.name
    return shorten("null" if value is None else str(value).lower() if isinstance(value, bool) else str(value))


def say_asked(check: Configured) -> str:
    """Write what is asked for, as a user would."""
    said = [f"{name}={value}" for name, value in check.environment.items()]
    if check.llm is not None:
        return " ".join([*said, _say_arguments("LLM", check.llm)])
    return f"`{' '.join([*said, *check.flags])}`" if said or check.flags else "with no flag"


def say_call(check: Accepts | Refuses) -> str:
    """Write a call."""
    return say_asked(check) if check.call == "server" else _say_arguments(check.call, check.arguments)


def _say_arguments(name: str, arguments: Mapping[str, Any]) -> str:
    return f"{name}({', '.join(f'{key}={value!r}' for key, value in arguments.items())})"


def shorten(text: str) -> str:
    """Return text in one line of at most `REASON_LENGTH` characters."""
    line = " ".join(text.split())
    return line if len(line) <= REASON_LENGTH else f"{line[: REASON_LENGTH - 3]}..."
