"""What a person writes around generated parts: it is kept, shown, and its figures are held against the records."""

import re
import shutil

import pytest
from edition_study import make_root, write_study

from study.errors import InputError
from study.publish.edition import write_edition
from study.publish.marked_parts import MarkedText, Prose, keep_prose, read_marked, write_marked
from study.publish.prose import render_prose
from study.publish.quotes import check_quotes

PART = "<!-- study:begin {0} -->\n{0} text\n<!-- study:end {0} -->\n"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("project"))
    write_study(folder / "data", "one", blocks=1, costs={"default": 0.0, "O0": 0.05})
    write_edition(folder, "e", ["one"])
    return folder


@pytest.fixture
def edition(project, tmp_path):
    return shutil.copytree(project, tmp_path / "project") / "editions" / "e"


def add_prose(edition, text, after="headline"):
    """Write prose after a part of the section, and return the line it begins at."""
    path = edition / "section.md"
    before, mark, rest = path.read_text(encoding="utf-8").partition(f"<!-- study:end {after} -->\n")
    path.write_text(f"{before}{mark}\n{text}\n{rest}", encoding="utf-8")
    return (before + mark).count("\n") + 2


def build_again(edition):
    return write_edition(edition.parents[1], edition.name, [])


def read(edition, name):
    return (edition / name).read_text(encoding="utf-8")


def all_bytes(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_parts_and_prose_are_told_apart():
    found = read_marked(f"top\n\n{PART.format('a')}\n  between\n\nmore  \n\n{PART.format('b')}end", "f.md")
    assert found.parts == {"a": "a text", "b": "b text"}
    assert found.prose == {"": Prose("top", 1), "a": Prose("  between\n\nmore  ", 7), "b": Prose("end", 14)}


def test_writing_what_was_read_changes_nothing():
    text = f"top\n\n{PART.format('a')}\nbetween\n\n{PART.format('b')}"
    found = read_marked(text, "f.md")
    assert write_marked(found.parts, found.prose) == text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no marker at all", "'f.md' has no markers"),
        ("<!-- study:begin a -->\nx", "line 1: part 'a' has no end"),
        ("x\n<!-- study:end a -->", "line 2: part 'a' ends here, but no part is open"),
        ("<!-- study:begin a -->\n<!-- study:end b -->", "line 2: part 'b' ends here, but part 'a' is open"),
        ("<!-- study:begin a -->\n<!-- study:begin b -->", "line 2: part 'b' begins inside part 'a'"),
        (PART.format("a") * 2, "line 4: part 'a' is there twice"),
        ("<!-- study:begn a -->", "line 1: '<!-- study:begn a -->' is no marker"),
        ("<!-- study:begin a --> text", "is no marker"),
        ("<!-- study begin a -->", "is no marker"),
    ],
)
def test_broken_markers_are_refused_in_one_line(text, said):
    with pytest.raises(InputError, match=re.escape(said)) as error:
        read_marked(text, "f.md")
    assert "\n" not in str(error.value)


FRESH = MarkedText({"a": "1", "b": "2", "new": "3"}, {})


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("a", "c", "b"), "part 'c' is not generated"),
        (("a",), "has no part 'b'"),
        (("b", "a"), "part 'b' stands where 'a' belongs"),
    ],
)
def test_a_file_of_other_parts_is_refused(names, said):
    with pytest.raises(InputError, match=re.escape(said)):
        keep_prose(FRESH, MarkedText(dict.fromkeys(names, ""), {}), ("a", "b"), "f.md")


def test_a_part_that_is_new_goes_in():
    old = MarkedText({"a": "", "b": ""}, {"b": Prose("kept", 9)})
    assert keep_prose(FRESH, old, ("a", "b"), "f.md") == MarkedText(FRESH.parts, old.prose)


def test_prose_is_kept_and_stands_on_the_page(edition):
    add_prose(edition, "Written *by hand*.")
    build_again(edition)
    text = read(edition, "section.md")
    assert "<!-- study:end headline -->\n\nWritten *by hand*.\n\n<!-- study:begin switches -->" in text
    assert '<div class="prose">\n<p>Written <em>by hand</em>.</p>' in read(edition, "index.html")
    before = all_bytes(edition)
    build_again(edition)
    assert all_bytes(edition) == before


