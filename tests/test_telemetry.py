import threading
import time

import pynvml
import pytest
from fake_nvml import FakeCard, FakeClock, FakeNvml

from study.measure.gpu import GpuReader
from study.measure.telemetry import HostReader, HostSample, Sampler

GPU_COLUMNS = (
    "sm_clock_mhz",
    "memory_clock_mhz",
    "temperature_c",
    "memory_temperature_c",
    "power_w",
    "energy_j",
    "event_reasons",
    "gpu_utilisation",
)


class StillHost:
    def read(self):
        return HostSample(0.25, 0.0, None)

    def explain(self, name):
        return f"no {name}"


def open_card(card):
    return GpuReader.open(None, FakeNvml(card), {})


def sample(card=None, waits=10, on_wait=None, reader=None):
    """Run a sampler for so many waits of fake time; `on_wait(number, clock)` may disturb it."""
    clock = FakeClock()
    reader = reader or (open_card(card) if card else None)
    state = {"left": waits}

    def wait(length_s):
        clock.sleep(length_s)
        state["left"] -= 1
        if on_wait:
            on_wait(waits - state["left"], clock)
        return state["left"] <= 0

    sampler = Sampler(reader, StillHost(), clock, wait)
    sampler.start()
    sampler._thread.join()
    return sampler.stop()


def test_ten_samples_a_second_and_one_at_the_end():
    telemetry = sample(FakeCard(), waits=20)
    assert telemetry.period_s == 0.1
    assert len(telemetry.t_s) == 21
    assert telemetry.t_s[0] == 100.0
    assert telemetry.t_s[-1] == pytest.approx(102.0)


def test_a_missed_deadline_is_skipped_and_the_grid_kept():
    def stall(number, clock):
        if number == 3:
            clock.now_s += 0.27

    times = [t_s - 100.0 for t_s in sample(FakeCard(), waits=6, on_wait=stall).t_s]
    assert times == pytest.approx([0.0, 0.1, 0.2, 0.57, 0.6, 0.7, 0.8])


def test_columns_hold_what_the_card_said():
    telemetry = sample(FakeCard(reasons=0x88, sm_clock_mhz=210), waits=3)
    assert telemetry.event_reasons == [0x88] * 4
    assert telemetry.sm_clock_mhz == [210.0] * 4
    assert telemetry.host_busy == [0.25] * 4


def test_counters_are_read_before_and_after():
    number = pynvml.NVML_FI_DEV_PERF_POLICY_POWER
    card = FakeCard(counters_ns={number: 5})

    def capped(_number, _clock):
        card.counters_ns[number] += 100_000_000

    telemetry = sample(card, waits=10, on_wait=capped)
    assert telemetry.throttle_before_ns == {"sw_power_cap": 5}
    assert telemetry.throttle_after_ns == {"sw_power_cap": 1_000_000_005}


def test_a_machine_without_a_card_has_host_columns_and_reasons():
    telemetry = sample(None, waits=3)
    for name in (*GPU_COLUMNS, "throttle_before_ns", "throttle_after_ns"):
        assert getattr(telemetry, name) is None
        assert telemetry.missing[name] == "no GPU"
    assert telemetry.missing["cpu_clock_mhz"] == "no cpu_clock_mhz"
    assert telemetry.field_errors == {}


def test_a_field_that_is_not_supported_is_null_with_nvmls_words():
    card = FakeCard(failures={"nvmlDeviceGetUtilizationRates": pynvml.NVML_ERROR_NOT_SUPPORTED})
    telemetry = sample(card, waits=3)
    assert telemetry.gpu_utilisation is None
    assert telemetry.missing["gpu_utilisation"] == "nvmlDeviceGetUtilizationRates: Not Supported"
    assert "gpu_utilisation" in telemetry.field_errors
    assert telemetry.power_w == [120.0] * 4


def test_a_utilisation_of_0_is_a_value():
    assert sample(FakeCard(utilisation=0), waits=2).gpu_utilisation == [0.0] * 3


