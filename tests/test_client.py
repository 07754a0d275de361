import time

import pytest

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.pool import Prompt
from study.errors import LoadError
from study.measure.client import summarize_requests
from study.measure.deaths import ClientKilledError
from study.measure.flags import request_of
from study.measure.load import Client, Target, make_pool, pool_job, size_run, warm_up

RESULT = {
    "start_times": [10.2, 10.0, 10.1, 10.3],
    "ttfts": [0.02, 0.01, 0.0, 0.03],
    "latencies": [0.05, 0.04, 0.0, 0.06],
    "itls": [[0.01, 0.02], [0.015, 0.015], [], [0.0001, 0.0299]],
    "input_lens": [8, 8, 8, 8],
    "output_lens": [3, 3, 0, 3],
    "errors": ["", "", "boom", ""],
}


def test_requests_come_in_the_order_sent():
    columns = summarize_requests(RESULT, 2)
    assert columns["start_s"] == [10.0, 10.1, 10.2, 10.3]
    assert columns["order"] == [1, 2, 0, 3]
    assert columns["ttft_s"] == [0.01, None, 0.02, 0.03]  # a failed request has no time, never 0
    assert columns["output_tokens"] == [3, None, 3, 3]
    assert columns["error"] == ["", "boom", "", ""]


def test_pieces_and_short_gaps_are_counted():
    columns = summarize_requests(RESULT, 2)
    assert columns["chunks"] == [3, 0, 3, 3]
    assert columns["short_gaps"] == [0, 0, 0, 1]  # 0.1 ms beside a mean of 15 ms


def test_the_first_request_of_each_wave_is_the_witness():
    assert summarize_requests(RESULT, 2)["witness_us"] == {0: [15000, 15000], 2: [10000, 20000]}


def test_a_request_without_tokens_is_a_failure_even_without_a_word():
    result = {**RESULT, "errors": ["", "", "", ""]}
    assert summarize_requests(result, 2)["error"][1] == "no token came back"


@pytest.mark.parametrize(
    ("wave_s", "factor", "waves"),
    [(1.0, 1, 10), (2.0, 1, 8), (0.9, 1, 12), (6.0, 6, 10), (10.0, 6, 8)],
)
def test_runs_are_at_least_eight_waves_and_ten_or_sixty_seconds(wave_s, factor, waves):
    # METHOD.md: at least 8 waves and at least min_run_s (10 s; 60 s for levels that launch from the host)
    parameters = make_parameters({"study": "s", "model": "m"})
    assert size_run(parameters, factor, wave_s) == waves


@pytest.fixture
def client(fake_vllm, tmp_path):
    client = Client("m", tmp_path / "client.log", tmp_path, {})
    yield client
    client.close()


def test_a_pool_is_made_with_the_models_tokenizer(client, tmp_path):
    parameters = make_parameters({"study": "s", "model": "m", "input_tokens": 5})
    pool = make_pool(client, parameters, tmp_path, 1, 10)
    assert len(pool) == 10
    assert {len(item.prompt.split()) for item in pool} == {5}
    assert pool == make_pool(client, parameters, tmp_path, 1, 10)
    assert pool != make_pool(client, parameters, tmp_path, 2, 10)


def test_a_pool_that_was_made_ahead_is_the_one_that_is_asked_for(fake_vllm, tmp_path):
    parameters = make_parameters({"study": "s", "model": "m", "input_tokens": 5})
    pools = [pool_job(parameters, seed, 10) for seed in (1, 2)]
    made = []
    for jobs in ([], pools):
        client = Client("m", tmp_path / "client.log", tmp_path, {}, {"job": "begin", "flags": None, "pools": jobs})
        made.append([make_pool(client, parameters, tmp_path, seed, 10) for seed in (1, 2)])
        client.close()
    assert made[0] == made[1]
    assert made[0][0] != made[0][1]


def test_a_pool_that_cannot_be_made_ahead_is_an_error_when_it_is_asked_for(fake_vllm, tmp_path):
    bad = {**pool_job(make_parameters({"study": "s", "model": "m"}), 1, 10), "input_tokens": "many"}
    client = Client("m", tmp_path / "client.log", tmp_path, {}, {"job": "begin", "flags": None, "pools": [bad]})
    with pytest.raises(LoadError, match="TypeError"):
        client.ask(bad, 30.0)
    assert client.running
    client.close()


def test_a_client_tells_of_unknown_flags_as_soon_as_it_is_there(fake_vllm, tmp_path):
    asked = request_of([Level(name="mine", flags=("--enforce-eagr",))], ["--max-model-len", "64"])
    client = Client("m", tmp_path / "client.log", tmp_path, {}, {"job": "begin", "flags": asked, "pools": []})
    assert "level 'mine': vLLM has no flag '--enforce-eagr'" in client.begin(30.0)["problem"]
    client.close()


def test_a_users_pool_is_taken_as_it_is(client, tmp_path):
    (tmp_path / "pool.jsonl").write_text('{"prompt": "a b", "output_tokens": 5}\n')
    parameters = make_parameters({"study": "s", "model": "m", "pool": "pool.jsonl"})
    assert make_pool(client, parameters, tmp_path, 1, 10) == [Prompt("a b", 5)]


def test_a_server_that_is_not_there_is_a_load_error(client, tmp_path):
    parameters = make_parameters({"study": "s", "model": "m", "output_tokens": 4})
    target = Target("http://127.0.0.1:9", "m", parameters, tmp_path)
    with pytest.raises(LoadError, match="refused"):
        warm_up(client, target, 1, [Prompt("w1")], (1, 1.0))


def test_a_client_that_was_killed_is_told_from_one_that_failed(client):
    client._process.kill()
    client._process.wait()
    with pytest.raises(ClientKilledError, match="the load client was killed from outside by SIGKILL"):
        client.ask({"job": "pool"}, 5.0)


def test_a_client_that_broke_is_a_load_error_that_says_so(client):
    client._process.send_signal(11)  # SIGSEGV, which nobody sends but itself
    client._process.wait()
    with pytest.raises(LoadError, match="the load client ended") as caught:
        client.ask({"job": "pool"}, 5.0)
    assert not isinstance(caught.value, ClientKilledError)


def test_a_silent_client_is_ended_at_its_deadline(fake_vllm, tmp_path):
    client = Client("m", tmp_path / "client.log", tmp_path, {})
    client.ask({"job": "pool", "seed": 1, "input_tokens": 2, "size": 1}, 30.0)
    client._process.send_signal(19)  # SIGSTOP: alive, and silent
    started = time.monotonic()
    with pytest.raises(LoadError, match="did not answer within 0 s"):
        client.ask({"job": "pool", "seed": 1, "input_tokens": 2, "size": 1}, 0.4)
    assert time.monotonic() - started < 5
    assert client._process.poll() is not None
    client.close()
