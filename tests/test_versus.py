"""What is said where one edition stands beside another, and what is not."""

import copy
import dataclasses
import json
import random
import shutil

import pytest
from conftest import ROOT
from edition_study import make_root, write_study
from make_records import RESOLVED, make_cpu_machine, make_launch, make_machine, make_run, make_study

from study.analyze.findings import find
from study.analyze.versus import set_beside
from study.analyze.versus_parts import match_cards, measure_part
from study.analyze.versus_types import CardMatch, Outcome, Side, Stance
from study.errors import InputError
from study.publish.versus_side import read_side

H200 = "2026-11-h200-cooled"
EAGER = {
    **RESOLVED,
    "model_config": {"enforce_eager": True},
    "compilation_config": {"mode": 0, "cudagraph_mode": 0, "backend": "", "cudagraph_capture_sizes": []},
}


def copy_h200(data_dir):
    """Copy the first block alone, so that figures here stay as they are when blocks are added."""
    folder = data_dir / "raw" / H200
    folder.mkdir(parents=True)
    for pattern in ("*-b1-*-a1.*", "launch-fill-default-a1.*", "launch-fill-graphs-only-a1.*", "session-1.json"):
        for path in (ROOT / "data" / "raw" / H200).glob(pattern):
            shutil.copyfile(path, folder / path.name)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("project"))
    data = folder / "data"
    copy_h200(data)
    shutil.copytree(ROOT / "data" / "reference", data / "reference")
    write_study(data, "small", blocks=1, rehearsal=True, costs={"default": 0.0, "eager": 0.02})
    write_study(data, "twice", blocks=1, costs={"default": 0.0})
    (data / "raw" / "schema").mkdir()
    (data / "raw" / "schema" / "launch-1.schema.json").write_text("{}")
    for name, studies in (("look", [H200]), ("twice", ["twice"])):
        (folder / "editions" / name).mkdir(parents=True)
        (folder / "editions" / name / "edition.yaml").write_text(json.dumps({"edition": name, "studies": studies}))
    return folder


@pytest.fixture(scope="module")
def l4_h200(root):
    return set_beside(read_side(root, "2026.10"), read_side(root, H200))


def make_part(costs, name="test", *, blocks=3, scatter=0.001, resolved=None, machine=None, seed=1):
    """One measured study of one and eight users; `resolved` gives levels their configuration."""
    draw, launches, runs = random.Random(seed), [], []
    told = {"default": RESOLVED, "O0": EAGER, "eager": EAGER, **(resolved or {})}
    for block in range(1, blocks + 1):
        for level, cost in costs.items():
            fields = {"machine": machine} if machine else {}
            launch = make_launch(level, block, resolved=told.get(level, RESOLVED), **fields)
            launches.append(launch)
            runs += [
                make_run(launch, users, tpot_ms=ms * (1 + cost + draw.gauss(0, scatter)), tokens=24)
                for users, ms in ((1, 60.0), (8, 65.0))
            ]
    records = make_study(launches, runs)
    return dataclasses.replace(measure_part(records, find(records), (1, 8)), name=name)


def beside(a, b):
    """Set two parts beside each other."""
    return set_beside(Side("a", "study", (a,)), Side("b", "study", (b,))).beside[0]


def changed(**sections):
    """The default's configuration with other values in some sections."""
    told = copy.deepcopy(RESOLVED)
    for section, values in sections.items():
        told.setdefault(section, {}).update(values)
    return told


def claim_of(one, level):
    return next(claim for claim in one.claims if claim.level == level)


def row_of(one, level, users):
    return next(row for row in one.rows if (row.level, row.users) == (level, users))


COSTS = {"default": 0.0, "eager": 0.05}


def test_published_medians_come_out_as_stored(l4_h200):
    one = l4_h200.beside[0]
    assert row_of(one, "default", 1).a.median_tpot_ms == 60.36
    assert row_of(one, "eager", 1).a.median_tpot_ms == 61.07
    assert row_of(one, "eager", 1).a.cost.medians_percent == pytest.approx(1.18, abs=0.005)
    assert row_of(one, "eager", 1).a.cost.effect_percent is None


