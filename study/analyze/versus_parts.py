"""The parts of a comparison of editions, from records or from medians published alone, and their cards."""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from study.analyze.compare_types import Pair
from study.analyze.findings import Findings, FindOptions
from study.analyze.formats import format_model
from study.analyze.judged_runs import DEFAULT_LEVEL
from study.analyze.run_digest import Study
from study.analyze.stats import Estimate
from study.analyze.switches import IGNORED_WHEN_ALIKE
from study.analyze.throttling_words import say_throttled_in_cooled, say_throttling
from study.analyze.versus_types import CardMatch, Cell, Cost, Part, Settings
from study.records import LaunchRecord, Machine


class PublishedSession(BaseModel):
    """One session of a reference edition, as printed; what is not read here may stand beside it."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    id: str = Field(min_length=1)
    gpu: str
    model: str
    kind: str
    seeds: dict[str, int] = Field(default_factory=dict)
    users_published: list[int] = Field(min_length=1)
    median_tpot_ms: dict[str, dict[int, Annotated[float, Field(gt=0)]]] = Field(
        description="level to users to milliseconds"
    )


class Publication(BaseModel):
    """A reference edition: published medians, without the raw runs behind them."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)

    edition: str
    vllm_version: str
    vllm_commit: str | None = None
    sessions: list[PublishedSession] = Field(min_length=1)


def publish_part(publication: Publication, session: PublishedSession) -> Part:
    """Return a published session as a part; its costs are percentages of medians, without interval and verdict."""
    medians = session.median_tpot_ms
    default = medians.get(DEFAULT_LEVEL, {})
    cells: dict[tuple[int | None, str], Cell] = {}
    for level, by_users in medians.items():
        for users, median_ms in by_users.items():
            known = level != DEFAULT_LEVEL and default.get(users)
            cost = Cost(users, None, 100.0 * (median_ms / default[users] - 1.0)) if known else None
            cells[users, level] = Cell(median_ms, cost)
    seeds = ", ".join(f"{level} {count}" for level, count in session.seeds.items())
    facts = {
        "session": session.kind,
        "model": session.model,
        "vLLM": publication.vllm_version,
        "vLLM commit": publication.vllm_commit,
        "replicates": f"seeds: {seeds}" if seeds else None,
    }
    why = "published without its resolved configuration"
    return Part(
        name=session.id,
        published=True,
        rehearsal=False,
        session=session.kind,
        default=DEFAULT_LEVEL,
        margin=FindOptions().margin,
        cards=(session.gpu,),
        units=(),
        device=None,
        facts={name: value for name, value in facts.items() if value},
        levels=tuple(medians),
        users=tuple(session.users_published),
        cells=cells,
        unsettled=dict.fromkeys(medians, why),
    )


def measure_part(records: Study, found: Findings, users: Sequence[int]) -> Part:
    """Return a study as a part.

    Args:
        records: its raw records, for what its servers resolved.
        found: what was found in them.
        users: numbers of users to print, in order.

    """
    measured = [launch for launch in records.launches if not launch.fills_caches]
    settings = {level: _settle(measured, level) for level in found.levels}
    reasons = dict(zip(found.level_table["level"], found.level_table["reason"].astype(object), strict=True))
    missing = [level for level, seen in settings.items() if not seen]
    return Part(
        name=found.study,
        published=False,
        rehearsal=found.rehearsal,
        session=found.session,
        default=found.default,
        margin=found.margin,
        cards=tuple(sorted({card.name for card in found.cards if card.name})),
        units=tuple(card.unit for card in found.cards),
        device=found.device,
        facts=_facts(measured or records.launches, found),
        levels=found.levels,
        users=tuple(users),
        cells=dict(_cells(found, users)),
        settings={level: seen for level, seen in settings.items() if seen},
        unsettled={level: str(reasons.get(level) or "its servers did not tell") for level in missing},
        without_figure=found.failed_levels,
        alike=frozenset(second for first, second in found.aa_pairs if first == found.default),
        host_bound=frozenset((one.users, one.level) for one in found.host_bound if one.holds),
        cautions=tuple(_caution(found)),
    )


def _settle(launches: Iterable[LaunchRecord], level: str) -> Settings:
    """Gather what the servers of a level resolved, without what differs from start to start."""
    seen: dict[str, list[str]] = {}
    for launch in launches:
        if launch.level == level and launch.resolved:
            for path, text in _flatten(launch.resolved, ""):
                values = seen.setdefault(path, [])
                if text not in values:
                    values.append(text)
    return {path: tuple(sorted(values)) for path, values in sorted(seen.items())}


