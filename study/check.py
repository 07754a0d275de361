"""`study check`: verifies a raw folder file by file, and names everything that is wrong with it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from study.design.levels import Level
from study.design.parameters import Parameters, fingerprint, make_parameters
from study.design.plain_files import is_file, shown
from study.design.plan import make_plan
from study.errors import InputError
from study.reading import StudyOf
from study.reading_runs import HEADS
from study.record_files import PACKED, RunHead, identity_in
from study.records import LaunchRecord, SessionRecord, number_of
from study.store import Store, sha256

MOST_RUNS = 1_000_000


@dataclass(frozen=True)
class _Asked:
    """What one session asked for; `runs_of` maps a launch to its runs, both without the attempt."""

    parameters: Parameters
    levels: tuple[Level, ...]
    runs_of: Mapping[str, frozenset[str]]


def check_study(store: Store) -> list[str]:
    """Return one line for every problem: schema, place, mixing, fingerprints, log hashes, completeness.

    Every file is read once, and of a run no more is kept than what it was.

    Raises:
        InputError: there is no such raw folder.

    """
    reading = store.read_runs(lambda _: HEADS)
    return [
        *reading.problems,
        *_check_logs(store, reading.records),
        *_check_strangers(store),
        *_check_left_open(store, reading.records),
        *_check_completeness(store, reading.records),
    ]


def _check_logs(store: Store, records: StudyOf[RunHead]) -> Iterator[str]:
    for launch in records.launches:
        name, path = f"launch-{launch.launch_id}.json", store.log_path(launch.launch_id)
        if launch.log_sha256 is None:
            if is_file(path):
                yield f"{name}: its log is there, but the record says '{shown(launch.missing['log_sha256'])}'"
        elif launch.log != path.name or not is_file(path):
            yield f"{name}: its log '{shown(launch.log)}' is not there as a file"
        elif sha256(path) != launch.log_sha256:
            yield f"{path.name}: does not have the SHA-256 that its record names; it was changed"


def _check_strangers(store: Store) -> Iterator[str]:
    """Tell which entries of the folder are no file of a study; hidden ones are the runner's own."""
    launched = {identity_in(path.name) for path in (*store.record_files("launch"), *store.open_files())}
    runs = set(store.record_files("run"))
    for path in sorted(store.raw.iterdir()):
        if path.name.startswith(".") or path.suffix == ".json" or path in runs:
            continue
        if path.suffix != ".log":
            yield f"{shown(path.name)}: no file of a study; a record that was renamed counts nowhere"
        elif not path.name.startswith("launch-") or path.stem.removeprefix("launch-") not in launched:
            yield f"{shown(path.name)}: a log without a record"


def _check_left_open(store: Store, records: StudyOf[RunHead]) -> Iterator[str]:
    closed = {launch.launch_id for launch in records.launches}
    for path in store.open_files():
        if identity_in(path.name) in closed:
            yield f"{shown(path.name)}: its launch has a record already; remove it"
        else:
            yield f"{shown(path.name)}: a launch was left open; running the session again closes it"


def _check_completeness(store: Store, records: StudyOf[RunHead]) -> Iterator[str]:
    """Tell what must have been there once.

    A file that cannot be read is there: it has its own line, and what hangs on its content is not judged.
    """
    launched = {identity_in(path.name) for path in store.record_files("launch")}
    for run in records.runs:
        if run.launch_id not in launched:
            yield f"run-{run.run_id}.json: its launch '{shown(run.launch_id)}' has no record"
    yield from _check_numbers(store, records)
    if len(records.runs) == len(store.record_files("run")):
        yield from _check_positions(records)
    if len(records.sessions) == len(store.record_files("session")):
        yield from _check_sessions(store, records)


def _check_numbers(store: Store, records: StudyOf[RunHead]) -> Iterator[str]:
    """Tell which attempts and sessions are not there: both count up, attempts over every file of a launch or run."""
    items: list[LaunchRecord | RunHead] = [*records.launches, *records.runs]
    for item in items:
        before = f"{_key(item)}-a{item.attempt - 1}"
        name = f"{item.kind}-{before}.json"
        packed = (f"{name}{PACKED}",) if item.kind == "run" else ()
        names = (name, *packed, f"launch-{before}.log", f"open-{before}.json")
        if item.attempt > 1 and not any(is_file(store.raw / one) for one in names):
            yield f"{name} is not there, though attempt {item.attempt} is"
    numbers = [number_of(session) for session in records.sessions]
    for number in range(1, min(max(numbers, default=bool(items)), len(numbers) + 1) + 1):
        if number not in numbers and not is_file(store.raw / f"session-{number}.json"):
            yield f"session-{number}.json is not there: what was asked for is not known"


