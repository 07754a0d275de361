import pytest
from make_records import RESOLVED, make_launch, make_machine, make_outcome, make_study

from study.analyze.level_tables import (
    alike_pairs,
    host_launched_levels,
    level_table,
    list_always_emptied,
    start_table,
)
from study.analyze.switches import IGNORED_WHEN_ALIKE


def test_a_start_that_failed_keeps_its_row():
    failed = make_outcome(status="failed", stage="ready", message="deadline of 1800 s")
    launch = make_launch("O1", outcome=failed, first_token_s=None, resolved=None)
    table = start_table(make_study([make_launch(), launch]))
    assert table["level"].tolist() == ["default", "O1"]
    assert table["n"].tolist() == [1, 0]
    assert table["reason"][1] == "failed at ready: deadline of 1800 s"


def test_only_what_every_cold_start_emptied_is_told_as_emptied():
    # A study begun with an earlier list of caches goes on with a longer one.
    fields = {"cache": "cold", "cache_not_emptied": ["page cache"]}
    launches = [
        make_launch(block=1, cache_emptied=["Triton kernels", "inductor"], **fields),
        make_launch(block=2, cache_emptied=["Triton kernels", "inductor", "Humming kernels"], **fields),
    ]
    row = start_table(make_study(launches)).iloc[0]
    assert (row["emptied"], row["not_emptied"]) == ("Triton kernels; inductor", "page cache")


@pytest.mark.parametrize(
    ("emptied", "always"),
    [
        ([["vLLM: torch.compile, AOT"], ["vLLM: torch.compile, AOT, model information"]], ["vLLM: torch.compile, AOT"]),
        ([["vLLM: torch.compile, AOT, model information", "inductor"], ["vLLM: AOT"]], ["vLLM: AOT"]),
        ([["vLLM: torch.compile"], ["vLLM: AOT"]], []),
        ([["vLLM: AOT"], ["inductor"]], []),
        ([["inductor", "a, b"]], ["inductor", "a, b"]),
        ([], []),
    ],
)
def test_of_caches_under_one_name_those_that_every_start_emptied_are_told(emptied, always):
    assert list_always_emptied(emptied) == always


def test_cold_and_warm_starts_stand_apart():
    launches = [make_launch(block=block, first_token_s=800.0 + at) for block, at in ((1, 60.0), (2, 70.0), (3, 62.0))]
    cold = make_launch(block=4, cache="cold", first_token_s=1024.0)
    table = start_table(make_study([*launches, cold]))
    assert table["cache"].tolist() == ["warm", "cold"]
    assert table["median_s"].tolist() == [62.0, 224.0]
    assert (table["least_s"][0], table["greatest_s"][0]) == (60.0, 70.0)


def test_kv_cache_is_told_with_its_range():
    launches = [make_launch(block=block, kv_cache_blocks=blocks) for block, blocks in ((1, 27846), (2, 27000))]
    row = start_table(make_study(launches)).iloc[0]
    assert (row["kv_cache_blocks_least"], row["kv_cache_blocks_greatest"]) == (27000, 27846)


def resolve(level, **changes):
    resolved = {**RESOLVED, "instance_id": level, **changes}
    return make_launch(level, resolved=resolved)


def test_switches_are_named_as_resolved():
    config = {**RESOLVED["compilation_config"], "mode": 0, "cudagraph_mode": [2, 0]}
    study = make_study([resolve("graphs-only", optimization_level=0, compilation_config=config)])
    row = level_table(study, use_for={"graphs-only": "graphs without compile"}).iloc[0]
    assert (row["mode"], row["cudagraph_mode"], row["backend"]) == ("NONE", "FULL_DECODE_ONLY", "inductor")
    assert (row["enforce_eager"], row["jit_warmup"], row["flashinfer_autotune"]) == (False, True, True)
    assert (row["capture_sizes"], row["largest_capture_size"]) == (5, 16)
    assert row["use_for"] == "graphs without compile"


