import pynvml
import pytest
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeClock, FakeNvml

from study.measure.gpu import GpuReader
from study.measure.telemetry import HostSample, Sampler
from study.measure.thermal import measure_all_idle
from study.measure.thermal_cards import take_all_as_found, wait_until_all_cool
from study.measure.thermal_load import Watch, read_lock_back, soak

NO_TEMPERATURE = {
    "nvmlDeviceGetTemperature": pynvml.NVML_ERROR_NOT_SUPPORTED,
    "nvmlDeviceGetTemperatureV": pynvml.NVML_ERROR_NOT_SUPPORTED,
}


def second(**fields):
    return FakeCard(uuid=OTHER_UUID, index=1, **fields)


def put_on_clock(*cards):
    clock = FakeClock()
    clock.on_sleep += [card.pass_time for card in cards]
    nvml = FakeNvml(*cards)
    return [GpuReader.open(card.uuid, nvml, {}) for card in cards], clock


def cool(*cards, targets_c=(43.0, 43.0), deadline_s=300.0):
    readers, clock = put_on_clock(*cards)
    return wait_until_all_cool(readers, targets_c, deadline_s, clock, clock.sleep)


def states(gate):
    return [(card.gpu_uuid, card.status) for card in gate.cards]


class TestCooled:
    def test_the_warmest_card_ends_the_wait(self):
        # 83 degC at half a degree a second is at 43 after 80 s; the other one after 20 s
        hot = second(temperature_c=83, cooling_c_per_s=0.5, floor_c=30)
        gate = cool(FakeCard(temperature_c=53, cooling_c_per_s=0.5, floor_c=30), hot)
        assert (gate.status, gate.waited_s) == ("reached", pytest.approx(80.0, abs=1.5))
        assert states(gate) == [(UUID, "reached"), (OTHER_UUID, "reached")]
        assert gate.cards[1].temperature_c <= 43.0

    def test_each_card_has_its_own_target(self):
        gate = cool(FakeCard(temperature_c=44), second(temperature_c=55), targets_c=(44.0, 55.0))
        assert (gate.status, gate.waited_s) == ("reached", 0.0)
        assert (gate.target_c, [card.target_c for card in gate.cards]) == (44.0, [44.0, 55.0])

    def test_one_card_that_stays_warm_times_out_with_its_temperature(self):
        gate = cool(FakeCard(temperature_c=40), second(temperature_c=60), deadline_s=30.0)
        assert (gate.status, gate.waited_s) == ("timed_out", pytest.approx(30.0))
        assert states(gate) == [(UUID, "reached"), (OTHER_UUID, "timed_out")]
        assert gate.cards[1].temperature_c == 60.0

    def test_a_card_that_warms_up_again_is_not_taken_as_cool(self):
        warming = FakeCard(temperature_c=40, cooling_c_per_s=-1.0, floor_c=0)
        gate = cool(warming, second(temperature_c=60, cooling_c_per_s=1.0, floor_c=30), deadline_s=60.0)
        assert gate.status == "timed_out"
        assert gate.cards[0].status == "timed_out"

    def test_a_card_without_a_temperature_is_unavailable_not_passed(self):
        gate = cool(FakeCard(temperature_c=40), second(failures=dict(NO_TEMPERATURE)))
        assert gate.status == "unavailable"
        assert states(gate)[1] == (OTHER_UUID, "unavailable")
        assert "Not Supported" in gate.cards[1].missing["temperature_c"]

    def test_four_cards_wait_for_the_last(self):
        cards = [FakeCard(uuid=f"GPU-{place}", index=place, temperature_c=40) for place in range(3)]
        hot = FakeCard(uuid="GPU-3", index=3, temperature_c=63, cooling_c_per_s=1.0, floor_c=30)
        gate = cool(*cards, hot, targets_c=(43.0,) * 4)
        assert gate.waited_s == pytest.approx(20.0, abs=1.5)
        assert [card.status for card in gate.cards] == ["reached"] * 4


def test_as_found_reads_all_cards():
    readers, clock = put_on_clock(FakeCard(temperature_c=50), second(temperature_c=70))
    gate = take_all_as_found(readers, clock)
    assert (gate.kind, gate.status, gate.temperature_c) == ("as_found", "reached", 50.0)
    assert [card.temperature_c for card in gate.cards] == [50.0, 70.0]


def test_rest_is_measured_on_each_card_over_the_same_seconds():
    readers, clock = put_on_clock(FakeCard(temperature_c=40, power_w=120.0), second(temperature_c=52, power_w=90.0))
    start_s = clock.now_s
    first, other = measure_all_idle(readers, clock, clock.sleep, settle=False)
    assert (first.idle_c, first.idle_power_w) == (40.0, pytest.approx(120.0))
    assert (other.idle_c, other.idle_power_w) == (52.0, pytest.approx(90.0))
    assert clock.now_s - start_s == pytest.approx(5.0, abs=0.6)


class StillHost:
    def read(self):
        return HostSample(0.25, 0.0, None)

    def explain(self, name):
        return f"no {name}"


class UnderLoad:
    """Slices of load of 2 s on fake time; `heat` says what a slice does to the cards."""

    def __init__(self, *cards):
        self.readers, self.clock = put_on_clock(*cards)
        self.slices = 0

    def watch(self):
        def make_sampler():
            left = [3]

            def wait(length_s):
                self.clock.sleep(length_s)
                left[0] -= 1
                return left[0] <= 0

            return Sampler(self.readers, StillHost(), self.clock, wait)

        return Watch(self.clock, make_sampler)

    def step(self):
        self.slices += 1
        self.clock.sleep(2.0)


class TestSoak:
    def test_every_card_has_to_be_throttled(self):
        late = second()
        load = UnderLoad(FakeCard(reasons=0x20), late)

        def heat():
            load.step()
            late.reasons = 0x20 if load.slices >= 3 else 0

        gate = soak(load.readers, heat, 60.0, 0.35, load.watch())
        assert gate.status == "reached"
        assert load.slices >= 3  # while the second card ran free, the first one's evidence was not enough
        assert states(gate) == [(UUID, "reached"), (OTHER_UUID, "reached")]

    def test_the_card_that_was_not_throttled_is_told(self):
        load = UnderLoad(FakeCard(reasons=0x20), second())
        gate = soak(load.readers, load.step, 10.0, 0.35, load.watch())
        assert gate.status == "timed_out"
        assert states(gate) == [(UUID, "reached"), (OTHER_UUID, "timed_out")]

    def test_a_card_without_evidence_makes_it_unavailable(self):
        blind = second(failures={"*": pynvml.NVML_ERROR_GPU_IS_LOST})
        load = UnderLoad(FakeCard(reasons=0x20))
        nvml = FakeNvml(FakeCard(reasons=0x20), second())
        load.readers = [GpuReader.open(uuid, nvml, {}) for uuid in (UUID, OTHER_UUID)]
        nvml.cards[1].failures = blind.failures
        gate = soak(load.readers, load.step, 60.0, 0.35, load.watch())
        assert gate.status == "unavailable"
        assert states(gate)[1] == (OTHER_UUID, "unavailable")


def test_a_lock_that_one_card_does_not_obey_is_told():
    load = UnderLoad(FakeCard(sm_clock_mhz=600), second(sm_clock_mhz=1980))
    gate = read_lock_back(load.readers, load.step, 600.0, load.watch())
    assert gate.status == "timed_out"
    assert [(card.status, card.sm_clock_mhz) for card in gate.cards] == [("reached", 600.0), ("timed_out", 1980.0)]
