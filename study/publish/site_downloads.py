"""Raw records to download: one archive a study, the same bytes for the same records, with the SHA-256 of every file."""

import gzip
import hashlib
import io
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from study.errors import InputError
from study.record_files import read_unpacked
from study.store import sha256

SUMS = "SHA256SUMS"


@dataclass(frozen=True)
class Archive:
    """One archive that was written.

    Attributes:
        study: whose records it holds.
        path: where it lies.
        files: how many raw files are in it.
        unpacked_bytes: their size.

    """

    study: str
    path: Path
    files: int
    unpacked_bytes: int

    @property
    def bytes(self) -> int:
        """Size of the archive itself."""
        return self.path.stat().st_size

    @property
    def sha256(self) -> str:
        """SHA-256 (hex) of the archive itself."""
        return sha256(self.path)


def pack_raw(raw: Path, files: Mapping[str, str], target: Path) -> Archive:
    """Pack raw files into a `.tar.gz` with a `SHA256SUMS` beside them, as `sha256sum --check` reads it.

    Names are sorted; owner, mode and time are the same for all, so that the same files give the same bytes.

    Args:
        raw: the study's raw folder; its name is the folder in the archive.
        files: file name to the SHA-256 that it must have, both unpacked, as an edition's manifest has them.
        target: the archive; its folder is made.

    Raises:
        InputError: a file is missing, or is not what its SHA-256 says.

    """
    contents = {name: _read_checked(raw / name, digest) for name, digest in sorted(files.items())}
    sums = "".join(f"{digest}  {name}\n" for name, digest in sorted(files.items())).encode()
    target.parent.mkdir(parents=True, exist_ok=True)
    # Level and time are given: gzip would otherwise write when it ran.
    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", 9, file, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive,
    ):
        for name, content in {SUMS: sums, **contents}.items():
            entry = tarfile.TarInfo(f"{raw.name}/{name}")
            entry.size, entry.mode = len(content), 0o644
            archive.addfile(entry, io.BytesIO(content))
    (target.parent / f"{raw.name}-{SUMS}").write_bytes(sums)
    return Archive(raw.name, target, len(contents), sum(len(content) for content in contents.values()))


def _read_checked(path: Path, digest: str) -> bytes:
    content = read_unpacked(path)
    if content is None:
        raise InputError(f"raw file '{path}' is missing; restore it, or leave its study out")
    found = hashlib.sha256(content).hexdigest()
    if found != digest:
        raise InputError(f"raw file '{path}' has SHA-256 {found[:12]}..., not {digest[:12]}...; restore it from a copy")
    return content
