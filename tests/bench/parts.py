"""Where the study's time goes, from its records and a clock: every second of a session belongs to one part."""

from itertools import pairwise

PARTS = ("start", "gate", "warm_up", "load", "stop", "everything_else")
"""The parts of METHOD's timeline; what is in none of the first five is everything else."""


def split_time(launches, runs, timed):
    """Return seconds by part, and everything else by where it lies.

    Args:
        launches: records of a session that ended well.
        runs: of these launches.
        timed: when the session's process began and when it was gone.

    """
    ordered = sorted(launches, key=lambda launch: launch.spawn_s)
    parts = {
        "start": sum(launch.first_token_s - launch.spawn_s for launch in ordered),
        "gate": sum(item.gate.waited_s for item in (*ordered, *runs)),
        "warm_up": sum(run.load.burst_s for run in runs),
        "load": sum(run.load.ended_s - run.load.started_s for run in runs),
        "stop": sum(launch.stopped_s - launch.stop_asked_s for launch in ordered),
    }
    parts["everything_else"] = timed.wall_s - sum(parts.values())
    return parts, where_else(ordered, runs, timed)


def where_else(ordered, runs, timed):
    """Return the seconds of everything else by where they lie, gates and warm-ups taken off."""
    where = dict.fromkeys(("session", "before_first_load", "between_loads", "after_last_load"), 0.0)
    where["session"] = ordered[0].spawn_s - timed.begun_s + timed.ended_s - ordered[-1].stopped_s
    where["session"] += sum(later.spawn_s - launch.stopped_s for launch, later in pairwise(ordered))
    where["session"] -= sum(launch.gate.waited_s for launch in ordered)
    for launch in ordered:
        own = sorted((run for run in runs if run.launch_id == launch.launch_id), key=lambda run: run.load.started_s)
        if not own:
            where["before_first_load"] += launch.stop_asked_s - launch.first_token_s
            continue
        where["before_first_load"] += own[0].load.started_s - launch.first_token_s - _waited(own[0])
        where["between_loads"] += sum(b.load.started_s - a.load.ended_s - _waited(b) for a, b in pairwise(own))
        where["after_last_load"] += launch.stop_asked_s - own[-1].load.ended_s
    return where


def _waited(run):
    return run.gate.waited_s + run.load.burst_s
