"""One study as an edition and the notebooks show it: what was found, what follows from it, and its figures."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pandas as pd

from study.analyze.digests_on_disk import read_digests
from study.analyze.findings import Findings, FindOptions, find
from study.analyze.joined_starts import complete_starts, why_starts_differ
from study.analyze.judged_runs import JudgedRun, judge_runs
from study.analyze.recommend import Advice, headline, recommend
from study.analyze.reference_line import ReferenceLine
from study.analyze.run_digest import RunDigest
from study.analyze.runs import DEFAULT_BELOW_SHARE
from study.analyze.tables_on_disk import make_frames, write_judged
from study.analyze.throttling_words import REASON_NOT_THROTTLED
from study.design.levels import LEVELS_DIR, read_levels
from study.design.parameters import Parameters
from study.errors import InputError
from study.publish.card_use import read_reference_lines
from study.publish.cards_part import tabulate_cards
from study.publish.figures import draw_starts, draw_tpot
from study.publish.forest import draw_costs
from study.publish.launch_order import order_launches
from study.publish.panels import Frame
from study.publish.plates import Plate
from study.publish.run_figures import draw_clock, draw_order, draw_requests
from study.publish.start_figures import draw_served, draw_start_parts
from study.publish.start_parts import LevelParts, add_other_parts, good_starts, read_level_parts
from study.publish.traces import spread_requests, trace_card
from study.reading import StudyOf
from study.store import Store

FIGURES = ("tpot", "requests", "clock", "order", "starts", "start_parts", "costs", "served")
NOT_THROTTLED = "These runs count nowhere: the card was to be throttled and was not."


@dataclass(frozen=True)
class ViewOptions:
    """How a study is shown; None: as its last session asked, or else the default of the parameters.

    Attributes:
        users: numbers of users that are published, in order; all that were run where no session asked for some.
        margin: differences inside +-margin do not matter.
        below_share: of the card's highest SM clock; a busy clock below counts as throttled.

    """

    users: tuple[int, ...] | None = None
    margin: float | None = None
    below_share: float | None = None


@dataclass(frozen=True)
class StudyView:
    """A study, read.

    Attributes:
        store: where it lies.
        records: its launches, and the digests of its runs.
        judged: its runs, judged.
        options: how it was read.
        found: everything that was found.
        users: numbers of users that are published, in order.
        headline: the answer in a sentence or two.
        parts: where the time of a start went, by level.
        lost_logs: starts whose log is not there, in words.
        reference_lines: the least time of a token on each card.

    """

    store: Store
    records: StudyOf[RunDigest]
    judged: tuple[JudgedRun, ...]
    options: FindOptions
    found: Findings
    users: tuple[int, ...]
    headline: str
    parts: tuple[LevelParts, ...]
    lost_logs: tuple[str, ...]
    reference_lines: tuple[ReferenceLine, ...] = ()

    @property
    def frame(self) -> Frame:
        """What its figures share."""
        return Frame(self.found.levels, self.users, self.found.rehearsal)

    def advise(self, others: Sequence["StudyView"] = ()) -> tuple[Advice, ...]:
        """Return what the figures recommend; `others` are the edition's studies: of the other session, or of starts."""
        beside = [other.found for other in others if other is not self]
        return recommend(complete_starts(self.found, beside), beside)

    def write_tables(self, folder: Path | None = None) -> list[Path]:
        """Write its tables to a folder, its processed one by default, and return the files."""
        return write_judged(self.records, self.judged, self.make_tables(), folder or self.store.processed)

    def make_tables(self) -> dict[str, pd.DataFrame]:
        """Return its tables by name, as `write_tables` writes them."""
        chosen = self.options
        return make_frames(self.records, self.judged, chosen.use_for, chosen.levels) | tabulate_cards(self.found)

    def draw(self, others: Sequence["StudyView"] = ()) -> dict[str, Plate]:
        """Return its figures by their key (`FIGURES`); `others` as in `draw_each`."""
        return {plate.key: plate for plate in self.draw_each(others)}

    def draw_each(self, others: Sequence["StudyView"] = ()) -> Iterator[Plate]:
        """Draw its figures one by one, in the order of `FIGURES`.

        Args:
            others: the edition's studies. Starts of those that fit stand beside its own: the parts of the studies after
                it, which have the other state of the caches, and break-evens that take starts and speed of two studies.

        """
        found, records, frame = self.found, self.records, self.frame
        counting = set(found.runs.loc[found.runs["counts"].astype(bool), "run_id"])
        runs = [run for run in records.runs if run.run_id in counting]
        yield draw_tpot(found.runs, frame)
        yield draw_requests(spread_requests(runs), frame)
        yield draw_clock(trace_card(runs or self._runs_not_throttled()), frame, "" if runs else NOT_THROTTLED)
        yield draw_order(order_launches(found.runs, records), frame)
        yield draw_starts(tabulate_starts(records), frame)
        yield draw_start_parts(self._parts_beside(others), frame)
        yield draw_costs(found.comparison, frame, found.comparison_reason)
        served = complete_starts(found, [other.found for other in others if other is not self])
        users = self.users or served.users or tuple(sorted({at.users for at in served.break_evens}))
        yield draw_served(served.break_evens, replace(frame, users=users), served.break_even_reason)

    def _runs_not_throttled(self) -> list[RunDigest]:
        """Return the runs that were left out for one reason alone: the card was to be throttled and was not.

        What the card did in them is the outcome of a session that has nothing else to show.
        """
        return [one.run for one in self.judged if one.left_out == (REASON_NOT_THROTTLED,)]

    def _parts_beside(self, others: Sequence["StudyView"]) -> tuple[LevelParts, ...]:
        """Return its parts of starts and those of the studies after it, so that an edition shows each figure once."""
        later = list(others)
        for place, other in enumerate(others):
            if other is self:
                later = list(others)[place + 1 :]
        parts = self.parts
        for other in later:
            if not why_starts_differ(self.found, other.found):
                parts = add_other_parts(parts, other.parts)
        return parts


