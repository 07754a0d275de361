"""How a count is written with its noun: `1 block`, `12 launches`."""


def plural(noun: str, count: float = 2) -> str:
    """Return `noun` as it goes with `count`: `1 block`, `2 blocks`, `2 launches`."""
    if count == 1:
        return noun
    return f"{noun}es" if noun.endswith(("s", "x", "ch", "sh")) else f"{noun}s"


def format_counted(count: int, noun: str) -> str:
    """Write a count with its noun: `1 block`, `12 launches`."""
    return f"{count:,} {plural(noun, count)}"
