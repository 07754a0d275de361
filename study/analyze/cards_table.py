"""The table across cards: one row a kind of card, level and number of users, with the verdict of that kind alone."""

from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from study.analyze.cards import KindOfCard
from study.analyze.compare_types import Pair
from study.analyze.findings import Findings
from study.analyze.judged_runs import JudgedRun
from study.analyze.tables import make_frame

CARD_COLUMNS = (
    *("card", "cards_each", "machines", "blocks", "level", "users", "runs", "median_tpot_ms", "difference_percent"),
    *("difference_low_percent", "difference_high_percent", "difference_n", "difference_unit", "verdict"),
    *("preliminary", "reason"),
)
RUN_CARD_COLUMNS = (
    *("run_id", "machine", "card", "gpu_uuid", "median_sm_clock_mhz", "median_temperature_c", "mean_power_w"),
    *("energy_j", "throttled", "throttled_evidence", "reason"),
)


def card_table(found: Findings) -> pd.DataFrame:
    """Return the table across cards (`CARD_COLUMNS`); without a row where a study has one kind of card.

    For each kind and level there is a row a number of users, and one with `users` null, the cost over all of them. The
    default has its times and no difference.
    """
    rows = [row for kind, part in found.by_kind for level in found.levels for row in _rows(kind, part, level)]
    frame = make_frame(rows, CARD_COLUMNS)
    percents = [name for name in CARD_COLUMNS if name.endswith("_percent")]
    counts = ("cards_each", "machines", "blocks", "runs", "difference_n")
    types: dict[str, Any] = {**dict.fromkeys(percents, "float64"), **dict.fromkeys(counts, "Int64")}
    return frame.astype({**types, "preliminary": "boolean"})


def _rows(kind: KindOfCard, part: Findings, level: str) -> Iterator[dict[str, Any]]:
    where = {
        "card": kind.label,
        "cards_each": kind.each,
        "machines": len(kind.units),
        "blocks": len(part.blocks),
        "level": level,
    }
    medians = {int(row["users"]): row for row in part.session_figures.to_dict("records") if row["level"] == level}
    if level != part.default:
        yield {**where, "users": None, **_difference(part, level, None)}
    for users in part.users:
        cell = medians.get(users, {"runs": 0, "median_tpot_ms": None})
        times = {"runs": cell["runs"], "median_tpot_ms": cell["median_tpot_ms"]}
        beside = {"reason": "the default itself"} if level == part.default else _difference(part, level, users)
        yield {**where, "users": users, **times, **beside}


def _difference(part: Findings, level: str, users: int | None) -> dict[str, Any]:
    """Return how a level stands against the default on one kind of card, or why it does not."""
    pair = part.pair(level, users)
    if pair is None:
        return {"reason": part.comparison_reason or part.failed_levels.get(level) or "no run of it counts on this card"}
    return {**_estimate(pair), "verdict": pair.verdict.value, "preliminary": pair.preliminary, "reason": pair.reason}


def _estimate(pair: Pair) -> dict[str, Any]:
    effect = pair.effect_percent
    if effect is None:
        return {}
    return {
        "difference_percent": effect.point,
        "difference_low_percent": effect.low,
        "difference_high_percent": effect.high,
        "difference_n": effect.n,
        "difference_unit": effect.unit,
    }


def run_card_table(judged: Sequence[JudgedRun]) -> pd.DataFrame:
    """Return one row a run and card (`RUN_CARD_COLUMNS`) of servers on several cards; without a row on one card each.

    The columns of the table of runs are of all cards of a server together.
    """
    rows = [
        {
            "run_id": one.run.run_id,
            "machine": one.machine,
            "card": place + 1,
            **{name: getattr(card, name) for name in RUN_CARD_COLUMNS if hasattr(card, name)},
            "reason": "; ".join(f"{name}: {why}" for name, why in sorted(card.reasons.items())) or None,
        }
        for one in judged
        for place, card in enumerate(one.figures.cards if one.figures else ())
    ]
    return make_frame(rows, RUN_CARD_COLUMNS)
