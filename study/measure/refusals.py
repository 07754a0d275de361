"""What parameters and levels may not ask for: flags and variables that would open the server, or that are secrets.

A parameter file may come from someone else. Whatever it says, the server listens on 127.0.0.1, asks for the launch's
key, runs no code that a model brings unless `trust_remote_code: true` stands there too, and no key gets into a record.
"""

from collections.abc import Mapping, Sequence

from study.design.card_count import count_cards_of_levels
from study.design.levels import Level
from study.design.parameters import Parameters
from study.errors import InputError
from study.measure.redact import SECRET_NAME, holds_secret
from study.measure.server_spec import CLOSED_ENVIRONMENT, OPEN_ENVIRONMENT, TRUST

SET_HERE = {"--model", "--load-format", "--enable-prefix-caching", "--no-enable-prefix-caching", "--config"}
"""Flags that the study sets, and the one that would bring others in from a file."""
SET_BY_LEVELS_TOO = {"--kv-cache-memory-bytes"}
ADDRESSES = {"--host", "--port", "--uds", "--grpc", "--headless", "--api-server-count", "-asc", "--root-path"}
ADDRESSES |= {"--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port"}
ADDRESSES |= {"--data-parallel-address", "-dpa", "--data-parallel-rpc-port", "-dpp", "--data-parallel-supervisor-port"}
DOORS = {"--api-key", "--middleware", "--allow-credentials", "--allowed-origins", "--allowed-methods"}
DOORS |= {"--allowed-headers", "--ssl-keyfile", "--ssl-certfile", "--ssl-ca-certs", "--ssl-cert-reqs", "--ssl-ciphers"}
DOORS |= {"--enable-ssl-refresh", "--enable-request-id-headers"}
OWNED_FLAGS = SET_HERE | SET_BY_LEVELS_TOO | ADDRESSES | DOORS
SECRET_FLAGS = {"--hf-token"}
WHOLE = {"-dp"}
"""Flags of vLLM's that are the beginning of an owned one."""
PROMPTS_IN_THE_LOG = {"--enable-log-requests", "--enable-log-outputs"}
OWNED_ENVIRONMENT = {"VLLM_SERVER_DEV_MODE", "VLLM_NO_USAGE_STATS", "VLLM_PLUGINS", "CUDA_VISIBLE_DEVICES"}
OWNED_ENVIRONMENT |= {"PYTHONPATH", *CLOSED_ENVIRONMENT, *OPEN_ENVIRONMENT}


def check_flags(flags: Sequence[str], where: str, trusted: bool = False, own: set[str] = OWNED_FLAGS) -> None:
    """Refuse flags that the study sets itself, that would open the server, or that hold a secret.

    Args:
        flags: as they would stand on the server's command line, values among them.
        where: what has them, for the message: `server_flags`, `level 'x'`.
        trusted: whether the parameters say `trust_remote_code: true`.
        own: the flags that are the study's own here.

    Raises:
        InputError: names the flag, never a value that may be a secret.

    """
    for flag in flags:
        if meant_by(flag, own):
            raise InputError(f"{where} has '{_name(flag)}', which the study sets itself; leave it out")
        if meant_by(flag, SECRET_FLAGS):
            raise InputError(f"{where} has '{_name(flag)}', a secret; give it by the environment (HF_TOKEN) instead")
        if meant_by(flag, PROMPTS_IN_THE_LOG):
            raise InputError(f"{where} has '{_name(flag)}', which writes prompts into the kept log; leave it out")
        if not trusted and (meant_by(flag, {TRUST}) or _trusts(flag)):
            raise InputError(f"{where} asks to trust a model's own code; parameter trust_remote_code: true allows that")
    if holds_secret(list(flags)):
        raise InputError(f"{where} holds what looks like a key or password; give it by the environment instead")


def check_environment(environment: Mapping[str, str], where: str, trusted: bool = False) -> None:
    """Refuse variables of a level that would open the server, load code into it, or that hold a secret.

    Raises:
        InputError: names the variable, never its value.

    """
    for name, value in environment.items():
        if SECRET_NAME.search(name) or holds_secret(value):
            raise InputError(f"{where} has the variable '{name}', a secret; set it where the study is started instead")
        if name in OWNED_ENVIRONMENT:
            raise InputError(f"{where} has the variable '{name}', which the study sets itself; leave it out")
        if not trusted and (_trusts(name) or _trusts(value)):
            raise InputError(f"{where} asks to trust a model's own code; parameter trust_remote_code: true allows that")


def check_asked(parameters: Parameters, levels: Sequence[Level]) -> None:
    """Refuse, before a server starts, what in parameters and levels would open it or leak a secret into a record.

    Levels that ask for different numbers of cards are refused too (`count_cards_of_levels`).
    """
    trusted = parameters.trust_remote_code
    count_cards_of_levels(parameters.server_flags, levels)
    check_flags(parameters.server_flags, "server_flags", trusted)
    for name in ("model", "pool"):
        if holds_secret(getattr(parameters, name)):
            raise InputError(f"parameter '{name}' holds what looks like a key or password; leave it out of the text")
    for level in levels:
        where = f"level '{level.name}'"
        check_flags(level.flags, where, trusted, OWNED_FLAGS - SET_BY_LEVELS_TOO)
        check_environment(level.environment, where, trusted)
        if holds_secret(level.model_dump(mode="json")):
            raise InputError(f"{where} holds what looks like a key or password; give it by the environment instead")


def meant_by(flag: str, names: set[str]) -> bool:
    """Whether vLLM's parser would take `flag` for one of `names`.

    It reads `_` as `-` in a name, takes any beginning of a name that fits one alone, `--name=value`, `--name.key`, and
    a value right behind a one-letter flag (vllm/utils/argparse_utils.py).
    """
    name = _name(flag)
    if name in names:
        return True
    if name.startswith("-") and name not in ("-", "--", *WHOLE) and any(known.startswith(name) for known in names):
        return True
    return name[2:].isdigit() and name[:2] in names


def _name(flag: str) -> str:
    """Return the name in a flag as vLLM's parser reads it."""
    return flag.split("=")[0].split(".")[0].replace("_", "-")


def _trusts(text: str) -> bool:
    return "trust-remote-code" in text.replace("_", "-").lower()
