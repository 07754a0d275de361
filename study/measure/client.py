"""The load client: a process that lives as long as a launch and runs vLLM's own serving benchmark.

    python -m study.measure.client MODEL LOG

Jobs come as JSON lines on standard input, answers go out as JSON lines; whatever the benchmark prints goes to LOG. The
benchmark is imported once, while the server starts: its import takes 6 to 8 s, a call then adds under 0.1 s. The first
job is to begin: it may ask whether vLLM's parser, which is there by then, takes the session's flags, and it names the
pools of prompts that are made ahead.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

from study.design.pool import generate_pool
from study.errors import InputError
from study.measure.processes import die_with_owner
from study.measure.redact import redact

SHORT_GAP_SHARE = 0.1
"""A gap between two pieces under this share of the request's mean gap counts as short: tokens that came together."""


def summarize_requests(result: dict[str, Any], users: int) -> dict[str, Any]:
    """Turn the benchmark's detailed result into the columns of `records.Requests`, in the order sent."""
    order = sorted(range(len(result["start_times"])), key=lambda index: float(result["start_times"][index]))
    columns: dict[str, Any] = {name: [] for name in ("start_s", "ttft_s", "latency_s", "input_tokens", "output_tokens")}
    columns |= {"chunks": [], "short_gaps": [], "error": [], "witness_us": {}}
    for place, index in enumerate(order):
        gaps = [float(gap) for gap in result["itls"][index]]
        error = str(result["errors"][index] or "")
        good = not error and result["output_lens"][index] > 0
        columns["start_s"].append(float(result["start_times"][index]))
        columns["ttft_s"].append(float(result["ttfts"][index]) if good else None)
        columns["latency_s"].append(float(result["latencies"][index]) if good else None)
        columns["input_tokens"].append(int(result["input_lens"][index]))
        columns["output_tokens"].append(int(result["output_lens"][index]) if good else None)
        columns["chunks"].append(len(gaps) + 1 if good else 0)
        columns["short_gaps"].append(_count_short(gaps))
        columns["error"].append(error if good or error else "no token came back")
        if place % users == 0:
            columns["witness_us"][place] = [round(gap * 1e6) for gap in gaps]
    columns["order"] = order
    return columns


def _count_short(gaps: list[float]) -> int:
    if not gaps:
        return 0
    limit = SHORT_GAP_SHARE * sum(gaps) / len(gaps)
    return sum(gap < limit for gap in gaps)


class Benchmark:
    """vLLM's serving benchmark, imported once."""

    def __init__(self, model: str) -> None:
        from vllm.benchmarks.serve import add_cli_args, main

        self._main = main
        self._parser = argparse.ArgumentParser(exit_on_error=False)
        add_cli_args(self._parser)
        self._model = model
        self._made: dict[str, dict[str, Any]] = {}

    def begin(self, job: dict[str, Any]) -> dict[str, Any]:
        """Say what is wrong with the session's flags, where that is asked."""
        from study.measure.flags_child import find_problem
        from study.measure.resolve_levels import make_parser

        return {"problem": find_problem(make_parser(), job["flags"]) if job["flags"] else None}

    def pool(self, job: dict[str, Any]) -> dict[str, Any]:
        """Make a pool with the model's tokenizer, or hand out the one that was made ahead."""
        made = self._made.pop(json.dumps(job), None)
        if made is not None:
            return made
        from vllm.tokenizers import get_tokenizer

        tokenizer = get_tokenizer(self._model, trust_remote_code=job.get("trust_remote_code", False))
        prompts = generate_pool(job["seed"], job["input_tokens"], tokenizer, job["size"])
        return {"prompts": [item.prompt for item in prompts]}

    def keep(self, job: dict[str, Any], made: dict[str, Any]) -> None:
        """Keep a pool until it is asked for."""
        self._made[json.dumps(job)] = made

    def load(self, job: dict[str, Any]) -> dict[str, Any]:
        """Run one load and return its requests as columns."""
        arguments = self._parser.parse_args(job["arguments"])
        started = time.monotonic()
        result = self._main(arguments)
        ended = time.monotonic()
        columns = summarize_requests(result, job["users"])
        order = columns.pop("order")
        columns["error"] = redact(columns["error"], Path.cwd())
        columns["asked_tokens"] = [job["asked_tokens"][index] for index in order]
        return {"started_s": started, "ended_s": ended, "duration_s": float(result["duration"]), "requests": columns}


def answer(benchmark: Benchmark, job: dict[str, Any]) -> dict[str, Any]:
    """Do one job; a failure is an answer too."""
    try:
        work = {"begin": benchmark.begin, "pool": benchmark.pool, "load": benchmark.load}[job["job"]]
        return {"ok": True, **work(job)}
    except InputError as error:
        return {"ok": False, "input": True, "error": str(error)}
    except (Exception, SystemExit) as error:  # the edge: whatever the benchmark raises must reach the runner
        return {"ok": False, "input": False, "error": f"{type(error).__name__}: {error}"}


def make_ahead(benchmark: Benchmark, jobs: Iterable[dict[str, Any]]) -> None:
    """Make pools that will be asked for; one that cannot be made is told of then."""
    for job in jobs:
        made = answer(benchmark, job)
        if made["ok"]:
            benchmark.keep(job, made)


def main(model: str, log: Path) -> int:
    """Serve jobs until standard input closes."""
    die_with_owner()
    out = _redirect_output(log)
    benchmark = Benchmark(model)
    for line in sys.stdin:
        job = json.loads(line)
        print(json.dumps(answer(benchmark, job)), file=out, flush=True)
        make_ahead(benchmark, job.get("pools", ()))
    out.flush()
    os._exit(0)  # the bindings print pages of leak reports on an ordinary exit


def _redirect_output(log: Path) -> IO[str]:
    """Keep standard output for answers; send everything that prints to the log."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    return out


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], Path(sys.argv[2])))
