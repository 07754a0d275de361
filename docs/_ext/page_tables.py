"""Tables of the pages: each has its cells as CSV with a link below it, and room for its long cells and flags."""

import csv
import io
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from docutils import nodes
from sphinx.application import Sphinx

from study.publish.plain_text import split_flags

FOLDER = "_tables"
WIDTHS = (("long", 40), ("fair", 16))
"""Class of a cell, and the characters above which it gets a column of that width; the first that fits."""


def mend_tables(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Write each table of one page beside the pages as CSV, and put a link to it after the table."""
    if app.builder.format != "html":
        return
    for place, table in enumerate(list(doctree.findall(nodes.table)), start=1):
        _mark_long_cells(table)
        _mark_flags(table)
        name = f"{docname.replace('/', '-')}-{place}.csv"
        path = Path(app.outdir) / FOLDER / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(_write_csv(table), encoding="utf-8", newline="")
        up = "../" * (len(PurePosixPath(docname).parts) - 1)
        html = f'<p class="table-csv"><a href="{up}{FOLDER}/{quote(name)}" download>Table {place} as CSV</a></p>'
        table.parent.insert(table.parent.index(table) + 1, nodes.raw("", html, format="html"))


def _mark_long_cells(table: nodes.table) -> None:
    for entry in table.findall(nodes.entry):
        size = len(entry.astext())
        entry["classes"] += [name for name, above in WIDTHS if size > above][:1]


def _mark_flags(table: nodes.table) -> None:
    """Give each flag of a command a class of its own, so that no line ends after one of its hyphens."""
    for text in list(table.findall(nodes.Text)):
        parts = split_flags(text.astext())
        if len(parts) > 1 and not isinstance(text.parent, nodes.literal):
            marked = [
                nodes.inline("", part, classes=["flag"]) if at % 2 else nodes.Text(part)
                for at, part in enumerate(parts)
            ]
            text.parent.replace(text, marked)


def _write_csv(table: nodes.table) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in table.findall(nodes.row):
        writer.writerow([" ".join(entry.astext().split()) for entry in row.findall(nodes.entry)])
    return text.getvalue()


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("doctree-resolved", mend_tables)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
