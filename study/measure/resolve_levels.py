"""What vLLM's configuration code makes of one level. To be called in `resolve_child`, in a fork for each level.

Nothing here is specific to a release: flags go through the server's own argument parser, the configuration comes back
in the shape that `/server_info?config_format=json` gives (vllm/entrypoints/serve/dev/server_info/api_router.py does the
same with the same object).
"""

import argparse
import dataclasses
import importlib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

PARSERS = ("vllm.entrypoints.launchers.cli_args", "vllm.entrypoints.openai.cli_args")
"""Modules that have the server's arguments, the newest first: 0.31.0 has the first, 0.30 and older the second."""
REFUSALS = (ValueError, TypeError, KeyError, AttributeError, AssertionError, RuntimeError, ImportError, OSError)
"""What vLLM's configuration code was seen to raise for what it does not take."""
TELLS_OF_A_CHANGE = re.compile(
    r"overrid|not compatible|incompatible|not support|does not yet support|disabl|forcing|falling back|instead|ignored|"
    r"setting \w+ to|setting cudagraph|defaulting to|downgrad",
    re.IGNORECASE,
)


class UnusableFlagsError(ValueError):
    """vLLM's argument parser refused a command line; the message is its own."""


def make_parser() -> Any:  # noqa: ANN401 (a parser of vLLM)
    """Return the server's own argument parser; what it refuses raises `UnusableFlagsError` and prints nothing."""
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    class Parser(FlexibleArgumentParser):  # type: ignore[misc]
        def error(self, message: str) -> NoReturn:
            raise UnusableFlagsError(message)

    for name in PARSERS:
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        return module.make_arg_parser(Parser(prog="vllm"))
    from vllm.engine.arg_utils import AsyncEngineArgs

    return AsyncEngineArgs.add_cli_args(Parser(prog="vllm"))


def resolve_level(parser: Any, request: Mapping[str, Any], level: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ANN401
    """Resolve one level.

    Args:
        parser: of `make_parser`.
        request: model and server flags.
        level: name, flags, llm and environment.

    Returns:
        Fields of `ResolvedLevel` that vLLM tells, and the configuration object under `config` (None: refused).

    """
    os.environ.update(level["environment"])
    base = ["--model", request["model"], *request["flags"]]
    lines: list[tuple[int, str]] = []
    with captured_lines(lines):
        try:
            asked = parser.parse_args([*base, *level["flags"]])
            config = _create_config(_engine_args(asked))
        except REFUSALS as error:
            return {"config": None, "refusal": say_refusal(error), "changed": _changes(lines)}
    plain = parser.parse_args(base)
    resolved = to_json(config)
    told = {"config": config, "resolved": resolved, "changed": _changes(lines)}
    told["requested"] = _requested(plain, asked, resolved)
    if level["flags"] and not level["llm"]:
        return told | {"llm_differs": None, "llm_reason": "the level gives no arguments for Python"}
    return told | _compare_llm(plain, level["llm"], resolved)


def to_json(config: Any) -> dict[str, Any]:  # noqa: ANN401 (VllmConfig)
    """Return a configuration as `/server_info?config_format=json` gives it."""
    import pydantic

    dumped: dict[str, Any] = pydantic.TypeAdapter(type(config)).dump_python(config, mode="json", fallback=str)
    return dumped


def differing_paths(one: Any, other: Any, path: str = "") -> Iterator[str]:  # noqa: ANN401 (JSON)
    """Yield the dotted paths in which two JSON values differ."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        for name in sorted({*one, *other}):
            here = f"{path}.{name}" if path else str(name)
            if name not in one or name not in other:
                yield here
            else:
                yield from differing_paths(one[name], other[name], here)
    elif one != other or isinstance(one, bool) != isinstance(other, bool):
        yield path


@contextmanager
def captured_lines(lines: list[tuple[int, str]]) -> Iterator[None]:
    """Collect what vLLM logs, as level and one-line text.

    By the factory of records: vLLM's configuration code sets its loggers up anew, and a handler of ours would be gone.
    The factory stays where it is afterwards, since vLLM may have put its own around it by then.
    """
    make_record = logging.getLogRecordFactory()
    listening = True

    def make_and_keep(*args: Any, **kwargs: Any) -> logging.LogRecord:  # noqa: ANN401
        record = make_record(*args, **kwargs)
        if listening and record.name.partition(".")[0] == "vllm" and record.levelno >= logging.INFO:
            lines.append((record.levelno, " ".join(record.getMessage().split())))
        return record

    logging.setLogRecordFactory(make_and_keep)
    try:
        yield
    finally:
        listening = False


def say_refusal(error: BaseException) -> str:
    """Return vLLM's reason in one line."""
    errors = getattr(error, "errors", None)
    if callable(errors):  # pydantic's: the first complaint, without its dump of the whole input
        first = errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return " ".join(f"{where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}".split())
    text = " ".join(str(error).split())
    return text if isinstance(error, UnusableFlagsError) else f"{type(error).__name__}: {text}"


def _changes(lines: Sequence[tuple[int, str]]) -> list[str]:
    told = [text for level, text in lines if level >= logging.WARNING or TELLS_OF_A_CHANGE.search(text)]
    return list(dict.fromkeys(told))


def _engine_args(parsed: argparse.Namespace) -> Any:  # noqa: ANN401 (AsyncEngineArgs)
    from vllm.engine.arg_utils import AsyncEngineArgs

    return AsyncEngineArgs.from_cli_args(parsed)


def _create_config(engine_args: Any) -> Any:  # noqa: ANN401 (vLLM's)
    from vllm.usage.usage_lib import UsageContext

    # Sizes of batches have other defaults for other users of the engine.
    return engine_args.create_engine_config(usage_context=UsageContext.OPENAI_API_SERVER)


def _compare_llm(plain: argparse.Namespace, llm: Mapping[str, Any], resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Resolve `LLM(**llm)` through the same engine arguments and return where it differs from the flags."""
    asked = dict(llm)
    if isinstance(asked.get("compilation_config"), int):  # LLM takes a bare mode too
        asked["compilation_config"] = {"mode": asked["compilation_config"]}
    try:
        other = to_json(_create_config(dataclasses.replace(_engine_args(plain), **asked)))
    except REFUSALS as error:
        return {"llm_differs": None, "llm_reason": say_refusal(error)}
    return {"llm_differs": [path for path in differing_paths(other, resolved) if path != "instance_id"]}


def _requested(plain: argparse.Namespace, asked: argparse.Namespace, resolved: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a level's flags set, by the dotted path that it has in the resolved configuration."""
    found: dict[str, Any] = {}
    for name, value in vars(asked).items():
        before = vars(plain).get(name)
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            mine, theirs = to_json(value), to_json(before) if dataclasses.is_dataclass(before) else {}
            for path in differing_paths(mine, theirs):
                found[f"{name}.{path}"] = _value_at(mine, path)
        elif value != before:
            place = _place_of(name, resolved)
            became = _value_at(resolved, place)
            found[place] = became if str(became) == str(value) else value  # the command line has texts for numbers
    return {path: value for path, value in found.items() if isinstance(value, str | int | float | list | None)}


def _value_at(values: Mapping[str, Any], path: str) -> Any:  # noqa: ANN401 (JSON)
    value: Any = values
    for part in path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _place_of(name: str, resolved: Mapping[str, Any]) -> str:
    """Return where an argument of the command line stands in the resolved configuration, or its own name."""
    sections = [part for part, values in resolved.items() if isinstance(values, Mapping) and name in values]
    return f"{sections[0]}.{name}" if name not in resolved and len(sections) == 1 else name
