"""How one edition beside another is written, in a terminal and as Markdown."""

import dataclasses

import pytest
from test_versus import COSTS, changed, l4_h200, make_part, root  # noqa: F401 (fixtures)

from study.analyze.versus import set_beside
from study.analyze.versus_types import SettingPair, Side
from study.errors import InputError
from study.publish.versus import render_versus
from study.publish.versus_side import read_side
from study.publish.versus_words import say_setting

HOSTILE = "a|b <b>*x*</b>\x1b[31m\n# [y](http://z)"


def render(a, b, style="text"):
    return render_versus(set_beside(Side("a", "study", (a,)), Side("b", "study", (b,))), style)


def flat(text):
    """The text with its lines joined, as a reader takes it in."""
    return " ".join(text.split())


@pytest.fixture(scope="module")
def text(l4_h200):  # noqa: F811
    return render_versus(l4_h200)


@pytest.mark.parametrize(
    "said",
    [
        "A: reference edition 2026.10 of l4-full-clock, l4-throttled (published medians alone, without runs)",
        "Different cards (NVIDIA L4 and NVIDIA H200). Ratios are never imported from another card: each",
        "no verdict is made across the two.",
        "eager measured slower than default on both, at 1, 8 and 64 users: A +1.18 to +1.87 percent of published",
        "B +484.7 to +634.1 percent (1 block, no verdict), +561.9 percent over all its users.",
        "It is one label; whether it is one configuration cannot be told.",
        "How much slower eager is does not carry over",
        "In B the card waits for its host at 1, 8 and 64 users.",
        "A alone has l4-throttled (throttled, NVIDIA L4)",
        "no verdict: 1 block",
    ],
)
def test_the_h200_beside_the_published_edition(text, said):
    assert said in flat(text)


def test_uneven_blocks_share_their_noun(root):  # noqa: F811
    part = make_part({"default": 0.0, "eager": 1.0}, blocks=5)
    cell = part.cells[8, "eager"]
    fewer = dataclasses.replace(cell.cost, effect_percent=dataclasses.replace(cell.cost.effect_percent, n=4))
    by_users = {at: one for at, one in part.cells.items() if at[0] is not None}
    uneven = dataclasses.replace(part, cells={**by_users, (8, "eager"): dataclasses.replace(cell, cost=fewer)})
    said = render_versus(set_beside(read_side(root, "2026.10"), Side("b", "study", (uneven,))))
    assert "(4 to 5 blocks, verdicts by users)" in flat(said)


def test_medians_and_costs_stand_in_one_row(text):
    line = next(line for line in text.splitlines() if line.startswith("1 user") and "eager" in line)
    assert [part.strip() for part in line.split("  ") if part.strip()][2:5] == [
        "61.07 ms",
        "+1.18 percent of medians",
        "34.93 ms",
    ]


def test_a_terminal_can_show_every_line(text):
    assert max(len(line) for line in text.splitlines()) <= 130


@pytest.mark.parametrize("style", ["text", "markdown"])
def test_nothing_is_nan_or_none(l4_h200, style):  # noqa: F811
    said = render_versus(l4_h200, style)
    assert not any(word in said.lower().split() for word in ("nan", "none", "inf"))


def test_nothing_is_ever_set_against_the_other_side(text):
    assert "A against B" not in text
    assert "difference of A" not in text


@pytest.mark.parametrize("style", ["text", "markdown"])
@pytest.mark.parametrize("names", [("small", "2026.10"), ("2026.10", "small")])
def test_a_rehearsal_is_said_first(root, names, style):  # noqa: F811
    said = render_versus(set_beside(*(read_side(root, name) for name in names)), style)
    mark = "A" if names[0] == "small" else "B"
    first = said.splitlines()[0].strip("> *").replace("\\", "")
    assert first == f"REHEARSAL: {mark} (study small) is no result, and nothing here is."


def test_a_result_has_no_rehearsal_notice(text):
    assert "REHEARSAL" not in text


