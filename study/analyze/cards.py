"""Kinds of card in one study: what one level costs on each, since ratios are never carried from one card to another.

    launches -> kinds of card -> one part of the study a kind -> findings of each part -> the table across cards

Blocks from unlike cards differ by more than a level costs (eager mode took 2 percent on an L4 and 400 percent on an
H200), so a study with several kinds has no verdict over all of them: each kind has its own, from its own blocks.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from study.analyze.run_digest import Study
from study.records import LaunchRecord, Machine

SAME_WITHIN = 0.05
"""Memory and highest clock within this share are the same: drivers keep more or less memory for themselves."""


@dataclass(frozen=True)
class KindOfCard:
    """One kind of card, or of several cards that one server spreads over.

    Attributes:
        name: of the card, as the driver tells it; None without a card.
        each: cards that one server spreads over; 0 without a card.
        memory_gib: memory of one card.
        max_sm_clock_mhz: highest SM clock of one card.
        units: the cards or sets of cards of this kind that served measured launches (`Machine.unit`), by name.
        label: what it is called here; no two kinds of a study have the same.

    """

    name: str | None
    each: int
    memory_gib: float | None
    max_sm_clock_mhz: float | None
    units: tuple[str, ...]
    label: str

    def has(self, machine: Machine) -> bool:
        """Whether a machine is of this kind."""
        return (
            (machine.gpu_name, len(machine.uuids)) == (self.name, self.each)
            and _alike(machine.gpu_memory_gib, self.memory_gib)
            and _alike(machine.max_sm_clock_mhz, self.max_sm_clock_mhz)
        )


def _alike(one: float | None, other: float | None) -> bool:
    """Whether two figures of cards are the same for this purpose; what is not known tells no cards apart."""
    return one is None or other is None or abs(one - other) <= SAME_WITHIN * max(one, other)


def list_kinds(launches: Iterable[LaunchRecord]) -> tuple[KindOfCard, ...]:
    """Return the kinds of card that served measured launches, in the order of their names; one kind for most studies.

    What a server is on counts: two cards of one name are another kind than one of them.
    """
    machines = {one.machine.unit: one.machine for one in launches if not one.fills_caches}
    kinds: list[KindOfCard] = []
    for unit, machine in sorted(machines.items(), key=lambda item: (item[1].gpu_name or "", item[0])):
        place = next((place for place, kind in enumerate(kinds) if kind.has(machine)), None)
        if place is None:
            name, each = machine.gpu_name, len(machine.uuids)
            label = name or "CPU host"
            label = f"{each} x {label}" if each > 1 else label
            kinds.append(KindOfCard(name, each, machine.gpu_memory_gib, machine.max_sm_clock_mhz, (unit,), label))
        else:
            kinds[place] = replace(kinds[place], units=(*kinds[place].units, unit))
    return tuple(_tell_apart(kind, kinds) for kind in kinds)


def _tell_apart(kind: KindOfCard, kinds: Iterable[KindOfCard]) -> KindOfCard:
    """Add memory and clock to a label that another kind has too."""
    if sum(one.label == kind.label for one in kinds) == 1:
        return kind
    known = ((kind.memory_gib, "GiB"), (kind.max_sm_clock_mhz, "MHz"))
    return replace(kind, label=f"{kind.label} ({', '.join(f'{value:.0f} {unit}' for value, unit in known if value)})")


def name_cards(machine: Machine) -> str | None:
    """Return the name of a machine's card, or of its cards as `set of 2 NVIDIA L4`; None without a card."""
    names = dict.fromkeys(name for name in (machine.gpu_name, *(one.gpu_name for one in machine.further_cards)) if name)
    count = len(machine.uuids)
    return f"set of {count} {' and '.join(names)}" if count > 1 and names else machine.gpu_name


def split_kinds(study: Study) -> tuple[tuple[KindOfCard, Study], ...]:
    """Return each kind of card with its part of the study; a study on one kind comes back whole.

    What belongs to no measured launch of any kind stays with the first.
    """
    kinds = list_kinds(study.launches)
    if len(kinds) < 2:
        return tuple((kind, study) for kind in kinds)
    place_of = {
        one.launch_id: next((place for place, kind in enumerate(kinds) if kind.has(one.machine)), 0)
        for one in study.launches
    }
    return tuple(
        (
            kind,
            replace(
                study,
                launches=tuple(one for one in study.launches if place_of[one.launch_id] == place),
                runs=tuple(run for run in study.runs if place_of.get(run.launch_id, 0) == place),
            ),
        )
        for place, kind in enumerate(kinds)
    )


def split_labels(study: Study) -> list[tuple[str | None, Study]]:
    """Return the label of each kind of card with its part of the study; None where no measured launch tells one."""
    labelled: list[tuple[str | None, Study]] = [(kind.label, part) for kind, part in split_kinds(study)]
    return labelled or [(None, study)]


def why_not_pooled(kinds: Iterable[KindOfCard]) -> str:
    """Say why a study on several kinds has no verdict over all of them; empty for one kind."""
    labels = [kind.label for kind in kinds]
    if len(labels) < 2:
        return ""
    return f"undecided: {len(labels)} kinds of card ({', '.join(labels)}), each with verdicts of its own"
