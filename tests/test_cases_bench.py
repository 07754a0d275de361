"""What `vllm bench serve` writes in public that misleads, kind by kind: zeros, lost requests, keys that move."""

import json

import pytest
from make_records import make_launch, make_load, make_run, make_study

from study.analyze.judged_runs import judge_runs
from study.analyze.runs import figures_of
from study.analyze.tables import run_table
from study.analyze.validity import judge_run
from study.design.parameters import COMPARABLE, make_parameters
from study.design.pool import Prompt
from study.errors import LoadError
from study.measure.client import answer, summarize_requests
from study.measure.load import Target, run_load, warm_up
from study.records import Requests

COUNT, TOKENS = 8, 4
GOOD = {
    "start_times": [1000.0 + index for index in range(COUNT)],
    "ttfts": [0.05] * COUNT,
    "itls": [[0.01] * (TOKENS - 1)] * COUNT,
    "latencies": [0.08] * COUNT,
    "input_lens": [256] * COUNT,
    "output_lens": [TOKENS] * COUNT,
    "errors": [""] * COUNT,
}
FAILED = {"ttfts": 0.0, "latencies": 0.0, "itls": [], "output_lens": 0}
"""What vLLM's benchmark leaves in a request that failed: zeros, not nulls."""


def result_with(places, **values):
    """A result in which some requests hold other values."""
    columns = {name: list(column) for name, column in GOOD.items()}
    for name, value in values.items():
        for place in places:
            columns[name][place] = value
    return columns


def run_of(result, asked=TOKENS, **fields):
    """The run that the study would record of a result."""
    columns = summarize_requests(result, 1)
    columns.pop("order")
    requests = Requests(**columns, asked_tokens=[asked] * len(columns["start_s"]))
    return make_run(load=make_load(requests, started_s=1000.0, ended_s=1010.0, duration_s=8.08, **fields))


def judge(result, **fields):
    run = run_of(result, **fields)
    return judge_run(run, make_launch()), figures_of(run, make_launch())


def details(validity):
    return {one.code: one.detail for one in validity.faults}


def test_a_whole_result_is_valid():
    validity, figures = judge(GOOD)
    assert details(validity).keys() <= {"telemetry_gap"}  # made times
    assert figures.median_tpot_ms == pytest.approx(10.0)


def test_c1_everything_failed_is_no_zero_anywhere():
    validity, figures = judge(result_with(range(COUNT), errors="refused", **FAILED))
    assert details(validity)["failed_requests"] == "8 of 8, first: refused"
    names = ("mean_tpot_ms", "median_tpot_ms", "median_ttft_ms", "output_tokens_per_s", "n_over_throughput_ms")
    assert {getattr(figures, name) for name in names} == {None}
    assert all(figures.reasons[name] for name in names)


@pytest.mark.parametrize("places", [(0,), range(COUNT - 1)])
def test_c2_partly_failed_names_how_many_of_how_many(places):
    validity, _ = judge(result_with(places, errors="lost", **FAILED))
    assert details(validity)["failed_requests"] == f"{len(places)} of 8, first: lost"


def test_c2_fewer_requests_than_were_to_be_sent():
    short = {name: column[:5] for name, column in GOOD.items()}
    validity, _ = judge(short, waves=8)
    assert details(validity)["failed_requests"] == "5 requests came back of 8"


def test_c3_a_first_token_after_no_time_is_a_failed_request():
    validity, figures = judge(result_with(range(COUNT), ttfts=0.0))
    assert details(validity)["failed_requests"].startswith("8 of 8")
    assert figures.median_ttft_ms is None


def test_c4_no_output_tokens_without_an_error():
    validity, figures = judge(result_with(range(COUNT), output_lens=0))
    assert details(validity)["failed_requests"] == "8 of 8, first: no token came back"
    assert figures.output_tokens_per_s is None


def test_c5_one_token_has_no_time_per_output_token():
    one = result_with(range(COUNT), output_lens=1, itls=[], latencies=0.05)
    validity, figures = judge(one, asked=1)
    assert figures.median_tpot_ms is None
    assert "failed_requests" not in details(validity)


class Benchmark:
    """A benchmark whose result is given, in place of vLLM's; it is asked for loads alone."""

    begin = pool = None

    def __init__(self, result):
        self.result = result

    def load(self, job):
        return {"requests": summarize_requests(self.result, job["users"])}


def ask(result):
    return answer(Benchmark(result), {"job": "load", "users": 1})


@pytest.mark.parametrize("name", GOOD)
def test_c6_a_key_that_is_gone_is_named(name):
    said = ask({key: column for key, column in GOOD.items() if key != name})
    assert not said["ok"]
    assert name in said["error"]


@pytest.mark.parametrize("value", [None, "x"])
@pytest.mark.parametrize("name", GOOD)
def test_c6_a_value_of_another_type_is_an_error_or_no_figure(name, value):
    said = ask(result_with([2], **{name: value}))
    if said["ok"]:
        assert name == "errors"  # null is no error; any other is one in words
        assert said["requests"]["error"][2] == (value or "")


