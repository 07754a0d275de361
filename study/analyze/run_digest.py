"""What is kept of a run once its columns were read: figures, validity, and what tables and figures need besides.

    run, launch -> RunDigest -> judged runs, tables, figures

A digest follows from its run, the launch that served it and the threshold of throttling alone, so that runs can be read
one at a time and digests be kept on disk. Functions of `analyze` and `publish` take a study of records or of digests.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

from study.analyze.run_traces import RunTrace, trace_run
from study.analyze.runs import DEFAULT_BELOW_SHARE, RunFigures, figures_of
from study.analyze.validity import Validity, judge_run
from study.design.card_facts import CardOfLaunch
from study.reading import StudyOf
from study.record_files import RunHead, head_of
from study.records import ASKED_TO_END, Canary, LaunchRecord, RunRecord

_Around = TypeVar("_Around", LaunchRecord, CardOfLaunch)


@dataclass(frozen=True, eq=False)
class RunDigest(RunHead):
    """A run without its columns, and what was found in them.

    Attributes:
        figures: its figures; None without a launch.
        validity: whether it is valid by itself and why.
        warm_up: its first and its last warm-up wave in s, or why they cannot be set against each other.
        context: tokens in the KV cache halfway through an answer, summed over requests, and these requests.
        trace: what is drawn of it.

    """

    figures: RunFigures | None
    validity: Validity
    warm_up: tuple[float, float] | str
    context: tuple[float, int]
    trace: RunTrace


Study: TypeAlias = StudyOf[RunRecord | RunDigest]
"""A study's records, or its launches with the digests of its runs."""


class Digester:
    """Makes digests of the runs of one study.

    Args:
        launches: all of them: one that was cut short takes the canary of a later one.
        below_share: of the card's highest SM clock; a busy clock below counts as throttled.

    """

    def __init__(self, launches: Iterable[LaunchRecord], below_share: float = DEFAULT_BELOW_SHARE) -> None:
        self.below_share = below_share
        self.launches = complete_launches(launches)

    def digest(self, run: RunRecord) -> RunDigest:
        """Return the digest of one run."""
        launch = self.launches.get(run.launch_id)
        figures = None if launch is None else figures_of(run, launch, self.below_share)
        return RunDigest(
            **vars(head_of(run)),
            figures=figures,
            validity=judge_run(run, launch, figures),
            warm_up=first_and_last_wave_s(run),
            context=count_context(run),
            trace=trace_run(run),
        )

    def hash_launch(self, launch_id: str) -> str:
        """Return a SHA-256 (hex) of all that a digest takes of the launch that served its run."""
        launch = self.launches.get(launch_id)
        return hashlib.sha256(b"" if launch is None else launch.model_dump_json().encode()).hexdigest()


def digest_runs(study: Study, below_share: float = DEFAULT_BELOW_SHARE) -> tuple[RunDigest, ...]:
    """Return the digests of a study's runs, those that it has already as they are.

    Args:
        study: records or digests.
        below_share: as in `Digester`; of digests, the one that they were made with.

    """
    digester = Digester(study.launches, below_share)
    return tuple(run if isinstance(run, RunDigest) else digester.digest(run) for run in study.runs)


def complete_launches(launches: Iterable[LaunchRecord]) -> dict[str, LaunchRecord]:
    """Return launches by id; one whose session was interrupted has its machine's next canary as the one after it.

    A session that is asked to end skips the canary after the stop; the resumed one begins with a canary that tells as
    much: whether the machine is as fast as it was.
    """
    known = list(launches)
    later: dict[str, list[LaunchRecord]] = {}
    for launch in sorted(known, key=lambda one: (one.spawn_unix_s, one.launch_id)):
        if launch.canary_before is not None:
            later.setdefault(launch.machine.unit, []).append(launch)
    return {one.launch_id: _with_later_canary(one, later) for one in known}


def _with_later_canary(launch: LaunchRecord, later: Mapping[str, list[LaunchRecord]]) -> LaunchRecord:
    cut_short = launch.outcome.status == "interrupted" or launch.missing.get("canary_after") == ASKED_TO_END
    if not cut_short or launch.canary_after is not None:
        return launch
    others = later.get(launch.machine.unit, [])
    place = bisect_right(others, launch.spawn_unix_s, key=lambda one: one.spawn_unix_s)
    if place == len(others):
        return launch
    following = others[place]
    later_of = {card.gpu_uuid: card.canary_before for card in following.further_cards}
    later_of[following.machine.gpu_uuid or ""] = following.canary_before
    further = [_with_canary(card, later_of.get(card.gpu_uuid)) for card in launch.further_cards]
    canary = later_of.get(launch.machine.gpu_uuid or "")
    return _with_canary(launch, canary).model_copy(update={"further_cards": further} if further else {})


def _with_canary(around: _Around, canary: Canary | None) -> _Around:
    """Return a launch, or a further card's part of one, with its canary after the stop, where there is one."""
    if canary is None or around.canary_after is not None:
        return around
    missing = {name: reason for name, reason in around.missing.items() if name != "canary_after"}
    return around.model_copy(update={"canary_after": canary, "missing": missing})


def first_and_last_wave_s(run: RunRecord | RunDigest) -> tuple[float, float] | str:
    """Return the first and the last warm-up wave of a run in seconds, or why they cannot be set against each other."""
    if isinstance(run, RunDigest):
        return run.warm_up
    if run.load is None:
        return f"its first run has no load: {run.outcome.message or run.outcome.status}"
    waves_s = run.load.warm_up_waves_s
    if not waves_s:
        return "the record does not hold the lengths of its warm-up waves"
    if len(waves_s) == 1:
        return "one warm-up wave alone, with nothing to set it against"
    return waves_s[0], waves_s[-1]


def count_context(run: RunRecord | RunDigest) -> tuple[float, int]:
    """Return the tokens in the KV cache halfway through an answer, summed over requests, and how many these are."""
    if isinstance(run, RunDigest):
        return run.context
    if run.load is None:
        return 0.0, 0
    pairs = zip(run.load.requests.input_tokens, run.load.requests.output_tokens, strict=True)
    halfway = [asked + answered / 2 for asked, answered in pairs if answered is not None]
    return sum(halfway), len(halfway)