def _flatten(value: Any, path: str) -> Iterator[tuple[str, str]]:  # noqa: ANN401 (JSON)
    if path in IGNORED_WHEN_ALIKE:
        return
    if isinstance(value, Mapping) and value:
        for name in value:
            yield from _flatten(value[name], f"{path}.{name}" if path else str(name))
    else:
        yield path, json.dumps(value, sort_keys=True, ensure_ascii=False)


def _facts(launches: Sequence[LaunchRecord], found: Findings) -> dict[str, str]:
    """Return what is printed of versions and conditions; a parameter goes under its own name."""
    machines = [launch.machine for launch in launches]
    asked = {name: value for name, value in found.comparable.items() if name not in ("session", "model", "device")}
    servers = "a fresh server each" if found.fresh_servers else "one server a level"
    facts: dict[str, str | None] = {
        "session": found.session,
        "model": format_model(found.comparable) if "model" in found.comparable else None,
        "vLLM": found.versions.get("vllm"),
        "vLLM commit": _join(machines, "vllm_commit"),
        "torch": found.versions.get("torch"),
        "driver": _join(machines, "driver_version"),
        "host": _join(machines, "cpu_model"),
        "replicates": f"blocks: {len(found.blocks)}, {servers}",
        **{name: value if isinstance(value, str) else json.dumps(value) for name, value in asked.items()},
    }
    return {name: str(value) for name, value in facts.items() if value}


def _join(machines: Iterable[Machine], name: str) -> str:
    return " / ".join(sorted({str(value) for one in machines if (value := getattr(one, name)) is not None}))


def _cells(found: Findings, users: Sequence[int]) -> Iterator[tuple[tuple[int | None, str], Cell]]:
    """Yield what a level took and cost at each number of users; nothing of a study whose cards are not of one kind."""
    if found.by_kind:
        return
    for row in found.session_figures.to_dict("records"):
        count, level, median_ms = int(row["users"]), str(row["level"]), float(row["median_tpot_ms"])
        if count in users:
            cost = _cost(found.pair(level, count))
            yield (count, level), Cell(None if math.isnan(median_ms) else median_ms, cost)
    for pair in () if found.comparison is None else found.comparison.overall:
        yield (None, pair.level), Cell(None, _cost(pair))


def _cost(pair: Pair | None) -> Cost | None:
    if pair is None or (pair.effect_percent is None and pair.medians is None):
        return None
    return Cost(
        users=pair.users,
        effect_percent=None if pair.effect_percent is None else _bound(pair.effect_percent),
        medians_percent=None if pair.medians is None else pair.medians.percent,
        # Outside a family there were too few units for a verdict, which is not the same as an undecided one.
        verdict=None if pair.p_holm is None else pair.verdict,
        preliminary=pair.preliminary,
        users_used=pair.users_used,
    )


def _bound(estimate: Estimate) -> Estimate:
    """Write an end beyond all numbers as no end."""
    low, high = (None if end is None or not math.isfinite(end) else end for end in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high)


def _caution(found: Findings) -> Iterator[str]:
    if found.comparison is None:
        yield f"no cost: {found.comparison_reason}"
    elif found.comparison.method_biased:
        yield "METHOD BIASED: levels that resolved alike differ by more than their interval allows"
    heat = found.throttling
    if found.session == "throttled" and heat is not None and not heat.reached:
        yield say_throttling(heat)
    if found.session == "cooled" and heat is not None and heat.throttled:
        yield say_throttled_in_cooled(heat)
    if not found.fresh_servers:
        yield "all seeds of a level share one server process, so its blocks are not independent"


def match_cards(a: Part, b: Part) -> CardMatch:
    """Say what is known of the cards of two parts: by what tells cards apart, or else by their names."""
    if a.device == b.device == "cpu":
        return CardMatch.SAME_HOST if set(a.units) == set(b.units) else CardMatch.OTHER_HOST
    if "cpu" in (a.device, b.device):
        return CardMatch.DIFFERENT
    if not a.cards or not b.cards:
        return CardMatch.UNKNOWN
    if not set(a.cards) & set(b.cards):
        return CardMatch.DIFFERENT
    if not a.units or not b.units:
        return CardMatch.NAME_ALONE if a.cards == b.cards else CardMatch.UNKNOWN
    if set(a.units) & set(b.units):
        return CardMatch.SAME if set(a.units) == set(b.units) else CardMatch.SHARED
    return CardMatch.SAME_MODEL if a.cards == b.cards else CardMatch.DIFFERENT
