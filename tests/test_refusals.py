"""What parameters and levels may not ask for, in every spelling that vLLM's parser takes."""

import pytest

from study.design.levels import Level, read_levels
from study.design.parameters import COMPARABLE, make_parameters, read_parameters
from study.design.root import find_root
from study.errors import InputError
from study.measure.refusals import check_asked
from study.measure.server_spec import ServerSpec, command_of, environment_of

ROOT = find_root()


def parameters_with(*server_flags, **values):
    return make_parameters({"study": "s", "model": "m", "device": "cpu", "server_flags": list(server_flags), **values})


def level_with(*flags, **environment):
    return Level(name="x", flags=flags, environment=environment)


OWNED = (
    *("--port=1", "--host", "--model", "--api-key", "--no-enable-prefix-caching", "--load-format", "--config"),
    *("--api_key=k", "--api-k", "--hos=0.0.0.0", "--uds", "--root_path", "--middleware", "--middle", "--grpc"),
    *("--allowed-origins", "--allowed_origins=['*']", "--allow-credentials", "--allow-cred", "--ssl-keyfile"),
    *("--ssl_certfile=x", "--enable-ssl-refresh", "--enable-request-id-headers", "--headless", "-asc", "-as"),
    *("--data-parallel-address=10.0.0.1", "--data_parallel_add", "-dpa", "--master-addr", "--nnodes", "-n", "-n2"),
    "--api-server-count",
)


@pytest.mark.parametrize("flag", OWNED)
def test_flags_that_would_open_the_server_are_refused_from_everywhere(flag):
    with pytest.raises(InputError, match=r"server_flags has '.*', which the study sets itself"):
        check_asked(parameters_with(flag, "x"), ())
    with pytest.raises(InputError, match=r"level 'x' has '.*', which the study sets itself"):
        check_asked(parameters_with(), (level_with(flag, "x"),))


@pytest.mark.parametrize(
    "flag",
    [
        *("--max-model-len", "--max-num-seqs=8", "--enforce-eager", "-O0", "-O", "-cc.mode=3", "-cc", "-dp", "-tp"),
        *("--model-impl", "--config-format", "--data-parallel-size", "--tokenizer", "--optimization-level=3", "-1"),
        *("--no-enable-flashinfer-autotune", "--kernel-config.enable_jit_warmup=false", "--dtype", "--seed", "-q"),
    ],
)
def test_flags_of_a_study_are_taken(flag):
    check_asked(parameters_with(flag, "8"), (level_with(flag, "8"),))


def test_the_size_of_the_kv_cache_is_a_levels_own_matter():
    check_asked(parameters_with(), (level_with("--kv-cache-memory-bytes", "1"),))
    with pytest.raises(InputError, match="--kv-cache-memory-bytes"):
        check_asked(parameters_with("--kv-cache-memory-bytes", "1"), ())


@pytest.mark.parametrize("flag", ["--enable-log-requests", "--enable_log_outputs", "--enable-log-req"])
def test_prompts_are_not_written_into_the_log(flag):
    with pytest.raises(InputError, match="writes prompts into the kept log"):
        check_asked(parameters_with(flag), ())


@pytest.mark.parametrize(
    "name",
    [
        *("VLLM_HOST_IP", "VLLM_LOOPBACK_IP", "VLLM_PLUGINS", "VLLM_ALLOW_INSECURE_SERIALIZATION", "PYTHONPATH"),
        *("VLLM_SERVER_DEV_MODE", "GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME", "CUDA_VISIBLE_DEVICES"),
    ],
)
def test_variables_that_would_open_the_server_are_refused(name):
    with pytest.raises(InputError, match=f"level 'x' has the variable '{name}', which the study sets itself"):
        check_asked(parameters_with(), (level_with(**{name: "1"}),))


def test_other_variables_are_taken():
    check_asked(parameters_with(), (level_with(VLLM_ENABLE_STARTUP_PLAN="1", TOKENIZERS_PARALLELISM="false"),))


TRUSTING = (
    parameters_with("--trust-remote-code"),
    parameters_with("--trust_remote_code"),
    parameters_with("--trust-rem"),
    parameters_with("--speculative-config", '{"model": "x", "trust_remote_code": true}'),
    parameters_with("--hf-overrides.trust_remote_code=true"),
)


@pytest.mark.parametrize("parameters", TRUSTING, ids=lambda one: one.server_flags[0])
def test_a_models_own_code_is_not_trusted_by_a_flag(parameters):
    with pytest.raises(InputError, match="parameter trust_remote_code: true allows that"):
        check_asked(parameters, ())
    with pytest.raises(InputError, match="parameter trust_remote_code: true allows that"):
        check_asked(parameters_with(), (level_with(*parameters.server_flags),))
    allowed = parameters.model_copy(update={"trust_remote_code": True})
    check_asked(allowed, (level_with(*parameters.server_flags),))


def test_a_models_own_code_is_not_trusted_by_a_variable():
    with pytest.raises(InputError, match="parameter trust_remote_code: true allows that"):
        check_asked(parameters_with(), (level_with(HF_TRUST_REMOTE_CODE="1"),))


@pytest.mark.parametrize("trusted", [True, False])
def test_the_parameter_alone_makes_the_server_trust_a_model(trusted):
    spec = ServerSpec("m", parameters_with(trust_remote_code=trusted), (), {})
    assert ("--trust-remote-code" in command_of(spec, 1)) == trusted
    assert not any("TRUST" in name for name in environment_of(spec, {}, "key"))


def test_trust_does_not_part_records_that_were_comparable_before():
    assert "trust_remote_code" not in COMPARABLE
    assert parameters_with(trust_remote_code=True).comparable() == parameters_with().comparable()


def test_every_level_and_parameter_file_that_comes_with_the_study_is_taken():
    folder = ROOT / "notebooks" / "parameters"
    levels = [level for path in (folder / "levels").glob("*.yaml") for level in read_levels(path).values()]
    files = [read_parameters(path) for path in folder.glob("*.yaml")]
    assert len(levels) >= 10
    assert len(files) >= 5
    for parameters in files:
        check_asked(parameters, levels)
