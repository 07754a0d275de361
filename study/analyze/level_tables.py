"""What each level switched on, as its servers resolved it, and what its start took."""

import itertools
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from study.analyze.cards import split_labels
from study.analyze.evidence import check_launch_level, counting_start_s
from study.analyze.findings_parts import StartGain, find_start_gains
from study.analyze.first_requests import ready_to_first_token_s
from study.analyze.judged_runs import DEFAULT_LEVEL, order_levels
from study.analyze.run_digest import Study
from study.analyze.switches import GRAPHS, comparable_text, name_value, switches_row, value_at
from study.analyze.tables import make_frame
from study.records import LaunchRecord

LEVEL_COLUMNS = (
    *("level", "flags", "optimization_level", "mode", "cudagraph_mode", "backend", "enforce_eager"),
    *("flashinfer_autotune", "jit_warmup", "capture_sizes", "largest_capture_size", "downgrades", "alike", "use_for"),
    *("launches", "reason", "fusions", "custom_ops"),
)
NONE_MEASURED = "no measured launch"
"""Why a level that only filled caches has no figure."""
START_COLUMNS = (
    *("card", "level", "cache", "n", "failed", "median_s", "least_s", "greatest_s", "difference_s", "difference_low_s"),
    *("difference_high_s", "difference_confidence", "difference_n", "difference_unit", "difference_reason"),
    "to_first_token_s",
    *("kv_cache_blocks_least", "kv_cache_blocks_greatest", "kv_cache_tokens_least", "kv_cache_tokens_greatest"),
    *("emptied", "not_emptied", "machines", "reason"),
)


def tell_configurations(study: Study) -> dict[str, str]:
    """Return what each server resolved, as text that is equal where levels resolved alike, by launch id."""
    return {one.launch_id: comparable_text(one.resolved) for one in study.launches if one.resolved}


def level_table(
    study: Study,
    use_for: Mapping[str, str] | None = None,
    levels: Sequence[str] = (),
    told: Mapping[str, str] | None = None,
) -> pd.DataFrame:
    """Return one row a level (`LEVEL_COLUMNS`): its switches as the server resolved them, never from documentation.

    `alike` names the other levels that resolved to the same configuration. A level that only filled caches has the
    switches that those servers told, with the reason. A level none of whose servers told its configuration keeps its
    row, with the reason.

    Args:
        study: the records.
        use_for: level to what it is for, from the level files (records do not hold it).
        levels: the order of levels; without, the default first and the rest by name.
        told: what `tell_configurations` returns, where it is at hand.

    """
    by_level = _group_launches(study, levels)
    told = tell_configurations(study) if told is None else told
    pairs = alike_pairs(study, told)
    rows = []
    for level, launches in by_level.items():
        alike = [name for name in by_level if (level, name) in pairs or (name, level) in pairs]
        named = {"level": level, "alike": "; ".join(alike), "use_for": (use_for or {}).get(level)}
        rows.append(named | (_switches(launches, told) if launches else _told_by_fills(study, level, told)))
    types = {"optimization_level": "Int64", "capture_sizes": "Int64", "largest_capture_size": "Int64"}
    switches = ("enforce_eager", "flashinfer_autotune", "jit_warmup")
    return make_frame(rows, LEVEL_COLUMNS).astype({**types, **dict.fromkeys(switches, "boolean")})


def alike_pairs(study: Study, told: Mapping[str, str] | None = None) -> frozenset[tuple[str, str]]:
    """Return the pairs of levels that resolved alike, each once, the default first or else by name.

    Two levels are alike where their servers told one configuration, but for `IGNORED_WHEN_ALIKE`, in every block that
    both have on one machine. `told` is what `tell_configurations` returns, where it is at hand.
    """
    told = tell_configurations(study) if told is None else told
    seen = {
        level: {(one.block, one.machine.unit): told[one.launch_id] for one in launches if one.resolved}
        for level, launches in _group_launches(study, ()).items()
    }
    return frozenset(pair for pair in itertools.combinations(seen, 2) if _agree(seen[pair[0]], seen[pair[1]]))


