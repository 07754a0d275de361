"""What the lines of a vLLM start say: one rule a kind of line, over the wordings of vLLM 0.6 to 0.33.

Every rule searches inside the line and needs the number with its unit and three or four key words: prefixes, glued
progress bars and tools that replace words must not cost a figure. Line numbers of vLLM's sources play no part.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

_NUMBER = r"(?:(?<![\w.])[-+\u2212\u2013])?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d{1,3})?"
_GIB_PER_UNIT = {"k": 2.0**-20, "m": 2.0**-10, "g": 1.0, "t": 2.0**10, "b": 2.0**-30}
_SECONDS_PER_UNIT = {"ms": 0.001, "mi": 60.0, "s": 1.0}
_LARGEST = 1e15
"""No duration, size or count of a start is as large, in whatever unit; a line with such a number is spoiled."""


class Kind(StrEnum):
    """Kinds of lines that say something about a start."""

    COMMAND = "command"
    API_BEGIN = "api_begin"
    ENGINE_BEGIN = "engine_begin"
    LOAD_BEGIN = "load_begin"
    LOAD_WEIGHTS = "load_weights"
    MODEL_LOAD = "model_load"
    DYNAMO = "dynamo"
    COMPILE_BEGIN = "compile_begin"
    COMPILE_RANGE = "compile_range"
    COMPILE_LOAD = "compile_load"
    COMPILE_LOOKUP = "compile_lookup"
    COMPILE_SAVE = "compile_save"
    COMPILE_CACHE_OFF = "compile_cache_off"
    COMPILE_TOTAL_OLD = "compile_total_old"
    COMPILE_TOTAL = "compile_total"
    COMPILE_AND_PROFILING = "compile_and_profiling"
    PROFILING_RUN = "profiling_run"
    MEMORY_PROFILING = "memory_profiling"
    GRAPH_ESTIMATE = "graph_estimate"
    KV_MEMORY = "kv_memory"
    KV_MEMORY_IN_USE = "kv_memory_in_use"
    KV_TOKENS = "kv_tokens"
    KV_BLOCKS = "kv_blocks"
    CONCURRENCY = "concurrency"
    JIT_WARMUP = "jit_warmup"
    CAPTURE = "capture"
    CAPTURE_OF_SIZE = "capture_of_size"
    CAPTURE_SKIPPED = "capture_skipped"
    GRAPH_POOL = "graph_pool"
    INIT_ENGINE = "init_engine"
    EAGER = "eager"
    V2_RUNNER = "v2_runner"
    MODE_CHANGE = "mode_change"
    READY = "ready"
    FAILURE = "failure"
    EXCEPTION = "exception"


@dataclass(frozen=True, slots=True)
class Reading:
    """What one match says; a part that the line does not give is None.

    Attributes:
        kind: what the line is about.
        seconds: a duration.
        gib: a size, with its sign; `GB` of old versions is GiB.
        more_seconds: the second duration of the line (compilation inside the engine's initialisation).
        more_gib: the second size of the line (the estimate beside the actual pool).
        count: tokens or blocks.
        ratio: the concurrency factor.
        note: words to keep, such as a mode.

    """

    kind: Kind
    seconds: float | None = None
    gib: float | None = None
    more_seconds: float | None = None
    more_gib: float | None = None
    count: int | None = None
    ratio: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Rule:
    kind: Kind
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


def _seconds(name: str = "seconds") -> str:
    units = "ms|msecs?|milliseconds?|s|secs?|seconds?|mins?|minutes?"
    return rf"(?P<{name}>{_NUMBER})\s*(?P<{name}_unit>{units})(?![A-Za-z])"


def _size(name: str = "gib") -> str:
    return rf"(?P<{name}>{_NUMBER})\s*(?P<{name}_unit>[KMGTkmgt]i?[Bb]|bytes|B)(?![A-Za-z])"


_RULES: tuple[_Rule, ...] = tuple(
    _Rule(kind, tuple(hints.split("|")), re.compile(pattern))
    for kind, hints, pattern in (
        (
            Kind.COMMAND,
            "vllm|$ ",
            r"(?:^|[$#>+%]\s{1,4}|\d[:-])\s*(?:\w+=\S{0,200}\s+){0,9}(?:\S{0,200}/)?"
            r"(?:vllm serve\b|python[\d.]{0,5} -m vllm\.)"
            r"|^\s*\$\s+(?!#|curl|nvidia-smi|export|cd |ls|watch|echo)\w",
        ),
        (Kind.API_BEGIN, "API server version|non-default args|args: Namespace", r"version \d|args: "),
        (Kind.ENGINE_BEGIN, "LLM engine", r"Initializing an? (?:V\d )?LLM engine"),
        (Kind.LOAD_BEGIN, "to load model|from scratch", r"Starting to load model|Loading model from scratch"),
        (Kind.LOAD_WEIGHTS, "eights took", rf"Loading (?:model )?weights took {_seconds()}"),
        (
            Kind.MODEL_LOAD,
            "loading took|eights took",
            rf"(?:odel loading|oading model weights) took {_size()}(?:\s+memory)?(?:\s+and\s+{_seconds()})?",
        ),
        (Kind.DYNAMO, "Dynamo", rf"Dynamo .{{0,40}}?time:? {_seconds()}"),
        (Kind.COMPILE_BEGIN, "cache directory|Starting torch", r"cache directory: .*compile|Starting torch\.compile"),
        (Kind.COMPILE_RANGE, "Compiling a graph", rf"Compiling a graph .{{0,80}}?takes {_seconds()}"),
        (Kind.COMPILE_LOAD, "Directly load", rf"Directly load (?:.{{0,120}}?took {_seconds()})?"),
        (Kind.COMPILE_LOOKUP, "Directly lookup", r"Directly lookup"),
        (Kind.COMPILE_SAVE, "saved AOT", r"saved AOT"),
        (Kind.COMPILE_CACHE_OFF, "compile cache is disabled", r"compile cache is disabled"),
        (Kind.COMPILE_TOTAL_OLD, "compil", rf"(?:torch\.compile|graph compilation) takes {_seconds()}"),
        (Kind.COMPILE_TOTAL, "compile took", rf"torch\.compile took {_seconds()}"),
        (
            Kind.COMPILE_AND_PROFILING,
            "compile and",
            rf"torch\.compile and .{{0,40}}?profiling.{{0,40}}?(?:took|takes) {_seconds()}",
        ),
        (Kind.PROFILING_RUN, "nitial profiling", rf"(?<!and )[Ii]nitial profiling\S{{0,20}} run took {_seconds()}"),
        (
            Kind.MEMORY_PROFILING,
            "emory profiling",
            rf"[Mm]emory profiling (?:takes|took|results: duration=)\s*{_seconds()}",
        ),
        (Kind.GRAPH_ESTIMATE, "Estimated CUDA", rf"Estimated CUDA graph memory: {_size()}"),
        (
            Kind.KV_MEMORY,
            "KV cache memory|KV Cache|for KV cache|kv_cache_size",
            rf"(?:Available KV cache memory:|reserved for KV [Cc]ache is|\bkv_cache_size=) ?{_size()}",
        ),
        (Kind.KV_MEMORY, "for KV", rf"reserved {_size()} (?:memory )?for KV [Cc]ache"),
        (
            Kind.KV_MEMORY,
            "for KV cache",
            rf"(?:Explicitly|Auto) set \((?P<gib>{_NUMBER})/{_NUMBER}\) (?P<gib_unit>GiB) for KV cache",
        ),
        (Kind.KV_MEMORY_IN_USE, "kv cache memory", rf"kv cache memory in use is {_size()}"),
        (Kind.KV_TOKENS, "KV cache size", rf"KV cache size: (?P<count>{_NUMBER}) tokens"),
        (Kind.KV_BLOCKS, "blocks:", rf"# (?!CPU)\w+ blocks: (?P<count>{_NUMBER})"),
        (
            Kind.CONCURRENCY,
            "aximum concurrency",
            rf"aximum concurrency for (?P<count>{_NUMBER}) tokens .{{0,20}}?: (?P<ratio>{_NUMBER})x",
        ),
        (Kind.JIT_WARMUP, "kernel warmup", rf"JIT kernel warmup finished in {_seconds()}"),
        (
            Kind.CAPTURE,
            "finished in",
            rf"(?:Graph \S{{1,40}}|\S{{1,40}} capturing) finished in {_seconds()}(?:[.,]?\s+took\s+{_size()})?",
        ),
        (
            Kind.CAPTURE_OF_SIZE,
            "finished in",
            rf"(?:^|\]|input tokens:?)\s*finished in {_seconds()},?\s+took\s+{_size()}",
        ),
        (
            Kind.CAPTURE_SKIPPED,
            "graph capture|graphs capture",
            r"Skipping .{0,60}?(?:CUDA|cuda|Cuda) ?graphs? capture",
        ),
        (
            Kind.GRAPH_POOL,
            "graph pool",
            rf"graph pool memory: {_size()}\s*\(actual\)(?:,\s*{_size('more_gib')}\s*\(estimated\))?",
        ),
        (
            Kind.INIT_ENGINE,
            "took",
            r"(?:init engine|create kv cache|warmup model)[^;]{0,120}?\btook "
            rf"{_seconds()}(?:\s*\(\s*compilation:?\s*{_seconds('more_seconds')})?",
        ),
        (Kind.EAGER, "eager mode", r"[Gg]raphs? (?:is|are) disabled under eager mode"),
        (Kind.V2_RUNNER, "Model Runner", r"Using V2 Model Runner"),
        (
            Kind.MODE_CHANGE,
            "cudagraph_mode|udagraph mode",
            r"(?:etting|verrid\w+|hang\w+|ack to)\s+(?:the )?(?:cuda|CUDA)[Gg]raph[_ ]mode"
            r"\s*(?:=|to|from \S{1,60} to)\s*(?P<note>[\w.]{1,60})",
        ),
        (Kind.MODE_CHANGE, "udagraph mode", r"udagraph mode .{0,160}?verriding to (?P<note>[\w.]{1,60})"),
        (
            Kind.READY,
            "startup complete|Uvicorn running|running on http",
            r"[Aa]pplication startup complete|Uvicorn running on \S",
        ),
    )
)
_SINGLE = frozenset({Kind.COMMAND, Kind.API_BEGIN, Kind.READY, Kind.COMPILE_LOAD})
_FAILURE_HINTS = ("ailed", "rror", "xception", "less than", "No available", "larger than", "xited", "ault", " died")
_TOO_FREQUENT = ("vllm", "$ ", "compil", "blocks:")
_WRAPPED = ("Graph capturing", "init engine", "create kv cache", "reserved for", "torch.compile t")
_RULE_HINTS = (hint for rule in _RULES for hint in rule.hints if hint not in _TOO_FREQUENT)
_OTHER_HINTS = ("takes ", " blocks: ", "vllm serve", "-m vllm", *_WRAPPED, *_FAILURE_HINTS)
_HINTS = tuple(dict.fromkeys((*_RULE_HINTS, *_OTHER_HINTS)))
_FOREIGN = re.compile(r"Received request|Added request|\bprompt: ")
_OPEN_ENDED = re.compile(
    r"Graph capturing|odel loading took|eights took|init engine|create kv cache|KV cache size|aximum concurrency"
    r"|torch\.compile t|torch\.compile and|Dynamo bytecode|KV cache memory|Compiling a graph|nitial profiling"
    r"|graph pool memory|reserved for KV|emory profiling"
)

_CUT_OFF = re.compile(r"(?:\band|\bin|\btook|secs,|seconds,|\(compilation:?)\s*[-\d.,]*$")


def may_matter(raw: str) -> bool:
    """Tell cheaply whether a raw line may hold a reading: most lines of a long-running server's log do not."""
    return _has_any(raw, _HINTS) or raw.lstrip(" \t").startswith("$ ")


def _has_any(text: str, hints: tuple[str, ...]) -> bool:
    """Tell whether a text holds one of `hints`; a plain loop takes half the time of `any`, for every line of a log."""
    for hint in hints:  # noqa: SIM110
        if hint in text:
            return True
    return False


def find_readings(text: str) -> list[Reading]:
    """Return what a clean line says, in the order of `Kind`; request texts that a server logs are not read."""
    readings = []
    for rule in _RULES:
        if _has_any(text, rule.hints):
            matches = rule.pattern.finditer(text)
            found = [_reading(rule.kind, match) for match in matches if _is_sane(match)]
            readings += found[:1] if rule.kind in _SINGLE else found
    if readings and _FOREIGN.search(text):
        return []
    return readings


def is_open_ended(text: str) -> bool:
    """Tell whether a line without a reading names a figure that may stand on the next, wrapped line."""
    return _OPEN_ENDED.search(text) is not None


def is_cut_off(text: str) -> bool:
    """Tell whether a line ends where a number, or the rest of one, must follow."""
    end = text[-60:].rstrip()
    return _CUT_OFF.search(end) is not None and _OPEN_ENDED.search(text) is not None


def _reading(kind: Kind, match: re.Match[str]) -> Reading:
    found = match.groupdict()
    count = found.get("count")
    ratio = found.get("ratio")
    return Reading(
        kind=kind,
        seconds=_in_seconds(found.get("seconds"), found.get("seconds_unit")),
        gib=_in_gib(found.get("gib"), found.get("gib_unit")),
        more_seconds=_in_seconds(found.get("more_seconds"), found.get("more_seconds_unit")),
        more_gib=_in_gib(found.get("more_gib"), found.get("more_gib_unit")),
        count=None if count is None else int(_number(count)),
        ratio=None if ratio is None else _number(ratio),
        note=found.get("note") or "",
    )


def _is_sane(match: re.Match[str]) -> bool:
    """Tell whether every number of a match can be one of a start."""
    found = match.groupdict()
    numbers = (found.get(name) for name in ("seconds", "gib", "more_seconds", "more_gib", "count", "ratio"))
    return all(abs(_number(text)) < _LARGEST for text in numbers if text is not None)


def _number(text: str) -> float:
    return float(text.replace(",", "").replace("\u2212", "-").replace("\u2013", "-"))


def _in_seconds(number: str | None, unit: str | None) -> float | None:
    if number is None or unit is None:
        return None
    factor = _SECONDS_PER_UNIT["mi" if unit.startswith("min") else "ms" if unit.startswith("m") else "s"]
    return _number(number) * factor


def _in_gib(number: str | None, unit: str | None) -> float | None:
    if number is None or unit is None:
        return None
    return _number(number) * _GIB_PER_UNIT[unit[0].lower()]