def test_one_card_makes_no_verdict_either():
    said = flat(render(make_part(COSTS, "first"), make_part(COSTS, "second", seed=2)))
    assert "The same card (NVIDIA L4). Ratios are never imported from another card, and even on one card" in said
    assert "eager is slower than default on both, at 1 and 8 users: A +" in said
    assert "overall, slower (preliminary)" in said


def test_a_label_of_two_things_is_named_with_its_settings():
    said = render(make_part(COSTS), make_part(COSTS, resolved={"eager": changed(kernel_config={"enable_x": True})}))
    assert "eager (A)" in said
    assert "eager (B)" in said
    assert "NO, two things" in said
    assert "kernel_config.enable_x" in said
    assert "not known there" in said
    assert "Nothing is said of eager on both" in flat(said)


def test_the_same_records_are_one_finding():
    part = make_part(COSTS)
    assert "is one finding, not two" in flat(render(part, part))


def test_what_qualifies_a_side_stands_above_its_figures():
    part = dataclasses.replace(make_part(COSTS), cautions=("METHOD BIASED: it is",))
    said = render(part, part)
    assert said.index("A: METHOD BIASED") < said.index("Side by side")


def test_sides_without_a_figure_in_common_say_so():
    part = make_part(COSTS)
    said = render(part, dataclasses.replace(part, users=(), cells={}))
    assert "No level has a figure at a number of users that both sides have." in said
    assert "Nothing that was measured on both." in said


@pytest.mark.parametrize("style", ["text", "markdown"])
def test_text_from_records_is_shown_and_never_carried_out(style):
    part = make_part({"default": 0.0, "eager": 0.05})
    part = dataclasses.replace(part, name=HOSTILE, cards=(HOSTILE,), facts={**part.facts, "model": HOSTILE})
    said = render(part, part, style)
    assert "\x1b" not in said
    assert not any(line.startswith("# [y]") for line in said.splitlines())
    if style == "markdown":
        assert "<b>" not in said.replace("\\<b", "")
        assert "](http" not in said.replace("\\](http", "")


def test_markdown_tables_have_as_many_cells_in_every_row(l4_h200):  # noqa: F811
    blocks = render_versus(l4_h200, "markdown").split("\n\n")
    tables = [block.splitlines() for block in blocks if block.startswith("| ")]
    assert len(tables) == 3
    assert all(len({line.count(" | ") for line in lines}) == 1 for lines in tables)


def test_an_unknown_style_is_refused(l4_h200):  # noqa: F811
    with pytest.raises(InputError, match="style 'html' is unknown; text and markdown work"):
        render_versus(l4_h200, "html")


@pytest.mark.parametrize(
    ("a", "b", "said"),
    [
        (("3",), ("0",), ("3", "0")),
        (("3", "null"), ("0",), ("3 or null", "0")),
        (("true",), (), ("true", "not known there")),
        (("[1, 2, 4, 8, 16]",), ("[1, 2, 4, 8, 32]",), ("5 entries, alone here: 16", "5 entries, alone here: 32")),
        (("[1, 2, 4, 8, 16]",), ("[]",), ("5 entries, alone here: 1, 2, 4, 8, 16", "0 entries")),
        (("[1, 2, 3, 4, 5]",), ("[5, 4, 3, 2, 1]",), ("5 entries in another order",) * 2),
    ],
)
def test_settings_say_what_differs(a, b, said):
    assert say_setting(SettingPair("x", a, b)) == ("x", *said)


def test_long_values_begin_where_they_still_differ():
    _, a, b = say_setting(SettingPair("x", ('"' + "m" * 200 + 'one"',), ('"' + "m" * 200 + 'two"',)))
    assert a != b
    assert max(len(a), len(b)) <= 61


def test_enumerations_have_their_names():
    said = say_setting(SettingPair("compilation_config.cudagraph_mode", ("0",), ("[2, 1]",)))
    assert said[1:] == ("0 (NONE)", "[2, 1] (FULL_AND_PIECEWISE)")
    assert say_setting(SettingPair("compilation_config.mode", ("3",), ("9",)))[1:] == ("3 (VLLM_COMPILE)", "9")
