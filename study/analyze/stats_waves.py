"""Time per output token of one run: the mean over complete waves that is tested, the median that is printed."""

from dataclasses import dataclass

import numpy as np

from study.analyze.stats import BoolArray, FloatArray
from study.design.counting import format_counted
from study.errors import InputError


@dataclass(frozen=True)
class RequestColumns:
    """What one run holds of its requests: arrays of one length, in any order.

    Attributes:
        start_s: (requests,) when each was sent, on one clock.
        ttft_s: (requests,) time to its first token.
        latency_s: (requests,) time to its last token.
        output_tokens: (requests,) tokens that came back.
        success: (requests,) whether it ended as asked; times of a failed request are not read.

    """

    start_s: FloatArray
    ttft_s: FloatArray
    latency_s: FloatArray
    output_tokens: FloatArray
    success: BoolArray


@dataclass(frozen=True)
class RunTpot:
    """Time per output token of one run, in ms; None where it could not be taken, and then `reason` says why.

    Attributes:
        mean_ms: mean over the requests of complete waves, the statistic that is tested.
        median_ms: median over all successful requests, the guide's figure.
        waves_complete: waves of N requests that all succeeded.
        waves_started: waves of which at least one request was sent.
        reason: why a figure is missing; empty where none is.

    """

    mean_ms: float | None
    median_ms: float | None
    waves_complete: int
    waves_started: int
    reason: str = ""


def summarize_tpot(requests: RequestColumns, users: int) -> RunTpot:
    """Take the mean TPOT over complete waves, and the median TPOT over successful requests.

    A wave is `users` requests that follow each other in the order of their starts; it is complete when it has them all
    and all succeeded. TPOT = (latency - TTFT) / (output tokens - 1), per request.

    Args:
        requests: columns of one run.
        users: requests kept in flight, 1 or more.

    Raises:
        InputError: for columns of unequal length, fewer than one user, or a successful request with a time that is
            not finite.

    """
    _check_columns(requests, users)
    order = np.argsort(requests.start_s, kind="stable")
    success = requests.success[order]
    waves_started = -(-success.size // users)
    whole = success.size // users
    complete = success[: whole * users].reshape(whole, users).all(axis=1)
    waves_complete = int(complete.sum())
    missing = _reason_without_tpot(requests)
    if missing:
        return RunTpot(None, None, waves_complete, waves_started, missing)
    tpot_ms = np.full(success.size, np.nan)
    tpot_ms[success] = _tpot_ms(requests)[order][success]
    median_ms = float(np.median(tpot_ms[success]))
    if not waves_complete:
        reason = f"none of {format_counted(waves_started, 'wave')} of {format_counted(users, 'request')} is complete"
        return RunTpot(None, median_ms, 0, waves_started, reason)
    in_waves = tpot_ms[: whole * users].reshape(whole, users)[complete]
    return RunTpot(float(in_waves.mean()), median_ms, waves_complete, waves_started)


def _check_columns(requests: RequestColumns, users: int) -> None:
    if users < 1:
        raise InputError(f"{users} users cannot make a wave; at least 1 works")
    columns = {name: getattr(requests, name) for name in RequestColumns.__dataclass_fields__}
    sizes = {name: values.size for name, values in columns.items()}
    if len(set(sizes.values())) > 1:
        raise InputError(f"request columns differ in length: {sizes}; one entry a request works")
    for name in ("ttft_s", "latency_s", "output_tokens"):
        bad = np.flatnonzero(requests.success & ~np.isfinite(columns[name]))
        if bad.size:
            raise InputError(f"{name} of successful request {bad[0]} is {columns[name][bad[0]]}; a finite value works")
    bad = np.flatnonzero(~np.isfinite(requests.start_s))
    if bad.size:
        raise InputError(f"start_s of request {bad[0]} is {requests.start_s[bad[0]]}; its wave cannot be told")


def _reason_without_tpot(requests: RequestColumns) -> str:
    """Say why successful requests give no TPOT at all, or nothing where they give one."""
    if not requests.success.any():
        return "no request succeeded"
    short = np.flatnonzero(requests.success & (requests.output_tokens < 2))
    if short.size:
        tokens = int(requests.output_tokens[short[0]])
        said = format_counted(short.size, "successful request")
        return f"{said} with fewer than 2 output tokens (request {short[0]}: {tokens})"
    together = np.flatnonzero(requests.success & (requests.latency_s <= requests.ttft_s))
    if together.size:
        return f"{format_counted(together.size, 'successful request')} with all tokens at once (request {together[0]})"
    return ""


def _tpot_ms(requests: RequestColumns) -> FloatArray:
    """Return TPOT (requests,) in ms where a request succeeded, NaN elsewhere."""
    ok = requests.success
    tpot = np.full(ok.size, np.nan)
    tpot[ok] = 1e3 * (requests.latency_s[ok] - requests.ttft_s[ok]) / (requests.output_tokens[ok] - 1.0)
    return tpot
