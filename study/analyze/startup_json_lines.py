"""Log records written as JSON, one a line: the message is a field, and the rest of the line is wrapping.

Covers formatters of Python's logging, Docker's own log files (`log`), journald exports and cloud exports.
"""

import json
import re
from dataclasses import dataclass

from study.analyze.startup_clock import stamp_in_year

_MESSAGE_KEYS = ("message", "msg", "log", "MESSAGE", "textPayload", "event", "body", "text")
_NESTED_KEYS = ("jsonPayload", "record", "fields")
_PID_KEYS = ("pid", "process", "process_id", "_PID")
_PROCESS_KEYS = ("processName", "process_name", "process", "proc")
_LEVEL_KEYS = ("level", "levelname", "severity")
_TIME_KEYS = ("timestamp", "asctime", "time", "@timestamp", "ts")
_MESSAGE_KEY_SEEN = re.compile(r'"(?:' + "|".join(_MESSAGE_KEYS) + r')"\s*:')
_ISO = re.compile(r"(?:\d{4}-)?(\d\d)-(\d\d)[ T](\d\d):(\d\d):(\d\d(?:[.,]\d{1,6})?)")
_DECODER = json.JSONDecoder()


@dataclass(frozen=True, slots=True)
class JsonRecord:
    """The parts of one JSON log record that a reader needs; `stamp` as from `stamp_in_year`."""

    before: str
    message: str
    process: str
    pid: int | None
    level: str
    stamp: float | None


def unpack_json(raw: str) -> JsonRecord | None:
    """Return the record that `raw` holds behind any prefix, or None where it holds none with a message."""
    begin = raw.find("{")
    if begin < 0 or not _MESSAGE_KEY_SEEN.search(raw, begin):
        return None
    try:
        record, _ = _DECODER.raw_decode(raw, begin)
    except (ValueError, RecursionError):
        return None
    for nested in _NESTED_KEYS:
        if isinstance(record, dict) and isinstance(record.get(nested), dict):
            record = {**record, **record[nested]}
    message = _first(record, _MESSAGE_KEYS, str) if isinstance(record, dict) else None
    if not isinstance(message, str):
        return None
    inner = unpack_json(message) if message.lstrip().startswith("{") and len(message) < len(raw) else None
    if inner is not None:
        return inner
    pid, process, level = (_first(record, keys, kind) for keys, kind in _WANTED)
    return JsonRecord(
        before=raw[:begin],
        message=message,
        process=process if isinstance(process, str) else "",
        pid=pid if isinstance(pid, int) else None,
        level=level.upper() if isinstance(level, str) else "",
        stamp=_stamp(_first(record, _TIME_KEYS, str)),
    )


_WANTED: tuple[tuple[tuple[str, ...], type], ...] = ((_PID_KEYS, int), (_PROCESS_KEYS, str), (_LEVEL_KEYS, str))


def _first(record: dict[str, object], keys: tuple[str, ...], kind: type) -> object:
    return next((record[key] for key in keys if isinstance(record.get(key), kind)), None)


def _stamp(value: object) -> float | None:
    match = _ISO.search(value) if isinstance(value, str) else None
    if match is None:
        return None
    month, day, hour, minute = (int(match.group(index)) for index in range(1, 5))
    return stamp_in_year(month, day, hour, minute, float(match.group(5).replace(",", ".")))
