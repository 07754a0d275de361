from dataclasses import replace

import pytest
from make_records import make_launch, make_outcome, make_run, make_study

from study.analyze.not_run import say_not_run
from study.records import SessionRecord

FAILED = make_outcome(status="failed", stage="ready", message="no memory")


def ask(number=1, levels=("default", "eager"), **asked):
    fields = {"measure": "speed", "seeds": [1], "users": [1, 8], "fresh_server_per_seed": True, **asked}
    shapes = [{"name": level} for level in levels]
    return SessionRecord(study="s", fingerprint="f", session_id=str(number), asked=fields, levels=shapes)


def say(launches, runs, *sessions):
    return say_not_run(replace(make_study(launches, runs), sessions=sessions))


@pytest.fixture
def first():
    default, eager = make_launch("default"), make_launch("eager")
    return [default, eager], [make_run(default, 1), make_run(default, 8), make_run(eager, 1), make_run(eager, 8)]


def test_a_whole_study_lacks_nothing(first):
    assert say(*first, ask()) == []


def test_levels_and_users_without_a_record_are_named_by_block(first):
    launches, runs = first
    said = say(launches, runs[:-1], ask(), ask(2, levels=("O0",), seeds=[2], users=[1, 8, 32]))
    assert said == [
        "Asked for and not run in block 1: eager at 8 users.",
        "Asked for and not run in block 2: O0 at 1, 8 and 32 users.",
    ]


def test_what_a_later_session_ran_is_not_lacking(first):
    launches, runs = first
    assert say(launches, runs, ask(), ask(2, levels=("eager",))) == []


def test_a_launch_that_failed_was_run(first):
    launches, runs = first
    failed = launches[1].model_copy(update={"outcome": FAILED})
    assert say([launches[0], failed], runs[:2], ask()) == []


def test_starts_alone_have_no_users():
    said = say([make_launch("default")], [], ask(measure="start", seeds=[1, 2]))
    assert said == ["Asked for and not run in block 1: eager.", "Asked for and not run in block 2: default, eager."]


def test_a_start_that_fills_caches_is_no_start_that_was_asked_for():
    fill = make_launch("default", block=0, fills_caches=True)
    assert say([fill], [], ask(measure="start", levels=("default",))) == ["Asked for and not run in block 1: default."]


def test_seeds_on_one_server_are_called_seeds(first):
    launches, runs = first
    said = say(launches, runs, ask(seeds=[1, 2], users=[1], fresh_server_per_seed=False))
    assert said == ["Asked for and not run in seed 2: default at 1 user, eager at 1 user."]
