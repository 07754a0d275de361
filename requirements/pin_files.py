"""Turn the lock that uv writes (pylock.toml on standard input) into a requirements file: exact pins with hashes.

Each pin has the SHA-256 of the files that its targets can install, as the registry tells them: wheels for CPython 3.11
to 3.13 on x86-64 Linux with glibc, or, where a release has none, its source archive.
"""

import re
import sys
import tomllib
from collections.abc import Iterator
from typing import Any

FITS = re.compile(
    r"-(?:(?:py2\.)?py3\d*-none|(?:cp\d+\.)*cp31[123]-(?:none|cp31[123])|cp3(?:\d|1[0123])-abi3)"
    r"-(?:any|[\w.]*\b(?:many)?linux\w*_x86_64[\w.]*)\.whl$"
)
"""Names of wheels for the targets, without those of free-threaded Python and of musl."""

CERTAIN = {
    "platform_machine == 'x86_64'",
    "sys_platform == 'linux'",
    "platform_python_implementation == 'CPython'",
    "implementation_name != 'PyPy'",
    "python_full_version >= '3.11.5'",
    "python_full_version < '3.14'",
}
"""Markers that every target of the lock meets, which therefore say nothing."""


def list_hashes(package: dict[str, Any]) -> list[str]:
    """Return the SHA-256 of each file that can be installed, sorted."""
    wheels = [wheel for wheel in package.get("wheels", []) if fits(wheel["url"].rsplit("/", 1)[-1])]
    return sorted({file["hashes"]["sha256"] for file in wheels or [package["sdist"]]})


def fits(wheel: str) -> bool:
    """Whether a wheel of this name is for a target of the lock."""
    return FITS.search(wheel) is not None


def pin_packages(lock: dict[str, Any]) -> Iterator[str]:
    """Yield the lines of the requirements file."""
    for package in lock["packages"]:
        rest = [part for part in package.get("marker", "").split(" and ") if part and part not in CERTAIN]
        marker = f" ; {' and '.join(rest)}".replace("'", '"') if rest else ""
        hashes = (f"    --hash=sha256:{value}" for value in list_hashes(package))
        yield " \\\n".join([f"{package['name']}=={package['version']}{marker}", *hashes])


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in pin_packages(tomllib.load(sys.stdin.buffer)))
