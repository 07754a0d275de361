"""Processes that compute on the server's cards and are not the server's."""

from collections.abc import Sequence

from study.design.card_facts import CardProcesses
from study.measure.gpu import GpuReader


def find_foreign(reader: GpuReader, own: set[int]) -> tuple[list[int] | None, str]:
    """Return the processes on one card that are not among the server's `own`, or None and why that cannot be told."""
    listed = reader.process_ids()
    if listed is None:
        return None, "NVML lists no processes"
    if listed and not own & set(listed):
        return None, "NVML lists processes by ids of another namespace"
    return sorted(set(listed) - own), ""


def find_all_foreign(
    readers: Sequence[GpuReader], own: set[int]
) -> tuple[list[int] | None, str, list[CardProcesses]]:
    """Return the foreign processes on all cards, why there is no list, and those of each card where there are several.

    A process that is seen on one card counts, whatever another card does not tell; without any, every card has to tell.
    """
    if not readers:
        return None, "no GPU", []
    found = [find_foreign(reader, own) for reader in readers]
    seen = sorted({pid for pids, _ in found for pid in pids or ()})
    reason = next((reason for pids, reason in found if pids is None), "")
    cards = [
        CardProcesses(
            gpu_uuid=reader.uuid,
            foreign_gpu_processes=pids,
            missing={"foreign_gpu_processes": why} if pids is None else {},
        )
        for reader, (pids, why) in zip(readers, found, strict=True)
    ]
    whole = seen if seen or not reason else None
    return whole, "" if whole is not None else reason, cards if len(readers) > 1 else []
