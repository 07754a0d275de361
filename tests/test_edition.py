import csv
import hashlib
import json
import re
import shutil
from html.parser import HTMLParser

import pytest
import yaml
from edition_study import COSTS, make_root, rewrite_log, write_study
from make_records import make_launch, make_outcome

import study
from study.publish.edition import write_edition
from study.publish.page import REHEARSAL_BANNER
from study.publish.plates import REHEARSAL
from study.publish.study_view import read_use_for
from study.records import SessionRecord

PARTS = ["headline", "switches", "start", "cooled", "throttled", "reading", "decide", "stamp"]
FIGURES = ("tpot", "requests", "clock", "order", "starts", "start_parts", "costs", "served")
TITLES = [
    *("Headline", "What each level switches", "What the start costs", "Full-clock (cooled) session"),
    *("Throttled session", "Reading", "Decide", "Stamp"),
]
HOSTILE = "<script>alert(1)</script>|`x`](javascript:y) **b** $x$ \x1b[31mred\u202e\nhttp://evil.example/"


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("project"))
    write_study(folder / "data", "cool")
    write_study(folder / "data", "hot", session="throttled", costs={"default": 0.0, "O0": 0.05})
    return folder


@pytest.fixture(scope="module")
def edition(root):
    return write_edition(root, "2026.11", ["cool", "hot"])


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("rehearsal"))
    write_study(folder / "data", "rehearsal", rehearsal=True)
    return write_edition(folder, "rehearsal", ["rehearsal"])


@pytest.fixture(scope="module")
def hostile(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("hostile"))
    store = write_study(folder / "data", "bad", model=HOSTILE, blocks=1)
    first = store.read().launches[0]
    shared = {name: getattr(first, name) for name in ("study", "fingerprint", "comparable")}
    failed = make_outcome(status="failed", stage="ready", message=HOSTILE)
    store.write(make_launch("x", 1, first_token_s=None, resolved=None, outcome=failed, **shared))
    return write_edition(folder, "hostile", ["bad"])


def read(folder, name):
    return (folder / name).read_text(encoding="utf-8")


def all_bytes(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.seen, self.ids = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.seen.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]


def tags(folder):
    return Tags(read(folder, "index.html"))


def test_its_parts_stand_in_the_order_of_the_guide(edition):
    assert [line[3:] for line in read(edition, "section.md").splitlines() if line.startswith("## ")] == TITLES
    assert [attrs["id"] for tag, attrs in tags(edition).seen if tag == "section"] == PARTS


def test_it_has_every_file(edition):
    names = set(all_bytes(edition))
    assert {"section.md", "index.html", "edition.yaml", "manifest.json"} <= names
    figures = {f"figures/{one}-{key}.svg" for one in ("cool", "hot") for key in FIGURES}
    assert figures <= names
    assert {"tables/cool-runs.csv", "tables/hot-session.csv", "tables/cool-starts.csv"} <= names


def test_the_guides_tables(edition):
    text = read(edition, "section.md")
    assert re.search(
        r"\| 1 \| 60\.\d\d / 63\.\d\d / 60\.\d\d / 61\.\d\d ms \| 1,275 / 1,275 / 1,275 / 1,275 MHz \|", text
    )
    assert "210 / 210 MHz" in text
    assert "hw\\_thermal in" in text


def test_every_pair_has_interval_ranges_verdict_and_the_aa_check(edition):
    text = read(edition, "section.md")
    assert re.search(
        r"\| 1 user \| eager \| \+2\.\d\d percent \(\+\d\.\d\d to \+\d\.\d\d\) \| slower \(preliminary\) \| p = [^|]+"
        r"\| 2\.\d percent \| 61",
        text,
    )
    assert "they do not overlap | 10 percent by chance (3 against 3 runs) |" in text
    assert "A/A check: O3 and default resolved alike" in text


def test_a_session_that_was_not_measured_says_so(rehearsal):
    text = read(rehearsal, "section.md")
    assert text.count("Not measured: this edition has no throttled session.") == 1


def test_one_block_is_not_enough_evidence(tmp_path):
    write_study(make_root(tmp_path) / "data", "one", blocks=1)
    text = read(write_edition(tmp_path, "e", ["one"]), "section.md")
    assert "| not enough evidence |" in text
    assert "slower |" not in text


def test_the_parts_of_a_start_come_from_its_log(edition):
    assert re.search(r"\| weights \| 11\.1 s \|", read(edition, "section.md"))


