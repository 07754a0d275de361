"""Shared memory of ours: noted while a process of a launch has it mapped, removed once nobody has.

Names such as `psm_1f2e3d4c` say nothing of their owner, so the only proof is the map of a process of ours. A note is a
line `<inode> <name>` in a file of the launch's private folder; the inode tells an entry from a later one of the same
name. Standard library only, as the guard uses it.
"""

import contextlib
from pathlib import Path

from study.measure.processes import list_pids

FOLDER = Path("/dev/shm")  # noqa: S108 (where Linux keeps shared memory, not a place for files of ours)
NOTES = ".shared-memory"


def note_shared_memory(folder: Path, pids: set[int], shared: Path = FOLDER) -> None:
    """Add what these processes have mapped to the notes in `folder`; without such a folder do nothing."""
    found = {entry for pid in pids for entry in _mapped(pid, shared)}
    known = read_notes(folder)
    lines = [f"{inode} {name}\n" for inode, name in sorted(found - known)]
    if lines and folder.is_dir():
        with contextlib.suppress(OSError), (folder / NOTES).open("a", encoding="utf-8") as file:
            file.writelines(lines)


def read_notes(folder: Path) -> set[tuple[int, str]]:
    """Return the inodes and names that are noted in `folder`; a line cut short by a crash is left out."""
    try:
        text = (folder / NOTES).read_text(encoding="utf-8")
    except OSError:
        return set()
    found = set()
    for line in text.splitlines(keepends=True):
        inode, _, name = line.rstrip("\n").partition(" ")
        if line.endswith("\n") and inode.isdecimal() and name and "/" not in name:
            found.add((int(inode), name))
    return found


def remove_shared_memory(folder: Path, shared: Path = FOLDER) -> list[str]:
    """Remove what the notes in `folder` name and nobody has mapped any more; return the names that were removed."""
    removed = []
    noted = sorted(entry for entry in read_notes(folder) if _inode(shared / entry[1]) == entry[0])
    in_use = {entry for pid in list_pids() for entry in _mapped(pid, shared)} if noted else set()
    for inode, name in noted:
        if (inode, name) in in_use:
            continue
        with contextlib.suppress(OSError):
            (shared / name).unlink()
            removed.append(name)
    return removed


def _mapped(pid: int, shared: Path) -> set[tuple[int, str]]:
    """Return the inodes and names in `shared` that a process has mapped and that still lie there."""
    try:
        text = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    found = set()
    for line in text.splitlines():
        words = line.split(maxsplit=5)
        if len(words) == 6 and words[5].startswith(f"{shared}/") and not words[5].endswith(" (deleted)"):
            name = words[5][len(str(shared)) + 1 :]
            if "/" not in name:
                found.add((int(words[4]), name))
    return found


def _inode(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except OSError:
        return None
