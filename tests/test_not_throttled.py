"""A session that was asked to be throttled and was not: it says so, with what was done and seen, and shows the card."""

import pytest
from edition_study import make_root, write_study
from make_records import make_gate, make_study
from test_findings import Card, throttled_card

from study.analyze.findings import find
from study.analyze.findings_parts import Throttling
from study.analyze.recommend import headline, recommend
from study.analyze.throttling_words import say_never_throttled, say_throttling
from study.publish.edition import write_edition
from study.publish.study_view import NOT_THROTTLED, ViewOptions, read_view
from study.publish.versus_side import read_side
from study.store import Store

SEEN = "median SM clock 2040 of 2040 MHz (100%)"


def soaked(waited_s, temperature_c):
    missing = {} if temperature_c is not None else {"temperature_c": "not supported"}
    return make_gate(kind="soak", status="timed_out", waited_s=waited_s, temperature_c=temperature_c, missing=missing)


def outcome(throttled, judged, soaks=(), evidence=(SEEN,)):
    reached = throttled == judged if judged else None
    return Throttling(True, reached, throttled, judged, 4, evidence, soaks)


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (outcome(0, 4), f"asked to be throttled and was not: 0 of 4 runs were throttled ({SEEN})"),
        (outcome(3, 4), f"asked to be throttled and was not in every run: 3 of 4 runs were throttled ({SEEN})"),
        (outcome(4, 4), f"asked to be throttled: 4 of 4 runs were throttled ({SEEN})"),
        (outcome(0, 0), f"asked to be throttled, and no run has evidence for or against it ({SEEN})"),
        (
            outcome(0, 2, (soaked(181.0, 50.0), soaked(182.3, 39.0))),
            "asked to be throttled and was not: 0 of 2 runs were throttled, after 181 to 182 s under load before each, "
            f"which ended at 39 to 50 \N{DEGREE SIGN}C ({SEEN})",
        ),
        (
            outcome(0, 2, (soaked(120.1, None), soaked(119.9, None)), ()),
            "asked to be throttled and was not: 0 of 2 runs were throttled, after 120 s under load before each",
        ),
    ],
)
def test_what_came_of_it_is_said_with_what_was_done_for_it(found, words):
    assert say_throttling(found) == words


def test_the_headline_names_no_cost_and_what_was_tried():
    said = headline(find(throttled_card(1900.0).study()))
    assert "asked to be throttled and was not: 0 of 10 runs" in said
    assert "not_throttled" not in said
    assert "a session that shows throttling on evidence" in said
    assert "asked to be throttled" not in headline(find(throttled_card(210.0).study()))


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("project"))
    cool_card = {"sm_clock_mhz": 2040.0, "event_reasons": 0x4}
    write_study(folder / "data", "tried", session="throttled", costs={"default": 0.0, "O0": 0.05}, card=cool_card)
    write_study(folder / "data", "hot", session="throttled", costs={"default": 0.0, "O0": 0.05})
    return folder


def view_of(root, name):
    return read_view(root, Store(root / "data", name), ViewOptions())


def test_the_clock_of_its_runs_is_drawn_and_said_to_count_nowhere(root):
    plate = view_of(root, "tried").draw()["clock"]
    assert plate.figure.axes
    assert "default 2,040 MHz, O0 2,040 MHz" in plate.alt
    assert plate.caption.endswith(NOT_THROTTLED)
    reached = view_of(root, "hot").draw()["clock"]
    assert reached.figure.axes
    assert NOT_THROTTLED not in reached.caption


def test_its_times_stay_out_of_every_figure(root):
    view = view_of(root, "tried")
    assert view.draw()["tpot"].figure.axes == []
    assert not view.found.runs["counts"].any()


def test_a_cooled_session_beside_it_says_that_it_stands_alone_and_what_was_tried():
    tried = find(throttled_card(1900.0).study())
    cooled = find(Card({"default": {1: 5.0}, "O0": {1: 24.0}}, {"default": 69.0, "O0": 36.0}).study())
    (kind,) = (one for one in recommend(cooled, [tried]) if one.key == "session_kind")
    assert kind.status == "not_measured"
    assert kind.sentences[0] == "This rests on a cooled session alone."
    assert "asked to be throttled and was not: 0 of 10 runs" in kind.sentences[1]
    (alone,) = (one for one in recommend(cooled) if one.key == "session_kind")
    assert len(alone.sentences) == 1
    assert "clock_lock" in kind.enough
    assert "clock_lock" not in alone.enough
    (of_it,) = (one for one in recommend(tried) if one.key == "session_kind")
    assert "asked to be throttled and was not" in of_it.sentences[0]
    assert not any("rests on a throttled session" in text for text in of_it.sentences)


def test_nothing_but_throttling_is_said_to_be_missing():
    missing = {one.key: one.enough for one in recommend(find(throttled_card(1900.0).study()))}
    assert (
        missing["why"] == missing["production"] == "a session that shows throttling on evidence, with five blocks of it"
    )


def test_its_decide_section_asks_what_can_be_asked(root):
    text = (write_edition(root, "2026.12", ["tried"]) / "section.md").read_text(encoding="utf-8")
    decide = text.split("## Decide")[1].split("## Stamp")[0]
    assert "No run counts, so only this can be asked." in decide
    assert [line.split("**")[1] for line in decide.splitlines() if line.startswith("- **")] == [
        "When servers restart often",
        "Whether the kind of session matters",
    ]


def test_a_comparison_warns_of_it(root):
    (part,) = read_side(root, "tried").parts
    assert any("asked to be throttled and was not: 0 of 12 runs were throttled" in one for one in part.cautions)
    (hot,) = read_side(root, "hot").parts
    assert hot.cautions == ()


def test_the_page_says_it_in_the_section_of_the_session(root):
    folder = write_edition(root, "2026.11", ["tried"])
    text = (folder / "section.md").read_text(encoding="utf-8")
    section = text.split("## Throttled session")[1].split("## Reading")[0]
    assert "This session was asked to be throttled and was not: 0 of 12 runs were throttled, after" in section
    assert "No figure of level" not in section
    assert "| 1 | default | 0 of 3 | 2,040 MHz | 60 \N{DEGREE SIGN}C |" in section


def test_runs_that_count_keep_every_question_though_others_were_not_throttled():
    card = throttled_card(210.0).study()
    cool = throttled_card(1900.0).study()
    runs = [other if one.block == 1 else one for one, other in zip(card.runs, cool.runs, strict=True)]
    found = find(make_study(card.launches, runs))
    assert not found.throttling.reached
    assert found.runs["counts"].any()
    assert say_never_throttled(found) == ""
    assert "asked to be throttled" not in headline(found)
