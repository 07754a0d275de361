"""Starts of one study set against the token times of another.

Speed is never measured on a cold start, so a study of cold starts has no token times of its own.
"""

from collections.abc import Sequence
from dataclasses import replace

from study.analyze.breakeven import StartAndSpeed, find_break_even
from study.analyze.findings import Findings
from study.analyze.findings_parts import BreakEvenAt, StartGain
from study.design.counting import format_counted
from study.errors import InputError

_SHARED = ("device", "model", "load_format", "server_flags", "kv_cache_memory_bytes", "session")
"""Parameters that starts and token times must share; lengths, waves and the pool shape the load alone."""


def join_starts(speed: Findings, starts: Findings) -> tuple[BreakEvenAt, ...]:
    """Set the starts of one study against the token times of another.

    They are two independent samples: blocks of both count as many as they are, and their order says nothing. The notes
    of each result say so.

    Args:
        speed: a study with runs: gives the time of a token by level and users.
        starts: a study of starts: gives seconds from the spawn to the first token by level and state of the caches.

    Returns:
        One break-even a level that both have, number of users and state of the caches of `starts`.

    Raises:
        InputError: the studies are not of one card, model, session kind or set of flags, or one lacks its part.

    """
    reason = _why_nothing_to_join(speed, starts) or why_starts_differ(speed, starts)
    if reason:
        raise InputError(f"starts of '{starts.study}' cannot be set against speeds of '{speed.study}': {reason}")
    served = {(at.level, at.users): at for at in reversed(speed.break_evens)}
    joined = [
        _join(speed, starts, at, gain)
        for at in reversed(served.values())
        for gain in starts.start_gains
        if gain.level == at.level
    ]
    if not joined:
        raise InputError(f"'{starts.study}' and '{speed.study}' have no level beside '{speed.default}' in common")
    return tuple(joined)


def _why_nothing_to_join(speed: Findings, starts: Findings) -> str:
    if not speed.break_evens:
        return f"'{speed.study}' has no token times beside starts ({speed.break_even_reason})"
    return "" if starts.start_gains else f"no block of '{starts.study}' has a start of the default and of another level"


def why_starts_differ(speed: Findings, starts: Findings) -> str:
    """Return what sets the starts of two studies apart, with both values; empty where nothing does."""
    pairs = {name: (starts.comparable.get(name), speed.comparable.get(name)) for name in _SHARED}
    pairs |= {f"{name} version": (starts.versions.get(name), speed.versions.get(name)) for name in ("vllm", "torch")}
    ours, theirs = (sorted({card.name or card.unit for card in found.cards}) for found in (starts, speed))
    pairs |= {"card": (" and ".join(ours), " and ".join(theirs)), "default": (starts.default, speed.default)}
    flags = _flags(speed)
    pairs |= {f"level {name}": (text, flags[name]) for name, text in _flags(starts).items() if name in flags}
    return next((f"{what} {a!r} there, {b!r} here" for what, (a, b) in pairs.items() if a != b), "")


def _flags(found: Findings) -> dict[str, str]:
    """Return the flags of each level whose servers told what they resolved."""
    told = found.level_table.dropna(subset=["flags"])
    return {str(level): f"with flags {flags}" for level, flags in zip(told["level"], told["flags"], strict=True)}


def _join(speed: Findings, starts: Findings, at: BreakEvenAt, gain: StartGain) -> BreakEvenAt:
    unit = "block" if {gain.gain_s.unit, at.unit} == {"block"} else "machine"
    ours = StartAndSpeed(gain.level_s, at.level_input.token_s)
    theirs = StartAndSpeed(gain.default_s, at.default_input.token_s)
    result = find_break_even(ours, theirs, 1.0 - gain.gain_s.confidence, one_study=False, unit=unit)
    of_both = f"{gain.cache} starts are those of study {starts.study}, token times those of study {speed.study}"
    notes = [f"{of_both}, as two samples that know nothing of each other"]
    of_starts, of_speeds = ours.start_s.size, ours.token_s.size
    if of_starts != of_speeds:
        notes.append(f"{format_counted(of_starts, unit)} of starts and {of_speeds} of token times count")
    if {card.unit for card in starts.cards} != {card.unit for card in speed.cards}:
        notes.append("the cards are of one kind, but not the same ones")
    return BreakEvenAt(at.level, at.default, at.users, gain.cache, unit, ours, theirs, result, tuple(notes))


def complete_starts(findings: Findings, others: Sequence[Findings]) -> Findings:
    """Return findings with the break-evens that take another study's starts, or its token times.

    What a study measured itself goes first: another's starts add states of the caches that it does not have. Where no
    study fits, `break_even_reason` says why each does not.
    """
    known, gains, refused = list(findings.break_evens), list(findings.start_gains), []
    for other in others:
        if bool(findings.break_evens) is bool(other.break_evens):
            continue
        speed, starts = (findings, other) if findings.break_evens else (other, findings)
        try:
            joined = join_starts(speed, starts)
        except InputError as error:
            refused.append(str(error))
            continue
        places = {(at.level, at.users, at.cache) for at in known}
        known += [at for at in joined if (at.level, at.users, at.cache) not in places]
        have = {(gain.level, gain.cache) for gain in gains}
        gains += [gain for gain in starts.start_gains if (gain.level, gain.cache) not in have]
    reason = "" if known else "; ".join([findings.break_even_reason, *refused])
    return replace(findings, break_evens=tuple(known), start_gains=tuple(gains), break_even_reason=reason)
