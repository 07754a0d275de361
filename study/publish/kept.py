"""Figures and tables of large studies, kept as they came out: the same records, logs, options and code give the same.

They lie in files of `analyze.cache`, as JSON: `<study>.figures` and `<study>.tables`.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from typing import TypeVar

import pydantic
from matplotlib.figure import Figure

from study.analyze.cache import LEAST_RUNS, cache_path, hash_code, read_kept, write_kept
from study.analyze.tables_on_disk import write_csv
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
    source = hash_source(view, others)
    kept = _take(view, "figures", source, _FIGURES)
    if kept is not None:
        for one in kept:
            yield Plate(one.key, one.title, one.alt, one.caption, Figure(), one.rehearsal, one.drawing)
        return
    drawn = []
    for plate in view.draw_each(others):
        drawn.append(plate)
        yield plate
    names = ("key", "title", "alt", "caption", "rehearsal", "drawing")
    _keep(view, "figures", source, [{name: getattr(plate, name) for name in names} for plate in drawn])


def make_or_take(view: StudyView, least_runs: int = LEAST_RUNS) -> dict[str, str]:
    """Return a study's tables as CSV, name to text; made before where they would come out the same."""
    if len(view.records.runs) < least_runs:
        return _make_tables(view)
    source = hash_source(view, ())
    kept = _take(view, "tables", source, _TABLES)
    if kept is None:
        kept = _make_tables(view)
        _keep(view, "tables", source, kept)
    return kept


def _make_tables(view: StudyView) -> dict[str, str]:
    frames = view.make_tables()
    return {name: write_csv(frames[name]) for name in sorted(frames)}


def hash_source(view: StudyView, others: Sequence[StudyView]) -> str:
    """Return a SHA-256 (hex) of all that a study's figures and tables are made from."""
    found = hashlib.sha256(hash_code(("**/*.py",), _LIBRARIES).encode())
    place = next((number for number, other in enumerate(others) if other is view), None)
    for one in (view, *others):
        shown = (place, one.found.study, one.options, one.users, one.parts, one.lost_logs)
        found.update(f"\n{shown!r} {sorted(one.records.files.items())!r}".encode())
    return found.hexdigest()


def _take(view: StudyView, what: str, source: str, kind: "pydantic.TypeAdapter[T]") -> T | None:
    kept = read_kept(cache_path(view.store, what), source)
    try:
        return None if kept is None else kind.validate_json(kept)
    except pydantic.ValidationError:
        return None


def _keep(view: StudyView, what: str, source: str, kept: object) -> None:
    write_kept(cache_path(view.store, what), source, json.dumps(kept))
