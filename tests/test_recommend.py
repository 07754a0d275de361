import math
import re
from dataclasses import replace

import pytest
from make_records import COMPARABLE, make_cpu_machine, make_launch, make_machine, make_outcome, make_study
from test_findings import Card, resolve, throttled_card

from study.analyze.findings import FindOptions, find
from study.analyze.findings_parts import StartGain
from study.analyze.formats import listed
from study.analyze.joined_starts import complete_starts
from study.analyze.recommend import QUESTIONS, REHEARSAL, headline, recommend
from study.analyze.recommend_leads import describe_leads
from study.analyze.recommend_words import describe_gain, describe_gains, lifetime, number, percent
from study.analyze.stats import Estimate
from study.design.parameters import fingerprint

# One H200, vLLM 0.31.0, Qwen3-8B: TPOT in ms as seen there, and starts with warm caches.
H200_TPOT = {
    "default": {1: 5.09, 8: 5.42, 32: 5.76},
    "O3": {1: 5.09, 8: 5.43, 32: 5.74},
    "O0": {1: 21.6, 8: 22.6, 32: 31.2},
    "eager": {1: 35.3, 8: 36.6, 32: 41.0},
    "graphs-only": {1: 5.09, 8: 5.42, 32: 5.76},
    "compile-only": {1: 17.0, 8: 19.0, 32: 20.7},
}
H200_START = {"default": 69.0, "O3": 69.0, "O0": 40.0, "eager": 36.0, "graphs-only": 45.0, "compile-only": 60.0}
L4_TPOT = {
    "default": {1: 60.36, 8: 65.75, 32: 101.79, 64: 129.15},
    "eager": {1: 61.55, 8: 67.05, 32: 103.80, 64: 131.70},
}
L4_START = {"default": 90.0, "eager": 60.0}
TWO_STARTS = {"default": 69.0, "eager": 36.0}


def l4_card(blocks=5, tpot_ms=L4_TPOT, start_s=L4_START, **fields):
    telemetry = {"sm_clock_mhz": 1275.0, "period_s": 5.0}
    return Card(tpot_ms, start_s, blocks=blocks, machine=make_machine(), telemetry_fields=telemetry, **fields)


def advise(found, others=()):
    return {advice.key: advice for advice in recommend(found, others)}


def text_of(advice):
    return " ".join(advice.sentences)


@pytest.fixture(scope="module")
def h200():
    return find(Card(H200_TPOT, H200_START, noise=0.002).study())


@pytest.fixture(scope="module")
def l4():
    return find(l4_card().study())


def one_block():
    return find(Card({"default": {1: 5.09}, "eager": {1: 24.0}}, TWO_STARTS, blocks=1).study())


def without_compile_alone(**changes):
    """Some H200: graphs alone cost 6 percent, and neither part costs a factor; compile alone was not run."""
    tpot_ms = {"default": {1: 5.14, 8: 5.46}, "graphs-only": {1: 5.45, 8: 5.79}, "eager": {1: 34.9, 8: 31.6}}
    return find(Card(tpot_ms, {level: H200_START[level] for level in tpot_ms}, noise=0.002, **changes).study())


def starts_alone():
    return find(Card({}, TWO_STARTS).study())


def not_throttled():
    return find(throttled_card(1900.0).study())


def rehearsal():
    comparable = {**COMPARABLE, "device": "cpu"}
    shared = {"rehearsal": True, "comparable": comparable, "fingerprint": fingerprint(comparable)}
    nothing_read = {"power_w": None, "sm_clock_mhz": None}
    tpot_ms = {"default": {1: 8.0}, "O0": {1: 11.0}}
    card = Card(
        tpot_ms, {"default": 33.0, "O0": 25.0}, machine=make_cpu_machine(), telemetry_fields=nothing_read, **shared
    )
    return find(card.study())


STUDIES = [one_block, starts_alone, not_throttled, rehearsal, lambda: find(make_study([]))]


@pytest.mark.parametrize("make", STUDIES)
def test_every_question_has_an_answer_whatever_was_measured(make):
    found = make()
    advice = recommend(found)
    assert [one.key for one in advice] == list(QUESTIONS)
    assert all(one.sentences and all(one.sentences) for one in advice)
    assert all(one.enough for one in advice if one.status != "recommended")
    assert headline(found).endswith(".")


