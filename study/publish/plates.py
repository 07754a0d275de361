"""A drawn figure with the words that go with it, and its two outputs: SVG for an edition, PNG for a notebook.

The SVG has no date, no random id and its letters as paths, so that the same records give the same bytes and every
reader sees the same figure. A page shows it without ground and with the page's own ink, which keeps it legible in dark
mode. A file of its own brings ground and ink together, light or dark as its reader's settings are: no single ink has a
contrast of 4.5 on white and on a dark page, and a page may be light where its reader's settings are dark.
"""

import base64
import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import matplotlib as mpl
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from study.publish.plain_text import clean_text

INK, GROUND = "#1b1f24", "#ffffff"
"""Colours of letters and frames, and of what is behind them; a page replaces the ink by its own."""
DARK_INK, DARK_GROUND = "#e6e9ed", "#14171b"
"""The same for readers who ask for dark pages."""
FAINT = "#8b929a"
"""Colour of grids and bands, seen on white and on a dark page alike."""
ALARM, ALARM_INK = "#c62828", "#ffffff"
"""A warning's ground, and its letters, which are legible on it wherever it stands."""
WIDTH_IN = 5.0
"""Narrow on purpose: at the 350 px of a telephone its letters are still 8 px high."""
PNG_DPI = 130

REHEARSAL = "REHEARSAL: made-up model on a CPU. This is no result."

STYLE: dict[Any, Any] = {
    **{"font.family": "DejaVu Sans", "font.size": 9.0, "axes.titlesize": 9.0, "axes.titleweight": "bold"},
    **{"text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": INK, "xtick.color": INK, "ytick.color": INK},
    **{"figure.facecolor": "none", "axes.facecolor": "none", "savefig.facecolor": "none", "legend.frameon": False},
    **{"axes.grid": True, "grid.color": FAINT, "grid.alpha": 0.35, "grid.linewidth": 0.6, "axes.axisbelow": True},
    **{"axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.6, "legend.fontsize": 8.5},
    **{"svg.fonttype": "path", "svg.hashsalt": "vllm-compile-study", "path.simplify": True},
    # A level or a model may have a dollar in its name; it is text, not mathematics.
    "text.parse_math": False,
}


@contextmanager
def figure_style() -> Iterator[None]:
    """Draw with this package's settings whatever the reader's own are, and put those back."""
    with mpl.rc_context():
        mpl.rcdefaults()
        mpl.rcParams.update(STYLE)
        yield


@dataclass(frozen=True)
class Plate:
    """One figure and its words.

    Attributes:
        key: short name, the end of its file's name.
        title: what it shows.
        alt: what it says, for those who do not see it.
        caption: how to read it.
        figure: the drawing.
        rehearsal: whether its records are no result.
        kept: the drawing as SVG where it was drawn before; the figure is empty then.

    """

    key: str
    title: str
    alt: str
    caption: str
    figure: Figure
    rehearsal: bool = False
    kept: str = ""

    def __post_init__(self) -> None:
        """Lay the figure out once and for all: each drawing would move it a little, and so change the bytes."""
        if self.figure.get_layout_engine() is not None:
            with figure_style():
                self.figure.draw_without_rendering()
            self.figure.set_layout_engine("none")

    @property
    def full_caption(self) -> str:
        """The caption, after the notice that it is no result where it is none."""
        return f"{REHEARSAL} {self.caption}" if self.rehearsal else self.caption

    @property
    def full_alt(self) -> str:
        """The alternative text, after the same notice."""
        return f"{REHEARSAL} {self.alt}" if self.rehearsal else self.alt

    def svg(self) -> str:
        """Return the figure as an SVG file with a ground of its own, light or dark as its reader's settings are."""
        head, body = _split_svg(self.drawing)
        body = body.replace(INK, "currentColor")
        words = f"<title>{_escape(self.title)}</title><desc>{_escape(self.full_alt)}</desc>"
        dark = f"svg {{ color: {DARK_INK} }} .ground {{ fill: {DARK_GROUND} }}"
        style = f"<style>@media (prefers-color-scheme: dark) {{ {dark} }}</style>"
        ground = f'<rect class="ground" width="100%" height="100%" fill="{GROUND}"/>'
        head = f'{head[:-1]} role="img" color="{INK}">'
        return f'<?xml version="1.0" encoding="utf-8"?>\n{head}\n{words}\n{style}\n{ground}\n{body}'

    def inline_svg(self, place: str) -> str:
        """Return the figure for a page that holds several: scales with its box, uses the page's ink, ids of its own.

        Args:
            place: letters, digits and `-`; begins every id of this figure.

        """
        head, body = _split_svg(self.drawing)
        view = re.search(r'viewBox="[^"]*"', head)
        body = re.sub(r'\bid="', f'id="{place}-', body)
        body = re.sub(r'href="#', f'href="#{place}-', body)
        body = body.replace("url(#", f"url(#{place}-").replace(INK, "currentColor")
        label = f'role="img" aria-labelledby="{place}-title {place}-desc"'
        words = (
            f'<title id="{place}-title">{_escape(self.title)}</title>'
            f'<desc id="{place}-desc">{_escape(self.full_alt)}</desc>'
        )
        names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
        return f"<svg {names} {view[0] if view else ''} {label}>{words}{body}"

    def png(self) -> bytes:
        """Return the figure as a PNG on white."""
        data = io.BytesIO()
        with figure_style():
            FigureCanvasAgg(self.figure)
            self.figure.savefig(data, format="png", dpi=PNG_DPI, facecolor="white", metadata={"Software": None})
        return data.getvalue()

    def _repr_html_(self) -> str:
        """Show the PNG with its words where a notebook displays the plate."""
        source = base64.b64encode(self.png()).decode("ascii")
        image = f'<img alt="{_escape(self.full_alt)}" src="data:image/png;base64,{source}">'
        title, caption = _escape(self.title), _escape(self.full_caption)
        return f"<figure><b>{title}</b><br>{image}<figcaption>{caption}</figcaption></figure>"

    @cached_property
    def drawing(self) -> str:
        """The figure as matplotlib writes it in SVG."""
        if self.kept:
            return self.kept
        text = io.StringIO()
        nothing = dict.fromkeys(("Date", "Creator", "Format", "Type"))
        with figure_style():
            self.figure.savefig(text, format="svg", metadata=nothing)
        return text.getvalue()


def _split_svg(text: str) -> tuple[str, str]:
    """Return the opening `<svg ...>` tag and what follows it, without the XML declaration and document type."""
    start = text.index("<svg")
    end = text.index(">", start) + 1
    lines = (line.rstrip() for line in text[end:].strip().splitlines())
    return " ".join(text[start:end].split()), "\n".join(lines) + "\n"


def _escape(text: str) -> str:
    return html.escape(clean_text(text))
