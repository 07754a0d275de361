"""What the installed vLLM makes of a configuration that is asked for. To be called in a process that does nothing else.

vLLM's own code answers: its argument parser, its classes, its rule for what a worker supports. Nothing is served.
"""

import difflib
import importlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from study.design.claims import (
    CHOSEN,
    Accepts,
    AttributeHas,
    Configured,
    DefaultIs,
    EnumHas,
    FlagExists,
    Imports,
    LogLine,
    Refuses,
    Resolves,
)
from study.measure.claims_words import (
    NotThereError,
    explain_refusal,
    plain_value,
    same_value,
    say_asked,
    say_call,
    say_value,
    shorten,
)
from study.measure.resolve_levels import captured_lines, make_parser
from study.measure.resolve_worker import expect_at_worker

REFUSALS = (SystemExit, ValueError, TypeError, KeyError, AssertionError, NotImplementedError)
"""What vLLM's configuration code raises when it refuses; anything else is a thing that this process lacks."""


@dataclass(frozen=True)
class Served:
    """What every configuration is of.

    Attributes:
        model: a folder or hub name.
        tp: tensor parallel size.

    """

    model: str
    tp: int = 1


class _EngineWouldStartError(Exception):
    """`LLM(...)` got as far as starting its engine; holds the arguments that it would start it with."""

    def __init__(self, engine_args: Any) -> None:  # noqa: ANN401 (EngineArgs)
        super().__init__("the engine would start")
        self.engine_args = engine_args


class _NoEngine:
    """Stands for vLLM's engine, so that `LLM(...)` runs up to its start and no further."""

    @staticmethod
    def from_engine_args(engine_args: Any, **_: Any) -> None:  # noqa: ANN401 (EngineArgs)
        raise _EngineWouldStartError(engine_args)


def check_flag_exists(check: FlagExists, served: Served) -> tuple[bool, str]:
    """Return whether the server's argument parser takes the flags, and what it says if not."""
    said = f"`{' '.join(check.flags)}`"
    try:
        _parse(check.flags, served)
    except REFUSALS as error:
        return False, f"{said}: {explain_refusal(error)}"
    return True, f"{said} parses"


def check_resolves(check: Resolves, served: Served) -> tuple[bool, str]:
    """Return whether a configuration has the values that are expected, and those that it has."""
    try:
        config = _configure(check, served)
        worker = _apply_worker_rule(config, check.attention) if check.attention else ""
    except REFUSALS as error:
        return False, f"{say_asked(check)} is refused: {explain_refusal(error)}"
    said = [_compare(config, path, wanted) for path, wanted in check.expect.items()]
    return all(holds for holds, _ in said), f"{say_asked(check)}{worker}: {', '.join(text for _, text in said)}"


def check_default_is(check: DefaultIs, served: Served) -> tuple[bool, str]:
    """Return whether a field has a value where nobody asked for one, and which it has."""
    asked = {"flags": check.flags, "llm": check.llm, "environment": check.environment}
    return check_resolves(Resolves(kind="resolves", expect={check.field: check.value}, **asked), served)


def check_log_line(check: LogLine, served: Served) -> tuple[bool, str]:
    """Return whether making a configuration logs a line with a text, and the line."""
    lines: list[tuple[int, str]] = []
    with captured_lines(lines):
        try:
            _configure(check, served)
        except REFUSALS as error:
            return False, f"{say_asked(check)} is refused: {explain_refusal(error)}"
    found = next((line for _, line in lines if check.has in line), None)
    if found is None:
        return False, f"{say_asked(check)} logs {len(lines)} lines, none of them with `{check.has}`"
    return True, f"{say_asked(check)} logs: {shorten(found)}"


def check_accepts(check: Accepts, served: Served) -> tuple[bool, str]:
    """Return whether vLLM takes a call, and its reason if not."""
    refusal = _call(check, served)
    return refusal is None, f"{say_call(check)}: {refusal or 'accepted'}"


def check_refuses(check: Refuses, served: Served) -> tuple[bool, str]:
    """Return whether vLLM refuses a call with a reason that holds a text, and what it says."""
    refusal = _call(check, served)
    return refusal is not None and check.says in refusal, f"{say_call(check)}: {refusal or 'accepted'}"


def check_enum_has(check: EnumHas) -> tuple[bool, str]:
    """Return whether an enumeration has exactly some members, and those that it has."""
    found = {member.name: plain_value(member.value) for member in _import(check.enum)}
    wanted = {name: plain_value(value) for name, value in check.members.items()}
    said = ", ".join(f"{name}={value}" for name, value in found.items())
    return found == wanted, f"{check.enum.replace(':', '.')} has {said}"


def check_imports(check: Imports) -> tuple[bool, str]:
    """Return whether names can be imported from a module, and which cannot."""
    module = _import_module(check.module)
    missing = [name for name in check.names if not hasattr(module, name)]
    if missing:
        near = {name: difflib.get_close_matches(name, dir(module), n=1) for name in missing}
        said = [f"{name}{f' (the nearest is {near[name][0]})' if near[name] else ''}" for name in missing]
        return False, f"{check.module} has no {', '.join(said)}"
    return True, f"{check.module} has {', '.join(check.names)}"


