"""Errors that a user can act on.

Each message is one line that names the bad value and what would work. The command line prints it and exits with
`exit_code`; everything else is a bug and shows its trace.
"""

import difflib
from collections.abc import Iterable


class StudyError(Exception):
    """Something that the study cannot go on with; the message is one line."""

    exit_code = 1


class InputError(StudyError):
    """Unusable input: a parameter, a file, a folder, a missing program."""

    exit_code = 2


class RecordError(InputError):
    """A raw file that cannot be read, or that does not belong where it lies."""


class ServerError(StudyError):
    """The server did not start, did not get ready, or died.

    Attributes:
        stage: where it happened: `spawn`, `ready`, `first_token`, `resolve`, `serve` or `stop`.

    """

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(message)
        self.stage = stage


class LoadError(StudyError):
    """The load client did not deliver a result for a run."""


def suggest(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean 'x'?` for a near miss of `name` among `known`, else `; known: a, b, c`."""
    names = sorted(known)
    near = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean '{near[0]}'?" if near else f"; known: {', '.join(names)}"
