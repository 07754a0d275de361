"""The parts that the site is made of: links of hand-written pages, archives, editions, notebooks, stamps."""

import gzip
import json
import re
import shutil

import pytest
from edition_study import make_root, write_study
from site_project import write_notebook

from study.errors import InputError
from study.publish.edition import write_edition
from study.publish.page import REHEARSAL_BANNER
from study.publish.sheets import Sheet
from study.publish.site import build_site
from study.publish.site_downloads import pack_raw
from study.publish.site_editions import part_of, read_editions, read_published, split_title
from study.publish.site_links import Links
from study.publish.site_markdown import list_pages, write_sheet
from study.publish.site_notebooks import stamp_notebook
from study.publish.site_studies import list_studies
from study.store import sha256


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("project"))
    write_study(folder / "data", "one", blocks=1, costs={"default": 0.0, "eager": 0.02})
    write_edition(folder, "2026.11", ["one"])
    return folder


@pytest.fixture
def edition(project, tmp_path):
    return shutil.copytree(project / "editions/2026.11", tmp_path / "editions/2026.11")


@pytest.fixture
def links(tmp_path):
    for name in ("docs/guide/a.md", "docs/b.md", "CHANGELOG.md", "notebooks/x.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(name)
    pages = {"docs/guide/a.md": "guide/a.md", "docs/b.md": "b.md", "CHANGELOG.md": "changelog.md"}
    return Links(tmp_path, tmp_path / "site", {tmp_path / old: type(tmp_path)(new) for old, new in pages.items()})


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("[t](../b.md)", "[t](../b.md)"),
        ("[t](../b.md#part)", "[t](../b.md#part)"),
        ("[t](../../CHANGELOG.md)", "[t](../changelog.md)"),
        ("[t](../../notebooks/x.yaml)", "[t](../files/notebooks/x.yaml)"),
        ("![t](../../notebooks/x.yaml)", "![t](../files/notebooks/x.yaml)"),
        ("[t](../../notebooks)", "t"),
        ("[t](#part) and [u](https://example.org/a)", "[t](#part) and [u](https://example.org/a)"),
        ("[t](../data-dictionary.md)", "[t](../data-dictionary.md)"),
    ],
)
def test_links_of_a_page_lead_within_the_site(links, written, shown):
    assert links.mend(written, links.root / "docs/guide/a.md") == shown


def test_a_linked_file_is_there(links):
    links.mend("[t](../../notebooks/x.yaml)", links.root / "docs/guide/a.md")
    assert (links.site / "files/notebooks/x.yaml").read_text() == "notebooks/x.yaml"


@pytest.mark.parametrize("target", ["../../nowhere.yaml", "../../../outside.txt"])
def test_a_link_to_nothing_names_page_and_target(links, target):
    (links.root.parent / "outside.txt").write_text("x")
    with pytest.raises(InputError, match=rf"a\.md' links to '{re.escape(target)}', which is not in the project"):
        links.mend(f"[t]({target})", links.root / "docs/guide/a.md")


def sums_of(raw):
    return {path.name: sha256(path) for path in raw.iterdir()}


def test_an_archive_has_no_time_owner_or_order_of_its_own(project, tmp_path):
    raw = project / "data/raw/one"
    files = sums_of(raw)
    first = pack_raw(raw, files, tmp_path / "a.tar.gz")
    later = shutil.copytree(raw, tmp_path / "later/one")
    for path in later.iterdir():
        path.chmod(0o600)
        path.touch()
    again = pack_raw(later, dict(reversed(files.items())), tmp_path / "b.tar.gz")
    assert first.sha256 == again.sha256
    assert first.files == len(files) == len(list(raw.iterdir()))
    assert gzip.decompress((tmp_path / "a.tar.gz").read_bytes())[:14] == b"one/SHA256SUMS"


def test_a_raw_file_that_changed_is_named(project, tmp_path):
    raw = shutil.copytree(project / "data/raw/one", tmp_path / "one")
    files = sums_of(raw)
    changed = next(raw.glob("run-*.json"))
    changed.write_text("{}")
    with pytest.raises(InputError, match=rf"{re.escape(changed.name)}' has SHA-256 44136fa355b3"):
        pack_raw(raw, files, tmp_path / "a.tar.gz")
    changed.unlink()
    with pytest.raises(InputError, match=rf"{re.escape(changed.name)}' is missing"):
        pack_raw(raw, files, tmp_path / "a.tar.gz")


@pytest.mark.parametrize("name", ["section.md", "manifest.json"])
def test_an_edition_that_is_not_whole_says_how_to_build_it(edition, name):
    (edition / name).unlink()
    with pytest.raises(InputError, match=r"2026\.11' is not whole .*'python -m study edition 2026\.11'"):
        read_published(edition)


