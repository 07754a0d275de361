"""A small project with editions, studies and notebooks, and its site: made once for all modules that look at it."""

import shutil
from pathlib import Path

import nbformat
from edition_study import make_root, write_study
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from study.publish.edition import write_edition
from study.publish.site import build_site

ROOT = Path(__file__).parents[1]
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def make_bare_project(folder):
    """Make a project without study and edition: pages, parameters, the reference edition."""
    folder.mkdir(exist_ok=True)
    make_root(folder)
    shutil.copytree(ROOT / "docs", folder / "docs")
    shutil.copytree(ROOT / "data" / "reference", folder / "data" / "reference")
    shutil.copytree(ROOT / "data" / "raw" / "schema", folder / "data" / "raw" / "schema")
    for name in ("CHANGELOG.md", "README.md", "CONTRIBUTING.md", "LICENSE", "Makefile"):
        if (ROOT / name).is_file():
            shutil.copyfile(ROOT / name, folder / name)
    return folder


def make_project(folder):
    """Make a project with two editions, 2026.9 and 2026.11, the newer one of two studies, and a rehearsal."""
    make_bare_project(folder)
    write_study(folder / "data", "l4", costs={"default": 0.0, "eager": 0.022})
    write_study(folder / "data", "l4-hot", session="throttled", costs={"default": 0.0, "O0": 0.05})
    write_study(folder / "data", "rehearsal", rehearsal=True, blocks=1, costs={"default": 0.0, "O0": 0.05})
    write_edition(folder, "2026.9", ["l4"])
    for name, studies in (("2026.11", ["l4", "l4-hot"]), ("rehearsal", ["rehearsal"])):
        edition = write_edition(folder, name, studies)
        write_notebook(edition / "notebooks" / "read_session.ipynb")
    (folder / "editions/2026.11/aside.md").write_text("# A page beside it\n\nWords.\n", encoding="utf-8")
    return folder


def write_notebook(path, executed=True):
    """Write a notebook as papermill leaves it: a parameters cell, a table, a figure."""
    shown = [
        "<table><caption>A table</caption><tr><th>level</th></tr><tr><td>default</td></tr></table>",
        f'<figure><img alt="A finding." src="data:image/png;base64,{PIXEL}"><figcaption>Words.</figcaption></figure>',
    ]
    outputs = [new_output("display_data", data={"text/html": text, "text/plain": "raw"}) for text in shown]
    cells = [
        new_markdown_cell("# What did this session measure?\n\nWords."),
        new_code_cell('study = "l4"', metadata={"tags": ["parameters"]}),
        new_code_cell("show(study)", outputs=outputs if executed else [], execution_count=1),
    ]
    for place, cell in enumerate(cells):
        cell["id"] = f"cell-{place}"
    path.parent.mkdir(parents=True, exist_ok=True)
    kernel = {"kernelspec": {"name": "python3", "display_name": "x"}, "language_info": {"name": "python"}}
    nbformat.write(new_notebook(cells=cells, metadata=kernel), path)


def get_project(tmp_path_factory):
    """Return the project and its site, built by the first module that asks."""
    folder = tmp_path_factory.getbasetemp() / "site-project"
    site = folder / "build" / "site"
    if not site.is_dir():
        make_project(folder)
        build_site(folder, Path("build/site"))
    return folder, site
