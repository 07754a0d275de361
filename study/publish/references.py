"""What an edition prints beside its studies: resolved sets and verdicts on claims, each a file that its YAML names."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from study.analyze.claims import ClaimVerdicts, read_verdicts
from study.design.resolved_set import ResolvedSet, read_resolved_set
from study.errors import InputError
from study.publish.edition_file import EditionFile

_Content = TypeVar("_Content")


@dataclass(frozen=True)
class References:
    """The files that an edition names, read; None where it names none.

    Attributes:
        switches: what levels resolve to, without a running server.
        switches_before: the same of an older vLLM.
        claims: verdicts on a text's claims.
        claims_before: earlier verdicts on the same claims.
        files: path from the project's root to SHA-256 (hex).

    """

    switches: ResolvedSet | None = None
    switches_before: ResolvedSet | None = None
    claims: ClaimVerdicts | None = None
    claims_before: ClaimVerdicts | None = None
    files: Mapping[str, str] = field(default_factory=dict)


def read_references(root: Path, file: EditionFile) -> References:
    """Read the files that an edition names.

    Args:
        root: the project's root, which their paths are taken from.
        file: the edition's file.

    Raises:
        InputError: a file that is not there or holds something else, or earlier verdicts that share no claim.

    """
    named = (file.switches, file.switches_before, file.claims, file.claims_before)
    found = References(
        switches=_read(root, file.switches, read_resolved_set),
        switches_before=_read(root, file.switches_before, read_resolved_set),
        claims=_read(root, file.claims, read_verdicts),
        claims_before=_read(root, file.claims_before, read_verdicts),
        files={name: hashlib.sha256((root / name).read_bytes()).hexdigest() for name in named if name},
    )
    ids = [{one.id for one in side.claims} for side in (found.claims, found.claims_before) if side]
    if len(ids) == 2 and not ids[0] & ids[1]:
        raise InputError(
            f"claims_before '{file.claims_before}' has no claim of '{file.claims}'; "
            "name earlier verdicts on the same claims"
        )
    return found


def _read(root: Path, name: str | None, read: Callable[[Path], _Content]) -> _Content | None:
    return read(root / name) if name else None