def test_an_edition_without_a_stamp_is_refused(edition):
    section = (edition / "section.md").read_text()
    (edition / "section.md").write_text(section.replace("## Stamp", "## Something"))
    with pytest.raises(InputError, match="no table under '## Stamp'"):
        read_published(edition)


def test_the_stamp_is_the_one_of_the_section(edition):
    (stamp,) = read_published(edition).stamps
    assert stamp["vLLM version"] == "0.31.0"
    assert stamp["date of the newest record"] == "2026-09-21"
    assert stamp["card"] == "NVIDIA L4 (2 launches)"


def test_editions_are_ordered_by_their_numbers(edition, tmp_path):
    for name in ("2026.9", "2027.1", "2026.10"):
        shutil.copytree(edition, tmp_path / "editions" / name)
    assert [one.name for one in read_editions(tmp_path)] == ["2027.1", "2026.11", "2026.10", "2026.9"]


def test_a_rehearsal_is_known_by_its_manifest(edition):
    manifest = json.loads((edition / "manifest.json").read_text())
    manifest["studies"][0]["rehearsal"] = True
    (edition / "manifest.json").write_text(json.dumps(manifest))
    assert REHEARSAL_BANNER.split(":")[0] in read_published(edition).stamp_box()


def test_a_part_of_a_section_ends_where_the_next_begins():
    section = "# T\n\n## A (x)\n\nwords\n<!-- mark -->\n### below\n\nmore\n\n## B\n\nother\n"
    assert part_of(section, "A") == "words\n\n### below\n\nmore"
    assert part_of(section, "C") == ""


def test_a_title_is_split_from_its_page():
    assert split_title("<!-- x -->\n# The *title*\n\nwords\n") == ("The *title*", "<!-- x -->\n\n\nwords")
    assert split_title("words") == ("", "words")


def test_a_notebook_gets_its_stamp_after_the_title_and_keeps_the_rest(tmp_path):
    write_notebook(tmp_path / "a.ipynb")
    before = (tmp_path / "a.ipynb").read_bytes()
    cells = json.loads(stamp_notebook(tmp_path / "a.ipynb", "STAMP"))["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", "markdown", "code", "code"]
    assert cells[1]["source"] == "STAMP"
    assert [cell["metadata"].get("tags", []) for cell in cells[2:]] == [["parameters"], ["hide-input"]]
    assert (tmp_path / "a.ipynb").read_bytes() == before


@pytest.mark.parametrize(
    ("parameters", "title"),
    [({"study": "one"}, "# Title one"), ({}, "# Title"), ({"study": "<b>"}, "# Title"), ({"study": 3}, "# Title")],
)
def test_a_notebooks_title_names_its_study(tmp_path, parameters, title):
    path = tmp_path / "a.ipynb"
    write_notebook(path)
    notebook = json.loads(path.read_text())
    notebook["cells"][0]["source"] = ["# Title\n", "\n", "Text.\n"]
    notebook["metadata"]["papermill"] = {"parameters": parameters}
    path.write_text(json.dumps(notebook))
    first = json.loads(stamp_notebook(path, "STAMP"))["cells"][0]
    assert "".join(first["source"]) == f"{title}\n\nText.\n"


def test_a_notebook_that_was_not_executed_is_refused(tmp_path):
    write_notebook(tmp_path / "a.ipynb", executed=False)
    with pytest.raises(InputError, match="has no outputs; execute it with papermill"):
        stamp_notebook(tmp_path / "a.ipynb", "STAMP")
    (tmp_path / "b.ipynb").write_text("{}")
    with pytest.raises(InputError, match="is no notebook"):
        stamp_notebook(tmp_path / "b.ipynb", "STAMP")


def test_what_a_record_says_is_shown_and_not_carried_out():
    text = write_sheet(Sheet("a|b", ("x", "y"), (("<script>", "{download}`a` | $x$"),)))
    assert text.splitlines()[-1] == r"| \<script\> | \{download\}\`a\` \| \$x\$ |"


def test_no_pages_make_no_table_of_contents():
    assert list_pages() == ""
    assert "a/index" in list_pages("a/index").splitlines()


def test_a_folder_of_schemas_is_no_study(tmp_path):
    for name in ("schema/run-1.schema.json", "b/run-x.json", "a/launch-x.json", "c/session-1.json", "d/notes.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("{}")
    assert list_studies(tmp_path) == ["a", "b"]
    assert list_studies(tmp_path / "nowhere") == []


def test_a_project_without_pages_is_refused(project):
    with pytest.raises(InputError, match=r"docs' has no index\.md"):
        build_site(project, project / "site")