def test_prose_is_kept_where_the_records_change(edition):
    add_prose(edition, "Written by hand.", after="decide")
    root = edition.parents[1]
    write_study(root / "data", "two", blocks=2)
    (edition / "edition.yaml").write_text("edition: e\nstudies: [two]\n", encoding="utf-8")
    build_again(edition)
    text = read(edition, "section.md")
    assert "<!-- study:end decide -->\n\nWritten by hand.\n" in text
    assert "Stamp of two" in text


@pytest.mark.parametrize(
    "broken", ["<!-- study:begin headline -->", "<!-- study:end stamp -->", "<!-- study:end end -->"]
)
def test_with_a_marker_missing_nothing_is_overwritten(edition, broken):
    path = edition / "section.md"
    path.write_text(path.read_text(encoding="utf-8").replace(broken, ""), encoding="utf-8")
    (edition / "index.html").write_text("as it was", encoding="utf-8")
    before = all_bytes(edition)
    with pytest.raises(InputError):
        build_again(edition)
    assert all_bytes(edition) == before


def test_a_record_cannot_make_a_marker(tmp_path):
    write_study(make_root(tmp_path) / "data", "one", blocks=1, model="<!-- study:end stamp -->", costs={"default": 0.0})
    folder = write_edition(tmp_path, "e", ["one"])
    assert read(folder, "section.md").count("<!-- study:end stamp -->") == 1
    build_again(folder)


def quote(name, text):
    return f"It takes <!-- figure: {name} -->{text}<!-- /figure --> here."


def test_a_figure_that_is_right_is_quoted(edition):
    add_prose(edition, quote("O0.u1.tpot_ms", tpot_of(edition)))
    build_again(edition)
    assert f"<p>It takes {tpot_of(edition)} here.</p>" in read(edition, "index.html")


def tpot_of(edition):
    """Return O0 at one user, the second level in the guide's table."""
    return re.search(r"\| 1 \| [\d.]+ / ([\d.]+) ms", read(edition, "section.md"))[1] + " ms"


def test_a_figure_that_is_no_longer_right_names_line_and_both_texts(edition):
    line = add_prose(edition, "First line.\n" + quote("O0.u1.tpot_ms", "99.99 ms"))
    right, before = tpot_of(edition), all_bytes(edition)
    with pytest.raises(InputError) as error:
        build_again(edition)
    path = edition / "section.md"
    assert str(error.value) == (
        f"'{path}', line {line + 1}: 'O0.u1.tpot_ms' is quoted as '99.99 ms', the records say '{right}'"
    )
    assert all_bytes(edition) == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (quote("O0.u1.tpot", "5 ms"), "figure 'O0.u1.tpot' is unknown; did you mean 'O0.u1.tpot_ms'?"),
        (quote("nonsense", "5 ms"), "--figures' lists all"),
        ("<!-- figure: O0.u1.tpot_ms -->5.12 ms", "has no '<!-- /figure -->'"),
        ("5.12 ms<!-- /figure -->", "does not pair"),
        (quote("O0.u1.tpot_ms", "<!-- figure: O0.u1.tpot_ms -->5.12 ms"), "does not pair"),
        ("<!-- figure O0.u1.tpot_ms -->5.12 ms<!-- /figure -->", "a figure is quoted as"),
    ],
)
def test_a_quote_that_cannot_be_checked_is_refused(text, said):
    with pytest.raises(InputError, match=re.escape(said)) as error:
        check_quotes({"headline": Prose(text, 7)}, {"O0.u1.tpot_ms": "5.12 ms"}, "f.md")
    assert "'f.md', line 7:" in str(error.value)


def test_a_minus_may_be_typed_as_a_hyphen_and_a_quote_be_wrapped():
    text = quote("x.overall.cost", "-0.11 percent\n(no interval)")
    check_quotes({"": Prose(text, 1)}, {"x.overall.cost": "\N{MINUS SIGN}0.11 percent (no interval)"}, "f.md")


@pytest.mark.parametrize(
    ("text", "html"),
    [
        ("<script>alert(1)</script>", "&lt;script&gt;"),
        ("[x](javascript:alert(1))", "[x](javascript:alert(1))"),
        ("![x](http://example.org/x.png)", '!<a href="http://example.org/x.png">x</a>'),
        ("a<!-- note to self -->b", "<p>ab</p>"),
        ("# big", "<h3>big</h3>"),
        ("| a |\n| --- |\n| b |", '<div class="scroll" tabindex="0" role="region" aria-label="table"><table>'),
    ],
)
def test_prose_brings_no_script_no_html_and_no_picture(text, html):
    assert html in render_prose(text)
