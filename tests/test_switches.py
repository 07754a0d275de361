"""What a resolved configuration switches on, and which configurations are the same thing."""

import json

import pytest
from make_records import RESOLVED, make_launch, make_study

from study.analyze.level_tables import level_table
from study.analyze.switches import (
    GRAPHS,
    MODE,
    PASSES,
    ChangedRequest,
    changed_requests,
    differing_fields,
    find_lookalikes,
    group_alike,
    name_value,
    shared_lines,
    switches_row,
)
from study.analyze.switches_text import find_notes, render_set, summarize_set
from study.design.card import Card
from study.design.resolved_set import AtWorker, ResolvedFor, ResolvedLevel, ResolvedSet, read_resolved_set
from study.errors import InputError

COMPILATION = RESOLVED["compilation_config"]


def config(passes=None, **compilation):
    changed = {**COMPILATION, "custom_ops": ["none"], "pass_config": passes or {}, **compilation}
    return {**RESOLVED, "compilation_config": changed}


def make_level(name, resolved=None, **fields):
    nothing = {"refusal": None, "llm_differs": (), "at_worker": None}
    return ResolvedLevel(name=name, **{**nothing, "resolved": resolved or config(), **fields})


def make_refused(name, why):
    return ResolvedLevel(name=name, resolved=None, refusal=why, llm_differs=None, at_worker=None)


def make_set(*levels, platform="cuda", **fields):
    card = Card(sm="8.9", memory_gib=24.0) if platform == "cuda" else None
    where = ResolvedFor(platform=platform, pretended=card, device_name="")
    return ResolvedSet(vllm_version="0.31.0", resolved_for=where, model="m", levels=levels, **fields)


def test_the_same_function_makes_the_row_of_a_record():
    row = level_table(make_study([make_launch(resolved=config({"fuse_norm_quant": True}))])).iloc[0]
    assert (row["fusions"], row["custom_ops"]) == ("fuse_norm_quant", "none")


def test_a_configuration_without_passes_tells_no_fusion():
    row = switches_row(RESOLVED)
    assert (row["fusions"], row["custom_ops"]) == (None, None)


def test_no_fusion_is_not_an_unknown_one():
    assert switches_row(config({"fuse_act_quant": False}))["fusions"] == "none"


def test_a_pass_that_is_no_fusion_is_not_named():
    passes = {"fuse_act_quant": True, "eliminate_noops": True, "enable_sp": False, "fuse_attn_quant": None}
    assert switches_row(config(passes))["fusions"] == "fuse_act_quant"


@pytest.mark.parametrize("changes", [{"mode": 0}, {"mode": 2}, {"backend": "eager"}])
def test_fusions_without_vllms_own_compile_do_nothing(changes):
    # vllm/config/vllm.py warns: "optimizations settings that are only active during inductor compilation"
    row = switches_row(config({"fuse_norm_quant": True}, **changes))
    assert row["fusions"] == "fuse_norm_quant (set, without effect)"


def test_no_capture_sizes_are_none_and_not_nothing_measured():
    row = switches_row(config(cudagraph_capture_sizes=[]))
    assert (row["capture_sizes"], row["largest_capture_size"]) == (0, None)


@pytest.mark.parametrize(
    ("path", "value", "name"),
    [(MODE, 2, "DYNAMO_TRACE_ONCE"), (MODE, 9, "9"), (GRAPHS, [2, 0], "FULL_DECODE_ONLY"), (GRAPHS, [3, 1], "[3, 1]")],
)
def test_values_have_the_names_of_vllms_enumerations(path, value, name):
    assert name_value(path, value) == name


def test_levels_that_are_the_same_thing_are_one_group():
    alike = make_level("O3", {**config(), "optimization_level": 3})
    levels = [make_level("default"), make_level("O1", config(cudagraph_mode=1)), alike]
    assert [[one.name for one in group] for group in group_alike(levels)] == [["default", "O3"], ["O1"]]


def test_another_environment_is_another_thing():
    plan = make_level("startup-plan", environment={"VLLM_ENABLE_STARTUP_PLAN": "1"})
    assert len(group_alike([make_level("default"), plan])) == 2
    assert find_lookalikes(make_set(make_level("default"), plan)) == {
        ("default", "startup-plan"): ("VLLM_ENABLE_STARTUP_PLAN",)
    }


def test_two_refused_levels_are_never_the_same_thing():
    assert len(group_alike([make_refused("a", "no"), make_refused("b", "no")])) == 2


def test_a_pass_that_is_null_is_off():
    unset, off = (config({"fuse_rope_kvcache": value}) for value in (None, False))
    assert differing_fields(unset, off) == {}
    assert differing_fields(config({"fuse_rope_kvcache": True}), off) == {f"{PASSES}.fuse_rope_kvcache": (True, False)}


def test_true_is_not_one():
    assert differing_fields({"a": {"b": True}}, {"a": {"b": 1}}) == {"a.b": (True, 1)}


def test_a_level_of_the_same_switches_says_in_what_it_differs():
    other = {**config(), "cache_config": {"enable_prefix_caching": True, "num_gpu_blocks": 1}}
    levels = make_set(make_level("default"), make_level("cached", other))
    assert find_lookalikes(levels) == {("default", "cached"): ("cache_config.enable_prefix_caching",)}
    assert "cached shows the same switches as default" in render_set(levels)


