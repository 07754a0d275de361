"""Raw records: what was seen, once, and no statistic.

History of the schema (`SCHEMA_VERSION`):
    1  first version. Added since, each empty where a record does not have it: `Load.warm_up_waves_s`; for servers on
       several cards `Machine.further_cards`, `LaunchRecord.further_cards`, `Telemetry.further_cards`, `Gate.cards` and
       `ServerView.cards`, while the fields beside them describe the first card.

Rules: a record is frozen, unknown fields are refused, and a field that is `None` has its reason in `missing` beside it
(field name to reason). Times named `_s` are seconds on this machine's monotonic clock unless the name says `unix`.
Columns are lists of equal length, one entry a sample or a request. Quantities have the ranges of `record_rules`.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from study.design.card_facts import Canary as Canary
from study.design.card_facts import CardColumns, CardGate, CardOfLaunch, CardProcesses, Column, FurtherCard
from study.design.card_facts import Facts as Facts
from study.design.record_rules import (
    Amount,
    Celsius,
    Change,
    Count,
    LoadColumns,
    Number,
    find_disorder,
    find_faults_of_load,
    find_step_back,
)

SCHEMA_VERSION: Literal[1] = 1

KILLED = "killed"
"""Stage of a launch whose processes were killed from outside, which says nothing of its level."""

ASKED_TO_END = "the session was asked to end"
"""Why something is missing or interrupted when a signal, or the parent's closed pipe, ended the session."""

FileName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,199}$")]
"""A name that stands in a file's name: no folder can be in it, so that no record leads out of its own."""


class Outcome(Facts):
    """How a launch or a run ended."""

    status: Literal["ok", "failed", "interrupted"]
    stage: str = Field(description="where it ended: done, spawn, ready, first_token, resolve, gate, load, stop")
    message: str = ""
    log_tail: list[str] = Field(default_factory=list, description="last lines of the server's log")


class Machine(Facts):
    """The card and its host, as read at the launch."""

    device: Literal["cuda", "cpu"]
    gpu_name: str | None
    gpu_uuid: str | None
    gpu_index: Count | None
    gpu_memory_gib: Amount | None
    compute_capability: str | None
    max_sm_clock_mhz: Amount | None
    power_limit_w: Amount | None
    driver_version: str | None
    mig: str | None
    hostname_sha256: str = Field(description="tells machines apart without naming one; 12 digits")
    cpu_model: str | None
    cpu_count: Number
    memory_gib: Amount
    virtualised: bool | None
    kernel: str
    python: str
    versions: dict[str, str] = Field(description="distribution: version, of what the figures depend on")
    vllm_commit: str | None
    study_commit: str | None
    further_cards: list[FurtherCard] = Field(default_factory=list, description="where a server is on several cards")

    @property
    def uuids(self) -> tuple[str, ...]:
        """The cards, the first one first; empty without a card."""
        return () if self.gpu_uuid is None else (self.gpu_uuid, *(card.gpu_uuid for card in self.further_cards))

    @property
    def unit(self) -> str:
        """What tells one card, or several of a launch (or, without a card, one host), from others."""
        return name_unit(self.uuids, self.hostname_sha256)


def name_unit(uuids: Sequence[str], hostname_sha256: str) -> str:
    """Return what tells these cards of a launch (or, where there is none, this host) from others."""
    return " + ".join(sorted(uuids)) or f"host-{hostname_sha256}"


class Gate(Facts):
    """What the session did before a launch or a run, with its evidence."""

    kind: Literal["cooled", "soak", "as_found", "clock_lock", "none"]
    status: Literal["reached", "timed_out", "unavailable"]
    target_c: Celsius | None
    target_source: str | None
    temperature_c: Celsius | None = Field(description="at the end of the gate")
    sm_clock_mhz: Amount | None = Field(description="busy clock at the end of a soak")
    waited_s: Amount
    cards: list[CardGate] = Field(default_factory=list, description="each card, where there are several")


