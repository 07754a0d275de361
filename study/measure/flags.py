"""Refuses flags that the installed vLLM does not take, before a server is started with them."""

from collections.abc import Sequence
from pathlib import Path

from study.design.levels import Level
from study.measure.resolve import ask_child


def check_known_flags(levels: Sequence[Level], server_flags: Sequence[str], root: Path) -> None:
    """Check the flags of every level, and those of every server, with the installed vLLM's own argument parser.

    It takes as long as vLLM's import, about ten seconds.

    Raises:
        InputError: a flag that vLLM does not take, with the nearest name that it has, or vLLM is not installed.
        StudyError: vLLM could not be asked.

    """
    asked = [{"name": level.name, "flags": list(level.flags)} for level in levels]
    request = {"ask": "flags", "card": None, "inspected": True, "flags": list(server_flags), "levels": asked}
    ask_child(request, root)
