"""What a card says about its clock: event reasons, throttle counters, and whether a busy window was throttled.

Pure, so that validity can be judged from records on a machine without NVML. The bits are NVML's
(`nvmlClocksEventReason*`, before driver 535 `nvmlClocksThrottleReason*`; the values are the same).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

EVENT_BITS: Mapping[int, str] = {
    0x1: "idle",
    0x2: "application_clocks",
    0x4: "sw_power_cap",
    0x8: "hw_slowdown",
    0x10: "sync_boost",
    0x20: "sw_thermal",
    0x40: "hw_thermal",
    0x80: "power_brake",
    0x100: "display_clock",
    0x200: "board_limit",
    0x400: "reliability",
}
"""Each bit's name. `hw_slowdown` alone means that the hardware slowed the clock and does not tell why."""

IDLE = 0x1
SW_POWER_CAP = 0x4
THERMAL_OR_BRAKE = 0x8 | 0x20 | 0x40 | 0x80
"""HW slowdown, SW thermal, HW thermal, power brake: throttled. A software power cap alone is how a card runs."""

POLICY_COUNTERS: Mapping[str, str] = {
    "sw_power_cap": "POWER",
    "thermal_policy": "THERMAL",
    "sync_boost": "SYNC_BOOST",
    "board_limit": "BOARD_LIMIT",
    "reliability": "RELIABILITY",
}
SLOWDOWN_COUNTERS: Mapping[str, str] = {
    "sw_thermal": "SW_THERM_SLOWDOWN",
    "hw_thermal": "HW_THERM_SLOWDOWN",
    "power_brake": "HW_POWER_BRAKE_SLOWDOWN",
}
"""Names of the throttle counters here, and in NVML after `NVML_PERF_POLICY_`, `NVML_FI_DEV_CLOCKS_EVENT_REASON_`."""

HW_COUNTERS = ("hw_thermal", "power_brake")
SW_THERMAL_COUNTERS = ("sw_thermal", "thermal_policy")
BEYOND_POWER_CAP = 1.05
"""SW thermal counters count as heat only above this multiple of the power cap's counter, see `judge_throttled`."""


def decode_event_reasons(mask: int) -> list[str]:
    """Return the names of the bits set in `mask`, lowest first; a bit without a name stays as hexadecimal text."""
    bits = [1 << place for place in range(mask.bit_length()) if mask >> place & 1]
    return [EVENT_BITS.get(bit, hex(bit)) for bit in bits]


@dataclass(frozen=True)
class ThrottleRule:
    """What counts as throttled.

    Attributes:
        max_sm_clock_mhz: highest SM clock of this card, MHz; None where NVML does not tell it.
        below_share: of that clock; a lower median of the busy clock is throttled even with no reason given.

    """

    max_sm_clock_mhz: float | None
    below_share: float = 0.35


@dataclass(frozen=True)
class BusyWindow:
    """What was read while a load ran, and only then: samples as columns, and the throttle counters around it (ns)."""

    event_reasons: Sequence[int | None]
    sm_clock_mhz: Sequence[float | None]
    counters_before_ns: Mapping[str, int] | None = None
    counters_after_ns: Mapping[str, int] | None = None


def counter_growth_ns(before: Mapping[str, int] | None, after: Mapping[str, int] | None) -> dict[str, int]:
    """Return by how much each throttle counter grew, ns.

    A counter that is on one side only, or that fell (the driver was reloaded), is left out.
    """
    if before is None or after is None:
        return {}
    growth = {name: after[name] - before[name] for name in before if name in after}
    return {name: grown for name, grown in growth.items() if grown >= 0}


def judge_throttled(window: BusyWindow, rule: ThrottleRule) -> tuple[bool | None, str]:
    """Say whether a card was throttled while it was busy, and on what evidence.

    True on a thermal, power-brake or HW-slowdown reason in any sample, on growth of their counters, or on a median
    SM clock below the rule's share of the highest. False needs both reasons and clock in at least half of the
    samples. None otherwise: no evidence is not a pass.

    The SW thermal counters are taken as heat only where they outgrow the software power cap's counter: several
    drivers count capped time in both (both counters equal on a laptop card with driver 575; 96.6 s beside 98.2 s on
    a board that gave the power cap as its only reason). Heat that comes with a cap still shows in the samples.
    """
    said = [text for text in (_in_samples(window), _in_counters(window)) if text]
    clock, share = _busy_clock(window, rule)
    slow = share is not None and share < rule.below_share
    if said or slow:
        return True, "; ".join([*said, clock])
    unread = [
        name
        for name, column in (("event reasons", window.event_reasons), ("SM clock", window.sm_clock_mhz))
        if not column or 2 * sum(entry is not None for entry in column) < len(column)
    ]
    if rule.max_sm_clock_mhz is None:
        unread.append("highest SM clock")
    if unread:
        return None, f"not read: {', '.join(unread)}"
    return False, f"no thermal, power-brake or HW-slowdown reason; {clock}"


def _in_samples(window: BusyWindow) -> str:
    """Return which throttling reasons the samples give and in how many of them; empty for none."""
    read = [mask for mask in window.event_reasons if mask is not None]
    hits = [mask & THERMAL_OR_BRAKE for mask in read if mask & THERMAL_OR_BRAKE]
    seen = 0
    for mask in hits:
        seen |= mask
    return f"{', '.join(decode_event_reasons(seen))} in {len(hits)} of {len(read)} samples" if hits else ""


def _in_counters(window: BusyWindow) -> str:
    """Return which throttle counters grew, in seconds; empty for none."""
    growth = counter_growth_ns(window.counters_before_ns, window.counters_after_ns)
    capped = BEYOND_POWER_CAP * growth.get("sw_power_cap", 0)
    grown = {name: growth[name] for name in HW_COUNTERS if growth.get(name, 0) > 0}
    grown |= {name: growth[name] for name in SW_THERMAL_COUNTERS if growth.get(name, 0) > capped}
    told = ", ".join(f"{name} {grown_ns / 1e9:.3g} s" for name, grown_ns in grown.items())
    return f"counters grew: {told}" if told else ""


def _busy_clock(window: BusyWindow, rule: ThrottleRule) -> tuple[str, float | None]:
    """Return the median SM clock in words, and as a share of the card's highest where both are known."""
    read = [mhz for mhz in window.sm_clock_mhz if mhz is not None]
    if not read:
        return "SM clock not read", None
    busy_mhz = median(read)
    if not rule.max_sm_clock_mhz:
        return f"median SM clock {busy_mhz:.0f} MHz", None
    share = busy_mhz / rule.max_sm_clock_mhz
    return f"median SM clock {busy_mhz:.0f} of {rule.max_sm_clock_mhz:.0f} MHz ({share:.0%})", share
