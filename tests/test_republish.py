"""Editions one after the other: a comparison with the one before, a changelog line each, and the old one left alone."""

import json
import re

import pytest
from edition_study import make_root, write_study

from study.__main__ import main
from study.errors import InputError
from study.publish.last_edition import find_last
from study.publish.marked_parts import MarkedText
from study.publish.republish import add_entry, publish_edition

REFERENCE = {
    "edition": "2026.10",
    "vllm_version": "0.31.0",
    "vllm_commit": "db9527a",
    "date": "2026-10-05",
    "note": "Published medians only.",
    "sessions": [],
}


def all_bytes(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def read(folder, name):
    return (folder / name).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    """A project with two editions: 2026.11 with prose of a person, then 2026.12 of other records."""
    folder = make_root(tmp_path_factory.mktemp("project"))
    write_study(folder / "data", "november", blocks=1, costs={"default": 0.0, "O0": 0.05})
    write_study(folder / "data", "december", blocks=1, costs={"default": 0.0, "O0": 0.08})
    old = publish_edition(folder, "2026.11", ["november"])
    section = read(old, "section.md").replace("<!-- study:end headline -->", "<!-- study:end headline -->\n\nBy hand.")
    (old / "section.md").write_text(section, encoding="utf-8")
    publish_edition(folder, "2026.11", [])
    log = folder / "editions" / "CHANGELOG.md"
    log.write_text(log.read_text(encoding="utf-8") + "\nA sentence of ours.\n", encoding="utf-8")
    (folder / "editions" / "before.json").write_text(json.dumps(sums(old)), encoding="utf-8")
    publish_edition(folder, "2026.12", ["december"])
    return folder


def sums(folder):
    return {name: data.hex() for name, data in all_bytes(folder).items()}


def test_the_edition_before_is_unchanged_with_its_prose(root):
    old = root / "editions" / "2026.11"
    assert sums(old) == json.loads((root / "editions" / "before.json").read_text(encoding="utf-8"))
    assert "By hand." in read(old, "section.md")
    assert "By hand." in read(old, "index.html")


def test_the_new_one_has_a_stamp_and_records_of_its_own(root):
    text = read(root / "editions" / "2026.12", "section.md")
    assert "| edition | 2026.12 |" in text
    assert "Stamp of december" in text
    assert "By hand." not in text


def test_the_new_one_is_set_beside_the_one_before(root):
    new = root / "editions" / "2026.12"
    assert read(new, "comparison.md").startswith("# 2026.11 beside 2026.12\n")
    assert "<h1>2026.11 beside 2026.12</h1>" in read(new, "comparison.html")
    assert "The edition before: 2026.11. [Set beside it](comparison.md)." in read(new, "section.md")
    assert '<a href="comparison.html">Set beside it</a>' in read(new, "index.html")
    assert not (root / "editions" / "2026.11" / "comparison.md").exists()


def test_the_comparison_has_the_figures_of_both(root):
    text = read(root / "editions" / "2026.12", "comparison.md")
    row = next(line for line in text.splitlines() if line.startswith("| 1 user | O0 |"))
    costs = re.findall(r"\+(\d\.\d\d) percent", row)
    assert [round(float(cost)) for cost in costs] == [5, 8]


def test_the_changelog_has_a_line_an_edition_newest_first(root):
    text = read(root / "editions", "CHANGELOG.md")
    lines = [line for line in text.splitlines() if line.startswith("- ")]
    assert [line[4:13] for line in lines] == ["[2026.12]", "[2026.11]"]
    assert "(vLLM 0.31.0, NVIDIA L4, records to 2026-09-21): On one NVIDIA L4" in lines[0]
    assert lines[0].endswith("Set beside 2026.11: [comparison](2026.12/comparison.md).")
    assert "comparison" not in lines[1]
    assert "A sentence of ours." in text


def test_publishing_again_changes_nothing(root):
    before = all_bytes(root / "editions")
    publish_edition(root, "2026.12", [])
    publish_edition(root, "2026.11", [])
    assert all_bytes(root / "editions") == before


def test_records_that_changed_since_are_named(root):
    manifest = root / "editions" / "2026.11" / "manifest.json"
    kept = manifest.read_text(encoding="utf-8")
    known = json.loads(kept)
    known["studies"][0]["files"].popitem()
    manifest.write_text(json.dumps(known), encoding="utf-8")
    text = read(publish_edition(root, "2026.12", []), "comparison.md")
    assert text.startswith("> **Records of november changed since 2026.11 was published")
    manifest.write_text(kept, encoding="utf-8")
    publish_edition(root, "2026.12", [])


@pytest.fixture
def small(tmp_path):
    write_study(make_root(tmp_path) / "data", "one", blocks=1, costs={"default": 0.0, "eager": 0.02})
    return tmp_path


def test_a_draft_has_neither_comparison_nor_line(small):
    publish_edition(small, "2026.11", ["one"])
    folder = publish_edition(small, "mine", ["one"])
    assert not (folder / "comparison.md").exists()
    assert "mine" not in read(small / "editions", "CHANGELOG.md")


def test_one_that_cannot_be_read_is_named(small):
    publish_edition(small, "2026.11", ["one"])
    write_study(small / "data", "two", blocks=1)
    for path in (small / "data" / "raw" / "one").iterdir():
        path.unlink()
    folder = publish_edition(small, "2026.12", ["two"])
    text = read(folder, "section.md")
    assert "The edition before, 2026.11, could not be read: study 'one' has no records in 'data/raw/one'" in text
    assert str(small) not in text
    assert not (folder / "comparison.md").exists()


def test_a_broken_changelog_is_refused_before_anything_is_written(small):
    log = small / "editions" / "CHANGELOG.md"
    log.parent.mkdir()
    log.write_text("<!-- study:begin 2026.11 -->\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no end"):
        publish_edition(small, "2026.12", ["one"])
    assert [path.name for path in log.parent.iterdir()] == ["CHANGELOG.md"]


def put(root, kind, name, rehearsal=False):
    if kind == "reference":
        place = root / "data" / "reference"
        place.mkdir(parents=True, exist_ok=True)
        (place / f"edition-{name}.json").write_text(json.dumps(REFERENCE), encoding="utf-8")
    else:
        folder = root / "editions" / name
        folder.mkdir(parents=True)
        (folder / "edition.yaml").write_text("", encoding="utf-8")
        studies = [{"study": "x", "rehearsal": rehearsal, "files": {}}]
        (folder / "manifest.json").write_text(json.dumps({"studies": studies}), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "last"),
    [
        ("2026.10", "edition:2026.09"),
        ("2026.11", "edition:2026.10"),
        ("2026.12", "edition:2026.11"),
        ("2027.01", "edition:2026.11"),
        ("2026.11.1", "edition:2026.11"),
        ("2026.09", "reference:2026.02"),
        ("2026.02", None),
        ("mine", None),
    ],
)
def test_the_one_before_is_the_newest_that_is_older(tmp_path, name, last):
    for kind, other in [
        *(("reference", one) for one in ("2026.02", "2026.10")),
        *(("edition", one) for one in ("2026.09", "2026.10", "2026.11", "draft")),
    ]:
        put(tmp_path, kind, other)
    assert find_last(tmp_path, name, rehearsal=False) == last


