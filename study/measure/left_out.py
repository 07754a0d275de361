"""What a session leaves out that measures this program instead of a level: how long the harness takes beside vLLM's.

No parameter asks for it, and nothing it measures ever counts: its launches have no canary, its records say what was
left out, and it is part of what makes runs comparable, so that a study and such a session never share a folder.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from study.design.parameters import Parameters
from study.errors import InputError

WHY = "left out: the session measures this program, not a level"
"""Reason of whatever is null since it was left out."""


@dataclass(frozen=True)
class LeftOut:
    """What is left out; the canary always is.

    Attributes:
        waves: users to the waves of a run, which then has no warm-up that could size it; None: warm-ups as ever.
        unsampled_seeds: seeds whose runs go without telemetry.

    """

    waves: Mapping[int, int] | None = None
    unsampled_seeds: frozenset[int] = frozenset()

    def names(self) -> list[str]:
        """Return what is left out, in words."""
        given = {"canary": True, "warm_up": self.waves is not None, "telemetry": bool(self.unsampled_seeds)}
        return [name for name, left_out in given.items() if left_out]


def comparable_with(parameters: Parameters, left_out: LeftOut | None) -> dict[str, Any]:
    """Return what runs must share to be compared: that of the parameters, and what is left out where anything is."""
    shared = parameters.comparable()
    return shared if left_out is None else {**shared, "left_out": left_out.names()}


def check_left_out(parameters: Parameters, left_out: LeftOut | None) -> None:
    """Refuse what could be taken for a measurement.

    Raises:
        InputError: the session is throttled, where a run is valid without a canary; or a number of users has no waves.

    """
    if left_out is None:
        return
    if parameters.session != "cooled":
        raise InputError(f"session '{parameters.session}' cannot leave its canary out; use session: cooled")
    lacking = [users for users in parameters.users if left_out.waves is not None and users not in left_out.waves]
    if lacking:
        raise InputError(f"users {lacking[0]} has no number of waves; without a warm-up nothing sizes its runs")
