"""Reads one side of a comparison of editions by its name: a study, an edition, or a reference edition.

study       data/raw/<name>/                     edition     editions/<name>/edition.yaml
reference   data/reference/edition-<name>.json, published medians alone
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from study.analyze.versus_parts import Publication, measure_part, publish_part
from study.analyze.versus_types import Part, Side
from study.errors import InputError, suggest
from study.publish.edition import read_edition
from study.publish.edition_file import FILE_NAME
from study.publish.study_view import ViewOptions, read_view
from study.record_files import is_record_name
from study.store import Store


def read_side(root: Path, name: str, data_dir: Path | str = "data") -> Side:
    """Read a study, an edition or a reference edition.

    Args:
        root: the project's root.
        name: as in `2026-11-l4`; where that is several things, `study:2026-11-l4`, `edition:...` or `reference:...`.
        data_dir: folder of `raw/` and `reference/`, from the root; the project's own references are known as well.

    Raises:
        InputError: an unknown name, one that is several things, one without records, or an unreadable file.

    """
    known = dict(list_names(root, data_dir))
    found = [full for full in known if name in (full, full.partition(":")[2])]
    if not found:
        plain = {full.partition(":")[2] for full in known}
        raise InputError(f"'{name}' is no study, edition or reference edition{suggest(name, plain or {'none'})}")
    if len(found) > 1:
        raise InputError(f"'{name}' is several things; name one of them as {' or '.join(sorted(found))}")
    kind, _, plain_name = found[0].partition(":")
    if kind == "reference":
        return _read_reference(known[found[0]], plain_name)
    if kind == "edition":
        views = read_edition(root, plain_name, [], data_dir).views
        parts = tuple(measure_part(view.records, view.found, view.users) for view in views)
        return Side(plain_name, "edition", parts)
    return Side(plain_name, "study", (_read_study(root, Store(root / data_dir, plain_name)),))


def list_names(root: Path, data_dir: Path | str = "data") -> Iterator[tuple[str, Path]]:
    """Yield what can be named, as `study:NAME`, `edition:NAME` or `reference:NAME`, and where it lies."""
    for folder in sorted((root / data_dir / "raw").glob("*/")):
        # Other folders may lie there, without a record; schemas have a second ending.
        if any(is_record_name(path.name, "launch", "run", "session") for path in folder.iterdir()):
            yield f"study:{folder.name}", folder
    for path in sorted((root / "editions").glob(f"*/{FILE_NAME}")):
        yield f"edition:{path.parent.name}", path
    # Raw records may lie on another disk; the references come with the project. The data folder's own go before them.
    for place in (root / "data", root / data_dir):
        for path in sorted((place / "reference").glob("edition-*.json")):
            yield f"reference:{path.stem.removeprefix('edition-')}", path


def _read_study(root: Path, store: Store) -> Part:
    """Read a study with every number of users that was run, since the other side may have published others."""
    view = read_view(root, store, ViewOptions())
    users = sorted({run.users for run in view.records.runs})
    return measure_part(view.records, view.found, users)


def _read_reference(path: Path, name: str) -> Side:
    """Read a reference edition; a fault names the file, and the field where there is one."""
    try:
        data: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InputError(f"'{path}' is not readable: {error}") from None
    try:
        publication = Publication.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise InputError(f"'{path}': field '{field}': {first['msg']}") from None
    return Side(name, "reference edition", tuple(publish_part(publication, one) for one in publication.sessions))
