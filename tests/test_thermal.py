import pynvml
import pytest
from fake_nvml import FakeCard, FakeClock, FakeNvml

from study.measure.gpu import GpuReader
from study.measure.telemetry import HostSample, Sampler
from study.measure.thermal import as_found, measure_idle, wait_until_cool
from study.measure.thermal_load import Watch, is_throttled, soak

NO_TEMPERATURE = {
    "nvmlDeviceGetTemperature": pynvml.NVML_ERROR_NOT_SUPPORTED,
    "nvmlDeviceGetTemperatureV": pynvml.NVML_ERROR_NOT_SUPPORTED,
}


def put_on_clock(card):
    clock = FakeClock()
    clock.on_sleep.append(card.pass_time)
    return GpuReader.open(None, FakeNvml(card), {}), clock


class TestCooled:
    def wait(self, card, target_c=43.0, deadline_s=300.0):
        reader, clock = put_on_clock(card)
        return wait_until_cool(reader, target_c, deadline_s, clock, clock.sleep)

    def test_waits_until_at_or_below_the_target(self):
        gate = self.wait(FakeCard(temperature_c=63, cooling_c_per_s=0.5, floor_c=30))
        assert (gate.kind, gate.status, gate.target_c) == ("cooled", "reached", 43.0)
        assert gate.temperature_c <= 43.0
        assert gate.waited_s == pytest.approx(40.0, abs=1.5)

    def test_a_cool_card_waits_for_nothing(self):
        gate = self.wait(FakeCard(temperature_c=43))
        assert (gate.status, gate.waited_s, gate.temperature_c) == ("reached", 0.0, 43.0)

    def test_a_card_that_stays_warm_times_out_with_its_temperature(self):
        gate = self.wait(FakeCard(temperature_c=60), deadline_s=30.0)
        assert (gate.status, gate.temperature_c) == ("timed_out", 60.0)
        assert gate.waited_s == pytest.approx(30.0)

    def test_no_temperature_is_unavailable_not_passed(self):
        gate = self.wait(FakeCard(failures=dict(NO_TEMPERATURE)))
        assert (gate.status, gate.temperature_c) == ("unavailable", None)
        assert "Not Supported" in gate.missing["temperature_c"]
        assert gate.waited_s < 5.0

    def test_one_reading_that_fails_does_not_end_the_wait(self):
        card = FakeCard(temperature_c=60, cooling_c_per_s=1.0, floor_c=30)
        reader, clock = put_on_clock(card)
        call = "nvmlDeviceGetTemperature"

        def hiccup(_length_s):
            card.failures.pop(call, None)
            if 103 < clock.now_s < 103.6:
                card.failures[call] = pynvml.NVML_ERROR_TIMEOUT

        clock.on_sleep.append(hiccup)
        assert wait_until_cool(reader, 43.0, 300.0, clock, clock.sleep).status == "reached"

    def test_without_a_card_there_is_no_gate(self):
        clock = FakeClock()
        gate = wait_until_cool(None, 43.0, 300.0, clock, clock.sleep)
        assert (gate.status, gate.missing["temperature_c"]) == ("unavailable", "no GPU")


class TestAsFound:
    def test_records_and_changes_nothing(self):
        reader, clock = put_on_clock(FakeCard(temperature_c=77))
        gate = as_found(reader, clock)
        assert (gate.kind, gate.status, gate.temperature_c) == ("as_found", "reached", 77.0)

    def test_no_temperature(self):
        reader, clock = put_on_clock(FakeCard(failures=dict(NO_TEMPERATURE)))
        assert as_found(reader, clock).status == "unavailable"