def test_a_request_that_vllm_changed_is_told():
    level = make_level("x", config(mode=0, cudagraph_mode=0), requested={MODE: 0, GRAPHS: 1})
    assert changed_requests(level) == (ChangedRequest(GRAPHS, "PIECEWISE", "NONE"),)


def test_what_a_worker_would_change_is_an_expectation():
    worker = AtWorker(backend="FLASH_ATTN", graph_support="UNIFORM_BATCH", cudagraph_mode=[2, 1])
    level = make_level("full", config(cudagraph_mode=2), requested={GRAPHS: 2}, at_worker=worker)
    (change,) = changed_requests(level)
    assert (change.where, change.asked, change.became) == ("worker", "FULL", "FULL_AND_PIECEWISE")
    said = "would become FULL_AND_PIECEWISE at a worker (FLASH_ATTN supports UNIFORM_BATCH); only the running worker"
    assert said in render_set(make_set(level))


def test_a_backend_that_is_missing_here_is_named():
    worker = AtWorker(backend="A", graph_support="ALWAYS", cudagraph_mode=[2, 1], passed_over=("FLASHINFER",))
    (note,) = find_notes(make_set(make_level("default", at_worker=worker)))
    assert "FLASHINFER would come first where its package is installed" in note


def test_a_worker_that_could_not_be_asked_leaves_cannot_tell():
    worker = AtWorker(backend=None, graph_support=None, reason="ValueError: no backend")
    (note,) = find_notes(make_set(make_level("default", at_worker=worker)))
    assert note == "cannot tell what a worker's attention backend does to the graphs: ValueError: no backend"


def test_mode_none_alone_is_not_eager():
    level = make_level("mode-none", config(mode=0, cudagraph_mode=[2, 0]), requested={MODE: 0})
    assert "mode NONE alone is not eager; FULL_DECODE_ONLY graphs stay on" in render_set(make_set(level))


def test_the_cpu_has_no_graphs_only_where_none_are_there():
    without = make_level("default", config(cudagraph_mode=0))
    assert "the CPU backend has no CUDA graphs" in find_notes(make_set(without, platform="cpu"))[0]
    assert find_notes(make_set(without, make_level("x"), platform="cpu")) == ()


def test_lines_of_every_level_are_told_once():
    levels = make_set(make_level("a", changed=("x", "y")), make_level("b", changed=("y",)))
    assert shared_lines(levels) == ("y",)
    text = render_set(levels)
    assert (text.count("every level: y"), text.count("a: x"), text.count(": y")) == (1, 1, 1)


def test_what_only_a_worker_knows_stands_in_its_cell():
    unknown = {f"{PASSES}.fuse_allreduce_rms": "why"}
    level = make_level("default", config({"fuse_allreduce_rms": False}), cannot_tell=unknown)
    assert "none; cannot tell fuse_allreduce_rms" in render_set(make_set(level))


def test_a_refused_level_is_a_row_with_its_reason():
    refused = make_refused("odd", "Invalid backend")
    text = render_set(make_set(make_level("default"), refused))
    assert "odd      refused" in text
    assert "odd: Invalid backend" in text
    assert summarize_set(make_set(refused))["refused"] == {"odd": "Invalid backend"}


def test_python_arguments_stand_beside_the_flags():
    level = make_level("O0", llm={"optimization_level": 0}, llm_differs=("a.b",))
    text = render_set(make_set(level))
    assert "O0: LLM(model, optimization_level=0), which resolves otherwise in a.b" in text


def test_a_level_needs_a_configuration_or_a_refusal():
    with pytest.raises(ValueError, match="'x' needs a resolved configuration or a refusal"):
        make_level("x", refusal="both")


def test_a_set_on_file_is_read_back(tmp_path):
    levels = make_set(make_level("default", llm={"a": [1, {"b": None}]}), make_level("odd", requested={GRAPHS: [2, 0]}))
    (tmp_path / "set.json").write_text(levels.dump())
    assert read_resolved_set(tmp_path / "set.json") == levels
    assert len(levels.dump().splitlines()) == len(make_set(make_level("default")).dump().splitlines()) + 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is no JSON"),
        ("[]", "is no resolved set"),
        ('{"kind": "launch"}', "is no resolved set"),
        ('{"kind": "resolved_set", "schema_version": 9}', "has schema version 9; this version reads 1"),
        ('{"kind": "resolved_set", "schema_version": 1}', "vllm_version: Field required"),
    ],
)
def test_what_is_no_set_is_named(tmp_path, text, said):
    (tmp_path / "set.json").write_text(text)
    with pytest.raises(InputError, match=said):
        read_resolved_set(tmp_path / "set.json")


def test_a_missing_set_is_named(tmp_path):
    with pytest.raises(InputError, match=r"none\.json' cannot be read: No such file"):
        read_resolved_set(tmp_path / "none.json")


def test_the_summary_is_json():
    summary = json.loads(json.dumps(summarize_set(make_set(make_level("default"), make_level("O2")))))
    assert summary["rows"][0]["levels"] == ["default", "O2"]
