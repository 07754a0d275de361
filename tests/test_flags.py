"""Unknown flags, refused by the parser of the vLLM that is there: here the stand-in's."""

import pytest

from study.design.parameters import make_parameters
from study.errors import InputError
from study.runner import RunOptions, run_session
from study.store import Store

UNKNOWN = "level 'mine': vLLM has no flag '--enforce-eagr'; did you mean '--enforce-ea"


def run(values, levels, tmp_path):
    from conftest import ROOT

    file = tmp_path / "mine.yaml"
    file.write_text(levels)
    with pytest.raises(InputError) as refused:
        run_session(make_parameters({**values, "levels": str(file)}), ROOT, RunOptions())
    return str(refused.value), Store(tmp_path / "data", "small").read()


@pytest.mark.parametrize("levels", ["mine: {flags: [--enforce-eagr]}", "good: {}\nmine: {flags: [--enforce-eagr]}"])
@pytest.mark.parametrize("start_s", ["0", "3"])
def test_an_unknown_flag_of_any_level_ends_the_session_at_its_first_start(
    fake_vllm, small_study, tmp_path, levels, start_s
):
    """Whether the server is up before vLLM's parser has answered or after it: no run is made, nothing is a result."""
    fake_vllm.setenv("FAKE_VLLM_START_S", start_s)
    refused, records = run(small_study, levels, tmp_path)
    assert UNKNOWN in refused
    assert records.runs == ()
    (launch,) = records.launches
    assert (launch.outcome.status, launch.left_over) == ("interrupted", [])
    assert UNKNOWN in launch.outcome.message


def test_a_start_that_failed_is_no_result_where_its_flags_are_unknown(fake_vllm, small_study, tmp_path):
    fake_vllm.setenv("FAKE_VLLM_FAULT", "die")
    refused, records = run(small_study, "mine: {flags: [--enforce-eagr]}", tmp_path)
    assert UNKNOWN in refused
    assert [launch.outcome.status for launch in records.launches] == ["interrupted"]


def test_a_mended_flag_goes_on_where_the_session_ended(fake_vllm, small_study, tmp_path):
    from conftest import ROOT

    run(small_study, "mine: {flags: [--enforce-eagr]}", tmp_path)
    (tmp_path / "mine.yaml").write_text("mine: {flags: [--enforce-eager]}")
    parameters = make_parameters({**small_study, "levels": str(tmp_path / "mine.yaml")})
    assert run_session(parameters, ROOT, RunOptions()) == 0
    records = Store(tmp_path / "data", "small").read()
    assert sorted(item.users for item in records.runs if item.outcome.status == "ok") == [1, 2]


def test_where_starts_are_measured_no_server_starts_before_the_flags_are_known(fake_vllm, small_study, tmp_path):
    refused, records = run({**small_study, "measure": "start"}, "mine: {flags: [--enforce-eagr]}", tmp_path)
    assert UNKNOWN in refused
    assert records.launches == ()


def test_an_unmeasured_start_asks_too(fake_vllm, small_study, tmp_path):
    levels = "good: {fills_caches: true}\nmine: {flags: [--enforce-eagr]}"
    refused, records = run(small_study, levels, tmp_path)
    assert UNKNOWN in refused
    assert [launch.fills_caches for launch in records.launches] == [True]


def test_an_unknown_flag_of_every_server_is_refused_too(fake_vllm, small_study):
    from conftest import ROOT

    parameters = make_parameters({**small_study, "server_flags": ["--max-model-ln", "64"]})
    with pytest.raises(InputError, match="server_flags: vLLM has no flag '--max-model-ln'; did you mean '--max-model-"):
        run_session(parameters, ROOT, RunOptions())