def test_h200_figures_come_out_as_recorded(l4_h200):
    one = l4_h200.beside[0]
    medians = {users: row_of(one, "default", users).b.median_tpot_ms for users in (1, 8, 32, 64)}
    assert medians == pytest.approx({1: 5.119222, 8: 5.460356, 32: 5.781910, 64: 7.115438}, abs=1e-6)
    assert row_of(one, "eager", None).b.cost.effect_percent.point == pytest.approx(561.87, abs=0.01)
    assert row_of(one, "eager", None).a is None


def test_a_run_that_does_not_count_leaves_no_figure(l4_h200):
    assert row_of(l4_h200.beside[0], "eager", 32).b is None


def test_eager_measured_slower_on_both_by_sizes_that_do_not_carry_over(l4_h200):
    claim = claim_of(l4_h200.beside[0], "eager")
    assert (claim.outcome, claim.users, claim.size_apart) == (Outcome.HOLDS, (1, 8, 64), True)
    assert claim.a.stance is claim.b.stance is Stance.SLOWER
    assert all(cost.verdict is None for cost in (*claim.a.costs, *claim.b.costs))


def test_cards_of_the_real_sides_differ(l4_h200):
    assert l4_h200.beside[0].cards is CardMatch.DIFFERENT
    assert l4_h200.beside[0].cards.same is False


def test_without_a_resolved_configuration_meaning_cannot_be_told(l4_h200):
    for meaning in l4_h200.beside[0].meanings:
        assert meaning.same is None
        assert "A: published without" in meaning.reason


def test_versions_stand_side_by_side(l4_h200):
    facts = {fact.name: fact for fact in l4_h200.beside[0].facts}
    assert (facts["vLLM"].a, facts["vLLM"].b, facts["vLLM"].same) == ("0.31.0", "0.31.0", True)
    assert facts["vLLM commit"].same is True
    assert (facts["torch"].a, facts["torch"].same) == (None, None)
    assert facts["driver"].b == "580.159.04"


def test_sessions_of_one_kind_belong_together(l4_h200):
    assert [(one.a.name, one.b.name) for one in l4_h200.beside] == [("l4-full-clock", H200)]
    assert l4_h200.alone == ("A alone has l4-throttled (throttled, NVIDIA L4)",)


def test_levels_of_one_side_are_listed(l4_h200):
    said = " | ".join(l4_h200.beside[0].alone)
    levels = next(text for text in l4_h200.beside[0].alone if text.startswith("levels that B alone has: "))
    assert set(levels.partition(": ")[2].split(", ")) == {"O0", "O3", "graphs-only"}
    assert "no figure in B: O0 (no run counts" in said


def test_users_of_one_side_are_listed():
    a = make_part(COSTS)
    assert "numbers of users that A alone has: 8" in beside(a, dataclasses.replace(a, users=(1,))).alone


def test_no_figure_is_nan(l4_h200):
    json.dumps(dataclasses.asdict(l4_h200.beside[0])["rows"], allow_nan=False)


def test_an_edition_has_the_figures_of_its_study(root):
    edition = read_side(root, "look")
    assert edition.kind == "edition"
    assert edition.parts[0].cells == read_side(root, H200).parts[0].cells


def test_the_same_records_on_both_sides_are_said(root):
    assert set_beside(read_side(root, "look"), read_side(root, H200)).beside[0].same_records


def test_a_reference_stands_beside_itself(root):
    side = read_side(root, "2026.10")
    versus = set_beside(side, side)
    assert [one.a.name for one in versus.beside] == ["l4-full-clock", "l4-throttled"]
    assert all(one.cards is CardMatch.NAME_ALONE and one.same_records for one in versus.beside)
    assert claim_of(versus.beside[1], "O0").outcome is Outcome.OPEN


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("2026-11-h200-coold", f"did you mean '{H200}'"),
        ("nothing-like-it", f"known: {H200}, 2026.10, look, small, twice"),
        ("../data", "is no study"),
        ("", "is no study"),
        ("schema", "is no study"),
        ("twice", "edition:twice or study:twice"),
        ("edition:small", "is no study"),
    ],
)
def test_unknown_names_say_what_there_is(root, name, said):
    with pytest.raises(InputError, match=r"^[^\n]+$") as caught:
        read_side(root, name)
    assert said in str(caught.value)


