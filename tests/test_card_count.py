import pytest

from study.design.card_count import count_cards, count_cards_of_levels
from study.design.levels import Level
from study.errors import InputError


@pytest.mark.parametrize(
    ("flags", "cards"),
    [
        ([], 1),
        (["--max-model-len", "1024"], 1),
        (["-tp", "2"], 2),
        (["-tp=2"], 2),
        (["--tensor-parallel-size", "4"], 4),
        (["--tensor-parallel-size=4"], 4),
        (["--tensor_parallel_size=4"], 4),
        (["--tensor_parallel_size", "4"], 4),
        (["--tensor-parallel", "4"], 4),  # vLLM's parser takes a beginning
        (["-pp", "3"], 3),
        (["--pipeline-parallel-size=3"], 3),
        (["-tp", "2", "-pp", "2"], 4),
        (["-tp", "2", "-pcp", "2"], 4),  # world_size is TP x PP x prefill context
        (["-tp", "4", "-dcp", "2"], 4),  # decode context parallel reuses the cards of tensor parallel
        (["-dp", "2"], 2),
        (["-tp", "2", "-dp", "2"], 4),
        (["-dp", "8", "-dpl", "2"], 2),  # the rest is on other machines
        (["--data-parallel-size", "8", "--data-parallel-size-local=2"], 2),
        (["-dp", "8", "-dpn", "3", "-tp", "2"], 2),  # one rank of eight
        (["-tp", "2", "-tp", "4"], 4),  # the last one counts
    ],
)
def test_cards_are_the_product_of_the_local_parallel_sizes(flags, cards):
    assert count_cards(flags) == cards


@pytest.mark.parametrize("value", ["two", "0", "-2", "1.5", ""])
def test_a_size_that_is_no_number_is_named(value):
    with pytest.raises(InputError, match=f"flag '-tp' is '{value}', which is no whole number from 1"):
        count_cards([f"-tp={value}"])


def test_a_size_without_a_value_is_named():
    with pytest.raises(InputError, match="flag '--tensor-parallel-size' has no value"):
        count_cards(["--tensor-parallel-size"])
    with pytest.raises(InputError, match="'--max-model-len'"):
        count_cards(["-tp", "--max-model-len", "512"])


def test_levels_that_ask_for_different_numbers_of_cards_are_refused_in_one_line():
    levels = [Level(name="default"), Level(name="spread", flags=("-tp", "2"))]
    with pytest.raises(InputError) as caught:
        count_cards_of_levels([], levels)
    assert str(caught.value) == (
        "level 'spread' asks for 2 cards and level 'default' for 1; all levels of a study need as many: put parallel "
        "sizes into server_flags"
    )


def test_levels_may_carry_the_same_sizes_themselves():
    levels = [Level(name="one", flags=("-tp=2",)), Level(name="two", flags=("--tensor-parallel-size", "2"))]
    assert count_cards_of_levels([], levels) == 2
    assert count_cards_of_levels(["-tp", "4"], levels) == 2  # a level's flags come last


def test_a_level_beside_those_of_the_server_flags_is_counted_with_them():
    assert count_cards_of_levels(["-tp", "2"], [Level(name="default"), Level(name="O0", flags=("-O0",))]) == 2
