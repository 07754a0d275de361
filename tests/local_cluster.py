"""A Ray cluster of several nodes on this machine, on 127.0.0.1 alone, and how to lose one of them."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

import psutil

from study.fleet.cluster import QUIET, STORE_BYTES


class LocalCluster:
    """Nodes that take one block each; all but the first, which is Ray's head, can be lost."""

    def __init__(self, cluster, nodes):
        self.address = cluster.address
        self._cluster = cluster
        self._nodes = nodes

    def names(self):
        """Return a name for each node: its raylet's process."""
        return {_raylet(node): f"node {place}" for place, node in enumerate(self._nodes, 1)}

    def can_lose(self, node):
        """Whether a node is there and not the head."""
        return node in self._nodes[1:]

    def node_of(self, process):
        """Return the node that a process runs on: its raylet is an ancestor."""
        try:
            above = {parent.pid for parent in process.parents()}
        except psutil.Error:
            return None
        return next((node for node in self._nodes if _raylet(node) in above), None)

    def lose(self, node):
        """Kill a node's raylet at once; its workers end with it."""
        self._nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)


def _raylet(node):
    return node.all_processes["raylet"][0].process.pid


@contextmanager
def start_cluster(nodes, last=None, **environment):
    """Start a cluster; nothing of it stays.

    `last` is what the last node has beside a CPU; `environment` are variables that all nodes have.
    """
    before = dict(os.environ)
    folder = tempfile.mkdtemp(prefix="ray-", dir="/tmp")  # sockets lie in it: a short path
    os.environ.update({**QUIET, "RAY_TMPDIR": folder, **environment})
    try:
        (Path(folder) / "ray").mkdir()
        from ray.cluster_utils import Cluster

        sizes = {"num_cpus": 1, "object_store_memory": STORE_BYTES, "include_dashboard": False}
        cluster = Cluster(initialize_head=True, head_node_args=sizes)
        try:
            own = [{}] * (nodes - 2) + [last or {}]
            others = [cluster.add_node(**sizes, **more) for more in own]
            yield LocalCluster(cluster, [cluster.head_node, *others])
        finally:
            cluster.shutdown()
    finally:
        os.environ.clear()
        os.environ.update(before)
        shutil.rmtree(folder, ignore_errors=True)


def start_fleet(root, parameters, *options, **environment):
    """Start `study fleet` as its own process, which tells events; its errors go to the same pipe."""
    command = [sys.executable, "-m", "study", "fleet", "--parameters", str(parameters), "--events", *options]
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        cwd=root,
        text=True,
        env={**os.environ, **QUIET, **environment},
    )


def marked(mark, words=""):
    """Return the processes whose environment carries a test's mark and whose command has these words."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("STUDY_TEST_MARK") == mark and words in " ".join(process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def block_of(runner):
    """Return which block a runner measures, by the parameters that it was started with; None where it is gone."""
    try:
        words = runner.cmdline()
        return json.loads(Path(words[words.index("--parameters") + 1]).read_text())["seeds"][0]
    except (psutil.Error, OSError, ValueError):
        return None


def find_runner(mark, block):
    """Return the runner that measures a block, None where there is none."""
    runners = (process for process in marked(mark, "study run --parameters") if "--events" in process.cmdline())
    return next((runner for runner in runners if block_of(runner) == block), None)


def wait_until(condition, deadline_s):
    """Wait until a condition holds; return whether it came to."""
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.1)
    return False
