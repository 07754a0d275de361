"""`make chaos`: kill processes of real sessions at random, resume, and count what was lost.

    python -m tests.chaos [--fake] [--json FILE] [--folder DIR]

`CHAOS_SEED`, `CHAOS_FAULTS` and `CHAOS_MINUTES` choose the campaign. Exit code 1 if anything was lost, done twice,
orphaned or left.
"""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

from .campaign import Campaign, is_clean, run_campaign


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__.splitlines()[0])
    parser.add_argument("--fake", action="store_true", help="on the stand-in for vLLM: seconds a fault, no figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there too")
    parser.add_argument("--folder", type=Path, metavar="DIR", help="keep records here (default: a temporary folder)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-") as temporary:
        campaign = Campaign(
            fake=options.fake,
            folder=(options.folder or Path(temporary)).resolve(),
            seed=int(os.environ.get("CHAOS_SEED", "1")),
            faults=int(os.environ.get("CHAOS_FAULTS", "100" if options.fake else "20")),
            minutes=float(os.environ.get("CHAOS_MINUTES", "40")),
        )
        table = run_campaign(campaign, lambda line: print(line, flush=True))
    if options.json:
        options.json.write_text(json.dumps(table, indent=1) + "\n")
    width = max(map(len, table["faults"]), default=0)
    for kind, count in table["faults"].items():
        print(f"  {kind:{width}}  {count}")
    for name, value in table.items():
        if name not in ("campaign", "faults", "wrong"):
            print(f"{name.replace('_', ' '):24}{value}")
    print("\n".join(table["wrong"]) if table["wrong"] else "nothing was lost, done twice, orphaned or left")
    return 0 if is_clean(table) and table["injected"] else 1


if __name__ == "__main__":
    sys.exit(main())
