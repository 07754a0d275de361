"""Clean messages out of raw server-log text.

A log as found in the wild is wrapped many times: colour codes (whole, without their escape byte, or in caret notation),
carriage returns and progress bars in front of real lines, prefixes of compose, systemd, Ray, grep, CI systems,
TorchServe and terminal boxes, JSON records, Markdown. Nothing here asks what a message means; `startup_patterns` does.

    raw text -> iter_raw (pieces of lines) -> parse_line -> Line(text, process, rank, service, stamp, ...)
"""

import functools
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from study.analyze.startup_clock import stamp_in_year
from study.analyze.startup_json_lines import unpack_json

MAX_LINE_CHARS = 65_536
"""A longer line is read in pieces of this length, so that memory stays bounded whatever the file holds."""

_ESCAPES = r"(?:\x1b|\u241b|\^\[|\\x1[bB]|\\u001[bB]|\\033|\\e|\#033)"
_COLOUR = re.compile(rf"{_ESCAPES}\[[0-?]{{0,16}}[ -/]?[@-~]|\x9b[0-?]{{0,16}}[@-~]|\[\d{{1,3}}(?:;\d{{1,3}}){{0,5}}m")
_MARKUP = re.compile(r"[*`\u200b\u200e\u200f\ufeff\x00\x08]+|</?(?:b|strong|em|i|code)>")
_BOX = re.compile(r"[\u2500-\u257f\u00a0\u202f\t]")

_HEAD = re.compile(
    r"(?P<level>DEBUG|INFO|WARNING|WARN|ERROR|CRITICAL)\s+(?:\d{4}-)?(?P<month>\d\d)-(?P<day>\d\d)[ T]+"
    r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,9})?)"
)
_ASCTIME = re.compile(
    r"\d{4}-(?P<month>\d\d)-(?P<day>\d\d) (?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d(?:[.,]\d{1,6})?)(?![\dZ])"
)
_ASCTIME_TAIL = re.compile(r"\s*-\s*(?:DEBUG|INFO|WARNING|ERROR)\s*-\s*[\w./]{1,120}:\d+\s*-\s*")
_SOURCE = re.compile(r"\s*\[?[\w./<>-]{1,120}:\d+\]\s?")
_CHAIN = re.compile(r"(?:\([^()]{0,80}\bpid=\d+[^()]{0,80}\)\s*|\[[\w-]{1,40}\]\s*){1,4}$")
_PROCESS = re.compile(
    r"\(\s*(?P<name>(?:[^()]|\([^()]{0,80}\)){0,100}?\)*)\s*\bpid=(?P<pid>\d{1,10}(?!\d))(?P<more>[^()]{0,80})\)"
)
_LOST_PROCESS = re.compile(r"(?P<name>\w[\w.:]*)\S{0,80}\s+pid=(?P<pid>\d{1,10}(?!\d))(?P<more>[^()]{0,80})\)")
_NODE = re.compile(r"ip=([^)\s,]+)")
_RANK = re.compile(r"rank=(\d+)|((?:D?P?CP|DP|PP|TP|EP|ETP)\d+(?:_(?:D?P?CP|DP|PP|TP|EP|ETP)\d+)*)")
_STAGE = re.compile(r"\[(Stage-\d+)\]")
_REPEATED = re.compile(r"\[repeated (\d{1,9})x across cluster\]")
_SERVICES = (
    re.compile(r"(?:^|\]:\s|Z\s|\d[:\s])\s*(?P<service>[A-Za-z0-9][\w.-]*)\s+\|\s(?!\s*\d+/\d+)"),  # compose
    re.compile(r"(?:^|\s)(?P<service>[A-Za-z0-9][\w.-]*) exited with code \d"),  # compose, the end of a service
    re.compile(r"(?P<service>[\w./-]+\.(?:log|txt|out))[:-]\d+[:-]"),  # grep -n over several files
    re.compile(r"\[?(?P<service>pod/[\w./-]+)\]?"),  # kubectl logs --prefix
    re.compile(r"(?P<service>W-\d+-\S+?)-std(?:out|err)\b"),  # TorchServe
    re.compile(r"systemd\[\d+\]:\s(?P<service>[\w@.-]+)\.service:"),
    re.compile(r"(?:^|\s)(?P<service>[A-Za-z][\w@.-]*)\[\d+\]:\s"),  # systemd, syslog
)
_PREFIX_CHARS = 400


@dataclass(frozen=True, slots=True)
class Line:
    """One message of the log, without its wrapping.

    Attributes:
        text: the whole line without colour codes, Markdown and box edges.
        message: the text behind the last known prefix.
        process: the innermost process's name without its rank (`Worker`, `EngineCore_DP0`), empty where none is given.
        rank: the rank part of that name (`TP1`, `rank 2`), empty where none is given.
        pid: the innermost process's id, None where none is given.
        node: the address that Ray prints for another node, else empty.
        service: compose service, systemd unit, pod, worker or file that the line came from, else empty.
        level: `INFO`, `ERROR`, ..., empty where none is given.
        stamp: local time from `stamp_in_year`, None where the line has none; UTC stamps of foreign tools do not count.
        folded: how many more lines like this one Ray folded into it.

    """

    text: str
    message: str
    process: str = ""
    rank: str = ""
    pid: int | None = None
    node: str = ""
    service: str = ""
    level: str = ""
    stamp: float | None = None
    folded: int = 0

    @property
    def key(self) -> tuple[str, str, int | None, str]:
        """The process that wrote the line, as far as its prefix tells."""
        return (self.process, self.rank, self.pid, self.node)


