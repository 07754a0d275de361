import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats
from tables_of_runs import make_table

from study.analyze.compare import compare_levels
from study.analyze.compare_types import Pairing, Verdict
from study.errors import InputError


def test_overall_is_the_block_mean_over_users():
    table = make_table({"default": 0, "O0": 0.02}, users=(1, 4, 16))
    logs = table.assign(log=np.log(table["value"])).pivot_table(index=["block", "users"], columns="level", values="log")
    d = (logs["O0"] - logs["default"]).groupby("block").mean()
    pair = compare_levels(table).pair("O0")
    assert pair.p == pytest.approx(scipy_stats.ttest_1samp(d, 0).pvalue)
    assert (pair.n_level, pair.users_used) == (5, (1, 4, 16))


def test_overall_uses_the_users_that_every_block_has():
    table = make_table({"default": 0, "O0": 0.02}, users=(1, 4, 16))
    holed = table[~((table["block"] == 2) & (table["users"] == 16) & (table["level"] == "O0"))]
    result = compare_levels(holed)
    assert result.pair("O0").users_used == (1, 4)
    assert "without 16 users" in result.pair("O0").notes[0]
    assert result.pair("O0", 16).n_level == 4
    whole = compare_levels(table[table["users"] != 16]).pair("O0")
    assert result.pair("O0").effect_percent == whole.effect_percent


def test_a_block_without_one_level_is_left_out():
    table = make_table({"default": 0, "O0": 0.02})
    pair = compare_levels(table[~((table["block"] == 2) & (table["level"] == "default"))]).pair("O0")
    assert (pair.n_level, pair.pairing) == (4, Pairing.BLOCKS)
    assert "1 block" in pair.notes[0]


def test_users_that_only_one_level_ran_are_undecided_with_a_reason():
    table = make_table({"default": 0, "O0": 0.02})
    pair = compare_levels(table[~((table["users"] == 8) & (table["level"] == "O0"))]).pair("O0", 8)
    assert (pair.verdict, pair.effect_percent, pair.range_rule) == (Verdict.UNDECIDED, None, None)
    assert pair.reason == "no valid run of both 'O0' and 'default' at 8 users"


@pytest.mark.parametrize(
    ("machines", "pairing", "n"),
    [
        (("a",), Pairing.BLOCKS, 6),
        (tuple("abcdef"), Pairing.BLOCKS, 6),
        (("a", "b", "c"), Pairing.MACHINES, 3),
        (("a", "b"), Pairing.MACHINES, 2),
    ],
)
def test_unit_is_the_block_or_the_machine(machines, pairing, n):
    pair = compare_levels(make_table({"default": 0, "O0": 0.2}, blocks=6, machines=machines)).pair("O0", 1)
    assert (pair.pairing, pair.n_level, pair.effect_percent.unit) == (pairing, n, pairing.unit)
    assert (pair.verdict is Verdict.UNDECIDED) == (n == 2)


def test_machines_average_their_blocks_first():
    table = make_table({"default": 0, "O0": 0.02}, blocks=5, machines=("a", "b", "c"), users=(1,))
    wide = table.assign(log=np.log(table["value"])).pivot_table(
        index=["machine", "block"], columns="level", values="log"
    )
    d = (wide["O0"] - wide["default"]).groupby("machine").mean()
    assert compare_levels(table).pair("O0", 1).p == pytest.approx(scipy_stats.ttest_1samp(d, 0).pvalue)


def test_a_block_begun_again_on_another_card_is_paired_within_the_card():
    rows = make_table({"default": 0, "O0": 0.02}, blocks=3, users=(1,))
    torn = rows[(rows["block"] == 3) & (rows["level"] == "default")].assign(machine="b", value=50.0)
    again = compare_levels(pd.concat([rows, torn], ignore_index=True)).pair("O0", 1)
    assert again.effect_percent == compare_levels(rows).pair("O0", 1).effect_percent


def old_design(seeds, noise=0.0005):
    rng = np.random.default_rng(2)
    rows = [
        {"level": level, "users": 1, "block": seed, "machine": "a", "launch": f"{level}-launch", "value": value}
        for level, count in seeds.items()
        for seed in range(1, count + 1)
        for value in (5.0 * (1.02 if level == "O0" else 1.0) * math.exp(rng.normal(0, noise)),)
    ]
    return pd.DataFrame(rows)


def test_seeds_of_one_launch_each_are_unpaired_and_no_verdict():
    table = old_design({"default": 5, "O0": 5})
    pair = compare_levels(table).pair("O0", 1)
    logs = [np.log(table.loc[table["level"] == level, "value"]) for level in ("O0", "default")]
    assert (pair.pairing, pair.verdict) == (Pairing.ONE_LAUNCH_EACH, Verdict.UNDECIDED)
    assert pair.p == pytest.approx(scipy_stats.ttest_ind(*logs, equal_var=False).pvalue)
    assert pair.p < 1e-4
    assert pair.effect_percent.unit == "run"
    assert "one launch each" in pair.reason
    assert pair.p_holm is None


