"""Loads: vLLM's serving benchmark at a number of users, sized by a warm-up wave; one client process a launch."""

import json
import math
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from study.design.parameters import Parameters
from study.design.plain_files import explain_fields
from study.design.pool import Prompt, pool_sha256, read_pool, rotate, take, write_prompts
from study.errors import InputError, LoadError
from study.measure.deaths import OUTSIDE_SIGNALS, ClientKilledError
from study.measure.guard import signal_group
from study.measure.left_out import WHY as LEFT_OUT
from study.measure.redact import mask
from study.measure.server import tail_of
from study.measure.server_spec import TRUST, with_package
from study.records import Load, Requests

IMPORT_DEADLINE_S = 300.0
WAVE_DEADLINE_S = 900.0
SLACK_S = 120.0
UMASK = 0o077
"""Of the client: it handles prompts."""


class Client:
    """The load client of one launch. Started early, so that its import runs while the server starts."""

    def __init__(
        self,
        model: str,
        log: Path,
        root: Path,
        environment: Mapping[str, str],
        first: Mapping[str, Any] | None = None,
    ) -> None:
        """Start it.

        Args:
            model: whose tokenizer it takes.
            log: for whatever the benchmark prints.
            root: the project's root, where it runs.
            environment: beside this process's own.
            first: the job to begin with (`ahead.first_job`); by default nothing but the import.

        """
        self._log = log
        self._process = subprocess.Popen(
            [sys.executable, "-m", "study.measure.client", model, str(log)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=root,
            env={**os.environ, **environment, "PYTHONPATH": with_package(os.environ)},
            text=True,
            start_new_session=True,
            umask=UMASK,
        )
        self._begun: dict[str, Any] | None = None
        self._send(first or {"job": "begin", "flags": None, "pools": []})

    def begin(self, wait_s: float) -> dict[str, Any] | None:
        """Return what the client said when its import was over; None where it is not, after at most `wait_s`.

        Raises:
            LoadError: the client ended.

        """
        if self._begun is None and self._has_answer(wait_s):
            self._begun = self._read()
        return self._begun

    def ask(self, job: dict[str, Any], deadline_s: float) -> dict[str, Any]:
        """Send a job and wait for its answer.

        Raises:
            InputError: the job cannot be done with these parameters.
            LoadError: the client ended, did not answer in time, or the benchmark failed.

        """
        if self.begin(IMPORT_DEADLINE_S) is None:
            raise self._give_up(IMPORT_DEADLINE_S)
        if not self._send(job):
            raise self._end()
        if not self._has_answer(deadline_s):
            raise self._give_up(deadline_s)
        answer = self._read()
        if not answer["ok"]:
            raise InputError(answer["error"]) if answer["input"] else LoadError(answer["error"])
        return answer

    def _send(self, job: Mapping[str, Any]) -> bool:
        """Write a job; whether anybody is there to read it."""
        assert self._process.stdin is not None  # noqa: S101 (asked for above)
        try:
            self._process.stdin.write(json.dumps(job) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return False
        return True

    def _has_answer(self, wait_s: float) -> bool:
        """Whether an answer (or the end of the client) is there within `wait_s`; one job is out at a time."""
        assert self._process.stdout is not None  # noqa: S101 (asked for above)
        readable, _, _ = select.select([self._process.stdout], [], [], wait_s)
        return bool(readable)

    def _give_up(self, deadline_s: float) -> LoadError:
        self.close()
        return LoadError(f"the load client did not answer within {deadline_s:.0f} s")

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 (asked for above)
        line = self._process.stdout.readline()
        if not line.endswith("\n"):
            raise self._end()
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def running(self) -> bool:
        """Whether the process is there."""
        return self._process.poll() is None

    def _end(self) -> LoadError:
        """Return the error of a client that ended; one that a signal ended was killed from outside."""
        code = self._process.wait()
        if -code in OUTSIDE_SIGNALS:
            return ClientKilledError(f"the load client was killed from outside by {signal.Signals(-code).name}")
        return LoadError(f"the load client ended: {self._last_line()}")

    def _last_line(self) -> str:
        return mask((tail_of(self._log, 1) or ["it left no word"])[0]).strip()[:300]

    def close(self) -> None:
        """End the client and whatever it started."""
        if self._process.poll() is None:
            signal_group(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                try:
                    pipe.close()
                except BrokenPipeError:
                    continue


@dataclass(frozen=True)
class Target:
    """Where a load goes and with which prompts."""

    url: str
    model: str
    parameters: Parameters
    folder: Path
    """For the prompt files that the benchmark reads; a private one."""


def make_pool(client: Client, parameters: Parameters, root: Path, seed: int, size: int) -> list[Prompt]:
    """Return the prompts of one seed: generated with the model's tokenizer, or the user's file from a drawn start."""
    if parameters.pool != "generated":
        return rotate(read_pool(root / parameters.pool), seed)
    answer = client.ask(pool_job(parameters, seed, size), IMPORT_DEADLINE_S)
    return [Prompt(text) for text in answer["prompts"]]


def pool_job(parameters: Parameters, seed: int, size: int) -> dict[str, Any]:
    """Return the client's job of making `size` prompts of one seed."""
    job = {"job": "pool", "seed": seed, "input_tokens": parameters.input_tokens, "size": size}
    return {**job, "trust_remote_code": parameters.trust_remote_code}


def run_wave(client: Client, target: Target, users: int, warm_up: Sequence[Prompt]) -> float:
    """Run one discarded wave of `users` requests; return its length in seconds."""
    _, answer = _run(client, target, users, take(warm_up, users), WAVE_DEADLINE_S)
    wave_s = float(answer["duration_s"])
    if not (math.isfinite(wave_s) and wave_s > 0):
        raise LoadError(f"the benchmark says that a wave took {wave_s!r} s; no run can be sized by that")
    return wave_s


def size_run(parameters: Parameters, length_factor: float, wave_s: float) -> int:
    """Return the number of waves: at least `waves`, and enough for `min_run_s` times the level's factor.

    The warm-up wave tells how long a wave takes. Waves of -O0 differ by 20 % on an H200, so that a slow one leaves the
    run that much shorter than `min_run_s` asks.
    """
    return max(parameters.waves, math.ceil(parameters.min_run_s * length_factor / wave_s))


def run_load(client: Client, target: Target, users: int, pool: Sequence[Prompt], warm_up: "WarmUp") -> Load:
    """Run the measured load.

    Raises:
        LoadError: the client or the benchmark failed; single failed requests are facts of the record, not errors.

    """
    prompts = take(pool, users * warm_up.waves_to_run)
    deadline_s = WAVE_DEADLINE_S if warm_up.run_s is None else SLACK_S + 5 * warm_up.run_s
    last_s = warm_up.waves_s[-1] if warm_up.waves_s else None
    arguments, answer = _run(client, target, users, prompts, deadline_s)
    try:
        return Load(
            waves=warm_up.waves_to_run,
            warm_up_waves=len(warm_up.waves_s),
            warm_up_wave_s=last_s,
            warm_up_waves_s=list(warm_up.waves_s),
            burst_s=warm_up.total_s,
            pool_sha256=pool_sha256(pool),
            arguments=arguments,
            started_s=answer["started_s"],
            ended_s=answer["ended_s"],
            duration_s=answer["duration_s"],
            requests=Requests(**answer["requests"]),
            missing={"warm_up_wave_s": LEFT_OUT} if last_s is None else {},
        )
    except ValidationError as error:
        raise LoadError(f"the benchmark's result does not fit: {explain_fields(error)}") from None


@dataclass(frozen=True)
class WarmUp:
    """The discarded waves before a load: how long each and all took, and the run sized by the last one.

    A session that leaves its warm-ups out has no waves, and a run of a size that it was given.
    """

    waves_s: tuple[float, ...]
    total_s: float
    waves_to_run: int

    @property
    def run_s(self) -> float | None:
        """About how long the sized run takes, seconds; None without a warm-up wave that would tell."""
        return self.waves_to_run * self.waves_s[-1] if self.waves_s else None


def warm_up(client: Client, target: Target, users: int, prompts: Sequence[Prompt], plan: tuple[int, float]) -> WarmUp:
    """Run discarded waves of the same shape; `plan` is their number and the level's run length factor."""
    waves, factor = plan
    started = time.monotonic()
    waves_s = tuple(run_wave(client, target, users, prompts) for _ in range(waves))
    return WarmUp(waves_s, time.monotonic() - started, size_run(target.parameters, factor, waves_s[-1]))


def _run(
    client: Client, target: Target, users: int, prompts: list[Prompt], deadline_s: float
) -> tuple[list[str], dict[str, Any]]:
    """Run the benchmark once; return its arguments (without address and files) and the client's answer."""
    file = target.folder / "prompts.jsonl"
    write_prompts(file, prompts, target.parameters.output_tokens)
    fixed = [
        *("--backend", "vllm", "--endpoint", "/v1/completions", "--dataset-name", "custom", "--disable-shuffle"),
        *("--no-oversample", "--skip-chat-template", "--custom-output-len", "-1", "--temperature", "0", "--ignore-eos"),
        *("--save-detailed", "--disable-tqdm", "--num-prompts", str(len(prompts)), "--max-concurrency", str(users)),
        *((TRUST,) if target.parameters.trust_remote_code else ()),
    ]
    place = ["--base-url", target.url, "--model", target.model, "--dataset-path", str(file)]
    asked = [item.output_tokens or target.parameters.output_tokens for item in prompts]
    job = {"job": "load", "arguments": [*fixed, *place], "users": users, "asked_tokens": asked}
    return fixed, client.ask(job, deadline_s)
