"""What a fleet tells: lines for a person, or JSON lines for a program, as the runner's own (`study.progress`)."""

import json
from dataclasses import asdict
from typing import TextIO

from study.arrival import LaunchFiles
from study.design.counting import format_counted
from study.fleet.blocks import Block
from study.fleet.node import Place
from study.progress import Tally
from study.records import LaunchRecord, RunRecord


class FleetReporter:
    """Tells how far the fleet is; `out` is named since Ray writes to whatever standard output is."""

    def __init__(self, study: str, events: bool, out: TextIO) -> None:
        self._study = study
        self._events = events
        self._out = out
        self._done: dict[int, float] = {}
        self.tally = Tally(0.0)

    def begin(self, blocks: tuple[Block, ...], lines: list[str]) -> None:
        """Tell the plan."""
        self.tally.total_s = sum(block.estimate_s for block in blocks)
        for line in lines:
            self.say("plan", line)

    def block_began(self, block: Block, place: Place, attempt: int, goes_on: bool | None) -> None:
        """Tell that a machine has taken a block, and whether it goes on with what it began (None: nobody did)."""
        cards = f", GPU {', '.join(map(str, place.gpus))}" if place.gpus else ""
        again = f" (try {attempt})" if attempt > 1 else ""
        how = {True: ", goes on", False: ", begins it again: another card began it", None: ""}[goes_on]
        self.say("launch", f"block {block.number}: on {place.machine}{cards}{again}{how}")

    def launch_came(self, block: Block, record: LaunchRecord, files: LaunchFiles) -> None:
        """Count a launch that is in the store now."""
        outcomes = [record.outcome, *(RunRecord.model_validate_json(run).outcome for run in files.runs)]
        self.tally.launches += 1
        self.tally.runs += len(files.runs)
        self.tally.failed += sum(outcome.status != "ok" for outcome in outcomes)
        share = block.estimate_s / block.launches
        self._count_done(block, min(block.estimate_s, self._done.get(block.number, 0.0) + share))
        ended = record.outcome
        how = "" if ended.status == "ok" else f", {ended.status} at {ended.stage}: {ended.message}"
        self.say("launch", f"stored {record.launch_id} with {format_counted(len(files.runs), 'run')}{how}")

    def block_done(self, block: Block) -> None:
        """Tell that a block is complete."""
        self._count_done(block, block.estimate_s)
        self.say("launch", f"block {block.number}: complete")

    def end(self, left: tuple[Block, ...], why: str | None) -> int:
        """Tell how the fleet ended, `why` where it ended early; return the exit code."""
        tally = self.tally
        tally.left = sum(block.launches for block in left)
        ended_early = why is not None
        if why is None:
            numbers = ", ".join(str(block.number) for block in left)
            why = f"blocks {numbers} are left; the same command goes on" if left else "every block is complete"
        self.say("end", f"{tally.recorded} came back, {tally.failed} failed; {why}")
        return 1 if ended_early or (tally.failed and not (tally.launches + tally.runs - tally.failed)) else 0

    def say(self, event: str, message: str) -> None:
        """Print one line."""
        line = {"event": event, "message": message, "study": self._study, **asdict(self.tally)}
        print(json.dumps(line) if self._events else message, file=self._out, flush=True)

    def _count_done(self, block: Block, done_s: float) -> None:
        self.tally.done_s += done_s - self._done.get(block.number, 0.0)
        self._done[block.number] = done_s