def test_h200_keeps_the_default_and_says_what_eager_costs(h200):
    production = advise(h200)["production"]
    assert (production.status, production.level, production.preliminary) == ("recommended", "default", False)
    assert {"O0@overall", "eager@overall"} <= set(production.links)
    assert "O3@overall" not in production.links
    # Of the means of logarithms over users: (21.6 22.6 31.2 / 5.09 5.42 5.76)^(1/3) = 4.58 times, 358 percent more.
    cost = next(figure for figure in production.figures if figure.name == "O0@overall")
    times = math.prod((21.6 / 5.09, 22.6 / 5.42, 31.2 / 5.76)) ** (1 / 3)
    assert cost.value == pytest.approx(100 * (times - 1), rel=0.01)
    assert cost.low < cost.value < cost.high
    assert (cost.unit, cost.n) == ("percent", 5)
    assert "4.6 times as long" in text_of(production)
    assert "equivalent within 1 percent" in text_of(production) or "inside the 1 percent margin" in text_of(production)


def test_h200_headline_names_card_session_and_cost(h200):
    said = headline(h200)
    assert said.startswith(
        "On one NVIDIA H200 (cooled session, vLLM 0.31.0), at 1, 8 and 32 users, against default (5."
    )
    assert re.search(r"eager takes 5\d\d percent more time per token, 6\.\d times as long \(95 percent interval", said)
    assert said.count(". ") <= 1


def test_h200_waits_for_its_host(h200):
    why = advise(h200)["why"]
    assert why.sentences[0].startswith("With O0, compile-only and eager the card waits for its host")
    assert "graphs-only" not in text_of(why)
    assert any(figure.name == "time of a step over the default's: O0@1" for figure in why.figures)


def test_h200_graphs_are_what_matters(h200):
    parts = advise(h200)["compile_or_graphs"]
    assert (parts.status, parts.level) == ("recommended", "graphs-only")
    assert parts.links == ("graphs-only@overall", "compile-only@overall")
    assert "graphs carry the speed" in text_of(parts)


def only_first_blocks(study, level, blocks):
    """Return a study in which a level was run in the first blocks alone."""
    kept = [run for run in study.runs if run.level != level or run.block <= blocks]
    return replace(study, runs=tuple(kept))


def test_a_wait_is_not_said_of_a_level_of_few_runs():
    tpot_ms = {"default": {1: 5.0, 8: 5.4}, "O0": {1: 6.0, 8: 13.0}, "eager": {1: 30.0, 8: 6.0}}
    whole = Card(tpot_ms, {**TWO_STARTS, "O0": 50.0}, blocks=3).study()
    why = advise(find(only_first_blocks(whole, "O0", 2)))["why"]
    said = text_of(why)
    assert said.startswith("With eager the card waits for its host: about as much energy above rest for a ste")
    assert "eager shows no sign of it at 8 users." in said
    assert re.search(r"Too few runs to say so of O0\. O0 at 8 users: .* \(medians, two runs each\)\.$", said)


def test_what_one_level_lacks_is_said_with_its_name():
    tpot_ms = {"default": {1: 5.0, 8: 5.4}, "O0": {1: 9.0}, "eager": {1: 30.0, 8: 31.0}}
    whole = Card(tpot_ms, {**TWO_STARTS, "O0": 50.0}, blocks=5).study()
    advice = advise(find(only_first_blocks(whole, "O0", 1)))
    lacking = "two more blocks for a preliminary verdict, four for a full one, for O0 against default"
    assert advice["production"].enough == advice["by_users"].enough == lacking


def test_where_compile_alone_is_missing_the_graphs_larger_share_is_said():
    parts = advise(without_compile_alone())["compile_or_graphs"]
    assert (parts.status, parts.level) == ("recommended", "default")
    assert "Keep both: graphs-only, without compile, costs time per token" in text_of(parts)
    # 5.45 / 5.14 and 5.79 / 5.46 are both 6.0 percent; eager: (34.9 x 31.6 / 5.14 / 5.46)^(1/2) = 6.27 times.
    said = re.search(r"graphs alone a token .* (\S+) percent more .* neither \(eager\) (\S+) percent", text_of(parts))
    assert [float(share) for share in said.groups()] == [pytest.approx(6.0, abs=0.2), pytest.approx(527, abs=3)]


