import pytest
from make_records import make_launch, make_load, make_outcome, make_requests, make_run, make_study

from study.analyze.first_requests import first_request_table


def run_with(waves_s, launch, users=1, **fields):
    requests = make_requests(users)
    load = make_load(requests, users, warm_up_waves=len(waves_s), warm_up_wave_s=9.0, warm_up_waves_s=waves_s)
    return make_run(launch, users, requests=requests, load=load, **fields)


def row_of(launches, runs=()):
    (row,) = first_request_table(make_study(launches, runs)).to_dict("records")
    return row


def test_the_first_wave_is_set_against_the_last_of_its_run():
    launch = make_launch()
    row = row_of([launch], [run_with([6.0, 1.5], launch, users=8)])
    assert (row["times_median"], row["first_wave_s"], row["last_wave_s"]) == (4.0, 6.0, 1.5)
    assert (row["n"], row["at_users"], row["reason"]) == (1, "8", None)


def test_several_launches_give_median_and_range():
    launches = [make_launch(block=block) for block in (1, 2, 3)]
    firsts = zip(launches, (3.0, 2.0, 7.0), (1, 8, 1), strict=True)
    row = row_of(launches, [run_with([first_s, 1.0], launch, users) for launch, first_s, users in firsts])
    assert (row["times_median"], row["times_least"], row["times_greatest"]) == (3.0, 2.0, 7.0)
    assert (row["n"], row["at_users"]) == (3, "1, 8")
    assert (row["first_wave_s"], row["last_wave_s"]) == (3.0, 1.0)


def test_the_waves_shown_are_those_of_one_launch():
    # Medians of each would be 6 s and 4 s, a ratio that no launch has.
    launches = [make_launch(block=block) for block in (1, 2, 3)]
    waves_s = ([6.0, 2.0], [8.0, 4.0], [5.0, 5.0])
    row = row_of(launches, [run_with(waves, launch) for launch, waves in zip(launches, waves_s, strict=True)])
    assert (row["times_median"], row["first_wave_s"], row["last_wave_s"]) == (2.0, 8.0, 4.0)


def test_later_runs_of_a_launch_say_nothing_of_first_requests():
    launch = make_launch()
    later = run_with([1.0], launch, users=8, position=1)
    row = row_of([launch], [later, run_with([6.0, 2.0], launch)])
    assert (row["times_median"], row["n"]) == (3.0, 1)


def test_a_first_run_that_is_lost_gives_no_ratio():
    launch = make_launch()
    row = row_of([launch], [run_with([1.0, 1.0], launch, users=8, position=1)])
    assert (row["n"], row["reason"]) == (0, "the first run of the launch is not among the records")


@pytest.mark.parametrize(
    ("waves_s", "reason"), [([2.0], "one warm-up wave alone"), ([], "does not hold the lengths of its warm-up waves")]
)
def test_without_two_waves_there_is_no_ratio_and_a_reason(waves_s, reason):
    launch = make_launch()
    row = row_of([launch], [run_with(waves_s, launch)])
    assert row["times_median"] != row["times_median"]  # NaN
    assert row["n"] == 0
    assert reason in row["reason"]


def test_starts_alone_have_the_time_from_ready_to_first_token_and_no_ratio():
    launches = [make_launch(block=block, healthy_s=868.0, first_token_s=868.0 + s) for block, s in ((1, 0.5), (2, 2.5))]
    row = row_of(launches)
    assert "starts alone were measured" in row["reason"]
    assert (row["to_first_token_s"], row["starts"]) == (1.5, 2)
    assert (row["to_first_token_least_s"], row["to_first_token_greatest_s"]) == (0.5, 2.5)


def test_a_failed_first_run_says_so():
    launch = make_launch()
    failed = make_run(launch, load=None, outcome=make_outcome(status="failed", stage="load", message="client ended"))
    assert "client ended" in row_of([launch], [failed])["reason"]


def test_cold_and_warm_stand_apart_and_fills_do_not_count():
    warm, cold = make_launch(), make_launch(block=2, cache="cold", healthy_s=1020.0, first_token_s=1030.0)
    fill = make_launch(block=0, launch_id="fill-default-a1", fills_caches=True, healthy_s=1.0, first_token_s=900.0)
    table = first_request_table(make_study([warm, cold, fill]))
    assert table["cache"].tolist() == ["warm", "cold"]
    assert table["to_first_token_s"].tolist() == [1.0, 10.0]


def test_a_level_that_never_got_ready_keeps_its_row():
    failed = make_outcome(status="failed", stage="ready", message="deadline")
    row = row_of([make_launch("O1", healthy_s=None, first_token_s=None, resolved=None, outcome=failed)])
    assert (row["n"], row["starts"]) == (0, 0)
    assert row["token_reason"] == "no launch got from ready to a first token"


def test_a_server_that_did_not_run_its_level_does_not_count():
    launch = make_launch("O0", expect={"optimization_level": 0})
    row = row_of([launch], [run_with([6.0, 1.0], launch)])
    assert (row["n"], row["reason"]) == (0, "no launch ran the level as asked")


def test_an_empty_study_has_an_empty_table():
    assert first_request_table(make_study([])).empty
