"""The fleet's parts without Ray: what is asked, which blocks are left, what goes along, what a machine does with it."""

import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import psutil
import pytest
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeNvml
from make_records import make_machine, make_run, make_study
from test_arrival import fill, launch_of

from study.__main__ import main
from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.root import find_root
from study.errors import InputError
from study.fleet.asked import FleetOptions, arguments_of, make_options, read_fleet_parameters
from study.fleet.blocks import choose_block, describe_fleet, list_blocks
from study.fleet.cluster import connect
from study.fleet.node import BlockWork, Order, Place, find_difference, find_unit
from study.fleet.orders import OrderBook, Request
from study.fleet.surroundings import is_forwarded, no_signal_blocked, own_environment
from study.measure.cards import open_cards
from study.measure.gpu import GpuReader
from study.measure.machine import read_machine
from study.store import Store

ROOT = find_root(Path(__file__).parent)
LEVELS = (Level(name="default", fills_caches=True), Level(name="O0"))


def asked(**values):
    return make_parameters({"study": "test", "model": "org/m", "users": [1], "seeds": [1, 2, 3], **values})


def blocks(records=None, options=None, **values):
    return list_blocks(asked(**values), LEVELS, records, options or FleetOptions())


# What is asked.


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"blocks_per_node": 0}, "blocks_per_node 0 does not fit; a whole number from 1"),
        ({"retries": -1}, "retries -1 does not fit"),
        ({"retries": True}, "retries True does not fit"),
        ({"address": "ray://head:10001"}, "is Ray's client port; start the fleet on a machine of the cluster"),
        ({"shared": "/mnt/study"}, "shared '/mnt/study' goes with --address"),
    ],
)
def test_options_that_do_not_fit_are_refused(values, named):
    with pytest.raises(InputError, match=named):
        make_options(values)


def test_the_command_line_takes_what_the_notebook_asks_for():
    options = make_options({"address": "auto", "accelerator_type": ["H200", "L4"], "retries": 1, "time_limit_s": 5.5})
    taken = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("study.fleet.driver.run_fleet", lambda parameters, root, chosen: taken.update(o=chosen) or 0)
        parameters = ["--parameters", str(ROOT / "notebooks/parameters/rehearsal.yaml")]
        assert main(["fleet", *parameters, *arguments_of(options)]) == 0
    assert taken["o"] == options


def test_the_notebook_has_the_options_and_then_every_parameter_of_a_study():
    cells = {}
    for name in ("run_fleet", "run_session"):
        notebook = nbformat.read(ROOT / f"notebooks/{name}.ipynb", as_version=4)
        cells[name] = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", [])).source
    assert cells["run_fleet"].endswith(cells["run_session"])
    namespace = {}
    exec(cells["run_fleet"], namespace)
    del namespace["__builtins__"]
    parameters, options = read_fleet_parameters({**namespace, "study": "s", "model": "m"})
    assert options == FleetOptions()
    assert parameters == make_parameters({"study": "s", "model": "m"})


def test_a_wrong_name_in_the_notebook_is_refused():
    with pytest.raises(InputError, match="parameter 'adress' is unknown"):
        read_fleet_parameters({"study": "s", "model": "m", "adress": "auto"})


def test_without_ray_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    refused = pytest.raises(InputError, match=r"Ray is not installed; `pip install \.\[fleet\]`")
    with refused, connect(FleetOptions(), ROOT):
        pass


def test_an_address_where_nothing_answers_is_refused_at_once():
    refused = pytest.raises(InputError, match=r"address '127\.0\.0\.1:1': nothing answers there")
    with refused, connect(FleetOptions(address="127.0.0.1:1"), ROOT):
        pass


# Blocks.


def test_a_block_is_one_seed_with_every_level():
    found = blocks()
    assert [(block.number, block.parameters.seeds, block.cards, block.launches) for block in found] == [
        (1, [1], 1, 3),
        (2, [2], 1, 3),
        (3, [3], 1, 3),
    ]


def test_without_fresh_servers_there_is_one_block_of_all_seeds():
    (block,) = blocks(fresh_server_per_seed=False)
    assert block.parameters.seeds == [1, 2, 3]


def test_tensor_parallel_sizes_are_numbers_of_cards():
    assert {block.cards for block in blocks(server_flags=["--tensor-parallel-size", "4", "-pp", "2"])} == {8}
    assert {block.cards for block in blocks(device="cpu")} == {0}


def test_kinds_of_card_are_dealt_in_turn_and_a_block_keeps_its_kind():
    options = FleetOptions(accelerator_type=("H200", "L4"))
    assert [(block.number, block.kind) for block in blocks(options=options)] == [(1, "H200"), (2, "L4"), (3, "H200")]
    launches = [launch_of(level, 1) for level in ("default", "O0")]
    records = make_study(launches, [make_run(launch) for launch in launches])
    assert [(block.number, block.kind) for block in blocks(records, options)] == [(2, "L4"), (3, "H200")]


def test_a_block_that_two_cards_did_half_each_is_left():
    halves = [launch_of("default", 1), launch_of("O0", 1, machine=make_machine(gpu_uuid="GPU-2"))]
    records = make_study(halves, [make_run(launch) for launch in halves])
    assert [block.number for block in blocks(records)] == [1, 2, 3]


def test_a_card_by_name_is_refused():
    with pytest.raises(InputError, match="gpu 'GPU-1' names a card of one machine; leave it out"):
        blocks(gpu="GPU-1")


def test_the_plan_says_blocks_cards_and_time():
    lines = describe_fleet("test", blocks(options=FleetOptions(accelerator_type=("H200",))), places=2)
    minutes = blocks()[0].estimate_s / 60
    assert lines[0] == (
        f"study test: 3 blocks to measure, each on one machine; 2 at once, about {2 * minutes:.0f} minutes"
    )
    assert lines[1].endswith("block 1  3 launches on 1 H200 GPU")