@pytest.mark.parametrize(("blocks", "tail"), [(5, ""), (4, "; preliminary: four blocks, five earn a verdict")])
def test_the_cost_of_neither_part_says_when_it_is_preliminary(blocks, tail):
    parts = advise(without_compile_alone(blocks=blocks))["compile_or_graphs"]
    assert re.search(rf"with neither \(eager\) \d+ percent{re.escape(tail)}\. ", text_of(parts))


def test_starts_alone_have_a_headline_of_starts():
    said = headline(starts_alone())
    assert "from spawn to first token: with warm caches default 69.0 s (five launches), eager 36.0 s (five l" in said
    assert "eager starts 33.0 s sooner than default" in said


def start_gain(level, point, low, high, n=3, cache="warm", reason=""):
    return StartGain(level, "default", cache, Estimate(point, low, high, n, "block", 0.95), reason, None, None)


def test_a_headline_of_starts_says_on_how_many_cards_its_gains_rest():
    study = Card({}, {"default": 41.0, "O0": 30.0}, blocks=3).study()
    assert "cards" not in headline(find(study))
    other = make_machine(gpu_name="NVIDIA H200", gpu_uuid="GPU-other")
    alone = make_launch("default", block=4, machine=other, resolved=resolve("default"))
    said = headline(find(make_study([*study.launches, alone])))
    assert "Of the two cards, one gave the blocks behind these gains." in said


def test_too_few_starts_are_counted_in_what_counts():
    few = "In too few blocks to tell levels apart: three are preliminary, five earn a verdict."
    study = Card({}, {"default": 41.0, "O0": 30.0}, blocks=3).study()
    assert few in headline(find(Card({}, {"default": 41.0, "O0": 30.0}, blocks=2).study()))
    # Two blocks of one machine and one of another are two units (METHOD: the machine, where one has several blocks).
    other = make_machine(gpu_name="NVIDIA H200", gpu_uuid="GPU-other")
    spread = [one.model_copy(update={"machine": other}) if one.block == 3 else one for one in study.launches]
    said = headline(find(make_study(spread)))
    assert "In too few machines to tell levels apart: three are preliminary, five earn a verdict." in said
    assert "Where several machines served, the blocks of one count as one." in said


def test_a_level_measured_at_fewer_users_says_at_which_in_the_headline():
    study = Card(H200_TPOT, H200_START).study()
    runs = [run for run in study.runs if (run.level, run.users) != ("eager", 8)]
    said = headline(find(make_study(study.launches, runs)))
    assert "at 1, 8 and 32 users, against default" in said
    assert "eager (at 1 and 32 users) takes " in said
    assert "O0 takes " in said
    sentences = advise(find(make_study(study.launches, runs)))["production"].sentences
    assert [text for text in sentences if text.startswith("At 1 and 32 users eager takes ")]
    assert [text for text in sentences if text.startswith("O0 takes ")]


def test_enough_is_counted_from_the_levels_with_most_blocks():
    tpot_ms = {level: {1: ms} for level, ms in (("default", 5.14), ("O0", 5.15), ("eager", 5.16))}
    study = Card(tpot_ms, {"default": 41.0, "O0": 40.9, "eager": 40.8}, noise=0.05, blocks=3).study()
    runs = [run for run in study.runs if (run.level, run.block) != ("O0", 3)]
    restart = advise(find(make_study(study.launches, runs)))["restart_often"]
    assert (restart.status, restart.enough) == ("not_enough_evidence", "two more blocks for a full verdict")


