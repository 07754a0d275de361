"""What is said of a session that was asked to be throttled: what came of it, after what load, on which evidence."""

from collections.abc import Sequence

from study.analyze.findings import Findings
from study.analyze.findings_parts import Throttling
from study.analyze.formats import format_ends
from study.design.counting import format_counted

THROTTLED_EVIDENCE = "a session that shows throttling on evidence, with five blocks of it"
"""What would be enough where a session was never throttled."""

CELSIUS = "\N{DEGREE SIGN}C"

REASON_NOT_THROTTLED = "not_throttled"
"""Why a run of a session that was to be throttled does not count where it was not."""


def say_never_throttled(found: Findings) -> str:
    """Write `say_throttling` of a study of which no run counts, as it was to be throttled and was not; else nothing."""
    heat = found.throttling
    if heat is None or not heat.asked or heat.reached or found.runs["counts"].any():
        return ""
    return say_throttling(heat)


def say_throttling(found: Throttling) -> str:
    """Write what came of a session that was asked to be throttled, to follow `it was`.

    Returns:
        str: such as `asked to be throttled and was not: 0 of 2 runs were throttled, after 181 to 182 s under load
        before each, which ended at 39 to 50 degC (...)`; the evidence in brackets is that of the first run.

    """
    if found.reached is None:
        return f"asked to be throttled, and no run has evidence for or against it{_say_soaks(found)}{_because(found)}"
    ending = "" if found.reached else " and was not" if not found.throttled else " and was not in every run"
    was = "was" if found.judged == 1 else "were"
    return f"asked to be throttled{ending}: {_count(found)} {was} throttled{_say_soaks(found)}{_because(found)}"


def say_throttled_in_cooled(found: Throttling) -> str:
    """Write in how many runs of a cooled session the card was throttled after all."""
    return f"the card was throttled in {_count(found)} of this cooled session"


def _count(found: Throttling) -> str:
    return f"{found.throttled} of {format_counted(found.judged, 'run')}"


def _because(found: Throttling) -> str:
    return f" ({found.evidence[0]})" if found.evidence else ""


def _say_soaks(found: Throttling) -> str:
    """Say how long the card was kept under load before the runs, and how warm that made it."""
    if not found.soaks:
        return ""
    length = _span([gate.waited_s for gate in found.soaks], "s")
    known_c = [gate.temperature_c for gate in found.soaks if gate.temperature_c is not None]
    ended = f", which ended at {_span(known_c, CELSIUS)}" if known_c else ""
    return f", after {length} under load before each{ended}"


def _span(values: Sequence[float], unit: str) -> str:
    return format_ends(f"{min(values):.0f} {unit}", f"{max(values):.0f} {unit}")
