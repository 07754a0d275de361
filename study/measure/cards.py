"""The cards of one server: chosen as the parameters ask, opened and closed together."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from typing import TypeAlias

from study.errors import InputError
from study.measure.gpu import GpuReader

Gpu: TypeAlias = str | int | list[str | int] | None
"""The parameter `gpu`: one card by UUID or NVML index, a list of several, or None for the only ones."""
Readers: TypeAlias = GpuReader | Sequence[GpuReader] | None
"""One card, several, or none."""


def list_readers(readers: Readers) -> tuple[GpuReader, ...]:
    """Return the readers as a tuple, the first card first; empty without a card."""
    if readers is None:
        return ()
    return (readers,) if isinstance(readers, GpuReader) else tuple(readers)


@contextmanager
def open_cards(
    gpu: Gpu, count: int, open_gpu: Callable[[str | int | None], GpuReader] = GpuReader.open
) -> Iterator[tuple[GpuReader, ...]]:
    """Open the cards of a server, and close them at the end.

    Args:
        gpu: as the parameter says. A list stands in the order in which the server gets the cards; None means the only
            card, or all of them where there are exactly `count`: which of more is not guessed.
        count: how many the server spreads over (`study.design.card_count`).
        open_gpu: opens one card by UUID or index, or, for None, the only one.

    Raises:
        InputError: too few or too many are named or here, one is named twice, one is not here, or is a MIG slice.

    """
    with ExitStack() as stack:
        if count == 1:
            names: Sequence[str | int | None] = _take_list(gpu, 1) if isinstance(gpu, list) else [gpu]
        elif gpu is None:
            names = _list_all(count, open_gpu)
        else:
            names = _take_list(gpu, count)
        readers = tuple(stack.enter_context(closing(open_gpu(name))) for name in names)
        _check_apart(readers, names)
        yield readers


def _take_list(gpu: str | int | list[str | int], count: int) -> list[str | int]:
    """Return the cards that are named, where they are as many as the server needs."""
    named = gpu if isinstance(gpu, list) else [gpu]
    if len(named) != count:
        cards = "1 card" if len(named) == 1 else f"{len(named)} cards"
        raise InputError(f"gpu {gpu!r} names {cards}; the server's parallel sizes need {count}: {_form(count)}")
    return named


def _list_all(count: int, open_gpu: Callable[[str | int | None], GpuReader]) -> list[str | int]:
    """Return the indexes of all cards here, where they are as many as the server needs."""
    found = 0
    while found <= count and _is_here(found, open_gpu):
        found += 1
    if found != count:
        seen = f"more than {count} are here" if found > count else f"{found} answer by index from 0"
        raise InputError(f"gpu null: the server's parallel sizes need {count} cards and {seen}: {_form(count)}")
    return list(range(count))


def _is_here(index: int, open_gpu: Callable[[str | int | None], GpuReader]) -> bool:
    try:
        open_gpu(index).close()
    except InputError:
        if index == 0:
            raise  # without a first card its own message says what would work
        return False
    return True


def _form(count: int) -> str:
    return f"name {'it' if count == 1 else 'them'} as a list, gpu: {list(range(count))}, or by UUID"


def _check_apart(readers: Sequence[GpuReader], names: Sequence[str | int | None]) -> None:
    """Refuse one card under two names, and parts of a card where several are needed."""
    uuids = [reader.uuid for reader in readers]
    for place, uuid in enumerate(uuids):
        if uuid in uuids[:place]:
            raise InputError(f"gpu {list(names)!r} names {uuid} twice; each card once works")
        if len(uuids) > 1 and uuid.startswith("MIG-"):
            raise InputError(f"gpu {uuid} is a MIG slice; a server on {len(uuids)} cards needs whole cards")
