"""Unknown flags, refused by the parser of the vLLM that is there: here the stand-in's."""

import pytest

from study.design.parameters import make_parameters
from study.errors import InputError
from study.runner import RunOptions, run_session
from study.store import Store


def test_a_session_with_an_unknown_flag_starts_no_server(fake_vllm, small_study, tmp_path):
    from conftest import ROOT

    file = tmp_path / "mine.yaml"
    file.write_text("mine: {flags: [--enforce-eagr]}\n")
    with pytest.raises(InputError, match="level 'mine': vLLM has no flag '--enforce-eagr'; did you mean '--enforce-ea"):
        run_session(make_parameters({**small_study, "levels": str(file)}), ROOT, RunOptions())
    assert Store(tmp_path / "data", "small").read().launches == ()


def test_an_unknown_flag_of_every_server_is_refused_too(fake_vllm, small_study):
    from conftest import ROOT

    parameters = make_parameters({**small_study, "server_flags": ["--max-model-ln", "64"]})
    with pytest.raises(InputError, match="server_flags: vLLM has no flag '--max-model-ln'; did you mean '--max-model-"):
        run_session(parameters, ROOT, RunOptions())