class Telemetry(Facts):
    """Samples beside one load, as columns; `t_s` is monotonic. A column that was never read is null."""

    period_s: Amount
    t_s: list[Amount]
    sm_clock_mhz: Column | None
    memory_clock_mhz: Column | None
    temperature_c: list[Celsius | None] | None
    memory_temperature_c: list[Celsius | None] | None
    power_w: Column | None = Field(description="NVML power, a moving average of about 1 s")
    energy_j: Column | None = Field(description="the card's energy counter")
    event_reasons: list[Count | None] | None = Field(description="NVML clocks event reasons, bit mask")
    gpu_utilisation: Column | None = Field(description="percent")
    host_busy: Column | None = Field(description="share of all cores that are busy, 0 to 1")
    host_steal: Column | None = Field(description="share of all cores' time that the hypervisor took, 0 to 1")
    cpu_clock_mhz: Column | None
    throttle_before_ns: dict[str, Count] | None = Field(description="throttle counters at the start, ns")
    throttle_after_ns: dict[str, Count] | None
    field_errors: dict[str, str] = Field(default_factory=dict, description="field: last NVML error")
    further_cards: list[CardColumns] = Field(default_factory=list, description="the same of each further card")

    @property
    def by_card(self) -> "tuple[Telemetry | CardColumns, ...]":
        """The columns of each card, the first one first: its are the telemetry's own."""
        return (self, *self.further_cards)

    @model_validator(mode="after")
    def _columns_fit(self) -> "Telemetry":
        for part in self.by_card:
            for name in type(part).model_fields:
                column = None if name == "further_cards" else getattr(part, name)
                if isinstance(column, list) and len(column) != len(self.t_s):
                    raise ValueError(f"'{name}' has {len(column)} entries beside {len(self.t_s)} samples")
        return self


class Requests(Facts):
    """One load's requests, as columns in the order sent.

    `witness` holds the gaps between tokens of the first request of each wave, microseconds: in lockstep they are the
    steps of all. `chunks` counts the pieces a request's tokens arrived in; `short_gaps` the gaps under a tenth of its
    mean.
    """

    start_s: list[Amount]
    ttft_s: list[Amount | None]
    latency_s: list[Amount | None]
    input_tokens: list[Count]
    output_tokens: list[Count | None]
    asked_tokens: list[Count]
    chunks: list[Count]
    short_gaps: list[Count]
    error: list[str]
    witness_us: dict[int, list[Count]]

    @model_validator(mode="after")
    def _columns_fit(self) -> "Requests":
        names = [name for name in type(self).model_fields if isinstance(getattr(self, name), list)]
        for name in names:
            if len(getattr(self, name)) != len(self.start_s):
                raise ValueError(f"'{name}' has {len(getattr(self, name))} entries beside {len(self.start_s)} requests")
        return self


class Load(Facts):
    """A load: how it was sized and what came back."""

    waves: Number
    warm_up_waves: Count
    warm_up_wave_s: Amount | None = Field(description="the last warm-up wave, which sized the run")
    warm_up_waves_s: list[Amount] = Field(default_factory=list, description="every warm-up wave, first to last")
    burst_s: Amount = Field(description="discarded load between the gate and the run")
    pool_sha256: str
    arguments: list[str] = Field(description="of vLLM's serving benchmark; address and files left out")
    started_s: Amount
    ended_s: Amount
    duration_s: Change
    requests: Requests


class ServerView(Facts):
    """What the server and the card said just before and after a load."""

    prefix_queries: Change | None
    prefix_hits: Change | None
    preemptions: Change | None
    jit_lines: Count | None = Field(description="JIT compilation warnings during the load")
    foreign_gpu_processes: list[Count] | None = Field(description="process ids on the card that are not the server's")
    same_server: bool | None = Field(description="the same process, started at the same time, before and after")
    cards: list[CardProcesses] = Field(default_factory=list, description="each card, where there are several")