def test_gains_over_the_same_blocks_are_one_sentence_those_told_apart_first():
    gains = [
        start_gain("graphs", 6.8, -1.0, 14.7),
        start_gain("O0", 11.5, 5.2, 17.8),
        start_gain("O3", -4.0, -5.0, -3.0),
    ]
    assert describe_gains(gains) == [
        "With warm caches O0 starts 11.5 s sooner than default (95 percent interval of the gain 5.2 to 17.8 s); "
        "O3 starts 4.0 s later than default (\N{MINUS SIGN}5.0 to \N{MINUS SIGN}3.0 s); "
        "graphs is not told apart from default (6.8 s sooner; \N{MINUS SIGN}1.0 to 14.7 s); "
        "preliminary: three blocks, five earn a verdict."
    ]


def test_gains_of_other_blocks_or_caches_or_without_an_interval_stand_alone():
    alike = [start_gain("O0", 11.5, 5.2, 17.8, n=5), start_gain("eager", 14.0, 5.1, 22.9, n=5)]
    others = [
        start_gain("graphs", 6.8, 2.0, 9.0, n=6),
        start_gain("O0", 30.0, 20.0, 40.0, n=5, cache="cold"),
        start_gain("O3", 1.0, None, None, n=1, reason="one block"),
    ]
    together, *alone = describe_gains([*alike, *others])
    assert together.endswith("eager starts 14.0 s sooner than default (5.1 to 22.9 s) (five blocks).")
    assert alone == [describe_gain(gain) for gain in others]


def test_gains_in_too_few_blocks_are_one_sentence_with_what_is_missing_once():
    gains = [
        start_gain("O0", 61.5, None, None, n=2, cache="cold", reason="2 blocks"),
        start_gain("eager", 193.1, None, None, n=2, cache="cold", reason="2 blocks"),
        start_gain("O3", -3.0, None, None, n=2, cache="cold", reason="2 blocks"),
    ]
    assert describe_gains(gains) == [
        "With cold caches eager starts 193 s sooner than default, O0 61.5 s sooner, O3 3.0 s later (two blocks); "
        "enough would be one more block on the same card for a preliminary verdict, three for a full one."
    ]


@pytest.mark.parametrize(
    ("n", "unit", "cards", "enough"),
    [
        (1, "block", 1, "two more blocks for a preliminary verdict, four for a full one"),
        (2, "block", 1, "one more block on the same card for a preliminary verdict, three for a full one"),
        (2, "block", 2, "one more block on another card for a preliminary verdict, three for a full one"),
        (2, "machine", 2, "one more machine for a preliminary verdict, three for a full one"),
    ],
)
def test_what_is_missing_names_the_card_that_would_count(n, unit, cards, enough):
    # METHOD: all blocks on one machine, or one block a machine; split otherwise, the machine is the unit.
    gain = StartGain("O0", "default", "cold", Estimate(61.5, None, None, n, unit, 0.95), "few", None, None, cards)
    assert describe_gain(gain).endswith(f"enough would be {enough}.")


COLD = {**COMPARABLE, "cache": "cold", "input_tokens": 1}
COLD_START = {"default": 239.0, "O0": 178.0, "eager": 46.0}


def cold_starts(levels=tuple(COLD_START), blocks=3):
    starts_s = {level: COLD_START[level] for level in levels}
    return find(Card({}, starts_s, blocks=blocks, cache="cold", comparable=COLD).study())


def test_a_cold_start_that_leaves_building_kernels_to_its_first_requests_says_so():
    # vllm/config/vllm.py: enforce_eager sets enable_jit_warmup=False; -O0 keeps it (H200: 46 s against 178 s).
    unwarmed = (
        "A cold start of eager, resolved without the JIT kernel warm-up, leaves the kernels of that warm-up to the "
        "first requests that need them: its time counts only what the first token needed."
    )
    for blocks in (2, 3):
        assert headline(cold_starts(blocks=blocks)).endswith(unwarmed)
        assert unwarmed in advise(cold_starts(blocks=blocks))["restart_often"].sentences
    assert "JIT kernel warm-up" not in headline(cold_starts(["default", "O0"]))
    assert "JIT kernel warm-up" not in headline(starts_alone())