def test_c6_keys_that_nobody_knows_do_no_harm():
    extra = {"request_goodput:": 1.0, "endpoint_type": "vllm", "p99.9_ttft_ms": 3.0, "queue_times": [0.0], "rtfx": None}
    assert ask({**GOOD, **extra}) == ask(GOOD)


@pytest.mark.parametrize("name", ["start_times", "itls", "errors"])
def test_c6_lists_of_unequal_length_are_an_error(name):
    longest = {**GOOD, "start_times": [*GOOD["start_times"], 9.0]} if name == "start_times" else None
    assert not ask(longest or {**GOOD, name: GOOD[name][:-1]})["ok"]


def test_c7_infinity_in_what_is_not_read_does_no_harm():
    # SGLang and older results hold Infinity and NaN beside the requests
    text = json.dumps({**GOOD, "request_rate": float("inf"), "mean_tpot_ms": float("nan")})
    assert "Infinity" in text
    assert ask(json.loads(text)) == ask(GOOD)


class Told:
    """A load client that answers from a list, and keeps what it was asked."""

    def __init__(self, durations_s, changed=None):
        self.durations_s = list(durations_s)
        self.changed = changed or {}
        self.jobs = []

    def ask(self, job, deadline_s):
        self.jobs.append(job)
        columns = summarize_requests(GOOD, job["users"])
        columns.pop("order")
        times = {"started_s": 1000.0, "ended_s": 1010.0, "duration_s": self.durations_s.pop(0)}
        return {**times, "requests": {**columns, "asked_tokens": [TOKENS] * COUNT, **self.changed}}


def measure(tmp_path, waves=2, durations_s=(9.0, 1.2, 8.0), changed=None):
    parameters = make_parameters({"study": "s", "model": "m", "output_tokens": TOKENS})
    client, target = Told(durations_s, changed), Target("http://127.0.0.1:1", "m", parameters, tmp_path)
    warm = warm_up(client, target, 1, [Prompt("warm")], (waves, 1.0))
    return client, run_load(client, target, 1, [Prompt("a"), Prompt("b")], warm)


def test_c8_c9_no_result_file_is_written_appended_to_or_given_metadata(tmp_path):
    client, load = measure(tmp_path)
    for arguments in (load.arguments, *(job["arguments"] for job in client.jobs)):
        assert not {"--append-result", "--save-result", "--metadata", "--result-dir"} & set(arguments)


def test_c10_no_list_becomes_a_cell_of_a_table():
    study = make_study([make_launch()], [run_of(GOOD)])
    cells = run_table(study, judge_runs(study)).to_dict("records")[0].values()
    assert not [cell for cell in cells if isinstance(cell, list | tuple | dict)]


def test_c11_pieces_of_several_tokens_are_a_fault_and_not_a_faster_token():
    # speculative decoding, or a stream that comes in bunches: a gap is one of pieces, not of tokens
    validity, _ = judge(result_with(range(COUNT), output_lens=12), asked=12)
    assert "32 chunks for 96 tokens" in details(validity)["stream_bunched"]


def test_c12_model_and_flags_are_the_studys_own_record():
    assert {"model", "load_format", "server_flags"} <= set(COMPARABLE)


def test_c13_what_the_benchmark_is_asked_stands_in_the_record(tmp_path):
    _, load = measure(tmp_path)
    arguments = list(load.arguments)
    assert arguments[arguments.index("--temperature") + 1] == "0"
    assert "--ignore-eos" in arguments


def test_c13_other_numbers_of_tokens_than_asked_for_are_a_fault():
    validity, _ = judge(result_with([3], output_lens=5))
    assert details(validity)["tokens_not_as_requested"] == "1 of 8, first: request 3 gave 5 tokens of 4"


def test_c14_waves_before_the_load_are_thrown_away_and_the_last_one_sizes_it(tmp_path):
    client, load = measure(tmp_path)
    assert (load.warm_up_waves, load.warm_up_waves_s, load.warm_up_wave_s) == (2, [9.0, 1.2], 1.2)
    assert load.waves == 9  # 10 s of waves of 1.2 s
    assert len(client.jobs) == 3


@pytest.mark.parametrize("value", [float("inf"), float("nan"), -1.0])
def test_c7_infinity_in_what_is_read_fails_the_run_and_names_the_field(tmp_path, value):
    with pytest.raises(LoadError, match="the benchmark's result does not fit: field 'latency_s"):
        measure(tmp_path, changed={"latency_s": [value] * COUNT})


@pytest.mark.parametrize("wave_s", [0.0, float("nan"), float("inf")])
def test_c1_a_wave_without_a_length_sizes_no_run(tmp_path, wave_s):
    with pytest.raises(LoadError, match="no run can be sized by that"):
        measure(tmp_path, durations_s=(9.0, wave_s))
