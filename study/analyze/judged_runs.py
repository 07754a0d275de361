"""All runs of a study with their figures, their validity, and whether they enter the study's figures."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from study.analyze.cards import split_kinds, split_labels
from study.analyze.evidence import Evidence
from study.analyze.run_digest import RunDigest, Study, complete_launches, digest_runs
from study.analyze.runs import DEFAULT_BELOW_SHARE, RunFigures
from study.analyze.validity import Validity, note_run
from study.records import LaunchRecord

DEFAULT_LEVEL = "default"


@dataclass(frozen=True)
class JudgedRun:
    """One run with everything that was found about it.

    Attributes:
        run: what is kept of the record.
        launch: the launch that served it; None where its record is not there.
        figures: its figures; None without a launch.
        validity: whether it is valid and why.
        notes: what a reader must know beside that; `failed` means that a note holds.
        left_out: why it enters no figure: the reasons it is invalid, or that another run took its place; empty where
            it counts.
        machine: what tells the machine from another; None without a launch.

    """

    run: RunDigest
    launch: LaunchRecord | None
    figures: RunFigures | None
    validity: Validity
    notes: tuple[Evidence, ...] = ()
    left_out: tuple[str, ...] = ()
    machine: str | None = None

    @property
    def counts(self) -> bool:
        """Whether the run enters the study's figures."""
        return not self.left_out


def order_levels(names: Iterable[str], order: Iterable[str] = ()) -> tuple[str, ...]:
    """Return level names, each once: those in `order` first, then the default, then the rest by name."""
    asked = {name: place for place, name in enumerate(order)}
    return tuple(sorted(set(names), key=lambda name: (asked.get(name, len(asked)), name != DEFAULT_LEVEL, name)))


def judge_runs(study: Study, below_share: float = DEFAULT_BELOW_SHARE) -> tuple[JudgedRun, ...]:
    """Judge every run of a study, in an order that does not hang on that of its files.

    Args:
        study: records, or digests of them.
        below_share: of the card's highest SM clock; a busy clock below counts as throttled. Digests have been made
            with one.

    """
    kinds = split_kinds(study)
    if len(kinds) > 1:
        # A block on another kind of card is another block, even of the same number.
        apart = [one for _, part in kinds for one in judge_runs(part, below_share)]
        return tuple(sorted(apart, key=lambda one: _place(one.run)))
    launches = complete_launches(study.launches)
    runs = sorted(digest_runs(study, below_share), key=_place)
    units = {name: launch.machine.unit for name, launch in launches.items()}
    judged = [_judge(run, launches.get(run.launch_id), units.get(run.launch_id)) for run in runs]
    cards = _choose_cards(judged)
    judged = [replace(one, left_out=_on_another_card(one, cards)) for one in judged]
    newest = {_cell(one.run): one.run.run_id for one in judged if one.counts}
    judged = [replace(one, left_out=_superseded(one, newest)) for one in judged]
    defaults = {_cell(one.run)[1:]: one for one in judged if one.counts and one.run.level == DEFAULT_LEVEL}
    return tuple(replace(one, notes=_notes(one, defaults)) for one in judged)


def split_judged(study: Study, judged: Sequence[JudgedRun]) -> list[tuple[str | None, Study, list[JudgedRun]]]:
    """Return each kind of card by its label, with its part of a study and the judged runs of that part."""
    kinds = split_labels(study)
    if len(kinds) == 1:
        return [(label, part, list(judged)) for label, part in kinds]
    by_id = {one.run.run_id: one for one in judged}
    return [(label, part, [by_id[run.run_id] for run in part.runs]) for label, part in kinds]


def _place(run: RunDigest) -> tuple[bool, str, int, int, int, int, str]:
    return run.level != DEFAULT_LEVEL, run.level, run.block, run.seed, run.users, run.attempt, run.run_id


def _cell(run: RunDigest) -> tuple[str, int, int, int]:
    """Return what a study has one run of: (level, block, seed, users)."""
    return run.level, run.block, run.seed, run.users


def _judge(run: RunDigest, launch: LaunchRecord | None, machine: str | None) -> JudgedRun:
    left_out = run.validity.reasons
    if launch is not None and launch.fills_caches:
        left_out = ("its launch filled the caches", *left_out)
    return JudgedRun(run, launch, run.figures, run.validity, left_out=left_out, machine=machine)


def _choose_cards(judged: Iterable[JudgedRun]) -> dict[int, str | None]:
    """Choose the card of each block: levels are compared within a block on one card, never across cards.

    It is the card that has most of the block's cells, and of two that have as many the one that ran last.
    """
    cells: dict[int, dict[str | None, set[tuple[str, int, int, int]]]] = {}
    latest: dict[tuple[int, str | None], float] = {}
    for one in judged:
        if one.counts:
            cells.setdefault(one.run.block, {}).setdefault(one.machine, set()).add(_cell(one.run))
            key = (one.run.block, one.machine)
            latest[key] = max(latest.get(key, 0.0), one.run.started_unix_s)
    return {
        block: max(cards, key=lambda card: (len(cards[card]), latest[block, card], card or ""))
        for block, cards in cells.items()
    }


def _on_another_card(one: JudgedRun, cards: Mapping[int, str | None]) -> tuple[str, ...]:
    """Where a block was begun again on another card, only the card that did most of it counts."""
    if not one.counts or cards[one.run.block] == one.machine:
        return one.left_out
    return ("its block was begun again on another card",)


def _superseded(one: JudgedRun, newest: Mapping[tuple[str, int, int, int], str]) -> tuple[str, ...]:
    """Where a block was begun again, its newest valid run counts, whichever was faster."""
    if not one.counts or newest[_cell(one.run)] == one.run.run_id:
        return one.left_out
    return (f"run again as {newest[_cell(one.run)]}",)


def _notes(one: JudgedRun, defaults: Mapping[tuple[int, int, int], JudgedRun]) -> tuple[Evidence, ...]:
    """Return the notes of a run; its default is the one of its block, seed and users, on the same machine."""
    if one.figures is None:
        return ()
    default = defaults.get(_cell(one.run)[1:])
    same_machine = default is not None and default.machine == one.machine
    return note_run(one.figures, default.figures if default is not None and same_machine else None)
