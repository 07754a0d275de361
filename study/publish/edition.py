"""Writes an edition: raw records in, a folder out that anyone can publish and build again, byte for byte.

    editions/<edition>/edition.yaml    which studies, which users: written if missing, else read
                       section.md      the guide's section           index.html   the same as one page of its own
                       figures/*.svg   tables/*.csv                  manifest.json  raw files with their SHA-256

Other files of the folder, executed notebooks among them, are left alone, and so is what a person wrote between the
generated parts of `section.md`; the page shows it too.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from study.design.whole_files import make_folder, write_whole
from study.errors import InputError
from study.publish.edition_file import (
    FILE_NAME,
    EditionFile,
    check_edition_name,
    edition_yaml,
    read_edition_file,
)
from study.publish.kept import draw_or_take, make_or_take
from study.publish.manifest import Source, make_manifest
from study.publish.marked_parts import MarkedText, keep_prose, read_marked, write_marked
from study.publish.page import Before, Page, render_html, render_markdown
from study.publish.plates import Plate
from study.publish.quotes import check_quotes, list_figures
from study.publish.references import References, read_references
from study.publish.sections import PARTS, Shown, make_sections
from study.publish.study_view import StudyView, ViewOptions, read_view
from study.store import Store

SECTION = "section.md"
Follow = Callable[[Iterable[Plate], str], Iterable[Plate]]


@dataclass(frozen=True)
class Edition:
    """An edition that was read and not written yet.

    Attributes:
        folder: where it goes.
        file: what it publishes.
        views: its studies, in order.
        references: the other files that it prints from.

    """

    folder: Path
    file: EditionFile
    views: tuple[StudyView, ...]
    references: References = field(default_factory=References)

    @property
    def rehearsal(self) -> bool:
        """Whether any of its records can be no result."""
        return any(view.found.rehearsal for view in self.views)


def read_edition(root: Path, edition: str, studies: Sequence[str], data_dir: Path | str = "data") -> Edition:
    """Read everything that an edition publishes.

    Args:
        root: the project's root.
        edition: name of the folder under `editions/`.
        studies: in the order printed; none: those of its `edition.yaml`, whose values win.
        data_dir: folder of `raw/`, from the root.

    Raises:
        InputError: an unknown study, one without records, a name that leaves the folder, an unusable `edition.yaml`.

    """
    folder = root / "editions" / check_edition_name(edition)
    file = read_edition_file(folder, edition, studies)
    views = []
    for name in file.studies:
        users = file.users.get(name)
        options = ViewOptions(None if users is None else tuple(users), file.margin, file.throttled_below_share)
        views.append(read_view(root, Store(root / data_dir, name), options))
    return Edition(folder, file, tuple(views), read_references(root, file))


def write_edition(root: Path, edition: str, studies: Sequence[str], data_dir: Path | str = "data") -> Path:
    """Write an edition and return its folder; arguments and errors are those of `read_edition`.

    The same records give the same bytes, whether the folder was there before or not.
    """
    return save_edition(read_edition(root, edition, studies, data_dir))


def draw_quietly(plates: Iterable[Plate], _study: str) -> Iterable[Plate]:
    """Show nothing while figures are drawn."""
    return plates


def save_edition(edition: Edition, before: Before | None = None, follow: Follow = draw_quietly) -> Path:
    """Write an edition that was read, and return its folder.

    Args:
        edition: what was read.
        before: the edition before it, where there is one.
        follow: is given the figures of each study as they are drawn, and the study's name, to show how far it is.

    Raises:
        InputError: the folder cannot be written; its `section.md` has broken markers, or prose that quotes a figure
            which the records do not give. Then nothing was written.

    """
    try:
        return _save(edition, before, follow)
    except OSError as error:
        raise InputError(f"'{edition.folder}' cannot be written: {error.strerror}") from None


def _save(edition: Edition, before: Before | None, follow: Follow) -> Path:
    folder = edition.folder
    files = _make_files(edition, before, follow)
    make_folder(folder)
    if not (folder / FILE_NAME).exists():
        write_whole(folder / FILE_NAME, edition_yaml(edition.file))
    _clear(folder / "tables", "*.csv")
    _clear(folder / "figures", "*.svg")
    for name, text in files.items():
        write_whole(folder / name, text)
    return folder


def _make_files(edition: Edition, before: Before | None, follow: Follow) -> dict[str, str]:
    """Return everything that is generated: path from the edition's folder to text."""
    old = _read_section(edition)
    tables = {view.found.study: make_or_take(view) for view in edition.views}
    shown = [
        Shown(
            view=view,
            advice=view.advise(edition.views),
            plates={plate.key: plate for plate in follow(draw_or_take(view, edition.views), view.found.study)},
            tables={name: _table_path(view, name) for name in tables[view.found.study]},
            heading=view.found.study if len(edition.views) > 1 else "",
        )
        for view in edition.views
    ]
    sections = make_sections(edition.file.edition, shown, edition.references)
    page = Page(edition.file.edition, edition.rehearsal, sections, before, {} if old is None else old.prose)
    sources = [Source(view.store, view.records) for view in edition.views]
    return {
        **{_table_path(view, name): text for view in edition.views for name, text in tables[view.found.study].items()},
        **{one.picture(key).file: plate.svg() for one in shown for key, plate in one.plates.items()},
        SECTION: _merge(page, old, edition),
        "index.html": render_html(page),
        "manifest.json": make_manifest(edition.file.edition, sources, edition.references.files),
    }


def _table_path(view: StudyView, name: str) -> str:
    return f"tables/{view.found.study}-{name}.csv"


def _read_section(edition: Edition) -> MarkedText | None:
    """Read the section that is there, and hold the figures that its prose quotes against the records."""
    path = edition.folder / SECTION
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise InputError(f"'{path}' cannot be read: {error}") from None
    old = read_marked(text, str(path))
    check_quotes(old.prose, list_figures([view.found for view in edition.views]), str(path))
    return old


def _merge(page: Page, old: MarkedText | None, edition: Edition) -> str:
    """Return the section's Markdown with the prose of the one that is there."""
    path = str(edition.folder / SECTION)
    fresh = read_marked(render_markdown(page), path)
    kept = fresh if old is None else keep_prose(fresh, old, ("title", *PARTS, "end"), path)
    return write_marked(kept.parts, kept.prose)


def _clear(folder: Path, pattern: str) -> None:
    """Make the folder, and take away what an earlier build of other studies left in it."""
    make_folder(folder)
    for path in folder.glob(pattern):
        path.unlink()
