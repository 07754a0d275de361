"""Renders the sections of an edition as Markdown and as one HTML page that needs nothing else."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from study.publish.marked_parts import Prose
from study.publish.plain_text import Markdown, clean_text, escape_markdown, split_flags
from study.publish.prose import render_prose
from study.publish.sections import Picture, Section

REHEARSAL_BANNER = (
    "REHEARSAL: this is no result. It was made by vLLM's CPU backend with a made-up model, to try the whole path. "
    "Nothing here says anything about a GPU."
)


@dataclass(frozen=True)
class Before:
    """The edition before, in words, and the name of the page that sets this one beside it, without its ending."""

    text: str
    page: str | None


@dataclass(frozen=True)
class Page:
    """What both outputs show.

    Attributes:
        edition: as printed in the stamp.
        rehearsal: whether any of its records can be no result.
        sections: the parts, in order.
        before: the edition before; None where there is none.
        prose: what a person wrote, by the part that it follows; the Markdown output is merged with it afterwards.

    """

    edition: str
    rehearsal: bool
    sections: Sequence[Section]
    before: Before | None = None
    prose: Mapping[str, Prose] = field(default_factory=dict)

    @property
    def banner(self) -> str:
        """The notice that it is no result; empty for a result."""
        return REHEARSAL_BANNER if self.rehearsal else ""


def render_markdown(page: Page) -> str:
    """Return the section as Markdown, its parts between markers, without prose.

    Every value is escaped unless it was made as Markdown here.
    """
    template = _environment(markdown=True).get_template("section.md.j2")
    text = template.render(page=page)
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def render_html(page: Page) -> str:
    """Return the page: style and figures inside, no script, nothing that asks the network."""
    environment = _environment(markdown=False)
    style = Markup(_read("style.css"))  # noqa: S704 (our own file)
    text = environment.get_template("page.html.j2").render(page=page, style=style, draw=_draw)
    return text.strip() + "\n"


def render_comparison(edition: str, markdown: str) -> str:
    """Return a comparison, given as Markdown, as an HTML page like that of the edition."""
    style = Markup(_read("style.css"))  # noqa: S704 (our own file)
    template = _environment(markdown=False).get_template("comparison.html.j2")
    return template.render(edition=edition, style=style, body=render_prose(markdown, highest_heading=1)).strip() + "\n"


def _environment(markdown: bool) -> Environment:
    names = ("section.md.j2", "page.html.j2", "comparison.html.j2")
    environment = Environment(
        loader=DictLoader({name: _read(name) for name in names}),
        autoescape=not markdown,  # noqa: S701 (Markdown is escaped by `finalize`)
        finalize=escape_markdown if markdown else _clean,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["as_markdown"] = Markdown
    environment.filters["with_whole_flags"] = keep_flags_whole
    environment.filters["as_html"] = lambda prose: render_prose(prose.text)
    return environment


def _clean(value: object) -> object:
    return value if isinstance(value, Markup) or not isinstance(value, str) else clean_text(value)


def keep_flags_whole(text: str) -> Markup:
    """Return text as HTML in which no line ends inside a flag; browsers end lines after a hyphen."""
    flag = Markup('<span class="flag">{}</span>')
    parts = enumerate(split_flags(clean_text(text)))
    return Markup("").join(flag.format(part) if place % 2 else part for place, part in parts)


def _draw(picture: Picture) -> Markup:
    return Markup(picture.plate.inline_svg(picture.place))  # noqa: S704 (its texts are escaped there)


def _read(name: str) -> str:
    return (files("study.publish") / "templates" / name).read_text(encoding="utf-8")
