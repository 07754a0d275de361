import pytest

from study.analyze.formats import (
    format_count,
    format_gib,
    format_mhz,
    format_model,
    format_ms,
    format_percent,
    format_seconds,
)
from study.errors import InputError

DASH = "\N{EN DASH}"


def test_milliseconds_level_by_level():
    assert format_ms([60.36, 61.07]) == "60.36 / 61.07 ms"


def test_clocks_with_thousands():
    assert format_mhz([1275, 1290]) == "1,275 / 1,290 MHz"


@pytest.mark.parametrize(("middle", "printed"), [((1305 + 1320) / 2, "1,313 MHz"), ((540 + 555) / 2, "548 MHz")])
def test_the_middle_of_two_clocks_rounds_up_as_in_the_2026_10_edition(middle, printed):
    assert format_mhz([middle]) == printed


def test_halves_are_those_that_a_reader_sees():
    assert format_ms([0.145]) == "0.15 ms"


def test_percent_of_the_throttled_o0():
    assert format_percent(100 * (106.48 / 104.14 - 1)) == "2.2 percent"


def test_a_small_negative_percentage_has_no_sign():
    assert format_percent(-0.04) == "0.0 percent"


def test_a_negative_percentage_keeps_its_sign():
    assert format_percent(-5.25) == "\N{MINUS SIGN}5.3 percent"


def test_seconds_as_logs_give_them():
    assert format_seconds(127.54) == "127.54 s"
    assert format_seconds(480.2, digits=0) == "480 s"


def test_sizes_and_counts():
    assert format_gib(1.17) == "1.17 GiB"
    assert format_count(613024) == "613,024"


def test_a_missing_value_is_a_dash():
    assert format_ms([60.36, None]) == f"60.36 / {DASH} ms"
    assert format_percent(float("nan")) == DASH


def test_nothing_measured_has_no_unit():
    assert format_ms([None, None]) == f"{DASH} / {DASH}"


def test_an_infinite_value_is_refused():
    with pytest.raises(InputError, match="inf"):
        format_ms([float("inf")])


def test_a_shape_with_random_weights_is_not_called_a_model():
    shape = {"model": "notebooks/parameters/models/qwen3-8b.yaml", "load_format": "dummy"}
    assert format_model(shape) == "the shape of qwen3-8b with random weights"
    assert format_model({"model": "Qwen/Qwen3-8B", "load_format": "auto"}) == "Qwen/Qwen3-8B"