def test_a_log_whose_clock_does_not_fit_is_named(tmp_path):
    store = write_study(make_root(tmp_path) / "data", "one", blocks=1, costs={"default": 0.0})
    log = store.log_path("b1-default-a1").read_text(encoding="utf-8")
    rewrite_log(store, "b1-default-a1", log.replace("14:13:44", "14:19:44"))
    assert "its clock does not fit" in read(write_edition(tmp_path, "e", ["one"]), "section.md")


def test_the_stamp(edition):
    text = read(edition, "section.md").split("## Stamp")[1]
    for row in ("| vLLM version | 0.31.0 |", "| date of the newest record | 2026-09-21 |", "| edition | 2026.11 |",
                "| driver | 580 |", "| model | Qwen/Qwen3-8B |", "| card | NVIDIA L4 (12 launches) |"):  # fmt: skip
        assert row in text


def test_building_again_gives_the_same_bytes(root, edition):
    before = all_bytes(edition)
    assert write_edition(root, "2026.11", []) == edition
    assert all_bytes(edition) == before
    shutil.rmtree(edition)
    write_edition(root, "2026.11", ["cool", "hot"])
    assert all_bytes(edition) == before


def test_it_leaves_executed_notebooks_alone_and_takes_old_figures_away(tmp_path):
    write_study(make_root(tmp_path) / "data", "one", blocks=1)
    folder = tmp_path / "editions" / "e"
    for name in ("notebooks/a.ipynb", "figures/old-tpot.svg", "tables/old-runs.csv"):
        (folder / name).parent.mkdir(parents=True)
        (folder / name).write_text("x")
    names = all_bytes(write_edition(tmp_path, "e", ["one"]))
    assert "notebooks/a.ipynb" in names
    assert not {"figures/old-tpot.svg", "tables/old-runs.csv"} & set(names)


def test_the_manifest_names_every_raw_file(root, edition):
    manifest = json.loads(read(edition, "manifest.json"))
    assert manifest["code"]["version"] == study.__version__
    for one in manifest["studies"]:
        raw = root / "data" / "raw" / one["study"]
        assert one["files"] == {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in raw.iterdir() if path.is_file()
        }
        assert len(one["fingerprint"]) == 16


def test_hand_edited_values_win(tmp_path):
    write_study(make_root(tmp_path) / "data", "one", blocks=1)
    path = write_edition(tmp_path, "e", ["one"]) / "edition.yaml"
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert values["users"] == {"one": None}
    path.write_text(yaml.safe_dump({**values, "edition": "2027.01", "users": {"one": [8]}}), encoding="utf-8")
    edited = path.read_bytes()
    text = read(write_edition(tmp_path, "e", ["one"]), "section.md")
    assert path.read_bytes() == edited
    assert "edition 2027.01" in text
    assert "| 8 users | O0 |" in text
    assert "| 1 user | O0 |" not in text


def test_what_the_last_session_asked_counts_where_the_file_is_silent(tmp_path):
    store = write_study(make_root(tmp_path) / "data", "one", blocks=1)
    first = store.read().launches[0]
    asked = {"users_published": [8], "margin": 0.03, "throttled_below_share": 0.2}
    levels = [{"name": "eager", "use_for": "this and that"}, {"name": "default"}]
    store.write(SessionRecord(study="one", fingerprint=first.fingerprint, session_id="1", asked=asked, levels=levels))
    text = read(write_edition(tmp_path, "e", ["one"]), "section.md")
    assert "default / eager / O0 / O3: medians over runs" in text
    assert "| this and that |" in text
    assert "band of 3 percent" in text
    assert "| 1 user |" not in text


def write_session(store, number, levels):
    print_of = store.read().launches[0].fingerprint
    asked = {"n": number}
    store.write(
        SessionRecord(study="one", fingerprint=print_of, session_id=str(number), asked=asked, levels=levels)
    )


def test_levels_keep_the_order_of_the_session_that_named_most_when_a_later_one_adds_to_a_few(tmp_path):
    store = write_study(make_root(tmp_path) / "data", "one", blocks=1)
    sessions = (
        [{"name": "default"}, {"name": "O0", "use_for": "words of the first"}, {"name": "eager"}],
        [{"name": "eager", "use_for": "words of the second"}, {"name": "default"}],
    )
    for number, levels in enumerate(sessions, 1):
        write_session(store, number, levels)
    use_for = read_use_for(tmp_path, store.read())
    assert list(use_for)[:3] == ["default", "O0", "eager"]
    assert (use_for["O0"], use_for["eager"]) == ("words of the first", "words of the second")


