"""YAML as a person writes it: mappings, lists, text, numbers, true and false, null. Everything else is refused.

YAML 1.1 has traps that change a value in silence (`010` is 8, `1:30` is 90, `no` is false, `2026-11-01` is a date) and
traps that fill the memory (aliases of aliases). Each is refused with its field, and with what to write instead.
"""

import math
import re
from typing import Any

import yaml

from study.design.plain_files import MOST_DIGITS, shown
from study.errors import InputError

MOST_DEPTH = 30
MOST_YAML_CHARS = 256 * 1024
"""The parser reads about 100,000 characters a second."""

_TAG = "tag:yaml.org,2002:"
_WHOLE = re.compile(r"[-+]?(?:0|[1-9][0-9_]*)")
_WITH_EXPONENT = re.compile(r"[-+]?[0-9][0-9_]*(?:\.[0-9_]*)?[eE][-+]?[0-9]+")
_KINDS = {"bool": "true or false", "int": "a number", "float": "a number", "null": "null", "timestamp": "a date"}


def parse_yaml(text: str, what: str) -> Any:  # noqa: ANN401 (any plain value)
    """Return the value that a YAML text holds: dict with text as keys, list, str, int, float, bool or None.

    Args:
        text: one YAML document.
        what: names the text in an error.

    Raises:
        InputError: it is no such YAML; one line that names the field, or the line, and what would work.

    """
    if len(text) > MOST_YAML_CHARS:
        raise InputError(f"{what} has {len(text):,} characters; at most {MOST_YAML_CHARS:,} are read")
    try:
        # A Loader of its own: its nodes are turned into values here, nothing is constructed by a tag.
        loader = _BoundedLoader(text)
        node = loader.get_single_node()
        return None if node is None else _value_of(node, "")
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        said = shown(" ".join(part for part in (error.context, error.problem) if part))
        raise InputError(f"{what} is not readable YAML: {said}{where}") from None
    except yaml.YAMLError as error:
        raise InputError(f"{what} is not readable YAML: {shown(' '.join(str(error).split()))}") from None
    except ValueError as error:
        raise InputError(f"{what} is not readable YAML: {error}") from None


class _BoundedLoader(yaml.SafeLoader):
    """Composes nodes of a bounded depth without aliases, so that a small text cannot become a large value."""

    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:  # noqa: ANN401 (as its parent)
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, f"the alias '*{event.anchor}' is not read; write its value out", event.start_mark
            )
        self.depth += 1
        if self.depth > MOST_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, f"it is nested more than {MOST_DEPTH} deep", mark)
        node: yaml.Node | None = super().compose_node(parent, index)
        self.depth -= 1
        return node


def _value_of(node: yaml.Node, where: str) -> Any:  # noqa: ANN401 (any plain value)
    field = f"field '{where}'" if where else "the text"
    if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
        values: dict[str, Any] = {}
        for key_node, value_node in node.value:
            name = _key_of(key_node, field)
            if name in values:
                raise ValueError(f"'{shown(name)}' stands twice; keep one")
            values[name] = _value_of(value_node, f"{where}.{shown(name)}" if where else shown(name))
        return values
    if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
        return [_value_of(item, f"{where}[{place}]") for place, item in enumerate(node.value)]
    if isinstance(node, yaml.ScalarNode):
        return _scalar_of(node, field)
    raise ValueError(f"{field} has the tag {shown(node.tag)}, which is not read; write plain values")


def _key_of(node: yaml.Node, field: str) -> str:
    kind = node.tag.removeprefix(_TAG)
    if isinstance(node, yaml.ScalarNode) and kind == "str":
        return _text_of(node, field)
    if kind == "merge":
        raise ValueError(f"{field}: merge keys (<<) are not read; write the lines out")
    if isinstance(node, yaml.ScalarNode) and kind in _KINDS:
        raise ValueError(f"{field}: the name {shown(node.value)} is {_KINDS[kind]} to YAML; put it in quotes")
    raise ValueError(f"{field} has a name that is no text (line {node.start_mark.line + 1})")


def _scalar_of(node: yaml.ScalarNode, field: str) -> str | int | float | bool | None:
    kind, text = node.tag.removeprefix(_TAG), node.value
    if kind == "str":
        if node.style is None and _WITH_EXPONENT.fullmatch(text):
            raise ValueError(f"{field}: {text} is text to YAML; write the number without an exponent, or quotes")
        return _text_of(node, field)
    if kind == "null":
        return None
    if kind == "bool":
        return _boolean_of(text, field)
    if kind == "int":
        if not _WHOLE.fullmatch(text) or len(text) > MOST_DIGITS:
            raise ValueError(f"{field}: {shown(text)} is a number in another notation to YAML; write its plain digits")
        return int(text.replace("_", ""))
    if kind == "float":
        return _float_of(text, field)
    if kind == "timestamp":
        raise ValueError(f"{field}: {shown(text)} is a date to YAML; put it in quotes")
    raise ValueError(f"{field} has the tag {shown(node.tag)}, which is not read; write plain values")


def _boolean_of(text: str, field: str) -> bool:
    value = yaml.SafeLoader.bool_values.get(text.lower())
    if value is None:
        raise ValueError(f"{field}: {shown(text)} is neither true nor false")
    return bool(value)


def _float_of(text: str, field: str) -> float:
    try:
        value = float(re.sub(r"\.(inf|nan)$", r"\1", text.replace("_", "").lower()))
    except ValueError:
        raise ValueError(f"{field}: {shown(text)} is a number in another notation to YAML; write its digits") from None
    if not math.isfinite(value):
        raise ValueError(f"{field}: {shown(text)} is no finite number")
    return value


def _text_of(node: yaml.ScalarNode, field: str) -> str:
    text = str(node.value)
    if "\0" in text or any("\ud800" <= one <= "\udfff" for one in text):
        raise ValueError(f"{field} holds NUL or half a character (a lone surrogate)")
    return text
