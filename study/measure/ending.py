"""How a session is asked to end, and where that may cut in.

A signal handler that raised anywhere would tear records and leave servers. So a request to end is noted, and raises
`Interrupted` at once only inside a region that is open to it: waits and loads are; starting, stopping and writing are
carried to their end. The next region that opens raises what was noted meanwhile.
"""

from types import TracebackType


class Interrupted(BaseException):
    """The session was asked to end: a signal, or the parent's pipe closed. No error: nothing may swallow it."""


class Ending:
    """Whether the session was asked to end; as a context manager, a region where that may cut in (not nested)."""

    def __init__(self) -> None:
        self.asked = False
        self._open = False

    def ask(self) -> None:
        """Ask the session to end; called by signal handlers.

        Raises:
            Interrupted: a region is open, once each.

        """
        self.asked = True
        if self._open:
            self._open = False
            raise Interrupted

    def __enter__(self) -> None:
        """Open a region.

        Raises:
            Interrupted: the session was asked to end before.

        """
        self._open = True
        if self.asked:
            self._open = False
            raise Interrupted

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the region."""
        self._open = False