def host_launched_levels(study: Study) -> frozenset[str]:
    """Return the levels that launch every kernel from the host: all their servers resolved to no CUDA graphs."""
    modes = {
        level: [value_at(launch.resolved, GRAPHS) for launch in launches if launch.resolved]
        for level, launches in _group_launches(study, ()).items()
    }
    return frozenset(
        level
        for level, seen in modes.items()
        if seen and all(name_value(GRAPHS, mode) == "NONE" for mode in seen)
    )


def _agree(ours: Mapping[Any, str], theirs: Mapping[Any, str]) -> bool:
    shared = set(ours) & set(theirs)
    return bool(shared) and all(ours[place] == theirs[place] for place in shared)


def _group_launches(study: Study, levels: Sequence[str]) -> dict[str, list[LaunchRecord]]:
    """Measured launches by level, in the order of levels and then of their ids; a level with none has an empty list."""
    names = order_levels((launch.level for launch in study.launches), levels)
    measured = [launch for launch in study.launches if not launch.fills_caches]
    measured.sort(key=lambda one: (one.block, one.attempt, one.launch_id))
    return {name: [one for one in measured if one.level == name] for name in names}


def _switches(launches: Sequence[LaunchRecord], texts: Mapping[str, str]) -> dict[str, Any]:
    """Return one level's switches, from its first server that told them."""
    told = [launch for launch in launches if launch.resolved is not None]
    if not told:
        return {"launches": len(launches), "reason": _why_nothing(launches)}
    first = told[0]
    differ = len({texts.get(launch.launch_id) for launch in told}) > 1
    return {
        "flags": " ".join(first.flags),
        **switches_row(first.resolved or {}),
        "downgrades": "; ".join(dict.fromkeys(line for launch in told for line in launch.downgrades)),
        "launches": len(launches),
        "reason": "its servers resolved differently" if differ else None,
    }


def _told_by_fills(study: Study, level: str, texts: Mapping[str, str]) -> dict[str, Any]:
    """Return the switches of a level that no measured launch stands behind, from the starts that filled its caches."""
    fills = [launch for launch in study.launches if launch.fills_caches and launch.level == level]
    if not fills:
        return _switches(fills, texts)
    tells = any(launch.resolved is not None for launch in fills)
    why = "only a start that filled caches" if tells else f"and the start to fill caches {_why_nothing(fills)}"
    return _switches(fills, texts) | {"launches": 0, "reason": f"{NONE_MEASURED}, {why}"}


def _why_nothing(launches: Sequence[LaunchRecord]) -> str:
    """Say why no server of a level was of use, by the first that was started."""
    if not launches:
        return NONE_MEASURED
    outcome = launches[0].outcome
    if outcome.status != "ok":
        return f"{outcome.status} at {outcome.stage}: {outcome.message}"
    return launches[0].missing.get("resolved", "no start of this kind")


def start_table(
    study: Study, levels: Sequence[str] = (), default: str = DEFAULT_LEVEL, alpha: float = 0.05
) -> pd.DataFrame:
    """Return one row a kind of card, level and state of the caches (`START_COLUMNS`): s from spawn to first token.

    `difference_s` is by how much a level starts later than the default, the mean within blocks, with its (1 - alpha) t
    interval where there are three blocks or more; `to_first_token_s` is the median from ready (health 200) to the first
    token. A level that never got to its first token keeps its row, with `n` 0 and the reason. Starts that only filled
    the caches do not count, nor do servers that did not run the level as asked.
    """
    kinds = split_labels(study)
    rows = [{"card": card, **row} for card, part in kinds for row in _start_rows(part, levels, default, alpha)]
    kv_cache = (name for name in START_COLUMNS if name.startswith("kv_cache"))
    counts = ["n", "failed", "machines", "difference_n", *kv_cache]
    types = {**dict.fromkeys(counts, "Int64"), "difference_confidence": "float64"}
    return make_frame(rows, START_COLUMNS).astype(types)


