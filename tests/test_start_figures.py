import re
from dataclasses import replace

import numpy as np
import pytest
from edition_study import make_root, write_study
from make_records import COMPARABLE, make_launch, make_machine, make_study
from test_findings import Card, resolve

from study.analyze.breakeven import Regime, StartAndSpeed, find_break_even, solve_break_even
from study.analyze.findings import find
from study.analyze.findings_parts import BreakEvenAt
from study.analyze.joined_starts import complete_starts, join_starts
from study.analyze.level_tables import start_table
from study.analyze.recommend import recommend
from study.design.parameters import fingerprint
from study.errors import InputError
from study.publish.panels import Frame
from study.publish.sections import Shown, make_sections
from study.publish.sheets import list_starts
from study.publish.start_figures import UNACCOUNTED, draw_served, draw_start_parts, order_bars, say_short, segments
from study.publish.start_parts import LevelParts
from study.publish.study_view import ViewOptions, read_view

FRAME = Frame(("default", "O0"), (1, 8), rehearsal=False)
PARTS = (("imports and configuration", 25.0), ("compile", 38.0), ("capture", 0.0), ("silent after 'a'", 4.0))


def make_parts(level="default", cache="warm", **fields):
    whole = {"parts": PARTS, "unaccounted_s": 3.0, "wall_s": 70.0, "start_s": 70.0, "study": "mine"}
    return LevelParts(level=level, cache=cache, launch_id=f"b1-{level}-a1", **{**whole, **fields})


def at(level_s, level_token_s, *, users=1, cache="warm", blocks=5, level="O0"):
    """A level against a default that starts at 70 s and takes 5 ms for a token."""
    draw = np.random.default_rng(1)
    noise = lambda value: value * (1 + 0.001 * draw.standard_normal(blocks))  # noqa: E731
    ours, theirs = StartAndSpeed(noise(level_s), noise(level_token_s)), StartAndSpeed(noise(70.0), noise(0.005))
    return BreakEvenAt(level, "default", users, cache, "block", ours, theirs, find_break_even(ours, theirs))


def test_segments_add_up_to_the_start_and_what_nothing_accounts_for_is_one():
    found = segments(make_parts())
    assert sum(seconds for _, seconds in found) == 70.0
    assert dict(found)[UNACCOUNTED] == 3.0
    assert "capture" not in dict(found)


def test_a_log_without_stamps_is_all_unaccounted():
    bar = make_parts(parts=(("first token", 2.0),), unaccounted_s=None, wall_s=None)
    assert segments(bar) == [("first token", 2.0), (UNACCOUNTED, 68.0)]


@pytest.mark.parametrize(
    ("others", "said"),
    [
        ([make_parts("O0")], None),
        ([make_parts("O0"), make_parts(cache="cold", study="cold")], "warm of mine; cold of cold"),
        ([make_parts("O0", study="b")], "default, warm, of mine; O0, warm, of b"),
    ],
)
def test_bars_of_another_study_are_named(others, said):
    caption = draw_start_parts([make_parts(), *others], FRAME).caption
    assert caption.endswith(f" Bars of several studies: {said}." if said else "no line of the log accounts for it.")


def test_cold_and_warm_bars_of_a_level_stand_side_by_side():
    bars = order_bars([make_parts("O0"), make_parts(), make_parts(cache="cold")], ["default", "O0"])
    assert [(bar.level, bar.cache) for bar in bars] == [("default", "cold"), ("default", "warm"), ("O0", "warm")]


def test_bars_are_as_long_as_the_starts():
    plate = draw_start_parts([make_parts(), make_parts(cache="cold", unaccounted_s=157.0, wall_s=224.0, start_s=224.0)],
                             FRAME)  # fmt: skip
    (axes,) = plate.figure.axes
    ends = {}
    for bar in axes.patches:
        ends[bar.get_y()] = max(ends.get(bar.get_y(), 0.0), bar.get_x() + bar.get_width())
    assert sorted(ends.values()) == [70.0, 224.0]
    assert [text.get_text() for text in axes.get_yticklabels()] == ["default, cold", "default, warm"]
    assert {bar.get_hatch() for bar in axes.patches if bar.get_facecolor()[3] == 0.0} == {"//"}


