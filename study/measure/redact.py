"""Redaction: what of this machine stays out of records and logs: its folders, and whatever is a secret.

A record tells a card and a host apart by UUID and hash; where its folders lie is nobody's business. A secret is known
by the variable that holds it here (`HF_TOKEN`), by the name before it (`api_key=`), or by its shape (`hf_...`,
`https://user:password@host`).
"""

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from study.design.whole_files import write_whole

REQUEST_LINES = ('"POST /v1/', '"GET /')
"""Lines of single requests, which a load writes by the thousand; they say nothing that the run's record does not."""
MASK = "<masked>"
KEY_PREFIX = "study-key-"
"""Begins the key of every launch, so that it is known wherever it shows."""
SECRET_NAME = re.compile(r"SECRET|PASSW|CREDENTIAL|APIKEY|(?:^|_)(?:KEYS?|TOKEN|PAT)(?:_|$)", re.IGNORECASE)
"""Names of environment variables that hold a secret; `MAX_TOKENS` and `TOKENIZERS_PARALLELISM` hold none."""
SHORTEST_SECRET = 8
_NAMES = r"(?:hf|access|auth)[_-]?token|api[_-]?key|secret[_-]?(?:access[_-]?)?key|client[_-]?secret|passw(?:or)?d"
_NOTHING = r"(?!None\b|null\b|True\b|False\b|<masked>)"
_SHAPES = re.compile(
    r"((?i:authorization)['\"]?\s*[:=]\s*['\"]?(?:(?i:bearer|basic|token)\s+)?)(?!<masked>)[^\s'\",}]+"
    r"|(\b(?i:bearer)\s+)[\w.~+/=-]{12,}"
    rf"|((?i:--(?:{_NAMES})\s+|(?:{_NAMES})['\"]?\s*[=:]\s*['\"]?)){_NOTHING}[^\s'\",;)}}\]]{{8,}}"
    r"|(://)[^\s/@'\"<>]+(?=@)"
    rf"|{KEY_PREFIX}[\w-]*"
    r"|(?<![A-Za-z0-9])(?:hf_[A-Za-z0-9]{20,}|sk-[\w-]{20,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}|xox[abprs]-[\w-]{10,}|glpat-[\w-]{16,}|nvapi-[\w-]{20,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}\.[\w-]{8,})"
)
"""Texts that are secrets by the name before them or by their shape; what is to be kept of a match stands in a group."""


def redact(value: Any, root: Path, environment: Mapping[str, str] = os.environ) -> Any:  # noqa: ANN401 (any JSON value)
    """Mask secrets and replace this machine's folders in every text of a JSON value: root by `.`, home by `~`.

    Args:
        value: any JSON value.
        root: the project's root.
        environment: where secrets are known by the names of their variables.

    """
    places = [*((secret, MASK) for secret in secrets_of(environment)), *_places(root)]
    return _replace(value, places)


def _replace(value: Any, places: list[tuple[str, str]]) -> Any:  # noqa: ANN401 (any JSON value)
    if isinstance(value, str):
        value = mask_shapes(value)
        for place, short in places:
            value = value.replace(place, short)
        return value
    if isinstance(value, list):
        return [_replace(item, places) for item in value]
    if isinstance(value, dict):
        return {name: _replace(item, places) for name, item in value.items()}
    return value


def secrets_of(environment: Mapping[str, str]) -> list[str]:
    """Return the values of variables whose name says that they hold a secret, longest first."""
    found = {value for name, value in environment.items() if SECRET_NAME.search(name)}
    return sorted((value for value in found if len(value) >= SHORTEST_SECRET), key=len, reverse=True)


def mask(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """Mask secrets in one text: before it is cut, since a part of a secret is not known any more."""
    masked: str = _replace(text, [(secret, MASK) for secret in secrets_of(environment)])
    return masked


def mask_shapes(text: str) -> str:
    """Mask what is a secret by its shape or by the name before it."""
    return _SHAPES.sub(lambda match: "".join(kept for kept in match.groups() if kept) + MASK, text)


def holds_secret(value: Any) -> bool:  # noqa: ANN401 (any JSON value)
    """Whether a text in a JSON value looks like a secret."""
    return bool(_replace(value, []) != value)


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
    """Redact a server's log in place, make it readable, and return its SHA-256 (hex), or None where there is none."""
    if path.is_symlink() or not path.is_file():
        return None
    lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    text = "\n".join(line for line in lines if not any(mark in line for mark in REQUEST_LINES))
    text = redact(text.replace(secret, "<key>") if secret else text, root)
    write_whole(path, text)
    return hashlib.sha256(text.encode()).hexdigest()
