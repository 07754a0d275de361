"""Numbers as the guide writes them: `60.36 / 61.07 ms`, `1,275 / 1,290 MHz`, `2.2 percent`.

A missing value is written as a dash; why it is missing stands elsewhere, beside the figure in its table. Halves are
rounded up, as in the 2026.10 edition: its 1,313 and 548 MHz are the middles of two clocks that are 15 MHz apart.
"""

import math
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal
from pathlib import PurePosixPath

from study.design.counting import plural
from study.errors import InputError

MISSING = "\N{EN DASH}"

Value = float | None


def format_ms(values: Sequence[Value]) -> str:
    """Write milliseconds, level by level: `60.36 / 61.07 ms`."""
    return _join(values, 2, " ms")


def format_mhz(values: Sequence[Value]) -> str:
    """Write clocks in MHz, level by level: `1,275 / 1,290 MHz`."""
    return _join(values, 0, " MHz")


def format_seconds(seconds: Value, digits: int = 2) -> str:
    """Write one time in seconds, as startup logs give them: `127.54 s`."""
    return _join([seconds], digits, " s")


def format_gib(gib: Value) -> str:
    """Write one size in GiB: `1.17 GiB`."""
    return _join([gib], 2, " GiB")


def format_count(count: Value) -> str:
    """Write a number of things: `613,024`."""
    return _join([count], 0, "")


def format_percent(percent: Value) -> str:
    """Write a percentage (2.2 is 2.2 %): `2.2 percent`; one below zero with a minus sign."""
    return _join([percent], 1, " percent").replace("-", "\N{MINUS SIGN}")


def _join(values: Sequence[Value], digits: int, unit: str) -> str:
    """Join numbers with ` / `; the unit stands once, and not at all where every value is missing."""
    written = [_write(value, digits) for value in values]
    return " / ".join(written) + ("" if all(text == MISSING for text in written) else unit)


def _write(value: Value, digits: int) -> str:
    """Write one number with thousands apart, halves up; None and NaN (pandas' null) as a dash.

    Raises:
        InputError: for an infinite value, which is no measurement.

    """
    if value is None or math.isnan(value):
        return MISSING
    if math.isinf(value):
        raise InputError(f"{value} cannot be printed; a finite number or a missing one works")
    # Through the shortest text of the number, so that 0.145 is a half and not a little less.
    rounded = Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP)
    return f"{abs(rounded) if rounded == 0 else rounded:,}"


def format_model(comparable: Mapping[str, object]) -> str:
    """Name the model that was served: a shape file by its stem, and random weights where they were.

    Args:
        comparable: `LaunchRecord.comparable`, of which `model` and `load_format` are read.

    """
    model = str(comparable.get("model", "not recorded"))
    name = f"the shape of {PurePosixPath(model).stem}" if model.endswith((".yaml", ".yml")) else model
    return f"{name} with random weights" if comparable.get("load_format") == "dummy" else name


def format_ends(least: str, greatest: str) -> str:
    """Write two ends, each with its unit, as `44.9 to 85.3 s`, or as one where they are written alike."""
    if least == greatest:
        return least
    _, space, unit = greatest.partition(" ")
    return f"{least.removesuffix(space + unit)} to {greatest}"


def capitalised(text: str) -> str:
    """Return text as a sentence begins; `str.capitalize` would lower the rest."""
    return text[0].upper() + text[1:]


def listed(items: Sequence[str]) -> str:
    """Join items: `a, b and c`."""
    return " and ".join([", ".join(items[:-1]), items[-1]] if len(items) > 1 else items)


def format_users(users: Sequence[int]) -> str:
    """Write numbers of users: `1 user`, `1, 8 and 64 users`."""
    return f"{listed([f'{count:,}' for count in users])} {plural('user', 1 if list(users) == [1] else 2)}"
