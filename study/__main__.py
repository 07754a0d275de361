"""The command line: `python -m study plan|run|tables|decide|edition|compare|calibrate|startup|check`.

Exit code 0 on success, 2 on unusable input (one line that names the value and what would work), 1 otherwise. Each
command imports what it needs when it runs, so that `--help` and `plan` answer at once.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from study.errors import InputError, StudyError


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = _parser().parse_args(arguments)
    try:
        code: int = options.command(options)
    except StudyError as error:
        print(f"study: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:
        return 1
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="study", description="What each vLLM compile level costs on your own GPU.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, text in _COMMANDS:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        _ARGUMENTS[name](sub)
    return parser


def _takes_parameters(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--parameters", type=Path, required=True, metavar="FILE", help="YAML file")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="one parameter more; the value is YAML"
    )


def _takes_run_options(parser: argparse.ArgumentParser) -> None:
    _takes_parameters(parser)
    parser.add_argument("--detach", action="store_true", help="go on when the pipe on standard input closes")
    parser.add_argument("--events", action="store_true", help="JSON lines on standard output, for a program")
    parser.add_argument("--time-limit-s", type=float, metavar="S", help="start nothing that would take longer")


def _takes_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="name of the raw folder, data/raw/<study>")
    parser.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR")


def _takes_edition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("edition", help="name of the folder, editions/<edition>")
    parser.add_argument("studies", nargs="*", help="studies to publish, in order; none: those of its edition.yaml")
    parser.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR")


def _takes_log(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("log", type=Path, help="a server's log; - for standard input")


def _takes_sides(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a study, an edition, or a reference edition such as 2026.10")
    parser.add_argument("b", metavar="B", help="what to set beside it")
    parser.add_argument("--markdown", action="store_true", help="Markdown instead of text")
    parser.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR")


def _takes_calibration(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--blocks", type=int, default=5, help="blocks of each simulated study (default 5)")
    parser.add_argument("--studies", type=int, default=20_000, help="simulated studies (default 20,000)")
    parser.add_argument("--seed", type=int, default=0)
    for name, default in (("run-noise", 0.005), ("launch-noise", 0.01), ("effect", 0.0), ("margin", 0.01)):
        text = f"a share (default {default:g})"
        parser.add_argument(f"--{name}", type=float, default=default, metavar="SHARE", help=text)


def _read_parameters(options: argparse.Namespace) -> Any:  # noqa: ANN401 (Parameters, imported late)
    import yaml

    from study.design.parameters import read_parameters

    overrides = {}
    for item in options.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--set {item!r} needs the form name=value")
        try:
            overrides[name] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise InputError(f"--set {item!r}: the value is not YAML") from None
    return read_parameters(options.parameters, overrides)


def _plan(options: argparse.Namespace) -> int:
    from study.session import plan_session

    print(plan_session(_read_parameters(options)))
    return 0


def _run(options: argparse.Namespace) -> int:
    from study.design.root import find_root
    from study.runner import RunOptions, run_session

    chosen = RunOptions(detach=options.detach, events=options.events, time_limit_s=options.time_limit_s)
    return run_session(_read_parameters(options), find_root(), chosen)


def _tables(options: argparse.Namespace) -> int:
    for path in _view(options).write_tables():
        print(path)
    return 0


def _decide(options: argparse.Namespace) -> int:
    view = _view(options)
    print(view.headline)
    for advice in view.advise():
        print(f"\n{advice.title} [{advice.status.replace('_', ' ')}]")
        for sentence in advice.sentences:
            print(f"  {sentence}")
    return 0


def _edition(options: argparse.Namespace) -> int:
    from study.design.root import find_root
    from study.publish.edition import write_edition

    print(write_edition(find_root(), options.edition, options.studies, options.data_dir))
    return 0


def _startup(options: argparse.Namespace) -> int:
    from study.analyze.startup import startup_json

    try:
        if str(options.log) == "-":
            print(json.dumps(startup_json(sys.stdin), indent=2))
        else:
            with options.log.open(encoding="utf-8", errors="replace", newline="") as text:
                print(json.dumps(startup_json(text), indent=2))
    except OSError as error:
        raise InputError(f"log '{options.log}' cannot be read: {error.strerror}") from None
    return 0


def _compare(options: argparse.Namespace) -> int:
    from study.analyze.versus import set_beside
    from study.design.root import find_root
    from study.publish.versus import render_versus
    from study.publish.versus_side import read_side

    root = find_root()
    a, b = (read_side(root, name, options.data_dir) for name in (options.a, options.b))
    print(render_versus(set_beside(a, b), "markdown" if options.markdown else "text"), end="")
    return 0


def _calibrate(options: argparse.Namespace) -> int:
    import numpy as np

    from study.analyze.calibrate import calibrate, render_calibration
    from study.analyze.calibrate_noise import SimulatedStudy

    if options.seed < 0:
        raise InputError(f"seed {options.seed} is negative; 0 or more works")
    simulated = SimulatedStudy(
        blocks=options.blocks,
        run_noise=options.run_noise,
        launch_noise=options.launch_noise,
        effect=options.effect,
        margin=options.margin,
        studies=options.studies,
    )
    print(render_calibration(calibrate(simulated, np.random.default_rng(options.seed))))
    return 0


def _check(options: argparse.Namespace) -> int:
    from study.check import check_study

    problems = check_study(_store(options))
    for problem in problems:
        print(problem)
    print(f"{len(problems)} problems" if problems else "every record is whole and belongs here")
    return 1 if problems else 0


def _view(options: argparse.Namespace) -> Any:  # noqa: ANN401 (StudyView, imported late)
    from study.design.root import find_root
    from study.publish.study_view import ViewOptions, read_view

    return read_view(find_root(), _store(options), ViewOptions())


def _store(options: argparse.Namespace) -> Any:  # noqa: ANN401 (Store, imported late)
    from study.design.root import find_root
    from study.store import Store

    return Store(find_root() / options.data_dir, options.study)


_COMMANDS = (
    ("plan", _plan, "print launches, runs, their order and about how long they take"),
    ("run", _run, "measure a session; the same command resumes it"),
    ("tables", _tables, "build the tables of a study from its raw records"),
    ("decide", _decide, "print what the figures of a study recommend"),
    ("edition", _edition, "write an edition from studies"),
    ("compare", _compare, "set a study or edition beside another: meanings of levels, figures, what holds on both"),
    ("calibrate", _calibrate, "simulate studies: how often verdicts err, and what so many blocks can find"),
    ("startup", _startup, "read a server's startup log; prints JSON"),
    ("check", _check, "verify a raw folder: schema, fingerprints, hashes, completeness"),
)
_ARGUMENTS = {
    "plan": _takes_parameters,
    "run": _takes_run_options,
    "tables": _takes_study,
    "decide": _takes_study,
    "edition": _takes_edition,
    "compare": _takes_sides,
    "calibrate": _takes_calibration,
    "startup": _takes_log,
    "check": _takes_study,
}

if __name__ == "__main__":
    sys.exit(main())
