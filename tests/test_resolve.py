"""What the installed vLLM makes of levels, asked without a GPU. Expected values: VLLM.md of vLLM 0.31.0's source."""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from study.analyze.switches import GRAPHS, MODE, differing_fields, group_alike, switches_row, value_at
from study.analyze.switches_text import find_notes
from study.design.card import read_card
from study.design.levels import Level, select_levels
from study.design.resolved_set import read_resolved_set
from study.design.root import find_root
from study.errors import InputError
from study.measure.flags import check_known_flags
from study.measure.model import prepare_model
from study.measure.resolve import ResolveRequest, resolve_levels
from study.switches import choose_levels

ROOT = find_root(Path(__file__).parent)
MODEL = "notebooks/parameters/models/qwen3-8b.yaml"
H200 = ROOT / "data" / "raw" / "2026-11-h200-cooled"
ON_FILE = ROOT / "data" / "reference" / "switches-0.31.0-sm90.json"
ODD = (
    # without the mode beside it, vLLM takes any name here and fails when it compiles
    Level(name="odd-backend", flags=("-cc.mode=VLLM_COMPILE", "-cc.backend=nonsense")),
    Level(name="odd-level", flags=("-O4",)),
    Level(name="odd-python", flags=("-O0",), llm={"optimization_level": 1}),
    Level(name="odd-silent", flags=("-O0",)),
)
MEASURED = {
    *("cache_config.num_gpu_blocks", "cache_config.kv_cache_size_tokens", "cache_config.kv_cache_max_concurrency"),
    *("cache_config.effective_attention_block_size", "instance_id"),
}
"""What only a running server knows."""

pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")


def resolve(levels, card=None, flags=()):
    asked = ResolveRequest(tuple(levels), prepare_model(MODEL, "dummy", ROOT), flags, card and read_card(card))
    return resolve_levels(asked, ROOT)


def by_name(resolved):
    return {level.name: level for level in resolved.levels}


@pytest.fixture(scope="module")
def l4():
    levels = choose_levels(("guide.yaml", "knobs.yaml", "start-savings.yaml"), ROOT)
    return resolve((*levels, *ODD), "sm=8.9,memory=24GiB,tp=1")


@pytest.fixture(scope="module")
def h200():
    levels = choose_levels(("guide.yaml", "knobs.yaml"), ROOT)
    return resolve(levels, "sm=9.0,memory=141GiB,tp=1")


@pytest.fixture(scope="module")
def cpu():
    return resolve(choose_levels(("guide.yaml", "knobs.yaml"), ROOT))


@pytest.fixture(params=["l4", "h200"])
def card(request):
    return by_name(request.getfixturevalue(request.param))


def test_o2_and_o3_and_the_default_are_the_same_thing(card):
    (group,) = [group for group in group_alike(card.values()) if group[0].name == "default"]
    assert {"O2", "O3"} <= {level.name for level in group}


def test_o1_differs_from_o2_only_in_its_graphs(card):
    # dense bf16 on one GPU: "fewer fusions" needs tensor parallelism, or ROCm
    assert differing_fields(card["O1"].resolved, card["O2"].resolved) == {GRAPHS: (1, [2, 1])}


def test_eager_is_not_o0(card):
    rows = {name: switches_row(card[name].resolved) for name in ("O0", "eager")}
    assert {(row["mode"], row["cudagraph_mode"]) for row in rows.values()} == {("NONE", "NONE")}
    assert (rows["O0"]["flashinfer_autotune"], rows["O0"]["jit_warmup"]) == (False, True)
    assert (rows["eager"]["flashinfer_autotune"], rows["eager"]["jit_warmup"]) == (True, False)


def test_the_default_on_a_card(card):
    row = switches_row(card["default"].resolved)
    assert (row["mode"], row["cudagraph_mode"], row["backend"]) == ("VLLM_COMPILE", "FULL_AND_PIECEWISE", "inductor")
    assert (row["capture_sizes"], row["largest_capture_size"]) == (51, 512)
    assert (row["custom_ops"], row["fusions"]) == ("none", "none")


