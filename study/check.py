"""`study check`: verifies a raw folder file by file, and names everything that is wrong with it."""

import json

from study.design.parameters import fingerprint
from study.errors import StudyError
from study.records import LaunchRecord, RunRecord, identity_of
from study.store import Store, StudyRecords, sha256


def check_study(store: Store) -> list[str]:
    """Return one line for every problem: schema, place, mixing, fingerprints, log hashes, completeness.

    Raises:
        InputError: there is no such raw folder.

    """
    problems = store.read_each()
    if problems:
        return problems
    try:
        records = store.read()
    except StudyError as error:
        return [str(error)]
    return [
        *_check_fingerprints(records),
        *_check_logs(store, records),
        *_check_completeness(store, records),
    ]


def _check_fingerprints(records: StudyRecords) -> list[str]:
    return [
        f"launch-{launch.launch_id}.json: fingerprint {launch.fingerprint} does not stand for its comparable parameters"
        for launch in records.launches
        if fingerprint(launch.comparable) != launch.fingerprint
    ]


def _check_logs(store: Store, records: StudyRecords) -> list[str]:
    problems = []
    for launch in records.launches:
        path = store.raw / launch.log
        if launch.log_sha256 is None:
            continue
        if launch.log != f"launch-{launch.launch_id}.log" or not path.is_file():
            problems.append(f"launch-{launch.launch_id}.json: its log '{launch.log}' is not there")
        elif sha256(path) != launch.log_sha256:
            problems.append(f"{launch.log}: does not have the SHA-256 that its record names; it was changed")
    return problems


def _check_completeness(store: Store, records: StudyRecords) -> list[str]:
    known = {launch.launch_id for launch in records.launches}
    problems = [
        f"run-{run.run_id}.json: its launch '{run.launch_id}' has no record"
        for run in records.runs
        if run.launch_id not in known
    ]
    left_open = store.open_files()
    problems += [f"{path.name}: a launch was left open; running the session again closes it" for path in left_open]
    launched = {launch.log for launch in records.launches} | {f"launch-{item.stem[5:]}.log" for item in left_open}
    problems += [
        f"{path.name}: a log without a record" for path in sorted(store.raw.glob("*.log")) if path.name not in launched
    ]
    return problems + _check_doubles(records)


def _check_doubles(records: StudyRecords) -> list[str]:
    """Two records of the same content under two names are a copy, not two measurements."""
    seen: dict[str, str] = {}
    problems = []
    items: list[LaunchRecord | RunRecord] = [*records.launches, *records.runs]
    for item in items:
        name = identity_of(item)
        facts = item.model_dump(exclude={"launch_id", "run_id", "attempt", "log"})
        content = json.dumps(facts, sort_keys=True)
        if content in seen:
            problems.append(f"{item.kind} '{name}' is a copy of '{seen[content]}'")
        seen[content] = name
    return problems
