"""What telemetry says of each card of a server that spreads over several, and of all of them together.

    clock         the lowest of the cards' medians: a step waits for the slowest card
    temperature   the highest of their medians
    power, energy the sum
    throttled     any card

A figure that one card lacks is missing for all of them, with that card named. On one card everything is as that card
says.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from study.analyze.load_window import (
    POWER_SETTLES_S,
    Figure,
    LoadWindow,
    Missing,
    counter_power_w,
    energy_check,
    event_shares,
    find_window,
    mean_power_w,
    power_capped_s,
    reduce_column,
)
from study.design.card_facts import name_card
from study.design.clock_events import BusyWindow, ThrottleRule, judge_throttled
from study.records import LaunchRecord, Machine, RunRecord

Throttled: TypeAlias = tuple[bool | None, str]


@dataclass(frozen=True)
class CardFigures:
    """One card of several during one load; a figure that is None has its reason in `reasons`.

    Attributes:
        gpu_uuid: the card.
        median_sm_clock_mhz, median_temperature_c, mean_power_w: as in `RunFigures`, of this card.
        energy_j: the growth of its energy counter over the load.
        throttled: whether this card was throttled, on evidence.
        throttled_evidence: that evidence, in words.
        reasons: name of a missing figure: why.

    """

    gpu_uuid: str
    median_sm_clock_mhz: float | None
    median_temperature_c: float | None
    mean_power_w: float | None
    energy_j: float | None
    throttled: bool | None
    throttled_evidence: str
    reasons: dict[str, str]


def find_windows(run: RunRecord) -> tuple[LoadWindow, ...] | Missing:
    """Return the samples of each card within the load, the first card first."""
    first = find_window(run)
    if isinstance(first, Missing) or run.telemetry is None:
        return first if isinstance(first, Missing) else Missing("no telemetry")
    return tuple(replace(first, telemetry=columns) for columns in run.telemetry.by_card)


def over_cards(
    windows: Sequence[LoadWindow], figure: Callable[[LoadWindow], Figure], join: Callable[[Sequence[float]], float]
) -> Figure:
    """Return one figure of all cards, from that of each; Missing where a card lacks it, named if there are several."""
    found = [figure(window) for window in windows]
    if len(found) == 1:
        return found[0]
    for place, value in enumerate(found):
        if isinstance(value, Missing):
            return Missing(f"card {place + 1} of {len(found)}: {value.reason}")
    return join([value for value in found if not isinstance(value, Missing)])


def energy_j(window: LoadWindow) -> Figure:
    """Energy of the load by the counter. The samples' own span is a little shorter, so its power is what is used."""
    power_w = counter_power_w(window)
    return power_w if isinstance(power_w, Missing) else power_w * window.duration_s


def check_energy(windows: Sequence[LoadWindow]) -> Figure:
    """Return energy by the counters over energy by mean power x time, of all cards together; 1 where they agree."""
    whole = over_cards(windows, energy_check, lambda found: found[0])
    if len(windows) == 1 or isinstance(whole, Missing):
        return whole
    by_counter = over_cards(windows, lambda window: counter_power_w(window, POWER_SETTLES_S), sum)
    by_power = over_cards(windows, mean_power_w, sum)
    if isinstance(by_counter, Missing) or isinstance(by_power, Missing):
        return by_counter if isinstance(by_counter, Missing) else by_power
    return by_counter / by_power


def share_events(windows: Sequence[LoadWindow]) -> dict[str, float] | Missing:
    """Return event reason to the share of samples that give it, of the card that gives it most."""
    shares: dict[str, float] = {}
    for place, window in enumerate(windows):
        found = event_shares(window)
        if isinstance(found, Missing):
            return found if len(windows) == 1 else Missing(f"card {place + 1} of {len(windows)}: {found.reason}")
        shares |= {name: max(share, shares.get(name, 0.0)) for name, share in found.items()}
    return dict(sorted(shares.items()))


