"""One run: a load at one number of users on a launch's server, with what was seen beside it.

    gate -> warm-up waves (discarded) -> [sampler on -> load -> sampler off] -> record

The warm-up ends the idle pause that a gate is, has prompts of its own, and its last wave sizes the load.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from study.design.levels import Level
from study.design.plan import PlannedRun
from study.design.pool import GENERATED_PROMPTS, WARM_UP_SEED_OFFSET, Prompt
from study.errors import InputError, LoadError, ServerError
from study.measure.clock_lock import ClockLocks
from study.measure.deaths import ClientKilledError, KilledError, find_death
from study.measure.ending import Interrupted
from study.measure.foreign_processes import find_all_foreign
from study.measure.left_out import WHY as LEFT_OUT
from study.measure.load import Client, Target, WarmUp, make_pool, run_load, run_wave, warm_up
from study.measure.redact import redact
from study.measure.server import JIT_LINE, Server, log_lines, tail_of
from study.measure.setting import Setting, no_gate
from study.measure.telemetry import Sampler
from study.measure.thermal_load import read_lock_back, soak
from study.records import ASKED_TO_END, Gate, Outcome, RunRecord, ServerView

END_MARGIN_S = 5.0
"""Kept free for the end of a run when a time limit is near."""


@dataclass(frozen=True)
class Site:
    """Where runs of one launch happen."""

    setting: Setting
    launch_id: str
    level: Level
    server: Server
    client: Client
    folder: Path


class Run:
    """One planned run on a launch's server."""

    def __init__(self, site: Site, planned: PlannedRun, position: int) -> None:
        self.site = site
        self.setting = site.setting
        self.planned = planned
        self.position = position
        self.target = Target(site.server.url, self.setting.model, self.setting.parameters, site.folder)
        self.gate = no_gate("the run ended before its gate")
        self.facts: dict[str, Any] = {"load": None, "telemetry": None, "server": None}
        self.reasons: dict[str, str] = {}

    def perform(self) -> Literal["done", "cut", "again"]:
        """Make the run and write its record.

        Returns:
            `cut` where the time limit does not allow it, `again` where its load client was killed from outside.

        Raises:
            Interrupted: the session was asked to end.
            KilledError: the server was killed from outside meanwhile.
            ServerError: the server ended of its own doing meanwhile.

        """
        started_unix_s = time.time()
        error: LoadError | None = None
        try:
            with self.setting.ending:
                if not self._measure():
                    return "cut"
        except Interrupted:
            self._write(Outcome(status="interrupted", stage="load", message=ASKED_TO_END), started_unix_s)
            raise
        except LoadError as found:
            error = found
        death = find_death(self.site.server) if error or self._has_failures() else None
        if death:
            self._write(self._ended(death.message, death.killed), started_unix_s)
            raise KilledError(death.message) if death.killed else ServerError("serve", death.message)
        killed = isinstance(error, ClientKilledError)
        outcome = self._ended(str(error), killed) if error else Outcome(status="ok", stage="done")
        self._write(outcome, started_unix_s)
        return "again" if killed else "done"

    def _has_failures(self) -> bool:
        load = self.facts["load"]
        return load is not None and any(load.requests.error)

    def _ended(self, message: str, killed: bool) -> Outcome:
        """Return the outcome of a run that did not end well; one that was killed from outside is no result."""
        tail = redact(tail_of(self.site.server.log), self.setting.root)
        plain = redact(message, self.setting.root)
        return Outcome(status="interrupted" if killed else "failed", stage="load", message=plain, log_tail=tail)

    def _measure(self) -> bool:
        setting, planned = self.setting, self.planned
        size = max(GENERATED_PROMPTS, planned.users)
        pool = self._pool(planned.seed, size)
        warm = self._warm_up(size)
        if warm.run_s is not None and warm.run_s + END_MARGIN_S > setting.time_left_s():
            return False
        before = self.site.server.metrics()
        log_size = self.site.server.log.stat().st_size
        sampler = self._start_sampler()
        try:
            self.facts["load"] = run_load(self.site.client, self.target, planned.users, pool, warm)
        finally:
            self.facts["telemetry"] = sampler.stop() if sampler else None
            self.facts["server"] = self._view(before, log_size)
        return True

    def _warm_up(self, size: int) -> WarmUp:
        """Reach the session's condition, end the pause that this is, and size the run."""
        left_out, planned = self.setting.left_out, self.planned
        if left_out is not None and left_out.waves is not None:
            self.gate = self._reach_condition([])
            return WarmUp((), 0.0, left_out.waves[planned.users])
        own = self._pool(planned.seed + WARM_UP_SEED_OFFSET, size)
        self.gate = self._reach_condition(own)
        plan = (2 if self.position == 0 else 1, self.site.level.run_length_factor)
        return warm_up(self.site.client, self.target, planned.users, own, plan)

    def _start_sampler(self) -> Sampler | None:
        left_out = self.setting.left_out
        if left_out is not None and self.planned.seed in left_out.unsampled_seeds:
            self.reasons["telemetry"] = LEFT_OUT
            return None
        sampler = Sampler(self.setting.readers)
        sampler.start()
        return sampler

    def _pool(self, seed: int, size: int) -> list[Prompt]:
        """Return the seed's prompts, made once a session."""
        pools = self.setting.pools
        if seed not in pools:
            pools[seed] = make_pool(self.site.client, self.setting.parameters, self.setting.root, seed, size)
        return pools[seed]

    def _reach_condition(self, prompts: list[Prompt]) -> Gate:
        """Wait until the card is as the session kind asks."""
        setting = self.setting
        parameters = setting.parameters
        if not setting.readers or parameters.session == "cooled":
            return setting.reach_gate()
        if parameters.throttle == "as_found":
            return setting.take_as_found()

        def keep_busy() -> object:
            return run_wave(self.site.client, self.target, self.planned.users, prompts)

        if setting.clock_lock is not None:
            return self._read_lock_back(setting.clock_lock, keep_busy)
        return soak(setting.readers, keep_busy, parameters.cool_deadline_s, parameters.throttled_below_share)

    def _read_lock_back(self, lock: ClockLocks, keep_busy: Callable[[], object]) -> Gate:
        """Read back under load whether the clock is where it was locked."""
        if not lock.held():
            raise InputError("the process that holds the clock lock is gone; the clock is set free; resume")
        return read_lock_back(self.setting.readers, keep_busy, lock.mhz)

    def _view(self, before: dict[str, float], log_size: int) -> ServerView:
        """Compare what the server and the card said before and after the load."""
        after = self.site.server.metrics()
        names = ("prefix_queries", "prefix_hits", "preemptions")
        facts: dict[str, Any] = {
            name: after[name] - before[name] if name in before and name in after else None for name in names
        }
        missing = {name: "the server's metrics do not have it" for name in names if facts[name] is None}
        facts["jit_lines"] = sum(JIT_LINE in line for line in log_lines(self.site.server.log, log_size))
        foreign, reason, cards = find_all_foreign(self.setting.readers, self.site.server.pids())
        facts["foreign_gpu_processes"] = foreign
        if foreign is None:
            missing["foreign_gpu_processes"] = reason
        return ServerView(**facts, same_server=self.site.server.alive(), cards=cards, missing=missing)

    def _write(self, outcome: Outcome, started_unix_s: float) -> None:
        setting, planned = self.setting, self.planned
        attempt = setting.next_attempt(planned.key)
        empty = [name for name, value in self.facts.items() if value is None]
        record = RunRecord(
            study=setting.parameters.study,
            fingerprint=setting.fingerprint,
            rehearsal=setting.parameters.rehearsal,
            run_id=f"{planned.key}-a{attempt}",
            attempt=attempt,
            launch_id=self.site.launch_id,
            session=setting.parameters.session,
            block=planned.block,
            level=planned.level,
            users=planned.users,
            seed=planned.seed,
            position=self.position,
            started_unix_s=started_unix_s,
            gate=self.gate,
            outcome=outcome,
            missing={name: self.reasons.get(name, f"the run ended before it: {outcome.message}") for name in empty},
            **self.facts,
        )
        setting.write(record)
        setting.tell_run(planned, record)
