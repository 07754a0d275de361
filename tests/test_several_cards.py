"""Servers on several cards, on fakes: one sampler for all, and whole sessions through the runner."""

import json
from pathlib import Path

import pynvml
import pytest
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeNvml
from make_records import make_canary
from test_telemetry import sample

from study.analyze.digests_on_disk import read_digests
from study.analyze.tables_on_disk import write_tables
from study.analyze.validity import judge_run
from study.design.parameters import make_parameters
from study.design.root import find_root
from study.errors import InputError
from study.measure.gpu import GpuReader
from study.measure.load import run_load
from study.measure.machine import read_machine
from study.measure.server import Server
from study.runner import RunOptions, run_session
from study.store import Store

ROOT = find_root(Path(__file__).parent)
TP2 = {"device": "cuda", "levels": ["O0"], "users": [1], "server_flags": ["--tensor-parallel-size", "2"]}


def second(**fields):
    return FakeCard(uuid=OTHER_UUID, index=1, **fields)


def readers_of(nvml):
    return [GpuReader.open(card.uuid, nvml, {}) for card in nvml.cards]


class TestSampler:
    def test_all_cards_are_read_under_the_same_time_stamps(self):
        readers = readers_of(FakeNvml(FakeCard(temperature_c=40), second(temperature_c=55, sm_clock_mhz=900)))
        telemetry = sample(reader=readers, waits=5)
        (other,) = telemetry.further_cards
        assert other.gpu_uuid == OTHER_UUID
        assert (telemetry.temperature_c, other.temperature_c) == ([40.0] * 6, [55.0] * 6)
        assert other.sm_clock_mhz == [900.0] * 6
        assert len(telemetry.t_s) == 6
        assert telemetry.host_busy == [0.25] * 6

    def test_one_card_has_no_further_columns(self):
        assert sample(FakeCard(), waits=2).further_cards == []

    def test_counters_are_each_cards_own(self):
        number = pynvml.NVML_FI_DEV_PERF_POLICY_POWER
        nvml = FakeNvml(FakeCard(counters_ns={number: 5}), second(counters_ns={number: 70}))
        telemetry = sample(reader=readers_of(nvml), waits=2)
        assert telemetry.throttle_before_ns == {"sw_power_cap": 5}
        assert telemetry.further_cards[0].throttle_after_ns == {"sw_power_cap": 70}

    def test_a_card_that_falls_off_the_bus_leaves_the_others_columns_whole(self):
        other = second()

        def vanish(number, _clock):
            if number == 3:
                other.vanish()

        telemetry = sample(reader=readers_of(FakeNvml(FakeCard(), other)), waits=6, on_wait=vanish)
        assert telemetry.sm_clock_mhz == [1980.0] * 7
        (lost,) = telemetry.further_cards
        assert lost.sm_clock_mhz == [1980.0] * 3 + [None] * 4
        assert "lost" in lost.field_errors["sm_clock_mhz"].lower()
        assert telemetry.field_errors == {}

    def test_a_card_that_never_answers_has_null_columns_with_the_reason(self):
        nvml = FakeNvml(FakeCard(), second())
        readers = readers_of(nvml)
        nvml.cards[1].vanish()
        (lost,) = sample(reader=readers, waits=2).further_cards
        assert lost.temperature_c is None
        assert "lost" in lost.missing["temperature_c"].lower()

    def test_four_cards_keep_their_order(self):
        uuids = [f"GPU-{place}" for place in range(4)]
        cards = [FakeCard(uuid=uuid, index=place, power_w=100.0 + place) for place, uuid in enumerate(uuids)]
        telemetry = sample(reader=readers_of(FakeNvml(*cards)), waits=2)
        assert [card.gpu_uuid for card in telemetry.further_cards] == uuids[1:]
        assert [card.power_w[0] for card in telemetry.further_cards] == [101.0, 102.0, 103.0]


def test_the_machine_names_every_card_and_its_unit_is_all_of_them():
    machine = read_machine("cuda", readers_of(FakeNvml(FakeCard(), second(memory_gib=80.0))))
    (further,) = machine.further_cards
    assert (further.gpu_uuid, further.gpu_index, further.gpu_memory_gib) == (OTHER_UUID, 1, 80.0)
    assert machine.uuids == (UUID, OTHER_UUID)
    assert machine.unit == f"{UUID} + {OTHER_UUID}"
    turned = read_machine("cuda", readers_of(FakeNvml(second(), FakeCard())))
    assert turned.unit == machine.unit  # the same cards, whichever comes first


def test_the_unit_of_one_card_is_its_uuid():
    assert read_machine("cuda", readers_of(FakeNvml(FakeCard()))).unit == UUID


@pytest.fixture
def quick(fake_vllm, brief_rest, monkeypatch):
    """Canaries that know their card, short pauses, and the specifications of the servers that were started."""
    speeds = {UUID: 4000.0, OTHER_UUID: 3900.0}

    def canary(_device, uuid, _timeout_s, clock):
        return make_canary(started_s=clock(), read_gb_s=speeds[uuid]), ""

    monkeypatch.setattr("study.measure.launch.run_canary", canary)
    specs, start = [], Server.start
    monkeypatch.setattr(Server, "start", lambda spec, log, root: specs.append(spec) or start(spec, log, root))
    return specs


def run(values, nvml):
    return run_session(make_parameters(values), ROOT, RunOptions(), lambda gpu: GpuReader.open(gpu, nvml, {}))


def store_of(values):
    return Store(Path(values["data_dir"]), values["study"])


