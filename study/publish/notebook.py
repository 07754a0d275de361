"""What the reading notebooks call: their parameters checked, and answers, tables and figures shown as HTML."""

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from IPython.display import display
from tqdm.std import tqdm

from study.design.parameters import given_names
from study.design.root import find_root
from study.errors import InputError, suggest
from study.publish.edition import Edition, read_edition
from study.publish.page import REHEARSAL_BANNER
from study.publish.plain_text import clean_text
from study.publish.plates import Plate
from study.publish.republish import publish_draft
from study.publish.sections import Item, list_items
from study.publish.sheets import Sheet
from study.publish.study_view import FIGURES, StudyView, ViewOptions, read_view
from study.store import Store

_BANNER = "padding: 0.8em 1em; background: #b3261e; color: #ffffff; font-weight: bold; text-align: center"
BAR_AFTER_S = 3.0
"""What is done sooner shows no progress bar."""
_LEAD = "font-size: 1.15em; max-width: 48em"


@dataclass(frozen=True)
class _Html:
    """HTML that a notebook shows; its texts were escaped where it was made."""

    text: str

    def _repr_html_(self) -> str:
        return self.text


def _show(output: object) -> None:
    display(output)  # type: ignore[no-untyped-call]  # IPython has no types


def check_names(namespace: Mapping[str, Any], kinds: Mapping[str, type]) -> dict[str, Any]:
    """Return the parameters that a notebook's parameters cell and papermill have set.

    Args:
        namespace: the notebook's `globals()`, before anything but parameters was assigned.
        kinds: parameter to `str` or `list` (of text).

    Raises:
        InputError: a name that is no parameter, a missing one, or a value of another kind.

    """
    given = given_names(namespace)
    for name in given:
        if name not in kinds:
            raise InputError(f"parameter '{name}' is unknown{suggest(name, kinds)}")
    for name, kind in kinds.items():
        value = given.get(name)
        if value is None or value == "":
            raise InputError(f"parameter '{name}' is missing; give it as -y \"{name}: {_example(kind)}\"")
        texts = value if kind is list else [value]
        if not isinstance(value, kind) or not texts or not all(isinstance(text, str) for text in texts):
            what = "a list of names" if kind is list else "text"
            raise InputError(f"parameter '{name}': {value!r} is not {what}; use -y \"{name}: {_example(kind)}\"")
    return given


def _example(kind: type) -> str:
    return "[name, ...]" if kind is list else "'text'"


def open_study(namespace: Mapping[str, Any]) -> StudyView:
    """Read the study that the parameters `study` and `data_dir` name.

    Raises:
        InputError: a wrong parameter, no such study, or no records.

    """
    given = check_names(namespace, {"study": str, "data_dir": str})
    root = find_root()
    return read_view(root, Store(root / given["data_dir"], given["study"]), ViewOptions())


def open_edition(namespace: Mapping[str, Any]) -> Edition:
    """Read the edition that the parameters `edition`, `studies` and `data_dir` name; nothing is written yet.

    Raises:
        InputError: a wrong parameter, or what `read_edition` refuses.

    """
    given = check_names(namespace, {"edition": str, "studies": list, "data_dir": str})
    return read_edition(find_root(), given["edition"], given["studies"], given["data_dir"])


def show_banner(rehearsal: bool) -> None:
    """Show the notice that this is no result, where it is none."""
    if rehearsal:
        _show(_Html(f'<div role="alert" style="{_BANNER}">{html.escape(REHEARSAL_BANNER)}</div>'))


def show_text(*sentences: str, lead: bool = False) -> None:
    """Show sentences, each as a paragraph; `lead` for the answer itself."""
    style = f' style="{_LEAD}"' if lead else ""
    _show(_Html("".join(f"<p{style}>{html.escape(clean_text(text))}</p>" for text in sentences)))


def show_lines(text: str) -> None:
    """Show text as it is, line by line, in letters of one width."""
    _show(_Html(f"<pre>{html.escape(text)}</pre>"))


def show_heading(view: StudyView) -> None:
    """Show which study the next outputs are of."""
    kind = f"{view.found.session or 'no'} session"
    _show(_Html(f"<h3>{html.escape(clean_text(f'{view.found.study}, {kind}'))}</h3>"))


def show_path(path: Path) -> None:
    """Show where something was written, from the project's root."""
    root = find_root()
    shown = path.relative_to(root) if path.is_relative_to(root) else path
    _show(_Html(f"<p>Written: <code>{html.escape(str(shown))}</code></p>"))


def publish(draft: Edition, data_dir: str = "data") -> None:
    """Write an edition that was read, its comparison with the edition before and its changelog line; show where."""
    show_path(publish_draft(find_root(), draft, data_dir, follow_figures))


def draw_plates(view: StudyView, others: Sequence[StudyView] = ()) -> dict[str, Plate]:
    """Draw a study's figures, with a bar while that takes long; `others` are the edition's studies."""
    return {plate.key: plate for plate in follow_figures(view.draw_each(others), view.found.study)}


def follow_figures(plates: Iterable[Plate], study: str) -> Iterable[Plate]:
    """Return the figures of a study as they are drawn, and show a bar with the time left where that takes long."""
    bar: Iterable[Plate] = tqdm(
        plates, f"figures of {study}", total=len(FIGURES), file=_BarOutput(), delay=BAR_AFTER_S, ascii=False
    )
    return bar


class _BarOutput:
    """A cell's output for a progress bar: its last state stays, so that an executed notebook shows one line."""

    def __init__(self) -> None:
        self._shown: Any = None

    def write(self, text: str) -> None:
        line = text.strip("\r\n ")
        if not line:
            return
        output = _Html(f"<pre>{html.escape(line)}</pre>")
        if self._shown is None:
            self._shown = display(output, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._shown.update(output)

    def flush(self) -> None:
        """Do nothing: every line is shown at once."""


def save_tables(view: StudyView) -> None:
    """Write a study's tables to its processed folder, and show where."""
    view.write_tables()
    show_path(view.store.processed)


def show_sheets(*tables: Sheet | None) -> None:
    """Show tables, one below the other; a long one is folded, and one that is None is left out."""
    for table in tables:
        if table is not None:
            shown = f'<div style="overflow-x: auto">{table.to_styler().to_html()}</div>'
            title = html.escape(clean_text(table.title))
            _show(_Html(f"<details><summary><b>{title}</b></summary>{shown}</details>" if table.folded else shown))


def show_plates(plates: Mapping[str, Plate], *keys: str) -> None:
    """Show figures with their captions."""
    for key in keys:
        _show(plates[key])


def show_advice(view: StudyView, others: Sequence[StudyView] = ()) -> None:
    """Show the decide section of a study."""
    _show(_Html("".join(_advice_html(item) for item in list_items(view.advise(others)))))


def _advice_html(item: Item) -> str:
    title, status = html.escape(item.title), html.escape(item.status)
    said = html.escape(clean_text(" ".join([*item.sentences, item.enough, item.rests_on])))
    return f"<p><b>{title}</b> ({status}). {said}</p>"
