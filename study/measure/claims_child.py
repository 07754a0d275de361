"""The process that checks claims: vLLM is imported once for each platform that a claim speaks of.

    libraries imported -> for each card a fork: card pretended, vLLM imported -> for each check a fork: its answer

    python -m study.measure.claims_child JOB ANSWERS     both JSON files

A fork for each check keeps checks apart: vLLM's configuration code sets environment variables, and says some lines only
once a process. Its parent is `claims_ask.py`.
"""

import contextlib
import functools
import gc
import importlib
import json
import multiprocessing
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypedDict

from pydantic import TypeAdapter

from study.design.card import read_card
from study.design.claims import CPU, THIS_MACHINE, CannotTell, Check, DefinedAt, Resolves, Source, UsedIn
from study.measure.claims_config import CHECKERS, Served, check_resolves
from study.measure.claims_source import check_defined_at, check_source, check_used_in
from study.measure.claims_words import NotThereError, shorten
from study.measure.processes import die_with_owner
from study.measure.resolve_child import pretend_gpu
from study.measure.resolve_worker import pretend_flash_attention

IMPORTED_FIRST = ("torch", "transformers", "vllm.platforms")
"""What takes most of the time to import and does not look at the card."""
LACKING = (ImportError, AttributeError, RuntimeError, OSError)
"""What a check raises where this process lacks something: a compiled operator, a GPU, a file of a hub."""
READ_ONLY = ("defined_at", "source", "used_in", "cannot_tell")
"""Kinds of checks that run nothing of vLLM, and need no fork."""
NO_ANSWER = "the check ended its process without an answer"


class Asked(TypedDict):
    """One check with where its answer belongs."""

    claim: str
    part: str
    place: int
    card: str | None
    check: dict[str, Any]


class Job(TypedDict):
    """What the parent writes: `model` is a folder or hub name."""

    model: str
    checks: list[Asked]


class Answers(TypedDict):
    """What the child writes: an answer a check, in their order, and which vLLM gave them on which platform."""

    vllm_version: str
    platforms: dict[str, str]
    answers: list[dict[str, Any]]


def answer_job(job: Job) -> Answers:
    """Answer every check of a job; the process that calls this must do nothing else."""
    for name in IMPORTED_FIRST:
        importlib.import_module(name)
    answered: dict[int, dict[str, Any]] = {}
    platforms: dict[str, str] = {}
    version = ""
    asked = {card: _places_of(job, card) for card in dict.fromkeys(one["card"] for one in job["checks"])}
    forks = [(card, _Fork(functools.partial(_answer_for_card, job, card, asked[card]))) for card in asked]
    for card, fork in forks:
        places, told = asked[card], fork.result()
        if told is None:
            raise RuntimeError(f"vLLM could not be imported for card {card or 'of this machine'}")
        version = told["version"]
        platforms[card or THIS_MACHINE] = told["platform"]
        answered |= dict(zip(places, told["answers"], strict=True))
    return {"vllm_version": version, "platforms": platforms, "answers": [answered[at] for at in sorted(answered)]}


def _places_of(job: Job, card: str | None) -> list[int]:
    return [place for place, one in enumerate(job["checks"]) if one["card"] == card]


def _answer_for_card(job: Job, card: str | None, places: Sequence[int]) -> dict[str, Any]:
    """Take on a card, import vLLM, and answer the checks at some places of the job."""
    platforms = importlib.import_module("vllm.platforms")
    tp = 1
    if card == CPU:
        platforms.__dict__["_current_platform"] = importlib.import_module("vllm.platforms.cpu").CpuPlatform()
    elif card is not None:
        pretended = read_card(card)
        tp = pretended.tp
        pretend_gpu(pretended)
        pretend_flash_attention()
    for name in ("vllm.engine.arg_utils", "vllm.entrypoints.llm"):
        importlib.import_module(name)
    served = Served(job["model"], tp)
    _import_what_a_configuration_does(served)
    gc.freeze()  # forks share what is there
    answers = []
    for place in places:
        one = job["checks"][place]
        work = functools.partial(_answer, one, served)
        told = work() if one["check"]["kind"] in READ_ONLY else _Fork(work).result()
        told = told or {"holds": None, "said": NO_ANSWER}
        answers.append({"claim": one["claim"], "part": one["part"], "place": one["place"], **told})
    version = importlib.import_module("vllm").__version__
    return {"version": version, "platform": type(platforms.current_platform).__name__, "answers": answers}


def _import_what_a_configuration_does(served: Served) -> None:
    """Import what making a configuration would import, so that it happens once and not in each fork."""

    def try_one() -> dict[str, Any]:
        before = set(sys.modules)
        check_resolves(Resolves(kind="resolves", expect={"optimization_level": 2}), served)
        new = [name for name in sys.modules if name not in before]
        # vLLM asks Ray in each configuration whether it runs, and imports it for that in a second.
        return {"modules": [name for name in new if name == "ray" or name.startswith(("vllm.", "transformers."))]}

    for name in (_Fork(try_one).result() or {"modules": []})["modules"]:
        with contextlib.suppress(*LACKING):
            importlib.import_module(name)


def _answer(asked: Asked, served: Served) -> dict[str, Any]:
    """Return whether a check holds, None where this process cannot tell, and the evidence."""
    check: Any = TypeAdapter(Check).validate_python(asked["check"])
    try:
        holds, said = _ask(check, served)
    except NotThereError as error:
        return {"holds": False, "said": str(error)}
    except LACKING as error:
        return {"holds": None, "said": shorten(f"it cannot be resolved here: {type(error).__name__}: {error}")}
    return {"holds": holds, "said": said}


def _ask(check: Any, served: Served) -> tuple[bool | None, str]:  # noqa: ANN401 (a Check)
    if isinstance(check, CannotTell):
        return None, check.why
    if isinstance(check, DefinedAt):
        return check_defined_at(check)
    if isinstance(check, Source):
        return check_source(check)
    if isinstance(check, UsedIn):
        return check_used_in(check)
    return CHECKERS[check.kind](check, served)


class _Fork:
    """A copy of this process that does one piece of work."""

    def __init__(self, work: Callable[[], dict[str, Any]]) -> None:
        context = multiprocessing.get_context("fork")
        self._reads, writes = context.Pipe(duplex=False)
        self._process = context.Process(target=lambda: writes.send_bytes(json.dumps(work()).encode()))
        self._process.start()
        writes.close()

    def result(self) -> dict[str, Any] | None:
        """Wait for what the work returned; None where the copy died, its trace is in the log."""
        try:
            told: dict[str, Any] = json.loads(self._reads.recv_bytes())
        except EOFError:
            return None
        finally:
            self._process.join()
            self._reads.close()
        return told


def main(arguments: Sequence[str]) -> int:
    """Read a job, write its answers."""
    job, answers = (Path(one) for one in arguments)
    told = answer_job(json.loads(job.read_text(encoding="utf-8")))
    answers.write_text(json.dumps(told), encoding="utf-8")
    return 0


if __name__ == "__main__":
    die_with_owner()
    sys.exit(main(sys.argv[1:]))
