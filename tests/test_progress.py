import dataclasses

from make_records import make_launch, make_machine, make_outcome, make_run, make_study

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.plan import make_plan
from study.progress import expect_as_seen, remaining_launches, seen_seconds

LEVELS = (Level(name="default", fills_caches=True), Level(name="O0"))
PLAN = make_plan(make_parameters({"study": "s", "model": "m", "users": [1, 2], "seeds": [1, 2]}), LEVELS)
HERE, THERE = make_machine(gpu_uuid="GPU-1"), make_machine(gpu_uuid="GPU-2")
HOST = HERE.hostname_sha256


def launch_of(level, block, machine=HERE, attempt=1, **fields):
    name = f"b{block}-{level}-a{attempt}"
    return make_launch(level, block=block, machine=machine, launch_id=name, attempt=attempt, **fields)


def runs_of(launch, *users, **fields):
    return [
        make_run(
            launch, users=count, block=launch.block, seed=launch.block,
            run_id=f"b{launch.block}-{launch.level}-u{count}-a{launch.attempt}", **fields,
        )
        for count in users
    ]  # fmt: skip


def left(launches, runs, unit="GPU-1"):
    study = make_study(launches, runs)
    return {
        launch.key: sorted(run.users for run in launch.runs)
        for launch in remaining_launches(PLAN, study, unit, HOST)
    }


EVERYTHING = {"fill-default": [], "b1-default": [1, 2], "b1-O0": [1, 2], "b2-default": [1, 2], "b2-O0": [1, 2]}


def test_an_empty_store_leaves_the_whole_plan():
    assert [launch.key for launch in remaining_launches(PLAN, None, "GPU-1", HOST)] == [
        launch.key for launch in PLAN.launches
    ]


def test_finished_runs_are_not_made_again():
    launch = launch_of("O0", 1)
    assert left([launch], runs_of(launch, 1)) == EVERYTHING | {"b1-O0": [2]}
    rest = {key: users for key, users in EVERYTHING.items() if key != "b1-O0"}
    assert left([launch], runs_of(launch, 1, 2)) == rest


def test_an_interrupted_run_is_made_again_and_a_failed_one_is_not():
    launch = launch_of("O0", 1)
    interrupted = runs_of(launch, 1, outcome=make_outcome(status="interrupted", stage="load"))
    failed = runs_of(launch, 2, outcome=make_outcome(status="failed", stage="load"))
    assert left([launch], interrupted + failed)["b1-O0"] == [1]


def test_a_level_that_failed_to_start_is_not_started_again():
    failed = launch_of("O0", 1, outcome=make_outcome(status="failed", stage="ready"))
    assert "b1-O0" not in left([failed], [])
    assert "b2-O0" in left([failed], [])


def test_a_complete_study_needs_nothing_on_any_card():
    launches = [launch_of(level, block) for level in ("default", "O0") for block in (1, 2)]
    runs = [run for launch in launches for run in runs_of(launch, 1, 2)]
    assert left(launches, runs) == {}
    assert left(launches, runs, unit="GPU-2") == {}


def test_an_unfinished_block_of_another_card_is_begun_again():
    launches = [launch_of("default", 1, THERE), launch_of("default", 2, THERE), launch_of("O0", 2, THERE)]
    runs = [run for launch in launches for run in runs_of(launch, 1, 2)]
    assert left(launches, runs) == {"fill-default": [], "b1-default": [1, 2], "b1-O0": [1, 2]}


def test_caches_are_filled_again_on_another_host_only():
    fill = make_launch("default", launch_id="fill-default-a1", fills_caches=True, machine=HERE, block=0)
    assert "fill-default" not in left([fill], [])
    assert "fill-default" in left([fill], [], unit="GPU-2")


def test_nothing_is_filled_for_levels_that_are_done():
    launches = [launch_of("default", block) for block in (1, 2)]
    runs = [run for launch in launches for run in runs_of(launch, 1, 2)]
    assert left(launches, runs) == {"b1-O0": [1, 2], "b2-O0": [1, 2]}


def test_what_launches_took_is_their_median():
    times = [(launch_of("O0", block), took) for block, took in ((1, 10.0), (2, 30.0), (3, 20.0))]
    launches = [launch.model_copy(update={"stopped_s": launch.spawn_s + took}) for launch, took in times]
    assert seen_seconds(make_study(launches)) == {"O0": 20.0}
    assert seen_seconds(None) == {}


def expected_after(made, took_s, names=("b2-default", "b2-O0")):
    launches = {launch.key: launch for launch in PLAN.launches}
    expected_s = dict.fromkeys(names, 200.0)
    expect_as_seen(expected_s, launches[made], took_s, [launches[name] for name in names])
    return expected_s


def test_a_launch_just_made_tells_how_long_the_next_of_its_level_takes():
    assert expected_after("b1-O0", 47.0) == {"b2-default": 200.0, "b2-O0": 47.0}


def test_what_filled_caches_or_had_fewer_runs_tells_nothing_of_the_rest():
    assert expected_after("fill-default", 47.0)["b2-default"] == 200.0
    launches = {launch.key: launch for launch in PLAN.launches}
    fewer = dataclasses.replace(launches["b1-O0"], runs=launches["b1-O0"].runs[:1])
    expected_s = {"b2-O0": 200.0}
    expect_as_seen(expected_s, fewer, 47.0, [launches["b2-O0"]])
    assert expected_s == {"b2-O0": 200.0}
