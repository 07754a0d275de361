"""Killed from outside, or ended of its own doing: the exit code and vLLM's own words tell."""

from pathlib import Path

import pytest
from make_records import make_launch, make_study

from study.design.levels import select_levels
from study.design.parameters import make_parameters
from study.design.plan import make_plan
from study.measure.deaths import explain_end, read_death
from study.progress import KILLED_ATTEMPTS, remaining_launches
from study.records import KILLED, Outcome

ROOT = Path(__file__).parent.parent

LOADING = "RuntimeError: Engine core initialization failed. See root cause above."
TOO_EARLY = LOADING + " Failed core proc(s): {}"
LOADING += " Failed core proc(s): {'EngineCore': %d}"
WORKER = "(EngineCore pid=9) ERROR 11-29 [multiproc_executor.py:315] Worker proc VllmWorker-0 died unexpectedly"
WORKER += " (exit code: %d), shutting down executor."
DEAD = "(APIServer pid=5) ERROR 11-29 20:51:30 [async_llm.py:871] vllm.v1.engine.exceptions.EngineDeadError:"
DEAD += " EngineCore encountered an issue. See stack trace (above) for the root cause."
BROKE = "(EngineCore pid=9) ERROR 11-29 20:51:29 [core.py:1102] EngineCore encountered a fatal error."


@pytest.mark.parametrize(
    ("code", "lines", "killed"),
    [
        (-9, [], True),
        (-15, [], True),
        (-11, [], False),  # a segmentation fault is the server's own
        (1, ["ValueError: the model does not fit"], False),
        (1, [LOADING % -9], True),
        (1, [LOADING % -6], False),
        (1, [LOADING % 1], False),
        (1, [TOO_EARLY], True),  # seen of an engine that was killed, where vLLM looked before it had the code
        (1, [BROKE, TOO_EARLY], False),
        (0, [WORKER % -9, DEAD], True),
        (0, [WORKER % -11, DEAD], False),
        (0, [DEAD], True),  # the engine said no word
        (0, [BROKE, DEAD], False),
        (None, [DEAD], True),
        (None, ["INFO: Shutting down"], False),
        (0, ["INFO:     Shutting down"], True),  # it was asked to, and not by the study
        (0, [BROKE], False),
    ],
)
def test_a_death_is_told_by_exit_code_and_log(code, lines, killed):
    assert read_death(code, lines, "the last error").killed is killed


def test_an_end_of_its_own_names_the_last_error():
    assert "the last error" in read_death(1, [], "the last error").message


def test_a_guard_that_was_killed_is_no_failure_of_the_level():
    assert explain_end(-9).stage == KILLED
    assert explain_end(1).stage == "spawn"


@pytest.mark.parametrize(("killed", "left"), [(KILLED_ATTEMPTS - 1, ["b1-O0"]), (KILLED_ATTEMPTS, [])])
def test_a_launch_that_is_killed_again_and_again_is_a_result_after_all(killed, left):
    parameters = make_parameters({"study": "s", "model": "m", "levels": ["O0"], "users": [1], "seeds": [1]})
    plan = make_plan(parameters, select_levels(["O0"], ROOT), {})
    outcome = Outcome(status="interrupted", stage=KILLED, message="killed from outside")
    launches = [
        make_launch("O0", launch_id=f"b1-O0-a{number}", attempt=number, outcome=outcome)
        for number in range(1, killed + 1)
    ]
    machine = launches[0].machine
    rest = remaining_launches(plan, make_study(launches, []), machine.unit, machine.hostname_sha256)
    assert [launch.key for launch in rest if not launch.fills_caches] == left
