import pytest
from make_records import STARTED_S, make_launch, make_run
from two_cards import SECOND_NAMED, make_launch_on_two, make_run_on_two

from study.analyze.runs import figures_of
from study.design.clock_events import THERMAL_OR_BRAKE

THERMAL = 0x20


def figures(second=None, launch=None, **fields):
    launch = launch or make_launch_on_two()
    return figures_of(make_run_on_two(launch, second, **fields), launch)


def test_one_card_has_no_figures_by_card():
    launch = make_launch()
    found = figures_of(make_run(launch), launch)
    assert found.cards == ()
    assert found.median_sm_clock_mhz == 1275.0


def test_the_lowest_clock_and_the_highest_temperature_stand_for_all_cards():
    found = figures({"sm_clock_mhz": 900.0, "temperature_c": 71.0})
    assert (found.median_sm_clock_mhz, found.median_temperature_c) == (900.0, 71.0)
    assert figures({"sm_clock_mhz": 1400.0, "temperature_c": 50.0}).median_sm_clock_mhz == 1275.0


def test_power_and_energy_are_sums():
    # 70 W and 30 W for tokens of 60 ms, one user: (70 + 30) x the load's length over its 8 x 192 tokens
    found = figures({"power_w": 30.0})
    assert found.mean_power_w == pytest.approx(100.0)
    assert found.energy_per_token_j == pytest.approx(100.0 * found.duration_s / (8 * 192), rel=1e-6)
    assert found.energy_check == pytest.approx(1.0, rel=1e-3)


def test_power_at_rest_of_all_cards_is_taken_off():
    # (70 + 68) W under load less (30 + 32) W at rest, for a step of 60 ms
    assert figures().dynamic_energy_per_step_j == pytest.approx((138.0 - 62.0) * 0.060, rel=1e-6)


def test_each_card_keeps_its_own_figures():
    first, second = figures({"sm_clock_mhz": 900.0, "power_w": 30.0}).cards
    assert (first.gpu_uuid, first.median_sm_clock_mhz, first.mean_power_w) == ("GPU-1", 1275.0, 70.0)
    assert (second.gpu_uuid, second.median_sm_clock_mhz, second.mean_power_w) == ("GPU-2", 900.0, 30.0)
    assert second.energy_j == pytest.approx(30.0 * figures().duration_s, rel=1e-6)


def test_a_throttled_second_card_throttles_the_run_and_is_named():
    found = figures({"event_reasons": THERMAL})
    assert THERMAL & THERMAL_OR_BRAKE
    assert found.throttled is True
    assert found.throttled_evidence.startswith(f"{SECOND_NAMED}: sw_thermal in ")
    assert "card 1 of 2" not in found.throttled_evidence
    assert [card.throttled for card in found.cards] == [False, True]


def test_a_slow_clock_is_judged_by_the_cards_own_highest():
    # METHOD: below 0.35 of this card's highest; 690 MHz is 0.34 of 2040
    assert figures({"sm_clock_mhz": 690.0}).throttled is True
    assert figures({"sm_clock_mhz": 720.0}).throttled is False


def test_a_second_card_without_evidence_is_no_pass():
    unread = {"event_reasons": None, "sm_clock_mhz": None, "throttle_before_ns": None, "throttle_after_ns": None}
    found = figures(unread)
    assert found.throttled is None
    assert found.throttled_evidence == f"{SECOND_NAMED}: not read: event reasons, SM clock"
    assert found.median_sm_clock_mhz is None
    assert found.reasons["median_sm_clock_mhz"].startswith("card 2 of 2: ")


def test_telemetry_without_the_second_card_is_no_pass():
    launch = make_launch_on_two()
    found = figures_of(make_run(launch), launch)
    assert found.throttled is None
    assert SECOND_NAMED in found.throttled_evidence


def test_energy_of_a_card_that_fell_off_the_bus_is_missing_and_not_less():
    def lost(t_s):
        return {"energy_j": [None] * len(t_s)}

    found = figures(lost)
    assert found.energy_per_token_j is None
    assert found.reasons["energy_per_token_j"].startswith("card 2 of 2: ")


def test_the_power_cap_is_that_of_the_card_which_it_held_longest():
    found = figures({"throttle_after_ns": {"sw_power_cap": 4_000_000_000}, "throttle_before_ns": {"sw_power_cap": 0}})
    assert found.power_capped_s_per_request == pytest.approx(4.0 / 8)


def test_event_shares_are_those_of_the_card_that_gives_them_most():
    def half(t_s):
        middle = STARTED_S + (t_s[-1] - STARTED_S) / 2
        return {"event_reasons": [0x4 if one < middle else 0 for one in t_s]}

    assert figures(half).event_shares["sw_power_cap"] == pytest.approx(0.5, abs=0.02)