def test_a_rehearsal_is_not_the_one_before_a_result(tmp_path):
    put(tmp_path, "edition", "2026.11", rehearsal=True)
    assert find_last(tmp_path, "2026.12", rehearsal=False) is None
    assert find_last(tmp_path, "2026.12", rehearsal=True) == "edition:2026.11"


def test_an_entry_is_replaced_in_its_place():
    log = MarkedText({"2026.12": "c", "2026.09": "a"}, {})
    text = add_entry(log, "2026.12", "new")
    assert [line for line in text.splitlines() if line and not line.startswith("<!--")] == ["new", "a"]


def test_the_command_lists_what_prose_may_quote_and_writes_nothing(small, monkeypatch, capsys):
    monkeypatch.chdir(small)
    assert main(["edition", "2026.12", "one", "--figures"]) == 0
    listed = dict(line.split("\t") for line in capsys.readouterr().out.splitlines())
    assert re.fullmatch(r"60\.\d\d ms", listed["default.u1.tpot_ms"])
    assert listed["one/default.u1.tpot_ms"] == listed["default.u1.tpot_ms"]
    assert listed["eager.overall.verdict"] == "not enough evidence"
    assert not (small / "editions").exists()


def test_the_command_publishes_and_says_where(small, monkeypatch, capsys):
    monkeypatch.chdir(small)
    assert main(["edition", "2026.12", "one"]) == 0
    assert capsys.readouterr().out == f"{small / 'editions' / '2026.12'}\n"
    assert (small / "editions" / "CHANGELOG.md").is_file()
