"""A fleet of three local nodes on the real vLLM (CPU backend), one of them killed in the middle of a launch.

    python -m tests.fleet_rehearsal [--at-once N] [--keep FOLDER]

Two levels, three blocks, one and two users. It ends well only if the tables are complete all the same: every level in
every block, nothing of the launch that was lost, and `study check` clean. Prints blocks, nodes and tries. A rehearsal:
its records say so, and nothing of it is a result.
"""

import argparse
import json
import re
import sys
import tempfile
import time
import uuid
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from local_cluster import find_runner, start_cluster, start_fleet  # noqa: E402

from study.check import check_study  # noqa: E402
from study.design.parameters import read_parameters  # noqa: E402
from study.publish.study_view import ViewOptions, read_view  # noqa: E402
from study.store import Store  # noqa: E402

NODES = 3
STUDY = "rehearsal-fleet"
SMALL = {"study": STUDY, "levels": ["O0", "eager"], "users": [1, 2], "seeds": [1, 2, 3], "waves": 4}
RUN = re.compile(r"block (\d+), (\w+), \d+ users")


def main(arguments):
    """Run the rehearsal; return 0 where the study is whole."""
    parser = argparse.ArgumentParser(prog="python -m tests.fleet_rehearsal", description=__doc__.splitlines()[0])
    parser.add_argument("--at-once", type=int, default=NODES, metavar="N", help="nodes, and so blocks at once (2 or 3)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the records here")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="fleet-") as made:
        return rehearse((options.keep or Path(made)).resolve(), options.at_once)


def rehearse(folder, nodes):
    """Measure the study into a folder, lose a node on the way, and judge what there is."""
    began = time.monotonic()
    values = read_parameters(ROOT / "notebooks/parameters/rehearsal.yaml", {**SMALL, "data_dir": str(folder)})
    file = folder / "parameters.json"
    file.write_text(values.model_dump_json(), encoding="utf-8")
    mark = f"fleet-{uuid.uuid4().hex}"
    with start_cluster(nodes, STUDY_TEST_MARK=mark) as cluster:
        fleet = start_fleet(ROOT, file, "--address", cluster.address, STUDY_TEST_MARK=mark)
        with fleet:
            tale = follow(fleet, cluster, mark)
            code = fleet.wait()
    print(f"\n{render(tale)}\n")
    store = Store(folder, STUDY)
    problems = [*check_study(store), *(["the fleet ended with code " + str(code)] if code else []), *judge(store, tale)]
    for problem in problems:
        print(f"WRONG: {problem}")
    seconds = time.monotonic() - began
    print(f"{'not whole' if problems else 'every level is in every block'}; {seconds:.0f} s; a rehearsal, no result")
    return 1 if problems else 0


def follow(fleet, cluster, mark):
    """Print what the fleet tells, and lose a node after the first run that it made; return what happened."""
    tale = {"tries": [], "lost": None}
    names = cluster.names()
    for line in fleet.stdout:
        if not line.startswith("{"):
            print(line, end="", flush=True)
            continue
        message = json.loads(line)["message"]
        print(message, flush=True)
        took = re.match(r"block (\d+): on ", message)
        if took:
            tale["tries"].append([int(took[1]), None, "complete"])
        told = RUN.search(message)
        runner = find_runner(mark, int(told[1])) if told else None
        node = cluster.node_of(runner) if runner else None
        if node is None:
            continue
        latest = [one for one in tale["tries"] if one[0] == int(told[1])][-1]
        latest[1] = names[node.all_processes["raylet"][0].process.pid]
        if tale["lost"] is None and cluster.can_lose(node):
            latest[2] = f"killed in the middle of {told[2]}"
            cluster.lose(node)
            tale["lost"] = (int(told[1]), told[2], time.time())
            print(f"--- {latest[1]} is killed", flush=True)
    return tale


def render(tale):
    """Return the table of blocks, nodes and tries."""
    rows = ["block  try  node    end"]
    for place, (block, node, end) in enumerate(tale["tries"]):
        attempt = sum(one[0] == block for one in tale["tries"][: place + 1])
        rows.append(f"{block:>5}  {attempt:>3}  {node or '?':<6}  {end}")
    return "\n".join(rows)


def judge(store, tale):
    """Yield what is wrong with the study: something lacking, or something of the lost launch."""
    records = store.read()
    wanted = {(seed, level, users) for seed in SMALL["seeds"] for level in SMALL["levels"] for users in SMALL["users"]}
    made = [(run.seed, run.level, run.users) for run in records.runs if run.outcome.status == "ok"]
    for what in sorted(wanted - set(made)):
        yield f"no run of block {what[0]}, {what[1]}, {what[2]} users"
    if len(made) != len(set(made)):
        yield "a run was made twice"
    if tale["lost"] is None:
        yield "no node was killed"
        return
    block, level, lost_unix_s = tale["lost"]
    for run in records.runs:
        if (run.block, run.level) == (block, level) and run.started_unix_s < lost_unix_s:
            yield f"run {run.run_id} is of the launch that was lost"
    view = read_view(ROOT, store, ViewOptions())
    tables = [path.name for path in view.write_tables()]
    print(f"tables: {', '.join(tables)}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
