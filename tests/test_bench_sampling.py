"""The sampling benchmark: drift against the grid, ABBA pairs, and a server whose pace is known."""

import json
import math
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import pytest
from bench import sampling, sides
from bench.pairs import is_sampled, judge_pairs, mean_tpot_ms, unsampled_seeds
from bench.sampler import CountedWait, find_drift
from bench.sides import ROOT, BenchError
from fake_nvml import FakeCard, FakeClock, FakeNvml
from make_records import make_run

from study.measure.gpu import GpuReader
from study.measure.telemetry import HostSample, Sampler


class SlowHost:
    """A host whose reading takes 7 ms."""

    def __init__(self, clock):
        self.clock = clock

    def read(self):
        self.clock.now_s += 0.007
        return HostSample(0.25, 0.0, None)

    def explain(self, name):
        return f"no {name}"


def test_what_a_reading_costs_does_not_add_up_over_600_samples():
    clock = FakeClock()
    left = iter(range(598, -1, -1))

    def wait(length_s):
        clock.sleep(length_s)
        return next(left) == 0

    sampler = Sampler(GpuReader.open(None, FakeNvml(FakeCard()), {}), SlowHost(clock), clock, wait)
    sampler.start()
    sampler._thread.join()
    drift = find_drift(sampler.stop().t_s, 0.1)
    assert (drift.samples, drift.missed) == (600, 0)
    assert drift.most_ms < 1e-6
    assert abs(drift.trend_ms_a_minute) < 1e-6


def test_a_period_after_the_last_sample_is_a_drift():
    drift = find_drift([100 + 0.10002 * number for number in range(600)], 0.1)
    assert drift.most_ms == pytest.approx(599 * 0.02)
    assert drift.mean_ms == pytest.approx(599 * 0.02 / 2)
    assert drift.trend_ms_a_minute == pytest.approx(0.02 * 600, rel=0.01)


def test_a_missed_deadline_is_counted_and_no_drift():
    drift = find_drift([0.0, 0.1, 0.2, 0.5, 0.6], 0.1)
    assert (drift.samples, drift.missed) == (5, 2)
    assert drift.most_ms < 1e-6


def test_the_share_of_a_core_is_cpu_time_over_wall_time():
    wait = CountedWait(3)
    wait.seen = [(10.0, 1.0), (11.0, 1.5), (40.0, 1.3)]
    assert wait.core_share == pytest.approx(0.3 / 30.0)


def test_pairs_go_with_without_without_with():
    assert [is_sampled(run) for run in range(8)] == [True, False, False, True] * 2
    assert unsampled_seeds(4) == [2, 3, 6, 7]


def test_the_effect_is_with_over_without_whichever_came_first():
    judged = judge_pairs([5.05, 5.0, 5.0, 5.06, 5.04, 5.0])
    assert judged["pairs"] == 3
    assert judged["effect_percent"] == pytest.approx(100 * ((1.01 * 1.012 * 1.008) ** (1 / 3) - 1))
    assert judged["tpot_without_ms"] == 5.0
    assert not judged["equivalent"]


def test_small_effects_with_little_scatter_are_equivalent():
    steps = [0.001, -0.001, 0.0005, -0.0005, 0.0002, 0.0]
    tpots = []
    for pair, step in enumerate(steps):
        both = [5.0 * math.exp(step), 5.0]
        tpots += both if is_sampled(2 * pair) else both[::-1]
    judged = judge_pairs(tpots)
    assert judged["equivalent"]
    assert judged["equivalence_p"] < 0.025
    assert abs(judged["high_percent"]) < 0.5


def test_a_scatter_wider_than_the_margin_is_no_equivalence():
    assert not judge_pairs([5.0, 5.1, 5.0, 5.1, 5.2, 5.0, 5.0, 5.1])["equivalent"]


@pytest.mark.parametrize("tpots_ms", [[], [5.0], [5.0, 5.1], [5.0, 5.1, 5.2]])
def test_before_two_pairs_there_is_no_verdict(tpots_ms):
    assert judge_pairs(tpots_ms) is None


