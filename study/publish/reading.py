"""The reading: every pair with its difference, interval, seed ranges and verdict, and what the A/A check says."""

from collections.abc import Sequence

from study.analyze.compare_types import AaCheck, Pair, RangeRule
from study.analyze.findings import Findings
from study.analyze.formats import MISSING, format_ends, format_ms, format_percent
from study.design.counting import format_counted
from study.publish.sheets import Sheet
from study.publish.wording import say_interval, say_users, say_verdict

LOCKSTEP = (
    "Requests of equal length run in lockstep and hardly mix prefill with decode, so a level that has full CUDA graphs "
    "hardly uses its piecewise ones in these runs."
)
SHARED_SERVER = (
    "All seeds of a level share one server process, so what differs between processes is charged to the level: these "
    "blocks are not independent."
)


def list_overall(found: Findings) -> Sheet | None:
    """Lay out the overall cost of each level; None where nothing was compared."""
    comparison = found.comparison
    if comparison is None:
        return None
    head = ("level", "cost over all users", "verdict", "why", "blocks", "what to know beside it")
    rows = [
        (
            pair.level,
            say_interval(pair.effect_percent),
            say_verdict(pair),
            pair.reason,
            _say_units(pair),
            "; ".join(pair.notes) or MISSING,
        )
        for pair in comparison.overall
    ]
    return Sheet(f"Each level against {comparison.options.default}, over all users", head, tuple(rows))


def list_pairs(found: Findings, users: Sequence[int]) -> Sheet | None:
    """Lay out every pair at the published numbers of users, with the 2026.10 edition's rule beside the verdict."""
    comparison = found.comparison
    if comparison is None:
        return None
    head = (
        *("users", "level", "difference of mean TPOT", "verdict", "why"),
        *("difference of the medians", "seed ranges", "range rule, false alarms"),
    )
    order = {count: place for place, count in enumerate(users)}
    pairs = [pair for pair in comparison.by_users if pair.users in order]
    pairs.sort(key=lambda pair: order[pair.users or 0])
    rows = [
        (
            say_users(pair.users),
            pair.level,
            say_interval(pair.effect_percent),
            say_verdict(pair),
            pair.reason,
            MISSING if pair.medians is None else format_percent(pair.medians.percent),
            _say_ranges(pair.range_rule),
            _say_rule(pair.range_rule),
        )
        for pair in pairs
    ]
    return Sheet(f"Each level against {comparison.options.default}, by users", head, tuple(rows))


def _say_units(pair: Pair) -> str:
    return f"{format_counted(min(pair.n_level, pair.n_default), pair.pairing.unit)}, {pair.pairing.value}"


def _say_ranges(rule: RangeRule | None) -> str:
    if rule is None:
        return MISSING
    ranges = " against ".join(_say_range(one) for one in (rule.level_ms, rule.default_ms))
    return f"{ranges}: {'they overlap' if rule.overlap else 'they do not overlap'}"


def _say_range(ends: tuple[float, float]) -> str:
    return format_ends(*(format_ms([end]) for end in ends))


def _say_rule(rule: RangeRule | None) -> str:
    if rule is None:
        return MISSING
    percent = 100.0 * rule.false_rate
    rate = f"{percent:.0f}" if percent >= 10.0 else f"{percent:.2g}"
    return f"{rate} percent by chance ({rule.n_level} against {format_counted(rule.n_default, 'run')})"


def say_method(found: Findings) -> list[str]:
    """Write what holds for all pairs: the A/A checks, how blocks were made, and what these runs do not exercise."""
    comparison = found.comparison
    if comparison is None:
        return [f"Not enough evidence: {found.comparison_reason}."]
    said = []
    if comparison.method_biased:
        said.append(
            "METHOD BIASED: two levels that resolved alike differ by more than their interval allows. The verdicts "
            "below say more about the method than about the levels."
        )
    said += [_say_aa(check) for check in comparison.aa]
    if not comparison.aa:
        said.append("A/A not measured: no two levels resolved alike, so the method's own noise is not known.")
    if not found.fresh_servers:
        said.append(SHARED_SERVER)
    return [*said, LOCKSTEP]


def _say_aa(check: AaCheck) -> str:
    effect = say_interval(check.effect_percent)
    name = f"A/A check: {check.level} and {check.default} resolved alike and differ by {effect}"
    if check.contains_zero is None:
        return f"{name}. {check.note}."
    holds = "holds 0, as it should" if check.contains_zero else "leaves out 0, which it should not"
    return f"{name}: the interval {holds}. It {check.note}."


def list_host_bound(found: Findings, users: Sequence[int]) -> Sheet | None:
    """Lay out whether the card waits for its host, where telemetry tells; None where nothing was compared."""
    seen = [one for one in found.host_bound if one.users in users]
    if not seen:
        return None
    says = {True: "the card waits for its host", False: "no sign of it", None: "not known"}
    rows = [
        (
            say_users(one.users),
            one.level,
            says[one.holds],
            one.evidence,
        )
        for one in seen
    ]
    head = ("users", "level", "host-bound", "evidence")
    return Sheet(
        f"Does the card wait for its host? Each level against {found.default}", head, tuple(rows), folded=len(rows) > 6
    )