def _start_rows(study: Study, levels: Sequence[str], default: str, alpha: float) -> Iterator[dict[str, Any]]:
    grouped = _group_launches(study, levels)
    others = [level for level in grouped if level != default]
    gains = {(gain.level, gain.cache): gain for gain in find_start_gains(study.launches, others, default, alpha)}
    for level, launches in grouped.items():
        for cache in sorted({launch.cache for launch in launches}, reverse=True):
            row = _start_row(level, cache, [one for one in launches if one.cache == cache])
            yield {**row, **_difference(gains.get((level, cache)), level == default)}
        if not launches:
            yield {"level": level, "n": 0, "failed": 0, "reason": _why_nothing(launches)}


def _start_row(level: str, cache: str, launches: Sequence[LaunchRecord]) -> dict[str, Any]:
    counting = [(one, seconds) for one in launches if (seconds := counting_start_s(one)) is not None]
    good, start_s = [one for one, _ in counting], [seconds for _, seconds in counting]
    blocks = [one.kv_cache_blocks for one in good if one.kv_cache_blocks is not None]
    tokens = [one.kv_cache_tokens for one in good if one.kv_cache_tokens is not None]
    first_token_s = [seconds for one in good if (seconds := ready_to_first_token_s(one)) is not None]
    used = {one.launch_id for one in good}
    bad = [one for one in launches if one.launch_id not in used]
    return {
        "level": level,
        "cache": cache,
        "n": len(good),
        "failed": len(bad),
        "median_s": statistics.median(start_s) if start_s else None,
        "least_s": min(start_s, default=None),
        "greatest_s": max(start_s, default=None),
        "to_first_token_s": statistics.median(first_token_s) if first_token_s else None,
        "kv_cache_blocks_least": min(blocks, default=None),
        "kv_cache_blocks_greatest": max(blocks, default=None),
        "kv_cache_tokens_least": min(tokens, default=None),
        "kv_cache_tokens_greatest": max(tokens, default=None),
        "emptied": "; ".join(sorted(list_always_emptied([one.cache_emptied for one in good]))),
        "not_emptied": "; ".join(sorted({name for one in good for name in one.cache_not_emptied})),
        "machines": len({one.machine.unit for one in good}),
        "reason": _why_bad(bad[0]) if bad else None,
    }


def list_always_emptied(emptied: Sequence[Sequence[str]]) -> list[str]:
    """Return the caches that each of several starts found empty, in the first one's order.

    A name like "vLLM: torch.compile, AOT" stands for several caches of one owner. A record may name more of them than
    an earlier one did: those in both are kept.
    """
    named = [dict(_split_owner(name) for name in names) for names in emptied]
    common = {
        owner: [part for part in parts if all(part in one.get(owner, ()) for one in named)]
        for owner, parts in (named[0] if named else {}).items()
        if all(owner in one for one in named)
    }
    return [f"{owner}: {', '.join(parts)}" if parts != [""] else owner for owner, parts in common.items() if parts]


def _split_owner(name: str) -> tuple[str, list[str]]:
    owner, _, parts = name.partition(": ")
    return owner, parts.split(", ")


def _difference(gain: StartGain | None, is_default: bool) -> dict[str, Any]:
    """Return by how much a level starts later than the default: what it gains, with the other sign."""
    if is_default:
        return {"difference_reason": "the default itself"}
    if gain is None:
        return {"difference_reason": "no block has a start of both"}
    later = gain.gain_s
    return {
        "difference_s": -later.point,
        "difference_low_s": None if later.high is None else -later.high,
        "difference_high_s": None if later.low is None else -later.low,
        "difference_confidence": later.confidence,
        "difference_n": later.n,
        "difference_unit": later.unit,
        "difference_reason": gain.reason or None,
    }


def _why_bad(launch: LaunchRecord) -> str:
    state, detail = check_launch_level(launch)
    if launch.outcome.status != "ok" or state != "failed":
        return f"{launch.outcome.status} at {launch.outcome.stage}: {launch.outcome.message}"
    return f"level_not_as_asked: {detail}"