def check_attribute_has(check: AttributeHas) -> tuple[bool, str]:
    """Return whether an attribute is there, with the value or the items that are asked for, and what it holds."""
    found = _import(check.object)
    name = check.object.replace(":", ".")
    missing = [one for one in check.has if one not in found]
    if missing:
        return False, f"{name} has no {', '.join(map(str, missing))}"
    if check.value is not None and not same_value(found, check.value):
        return False, f"{name} is {say_value(found)}, not {say_value(check.value)}"
    if check.has:
        return True, f"{name} has {', '.join(map(str, check.has))}"
    return True, f"{name} exists" if check.value is None else f"{name} is {say_value(found)}"


def _parse(flags: tuple[str, ...], served: Served) -> Any:  # noqa: ANN401 (argparse's namespace)
    """Return the server's arguments."""
    spread = ("--tensor-parallel-size", str(served.tp)) if served.tp > 1 else ()
    return make_parser().parse_args(["--model", served.model, "--skip-tokenizer-init", *spread, *flags])


def _configure(check: Configured, served: Served) -> Any:  # noqa: ANN401 (VllmConfig)
    """Return the configuration that vLLM makes of flags or of the arguments of `LLM(...)`."""
    usage = importlib.import_module("vllm.usage.usage_lib").UsageContext
    os.environ.update(check.environment)
    if check.llm is not None:
        return _engine_args_of_llm(check.llm, served).create_engine_config(usage_context=usage.LLM_CLASS)
    arguments = importlib.import_module("vllm.engine.arg_utils").EngineArgs.from_cli_args(_parse(check.flags, served))
    return arguments.create_engine_config(usage_context=usage.OPENAI_API_SERVER)


def _engine_args_of_llm(arguments: Mapping[str, Any], served: Served) -> Any:  # noqa: ANN401 (EngineArgs)
    module = importlib.import_module("vllm.entrypoints.llm")
    spread = {"tensor_parallel_size": served.tp} if served.tp > 1 else {}
    module.__dict__["LLMEngine"] = _NoEngine
    try:
        module.LLM(**{"model": served.model, "skip_tokenizer_init": True, **spread, **arguments})
    except _EngineWouldStartError as reached:
        return reached.engine_args
    raise RuntimeError("LLM(...) ended without starting an engine")


def _call(check: Accepts | Refuses, served: Served) -> str | None:
    """Return why vLLM refuses a call, or None where it takes it."""
    try:
        os.environ.update(check.environment)
        if check.call in ("server", "LLM"):
            llm = check.arguments if check.call == "LLM" else None
            _configure(Configured(flags=check.flags, llm=llm), served)
        elif check.call == "EngineArgs":
            module = importlib.import_module("vllm.engine.arg_utils")
            module.EngineArgs(model=served.model, skip_tokenizer_init=True, **check.arguments).create_engine_config()
        else:
            getattr(importlib.import_module("vllm.config"), check.call)(**check.arguments)
    except REFUSALS as error:
        return explain_refusal(error)
    return None


def _apply_worker_rule(config: Any, support: str) -> str:  # noqa: ANN401 (VllmConfig)
    """Change the CUDA graph mode as a worker would, by vLLM's own rule, and return whose support it went by."""
    compilation = config.compilation_config
    if support == CHOSEN:
        told = expect_at_worker(config)
        if told["backend"] is None:
            raise RuntimeError(f"the attention backend cannot be chosen here: {told['reason']}")
        mode = told["cudagraph_mode"]
        compilation.cudagraph_mode = type(compilation.cudagraph_mode)(tuple(mode) if isinstance(mode, list) else mode)
        return f" at a worker with {told['backend']} ({told['graph_support']})"
    levels = importlib.import_module("vllm.v1.attention.backend").AttentionCGSupport
    if support not in levels.__members__:
        raise NotThereError(f"AttentionCGSupport has no {support}; it has {', '.join(levels.__members__)}")
    compilation.resolve_cudagraph_mode_and_sizes(levels[support], "the attention backend")
    return f" at a worker whose attention backend supports {support}"


def _compare(config: Any, path: str, wanted: Any) -> tuple[bool, str]:  # noqa: ANN401 (VllmConfig, any value)
    """Return whether a field has a value, and both in words."""
    value = config
    for part in path.split("."):
        inside = value if isinstance(value, Mapping) else vars(value) if hasattr(value, "__dict__") else {}
        if part not in inside and not hasattr(value, part):
            near = difflib.get_close_matches(part, map(str, inside), n=1)
            raise NotThereError(f"there is no field {path}{f'; the nearest is {near[0]}' if near else ''}")
        value = inside[part] if part in inside else getattr(value, part)
    if same_value(value, wanted):
        return True, f"{path} is {say_value(value)}"
    return False, f"{path} is {say_value(value)}, not {say_value(wanted)}"


def _import_module(name: str) -> Any:  # noqa: ANN401 (a module)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise NotThereError(f"there is no module {error.name}") from None
        raise


def _import(name: str) -> Any:  # noqa: ANN401 (any object)
    module, _, path = name.partition(":")
    found = _import_module(module)
    for part in path.split("."):
        if not hasattr(found, part):
            raise NotThereError(f"{module} has no {path}")
        found = getattr(found, part)
    return found


Checker = Callable[[Any, Served], tuple[bool, str]]
CHECKERS: Mapping[str, Checker] = {
    "flag_exists": check_flag_exists,
    "resolves": check_resolves,
    "default_is": check_default_is,
    "log_line": check_log_line,
    "accepts": check_accepts,
    "refuses": check_refuses,
    "enum_has": lambda check, _: check_enum_has(check),
    "imports": lambda check, _: check_imports(check),
    "attribute_has": lambda check, _: check_attribute_has(check),
}
