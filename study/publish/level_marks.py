"""One colour and one marker for a level, everywhere and whatever other levels stand beside it.

The colours are told apart with the common kinds of colour blindness, after Okabe and Ito, two of them darkened: each
stands out from white and from a dark page by a contrast of nearly 3 or more. Markers tell levels apart without colour.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class LevelMark:
    """How a level is drawn."""

    colour: str
    marker: str


KNOWN = {
    "default": LevelMark("#0072b2", "o"),
    "O0": LevelMark("#d55e00", "s"),
    "O1": LevelMark("#cc79a7", "^"),
    "O2": LevelMark("#3d94c9", "v"),
    "O3": LevelMark("#009e73", "D"),
    "eager": LevelMark("#a87900", "X"),
    "graphs-only": LevelMark("#7a5ab8", "P"),
    "compile-only": LevelMark("#84786c", "p"),
}
OTHERS = (
    LevelMark("#a8576a", "<"),
    LevelMark("#5b7f2b", ">"),
    LevelMark("#4f7cac", "h"),
    LevelMark("#9464c8", "d"),
    LevelMark("#b5651d", "8"),
    LevelMark("#2f8a8a", "*"),
)


def mark_level(level: str) -> LevelMark:
    """Return a level's mark; for one that is not known it follows from its name alone."""
    if level in KNOWN:
        return KNOWN[level]
    digest = hashlib.sha256(level.encode("utf-8", "surrogatepass")).digest()
    return LevelMark(OTHERS[digest[0] % len(OTHERS)].colour, OTHERS[digest[1] % len(OTHERS)].marker)


def mark_levels(levels: Iterable[str]) -> dict[str, LevelMark]:
    """Return the marks of several levels by name."""
    return {level: mark_level(level) for level in levels}
