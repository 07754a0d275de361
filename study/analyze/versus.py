"""Sets one edition or study beside another: what differs, what holds on both, and no verdict across the two.

A label is one thing on both sides only where its servers resolved alike; where they did not it is two things, with a
row each. A side that did not tell what its servers resolved is paired by the label alone, and that is said.
"""

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

from study.analyze.compare_types import Verdict
from study.analyze.versus_parts import match_cards
from study.analyze.versus_types import (
    Beside,
    Cell,
    Claim,
    Cost,
    Fact,
    Meaning,
    Outcome,
    Part,
    Row,
    Says,
    SettingPair,
    Side,
    Stance,
    Versus,
)

LEVEL_SECTIONS = ("compilation_config.", "kernel_config.", "model_config.enforce_eager")
"""Resolved settings that levels are made of. Others belong to a level where a side's levels differ in them."""
FOLLOWS_THE_CARD = ("compilation_config.compile_ranges_endpoints",)
"""Settings in those sections that follow the scheduler's token budget, and so the card's memory, at every level."""
MOST_NAMED = 3
"""Settings that a sentence names; the table has all."""
ALWAYS = (
    *("session", "model", "vLLM", "vLLM commit", "torch", "driver", "host", "replicates"),
    *("input_tokens", "output_tokens"),
)
"""Conditions that are printed whether they differ or not, where a side recorded them."""
_OFF = frozenset({"null", "false", "0", '""', "[]", "{}"})
_STANCES = {
    Verdict.SLOWER: Stance.SLOWER,
    Verdict.FASTER: Stance.FASTER,
    Verdict.SLOWER_WITHIN_MARGIN: Stance.AS_FAST,
    Verdict.FASTER_WITHIN_MARGIN: Stance.AS_FAST,
    Verdict.EQUIVALENT: Stance.AS_FAST,
    Verdict.UNDECIDED: Stance.UNDECIDED,
}


def set_beside(a: Side, b: Side) -> Versus:
    """Set two sides beside each other.

    Sessions of one kind belong together, and of these the ones on one model of card, where both sides have such a pair;
    two sides without a kind in common are set beside each other all the same, since the kinds are printed.

    Args:
        a: one side.
        b: the other.

    """
    couples = _couple(a.parts, b.parts)
    kinds = {"A": (a, [x for x, _ in couples]), "B": (b, [y for _, y in couples])}
    alone = tuple(
        f"{name} alone has {part.name} ({part.session or 'session not recorded'}, {_say_cards(part)})"
        for name, (side, used) in kinds.items()
        for part in side.parts
        if not any(part is one for one in used)
    )
    return Versus(a, b, tuple(_set_parts(x, y) for x, y in couples), alone)


def _couple(ours: Sequence[Part], theirs: Sequence[Part]) -> list[tuple[Part, Part]]:
    every = list(itertools.product(ours, theirs))
    kind = [(x, y) for x, y in every if x.session == y.session] or every
    close = [(x, y) for x, y in kind if _is_close(x, y)]

    def has_closer(x: Part, y: Part) -> bool:
        return any(x is one or y is other for one, other in close)

    return [(x, y) for x, y in kind if _is_close(x, y) or not has_closer(x, y)]


def _is_close(x: Part, y: Part) -> bool:
    return bool(x.cards) and x.cards == y.cards


def _say_cards(part: Part) -> str:
    return ", ".join(part.cards) or ("no card" if part.device == "cpu" else "card not recorded")


def _set_parts(a: Part, b: Part) -> Beside:
    names = _level_paths(a, b)
    both = [level for level in a.levels if level in b.levels]
    meanings = {level: _mean(level, a, b, names) for level in both}
    users = [count for count in a.users if count in b.users]
    return Beside(
        a=a,
        b=b,
        cards=match_cards(a, b),
        facts=tuple(_list_facts(a, b)),
        meanings=tuple(meanings.values()),
        around=tuple(_list_around(a, b, names)),
        rows=tuple(_list_rows(a, b, meanings, users)),
        claims=tuple(_claim(meanings[level], a, b, meanings) for level in both if level not in (a.default, b.default)),
        alone=tuple(_list_alone(a, b)),
        same_records=a == b if a.published or b.published else a.name == b.name,
    )