def test_the_words_of_the_bars_state_the_finding():
    plate = draw_start_parts([make_parts(), make_parts(cache="cold", start_s=224.0, wall_s=224.0)], FRAME)
    assert "default 224.0 s cold, 70.0 s warm" in plate.alt
    assert "default, warm, 70.0 s: compile 38.0 s, imports and configuration 25.0 s" in plate.alt
    assert "no line accounts for 3.0 s" in plate.alt


def test_without_a_log_the_figure_says_why():
    assert "no log of a measured start was read" in draw_start_parts([], FRAME).alt


def test_the_crossing_is_where_both_have_served_equally_many():
    one = at(36.0, 0.025)
    plate = draw_served([one], Frame(("default", "O0"), (1,), rehearsal=False))
    ring = next(line for line in plate.figure.axes[0].lines if line.get_markersize() == 7.0)
    t_star = solve_break_even(one.level_input, one.default_input)
    # 70 + 5 (70 - 36) / (25 - 5) = 78.5 s
    assert t_star == pytest.approx(78.5, abs=0.2)
    assert ring.get_xdata()[0] == pytest.approx(t_star)
    assert ring.get_ydata()[0] == pytest.approx((t_star - 36.0) / 0.025, rel=0.01)
    assert "ahead until 7" in plate.alt


def test_a_panel_for_each_published_number_of_users_and_state_of_the_caches():
    entries = [at(36.0, 0.025, users=users, cache=cache) for users in (1, 8, 32) for cache in ("cold", "warm")]
    axes = [one for one in draw_served(entries, FRAME).figure.axes if one.axison]
    assert [one.get_title() for one in axes] == [
        "1 user, warm caches", "1 user, cold caches", "8 users, warm caches", "8 users, cold caches"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("start_s", "token_s", "regime", "words"),
    [
        (36.0, 0.0045, Regime.NEVER_LOSES, "O0: never behind"),
        (90.0, 0.0250, Regime.NEVER_WINS, "O0: never ahead"),
        (90.0, 0.0045, Regime.WINS_FROM, "O0: ahead from"),
    ],
)
def test_where_nothing_crosses_it_says_which_regime_holds(start_s, token_s, regime, words):
    one = at(start_s, token_s)
    assert one.result.regime is regime
    assert say_short(one).startswith(words)
    assert words in draw_served([one], FRAME).alt


def test_too_few_blocks_are_undecided_in_the_figure_too():
    assert "undecided" in say_short(at(36.0, 0.025, blocks=1))


def test_a_crossing_far_out_is_named_beyond_the_panel():
    plate = draw_served([at(36.0, 0.025), at(69.9, 0.00501, level="x")], FRAME)
    texts = [text.get_text() for text in plate.figure.axes[0].texts]
    assert any(text.startswith("O0: ahead until") for text in texts)
    plate = draw_served([at(36.0, 0.00501)], FRAME)
    assert "beyond the panel" in plate.figure.axes[0].texts[0].get_text()


def test_without_break_evens_the_figure_says_why():
    assert "starts alone" in draw_served([], FRAME, "starts alone were measured").alt


def test_figures_are_the_same_twice():
    first, second = (draw_served([at(36.0, 0.025)], FRAME).svg() for _ in range(2))
    assert first == second
    first, second = (draw_start_parts([make_parts()], FRAME).svg() for _ in range(2))
    assert first == second


TPOT = {"default": {1: 5.0, 8: 5.5}, "O0": {1: 25.0, 8: 26.0}}
COLD = {**COMPARABLE, "cache": "cold", "input_tokens": 1}


def speed_study(blocks=5):
    return find(Card(TPOT, {"default": 69.0, "O0": 36.0}, blocks=blocks).study())


