import inspect

import pynvml
import pytest
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeNvml

from study.errors import InputError
from study.measure import gpu
from study.measure.gpu import GpuReader, GpuSample

UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
POWER = pynvml.NVML_FI_DEV_PERF_POLICY_POWER
THERMAL = pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL
READING_CALLS = (
    "nvmlDeviceGetClockInfo",
    "nvmlDeviceGetTemperature",
    "nvmlDeviceGetTemperatureV",
    "nvmlDeviceGetPowerUsage",
    "nvmlDeviceGetTotalEnergyConsumption",
    "nvmlDeviceGetCurrentClocksEventReasons",
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetUtilizationRates",
    "nvmlDeviceGetFieldValues",
)


def open_card(card=None, **keywords):
    nvml = FakeNvml(card or FakeCard(), **keywords)
    return GpuReader.open(None, nvml, {}), nvml


def test_a_healthy_card_is_read_in_full():
    reader, _ = open_card(FakeCard(reasons=0x4, power_w=121.5, energy_j=2000.25))
    assert reader.read() == GpuSample(1980.0, 3201.0, 40.0, 45.0, 121.5, 2000.25, 0x4, 100.0)
    assert reader.field_errors == {}


def test_identity_holds_the_three_power_limits():
    reader, _ = open_card()
    identity = reader.identity()
    assert (identity.uuid, identity.index, identity.memory_gib) == (UUID, 0, 140.0)
    assert (identity.compute_capability, identity.max_sm_clock_mhz) == ("9.0", 1980.0)
    assert identity.driver_version == "580.159.04"
    limits = (identity.power_limit_enforced_w, identity.power_limit_requested_w, identity.power_limit_default_w)
    assert limits == (500.0, 700.0, 700.0)
    assert (identity.mig, identity.missing) == ("disabled", {})


def test_no_call_sets_anything():
    source = inspect.getsource(gpu)
    assert "Set" not in source.replace("nvmlDeviceGet", "")
    assert "nvmlDeviceReset" not in source


def test_close_lets_go_once():
    reader, nvml = open_card()
    reader.close()
    reader.close()
    assert nvml.open == 0


class TestWhichCard:
    def test_by_uuid_whatever_the_order(self):
        nvml = FakeNvml(FakeCard(uuid=OTHER_UUID), FakeCard(uuid=UUID, index=1))
        assert GpuReader.open(UUID, nvml, {}).uuid == UUID

    def test_by_nvml_index(self):
        nvml = FakeNvml(FakeCard(uuid=OTHER_UUID), FakeCard(uuid=UUID, index=1))
        assert GpuReader.open(1, nvml, {}).uuid == UUID

    def test_several_cards_need_a_choice(self):
        nvml = FakeNvml(FakeCard(uuid=OTHER_UUID), FakeCard(uuid=UUID))
        with pytest.raises(InputError, match=f"name one of {OTHER_UUID}, {UUID}") as caught:
            GpuReader.open(None, nvml, {"CUDA_VISIBLE_DEVICES": "1"})
        assert "CUDA_VISIBLE_DEVICES=1 is not followed" in str(caught.value)
        assert nvml.open == 0

    @pytest.mark.parametrize("gpu", ["GPU-1111", "GPU-00000000-0000", "0", "cuda:0", 7, "MIG-1"])
    def test_what_is_not_here_is_refused_and_what_is_named(self, gpu):
        nvml = FakeNvml(FakeCard())
        with pytest.raises(InputError, match="is not here") as caught:
            GpuReader.open(gpu, nvml, {})
        assert UUID in str(caught.value)
        assert "\n" not in str(caught.value)
        assert nvml.open == 0

    def test_no_card_at_all(self):
        with pytest.raises(InputError, match="none that answers"):
            GpuReader.open(None, FakeNvml(), {})

    def test_a_lost_card_does_not_hide_another(self):
        lost = FakeCard(uuid=OTHER_UUID)
        lost.vanish()
        assert GpuReader.open(None, FakeNvml(lost, FakeCard()), {}).uuid == UUID


@pytest.mark.parametrize(
    ("code", "cure"),
    [
        (pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, "install the NVIDIA driver"),
        (pynvml.NVML_ERROR_DRIVER_NOT_LOADED, "load the NVIDIA driver"),
        (pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH, "reboot, or reload the nvidia modules"),
        (pynvml.NVML_ERROR_NO_PERMISSION, "/dev/nvidia"),
        (pynvml.NVML_ERROR_UNKNOWN, "nvidia-smi"),
    ],
)
def test_an_nvml_that_does_not_start_is_one_line_with_a_cure(code, cure):
    with pytest.raises(InputError) as caught:
        GpuReader.open(None, FakeNvml(init_error=code), {})
    assert cure in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_failing_enumeration_is_an_input_error():
    nvml = FakeNvml(FakeCard())
    nvml.cards[0].failures["nvmlDeviceGetUUID"] = pynvml.NVML_ERROR_NO_PERMISSION
    with pytest.raises(InputError, match="none that answers"):
        GpuReader.open(0, nvml, {})
    assert nvml.open == 0


