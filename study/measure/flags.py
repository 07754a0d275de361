"""Refuses flags that the installed vLLM does not take: before hours are spent, at nearly no time of the session's.

vLLM's parser tells, and vLLM's import takes some eight seconds. A load client imports it anyway, while the first server
starts, and a tenth of a second later it has the answer too. Only where starts themselves are measured, which nothing
may disturb, a process of its own is asked ahead of them.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from study.design.levels import Level
from study.errors import InputError, LoadError
from study.measure.load import IMPORT_DEADLINE_S, Client
from study.measure.resolve import ask_child
from study.measure.setting import Setting


def request_of(levels: Sequence[Level], server_flags: Sequence[str]) -> dict[str, Any]:
    """Return what is asked of vLLM's parser: the flags of every server and of every level, JSON-ready."""
    asked = [{"name": level.name, "flags": list(level.flags)} for level in levels]
    return {"ask": "flags", "card": None, "inspected": True, "flags": list(server_flags), "levels": asked}


def check_known_flags(levels: Sequence[Level], server_flags: Sequence[str], root: Path) -> None:
    """Check the flags of every level, and those of every server, with the installed vLLM's own argument parser.

    It takes as long as vLLM's import, about ten seconds.

    Raises:
        InputError: a flag that vLLM does not take, with the nearest name that it has, or vLLM is not installed.
        StudyError: vLLM could not be asked.

    """
    ask_child(request_of(levels, server_flags), root)


def hear_about_flags(setting: Setting, clients: Sequence[Client], wait_s: float = 0.0) -> None:
    """Take note of what the newest load client says of the flags, if it was asked and has an answer by now.

    A client that ended has none; the next launch's is asked again.

    Args:
        setting: what was not answered yet stands in its `flags_to_check`.
        clients: of this launch.
        wait_s: how long to wait for the answer, s.

    Raises:
        InputError: a flag that vLLM does not take, with the nearest name that it has; or vLLM could not be asked.

    """
    if setting.flags_to_check is None or not clients:
        return
    try:
        told = clients[-1].begin(wait_s)
    except LoadError:
        return
    if told is None:
        return
    if not told["ok"]:
        raise InputError(f"vLLM could not be asked whether it takes the flags: {told['error']}")
    if told["problem"]:
        raise InputError(told["problem"])
    setting.flags_to_check = None


def settle_flags(setting: Setting, clients: Sequence[Client]) -> None:
    """Wait for the answer about the flags: no run begins, and no failed start is a result, before it is there.

    Raises:
        InputError: see `hear_about_flags`.

    """
    hear_about_flags(setting, clients, IMPORT_DEADLINE_S)
