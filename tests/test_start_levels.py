import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from study.design.levels import read_levels, select_levels
from study.design.parameters import read_parameters
from study.design.plan import make_plan
from study.design.root import find_root

ROOT = find_root(Path(__file__).parent)
FOLDER = ROOT / "notebooks" / "parameters"
SAVINGS = FOLDER / "levels" / "start-savings.yaml"
STUDIES = ["rehearsal-start-warm", "rehearsal-start-cold", "h200-start-warm", "h200-start-cold"]
PARSE = """
import json, sys
from vllm.engine.arg_utils import EngineArgs
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
found = {}
for name, flags in json.loads(sys.argv[1]).items():
    args = parser.parse_args(flags)
    compilation, kernel = args.compilation_config, args.kernel_config
    found[name] = {
        "kv_cache_memory_bytes": args.kv_cache_memory_bytes,
        "sizes": compilation.get("cudagraph_capture_sizes") if isinstance(compilation, dict)
        else compilation.cudagraph_capture_sizes,
        "autotune": args.enable_flashinfer_autotune,
        "jit_warmup": kernel.get("enable_jit_warmup") if isinstance(kernel, dict) else kernel.enable_jit_warmup,
    }
print(json.dumps(found))
"""


def savings():
    return {level.name: level for level in select_levels("start-savings.yaml", ROOT)}


def test_every_saving_keeps_compile_and_graphs():
    for level in savings().values():
        assert not {"-O0", "--enforce-eager"} & set(level.flags)
        assert not any("cudagraph_mode" in flag or "cc.mode" in flag for flag in level.flags)


def test_the_arms_and_their_switches():
    levels = savings()
    assert list(levels) == [
        *("default", "kv-memory-given", "startup-plan", "fewer-capture-sizes"),
        *("no-flashinfer-autotune", "no-jit-warmup"),
    ]
    assert levels["startup-plan"].environment == {"VLLM_ENABLE_STARTUP_PLAN": "1"}
    assert all(level.fills_caches for level in levels.values())


def test_its_default_is_the_guides():
    assert savings()["default"] == read_levels(FOLDER / "levels" / "guide.yaml")["default"]


def test_savings_can_be_named_beside_the_guides_levels():
    assert [level.name for level in select_levels(["default", "O0", "kv-memory-given"], ROOT)][2] == "kv-memory-given"


@pytest.mark.parametrize("name", STUDIES)
def test_a_start_study_measures_starts_alone(name):
    parameters = read_parameters(FOLDER / f"{name}.yaml")
    levels = select_levels(parameters.levels, ROOT)
    plan = make_plan(parameters, levels)
    assert parameters.measure == "start"
    assert parameters.cache == name.rsplit("-", 1)[1]
    assert plan.runs == ()
    assert len(plan.measured) == len(levels) * len(parameters.seeds)
    # Caches that were filled first would make a cold start warm.
    assert any(launch.fills_caches for launch in plan.launches) is (parameters.cache == "warm")
    assert parameters.rehearsal is name.startswith("rehearsal")
    assert not parameters.rehearsal or parameters.study.startswith("rehearsal")


@pytest.mark.parametrize(("kind", "speed"), [("rehearsal", "rehearsal"), ("h200", "h200-cooled")])
def test_its_starts_can_be_set_against_the_token_times_of_the_speed_study(kind, speed):
    studies = [read_parameters(FOLDER / f"{name}.yaml") for name in (f"{kind}-start-warm", f"{kind}-start-cold", speed)]
    shared = ("device", "model", "load_format", "server_flags", "kv_cache_memory_bytes", "session")
    assert len({json.dumps([getattr(one, name) for name in shared]) for one in studies}) == 1


@pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")
def test_every_flag_parses_with_the_installed_vllm():
    flags = {name: list(level.flags) for name, level in savings().items()}
    run = subprocess.run([sys.executable, "-c", PARSE, json.dumps(flags)], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr[-2000:]
    found = json.loads(run.stdout.splitlines()[-1])
    assert found["kv-memory-given"]["kv_cache_memory_bytes"] == 118291375207
    assert found["fewer-capture-sizes"]["sizes"] == [1, 2, 4, 8, 16, 32, 64]
    assert found["no-flashinfer-autotune"]["autotune"] is False
    assert found["no-jit-warmup"]["jit_warmup"] is False
    assert found["default"]["sizes"] is None
