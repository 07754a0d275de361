"""`study gather`: brings what several machines measured of one study into one raw folder; theirs stay as they are."""

from collections.abc import Sequence
from pathlib import Path

from study.arrival import add_session, check_belongs, finish_arrivals, read_launches, receive_launch
from study.design.counting import format_counted
from study.design.plain_files import shown
from study.errors import InputError
from study.record_files import open_record
from study.records import LaunchRecord
from study.store import Store, StudyRecords


def gather_study(store: Store, folders: Sequence[Path]) -> list[str]:
    """Bring the records of a study from other data folders into `store`.

    Measured launches and runs keep their names and bytes; runs that were packed come unpacked. Sessions and the
    unmeasured starts that fill caches, which every machine counts from 1, get the next numbers here. What is there
    already is left as it is.

    Args:
        store: where the records come to.
        folders: data folders of other machines; each holds `raw/<study>`.

    Returns:
        One line for each folder: what came from it.

    Raises:
        InputError: a folder without this study, or with a launch that is still open.
        RecordError: records that cannot be compared or contradict each other, or a launch that two machines made.

    """
    sources = [_open_source(store, folder) for folder in folders]
    found = [source.read() for source in sources]
    with store.lock():
        finish_arrivals(store)
        ours = store.read()
        first = next((one.launches[0] for one in (ours, *found) if one.launches), None)
        if first is not None:
            for launch in (launch for one in found for launch in one.launches):
                check_belongs(launch, first)
        _check_names(store, sources)
        sessions = ours.sessions
        for session in (session for one in found for session in one.sessions):
            sessions = add_session(store, session, sessions, sessions)
        return [_bring(store, source, records, first) for source, records in zip(sources, found, strict=True)]


def _open_source(store: Store, folder: Path) -> Store:
    source = Store(folder, store.study)
    if not source.raw.is_dir():
        raise InputError(f"'{shown(folder)}' holds no raw/{store.study}; name the folder that raw/ lies in")
    if source.raw.resolve() == store.raw.resolve():
        raise InputError(f"'{shown(folder)}' is where the records come to; name the folders of other machines")
    if source.open_files():
        name = source.open_files()[0].name
        raise InputError(f"'{shown(folder)}' has an open launch, {name}; `study run` on that machine closes it")
    return source


def _check_names(store: Store, sources: Sequence[Store]) -> None:
    """Refuse two machines' launches of one name before anything is written."""
    seen: dict[str, tuple[Store, str]] = {}
    for one in (store, *sources):
        for path in (*one.record_files("launch"), *one.record_files("run")):
            if path.name.startswith("launch-fill-"):
                continue
            file = open_record(path)
            other, known = seen.setdefault(file.name, (one, file.sha256))
            if other is not one and known != file.sha256:
                places = f"'{shown(other.raw)}' and '{shown(one.raw)}'"
                raise InputError(f"{places} both made {file.name}; give each machine seeds of its own")


def _bring(store: Store, source: Store, records: StudyRecords, first: LaunchRecord | None) -> str:
    launches = runs = 0
    for _, files in read_launches(source, ()):
        if receive_launch(store, files, first) is not None:
            launches += 1
            runs += len(files.runs)
    known = len(records.launches) - launches
    came = f"{format_counted(launches, 'launch')} and {format_counted(runs, 'run')} came"
    return f"{source.raw}: {came}" + (f", {known} were here" if known else "")