def test_seeds_inside_a_block_are_one_replicate():
    table = old_design({"default": 3, "O0": 3}).rename(columns={"block": "seed"}).assign(block=1)
    assert compare_levels(table).pair("O0", 1).pairing is Pairing.ONE_LAUNCH_EACH


def test_several_launches_that_hold_several_seeds_count_as_launches():
    tables = [old_design({"default": 2, "O0": 2}, 0.001).assign(run=run) for run in range(3)]
    table = pd.concat(tables, ignore_index=True)
    table["block"] += 10 * table["run"]
    table["launch"] += table["run"].astype(str)
    table["value"] *= np.exp(np.random.default_rng(3).normal(0, 0.001, len(table)))
    pair = compare_levels(table.drop(columns="run")).pair("O0", 1)
    assert (pair.pairing, pair.n_level, pair.n_default) == (Pairing.UNPAIRED_LAUNCHES, 3, 3)
    assert "unpaired launches" in pair.notes[0]


@pytest.mark.parametrize("blocks", [(2,), (2, 4)])
def test_a_level_that_joined_later_is_paired_in_the_blocks_it_has(blocks):
    """Levels are compared within blocks: what sets blocks apart, here 50 percent, is not charged to the level."""
    table = make_table({"default": 0, "O0": 0.02}, blocks=4, users=(1,))
    table.loc[table["block"].isin(blocks), "value"] *= 1.5
    pair = compare_levels(table[(table["level"] == "default") | table["block"].isin(blocks)]).pair("O0", 1)
    assert (pair.pairing, pair.n_level, pair.n_default) == (Pairing.BLOCKS, len(blocks), len(blocks))
    assert pair.verdict is Verdict.UNDECIDED
    assert pair.effect_percent.point == pytest.approx(2.0, abs=0.5)
    assert f"{4 - len(blocks)} block" in pair.notes[0]


def test_blocks_of_which_each_level_has_others_are_unpaired_and_say_so():
    table = make_table({"default": 0, "O0": 0.02}, blocks=5, users=(1,))
    has = {"default": [1, 2, 3, 4], "O0": [3, 4, 5]}
    kept = [table[(table["level"] == level) & table["block"].isin(blocks)] for level, blocks in has.items()]
    pair = compare_levels(pd.concat(kept, ignore_index=True)).pair("O0", 1)
    assert (pair.pairing, pair.n_level, pair.n_default) == (Pairing.UNPAIRED_LAUNCHES, 3, 4)
    assert "blocks differ (2 shared)" in pair.notes[0]
    assert pair.sign_flip is None


def test_disjoint_blocks_earn_a_welch_verdict():
    table = make_table({"default": 0, "O0": 1.0}, blocks=4, users=(1,))
    table.loc[table["level"] == "O0", "block"] += 100
    pair = compare_levels(table).pair("O0", 1)
    assert (pair.pairing, pair.verdict) == (Pairing.UNPAIRED_LAUNCHES, Verdict.SLOWER)


def test_unpaired_blocks_over_machines_make_the_machine_the_unit():
    table = make_table({"default": 0, "O0": 1.0}, blocks=6, users=(1,), machines=("a", "b", "c"))
    table.loc[table["level"] == "O0", "block"] += 100
    pair = compare_levels(table).pair("O0", 1)
    assert (pair.pairing, pair.n_level) == (Pairing.UNPAIRED_MACHINES, 3)


@pytest.mark.parametrize("value", [math.nan, math.inf, 0.0, -5.0])
def test_unusable_times_are_refused_by_name(value):
    table = make_table({"default": 0, "O0": 0.05})
    table.loc[(table["level"] == "O0") & (table["users"] == 8) & (table["block"] == 3), "value"] = value
    with pytest.raises(InputError, match=f"value {value} of level 'O0' at 8 users, block 3"):
        compare_levels(table)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda t: t.drop(columns="machine"), "column 'machine' is missing"),
        (lambda t: t.assign(users=1.5), "users 1.5 of level 'default' is no count"),
        (lambda t: t.assign(users="eight"), "'eight' of level 'default' is no count"),
        (lambda t: t.assign(machine=None), "row 0 has no machine"),
        (lambda t: pd.concat([t, t.iloc[[2]]]), "stands twice in block 1"),
        (lambda t: t.assign(median_ms=math.nan), "median_ms nan"),
        (lambda t: t.replace({"level": {"default": "defualt"}}), "did you mean 'defualt'"),
        (lambda t: t.iloc[:0], "level 'default' has no run"),
    ],
)
def test_unusable_tables_are_refused(change, words):
    with pytest.raises(InputError, match=words):
        compare_levels(change(make_table({"default": 0, "O0": 0.05})))


def test_the_callers_table_is_left_alone():
    table = make_table({"default": 0, "O0": 0.05})
    before = table.copy()
    compare_levels(table)
    pd.testing.assert_frame_equal(table, before)