def cold_study(blocks=3, **fields):
    return find(
        Card({}, {"default": 224.0, "O0": 186.0}, blocks=blocks, cache="cold", comparable=COLD, **fields).study()
    )


def test_cold_starts_go_with_the_token_times_of_a_speed_study():
    joined = join_starts(speed_study(), cold_study())
    assert [(one.level, one.users, one.cache) for one in joined] == [("O0", 1, "cold"), ("O0", 8, "cold")]
    one = joined[0]
    assert one.result.regime is Regime.WINS_UNTIL
    assert one.level_input.start_s.mean() == pytest.approx(186.0, rel=0.02)
    assert one.result.t_star_s.point == solve_break_even(one.level_input, one.default_input)


def test_a_lead_that_no_block_shows_is_one_by_means():
    shown, _ = speed_study().break_evens
    assert say_short(shown).startswith("O0: ahead until ")
    by_means = replace(shown, result=replace(shown.result, ahead_at_least_s=None))
    assert say_short(by_means).startswith("O0: by means until ")


def test_all_blocks_of_both_count_and_their_order_does_not():
    speed, cold = speed_study(blocks=5), cold_study(blocks=3)
    (one, _) = join_starts(speed, cold)
    assert (one.level_input.start_s.size, one.level_input.token_s.size, one.level_input.blocks) == (3, 5, 3)
    turned = [replace(gain, level_s=gain.level_s[::-1], default_s=gain.default_s[::-1]) for gain in cold.start_gains]
    (other, _) = join_starts(speed, replace(cold, start_gains=tuple(turned)))
    ours, theirs = one.result.t_star_s, other.result.t_star_s
    assert (theirs.point, theirs.low, theirs.high) == pytest.approx((ours.point, ours.low, ours.high))
    assert any("two samples that know nothing of each other" in note for note in one.notes)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"machine": make_machine(gpu_name="NVIDIA L4")}, "card 'NVIDIA L4' there, 'NVIDIA H200' here"),
        ({"comparable": {**COLD, "model": "other"}}, "model 'other' there, None here"),
        ({"comparable": {**COLD, "server_flags": ["--x"]}}, "server_flags"),
        ({"comparable": {**COLD, "session": "throttled"}}, "session 'throttled' there, 'cooled' here"),
        ({"machine": make_machine(gpu_name="NVIDIA H200", versions={"vllm": "0.32.0"})}, "vllm version '0.32.0'"),
    ],
)
def test_studies_that_do_not_fit_are_refused_by_name(fields, reason):
    launches = [
        make_launch(level, block, first_token_s=1000.0 + block, resolved=resolve(level),
                    **{"cache": "cold", "comparable": COLD, "machine": make_machine(gpu_name="NVIDIA H200"), **fields})
        for level in ("default", "O0") for block in (1, 2)
    ]  # fmt: skip
    with pytest.raises(InputError, match=re.escape(reason)):
        join_starts(speed_study(), find(make_study(launches)))


def test_a_study_without_runs_gives_no_speed():
    with pytest.raises(InputError, match="has no token times"):
        join_starts(cold_study(), cold_study())


def test_a_study_of_starts_completes_what_a_speed_study_recommends():
    speed, cold = speed_study(), cold_study(blocks=5)
    found = complete_starts(speed, [cold])
    assert [(one.users, one.cache) for one in found.break_evens] == [(1, "warm"), (8, "warm"), (1, "cold"), (8, "cold")]
    assert {gain.cache for gain in found.start_gains} == {"warm", "cold"}
    advice = next(one for one in recommend(found) if one.key == "restart_often")
    said = " ".join(advice.sentences)
    assert "(caches cold)" in said
    assert "Cold starts are those of study test" in said
    assert complete_starts(cold, [speed]).break_evens[0].cache == "cold"


def test_its_own_starts_go_before_those_of_another_study():
    speed = speed_study()
    warm = find(Card({}, {"default": 80.0, "O0": 20.0}, blocks=5).study())
    assert complete_starts(speed, [warm]).break_evens == speed.break_evens


