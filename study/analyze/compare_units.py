"""From a table of runs to the units that may be compared: which runs are independent, and which belong together."""

from dataclasses import dataclass

import numpy as np
import pandas as pd

from study.analyze.compare_types import Pairing
from study.analyze.stats import FloatArray
from study.analyze.stats_power import LEAST_BLOCKS
from study.design.counting import format_counted
from study.errors import InputError, suggest

KEYS = ("level", "users", "block", "machine")
_RUN = ["level", "users", "machine", "block", "launch", "seed"]


@dataclass(frozen=True)
class Units:
    """Logarithms of times of two levels, one row a replicate and one column a number of users; NaN where not run.

    Rows are indexed by (machine, replicate). Paired tables share their rows.
    """

    pairing: Pairing
    level: pd.DataFrame
    default: pd.DataFrame
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """What one comparison rests on: log ratios `d` (units,) of paired data, else two groups of log times.

    Attributes:
        pairing: how runs were set against each other.
        d: (units,) log ratios; empty for unpaired data.
        level: (n,) log times of the level; for paired data of the same units as `d`.
        default: (m,) log times of the default, likewise.
        users: numbers of users that went in.
        notes: what was left out.

    """

    pairing: Pairing
    d: FloatArray
    level: FloatArray
    default: FloatArray
    users: tuple[int, ...]
    notes: tuple[str, ...]


def check_table(table: pd.DataFrame) -> pd.DataFrame:
    """Return the table with its optional columns filled in, and the logarithm of every time as `log`.

    Args:
        table: one row a valid run: `level`, `users`, `block`, `machine`, `value` (ms), and perhaps `seed` (default:
            the block), `launch` (default: one launch a level and block) and `median_ms`.

    Raises:
        InputError: for a missing column or key, a run that stands twice, or a time that is not positive and finite.

    """
    for column in (*KEYS, "value"):
        if column not in table.columns:
            raise InputError(f"column '{column}' is missing{suggest(column, map(str, table.columns))}")
    checked = table.reset_index(drop=True)
    if "launch" not in checked:
        checked["launch"] = checked["block"].map(lambda block: f"block {block}")
    if "seed" not in checked:
        checked["seed"] = checked["block"]
    for column in ("value", *(["median_ms"] if "median_ms" in checked else [])):
        _check_times(checked, column)
    _check_runs(checked)
    checked["users"] = checked["users"].astype(int)
    checked["log"] = np.log(checked["value"].to_numpy(dtype=np.float64))
    return checked


def collect_units(table: pd.DataFrame, level: str, default: str) -> Units:
    """Find what the replicates of two levels are, and lay their log times out by replicate and users.

    A launch that holds several blocks or seeds is one replicate, however many runs it holds. Blocks are paired where
    both levels have the same ones, one has no others, or they share three; else launches are compared as they are.

    Args:
        table: what `check_table` returned.
        level: one level of it.
        default: the other.

    """
    sides = [table[table["level"] == name] for name in (level, default)]
    launches = [side.groupby(["machine", "launch"])["block"].nunique() for side in sides]
    runs_each = max(int(side.groupby("users").size().max()) for side in sides)
    if all(len(count) == 1 for count in launches) and runs_each > 1:
        first, second = (_lay_out(side, "run") for side in sides)
        note = "one launch a level with its seeds inside: compared as unpaired runs, whatever sets the launches apart"
        return Units(Pairing.ONE_LAUNCH_EACH, first, second, (note,))
    if any(bool((count > 1).any()) for count in launches):
        first, second = (_lay_out(side, "launch") for side in sides)
        note = "launches hold several blocks: compared as unpaired launches, each the mean of its runs"
        return Units(Pairing.UNPAIRED_LAUNCHES, first, second, (note,))
    first, second = (_lay_out(side, "block") for side in sides)
    shared = first.index.intersection(second.index)
    left_out = len(first.index.union(second.index)) - len(shared)
    if len(shared) < min(LEAST_BLOCKS, len(first), len(second)):
        note = f"blocks differ ({len(shared)} shared): compared as unpaired launches"
        return Units(Pairing.UNPAIRED_LAUNCHES, first, second, (note,))
    notes = (f"{format_counted(left_out, 'block')} without a run of both levels left out",) if left_out else ()
    return Units(Pairing.BLOCKS, first.loc[shared], second.loc[shared], notes)


