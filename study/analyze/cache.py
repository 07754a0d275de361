"""Files of the cache: what was made of raw records, kept for the same records and the same code.

    data/processed/.cache/<study>.<what>    first line: SHA-256 of the rest; second: its source; then what was kept

The folder may be deleted at any time, and is nothing to publish. A file that is damaged, cut short or made from another
source is not looked at.
"""

import hashlib
import platform
from functools import cache
from importlib.metadata import version
from pathlib import Path

import study
from study.design.plain_files import read_bytes
from study.design.whole_files import make_folder, write_whole
from study.errors import InputError
from study.store import Store

CACHE = ".cache"
LEAST_RUNS = 100
"""A study with fewer runs is read in a second, and leaves no cache."""
_MOST_BYTES = 2**32
_IGNORE = "# Made of raw records: made again where it is not here.\n*\n"


def cache_path(store: Store, what: str) -> Path:
    """Return where something made of a study is kept."""
    return store.processed.parent / CACHE / f"{store.study}.{what}"


def read_kept(path: Path, source: str) -> bytes | None:
    """Return what is kept; None where the file is not whole, or was made from another source."""
    try:
        total, _, body = read_bytes(path, _MOST_BYTES).partition(b"\n")
    except InputError:
        return None
    head = f"{source}\n".encode()
    whole = hashlib.sha256(body).hexdigest().encode() == total and body.startswith(head)
    return body[len(head) :] if whole else None


def write_kept(path: Path, source: str, kept: str) -> None:
    """Keep something; a place that cannot be written is left as it is."""
    body = f"{source}\n{kept}"
    try:
        make_folder(path.parent)
        write_whole(path.parent / ".gitignore", _IGNORE)
        write_whole(path, f"{hashlib.sha256(body.encode()).hexdigest()}\n{body}")
    except (OSError, InputError):
        return


@cache
def hash_code(sources: tuple[str, ...], libraries: tuple[str, ...]) -> str:
    """Return a SHA-256 (hex) of code of this package, and of the versions of what it calculates with.

    Args:
        sources: patterns of files, from the package's folder.
        libraries: distributions.

    """
    root = Path(study.__file__).parent
    versions = [platform.python_version(), *(f"{name} {version(name)}" for name in libraries)]
    found = hashlib.sha256(" ".join(versions).encode())
    for path in sorted(path for pattern in sources for path in root.glob(pattern)):
        found.update(f"\n{path.relative_to(root)}\n".encode() + path.read_bytes())
    return found.hexdigest()