class TestMig:
    SLICE = "MIG-aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"

    def whole(self, *slices):
        return FakeCard(mig=list(slices), memory_gib=40.0, temperature_c=51)

    def slice(self, uuid=SLICE):
        failures = dict.fromkeys(READING_CALLS, pynvml.NVML_ERROR_NOT_SUPPORTED)
        return FakeCard(uuid=uuid, name="Test Card MIG 3g.20gb", memory_gib=20.0, failures=failures, pids=[7])

    def test_a_slice_has_its_own_memory_and_the_cards_heat(self):
        reader = GpuReader.open(self.SLICE, FakeNvml(self.whole(self.slice())), {})
        identity = reader.identity()
        assert (identity.uuid, identity.memory_gib) == (self.SLICE, 20.0)
        assert identity.mig == f"slice of {UUID}"
        sample = reader.read()
        assert sample.temperature_c == 51.0
        assert sample.sm_clock_mhz == 1980.0
        assert sample.gpu_utilisation is None
        assert "Not Supported" in reader.field_errors["gpu_utilisation"]
        assert reader.process_ids() == [7]

    @pytest.mark.parametrize("gpu", [0, UUID, None])
    def test_a_card_cut_up_is_not_taken_whole(self, gpu):
        nvml = FakeNvml(self.whole(self.slice(), self.slice("MIG-ffff")))
        with pytest.raises(InputError, match=f"fits 2; name one of {self.SLICE}, MIG-ffff"):
            GpuReader.open(gpu, nvml, {})

    def test_the_only_slice_is_taken_not_its_parent(self):
        assert GpuReader.open(0, FakeNvml(self.whole(self.slice())), {}).uuid == self.SLICE

    def test_mig_switched_off_leaves_the_card(self):
        assert GpuReader.open(0, FakeNvml(self.whole()), {}).uuid == UUID


class TestMissingFields:
    def test_gb10_has_no_memory_figure(self):
        card = FakeCard(failures={"memory v1": UNSUPPORTED, "memory v2": UNSUPPORTED})
        reader, nvml = open_card(card)
        assert reader.memory_used_gib() is None
        assert reader.identity().memory_gib is None
        assert "nvmlDeviceGetMemoryInfo: Not Supported" in reader.identity().missing["memory_gib"]
        assert reader.read().sm_clock_mhz == 1980.0
        assert nvml.calls.count("nvmlDeviceGetMemoryInfo") == 4

    def test_memory_of_0_bytes_is_no_figure(self):
        reader, _ = open_card(FakeCard(memory_gib=0.0, used_gib=0.0))
        assert reader.memory_used_gib() is None

    @pytest.mark.parametrize("which", ["memory v1", "memory v2"])
    def test_each_memory_call_is_tried_alone(self, which):
        reader, _ = open_card(FakeCard(failures={which: pynvml.NVML_ERROR_FUNCTION_NOT_FOUND}))
        assert reader.memory_used_gib() == 2.0
        assert ("memory_used_gib" in reader.fallbacks) == (which == "memory v2")

    def test_jetson_opens_and_every_reading_is_empty(self):
        reader, nvml = open_card(FakeCard(failures=dict.fromkeys(READING_CALLS, UNSUPPORTED)))
        assert reader.read() == GpuSample(*[None] * 8)
        assert set(reader.field_errors) == set(GpuSample.__dataclass_fields__)
        nvml.calls.clear()
        assert reader.read() == GpuSample(*[None] * 8)
        assert nvml.calls == []

    def test_vgpu_without_utilisation_reads_the_rest_and_asks_once(self):
        reader, nvml = open_card(FakeCard(failures={"nvmlDeviceGetUtilizationRates": UNSUPPORTED}))
        for _ in range(3):
            sample = reader.read()
        assert sample.gpu_utilisation is None
        assert sample.power_w == 120.0
        assert nvml.calls.count("nvmlDeviceGetUtilizationRates") == 1

    def test_no_permission_for_one_field_stops_no_other(self):
        failures = {"nvmlDeviceGetTotalEnergyConsumption": pynvml.NVML_ERROR_NO_PERMISSION}
        reader, _ = open_card(FakeCard(failures=failures))
        sample = reader.read()
        assert (sample.energy_j, sample.power_w) == (None, 120.0)
        assert "Insufficient Permissions" in reader.field_errors["energy_j"]

    def test_power_that_moved_is_read_where_it_is_now(self):
        reader, _ = open_card(FakeCard(failures={"nvmlDeviceGetPowerUsage": UNSUPPORTED}))
        assert reader.read().power_w == 120.0
        assert reader.fallbacks == {"power_w"}
        assert "nvmlDeviceGetPowerUsage" in reader.field_errors["power_w"]

    def test_power_that_is_gone_is_empty_with_its_reason(self):
        failures = {"nvmlDeviceGetPowerUsage": UNSUPPORTED, pynvml.NVML_FI_DEV_POWER_AVERAGE: UNSUPPORTED}
        reader, _ = open_card(FakeCard(failures=failures))
        assert reader.read().power_w is None
        assert "Not Supported" in reader.field_errors["power_w"]
        assert reader.fallbacks == set()

    @pytest.mark.parametrize("how", ["binding", "driver"])
    def test_event_reasons_by_their_older_name(self, how):
        call = "nvmlDeviceGetCurrentClocksEventReasons"
        card = FakeCard(reasons=0x88)
        if how == "driver":
            card.failures[call] = pynvml.NVML_ERROR_FUNCTION_NOT_FOUND
        reader, _ = open_card(card, lacks=(call,) if how == "binding" else ())
        assert reader.read().event_reasons == 0x88

    def test_a_passing_error_is_tried_again(self):
        card = FakeCard(failures={"nvmlDeviceGetTemperature": pynvml.NVML_ERROR_TIMEOUT})
        reader, _ = open_card(card)
        assert reader.read().temperature_c is None
        del card.failures["nvmlDeviceGetTemperature"]
        assert reader.read().temperature_c == 40.0

    def test_a_card_that_vanishes_ends_no_reader(self):
        card = FakeCard()
        reader, _ = open_card(card)
        card.vanish()
        assert reader.read() == GpuSample(*[None] * 8)
        assert reader.process_ids() is None
        assert reader.throttle_counters_ns() is None
        assert "GPU is lost" in reader.field_errors["power_w"]

    def test_a_name_that_is_no_utf8(self):
        card = FakeCard()
        reader, nvml = open_card(card)
        nvml.nvmlDeviceGetName = lambda _card: b"\xf8\x95".decode()
        nvml_name = reader.identity()
        assert nvml_name.name is None
        assert "unreadable" in nvml_name.missing["name"]


