"""Text from records as text: what a model's name or a server's message says is shown, never carried out.

Pages escape it for HTML by the template engine; here it is made plain for every output, and escaped for Markdown.
"""

import re
import unicodedata

_TERMINAL_CODES = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_SPECIAL = re.compile(r"([\\`*_\[\]<>|~$&#{}])")
# A dash, a plus, a percent sign or a numbered list matters at the start of a line alone.
_AT_START = re.compile(r"^(\s*)([-+](?=[\s-]|$)|[=%:!]|\d+(?=[.)](?:\s|$)))")
_LINK = re.compile(r"(?i)(https?|ftp)(://)|\b(www)(\.)")
_FLAG = re.compile(r"(?<!\S)(--?[A-Za-z]\S{1,50})(?!\S)")


class Markdown(str):
    """Text that is Markdown already and is not escaped again."""

    __slots__ = ()


def clean_text(text: str, longest: int | None = None) -> str:
    """Return text in one line without control characters, terminal codes or marks that turn its direction.

    Args:
        text: any text.
        longest: characters that are kept, the last an ellipsis where more were there; None keeps all.

    """
    line = " ".join(_TERMINAL_CODES.sub("", text).split())
    seen = "".join("\N{REPLACEMENT CHARACTER}" if unicodedata.category(one) in _UNSEEN else one for one in line)
    return seen if longest is None or len(seen) <= longest else seen[: longest - 1] + "\N{HORIZONTAL ELLIPSIS}"


def split_flags(text: str) -> list[str]:
    """Return a text in parts, every second one a command's flag; one that is longer than a column is none here."""
    return _FLAG.split(text)


_UNSEEN = frozenset({"Cc", "Cf", "Cs", "Co", "Cn"})


def escape_markdown(value: object) -> Markdown:
    """Return a value as Markdown that shows it as it is: no emphasis, link, HTML, table cell or heading of its own."""
    if isinstance(value, Markdown):
        return value
    text = _SPECIAL.sub(r"\\\1", clean_text(str(value)))
    text = _LINK.sub(lambda found: f"{found[1] or found[3]}\\{found[2] or found[4]}", text)
    return Markdown(_AT_START.sub(_escape_start, text))


def _escape_start(found: re.Match[str]) -> str:
    if found[2].isdigit():
        # A backslash before a digit shows; the sign after the number is what makes a list.
        return f"{found[1]}{found[2]}\\"
    return f"{found[1]}\\{found[2]}"
