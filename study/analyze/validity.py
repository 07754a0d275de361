"""Whether a run is valid and why, and what a reader must know of it beside that.

Nothing is discarded for being slow: a run is kept and marked. Failed evidence is a fault everywhere; unavailable
evidence only where `REQUIRED` lists it, since a CPU rehearsal, say, has no clock to read.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from study.analyze import evidence
from study.analyze.evidence import Case, Check, Evidence
from study.analyze.evidence_cards import State
from study.analyze.runs import RunFigures, figures_of
from study.records import LaunchRecord, RunRecord

CHECKS: Mapping[str, Check] = {
    "run_failed": evidence.check_run,
    "failed_requests": evidence.check_requests,
    "tokens_not_as_requested": evidence.check_tokens,
    "prefix_cache_hit": evidence.check_prefix_cache,
    "cool_gate_timed_out": evidence.check_cool_gate,
    "not_throttled": evidence.check_not_throttled,
    "throttled_in_cooled_session": evidence.check_throttled,
    "jit_during_run": evidence.check_jit,
    "telemetry_gap": evidence.check_telemetry,
    "foreign_gpu_process": evidence.check_foreign,
    "server_restarted": evidence.check_server,
    "canary_moved": evidence.check_canary,
    "level_not_as_asked": evidence.check_level,
    "stream_bunched": evidence.check_stream,
}
"""Code that makes a run invalid: its check."""

_EVERYWHERE = frozenset(
    {
        *("run_failed", "failed_requests", "tokens_not_as_requested", "prefix_cache_hit", "telemetry_gap"),
        *("server_restarted", "level_not_as_asked", "stream_bunched"),
    }
)
_ON_A_CARD = _EVERYWHERE | {"jit_during_run", "foreign_gpu_process"}

REQUIRED: Mapping[tuple[str, str], frozenset[str]] = {
    ("cuda", "cooled"): _ON_A_CARD | {"cool_gate_timed_out", "throttled_in_cooled_session", "canary_moved"},
    ("cuda", "throttled"): _ON_A_CARD | {"not_throttled"},
    # A CPU has no NVML: no clock, temperature, event reason or process list, and no JIT monitor.
    ("cpu", "cooled"): _EVERYWHERE | {"canary_moved"},
    ("cpu", "throttled"): _EVERYWHERE,
}
"""(device, session kind): the evidence that must be there."""

DRIFT_SHARE = 0.05
HOST_BOUND_ENERGY_SHARE = 0.25
HOST_BOUND_STEP_RATIO = 1.5


@dataclass(frozen=True)
class Validity:
    """What all checks found of one run.

    Attributes:
        evidence: one entry a code, in the order of `CHECKS`.
        faults: the entries that make the run invalid: failed, or required and unavailable.

    """

    evidence: tuple[Evidence, ...]
    faults: tuple[Evidence, ...]

    @property
    def valid(self) -> bool:
        """Whether the run enters the figures."""
        return not self.faults

    @property
    def reasons(self) -> tuple[str, ...]:
        """The codes of the faults; ` (unavailable)` follows a code whose evidence is not there."""
        return tuple(one.code + " (unavailable)" * (one.state == "unavailable") for one in self.faults)


def judge_run(run: RunRecord, launch: LaunchRecord | None, figures: RunFigures | None = None) -> Validity:
    """Say whether a run is valid.

    Args:
        run: the run.
        launch: the launch that served it; None where its record is not there, which no run survives.
        figures: what `figures_of` returns for the two, where it is at hand.

    """
    if launch is None:
        lost = Evidence("run_failed", "failed", f"launch '{run.launch_id}' has no record")
        return Validity((lost,), (lost,))
    case = Case(run, launch, figures or figures_of(run, launch))
    found = tuple(Evidence(code, *check(case)) for code, check in CHECKS.items())
    failed = tuple(one for one in found if one.state == "failed")
    if run.load is None:
        # Without a load nothing else can be there; the one cause says it all.
        return Validity(found, failed)
    required = required_codes(launch, run.session)
    return Validity(found, tuple(one for one in found if one.state == "failed" or _is_lacking(one, required)))


def required_codes(launch: LaunchRecord, session: str) -> frozenset[str]:
    """Return the evidence that a run on this launch must have.

    What a level itself switches off is not asked of it: without JIT warm-up vLLM's JIT monitor does not run.
    """
    excused = {"jit_during_run"} if evidence.is_jit_monitor_off(launch) else set()
    return REQUIRED[launch.machine.device, session] - excused


def _is_lacking(one: Evidence, required: frozenset[str]) -> bool:
    return one.state == "unavailable" and one.code in required


def note_run(figures: RunFigures, default: RunFigures | None) -> tuple[Evidence, ...]:
    """Return the notes `drift_within_run`, `host_bound`, `power_capped`; `failed` means that a note holds.

    Args:
        figures: of the run.
        default: of the default level's valid run in the same block at the same users, where there is one.

    """
    host_bound = _note_host_bound(figures, default)
    return _note_drift(figures), host_bound, _note_power_cap(figures)


def _note_drift(figures: RunFigures) -> Evidence:
    first, second = figures.step_first_half_ms, figures.step_second_half_ms
    if first is None or second is None or first <= 0:
        missing = figures.reasons.get("step_first_half_ms") or figures.reasons.get("step_second_half_ms")
        return Evidence("drift_within_run", "unavailable", missing or "steps of no length")
    change = second / first - 1.0
    return Evidence("drift_within_run", _holds(abs(change) > DRIFT_SHARE), f"{change:+.1%} from first to second half")


def _note_host_bound(figures: RunFigures, default: RunFigures | None) -> Evidence:
    if default is None:
        return Evidence("host_bound", "unavailable", "no valid run of the default level in this block at these users")
    bound = host_bound(figures, default)
    if bound is None:
        names = ("dynamic_energy_per_step_j", "mean_tpot_ms")
        lacking = [one.reasons[name] for one in (figures, default) for name in names if name in one.reasons]
        reason = next(iter(lacking), "the default's energy per step is not above 0")
        return Evidence("host_bound", "unavailable", reason)
    energy, step = _against_default(figures, default) or (0.0, 0.0)
    return Evidence("host_bound", _holds(bound), f"{energy:.2f} x energy and {step:.2f} x time per step of the default")


def host_bound(figures: RunFigures, default: RunFigures) -> bool | None:
    """Say whether the card waits for its host: the default's work per step in much more time.

    True where the dynamic energy per step is within 25 % of the default's while the step takes at least 1.5 times as
    long; None where energy or step time is missing.
    """
    ratios = _against_default(figures, default)
    if ratios is None:
        return None
    energy, step = ratios
    return abs(energy - 1.0) <= HOST_BOUND_ENERGY_SHARE and step >= HOST_BOUND_STEP_RATIO


def _against_default(figures: RunFigures, default: RunFigures) -> tuple[float, float] | None:
    """Dynamic energy and time of a step, each over the default's."""
    energy_j, step_ms = figures.dynamic_energy_per_step_j, figures.mean_tpot_ms
    default_j, default_ms = default.dynamic_energy_per_step_j, default.mean_tpot_ms
    if energy_j is None or step_ms is None or default_j is None or default_ms is None or default_j <= 0:
        return None
    return energy_j / default_j, step_ms / default_ms


def _note_power_cap(figures: RunFigures) -> Evidence:
    seconds = figures.power_capped_s_per_request
    if seconds is None:
        return Evidence("power_capped", "unavailable", figures.reasons["power_capped_s_per_request"])
    return Evidence("power_capped", _holds(seconds > 0), f"{seconds:.3g} s a request under the software power cap")


def _holds(holds: bool) -> State:
    return "failed" if holds else "passed"
