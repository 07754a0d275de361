"""Sessions that measure the study itself: what they leave out stands in the records, and none of it ever counts."""

from pathlib import Path

import pytest

from study.analyze.judged_runs import judge_runs
from study.design.parameters import make_parameters
from study.errors import InputError, RecordError
from study.measure.left_out import WHY, LeftOut, check_left_out, comparable_with
from study.runner import RunOptions, run_session
from study.store import Store


def run(values, left_out=None):
    from conftest import ROOT

    assert run_session(make_parameters(values), ROOT, RunOptions(left_out=left_out)) == 0
    return Store(Path(values["data_dir"]), values["study"]).read()


@pytest.fixture
def bare(fake_vllm, small_study):
    """A session without canary and warm-up; the run with two users without telemetry too."""
    small_study |= {"levels": ["O0"], "seeds": [1, 2], "fresh_server_per_seed": False}
    return run(small_study, LeftOut(waves={1: 3, 2: 2}, unsampled_seeds=frozenset({2})))


def test_what_was_left_out_is_null_with_its_reason(bare):
    (launch,) = bare.launches
    for name in ("canary_before", "canary_after"):
        assert getattr(launch, name) is None
        assert launch.missing[name] == WHY
    for item in bare.runs:
        assert item.load.warm_up_waves == 0
        assert item.load.warm_up_wave_s is None
        assert item.load.missing["warm_up_wave_s"] == WHY
        assert item.gate.kind == "none"
    unsampled = [item for item in bare.runs if item.telemetry is None]
    assert {item.seed for item in unsampled} == {2}
    assert {item.missing["telemetry"] for item in unsampled} == {WHY}
    assert all(item.telemetry.t_s for item in bare.runs if item.seed == 1)


def test_runs_have_the_size_that_they_were_given(bare):
    sizes = {(item.users, item.load.waves, len(item.load.requests.start_s)) for item in bare.runs}
    assert sizes == {(1, 3, 3), (2, 2, 4)}


def test_no_run_of_such_a_session_counts(bare):
    judged = judge_runs(bare)
    assert len(judged) == 4
    assert not any(one.counts for one in judged)
    for one in judged:
        assert "canary_moved (unavailable)" in one.validity.reasons
        assert ("telemetry_gap (unavailable)" in one.validity.reasons) == (one.run.seed == 2)


def test_such_a_session_and_a_study_share_no_folder(fake_vllm, small_study):
    small_study |= {"levels": ["O0"], "users": [1]}
    run(small_study, LeftOut(waves={1: 1}))
    with pytest.raises(RecordError, match="left_out"):
        run(small_study)


def test_what_is_left_out_parts_records_and_an_ordinary_session_keeps_its_number():
    parameters = make_parameters({"study": "s", "model": "m"})
    assert comparable_with(parameters, None) == parameters.comparable()
    assert comparable_with(parameters, LeftOut())["left_out"] == ["canary"]
    both = LeftOut(waves={}, unsampled_seeds=frozenset({1}))
    assert comparable_with(parameters, both)["left_out"] == ["canary", "warm_up", "telemetry"]


def test_a_throttled_session_cannot_go_without_its_canary():
    """Its runs are valid without one, so that nothing would tell them from measurements."""
    parameters = make_parameters({"study": "s", "model": "m", "session": "throttled"})
    check_left_out(parameters, None)
    with pytest.raises(InputError, match="session 'throttled' cannot leave its canary out"):
        check_left_out(parameters, LeftOut())


def test_every_number_of_users_needs_its_waves():
    parameters = make_parameters({"study": "s", "model": "m", "users": [1, 4]})
    check_left_out(parameters, LeftOut(waves={1: 8, 4: 4}))
    with pytest.raises(InputError, match="users 4 has no number of waves"):
        check_left_out(parameters, LeftOut(waves={1: 8}))


def test_no_parameter_asks_for_it():
    with pytest.raises(InputError, match="left_out"):
        make_parameters({"study": "s", "model": "m", "left_out": {}})
