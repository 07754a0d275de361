"""Lays out the source of the site: hand-written pages of `docs/`, and pages made of editions, studies and the code.

    index.md            the answer first            editions/<edition>/   section, notebooks, files, newest first
    studies/<study>/    every study on file         published/<edition>   printed medians of earlier editions
    comparisons/        one beside another          methods, guide, parameters, levels, data-dictionary, data, changelog

Everything is made from the project's files alone; no time of building stands anywhere.
"""

import itertools
import re
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from study.analyze.versus import set_beside
from study.analyze.versus_types import Side
from study.errors import InputError
from study.publish.plain_text import Markdown, escape_markdown
from study.publish.site_editions import (
    Published,
    part_of,
    point_at_pages,
    read_editions,
    split_title,
    write_edition_pages,
)
from study.publish.site_indexes import write_data_page, write_editions_index, write_studies_index
from study.publish.site_links import Links
from study.publish.site_markdown import join_blocks, link, write_sheet
from study.publish.site_pages import write_dictionary_page, write_levels_page, write_parameters_page
from study.publish.site_reference import write_reference_page
from study.publish.site_studies import OnFile, list_costs, list_studies, write_study_pages
from study.publish.versus import render_versus
from study.publish.versus_side import read_side

ANSWER = "<!-- study:answer -->"
"""Where the landing page takes the answer."""
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)
_PATTERN = re.compile(r"[a-z/-]+\*")
_LEFT = shutil.ignore_patterns("_build", "__pycache__", "*.md")


@dataclass(frozen=True)
class Project:
    """Where everything lies: the project's root, the folder of `raw/`, and the source of the site."""

    root: Path
    data: Path
    site: Path

    def write(self, place: str, text: str) -> None:
        """Write one page of the site."""
        path = self.site / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")

    def references(self) -> dict[str, Path]:
        """Return published editions of which medians are all there is, by name, the newest first."""
        folders = dict.fromkeys((self.root / "data" / "reference", self.data / "reference"))
        paths = [path for folder in folders for path in sorted(folder.glob("edition-*.json"))]
        named = {path.stem.removeprefix("edition-"): path for path in paths}
        return dict(sorted(named.items(), reverse=True))


def make_tree(project: Project) -> None:
    """Write the whole source of the site.

    Raises:
        InputError: an edition, a study or a reference cannot be read, or a hand-written page links to nothing.

    """
    _copy_docs(project)
    project.write("parameters.md", write_parameters_page(project.root))
    project.write("levels.md", write_levels_page(project.root))
    project.write("data-dictionary.md", write_dictionary_page())
    editions = read_editions(project.root)
    archives = []
    for one in editions:
        archives += write_edition_pages(one, project.site / "editions" / one.name, project.data / "raw")
    studies = [
        write_study_pages(project.root, project.data, name, project.site / "studies" / name)
        for name in list_studies(project.data / "raw")
    ]
    sides = {name: read_side(project.root, f"reference:{name}", project.data) for name in project.references()}
    for name, side in sides.items():
        project.write(f"published/{name}.md", write_reference_page(side, project.references()[name]))
    pairs = _write_comparisons(project, editions, studies)
    changes = project.root / "editions" / "CHANGELOG.md"
    if changes.is_file():
        _, body = split_title(point_at_pages(changes.read_text(encoding="utf-8")))
        project.write("editions/changelog.md", join_blocks("# Changes from edition to edition", body))
    index = write_editions_index(editions, list(sides), pairs, changes.is_file())
    project.write("editions/index.md", index)
    project.write("studies/index.md", write_studies_index(studies))
    project.write(
        "data.md",
        write_data_page(
            project.site, project.data / "raw" / "schema", [*archives, *(a for one in studies for a in one.archives)]
        ),
    )
    _write_answer(project, editions, studies, list(sides.values()))


