"""`make growth`: build simulated studies of 100, 1,000 and 10,000 runs, and say how time and memory grow.

    python -m tests.growth [--sizes N ...] [--folder DIR] [--json FILE] [--figure FILE.png]

Exit code 1 if growth is not linear, a bound is broken, or a second build gives other bytes.
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

from .campaign import judge, measure_size, tabulate, to_json
from .figure import draw_growth


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m tests.growth", description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000], metavar="N", help="runs, by 20")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="build here (default: a temporary folder)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw them there, as PNG")
    options = parser.parse_args(arguments)
    sizes = []
    with tempfile.TemporaryDirectory(prefix="growth-") as temporary:
        for runs in sorted(options.sizes):
            sizes.append(measure_size((options.folder or Path(temporary)).resolve() / str(runs), runs))
            print("\n".join(tabulate(sizes)[: len(sizes) + 1][-1:]), flush=True)
    print("\n".join(tabulate(sizes)))
    growth, wrong = judge(sizes)
    for name, value in growth.items():
        print(f"{name} grows with power {value:.2f} of the runs")
    print("\n".join(wrong) if wrong else "growth is linear, every bound is kept, second builds give the same bytes")
    if options.json:
        options.json.write_text(json.dumps(to_json(sizes), indent=1) + "\n")
    if options.figure:
        draw_growth(sizes).savefig(options.figure, dpi=130, facecolor="white", metadata={"Software": None})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
