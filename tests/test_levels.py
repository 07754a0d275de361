from pathlib import Path

import pytest

from study.design.levels import read_levels, select_levels
from study.design.parameters import read_parameters
from study.design.plan import make_plan
from study.design.root import find_root
from study.errors import InputError

ROOT = find_root(Path(__file__).parent)


def test_the_guides_levels_have_the_flags_of_vllm():
    levels = {level.name: level for level in select_levels(["default", "O0", "O1", "O2", "O3", "eager"], ROOT)}
    assert levels["default"].flags == ()
    assert levels["O3"].flags == ("-O3",)
    assert levels["eager"].flags == ("--enforce-eager",)


def test_levels_that_launch_from_the_host_run_six_times_as_long():
    # METHOD.md: 10 s, 60 s for -O0, eager and compile-only
    levels = select_levels(["default", "O0", "eager", "compile-only", "graphs-only"], ROOT)
    assert [level.run_length_factor for level in levels] == [1, 6, 6, 6, 1]


def test_graphs_without_compile_is_the_form_that_vllm_accepts():
    (level,) = select_levels(["graphs-only"], ROOT)
    assert level.flags == ("-O0", "-cc.cudagraph_mode=FULL_DECODE_ONLY")


def test_a_misspelt_level_names_the_nearest():
    with pytest.raises(InputError, match="level 'eagre' is unknown; did you mean 'eager'"):
        select_levels(["eagre"], ROOT)


def test_a_level_name_instead_of_a_list_says_how_to_give_one():
    with pytest.raises(InputError, match=r"levels: \[O0\]"):
        select_levels("O0", ROOT)


def test_a_file_is_taken_whole(tmp_path):
    file = tmp_path / "mine.yaml"
    file.write_text("fast: {flags: [-O1]}\nslow:\n")
    assert [level.name for level in select_levels(str(file), ROOT)] == ["fast", "slow"]


@pytest.mark.parametrize("text", ["x: {flag: [-O1]}", "x: [1]", "'a/b': {}", "x: {flags: -O1}"])
def test_an_unusable_level_is_named(tmp_path, text):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    with pytest.raises(InputError, match="level '"):
        read_levels(file)


FILES = ("guide.yaml", "knobs.yaml", "start-savings.yaml")
VALUES = {
    "mode": {"NONE", "STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE"},
    "cudagraph_mode": {"NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE"},
    "backend": {"INDUCTOR", "EAGER"},
}


def knobs():
    return {level.name: level for level in select_levels("knobs.yaml", ROOT)}


@pytest.mark.parametrize("knob", VALUES)
def test_every_value_of_a_knob_is_a_level_that_changes_nothing_else(knob):
    alone = [level.flags[0] for level in knobs().values() if len(level.flags) == 1]
    values = {flag.split("=", 1)[1].upper() for flag in alone if flag.startswith(f"-cc.{knob}=")}
    assert values == VALUES[knob]


def test_mode_none_stands_with_every_kind_of_graphs():
    both = [level.flags for level in knobs().values() if level.flags[:1] == ("-cc.mode=NONE",)]
    graphs = {flags[1].removeprefix("-cc.cudagraph_mode=") for flags in both if len(flags) == 2}
    assert graphs == VALUES["cudagraph_mode"]


def test_splitting_ops_are_a_list_and_an_empty_one():
    flags = {level.flags for level in knobs().values() if level.flags and "splitting_ops" in level.flags[0]}
    assert flags == {('-cc.splitting_ops=["vllm::unified_attention_with_output"]',), ("-cc.splitting_ops=[]",)}


def test_levels_of_earlier_records_keep_their_flags():
    # data/raw holds both under these names
    assert knobs()["graphs-only"].flags == ("-O0", "-cc.cudagraph_mode=FULL_DECODE_ONLY")
    assert knobs()["compile-only"].flags == ("-cc.cudagraph_mode=none",)


@pytest.mark.parametrize("file", FILES)
def test_every_level_has_its_form_for_the_python_api(file):
    for level in select_levels(file, ROOT):
        assert bool(level.llm) == bool(level.flags), level.name


@pytest.mark.parametrize("file", FILES)
def test_the_default_is_the_same_in_every_set(file):
    (default,) = [level for level in select_levels(file, ROOT) if level.name == "default"]
    assert default == select_levels(["default"], ROOT)[0]


def test_the_rehearsal_of_the_knobs_starts_each_value_once():
    parameters = read_parameters(ROOT / "notebooks" / "parameters" / "rehearsal-knobs.yaml")
    plan = make_plan(parameters, select_levels(parameters.levels, ROOT))
    assert sorted(launch.level.name for launch in plan.launches) == sorted(knobs())
    assert (parameters.rehearsal, plan.runs) == (True, ())
