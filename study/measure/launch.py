"""One launch: a fresh server from gate to stop, its runs, and the records of both.

    gate -> canary -> spawn ... healthy -> first token -> configuration -> (idle) -> run, run, ... -> stop -> canary

A run is: gate, warm-up waves (discarded; they also end the idle pause and size the run), load. Its record is written at
once; the launch's own record lies open in the store until the server is stopped.
"""

import hashlib
import time
from functools import partial
from typing import Any, Literal

from study.design.plan import PlannedLaunch
from study.errors import InputError, ServerError, StudyError
from study.measure.ahead import first_job
from study.measure.caches import cold_environment, told_caches
from study.measure.canary import run_canary
from study.measure.deaths import KilledError, find_death
from study.measure.ending import Interrupted
from study.measure.flags import hear_about_flags, settle_flags
from study.measure.launch_cards import LaunchCards
from study.measure.left_out import WHY as LEFT_OUT
from study.measure.leftovers import LaunchFolder
from study.measure.load import Client
from study.measure.redact import redact, redact_log
from study.measure.run import Run, Site
from study.measure.server import DOWNGRADE, Server, log_lines, tail_of
from study.measure.server_spec import ServerSpec, command_of, recorded_environment
from study.measure.setting import Setting, no_gate
from study.measure.shared_memory import note_shared_memory
from study.records import ASKED_TO_END, Canary, LaunchRecord, Outcome

CANARY_TIMEOUT_S = 180.0
CANARY_HASTE_S = 30.0


NULL_AT_FIRST = (
    *("resolved", "healthy_s", "first_token_s", "stop_asked_s", "stopped_s", "stopped_by", "log_sha256"),
    *("kv_cache_blocks", "kv_cache_tokens", "canary_before", "canary_after", "idle_c", "idle_power_w"),
)
"""Fields of a launch's record that only its course fills."""