def test_cold_starts_beside_warm_ones_say_it_too():
    tpot_ms = {level: {1: ms} for level, ms in (("default", 5.14), ("eager", 34.9))}
    speed = find(Card(tpot_ms, {"default": 41.0, "eager": 27.0}).study())
    said = text_of(advise(complete_starts(speed, [cold_starts()]))["restart_often"])
    assert said.count("A cold start of eager, resolved without the JIT kernel warm-up") == 1


def test_a_cold_level_that_the_speed_study_lacks_keeps_its_sentence():
    speed = find(Card({"default": {1: 5.14}, "O0": {1: 21.0}}, {"default": 41.0, "O0": 30.0}, blocks=2).study())
    said = text_of(advise(complete_starts(speed, [cold_starts(blocks=2)]))["restart_often"])
    assert re.search(r"With cold caches eager starts 19\d s sooner than default", said)
    assert "A cold start of eager, resolved without" in said


def test_the_default_itself_may_be_the_one_without_warm_up():
    found = find(Card({}, COLD_START, blocks=3, cache="cold", comparable=COLD).study(), FindOptions(default="eager"))
    assert "A cold start of eager, resolved without the JIT kernel warm-up" in headline(found)


def test_on_the_cpu_there_is_no_warm_up_to_skip():
    # vllm/v1/worker/cpu_worker.py compiles or warms up without kernel_warmup, whatever enable_jit_warmup says.
    shared = {"machine": make_cpu_machine(), "comparable": {**COLD, "device": "cpu"}}
    found = find(Card({}, COLD_START, blocks=3, cache="cold", **shared).study())
    assert [gain.level for gain in found.start_gains] == ["O0", "eager"]
    assert "warm-up" not in headline(found)


def test_levels_that_never_win_are_told_in_the_plural():
    tpot_ms = {"default": {1: 5.0}, "O0": {1: 21.0}, "eager": {1: 35.0}}
    late = find(Card(tpot_ms, {"default": 27.0, "O0": 41.0, "eager": 45.0}).study())
    assert describe_leads(late.break_evens) == [
        "Kept busy by 1 user (caches warm), O0 and eager are not shown to be ahead of default by their starts: "
        "no sooner start and no faster decoding."
    ]


def test_levels_of_which_the_same_is_said_are_one_sentence_by_users_and_caches():
    tpot_ms = {"default": {1: 5.0, 8: 5.5}, "O0": {1: 21.0, 8: 22.0}, "eager": {1: 35.0, 8: 36.0}}
    speed = find(Card(tpot_ms, {"default": 41.0, "O0": 30.0, "eager": 27.0}, blocks=2).study())
    leads = describe_leads(speed.break_evens)
    assert leads == [
        "Kept busy by 1 and 8 users (caches warm), O0 and eager are not shown to be ahead of default by their starts: "
        "2 blocks: three are preliminary, five earn a verdict."
    ]
    both = complete_starts(speed, [cold_starts(blocks=2)]).break_evens
    assert [text.count("O0 and eager are not shown") for text in describe_leads(both)] == [1, 1]
    only_one = [at for at in speed.break_evens if (at.level, at.users) != ("eager", 8)]
    assert [text[: text.index(" not")] for text in describe_leads(only_one)] == [
        "Kept busy by 1 and 8 users (caches warm), O0 is",
        "Kept busy by 1 user (caches warm), eager is",
    ]


def test_what_joined_starts_rest_on_is_said_once():
    tpot_ms = {level: {1: ms, 8: ms} for level, ms in (("default", 5.14), ("O0", 21.0), ("eager", 34.9))}
    speed = find(Card(tpot_ms, {"default": 41.0, "O0": 30.0, "eager": 27.0}).study())
    said = text_of(advise(complete_starts(speed, [cold_starts()]))["restart_often"])
    assert said.count("Cold starts are those of study ") == 1
    assert said.count("3 blocks of starts and 5 of token times count.") == 1


