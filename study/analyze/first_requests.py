"""What the first requests of a fresh server pay, which warm-up waves hide from every other figure.

    spawn ... ready -> first token -> warm-up wave 1, wave 2 (of the first run) -> load -> next run: one wave -> load

The first run of a launch has two warm-up waves of one shape: what the first takes more than the last is the price of
skipped warm-ups. The one request that the first token came from was before both, so that its share is in the time from
ready to first token. Later runs have one wave, with nothing to set it against.
"""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from study.analyze.cards import split_labels
from study.analyze.evidence import check_launch_level
from study.analyze.judged_runs import order_levels
from study.analyze.run_digest import RunDigest, Study, first_and_last_wave_s
from study.analyze.tables import make_frame
from study.records import LaunchRecord, RunRecord

FIRST_REQUEST_COLUMNS = (
    *("card", "level", "cache", "n", "at_users", "times_median", "times_least", "times_greatest", "first_wave_s"),
    *("last_wave_s", "reason", "starts", "to_first_token_s", "to_first_token_least_s", "to_first_token_greatest_s"),
    "token_reason",
)


def first_request_table(study: Study, levels: Sequence[str] = ()) -> pd.DataFrame:
    """Return one row a kind of card, level and state of the caches (`FIRST_REQUEST_COLUMNS`).

    `times_*` is how many times as long the first warm-up wave of a launch took as the last of the same run, over `n`
    launches at the numbers of users that `at_users` lists; `first_wave_s` and `last_wave_s` are seconds of one launch,
    that of median ratio (of two in the middle, the smaller). `to_first_token_*` are seconds from ready (health 200) to
    the first token, over `starts` launches. What cannot be told is null, with its reason. Launches that fill caches do
    not count, nor servers that did not run their level as asked.

    Args:
        study: the records.
        levels: the order of levels; without, the default first and the rest by name.

    """
    rows = [{"card": card, **row} for card, part in split_labels(study) for row in _rows(part, levels)]
    counts = {"n": "Int64", "starts": "Int64"}
    ratios = dict.fromkeys(("times_median", "times_least", "times_greatest"), "float64")
    return make_frame(rows, FIRST_REQUEST_COLUMNS).astype({**counts, **ratios})


def _rows(study: Study, levels: Sequence[str]) -> Iterator[dict[str, Any]]:
    measured = [one for one in study.launches if not one.fills_caches]
    firsts: dict[str, RunRecord | RunDigest] = {}
    for run in sorted(study.runs, key=lambda run: (run.position, run.attempt)):
        firsts.setdefault(run.launch_id, run)
    for level in order_levels((one.level for one in measured), levels):
        ours = [one for one in measured if one.level == level]
        for cache in sorted({one.cache for one in ours}, reverse=True):
            launches = [one for one in ours if one.cache == cache and check_launch_level(one)[0] != "failed"]
            named = {"level": level, "cache": cache}
            yield {**named, **_wave_figures(firsts, launches), **_token_figures(launches)}


def _wave_figures(firsts: Mapping[str, RunRecord | RunDigest], launches: Sequence[LaunchRecord]) -> dict[str, Any]:
    """Set the first wave of each launch against the last of the same run; several launches give median and range."""
    pairs, users, reasons = [], set(), []
    for launch in launches:
        first = firsts.get(launch.launch_id)
        waves = "starts alone were measured: no load ran" if first is None else first_and_last_wave_s(first)
        if first is None or isinstance(waves, str):
            reasons.append(str(waves))
        elif first.position > 0:
            reasons.append("the first run of the launch is not among the records")
        else:
            pairs.append(waves)
            users.add(first.users)
    pairs.sort(key=lambda pair: pair[0] / pair[1])
    times = [first_s / last_s for first_s, last_s in pairs]
    first_wave_s, last_wave_s = pairs[(len(pairs) - 1) // 2] if pairs else (None, None)
    return {
        "n": len(pairs),
        "at_users": ", ".join(str(count) for count in sorted(users)),
        "times_median": statistics.median(times) if times else None,
        "times_least": min(times, default=None),
        "times_greatest": max(times, default=None),
        "first_wave_s": first_wave_s,
        "last_wave_s": last_wave_s,
        "reason": None if pairs else "; ".join(dict.fromkeys(reasons)) or "no launch ran the level as asked",
    }


def ready_to_first_token_s(launch: LaunchRecord) -> float | None:
    """Return the seconds from ready (health 200) to the first token; None where either was not reached."""
    if launch.healthy_s is None or launch.first_token_s is None:
        return None
    return launch.first_token_s - launch.healthy_s


def _token_figures(launches: Sequence[LaunchRecord]) -> dict[str, Any]:
    seconds = [one for launch in launches if (one := ready_to_first_token_s(launch)) is not None]
    return {
        "starts": len(seconds),
        "to_first_token_s": statistics.median(seconds) if seconds else None,
        "to_first_token_least_s": min(seconds, default=None),
        "to_first_token_greatest_s": max(seconds, default=None),
        "token_reason": None if seconds else "no launch got from ready to a first token",
    }
