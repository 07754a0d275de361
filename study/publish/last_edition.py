"""The edition before this one, and how this one compares with it.

Editions that are named by year and month (`2026.11`, `2026.11.1`) are a row of releases; the one before is the newest
that is older, among `editions/` and the reference editions. Any other name is a draft, which has none before it.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.analyze.versus import set_beside
from study.analyze.versus_parts import measure_part
from study.analyze.versus_types import Side
from study.errors import InputError
from study.publish.edition import Edition
from study.publish.plain_text import escape_markdown
from study.publish.versus import render_versus
from study.publish.versus_side import list_names, read_side
from study.record_files import read_unpacked, unpacked_name
from study.store import Store

_RELEASE = re.compile(r"(\d{4})\.(\d{2})(?:\.(\d{1,3}))?")


@dataclass(frozen=True)
class Compared:
    """How an edition compares with the one before it.

    Attributes:
        before: name of the edition before.
        markdown: the comparison; None where the edition before cannot be read.
        reason: why not; empty otherwise.

    """

    before: str
    markdown: str | None
    reason: str = ""


def release_key(name: str) -> tuple[int, int, int] | None:
    """Return what puts editions in order, or None for the name of a draft."""
    found = _RELEASE.fullmatch(name)
    return None if found is None else (int(found[1]), int(found[2]), int(found[3] or 0))


def find_last(root: Path, name: str, rehearsal: bool, data_dir: Path | str = "data") -> str | None:
    """Return the edition before `name` as `edition:2026.11` or `reference:2026.10`; None where there is none.

    An edition on file goes before a reference of the same name. A rehearsal is not the one before a result.
    """
    own = release_key(name)
    if own is None:
        return None
    found: dict[tuple[int, int, int], str] = {}
    for full, place in list_names(root, data_dir):
        kind, _, plain = full.partition(":")
        key = release_key(plain)
        if kind == "study" or key is None or key >= own or key in found:
            continue
        if rehearsal or kind == "reference" or not _is_rehearsal(place.parent):
            found[key] = full
    return found[max(found)] if found else None


def compare_with_last(root: Path, edition: Edition, data_dir: Path | str = "data") -> Compared | None:
    """Set an edition that was read beside the one before it; None where there is none."""
    name = edition.folder.name
    last = find_last(root, name, edition.rehearsal, data_dir)
    if last is None:
        return None
    kind, _, plain = last.partition(":")
    try:
        before = read_side(root, last, data_dir)
    except InputError as error:
        # A page names files from the project's root, and no folder of the machine that wrote it.
        return Compared(plain, None, str(error).replace(f"{root}/", ""))
    parts = tuple(measure_part(view.records, view.found, view.users) for view in edition.views)
    text = render_versus(set_beside(before, Side(name, "edition", parts)), "markdown")
    changed = _find_changed(root, plain, data_dir) if kind == "edition" else ""
    return Compared(plain, f"> **{escape_markdown(changed)}**\n\n{text}" if changed else text)


def _is_rehearsal(folder: Path) -> bool:
    return any(one.get("rehearsal") for one in _read_manifest(folder).get("studies", []))


def _find_changed(root: Path, name: str, data_dir: Path | str) -> str:
    """Say whether raw records have changed since an edition was published; empty where none has."""
    for one in _read_manifest(root / "editions" / name).get("studies", []):
        known: Mapping[str, str] = one["files"]
        store = Store(root / data_dir, one["study"])
        paths = [path for kind in ("launch", "run", "session") for path in store.record_files(kind)]
        same = all(_is_same(store.raw / file, digest) for file, digest in known.items())
        if not same or not set(map(unpacked_name, paths)) <= set(known):
            return f"Records of {one['study']} changed since {name} was published; they are read as they are now."
    return ""


def _is_same(path: Path, digest: str) -> bool:
    """Say whether a raw file lies there, packed or not, with this SHA-256 of what it holds unpacked."""
    content = read_unpacked(path)
    return content is not None and hashlib.sha256(content).hexdigest() == digest


def _read_manifest(folder: Path) -> dict[str, Any]:
    """Return an edition's manifest; empty where there is none that can be read."""
    try:
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
