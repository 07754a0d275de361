"""Why a start failed: certain signs, likely signs, and the name of the cause."""

import re

from study.analyze.startup_lines import Line
from study.analyze.startup_patterns import Kind, Reading

_CERTAIN = re.compile(
    r"EngineCore failed to start|ngine core initialization failed|ngine process failed to start"
    r"|WorkerProc hit an exception|WorkerProc (?:failed to start|initialization failed)"
    r"|orker proc \S{1,40} died unexpectedly|EngineCore encountered a fatal error"
    r"|Failed core proc|ngine core proc\w* \S{0,40} ?died|less than desired GPU memory utilization"
    r"|No available memory for the cache blocks|is larger than the available KV cache memory"
    r"|larger than the maximum number of tokens that can be stored in KV cache"
    r"|OutOfMemoryError|CUDA out of memory\. Tried|HIP out of memory\. Tried"
    r"|Application startup failed|error: unrecognized arguments|error: argument |ddress already in use"
    r"|exited with code [1-9]|ain process exited, code=(?:exited, status=[1-9]|killed|dumped)|Segmentation fault"
    r"|Worker failed with error|No CUDA GPUs are available|Failed to infer device type"
)
_LIKELY = re.compile(r"^(?:\w+\.){0,6}\w{0,60}(?:Error|Exception)(?:Group)?: \S")
_CAUSES = tuple(
    (name, re.compile(pattern))
    for name, pattern in (
        ("GPU not free", r"less than desired GPU memory utilization"),
        (
            "no KV memory",
            r"No available memory for the cache blocks|larger than the (?:available KV|maximum number of tokens)"
            r"|KV cache is needed, which is larger",
        ),
        ("out of GPU memory", r"OutOfMemoryError|out of memory"),
        ("no GPU", r"No CUDA GPUs are available|Failed to infer device type"),
        ("address in use", r"ddress already in use"),
        ("unusable argument", r"error: unrecognized arguments|error: argument |ValidationError"),
        ("exception", r"(?:Error|Exception): "),
        ("worker exception", r"WorkerProc|Worker failed"),
        ("process ended", r"xited|Segmentation fault"),
        ("engine did not start", r""),
    )
)
NO_KV_MEMORY = "no KV memory"
_REASON_CHARS = 240


def find_failure(line: Line) -> Reading | None:
    """Return a FAILURE reading for a certain sign of a failed start, EXCEPTION for a likely one, else None.

    A likely sign is an exception's own line; a start that goes on after it has not failed.
    """
    if line.level in ("DEBUG", "INFO"):
        return None
    if _CERTAIN.search(line.text):
        return Reading(Kind.FAILURE, note=line.message[:_REASON_CHARS])
    if line.level in ("", "ERROR", "CRITICAL") and _LIKELY.search(line.message):
        return Reading(Kind.EXCEPTION, note=line.message[:_REASON_CHARS])
    return None


def name_cause(messages: list[str]) -> str:
    """Return `cause: message` for the most telling of a failed start's messages.

    A cause goes before its consequences: `EngineCore failed to start` says less than the exception beside it.
    """
    for cause, pattern in _CAUSES:
        for message in messages:
            if pattern.search(message):
                return f"{cause}: {message}"
    return ""
