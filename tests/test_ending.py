"""Where a request to end may cut in, and where it waits."""

import signal

import pytest

from study.measure.ending import Ending, Interrupted


def test_a_request_cuts_into_an_open_region():
    ending = Ending()
    with pytest.raises(Interrupted), ending:
        ending.ask()


def test_a_request_outside_waits_for_the_next_region():
    ending = Ending()
    ending.ask()
    reached = []
    with pytest.raises(Interrupted), ending:
        reached.append(True)
    assert reached == []


def test_a_second_request_does_not_cut_into_the_clearing_up():
    ending, cleared = Ending(), []
    with pytest.raises(Interrupted), ending:
        try:
            ending.ask()
        finally:
            ending.ask()
            cleared.append(True)
    assert cleared == [True]


def test_a_region_that_is_left_is_closed():
    ending = Ending()
    with ending:
        pass
    ending.ask()
    assert ending.asked


def test_a_real_signal_cuts_into_a_wait():
    ending = Ending()
    before = signal.signal(signal.SIGUSR1, lambda _number, _frame: ending.ask())
    try:
        with pytest.raises(Interrupted), ending:
            signal.raise_signal(signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)
