"""The command line: `python -m study plan|run|fleet|gather|tables|decide|edition|site|compare|...|switches|check`.

Exit code 0 on success, 2 on unusable input (one line that names the value and what would work), 130 after Ctrl-C, 1
otherwise. Each command imports what it needs when it runs, so that `--help` and `plan` answer at once.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from study.errors import InputError, StudyError
from study.interrupts import noted_interrupts

INTERRUPTED = 130
"""As a shell has it: 128 and the signal's number."""


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    with noted_interrupts() as noted:
        try:
            options = _parser().parse_args(arguments)
            code: int = options.command(options)
        except StudyError as error:
            print(f"study: {error}", file=sys.stderr)
            return error.exit_code
        except BrokenPipeError:
            return 1
        except (KeyboardInterrupt, ImportError) as error:
            if isinstance(error, ImportError) and not noted:
                raise
            print("study: interrupted", file=sys.stderr)
            return INTERRUPTED
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="study", description="What each vLLM compile level costs on your own GPU.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command, takes, text in _COMMANDS:
        sub = commands.add_parser(name, help=text, description=text)
        sub.set_defaults(command=command)
        takes(sub)
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


def _takes_fleet(parser: argparse.ArgumentParser) -> None:
    _takes_parameters(parser)
    text = "of a running Ray cluster, auto or host:port; without, Ray is started on this machine alone"
    parser.add_argument("--address", metavar="ADDRESS", help=text)
    text = "kind of card by Ray's name, such as H200; several times: blocks are dealt to the kinds in turn"
    parser.add_argument("--accelerator-type", action="append", default=[], metavar="KIND", help=text)
    text = "blocks that one machine measures at once (default 1: they would disturb each other)"
    parser.add_argument("--blocks-per-node", type=int, default=1, metavar="N", help=text)
    text = "times that a block is begun again when its machine is lost (default 3)"
    parser.add_argument("--retries", type=int, default=3, metavar="N", help=text)
    text = "this project at the same path on every machine; without, Ray sends it there"
    parser.add_argument("--shared", metavar="FOLDER", help=text)
    parser.add_argument("--time-limit-s", type=float, metavar="S", help="start nothing that would take longer")
    parser.add_argument("--events", action="store_true", help="JSON lines on standard output, for a program")


def _takes_folders(parser: argparse.ArgumentParser) -> None:
    _takes_study(parser)
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER", help="a machine's data folder, above raw/")


