"""Fleets on a real Ray cluster of three nodes, with the stand-in for vLLM: a node and a driver die on the way."""

import json
import os
import re
import signal
import time
import uuid
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from conftest import TESTS
from local_cluster import find_runner, marked, start_cluster, start_fleet, wait_until

from study.check import check_study
from study.design.parameters import make_parameters
from study.fleet.asked import FleetOptions
from study.fleet.blocks import Block
from study.fleet.cluster import connect
from study.store import Store

ROOT = Path(__file__).parents[1]
TWO_CARDS = {"num_gpus": 2, "resources": {"accelerator_type:H200": 1}}
LONG_S = 150.0
"""Longer than any of this takes on a busy machine."""


@pytest.fixture(scope="module")
def mark():
    return f"fleet-{uuid.uuid4().hex}"


@pytest.fixture(scope="module")
def environment(mark):
    return {"PYTHONPATH": str(TESTS / "fake_vllm"), "STUDY_TEST_MARK": mark}


@pytest.fixture(scope="module")
def cluster(environment):
    with start_cluster(3, TWO_CARDS, **environment) as started:
        yield started


def write(small_study, tmp_path, **values):
    file = tmp_path / "parameters.yaml"
    file.write_text(json.dumps({**small_study, **values}))
    return file


def read(small_study):
    store = Store(Path(small_study["data_dir"]), "small")
    return store, store.read()


def events(fleet):
    """Yield what the fleet tells; what is no event is an error, which ends the test."""
    for line in fleet.stdout:
        assert line.startswith("{"), line + fleet.stdout.read()
        yield json.loads(line)


def rest_of(fleet):
    told = [event["message"] for event in events(fleet)]
    fleet.stdin.close()
    fleet.stdout.close()
    return fleet.wait(timeout=LONG_S), told


def runners(mark):
    return marked(mark, "study run --parameters")


def servers(mark):
    return marked(mark, "vllm.entrypoints")


def done(records):
    return sorted((run.seed, run.level, run.users) for run in records.runs if run.outcome.status == "ok")


def test_a_block_has_its_cards_and_its_machine_for_itself(cluster):
    """What Ray is asked for; the cards are only said to be there."""
    parameters = make_parameters({"study": "s", "model": "m"})
    one, other = (Block(number, parameters, cards=1, kind="H200", launches=1, estimate_s=1.0) for number in (1, 2))
    both = replace(one, cards=2)
    options = FleetOptions(address=cluster.address, shared=str(ROOT))
    with connect(options, ROOT) as machines:
        assert machines.list_kinds() == ["H200"]
        wanted = (one, both, replace(one, cards=3), replace(one, kind="L4"), replace(one, cards=0, kind=None))
        assert [machines.count_places(block) for block in wanted] == [1, 1, 0, 0, 3]
        first = machines.submit(one)
        assert machines.wait([first], LONG_S) is first
        assert len(machines.next_message(first).gpus) == 1
        second = machines.submit(other)  # there is another card, on the same machine
        assert machines.wait([second], 3.0) is None
        machines.drop(first)
        assert machines.wait([second], LONG_S) is second
        machines.drop(second)
        third = machines.submit(both)
        machines.wait([third], LONG_S)
        assert sorted(machines.next_message(third).gpus) == [0, 1]


