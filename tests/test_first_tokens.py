"""The table of times to the first token: medians over runs that count, and no table without them."""

from make_records import make_launch, make_outcome, make_run, make_study

from study.analyze.findings import find
from study.publish.cards_part import list_sessions
from study.publish.sheets import list_first_tokens


def study_of(ttft_s):
    """One block a time: level to a time a block, s."""
    places = [(level, block) for level, times in ttft_s.items() for block in range(1, len(times) + 1)]
    launches = [make_launch(level, block=block) for level, block in places]
    runs = [make_run(launch, 8, ttft_s=ttft_s[launch.level][launch.block - 1]) for launch in launches]
    return launches, runs


def test_times_are_medians_over_the_runs_that_count():
    launches, runs = study_of({"default": [0.025, 0.028, 0.022], "O0": [0.05, 0.06, 0.9]})
    failed = make_outcome(status="failed", stage="load", message="cut")
    runs = [run.model_copy(update={"outcome": failed}) if run.run_id == "b3-O0-u8-a1" else run for run in runs]
    sheet = list_first_tokens(find(make_study(launches, runs)), (1, 8))
    assert sheet.head == ("users", "default", "O0")
    # default: the middle of 25, 28 and 22 ms; O0: of the two runs that count, 50 and 60 ms.
    assert sheet.rows == (("8", "25.00 ms", "55.00 ms"),)


def test_no_run_that_counts_leaves_no_table():
    launches, runs = study_of({"default": [0.025]})
    failed = make_outcome(status="failed", stage="load", message="cut")
    found = find(make_study(launches, [run.model_copy(update={"outcome": failed}) for run in runs]))
    assert [sheet.title for sheet in list_sessions(found, (8,)) if "first token" in sheet.title] == []
