"""Executed notebooks as pages of the site: the stamp after their title, and code folded away behind its outputs."""

import json
from pathlib import Path
from typing import Any

from study.errors import InputError

HIDE = "hide-input"
"""MyST-NB's tag of a cell whose code a reader opens on demand."""


def stamp_notebook(path: Path, stamp: str) -> str:
    """Return an executed notebook as the site shows it; the file itself stays as it is.

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
    except (OSError, UnicodeDecodeError, json.JSONDecodeError, KeyError, TypeError) as error:
        raise InputError(f"'{path}' is no notebook: {error}") from None
    if not any(cell["outputs"] for cell in code):
        raise InputError(f"'{path}' has no outputs; execute it with papermill, or take it away")
    note: dict[str, Any] = {"cell_type": "markdown", "metadata": {}, "source": stamp}
    if notebook.get("nbformat_minor", 0) >= 5:
        note["id"] = "stamp"
    shown = [_fold(cell) for cell in cells]
    return json.dumps({**notebook, "cells": [*shown[:1], note, *shown[1:]]}, ensure_ascii=False, indent=1) + "\n"


def _fold(cell: dict[str, Any]) -> dict[str, Any]:
    """Return a cell with its code folded, where it is code with outputs."""
    if cell["cell_type"] != "code" or not cell["outputs"]:
        return cell
    metadata = cell.get("metadata", {})
    return {**cell, "metadata": {**metadata, "tags": [*metadata.get("tags", []), HIDE]}}
