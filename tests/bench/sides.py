"""The two sides of the comparison: one matrix as a session of the study, and as vLLM's own sweep."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from tokenizers import Tokenizer

from study.design.levels import select_levels
from study.design.parameters import make_parameters
from study.design.pool import generate_pool, pool_sha256, take, write_prompts
from study.measure.leftovers import LONGEST_FOLDER, temporary_caches
from study.measure.model import prepare_model
from study.measure.server import find_port
from study.measure.server_spec import ServerSpec, command_of
from study.store import Store

ROOT = Path(__file__).resolve().parents[2]
STUDY = "overhead"
SWEEP = "sweep"
PATIENCE_S = 60.0


class BenchError(Exception):
    """A side failed, or did not do what it was asked: no figure is reported."""


@dataclass(frozen=True)
class Matrix:
    """What both sides run; `waves` is users to waves, so that users x waves are the requests of a run."""

    levels: tuple[str, ...] = ("O0", "eager")
    waves: dict[int, int] = field(default_factory=lambda: {1: 8, 4: 4})
    runs: int = 3
    input_tokens: int = 128
    output_tokens: int = 32

    @property
    def requests(self):
        """Users to requests of a run."""
        return {users: users * waves for users, waves in self.waves.items()}

    @property
    def count(self):
        """Runs of each side."""
        return len(self.levels) * len(self.waves) * self.runs

    def parameters(self, data_dir):
        """The study's parameters; the server of a level is reused for all its runs, as the sweep does."""
        return make_parameters(
            {
                "study": STUDY,
                "device": "cpu",
                "levels": list(self.levels),
                "users": list(self.waves),
                "seeds": list(range(1, self.runs + 1)),
                "fresh_server_per_seed": False,
                "model": "notebooks/parameters/models/rehearsal.yaml",
                "load_format": "dummy",
                "server_flags": ["--max-model-len", "1024"],
                "kv_cache_memory_bytes": 2**30,
                "input_tokens": self.input_tokens,
                "output_tokens": self.output_tokens,
                "min_run_s": 0,
                "data_dir": str(data_dir),
            }
        )


@dataclass(frozen=True)
class Timed:
    """How long a side took, from before its first process to after its last."""

    begun_s: float
    ended_s: float

    @property
    def wall_s(self):
        return self.ended_s - self.begun_s


class Words:
    """The rehearsal model's tokenizer, one token a word, without the import of transformers."""

    def __init__(self, folder):
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.all_special_ids = [item.content for item in self._tokenizer.get_added_tokens_decoder().values()]
        self.all_special_ids = [self._tokenizer.token_to_id(name) for name in self.all_special_ids]

    def __len__(self):
        return self._tokenizer.get_vocab_size()

    def encode(self, text):
        return self._tokenizer.encode(text).ids

    def decode(self, ids):
        return self._tokenizer.decode(ids, skip_special_tokens=False)


def first_pool(parameters):
    """Return the prompts of the study's first seed."""
    model = prepare_model(parameters.model, parameters.load_format, ROOT)
    return generate_pool(parameters.seeds[0], parameters.input_tokens, Words(ROOT / model))


def serve_command(parameters):
    """Return the sweep's server: the study's command line without what it does not study (its key's gate), no level."""
    spec = ServerSpec(prepare_model(parameters.model, parameters.load_format, ROOT), parameters, (), {})
    words = command_of(spec, find_port())[3:]
    for name in ("--middleware", "--model"):
        place = words.index(name)
        del words[place : place + 2]
    return [str(vllm_command()), "serve", spec.model, *words]


def vllm_command():
    return Path(sys.executable).parent / "vllm"


def serve_params(levels):
    """Return the sweep's variants of the server: one a level, in its own notation."""
    notation = {"-O": "optimization-level", "--enforce-eager": "enforce-eager"}
    found = {}
    for level in select_levels(list(levels), ROOT):
        (flag,) = level.flags
        short = flag.startswith("-O")
        found[level.name] = {notation["-O" if short else flag]: int(flag[2:]) if short else True}
    return found


def bench_command(parameters, port, prompts):
    """Return the sweep's benchmark: what the study's client gives it, but for users and requests."""
    model = prepare_model(parameters.model, parameters.load_format, ROOT)
    return [
        *(str(vllm_command()), "bench", "serve", "--backend", "vllm", "--endpoint", "/v1/completions"),
        *("--dataset-name", "custom", "--disable-shuffle", "--no-oversample", "--skip-chat-template"),
        *("--custom-output-len", "-1", "--temperature", "0", "--ignore-eos", "--save-detailed", "--disable-tqdm"),
        *("--base-url", f"http://127.0.0.1:{port}", "--model", model, "--dataset-path", str(prompts)),
    ]