def test_a_note_on_some_levels_names_them():
    tpot_ms = {level: {1: ms, 8: ms} for level, ms in (("default", 5.14), ("O0", 21.0), ("eager", 34.9))}
    study = Card(tpot_ms, {"default": 41.0, "O0": 30.0, "eager": 27.0}, blocks=3).study()
    lost = {("eager", 8, 3), ("O0", 1, 3), ("O0", 8, 3)}
    runs = [run for run in study.runs if (run.level, run.users, run.block) not in lost]
    found = complete_starts(find(make_study(study.launches, runs)), [cold_starts()])
    sentences = advise(found)["restart_often"].sentences
    assert "Of O0 and eager at 8 users 3 blocks of starts and 2 of token times count." in sentences
    assert len([text for text in sentences if "of token times count" in text]) == 1


def test_parts_are_told_by_what_they_resolved_to_not_by_name():
    tpot_ms = {"default": {1: 5.0}, "mine": {1: 5.0}}
    card = Card(tpot_ms, {"default": 69.0, "mine": 45.0}, noise=0.002)
    study = card.study()
    launches = [
        one.model_copy(update={"resolved": resolve("graphs-only")}) if one.level == "mine" else one
        for one in study.launches
    ]
    parts = advise(find(make_study(launches, study.runs)))["compile_or_graphs"]
    assert (parts.status, parts.level) == ("recommended", "mine")


def test_o3_is_an_aa_pair(h200):
    o3 = advise(h200)["o3"]
    assert (o3.status, o3.level) == ("recommended", "default")
    assert "adds nothing here" in o3.sentences[0]
    assert "contains 0, as it should" in text_of(o3)
    assert [figure.name for figure in o3.figures] == ["A/A: O3 against default"]


def test_a_biased_method_is_said_wherever_verdicts_stand():
    tpot_ms = {"default": {1: 5.0}, "O3": {1: 5.2}, "eager": {1: 24.0}}
    found = find(Card(tpot_ms, {**TWO_STARTS, "O3": 69.0}).study())
    advice = advise(found)
    assert found.comparison.method_biased
    assert "Method biased: O3 and default resolved alike" in text_of(advice["production"])
    assert "the method is biased" in text_of(advice["o3"])
    assert "the method is biased" in headline(found)


def test_o3_that_resolved_otherwise_is_a_result():
    study = Card({"default": {1: 5.0}, "O3": {1: 4.5}}, {"default": 69.0, "O3": 69.0}).study()
    other = resolve("O3")
    other["compilation_config"]["pass_config"] = {"fuse_norm_quant": True}
    launches = [one.model_copy(update={"resolved": other}) if one.level == "O3" else one for one in study.launches]
    o3 = advise(find(make_study(launches, study.runs)))["o3"]
    assert (o3.level, o3.links) == ("O3", ("O3@overall",))


def test_h200_restart(h200):
    restart = advise(h200)["restart_often"]
    # graphs-only starts 24 s sooner and decodes alike: the longest lead.
    assert (restart.status, restart.level) == ("recommended", "graphs-only")
    # S_D + T_D (S_D - S_X) / (T_X - T_D) = 69 + 5.09 x 33 / 30.21 = 75 s for eager at one user.
    t_star = next(figure for figure in restart.figures if figure.name == "t*: eager@1 (warm caches)")
    assert t_star.value == pytest.approx(69 + 5.09 * 33 / 30.21, abs=1.5)
    assert t_star.unit == "s"
    assert "eager is ahead for 7" in text_of(restart)


def test_l4_two_percent(l4):
    advice = advise(l4)
    assert advice["production"].level == "default"
    assert re.search(
        r"eager takes (1\.9|2\.0|2\.1) percent more time per token than default \(", text_of(advice["production"])
    )
    assert "NVIDIA L4" in headline(l4)
    assert advice["why"].sentences[0].startswith("The card does not wait for its host more than with the default")
    assert advice["by_users"].links == ("eager@1", "eager@8", "eager@32", "eager@64")
    assert "the same at every number of users" in text_of(advice["by_users"])
    assert advice["compile_or_graphs"].status == "not_measured"
    assert "graphs-only" in advice["compile_or_graphs"].enough


def test_l4_restart_in_words(l4):
    restart = advise(l4)["restart_often"]
    assert restart.level == "eager"
    # 90 + 60.36 x 30 / 1.19 = 1,612 s, about 27 minutes, at one user.
    assert re.search(
        r"Kept busy by 1 user \(caches warm\), default is ahead of eager once the server has lived 2\d minutes",
        text_of(restart),
    )


