"""What a launch leaves on a machine, and its removal: processes, temporary files, shared memory. Only ours, ever.

A launch has one private folder. It is the temporary folder of its server too: with vLLM 0.31 the engine's sockets and
`vllm_dist_*` go there, and shared memory (`psm_*`) alone does not, which is noted there while it is in use. The folder
names its owner, the runner, so that whoever comes after a runner that was killed can tell what is to be removed.
"""

import getpass
import os
import re
import shutil
import stat
import tempfile
from pathlib import Path

from study.measure.guard import FOLDER
from study.measure.processes import MARK, find_marked, kill_all, make_mark, read_owner, wait_until_gone, with_sessions
from study.measure.shared_memory import remove_shared_memory

PREFIX = "study-launch-"
OWNER_FILE = ".owner"
LONGEST_FOLDER = 70
"""Characters: a socket's address has room for 107 (`man 7 unix`), and vLLM's names in it take 37."""
GUARD_PATIENCE_S = 6.0
"""How long the processes of a dead runner may take to be ended by their guard before they are killed here."""


class LaunchFolder:
    """The private folder of one launch, and the environment that ties processes to it."""

    def __init__(self) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=PREFIX))
        self.mark = make_mark()
        (self.path / OWNER_FILE).write_text(self.mark, encoding="ascii")

    @property
    def client_environment(self) -> dict[str, str]:
        """What marks a process as this launch's."""
        return {MARK: self.mark}

    @property
    def server_environment(self) -> dict[str, str]:
        """The server's temporary folder and mark. The mark comes last: process titles overwrite what is first.

        Some caches are in the temporary folder unless told otherwise, and a warm start needs them where they were.
        """
        known = {FOLDER: str(self.path), MARK: self.mark}
        if len(str(self.path)) > LONGEST_FOLDER:
            return known
        return {"TMPDIR": str(self.path), **temporary_caches(), **known}

    def remove(self) -> list[str]:
        """Remove the folder and the shared memory that is noted in it; return the names of the latter.

        What still carries the launch's mark is ended first: a server whose guard was killed before it could tell of it.
        """
        kill_all(with_sessions({pid for pid, mark in find_marked().items() if mark == self.mark}))
        return _remove(self.path)


def temporary_caches() -> dict[str, str]:
    """Return where the caches are that lie in the temporary folder by default, by the variable that moves each.

    TorchInductor's (`torch/_inductor/runtime/cache_dir_utils.py`, 2.13), CuTe DSL's (cutlass-dsl 4.7.1) and QuACK's
    (`quack/cache/jit.py`, 0.6.5).
    """
    temporary = Path(tempfile.gettempdir())
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # no entry for this user id, as in some containers
        user = f"uid_{os.getuid()}"
    plain = re.sub(r'[\\/:*?"<>|]', "_", user)
    places = {
        "TORCHINDUCTOR_CACHE_DIR": temporary / f"torchinductor_{plain}",
        "CUTE_DSL_CACHE_DIR": temporary / user / "cutlass_python_cache",
        "QUACK_CACHE_DIR": temporary / user / "quack_cache",
    }
    return {name: os.environ.get(name) or str(place) for name, place in places.items()}


def end_orphans(patience_s: float = GUARD_PATIENCE_S) -> list[int]:
    """End the processes of runners that are dead; return those that had to be killed here.

    Their guard, if it lives, ends them in order; what is still there after `patience_s` is killed.
    """
    orphans = _find_orphans()
    if not orphans or wait_until_gone(orphans, patience_s):
        return []
    left = _find_orphans()
    kill_all(left)
    wait_until_gone(left, patience_s)
    return sorted(left)


def remove_leftovers(place: Path | None = None) -> list[Path]:
    """Remove the private folders, with their shared memory, of launches whose owner is dead; return them.

    Args:
        place: where temporary folders are; by default this process's own.

    """
    removed = []
    for folder in sorted((place or Path(tempfile.gettempdir())).glob(f"{PREFIX}*")):
        if _is_abandoned(folder):
            _remove(folder)
            removed.append(folder)
    return removed


def _find_orphans() -> set[int]:
    marked = find_marked()
    owners = {mark: read_owner(mark) for mark in set(marked.values())}
    orphans = {pid for pid, mark in marked.items() if (owner := owners[mark]) is not None and not owner.alive()}
    return with_sessions(orphans)


def _is_abandoned(folder: Path) -> bool:
    """Whether the folder is this user's and names an owner that is dead; one that names none is not judged."""
    try:
        seen = folder.lstat()
        if not stat.S_ISDIR(seen.st_mode) or seen.st_uid != os.getuid():
            return False
        owner = read_owner((folder / OWNER_FILE).read_text(encoding="ascii", errors="replace"))
    except OSError:
        return False
    return owner is not None and not owner.alive()


def _remove(folder: Path) -> list[str]:
    names = remove_shared_memory(folder)
    shutil.rmtree(folder, ignore_errors=True)
    return names
