"""The built site, without a browser: what stands where, and that every link leads to something of its own."""

import csv
import json
import re
import shutil
import subprocess
import tarfile
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from edition_study import write_study
from site_project import ROOT, get_project, make_bare_project

from study.__main__ import main
from study.design.levels import LEVELS_DIR, read_levels
from study.design.parameters import Parameters
from study.errors import InputError, StudyError
from study.publish.page import REHEARSAL_BANNER
from study.publish.site import build_site

VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Page(HTMLParser):
    """A page: its links, its ids, its words, its tables as rows of cells."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids, self.images, self.tables, self.words = [], set(), [], [], []
        self.headings = []
        self._open = []
        self.feed(path.read_text(encoding="utf-8"))
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.links += [values[name] for name in ("href", "src") if values.get(name)]
        self.ids |= {values["id"]} if values.get("id") else set()
        if tag == "img":
            self.images.append(values)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag not in VOID:
            self._open.append(tag)

    def handle_endtag(self, tag):
        while self._open and self._open.pop() != tag:
            pass

    def handle_data(self, data):
        if {"script", "style"} & set(self._open):
            return
        self.words.append(data)
        if self._open and re.fullmatch("h[1-6]", self._open[-1]) and data.strip():
            self.headings.append((self._open[-1], data.strip()))
        if {"td", "th"} & set(self._open):
            self.tables[-1][-1][-1] += data


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    return get_project(tmp_path_factory)[0]


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    return get_project(tmp_path_factory)[1]


@pytest.fixture(scope="module")
def pages(site):
    found = {path.relative_to(site).as_posix(): Page(path) for path in sorted(site.rglob("*.html"))}
    return {name: page for name, page in found.items() if not name.startswith(("_static/", "_downloads/"))}


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A project whose only figures are one block of one study, and the reference edition."""
    folder = make_bare_project(tmp_path_factory.mktemp("bare"))
    write_study(folder / "data", "one-block", blocks=1)
    return folder, build_site(folder, Path("site")).parent


def of_edition(pages, name):
    return {place: page for place, page in pages.items() if place.startswith(f"editions/{name}/")}


def test_every_link_of_every_page_leads_to_something(site, pages):
    broken = []
    for name, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme == "data" or link == "#":
                continue
            target = (site / name).parent / unquote(parts.path) if parts.path else site / name
            target = target.resolve()
            place = target.relative_to(site.resolve()).as_posix()
            if not target.is_file():
                broken.append(f"{name}: {link}")
            elif parts.fragment and place in pages and unquote(parts.fragment) not in pages[place].ids:
                broken.append(f"{name}: {link} has no such anchor")
    assert broken == []


def test_nothing_is_asked_of_another_host(site, pages):
    assert [(name, link) for name, page in pages.items() for link in page.links if urlsplit(link).netloc] == []
    for style in site.rglob("*.css"):
        assert not re.search(
            r"url\(\s*['\"]?(https?:)?//|@import\s+['\"]?(url\()?['\"]?https?:", style.read_text("utf-8")
        )


def test_the_newest_edition_answers_first(pages):
    text = pages["index.html"].text
    answer = text.index("Edition 2026.11.")
    assert answer < text.index("What each level costs per token, card by card")
    assert re.search(r"eager takes 2\.\d percent more time per token", text[answer:])
    assert "editions/2026.11/index.html" in pages["index.html"].links
    assert "Edition 2026.9" not in text[answer : text.index("What each level costs per token")]


def test_editions_stand_newest_first_and_rehearsals_last(pages):
    rows = pages["editions/index.html"].tables[0]
    assert [row[0] for row in rows[1:]] == ["2026.11", "2026.9", "rehearsal"]
    assert rows[3][-1] == "rehearsal, no result"


def test_what_a_level_costs_is_said_with_what_it_rests_on(pages):
    rows = {(row[0], row[1], row[2], row[5].partition(":")[0]): row for row in pages["index.html"].tables[0][1:]}
    l4 = rows["NVIDIA L4", "cooled", "eager", "l4"]
    assert re.fullmatch(r"\+2\.\d\d to \+2\.\d\d percent", l4[3])
    assert l4[5] == "l4: 3 blocks, overall slower (preliminary)"
    published = rows["NVIDIA L4", "cooled", "eager", "medians published as l4-full-clock, not remeasured"]
    # 61.07 / 60.36 and 66.98 / 65.75 in the printed figures of edition 2026.10.
    assert published[3] == "+1.18 to +1.87 percent"
    assert not [key for key in rows if key[3].startswith("rehearsal")]