def sweep_command(matrix, parameters, folder):
    """Write the sweep's files into `folder` and return its command line."""
    prompts = folder / "prompts.jsonl"
    write_prompts(prompts, take(first_pool(parameters), max(matrix.requests.values())), parameters.output_tokens)
    files = {
        "serve-params": serve_params(matrix.levels),
        "bench-params": [
            {"num_prompts": count, "max_concurrency": users} for users, count in matrix.requests.items()
        ],
    }
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    serve = serve_command(parameters)
    port = int(serve[serve.index("--port") + 1])
    return [
        *(str(vllm_command()), "bench", "sweep", "serve", "--num-runs", str(matrix.runs)),
        *("--serve-cmd", shlex.join(serve), "--bench-cmd", shlex.join(bench_command(parameters, port, prompts))),
        *(word for name in files for word in (f"--{name}", str(folder / f"{name}.json"))),
        *("--output-dir", str(folder), "--experiment-name", SWEEP),
    ]


def run_timed(command, environment=None, first_line=""):
    """Run a side to its end in the project's root.

    Raises:
        BenchError: it failed; the last line that it said is named.

    """
    with tempfile.TemporaryFile("w+", errors="replace") as said:
        begun_s = time.monotonic()
        process = subprocess.Popen(
            command, cwd=ROOT, env={**os.environ, **(environment or {})}, stdin=subprocess.PIPE, stdout=said,
            stderr=subprocess.STDOUT, text=True,
        )
        try:
            process.stdin.write(first_line)
            process.stdin.flush()
            code = process.wait()
        finally:
            end_in_order(process)
        ended_s = time.monotonic()
        said.seek(0)
        lines = said.read().strip().splitlines()
    if code:
        raise BenchError(f"{shlex.join(command[:4])} ... ended with code {code}: {(lines or ['it said nothing'])[-1]}")
    return Timed(begun_s, ended_s)


def end_in_order(process):
    """End a side that is not over, so that it can stop its server."""
    process.stdin.close()
    if process.poll() is None:
        process.send_signal(signal.SIGINT)
        try:
            process.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def run_ours(matrix, folder):
    """Run the matrix as a session of the study; return its time and its records."""
    parameters = matrix.parameters(folder / "data")
    asked = {"parameters": parameters.model_dump(mode="json"), "left_out": {"waves": matrix.waves}}
    timed = run_timed([sys.executable, "-m", "tests.bench.session"], first_line=json.dumps(asked) + "\n")
    records = Store(Path(parameters.data_dir), STUDY).read()
    check_ours(matrix, records, pool_sha256(first_pool(parameters)))
    return timed, records


def check_ours(matrix, records, first_pool_sha256):
    """Refuse a session that did not do all of the matrix, or with other prompts than the sweep gets.

    Raises:
        BenchError: what is wrong with it.

    """
    bad = [item for item in (*records.launches, *records.runs) if item.outcome.status != "ok"]
    if bad:
        raise BenchError(f"the study: {bad[0].outcome.status} at {bad[0].outcome.stage}: {bad[0].outcome.message}")
    if len(records.runs) != matrix.count:
        raise BenchError(f"the study made {len(records.runs)} runs of {matrix.count}")
    for run in records.runs:
        requests = run.load.requests
        asked = matrix.requests[run.users]
        if requests.output_tokens != [matrix.output_tokens] * asked or any(requests.error):
            raise BenchError(f"the study: run {run.run_id} did not answer its {asked} requests in full")
        if requests.input_tokens != [matrix.input_tokens] * asked:
            raise BenchError(f"the study: run {run.run_id} has prompts of another length")
    if {run.load.pool_sha256 for run in records.runs if run.seed == 1} != {first_pool_sha256}:
        raise BenchError("the study's first prompts are not those of the sweep")


def run_sweep(matrix, folder):
    """Run the matrix as vLLM's sweep; return its time and its results, one a run."""
    folder.mkdir(parents=True, exist_ok=True)
    parameters = matrix.parameters(folder / "data")
    timed = run_timed(sweep_command(matrix, parameters, folder), sweep_environment(folder))
    results = [json.loads(path.read_text()) for path in sorted((folder / SWEEP).glob("*/run=*.json"))]
    check_sweep(matrix, results)
    return timed, results


def sweep_environment(folder):
    """Return the sweep's environment: its servers, which it kills, leave their temporary files in `folder`.

    As for the study's servers, where the names of sockets allow it.
    """
    known = {"VLLM_NO_USAGE_STATS": "1"}
    if len(str(folder)) > LONGEST_FOLDER:
        return known
    return {"TMPDIR": str(folder), **temporary_caches(), **known}


def check_sweep(matrix, results):
    """Refuse a sweep that did not do all of the matrix: it looks at failed requests itself nowhere.

    Raises:
        BenchError: what is wrong with it.

    """
    if len(results) != matrix.count:
        raise BenchError(f"the sweep made {len(results)} runs of {matrix.count}")
    for result in results:
        asked = matrix.requests[result["max_concurrency"]]
        tokens = (asked * matrix.input_tokens, asked * matrix.output_tokens)
        if result["completed"] != asked or result["failed"]:
            raise BenchError(f"the sweep: {result['completed']} of {asked} requests were answered")
        if (result["total_input_tokens"], result["total_output_tokens"]) != tokens:
            raise BenchError("the sweep: requests or answers have another length")
