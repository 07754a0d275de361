"""Several kinds of card in one study: eager costs 2 percent on one and 400 percent on the other."""

import csv
import io
import random

import pytest
from make_records import make_launch, make_machine, make_run, make_study
from test_findings import resolve
from two_cards import make_launch_on_two, make_run_on_two, make_two_cards

from study.analyze.cards import list_kinds, split_kinds
from study.analyze.cards_table import card_table
from study.analyze.compare_types import Verdict
from study.analyze.findings import find
from study.analyze.first_requests import first_request_table
from study.analyze.judged_runs import judge_runs
from study.analyze.level_tables import start_table
from study.analyze.recommend import headline, recommend
from study.analyze.tables import session_figures, session_table
from study.analyze.tables_on_disk import write_csv
from study.analyze.versus_parts import measure_part
from study.publish.cards_part import (
    TITLE,
    list_across_cards,
    list_by_kind,
    list_sessions,
    say_kinds,
    tabulate_cards,
)
from study.publish.data_dictionary import NEVER, describe_tables
from study.publish.quotes import list_figures
from study.publish.sheets import list_first_requests, list_starts

H200 = {"gpu_name": "NVIDIA H200", "gpu_uuid": "GPU-H", "gpu_memory_gib": 140.0, "max_sm_clock_mhz": 1980.0}
COSTS = {"NVIDIA L4": (60.0, 1.02), "NVIDIA H200": (5.0, 5.0)}


def make_blocks(machine, blocks, draw):
    """Launches and runs of both levels: (TPOT of the default in ms, cost of eager) by the name of the card."""
    tpot_ms, cost = COSTS[machine.gpu_name]
    clock = {"sm_clock_mhz": 0.8 * machine.max_sm_clock_mhz}
    launches = [
        make_launch(level, block, machine=machine, resolved=resolve(level))
        for block in blocks
        for level in ("default", "eager")
    ]
    runs = []
    for launch in launches:
        mean = tpot_ms * (cost if launch.level == "eager" else 1.0) * (1 + draw.gauss(0, 0.001))
        runs += [make_run(launch, users, tpot_ms=mean, waves=2, telemetry_fields=clock) for users in (1, 2)]
    return launches, runs


@pytest.fixture(scope="module")
def study():
    draw = random.Random(1)
    ours, theirs = make_blocks(make_machine(), range(1, 6), draw), make_blocks(make_machine(**H200), range(6, 11), draw)
    return make_study([*ours[0], *theirs[0]], [*ours[1], *theirs[1]])


@pytest.fixture(scope="module")
def found(study):
    return find(study)


def machines(*fields):
    return [make_launch(block=place, machine=make_machine(**one)) for place, one in enumerate(fields)]


class TestKinds:
    def test_two_cards_of_one_kind_are_one(self):
        (kind,) = list_kinds(machines({}, {"gpu_uuid": "GPU-2"}))
        assert (kind.label, kind.units) == ("NVIDIA L4", ("GPU-1", "GPU-2"))

    def test_another_name_is_another_kind(self):
        assert [kind.label for kind in list_kinds(machines({}, H200))] == ["NVIDIA H200", "NVIDIA L4"]

    def test_one_name_with_another_memory_or_clock_is_another_kind(self):
        big = {"gpu_uuid": "GPU-2", "gpu_memory_gib": 45.0}
        labels = [kind.label for kind in list_kinds(machines({}, big))]
        assert labels == ["NVIDIA L4 (22 GiB, 2040 MHz)", "NVIDIA L4 (45 GiB, 2040 MHz)"]
        assert len(list_kinds(machines({}, {"gpu_uuid": "GPU-2", "max_sm_clock_mhz": 1500.0}))) == 2

    def test_what_a_driver_keeps_for_itself_makes_no_kind(self):
        assert len(list_kinds(machines({}, {"gpu_uuid": "GPU-2", "gpu_memory_gib": 22.2}))) == 1

    def test_what_is_not_known_tells_no_cards_apart(self):
        assert len(list_kinds(machines({}, {"gpu_uuid": "GPU-2", "gpu_memory_gib": None}))) == 1

    def test_two_cards_under_one_server_are_another_kind_than_one(self):
        launches = [*machines({"gpu_uuid": "GPU-3"}), make_launch(block=5)]
        both = make_two_cards()
        spread = make_launch(block=7).model_copy(update={"machine": both})
        assert [kind.label for kind in list_kinds([*launches, spread])] == ["NVIDIA L4", "2 x NVIDIA L4"]

    def test_a_start_that_fills_caches_makes_no_kind(self):
        fills = make_launch(block=0, fills_caches=True, launch_id="fill-default-a1", machine=make_machine(**H200))
        assert [kind.label for kind in list_kinds([*machines({}), fills])] == ["NVIDIA L4"]

    def test_every_record_is_in_one_part(self, study):
        parts = [part for _, part in split_kinds(study)]
        assert sorted(run.run_id for part in parts for run in part.runs) == sorted(run.run_id for run in study.runs)
        assert [len(part.launches) for part in parts] == [10, 10]


