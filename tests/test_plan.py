import pytest

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.plan import FIRST_START_S, describe_plan, make_plan

LEVELS = (
    Level(name="default", fills_caches=True),
    Level(name="O3", fills_caches=True, warmed_by=("default",)),
    Level(name="O0", run_length_factor=6),
)

STARTS = {"study": "s", "model": "m", "measure": "start", "seeds": [1, 2]}


def plan_of(**values):
    parameters = make_parameters({"study": "s", "model": "m", "users": [1, 8], "seeds": [1, 2, 3], **values})
    return make_plan(parameters, LEVELS), parameters


def test_every_block_launches_every_level_once():
    plan, _ = plan_of()
    for block in (1, 2, 3):
        names = [launch.level.name for launch in plan.measured if launch.block == block]
        assert sorted(names) == ["O0", "O3", "default"]
        assert [launch.position for launch in plan.measured if launch.block == block] == [0, 1, 2]


def test_every_launch_runs_every_number_of_users_once():
    plan, _ = plan_of()
    for launch in plan.measured:
        assert sorted(run.users for run in launch.runs) == [1, 8]
        assert {run.seed for run in launch.runs} == {launch.block}


def test_levels_of_a_block_share_the_order_of_users():
    plan, _ = plan_of(users=[1, 2, 4, 8, 16])
    for block in (1, 2, 3):
        orders = {tuple(run.users for run in launch.runs) for launch in plan.measured if launch.block == block}
        assert len(orders) == 1


def test_the_order_comes_from_the_order_seed():
    def orders(seed):
        return [launch.key for launch in plan_of(order_seed=seed, seeds=list(range(1, 9)))[0].measured]

    assert orders(0) == orders(0)
    assert orders(0) != orders(1)
    firsts = {key.split("-")[1] for key in orders(0)[::3]}
    assert len(firsts) > 1  # not always the same level first


def test_only_levels_that_nothing_else_warms_get_an_unmeasured_start():
    plan, _ = plan_of()
    assert [launch.level.name for launch in plan.launches if launch.fills_caches] == ["default"]
    assert plan.launches[0].fills_caches
    assert plan.launches[0].runs == ()


def test_a_cold_start_study_fills_nothing_and_runs_nothing():
    plan, _ = plan_of(cache="cold", measure="start")
    assert len(plan.launches) == 9
    assert plan.runs == ()


def test_the_old_design_has_one_launch_a_level_with_all_seeds():
    plan, _ = plan_of(fresh_server_per_seed=False)
    assert len(plan.measured) == 3
    assert all(len(launch.runs) == 6 for launch in plan.measured)
    assert len({run.key for run in plan.runs}) == 18


def test_what_was_seen_replaces_the_first_guess():
    parameters = make_parameters({"study": "s", "model": "m", "users": [1], "seeds": [1]})
    seen = {"default": 100.0, "O0": 200.0, "O3": 50.0, "fill-default": 30.0}
    assert make_plan(parameters, LEVELS, seen).estimate_s() == 380.0


def test_runs_from_the_host_are_planned_six_times_as_long():
    # METHOD.md: 10 s, and 60 s for levels that launch every kernel from the host
    plan, _ = plan_of(seeds=[1])
    times = {launch.level.name: plan.estimates_s[launch.key] for launch in plan.measured}
    assert times["O0"] - times["default"] > 2 * 50


def test_a_soak_is_planned_up_to_its_deadline_ahead_of_every_run():
    # a card that never throttles is kept under load until the deadline, which is given for each run
    throttled = {"session": "throttled", "seeds": [1], "cool_deadline_s": 100, "device": "cuda"}
    soaked, _ = plan_of(**throttled, throttle="soak")
    as_found, _ = plan_of(**throttled, throttle="as_found")
    assert soaked.estimate_s() - as_found.estimate_s() == pytest.approx(6 * 100)
    cpu, _ = plan_of(**{**throttled, "device": "cpu"}, throttle="soak")
    cooled, _ = plan_of(seeds=[1], cool_deadline_s=100, device="cpu")
    assert cpu.estimate_s() == pytest.approx(cooled.estimate_s())


def test_every_cold_start_is_planned_as_long_as_a_first_one():
    # Seen on one H200: default 224 s cold and 69 s warm, O0 186 s with cold kernels: every cache is filled again.
    launches = make_plan(make_parameters({**STARTS, "cache": "cold"}), LEVELS)
    assert {launches.estimates_s[one.key] for one in launches.measured} == {FIRST_START_S["cuda"] + 20.0}
    seen = {"default": 230.0, "O0": 150.0, "O3": 230.0}
    assert make_plan(make_parameters({**STARTS, "cache": "cold"}), LEVELS, seen).estimate_s() == 2 * (230 + 150 + 230)


def test_the_first_start_on_a_machine_is_planned_as_a_cold_one_unless_it_was_seen():
    warm = make_parameters({**STARTS, "cache": "warm"})
    first = make_plan(warm, LEVELS).launches[0]
    assert first.fills_caches
    assert make_plan(warm, LEVELS).estimates_s[first.key] == FIRST_START_S["cuda"] + 20.0
    assert make_plan(warm, LEVELS, {"fill-default": 60.0}).estimates_s[first.key] == 60.0


def test_the_plan_reads_as_text():
    plan, parameters = plan_of(seeds=[1])
    text = describe_plan(plan, parameters)
    assert "3 measured launches, 6 runs, 1 unmeasured start" in text
    assert "block 1  O0" in text