def test_four_minutes():
    tpot_ms = {"default": {8: 5.0}, "eager": {8: 5.88}}
    restart = advise(find(Card(tpot_ms, {"default": 60.0, "eager": 28.0}, noise=0.001, blocks=5).study()))[
        "restart_often"
    ]
    # 60 + 5 x 32 / 0.88 = 242 s
    assert (
        "Kept busy by 8 users (caches warm), default is ahead of eager once the server has lived four minutes (t* 2"
        in text_of(restart)
    )


def test_equivalent_says_the_margin():
    found = find(Card({"default": {1: 5.0, 8: 5.2}, "eager": {1: 5.004, 8: 5.2}}, TWO_STARTS).study())
    production = advise(found)["production"]
    assert production.level == "default"
    assert "equivalent within 1 percent" in text_of(production)
    assert "the same time per token within 1 percent" in headline(found)


def test_undecided_says_what_would_decide():
    found = find(Card({"default": {1: 5.0}, "eager": {1: 5.04}}, TWO_STARTS, noise=0.015).study())
    production = advise(found)["production"]
    pair = found.pair("eager")
    assert (production.status, production.level) == ("not_enough_evidence", None)
    assert f"about {pair.outlook.more_units} more blocks" in production.enough
    assert "would decide" in text_of(production)
    assert "not enough evidence for a cost" in headline(found)


def test_a_faster_eager_is_recommended():
    found = find(Card({"default": {1: 5.0, 8: 5.2}, "eager": {1: 4.8, 8: 4.99}}, TWO_STARTS).study())
    advice = advise(found)
    assert (advice["production"].status, advice["production"].level) == ("recommended", "eager")
    # Both ends of the interval say how much less.
    assert re.search(
        r"(3\.9|4\.\d) percent less time per token than default \(95 percent interval 3\.\d to 4\.\d",
        text_of(advice["production"]),
    )
    assert "never behind default" in text_of(advice["restart_often"])
    assert "however long a server lives" in text_of(advice["restart_often"])


def test_advice_that_depends_on_users():
    found = find(Card({"default": {1: 5.0, 8: 5.0}, "eager": {1: 5.5, 8: 4.5}}, TWO_STARTS).study())
    by_users = advise(found)["by_users"]
    assert "depends on the number of users" in text_of(by_users)
    assert "slower at 1 user (10" in text_of(by_users)
    assert re.search(r"faster at 8 users \(9\.\d|faster at 8 users \(10", text_of(by_users))


def test_users_without_a_run_of_a_level_are_named():
    found = find(Card({"default": {1: 5.0, 8: 5.0, 32: 6.0}, "eager": {1: 5.5, 8: 5.5}}, TWO_STARTS).study())
    said = text_of(advise(found)["by_users"])
    assert re.search(r"eager is slower at 1 and 8 users \([\d.]+ to [\d.]+ percent\), not compared at 32 users\.", said)


def test_three_blocks_are_preliminary():
    found = find(l4_card(blocks=3).study())
    production = advise(found)["production"]
    assert production.preliminary
    assert "preliminary: three blocks, five earn a verdict" in text_of(production)
    assert headline(found).endswith(" Preliminary: three blocks, five earn a verdict.")


def headline_of(blocks):
    """Return the headline of a study in which O0 was measured in the first three blocks alone."""
    tpot_ms = {"default": {1: 5.0}, "O0": {1: 20.0}, "eager": {1: 20.0}}
    whole = Card(tpot_ms, {**TWO_STARTS, "O0": 30.0}, blocks=blocks).study()
    return headline(find(only_first_blocks(whole, "O0", 3)))


def test_levels_of_three_and_of_four_blocks_are_called_preliminary_once():
    said = headline_of(4)
    assert said.endswith(" Preliminary: three to four blocks, five earn a verdict.")
    assert said.count("five earn a verdict") == 1


def test_where_one_level_alone_is_preliminary_it_is_called_so():
    said = headline_of(5)
    assert re.search(r"O0 takes [^;]+, preliminary: three blocks, five earn a verdict[;.]", said)
    assert re.search(r"eager takes [^;]+, five blocks\)[;.]", said)


