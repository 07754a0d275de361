"""Rules on the parts of a level: compile or graphs alone, what -O3 adds, what to switch off for debugging.

Levels are told by what their servers resolved to, not by their names.
"""

from collections.abc import Callable

from study.analyze.compare_types import AaCheck, Pair
from study.analyze.recommend_case import DECIDED, Case, Figure, Rule, Standing, figure_of, sentences, stand
from study.analyze.recommend_rules import NOTHING
from study.analyze.recommend_words import describe_gain, describe_gains, interval, number, preliminary


def _graphs_alone(case: Case) -> str | None:
    """Return the level that resolved to CUDA graphs without compile."""
    with_graphs = ("PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE")
    return case.level_with(mode=("NONE",), cudagraph_mode=with_graphs)


def _compile_alone(case: Case) -> str | None:
    """Return the level that resolved to compile without CUDA graphs."""
    modes = ("STOCK_TORCH_COMPILE", "DYNAMO_TRACE_ONCE", "VLLM_COMPILE")
    return case.level_with(mode=modes, cudagraph_mode=("NONE",))


def _without_graphs_anyway(case: Case) -> bool:
    return case.switch(case.findings.default, "cudagraph_mode") == "NONE"


def _parts(case: Case) -> list[Pair]:
    """Return the comparisons of the levels that keep one part alone."""
    return [
        pair for level in (_graphs_alone(case), _compile_alone(case)) if level and (pair := case.overall.get(level))
    ]


KEEPS, LOSES, ABSENT = {Standing.ALIKE, Standing.FASTER}, {Standing.SLOWER}, {Standing.ABSENT}


def _when_parts(graphs: set[Standing], compiled: set[Standing]) -> Callable[[Case], bool]:
    return lambda case: case.standing(_graphs_alone(case)) in graphs and case.standing(_compile_alone(case)) in compiled


def _say_parts(first: str) -> Callable[[Case], list[str]]:
    def say(case: Case) -> list[str]:
        named = {"graphs": _graphs_alone(case), "compiled": _compile_alone(case), "default": case.findings.default}
        levels = {pair.level for pair in _parts(case)}
        gains = describe_gains(gain for gain in case.findings.start_gains if gain.level in levels)
        return [first.format(**named), *_say_larger_part(case), *sentences(case, _parts(case)), *gains]

    return say


def _say_larger_part(case: Case) -> list[str]:
    """Say what graphs alone win back, where a level without either part costs clearly more."""
    graphs = case.overall.get(_graphs_alone(case) or "")
    neither = [pair for pair in case.having(Standing.SLOWER) if _has_neither(case, pair.level)]
    if graphs is None or stand(graphs) not in DECIDED or not neither:
        return []
    ours, theirs = graphs.effect_percent, neither[0].effect_percent
    if ours is None or theirs is None or ours.high is None or theirs.low is None or ours.high >= theirs.low:
        return []
    return [
        f"With graphs alone a token takes {number(ours.point)} percent more than with both, with neither "
        f"({neither[0].level}) {number(theirs.point)} percent{preliminary(theirs.n, neither[0].pairing.unit)}."
    ]


def _has_neither(case: Case, level: str) -> bool:
    return case.switch(level, "mode") == "NONE" and case.switch(level, "cudagraph_mode") == "NONE"


PART_RULES: tuple[tuple[set[Standing], set[Standing], Callable[[Case], str | None], str], ...] = (
    (
        KEEPS,
        LOSES,
        _graphs_alone,
        "The graphs carry the speed: {graphs} keeps it without compile, {compiled} does not.",
    ),
    (LOSES, KEEPS, _compile_alone, "Compile carries the speed: {compiled} keeps it without graphs, {graphs} does not."),
    (KEEPS, KEEPS, lambda case: case.findings.default, "Either part alone, {graphs} or {compiled}, keeps the speed."),
    (LOSES, LOSES, lambda case: case.findings.default, "Keep both: {graphs} and {compiled} each cost time per token."),
    (KEEPS, ABSENT, _graphs_alone, "{graphs} keeps the speed without compile; compile alone was not compared."),
    (
        LOSES,
        ABSENT,
        lambda case: case.findings.default,
        "Keep both: {graphs}, without compile, costs time per token; compile alone was not compared.",
    ),
    (ABSENT, KEEPS, _compile_alone, "{compiled} keeps the speed without graphs; graphs alone were not compared."),
    (
        ABSENT,
        LOSES,
        lambda case: case.findings.default,
        "Keep both: {compiled}, without graphs, costs time per token; graphs alone were not compared.",
    ),
)
"""(graphs alone, compile alone): the level to use, and what that says."""

COMPILE_OR_GRAPHS = (
    Rule(
        _without_graphs_anyway,
        "not_measured",
        lambda case: [
            f"{case.findings.default} itself resolved to no CUDA graphs here, so nothing sets the two apart."
        ],
        enough=lambda _: "a device on which the default captures CUDA graphs",
    ),
    *NOTHING,
    Rule(
        lambda case: not _parts(case),
        "not_measured",
        lambda _: ["No level was compared that keeps compile or CUDA graphs alone."],
        enough=lambda _: (
            "levels such as graphs-only (-O0 -cc.cudagraph_mode=FULL_DECODE_ONLY) and compile-only "
            "(-cc.cudagraph_mode=none)"
        ),
    ),
    *(
        Rule(_when_parts(graphs, compiled), "recommended", _say_parts(first), level=level, rests_on=_parts)
        for graphs, compiled, level, first in PART_RULES
    ),
    Rule(
        lambda _: True,
        "not_enough_evidence",
        _say_parts("Not enough evidence to choose between compile and graphs."),
        rests_on=_parts,
    ),
)


