"""Links of hand-written pages that leave `docs/`: right on a code host, and made right for the site."""

import os
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from study.errors import InputError

_LINK = re.compile(r"(?P<mark>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)")
_ELSEWHERE = re.compile(r"[a-z][a-z0-9+.-]*:|#|/", re.IGNORECASE)
FILES = "files"
"""Folder of the site's source for files of the project that a page links to."""


@dataclass(frozen=True)
class Links:
    """Where links of hand-written pages lead.

    Attributes:
        root: the project's root.
        site: the site's source; linked files are copied into its `files/`.
        pages: file of the project to the page that shows it, from the source's top.

    """

    root: Path
    site: Path
    pages: Mapping[Path, Path]

    def mend(self, text: str, page: Path) -> str:
        """Return a page whose links lead to places within the site; a linked folder becomes its name alone.

        Args:
            text: Markdown.
            page: where it lies in the project, one of `pages`.

        Raises:
            InputError: a link leads nowhere, or out of the project.

        """

        def mend_one(found: re.Match[str]) -> str:
            target, _, anchor = found["target"].partition("#")
            if not target or _ELSEWHERE.match(target):
                return found[0]
            place = self._find(page, target)
            if place is None:
                return found["text"]
            shown = Path(os.path.relpath(place, self.pages[page].parent)).as_posix() + (f"#{anchor}" if anchor else "")
            return f"{found['mark']}[{found['text']}]({shown})"

        return _LINK.sub(mend_one, text)

    def _find(self, page: Path, target: str) -> Path | None:
        """Return where a link leads, from the source's top; None for a folder."""
        path = Path(os.path.normpath(page.parent / target))
        if path in self.pages:
            return self.pages[path]
        if not path.exists() or not path.is_relative_to(self.root):
            # Pages that are made with the site, such as the data dictionary, are not there yet: Sphinx checks them.
            if path.is_relative_to(self.root / "docs"):
                return path.relative_to(self.root / "docs")
            raise InputError(f"'{page}' links to '{target}', which is not in the project")
        return None if path.is_dir() else self._copy(path)

    def _copy(self, path: Path) -> Path:
        """Copy a file of the project into the site, and return where it lies from the source's top."""
        if path.is_relative_to(self.root / "docs"):
            return path.relative_to(self.root / "docs")
        place = Path(FILES) / path.relative_to(self.root)
        (self.site / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, self.site / place)
        return place
