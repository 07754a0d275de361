"""Record files, read one at a time: whole and as the schema has it, or refused with the file's name and the field.

A run's file may be packed by gzip, `run-<id>.json.gz`: the same record in about a third of the bytes. Names and hashes
are those of the file that was packed, so packing changes nothing that is built of it.
"""

import gzip
import hashlib
import io
import json
import re
import zlib
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar

from pydantic import TypeAdapter, ValidationError

from study.design.plain_files import decode_utf8, explain_fields, is_file, keys_once, parse_json, read_bytes, shown
from study.errors import InputError, RecordError
from study.records import (
    SCHEMA_VERSION,
    Gate,
    LaunchRecord,
    Outcome,
    Record,
    RunRecord,
    SessionRecord,
    find_contradictions,
    identity_of,
)

_TYPES = (("launch", LaunchRecord), ("run", RunRecord), ("session", SessionRecord), ("open", LaunchRecord))
READERS: dict[str, TypeAdapter[Any]] = {kind: TypeAdapter(record) for kind, record in _TYPES}

MOST_RECORD_BYTES = 64 * 2**20
"""A record with 40,000 requests has about 5 MB; what is larger than this, packed or unpacked, is none of ours."""
PACKED = ".gz"
"""How the name of a packed run ends."""
_NAME = re.compile(r"(launch|run|session)-[^/]+(?<!\.schema)\.json(\.gz)?", re.DOTALL)
_OWN_NAMES = {"launch_id", "run_id", "attempt", "log"}
"""What may differ between a record and a copy of it."""


_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_POWERS = (b"0e000", b"0e+000", b"0E000", b"0E+000")
_HUGE_POWER = re.compile(rb"0[eE]\+?000+[\s,\]}]")


@dataclass(frozen=True)
class RunHead:
    """A run without its columns: what it was, how it ended, and a hash that only a copy of it shares."""

    study: str
    fingerprint: str
    rehearsal: bool
    run_id: str
    attempt: int
    launch_id: str
    session: str
    block: int
    level: str
    users: int
    seed: int
    position: int
    started_unix_s: float
    gate: Gate
    outcome: Outcome
    content_sha256: str
    kind: ClassVar[str] = "run"


_COPIED = tuple(one.name for one in fields(RunHead) if one.name != "content_sha256")


def head_of(run: RunRecord) -> RunHead:
    """Return what stays of a run when its columns are let go."""
    return RunHead(**{name: getattr(run, name) for name in _COPIED}, content_sha256=hash_content(run))


def hash_content(record: LaunchRecord | RunRecord) -> str:
    """Return a SHA-256 (hex) of what a record says, without the names that tell it from a copy."""
    return hashlib.sha256(record.model_dump_json(exclude=_OWN_NAMES).encode()).hexdigest()


@dataclass(frozen=True)
class RecordFile:
    """A record's file: `content` is its JSON, unpacked, and `sha256` (hex) that of all of it."""

    path: Path
    kind: str
    content: bytes = field(repr=False)
    sha256: str

    @property
    def name(self) -> str:
        """Its name, unpacked."""
        return unpacked_name(self.path)

    def parse(self) -> Record:
        """Return the record.

        Raises:
            RecordError: it is no such record, or of another schema; the file and the field are named.

        """
        record = _parse_quickly(self)
        return _parse_carefully(self) if record is None else record


def open_record(path: Path) -> RecordFile:
    """Read the bytes of a record's file; its kind is how its name begins.

    Raises:
        RecordError: no kind has such a name, or it cannot be read as a file, or not be unpacked.

    """
    kind = path.name.split("-")[0]
    if kind not in READERS:
        raise RecordError(f"'{shown(path)}' is no record: its name begins with run-, launch-, session- or open-")
    try:
        content = read_bytes(path, MOST_RECORD_BYTES)
    except InputError as error:
        raise RecordError(str(error)) from None
    if path.suffix == PACKED:
        content = _unpack(path, content)
    return RecordFile(path, kind, content, hashlib.sha256(content).hexdigest())


def unpacked_name(path: Path) -> str:
    """Return the name that a record's file has unpacked."""
    return path.name.removesuffix(PACKED)


def is_record_name(name: str, *kinds: str) -> bool:
    """Say whether a file in a raw folder is named as a record of one of `kinds`; one of a run may be packed."""
    found = _NAME.fullmatch(name)
    return found is not None and found[1] in kinds and (not found[2] or found[1] == "run")


