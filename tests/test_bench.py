"""The benchmarks of the study: equal sides, no figure after a failed one, and the arithmetic of their tables."""

import json
import subprocess
import sys
from types import SimpleNamespace

import pytest
from bench import overhead, sides
from bench.__main__ import main, make_parser
from bench.parts import PARTS, split_time
from bench.sides import BenchError, Matrix, Timed, check_ours, check_sweep, run_timed

from study.design.levels import select_levels
from study.design.pool import Prompt
from study.measure.load import Target, WarmUp, run_load
from study.measure.server_spec import ServerSpec, command_of

MATRIX = Matrix()


def test_the_matrix_is_the_one_that_is_asked_for():
    """2 levels x 2 users (1 with 8 requests, 4 with 16; 128 tokens in, 32 out) x 3 runs."""
    assert MATRIX.levels == ("O0", "eager")
    assert MATRIX.requests == {1: 8, 4: 16}
    assert MATRIX.count == 12
    parameters = MATRIX.parameters("data")
    assert (parameters.input_tokens, parameters.output_tokens, parameters.min_run_s) == (128, 32, 0)
    assert parameters.fresh_server_per_seed is False


def test_overhead_is_what_is_run_when_nothing_is_named(monkeypatch):
    asked = []
    monkeypatch.setattr("bench.__main__.bench_overhead", lambda *arguments: asked.append(arguments) or 0)
    assert main([]) == main(["overhead"]) == main(["--first", "sweep"]) == 0
    assert [first for first, _, _ in asked] == ["ours", "ours", "sweep"]


def test_an_unknown_side_or_part_is_refused(capsys):
    for arguments in (["overhead", "--first", "nobody"], ["sampling", "--only", "nothing"]):
        with pytest.raises(SystemExit) as ended:
            make_parser().parse_args(arguments)
        assert ended.value.code == 2
    assert "nobody" in capsys.readouterr().err


CHILD = """
import json, sys
from vllm.benchmarks.serve import add_cli_args
from vllm.benchmarks.sweep.serve import SweepServeArgs
from vllm.entrypoints.launchers.cli_args import make_arg_parser
from vllm.utils.argparse_utils import FlexibleArgumentParser
ours, sweep = json.load(sys.stdin)
parsed = SweepServeArgs.from_cli_args(SweepServeArgs.add_cli_args(FlexibleArgumentParser()).parse_args(sweep[4:]))
def server(words):
    known = vars(make_arg_parser(FlexibleArgumentParser()).parse_args(words))
    return {name: str(value) for name, value in known.items()}
def bench(words):
    parser = FlexibleArgumentParser()
    add_cli_args(parser)
    return {name: str(value) for name, value in vars(parser.parse_args(words)).items()}
told = {
    "runs": parsed.num_runs,
    "ours": [server(words) for words in ours["servers"]],
    "sweep": [server(item.apply_to_cmd(parsed.serve_cmd)[2:]) for item in parsed.serve_params],
    "our_loads": [bench(words) for words in ours["loads"]],
    "sweep_loads": [bench(item.apply_to_cmd(parsed.bench_cmd)[3:]) for item in parsed.bench_params],
    "words": [parsed.serve_cmd[:3], parsed.bench_cmd[:3]],
}
print(json.dumps(told))
"""
"""What vLLM's own parsers make of both command lines."""


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sides")
    parameters = MATRIX.parameters(folder / "data")
    sweep = sides.sweep_command(MATRIX, parameters, folder)
    serve = sides.serve_command(parameters)
    port = int(sweep[sweep.index("--serve-cmd") + 1].split("--port ")[1].split()[0])
    levels = select_levels(["O0", "eager"], sides.ROOT)
    specs = [ServerSpec(serve[2], parameters, level.flags, {}) for level in levels]
    ours = {
        "servers": [command_of(spec, port)[3:] for spec in specs],
        "loads": [arguments_of(users, parameters, serve[2], port, folder) for users in MATRIX.waves],
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD], input=json.dumps([ours, sweep]), capture_output=True, text=True,
        cwd=sides.ROOT,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def arguments_of(users, parameters, model, port, folder):
    """What the study's client is told to give to vLLM's benchmark."""
    asked = []

    def ask(job, _deadline_s):
        asked.append(job)
        raise KeyboardInterrupt

    target = Target(f"http://127.0.0.1:{port}", model, parameters, folder)
    with pytest.raises(KeyboardInterrupt):
        run_load(SimpleNamespace(ask=ask), target, users, [Prompt("w5")], WarmUp((), 0.0, MATRIX.waves[users]))
    return asked[0]["arguments"]


