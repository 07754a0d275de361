"""Writes an edition: raw records in, a folder out that anyone can publish and build again, byte for byte.

    editions/<edition>/edition.yaml    which studies, which users: written if missing, else read
                       section.md      the guide's section           index.html   the same as one page of its own
                       figures/*.svg   tables/*.csv                  manifest.json  raw files with their SHA-256

Other files of the folder, executed notebooks among them, are left alone.
"""

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from study.errors import InputError
from study.publish.edition_file import (
    FILE_NAME,
    EditionFile,
    check_edition_name,
    edition_yaml,
    read_edition_file,
)
from study.publish.manifest import Source, make_manifest
from study.publish.page import Page, render_html, render_markdown
from study.publish.sections import Shown, make_sections
from study.publish.study_view import StudyView, ViewOptions, read_view
from study.store import Store


@dataclass(frozen=True)
class Edition:
    """An edition that was read and not written yet.

    Attributes:
        folder: where it goes.
        file: what it publishes.
        views: its studies, in order.

    """

    folder: Path
    file: EditionFile
    views: tuple[StudyView, ...]

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
    return Edition(folder, file, tuple(views))


def write_edition(root: Path, edition: str, studies: Sequence[str], data_dir: Path | str = "data") -> Path:
    """Write an edition and return its folder; arguments and errors are those of `read_edition`.

    The same records give the same bytes, whether the folder was there before or not.
    """
    return save_edition(read_edition(root, edition, studies, data_dir))


def save_edition(edition: Edition) -> Path:
    """Write an edition that was read, and return its folder.

    Raises:
        InputError: the folder cannot be written.

    """
    try:
        return _save(edition)
    except OSError as error:
        raise InputError(f"'{edition.folder}' cannot be written: {error.strerror}") from None


def _save(edition: Edition) -> Path:
    folder = edition.folder
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / FILE_NAME).exists():
        _write(folder / FILE_NAME, edition_yaml(edition.file))
    tables = _write_tables(folder / "tables", edition.views)
    several = len(edition.views) > 1
    shown = [
        Shown(
            view=view,
            advice=view.advise(edition.views),
            plates=view.draw(edition.views),
            tables=tables[view.found.study],
            heading=view.found.study if several else "",
        )
        for view in edition.views
    ]
    _write_figures(folder / "figures", shown)
    page = Page(edition.file.edition, edition.rehearsal, make_sections(edition.file.edition, shown))
    _write(folder / "section.md", render_markdown(page))
    _write(folder / "index.html", render_html(page))
    sources = [Source(view.store, view.records) for view in edition.views]
    _write(folder / "manifest.json", make_manifest(edition.file.edition, sources))
    return folder


def _write_tables(folder: Path, views: Sequence[StudyView]) -> dict[str, Mapping[str, str]]:
    """Write every study's tables as CSV; return, by study, table to its path from the edition's folder."""
    _clear(folder, "*.csv")
    written: dict[str, Mapping[str, str]] = {}
    for view in views:
        study = view.found.study
        with tempfile.TemporaryDirectory() as made:
            paths = view.write_tables(Path(made))
            names = sorted(path.stem for path in paths if path.suffix == ".csv")
            for name in names:
                shutil.copyfile(Path(made) / f"{name}.csv", folder / f"{study}-{name}.csv")
        written[study] = {name: f"tables/{study}-{name}.csv" for name in names}
    return written


def _write_figures(folder: Path, studies: Sequence[Shown]) -> None:
    _clear(folder, "*.svg")
    for one in studies:
        for key, plate in one.plates.items():
            _write(folder.parent / one.picture(key).file, plate.svg())


def _clear(folder: Path, pattern: str) -> None:
    """Make the folder, and take away what an earlier build of other studies left in it."""
    folder.mkdir(exist_ok=True)
    for path in folder.glob(pattern):
        path.unlink()


def _write(path: Path, text: str) -> None:
    """Write a file whole or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    temporary.replace(path)
