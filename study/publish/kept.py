"""Figures and tables of large studies, kept as they came out: the same records, logs, options and code give the same.

    data/processed/.cache/<study>.figures, <study>.tables    SHA-256 of the rest; number of its source; JSON

The folder may be deleted at any time. A file that is damaged, or was made from anything else, is not looked at.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeVar

import pydantic
from matplotlib.figure import Figure

import study
from study.analyze.digests_on_disk import CACHE, LEAST_RUNS, MOST_CACHE_BYTES
from study.analyze.tables_on_disk import write_csv
from study.design.plain_files import read_bytes
from study.design.whole_files import make_folder, write_whole
from study.errors import InputError
from study.publish.plates import Plate
from study.publish.study_view import StudyView

T = TypeVar("T")
_LIBRARIES = ("matplotlib", "numpy", "pandas", "pydantic", "scipy", "seaborn")


class _Kept(pydantic.BaseModel):
    """A figure on disk."""

    key: str
    title: str
    alt: str
    caption: str
    rehearsal: bool
    drawing: str


_FIGURES = pydantic.TypeAdapter(list[_Kept])
_TABLES = pydantic.TypeAdapter(dict[str, str])


def draw_or_take(view: StudyView, others: Sequence[StudyView], least_runs: int = LEAST_RUNS) -> Iterator[Plate]:
    """Yield a study's figures, drawn before where they would come out the same.

    Args:
        view: the study.
        others: the edition's studies, as in `StudyView.draw_each`.
        least_runs: smallest study whose figures are kept.

    """
    if len(view.records.runs) < least_runs:
        yield from view.draw_each(others)
        return
    path, source = _path(view, "figures"), hash_source(view, others)
    kept = _read(path, source, _FIGURES)
    if kept is not None:
        for one in kept:
            yield Plate(one.key, one.title, one.alt, one.caption, Figure(), one.rehearsal, one.drawing)
        return
    drawn = []
    for plate in view.draw_each(others):
        drawn.append(plate)
        yield plate
    names = ("key", "title", "alt", "caption", "rehearsal", "drawing")
    _save(path, source, [{name: getattr(plate, name) for name in names} for plate in drawn])


def make_or_take(view: StudyView, least_runs: int = LEAST_RUNS) -> dict[str, str]:
    """Return a study's tables as CSV, name to text; made before where they would come out the same."""
    if len(view.records.runs) < least_runs:
        return _make_tables(view)
    path, source = _path(view, "tables"), hash_source(view, ())
    kept = _read(path, source, _TABLES)
    if kept is None:
        kept = _make_tables(view)
        _save(path, source, kept)
    return kept


def _make_tables(view: StudyView) -> dict[str, str]:
    frames = view.make_tables()
    return {name: write_csv(frames[name]) for name in sorted(frames)}


def _path(view: StudyView, what: str) -> Path:
    return view.store.processed.parent / CACHE / f"{view.found.study}.{what}"


def hash_source(view: StudyView, others: Sequence[StudyView]) -> str:
    """Return a SHA-256 (hex) of all that a study's figures and tables are made from."""
    found = hashlib.sha256("\n".join(f"{name} {version(name)}" for name in _LIBRARIES).encode())
    root = Path(study.__file__).parent
    for path in sorted(root.rglob("*.py")):
        found.update(f"\n{path.relative_to(root)}\n".encode() + path.read_bytes())
    place = next((number for number, other in enumerate(others) if other is view), None)
    for one in (view, *others):
        shown = (place, one.found.study, one.options, one.users, one.parts, one.lost_logs)
        found.update(f"\n{shown!r} {sorted(one.records.files.items())!r}".encode())
    return found.hexdigest()


def _read(path: Path, source: str, kind: "pydantic.TypeAdapter[T]") -> T | None:
    """Return what is on disk; None where the file is not whole, or was made from something else."""
    try:
        total, _, body = read_bytes(path, MOST_CACHE_BYTES).partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != total or not body.startswith(source.encode() + b"\n"):
            return None
        return kind.validate_json(body[len(source) + 1 :])
    except (InputError, pydantic.ValidationError):
        return None


def _save(path: Path, source: str, what: object) -> None:
    """Keep it; a place that cannot be written is left as it is."""
    body = f"{source}\n{json.dumps(what)}"
    try:
        make_folder(path.parent)
        write_whole(path, f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
    except (OSError, InputError):
        return
