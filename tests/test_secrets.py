"""Secrets stay out of records, kept logs, notebooks and editions, wherever they come from."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.errors import InputError, ServerError
from study.measure.redact import holds_secret, mask_shapes, redact, redact_log
from study.measure.refusals import check_asked
from study.measure.server import Server
from study.measure.server_spec import ServerSpec
from study.publish.edition import write_edition
from study.store import Store

ROOT = Path(__file__).parent.parent
PLANTED = {
    "HF_TOKEN": "hf_PlantedPlantedPlantedPlanted",
    "AWS_ACCESS_KEY_ID": "AKIAPLANTEDPLANTED12",
    "AWS_SECRET_ACCESS_KEY": "plantedsecret/plantedsecret+plantedsecret",
    "DATABASE_PASSWORD": "planted-password",
    "VLLM_S3_URL": "https://someone:planted-by-url@bucket.example/x",
    "TORCH_REMOTE": "Authorization: Bearer planted-by-header",
    "NCCL_EXTRA": "api_key=planted-by-name",
}
SAID = (
    "Error: $HF_TOKEN $AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY $DATABASE_PASSWORD $VLLM_S3_URL $TORCH_REMOTE "
    "$NCCL_EXTRA $VLLM_API_KEY 'hf_token': 'planted-in-quotes' --api-key planted-by-flag password=planted-by-equals"
)
SECRETS = (
    *(value for name, value in PLANTED.items() if not name.startswith(("VLLM", "TORCH", "NCCL"))),
    *("planted-by-url", "planted-by-header", "planted-by-name", "planted-in-quotes", "planted-by-flag"),
    *("planted-by-equals", "study-key-"),
)


@pytest.mark.notebook
def test_nothing_that_a_session_leaves_holds_a_secret(fake_vllm, small_study, tmp_path):
    for name, value in PLANTED.items():
        fake_vllm.setenv(name, value)
    fake_vllm.setenv("FAKE_VLLM_SAY", SAID)
    fake_vllm.setenv("FAKE_VLLM_FAULT", "die")
    fake_vllm.setenv("FAKE_VLLM_FAULT_LEVEL", "-O0")
    parameters = tmp_path / "parameters.yaml"
    parameters.write_text(yaml.safe_dump(small_study))
    made = tmp_path / "made.ipynb"
    papermill = [str(Path(sys.executable).parent / "papermill"), "--no-progress-bar", "run_session.ipynb", str(made)]
    subprocess.run([*papermill, "-f", str(parameters)], cwd=ROOT / "notebooks", check=True, capture_output=True)
    launches = Store(tmp_path / "data", "small").read().launches
    assert {launch.outcome.status for launch in launches} == {"ok", "failed"}
    assert "VLLM_S3_URL" in launches[0].environment  # recorded, without its password
    shutil.copytree(ROOT / "notebooks" / "parameters", tmp_path / "notebooks" / "parameters")
    edition = write_edition(tmp_path, "e", ["small"])
    left = [made, *(tmp_path / "data").rglob("*"), *edition.rglob("*")]
    texts = {path: path.read_text(encoding="utf-8") for path in left if path.is_file()}
    assert len(texts) > 20
    assert sum("does not fit" in text for text in texts.values()) >= 3  # the message that had them is there
    assert [(path.name, secret) for path, text in texts.items() for secret in SECRETS if secret in text] == []


@pytest.mark.parametrize(
    "text",
    [
        "hf_PlantedPlantedPlantedPlanted",
        "AKIAPLANTEDPLANTED12",
        "sk-plantedplantedplantedplanted",
        "ghp_PlantedPlantedPlantedPlanted",
        "https://someone:planted@host/x",
        "Authorization: Bearer planted",
        "authorization=Basic planted",
        "api_key=planted-planted",
        "'hf_token': 'planted-planted'",
        "--hf-token planted-planted",
        "eyJplanted12.plantedplanted.plantedplanted",
    ],
)
def test_a_secret_is_known_by_its_shape_or_by_the_name_before_it(text):
    assert holds_secret(["--flag", text])
    assert "planted" not in mask_shapes(text).lower()


@pytest.mark.parametrize(
    "text",
    [
        "INFO 11-29 19:48:27 [core.py:1] max_num_batched_tokens=8192, eos_token='<s>', pad_token_id: 0",
        "'hf_token': None, 'api_key': None",
        "Started server process, http://127.0.0.1:4711/v1/completions",
        "first token: 1.234 s; token=7; tokens per second 123456789",
        "hf_processor hf_text_config hf_overrides task-force-of-the-long-named-kind risk-benefit",
        "vllm/v1/engine/core.py:123 EngineCore_DP0",
        "an api key something, the password protected one",
        "-cc.cudagraph_capture_sizes=[1,2,4] sha256:6746dbcbeb526eb61330b76b41ff1b4eb848951103a892eeb080dfa2b264667b",
    ],
)
def test_what_is_no_secret_stays_as_it_is(text):
    assert mask_shapes(text) == text


def test_a_secret_of_the_environment_is_masked_wherever_it_stands(tmp_path):
    environment = {"MY_SERVICE_TOKEN": "a-b-c-d-e-f", "TOKENIZERS_PARALLELISM": "tokenizers", "SHORT_KEY": "abc"}
    value = {"x": ["see a-b-c-d-e-f", "tokenizers abc"]}
    assert redact(value, tmp_path, environment) == {"x": ["see <masked>", "tokenizers abc"]}


def test_a_secret_is_masked_before_a_message_is_cut(fake_vllm, tmp_path):
    fake_vllm.setenv("HF_TOKEN", "plantedplantedplantedplanted")
    fake_vllm.setenv("FAKE_VLLM_SAY", "x" * 240 + " $HF_TOKEN $VLLM_API_KEY")
    fake_vllm.setenv("FAKE_VLLM_FAULT", "die")
    server = Server.start(ServerSpec("m", parameters_with(), (), {}), tmp_path / "log", ROOT)
    try:
        with pytest.raises(ServerError, match="does not fit") as caught:
            server.wait_healthy(20)
    finally:
        server.stop()
    assert "plant" not in str(caught.value)
    assert "study" not in str(caught.value)


def test_a_log_is_for_its_owner_until_it_is_redacted(tmp_path):
    log = tmp_path / "log"
    log.write_text("key-of-this-launch\n")
    log.chmod(0o600)
    redact_log(log, tmp_path, "key-of-this-launch")
    assert log.read_text() == "<key>\n"
    assert log.stat().st_mode & 0o777 == 0o644


def parameters_with(**values):
    return make_parameters({"study": "s", "model": "m", "device": "cpu", **values})


@pytest.mark.parametrize(
    "values",
    [
        {"server_flags": ["--hf_token", "planted-planted"]},
        {"server_flags": ["--hf-tok=planted-planted"]},
        {"server_flags": ["--otlp-traces-endpoint", "http://someone:planted@host"]},
        {"server_flags": ["--otlp-headers", "authorization=Bearer planted"]},
        {"server_flags": ["--model-loader-extra-config", '{"api_key": "planted-planted"}']},
        {"model": "https://someone:planted@host/model"},
        {"pool": "/pools/hf_PlantedPlantedPlantedPlanted.jsonl"},
    ],
)
def test_a_secret_in_parameters_is_refused_without_repeating_it(values):
    with pytest.raises(InputError) as caught:
        check_asked(parameters_with(**values), ())
    assert "planted" not in str(caught.value).lower()


@pytest.mark.parametrize(
    "fields",
    [
        {"flags": ("--api-key", "planted-planted")},
        {"flags": ("--x=https://a:planted@host",)},
        {"environment": {"MY_TOKEN": "planted"}},
        {"environment": {"VLLM_API_KEY": "planted"}},
        {"environment": {"VLLM_URL": "https://a:planted@host"}},
        {"use_for": "with hf_PlantedPlantedPlantedPlanted"},
    ],
)
def test_a_secret_in_a_level_is_refused_without_repeating_it(fields):
    with pytest.raises(InputError, match="level 'x'") as caught:
        check_asked(parameters_with(), (Level(name="x", **fields),))
    assert "planted" not in str(caught.value).lower()


def test_this_machine_plants_none_by_itself():
    assert not set(SECRETS) & set(os.environ.values())
