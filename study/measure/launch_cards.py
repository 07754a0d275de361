"""The cards of one launch: who was on them before it, their canaries, how they rest, and what its stop left on them.

The launch's own fields are those of the first card; what is kept here of the further ones stands in its record's
`further_cards`. Canaries run one card after the other: two at once would share the host.
"""

import time
from collections.abc import Callable
from typing import Any

from study.design.card_facts import CardOfLaunch, name_card
from study.errors import InputError
from study.measure.card_memory import all_memory_left, wait_until_free
from study.measure.setting import Setting
from study.measure.thermal import IdleReading, measure_all_idle
from study.records import Canary, LaunchRecord

CANARY_FRESH_S = 60.0
"""A canary this young, with nothing run since, serves as the next launch's canary too."""
IDLE_SOURCE = "idle with the server loaded + 3, measured"

RunCanary = Callable[[str, str | None, float, Callable[[], float]], tuple[Canary | None, str]]


class LaunchCards:
    """All cards of one launch; none on a machine without one."""

    def __init__(self, setting: Setting) -> None:
        self._setting = setting
        self._uuids = [reader.uuid for reader in setting.readers]
        self._pids_before = self._list_pids()
        self._used_before_gib = [reader.memory_used_gib() for reader in setting.readers]
        names = [name for name in CardOfLaunch.model_fields if name not in ("gpu_uuid", "missing")]
        self._further: list[dict[str, Any]] = [dict.fromkeys(names) for _ in self._uuids[1:]]
        self._reasons: list[dict[str, str]] = [{} for _ in self._uuids[1:]]

    def wait_until_free(self) -> None:
        """Wait until nobody holds memory on any card, and note what is in use then.

        Raises:
            InputError: somebody holds some still at the deadline.

        """
        readers = self._setting.readers
        held = wait_until_free(readers, self._setting.parameters.cool_deadline_s, time.monotonic, time.sleep)
        if held is not None:
            raise InputError(f"{held}; end that and resume with the same command")
        self._used_before_gib = [reader.memory_used_gib() for reader in readers]

    def run_canaries(self, name: str, timeout_s: float, run: RunCanary) -> tuple[Canary | None, str]:
        """Run the canary on each card; one that just ran, with nothing since, serves as the next launch's too.

        Args:
            name: canary_before or canary_after.
            timeout_s: of each card's.
            run: runs one in a process of its own.

        Returns:
            tuple: that of the first card, or of the host where there is none, and "", or None and why.

        """
        setting = self._setting
        last = setting.canaries[-1] if all(setting.canaries) and setting.canaries else None
        if name == "canary_before" and last and time.monotonic() - last.started_s < CANARY_FRESH_S:
            found: list[tuple[Canary | None, str]] = [(one, "") for one in setting.canaries]
        else:
            cards = setting.machine.uuids or (None,)
            found = [run(setting.parameters.device, uuid, timeout_s, time.monotonic) for uuid in cards]
            setting.canaries = tuple(canary for canary, _ in found) if name == "canary_after" else ()
        for place, (canary, reason) in enumerate(found[1:]):
            self._keep(place, {name: canary}, {name: reason})
        return found[0]

    def read_idle(self) -> IdleReading:
        """Read every card at rest, and return the first one's reading.

        The first reading sets the gate's temperatures where no parameter does.
        """
        setting = self._setting
        settle = not setting.targets_c
        found = measure_all_idle(setting.readers, time.monotonic, time.sleep, settle=settle)
        for place, (idle_c, idle_power_w, reasons) in enumerate(found[1:]):
            self._keep(place, {"idle_c": idle_c, "idle_power_w": idle_power_w}, reasons)
        told_c = [one.idle_c for one in found if one.idle_c is not None]
        if settle and len(told_c) == len(found):
            setting.targets_c, setting.target_source = tuple(idle_c + 3 for idle_c in told_c), IDLE_SOURCE
        return found[0]

    def list_left_over(self) -> list[str]:
        """Say what the stop left: processes and memory, on which card where there are several."""
        new = [sorted(now - before) for now, before in zip(self._list_pids(), self._pids_before, strict=True)]
        where = ["the GPU"] if len(new) == 1 else [name_card(place, self._uuids) for place in range(len(new))]
        left = [f"process {pid} on {card}" for card, pids in zip(where, new, strict=True) for pid in pids]
        return left + all_memory_left(self._setting.readers, self._used_before_gib, time.monotonic, time.sleep)

    def describe_further(self, why: str) -> list[CardOfLaunch]:
        """Return what is known of each further card now; `why` explains what was not reached."""
        return [
            CardOfLaunch(
                gpu_uuid=uuid,
                **facts,
                missing={name: reasons.get(name, why) for name, value in facts.items() if value is None},
            )
            for uuid, facts, reasons in zip(self._uuids[1:], self._further, self._reasons, strict=True)
        ]

    def _keep(self, place: int, facts: dict[str, Any], reasons: dict[str, str]) -> None:
        self._further[place] |= facts
        self._reasons[place] |= reasons

    def _list_pids(self) -> list[set[int]]:
        """Return the processes on each card; their ids may be those of another namespace."""
        return [set(reader.process_ids() or ()) for reader in self._setting.readers]


def make_up_canaries(setting: Setting, record: LaunchRecord, run: RunCanary, timeout_s: float) -> dict[str, Any]:
    """Run the canaries that a launch lacks whose runner was killed, on the same cards; return the fields to change."""
    cards = setting.machine.uuids or (None,)
    found = {uuid: run(setting.parameters.device, uuid, timeout_s, time.monotonic) for uuid in cards}
    setting.canaries = tuple(canary for canary, _ in found.values())
    further = [_with_canary_after(card, *found[card.gpu_uuid]) for card in record.further_cards]
    return {"canary_after": found[record.machine.gpu_uuid][0], "further_cards": further}


def _with_canary_after(card: CardOfLaunch, canary: Canary | None, reason: str) -> CardOfLaunch:
    missing = {name: why for name, why in card.missing.items() if name != "canary_after"}
    missing |= {"canary_after": reason} if canary is None else {}
    return card.model_copy(update={"canary_after": canary, "missing": missing})