def _takes_study(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("study", help="name of the raw folder, data/raw/<study>")
    parser.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR")


def _takes_edition(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("edition", help="name of the folder, editions/<edition>")
    parser.add_argument("studies", nargs="*", help="studies to publish, in order; none: those of its edition.yaml")
    parser.add_argument("--figures", action="store_true", help="print what prose may quote, and write nothing")
    parser.add_argument("--data-dir", type=Path, default=Path("data"), metavar="DIR")


def _takes_site(parser: argparse.ArgumentParser) -> None:
    text = "folder of the site, replaced if it was one before (default build/site)"
    parser.add_argument("--out", type=Path, default=Path("build/site"), metavar="DIR", help=text)
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


def _takes_switches(parser: argparse.ArgumentParser) -> None:
    text = "level files or level names (default guide.yaml knobs.yaml)"
    parser.add_argument("--levels", nargs="+", default=["guide.yaml", "knobs.yaml"], metavar="NAME", help=text)
    text = 'a card that need not be here, "sm=8.9,memory=24GiB,tp=1"; without, this machine\'s platform'
    parser.add_argument("--as-gpu", metavar="CARD", help=text)
    text = "shape file, folder or hub name (default Qwen3-8B's shape)"
    parser.add_argument("--model", default="notebooks/parameters/models/qwen3-8b.yaml", metavar="MODEL", help=text)
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the resolved set, or the verdicts, as JSON")
    parser.add_argument("--diff", type=Path, metavar="OLD", help="print how it differs from an earlier resolved set")
    parser.add_argument("--json", action="store_true", help="print JSON")
    text = "check a text's claims about vLLM's switches instead (YAML); with --as-gpu, --out and --earlier alone"
    parser.add_argument("--check", type=Path, metavar="CLAIMS", help=text)
    text = "verdicts on these claims that were written before: what was not false then has changed"
    parser.add_argument("--earlier", type=Path, metavar="VERDICTS", help=text)
    text = "the rest of the line: flags of every server"
    parser.add_argument("--vllm-args", nargs=argparse.REMAINDER, default=[], metavar="FLAG", help=text)


def _read_parameters(options: argparse.Namespace) -> Any:  # noqa: ANN401 (Parameters, imported late)
    from study.design.parameters import read_parameters
    from study.design.plain_yaml import parse_yaml

    overrides = {}
    for item in options.set:
        name, equals, value = item.partition("=")
        if not equals:
            raise InputError(f"--set {item!r} needs the form name=value")
        overrides[name] = parse_yaml(value, f"--set {item!r}:")
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


def _fleet(options: argparse.Namespace) -> int:
    from study.design.root import find_root
    from study.fleet.asked import FLEET_NAMES, make_options
    from study.fleet.driver import run_fleet

    chosen = make_options({name: getattr(options, name) for name in (*FLEET_NAMES, "events")})
    return run_fleet(_read_parameters(options), find_root(), chosen)


def _gather(options: argparse.Namespace) -> int:
    from study.gather import gather_study

    print("\n".join(gather_study(_store(options), options.folders)))
    return 0


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
    from study.publish.edition import read_edition
    from study.publish.quotes import list_figures
    from study.publish.republish import publish_edition

    asked = (find_root(), options.edition, options.studies, options.data_dir)
    if options.figures:
        for name, text in list_figures([view.found for view in read_edition(*asked).views]).items():
            print(f"{name}\t{text}")
    else:
        print(publish_edition(*asked))
    return 0


def _site(options: argparse.Namespace) -> int:
    from study.design.root import find_root
    from study.publish.site import build_site

    print(build_site(find_root(), options.out, options.data_dir))
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


def _switches(options: argparse.Namespace) -> int:
    from study.design.card import read_card
    from study.design.root import find_root
    from study.switches import SwitchesOptions, show_switches

    if options.check:
        from study.claims import check_claims_command

        if options.diff or options.json or options.vllm_args:
            raise InputError(
                "--check goes with --as-gpu, --out and --earlier; leave out --diff, --json and --vllm-args"
            )
        return check_claims_command(options.check, options.as_gpu, options.out, options.earlier)
    if options.earlier:
        raise InputError("--earlier goes with --check CLAIMS; an earlier resolved set goes with --diff")
    asked = SwitchesOptions(
        levels=tuple(options.levels),
        card=read_card(options.as_gpu) if options.as_gpu else None,
        model=options.model,
        server_flags=tuple(options.vllm_args),
        out=options.out,
        diff=options.diff,
        json=options.json,
    )
    print(show_switches(asked, find_root()))
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
    ("plan", _plan, _takes_parameters, "print launches, runs, their order and about how long they take"),
    ("run", _run, _takes_run_options, "measure a session; the same command resumes it"),
    ("fleet", _fleet, _takes_fleet, "measure a study on many machines, by Ray; the same command resumes it"),
    ("gather", _gather, _takes_folders, "bring what several machines measured of a study into one raw folder"),
    ("tables", _tables, _takes_study, "build the tables of a study from its raw records"),
    ("decide", _decide, _takes_study, "print what the figures of a study recommend"),
    ("edition", _edition, _takes_edition, "write an edition from studies, beside the edition before it"),
    ("compare", _compare, _takes_sides, "set a study or edition beside another: levels, figures, what holds on both"),
    ("calibrate", _calibrate, _takes_calibration, "simulate studies: how often verdicts err, and what blocks can find"),
    ("site", _site, _takes_site, "build the published site: editions, studies, methods, data; opens from a folder"),
    ("startup", _startup, _takes_log, "read a server's startup log; prints JSON"),
    ("switches", _switches, _takes_switches, "print what levels resolve to in the installed vLLM, on any card"),
    ("check", _check, _takes_study, "verify a raw folder: schema, fingerprints, hashes, completeness"),
)

if __name__ == "__main__":
    sys.exit(main())
