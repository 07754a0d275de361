"""What a check says of a server on several cards: every card has to pass, and the one that does not is named.

On one card the words are those of the card alone.
"""

from collections.abc import Sequence
from typing import Literal

from study.design.card_facts import CardProcesses, name_card
from study.records import Gate

State = Literal["passed", "failed", "unavailable"]
Finding = tuple[State, str]


def worst_of_cards(found: Sequence[Finding], uuids: Sequence[str]) -> Finding:
    """Return what was found of all cards together: failed if one is, passed if all are, with the cards it rests on.

    Args:
        found: one entry a card, the first card first; one alone is returned as it is.
        uuids: of the cards, in the same order.

    """
    if len(found) == 1:
        return found[0]
    states = [state for state, _ in found]
    whole: State = next((state for state in ("failed", "unavailable") if state in states), "passed")
    names = [name_card(place, uuids) for place in range(len(found))]
    said = [f"{name}: {text}" for name, (state, text) in zip(names, found, strict=True) if state == whole]
    return whole, "; ".join(said)


def say_cooling(gate: Gate) -> str:
    """Return how warm the card was at the end of a gate that waits for it to cool; of several those it ended for."""
    uuids = [card.gpu_uuid for card in gate.cards]
    said = [
        f"{name_card(place, uuids)}: {card.temperature_c} degC of {card.target_c}"
        for place, card in enumerate(gate.cards)
        if card.status == gate.status
    ]
    return f"{', '.join(said) or f'{gate.temperature_c} degC of {gate.target_c}'} after {gate.waited_s:.0f} s"


def name_unavailable(gate: Gate) -> str:
    """Return which of several cards gave a gate no temperature, and why; empty for one card."""
    uuids = [card.gpu_uuid for card in gate.cards]
    return "; ".join(
        f"{name_card(place, uuids)}: {card.missing.get('temperature_c', 'no reading')}"
        for place, card in enumerate(gate.cards)
        if card.status == "unavailable"
    )


def name_foreign(cards: Sequence[CardProcesses]) -> str:
    """Return on which of several cards how many foreign processes were; empty for one card."""
    uuids = [card.gpu_uuid for card in cards]
    return "; ".join(
        f"{name_card(place, uuids)}: {len(card.foreign_gpu_processes)} on the card"
        for place, card in enumerate(cards)
        if card.foreign_gpu_processes
    )
