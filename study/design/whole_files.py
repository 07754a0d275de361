"""Files that are whole or not there, with the mode that the rule gives, whatever the umask.

Records, tables, kept logs and editions are 0644 and folders 0755; what is open, locks and files with prompts are 0600:
nobody's business until they are finished.
"""

import os
from pathlib import Path

from study.errors import InputError

READABLE = 0o644
PRIVATE = 0o600
FOLDER = 0o755


def make_folder(path: Path) -> None:
    """Make a folder and what is missing above it; one that is there stays as it is.

    Raises:
        InputError: it is a link, which would lead what is written or cleared there elsewhere.

    """
    if path.is_symlink():
        raise InputError(f"'{path}' is a link to another folder; the study writes into folders of its own alone")
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    for folder in reversed(missing):
        folder.mkdir(exist_ok=True)
        folder.chmod(FOLDER)


def open_private(path: Path) -> int:
    """Make a file, or empty one, that only its owner reads; return its descriptor for writing."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, PRIVATE)
    os.fchmod(descriptor, PRIVATE)
    return descriptor


def write_through(path: Path, content: bytes, mode: int = READABLE) -> None:
    """Write a file through to the disk; until all of it is there, its owner alone may read it."""
    with os.fdopen(open_private(path), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
        os.fchmod(file.fileno(), mode)


def sync_folder(folder: Path) -> None:
    """Bring the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_whole(path: Path, text: str, mode: int = READABLE) -> None:
    """Replace a file by another text at once: a reader sees the old or the new one, never a part.

    Raises:
        OSError: the folder cannot be written, or the disk is full; the old file stays.

    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        write_through(temporary, text.encode(), mode)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