def read_view(root: Path, store: Store, options: ViewOptions) -> StudyView:
    """Read a study.

    Args:
        root: the project's root, for the level files.
        store: the study's raw folder.
        options: users, margin, threshold.

    Raises:
        InputError: no such study, no records, or users that were not run.

    """
    records = read_digests(store, lambda frame: _choose_below_share(frame, options))
    if not records.launches and not records.runs:
        raise InputError(f"study '{store.study}' has no records in '{store.raw}'; run its session first")
    asked = _choose_options(root, records, options)
    judged = judge_runs(records, asked.below_share)
    found = find(records, asked, judged)
    parts, lost = read_level_parts(records.launches, found.levels, store.log_path)
    return StudyView(
        store=store,
        records=records,
        judged=judged,
        options=asked,
        found=found,
        users=_choose_users(records, options.users),
        headline=headline(found),
        parts=tuple(parts),
        lost_logs=tuple(lost),
        reference_lines=read_reference_lines(root, records, found.default, store.log_path),
    )


def _choose_options(root: Path, records: StudyOf[Any], options: ViewOptions) -> FindOptions:
    """Return how to read a study: as given, else as its last session asked, else by default."""
    margin = options.margin or _last_asked(records).get("margin") or Parameters.model_fields["margin"].default
    below_share = _choose_below_share(records, options)
    use_for = read_use_for(root, records)
    return FindOptions(margin=margin, levels=tuple(use_for), use_for=use_for, below_share=below_share)


def _choose_below_share(records: StudyOf[Any], options: ViewOptions) -> float:
    return options.below_share or _last_asked(records).get("throttled_below_share") or DEFAULT_BELOW_SHARE


def _last_asked(records: StudyOf[Any]) -> Mapping[str, Any]:
    return records.sessions[-1].asked if records.sessions else {}


def read_use_for(root: Path, records: StudyOf[Any]) -> dict[str, str]:
    """Return what each level is for, in the order of levels.

    Levels stand in the order of the session that named most of them (of equals, the last), so that one that added to a
    few moves none; then come those of other sessions and of the level files. What a session recorded, the last first,
    goes before a file that was edited since.
    """
    files = sorted((root / LEVELS_DIR).glob("*.yaml"))
    recorded: dict[str, str] = {}
    for session in records.sessions:
        recorded |= {str(level["name"]): str(level.get("use_for", "")) for level in session.levels}
    named = [[str(level["name"]) for level in session.levels] for session in reversed(records.sessions)]
    order = dict.fromkeys([*max(named, key=len, default=[]), *recorded])
    known = {level.name: level.use_for for path in files for level in read_levels(path).values()}
    return {name: recorded[name] for name in order} | {n: text for n, text in known.items() if n not in recorded}


def _choose_users(records: StudyOf[Any], given: Sequence[int] | None) -> tuple[int, ...]:
    run = sorted({one.users for one in records.runs})
    if given is None:
        asked = _last_asked(records).get("users_published") or run
        return tuple(users for users in asked if users in run)
    for users in given:
        if users not in run:
            known = ", ".join(str(one) for one in run) or "none"
            raise InputError(f"study '{records.study}' has no run at {users} users to publish; it has {known}")
    return tuple(given)


def tabulate_starts(records: StudyOf[Any]) -> pd.DataFrame:
    """Return one row a measured launch that got to its first token: `level`, `cache`, `start_s`."""
    rows = [
        (one.level, one.cache, one.first_token_s - one.spawn_s)
        for one in good_starts(records.launches)
        if one.first_token_s is not None
    ]
    return pd.DataFrame(rows, columns=["level", "cache", "start_s"])
