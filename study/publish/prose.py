"""Markdown that a person wrote, or that was generated here, as HTML: no script, no HTML of its own, no picture."""

import re

from markdown_it import MarkdownIt
from markupsafe import Markup

_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)


def render_prose(text: str, highest_heading: int = 3) -> Markup:
    """Return Markdown as HTML.

    HTML in it is shown as text, comments are left out, and links to scripts are no links. Tables scroll in a box of
    their own.

    Args:
        text: CommonMark with tables.
        highest_heading: level of its highest heading; higher ones become this one.

    """
    parser = MarkdownIt("commonmark", {"html": False}).enable("table").disable("image")
    tokens = parser.parse(_COMMENT.sub("", text))
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{max(int(token.tag[1:]), highest_heading)}"
    shown = str(parser.renderer.render(tokens, parser.options, {}))
    shown = shown.replace("<table>", '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>')
    return Markup(shown.replace("</table>", "</table></div>").strip())  # noqa: S704 (markdown-it escapes its texts)
