import pynvml
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeNvml

from study.measure.foreign_processes import find_all_foreign
from study.measure.gpu import GpuReader

OWN = {100, 101}


def find(*pids, failures=None):
    uuids = (UUID, OTHER_UUID)
    cards = [FakeCard(uuid=uuids[place], index=place, pids=list(ids)) for place, ids in enumerate(pids)]
    cards[-1].failures |= failures or {}
    nvml = FakeNvml(*cards)
    return find_all_foreign([GpuReader.open(card.uuid, nvml, {}) for card in cards], OWN)


def test_on_one_card_there_is_no_list_by_card():
    assert find([100, 7]) == ([7], "", [])
    assert find_all_foreign([], OWN) == (None, "no GPU", [])


def test_a_stranger_on_the_second_card_is_seen_there():
    foreign, reason, cards = find([100], [101, 7])
    assert (foreign, reason) == ([7], "")
    assert [(card.gpu_uuid, card.foreign_gpu_processes) for card in cards] == [(UUID, []), (OTHER_UUID, [7])]


def test_a_stranger_counts_whatever_another_card_does_not_tell():
    silent = dict.fromkeys(
        ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2"),
        pynvml.NVML_ERROR_NOT_SUPPORTED,
    )
    foreign, _, cards = find([100, 7], [], failures=silent)
    assert foreign == [7]
    assert cards[1].foreign_gpu_processes is None
    foreign, reason, _ = find([100], [], failures=silent)
    assert (foreign, reason) == (None, "NVML lists no processes")


def test_ids_of_another_namespace_on_the_second_card_are_no_pass():
    foreign, reason, _ = find([100], [90001])
    assert (foreign, reason) == (None, "NVML lists processes by ids of another namespace")