@pytest.mark.parametrize(
    ("name", "mode", "graphs"),
    [
        ("graphs-only", 0, [2, 0]),
        ("compile-only", 3, 0),
        ("mode-none", 0, [2, 0]),  # no eager mode: graphs stay on
        ("mode-stock", 1, [2, 0]),
        ("mode-none-graphs-none", 0, 0),
        ("mode-none-graphs-piecewise", 0, 0),  # silently dropped
        ("mode-none-graphs-full", 0, 2),
        ("mode-none-graphs-full-and-piecewise", 0, [2, 0]),  # silently changed
    ],
)
def test_what_becomes_of_the_knobs_together(l4, name, mode, graphs):
    resolved = by_name(l4)[name].resolved
    assert (value_at(resolved, MODE), value_at(resolved, GRAPHS)) == (mode, graphs)


def test_what_was_asked_is_kept_beside_what_it_became(l4):
    level = by_name(l4)["mode-none-graphs-piecewise"]
    assert level.requested == {MODE: 0, GRAPHS: 1}
    assert any("not compatible with compilation mode" in line for line in level.changed)


def test_full_graphs_rest_on_the_attention_backend(l4, h200):
    # FlashAttention 2 supports uniform batches alone, FlashAttention 3 (Hopper) every batch
    four, nine = (by_name(one)["graphs-full"].at_worker for one in (l4, h200))
    assert (four.backend, four.graph_support, four.cudagraph_mode) == ("FLASH_ATTN", "UNIFORM_BATCH", [2, 1])
    assert (nine.backend, nine.graph_support, nine.cudagraph_mode) == ("FLASH_ATTN", "ALWAYS", 2)


def test_flags_and_python_arguments_resolve_to_the_same(l4):
    named = [level for level in l4.levels if not level.name.startswith("odd")]
    assert {level.name: level.llm_differs for level in named} == {level.name: () for level in named}


def test_python_arguments_that_mean_something_else_are_told(l4):
    assert GRAPHS in by_name(l4)["odd-python"].llm_differs


def test_a_level_without_python_arguments_is_not_said_to_differ(l4):
    level = by_name(l4)["odd-silent"]
    assert (level.llm_differs, level.llm_reason) == (None, "the level gives no arguments for Python")


def test_what_vllm_refuses_has_its_reason(l4):
    levels = by_name(l4)
    assert "Invalid backend for piecewise compilation: nonsense" in levels["odd-backend"].refusal
    assert "optimization_level" in levels["odd-level"].refusal
    assert levels["odd-level"].resolved is None


def test_a_pretended_card_resolves_as_the_real_one_did():
    levels = select_levels(["default", "O0", "O3", "eager", "graphs-only"], ROOT)
    flags = ("--load-format", "dummy", "--no-enable-prefix-caching", "--max-model-len", "4096")
    # vllm 0.31.0 on an H200 of 140.4 GiB told these configurations (data/raw)
    for level in resolve(levels, "sm=9.0,memory=140.4GiB", flags).levels:
        record = json.loads((H200 / f"launch-b1-{level.name}-a1.json").read_text())
        differ = set(differing_fields(level.resolved, record["resolved"]))
        assert differ <= MEASURED, level.name


def test_the_set_on_file_is_what_this_vllm_resolves(h200):
    on_file = read_resolved_set(ON_FILE)
    if h200.vllm_version != on_file.vllm_version:
        pytest.skip(f"the file is of vLLM {on_file.vllm_version}, here is {h200.vllm_version}")
    assert h200.resolved_for == on_file.resolved_for
    told = ("resolved", "refusal", "changed", "requested", "cannot_tell", "at_worker")
    ours, theirs = by_name(h200), by_name(on_file)
    for name in set(ours) & set(theirs):
        assert [getattr(ours[name], part) for part in told] == [getattr(theirs[name], part) for part in told], name


@pytest.mark.parametrize("version", ["0.31.0", "0.32.0"])
def test_sets_on_file_hold_the_bytes_that_would_be_written(version):
    path = ON_FILE.with_name(f"switches-{version}-sm90.json")
    assert read_resolved_set(path).dump() == path.read_text()


def test_no_folder_of_this_machine_is_in_a_set(l4):
    assert not [place for place in (str(ROOT), str(Path.home()), "/tmp") if place in l4.dump()]


