"""From one run to its figures: times per token, clock, power, energy, and what drifted.

Nothing is judged here. Every figure that cannot be taken is None, with its reason in `reasons`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from study.analyze.load_window import Figure, FloatArray, LoadWindow, Missing, mean_power_w, reduce_column
from study.analyze.run_cards import (
    CardFigures,
    check_energy,
    energy_j,
    figures_by_card,
    find_throttling,
    find_windows,
    idle_power_w,
    longest_cap_s,
    over_cards,
    share_events,
)
from study.analyze.stats_waves import RequestColumns, RunTpot, summarize_tpot
from study.design.parameters import Parameters
from study.records import LaunchRecord, Load, Requests, RunRecord

STALLED_ABOVE = 3.0
"""A step above this multiple of the run's median step was held up, nearly always by the prefill of a new wave."""

_OF_REQUESTS = (
    *("mean_tpot_ms", "median_tpot_ms", "n_over_throughput_ms", "output_tokens_per_s", "median_ttft_ms"),
    *("waves_complete", "duration_s"),
)
_OF_STEPS = ("step_ms", "step_first_half_ms", "step_second_half_ms", "stalled_share")
_OF_TELEMETRY = (
    *("median_sm_clock_mhz", "median_temperature_c", "mean_power_w", "energy_per_token_j", "energy_check"),
    *("host_busy", "host_steal", "power_capped_s_per_request", "event_shares"),
)

DEFAULT_BELOW_SHARE: float = Parameters.model_fields["throttled_below_share"].default


@dataclass(frozen=True)
class RunFigures:
    """Figures of one run; None where one could not be taken, with the reason under its name in `reasons`.

    Attributes:
        mean_tpot_ms: mean TPOT over the requests of complete waves: the statistic that is tested.
        median_tpot_ms: median TPOT over all requests that succeeded: the guide's figure.
        n_over_throughput_ms: users / output throughput, the time a token takes for a user with everything in it.
        output_tokens_per_s: output tokens of all users over the load's duration.
        median_ttft_ms: median time to the first token.
        waves_complete: waves of `users` requests that all succeeded.
        duration_s: of the load.
        median_sm_clock_mhz: over the load's own window.
        median_temperature_c: likewise.
        mean_power_w: NVML power over the load without its first second.
        energy_per_token_j: the energy counter's growth over the load's output tokens.
        energy_check: energy by the counter over mean power x time, for loads of 10 s and more.
        dynamic_energy_per_step_j: (power - power at rest with the server loaded) x step time; the step is the mean
            TPOT, since in lockstep one step makes one token for every user.
        host_busy: mean share of all cores that were busy.
        host_steal: mean share of all cores' time that the hypervisor took.
        step_ms: mean gap between tokens without stalled steps (above 3 times the run's median gap).
        step_first_half_ms: the same over the first half of the waves.
        step_second_half_ms: the same over the rest.
        stalled_share: share of steps that were stalled.
        power_capped_s_per_request: seconds under the software power cap over the requests that succeeded.
        event_shares: event reason to the share of samples that give it.
        throttled: whether the card was throttled, on evidence.
        throttled_evidence: that evidence, in words.
        reasons: name of a missing figure: why.
        cards: the figures of each card where a server is on several; those above are then of all together
            (`run_cards`).

    """

    mean_tpot_ms: float | None
    median_tpot_ms: float | None
    n_over_throughput_ms: float | None
    output_tokens_per_s: float | None
    median_ttft_ms: float | None
    waves_complete: int | None
    duration_s: float | None
    median_sm_clock_mhz: float | None
    median_temperature_c: float | None
    mean_power_w: float | None
    energy_per_token_j: float | None
    energy_check: float | None
    dynamic_energy_per_step_j: float | None
    host_busy: float | None
    host_steal: float | None
    step_ms: float | None
    step_first_half_ms: float | None
    step_second_half_ms: float | None
    stalled_share: float | None
    power_capped_s_per_request: float | None
    event_shares: Mapping[str, float] | None
    throttled: bool | None
    throttled_evidence: str
    reasons: Mapping[str, str]
    cards: tuple[CardFigures, ...] = ()


def figures_of(run: RunRecord, launch: LaunchRecord, below_share: float = DEFAULT_BELOW_SHARE) -> RunFigures:
    """Return the figures of one run.

    Args:
        run: the run, however it ended.
        launch: the launch that served it.
        below_share: of the card's highest SM clock; a busy clock below counts as throttled.

    """
    request = _request_figures(run)
    telemetry = _telemetry_figures(run)
    throttled, evidence = find_throttling(run, launch, below_share)
    values: dict[str, Any] = {
        **request,
        **telemetry,
        "dynamic_energy_per_step_j": _dynamic_energy(request["mean_tpot_ms"], telemetry, launch),
        "throttled": Missing(evidence) if throttled is None else throttled,
    }
    reasons = {name: value.reason for name, value in values.items() if isinstance(value, Missing)}
    kept = {name: None if name in reasons else value for name, value in values.items()}
    cards = figures_by_card(run, launch, below_share)
    return RunFigures(**kept, throttled_evidence=evidence, reasons=reasons, cards=cards)


