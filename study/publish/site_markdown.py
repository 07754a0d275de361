"""Markdown for the pages of the site; every value from a record is escaped."""

from study.publish.plain_text import Markdown, escape_markdown
from study.publish.sheets import Sheet


def write_sheet(sheet: Sheet, title: bool = True) -> str:
    """Return a table as Markdown, every cell escaped, after its title."""
    rows = (sheet.head, ("---",) * len(sheet.head), *sheet.rows)
    cells = [[cell if place == 1 else escape_markdown(cell) for cell in row] for place, row in enumerate(rows)]
    lines = [f"| {' | '.join(row)} |" for row in cells]
    return "\n".join([*([f"**{escape_markdown(sheet.title)}**", ""] if title else []), *lines])


def join_blocks(*blocks: str) -> str:
    """Join blocks of Markdown to a page; empty ones are left out."""
    return "\n\n".join(block for block in blocks if block) + "\n"


def link(text: str, target: str) -> Markdown:
    """Return a link as Markdown; its text is escaped, and blanks in its target too."""
    return Markdown(f"[{escape_markdown(text)}]({target.replace(' ', '%20')})")


def warn(title: str, text: str) -> str:
    """Return a box that a reader must not miss; both texts are escaped."""
    return f":::{{admonition}} {escape_markdown(title)}\n:class: warning\n\n{escape_markdown(text)}\n:::"


def list_pages(*pages: str, depth: int = 1) -> str:
    """Return the hidden table of contents that puts pages (paths from here, without ending) into the navigation.

    Empty where there is no page, since the navigation would show a switch that opens nothing.
    """
    if not pages:
        return ""
    return "\n".join([":::{toctree}", ":hidden:", f":maxdepth: {depth}", "", *pages, ":::"])
