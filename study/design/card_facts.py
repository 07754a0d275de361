"""What a record says of a card, and of each card where a server spreads over several.

A record's own fields describe the first card, the one whose UUID comes first in `CUDA_VISIBLE_DEVICES`. What is
here of further ones stands in lists that are empty for a server on one card, in the order of the cards.
"""

from collections.abc import Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from study.design.record_rules import Amount, Celsius, Count, Number

Column = list[Amount | None]


def name_card(place: int, uuids: Sequence[str]) -> str:
    """Return which card of several is meant, as `card 2 of 2 (GPU-...)`; `place` counts from 0."""
    return f"card {place + 1} of {len(uuids)} ({uuids[place]})"


class Facts(BaseModel):
    """Frozen facts in which nothing is missing without a reason."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    missing: dict[str, str] = Field(default_factory=dict, description="field that is null: why")

    @model_validator(mode="after")
    def _missing_has_reasons(self) -> "Facts":
        empty = {name for name, value in vars(self).items() if value is None}
        unexplained = sorted(empty - set(self.missing))
        if unexplained:
            raise ValueError(f"'{unexplained[0]}' is null without a reason in 'missing'")
        wrong = sorted(set(self.missing) - empty)
        if wrong:
            raise ValueError(f"'missing' explains '{wrong[0]}', which has a value or is no field")
        return self


class FurtherCard(Facts):
    """A card of the machine beside the first one, as read at the launch."""

    gpu_uuid: str
    gpu_name: str | None
    gpu_index: Count | None
    gpu_memory_gib: Amount | None
    max_sm_clock_mhz: Amount | None
    power_limit_w: Amount | None


class CardColumns(Facts):
    """Samples of a further card, taken at the times of the telemetry that they stand in."""

    gpu_uuid: str
    sm_clock_mhz: Column | None
    memory_clock_mhz: Column | None
    temperature_c: list[Celsius | None] | None
    memory_temperature_c: list[Celsius | None] | None
    power_w: Column | None = Field(description="NVML power, a moving average of about 1 s")
    energy_j: Column | None = Field(description="the card's energy counter")
    event_reasons: list[Count | None] | None = Field(description="NVML clocks event reasons, bit mask")
    gpu_utilisation: Column | None = Field(description="percent")
    throttle_before_ns: dict[str, Count] | None = Field(description="throttle counters at the start, ns")
    throttle_after_ns: dict[str, Count] | None
    field_errors: dict[str, str] = Field(default_factory=dict, description="field: last NVML error")


class CardGate(Facts):
    """How a gate ended for one card of several, the first among them."""

    gpu_uuid: str
    status: Literal["reached", "timed_out", "unavailable"]
    target_c: Celsius | None
    temperature_c: Celsius | None = Field(description="at the end of the gate")
    sm_clock_mhz: Amount | None = Field(description="busy clock at the end of a soak")


class CardProcesses(Facts):
    """Processes on one card of several that are not the server's, the first card among them."""

    gpu_uuid: str
    foreign_gpu_processes: list[Count] | None = Field(description="process ids on the card that are not the server's")


class Canary(Facts):
    """A fixed GEMM and memory traffic in a process of its own, without the server."""

    started_s: Amount
    gemm_tflops: Amount | None
    copy_gb_s: Amount | None = Field(description="bytes read plus bytes written, 1e9 bytes a second")
    read_gb_s: Amount | None
    repeats: Number


class CardOfLaunch(Facts):
    """A further card around one launch: its canaries, and how it is at rest with the server loaded."""

    gpu_uuid: str
    canary_before: Canary | None
    canary_after: Canary | None
    idle_c: Celsius | None = Field(description="temperature at rest with the server loaded")
    idle_power_w: Amount | None = Field(description="power at rest with the server loaded")