def test_a_session_on_two_cards_records_both(quick, small_study, tmp_path):
    small_study |= TP2
    nvml = FakeNvml(FakeCard(temperature_c=40), second(temperature_c=52, sm_clock_mhz=1500, power_w=90.0))
    assert run(small_study, nvml) == 0
    assert nvml.open == 0
    assert {spec.gpu_uuid for spec in quick} == {f"{UUID},{OTHER_UUID}"}
    records = store_of(small_study).read()
    (launch,) = [one for one in records.launches if not one.fills_caches]
    assert launch.machine.uuids == (UUID, OTHER_UUID)
    assert "--tensor-parallel-size" in launch.command
    (around,) = launch.further_cards
    assert (around.gpu_uuid, around.idle_c) == (OTHER_UUID, 52.0)
    assert (launch.canary_before.read_gb_s, around.canary_before.read_gb_s) == (4000.0, 3900.0)
    assert around.canary_after.read_gb_s == 3900.0
    (item,) = records.runs
    # each card is its own idle temperature + 3
    assert [(card.target_c, card.status) for card in item.gate.cards] == [(43.0, "reached"), (55.0, "reached")]
    assert set(item.telemetry.further_cards[0].sm_clock_mhz) == {1500.0}
    assert [card.foreign_gpu_processes for card in item.server.cards] == [[], []]


def test_tables_of_a_session_on_two_cards_are_of_both(quick, small_study, tmp_path):
    small_study |= TP2
    run(small_study, FakeNvml(FakeCard(), second(sm_clock_mhz=1500, temperature_c=52)))
    write_tables(read_digests(store_of(small_study), lambda _: 0.35), tmp_path / "tables")
    (row,) = json.loads((tmp_path / "tables/runs.json").read_text())
    assert (row["machine"], row["median_sm_clock_mhz"]) == (f"{UUID} + {OTHER_UUID}", 1500.0)
    assert row["median_temperature_c"] == 52.0
    first, other = json.loads((tmp_path / "tables/run_cards.json").read_text())
    assert (first["card"], first["gpu_uuid"], first["median_sm_clock_mhz"]) == (1, UUID, 1980.0)
    assert (other["card"], other["gpu_uuid"], other["median_sm_clock_mhz"]) == (2, OTHER_UUID, 1500.0)


def test_a_resumed_session_keeps_each_cards_target(quick, small_study):
    small_study |= {**TP2, "levels": ["default", "O0"]}
    run(small_study, FakeNvml(FakeCard(temperature_c=40), second(temperature_c=52)))
    cooler = FakeNvml(FakeCard(temperature_c=35), second(temperature_c=35))
    assert run({**small_study, "users": [1, 2]}, cooler) == 0
    later = [item for item in store_of(small_study).read().runs if item.users == 2]
    assert [[card.target_c for card in item.gate.cards] for item in later] == [[43.0, 55.0]] * 2


def test_a_stranger_on_the_second_card_stops_the_session_before_a_server(quick, small_study):
    nvml = FakeNvml(FakeCard(), second(used_gib=100.0))
    with pytest.raises(InputError, match=rf"card 2 of 2 \({OTHER_UUID}\): 100\.0 GiB of GPU memory are held"):
        run({**small_study, **TP2, "cool_deadline_s": 0}, nvml)
    assert quick == []


def test_memory_that_a_stop_leaves_on_the_second_card_is_named_with_it(quick, small_study, monkeypatch):
    monkeypatch.setattr("study.measure.card_memory.MEMORY_DEADLINE_S", 0.3)
    nvml = FakeNvml(FakeCard(), second())
    stop = Server.stop

    def leave(server):
        nvml.cards[1].used_gib, nvml.cards[1].pids = 42.0, [4711]
        return stop(server)

    monkeypatch.setattr(Server, "stop", leave)
    run({**small_study, **TP2, "cool_to_c": 90}, nvml)
    where = f"card 2 of 2 ({OTHER_UUID})"
    assert store_of(small_study).read().launches[0].left_over == [
        f"process 4711 on {where}",
        f"40.0 GiB of GPU memory on {where}",
    ]


def test_a_second_card_that_vanishes_during_the_load_ends_no_session(quick, small_study, monkeypatch):
    nvml = FakeNvml(FakeCard(), second())

    def lose_it(*arguments):
        nvml.cards[1].vanish()
        return run_load(*arguments)

    monkeypatch.setattr("study.measure.run.run_load", lose_it)
    assert run({**small_study, **TP2, "cool_to_c": 90}, nvml) == 0
    records = store_of(small_study).read()
    (item,) = records.runs
    assert item.outcome.status == "ok"
    assert None not in item.telemetry.sm_clock_mhz
    (lost,) = item.telemetry.further_cards
    assert "lost" in (lost.missing.get("temperature_c", "") + str(lost.field_errors)).lower()
    assert not judge_run(item, records.launch_of(item)).valid


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"gpu": [0]}, r"gpu \[0\] names 1 card; the server's parallel sizes need 2"),
        ({"server_flags": ["-tp", "3"]}, "need 3 cards and 2 answer"),
        ({"server_flags": ["-tp", "two"]}, "flag '-tp' is 'two'"),
        ({"server_flags": []}, "fits 2; name one of"),
    ],
)
def test_cards_that_do_not_fit_are_refused_before_a_server(quick, small_study, change, said):
    with pytest.raises(InputError, match=said):
        run({**small_study, **TP2, **change}, FakeNvml(FakeCard(), second()))
    assert quick == []
    assert not list(Path(small_study["data_dir"]).glob("raw/*/launch-*.json"))