def test_with_two_cards_the_fusions_that_need_flashinfer_cannot_be_told():
    told = by_name(resolve(select_levels(["default", "O1"], ROOT), "sm=9.0,memory=141GiB,tp=2"))
    assert list(told["default"].cannot_tell) == ["compilation_config.pass_config.fuse_allreduce_rms"]
    assert told["O1"].cannot_tell == {}  # never on at -O1
    assert value_at(told["O1"].resolved, "parallel_config.tensor_parallel_size") == 2


def test_the_cpu_backend_has_no_graphs_and_that_is_said(cpu):
    if cpu.resolved_for.platform != "cpu":
        pytest.skip(f"this machine's platform is {cpu.resolved_for.platform}")
    assert {switches_row(level.resolved)["cudagraph_mode"] for level in cpu.levels} == {"NONE"}
    assert switches_row(by_name(cpu)["default"].resolved)["mode"] == "DYNAMO_TRACE_ONCE"
    assert "the CPU backend has no CUDA graphs" in find_notes(cpu)[0]


FLAGS = {
    "--enforce-eagr": "vLLM has no flag '--enforce-eagr'; did you mean '--enforce-eager'?",
    "--enforce_eagr": "vLLM has no flag '--enforce_eagr'; did you mean '--enforce-eager'?",
    "-cc.modee=none": "vLLM has no flag '-cc.modee'; did you mean '-cc.mode'?",
    "-cc.pass_config.fuse_norm_quantt=true": (
        "vLLM has no flag '-cc.pass_config.fuse_norm_quantt'; did you mean '-cc.pass_config.fuse_norm_quant'?"
    ),
    "-cc.mode=nonee": "vLLM does not take -cc.mode=nonee: ",
    "stray": "'stray' is no flag and no value of one",
    "--enforce-eager": None,
    "-O3": None,
    "-cc.splitting_ops=[]": None,
    "--kernel-config.enable_jit_warmup=false": None,
}
EXPLAIN = """
import json, sys
from study.measure.flags_child import explain_flags
from study.measure.resolve_levels import make_parser
parser = make_parser()
print(json.dumps([explain_flags(parser, [flag]) for flag in json.loads(sys.argv[1])]))
"""


def test_a_flag_that_vllm_does_not_have_is_named_with_the_nearest():
    command = [sys.executable, "-c", EXPLAIN, json.dumps(list(FLAGS))]
    run = subprocess.run(command, capture_output=True, text=True, timeout=180, cwd=ROOT)
    said = dict(zip(FLAGS, json.loads(run.stdout.splitlines()[-1]), strict=True))
    assert {flag: text and text[: len(FLAGS[flag] or "")] for flag, text in said.items()} == FLAGS


def test_a_level_with_an_unknown_flag_is_refused_before_anything_starts():
    with pytest.raises(InputError, match=r"level 'mine': .*; did you mean '-cc\.mode'"):
        check_known_flags([Level(name="mine", flags=("-cc.modee=none",))], ["--max-model-len", "64"], ROOT)


def test_what_every_configuration_imports_is_imported_once(tmp_path):
    """Forks of one process resolve levels; vLLM's question to Ray alone took a second in each of them."""
    told = tmp_path / "told.json"
    request = {"ask": "resolve", "card": None, "inspected": True, "model": prepare_model(MODEL, "dummy", ROOT)}
    levels = [{"name": name, "flags": ["-O1"], "llm": {}, "environment": {}} for name in ("one", "other")]
    code = (
        "import json, sys\nfrom study.measure import resolve_child\nseen = []\nahead = resolve_child._import_ahead\n"
        "resolve_child._import_ahead = lambda names: seen.append(names) or ahead(names)\n"
        "resolve_child.answer(json.loads(sys.argv[1]))\njson.dump(seen, open(sys.argv[2], 'w'))\n"
    )
    asked = json.dumps({**request, "flags": [], "levels": levels})
    subprocess.run([sys.executable, "-c", code, asked, told], check=True, capture_output=True, cwd=ROOT, timeout=300)
    first, second = json.loads(told.read_text())
    assert "ray" in first
    assert not [name for name in second if name.split(".")[0] in ("vllm", "ray")]