def _copy_docs(project: Project) -> None:
    docs = project.root / "docs"
    if not (docs / "index.md").is_file():
        raise InputError(f"'{docs}' has no index.md, so there is no site to build; run this in the project's checkout")
    shutil.copytree(docs, project.site, ignore=_LEFT, dirs_exist_ok=True)
    pages = {path: path.relative_to(docs) for path in sorted(docs.rglob("*.md")) if "_build" not in path.parts}
    known = {project.root / name: Path(place) for name, place in ROOT_PAGES.items() if (project.root / name).is_file()}
    # What the README tells stands on the landing page and under "Run it again".
    links = Links(project.root, project.site, {**pages, **known, project.root / "README.md": Path("index.md")})
    for path, place in {**pages, **known}.items():
        project.write(place.as_posix(), links.mend(path.read_text(encoding="utf-8"), path))


def _write_comparisons(project: Project, editions: Sequence[Published], studies: Sequence[OnFile]) -> list[str]:
    """Write what is set beside each other: every edition and the one before it, every study and the last reference."""
    names = []
    for old, new in _list_pairs(project, editions, studies):
        a, b = (read_side(project.root, name, project.data) for name in (old, new))
        name = f"{a.name}-beside-{b.name}"
        project.write(f"comparisons/{name}.md", render_versus(set_beside(a, b), "markdown"))
        names.append(name)
    return names


def _list_pairs(
    project: Project, editions: Sequence[Published], studies: Sequence[OnFile]
) -> Iterator[tuple[str, str]]:
    results = [one for one in editions if not one.rehearsal and _has_raw(project, one)]
    newest = [f"reference:{name}" for name in list(project.references())[:1]]
    for new, old in itertools.pairwise([*results, None]):
        # An edition that was republished has the page already, as it was then.
        if new is not None and not new.compared:
            yield from ((name, f"edition:{new.name}") for name in ([f"edition:{old.name}"] if old else newest))
    shown = {study for one in editions for study in one.manifest}
    for one in studies:
        if not one.published.rehearsal and one.published.name not in shown:
            yield from ((old, f"study:{one.published.name}") for old in newest)


def _has_raw(project: Project, one: Published) -> bool:
    return all((project.data / "raw" / study).is_dir() for study in one.manifest)


def _write_answer(
    project: Project, editions: Sequence[Published], studies: Sequence[OnFile], references: Sequence[Side]
) -> None:
    """Put the answer where the landing page has its mark: the newest edition's headline, then all cards."""
    page = (project.site / "index.md").read_text(encoding="utf-8")
    if ANSWER not in page:
        raise InputError(f"docs/index.md has no line '{ANSWER}', where the answer goes; add it below the title")
    results = [one for one in editions if not one.rehearsal]
    on_file = [one.published.name for one in studies if not one.published.rehearsal]
    sides = [*(read_side(project.root, f"study:{name}", project.data) for name in on_file), *references]
    costs = list_costs([part for side in sides for part in side.parts])
    said = [_say_headline(one) for one in results[:1]]
    table = write_sheet(costs) if costs.rows else ""
    text = page.replace(ANSWER, join_blocks(*said, Markdown(table)).strip())
    lines = text.splitlines()
    # Sphinx warns of a pattern that fits no page; guides and others stand in docs/ or do not.
    listed = [_list_fitting(project.site, line, lines) if _PATTERN.fullmatch(line) else [line] for line in lines]
    project.write("index.md", "\n".join(line for found in listed for line in found) + "\n")


def _list_fitting(site: Path, pattern: str, lines: Sequence[str]) -> list[str]:
    """Return the pages that a pattern fits, without those that are listed by name."""
    found = sorted(path.relative_to(site).with_suffix("").as_posix() for path in site.glob(f"{pattern}.md"))
    return [page for page in found if page not in lines]


def _say_headline(one: Published) -> str:
    """Return an edition's headline; where it has several studies, the name of each in front of its sentence."""
    headline = _HEADING.sub(r"**\1.**", part_of(one.section, "Headline"))
    read_on = link("Read the edition", f"editions/{one.name}/index.md")
    return f"**Edition {escape_markdown(one.name)}.** {headline}\n\n{read_on}"