def read_unpacked(path: Path) -> bytes | None:
    """Return the bytes of the raw file named `path`, those of a packed run unpacked; None where neither lies there.

    Raises:
        RecordError: it cannot be read or unpacked.

    """
    packed = path.with_name(path.name + PACKED)
    places = (path, packed) if is_record_name(path.name, "run") else (path,)
    place = next((one for one in places if is_file(one)), None)
    if place is None:
        return None
    try:
        content = place.read_bytes()
    except OSError as error:
        raise RecordError(f"'{shown(place)}' cannot be read: {error.strerror}") from None
    return _unpack(place, content) if place == packed else content


def _unpack(path: Path, held: bytes) -> bytes:
    """Return what gzip packed, whole and of a size that a record has."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(held)) as file:
            content = file.read(MOST_RECORD_BYTES + 1)
    except (EOFError, OSError, zlib.error) as error:
        what = f"'{shown(path)}' cannot be unpacked ({shown(error)})"
        raise RecordError(f"{what}; restore it from a copy or remove it") from None
    if len(content) > MOST_RECORD_BYTES:
        raise RecordError(f"'{shown(path)}' unpacks to more than {MOST_RECORD_BYTES / 2**20:g} MiB; no record does")
    return content


def identity_in(name: str) -> str:
    """Return the id that a record's file name gives: `b1-O0-u1-a1` of `run-b1-O0-u1-a1.json`, packed or not."""
    return name.removesuffix(PACKED).removesuffix(".json").partition("-")[2]


def check_place(file: RecordFile, record: Record | RunHead, study: str) -> None:
    """Refuse a record that lies under another name or in another study's folder.

    Raises:
        RecordError: it does.

    """
    identity = record.run_id if isinstance(record, RunHead) else identity_of(record)
    if identity_in(file.path.name) != identity:
        held = f"{record.kind} '{shown(identity)}'"
        raise RecordError(f"'{shown(file.path)}' holds {held}; a record keeps its file name")
    if record.study != study:
        raise RecordError(f"'{shown(file.path)}' belongs to study '{shown(record.study)}', not to '{study}'")


def name_contradictions(file: RecordFile, record: Record) -> tuple[str, ...]:
    """Return a line that names the file for everything in which its record contradicts itself."""
    return tuple(f"'{shown(file.path)}': {fault}" for fault in find_contradictions(record))


def _parse_quickly(file: RecordFile) -> Record | None:
    """Return a record, or None where anything about it is odd: then the careful way finds the words.

    The numbers of a run all have a type and a range in the schema, which refuses what is infinite or endless. What it
    cannot see are keys that stand twice and half a character, and such numbers where a launch or a session holds any
    value.
    """
    try:
        text = file.content.decode()
        if "\\u" in text or (file.kind != "run" and _may_be_huge(file.content)):
            return None
        data = json.loads(text, object_pairs_hook=keys_once, parse_constant=_refuse)
        version = data.get("schema_version") if isinstance(data, dict) else None
        if version != SCHEMA_VERSION or isinstance(version, bool):
            return None
        record: Record = READERS[file.kind].validate_json(file.content, strict=True)
    except (ValueError, RecursionError):
        return None
    return record


def _may_be_huge(content: bytes) -> bool:
    """Say whether a number in it may be beyond all floats, or have more digits than are read."""
    digits = content.translate(_DIGITS)
    if any(power in digits for power in _POWERS) and _HUGE_POWER.search(digits):
        return True
    return b"0" * 300 in digits


def _refuse(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _parse_carefully(file: RecordFile) -> Record:
    """Read a record; every fault names the file, and the field where there is one."""
    named = f"'{shown(file.path)}'"
    try:
        data = parse_json(decode_utf8(file.content, named))
    except InputError as error:
        raise RecordError(str(error)) from None
    except ValueError as error:
        raise RecordError(f"{named} is not JSON ({error}); restore it from a copy or remove it") from None
    version = data.get("schema_version") if isinstance(data, dict) else None
    if version != SCHEMA_VERSION or isinstance(version, bool):
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        what = "a newer version of the study wrote it" if newer else "restore it from a copy or remove it"
        raise RecordError(f"{named}: schema_version {shown(version)} is not {SCHEMA_VERSION}; {what}")
    try:
        record: Record = READERS[file.kind].validate_json(file.content, strict=True)
    except ValidationError as error:
        raise RecordError(f"{named}: {explain_fields(error)}") from None
    return record
