"""The reference line: what must be read for a token, over how fast the card reads (METHOD: "The reference line")."""

from dataclasses import replace

import pytest
import yaml
from make_records import RESOLVED, make_canary, make_cpu_machine, make_launch
from two_cards import make_launch_on_two

from study.analyze.reference_line import find_reference_line, mean_context_tokens
from study.analyze.startup_record import Startup
from study.design.root import find_root
from study.store import Store

ROOT = find_root()
CONFIG = {"vocab_size": 151936, "hidden_size": 4096, "tie_word_embeddings": False}
STARTUP = Startup(status="ready", model_load_gib=15.27, kv_cache_gib=110.77, kv_cache_tokens=806560)
BF16 = {**RESOLVED, "model_config": {"enforce_eager": False, "dtype": "torch.bfloat16"}}


def line_of(launches, startup=STARTUP, config=CONFIG, context_tokens=352.0):
    return find_reference_line(launches, startup, config, context_tokens)


def launch(read_gb_s=4322.0, **fields):
    return make_launch(**{"resolved": BF16, "canary_before": make_canary(read_gb_s=read_gb_s), **fields})


def test_the_line_of_qwen3_8b_on_an_h200():
    # 15.27 GiB of weights less 151,936 x 4,096 x 2 bytes of input embedding;
    # KV cache of a token: 36 layers x 8 heads x 128 values, keys and values, 2 bytes each
    line = line_of([launch()])
    assert line.weights_gb == pytest.approx(15.27 * 2**30 / 1e9 - 1.2447, abs=1e-3)
    assert line.kv_gb == pytest.approx(352 * 36 * 8 * 128 * 2 * 2 / 1e9, rel=1e-3)
    assert line.least_ms == pytest.approx((15.1514 + 0.0519) / 4322.0 * 1e3, rel=1e-3)
    assert line.reason == ""


def test_a_tied_embedding_is_read_whole_as_the_output_layer():
    tied = line_of([launch()], config={**CONFIG, "tie_word_embeddings": True})
    assert tied.weights_gb == pytest.approx(15.27 * 2**30 / 1e9)


def test_each_of_two_gpus_holds_half_of_the_embedding():
    halves = {**BF16, "parallel_config": {"tensor_parallel_size": 2}}
    line = line_of([launch(resolved=halves)], replace(STARTUP, model_load_gib=7.7))
    assert line.weights_gb == pytest.approx(7.7 * 2**30 / 1e9 - 1.2447 / 2, abs=1e-3)


def on_two(parallel, second_gb_s=4100.0):
    resolved = {**BF16, "parallel_config": parallel}
    second = {"canary_before": make_canary(read_gb_s=second_gb_s)}
    first = make_canary(read_gb_s=4322.0)
    return make_launch_on_two(resolved=resolved, canary_before=first, second=second)


def test_two_cards_read_their_shares_at_the_pace_of_the_slower_one():
    half = replace(STARTUP, model_load_gib=7.7)
    line = line_of([on_two({"tensor_parallel_size": 2})], half)
    assert line.machine == "GPU-1 + GPU-2"
    assert line.read_gb_s == 4100.0
    assert line.least_ms == pytest.approx((line.weights_gb + line.kv_gb) / 4100.0 * 1e3)


@pytest.mark.parametrize("parallel", [{"pipeline_parallel_size": 2, "tensor_parallel_size": 1}, {}])
def test_without_tensor_parallel_over_all_cards_there_is_no_line(parallel):
    line = line_of([on_two(parallel)])
    assert line.least_ms is None
    assert "2 cards that do not share every layer" in line.reason


def test_a_card_without_a_canary_leaves_no_bandwidth():
    line = line_of([on_two({"tensor_parallel_size": 2}, None)])
    assert (line.least_ms, line.reason) == (None, "no canary measured the read bandwidth")


def test_the_bandwidth_is_the_median_over_launches():
    line = line_of([launch(4000.0), launch(4200.0, block=2), launch(4300.0, block=3)])
    assert line.read_gb_s == 4200.0


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"launches": [launch(machine=make_cpu_machine())]}, "no GPU"),
        ({"startup": None}, "no log"),
        ({"config": None}, "configuration is not on file"),
        ({"config": {**CONFIG, "num_experts": 128}}, "mixture of experts"),
        ({"context_tokens": None}, "no run at one user"),
        ({"startup": replace(STARTUP, model_load_gib=None)}, "size of the model"),
        ({"startup": replace(STARTUP, kv_cache_gib=None)}, "KV cache"),
        ({"launches": [make_launch(resolved=BF16, canary_before=None)]}, "no canary"),
        ({"launches": [launch(resolved=RESOLVED)]}, "input embedding"),
    ],
)
def test_without_a_part_there_is_no_line_and_the_reason_says_so(changed, reason):
    line = line_of(**{"launches": [launch()], **changed})
    assert line.least_ms is None
    assert reason in line.reason


def test_the_context_is_the_prompt_and_half_the_answer():
    records = Store(ROOT / "data", "2026-11-h200-cooled").read()
    assert mean_context_tokens(records.runs) == 256 + 192 / 2
    assert mean_context_tokens([run for run in records.runs if run.users != 1]) is None


def test_the_shape_on_file_says_what_the_line_needs():
    config = yaml.safe_load((ROOT / "notebooks/parameters/models/qwen3-8b.yaml").read_text())["config"]
    assert {name: config[name] for name in CONFIG} == CONFIG
