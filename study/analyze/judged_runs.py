"""All runs of a study with their figures, their validity, and whether they enter the study's figures."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from study.analyze.evidence import Evidence
from study.analyze.runs import DEFAULT_BELOW_SHARE, RunFigures, figures_of
from study.analyze.validity import Validity, judge_run, note_run
from study.records import ASKED_TO_END, LaunchRecord, RunRecord
from study.store import StudyRecords

DEFAULT_LEVEL = "default"


@dataclass(frozen=True)
class JudgedRun:
    """One run with everything that was found about it.

    Attributes:
        run: the record.
        launch: the launch that served it; None where its record is not there.
        figures: its figures; None without a launch.
        validity: whether it is valid and why.
        notes: what a reader must know beside that; `failed` means that a note holds.
        left_out: why it enters no figure: the reasons it is invalid, or that another run took its place; empty where
            it counts.

    """

    run: RunRecord
    launch: LaunchRecord | None
    figures: RunFigures | None
    validity: Validity
    notes: tuple[Evidence, ...] = ()
    left_out: tuple[str, ...] = ()

    @property
    def counts(self) -> bool:
        """Whether the run enters the study's figures."""
        return not self.left_out

    @property
    def machine(self) -> str | None:
        """What tells the machine from another; None without a launch."""
        return None if self.launch is None else self.launch.machine.unit


def order_levels(names: Iterable[str], order: Iterable[str] = ()) -> tuple[str, ...]:
    """Return level names, each once: those in `order` first, then the default, then the rest by name."""
    asked = {name: place for place, name in enumerate(order)}
    return tuple(sorted(set(names), key=lambda name: (asked.get(name, len(asked)), name != DEFAULT_LEVEL, name)))


def judge_runs(study: StudyRecords, below_share: float = DEFAULT_BELOW_SHARE) -> tuple[JudgedRun, ...]:
    """Judge every run of a study, in an order that does not hang on that of its files.

    Args:
        study: the records.
        below_share: of the card's highest SM clock; a busy clock below counts as throttled.

    """
    launches = {launch.launch_id: _with_later_canary(launch, study) for launch in study.launches}
    judged = [_judge(run, launches.get(run.launch_id), below_share) for run in sorted(study.runs, key=_place)]
    cards = _choose_cards(judged)
    judged = [replace(one, left_out=_on_another_card(one, cards)) for one in judged]
    newest = {_cell(one.run): one.run.run_id for one in judged if one.counts}
    judged = [replace(one, left_out=_superseded(one, newest)) for one in judged]
    defaults = {_cell(one.run)[1:]: one for one in judged if one.counts and one.run.level == DEFAULT_LEVEL}
    return tuple(replace(one, notes=_notes(one, defaults)) for one in judged)


def _with_later_canary(launch: LaunchRecord, study: StudyRecords) -> LaunchRecord:
    """Give a launch whose session was interrupted the next canary of its machine as the one after it.

    A session that is asked to end skips the canary after the stop; the resumed one begins with a canary that tells as
    much: whether the machine is as fast as it was.
    """
    cut_short = launch.outcome.status == "interrupted" or launch.missing.get("canary_after") == ASKED_TO_END
    if not cut_short or launch.canary_after is not None:
        return launch
    later = [
        other
        for other in study.launches
        if other.machine.unit == launch.machine.unit
        and other.spawn_unix_s > launch.spawn_unix_s
        and other.canary_before is not None
    ]
    if not later:
        return launch
    canary = min(later, key=lambda other: (other.spawn_unix_s, other.launch_id)).canary_before
    missing = {name: reason for name, reason in launch.missing.items() if name != "canary_after"}
    return launch.model_copy(update={"canary_after": canary, "missing": missing})


def _place(run: RunRecord) -> tuple[bool, str, int, int, int, int, str]:
    return run.level != DEFAULT_LEVEL, run.level, run.block, run.seed, run.users, run.attempt, run.run_id


def _cell(run: RunRecord) -> tuple[str, int, int, int]:
    """Return what a study has one run of: (level, block, seed, users)."""
    return run.level, run.block, run.seed, run.users


def _judge(run: RunRecord, launch: LaunchRecord | None, below_share: float) -> JudgedRun:
    figures = None if launch is None else figures_of(run, launch, below_share)
    validity = judge_run(run, launch, figures)
    left_out = validity.reasons
    if launch is not None and launch.fills_caches:
        left_out = ("its launch filled the caches", *left_out)
    return JudgedRun(run, launch, figures, validity, left_out=left_out)


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
