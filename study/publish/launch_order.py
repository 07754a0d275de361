"""Whether runs drift with the order of launches: what is left of a run's TPOT when its level and block are taken out.

Levels stand in another random order in every block, so a level's cost and the place of its launch can be told apart
once there are two blocks. In one block they cannot.
"""

from collections import Counter
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from study.analyze.run_digest import Study

LEAST_BLOCKS = 2
LEAST_SCATTER = 0.005
"""Scatter of ln(TPOT) below which a level gets no more weight: half of the margin of 1 percent."""

MOST_ROUNDS = 100
SETTLED = 1e-12
"""A change of ln(TPOT) in one round of the polish that is rounding."""


@dataclass(frozen=True)
class LaunchOrder:
    """Runs that count by the place of their launch in its block.

    Attributes:
        runs: one row a run: `run_id`, `level`, `users`, `block`, `place` (1 for the first measured launch of the block
            on its card), `gate_c` (temperature when the gate before the run ended, NaN where not read),
            `drift_percent` and `weight` (1 / squared scatter of ln(TPOT) of its level at its number of users), both NaN
            where they cannot be told.
        why_no_drift: why no run has a drift; empty where some have.

    """

    runs: pd.DataFrame
    why_no_drift: str


def order_launches(runs: pd.DataFrame, records: Study) -> LaunchOrder:
    """Put runs that count in the order of their launches.

    The drift of a run is by how many percent its mean TPOT is above what its level and its block have at its number of
    users: the residual of ln(TPOT) = level + block, by least squares in which each level weighs by its own scatter.
    Levels that launch every kernel from the host scatter by tens of percent where graph levels scatter by one; with
    equal weights a share of that would be handed to all levels of the block.

    Args:
        runs: `tables.run_table`: of its columns `run_id`, `launch_id`, `level`, `users`, `block`, `counts` and
            `mean_tpot_ms`.
        records: the study's records, for the times of launches and the gates of runs.

    """
    names = ["run_id", "launch_id", "level", "users", "block", "mean_tpot_ms"]
    seen = runs.loc[runs["counts"].astype(bool) & runs["mean_tpot_ms"].notna(), names].reset_index(drop=True)
    places = _place_launches(records)
    gates = {run.run_id: run.gate.temperature_c for run in records.runs}
    seen = seen[seen["launch_id"].isin(places)].reset_index(drop=True)
    seen["place"] = seen["launch_id"].map(places).astype(int)
    seen["gate_c"] = pd.to_numeric(seen["run_id"].map(gates), errors="coerce").astype(float)
    seen["drift_percent"], seen["weight"] = np.nan, np.nan
    for _, part in seen.groupby("users"):
        seen.loc[part.index, ["drift_percent", "weight"]] = _find_drift(part)
    why = ""
    if seen["drift_percent"].isna().all():
        blocks = seen["block"].nunique()
        why = (
            f"in {blocks} block{'' if blocks == 1 else 's'} a level's cost and the place of its launch cannot be told "
            f"apart; {LEAST_BLOCKS} blocks or more can"
        )
    return LaunchOrder(seen.drop(columns=["launch_id", "mean_tpot_ms"]), why)


def _place_launches(records: Study) -> dict[str, int]:
    """Return the place of each measured launch among those of its block on its card, from 1, by launch id."""
    places, last = {}, Counter[tuple[int, str]]()
    for launch in sorted(records.launches, key=lambda one: (one.spawn_unix_s, one.position, one.launch_id)):
        if not launch.fills_caches:
            here = launch.block, launch.machine.unit
            last[here] += 1
            places[launch.launch_id] = last[here]
    return places


def _find_drift(part: pd.DataFrame) -> NDArray[np.float64]:
    """Return residual in percent and weight (runs, 2); NaN for a run whose level or block has no other beside it."""
    found = np.full((len(part), 2), np.nan)
    blocks = part.groupby("level")["block"].transform("nunique")
    levels = part.groupby("block")["level"].transform("nunique")
    paired = blocks.ge(LEAST_BLOCKS) & levels.ge(2)
    kept = part[paired]
    if kept.empty:
        return found
    values = pd.Series(np.log(kept["mean_tpot_ms"].to_numpy(float)), kept.index)
    weights = _weigh(values, kept["level"], kept["block"])
    left = _fit(values, kept["level"], kept["block"], weights)
    # Rounded, so that the last digits of another linear algebra library change no figure.
    found[paired.to_numpy()] = np.column_stack([np.round(100.0 * np.expm1(left), 9), weights])
    return found


def _weigh(values: "pd.Series[float]", levels: "pd.Series[str]", blocks: "pd.Series[int]") -> "pd.Series[float]":
    """Return the weight of each run: 1 over the squared scatter of its level."""
    left = _polish(values, levels, blocks).abs()
    return left.groupby(levels).transform("mean").clip(lower=LEAST_SCATTER) ** -2.0


def _fit(
    values: "pd.Series[float]", levels: "pd.Series[str]", blocks: "pd.Series[int]", weights: "pd.Series[float]"
) -> NDArray[np.float64]:
    """Return what least squares leaves of values (runs,) when level and block are taken out."""
    # With blocks taken out of both sides, it has a column a level, not one a block as well.
    ours = _within_blocks(values.to_frame(), blocks, weights)[:, 0]
    design = _within_blocks(pd.get_dummies(levels, dtype=float), blocks, weights)
    root = np.sqrt(weights.to_numpy(float))
    costs = np.linalg.lstsq(design * root[:, np.newaxis], ours * root, rcond=None)[0]
    left: NDArray[np.float64] = ours - design @ costs
    return left


def _within_blocks(columns: pd.DataFrame, blocks: "pd.Series[int]", weights: "pd.Series[float]") -> NDArray[np.float64]:
    """Return columns (runs, columns) without the weighted mean of each block."""
    totals = columns.mul(weights, axis=0).groupby(blocks).transform("sum")
    return (columns - totals.div(weights.groupby(blocks).transform("sum"), axis=0)).to_numpy(float)


def _polish(values: "pd.Series[float]", levels: "pd.Series[str]", blocks: "pd.Series[int]") -> "pd.Series[float]":
    """Return what is left when the medians of levels and of blocks are taken out in turn.

    This is the median polish of J. W. Tukey, Exploratory Data Analysis (1977), chapter 11.
    """
    left = values
    for _ in range(MOST_ROUNDS):
        before = left
        for keys in (levels, blocks):
            left = left - left.groupby(keys).transform("median")
        if (left - before).abs().max() < SETTLED:
            break
    return left


def mean_by_place(runs: pd.DataFrame, column: str) -> dict[int, float]:
    """Return the mean of a column of `LaunchOrder.runs` by place, for places that have one; drift by its weight."""
    shown = runs.dropna(subset=[column])
    weights = shown["weight"] if column == "drift_percent" else pd.Series(1.0, shown.index)
    places = shown["place"].to_numpy(int)
    totals = np.bincount(places, shown[column] * weights), np.bincount(places, weights)
    return {int(place): float(totals[0][place] / totals[1][place]) for place in np.unique(places)}
