"""Claims asked of the installed vLLM: each kind of check, and the claims on file with their known verdicts.

The verdicts are those of vLLM 0.31.0's source and of what it answered on its CPU build; nothing here starts a server.
"""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from study.analyze.claims import judge_claims, verdicts_json
from study.claims import check_claims_command
from study.design.claims import ClaimsFile
from study.design.claims_file import read_claims
from study.measure.claims_ask import ask_vllm

ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "data" / "reference"
pytestmark = pytest.mark.skipif(find_spec("vllm") is None, reason="vLLM is not installed")

VERDICTS = {
    "flag-compilation-mode": "false",
    "flag-cudagraph-mode": "false",
    "flag-backend": "false",
    "flag-none": "true",
    "flag-cc-number": "false",
    "api-server-entry": "true",
    "environment-chooses-mode": "false",
    "imports-from-config": "true",
    "vllm-config-takes-model": "false",
    "llm-takes-vllm-config": "false",
    "check-post-init-log": "false",
    "compilation-mode-members": "true",
    "compilation-mode-lines": "changed",
    "cudagraph-mode-members": "true",
    "default-on-cuda": "true",
    "default-on-cpu": "false",
    "default-for-every-model": "false",
    "default-place": "false",
    "three-orthogonal-settings": "false",
    "none-with-full": "true",
    "none-with-piecewise": "false",
    "none-is-eager": "false",
    "stock-torch-compile": "true",
    "full-captures-everything": "changed",
    "full-may-run-out-of-memory": "cannot_tell",
    "full-decode-only": "true",
    "full-and-piecewise": "true",
    "graphs-by-request-type": "false",
    "ubatch-wrapper-piecewise": "false",
    "runner-file": "changed",
    "attention-ops": "true",
    "splitting-ops-plain-names": "false",
    "splitting-ops-lines": "changed",
    "backend-any": "false",
}
GRAPHS = "compilation_config.cudagraph_mode"
FULL = {"kind": "resolves", "flags": ["-cc.cudagraph_mode=FULL"]}
KINDS = {
    # name: (check, whether it holds in 0.31.0, part of the evidence)
    "flag": ({"kind": "flag_exists", "flags": ["-cc.mode=none"]}, True, "parses"),
    "no-flag": ({"kind": "flag_exists", "flags": ["-cc.modee=none"]}, False, "modee"),
    "value": ({"kind": "default_is", "field": GRAPHS, "value": [2, 1]}, True, "FULL_AND_PIECEWISE"),
    "name": ({"kind": "default_is", "field": GRAPHS, "value": "piecewise"}, False, "not piecewise"),
    "no-field": ({"kind": "default_is", "field": "compilation_config.mod", "value": 3}, False, "the nearest is mode"),
    "not-a-bool": ({"kind": "default_is", "field": "compilation_config.mode", "value": True}, False, "not true"),
    "refused": ({"kind": "resolves", "flags": ["-O4"], "expect": {GRAPHS: "FULL"}}, False, "is refused"),
    "fa2": ({**FULL, "attention": "chosen", "expect": {GRAPHS: "FULL_AND_PIECEWISE"}}, True, "FLASH_ATTN (UNIFORM"),
    "always": ({**FULL, "attention": "ALWAYS", "expect": {GRAPHS: "FULL"}}, True, "supports ALWAYS"),
    "never": ({**FULL, "attention": "NEVER", "expect": {GRAPHS: "FULL"}}, False, "try cudagraph_mode=PIECEWISE"),
    "support": ({**FULL, "attention": "SOMETIMES", "expect": {GRAPHS: "FULL"}}, False, "AttentionCGSupport has no"),
    "llm": ({"kind": "resolves", "llm": {"optimization_level": 0}, "expect": {GRAPHS: "NONE"}}, True, "LLM("),
    "log": (
        {"kind": "log_line", "flags": ["--enforce-eager"], "has": "disabling torch.compile"},
        True,
        "Enforce eager",
    ),
    "no-log": ({"kind": "log_line", "has": "disabling torch.compile"}, False, "none of them"),
    "accepts": ({"kind": "accepts", "call": "CompilationConfig", "arguments": {"mode": 3}}, True, "accepted"),
    "refuses": ({"kind": "refuses", "call": "LLM", "arguments": {"x": 1}, "says": "'x'"}, True, "unexpected keyword"),
    "other-reason": ({"kind": "refuses", "flags": ["-O4"], "says": "no such words"}, False, "-O4"),
    "no-refusal": ({"kind": "refuses", "flags": ["-O3"]}, False, "accepted"),
    "enum": ({"kind": "enum_has", "enum": "vllm.config:CompilationMode", "members": {"NONE": 0}}, False, "=3"),
    "import": ({"kind": "imports", "module": "vllm.config", "names": ["CompilationMod"]}, False, "CompilationMode"),
    "no-module": ({"kind": "imports", "module": "vllm.no_such", "names": ["x"]}, False, "no module vllm.no_such"),
    "attribute": ({"kind": "attribute_has", "object": "vllm.config:VllmConfig.no"}, False, "has no VllmConfig.no"),
    "unset": (
        {"kind": "resolves", "environment": {"TORCH_COMPILE_DISABLE": "1"}, "expect": {GRAPHS: "NONE"}},
        False,
        "",
    ),
    "set-no-more": ({"kind": "default_is", "field": "compilation_config.mode", "value": 3}, True, "VLLM_COMPILE"),
}


