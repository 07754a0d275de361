from make_records import make_launch, make_machine, make_run, make_study

from study.analyze.judged_runs import judge_runs

HERE, THERE = make_machine(gpu_uuid="GPU-1"), make_machine(gpu_uuid="GPU-2")


def study_of(*cells):
    """Records of one block: (level, machine, attempt, start) each with one run."""
    launches = [
        make_launch(level, machine=machine, launch_id=f"b1-{level}-a{attempt}", attempt=attempt)
        for level, machine, attempt, _ in cells
    ]
    runs = [
        make_run(launch, run_id=f"b1-{launch.level}-u1-a{launch.attempt}", started_unix_s=start)
        for launch, (_, _, _, start) in zip(launches, cells, strict=True)
    ]
    return make_study(launches, runs)


def counted(study):
    return {one.run.run_id for one in judge_runs(study) if one.counts}


def test_a_block_that_was_begun_again_counts_on_the_card_that_did_most_of_it():
    study = study_of(("default", HERE, 1, 10.0), ("default", THERE, 2, 20.0), ("O0", THERE, 1, 30.0))
    assert counted(study) == {"b1-default-u1-a2", "b1-O0-u1-a1"}
    (left,) = [one for one in judge_runs(study) if not one.counts]
    assert left.left_out == ("its block was begun again on another card",)


def test_levels_of_a_block_are_never_taken_from_two_cards():
    study = study_of(("default", HERE, 1, 10.0), ("O0", THERE, 1, 20.0))
    assert counted(study) == {"b1-O0-u1-a1"}  # as many cells each: the card that ran last


def test_blocks_on_cards_of_their_own_all_count():
    launches = [
        make_launch("default", block=block, machine=machine, launch_id=f"b{block}-default-a1")
        for block, machine in ((1, HERE), (2, THERE))
    ]
    runs = [make_run(launch, run_id=f"b{launch.block}-default-u1-a1", block=launch.block) for launch in launches]
    assert len(counted(make_study(launches, runs))) == 2
