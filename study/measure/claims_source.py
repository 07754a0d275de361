"""Facts that stand in the source of the installed vLLM: read as text, so that modules for a GPU can be asked too."""

import ast
import difflib
import importlib.util
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from study.design.claims import DefinedAt, Source, UsedIn
from study.measure.claims_words import NotThereError


@dataclass(frozen=True)
class Place:
    """Where an object's source lies.

    Attributes:
        file: from the folder that packages are installed in.
        first: first line, from 1.
        last: last line.
        text: the source.

    """

    file: str
    first: int
    last: int
    text: str


def check_defined_at(check: DefinedAt) -> tuple[bool, str]:
    """Return whether an object's source is there, on the lines that are asked for, and where it is."""
    place = find_place(check.object)
    said = f"{check.object.replace(':', '.')} is at {place.file}:{place.first}-{place.last}"
    if check.lines is None or check.lines == (place.first, place.last):
        return True, said
    return False, f"{said}, not {check.lines[0]}-{check.lines[1]}"


def check_source(check: Source) -> tuple[bool, str]:
    """Return whether a source holds and lacks what is asked, and what of that it does."""
    place = find_place(check.of)
    text = _in_one_line(place.text)
    missing = [one for one in check.has if _in_one_line(one) not in text]
    unwanted = [one for one in check.lacks if _in_one_line(one) in text]
    said = [f"lacks `{one}`" for one in missing] + [f"holds `{one}`" for one in unwanted]
    if said:
        return False, f"{_say_of(check.of, place)} {' and '.join(said)}"
    kept = [f"holds `{one}`" for one in check.has] + [f"lacks `{one}`" for one in check.lacks]
    return True, f"{_say_of(check.of, place)} {' and '.join(kept)}"


def check_used_in(check: UsedIn) -> tuple[bool, str]:
    """Return whether the code of a module refers to a name, and on which lines first."""
    place = find_place(check.module)
    nodes = (node for node in ast.walk(ast.parse(place.text)) if _refers(node, check.name))
    lines = [node.lineno for node in nodes if isinstance(node, ast.expr | ast.stmt)]
    if lines:
        return True, f"{place.file} uses {check.name} (line {min(lines)})"
    return False, f"{place.file} uses no {check.name}"


def find_place(name: str) -> Place:
    """Return where a module or `module:Name.part` is defined; nothing of it is run, save its outermost package.

    Raises:
        NotThereError: no such module, or no such object in it.

    """
    module, _, path = name.partition(":")
    file, site = _find_file(module)
    text = file.read_text(encoding="utf-8")
    shown = file.relative_to(site).as_posix()
    if not path:
        return Place(shown, 1, len(text.splitlines()), text)
    node: ast.AST = ast.parse(text)
    for part in path.split("."):
        inside = dict(_definitions(node))
        if part not in inside:
            raise NotThereError(f"{shown} defines no {path}{_nearest(part, inside)}")
        node = inside[part]
    assert isinstance(node, ast.stmt)  # noqa: S101 (definitions are statements)
    last = node.end_lineno or node.lineno
    return Place(shown, node.lineno, last, "\n".join(text.splitlines()[node.lineno - 1 : last]))


def _find_file(module: str) -> tuple[Path, Path]:
    """Return a module's file and the folder that its outermost package lies in."""
    top, *parts = module.split(".")
    spec = importlib.util.find_spec(top)
    if spec is None or spec.origin is None:
        raise NotThereError(f"there is no package {top}")
    package = Path(spec.origin).parent
    stem = package.joinpath(*parts)
    for file in (stem.with_suffix(".py"), stem / "__init__.py"):
        if parts and file.is_file():
            return file, package.parent
    if not parts:
        return Path(spec.origin), package.parent
    known = [one.stem if one.suffix == ".py" else one.name for one in stem.parent.glob("*")]
    raise NotThereError(f"there is no module {module}{_nearest(parts[-1], known)}")


def _definitions(node: ast.AST) -> Iterable[tuple[str, ast.AST]]:
    """Return what a module or class defines, by name, in the order of its lines."""
    for inside in getattr(node, "body", []):
        if isinstance(inside, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield inside.name, inside
        targets = inside.targets if isinstance(inside, ast.Assign) else [getattr(inside, "target", None)]
        yield from ((target.id, inside) for target in targets if isinstance(target, ast.Name))


def _refers(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == name
    if isinstance(node, ast.ImportFrom):
        return any(alias.name == name for alias in node.names)
    return isinstance(node, ast.Attribute) and node.attr == name


def _in_one_line(text: str) -> str:
    return " ".join(text.split())


def _say_of(name: str, place: Place) -> str:
    return f"{name.replace(':', '.')} ({place.file}:{place.first}-{place.last})" if ":" in name else place.file


def _nearest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, sorted(set(known)), n=1)
    return f"; the nearest is {near[0]}" if near else ""