def take_sample(units: Units, users: int | None) -> Sample:
    """Return what is compared at `users`, or overall: the mean over the users that every unit has, one value a unit."""
    known = sorted({int(name) for table in (units.level, units.default) for name in table.columns})
    level, default = (table.reindex(columns=known) for table in (units.level, units.default))
    if units.pairing is Pairing.BLOCKS:
        # A ratio needs both runs, so a block lacks a number of users as soon as one level lacks it there.
        missing = level.isna() | default.isna()
        level, default = level.mask(missing), default.mask(missing)
    tables = [side.dropna(how="all") for side in (level, default)]
    common = set.intersection(*map(_users_of_all, tables))
    chosen = [name for name in known if (name in common if users is None else name == users)]
    dropped = [str(name) for name in known if name not in chosen] if users is None else []
    without = (f"overall without {', '.join(dropped)} users, which not every unit has for both levels",)
    notes = units.notes + (without if dropped else ())
    if not chosen:
        empty = np.empty(0)
        return Sample(units.pairing, empty, empty, empty, (), notes)
    means = [table[chosen].dropna().mean(axis=1) for table in tables]
    pairing, times = _average_machines(units.pairing, means)
    d = times[0] - times[1] if pairing.is_paired else np.empty(0)
    return Sample(pairing, d, times[0], times[1], tuple(chosen), notes)


def _check_times(table: pd.DataFrame, column: str) -> None:
    times = pd.to_numeric(table[column], errors="coerce").to_numpy(dtype=np.float64)
    bad = np.flatnonzero(~(np.isfinite(times) & (times > 0.0)))
    if bad.size:
        run = table.iloc[bad[0]]
        raise InputError(
            f"{column} {run[column]} of level '{run['level']}' at {run['users']} users, block {run['block']}, is not a "
            "positive finite time in ms; leave out a run that has none"
        )


def _check_runs(table: pd.DataFrame) -> None:
    """Refuse a run without a key, with a number of users that is none, or that stands twice."""
    holes = np.argwhere(table[_RUN].isna().to_numpy())
    if holes.size:
        row, column = holes[0]
        raise InputError(f"row {row} has no {_RUN[column]}; every run needs one")
    counts = pd.to_numeric(table["users"], errors="coerce")
    for _, run in table[~(counts >= 1) | (counts % 1 != 0)].iterrows():
        raise InputError(f"users {run['users']!r} of level '{run['level']}' is no count; 1, 2, 4 work")
    for _, run in table[table.duplicated(_RUN)].iterrows():
        raise InputError(
            f"level '{run['level']}' at {run['users']} users stands twice in block {run['block']}, seed {run['seed']} "
            f"(again with {run['value']} ms); one row a run works, with its seed and launch where there are several"
        )


def _lay_out(side: pd.DataFrame, replicate: str) -> pd.DataFrame:
    """Average log times over what lies inside a replicate; rows (machine, replicate), columns users."""
    by_run = side["launch"].astype(str) + "/" + side["block"].astype(str) + "/" + side["seed"].astype(str)
    rows = side.assign(replicate=by_run if replicate == "run" else side[replicate])
    return rows.pivot_table(index=["machine", "replicate"], columns="users", values="log", aggfunc="mean")


def _users_of_all(table: pd.DataFrame) -> set[int]:
    """Return the numbers of users that every row of a table with rows has."""
    return {int(name) for name, whole in zip(table.columns, table.notna().all(), strict=True) if whole and len(table)}


def _average_machines(pairing: Pairing, sides: "list[pd.Series[float]]") -> tuple[Pairing, list[FloatArray]]:
    """Make the machine the unit, unless all units are of one machine or each is of its own."""
    machines = [side.index.get_level_values("machine") for side in sides]
    spread = len(set(machines[0]) | set(machines[1])) > 1
    if pairing is not Pairing.ONE_LAUNCH_EACH and spread and not all(index.is_unique for index in machines):
        sides = [side.groupby(level="machine").mean() for side in sides]
        pairing = Pairing.MACHINES if pairing is Pairing.BLOCKS else Pairing.UNPAIRED_MACHINES
    return pairing, [np.asarray(side, dtype=np.float64) for side in sides]
