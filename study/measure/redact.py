"""Redaction: what of this machine stays out of records and logs: its folders, and keys.

A record tells a card and a host apart by UUID and hash; where its folders lie is nobody's business.
"""

import hashlib
import sys
import tempfile
from pathlib import Path
from typing import Any

REQUEST_LINES = ('"POST /v1/', '"GET /')
"""Lines of single requests, which a load writes by the thousand; they say nothing that the run's record does not."""


def redact(value: Any, root: Path) -> Any:  # noqa: ANN401 (any JSON value)
    """Replace this machine's folders in every text of a JSON value: root by `.`, home by `~`, and so on."""
    if isinstance(value, str):
        for place, short in _places(root):
            value = value.replace(place, short)
        return value
    if isinstance(value, list):
        return [redact(item, root) for item in value]
    if isinstance(value, dict):
        return {name: redact(item, root) for name, item in value.items()}
    return value


def _places(root: Path) -> list[tuple[str, str]]:
    """List folders and what stands for them, longest first, so that a folder inside another is met first."""
    places = {
        sys.executable: "python",
        str(root): ".",
        str(Path.home()): "~",
        tempfile.gettempdir(): "<tmp>",
        sys.prefix: "<python>",
        sys.base_prefix: "<python>",
    }
    usable = [(place, short) for place, short in places.items() if len(place) > 1]
    return sorted(usable, key=lambda item: len(item[0]), reverse=True)


def redact_log(path: Path, root: Path, secret: str | None = None) -> str | None:
    """Redact a server's log in place and return its SHA-256 (hex), or None where there is none."""
    if not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    text = redact("\n".join(line for line in lines if not any(mark in line for mark in REQUEST_LINES)), root)
    if secret:
        text = text.replace(secret, "<key>")
    path.write_text(text, encoding="utf-8")
    return hashlib.sha256(text.encode()).hexdigest()