def test_a_study_that_does_not_fit_adds_its_reason():
    other = cold_study(machine=make_machine(gpu_name="NVIDIA L4"))
    assert "card 'NVIDIA L4'" in complete_starts(other, [speed_study()]).break_even_reason


def starts_of(later_s, blocks):
    """O0 starts later by the given seconds, block by block; the default at 69 s plus the block."""
    places = [(level, block) for level in ("default", "O0") for block in range(1, blocks + 1)]
    later = {("O0", block): later_s[block - 1] for block in range(1, blocks + 1)}
    return make_study(make_launch(*place, first_token_s=869.0 + place[1] + later.get(place, 0.0)) for place in places)


def test_the_difference_to_the_default_is_paired_by_block_with_its_t_interval():
    row = start_table(starts_of([-30.0, -32.0, -34.0], 3)).set_index("level").loc["O0"]
    # mean -32, sd 2, t(0.975, 2) = 4.3027: half width 4.3027 * 2 / sqrt(3) = 4.968
    assert row["difference_s"] == pytest.approx(-32.0)
    assert row["difference_low_s"] == pytest.approx(-36.968, abs=1e-3)
    assert row["difference_high_s"] == pytest.approx(-27.032, abs=1e-3)
    assert (row["difference_n"], row["difference_unit"]) == (3, "block")


def test_two_blocks_have_a_difference_and_no_interval():
    row = start_table(starts_of([-30.0, -32.0], 2)).set_index("level").loc["O0"]
    assert row["difference_s"] == pytest.approx(-31.0)
    assert row["difference_low_s"] != row["difference_low_s"]  # NaN
    assert row["difference_reason"].startswith("2 block")


def test_the_printed_table_has_the_interval_and_the_time_to_the_first_token():
    found = find(starts_of([-30.0, -32.0, -34.0], 3))
    row = next(row for row in list_starts(found).rows if row[0] == "O0")
    assert "\N{MINUS SIGN}32.0 s (\N{MINUS SIGN}37.0 to \N{MINUS SIGN}27.0, 3 blocks)" in row
    assert "later than default (95 percent interval)" in list_starts(found).head


@pytest.fixture(scope="module")
def views(tmp_path_factory):
    root = make_root(tmp_path_factory.mktemp("project"))
    store = write_study(root / "data", "speed")
    cold = write_study(root / "data", "cold", session="cooled")
    launches = cold.read().launches
    for path in cold.raw.glob("*.json"):
        path.unlink()
    comparable = {**launches[0].comparable, "cache": "cold"}
    changes = {"cache": "cold", "comparable": comparable, "fingerprint": fingerprint(comparable)}
    for launch in launches:
        cold.write(launch.model_copy(update={**changes, "cache_emptied": ["Triton kernels"]}))
    return [read_view(root, one, ViewOptions()) for one in (store, cold)]


def test_a_view_stands_beside_the_starts_of_the_studies_after_it(views):
    speed, cold = views
    both, alone = (speed.draw(others)["start_parts"].figure.axes[0] for others in (views, ()))
    assert len(both.get_yticklabels()) == 2 * len(alone.get_yticklabels())
    assert "cold caches" in speed.draw(views)["served"].alt
    assert "cold caches" not in speed.draw()["served"].alt
    assert "starts alone were measured" in cold.draw()["served"].alt


def test_the_edition_says_what_was_emptied(views):
    tables = {"starts": "tables/x.csv"}
    shown = [Shown(view, view.advise(views), view.draw(views), tables, view.found.study) for view in views]
    sections = {section.key: section for section in make_sections("2026.11", shown)}
    said = " ".join(text for block in sections["start"].blocks for text in block.sentences)
    assert "these caches were emptied: Triton kernels" in said
    assert "Before a warm start nothing was emptied" in said
    assert {picture.plate.key for picture in sections["start"].blocks[0].pictures} == {"starts", "start_parts"}
    assert [picture.plate.key for picture in sections["decide"].blocks[0].pictures] == ["served"]