def test_a_name_of_two_things_is_told_apart_by_its_kind(root):
    assert read_side(root, "edition:twice").kind == "edition"
    assert read_side(root, "study:twice").kind == "study"


def test_references_are_known_from_another_data_folder(root, tmp_path):
    assert read_side(root, "2026.10", tmp_path).kind == "reference edition"


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "not readable"), ('{"edition": "x"}', "vllm_version"), ('{"edition": NaN}', "edition")],
)
def test_an_unusable_reference_names_its_file(tmp_path, text, said):
    (tmp_path / "data" / "reference").mkdir(parents=True)
    (tmp_path / "data" / "reference" / "edition-x.json").write_text(text)
    with pytest.raises(InputError, match=said) as caught:
        read_side(tmp_path, "x")
    assert "edition-x.json" in str(caught.value)


def test_a_rehearsal_is_named(root):
    assert set_beside(read_side(root, "small"), read_side(root, "2026.10")).rehearsal == ("A",)


def test_two_studies_of_one_card_that_agree():
    one = beside(make_part(COSTS, "first"), make_part(COSTS, "second", seed=2))
    claim = claim_of(one, "eager")
    assert (one.cards, one.same_records) == (CardMatch.SAME, False)
    assert [meaning.same for meaning in one.meanings] == [True, True]
    assert (claim.outcome, claim.size_apart) == (Outcome.HOLDS, False)
    assert [cost.users for cost in claim.a.costs] == [None]


def test_two_studies_of_one_card_that_do_not():
    claim = claim_of(beside(make_part(COSTS), make_part({"default": 0.0, "eager": -0.05})), "eager")
    assert (claim.outcome, claim.a.stance, claim.b.stance) == (Outcome.DIFFERS, Stance.SLOWER, Stance.FASTER)


def test_an_undecided_side_keeps_the_claim_open():
    noisy = make_part(COSTS, scatter=0.05)
    assert claim_of(beside(make_part(COSTS), noisy), "eager").outcome is Outcome.OPEN


def test_one_block_earns_no_verdict():
    claim = claim_of(beside(make_part(COSTS, blocks=1), make_part(COSTS)), "eager")
    assert claim.a.costs[0].verdict is None
    assert claim.b.costs[0].verdict is not None


def test_one_label_that_resolved_differently_has_two_rows_and_no_claim():
    other = {"eager": changed(compilation_config={"cudagraph_mode": [2, 0]})}
    one = beside(make_part(COSTS), make_part(COSTS, resolved=other))
    rows = [row for row in one.rows if row.level == "eager" and row.users == 1]
    assert [(row.only, row.a is None, row.b is None) for row in rows] == [("A", False, True), ("B", True, False)]
    claim = claim_of(one, "eager")
    assert (claim.outcome, claim.a) == (Outcome.TWO_THINGS, None)
    assert "compilation_config.backend" in claim.why
    pair = next(x for x in one.meanings[1].differences if x.path == "compilation_config.cudagraph_mode")
    assert (pair.a, pair.b) == (("0",), ("[2, 0]",))


def test_a_default_that_resolved_differently_splits_what_is_set_against_it():
    one = beside(
        make_part(COSTS), make_part(COSTS, resolved={"default": changed(kernel_config={"enable_jit_warmup": False})})
    )
    assert [meaning.same for meaning in one.meanings] == [False, True]
    assert all(row.only for row in one.rows)
    assert "'default', which it is set against" in claim_of(one, "eager").why