@runtime_checkable
class _Readable(Protocol):
    def read(self, size: int, /) -> str: ...


def iter_raw(source: str | Iterable[str]) -> Iterator[str]:
    """Yield non-empty raw lines of a text, an open text file or any iterable of lines, in bounded memory.

    Carriage returns end a line too. Lines over `MAX_LINE_CHARS` come in pieces.
    """
    if isinstance(source, str):
        source = io.StringIO(source, newline="")
    if not isinstance(source, _Readable):
        for item in source:
            for line in item.splitlines():
                yield from _pieces(line)
        return
    rest = ""
    for block in iter(functools.partial(source.read, MAX_LINE_CHARS), ""):
        lines = (rest + block).splitlines()
        rest = "" if block[-1].splitlines() == [""] else lines.pop()
        for line in lines:
            yield from _pieces(line)
        if len(rest) > MAX_LINE_CHARS:
            yield rest[:MAX_LINE_CHARS]
            rest = rest[MAX_LINE_CHARS:]
    yield from _pieces(rest)


def _pieces(line: str) -> Iterator[str]:
    if len(line) <= MAX_LINE_CHARS:
        if line:
            yield line
        return
    for begin in range(0, len(line), MAX_LINE_CHARS):
        yield line[begin : begin + MAX_LINE_CHARS]


def clean(raw: str) -> str:
    """Return `raw` without colour codes in any of their three states, Markdown marks and box edges."""
    return _BOX.sub(" ", _MARKUP.sub("", _COLOUR.sub("", raw)))


def parse_line(raw: str) -> list[Line]:
    """Return the messages that one raw line holds: usually one, more where lines are glued together.

    A line that holds a JSON record gives the messages inside its message field.
    """
    record = unpack_json(raw)
    if record is None:
        return [_parse_segment(segment) for segment in _split_glued(clean(raw))]
    lines = []
    for part in record.message.splitlines():
        for segment in _split_glued(clean(part)):
            line = _parse_segment(f"{clean(record.before)}{segment}")
            lines.append(
                Line(
                    text=line.text,
                    message=line.message,
                    process=line.process or record.process,
                    rank=line.rank or _rank_of(record.process),
                    pid=record.pid if line.pid is None else line.pid,
                    node=line.node,
                    service=line.service,
                    level=line.level or record.level,
                    stamp=record.stamp if line.stamp is None else line.stamp,
                    folded=line.folded,
                )
            )
    return lines


def _split_glued(text: str) -> list[str]:
    """Cut a text that holds several log heads in front of each head but the first."""
    heads = list(_HEAD.finditer(text))
    cuts = [0]
    for before, head in itertools.pairwise(heads):
        begin = max(before.end(), head.start() - _PREFIX_CHARS)
        chain = _CHAIN.search(text, begin, head.start())
        cuts.append(chain.start() if chain else head.start())
    return [text[begin:end] for begin, end in zip(cuts, [*cuts[1:], len(text)], strict=True)]


def _parse_segment(text: str) -> Line:
    head = _HEAD.search(text)
    begin = max(0, head.start() - _PREFIX_CHARS) if head else 0
    prefix = text[begin : head.start()] if head else text[:_PREFIX_CHARS]
    name, pid, node, end = _innermost_process(prefix, whole=head is not None)
    stage = _STAGE.search(prefix)
    rank = "_".join(part for part in (stage.group(1) if stage else "", _rank_of(name)) if part)
    stamped = head or _ASCTIME.search(text, 0, _PREFIX_CHARS)
    body = head.end() if head else stamped.end() if stamped else begin + end
    source = (_SOURCE if head else _ASCTIME_TAIL).match(text, body)
    folded = _REPEATED.search(text) if "[repeated" in text else None
    return Line(
        text=text,
        message=text[source.end() if source else body :].strip(),
        process=re.sub(r"\s.*", "", name, flags=re.DOTALL),
        rank=rank,
        pid=pid,
        node=node,
        service=_service_of(text[:_PREFIX_CHARS]),
        level=head.group("level") if head else "",
        stamp=_stamp_of(stamped),
        folded=int(folded.group(1)) if folded else 0,
    )


def _innermost_process(prefix: str, *, whole: bool) -> tuple[str, int | None, str, int]:
    """Return name, pid, node and end of the last process prefix; unless `whole`, of the first run of prefixes."""
    name, pid, node, end = "", None, "", 0
    for match in _PROCESS.finditer(prefix):
        if not whole and end and prefix[end : match.start()].strip():
            break
        name, pid, end = match.group("name").strip(), int(match.group("pid")), match.end()
        address = _NODE.search(match.group("more"))
        node = address.group(1) if address else node
    if pid is None and "pid=" in prefix and (lost := _LOST_PROCESS.search(prefix)):
        return lost.group("name"), int(lost.group("pid")), "", lost.end()
    return name, pid, node, end


def _rank_of(name: str) -> str:
    match = _RANK.search(name)
    if match is None:
        return ""
    return f"rank {match.group(1)}" if match.group(1) else match.group(2)


def _service_of(prefix: str) -> str:
    for pattern in _SERVICES:
        if match := pattern.search(prefix):
            return match.group("service")
    return ""


def _stamp_of(match: re.Match[str] | None) -> float | None:
    if match is None:
        return None
    month, day, hour, minute = (int(match.group(part)) for part in ("month", "day", "hour", "minute"))
    return stamp_in_year(month, day, hour, minute, float(match.group("second").replace(",", ".")))
