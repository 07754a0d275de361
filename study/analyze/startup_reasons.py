"""Why a figure is missing, and what a reader of the figures must know."""

import re
from collections.abc import Sequence

from study.analyze.startup_captures import sort_captures
from study.analyze.startup_patterns import Kind
from study.analyze.startup_record import FIGURE_KEYS, Figures, RankFigures, Status
from study.analyze.startup_starts import StartLog

_COMPILE_KEYS = frozenset(
    {"dynamo_s", "compile_range_s", "torch_compile_s", "torch_compile_kind", "init_engine_compile_s"}
)
_CAPTURE_KEYS = frozenset(
    {
        "graph_capture_s",
        "graph_capture_gib",
        "graph_pool_actual_gib",
        "graph_pool_estimated_gib",
        "cudagraph_estimated_gib",
    }
)
_SIZES = (
    "graph_capture_gib",
    "cudagraph_estimated_gib",
    "graph_pool_actual_gib",
    "graph_pool_estimated_gib",
)
_SPAN_SLACK_S = 5.0
_NOT_IN_LOG = "not in the log"


def give_reasons(log: StartLog, figures: Figures, *, status: Status, eager: bool) -> dict[str, str]:
    """Return the reason for each figure that is None, by its key."""
    capture, compilation = _capture_reason(log, eager=eager), _compile_reason(log, eager=eager)
    otherwise = "not in the log; the start failed" if status == "failed" else _NOT_IN_LOG
    reasons = {}
    for key in FIGURE_KEYS:
        if getattr(figures, key) is None:
            special = capture if key in _CAPTURE_KEYS else compilation if key in _COMPILE_KEYS else None
            reasons[key] = special or otherwise
    return reasons


def _capture_reason(log: StartLog, *, eager: bool) -> str | None:
    if eager:
        return "eager"
    if log.has(Kind.CAPTURE_SKIPPED) or log.graph_mode == "NONE":
        return "no CUDA graphs: cudagraph_mode is NONE"
    if log.has(Kind.CAPTURE_OF_SIZE) and not log.has(Kind.CAPTURE):
        return "captured one size at a time, no total printed"
    if log.has(Kind.CAPTURE) and not sort_captures(log).real:
        return "only the discarded capture is in the log"
    return None


def _compile_reason(log: StartLog, *, eager: bool) -> str | None:
    if eager:
        return "eager"
    if log.compile_mode == "NONE":
        return "no compilation: mode is NONE"
    if log.has(Kind.COMPILE_LOAD) and not log.has(Kind.COMPILE_RANGE):
        return "loaded from the compile cache"
    return None


def find_warnings(
    figures: Figures, other_sizes_gib: Sequence[float | None], span_s: float | None, *, folded: bool
) -> tuple[str, ...]:
    """Return what a reader must know: unusable sizes, totals that the stamps deny, ranks that Ray hid."""
    warnings = [
        f"{key} is negative ({value:g} GiB): memory was freed elsewhere meanwhile, do not add or rank it"
        for key in _SIZES
        if (value := getattr(figures, key)) is not None and value < 0
    ]
    warnings += [
        f"the discarded capture's size is negative ({size:g} GiB)"
        for size in other_sizes_gib
        if size is not None and size < 0
    ]
    total_s = figures.torch_compile_s
    if total_s is not None and span_s is not None and span_s > max(2 * total_s, total_s + _SPAN_SLACK_S):
        warnings.append(f"torch_compile_s is {total_s:g} s, but {span_s:g} s lie between the stamps around it")
    if folded:
        warnings.append("Ray folded lines of other ranks ([repeated Nx across cluster]): the slowest may be missing")
    return tuple(warnings)


def complete_ranks(log: StartLog, ranks: Sequence[RankFigures]) -> bool | None:
    """Tell whether every rank's own figures are there: None without any, False when some are folded or missing."""
    if not ranks:
        return None
    if log.folded:
        return False
    numbers = {int(number) for rank in ranks for number in re.findall(r"(?:rank |TP)(\d+)", rank.rank)}
    return not numbers or numbers == set(range(max(numbers) + 1))