class Launch:
    """One attempt at a planned launch."""

    def __init__(self, setting: Setting, planned: PlannedLaunch, attempt: int) -> None:
        self.setting = setting
        self.planned = planned
        self.id = f"{planned.key}-a{attempt}"
        self.log = setting.log_path(self.id)
        self.folder = LaunchFolder()
        self.cut_short = False
        self.stage = "gate"
        self.measured = 0
        self.cards = LaunchCards(setting)
        self.reasons: dict[str, str] = {}
        self.facts: dict[str, Any] = self._first_facts(attempt)

    def perform(self) -> LaunchRecord:
        """Make the launch and its runs; the record is written whatever happens.

        Raises:
            Interrupted: the session was asked to end; server and records are in order.
            InputError: something that the user mends before the same command resumes: a full disk, a taken card.

        """
        # What ends a launch otherwise than below is a fault of this program: nothing was learnt about the level.
        outcome = Outcome(status="interrupted", stage="spawn", message="ended in the harness")
        try:
            self._prepare()
            outcome = self._serve()
        except Interrupted:
            outcome = Outcome(status="interrupted", stage=self.stage, message=ASKED_TO_END)
            raise
        except OSError as error:
            outcome = self._ended(InputError(f"this machine: {error.strerror}: '{error.filename}'; mend it and resume"))
            raise InputError(outcome.message) from None
        except StudyError as error:
            outcome = self._ended(error)
            if isinstance(error, InputError):
                raise  # the user mends it and resumes: not a result
        finally:
            record = self._close(outcome)
        return record

    def _ended(self, error: StudyError) -> Outcome:
        """Return the outcome of a launch that an error ended; what says nothing of its level is no result."""
        no_result = isinstance(error, InputError | KilledError)
        status: Literal["failed", "interrupted"] = "interrupted" if no_result else "failed"
        stage = error.stage if isinstance(error, ServerError) else self.stage
        return Outcome(status=status, stage=stage, message=self._plain(str(error)), log_tail=self._log_tail())

    def _prepare(self) -> None:
        """Reach the session's condition, on a card that nobody else holds, and measure the machine."""
        setting = self.setting
        with setting.ending:
            self.cards.wait_until_free()
            self.facts["gate"] = setting.gate_before_launch()
            self.facts["canary_before"] = self._canary("canary_before")

    def _serve(self) -> Outcome:
        """Start the server, make the runs, stop it."""
        setting = self.setting
        server: Server | None = None
        clients: list[Client] = []
        self.stage = "spawn"
        self._keep_open()
        self.facts |= {"spawn_s": time.monotonic(), "spawn_unix_s": time.time()}
        try:
            server = Server.start(self._spec(), self.log, setting.root)
            self.facts["command"] = [self._plain(part) for part in command_of(self._spec(), server.port)]
            if self.planned.runs or setting.flags_to_check:
                clients.append(self._start_client(server))
            self.stage = "ready"
            with setting.ending:
                self._watch_start(server, clients)
            self.stage = "serve"
            self._keep_open()
            return self._run_all(server, clients)
        except ServerError as error:
            with setting.ending:
                settle_flags(setting, clients)
            raise _explain(error, server) from None
        finally:
            for client in clients:
                client.close()
            if server:
                self._stop(server)

    def _run_all(self, server: Server, clients: list[Client]) -> Outcome:
        """Make the runs; a load client that is gone is replaced, and a run that it took with it is made once more."""
        made = 0
        for run in self.planned.runs:
            for attempt in (1, 2):
                if not server.guarded:
                    raise KilledError("the server's guard was killed from outside")
                if not server.alive():
                    raise ServerError("serve", f"the server ended during the session: {server.last_error()}")
                if not clients[-1].running:
                    clients.append(self._start_client(server))
                site = Site(self.setting, self.id, self.planned.level, server, clients[-1], self.folder.path)
                end = Run(site, run, made).perform()
                made += 1
                if end == "cut":
                    self.cut_short = True
                    return Outcome(status="ok", stage="done", message="the time limit came before the last run")
                if end == "done":
                    self.measured += 1
                    break
                if attempt == 2:
                    raise KilledError("the load client was killed from outside twice in a run")
        return Outcome(status="ok", stage="done")

    def _start_client(self, server: Server) -> Client:
        environment = {**server.client_environment, **self.folder.client_environment}
        log, setting = self.folder.path / "client.log", self.setting
        return Client(setting.model, log, setting.root, environment, first_job(setting, self.planned))

    def _keep_open(self) -> None:
        """Keep the record so far: whoever comes after a runner that died closes it."""
        self.setting.keep_open(self._record(Outcome(status="interrupted", stage="serve", message="the runner died")))

    def _watch_start(self, server: Server, clients: list[Client]) -> None:
        """Follow the start to the first token, and read what was resolved."""
        setting = self.setting
        watch = partial(hear_about_flags, setting, clients)
        self.facts["healthy_s"] = server.wait_healthy(setting.parameters.ready_deadline_s, watch)
        self.facts["first_token_s"] = server.first_token(setting.model)
        settle_flags(setting, clients)
        resolved = server.resolved()
        cache = resolved.get("cache_config", {})
        self.facts |= {"kv_cache_blocks": cache.get("num_gpu_blocks"), "resolved": self._plain(resolved)}
        self.facts["kv_cache_tokens"] = cache.get("kv_cache_size_tokens")
        self.facts["downgrades"] = [self._plain(line) for line in log_lines(self.log) if DOWNGRADE.search(line)]
        self._read_idle()

    def _read_idle(self) -> None:
        """Read the card at rest with the server loaded; the first reading sets the gate where no parameter does."""
        if not self.setting.readers:
            self.reasons |= dict.fromkeys(("idle_c", "idle_power_w"), "no GPU")
            return
        idle_c, idle_power_w, reasons = self.cards.read_idle()
        self.facts |= {"idle_c": idle_c, "idle_power_w": idle_power_w}
        self.reasons |= reasons

    def _canary(self, name: str, timeout_s: float = CANARY_TIMEOUT_S) -> Canary | None:
        """Run the canary on every card, and return the first one's."""
        if self.setting.left_out is not None:
            self.reasons[name] = LEFT_OUT
            return None
        canary, reason = self.cards.run_canaries(name, timeout_s, run_canary)
        if canary is None:
            self.reasons[name] = reason
        return canary

    def _stop(self, server: Server) -> None:
        self.facts["stop_asked_s"] = time.monotonic()
        note_shared_memory(self.folder.path, server.pids())
        stopped = server.stop()
        self.facts |= {"stopped_s": time.monotonic(), "stopped_by": stopped.stopped_by}
        if stopped.stopped_by is None:
            self.reasons["stopped_by"] = "the server ended on its own"
        self.facts["left_over"] = [
            *stopped.left_over,
            *self.cards.list_left_over(),
        ]
        redact_log(self.log, self.setting.root, server.secret)

    def _close(self, outcome: Outcome) -> LaunchRecord:
        """Write the record; the canary after the stop is skipped when the session ends at once."""
        self.folder.remove()
        if self.facts["stop_asked_s"] is None:
            redact_log(self.log, self.setting.root)  # of a server that came too late to be stopped in order
        asked = self.setting.ending.asked
        # What was measured needs the canary after it; else a launch that ends early goes without.
        if self.measured or (outcome.status != "interrupted" and not asked):
            self._end_with_canary(asked)
        else:
            self.reasons["canary_after"] = ASKED_TO_END if asked else "the launch ended before a run"
        record = self._record(outcome)
        self.setting.write(record)
        return record

    def _end_with_canary(self, asked: bool) -> None:
        """Measure the machine after the stop, in short where the session was asked to end."""
        try:
            if asked:
                self.facts["canary_after"] = self._canary("canary_after", CANARY_HASTE_S)
            else:
                with self.setting.ending:
                    self.facts["canary_after"] = self._canary("canary_after")
        except Interrupted:
            self.reasons["canary_after"] = ASKED_TO_END

    def _record(self, outcome: Outcome) -> LaunchRecord:
        """Build the record of what is known now; whatever is not gets the stage as its reason."""
        facts = dict(self.facts)
        if self.log.is_file():
            facts["log_sha256"] = hashlib.sha256(self.log.read_bytes()).hexdigest()
        default = f"not reached: the launch ended at stage '{outcome.stage}'" + f" ({outcome.message})"[:200]
        empty = [name for name, value in facts.items() if value is None]
        missing = {name: self.reasons.get(name, default) for name in empty}
        further = self.cards.describe_further(default)
        return LaunchRecord(**facts, further_cards=further, outcome=outcome, missing=missing)

    def _spec(self) -> ServerSpec:
        setting = self.setting
        level = self.planned.level
        caches = cold_environment(self.folder.path) if setting.parameters.cache == "cold" else {}
        environment = {**caches, **level.environment}
        private = {name: value for name, value in self.folder.server_environment.items() if name not in environment}
        return ServerSpec(
            model=setting.model,
            parameters=setting.parameters,
            flags=level.flags,
            environment=environment,
            private_environment=private,
            cores=setting.server_cores,
            gpu_uuid=",".join(setting.machine.uuids) or None,
            port=setting.parameters.port,
        )

    def _first_facts(self, attempt: int) -> dict[str, Any]:
        """Everything that is known before the server starts; the rest is null until it is."""
        setting, planned = self.setting, self.planned
        parameters = setting.parameters
        spec = self._spec()
        return {
            "study": parameters.study,
            "fingerprint": setting.fingerprint,
            "comparable": setting.comparable,
            "rehearsal": parameters.rehearsal,
            "launch_id": self.id,
            "attempt": attempt,
            "session": parameters.session,
            "block": planned.block,
            "position": planned.position,
            "level": planned.level.name,
            "fills_caches": planned.fills_caches,
            "flags": list(planned.level.flags),
            "environment": {k: self._plain(v) for k, v in recorded_environment(spec.environment).items()},
            "command": [self._plain(part) for part in command_of(spec, 0)],
            "expect": planned.level.expect,
            "cache": parameters.cache,
            **told_caches(parameters.cache, planned.level.environment, (*parameters.server_flags, *spec.flags)),
            "spawn_unix_s": time.time(),
            "spawn_s": time.monotonic(),
            "log": self.log.name,
            "gate": no_gate("the launch ended before its gate"),
            "machine": setting.machine,
            "cores": setting.cores,
            **dict.fromkeys(NULL_AT_FIRST),
        }

    def _plain(self, value: Any) -> Any:  # noqa: ANN401 (any JSON value)
        """Keep this machine's folders out of a text or list of texts."""
        return redact(value, self.setting.root)

    def _log_tail(self) -> list[str]:
        return [self._plain(line) for line in tail_of(self.log)]


def _explain(error: ServerError, server: Server | None) -> ServerError:
    """Return what ended a launch: the error, or that the server was killed from outside where it was."""
    if server is None or isinstance(error, KilledError) or (error.stage == "ready" and server.alive()):
        return error
    death = find_death(server)
    return KilledError(death.message) if death and death.killed else error
