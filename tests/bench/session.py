"""A session of the study that leaves out what a benchmark of it must: `python -m tests.bench.session` < JSON line.

The line holds `parameters` and `left_out` (waves by users, seeds without a sampler). Everything else is
`python -m study run --events`: standard input stays open as long as the benchmark lives.
"""

import json
import os
import sys

from study.design.parameters import make_parameters
from study.design.root import find_root
from study.errors import StudyError
from study.measure.left_out import LeftOut
from study.runner import RunOptions, run_session


def read_line():
    """Read the first line of standard input, and nothing behind it: the runner watches for its end."""
    line = b""
    while not line.endswith(b"\n"):
        line += os.read(0, 1) or sys.exit("no parameters came")
    return json.loads(line)


def main():
    asked = read_line()
    waves = asked["left_out"].get("waves")
    left_out = LeftOut(
        waves={int(users): count for users, count in waves.items()} if waves else None,
        unsampled_seeds=frozenset(asked["left_out"].get("unsampled_seeds", ())),
    )
    options = RunOptions(events=True, left_out=left_out)
    try:
        return run_session(make_parameters(asked["parameters"]), find_root(), options)
    except StudyError as error:
        print(f"study: {error}", file=sys.stderr)
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
