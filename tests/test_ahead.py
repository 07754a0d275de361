"""What a load client is asked while its server starts."""

from types import SimpleNamespace

import pytest

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.plan import PlannedLaunch, PlannedRun
from study.design.pool import GENERATED_PROMPTS, WARM_UP_SEED_OFFSET
from study.measure.ahead import MOST_POOLS, first_job
from study.measure.left_out import LeftOut


def setting_of(left_out=None, pools=(), **values):
    parameters = make_parameters({"study": "s", "model": "m", "users": [1, 300], **values})
    return SimpleNamespace(
        parameters=parameters, left_out=left_out, pools=dict.fromkeys(pools), flags_to_check={"flags": []}
    )


def launch_of(*runs):
    planned = tuple(PlannedRun(1, "O0", users, seed) for seed, users in runs)
    return PlannedLaunch(1, Level(name="O0"), 0, planned)


def sizes_of(job):
    return {pool["seed"]: pool["size"] for pool in job["pools"]}


def test_each_seed_has_its_prompts_and_those_of_its_warm_ups():
    job = first_job(setting_of(), launch_of((1, 1), (1, 4), (2, 1)))
    seeds = (1, 2, 1 + WARM_UP_SEED_OFFSET, 2 + WARM_UP_SEED_OFFSET)
    assert sizes_of(job) == dict.fromkeys(seeds, GENERATED_PROMPTS)
    assert job["flags"] == {"flags": []}


def test_as_many_prompts_as_the_seeds_first_run_has_users():
    assert sizes_of(first_job(setting_of(), launch_of((1, 300), (1, 1))))[1] == 300


def test_prompts_that_the_session_has_are_not_made_again():
    assert set(sizes_of(first_job(setting_of(pools=[1]), launch_of((1, 1))))) == {1 + WARM_UP_SEED_OFFSET}


def test_without_warm_ups_none_are_made_for_them():
    assert set(sizes_of(first_job(setting_of(LeftOut(waves={1: 1})), launch_of((1, 1))))) == {1}


NEITHER = [(setting_of(pool="mine.jsonl"), launch_of((1, 1))), (setting_of(), launch_of())]


@pytest.mark.parametrize(("setting", "launch"), NEITHER)
def test_a_users_own_pool_and_a_launch_without_runs_need_none(setting, launch):
    assert first_job(setting, launch)["pools"] == []


def test_many_seeds_do_not_keep_the_first_run_waiting():
    job = first_job(setting_of(), launch_of(*((seed, 1) for seed in range(100))))
    assert len(job["pools"]) == MOST_POOLS
    assert {0, WARM_UP_SEED_OFFSET} <= set(sizes_of(job))
