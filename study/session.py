"""A session as its own process: start `python -m study run`, follow it, and let a lost notebook lose nothing.

The runner's standard input is a pipe that this process holds. When the notebook's kernel dies, the pipe closes, and
the runner stops its server and ends; with `detach` it lives on.
"""

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from study.design.card_count import count_cards_of_levels
from study.design.counting import format_counted
from study.design.levels import select_levels
from study.design.parameters import Parameters, given_names, make_parameters
from study.design.plan import describe_plan, make_plan
from study.design.root import find_root
from study.errors import InputError, StudyError
from study.progress import seen_seconds
from study.records import LaunchRecord, RunRecord, identity_of
from study.store import Store


@dataclass(frozen=True)
class SessionEnd:
    """How a session ended: what it recorded now, and what is left for the same command to do."""

    study: str
    launches: int
    runs: int
    failed: int
    left: int
    message: str


def read_notebook_parameters(namespace: Mapping[str, Any]) -> Parameters:
    """Return the parameters that a notebook's parameters cell and papermill have set.

    Args:
        namespace: the notebook's `globals()`, before anything but parameters was assigned.

    Raises:
        InputError: a name that is no parameter, a missing one, or a wrong value.

    """
    return make_parameters(given_names(namespace))


def plan_session(parameters: Parameters) -> str:
    """Return the plan of a session as text: launches, runs, their order, and about how long they take."""
    root = find_root()
    store = Store(root / parameters.data_dir, parameters.study)
    records = store.read() if store.raw.is_dir() else None
    levels = select_levels(parameters.levels, root)
    count_cards_of_levels(parameters.server_flags, levels)
    plan = make_plan(parameters, levels, seen_seconds(records))
    return describe_plan(plan, parameters)


def follow_session(parameters: Parameters, detach: bool = False, command: Sequence[str] = ("run",)) -> SessionEnd:
    """Run a session in its own process and show one progress bar with the time left.

    Args:
        parameters: what is asked for.
        detach: whether it lives on when this process ends.
        command: what measures it, a command of `python -m study` with arguments of its own.

    Raises:
        InputError: the runner refused its input; nothing was started.
        StudyError: the runner ended with an error; what it recorded stays.

    """
    root = find_root()
    # Errors go to a file: a pipe that nobody empties while events are read could fill and stop the runner.
    with _parameter_file(parameters) as number, tempfile.TemporaryFile("w+") as errors:
        started = [sys.executable, "-m", "study", *command, "--parameters", f"/dev/fd/{number}", "--events"]
        process = subprocess.Popen(
            [*started, *(["--detach"] if detach else [])],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=root,
            text=True,
            start_new_session=True,
            pass_fds=(number,),
        )
        with process:
            try:
                end = _follow(process)
            except KeyboardInterrupt:
                _wait_for_end(process, detach)
                raise
        errors.seek(0)
        lines = errors.read().strip().splitlines()
    if process.returncode:
        said = [end.message] if end else [f"the runner ended with code {process.returncode}"]
        last = said[0] if end else (lines or said)[-1]
        raise (InputError if process.returncode == InputError.exit_code else StudyError)(last)
    return end or SessionEnd(parameters.study, 0, 0, 0, 0, "the runner said nothing")


@contextmanager
def _parameter_file(parameters: Parameters) -> Iterator[int]:
    """Hand the checked parameters over (JSON is YAML) in a file without a name, which a dead kernel cannot leave.

    Yields:
        int: its descriptor.

    """
    with tempfile.TemporaryFile("w", encoding="utf-8") as file:
        file.write(parameters.model_dump_json())
        file.flush()
        yield file.fileno()


def _wait_for_end(process: subprocess.Popen[str], detach: bool) -> None:
    """Let the runner stop its server in order after the cell was interrupted; a second interrupt ends the wait."""
    if detach or process.stdin is None or process.stdout is None:
        return
    process.stdin.close()
    for _ in process.stdout:
        continue
    process.wait()


def _follow(process: subprocess.Popen[str]) -> SessionEnd | None:
    """Read the runner's events until it ends."""
    from tqdm.std import tqdm  # a plan needs none

    assert process.stdout is not None  # noqa: S101 (asked for by the caller)
    end = None
    place: Any = _CellOutput() if _runs_in_kernel() else sys.stdout
    quiet = place is sys.stdout and not sys.stdout.isatty()
    with tqdm(total=1, disable=quiet, bar_format=_BAR, file=place, ascii=False) as bar:
        for line in process.stdout:
            if not line.endswith("\n"):
                break  # a runner that was killed while it wrote
            event = json.loads(line)
            if event["event"] == "end":
                end = SessionEnd(**{name: event[name] for name in SessionEnd.__dataclass_fields__})
                bar.n = int(bar.total or 0)
            else:
                bar.total = max(1, round(event["total_s"]))
                bar.n = min(int(bar.total), round(event["done_s"]))
            bar.set_description_str(event["message"], refresh=True)
    return end


def _runs_in_kernel() -> bool:
    """Tell whether this process is a notebook's kernel; one that only starts kernels has ipykernel imported too."""
    from IPython import get_ipython  # a plan needs none

    return hasattr(get_ipython(), "kernel")


_BAR = "{desc} {percentage:3.0f}% |{bar:24}| {elapsed} spent, about {remaining} left"


class _CellOutput:
    """A cell's output for a progress bar: the last state stays, so that an executed notebook shows one line."""

    def __init__(self) -> None:
        from IPython.display import display

        show: Any = display
        self._output = show({"text/plain": ""}, raw=True, display_id=True)

    def write(self, text: str) -> None:
        """Show what tqdm writes, in place of what it wrote before."""
        line = text.strip("\r\n")
        if line:
            self._output.update({"text/plain": line}, raw=True)

    def flush(self) -> None:
        """Do nothing: every line is shown at once."""


def describe_records(study: str, data_dir: str = "data") -> str:
    """Return in words what a study's raw folder holds, with every failure named."""
    records = Store(find_root() / data_dir, study).read()
    measured = [launch for launch in records.launches if not launch.fills_caches]
    held = f"{format_counted(len(measured), 'measured launch')}, {format_counted(len(records.runs), 'run')}"
    lines = [f"{held} in {data_dir}/raw/{study}"]
    items: list[LaunchRecord | RunRecord] = [*records.launches, *records.runs]
    for item in items:
        ended = item.outcome
        if ended.status != "ok":
            lines.append(f"  {identity_of(item)}: {ended.status} at {ended.stage}: {ended.message}")
    return "\n".join(lines)
