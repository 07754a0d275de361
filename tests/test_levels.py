from pathlib import Path

import pytest

from study.design.levels import read_levels, select_levels
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
