"""What of a plan the store holds already, how long its launches took, and how far a session is.

A run is done when a record of it ended `ok`, or failed on its own (a failure is a result too; an interruption is
not, unless a launch was killed three times). Blocks live on one card: where a block is not complete on any card, only
what this card did of it counts.
"""

import json
import os
import sys
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

from study.design.counting import format_counted
from study.design.plan import Plan, PlannedLaunch, PlannedRun, seen_name
from study.records import KILLED, LaunchRecord, RunRecord
from study.store import StudyRecords

KILLED_ATTEMPTS = 3
"""Attempts at one launch that were killed from outside are a result from here on: perhaps its level eats all memory."""


def remaining_launches(plan: Plan, records: StudyRecords | None, unit: str, host: str) -> tuple[PlannedLaunch, ...]:
    """Return the launches that are still to be made, each with the runs that are still to be done.

    Args:
        plan: the whole plan.
        records: what the store holds, None where it is empty.
        unit: this card (`Machine.unit`).
        host: this machine (`Machine.hostname_sha256`), whose caches a cache-filling start has filled.

    """
    if records is None:
        return plan.launches
    done = _Done(records)
    left = []
    for block in dict.fromkeys(launch.block for launch in plan.measured):
        launches = [launch for launch in plan.measured if launch.block == block]
        if not any(all(done.whole(launch, card) for launch in launches) for card in done.units):
            left += [rest for launch in launches if (rest := done.strip(launch, unit)) is not None]
    return (*_fills_needed(plan, records, left, (unit, host)), *left)


class _Done:
    """Looks up what is done on which card."""

    def __init__(self, records: StudyRecords) -> None:
        self._launches: dict[str, list[LaunchRecord]] = defaultdict(list)
        self._killed: dict[tuple[str, str], int] = defaultdict(int)
        self._runs: dict[str, set[str]] = defaultdict(set)
        card_of = {launch.launch_id: launch.machine.unit for launch in records.launches}
        self.units = set(card_of.values())
        for launch in records.launches:
            if launch.outcome.status != "interrupted":
                self._launches[_key(launch.launch_id)].append(launch)
            elif launch.outcome.stage == KILLED:
                self._killed[_key(launch.launch_id), launch.machine.unit] += 1
        for run in records.runs:
            if run.outcome.status != "interrupted" and run.launch_id in card_of:
                self._runs[_key(run.run_id)].add(card_of[run.launch_id])

    def whole(self, launch: PlannedLaunch, unit: str) -> bool:
        """Whether this launch is done on `unit`."""
        return self.strip(launch, unit) is None

    def strip(self, launch: PlannedLaunch, unit: str) -> PlannedLaunch | None:
        """Return the launch with the runs that `unit` has not done, or None where nothing is left to do."""
        if self._failed(launch, unit):
            return None
        if not launch.runs:
            return None if any(seen.machine.unit == unit for seen in self._launches[launch.key]) else launch
        left = tuple(run for run in launch.runs if unit not in self._runs[run.key])
        return replace(launch, runs=left) if left else None

    def _failed(self, launch: PlannedLaunch, unit: str) -> bool:
        return self._killed[launch.key, unit] >= KILLED_ATTEMPTS or any(
            seen.machine.unit == unit and seen.outcome.status == "failed" for seen in self._launches[launch.key]
        )


def _fills_needed(
    plan: Plan, records: StudyRecords, left: Iterable[PlannedLaunch], here: tuple[str, str]
) -> list[PlannedLaunch]:
    """Cache-filling starts for levels still to be measured, unless this machine made them already."""
    names = {name for launch in left for name in (launch.level.name, *launch.level.warmed_by)}
    filled = {
        launch.level
        for launch in records.launches
        if launch.fills_caches
        and launch.outcome.status == "ok"
        and (launch.machine.unit, launch.machine.hostname_sha256) == here
    }
    return [
        launch
        for launch in plan.launches
        if launch.fills_caches and launch.level.name in names and launch.level.name not in filled
    ]


def seen_seconds(records: StudyRecords | None) -> dict[str, float]:
    """Return seconds of whole launches by level (`fill-<level>` for cache-filling ones): medians of what was seen."""
    seen: dict[str, list[float]] = defaultdict(list)
    for launch in records.launches if records else ():
        if launch.outcome.status == "ok" and launch.stopped_s is not None:
            seen[seen_name(launch.level, launch.fills_caches)].append(launch.stopped_s - launch.spawn_s)
    return {name: median(values) for name, values in seen.items()}