def test_servers_have_the_same_flags_but_for_the_gate_of_the_key(told):
    for ours, sweep in zip(told["ours"], told["sweep"], strict=True):
        ours["model_tag"] = ours["model"]
        sweep["model"] = sweep["model_tag"]
        assert ours.pop("middleware") == "['study.measure.key_gate.KeyGate']"
        assert sweep.pop("middleware") == "[]"
        assert ours == sweep
    assert told["sweep"][0]["optimization_level"] == "0"
    assert [one["enforce_eager"] for one in told["sweep"]] == ["False", "True"]


def test_loads_have_the_same_arguments(told):
    for ours, sweep in zip(told["our_loads"], told["sweep_loads"], strict=True):
        for drawn in (ours, sweep):
            del drawn["request_id_prefix"]  # drawn anew by each
        assert ours == sweep
    assert [one["num_prompts"] for one in told["sweep_loads"]] == ["8", "16"]


def test_the_sweep_runs_vllm_itself_and_as_often(told):
    assert told["runs"] == MATRIX.runs
    serve, bench = told["words"]
    # Its own reset of caches goes by this name.
    assert serve[0].endswith("vllm")
    assert (serve[1], bench[1:]) == ("serve", ["bench", "serve"])


def test_both_get_the_first_prompts_of_the_same_pool(tmp_path):
    parameters = MATRIX.parameters(tmp_path / "data")
    sides.sweep_command(MATRIX, parameters, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    assert [line["prompt"] for line in lines] == [item.prompt for item in sides.first_pool(parameters)[:16]]
    assert {(len(line["prompt"].split()), line["output_tokens"]) for line in lines} == {(128, 32)}


class TestRefusals:
    def test_a_side_that_fails_is_named_with_its_last_word(self):
        command = [sys.executable, "-c", "import sys; print('no model'); sys.exit(3)"]
        with pytest.raises(BenchError, match="ended with code 3: no model"):
            run_timed(command)

    @pytest.mark.parametrize("failing", ["run_ours", "run_sweep"])
    @pytest.mark.parametrize("first", ["ours", "sweep"])
    def test_nothing_is_reported_when_a_side_failed(self, monkeypatch, tmp_path, capsys, failing, first):
        def fail(*_):
            raise BenchError("broken")

        for name in ("run_ours", "run_sweep"):
            monkeypatch.setattr(overhead, name, lambda *_: (Timed(0.0, 1.0), []))
        monkeypatch.setattr(overhead, failing, fail)
        monkeypatch.setattr(overhead, "split_time", lambda *_: pytest.fail("figures of a failed benchmark"))
        file = tmp_path / "figures.json"
        assert main(["overhead", "--first", first, "--json", str(file), "--folder", str(tmp_path / "kept")]) == 1
        printed = capsys.readouterr()
        assert printed.out == ""
        assert "bench: broken" in printed.err
        assert not file.exists()

    def test_a_sweep_with_failed_or_missing_requests_is_refused(self):
        good = [
            {
                "max_concurrency": users,
                "completed": count,
                "failed": 0,
                "total_input_tokens": 128 * count,
                "total_output_tokens": 32 * count,
            }
            for users, count in MATRIX.requests.items()
            for _ in range(6)
        ]
        check_sweep(MATRIX, good)
        for wrong, said in (
            (good[:-1], "11 runs of 12"),
            ([{**good[0], "completed": 7, "failed": 1}, *good[1:]], "7 of 8 requests"),
            ([{**good[0], "total_output_tokens": 255}, *good[1:]], "another length"),
        ):
            with pytest.raises(BenchError, match=said):
                check_sweep(MATRIX, wrong)

    def test_a_session_with_failed_missing_or_other_requests_is_refused(self):
        good = records_of()
        check_ours(MATRIX, good, "pool")
        failed = records_of()
        failed.runs[3].load.requests.output_tokens[0] = None
        cut = records_of()
        cut.runs.pop()
        broken = records_of()
        broken.launches[0].outcome.status = "failed"
        for wrong, said in ((failed, "did not answer"), (cut, "11 runs of 12"), (broken, "failed at ready: it died")):
            with pytest.raises(BenchError, match=said):
                check_ours(MATRIX, wrong, "pool")
        with pytest.raises(BenchError, match="not those of the sweep"):
            check_ours(MATRIX, good, "another pool")


def outcome(status="ok"):
    return SimpleNamespace(status=status, stage="ready", message="it died")


def run_of(launch_id, users, seed, start_s, load_s=1.0):
    count = MATRIX.requests[users]
    requests = SimpleNamespace(output_tokens=[32] * count, input_tokens=[128] * count, error=[""] * count)
    load = SimpleNamespace(
        requests=requests, pool_sha256="pool" if seed == 1 else f"pool {seed}", burst_s=0.5, started_s=start_s,
        ended_s=start_s + load_s,
    )
    gate = SimpleNamespace(waited_s=0.25)
    return SimpleNamespace(
        run_id=f"b{seed}-{launch_id}-u{users}-a1", launch_id=launch_id, users=users, seed=seed, load=load, gate=gate,
        outcome=outcome(),
    )


def records_of():
    """Two launches with six runs each: a start takes 30 s, a load 1 s, a gap 2 s (0.75 of it gate and warm-up)."""
    launches, runs = [], []
    for place, level in enumerate(MATRIX.levels):
        spawn_s = 100.0 + 60.0 * place
        launches.append(
            SimpleNamespace(
                launch_id=level, spawn_s=spawn_s, first_token_s=spawn_s + 30, stop_asked_s=spawn_s + 50,
                stopped_s=spawn_s + 52, gate=SimpleNamespace(waited_s=1.0), outcome=outcome(),
            )
        )
        keys = [(seed, users) for seed in (1, 2, 3) for users in (1, 4)]
        runs += [run_of(level, users, seed, spawn_s + 32 + 3 * at) for at, (seed, users) in enumerate(keys)]
    return SimpleNamespace(launches=launches, runs=runs)


class TestTable:
    def test_every_second_belongs_to_one_part(self):
        records = records_of()
        parts, where = split_time(records.launches, records.runs, Timed(97.0, 215.0))
        assert tuple(parts) == PARTS
        assert (parts["start"], parts["load"], parts["warm_up"], parts["stop"]) == (60.0, 12.0, 6.0, 4.0)
        assert parts["gate"] == 2 * 1.0 + 12 * 0.25
        assert sum(parts.values()) == 118.0
        # 3 s before the first server, 8 s between the two, 3 s at the end, less the gates of the launches
        assert where["session"] == 3 + 8 + 3 - 2
        assert where["before_first_load"] == pytest.approx(2 * (2 - 0.75))
        assert where["between_loads"] == pytest.approx(10 * (2 - 0.75))
        assert where["after_last_load"] == pytest.approx(2 * 2.0)
        assert sum(where.values()) == pytest.approx(parts["everything_else"])

    def figures(self, ours_s=80.0, load=0.1):
        parts = {**dict.fromkeys(PARTS, 1.0), "everything_else": 3.0}
        return overhead.summarize(MATRIX, (ours_s, 200.0), parts) | {
            "order": ["ours", "sweep"],
            "cores": 2,
            "load_average_before": load,
            "ours_parts_s": parts,
            "ours_everything_else_s": {"session": 3.0},
            "sweep_load_s": 15.0,
            "ours_load_s": 15.5,
            "commands_s": {"plan": 0.2, "--help": 0.6},
        }

    def test_a_share_and_a_run_of_everything_else(self):
        figures = self.figures()
        assert (figures["share"], figures["else_a_run_s"]) == (0.4, 0.25)

    def test_verdicts_name_the_figure_and_the_bound(self):
        text = overhead.render(self.figures())
        assert "0.40 of the sweep's time; asked: at most 0.45: met" in text
        assert "everything else: 0.25 s a run; asked: at most 0.3 s: met" in text
        assert "python -m study plan: 0.20 s; asked: at most 0.5 s: met" in text
        assert "python -m study --help: 0.60 s; asked: at most 0.5 s: NOT MET" in text
        assert "| the study | 80.0 s | 0.40 |" in text
        assert "0.46 of the sweep's time; asked: at most 0.45: NOT MET" in overhead.render(self.figures(ours_s=92.0))

    def test_a_busy_machine_is_named_beside_the_figures(self):
        assert "not quiet" not in overhead.render(self.figures())
        assert "The machine was not quiet (load 2.5 before)" in overhead.render(self.figures(load=2.5))

    def test_an_earlier_benchmark_is_not_mixed_in(self, tmp_path):
        (tmp_path / "data").mkdir()
        with pytest.raises(BenchError, match="holds an earlier benchmark"):
            overhead.measure(MATRIX, "ours", tmp_path)
