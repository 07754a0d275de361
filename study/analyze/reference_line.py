"""The reference line: the least time of a token at one user, by what must be read and how fast this card reads.

    least time = (weights - untied input embedding + KV cache of one request) / the canary's read bandwidth

Decoding for one user reads every weight once a token, but for an input embedding that is a table of its own, of which
it reads one row. It is a reference, not a bound to the digit: caches on the card help, activations are left out.
What no compile level can win lies below the line; what one could still win lies between it and the TPOT.

Of several cards under tensor parallel each reads its own share of every weight at the same time, so the line is that of
one share on the slowest card. In a pipeline a token waits for one card after the other, and with data parallel it is on
one of them alone: there is no line then.
"""

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study.analyze.evidence import resolved_value
from study.analyze.load_window import Missing
from study.analyze.run_digest import RunDigest, count_context
from study.analyze.startup_record import Startup
from study.records import LaunchRecord, RunRecord

GIB = 2**30
DTYPE_BYTES = {"torch.bfloat16": 2, "torch.float16": 2, "torch.float32": 4}
EXPERT_KEYS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
"""Where a model's configuration says that it is a mixture of experts, which reads only some of its weights a token."""


@dataclass(frozen=True)
class ReferenceLine:
    """The line of one card, or why there is none.

    Attributes:
        machine: the card (`Machine.unit`).
        weights_gb: weights that one card reads for a token, 1e9 bytes.
        kv_gb: KV cache read for a token halfway through an answer, 1e9 bytes.
        read_gb_s: the canary's read bandwidth before the card's launches, median, 1e9 bytes a second; of several
            cards, the slowest one's.
        least_ms: the least time of a token, ms.
        reason: why there is no figure; empty where there is.

    """

    machine: str
    weights_gb: float | None = None
    kv_gb: float | None = None
    read_gb_s: float | None = None
    least_ms: float | None = None
    reason: str = ""


def find_reference_line(
    launches: Sequence[LaunchRecord],
    startup: Startup | None,
    config: Mapping[str, Any] | None,
    context_tokens: float | None,
) -> ReferenceLine:
    """Return the reference line of one card.

    Args:
        launches: launches of one study on one card, of any level, one at least.
        startup: what the log of a default server among them told; None where there is no log.
        config: the model's configuration (`config.json`); None where it is not on file.
        context_tokens: see `mean_context_tokens`; None where no run at one user is on file.

    """
    first = launches[0]
    machine = first.machine.unit
    why = _why_not(launches, startup, config)
    if context_tokens is None:
        why = why or "no run at one user tells how long a request's context is"
    if why or startup is None or config is None or context_tokens is None:
        return ReferenceLine(machine, reason=why)
    weights = _weights_bytes(first, startup, config)
    kv = _kv_bytes_per_token(startup)
    speeds = _read_speeds(launches)
    if isinstance(weights, str) or isinstance(kv, str) or not speeds:
        told = [text for text in (weights, kv) if isinstance(text, str)]
        return ReferenceLine(machine, reason=told[0] if told else "no canary measured the read bandwidth")
    kv_gb = kv * context_tokens / 1e9
    read_gb_s = statistics.median(speeds)
    return ReferenceLine(machine, weights / 1e9, kv_gb, read_gb_s, (weights / 1e9 + kv_gb) / read_gb_s * 1e3)


def mean_context_tokens(runs: Iterable[RunRecord | RunDigest]) -> float | None:
    """Return the tokens in the KV cache halfway through an answer, the mean over the requests of runs at one user."""
    counts = [count_context(run) for run in runs if run.users == 1]
    requests = sum(count for _, count in counts)
    return sum(tokens for tokens, _ in counts) / requests if requests else None


def _why_not(launches: Sequence[LaunchRecord], startup: Startup | None, config: Mapping[str, Any] | None) -> str:
    """Say why there is no line at all, before any figure is looked at."""
    if launches[0].machine.device != "cuda":
        return "no GPU"
    cards = len(launches[0].machine.uuids)
    shares = resolved_value(launches[0].resolved, "parallel_config.tensor_parallel_size")
    if cards > 1 and shares != cards:
        return f"{cards} cards that do not share every layer (tensor parallel) do not all read at the same time"
    if startup is None:
        return "no log of the default level tells the size of its weights"
    if config is None:
        return "the model's configuration is not on file here"
    if any(config.get(key) for key in EXPERT_KEYS):
        return "a mixture of experts reads only some of its weights for a token"
    return ""


def _weights_bytes(launch: LaunchRecord, startup: Startup, config: Mapping[str, Any]) -> float | str:
    """Return the bytes of weights that one GPU reads for a token, or why they are not known."""
    if startup.model_load_gib is None:
        return "the server's log does not tell the size of the model"
    loaded = startup.model_load_gib * GIB
    if config.get("tie_word_embeddings"):
        return loaded
    dtype = resolved_value(launch.resolved, "model_config.dtype")
    size = DTYPE_BYTES.get(str(dtype))
    rows, width = config.get("vocab_size"), config.get("hidden_size")
    if size is None or not isinstance(rows, int) or not isinstance(width, int):
        return "the size of the input embedding is not known"
    gpus = resolved_value(launch.resolved, "parallel_config.tensor_parallel_size")
    return loaded - rows * width * size / (1 if isinstance(gpus, Missing) else int(gpus))


def _kv_bytes_per_token(startup: Startup) -> float | str:
    if not startup.kv_cache_gib or not startup.kv_cache_tokens:
        return "the server's log does not tell the size of its KV cache"
    return startup.kv_cache_gib * GIB / startup.kv_cache_tokens


def _read_speeds(launches: Sequence[LaunchRecord]) -> list[float]:
    """Return the read bandwidth before each launch that has it of every card: the slowest card's."""
    found = []
    for launch in launches:
        canaries = [launch.canary_before, *(card.canary_before for card in launch.further_cards)]
        speeds = [canary.read_gb_s for canary in canaries if canary is not None and canary.read_gb_s is not None]
        found += [min(speeds)] if len(speeds) == len(canaries) else []
    return found