class TestProcesses:
    def test_ids_once_each(self):
        reader, _ = open_card(FakeCard(pids=[4_000_001, 12, 12]))
        assert reader.process_ids() == [12, 4_000_001]

    def test_none_running_is_not_unknown(self):
        reader, _ = open_card()
        assert reader.process_ids() == []

    def test_unknown_is_not_none_running(self):
        call = "nvmlDeviceGetComputeRunningProcesses"
        reader, _ = open_card(FakeCard(failures={call: UNSUPPORTED, f"{call}_v2": UNSUPPORTED}))
        assert reader.process_ids() is None


class TestThrottleCounters:
    def test_policies_and_slowdowns_as_the_binding_numbers_them(self):
        reader, _ = open_card(FakeCard(counters_ns={POWER: 9, THERMAL: 8, 269: 1, 270: 2, 271: 3}))
        expected = {"sw_power_cap": 9, "thermal_policy": 8, "sw_thermal": 1, "hw_thermal": 2, "power_brake": 3}
        assert reader.throttle_counters_ns() == expected

    def test_slowdowns_as_older_drivers_number_them(self):
        reader, _ = open_card(FakeCard(counters_ns={251: 1, 252: 2, 253: 3}))
        assert reader.throttle_counters_ns() == {"sw_thermal": 1, "hw_thermal": 2, "power_brake": 3}

    def test_no_guess_where_both_numberings_answer(self):
        both = dict.fromkeys((251, 252, 253, 269, 270, 271), 5)
        reader, _ = open_card(FakeCard(counters_ns={POWER: 9, **both}))
        assert reader.throttle_counters_ns() == {"sw_power_cap": 9}

    def test_violation_status_where_fields_are_not_served(self):
        failures = {POWER: UNSUPPORTED, THERMAL: UNSUPPORTED}
        reader, _ = open_card(FakeCard(counters_ns={POWER: 9, THERMAL: 8}, failures=failures))
        assert reader.throttle_counters_ns() == {"sw_power_cap": 9, "thermal_policy": 8}

    def test_a_card_that_was_silent_at_first_is_asked_again(self):
        card = FakeCard(counters_ns={251: 1, 252: 2, 253: 3})
        card.failures["nvmlDeviceGetFieldValues"] = pynvml.NVML_ERROR_TIMEOUT
        reader, _ = open_card(card)
        assert reader.throttle_counters_ns() is None
        card.failures.clear()
        assert reader.throttle_counters_ns() == {"sw_thermal": 1, "hw_thermal": 2, "power_brake": 3}

    def test_none_where_the_card_keeps_none(self):
        reader, _ = open_card()
        assert reader.throttle_counters_ns() is None
        assert "Not Supported" in reader.field_errors["throttle_counters_ns"]


def test_value_types_are_numbered_as_they_are_read():
    members = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
    kinds = ("DOUBLE", "UNSIGNED_INT", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "SIGNED_LONG_LONG", "SIGNED_INT")
    assert [getattr(pynvml, f"NVML_VALUE_TYPE_{kind}") for kind in (*kinds, "UNSIGNED_SHORT")] == list(range(7))
    assert tuple(name for name, _ in pynvml.c_nvmlValue_t._fields_) == members


def test_every_call_of_the_fake_has_the_real_ones_name():
    names = [name for name in vars(FakeNvml) if name.startswith("nvml")]
    assert len(names) > 20
    assert [name for name in names if not hasattr(pynvml, name)] == []