def test_o2_and_o3_resolve_alike_and_o1_does_not():
    other = {**RESOLVED["compilation_config"], "cudagraph_mode": 1}
    levels = [resolve("O2"), resolve("O3", optimization_level=3), resolve("O1", compilation_config=other)]
    study = make_study(levels)
    assert alike_pairs(study) == {("O2", "O3")}
    assert level_table(study)["alike"].tolist() == ["", "O3", "O2"]


def test_outcomes_and_ports_do_not_set_levels_apart():
    cache = {"enable_prefix_caching": False, "num_gpu_blocks": 27000}
    assert "cache_config.num_gpu_blocks" in IGNORED_WHEN_ALIKE
    assert alike_pairs(make_study([resolve("O2"), resolve("O3", cache_config=cache)])) == {("O2", "O3")}


def test_a_setting_that_differs_sets_levels_apart():
    cache = {"enable_prefix_caching": True, "num_gpu_blocks": 27846}
    assert not alike_pairs(make_study([resolve("O2"), resolve("O3", cache_config=cache)]))


def test_another_card_may_resolve_otherwise_without_breaking_the_pair():
    other = {"machine": make_machine(gpu_uuid="GPU-2"), "block": 2}
    bigger = {**RESOLVED, "scheduler_config": {"max_num_seqs": 1024}}
    launches = [resolve("O2"), resolve("O3"), *(make_launch(name, resolved=bigger, **other) for name in ("O2", "O3"))]
    study = make_study(launches)
    assert alike_pairs(study) == {("O2", "O3")}
    assert set(level_table(study)["reason"]) == {"its servers resolved differently"}


def test_levels_without_graphs_are_launched_by_the_host():
    none = {**RESOLVED["compilation_config"], "cudagraph_mode": 0}
    study = make_study([resolve("default"), resolve("compile-only", compilation_config=none)])
    assert host_launched_levels(study) == {"compile-only"}


def test_a_mode_of_a_later_version_stays_a_number():
    config = {**RESOLVED["compilation_config"], "mode": 7, "cudagraph_mode": [3, 1]}
    row = level_table(make_study([resolve("default", compilation_config=config)])).iloc[0]
    assert (row["mode"], row["cudagraph_mode"]) == ("7", "[3, 1]")


def test_a_level_that_told_no_configuration_keeps_its_row():
    failed = make_outcome(status="failed", stage="ready", message="out of memory")
    study = make_study([make_launch("O1", resolved=None, first_token_s=None, outcome=failed)])
    assert level_table(study)["reason"][0] == "failed at ready: out of memory"


def test_a_level_that_only_filled_caches_has_what_that_server_told():
    none = {**RESOLVED["compilation_config"], "cudagraph_mode": 0}
    fields = {"block": 0, "launch_id": "fill-compile-only-a1", "fills_caches": True}
    told = make_launch("compile-only", resolved={**RESOLVED, "compilation_config": none}, **fields)
    row = level_table(make_study([resolve("default"), told])).set_index("level").loc["compile-only"]
    assert (row["mode"], row["cudagraph_mode"], row["launches"]) == ("VLLM_COMPILE", "NONE", 0)
    assert row["reason"] == "no measured launch, only a start that filled caches"
    # Of a level that was measured too, such a start says nothing.
    measured = resolve("compile-only", compilation_config=none)
    assert level_table(make_study([measured, told]))["launches"].tolist() == [1]
    assert host_launched_levels(make_study([resolve("default"), told])) == frozenset()


def test_why_a_start_that_filled_caches_failed_is_kept():
    failed = make_outcome(status="failed", stage="ready", message="out of memory")
    fields = {"block": 0, "fills_caches": True, "resolved": None, "first_token_s": None, "outcome": failed}
    row = level_table(make_study([make_launch("O1", **fields)])).iloc[0]
    assert row["reason"] == "no measured launch, and the start to fill caches failed at ready: out of memory"
