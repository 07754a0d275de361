"""From a table of runs to verdicts: every level against the default, by users and overall.

Ratios are taken within blocks; the block, or the machine, is the unit. Two kinds of family are tested with Holm's step:
the overall costs of all levels, and the users within one level.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from study.analyze import stats
from study.analyze.compare_types import AaCheck, CompareOptions, Comparison, Pair
from study.analyze.compare_units import check_table, collect_units, take_sample
from study.analyze.compare_verdict import Draft, FamilyPlace, estimate_effect, judge, make_draft
from study.design.counting import format_counted
from study.errors import InputError, suggest

AA_NOT_MEASURED = "A/A not measured"


def compare_levels(table: pd.DataFrame, options: CompareOptions | None = None) -> Comparison:
    """Compare every level of a table with the default.

    Args:
        table: one row a valid run: `level`, `users`, `block`, `machine`, `value` (mean TPOT in ms over complete waves),
            and perhaps `seed`, `launch` and `median_ms` (median TPOT, for the figures of the 2026.10 edition).
        options: margin, alpha, levels that resolved alike; without, the defaults of `CompareOptions`.

    Returns:
        One pair a level, and one a level and number of users.

    Raises:
        InputError: for a table that cannot be read, or a level named in `options` that it does not hold.

    """
    options = options or CompareOptions()
    runs = check_table(table)
    levels = [str(name) for name in runs["level"].unique()]
    for name in (options.default, *(name for pair in options.alike for name in pair)):
        if name not in levels:
            raise InputError(f"level '{name}' has no run in the table{suggest(name, levels)}")
    aa = tuple(_check_alike(runs, pair, options) for pair in options.alike)
    others = [name for name in levels if name != options.default]
    by_level = [_draft_level(runs, (name, options.default), options.alpha) for name in others]
    overall = _judge_family([drafts[0] for drafts in by_level], aa, options, runs)
    by_users = [pair for drafts in by_level for pair in _judge_family(drafts[1:], aa, options, runs)]
    return Comparison(
        options=options,
        overall=tuple(overall),
        by_users=tuple(by_users),
        aa=aa,
        method_biased=any(check.contains_zero is False for check in aa),
        notes=() if any(check.contains_zero is not None for check in aa) else (AA_NOT_MEASURED,),
    )


def _draft_level(runs: pd.DataFrame, levels: tuple[str, str], alpha: float) -> list[Draft]:
    """Draft the overall comparison of (level, default), then one for each number of users that either ran."""
    units = collect_units(runs, *levels)
    sizes = sorted(int(users) for users in runs.loc[runs["level"].isin(levels), "users"].unique())
    return [make_draft(take_sample(units, users), levels, users, alpha) for users in (None, *sizes)]


def _judge_family(
    drafts: Sequence[Draft], aa: Sequence[AaCheck], options: CompareOptions, runs: pd.DataFrame
) -> list[Pair]:
    """Test one family with Holm's step and judge its members; those without enough units stay outside it."""
    raw = [float(draft.test.p) for draft in drafts if draft.test is not None and draft.earns_verdict]
    adjusted = iter(stats.adjust_holm(np.array(raw)) if raw else ())
    places = (FamilyPlace(float(next(adjusted)) if draft.earns_verdict else None, len(raw)) for draft in drafts)
    return [judge(draft, place, aa, options, runs) for draft, place in zip(drafts, places, strict=True)]


def _check_alike(runs: pd.DataFrame, levels: tuple[str, str], options: CompareOptions) -> AaCheck:
    """Set two levels that resolved alike against each other, the default second where it is one of them."""
    level, default = levels[::-1] if levels[0] == options.default else levels
    draft = make_draft(take_sample(collect_units(runs, level, default), None), (level, default), None, options.alpha)
    effect = estimate_effect(draft, options.alpha)
    hosted = {level, default} <= options.host_launched
    contains_zero = effect.contains(0.0) if effect is not None and draft.earns_verdict else None
    if contains_zero is None:
        note = f"{AA_NOT_MEASURED}: {format_counted(draft.n, draft.sample.pairing.unit)}, three are needed"
    else:
        note = "speaks for host-launched levels" if hosted else "speaks for graph levels, not for host-launched ones"
    return AaCheck(level, default, effect, contains_zero, hosted, note)
