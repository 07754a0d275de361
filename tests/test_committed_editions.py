"""The editions of this project are what its raw records say: built again elsewhere, they are the same bytes."""

import re
import shutil
from pathlib import Path

import pytest

from study.publish.republish import publish_edition

ROOT = Path(__file__).parents[1]
EDITIONS = sorted(path.parent.name for path in (ROOT / "editions").glob("20*/edition.yaml"))


def files_of(folder):
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.parent.name != "notebooks"
    }


@pytest.fixture(scope="module", params=EDITIONS)
def rebuilt(request, tmp_path_factory):
    root = tmp_path_factory.mktemp("again")
    for part in ("data/raw", "data/reference", "notebooks/parameters", "editions"):
        shutil.copytree(ROOT / part, root / part)
    for path in (root / "editions" / request.param).rglob("*"):
        if path.is_file() and path.name not in ("edition.yaml", "section.md"):
            path.unlink()
    publish_edition(root, request.param, [])
    return request.param, root


def test_there_is_an_edition():
    assert EDITIONS


def test_it_is_the_same_bytes_again(rebuilt):
    edition, root = rebuilt
    ours, again = files_of(ROOT / "editions" / edition), files_of(root / "editions" / edition)
    assert set(ours) == set(again)
    assert [name for name, content in ours.items() if again[name] != content] == []


def test_its_changelog_line_is_the_same_again(rebuilt):
    _, root = rebuilt
    assert (root / "editions/CHANGELOG.md").read_text() == (ROOT / "editions/CHANGELOG.md").read_text()


def test_its_notebooks_were_executed_and_name_no_place_of_a_machine(rebuilt):
    edition, _ = rebuilt
    notebooks = sorted((ROOT / "editions" / edition / "notebooks").glob("*.ipynb"))
    assert "publish_edition.ipynb" in {path.name for path in notebooks}
    for path in notebooks:
        text = path.read_text(encoding="utf-8")
        assert '"output_type": "display_data"' in text
        assert not re.search(r"/(home|root|tmp|work|Users)/", text)


def test_the_readme_has_the_headline_of_the_newest():
    section = (ROOT / "editions" / EDITIONS[-1] / "section.md").read_text(encoding="utf-8")
    headline = re.search(r"^(On .*percent interval.*)$", section, re.MULTILINE)[1]
    readme = " ".join(line.removeprefix("> ") for line in (ROOT / "README.md").read_text(encoding="utf-8").splitlines())
    assert headline in readme
    assert f"editions/{EDITIONS[-1]}/figures/" in readme
