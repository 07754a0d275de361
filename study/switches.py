"""`study switches`: what each level resolves to in the installed vLLM, and what that was in another one."""

import json
from dataclasses import dataclass
from pathlib import Path

from study.analyze.switches_diff import diff_sets
from study.analyze.switches_text import diff_json, render_diff, render_set, summarize_set
from study.design.card import Card
from study.design.levels import Level, select_levels
from study.design.resolved_set import ResolvedSet, read_resolved_set
from study.errors import InputError
from study.measure.model import prepare_model
from study.measure.refusals import OWNED_FLAGS, SET_BY_LEVELS_TOO, check_environment, check_flags
from study.measure.resolve import ResolveRequest, resolve_levels


@dataclass(frozen=True)
class SwitchesOptions:
    """What to resolve, and what to do with it.

    Attributes:
        levels: level files or level names; each may be several, separated by commas.
        model: a shape file, a folder or a hub name.
        card: the card to pretend; None: this machine's platform.
        server_flags: flags of every server.
        out: file to write the resolved set to; it is not overwritten.
        diff: an earlier set to compare with.
        json: print JSON instead of text.

    """

    levels: tuple[str, ...]
    model: str
    card: Card | None = None
    server_flags: tuple[str, ...] = ()
    out: Path | None = None
    diff: Path | None = None
    json: bool = False


def show_switches(options: SwitchesOptions, root: Path) -> str:
    """Resolve the levels and return what to print.

    Raises:
        InputError: a level, flag, model or file that cannot be used; vLLM or a device that is not there.
        StudyError: vLLM could not be asked.

    """
    old = read_resolved_set(options.diff) if options.diff else None
    if options.out and options.out.exists():
        raise InputError(f"'{options.out}' exists already; a resolved set is written once, under a name of its own")
    resolved = resolve(options, root)
    if options.out:
        _write(options.out, resolved)
    if old:
        diff = diff_sets(old, resolved)
        return diff_json(diff) if options.json else render_diff(diff)
    if options.json:
        return json.dumps(summarize_set(resolved), indent=2, sort_keys=True)
    return render_set(resolved)


def resolve(options: SwitchesOptions, root: Path) -> ResolvedSet:
    """Resolve the levels that are asked for with the installed vLLM."""
    levels = choose_levels(options.levels, root)
    check_flags(options.server_flags, "--vllm-args")
    for level in levels:
        where = f"level '{level.name}'"
        in_python = [f"--{name}" for name in level.llm]
        check_flags([*level.flags, *in_python], where, own=OWNED_FLAGS - SET_BY_LEVELS_TOO)
        check_environment(level.environment, where)
    load_format = "dummy" if options.model.endswith((".yaml", ".yml")) else "auto"
    model = prepare_model(options.model, load_format, root)
    return resolve_levels(ResolveRequest(levels, model, options.server_flags, options.card), root)


def choose_levels(asked: tuple[str, ...], root: Path) -> tuple[Level, ...]:
    """Return the levels of a list of files and names, each level once, the first of a name.

    Raises:
        InputError: an unknown level, with the nearest known one, or an unreadable file.

    """
    chosen: dict[str, Level] = {}
    for part in (item.strip() for several in asked for item in several.split(",")):
        if part:
            found = select_levels(part if part.endswith((".yaml", ".yml")) else [part], root)
            chosen.update({level.name: level for level in found if level.name not in chosen})
    if not chosen:
        raise InputError(f"levels {' '.join(asked)!r} name no level; guide.yaml and knobs.yaml do")
    return tuple(chosen.values())


def _write(path: Path, resolved: ResolvedSet) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("x", encoding="utf-8") as file:
            file.write(resolved.dump())
    except OSError as error:
        raise InputError(f"'{path}' cannot be written: {error.strerror}") from None
