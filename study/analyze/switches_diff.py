"""Two resolved sets beside each other: what each level means in one release, and no longer means in the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from study.analyze.switches import SWITCHES, differing_fields, switches_row
from study.design.resolved_set import ResolvedLevel, ResolvedSet


@dataclass(frozen=True)
class FieldChange:
    """One field that differs: a switch, or a field that may be `switches.ABSENT` on one side."""

    name: str
    old: Any
    new: Any


@dataclass(frozen=True)
class LevelDiff:
    """What differs of one level that both sets have.

    Attributes:
        name: the level.
        flags: its flags on both sides, where they differ.
        switches: shown switches that differ, by their column.
        fields: other fields of the resolved configuration, by their dotted path, but for those in `SetDiff.everywhere`.
        refusal: why vLLM refuses it, old and new, where one of them does.

    """

    name: str
    flags: FieldChange | None
    switches: tuple[FieldChange, ...]
    fields: tuple[FieldChange, ...]
    refusal: FieldChange | None

    @property
    def same(self) -> bool:
        """Whether nothing of it differs but for what differs at every level."""
        return not (self.flags or self.switches or self.fields or self.refusal)


@dataclass(frozen=True)
class SetDiff:
    """Two sets beside each other.

    Attributes:
        old: vLLM's version of the old set.
        new: that of the new one.
        settings: card, model or server flags that differ: then a difference is not of the release alone.
        added: levels that only the new set has.
        removed: levels that only the old one has.
        everywhere: fields that differ in the same way at every level that both resolved.
        levels: the levels that both have, in the new set's order.

    """

    old: str
    new: str
    settings: tuple[FieldChange, ...]
    added: tuple[str, ...]
    removed: tuple[str, ...]
    everywhere: tuple[FieldChange, ...]
    levels: tuple[LevelDiff, ...]


def diff_sets(old: ResolvedSet, new: ResolvedSet) -> SetDiff:
    """Compare two resolved sets level by level, by name."""
    before = {level.name: level for level in old.levels}
    after = {level.name: level for level in new.levels}
    shared = [name for name in after if name in before]
    differing = {name: _fields(before[name], after[name]) for name in shared}
    resolved = [name for name in shared if before[name].resolved is not None and after[name].resolved is not None]
    everywhere = _common([differing[name] for name in resolved])
    return SetDiff(
        old=old.vllm_version,
        new=new.vllm_version,
        settings=_settings(old, new),
        added=tuple(name for name in after if name not in before),
        removed=tuple(name for name in before if name not in after),
        everywhere=tuple(FieldChange(path, *values) for path, values in everywhere.items()),
        levels=tuple(_diff_level(before[name], after[name], differing[name], everywhere) for name in shared),
    )


_Fields = Mapping[str, tuple[Any, Any]]


def _fields(before: ResolvedLevel, after: ResolvedLevel) -> _Fields:
    if before.resolved is None or after.resolved is None:
        return {}
    return differing_fields(before.resolved, after.resolved)


def _common(levels: Sequence[_Fields]) -> _Fields:
    """Return the fields that differ in the same way at every level; with one level nothing is common."""
    if len(levels) < 2:
        return {}
    return {
        path: values
        for path, values in levels[0].items()
        if all(path in other and other[path] == values for other in levels[1:])
    }


def _settings(old: ResolvedSet, new: ResolvedSet) -> tuple[FieldChange, ...]:
    pairs = {
        "resolved for": (str(old.resolved_for), str(new.resolved_for)),
        "model": (old.model, new.model),
        "server flags": (" ".join(old.server_flags), " ".join(new.server_flags)),
    }
    return tuple(FieldChange(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1])


def _diff_level(before: ResolvedLevel, after: ResolvedLevel, differing: _Fields, everywhere: _Fields) -> LevelDiff:
    rows = [switches_row(level.resolved) if level.resolved is not None else {} for level in (before, after)]
    both = all(rows)
    shown = [
        FieldChange(column, rows[0][column], rows[1][column])
        for column in SWITCHES
        if both and rows[0][column] != rows[1][column]
    ]
    # A shown switch says it in words already; what it does not show of its field (which sizes) is said by the field.
    told = {SWITCHES[change.name] for change in shown}
    fields = [
        FieldChange(path, *values)
        for path, values in differing.items()
        if path not in told and path not in everywhere
    ]
    flags = (" ".join(before.flags), " ".join(after.flags))
    refusals = (before.refusal, after.refusal)
    return LevelDiff(
        name=after.name,
        flags=FieldChange("flags", *flags) if flags[0] != flags[1] else None,
        switches=tuple(shown),
        fields=tuple(fields),
        refusal=FieldChange("refusal", *refusals) if refusals[0] != refusals[1] else None,
    )