def test_of_sessions_that_named_as_many_levels_the_last_gives_the_order(tmp_path):
    store = write_study(make_root(tmp_path) / "data", "one", blocks=1)
    for number, names in enumerate((("default", "O0"), ("O0", "eager")), 1):
        levels = [{"name": name} for name in names]
        write_session(store, number, levels)
    assert list(read_use_for(tmp_path, store.read()))[:3] == ["O0", "eager", "default"]


def test_the_page_asks_nothing_of_the_network(edition):
    text = read(edition, "index.html")
    page = tags(edition)
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in page.seen}
    targets = [
        value for _, attrs in page.seen for name, value in attrs.items() if name in ("src", "href", "xlink:href")
    ]
    assert all(target.startswith(("#", "tables/")) for target in targets)
    assert "url(http" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text


def test_ids_of_the_page_are_its_own(edition):
    ids = tags(edition).ids
    assert len(ids) == len(set(ids))


def test_every_figure_has_words(edition):
    page = read(edition, "index.html")
    assert page.count('role="img" aria-labelledby=') == page.count("<desc ") == 2 * len(FIGURES)
    assert "![Median TPOT. 1 user: default 60." in read(edition, "section.md")


def test_a_rehearsal_says_so_everywhere(rehearsal):
    page, section = read(rehearsal, "index.html"), read(rehearsal, "section.md")
    assert '<div class="banner" role="alert">' in page
    assert "position: sticky" in page
    assert section.count(f"> **{REHEARSAL_BANNER}**") == 2
    assert page.count("rehearsal, no result</span>") == section.count("(rehearsal, no result)") == len(PARTS)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert len(captions) == len(FIGURES)
    assert all(REHEARSAL in caption for caption in captions)
    assert all(REHEARSAL in read(rehearsal, f"figures/{path.name}") for path in (rehearsal / "figures").iterdir())
    assert json.loads(read(rehearsal, "manifest.json"))["studies"][0]["rehearsal"] is True


def test_a_result_has_no_banner(edition):
    assert REHEARSAL not in read(edition, "index.html")
    assert "no result" not in read(edition, "section.md")


def test_hostile_text_is_shown_and_not_carried_out_in_html(hostile):
    page = tags(hostile)
    assert not {"script", "b"} & {tag for tag, _ in page.seen}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in read(hostile, "index.html")
    assert "\x1b" not in read(hostile, "index.html")
    assert "\u202e" not in read(hostile, "index.html")


def test_hostile_text_is_shown_and_not_carried_out_in_markdown(hostile):
    text = read(hostile, "section.md")
    assert "<script>" not in text
    assert r"\<script\>alert(1)\</script\>\|\`x\`\](javascript:y) \*\*b\*\* \$x\$ red" in text
    assert "http://evil" not in text
    row = next(line for line in text.splitlines() if line.startswith("| model |"))
    assert len(re.findall(r"(?<!\\)\|", row)) == 3


def test_a_level_without_a_figure_is_named(hostile):
    text = read(hostile, "section.md")
    assert "No figure of level x: failed at ready" in text


def test_tables_are_read_back(edition):
    with (edition / "tables" / "cool-runs.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 3 * len(COSTS) * 2
    assert {row["valid"] for row in rows} == {"True"}


def test_starts_alone_make_an_edition(tmp_path):
    store = write_study(make_root(tmp_path) / "data", "starts", blocks=2)
    for path in store.raw.glob("run-*.json"):
        path.unlink()
    text = read(write_edition(tmp_path, "e", ["starts"]), "section.md")
    assert "this study measured starts alone" in text
    assert "from spawn to first token: with warm caches default " in text
    assert "In too few blocks to tell levels apart" in text
    assert "Which level in production" not in text
    assert "When servers restart often" in text


def test_runs_whose_launches_are_lost_make_an_edition(tmp_path):
    store = write_study(make_root(tmp_path) / "data", "lost", blocks=1)
    for path in store.raw.glob("launch-*"):
        path.unlink()
    text = read(write_edition(tmp_path, "e", ["lost"]), "section.md")
    assert "Not enough evidence: " in text
    assert "| vLLM version | not recorded |" in text


def test_a_rehearsal_beside_a_result_marks_the_whole_edition(tmp_path):
    write_study(make_root(tmp_path) / "data", "one", blocks=1)
    write_study(tmp_path / "data", "try", blocks=1, rehearsal=True)
    assert REHEARSAL_BANNER in read(write_edition(tmp_path, "e", ["one", "try"]), "section.md")
