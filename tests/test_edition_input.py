"""What an edition refuses, and what it makes of text that it did not write."""

import json
import re

import pytest
from edition_study import make_root, write_study

from study.errors import InputError
from study.publish.edition import write_edition
from study.publish.notebook import check_names, open_edition, open_study
from study.publish.plain_text import Markdown, clean_text, escape_markdown


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("project"))
    write_study(folder / "data", "cool", blocks=1)
    write_study(folder / "data", "hot", session="throttled", blocks=1)
    write_edition(folder, "2026.11", ["cool", "hot"])
    return folder


@pytest.mark.parametrize(
    ("name", "studies", "said"),
    [
        ("../out", ["cool"], "no folder name"),
        ("a/b", ["cool"], "no folder name"),
        ("", ["cool"], "no folder name"),
        ("..", ["cool"], "no folder name"),
        (2026.1, ["cool"], "in quotes"),
        ("new", [], "name the studies"),
        ("new", ["../cool"], "../cool"),
        ("new", ["cool", "cool"], "stands twice"),
        ("new", ["no-such"], "no-such"),
        ("new", ["empty"], "no records"),
        ("2026.11", ["empty"], "add it there or remove the file"),
    ],
)
def test_unusable_input_is_refused_in_one_line(root, name, studies, said):
    (root / "data" / "raw" / "empty").mkdir(exist_ok=True)
    with pytest.raises(InputError) as error:
        write_edition(root, name, studies)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert not (root / "editions" / "new").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("edition: 2026.1\nstudies: [cool]\n", "edition"),
        ("edition: x\nstudies: [cool]\nuser: {}\n", "known: edition, studies"),
        ("edition: x\nstudies: [cool]\nusers: {warm: [1]}\n", "'warm'"),
        ("edition: x\nstudies: [cool]\nusers: {cool: [3]}\n", "it has 1, 8"),
        ("- a\n", "must hold"),
    ],
)
def test_an_unusable_edition_file_is_refused_in_one_line(root, text, said):
    path = root / "editions" / "hand" / "edition.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        write_edition(root, "hand", [])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"studdy": "a", "study": "a"}, "'studdy' is unknown; did you mean 'study'?"),
        ({"study": None}, "'study' is missing"),
        ({"study": 3}, "3 is not text"),
        ({"study": "a", "studies": []}, "'studies'"),
        ({"study": "a", "studies": "a"}, "a list of names"),
    ],
)
def test_a_notebooks_parameters_are_checked(given, said):
    kinds = {"study": str} | ({"studies": list} if "studies" in given else {})
    with pytest.raises(InputError, match=re.escape(said)):
        check_names({"__name__": "x", "In": [], "json": json, **given}, kinds)


def test_notebooks_open_what_their_parameters_name(root, monkeypatch):
    monkeypatch.chdir(root / "notebooks")
    assert open_study({"study": "cool", "data_dir": "data"}).users == (1, 8)
    draft = open_edition({"edition": "2026.11", "studies": ["cool"], "data_dir": "data"})
    assert [view.found.study for view in draft.views] == ["cool", "hot"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("- a", r"\- a"),
        ("-O0 is slow", "-O0 is slow"),
        ("1. a", r"1\. a"),
        ("60.36 ms", "60.36 ms"),
        ("# a", r"\# a"),
        ("a\n\nb", "a b"),
        ("www.a.b", r"www\.a.b"),
    ],
)
def test_markdown_is_escaped_where_it_would_act(text, shown):
    assert escape_markdown(text) == shown
    assert escape_markdown(Markdown(text)) == text


def test_long_text_is_cut():
    assert clean_text("a" * 50, 10) == "a" * 9 + "\N{HORIZONTAL ELLIPSIS}"