def numbered(number, cards=1, kind=None):
    return replace(blocks()[0], number=number, cards=cards, kind=kind)


@pytest.mark.parametrize(
    ("begun", "unit", "chosen"),
    [
        ({}, "GPU-1", 1),
        ({2: {"GPU-1"}}, "GPU-1", 2),  # its own before one that nobody began
        ({1: {"GPU-2"}}, "GPU-1", 2),  # what another card began can wait for it
        ({1: {"GPU-2"}, 2: {"GPU-2"}, 3: {"GPU-2"}}, "GPU-1", 1),  # which may never come back
        ({1: {"GPU-2"}, 2: {"GPU-2"}, 3: {"GPU-2", "GPU-1"}}, "GPU-1", 3),
        ({2: {"GPU-1"}}, None, 1),  # a card that did not answer
    ],
)
def test_a_place_takes_the_block_that_its_card_began(begun, unit, chosen):
    assert choose_block([numbered(1), numbered(2), numbered(3)], begun, unit).number == chosen


def test_a_place_takes_no_block_that_asks_for_something_else():
    waiting = [numbered(1), numbered(2, kind="L4"), numbered(3, cards=2)]
    assert choose_block(waiting, {2: {"GPU-1"}, 3: {"GPU-1"}}, "GPU-1").number == 1


def test_cards_are_called_as_records_call_them():
    two = FakeNvml(FakeCard(uuid=UUID, index=0), FakeCard(uuid=OTHER_UUID, index=1))

    def open_gpu(name):
        return GpuReader.open(name, two, {})

    with open_cards([0, 1], 2, open_gpu) as readers:
        recorded = read_machine("cuda", readers).unit
    assert find_unit((1, 0), open_gpu) == recorded
    assert find_unit((2,), open_gpu) is None
    assert two.open == 0
    assert find_unit(()) == read_machine("cpu", None).unit


# What goes along, and what a machine does with it.


def test_a_servers_environment_is_the_drivers_without_what_ray_sets():
    here = {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "0", "RAY_JOB_ID": "1", "PATH": "/bin", "VLLM_X": "node"}
    assert own_environment(here) == {"PATH": "/bin"}
    assert [name for name in here if is_forwarded(name)] == ["OMP_NUM_THREADS", "VLLM_X"]


def test_what_ray_does_to_its_threads_reaches_no_process_that_is_started_there():
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        with no_signal_blocked():
            child = subprocess.run(["grep", "SigBlk", "/proc/self/status"], capture_output=True, text=True, check=True)
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    assert int(child.stdout.split()[1], 16) == 0


def test_a_low_priority_is_mended_or_told():
    code = "import os; os.nice(5); from study.fleet.surroundings import be_ordinary; print(be_ordinary(), os.nice(0))"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    refused = "Ray runs its work here at niceness 5: start it with RAY_worker_niceness=0"
    told = "None 0" if os.geteuid() == 0 else refused
    assert child.stdout.startswith(told)


def test_a_version_that_differs_is_named():
    assert find_difference({"vllm": "0.31.0"}, {"vllm": "0.31.0", "torch": "2"}) is None
    assert find_difference({"vllm": "0.31.0"}, {"vllm": "0.30.0"}) == (
        "vllm 0.30.0, the machine that asks has 0.31.0; install the same on every machine"
    )
    assert find_difference({"torch": "2"}, {}).startswith("no torch, the machine that asks has 2")


def test_a_machine_of_other_versions_measures_nothing():
    order = Order("{}", "test", {}, {}, {"vllm": "0.0.1"})
    (ended,) = BlockWork().measure(order, Place("10.0.0.4"))
    assert (ended.code, ended.left) == (2, None)
    assert ended.message.startswith("10.0.0.4 has ")


@pytest.mark.usefixtures("fake_vllm")
def test_what_the_runner_refuses_is_told_in_its_own_line(small_study):
    parameters = make_parameters({**small_study, "model": "./nowhere"})
    order = Order(parameters.model_dump_json(), "small", {}, {}, {}, str(ROOT))
    ended = list(BlockWork().measure(order, Place("here")))[-1]
    assert (ended.code, ended.left) == (2, None)
    assert ended.message.startswith("model './nowhere' is no folder")


@pytest.mark.usefixtures("fake_vllm")
def test_a_runner_that_was_killed_is_no_refusal(small_study):
    order = Order(make_parameters(small_study).model_dump_json(), "small", {}, {}, {}, str(ROOT))
    work = BlockWork().measure(order, Place("here"))
    next(work)
    me = psutil.Process()
    runner = next(child for child in me.children() if "study run --parameters" in " ".join(child.cmdline()))
    runner.kill()
    ended = list(work)[-1]
    assert (ended.code, ended.left, ended.message) == (-9, None, "the runner was killed by signal 9")


def test_a_block_takes_its_own_records_the_fills_and_one_launch_of_each_card(tmp_path):
    store = Store(tmp_path, "test")
    book = OrderBook(Request(asked(), FleetOptions(), ROOT), store)
    launches = [launch_of("O0", 1), launch_of("default", 1), launch_of("O0", 2), fill()]
    with store.lock():
        for record in (*launches, make_run(launches[0]), make_run(launches[2])):
            store.write(record)
    for launch in launches[:3]:
        book.know(launch)
    block = blocks()[0]
    own = {"launch-b1-O0-a1.json", "launch-b1-default-a1.json", "run-b1-O0-u1-a1.json", "launch-fill-default-a1.json"}
    # the last one known of this card, whose gate has a temperature
    assert set(book.make(block).records) == own | {"launch-b2-O0-a1.json"}
