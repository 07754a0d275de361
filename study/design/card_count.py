"""How many cards of one machine a server spreads over, by its parallel flags.

A server has tensor x pipeline x prefill context workers a replica, and one replica for each local data parallel rank
(`ParallelConfig.__post_init__` in `vllm/config/parallel.py`, `create_engine_config` in `vllm/engine/arg_utils.py`).
Decode context and expert parallel reuse the same workers. Flags are read as vLLM's parser reads them
(`vllm/utils/argparse_utils.py`): `_` for `-` in a long name, `name value` or `name=value`, any beginning of a long name
that fits it alone, and of several the last one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from study.design.levels import Level
from study.design.plain_files import shown
from study.errors import InputError


@dataclass(frozen=True)
class _Size:
    """A parallel size: its name, its short form, and the shortest beginning of its name that vLLM 0.31.0 takes."""

    name: str
    short: str
    least: str

    def is_meant_by(self, flag: str) -> bool:
        name = flag.replace("_", "-") if flag.startswith("--") else flag
        return name == self.short or (name.startswith(self.least) and self.name.startswith(name))


_WORKERS = (
    _Size("--tensor-parallel-size", "-tp", "--te"),
    _Size("--pipeline-parallel-size", "-pp", "--pi"),
    _Size("--prefill-context-parallel-size", "-pcp", "--prefill-c"),
)
_REPLICAS = _Size("--data-parallel-size", "-dp", "--data-parallel-size")
_LOCAL_REPLICAS = _Size("--data-parallel-size-local", "-dpl", "--data-parallel-size-")
_ONE_REPLICA = (
    _Size("--data-parallel-rank", "-dpn", "--data-parallel-ra"),
    _Size("--data-parallel-external-lb", "-dpe", "--data-parallel-e"),
)
"""Flags with which one server process is one replica of many, whatever the data parallel size."""


def count_cards(server_flags: Sequence[str]) -> int:
    """Return over how many cards of its machine a server with these flags spreads; 1 where no flag says otherwise.

    Raises:
        InputError: a parallel size that is no whole number from 1, or that has no value.

    """
    count = 1
    for size in _WORKERS:
        count *= _read_size(server_flags, size, 1)
    replicas = _read_size(server_flags, _REPLICAS, 1)
    here = _read_size(server_flags, _LOCAL_REPLICAS, replicas)
    apart = any(one.is_meant_by(flag.split("=", 1)[0]) for one in _ONE_REPLICA for flag in server_flags)
    return count * (1 if apart else here)


def count_cards_of_levels(server_flags: Sequence[str], levels: Iterable[Level]) -> int:
    """Return how many cards every level of a study asks for; 1 without a level.

    Raises:
        InputError: a wrong size, or two levels that ask for different numbers: their tokens take different times
            whatever their compile level.

    """
    counts = {level.name: count_cards([*server_flags, *level.flags]) for level in levels}
    first = next(iter(counts), "")
    for name, count in counts.items():
        if count != counts[first]:
            asked = f"level '{name}' asks for {count} {_cards(count)} and level '{first}' for {counts[first]}"
            raise InputError(f"{asked}; all levels of a study need as many: put parallel sizes into server_flags")
    return counts.get(first, 1)


def is_split_by_tensor_alone(server_flags: Sequence[str]) -> bool:
    """Whether every card of the server holds its share of every layer, so that all read at the same time."""
    return count_cards(server_flags) == _read_size(server_flags, _WORKERS[0], 1)


def _read_size(flags: Sequence[str], size: _Size, default: int) -> int:
    """Return the last value that `flags` give a size."""
    found = default
    for place, flag in enumerate(flags):
        name, equals, value = flag.partition("=")
        if not size.is_meant_by(name):
            continue
        if not equals and place + 1 == len(flags):
            raise InputError(f"flag '{shown(flag)}' has no value; '{name}', '2' works")
        found = _read_number(name, value if equals else flags[place + 1])
    return found


def _read_number(name: str, text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise InputError(f"flag '{shown(name)}' is '{shown(text)}', which is no whole number from 1; 2 works")
    return number


def _cards(count: int) -> str:
    return "card" if count == 1 else "cards"
