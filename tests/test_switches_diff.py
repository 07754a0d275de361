"""Two resolved sets beside each other."""

import json

import pytest
from conftest import ROOT
from test_switches import config, make_level, make_refused, make_set

from study.analyze.switches import ABSENT
from study.analyze.switches_diff import FieldChange, diff_sets
from study.analyze.switches_text import diff_json, render_diff
from study.errors import InputError
from study.switches import SwitchesOptions, choose_levels, show_switches

SHAPE = "notebooks/parameters/models/qwen3-8b.yaml"


def test_the_same_sets_do_not_differ():
    levels = make_set(make_level("default"), make_level("O1", config(cudagraph_mode=1)))
    diff = diff_sets(levels, levels)
    assert all(level.same for level in diff.levels)
    assert "Unchanged: default, O1" in render_diff(diff)


def test_a_switch_that_differs_is_told_in_words():
    old, new = make_set(make_level("O1", config(cudagraph_mode=1))), make_set(make_level("O1"))
    (level,) = diff_sets(old, new).levels
    assert level.switches == (FieldChange("cudagraph_mode", "PIECEWISE", "FULL_AND_PIECEWISE"),)
    assert level.fields == ()
    assert "cudagraph_mode: PIECEWISE -> FULL_AND_PIECEWISE" in render_diff(diff_sets(old, new))


def test_a_field_that_no_switch_shows_is_told_by_its_path():
    new = make_set(make_level("default", config(cudagraph_num_of_warmups=2)))
    (level,) = diff_sets(make_set(make_level("default")), new).levels
    assert level.fields == (FieldChange("compilation_config.cudagraph_num_of_warmups", ABSENT, 2),)


def test_other_sizes_of_the_same_number_are_not_lost():
    old, new = (config(cudagraph_capture_sizes=sizes) for sizes in ([1, 2, 8], [1, 4, 8]))
    (level,) = diff_sets(make_set(make_level("a", old)), make_set(make_level("a", new))).levels
    assert [change.name for change in level.fields] == ["compilation_config.cudagraph_capture_sizes"]


def test_a_list_says_what_it_lost_and_won():
    old, new = (config(splitting_ops=ops) for ops in (["a::x", "a::y"], ["a::y", "a::z"]))
    diff = diff_sets(make_set(make_level("a", old)), make_set(make_level("a", new)))
    assert "compilation_config.splitting_ops: without a::x; with a::z" in render_diff(diff)


def test_levels_that_changed_alike_are_told_together():
    levels = [make_set(*(make_level(name, config(backend=backend)) for name in "ab")) for backend in ("x", "y")]
    diff = diff_sets(make_set(*levels[0].levels, make_level("c")), make_set(*levels[1].levels, make_level("c")))
    assert "a, b:\n  backend: x -> y" in render_diff(diff)


def test_a_pass_that_was_null_and_is_gone_shows_both():
    old, new = config({"enable_sp": None, "other": True}), config({"other": True})
    (level,) = diff_sets(make_set(make_level("a", old)), make_set(make_level("a", new))).levels
    assert level.fields == (FieldChange("compilation_config.pass_config.enable_sp", None, ABSENT),)


def test_what_differs_at_every_level_is_told_once():
    def levels(**more):
        first = {**config(), **more}
        second = {**config(cudagraph_mode=1), **more}
        return make_set(make_level("default", first), make_level("O1", second))

    diff = diff_sets(levels(), levels(new_config={"on": True}))
    assert diff.everywhere == (FieldChange("new_config", ABSENT, {"on": True}),)
    assert all(level.same for level in diff.levels)
    assert "Unchanged otherwise: default, O1" in render_diff(diff)


def test_levels_added_and_removed_are_named():
    diff = diff_sets(make_set(make_level("a"), make_level("b")), make_set(make_level("b"), make_level("c")))
    assert (diff.added, diff.removed) == (("c",), ("a",))


def test_a_level_that_is_refused_now_says_so():
    refused = make_refused("a", "gone")
    (level,) = diff_sets(make_set(make_level("a")), make_set(refused)).levels
    assert level.refusal == FieldChange("refusal", None, "gone")
    assert "refusal: none -> gone" in render_diff(diff_sets(make_set(make_level("a")), make_set(refused)))


def test_another_model_is_another_setting():
    new = make_set(make_level("a")).model_copy(update={"model": "other"})
    diff = diff_sets(make_set(make_level("a")), new)
    assert diff.settings == (FieldChange("model", "m", "other"),)
    assert "not every difference is of the release" in render_diff(diff)


def test_other_flags_under_one_name_are_told():
    (level,) = diff_sets(make_set(make_level("a", flags=("-O1",))), make_set(make_level("a"))).levels
    assert level.flags == FieldChange("flags", "-O1", "")


def test_the_difference_is_json():
    new = make_set(make_level("O1", config(cudagraph_mode=1)))
    told = json.loads(diff_json(diff_sets(make_set(make_level("O1")), new)))
    assert told["levels"][0]["switches"] == [
        {"name": "cudagraph_mode", "old": "FULL_AND_PIECEWISE", "new": "PIECEWISE"}
    ]


def test_levels_come_from_files_and_names_each_once():
    names = [level.name for level in choose_levels(("guide.yaml,graphs-only", "O1", "knobs.yaml"), ROOT)]
    assert names[:7] == ["default", "O0", "O1", "O2", "O3", "eager", "graphs-only"]
    assert len(names) == len(set(names)) == 25


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"levels": ("eagre",)}, "level 'eagre' is unknown; did you mean 'eager'"),
        ({"levels": (",",)}, "name no level"),
        ({"model": "no/such/model"}, "model 'no/such/model' is no folder"),
        ({"server_flags": ("--port", "80")}, "--vllm-args has '--port', which the study sets itself"),
        ({"diff": ROOT / "none.json"}, "cannot be read"),
        ({"out": ROOT / "README.md"}, "exists already"),
    ],
)
def test_what_cannot_be_used_is_named_before_vllm_is_asked(options, said):
    with pytest.raises(InputError, match=said):
        show_switches(SwitchesOptions(**{"levels": ("default",), "model": SHAPE, **options}), ROOT)


@pytest.mark.parametrize(
    "level", ["{llm: {trust_remote_code: true}}", "{flags: [--trust-remote-code]}", "{environment: {VLLM_PLUGINS: x}}"]
)
def test_a_level_of_someone_else_brings_no_code_in(tmp_path, level):
    (tmp_path / "theirs.yaml").write_text(f"theirs: {level}\n")
    with pytest.raises(InputError, match="level 'theirs' "):
        show_switches(SwitchesOptions((str(tmp_path / "theirs.yaml"),), SHAPE), ROOT)
