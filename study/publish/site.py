"""Builds the site: lays out its source, then runs Sphinx on it in a process of its own."""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from study.errors import InputError, StudyError
from study.publish.site_tree import Project, make_tree

MARK = "objects.inv"
"""A file that every site has: a folder that holds it was a site, and may be replaced."""
SPHINX = ("sphinx", "myst_nb", "sphinx_book_theme", "sphinx_copybutton", "sphinx_design")
MOST_LINES = 8


def build_site(root: Path, out: Path, data_dir: Path | str = "data") -> Path:
    """Build the site and return its first page. The same project gives the same bytes.

    Args:
        root: the project's root.
        out: folder of the site, from the root; one that was a site before is replaced whole.
        data_dir: folder of `raw/` and `reference/`, from the root.

    Raises:
        InputError: Sphinx is not installed, the folder holds something else, or a page's source cannot be read.
        StudyError: Sphinx refuses a page; its words name the page and the line.

    """
    missing = [name for name in SPHINX if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(f"the site needs {missing[0]}, which is not installed; 'make site' installs what it needs")
    target = root / out
    if target.exists() and not (target.is_dir() and (not any(target.iterdir()) or (target / MARK).is_file())):
        raise InputError(f"'{out}' is there and is no site; name an empty folder, or one that does not exist")
    with tempfile.TemporaryDirectory(prefix="study-site-") as made:
        source, pages = Path(made) / "source", Path(made) / "pages"
        make_tree(Project(root, root / data_dir, source))
        _run_sphinx(source, pages, Path(made) / "doctrees")
        _replace(target, pages)
    return target / "index.html"


def _run_sphinx(source: Path, pages: Path, doctrees: Path) -> None:
    """Run Sphinx; a warning is an error. Its own order of sets is fixed, and so are the bytes."""
    command = [sys.executable, "-m", "sphinx", "-b", "html", "-W", "--keep-going", "-q", "-E"]
    package = str(Path(__file__).resolve().parents[2])
    paths = os.pathsep.join([package, *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [*command, "-d", str(doctrees), str(source), str(pages)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        env={**os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": paths, "NO_COLOR": "1"},
    )
    if done.returncode:
        said = [line for line in done.stderr.replace(f"{source}{os.sep}", "").splitlines() if line.strip()]
        raise StudyError("Sphinx does not build the site:\n  " + "\n  ".join(said[:MOST_LINES] or ["it said nothing"]))


def _replace(target: Path, pages: Path) -> None:
    """Put the pages where they go; what was a site there before is taken away."""
    (pages / ".buildinfo").unlink(missing_ok=True)
    try:
        if target.exists():
            shutil.rmtree(target)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(pages, target)
    except OSError as error:
        raise InputError(f"'{target}' cannot be written: {error.strerror}; name a folder of yours") from None