def test_one_block_is_not_enough_evidence():
    advice = advise(one_block())
    for key in ("production", "restart_often", "by_users", "why"):
        assert advice[key].status in ("not_enough_evidence", "not_measured")
        assert advice[key].level is None
    assert advice["production"].enough == "two more blocks for a preliminary verdict, four for a full one"
    assert "Not enough evidence on eager" in text_of(advice["production"])
    assert "too few blocks (eager)" in headline(one_block())


def test_starts_alone_say_the_gain_and_no_lifetime():
    restart = advise(starts_alone())["restart_often"]
    assert (restart.status, restart.level) == ("not_measured", None)
    assert re.search(r"eager starts 3[23]\.\d s sooner than default", text_of(restart))
    assert advise(starts_alone())["production"].status == "not_measured"


def test_a_session_that_was_not_throttled_says_so():
    production = advise(not_throttled())["production"]
    assert production.status == "not_enough_evidence"
    assert "asked to be throttled and was not: 0 of 10 runs" in production.sentences[0]
    assert "1900 of 1980 MHz" in production.sentences[0]
    assert "throttling on evidence" in production.enough


def test_a_level_that_does_not_start_is_named():
    card = Card({"default": {1: 5.09}, "eager": {1: 24.0}}, TWO_STARTS)
    study = card.study()
    bad = make_outcome(status="failed", stage="ready", message="out of memory")
    failed = make_launch("O0", 1, outcome=bad, healthy_s=None, first_token_s=None, resolved=None)
    found = find(make_study([*study.launches, failed], study.runs))
    assert "O0 gave no figure: failed at ready: out of memory." in advise(found)["production"].sentences
    assert "O0 gave no figure" in headline(found)


def test_a_rehearsal_recommends_nothing():
    found = rehearsal()
    assert headline(found).startswith(REHEARSAL)
    for advice in recommend(found):
        assert advice.sentences[0] == REHEARSAL
        assert advice.level is None
        assert advice.status != "recommended" or advice.key == "debug_kernel"


def test_debugging_goes_from_eager_to_one_part_at_a_time(h200):
    debug = advise(h200)["debug_kernel"]
    said = text_of(debug)
    places = [said.index(flag) for flag in ("--enforce-eager", "-cc.backend=eager", "-cc.cudagraph_mode=none")]
    assert places == sorted(places)
    assert (debug.status, debug.level) == ("recommended", "eager")
    assert "without the JIT kernel warm-up" in said
    assert "33." in said or "32." in said
    assert "was not measured here" in text_of(advise(find(make_study([])))["debug_kernel"])


def test_sessions_of_one_card_are_set_beside_each_other():
    tpot_ms = {"default": {1: 60.0}, "O0": {1: 60.0}}
    cool = find(Card(tpot_ms, {"default": 69.0, "O0": 36.0}, telemetry_fields={"period_s": 5.0}).study())
    throttled = find(throttled_card(210.0).study())
    assert advise(cool)["session_kind"].status == "not_measured"
    both = advise(cool, [throttled])["session_kind"]
    assert both.status == "recommended"
    assert "depends on the kind of session" in both.sentences[0]
    assert "Throttled: O0 takes" in text_of(both)


def test_ratios_are_never_taken_from_another_card(l4):
    throttled = find(throttled_card(210.0, uuid="GPU-2").study())
    assert advise(l4, [throttled])["session_kind"].status == "not_measured"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (75.0, "75 seconds"),
        (240.0, "four minutes"),
        (95.0, "two minutes"),
        (9000.0, "2.5 hours"),
        (10_800.0, "three hours"),
        (200_000.0, "2.3 days"),
    ],
)
def test_lifetimes(seconds, words):
    assert lifetime(seconds) == words


def test_numbers():
    assert [number(value) for value in (412.3, 33.14, 2.2, 0.041, -0.001)] == ["412", "33.1", "2.2", "0.04", "0.00"]
    assert percent(-3.14) == "3.1 percent"
    assert listed(["a", "b", "c"]) == "a, b and c"
