"""`make bench`: how long the study takes beside vLLM's own sweep, and what its sampler costs.

    python -m tests.bench [overhead] [--first ours|sweep] [--json FILE] [--folder DIR]
    python -m tests.bench sampling [--parameters FILE] [--pairs N] [--json FILE] ...

`overhead` runs one matrix on vLLM's CPU backend through the study and through `vllm bench sweep serve`, one after the
other: same model, server flags, requests and repeats. It needs a quiet machine and about five minutes. `sampling`
measures the sampler alone, beside a paced stand-in for a server, and beside a real server, where runs with and without
it alternate. Neither is a timed test: a bound that is missed is said, and the exit code is 1 only if a side failed.
"""

import argparse
import sys
from pathlib import Path

from .overhead import bench_overhead
from .sampling import Sampling, bench_sampling
from .sides import BenchError

PARTS = ("sampler", "paced", "server")


def make_parser():
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command")
    for name, text in (("overhead", "beside vLLM's own sweep"), ("sampling", "what the sampler costs and disturbs")):
        sub = commands.add_parser(name, help=text, description=text)
        sub.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    overhead, sampling = (commands.choices[name] for name in ("overhead", "sampling"))
    text = "which side goes first (default ours: who is first finds the page cache cold)"
    overhead.add_argument("--first", choices=("ours", "sweep"), default="ours", help=text)
    overhead.add_argument("--folder", type=Path, metavar="DIR", help="keep records and results there")
    text = "a study's parameters for the real server (default: the rehearsal's)"
    sampling.add_argument("--parameters", type=Path, metavar="FILE", help=text)
    sampling.add_argument("--level", help="the server's level (default: default on a card, O0 on the CPU backend)")
    sampling.add_argument("--users", type=int, default=1)
    sampling.add_argument("--pairs", type=int, default=10, help="runs with and without the sampler (default 10 pairs)")
    sampling.add_argument("--run-s", type=float, default=10.0, metavar="S", help="length of a run (default 10)")
    sampling.add_argument("--data-dir", type=Path, metavar="DIR", help="keep records there, and resume from them")
    sampling.add_argument("--only", choices=PARTS, help="one part alone (default: all three)")
    return parser


def main(arguments=None):
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = make_parser()
    options = parser.parse_args(given if given and given[0] in ("sampling", "overhead", "-h", "--help") else
                                ["overhead", *given])
    try:
        if options.command == "overhead":
            return bench_overhead(options.first, options.folder, options.json)
        parts = (options.only,) if options.only else PARTS
        asked = Sampling(
            parameters=options.parameters,
            level=options.level,
            users=options.users,
            pairs=options.pairs,
            run_s=options.run_s,
            data_dir=options.data_dir,
        )
        return bench_sampling(asked, parts, options.json)
    except BenchError as error:
        print(f"bench: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
