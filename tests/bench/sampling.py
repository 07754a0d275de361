"""Whether sampling disturbs: the sampler alone, beside a paced stand-in, and beside a real server."""

import json
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from study.design.levels import select_levels
from study.design.parameters import make_parameters, read_parameters
from study.errors import StudyError
from study.measure.load import Client, Target, WarmUp, make_pool, run_load, run_wave
from study.measure.model import prepare_model
from study.measure.server import find_port
from study.measure.telemetry import Sampler
from study.store import Store

from .pairs import is_sampled, judge_pairs, mean_tpot_ms, render_pairs, unsampled_seeds
from .sampler import measure_sampler, open_card, render_sampler
from .sides import ROOT, BenchError, end_in_order

STUDY = "sampling"
REHEARSAL = ROOT / "notebooks/parameters/rehearsal.yaml"
PACE_S = 0.005
PACED = {"study": "paced", "device": "cpu", "input_tokens": 32, "output_tokens": 192}


@dataclass(frozen=True)
class Sampling:
    """What is asked of the parts with a server."""

    parameters: Path | None
    level: str | None
    users: int
    pairs: int
    run_s: float
    data_dir: Path | None


def bench_sampling(asked, parts, json_file):
    """Make the parts that are asked for and print what they say; figures are written after each pair.

    Raises:
        BenchError: a part failed.

    """
    figures = {}

    def keep(name, found):
        figures[name] = found
        if json_file:
            json_file.write_text(json.dumps(figures, indent=1) + "\n")

    try:
        if "sampler" in parts:
            keep("sampler", measure_sampler())
            print("\n".join(render_sampler(figures["sampler"])), flush=True)
        for name, measure, title in (
            ("paced", measure_paced, f"paced stand-in, a token every {1e3 * PACE_S:g} ms"),
            ("server", measure_server, "real server"),
        ):
            if name in parts:
                tpots_ms = []
                for tpot_ms in measure(asked):
                    tpots_ms.append(tpot_ms)
                    keep(name, {"tpots_ms": tpots_ms, "judged": judge_pairs(tpots_ms)})
                print("\n".join(render_pairs(title, judge_pairs(tpots_ms))), flush=True)
    except (StudyError, ValueError) as error:
        raise BenchError(f"sampling: {error}") from None
    return 0


def measure_paced(asked):
    """Yield the mean TPOT (ms) of runs against the paced stand-in: vLLM's own client, with the sampler and without."""
    rehearsal = read_parameters(REHEARSAL)
    parameters = make_parameters({**rehearsal.model_dump(mode="json"), **PACED, "users": [asked.users]})
    model = prepare_model(parameters.model, parameters.load_format, ROOT)
    waves = max(1, round(asked.run_s / (PACE_S * parameters.output_tokens)))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-")))
        url = stack.enter_context(paced_server())
        client = Client(model, folder / "client.log", ROOT, {"NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
        stack.callback(client.close)
        target = Target(url, model, parameters, folder)
        pool = make_pool(client, parameters, ROOT, 1, asked.users * 8)
        run_wave(client, target, asked.users, pool)
        reader, _ = open_card()
        for run in range(2 * asked.pairs):
            sampler = Sampler(reader) if is_sampled(run) else None
            if sampler:
                sampler.start()
            try:
                load = run_load(client, target, asked.users, pool, WarmUp((), 0.0, waves))
            finally:
                if sampler:
                    sampler.stop()
            yield mean_tpot_ms(load.requests)


@contextmanager
def paced_server():
    """Run the stand-in and return its address."""
    port = find_port()
    command = [sys.executable, "-m", "tests.bench.paced", str(port), str(PACE_S)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline() != "ready\n":
            raise BenchError("the paced stand-in did not start")
        yield f"http://127.0.0.1:{port}"
    finally:
        end_in_order(process)
        process.stdout.close()


def parameters_for(asked, data_dir):
    """Return the parameters of one server whose runs alternate; the level goes without an unmeasured start."""
    given = read_parameters(asked.parameters or REHEARSAL)
    name = asked.level or ("default" if given.device == "cuda" else "O0")
    (level,) = select_levels([name], ROOT)
    file = data_dir / "level.yaml"
    file.write_text(json.dumps({name: {"flags": list(level.flags), "environment": level.environment}}))
    changes = {
        "study": STUDY,
        "levels": str(file),
        "users": [asked.users],
        "users_published": None,
        "seeds": list(range(1, 2 * asked.pairs + 1)),
        "fresh_server_per_seed": False,
        "min_run_s": asked.run_s,
        "cool_to_c": 110.0 if given.device == "cuda" else None,  # the pairs alternate: no gate is needed
        "data_dir": str(data_dir),
    }
    return make_parameters({**given.model_dump(mode="json"), **changes})


def measure_server(asked):
    """Yield the mean TPOT (ms) of runs on one real server, as each is recorded; a session that ended early resumes.

    Raises:
        BenchError: the session failed.

    """
    with ExitStack() as stack:
        place = asked.data_dir or stack.enter_context(tempfile.TemporaryDirectory(prefix="bench-"))
        data_dir = Path(place).resolve()
        data_dir.mkdir(parents=True, exist_ok=True)
        parameters = parameters_for(asked, data_dir)
        line = {"parameters": parameters.model_dump(mode="json"), "left_out": {}}
        line["left_out"]["unsampled_seeds"] = unsampled_seeds(asked.pairs)
        told = 0
        for _ in session_events(line):
            done = tpots_of(Store(data_dir, STUDY), asked.pairs)
            yield from done[told:]
            told = len(done)
        if told != 2 * asked.pairs:
            raise BenchError(f"{told} runs of {2 * asked.pairs} were measured")


def session_events(line):
    """Run a session and yield its events as they come.

    Raises:
        BenchError: it ended with another code than 0.

    """
    command = [sys.executable, "-m", "tests.bench.session"]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        process.stdin.write(json.dumps(line) + "\n")
        process.stdin.flush()
        for event in process.stdout:
            yield json.loads(event)
        code = process.wait()
    finally:
        end_in_order(process)
        process.stdout.close()
    if code:
        raise BenchError(f"the session ended with code {code}")


def tpots_of(store, pairs):
    """Return the mean TPOT (ms) of the runs so far, in the order of their seeds, up to the first that is not there."""
    runs = {}
    for path in store.record_files("run"):
        record = json.loads(path.read_text())
        if record["outcome"]["status"] == "ok":
            runs[record["seed"]] = record
    found = []
    for seed in range(1, 2 * pairs + 1):
        if seed not in runs:
            break
        if (runs[seed]["telemetry"] is None) == is_sampled(seed - 1):
            raise BenchError(f"the run of seed {seed} has its sampler the wrong way round")
        found.append(_tpot_of(runs[seed]["load"]["requests"]))
    return found


def _tpot_of(columns):
    from study.records import Requests

    return mean_tpot_ms(Requests(**{**columns, "witness_us": {int(k): v for k, v in columns["witness_us"].items()}}))