def test_cards_under_one_server_are_named_as_a_set():
    places = [(level, block) for block in (1, 2) for level in ("default", "O0")]
    launches = [make_launch_on_two(level, block, resolved=resolve(level)) for level, block in places]
    found = find(make_study(launches, [make_run_on_two(launch) for launch in launches]))
    assert [(card.name, card.unit) for card in found.cards] == [("set of 2 NVIDIA L4", "GPU-1 + GPU-2")]
    assert headline(found).startswith("On one set of 2 NVIDIA L4 ")
    assert found.by_kind == ()
    assert set(found.runs["counts"]) == {True}


class TestVerdicts:
    def test_there_is_none_over_both_kinds(self, found):
        assert found.comparison is None
        assert found.comparison_reason == (
            "undecided: 2 kinds of card (NVIDIA H200, NVIDIA L4), each with verdicts of its own"
        )
        assert (found.start_gains, found.break_evens, found.host_bound) == ((), (), ())
        assert found.break_even_reason == found.comparison_reason

    @pytest.mark.parametrize(("label", "percent"), [("NVIDIA L4", 2.0), ("NVIDIA H200", 400.0)])
    def test_each_kind_has_what_was_built_in(self, found, label, percent):
        part = next(part for kind, part in found.by_kind if kind.label == label)
        for pair in (part.pair("eager"), part.pair("eager", 1), part.pair("eager", 2)):
            assert pair.verdict is Verdict.SLOWER
            assert not pair.preliminary
            assert pair.effect_percent.point == pytest.approx(percent, rel=0.1)
            assert pair.effect_percent.n == 5
        assert part.by_kind == ()

    def test_a_study_on_one_kind_is_as_it_was(self, study):
        alone = find(split_kinds(study)[1][1])
        assert alone.by_kind == ()
        assert alone.comparison is not None

    def test_a_block_of_the_same_number_on_another_kind_is_another_block(self):
        draw = random.Random(2)
        ours = make_blocks(make_machine(), range(1, 4), draw)
        theirs = make_blocks(make_machine(**H200), range(1, 4), draw)
        again = [one.model_copy(update={"launch_id": f"{one.launch_id[:-1]}2", "attempt": 2}) for one in theirs[0]]
        runs = [
            one.model_copy(
                update={"run_id": f"{one.run_id[:-1]}2", "launch_id": f"{one.launch_id[:-1]}2", "attempt": 2}
            )
            for one in theirs[1]
        ]
        judged = judge_runs(make_study([*ours[0], *again], [*ours[1], *runs]))
        assert len(judged) == 24
        assert all(one.counts for one in judged)