class TestIdle:
    def test_waits_until_the_temperature_stops_falling(self):
        card = FakeCard(temperature_c=50, cooling_c_per_s=1.0, floor_c=40, power_w=120.0)
        reader, clock = put_on_clock(card)
        idle_c, idle_power_w, missing = measure_idle(reader, clock, clock.sleep)
        assert (idle_c, missing) == (40.0, {})
        assert idle_power_w == pytest.approx(120.0)
        assert 20.0 < clock.now_s - 100.0 < 35.0

    def test_a_slow_fall_ends_at_the_deadline(self):
        reader, clock = put_on_clock(FakeCard(temperature_c=90, cooling_c_per_s=0.2))
        measure_idle(reader, clock, clock.sleep)
        assert clock.now_s - 100.0 == pytest.approx(65.0, abs=1.0)

    def test_without_settling_it_reads_at_once(self):
        reader, clock = put_on_clock(FakeCard(temperature_c=90, cooling_c_per_s=0.2))
        measure_idle(reader, clock, clock.sleep, settle=False)
        assert clock.now_s - 100.0 == pytest.approx(5.0)

    def test_the_energy_counter_goes_before_the_power_reading(self):
        card = FakeCard(power_w=200.0)
        reader, clock = put_on_clock(card)
        clock.on_sleep[:] = [lambda length_s: setattr(card, "energy_j", card.energy_j + 118.0 * length_s)]
        assert measure_idle(reader, clock, clock.sleep).idle_power_w == pytest.approx(118.0)

    @pytest.mark.parametrize("counter", ["absent", "stuck"])
    def test_power_readings_where_the_counter_says_nothing(self, counter):
        card = FakeCard(power_w=121.0)
        if counter == "absent":
            card.failures["nvmlDeviceGetTotalEnergyConsumption"] = pynvml.NVML_ERROR_NOT_SUPPORTED
        reader, clock = put_on_clock(card)
        clock.on_sleep.clear()
        assert measure_idle(reader, clock, clock.sleep).idle_power_w == 121.0

    def test_what_is_missing_has_a_reason(self):
        unsupported = dict.fromkeys(
            ("nvmlDeviceGetTotalEnergyConsumption", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetFieldValues"),
            pynvml.NVML_ERROR_NOT_SUPPORTED,
        )
        reader, clock = put_on_clock(FakeCard(failures=NO_TEMPERATURE | unsupported))
        idle = measure_idle(reader, clock, clock.sleep)
        assert (idle.idle_c, idle.idle_power_w) == (None, None)
        assert set(idle.missing) == {"idle_c", "idle_power_w"}

    def test_without_a_card(self):
        clock = FakeClock()
        assert measure_idle(None, clock, clock.sleep).missing == {"idle_c": "no GPU", "idle_power_w": "no GPU"}


@pytest.mark.parametrize(
    ("facts", "throttled"),
    [
        ({"reasons": 0x88, "sm_clock_mhz": 210}, True),  # power brake
        ({"reasons": 0x40, "sm_clock_mhz": 1900}, True),
        ({"reasons": 0x8, "sm_clock_mhz": 1900}, True),
        ({"reasons": 0, "sm_clock_mhz": 450}, True),  # no reason given, 23 % of the highest
        ({"reasons": 0x4, "sm_clock_mhz": 1395}, False),  # power cap alone
        ({"reasons": 0, "sm_clock_mhz": 1980}, False),
    ],
)
def test_samples_are_judged_as_the_method_says(facts, throttled):
    reader, _ = put_on_clock(FakeCard(**facts))
    assert is_throttled([reader.read() for _ in range(5)], 1980, 0.35)[0] is throttled


class TestSoak:
    """A card that gets hotter with each slice of load; a slice is 2 s of fake time."""

    def start(self, card, on_slice=lambda _number: None):
        self.reader, self.clock = put_on_clock(card)
        self.slices = 0

        def step():
            self.slices += 1
            self.clock.now_s += 2.0
            on_slice(self.slices)

        return step

    def make_sampler(self):
        """Samples once as the slice begins and, at the stop, as it ends."""

        class Still:
            def read(self):
                return HostSample(None, None, None)

            def explain(self, _name):
                return "not read here"

        holder = {}
        sampler = Sampler(self.reader, Still(), self.clock, lambda _length_s: holder["sampler"]._stopped.wait(10))
        holder["sampler"] = sampler
        return sampler

    def soak(self, step, deadline_s=60.0):
        return soak(self.reader, step, deadline_s, 0.35, Watch(self.clock, self.make_sampler))

    def test_ends_when_the_card_is_throttled(self):
        card = FakeCard(temperature_c=60, max_sm_clock_mhz=2040, sm_clock_mhz=2040)

        def heat(number):
            card.temperature_c = 60 + 5 * number
            if number >= 4:
                card.reasons, card.sm_clock_mhz = 0x40, 600

        gate = self.soak(self.start(card, heat))
        assert (gate.kind, gate.status) == ("soak", "reached")
        assert gate.temperature_c == 80.0
        assert gate.waited_s == pytest.approx(8.0)
        assert gate.target_c is None
        assert gate.sm_clock_mhz is not None

    def test_reasons_that_only_the_counters_keep(self):
        card = FakeCard(counters_ns={251: 0, 252: 0, 253: 0})

        def heat(number):
            card.counters_ns[252] += 1_000_000 if number == 3 else 0

        gate = self.soak(self.start(card, heat))
        assert (gate.status, self.slices) == ("reached", 3)

    def test_a_card_that_stays_fast_times_out(self):
        gate = self.soak(self.start(FakeCard()), deadline_s=10.0)
        assert (gate.status, gate.sm_clock_mhz, self.slices) == ("timed_out", 1980.0, 5)

    def test_a_power_cap_alone_is_not_throttled(self):
        assert self.soak(self.start(FakeCard(reasons=0x4)), deadline_s=4.0).status == "timed_out"

    def test_a_card_that_tells_nothing_is_unavailable(self):
        failures = dict.fromkeys(
            (
                "nvmlDeviceGetClockInfo",
                "nvmlDeviceGetCurrentClocksEventReasons",
                "nvmlDeviceGetCurrentClocksThrottleReasons",
            ),
            pynvml.NVML_ERROR_NOT_SUPPORTED,
        )
        gate = self.soak(self.start(FakeCard(failures=failures)))
        assert (gate.status, self.slices) == ("unavailable", 3)
        assert "event reasons" in gate.missing["sm_clock_mhz"]

    def test_an_error_of_the_load_passes_through_and_the_sampler_ends(self):
        def fail(_number):
            raise RuntimeError("load")

        with pytest.raises(RuntimeError, match="load"):
            self.soak(self.start(FakeCard(), fail))

    def test_without_a_card_no_load_is_run(self):
        assert soak(None, lambda: pytest.fail("ran"), 60.0).status == "unavailable"
