"""The method's own error rates: how often it says what is not so, and how often it finds what is there.

Simulated studies pass through the same tests and families as measured ones, many at a time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats as scipy_stats

from study.analyze import stats
from study.analyze.calibrate_noise import SimulatedStudy, draw_log_times
from study.analyze.stats import BoolArray, Estimate, FloatArray
from study.analyze.stats_power import LEAST_BLOCKS, LOOKS
from study.design.counting import format_counted

CONFIDENCE = 0.95
# Studies drawn at a time: bounds the memory, and changes no result but by the order of the draws.
CHUNK = 2_000


@dataclass(frozen=True)
class Calibration:
    """Shares of simulated studies or comparisons, each an `Estimate` between 0 and 1 over studies.

    With a true effect of 0 every difference is false; else it is a find.

    Attributes:
        study: what was simulated.
        comparison: one level at one number of users: p below alpha, before Holm.
        comparison_holm: the same after Holm over the users of the level: a verdict of slower or faster.
        overall: the overall cost of one level, after Holm over levels: a verdict of slower or faster.
        family_users: any number of users of one level, after Holm.
        family_overall: any level's overall cost, after Holm.
        study_raw: any level at any number of users, before Holm.
        study_holm: any level at any number of users, after Holm within levels.
        wrong_sign: an overall verdict against the sign of the true effect; every difference where that is 0.
        equivalent: an overall verdict of equivalent, or of a difference within the margin.
        undecided: an overall cost without a verdict.
        range_rule: one level at one number of users: ranges over blocks that do not overlap.

    """

    study: SimulatedStudy
    comparison: Estimate
    comparison_holm: Estimate
    overall: Estimate
    family_users: Estimate
    family_overall: Estimate
    study_raw: Estimate
    study_holm: Estimate
    wrong_sign: Estimate
    equivalent: Estimate
    undecided: Estimate
    range_rule: Estimate


@dataclass(frozen=True)
class LooksCalibration:
    """A study of one level that stops at the first planned look with a verdict on the overall cost.

    Attributes:
        study: what was simulated; its blocks and alpha give way to the plan's.
        difference: share of studies that end with slower or faster.
        equivalent: share that end with equivalent.
        blocks: blocks until the end, on average.

    """

    study: SimulatedStudy
    difference: Estimate
    equivalent: Estimate
    blocks: Estimate


def calibrate(study: SimulatedStudy, rng: np.random.Generator) -> Calibration:
    """Simulate studies and count what the method says of them.

    Args:
        study: what to simulate.
        rng: source of all chance.

    """
    parts = [_count(study, draw_log_times(study, size, rng)) for size in _chunks(study.studies)]
    shares = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return Calibration(study=study, **{name: _estimate_share(share) for name, share in shares.items()})


def calibrate_looks(study: SimulatedStudy, rng: np.random.Generator) -> LooksCalibration:
    """Simulate studies of one level that may stop early, after the looks of `stats_power.LOOKS`.

    Args:
        study: what to simulate; levels, blocks and alpha are those of the plan of looks.
        rng: source of all chance.

    """
    plan = replace(study, levels=1, blocks=LOOKS[-1][0])
    parts = [_stop(plan, draw_log_times(plan, size, rng)) for size in _chunks(plan.studies)]
    differs, equivalent, blocks = (np.concatenate(column) for column in zip(*parts, strict=True))
    mean, half = float(blocks.mean()), 1.96 * float(blocks.std()) / float(np.sqrt(blocks.size))
    return LooksCalibration(
        study=plan,
        difference=_estimate_share(differs),
        equivalent=_estimate_share(equivalent),
        blocks=Estimate(mean, mean - half, mean + half, blocks.size, "study", CONFIDENCE),
    )


def false_rate_of_ranges(n: int, m: int, studies: int, rng: np.random.Generator) -> Estimate:
    """Simulate how often the ranges of n and m independent runs of one distribution do not overlap."""
    apart = ~stats.do_ranges_overlap(rng.normal(size=(studies, n)), rng.normal(size=(studies, m)))
    return _estimate_share(apart)


def render_calibration(result: Calibration, looks: LooksCalibration | None = None) -> str:
    """Return a short text table of the rates in percent, each with its interval."""
    study = result.study
    word = "false" if study.effect == 0.0 else "found"
    head = (
        f"{study.studies:,} simulated studies: {format_counted(study.levels, 'level')}, "
        f"{format_counted(study.users, 'number')} of users, "
        f"{study.blocks} blocks\nrun noise {100 * study.run_noise:g} %, launch noise {100 * study.launch_noise:g} %, "
        f"true cost {100 * study.effect:g} %, margin {100 * study.margin:g} %, alpha {100 * study.alpha:g} %"
    )
    if study.regimes is not None:
        turns = study.regimes
        head += f"\ntwo speeds: {turns.dwell_s:g} s each, ratio {turns.ratio:g}, runs of {turns.run_s:g} s"
    if study.blocks < LEAST_BLOCKS:
        head += f"\n{study.blocks} blocks earn no verdict; the rates are what they would be if they did"
    rows = [(label.format(word=word), getattr(result, name)) for name, label in _LABELS.items()]
    lines = [f"{label:<62}{_percent(rate)}" for label, rate in rows]
    if looks is not None:
        lines += [
            f"{f'stopping early: difference {word}':<62}{_percent(looks.difference)}",
            f"{'stopping early: equivalent':<62}{_percent(looks.equivalent)}",
            f"{'stopping early: blocks on average':<62}{looks.blocks.point:6.2f}",
        ]
    return "\n".join([head, "", *lines])


_LABELS = {
    "comparison": "difference {word}, one comparison without Holm",
    "comparison_holm": "difference {word}, one comparison",
    "overall": "difference {word}, overall cost of a level",
    "family_users": "any difference {word}, users of one level",
    "family_overall": "any difference {word}, overall costs of all levels",
    "study_raw": "any difference {word}, all levels and users without Holm",
    "study_holm": "any difference {word}, all levels and users",
    "wrong_sign": "overall verdict against the true sign",
    "equivalent": "overall verdict inside the margin",
    "undecided": "overall cost undecided",
    "range_rule": "seed ranges apart (the 2026.10 edition's rule)",
}


def _percent(rate: Estimate) -> str:
    low, high = (100.0 * (0.0 if end is None else end) for end in (rate.low, rate.high))
    return f"{100.0 * rate.point:6.2f} % ({low:.2f} to {high:.2f})"


def _chunks(studies: int) -> Iterator[int]:
    for start in range(0, studies, CHUNK):
        yield min(CHUNK, studies - start)


def _count(study: SimulatedStudy, logs: FloatArray) -> dict[str, FloatArray]:
    """Return, for each rate of `Calibration`, the share within each study (studies,)."""
    ratios = logs[:, 1:] - logs[:, :1]
    by_users = stats.paired_test(np.moveaxis(ratios, 2, -1), study.alpha)
    overall = stats.paired_test(ratios.mean(axis=-1), study.alpha)
    raw = by_users.p < study.alpha
    found = stats.adjust_holm(by_users.p) < study.alpha
    found_overall = stats.adjust_holm(overall.p) < study.alpha
    within = stats.is_within_margin(overall, study.margin)
    wrong = found_overall & (np.sign(overall.mean) != np.sign(study.effect))
    times = np.moveaxis(logs, 2, -1)
    counts = {
        "comparison": raw,
        "comparison_holm": found,
        "overall": found_overall,
        "family_users": found.any(axis=-1),
        "family_overall": found_overall.any(axis=-1),
        "study_raw": raw.any(axis=(-2, -1)),
        "study_holm": found.any(axis=(-2, -1)),
        "wrong_sign": wrong,
        "equivalent": within,
        "undecided": ~(found_overall | within),
        "range_rule": ~stats.do_ranges_overlap(times[:, 1:], times[:, :1]),
    }
    return {name: np.asarray(said).reshape(len(logs), -1).mean(axis=1) for name, said in counts.items()}


def _stop(study: SimulatedStudy, logs: FloatArray) -> tuple[BoolArray, BoolArray, FloatArray]:
    """Return for each study whether it ended with a difference, with equivalence, and after how many blocks."""
    d = (logs[:, 1] - logs[:, 0]).mean(axis=-1)
    differs, equivalent = np.zeros((2, len(d)), dtype=np.bool_)
    blocks = np.full(len(d), float(LOOKS[-1][0]))
    for at, alpha in LOOKS:
        going = ~(differs | equivalent)
        test = stats.paired_test(d[:, :at], alpha)
        differs |= going & (test.p < alpha)
        equivalent |= going & ~differs & stats.is_within_margin(test, study.margin)
        blocks[going & (differs | equivalent)] = at
    return differs, equivalent, blocks


def _estimate_share(share: BoolArray | FloatArray) -> Estimate:
    """Return the mean of per-study shares (studies,) with Wilson's interval, one trial a study.

    Comparisons of one study share a default, so they do not count as trials of their own: the interval errs on the wide
    side.
    """
    studies = share.size
    hits = float(share.sum())
    interval = scipy_stats.binomtest(round(hits), studies).proportion_ci(CONFIDENCE, method="wilson")
    return Estimate(hits / studies, float(interval.low), float(interval.high), studies, "study", CONFIDENCE)