def test_tpot_is_the_time_after_the_first_token_by_the_tokens_after_it():
    requests = make_run().load.requests
    expected = [
        (latency_s - ttft_s) / (tokens - 1)
        for latency_s, ttft_s, tokens in zip(
            requests.latency_s, requests.ttft_s, requests.output_tokens, strict=True
        )
    ]
    assert mean_tpot_ms(requests) == pytest.approx(1e3 * sum(expected) / len(expected))
    with pytest.raises(ValueError, match="failed or was cut short"):
        mean_tpot_ms(requests.model_copy(update={"asked_tokens": [tokens + 1 for tokens in requests.asked_tokens]}))


def test_figures_are_on_disk_after_each_run_whatever_comes_then(monkeypatch, tmp_path):
    file = tmp_path / "figures.json"

    def measure(_asked):
        yield from (5.0, 5.1)
        assert json.loads(file.read_text())["server"]["tpots_ms"] == [5.0, 5.1]
        yield from (5.2, 5.0)
        raise BenchError("the machine went away")

    monkeypatch.setattr(sampling, "measure_server", measure)
    asked = sampling.Sampling(parameters=None, level=None, users=1, pairs=10, run_s=1.0, data_dir=None)
    with pytest.raises(BenchError, match="went away"):
        sampling.bench_sampling(asked, ("server",), file)
    kept = json.loads(file.read_text())["server"]
    assert kept["tpots_ms"] == [5.0, 5.1, 5.2, 5.0]
    assert kept["judged"]["pairs"] == 2


def test_pairs_alternate_on_one_server_and_none_is_a_measurement(fake_vllm, tmp_path):
    values = {"study": "mine", "device": "cpu", "users": [2, 4], "users_published": [4], "seeds": [9]}
    values |= {"model": "notebooks/parameters/models/rehearsal.yaml", "load_format": "dummy", "levels": ["default"]}
    values |= {"input_tokens": 8, "output_tokens": 8, "waves": 2}
    file = tmp_path / "parameters.yaml"
    file.write_text(json.dumps(values))
    asked = sampling.Sampling(parameters=file, level="default", users=1, pairs=2, run_s=0.0, data_dir=tmp_path / "data")
    tpots_ms = list(sampling.measure_server(asked))
    # A gap of the stand-in for vLLM is 2 ms.
    assert tpots_ms == pytest.approx([2.0] * 4)
    records = sampling.Store(tmp_path / "data", "sampling").read()
    (launch,) = records.launches
    assert not launch.fills_caches
    assert launch.level == "default"
    assert {run.seed: run.telemetry is not None for run in records.runs} == {1: True, 2: False, 3: False, 4: True}
    assert list(sampling.measure_server(asked)) == tpots_ms  # measured already, and read again


def test_the_paced_stand_in_streams_as_many_tokens_as_asked():
    with sampling.paced_server() as url:
        body = json.dumps({"prompt": "w5 w6 w7", "max_tokens": 4}).encode()
        with urllib.request.urlopen(urllib.request.Request(f"{url}/v1/completions", body), timeout=10) as answer:
            lines = [line for line in answer.read().decode().split("\n\n") if line]
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/metrics", timeout=10)
    assert lines[-1] == "data: [DONE]"
    sent = [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
    assert [bool(item["choices"]) for item in sent] == [True] * 4 + [False]
    assert sent[-1]["usage"] == {"prompt_tokens": 3, "completion_tokens": 4}


def test_the_stand_in_ends_at_once_where_a_shell_ignores_interrupts():
    """As one does for what it starts in the background; what does not end is killed, a minute later."""
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        begun_s = time.monotonic()
        with sampling.paced_server():
            pass
    finally:
        signal.signal(signal.SIGINT, before)
    assert time.monotonic() - begun_s < sides.PATIENCE_S / 2


def test_a_stand_in_that_cannot_start_is_named(monkeypatch):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        monkeypatch.setattr(sampling, "find_port", lambda: holder.getsockname()[1])
        with pytest.raises(BenchError, match="did not start"), sampling.paced_server():
            pass


def test_the_help_names_both_benchmarks():
    done = subprocess.run([sys.executable, "-m", "tests.bench", "--help"], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0
    assert "overhead" in done.stdout
    assert "sampling" in done.stdout