def make_claim(name, check, **more):
    return {"id": name, "says": name, "where": "here", "check": (check,), **more}


@pytest.fixture(scope="module")
def kinds():
    claims = [make_claim(name, check) for name, (check, _, _) in KINDS.items()]
    two_cards = {"kind": "accepts", "flags": ["-cc.pass_config.fuse_allreduce_rms=true"]}
    claims.append(make_claim("two-cards", two_cards, card="sm=9.0,memory=141GiB,tp=2"))
    file = ClaimsFile(title="kinds", date="2026", card="sm=8.9,memory=24GiB", claims=tuple(claims))
    told = ask_vllm(file, None, ROOT)
    return {answer.claim: answer for answer in told.answers}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_check(kinds, name):
    _, holds, said = KINDS[name]
    assert kinds[name].holds is holds
    assert said in kinds[name].said


def test_what_needs_compiled_operators_cannot_be_told_here(kinds):
    assert kinds["two-cards"].holds is None
    assert "cannot be resolved here" in kinds["two-cards"].said


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    out = tmp_path_factory.mktemp("verdicts") / "v.json"
    code = check_claims_command(REFERENCE / "claims-2026-03.yaml", None, out)
    return code, json.loads(out.read_text(encoding="utf-8")), out.read_bytes()


@pytest.mark.parametrize("name", VERDICTS)
def test_the_claims_of_the_article(checked, name):
    claims = {claim["id"]: claim for claim in checked[1]["claims"]}
    assert set(claims) == set(VERDICTS)
    assert claims[name]["verdict"] == VERDICTS[name]


def test_every_false_claim_has_a_correct_form_that_holds(checked):
    assert checked[0] == 0
    for claim in checked[1]["claims"]:
        if claim["verdict"] in ("false", "changed"):
            assert claim["correct"]["holds"] is True, claim["id"]


def test_the_verdicts_on_file_are_those_of_this_release(checked):
    on_file = REFERENCE / f"claims-2026-03-vllm-{checked[1]['vllm_version']}.json"
    assert on_file.read_bytes() == checked[2]


def test_no_folder_of_this_machine_is_in_the_verdicts(checked):
    assert str(ROOT) not in checked[2].decode()
    assert str(Path.home()) not in checked[2].decode()


def test_a_card_that_is_asked_for_goes_before_the_files(tmp_path):
    file = read_claims(REFERENCE / "claims-2026-03.yaml")
    wanted = {"full-captures-everything", "default-on-cpu"}
    some = file.model_copy(update={"claims": tuple(claim for claim in file.claims if claim.id in wanted)})
    hopper = "sm=9.0,memory=141GiB,tp=1"
    told = ask_vllm(some, hopper, ROOT)
    verdicts = judge_claims(some, told, hopper)
    cards = {claim.id: claim.card for claim in verdicts.claims}
    assert cards == {"full-captures-everything": hopper, "default-on-cpu": "cpu"}
    # FlashAttention 3, which supports full graphs for every batch, runs there
    assert next(claim.verdict for claim in verdicts.claims if claim.id == "full-captures-everything") == "true"
    assert verdicts_json(verdicts).count('"cpu"') == 1