def longest_cap_s(windows: Sequence[LoadWindow]) -> Figure:
    """Return for how long the software power cap held a clock down, s: of the card that it held down longest."""
    return over_cards(windows, power_capped_s, max)


def find_throttling(run: RunRecord, launch: LaunchRecord, below_share: float) -> Throttled:
    """Say whether a card was throttled during the load, and on what evidence; None without evidence.

    Of several cards one is enough. None was only where every one has evidence.
    """
    found = _throttling_by_card(run, launch.machine, below_share)
    if isinstance(found, Missing):
        return None, found.reason
    if len(found) == 1:
        return found[0]
    states = [state for state, _ in found]
    whole = True if True in states else None if None in states else False
    uuids = launch.machine.uuids
    said = [f"{name_card(place, uuids)}: {text}" for place, (state, text) in enumerate(found) if state is whole]
    return whole, "; ".join(said)


def _throttling_by_card(run: RunRecord, machine: Machine, below_share: float) -> list[Throttled] | Missing:
    windows = find_windows(run)
    if isinstance(windows, Missing):
        return windows
    first = (machine.max_sm_clock_mhz, windows[0])
    if not machine.further_cards:
        return [_judge_window(*first, below_share)]
    later = {getattr(window.telemetry, "gpu_uuid", ""): window for window in windows[1:]}
    rest = [(card.max_sm_clock_mhz, later.get(card.gpu_uuid)) for card in machine.further_cards]
    return [_judge_window(*one, below_share) for one in (first, *rest)]


def _judge_window(max_mhz: float | None, window: LoadWindow | None, below_share: float) -> Throttled:
    if window is None:
        return None, "the telemetry does not have this card"
    clocks = window.telemetry.sm_clock_mhz
    busy = BusyWindow(
        event_reasons=window.masks(),
        sm_clock_mhz=[] if clocks is None else [clocks[row] for row in window.rows],
        counters_before_ns=window.telemetry.throttle_before_ns,
        counters_after_ns=window.telemetry.throttle_after_ns,
    )
    return judge_throttled(busy, ThrottleRule(max_mhz, below_share))


def idle_power_w(launch: LaunchRecord) -> Figure:
    """Return the power at rest with the server loaded, W, of all cards together."""
    if launch.idle_power_w is None:
        return Missing(f"power at rest: {launch.missing['idle_power_w']}")
    total = launch.idle_power_w
    for place, card in enumerate(launch.further_cards):
        if card.idle_power_w is None:
            why = card.missing["idle_power_w"]
            return Missing(f"{name_card(place + 1, launch.machine.uuids)}: power at rest: {why}")
        total += card.idle_power_w
    return total


def figures_by_card(run: RunRecord, launch: LaunchRecord, below_share: float) -> tuple[CardFigures, ...]:
    """Return the figures of each card of a server on several; empty for one card, and without a sample in the load."""
    if not launch.machine.further_cards:
        return ()
    windows = find_windows(run)
    throttled = _throttling_by_card(run, launch.machine, below_share)
    if isinstance(windows, Missing) or isinstance(throttled, Missing) or len(windows) != len(launch.machine.uuids):
        return ()
    return tuple(_figures_of_card(*one) for one in zip(launch.machine.uuids, windows, throttled, strict=True))


def _figures_of_card(uuid: str, window: LoadWindow, throttled: Throttled) -> CardFigures:
    found: dict[str, Figure] = {
        "median_sm_clock_mhz": reduce_column(window, "sm_clock_mhz", np.median),
        "median_temperature_c": reduce_column(window, "temperature_c", np.median),
        "mean_power_w": mean_power_w(window),
        "energy_j": energy_j(window),
    }
    reasons = {name: value.reason for name, value in found.items() if isinstance(value, Missing)}
    values = {name: None if isinstance(value, Missing) else value for name, value in found.items()}
    return CardFigures(uuid, **values, throttled=throttled[0], throttled_evidence=throttled[1], reasons=reasons)