class TestNothingIsPooled:
    """Medians over unlike cards are of none of them: tables have rows a kind of card."""

    def test_medians_of_runs(self, study):
        table = session_figures(study).set_index(["card", "level", "users"])["median_tpot_ms"]
        assert table[("NVIDIA L4", "default", 1)] == pytest.approx(60.0, rel=0.01)
        assert table[("NVIDIA H200", "default", 1)] == pytest.approx(5.0, rel=0.01)
        assert len(table) == 2 * 2 * 2

    def test_the_guides_table(self, study):
        rows = session_table(study).to_dict("records")
        assert [(row["card"], row["users"]) for row in rows] == [
            (card, users) for card in ("NVIDIA H200", "NVIDIA L4") for users in (1, 2)
        ]
        assert rows[0]["tpot"].startswith("5.0")
        assert rows[2]["tpot"].startswith(("59.9", "60.0"))

    def test_starts(self, study):
        table = start_table(study).set_index(["card", "level"])
        assert table["n"].to_dict() == {
            (card, level): 5 for card in ("NVIDIA H200", "NVIDIA L4") for level in ("default", "eager")
        }
        assert set(table["machines"]) == {1}
        assert set(table.loc[[("NVIDIA H200", "eager"), ("NVIDIA L4", "eager")], "difference_n"]) == {5}

    def test_first_requests(self, study, found):
        table = first_request_table(study).set_index(["card", "level"])
        assert table["starts"].to_dict() == {
            (card, level): 5 for card in ("NVIDIA H200", "NVIDIA L4") for level in ("default", "eager")
        }
        assert [len(sheet.rows) for sheet in list_by_kind(found, list_first_requests)] == [2, 2]

    def test_starts_in_an_edition(self, found):
        titles = [sheet.title for sheet in list_by_kind(found, list_starts)]
        assert titles == [f"{name}: Starts, spawn to first token" for name in ("NVIDIA H200", "NVIDIA L4")]

    def test_figures_that_prose_may_quote(self, found):
        assert {name.split("/")[-1] for name in list_figures([found])} == {"blocks", "vllm_version"}

    def test_figures_beside_another_study(self, study, found):
        assert measure_part(study, found, (1, 2)).cells == {}

    def test_one_kind_is_named_in_each_row(self, study):
        label, part = split_kinds(study)[0]
        assert set(session_figures(part)["card"]) == set(start_table(part)["card"]) == {label.label}


class TestTable:
    def test_each_kind_level_and_number_of_users_has_a_row(self, found):
        table = card_table(found).set_index(["card", "level", "users"])
        row = table.loc[("NVIDIA L4", "eager", 1)]
        assert (row["machines"], row["blocks"], row["runs"], row["verdict"]) == (1, 5, 5, "slower")
        assert row["median_tpot_ms"] == pytest.approx(61.2, rel=0.01)
        assert row["difference_low_percent"] < row["difference_percent"] < row["difference_high_percent"]
        assert table.loc[("NVIDIA H200", "eager", 1), "median_tpot_ms"] == pytest.approx(25.0, rel=0.01)
        assert table.loc[("NVIDIA H200", "default", 2), "reason"] == "the default itself"
        # two kinds x (default at 1, 2 and eager over all, at 1, 2)
        assert len(table) == 2 * (2 + 3)

    def test_one_kind_has_no_table(self, study):
        assert tabulate_cards(find(split_kinds(study)[0][1])) == {}

    def test_its_columns_are_as_the_dictionary_says(self, found):
        rows = list(csv.DictReader(io.StringIO(write_csv(tabulate_cards(found)["cards"]))))
        holds = {"number": float, "whole number": int, "true or false": {"True": 1, "False": 0}.__getitem__}
        part = next(part for part in describe_tables() if part.name == "cards")
        assert list(rows[0]) == [one.name for one in part.fields]
        for one in part.fields:
            for cell in filter(None, (row[one.name] for row in rows)):
                holds.get(one.kind, str)(cell)
            assert one.null != NEVER or all(row[one.name] for row in rows), one.name


class TestEdition:
    def test_the_headline_names_each_kind_with_its_cost(self, found):
        said = headline(found)
        assert "On one NVIDIA H200 " in said
        assert "On one NVIDIA L4 " in said
        assert "2.0 percent" in said or "2 percent" in said
        assert "not enough evidence" not in said

    def test_the_part_shows_each_level_on_each_card(self, found):
        sheet = list_across_cards(found, (1, 2))
        assert sheet.title == TITLE
        assert ("NVIDIA L4", "1", "eager") in {row[:3] for row in sheet.rows}
        verdicts = {row[0]: row[5] for row in sheet.rows if row[1:3] == ("all", "eager")}
        assert verdicts == {"NVIDIA L4": "slower", "NVIDIA H200": "slower"}

    def test_medians_stand_by_kind(self, found):
        titles = [sheet.title for sheet in list_sessions(found, (1, 2))]
        names, said = ("NVIDIA H200", "NVIDIA L4"), ("default / eager", "Time to the first token")
        assert titles == [f"{name}: {what}: medians over runs" for what in said for name in names]

    def test_it_says_why_there_is_no_verdict_over_all(self, found, study):
        (sentence,) = say_kinds(found)
        assert "2 kinds of card: NVIDIA H200 (1 with 5 blocks), NVIDIA L4 (1 with 5 blocks)" in sentence
        assert say_kinds(find(split_kinds(study)[0][1])) == ()

    def test_nothing_is_recommended_over_both_kinds(self, found):
        assert all(advice.status != "recommended" for advice in recommend(found) if advice.key == "production")
