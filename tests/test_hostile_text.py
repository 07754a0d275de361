"""Texts of records that would like to be markup: an edition shows them and is made of its own elements alone.

Two editions of the same records are built, one with plain words in every text field and one with hostile ones. What
differs between them may be text and nothing else.
"""

import json
import re
from collections import Counter
from html.parser import HTMLParser

import pytest
import yaml
from edition_study import make_root, rewrite_log, write_study
from make_records import make_launch, make_outcome
from markdown_it import MarkdownIt

from study.design.parameters import fingerprint
from study.publish.edition import write_edition
from study.store import Store

HOSTILE = (
    "<script>alert(1)</script><img src=x onerror=alert(1)>\" onmouseover=\"x' onfocus='y <!-- --> </td></table></svg>"
    " | `code` ``` [a](javascript:alert(1)) ![i](http://evil.example/i.png) <http://evil.example> **b** $m$ {{ 7*7 }}"
    " {% raw %} {#c#} &lt;b&gt; &#60;i&#62; https://evil.example/ www.evil.example <!-- study:end title -->\n\n# h\n"
    "- l\n1. n\n> q\n```\n<b>\n\n***\n<details open ontoggle=alert(1)>]]><![CDATA[<u>\x1b[31m\u202e\x00{target}`a`"
)
PLAIN = "a plain word " * 30
KEPT = {
    *("schema_version", "kind", "study", "fingerprint", "launch_id", "run_id", "session_id", "level", "session"),
    *("cache", "status", "log", "device", "pool_sha256", "hostname_sha256", "log_sha256", "throttle", "stopped_by"),
}
"""Fields with a form of their own, which a hostile text does not pass (`test_paths` holds that of names)."""


def poison(value, text, name=""):
    """Put `text` into every free text of a record, names of environment variables and versions among them."""
    if name in KEPT:
        return value
    if isinstance(value, dict):
        return {key: poison(item, text, key) for key, item in value.items()}
    if isinstance(value, list):
        return [poison(item, text) for item in value]
    return text if isinstance(value, str) else value


def more_texts(record, text):
    """Fill what a good launch leaves empty."""
    record |= {"flags": [text], "command": [text], "environment": {"VLLM_X": text}, "downgrades": [text]}
    record |= {"left_over": [text], "cache_not_emptied": [text]}
    record["outcome"] |= {"message": text, "log_tail": [text]}
    record["machine"]["versions"] = {"vllm": text, "torch": text}
    if record["resolved"]:
        record["resolved"][text] = text


def make_edition(folder, text):
    """Write the edition of a study whose records hold `text` wherever they hold text."""
    root = make_root(folder)
    store = write_study(root / "data", "words", blocks=2)
    first = store.read().launches[0]
    shared = {name: getattr(first, name) for name in ("study", "fingerprint", "comparable")}
    failed = make_outcome(status="failed", stage="ready", message="m")
    store.write(make_launch("O1", 1, first_token_s=None, resolved=None, outcome=failed, **shared))
    comparable = {**first.comparable, "model": text, "pool": text, "load_format": text}
    for path in store.raw.glob("*.json"):
        record = poison(json.loads(path.read_text()), text)
        if record["kind"] == "launch":
            more_texts(record, text)
            record["comparable"] = comparable
        record["fingerprint"] = fingerprint(comparable)
        path.write_text(json.dumps(record))
    for path in store.raw.glob("*.log"):
        rewrite_log(store, path.stem.removeprefix("launch-"), path.read_text() + text + "\n")
    levels = root / "notebooks/parameters/levels"
    named = yaml.safe_load((levels / "guide.yaml").read_text())
    use_for = text.replace("\0", "")  # a NUL is refused there
    named = {name: {**one, "use_for": use_for} for name, one in named.items()}
    (levels / "guide.yaml").write_text(yaml.safe_dump(named))
    assert len(Store(root / "data", "words").read().runs) == 16
    return write_edition(root, "words", ["words"])


@pytest.fixture(scope="module")
def editions(tmp_path_factory):
    return tuple(make_edition(tmp_path_factory.mktemp(name), text) for name, text in (("p", PLAIN), ("h", HOSTILE)))


class Elements(HTMLParser):
    """The elements of a page with the names of their attributes, its links, and its comments."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.links, self.comments = Counter(), set(), Counter()
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements[tag, tuple(sorted(name for name, _ in attrs))] += 1
        self.links |= {value for name, value in attrs if name in ("href", "src", "xlink:href", "action", "style")}

    def handle_comment(self, data):
        self.comments[data] += 1


def pages(editions, name):
    return tuple((folder / name).read_text(encoding="utf-8") for folder in editions)


def test_the_page_is_made_of_its_own_elements_alone(editions):
    plain, hostile = map(Elements, pages(editions, "index.html"))
    assert sum(plain.elements.values()) > 300
    assert set(hostile.elements) == set(plain.elements)
    assert hostile.links == plain.links
    assert hostile.comments == plain.comments
    text = {key: count for key, count in hostile.elements.items() if count != plain.elements[key]}
    assert {tag for tag, _ in text} <= {"text", "tspan", "g", "path", "use"}  # figures break long captions into lines


def test_the_hostile_text_is_really_shown(editions):
    shown = pages(editions, "index.html")[1]
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "{{ 7*7 }}" in shown
    assert not {"\x1b", "\u202e", "\x00"} & set(shown)


def tokens_of(text):
    """What a Markdown reader with raw HTML, tables and bare links switched on makes of a text."""
    reader = MarkdownIt("commonmark", {"html": True, "linkify": True}).enable("table")
    found, links, words = Counter(), set(), ""
    for token in reader.parse(text):
        for one in (token, *(token.children or ())):
            words += one.content if one.type in ("text", "text_special") else ""
            raw = one.content if one.type in ("html_block", "html_inline", "code_inline", "fence", "code_block") else ""
            if one.type not in ("text", "softbreak", "inline", "text_special"):
                found[one.type, one.tag, raw] += 1
            links |= {value for name, value in one.attrs.items() if name in ("href", "src")}
    return found, links, words


def test_the_markdown_holds_its_own_markup_alone(editions):
    plain, hostile = map(tokens_of, pages(editions, "section.md"))
    assert hostile[:2] == plain[:2]
    assert "<script>alert(1)</script><img src=x" in hostile[2]
    assert "&lt;b&gt; &#60;i&#62; https://evil.example/ www.evil" in hostile[2]  # shown as it is


def test_no_text_makes_a_table_cell_of_its_own(editions):
    plain, hostile = (
        [len(re.findall(r"(?<!\\)\|", line)) for line in text.splitlines() if line.startswith("|")]
        for text in pages(editions, "section.md")
    )
    assert len(plain) > 30
    assert hostile == plain


def test_markers_between_parts_stay_where_they_are(editions):
    plain, hostile = (text.splitlines() for text in pages(editions, "section.md"))
    assert [line for line in hostile if line.startswith("<!--")] == [line for line in plain if line.startswith("<!--")]


def test_figures_are_drawings_alone(editions):
    for plain in (editions[0] / "figures").glob("*.svg"):
        before, after = (Elements((folder / "figures" / plain.name).read_text()) for folder in editions)
        assert {tag for tag, _ in after.elements} == {tag for tag, _ in before.elements}
        assert not {name for _, names in after.elements for name in names if name.startswith("on")}


def test_the_manifest_is_json_whatever_the_texts(editions):
    manifest = json.loads((editions[1] / "manifest.json").read_text())
    assert len(str(manifest)) > 100