def request_columns(requests: Requests) -> RequestColumns:
    """Return the requests as arrays; one succeeded if it has no error, all its times, and a first token after 0 s."""
    columns = {
        name: np.array(getattr(requests, name), dtype=np.float64)
        for name in ("start_s", "ttft_s", "latency_s", "output_tokens")
    }
    quiet = np.array([not error for error in requests.error], dtype=np.bool_)
    # A comparison with NaN is false, so a missing time is no success.
    timed = (columns["ttft_s"] > 0.0) & np.isfinite(columns["latency_s"]) & (columns["output_tokens"] > 0.0)
    return RequestColumns(**columns, success=quiet & timed)


def _request_figures(run: RunRecord) -> dict[str, Figure]:
    """Figures of the requests alone."""
    load = run.load
    if load is None:
        return dict.fromkeys((*_OF_REQUESTS, *_OF_STEPS), Missing(run.missing["load"]))
    columns = request_columns(load.requests)
    tpot = summarize_tpot(columns, run.users)
    return {
        "mean_tpot_ms": _or_missing(tpot.mean_ms, tpot),
        "median_tpot_ms": _or_missing(tpot.median_ms, tpot),
        "waves_complete": tpot.waves_complete,
        "duration_s": load.duration_s,
        "median_ttft_ms": _median_ttft_ms(columns),
        **_throughput(load, columns, run.users),
        **_steps(load.requests),
    }


def _or_missing(value: float | None, tpot: RunTpot) -> Figure:
    return Missing(tpot.reason) if value is None else value


def _median_ttft_ms(columns: RequestColumns) -> Figure:
    if not columns.success.any():
        return Missing("no request succeeded")
    return float(np.median(columns.ttft_s[columns.success]) * 1e3)


def _throughput(load: Load, columns: RequestColumns, users: int) -> dict[str, Figure]:
    """Output throughput, and the time a token takes for one of the users."""
    tokens = float(columns.output_tokens[columns.success].sum())
    if tokens == 0.0 or load.duration_s <= 0.0:
        nothing = Missing("no request succeeded" if tokens == 0.0 else "the load has no duration")
        return {"output_tokens_per_s": nothing, "n_over_throughput_ms": nothing}
    rate = tokens / load.duration_s
    return {"output_tokens_per_s": rate, "n_over_throughput_ms": 1e3 * users / rate}


def _steps(requests: Requests) -> dict[str, Figure]:
    """Mean step time without stalled steps: of the run, and of the first half of its waves against the rest.

    Halves are whole waves, so that both hold the same places of a wave (later tokens have a longer context). A run of
    one wave is cut in the middle of it.
    """
    waves = [np.array(gaps, dtype=np.float64) for _, gaps in sorted(requests.witness_us.items()) if gaps]
    if not waves:
        return dict.fromkeys(_OF_STEPS, Missing("no gaps between tokens were kept"))
    if len(waves) == 1:
        waves = np.array_split(waves[0], 2)
    gaps_us = np.concatenate(waves)
    limit_us = STALLED_ABOVE * float(np.median(gaps_us))
    middle = len(waves) // 2
    parts = (gaps_us, np.concatenate(waves[:middle]), np.concatenate(waves[middle:]))
    steps = [_mean_unstalled_ms(part, limit_us) for part in parts]
    return dict(zip(_OF_STEPS, [*steps, float((gaps_us > limit_us).mean())], strict=True))


def _mean_unstalled_ms(gaps_us: FloatArray, limit_us: float) -> Figure:
    free = gaps_us[gaps_us <= limit_us]
    return float(free.mean() / 1e3) if free.size else Missing("every step of this part was stalled")


def _telemetry_figures(run: RunRecord) -> dict[str, Any]:
    """Figures of the samples within the load."""
    windows = find_windows(run)
    if isinstance(windows, Missing) or run.load is None:
        return dict.fromkeys(_OF_TELEMETRY, windows)
    columns = request_columns(run.load.requests)
    energy = over_cards(windows, energy_j, sum)
    return {
        "median_sm_clock_mhz": over_cards(windows, _median_of("sm_clock_mhz"), min),
        "median_temperature_c": over_cards(windows, _median_of("temperature_c"), max),
        "mean_power_w": over_cards(windows, mean_power_w, sum),
        "energy_per_token_j": _share_out(energy, float(columns.output_tokens[columns.success].sum())),
        "energy_check": check_energy(windows),
        "host_busy": reduce_column(windows[0], "host_busy", np.mean),
        "host_steal": reduce_column(windows[0], "host_steal", np.mean),
        "power_capped_s_per_request": _share_out(longest_cap_s(windows), float(columns.success.sum())),
        "event_shares": share_events(windows),
    }


def _median_of(column: str) -> Callable[[LoadWindow], Figure]:
    return lambda window: reduce_column(window, column, np.median)


def _share_out(total: Figure, among: float) -> Figure:
    if isinstance(total, Missing):
        return total
    return total / among if among else Missing("no request succeeded")


def _dynamic_energy(step_ms: Figure, telemetry: Mapping[str, Any], launch: LaunchRecord) -> Figure:
    """(Power - power at rest with the server loaded) x step time, in J."""
    power_w: Figure = telemetry["mean_power_w"]
    if isinstance(power_w, Missing):
        return power_w
    if isinstance(step_ms, Missing):
        return step_ms
    idle_w = idle_power_w(launch)
    return idle_w if isinstance(idle_w, Missing) else (power_w - idle_w) * step_ms / 1e3
