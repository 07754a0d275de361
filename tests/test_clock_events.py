import pynvml
import pytest

from study.design.clock_events import (
    EVENT_BITS,
    POLICY_COUNTERS,
    SLOWDOWN_COUNTERS,
    THERMAL_OR_BRAKE,
    BusyWindow,
    ThrottleRule,
    counter_growth_ns,
    decode_event_reasons,
    judge_throttled,
)

L4 = ThrottleRule(max_sm_clock_mhz=2040)


def window(mask, clock_mhz, count=50, **counters):
    return BusyWindow([mask] * count, [clock_mhz] * count, **counters)


@pytest.mark.parametrize(
    ("mask", "names"),
    [
        (0, []),
        (0x1, ["idle"]),
        (0x4, ["sw_power_cap"]),
        (0x88, ["hw_slowdown", "power_brake"]),
        (0x8, ["hw_slowdown"]),
        (0x60, ["sw_thermal", "hw_thermal"]),
        (0x800, ["0x800"]),
        (0x8000000000000001, ["idle", "0x8000000000000000"]),
    ],
)
def test_masks_are_decoded_bit_by_bit(mask, names):
    assert decode_event_reasons(mask) == names


@pytest.mark.parametrize("family", ["ClocksEventReason", "ClocksThrottleReason"])
def test_bits_are_those_of_the_installed_binding(family):
    prefix = f"nvml{family}"
    bits = {
        value
        for name, value in vars(pynvml).items()
        if name.startswith(prefix) and not name.endswith(("All", "None")) and isinstance(value, int)
    }
    assert bits <= set(EVENT_BITS)
    assert pynvml.nvmlClocksThrottleReasonAll == sum(EVENT_BITS)


def test_throttling_bits_leave_power_cap_and_idle_out():
    assert decode_event_reasons(THERMAL_OR_BRAKE) == ["hw_slowdown", "sw_thermal", "hw_thermal", "power_brake"]


def test_counter_names_exist_in_the_installed_binding():
    for policy in POLICY_COUNTERS.values():
        assert hasattr(pynvml, f"NVML_PERF_POLICY_{policy}")
        assert hasattr(pynvml, f"NVML_FI_DEV_PERF_POLICY_{policy}")
    for name in SLOWDOWN_COUNTERS.values():
        assert hasattr(pynvml, f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{name}")


def test_l4_at_210_mhz_under_power_brake():
    throttled, evidence = judge_throttled(window(0x88, 210), L4)
    assert throttled is True
    assert "hw_slowdown, power_brake in 50 of 50 samples" in evidence
    assert "210 of 2040 MHz (10%)" in evidence


def test_one_sample_of_a_thermal_reason_is_evidence():
    busy = BusyWindow([0] * 99 + [0x40], [2000] * 100)
    assert judge_throttled(busy, L4)[0] is True


def test_slow_clock_without_any_reason_is_throttled():
    # DGX Spark stuck at 799 of 2281 MHz is 35.03 %: above the default share, below a half.
    spark = window(0, 799)
    assert judge_throttled(spark, ThrottleRule(2281, below_share=0.5))[0] is True
    assert judge_throttled(spark, ThrottleRule(2281))[0] is False
    assert judge_throttled(window(0, 500), ThrottleRule(2281))[0] is True


@pytest.mark.parametrize(("clock_mhz", "throttled"), [(204, True), (551, True), (1000, False), (2040, False)])
def test_default_share_parts_the_throttled_l4_from_the_cooled_one(clock_mhz, throttled):
    assert judge_throttled(window(0, clock_mhz), L4)[0] is throttled


def test_power_cap_alone_is_normal():
    before, after = {"sw_power_cap": 0}, {"sw_power_cap": 60_000_000_000}
    capped = window(0x4, 1395, counters_before_ns=before, counters_after_ns=after)
    assert judge_throttled(capped, ThrottleRule(2100))[0] is False


def test_flags_clear_but_counters_moved():
    throttled, evidence = judge_throttled(
        window(
            0,
            2000,
            counters_before_ns={"sw_thermal": 0, "hw_thermal": 0, "sw_power_cap": 0},
            counters_after_ns={"sw_thermal": 173_453_251_000, "hw_thermal": 403_805_000, "sw_power_cap": 0},
        ),
        L4,
    )
    assert throttled is True
    assert "sw_thermal 173 s" in evidence
    assert "hw_thermal 0.404 s" in evidence


@pytest.mark.parametrize("thermal_s", [98.2, 96.6])
def test_a_thermal_counter_that_only_follows_the_power_cap_is_no_heat(thermal_s):
    before = dict.fromkeys(("sw_power_cap", "sw_thermal", "thermal_policy", "hw_thermal"), 5)
    after = before | {"sw_power_cap": 98_200_000_005, "sw_thermal": round(thermal_s * 1e9), "thermal_policy": 5}
    busy = window(0x4, 1800, counters_before_ns=before, counters_after_ns=after)
    assert judge_throttled(busy, ThrottleRule(2040))[0] is False


@pytest.mark.parametrize("name", ["hw_thermal", "power_brake", "sw_thermal", "thermal_policy"])
def test_each_thermal_or_brake_counter_is_evidence(name):
    busy = window(0, 2000, counters_before_ns={name: 1}, counters_after_ns={name: 2_000_001})
    assert judge_throttled(busy, L4)[0] is True


def test_no_evidence_is_neither_yes_nor_no():
    assert judge_throttled(BusyWindow([], []), L4) == (None, "not read: event reasons, SM clock")
    assert judge_throttled(window(None, 2000), L4) == (None, "not read: event reasons")
    assert judge_throttled(window(0, None), L4) == (None, "not read: SM clock")
    assert judge_throttled(window(0, 2000), ThrottleRule(None)) == (None, "not read: highest SM clock")


def test_half_a_column_is_enough_and_less_is_not():
    assert judge_throttled(BusyWindow([0, None], [2000, None]), L4)[0] is False
    assert judge_throttled(BusyWindow([0, None, None], [2000, 2000, 2000]), L4)[0] is None


def test_evidence_for_throttling_counts_where_the_rest_is_unread():
    assert judge_throttled(window(0x40, None), ThrottleRule(None))[0] is True


def test_growth_leaves_out_what_cannot_be_compared():
    assert counter_growth_ns({"a": 5, "b": 9, "c": 1}, {"a": 7, "b": 3, "d": 1}) == {"a": 2}
    assert counter_growth_ns(None, {"a": 1}) == {}
