import pytest
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeNvml

from study.errors import InputError
from study.measure.cards import open_cards
from study.measure.gpu import GpuReader

THIRD = "GPU-33333333-8888-7777-6666-555555555555"
UUIDS = (UUID, OTHER_UUID, THIRD)


def machine_of(count):
    return FakeNvml(*(FakeCard(uuid=UUIDS[place], index=place) for place in range(count)))


def opened(nvml, gpu, count):
    with open_cards(gpu, count, lambda name: GpuReader.open(name, nvml, {})) as readers:
        return [reader.uuid for reader in readers]


def refusal(nvml, gpu, count):
    with pytest.raises(InputError) as caught:
        opened(nvml, gpu, count)
    assert "\n" not in str(caught.value)
    assert nvml.open == 0  # whatever was opened before is closed again
    return str(caught.value)


def test_a_list_gives_the_cards_in_its_order():
    assert opened(machine_of(3), [THIRD, UUID], 2) == [THIRD, UUID]
    assert opened(machine_of(3), [2, 0], 2) == [THIRD, UUID]
    assert opened(machine_of(3), [1], 1) == [OTHER_UUID]


def test_without_a_name_all_cards_serve_where_they_are_as_many_as_needed():
    assert opened(machine_of(2), None, 2) == [UUID, OTHER_UUID]
    assert opened(machine_of(1), None, 1) == [UUID]


def test_which_of_more_cards_is_not_guessed():
    assert refusal(machine_of(3), None, 2) == (
        "gpu null: the server's parallel sizes need 2 cards and more than 2 are here: name them as a list, "
        "gpu: [0, 1], or by UUID"
    )


def test_too_few_cards_are_named():
    assert "need 4 cards and 3 answer by index from 0" in refusal(machine_of(3), None, 4)


@pytest.mark.parametrize(
    ("gpu", "count", "said"),
    [
        (0, 2, "gpu 0 names 1 card; the server's parallel sizes need 2: name them as a list, gpu: [0, 1], or by UUID"),
        ([0], 2, "gpu [0] names 1 card; the server's parallel sizes need 2"),
        ([0, 1], 1, "gpu [0, 1] names 2 cards; the server's parallel sizes need 1"),
        ([0, 1, 2], 2, "gpu [0, 1, 2] names 3 cards; the server's parallel sizes need 2"),
        ([0, UUID], 2, f"gpu [0, '{UUID}'] names {UUID} twice; each card once works"),
        ([0, 7], 2, "gpu 7 is not here"),
    ],
)
def test_a_list_that_does_not_fit_is_refused_in_one_line(gpu, count, said):
    assert refusal(machine_of(3), gpu, count).startswith(said)


def test_a_slice_of_a_card_is_no_card_of_several():
    slices = [FakeCard(uuid="MIG-1")]
    nvml = FakeNvml(FakeCard(mig=slices), FakeCard(uuid=OTHER_UUID, index=1))
    assert refusal(nvml, ["MIG-1", OTHER_UUID], 2) == (
        "gpu MIG-1 is a MIG slice; a server on 2 cards needs whole cards"
    )
    assert "MIG-1 is a MIG slice" in refusal(nvml, None, 2)


def test_every_card_is_closed_at_the_end():
    nvml = machine_of(2)
    assert len(opened(nvml, [0, 1], 2)) == 2
    assert nvml.open == 0