def _check_positions(records: StudyOf[RunHead]) -> Iterator[str]:
    """Tell where the runs of a launch do not have the positions 0, 1, 2, ..., each once."""
    places: dict[str, list[int]] = {}
    for run in records.runs:
        places.setdefault(run.launch_id, []).append(run.position)
    for launch_id, taken in sorted(places.items()):
        for place in range(min(max(taken) + 1, len(taken) + 1)):
            if taken.count(place) != 1:
                what = "is not there" if place not in taken else f"is there {taken.count(place)} times"
                yield f"launch '{shown(launch_id)}': its run at position {place} {what}"


def _check_sessions(store: Store, records: StudyOf[RunHead]) -> Iterator[str]:
    """Hold launches and runs against what the sessions asked for."""
    asked: list[_Asked] = []
    for session in records.sessions:
        try:
            asked.append(_read_asked(session, records))
        except InputError as error:
            yield f"session-{session.session_id}.json: {error}"
    if not asked or len(asked) < len(records.sessions):
        return
    for launch in records.launches:
        levels = [level for one in asked for level in one.levels if level.name == launch.level]
        if not any((list(level.flags), level.expect) == (launch.flags, launch.expect) for level in levels):
            yield f"launch-{launch.launch_id}.json: no session asked for level '{shown(launch.level)}' with its flags"
    planned = {key for one in asked for keys in one.runs_of.values() for key in keys}
    for run in records.runs:
        if _key(run) not in planned:
            yield f"run-{run.run_id}.json: no session asked for it"
    done = {identity_in(path.name).rpartition("-a")[0] for path in store.record_files("run")}
    for launch in records.launches:
        yield from _check_runs_of(launch, asked, done)


def _check_runs_of(launch: LaunchRecord, asked: list[_Asked], done: set[str]) -> Iterator[str]:
    """Tell a run that is not there though its launch came to its end.

    With those of earlier attempts the launch has all runs that one of the sessions asked for, unless the time limit
    came before the last one: then its message says so.
    """
    if launch.fills_caches or launch.outcome.status != "ok" or launch.outcome.message:
        return
    wanted = [one.runs_of[_key(launch)] for one in asked if _key(launch) in one.runs_of]
    lacking = [sorted(keys - done) for keys in wanted]
    if lacking and all(lacking):
        yield f"launch-{launch.launch_id}.json: its run '{min(lacking, key=len)[0]}' is not there"


def _read_asked(session: SessionRecord, records: StudyOf[RunHead]) -> _Asked:
    """Return what a session asked for.

    Raises:
        InputError: it does not fit, or is not that of its fingerprint or of the launches.

    """
    parameters = make_parameters(dict(session.asked))
    first = records.launches[0] if records.launches else None
    shared = {name: session.asked.get(name) for name in first.comparable} if first else parameters.comparable()
    if fingerprint(shared) != session.fingerprint:
        raise InputError(f"fingerprint {shown(session.fingerprint)} does not stand for what it asked")
    if first and first.fingerprint != session.fingerprint:
        raise InputError(f"fingerprint {session.fingerprint} is not that of the launches, {first.fingerprint}")
    try:
        levels = tuple(
            Level(**{name: value for name, value in fields.items() if name in Level.model_fields})
            for fields in session.levels
        )
    except ValueError as error:
        raise InputError(f"levels: {shown(' '.join(str(error).split()))}") from None
    if len(levels) * len(parameters.users) * len(parameters.seeds) > MOST_RUNS:
        raise InputError(f"it asked for more than {MOST_RUNS:,} runs")
    plan = make_plan(parameters, levels)
    return _Asked(parameters, levels, {one.key: frozenset(run.key for run in one.runs) for one in plan.measured})


def _key(item: LaunchRecord | RunHead) -> str:
    """Return a record's id without its attempt."""
    return (item.launch_id if isinstance(item, LaunchRecord) else item.run_id).rpartition("-a")[0]