class LaunchRecord(Facts):
    """One fresh server, from spawn to stop."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["launch"] = "launch"
    study: FileName
    fingerprint: str
    comparable: dict[str, Any]
    rehearsal: bool
    launch_id: FileName
    attempt: Number
    session: Literal["cooled", "throttled"]
    block: Count
    position: Count
    level: str
    fills_caches: bool
    flags: list[str]
    environment: dict[str, str] = Field(description="of the allow-list, and what the level sets")
    command: list[str]
    expect: dict[str, Any]
    resolved: dict[str, Any] | None = Field(description="vllm_config of /server_info")
    downgrades: list[str] = Field(default_factory=list, description="warning lines on a mode that was changed")
    cache: Literal["warm", "cold"]
    cache_emptied: list[str] = Field(default_factory=list)
    cache_not_emptied: list[str] = Field(default_factory=list)
    spawn_unix_s: Amount
    spawn_s: Amount
    healthy_s: Amount | None
    first_token_s: Amount | None
    stop_asked_s: Amount | None
    stopped_s: Amount | None
    stopped_by: str | None = Field(description="signal that ended the server")
    left_over: list[str] = Field(default_factory=list, description="processes or GPU memory left after the stop")
    log: FileName
    log_sha256: str | None
    kv_cache_blocks: Count | None
    kv_cache_tokens: Count | None
    gate: Gate
    canary_before: Canary | None
    canary_after: Canary | None
    idle_c: Celsius | None = Field(description="temperature at rest with the server loaded")
    idle_power_w: Amount | None = Field(description="power at rest with the server loaded")
    machine: Machine
    further_cards: list[CardOfLaunch] = Field(default_factory=list, description="where a server is on several cards")
    cores: dict[str, list[Count]] = Field(default_factory=dict, description="server and client, where kept apart")
    outcome: Outcome

    @model_validator(mode="after")
    def _cards_fit(self) -> "LaunchRecord":
        ours, of_machine = ([card.gpu_uuid for card in part.further_cards] for part in (self, self.machine))
        if ours != of_machine:
            raise ValueError(f"'further_cards' has {ours} beside {of_machine} of 'machine'")
        return self


class RunRecord(Facts):
    """One load at one number of users on one launch."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["run"] = "run"
    study: FileName
    fingerprint: str
    rehearsal: bool
    run_id: FileName
    attempt: Number
    launch_id: FileName
    session: Literal["cooled", "throttled"]
    block: Count
    level: str
    users: Number
    seed: Count
    position: Count = Field(description="of this run within its launch")
    started_unix_s: Amount
    gate: Gate
    load: Load | None
    telemetry: Telemetry | None
    server: ServerView | None
    outcome: Outcome


class SessionRecord(Facts):
    """What a session was asked to measure: the parameters and the levels, in their order."""

    schema_version: Literal[1] = SCHEMA_VERSION
    kind: Literal["session"] = "session"
    study: FileName
    fingerprint: str
    session_id: FileName
    asked: dict[str, Any]
    levels: list[dict[str, Any]]


Record = LaunchRecord | RunRecord | SessionRecord


def identity_of(record: Record) -> str:
    """Return the id that stands in a record's file name."""
    if isinstance(record, LaunchRecord):
        return record.launch_id
    return record.run_id if isinstance(record, RunRecord) else record.session_id


def number_of(record: SessionRecord) -> int:
    """Return which session of its study it is, from 1; 0 where its id is no such number."""
    return int(record.session_id) if re.fullmatch(r"[1-9]\d{0,8}", record.session_id, re.ASCII) else 0


def find_contradictions(record: Record) -> list[str]:
    """Return what a record says that cannot be: an id of other fields, times out of order, figures at odds."""
    if isinstance(record, SessionRecord):
        return [] if number_of(record) else [f"field 'session_id': {record.session_id!r} is no number from 1"]
    found: list[str] = []
    if isinstance(record, LaunchRecord):
        key = f"fill-{record.level}" if record.fills_caches else f"b{record.block}-{record.level}"
        names = ("spawn_s", "healthy_s", "first_token_s", "stop_asked_s", "stopped_s")
        disorder = find_disorder({name: getattr(record, name) for name in names})
        found += [disorder] if disorder else []
    else:
        key = f"b{record.seed}-{record.level}-u{record.users}"
        back = find_step_back(record.telemetry.t_s) if record.telemetry else None
        found += [] if back is None else [f"field 'telemetry.t_s' goes back at sample {back}"]
        found += find_faults_of_load(_columns_of(record.load)) if record.load else []
    if identity_of(record) != f"{key}-a{record.attempt}":
        found.append(f"its id is not that of its fields, {f'{key}-a{record.attempt}'!r}")
    return found


def _columns_of(load: Load) -> LoadColumns:
    names = ("start_s", "ttft_s", "latency_s", "chunks", "witness_us")
    columns = {name: getattr(load.requests, name) for name in names}
    return LoadColumns(load.started_s, load.ended_s, load.duration_s, **columns)
