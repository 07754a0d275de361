"""Editions and studies as pages of the site: the section as written, its stamp on every page, files to download.

Nothing of an edition is built again here: what lies in its folder is what was published, and is what is shown.
"""

import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.design.counting import format_counted
from study.errors import InputError
from study.publish.edition_file import FILE_NAME
from study.publish.page import REHEARSAL_BANNER
from study.publish.plain_text import Markdown, escape_markdown
from study.publish.site_downloads import Archive, pack_raw
from study.publish.site_markdown import join_blocks, link, list_pages, warn
from study.publish.site_notebooks import stamp_notebook

SECTION = "section.md"
STAMPED = ("vLLM version", "vLLM commit", "date of the newest record", "card", "driver", "study", "study fingerprint")
_PART = re.compile(r"^## (?P<title>[^\n]*)\n(?P<body>.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (.+?) \| (.*) \|$", re.MULTILINE)
_TO_SECTION = re.compile(r"\]\(((?:[^)\s]*/)?)section\.md")
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class Published:
    """One edition as its folder holds it, or the draft of a study that no edition has to publish.

    Attributes:
        name: of the folder, or of the study.
        section: its Markdown.
        stamps: one a study: what, and its value, as Markdown.
        manifest: study to file name to SHA-256.
        rehearsal: whether any of its records can be no result.
        folder: where it lies.
        is_study: whether it is a study on file, and no edition.

    """

    name: str
    section: str
    stamps: tuple[Mapping[str, str], ...]
    manifest: Mapping[str, Mapping[str, str]]
    rehearsal: bool
    folder: Path
    is_study: bool = False

    @property
    def compared(self) -> bool:
        """Whether its folder has a page beside the section, as one that sets it beside the edition before."""
        return any(path.name != SECTION for path in self.folder.glob("*.md"))

    @property
    def newest(self) -> str:
        """Date of its newest record."""
        return max(stamp.get("date of the newest record", "") for stamp in self.stamps)

    @property
    def title(self) -> str:
        """What its page is called."""
        kind = "Study" if self.is_study else "Edition"
        return f"{kind} {escape_markdown(self.name)}" + (" (rehearsal, no result)" if self.rehearsal else "")

    def stamp_box(self) -> str:
        """Return the stamp as a box that every page of the edition shows."""
        what = f"Edition {escape_markdown(self.name)}" if not self.is_study else "A study on file, not an edition"
        lines = [what, *(_say_stamp(stamp) for stamp in self.stamps)]
        box = ":::{admonition} Stamp\n:class: note stamp\n\n" + "\n\n".join(lines) + "\n:::"
        return join_blocks(warn("No result", REHEARSAL_BANNER), box) if self.rehearsal else box + "\n"


def read_editions(root: Path) -> list[Published]:
    """Return every edition in the project: results first, the newest name first.

    Raises:
        InputError: a folder with an `edition.yaml` was not built, or its section has no stamp.

    """
    folders = [path.parent for path in sorted((root / "editions").glob(f"*/{FILE_NAME}"))]
    found = sorted((read_published(folder) for folder in folders), key=lambda one: _natural(one.name), reverse=True)
    return [*(one for one in found if not one.rehearsal), *(one for one in found if one.rehearsal)]


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort numbers in a name by value: 2026.9 before 2026.10."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def read_published(folder: Path) -> Published:
    """Read one edition's folder.

    Raises:
        InputError: a file of it is missing or unreadable, or its section has no stamp.

    """
    try:
        section = (folder / SECTION).read_text(encoding="utf-8")
        manifest: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
        files = {str(one["study"]): dict(one["files"]) for one in manifest["studies"]}
        rehearsal = any(bool(one["rehearsal"]) for one in manifest["studies"])
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        again = f"build it again with 'python -m study edition {folder.name}'"
        raise InputError(f"edition '{folder}' is not whole ({type(error).__name__}: {error}); {again}") from None
    stamps = tuple(_read_stamps(section))
    if not stamps:
        raise InputError(f"'{folder / SECTION}' has no table under '## Stamp'; build the edition again")
    return Published(folder.name, section, stamps, files, rehearsal, folder)


def part_of(section: str, title: str) -> str:
    """Return the Markdown of one part of a section, without its heading; empty where there is no such part."""
    found = next((part["body"] for part in _PART.finditer(section) if part["title"].startswith(title)), "")
    return _COMMENT.sub("", found).strip()


def _read_stamps(section: str) -> Iterator[Mapping[str, str]]:
    stamp: dict[str, str] = {}
    for what, value in _ROW.findall(part_of(section, "Stamp")):
        if (what, value) == ("what", "value"):
            if stamp:
                yield stamp
            stamp = {}
        elif what != "---":
            stamp[what] = value
    if stamp:
        yield stamp


def _say_stamp(stamp: Mapping[str, str]) -> str:
    return " · ".join(f"{what} {stamp[what]}" for what in STAMPED if what in stamp)


def point_at_pages(markdown: str) -> str:
    """Return Markdown whose links to a section lead to its page."""
    return _TO_SECTION.sub(r"](\1index.md", markdown)


