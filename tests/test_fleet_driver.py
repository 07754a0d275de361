"""What the fleet's driver decides, on a cluster that follows a script."""

from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from make_records import make_machine, make_run
from test_arrival import files_of, launch_of
from test_fleet_parts import asked

from study.design.parameters import fingerprint
from study.design.root import find_root
from study.errors import InputError
from study.fleet.asked import FleetOptions
from study.fleet.cluster import LostError, Running
from study.fleet.driver import run_fleet
from study.fleet.node import Brought, Ended, Order, Place
from study.store import Store

ROOT = find_root(Path(__file__).parent)


@dataclass
class ScriptedCluster:
    """Each submission of a block tells the next list of its script: messages, or errors."""

    scripts: dict[int, list[list[object]]]
    places: int = 1
    orders: list[tuple[int, Order]] = field(default_factory=list)
    ended: list[int] = field(default_factory=list)
    dropped: list[int] = field(default_factory=list)

    def count_places(self, _block):
        return self.places

    def list_kinds(self):
        return []

    def submit(self, block):
        return Running(block, None, iter(self.scripts[block.number].pop(0)))

    def begin(self, running, order):
        self.orders.append((running.block.number, order))

    def wait(self, running, _timeout_s):
        return running[0]

    def next_message(self, running):
        message = next(running.answer, None)
        if isinstance(message, Exception):
            raise message
        if isinstance(message, Place):
            running.place = message
        return message

    def end(self, running):
        self.ended.append(running.block.number)

    def drop(self, running):
        self.dropped.append(running.block.number)


def drive(tmp_path, scripts, seeds=(1,), users=(1,), **options):
    """Run the driver; returns its exit code, the cluster, and the store."""
    cluster = ScriptedCluster(scripts, places=options.pop("places", 1))
    given = {"users": list(users), "seeds": list(seeds), "data_dir": str(tmp_path)}
    values = {"levels": ["O0"], "server_flags": [], **given}
    parameters = asked(**values)
    code = run_fleet(parameters, ROOT, FleetOptions(**options), lambda _options, _root: nullcontext(cluster))
    return code, cluster, Store(tmp_path, "test")


def brought(block, **fields):
    """A launch of the parameters that `drive` asks for, with its run."""
    comparable = asked(levels=["O0"], users=[1]).comparable()
    launch = launch_of("O0", block, comparable=comparable, fingerprint=fingerprint(comparable), **fields)
    return Brought(files_of(launch, make_run(launch)))


HERE = Place("10.0.0.4", (0,))
DONE = Ended(0, 0, "the plan is complete")
STOPPED = Ended(0, 1, "the time limit came; the same command goes on")
LOST = LostError("NodeDiedError: the node is dead")


def test_what_comes_back_is_stored_and_a_complete_study_ends_well(tmp_path, capsys):
    code, _, store = drive(tmp_path, {1: [[HERE, brought(1), DONE]], 2: [[HERE, brought(2), DONE]]}, (1, 2))
    assert code == 0
    assert {run.seed for run in store.read().runs} == {1, 2}
    assert capsys.readouterr().out.splitlines()[-1] == (
        "2 launches and 2 runs came back, 0 failed; every block is complete"
    )


def test_a_complete_study_asks_for_no_machine(tmp_path):
    drive(tmp_path, {1: [[HERE, brought(1), DONE]]})
    code, cluster, _ = drive(tmp_path, {}, places=0)
    assert (code, cluster.orders) == (0, [])


def test_a_lost_block_is_begun_again_with_what_it_had_brought(tmp_path, capsys):
    code, cluster, store = drive(tmp_path, {1: [[HERE, brought(1), LOST], [Place("10.0.0.5"), DONE]]})
    assert code == 0
    assert [set(order.records) for _, order in cluster.orders] == [
        set(),
        {"launch-b1-O0-a1.json", "run-b1-O0-u1-a1.json"},
    ]
    said = capsys.readouterr().out
    assert "block 1: lost on 10.0.0.4 (NodeDiedError: the node is dead); begun again, try 2 of 4" in said
    assert len(store.read().launches) == 1


def test_each_card_goes_on_with_the_block_that_it_began(tmp_path, capsys):
    """Two machines had begun a block each when the fleet was ended; they come back in the other order."""
    first, second = (make_machine(gpu_uuid=f"GPU-{number}") for number in (1, 2))
    began = {1: [[HERE, brought(1, machine=first), STOPPED]], 2: [[HERE, brought(2, machine=second), STOPPED]]}
    drive(tmp_path, began, (1, 2), users=(1, 2))
    at = {number: Place(f"10.0.0.{number}", (0,), f"GPU-{number}") for number in (1, 2)}
    code, cluster, _ = drive(tmp_path, {1: [[at[2], STOPPED]], 2: [[at[1], STOPPED]]}, (1, 2), users=(1, 2))
    assert code == 0
    runs = [(number, [name for name in order.records if name.startswith("run-")]) for number, order in cluster.orders]
    assert runs == [(2, ["run-b2-O0-u1-a1.json"]), (1, ["run-b1-O0-u1-a1.json"])]
    said = capsys.readouterr().out
    assert "block 2: on 10.0.0.2, GPU 0, goes on" in said
    assert "block 1: on 10.0.0.1, GPU 0, goes on" in said