def test_a_card_that_vanishes_leaves_holes_not_an_end():
    card = FakeCard()

    def vanish(number, _clock):
        if number == 5:
            card.vanish()

    telemetry = sample(card, waits=9, on_wait=vanish)
    assert len(telemetry.t_s) == 10
    assert telemetry.temperature_c == [40.0] * 5 + [None] * 5
    assert "GPU is lost" in telemetry.field_errors["temperature_c"]
    assert telemetry.throttle_after_ns is None


def test_errors_of_an_earlier_load_are_not_this_ones():
    card = FakeCard(failures={"nvmlDeviceGetTemperature": pynvml.NVML_ERROR_TIMEOUT})
    reader = open_card(card)
    reader.read()
    card.failures.clear()
    assert sample(reader=reader, waits=2).field_errors == {}


def test_a_field_read_elsewhere_says_so():
    card = FakeCard(failures={"nvmlDeviceGetPowerUsage": pynvml.NVML_ERROR_NOT_SUPPORTED})
    telemetry = sample(card, waits=2)
    assert telemetry.power_w == [120.0] * 3
    assert "nvmlDeviceGetPowerUsage" in telemetry.field_errors["power_w"]


def test_the_real_thread_ends_at_the_stop():
    sampler = Sampler(open_card(FakeCard()), StillHost())
    sampler.start()
    time.sleep(0.35)
    telemetry = sampler.stop()
    assert 3 <= len(telemetry.t_s) <= 7
    assert not [thread for thread in threading.enumerate() if thread.name == "telemetry"]


class TestHost:
    def stat(self, folder, *ticks):
        file = folder / "stat"
        file.write_text(f"cpu  {' '.join(map(str, ticks))} 0 0\ncpu0 1 2 3\n")
        return file

    def test_shares_of_busy_and_stolen_time(self, tmp_path):
        file = self.stat(tmp_path, 100, 0, 50, 800, 50, 0, 0, 0)
        host = HostReader(file, tmp_path)
        self.stat(tmp_path, 130, 0, 60, 840, 60, 0, 0, 10)
        read = host.read()
        # 100 ticks passed: 40 busy, 50 idle or waiting, 10 stolen.
        assert (read.host_busy, read.host_steal) == (0.4, 0.1)

    def test_no_tick_since_the_last_reading_is_no_value(self, tmp_path):
        host = HostReader(self.stat(tmp_path, 1, 1, 1, 1, 1, 1, 1, 1), tmp_path)
        assert host.read() == HostSample(None, None, None)

    def test_idle_time_set_back_by_the_kernel(self, tmp_path):
        file = self.stat(tmp_path, 10, 0, 0, 100, 0, 0, 0, 0)
        host = HostReader(file, tmp_path)
        self.stat(tmp_path, 20, 0, 0, 99, 0, 0, 0, 0)
        assert host.read().host_busy == 1.0

    def test_a_host_without_proc(self, tmp_path):
        host = HostReader(tmp_path / "stat", tmp_path)
        assert host.read() == HostSample(None, None, None)
        assert "not readable" in host.explain("host_busy")
        assert host.explain("cpu_clock_mhz") == "this host has no cpufreq"

    def test_the_clock_is_a_mean_over_a_few_cores(self, tmp_path):
        for place in range(16):
            folder = tmp_path / "cpufreq" / f"policy{place}"
            folder.mkdir(parents=True)
            (folder / "scaling_cur_freq").write_text("2400000\n")
        host = HostReader(self.stat(tmp_path, *range(8)), tmp_path)
        assert len(host._clocks) == 4
        assert host.read().cpu_clock_mhz == 2400.0


def test_sampling_costs_under_a_hundredth_of_a_core():
    sampler = Sampler(open_card(FakeCard()), HostReader())
    for _ in range(20):
        sampler._sample()
    started_s = time.thread_time()
    for _ in range(200):
        sampler._sample()
    a_sample_s = (time.thread_time() - started_s) / 200
    assert a_sample_s < 0.01 * 0.1