@pytest.mark.parametrize("name", ["2026.9", "2026.11", "rehearsal"])
def test_every_page_of_an_edition_carries_its_stamp(project, pages, name):
    manifest = json.loads((project / "editions" / name / "manifest.json").read_text())
    found = of_edition(pages, name)
    assert set(found) >= {f"editions/{name}/index.html"}
    for page in found.values():
        for one in manifest["studies"]:
            assert f"study fingerprint {one['fingerprint']}" in page.text
        assert "vLLM version 0.31.0 · vLLM commit db9527a · date of the newest record 2026-09-21" in page.text


def test_pages_beside_the_section_are_shown(pages):
    assert {"editions/2026.11/aside.html", "editions/2026.11/notebooks/read_session.html"} <= set(pages)


def test_every_page_of_a_rehearsal_says_that_it_is_no_result(pages):
    found = {**of_edition(pages, "rehearsal"), "study": pages["studies/rehearsal/index.html"]}
    assert len(found) == 3
    assert all(REHEARSAL_BANNER in page.text for page in found.values())


def test_results_do_not_say_so(pages):
    for name in ("2026.9", "2026.11"):
        assert not [place for place, page in of_edition(pages, name).items() if "REHEARSAL" in page.text]


def test_the_section_stands_as_it_was_published(project, pages):
    page = pages["editions/2026.11/index.html"]
    section = (project / "editions/2026.11/section.md").read_text()
    titles = re.findall(r"^## (.*)$", section, re.MULTILINE)
    assert len(titles) >= 8
    assert [title for _, title in page.headings if title in titles] == titles
    for row in re.findall(r"\d+\.\d\d / \d+\.\d\d / [^|]* ms", section):
        assert row in page.text


def test_published_medians_are_shown_as_published(pages):
    page = pages["published/2026.10.html"]
    assert "As published, not remeasured" in page.text
    rows = [row for table in page.tables for row in table]
    assert ["1", "eager", "61.07 ms", "1,290 MHz", "+1.18 percent"] in rows
    assert ["1", "O0", "106.48 ms", "–", "+2.25 percent"] in rows
    assert ["DGX Spark start compile", "18.67 s"] in rows
    assert ["DGX Spark start load weights", "about 330 s"] in rows


def test_what_belongs_beside_each_other_is_set_so(pages):
    compared = {name for name in pages if name.startswith("comparisons/")}
    assert compared == {"comparisons/2026.10-beside-2026.9.html"}
    assert "Ratios are never imported" in pages["comparisons/2026.10-beside-2026.9.html"].text


def test_one_block_is_called_no_verdict(bare):
    _, site = bare
    assert (site / "comparisons/2026.10-beside-one-block.html").is_file()
    text = Page(site / "studies/one-block/index.html").text
    assert "A study on file, not an edition" in text
    assert "not enough evidence" in text


def test_every_table_is_a_csv_too(site, pages):
    count = 0
    for name, page in pages.items():
        if "notebooks" in name:
            continue
        links = [link for link in page.links if "_tables/" in link]
        assert len(links) == len(page.tables), name
        for link, table in zip(links, page.tables, strict=True):
            with ((site / name).parent / unquote(link)).open(encoding="utf-8", newline="") as file:
                cells = [[" ".join(cell.split()) for cell in row] for row in table]
                assert list(csv.reader(file)) == cells
            count += 1
    assert count > 40


def test_an_edition_offers_the_tables_behind_it(project, site, pages):
    links = [link for link in pages["editions/2026.9/index.html"].links if link.endswith("l4-runs.csv")]
    published = (project / "editions/2026.9/tables/l4-runs.csv").read_bytes()
    assert [((site / "editions/2026.9" / link).read_bytes()) for link in links] == [published]


def archives(site, pages, name):
    links = [link for link in pages[name].links if link.endswith(".tar.gz")]
    return [(site / name).parent / unquote(link) for link in links]


def test_raw_records_of_an_edition_can_be_taken_and_checked(project, site, pages, tmp_path):
    path, _ = archives(site, pages, "editions/2026.11/index.html")
    with tarfile.open(path) as archive:
        archive.extractall(tmp_path, filter="data")
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=tmp_path / "l4", check=True)
    raw = project / "data/raw/l4"
    assert {item.name for item in (tmp_path / "l4").iterdir()} == {item.name for item in raw.iterdir()} | {"SHA256SUMS"}
    assert all((tmp_path / "l4" / item.name).read_bytes() == item.read_bytes() for item in raw.iterdir())