def test_a_block_that_another_card_began_is_begun_again_last_and_said_so(tmp_path, capsys):
    other = make_machine(gpu_uuid="GPU-9")
    drive(tmp_path, {1: [[HERE, brought(1, machine=other), STOPPED]]}, users=(1, 2))
    here = Place("10.0.0.4", (0,), "GPU-1")
    _, cluster, _ = drive(tmp_path, {1: [[here, STOPPED]], 2: [[here, STOPPED]]}, (1, 2), users=(1, 2))
    assert [number for number, _ in cluster.orders] == [2, 1]
    said = capsys.readouterr().out
    assert "block 1: on 10.0.0.4, GPU 0, begins it again: another card began it" in said
    assert "block 2: on 10.0.0.4, GPU 0\n" in said


def test_a_block_that_is_lost_too_often_is_given_up(tmp_path, capsys):
    code, cluster, _ = drive(tmp_path, {1: [[HERE, LOST]] * 3, 2: [[HERE, brought(2), DONE]]}, (1, 2), retries=2)
    assert code == 1
    assert [number for number, _ in cluster.orders].count(1) == 3
    assert "given up: block 1" in capsys.readouterr().out


def test_a_runner_that_failed_is_tried_again(tmp_path):
    failed = Ended(1, 1, "some launches were killed from outside")
    code, cluster, _ = drive(tmp_path, {1: [[HERE, failed], [HERE, brought(1), DONE]]})
    assert (code, len(cluster.orders)) == (0, 2)


def test_a_stream_that_ends_without_a_word_is_a_lost_block(tmp_path):
    code, cluster, _ = drive(tmp_path, {1: [[HERE], [HERE, brought(1), DONE]]})
    assert (code, len(cluster.orders)) == (0, 2)


def test_a_refusal_ends_the_fleet_in_order_with_its_line(tmp_path):
    refused = Ended(2, None, "model './x' is no folder")
    scripts = {1: [[HERE, refused]], 2: [[HERE, brought(2), DONE]], 3: [[HERE]]}
    with pytest.raises(InputError, match=r"block 1: model '\./x' is no folder"):
        drive(tmp_path, scripts, (1, 2, 3))


def test_a_launch_that_does_not_belong_ends_the_fleet_and_what_came_before_stays(tmp_path):
    twin = brought(1, spawn_s=801.0)
    with pytest.raises(InputError, match="two machines made launch 'b1-O0-a1'"):
        drive(tmp_path, {1: [[HERE, brought(1), twin, DONE]]})
    assert [launch.spawn_s for launch in Store(tmp_path, "test").read().launches] == [800.0]


def test_after_the_time_limit_a_block_that_waits_is_given_up_without_a_try(tmp_path, capsys):
    code, cluster, _ = drive(tmp_path, {1: [[HERE, brought(1), DONE]]}, time_limit_s=-1.0)
    assert (code, cluster.orders, cluster.dropped) == (0, [], [1])
    assert "blocks 1 are left; the same command goes on" in capsys.readouterr().out


def test_one_machine_that_lacks_the_cards_refuses_but_a_cluster_may_grow(tmp_path, capsys):
    with pytest.raises(InputError, match="block 1 needs 1 GPU, which this machine does not have"):
        drive(tmp_path, {}, places=0)
    drive(tmp_path, {1: [[HERE, brought(1), DONE]]}, places=0, address="auto")
    assert "no machine that is there now can take one: waiting for one" in capsys.readouterr().out


def test_a_launch_left_open_is_closed_by_a_runner_first(tmp_path):
    store = Store(tmp_path, "test")
    with store.lock():
        store.write_open(launch_of())
    with pytest.raises(InputError, match="launch 'b1-O0-a1' was left open by a runner that was killed; `study run`"):
        drive(tmp_path, {})


def test_other_parameters_are_refused_by_the_field_that_differs(tmp_path):
    drive(tmp_path, {1: [[HERE, brought(1), DONE]]})
    values = {"levels": ["O0"], "users": [1], "seeds": [1], "data_dir": str(tmp_path), "output_tokens": 16}
    with pytest.raises(InputError, match="this fleet has output_tokens 16"):
        run_fleet(asked(**values), ROOT, FleetOptions(), lambda _options, _root: nullcontext(None))