def test_a_node_that_is_killed_costs_its_launch_and_the_study_is_whole(
    cluster, environment, mark, small_study, tmp_path
):
    file = write(small_study, tmp_path, seeds=[1, 2])
    fleet = start_fleet(ROOT, file, "--address", cluster.address, **environment, OMP_NUM_THREADS="7")
    told = []
    for event in events(fleet):
        told.append(event["message"])
        block = re.search(r"block (\d+), (\w+), \d users", event["message"])  # one of a launch's two runs is over
        runner = find_runner(mark, int(block[1])) if block else None
        node = cluster.node_of(runner) if runner else None
        if node is not None and cluster.can_lose(node):
            cluster.lose(node)
            break
    lost_unix_s = time.time()
    code, rest = rest_of(fleet)
    assert code == 0, told + rest
    assert any("begun again, try 2 of 4" in message for message in rest), rest
    store, records = read(small_study)
    assert done(records) == [
        (seed, level, users) for seed in (1, 2) for level in ("O0", "default") for users in (1, 2)
    ]
    assert check_study(store) == []
    launches = {launch.launch_id: launch for launch in records.launches}
    assert {launch.outcome.status for launch in launches.values()} == {"ok"}
    assert {len([run for run in records.runs if run.launch_id == one.launch_id]) for one in launches.values()} == {0, 2}
    # The launch in hand was lost as a whole: what is there of it was made from the beginning, after that.
    again = launches[f"b{block[1]}-{block[2]}-a1"]
    assert again.spawn_unix_s > lost_unix_s
    assert min(run.started_unix_s for run in records.runs if run.launch_id == again.launch_id) > again.spawn_unix_s
    # Ray blocks signals in its threads and sets OMP_NUM_THREADS=1: none of that reaches a server.
    assert {launch.stopped_by for launch in launches.values()} == {"SIGINT"}
    assert {launch.environment["OMP_NUM_THREADS"] for launch in launches.values()} == {"7"}
    assert not [name for name in again.environment if name.startswith("RAY_")]
    raw = Path(small_study["data_dir"]) / "raw/small"
    assert [path.name for path in raw.iterdir() if path.name.startswith(".")] == [".lock"]
    assert wait_until(lambda: not servers(mark) and not runners(mark), 10)


def test_a_driver_that_is_killed_leaves_no_server_and_the_same_command_goes_on(
    cluster, environment, mark, small_study, tmp_path
):
    file = write(small_study, tmp_path, users=[1])
    fleet = start_fleet(ROOT, file, "--address", cluster.address, **environment)
    for event in events(fleet):
        if event["message"].startswith("stored b1-"):
            break
    fleet.send_signal(signal.SIGKILL)
    fleet.wait()
    fleet.stdin.close()
    fleet.stdout.close()
    assert wait_until(lambda: not servers(mark) and not runners(mark), 30)
    _, before = read(small_study)
    kept = {run.run_id for run in before.runs}
    assert len(kept) == 1
    code, told = rest_of(start_fleet(ROOT, file, "--address", cluster.address, **environment))
    assert code == 0, told
    store, records = read(small_study)
    assert done(records) == [(1, "O0", 1), (1, "default", 1)]
    assert kept <= {run.run_id for run in records.runs}
    assert check_study(store) == []
    assert len(records.sessions) == 1


def test_one_machine_needs_no_cluster_listens_on_loopback_alone_and_ends_in_order(
    environment, mark, small_study, tmp_path
):
    file = write(small_study, tmp_path, levels=["O0"], users=[1, 2, 3, 4, 5, 6, 7, 8])
    fleet = start_fleet(ROOT, file, **environment)
    for event in events(fleet):
        if event["event"] == "run" and event["message"].endswith(" users"):
            break
    ray = [child for child in psutil.Process(fleet.pid).children(recursive=True) if "ray" in child.name().lower()]
    listening = {
        connection.laddr.ip
        for process in [*ray, psutil.Process(fleet.pid)]
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    fleet.send_signal(signal.SIGINT)
    code, told = rest_of(fleet)
    assert listening <= {"127.0.0.1", "::ffff:127.0.0.1", "::1"}
    assert listening
    assert code == 1
    assert told[-1].endswith("ended early, everything measured is kept; the same command resumes"), told
    store, records = read(small_study)
    (launch,) = records.launches
    assert launch.outcome.status == "interrupted"
    assert "ok" in {run.outcome.status for run in records.runs}  # the run that was made is kept
    assert check_study(store) == []
    assert wait_until(lambda: not servers(mark) and not runners(mark), 10)
    assert wait_until(lambda: not [process for process in ray if process.is_running()], 20)
    assert not list(Path("/tmp").glob(f"study-ray-*{os.getpid()}*"))