def split_title(markdown: str) -> tuple[str, str]:
    """Return the first heading of a page, without its mark, and what follows it."""
    found = re.search(r"^# (.*)$", markdown, re.MULTILINE)
    if not found:
        return "", markdown
    return found[1], (markdown[: found.start()] + markdown[found.end() :]).strip()


def write_edition_pages(one: Published, target: Path, raw: Path) -> list[Archive]:
    """Write the pages of one edition into its folder of the site's source, and return the raw archives made.

    Args:
        one: the edition.
        target: its folder in the source tree.
        raw: the project's `data/raw`.

    Raises:
        InputError: an executed notebook is unusable, or a raw file is not what the manifest says.

    """
    target.mkdir(parents=True)
    for name in ("figures", "tables"):
        if (one.folder / name).is_dir():
            shutil.copytree(one.folder / name, target / name)
    notebooks = _write_notebooks(one, target)
    pages = _write_other_pages(one, target)
    archives, absent = _pack(one, target / "raw", raw)
    files = [*_list_files(one, target), *_list_archives(archives, target), *absent]
    _, body = split_title(one.section)
    page = join_blocks(
        f"# {one.title}",
        one.stamp_box(),
        body,
        "## Files",
        write_files(files),
        *(["## Executed notebooks", _list_links(notebooks)] if notebooks else []),
        *(["## More", _list_links(pages)] if pages else []),
        list_pages(*(target_path.rpartition(".")[0] for _, target_path in (*pages, *notebooks))),
    )
    (target / "index.md").write_text(page, encoding="utf-8")
    return archives


def _write_notebooks(one: Published, target: Path) -> list[tuple[str, str]]:
    found = []
    for path in sorted((one.folder / "notebooks").glob("*.ipynb")):
        (target / "notebooks").mkdir(exist_ok=True)
        text = stamp_notebook(path, one.stamp_box())
        (target / "notebooks" / path.name).write_text(text, encoding="utf-8")
        found.append((f"{path.stem}, executed", f"notebooks/{path.name}"))
    return found


def _write_other_pages(one: Published, target: Path) -> list[tuple[str, str]]:
    """Write the Markdown that lies beside the section, such as a comparison, with the stamp after its title."""
    found = []
    for path in sorted(one.folder.glob("*.md")):
        if path.name == SECTION:
            continue
        title, body = split_title(point_at_pages(path.read_text(encoding="utf-8")))
        text = join_blocks(f"# {title or path.stem}", one.stamp_box(), body)
        (target / path.name).write_text(text, encoding="utf-8")
        found.append((title or path.stem, path.name))
    return found


def _pack(one: Published, target: Path, raw: Path) -> tuple[list[Archive], list[tuple[str, Markdown]]]:
    """Pack the raw files behind an edition; a study that is not in this checkout is named instead."""
    archives, absent = [], []
    for study, files in one.manifest.items():
        if (raw / study).is_dir():
            name = study if one.is_study else f"{one.name}-{study}"
            archives.append(pack_raw(raw / study, files, target / f"{name}-raw.tar.gz"))
        else:
            said = f"not in this checkout: {format_counted(len(files), 'file')}, named in the manifest"
            absent.append((f"raw records of {study}", Markdown(escape_markdown(said))))
    return archives, absent


def _list_files(one: Published, target: Path) -> Iterator[tuple[str, Markdown]]:
    named = {
        SECTION: "the section, Markdown",
        "index.html": "the section as one page that needs nothing else",
        "manifest.json": "every raw file with its SHA-256",
        FILE_NAME: "what was published, to build it again",
    }
    for name, what in named.items():
        if (one.folder / name).is_file():
            (target / "files").mkdir(exist_ok=True)
            # Under its own ending Sphinx would take the section for one more page.
            shown = name.replace(".md", ".markdown")
            shutil.copyfile(one.folder / name, target / "files" / shown)
            yield what, link(shown, f"files/{shown}")


def _list_archives(archives: Sequence[Archive], target: Path) -> Iterator[tuple[str, Markdown]]:
    for one in archives:
        yield f"raw records of {one.study}", link_archive(one, target)


def link_archive(one: Archive, here: Path) -> Markdown:
    """Return a link to an archive, with its size and SHA-256.

    Args:
        one: the archive, in a folder at or below `here`.
        here: folder of the page that shows it.

    """
    place = one.path.relative_to(here).as_posix()
    size = f"{one.bytes / 1e6:.2f} MB, {format_counted(one.files, 'file')}, {one.unpacked_bytes / 1e6:.2f} MB unpacked"
    return Markdown(f"{link(one.path.name, place)} ({size}), SHA-256 `{one.sha256}`")


def write_files(files: Sequence[tuple[str, Markdown]]) -> str:
    """Return a table of files: what each is, and its link."""
    lines = [f"| {escape_markdown(what)} | {where} |" for what, where in files]
    return "\n".join(["| what | file |", "| --- | --- |", *lines])


def _list_links(pages: Sequence[tuple[str, str]]) -> str:
    return "\n".join(f"- {link(text, target)}" for text, target in pages)
