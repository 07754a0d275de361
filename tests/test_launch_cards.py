from types import SimpleNamespace

import pytest
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeNvml
from make_records import make_canary
from two_cards import FIRST, SECOND, make_launch_on_two

from study.measure.gpu import GpuReader
from study.measure.launch_cards import LaunchCards, make_up_canaries
from study.measure.machine import read_machine

SPEEDS = {UUID: 60.0, OTHER_UUID: 59.0, FIRST: 60.0, SECOND: 59.0}


class Canaries:
    """Runs canaries that know their card; `silent` ones give a reason instead."""

    def __init__(self, *silent):
        self.silent, self.asked = silent, []

    def __call__(self, _device, uuid, _timeout_s, clock):
        self.asked.append(uuid)
        if uuid in self.silent:
            return None, f"no canary on {uuid}"
        return make_canary(started_s=clock(), gemm_tflops=SPEEDS[uuid]), ""


def make_setting():
    nvml = FakeNvml(FakeCard(), FakeCard(uuid=OTHER_UUID, index=1))
    readers = tuple(GpuReader.open(card.uuid, nvml, {}) for card in nvml.cards)
    parameters = SimpleNamespace(device="cuda", cool_deadline_s=0.0)
    machine = read_machine("cuda", readers)
    return SimpleNamespace(readers=readers, machine=machine, parameters=parameters, canaries=(), targets_c=())


def test_each_card_has_its_canary_one_after_the_other():
    cards, run = LaunchCards(make_setting()), Canaries()
    canary, reason = cards.run_canaries("canary_before", 10.0, run)
    assert (canary.gemm_tflops, reason) == (60.0, "")
    (further,) = cards.describe_further("not reached")
    assert further.canary_before.gemm_tflops == 59.0
    assert further.missing["canary_after"] == "not reached"
    assert run.asked == [UUID, OTHER_UUID]


def test_a_second_card_without_a_canary_keeps_the_reason():
    cards = LaunchCards(make_setting())
    cards.run_canaries("canary_before", 10.0, Canaries(OTHER_UUID))
    (further,) = cards.describe_further("not reached")
    assert further.canary_before is None
    assert further.missing["canary_before"] == f"no canary on {OTHER_UUID}"


@pytest.mark.parametrize(("silent", "runs"), [((), 2), ((OTHER_UUID,), 4)])
def test_fresh_canaries_serve_the_next_launch_only_where_every_card_has_one(silent, runs):
    setting, run = make_setting(), Canaries(*silent)
    LaunchCards(setting).run_canaries("canary_after", 10.0, run)
    following = LaunchCards(setting)
    canary, _ = following.run_canaries("canary_before", 10.0, run)
    assert canary.gemm_tflops == 60.0
    assert len(run.asked) == runs


def test_what_a_killed_runner_left_out_is_made_up_for_on_every_card():
    gone = {"canary_after": None, "missing": {"canary_after": "the runner died"}}
    record = make_launch_on_two(**gone, second=gone)
    setting = SimpleNamespace(parameters=SimpleNamespace(device="cuda"), machine=record.machine, canaries=())
    changes = make_up_canaries(setting, record, Canaries(), 10.0)
    assert changes["canary_after"].gemm_tflops == 60.0
    (further,) = changes["further_cards"]
    assert further.canary_after.gemm_tflops == 59.0
    assert "canary_after" not in further.missing
    assert len(setting.canaries) == 2
