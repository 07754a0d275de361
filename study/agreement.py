"""What the records of one study must agree in: parameters, versions, a run with its launch; and no record is a copy."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from study.design.parameters import fingerprint
from study.design.plain_files import shown
from study.record_files import RunHead, hash_content
from study.records import LaunchRecord


def find_disagreements(launches: Sequence[LaunchRecord], runs: Sequence[RunHead]) -> list[str]:
    """Return one line for every record that does not go with the others."""
    return [*_mixed(launches, runs), *_at_odds(launches, runs), *_copies(launches, runs)]


def find_difference(ours: Mapping[str, Any], theirs: Mapping[str, Any], what: str) -> str | None:
    """Return in words the first field by which `theirs` is not comparable with `ours`; None where there is none."""
    for name in sorted(set(ours) | set(theirs)):
        if ours.get(name) != theirs.get(name):
            return f"{what} has {name} {theirs.get(name)!r}, the study {ours.get(name)!r}; use another study name"
    return None


def find_other_versions(first: LaunchRecord, other: LaunchRecord) -> Iterator[tuple[str, str, str]]:
    """Yield what must be alike in a study and is not, where both tell: its name, the first's version, the other's."""
    for name in ("vllm", "torch"):
        ours, theirs = (one.machine.versions.get(name) for one in (first, other))
        if ours and theirs and ours != theirs:
            yield name, ours, theirs


def _mixed(launches: Sequence[LaunchRecord], runs: Sequence[RunHead]) -> Iterator[str]:
    """Tell which records cannot be compared with the first, by the field that differs and both values."""
    for other in launches[1:]:
        first = launches[0]
        difference = find_difference(first.comparable, other.comparable, f"launch '{other.launch_id}'")
        if difference:
            yield difference
        for name, ours, theirs in find_other_versions(first, other):
            yield f"launch '{other.launch_id}' ran on {name} {theirs}, the rest on {ours}; split them"
    number = next((one.fingerprint for one in launches), next((one.fingerprint for one in runs), None))
    for run in runs:
        if run.fingerprint != number:
            yield f"run '{run.run_id}' has fingerprint {run.fingerprint}, its study {number}"
    for launch in launches:
        if fingerprint(launch.comparable) != launch.fingerprint:
            said = shown(launch.fingerprint)
            yield f"launch '{launch.launch_id}': fingerprint {said} does not stand for its comparable parameters"


def _at_odds(launches: Sequence[LaunchRecord], runs: Sequence[RunHead]) -> Iterator[str]:
    """Tell which runs say otherwise than the launch that served them."""
    by_id = {launch.launch_id: launch for launch in launches}
    for run in runs:
        launch = by_id.get(run.launch_id)
        for name in ("session", "block", "level", "rehearsal"):
            ours, theirs = getattr(run, name), getattr(launch, name, None)
            if launch is not None and ours != theirs:
                yield f"run '{run.run_id}' has {name} {ours!r}, its launch '{run.launch_id}' {theirs!r}"


def _copies(launches: Sequence[LaunchRecord], runs: Sequence[RunHead]) -> Iterator[str]:
    """Tell which records have the content of another: a copy, not two measurements."""
    seen: dict[str, str] = {}
    named = [("launch", one.launch_id, hash_content(one)) for one in launches]
    named += [("run", one.run_id, one.content_sha256) for one in runs]
    for kind, identity, content in named:
        first = seen.setdefault(content, identity)
        if first != identity:
            yield f"{kind} '{identity}' is a copy of '{first}'"