def _o3(case: Case) -> str | None:
    """Return the level that was started with optimization level 3, by what it resolved to, else by its name."""
    table = case.findings.level_table
    rows = table[(table["optimization_level"] == 3).fillna(False) | (table["level"] == "O3")]
    return str(rows["level"].iloc[0]) if len(rows) else None


def _o3_twin(case: Case) -> str | None:
    """Return the level that -O3 resolved like, the default before any other."""
    level = _o3(case)
    twins = [pair[0] if pair[1] == level else pair[1] for pair in case.findings.aa_pairs if level in pair]
    return next((twin for twin in (case.findings.default, *twins) if twin in twins), None)


def _o3_check(case: Case) -> AaCheck | None:
    checks = () if case.findings.comparison is None else case.findings.comparison.aa
    wanted = {_o3(case), _o3_twin(case)}
    return next((check for check in checks if {check.level, check.default} == wanted), None)


def _say_o3_alike(case: Case) -> list[str]:
    level, twin, check = _o3(case), _o3_twin(case), _o3_check(case)
    said = [f"-O3 adds nothing here: {level} resolved to the same configuration as {twin}."]
    if check is None or check.effect_percent is None:
        return [*said, "A/A not measured."]
    effect = check.effect_percent
    found = f"{number(effect.point)} percent {interval(effect, 'percent')}"
    if check.contains_zero is None:
        return [*said, f"Set against each other they differ by {found}: too few blocks, so A/A not measured."]
    means = "contains 0, as it should" if check.contains_zero else "leaves out 0: the method is biased"
    return [*said, f"Set against each other they measure the method: {found}, which {means}."]


def _o3_figures(case: Case) -> list[Figure]:
    check = _o3_check(case)
    if check is None or check.effect_percent is None:
        return []
    return [figure_of(f"A/A: {check.level} against {check.default}", check.effect_percent, "percent")]


def _o3_pair(case: Case) -> list[Pair]:
    pair = case.overall.get(_o3(case) or "")
    return [] if pair is None else [pair]


def _say_o3_pair(first: str) -> Callable[[Case], list[str]]:
    return lambda case: [first, *sentences(case, _o3_pair(case))]


def _say_no_o3(case: Case) -> list[str]:
    level = _o3(case)
    if level is None:
        return ["No level with -O3 was started."]
    return [f"{level} was not compared: {case.findings.failed_levels.get(level, case.findings.comparison_reason)}."]


O3 = (
    Rule(lambda case: _o3_twin(case) is not None, "recommended", _say_o3_alike, level=_o3_twin, figures=_o3_figures),
    Rule(
        lambda case: not _o3_pair(case),
        "not_measured",
        _say_no_o3,
        enough=lambda _: "a level with -O3 beside the default, in five blocks",
    ),
    Rule(
        lambda case: stand(_o3_pair(case)[0]) is Standing.FASTER,
        "recommended",
        _say_o3_pair("-O3 is worth its start here."),
        level=_o3,
        rests_on=_o3_pair,
    ),
    Rule(
        lambda case: stand(_o3_pair(case)[0]) in DECIDED,
        "recommended",
        _say_o3_pair("-O3 is not worth asking for here."),
        level=lambda case: case.findings.default,
        rests_on=_o3_pair,
    ),
    Rule(lambda _: True, "not_enough_evidence", _say_o3_pair("Not enough evidence on -O3."), rests_on=_o3_pair),
)


def _eager(case: Case) -> str | None:
    """Return the level that ran with --enforce-eager, by what it resolved to."""
    table = case.findings.level_table
    rows = table[table["enforce_eager"].fillna(False).astype(bool)]
    return str(rows["level"].iloc[0]) if len(rows) else None


def _eager_pair(case: Case) -> list[Pair]:
    pair = case.overall.get(_eager(case) or "")
    return [] if pair is None else [pair]


def _eager_gains(case: Case) -> list[Figure]:
    gains = [gain for gain in case.findings.start_gains if gain.level == _eager(case)]
    return [figure_of(f"start gain: {gain.level} ({gain.cache} caches)", gain.gain_s, "s") for gain in gains]


def _say_debug(case: Case) -> list[str]:
    """Give the order of switches, then what eager costs here where it was measured."""
    level = _eager(case)
    said = [
        "First --enforce-eager: no compile and no CUDA graphs. A fault that stays is not theirs.",
        "If the fault is gone, try -cc.backend=eager: no code by Inductor. A fault that goes with it is Inductor's.",
        "Then -cc.cudagraph_mode=none: Inductor without CUDA graphs. A fault that goes with it is the graphs'.",
    ]
    if level is not None and case.switch(level, "jit_warmup") == "False":
        left = "the kernels of that warm-up are left to the first requests that need them"
        said.append(f"{level} resolved without the JIT kernel warm-up: {left}.")
    gains = [describe_gain(gain) for gain in case.findings.start_gains if gain.level == level]
    measured = [*sentences(case, _eager_pair(case)), *gains]
    return [*said, *(measured or ["What eager costs was not measured here."])]


DEBUG_KERNEL = (
    Rule(lambda _: True, "recommended", _say_debug, level=_eager, rests_on=_eager_pair, figures=_eager_gains),
)