def _list_facts(a: Part, b: Part) -> Iterator[Fact]:
    """List what either recorded; a parameter that is the same on both is left out, one of `ALWAYS` never is."""
    others = []
    for name in dict.fromkeys((*ALWAYS, *a.facts, *b.facts)):
        ours, theirs = a.facts.get(name), b.facts.get(name)
        same = None if ours is None or theirs is None else ours == theirs
        if name == "vLLM commit" and ours and theirs:
            # Commits are cut at different lengths.
            same = ours.startswith(theirs) or theirs.startswith(ours)
        if same is False or (name in ALWAYS and (ours or theirs)):
            yield Fact(name, ours, theirs, same)
        elif same is None and name not in ALWAYS:
            others.append(name)
    if others:
        ours, theirs = (", ".join(name for name in others if name in part.facts) or None for part in (a, b))
        yield Fact("recorded on one side", ours, theirs, None)


def _level_paths(a: Part, b: Part) -> frozenset[str]:
    """Return the paths of settings that make the levels: of their sections, or changed by a level of either side."""
    paths: set[str] = set()
    for part in (a, b):
        known = {path for settings in part.settings.values() for path in settings}
        paths |= {path for path in known if path.startswith(LEVEL_SECTIONS)}
        paths |= {path for path in known if len({one.get(path) for one in part.settings.values()}) > 1}
    return frozenset(paths - set(FOLLOWS_THE_CARD))


def _mean(level: str, a: Part, b: Part, names: Iterable[str]) -> Meaning:
    missing = [f"{name}: {part.unsettled[level]}" for name, part in (("A", a), ("B", b)) if level in part.unsettled]
    if missing:
        return Meaning(level, None, reason="; ".join(missing))
    pairs = [SettingPair(path, a.settings[level].get(path, ()), b.settings[level].get(path, ())) for path in names]
    differ = sorted((pair for pair in pairs if _differs(pair)), key=lambda pair: pair.path)
    return Meaning(level, not differ, tuple(differ))


def _differs(pair: SettingPair) -> bool:
    """Say whether a setting differs.

    One that a single version knows does unless it is off; one that a side's own servers disagree on always does.
    """
    if not pair.a or not pair.b:
        return not set(pair.a or pair.b) <= _OFF
    return pair.a != pair.b or len(pair.a) > 1


def _list_around(a: Part, b: Part, names: frozenset[str]) -> Iterator[SettingPair]:
    """List settings of the two studies that differ outside the levels, over all levels that told."""
    gathered = []
    for part in (a, b):
        values: dict[str, set[str]] = {}
        for settings in part.settings.values():
            for path, seen in settings.items():
                values.setdefault(path, set()).update(seen)
        gathered.append(values)
    ours, theirs = gathered
    if ours and theirs:
        for path in sorted((set(ours) | set(theirs)) - names):
            pair = SettingPair(path, tuple(sorted(ours.get(path, ()))), tuple(sorted(theirs.get(path, ()))))
            if _differs(pair):
                yield pair


def _list_rows(a: Part, b: Part, meanings: dict[str, Meaning], users: Sequence[int]) -> Iterator[Row]:
    for count, level in itertools.product([*users, None] if users else [], meanings):
        ours, theirs = (_take(part, count, level) for part in (a, b))
        if not _why_two(meanings[level], a, b, meanings):
            rows = [Row(count, level, ours, theirs)]
        else:
            rows = [Row(count, level, ours, None, "A"), Row(count, level, None, theirs, "B")]
        yield from (row for row in rows if row.a or row.b)


def _take(part: Part, users: int | None, level: str) -> Cell | None:
    """Return a cell that has a figure."""
    cell = part.cells.get((users, level))
    return None if cell is None or (cell.median_tpot_ms is None and cell.cost is None) else cell


def _why_two(meaning: Meaning, a: Part, b: Part, meanings: dict[str, Meaning]) -> str:
    """Say why a label, with its cost, stands for two things; empty where it does not."""
    if meaning.same is False:
        return f"it is two things, since its servers resolved differently in {_name_paths(meaning)}"
    if a.default != b.default:
        return f"A sets it against '{a.default}', B against '{b.default}'"
    default = meanings.get(a.default)
    if default is not None and default.same is False:
        return f"'{a.default}', which it is set against, resolved differently in {_name_paths(default)}"
    return ""


