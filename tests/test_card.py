import pytest

from study.design.card import Card, read_card
from study.errors import InputError


def test_a_card_is_read_from_its_words():
    card = read_card("sm=8.9,memory=24GiB,tp=1")
    assert (card.capability, card.memory_gib, card.tp) == ((8, 9), 24.0, 1)


@pytest.mark.parametrize(
    ("memory", "size"), [("24GiB", 24 * 2**30), ("24576MiB", 24 * 2**30), ("24", 24 * 2**30), ("24GB", 24 * 10**9)]
)
def test_memory_has_a_unit(memory, size):
    assert read_card(f"sm=8.9,memory={memory}").memory_bytes == size


def test_one_card_is_the_default_and_order_does_not_matter():
    assert read_card("memory=141GiB, sm=9.0") == Card(sm="9.0", memory_gib=141.0, tp=1)


@pytest.mark.parametrize("text", ["sm=8.9,memory=24GiB,tp=1", "sm=8.0,memory=80GiB,tp=2,name=NVIDIA A100"])
def test_what_a_card_prints_is_what_reads_it(text):
    assert str(read_card(text)) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sm=8.9,memry=24GiB", "'memry' is unknown; did you mean 'memory'"),
        ("memory=24GiB", "no 'sm'"),
        ("sm=8.9", "no 'memory'"),
        ("sm=89,memory=24GiB", "sm is '89'"),
        ("sm=8.9,memory=big", "'big', which is no size"),
        ("sm=8.9,memory=24GiB,tp=0", "tp is '0'"),
        ("sm=8.9,sm=9.0,memory=24GiB", "'sm' stands twice"),
        ("L4", "'L4' needs the form name=value, such as sm=8.9,memory=24GiB,tp=1"),
    ],
)
def test_what_is_no_card_is_named(text, said):
    with pytest.raises(InputError, match=said):
        read_card(text)
