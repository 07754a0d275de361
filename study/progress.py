"""What of a plan the store holds already, and how long its launches took.

A run is done when a record of it ended `ok`, or failed on its own (a failure is a result too; an interruption is
not). Blocks live on one card: where a block is not complete on any card, only what this card did of it counts.
"""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from study.design.plan import Plan, PlannedLaunch
from study.records import LaunchRecord
from study.store import StudyRecords


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
        self._runs: dict[str, set[str]] = defaultdict(set)
        card_of = {launch.launch_id: launch.machine.unit for launch in records.launches}
        self.units = set(card_of.values())
        for launch in records.launches:
            if launch.outcome.status != "interrupted":
                self._launches[_key(launch.launch_id)].append(launch)
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
        return any(
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
            name = f"fill-{launch.level}" if launch.fills_caches else launch.level
            seen[name].append(launch.stopped_s - launch.spawn_s)
    return {name: median(values) for name, values in seen.items()}


def _key(record_id: str) -> str:
    """Return a record's id without its attempt."""
    return record_id.rsplit("-a", 1)[0]