def test_the_page_names_the_sha256_of_each_archive(site, pages):
    from study.store import sha256

    found = archives(site, pages, "data.html")
    assert len(found) == 2 + 1 + 1 + 3  # of three editions, and of three studies on file
    assert all(sha256(path) in pages["data.html"].text for path in found)


def test_every_parameter_is_in_one_table(pages):
    rows = {row[0]: row for row in pages["parameters.html"].tables[0][1:]}
    assert set(rows) == set(Parameters.model_fields)
    assert rows["users"][2:] == ["list of whole number, from 1 to 4,096", "", "[1, 2, 4, 8, 16, 32, 64]", "no"]
    assert rows["min_run_s"][2:] == ["number, from 0 to 3,600", "s", "10.0", "yes"]


def test_every_level_of_every_set_is_shown(pages):
    shown = [row[0] for table in pages["levels.html"].tables for row in table[1:]]
    assert sorted(shown) == sorted(name for path in (ROOT / LEVELS_DIR).glob("*.yaml") for name in read_levels(path))


def test_no_line_ends_inside_a_flag(site):
    page = (site / "levels.html").read_text()
    assert '<span class="flag">--enforce-eager</span>' in page
    assert '<span class="flag">-O0</span> <span class="flag">-cc.cudagraph_mode=FULL_DECODE_ONLY</span>' in page
    tables = [path.read_text() for path in (site / "_tables").glob("levels-*.csv")]
    cells = [row[1] for text in tables for row in csv.reader(text.splitlines())]
    assert "-O0 -cc.cudagraph_mode=FULL_DECODE_ONLY" in cells


def test_code_of_a_notebook_is_folded_and_its_words_are_not(pages, site):
    html = (site / "editions/2026.11/notebooks/read_session.html").read_text()
    assert html.count("tag_hide-input") == 1
    assert "raw" not in pages["editions/2026.11/notebooks/read_session.html"].text.split()


def test_every_picture_has_words(pages):
    images = [image for page in pages.values() for image in page.images]
    assert len(images) > 20
    assert all(len(image.get("alt", "").split()) > 1 for image in images)


def test_no_page_names_this_machine(site):
    for path in site.rglob("*"):
        if path.suffix in (".html", ".js", ".csv", ".css", ".md", ".txt"):
            text = path.read_text(encoding="utf-8", errors="replace")
            assert "site-project" not in text, path
            assert str(ROOT) not in text, path


def test_the_same_project_gives_the_same_bytes(project, site, monkeypatch):
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    monkeypatch.setenv("PYTHONHASHSEED", "7")
    again = build_site(project, Path("build/again")).parent
    files = {path.relative_to(site): path.read_bytes() for path in site.rglob("*") if path.is_file()}
    made = {path.relative_to(again): path.read_bytes() for path in again.rglob("*") if path.is_file()}
    assert sorted(files) == sorted(made)
    assert [str(name) for name in files if files[name] != made[name]] == []


def test_a_site_of_one_block_has_figures_and_no_edition(bare):
    _, site = bare
    assert "No edition of this package has been published yet" in Page(site / "editions/index.html").text
    rows = Page(site / "index.html").tables[0]
    assert [row[5] for row in rows if row[2] == "eager"] == [
        "one-block: 1 block, too few for a verdict",
        "medians published as l4-full-clock, not remeasured",
    ]


def test_a_page_that_links_to_nothing_is_named(bare, tmp_path):
    folder, _ = bare
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy, ignore=shutil.ignore_patterns("site", "one-block"))
    with (copy / "docs/methods.md").open("a") as page:
        page.write("\nSee [there](nowhere.md).\n")
    with pytest.raises(StudyError, match=r"methods\.md:\d+: .*nowhere"):
        build_site(copy, Path("site"))
    assert not (copy / "site").exists()


def test_a_folder_that_is_no_site_is_left_alone(bare):
    folder, _ = bare
    with pytest.raises(InputError, match="'notebooks' is there and is no site"):
        build_site(folder, Path("notebooks"))
    assert (folder / "notebooks/parameters").is_dir()


def test_the_command_says_where_the_site_is(bare, monkeypatch, capsys):
    folder, site = bare
    (site / "old.html").write_text("of an earlier build")
    monkeypatch.chdir(folder)
    assert main(["site", "--out", "site"]) == 0
    assert capsys.readouterr().out.strip() == str(folder / "site/index.html")
    assert not (site / "old.html").exists()
