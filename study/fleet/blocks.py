"""Blocks: what of a study's plan is left, cut so that every part stays on one card of one machine. Pure."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil

from study.design.card_count import count_cards_of_levels
from study.design.counting import format_counted
from study.design.levels import Level
from study.design.parameters import Parameters
from study.design.plan import make_plan
from study.errors import InputError
from study.fleet.asked import FleetOptions
from study.progress import remaining_launches, seen_seconds
from study.store import StudyRecords

NOWHERE = "no card"
"""A card that no record names: what is left for it is whatever no card has done whole."""


@dataclass(frozen=True)
class Block:
    """One block: every level on the same card.

    Attributes:
        number: of the block in its study.
        parameters: the study's, with this block's seeds alone.
        cards: GPUs that each of its servers takes; 0 on the CPU backend.
        kind: Ray's name of the kind of card it has to run on; None: any.
        launches: how many are planned, unmeasured ones included.
        estimate_s: about how long it takes on one machine, s.

    """

    number: int
    parameters: Parameters
    cards: int
    kind: str | None
    launches: int
    estimate_s: float


def list_blocks(
    parameters: Parameters, levels: tuple[Level, ...], records: StudyRecords | None, options: FleetOptions
) -> tuple[Block, ...]:
    """Return the blocks that no card has measured whole, in the study's order.

    Raises:
        InputError: one card is named, or the levels ask for different numbers of cards.

    """
    if parameters.gpu is not None:
        raise InputError(f"gpu {parameters.gpu!r} names a card of one machine; leave it out: Ray says which to use")
    cards = count_cards_of_levels(parameters.server_flags, levels) if parameters.device == "cuda" else 0
    seen = seen_seconds(records)
    plan = make_plan(parameters, levels, seen)
    left = {launch.block for launch in remaining_launches(plan, records, NOWHERE, NOWHERE) if not launch.fills_caches}
    blocks = []
    for place, number in enumerate(dict.fromkeys(launch.block for launch in plan.measured)):
        seeds = [number] if parameters.fresh_server_per_seed else parameters.seeds
        own = parameters.model_copy(update={"seeds": seeds})
        part = make_plan(own, levels, seen)
        kinds = options.accelerator_type
        kind = kinds[place % len(kinds)] if kinds else None
        blocks.append(Block(number, own, cards, kind, len(part.launches), part.estimate_s()))
    return tuple(block for block in blocks if block.number in left)


def choose_block(waiting: Sequence[Block], begun: Mapping[int, Collection[str]], unit: str | None) -> Block:
    """Return the block that a place should take: one that its card began, else one that no card began, else the first.

    Another card would begin a block again, and what the first one did of it would enter no figure.

    Args:
        waiting: blocks without a place: first the one that this place was found for.
        begun: number of a block: the cards that measured something of it (`Machine.unit`).
        unit: the place's; None: not known.

    """
    alike = [block for block in waiting if (block.cards, block.kind) == (waiting[0].cards, waiting[0].kind)]
    own = (block for block in alike if unit in begun.get(block.number, ()))
    new = (block for block in alike if not begun.get(block.number))
    return next(chain(own, new, waiting))


def describe_fleet(study: str, blocks: tuple[Block, ...], places: int) -> list[str]:
    """Write what a fleet is about to do: one line for all, one for each block.

    Args:
        study: its name.
        blocks: what is left.
        places: blocks that the machines which are there now can measure at once.

    """
    if not blocks:
        return [f"study {study}: every block is complete"]
    longest = max(block.estimate_s for block in blocks)
    lines = [f"study {study}: {format_counted(len(blocks), 'block')} to measure, each on one machine"]
    if places:
        whole = ceil(len(blocks) / places) * longest
        lines[0] += f"; {places} at once, about {whole / 60:.0f} minutes"
    else:
        lines[0] += "; no machine that is there now can take one: waiting for one"
    for block in blocks:
        what = f"block {block.number}  {format_counted(block.launches, 'launch')} on {describe_need(block)}"
        lines.append(f"  {block.estimate_s / 60:5.1f} min  {what}")
    return lines


def describe_need(block: Block) -> str:
    """Return in words what a block needs of a machine."""
    if not block.cards:
        return "a machine's CPU"
    kind = f"{block.kind} " if block.kind else ""
    return f"{block.cards} {kind}{'GPU' if block.cards == 1 else 'GPUs of one machine'}"
