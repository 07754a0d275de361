"""The project's root: paths in parameters are taken from it, wherever a notebook or command runs."""

from pathlib import Path

MARK = Path("notebooks") / "parameters"


def find_root(start: Path | None = None) -> Path:
    """Return the nearest folder at or above `start` (default: here) that holds `notebooks/parameters`.

    Where there is none, the folder that this package was installed from; where that has none either, `start` itself.
    """
    here = (start or Path.cwd()).resolve()
    package = Path(__file__).resolve().parents[2]
    for folder in (here, *here.parents, package):
        if (folder / MARK).is_dir():
            return folder
    return here