def expect_as_seen(
    expected_s: dict[str, float], made: PlannedLaunch, took_s: float, left: Iterable[PlannedLaunch]
) -> None:
    """Expect that the launches left of a level, with no more runs, take as long as the one just made on this machine.

    Args:
        expected_s: seconds by launch key; changed in place.
        made: a launch that ended `ok`, as planned.
        took_s: from its beginning to its end, gates and canaries included, s.
        left: the launches that are still to be made.

    """
    for launch in left:
        alike = (launch.level.name, launch.fills_caches) == (made.level.name, made.fills_caches)
        if alike and len(launch.runs) <= len(made.runs):
            expected_s[launch.key] = took_s


def _key(record_id: str) -> str:
    """Return a record's id without its attempt."""
    return record_id.rsplit("-a", 1)[0]


@dataclass
class Tally:
    """What was recorded in this call, and the time the plan takes."""

    total_s: float
    done_s: float = 0.0
    launches: int = 0
    runs: int = 0
    failed: int = 0
    left: int = 0

    @property
    def recorded(self) -> str:
        """What was recorded, in words: `1 launch and 2 runs`."""
        return f"{format_counted(self.launches, 'launch')} and {format_counted(self.runs, 'run')}"


class Reporter:
    """Tells how far the session is: lines for a person, JSON lines for a program."""

    def __init__(self, plan: Plan, study: str, events: bool) -> None:
        self._plan = plan
        self._events = events
        self._study = study
        self.tally = Tally(plan.estimate_s())

    def begin(self, left: list[PlannedLaunch]) -> None:
        """Tell what is left of the plan."""
        left_s = sum(self._plan.estimates_s[launch.key] for launch in left)
        self.tally.done_s = self.tally.total_s - left_s
        self._say("plan", f"{format_counted(len(left), 'launch')} left, about {left_s / 60:.0f} minutes")

    def launch(self, planned: PlannedLaunch) -> None:
        """Tell that a launch begins."""
        what = "unmeasured start" if planned.fills_caches else f"block {planned.block}"
        self._say("launch", f"{what}, {planned.level.name}: starting")

    def run(self, planned: PlannedRun, record: RunRecord) -> None:
        """Tell that a run is recorded."""
        self.tally.runs += 1
        self.tally.failed += record.outcome.status != "ok"
        launch = next(item for item in self._plan.launches if planned in item.runs)
        self.tally.done_s += 0.5 * self._plan.estimates_s[launch.key] / len(launch.runs)
        ended = "" if record.outcome.status == "ok" else f" {record.outcome.status}: {record.outcome.message}"
        self._say("run", f"block {planned.block}, {planned.level}, {planned.users} users{ended}")

    def launched(self, planned: PlannedLaunch, record: LaunchRecord) -> None:
        """Tell that a launch is over."""
        self.tally.launches += 1
        self.tally.failed += record.outcome.status != "ok"
        self.tally.done_s += self._plan.estimates_s[planned.key] * (0.5 if planned.runs else 1.0)
        if record.outcome.status != "ok":
            self._say("launch", f"{planned.level.name} failed at {record.outcome.stage}: {record.outcome.message}")

    def end(self, left: list[PlannedLaunch], why: str | None) -> int:
        """Tell how the session ended, `why` where it ended early; return the exit code."""
        tally = self.tally
        tally.left = len(left)
        ended_early = why is not None
        if why is None:
            why = "the plan is complete" if not left else "the time limit came; the same command goes on"
        self._say("end", f"{tally.recorded} recorded now, {tally.failed} failed; {why}")
        return 1 if ended_early or (tally.failed and not (tally.launches + tally.runs - tally.failed)) else 0

    def _say(self, event: str, message: str) -> None:
        facts = {name: getattr(self.tally, name) for name in Tally.__dataclass_fields__}
        line = json.dumps({"event": event, "message": message, "study": self._study, **facts})
        try:
            print(line if self._events else message, flush=True)
        except OSError:
            # Nobody reads any more, a dead notebook say: that is no reason to lose a launch.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
