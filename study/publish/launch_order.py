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


@dataclass(frozen=True)
class LaunchOrder:
    """Runs that count by the place of their launch in its block.

    Attributes:
        runs: one row a run: `run_id`, `level`, `users`, `block`, `place` (1 for the first measured launch of the block
            on its card), `gate_c` (temperature when the gate before the run ended, NaN where not read) and
            `drift_percent` (NaN where it cannot be told).
        why_no_drift: why no run has a drift; empty where some have.

    """

    runs: pd.DataFrame
    why_no_drift: str


def order_launches(runs: pd.DataFrame, records: Study) -> LaunchOrder:
    """Put runs that count in the order of their launches.

    The drift of a run is by how many percent its mean TPOT is above what its level and its block have at its number of
    users: the residual of ln(TPOT) = level + block, by least squares.

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
    seen["drift_percent"] = np.nan
    for _, part in seen.groupby("users"):
        seen.loc[part.index, "drift_percent"] = _residual_percent(part)
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


def _residual_percent(part: pd.DataFrame) -> NDArray[np.float64]:
    """Return the residuals (runs,) in percent; NaN for a run whose level or block has no other to set it beside."""
    residual = np.full(len(part), np.nan)
    blocks = part.groupby("level")["block"].transform("nunique")
    levels = part.groupby("block")["level"].transform("nunique")
    paired = blocks.ge(LEAST_BLOCKS) & levels.ge(2)
    kept = part[paired]
    if kept.empty:
        return residual
    # With blocks taken out of both sides, least squares has a column a level, not one a block as well.
    values = _within_blocks(kept[["mean_tpot_ms"]].astype(float).transform(np.log), kept["block"])[:, 0]
    design = _within_blocks(pd.get_dummies(kept["level"], dtype=float), kept["block"])
    left = values - design @ np.linalg.lstsq(design, values, rcond=None)[0]
    # Rounded, so that the last digits of another linear algebra library change no figure.
    residual[paired.to_numpy()] = np.round(100.0 * np.expm1(left), 9)
    return residual


def _within_blocks(columns: pd.DataFrame, blocks: "pd.Series[int]") -> NDArray[np.float64]:
    """Return columns (runs, columns) without the mean of each block."""
    return (columns - columns.groupby(blocks).transform("mean")).to_numpy(float)


def mean_by_place(runs: pd.DataFrame, column: str) -> dict[int, float]:
    """Return the mean of a column of `LaunchOrder.runs` by place, for places that have one."""
    shown = runs.dropna(subset=[column])
    places = sorted({int(place) for place in shown["place"]})
    return {place: float(shown.loc[shown["place"] == place, column].mean()) for place in places}
