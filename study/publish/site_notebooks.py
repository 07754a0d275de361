"""Executed notebooks as pages of the site: the stamp after their title, and code folded away behind its outputs."""

import json
from pathlib import Path
from typing import Any

from study.design.parameters import is_name
from study.errors import InputError

HIDE = "hide-input"
"""MyST-NB's tag of a cell whose code a reader opens on demand."""


def stamp_notebook(path: Path, stamp: str) -> str:
    """Return an executed notebook as the site shows it; the file itself stays as it is.

    Its title names the study that it was executed with, where there is one: several copies of a notebook stand in one
    list.

    Args:
        path: the executed copy.
        stamp: Markdown that goes after the notebook's first cell.

    Raises:
        InputError: the file is no notebook, or was not executed.

    """
    try:
        notebook: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        cells: list[dict[str, Any]] = notebook["cells"]
        code = [cell for cell in cells if cell["cell_type"] == "code"]
        study = notebook.get("metadata", {}).get("papermill", {}).get("parameters", {}).get("study")
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"'{path}' is no notebook: {error}") from None
    if not any(cell["outputs"] for cell in code):
        raise InputError(f"'{path}' has no outputs; execute it with papermill, or take it away")
    note: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": stamp}
    if notebook.get("nbformat_minor", 0) >= 5:
        note["id"] = "stamp"
    shown = [_name_study(cells[0], study), *map(_fold, cells[1:])]
    return json.dumps({**notebook, "cells": [*shown[:1], note, *shown[1:]]}, ensure_ascii=False, indent=1) + "\n"


def _name_study(cell: dict[str, Any], study: object) -> dict[str, Any]:
    """Return the first cell with the study of the papermill run after its title."""
    title, line, rest = "".join(cell["source"]).partition("\n")
    if cell["cell_type"] != "markdown" or not title.startswith("# ") or not is_name(study):
        return cell
    return {**cell, "source": f"{title} {study}{line}{rest}"}


def _fold(cell: dict[str, Any]) -> dict[str, Any]:
    """Return a cell with its code folded, where it is code with outputs."""
    if cell["cell_type"] != "code" or not cell["outputs"]:
        return cell
    metadata = cell.get("metadata", {})
    return {**cell, "metadata": {**metadata, "tags": [*metadata.get("tags", []), HIDE]}}