def _name_paths(meaning: Meaning) -> str:
    paths = [pair.path for pair in meaning.differences]
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return ", ".join(paths[:MOST_NAMED]) + more


def _claim(meaning: Meaning, a: Part, b: Part, meanings: dict[str, Meaning]) -> Claim:
    """Say what is known of one level on both sides, from figures that both measured."""
    level = meaning.level
    shared = tuple(
        count
        for count in sorted({*a.users} & {*b.users})
        if all((cost := part.cost(count, level)) and cost.point_percent is not None for part in (a, b))
    )
    alike = [name for name, part in (("A", a), ("B", b)) if level in part.alike]
    two = _why_two(meaning, a, b, meanings)
    if two:
        return Claim(level, Outcome.TWO_THINGS, shared, why=two)
    if alike:
        return Claim(level, Outcome.METHOD, shared, why=" and ".join(alike))
    if not shared:
        return Claim(level, Outcome.APART, shared, why=_why_apart(level, a, b))
    ours, theirs = (_hear(part, level, shared) for part in (a, b))
    if Stance.UNDECIDED in (ours.stance, theirs.stance):
        outcome = Outcome.OPEN
    elif ours.stance == theirs.stance:
        outcome = Outcome.OPEN if ours.stance is Stance.MIXED else Outcome.HOLDS
    else:
        outcome = Outcome.DIFFERS
    one_way = outcome is Outcome.HOLDS and ours.stance is not Stance.AS_FAST
    return Claim(level, outcome, shared, ours, theirs, one_way and not _touch(ours, theirs))


def _why_apart(level: str, a: Part, b: Part) -> str:
    sides = (("A", a), ("B", b))
    reasons = [f"{name}: {part.without_figure[level]}" for name, part in sides if level in part.without_figure]
    return "; ".join(reasons) or "no cost at a number of users that both sides have"


def _hear(part: Part, level: str, users: tuple[int, ...]) -> Says:
    """Return what a side says: its overall verdict where that is over these users, else what they all say."""
    overall = part.cost(None, level)
    if overall is not None and overall.verdict is not None and overall.users_used == users:
        return Says(_stance(overall, part.margin), (overall,))
    costs = tuple(cost for count in users if (cost := part.cost(count, level)) is not None)
    stances = {_stance(cost, part.margin) for cost in costs}
    if len(stances) == 1:
        return Says(stances.pop(), costs)
    return Says(Stance.UNDECIDED if Stance.UNDECIDED in stances else Stance.MIXED, costs)


def _stance(cost: Cost, margin: float) -> Stance:
    """Return the side's own verdict, or, where its figures earn none, on which side of the margin they lie."""
    if cost.verdict is not None:
        return _STANCES[cost.verdict]
    share = (cost.point_percent or 0.0) / 100.0
    if abs(share) <= margin:
        return Stance.AS_FAST
    return Stance.SLOWER if share > 0.0 else Stance.FASTER


def _touch(ours: Says, theirs: Says) -> bool:
    (low, high), (least, greatest) = _range(ours), _range(theirs)
    return low <= greatest and least <= high


def _range(says: Says) -> tuple[float, float]:
    """Return the range of a side's costs in percent, with their intervals where they have any."""
    ends = [_ends(cost) for cost in says.costs]
    return min(low for low, _ in ends), max(high for _, high in ends)


def _ends(cost: Cost) -> tuple[float, float]:
    effect, point = cost.effect_percent, cost.point_percent or 0.0
    if effect is None or (effect.low is None and effect.high is None):
        return point, point
    return -math.inf if effect.low is None else effect.low, math.inf if effect.high is None else effect.high


def _list_alone(a: Part, b: Part) -> Iterator[str]:
    for name, part, other in (("A", a, b), ("B", b, a)):
        levels = [level for level in part.levels if level not in other.levels]
        users = [str(count) for count in part.users if count not in other.users]
        if levels:
            yield f"levels that {name} alone has: {', '.join(levels)}"
        if users:
            yield f"numbers of users that {name} alone has: {', '.join(users)}"
        without = [f"{level} ({why})" for level, why in part.without_figure.items()]
        if without:
            yield f"levels that have no figure in {name}: {'; '.join(without)}"
