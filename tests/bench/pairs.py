"""Pairs of runs with and without the sampler, in the order with, without, without, with; and whether they differ."""

import math

import numpy as np

from study.analyze.runs import request_columns
from study.analyze.stats import equivalence_p, has_scatter, is_within_margin, paired_test, to_percent

MARGIN = 0.005
ALPHA = 0.05


def is_sampled(run):
    """Whether the run at this place of the order (from 0) has the sampler: ABBA, so that a drift falls on both."""
    return run % 4 in (0, 3)


def unsampled_seeds(pairs):
    """Return the seeds, from 1, of the runs without the sampler."""
    return [run + 1 for run in range(2 * pairs) if not is_sampled(run)]


def mean_tpot_ms(requests):
    """Return the mean TPOT over a run's requests, ms; every one of them must have been answered in full.

    Raises:
        ValueError: one was not.

    """
    columns = request_columns(requests)
    if not columns.success.all() or requests.output_tokens != requests.asked_tokens:
        raise ValueError("a request failed or was cut short")
    return float(1e3 * ((columns.latency_s - columns.ttft_s) / (columns.output_tokens - 1)).mean())


def judge_pairs(tpots_ms):
    """Say whether TPOT with and without the sampler is equivalent, by the study's own test.

    Args:
        tpots_ms: mean TPOT of the runs, in their order, ms; a last one without its partner is left out.

    Returns:
        dict: effect of the sampler in percent with its interval, JSON-ready; None where two pairs are not there yet.

    """
    whole = len(tpots_ms) // 2
    pairs = [tpots_ms[2 * k : 2 * k + 2] for k in range(whole)]
    ordered = [pair if is_sampled(2 * k) else pair[::-1] for k, pair in enumerate(pairs)]
    d = np.array([math.log(sampled / bare) for sampled, bare in ordered])
    if not has_scatter(d):
        return None
    test = paired_test(d, ALPHA)
    return {
        "pairs": whole,
        "tpot_with_ms": float(np.mean([sampled for sampled, _ in ordered])),
        "tpot_without_ms": float(np.mean([bare for _, bare in ordered])),
        "effect_percent": to_percent(float(test.mean)),
        "low_percent": to_percent(float(test.low)),
        "high_percent": to_percent(float(test.high)),
        "sd_percent": 100.0 * float(d.std(ddof=1)),
        "margin_percent": 100.0 * MARGIN,
        "equivalence_p": float(equivalence_p(test, MARGIN)),
        "equivalent": bool(is_within_margin(test, MARGIN)),
    }


def render_pairs(title, judged):
    """Return what the pairs say, in words."""
    if judged is None:
        return [f"{title}: fewer than two pairs, no verdict"]
    verdict = "equivalent" if judged["equivalent"] else "not shown to be equivalent"
    return [
        f"{title}, {judged['pairs']} pairs:",
        f"  TPOT {judged['tpot_with_ms']:.4f} ms with the sampler, {judged['tpot_without_ms']:.4f} ms without: "
        f"{judged['effect_percent']:+.3f} % ({judged['low_percent']:+.3f} to {judged['high_percent']:+.3f} %, "
        f"pairs scatter by {judged['sd_percent']:.2f} %)",
        f"  within {judged['margin_percent']:g} %: {verdict} (p = {judged['equivalence_p']:.2g})",
    ]