@pytest.mark.parametrize(
    ("sections", "same"),
    [
        ({"kernel_config": {"new_switch": False}}, True),
        ({"kernel_config": {"new_switch": True}}, False),
        ({"instance_id": "other"}, True),
        ({"model_config": {"model": "another"}}, True),
        ({"compilation_config": {"compile_ranges_endpoints": [2048]}}, True),
    ],
)
def test_what_changes_the_meaning_of_a_level(sections, same):
    told = {**RESOLVED, **{name: value for name, value in sections.items() if isinstance(value, str)}}
    told = {**told, **changed(**{name: value for name, value in sections.items() if isinstance(value, dict)})}
    one = beside(make_part({"default": 0.0}), make_part({"default": 0.0}, resolved={"default": told}))
    assert one.meanings[0].same is same


def test_servers_of_one_side_that_disagree_are_no_one_thing():
    part = make_part(COSTS)
    settings = {**part.settings["eager"], "compilation_config.mode": ("0", "3")}
    mixed = dataclasses.replace(part, settings={**part.settings, "eager": settings})
    assert next(meaning for meaning in beside(mixed, mixed).meanings if meaning.level == "eager").same is False


def test_settings_around_the_levels_are_listed_and_split_nothing():
    told = {name: {**config, "scheduler_config": {"max_num_seqs": 256}} for name, config in
            (("default", RESOLVED), ("eager", EAGER))}  # fmt: skip
    fewer = {name: {**config, "scheduler_config": {"max_num_seqs": 128}} for name, config in told.items()}
    one = beside(make_part(COSTS, resolved=told), make_part(COSTS, resolved=fewer))
    assert [pair.path for pair in one.around] == ["scheduler_config.max_num_seqs"]
    assert all(meaning.same for meaning in one.meanings)


def test_a_level_like_the_default_is_no_cost():
    costs = {"default": 0.0, "O3": 0.0}
    claim = claim_of(beside(make_part(costs), make_part(costs)), "O3")
    assert (claim.outcome, claim.why) == (Outcome.METHOD, "A and B")


@pytest.mark.parametrize(
    ("machine", "match"),
    [
        (make_machine(gpu_uuid="GPU-2"), CardMatch.SAME_MODEL),
        (make_machine(gpu_uuid="GPU-2", gpu_name="NVIDIA H200"), CardMatch.DIFFERENT),
        (make_cpu_machine(), CardMatch.DIFFERENT),
    ],
)
def test_cards_are_told_apart(machine, match):
    a = make_part({"default": 0.0}, blocks=1)
    assert match_cards(a, make_part({"default": 0.0}, blocks=1, machine=machine)) is match


def test_a_card_that_was_not_recorded_cannot_be_told():
    a = make_part({"default": 0.0}, blocks=1)
    assert match_cards(a, dataclasses.replace(a, cards=(), units=())) is CardMatch.UNKNOWN


def test_hosts_stand_for_cards_on_a_cpu():
    a = dataclasses.replace(make_part({"default": 0.0}, blocks=1), device="cpu", cards=(), units=("host-1",))
    assert match_cards(a, a) is CardMatch.SAME_HOST
    assert match_cards(a, dataclasses.replace(a, units=("host-2",))) is CardMatch.OTHER_HOST


def test_the_card_decides_where_sides_have_several_studies():
    l4, h200 = make_part(COSTS, "l4"), dataclasses.replace(make_part(COSTS, "h200"), cards=("NVIDIA H200",))
    versus = set_beside(Side("a", "edition", (l4,)), Side("b", "edition", (h200, l4)))
    assert [(one.a.name, one.b.name) for one in versus.beside] == [("l4", "l4")]
    assert versus.alone == ("B alone has h200 (cooled, NVIDIA H200)",)


def test_unlike_session_kinds_stand_beside_each_other_where_there_is_nothing_else():
    a = make_part(COSTS)
    one = beside(a, dataclasses.replace(a, session="throttled", facts={**a.facts, "session": "throttled"}))
    assert next(fact for fact in one.facts if fact.name == "session").same is False
