"""Samples of the card, or of every card of the server, and of the host beside one load.

A run, in time:

    gate        warm-up waves            load                        next run
    ----------|------------------------|--------------------------|-------------->
    cool or     discarded: end the       N users, measured
    soak        idle pause, size the
                run
                                     |<- start()         stop() ->|
    sampler                          | .  .  .  .  .  .  .  .  .  .|   10 Hz
    throttle counters                x                            x   before, after

Samples are due at `start + k * period` on the monotonic clock, so that they do not drift; one that is missed (the host
was busy, the driver slow) is left out and never caught up. The first sample is taken at once and the last at the stop,
so that the energy counter covers the whole window. Several cards are read one after the other, under one time stamp.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from study.design.card_facts import CardColumns
from study.measure.cards import Readers, list_readers
from study.measure.gpu import GpuReader, GpuSample
from study.records import Telemetry

PERIOD_S = 0.1
STOP_PATIENCE_S = 5.0
"""How long `stop` waits for a reading that hangs in the driver."""
CPU_CLOCKS_READ = 4
"""Cores whose clock is read a sample, spread over the machine: reading all of a large one takes milliseconds."""
NO_GPU = "no GPU"
HANGS = "the sampler hangs in the driver"
GPU_NAMES = tuple(each.name for each in fields(GpuSample))

Counters = list[dict[str, int] | None]
"""Throttle counters of each card, ns; None where one keeps none."""


@dataclass(frozen=True)
class HostSample:
    """Shares of all cores' time since the sample before (0 to 1), and the CPU clock; None where not known."""

    host_busy: float | None
    host_steal: float | None
    cpu_clock_mhz: float | None


class HostReader:
    """Reads the load of this host from `/proc/stat` and its clock from cpufreq.

    Steal, the time that a hypervisor gave to others, counts neither as busy nor as idle.
    """

    def __init__(self, proc_stat: Path = Path("/proc/stat"), cpus: Path = Path("/sys/devices/system/cpu")) -> None:
        self._stat = proc_stat
        clocks = sorted(cpus.glob("cpufreq/policy*/scaling_cur_freq"))
        self._clocks = clocks[:: max(1, len(clocks) // CPU_CLOCKS_READ)][:CPU_CLOCKS_READ]
        self._last = self._read_ticks()

    def read(self) -> HostSample:
        """Read once; shares are None where the kernel's clock has not ticked since the last reading."""
        last, self._last = self._last, self._read_ticks()
        busy, steal = _shares(last, self._last)
        return HostSample(busy, steal, self._read_clock_mhz())

    def explain(self, name: str) -> str:
        """Return why a column of the host has no value."""
        if name == "cpu_clock_mhz":
            return "this host has no cpufreq" if not self._clocks else "cpufreq did not answer"
        return "no sample was taken" if self._last else f"{self._stat} is not readable"

    def _read_ticks(self) -> tuple[int, ...]:
        """Return the kernel's ticks: user, nice, system, idle, iowait, irq, softirq, steal; empty if unreadable."""
        try:
            with self._stat.open("rb") as file:
                words = file.readline().split()
        except OSError:
            return ()
        # Guest time, which follows, is within user time already.
        return tuple(int(word) for word in words[1:9]) if words[:1] == [b"cpu"] and len(words) > 8 else ()

    def _read_clock_mhz(self) -> float | None:
        try:
            clocks = [int(path.read_bytes()) for path in self._clocks]
        except (OSError, ValueError):
            return None
        return sum(clocks) / len(clocks) / 1000 if clocks else None


def _shares(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[float | None, float | None]:
    """Return the busy and the stolen share of the time between two readings of the ticks."""
    # A kernel may set idle and iowait back by a tick.
    spent = [max(0, new - old) for old, new in zip(before, after, strict=False)]
    total = sum(spent)
    if not total:
        return None, None
    idle, steal = spent[3] + spent[4], spent[7]
    return (total - idle - steal) / total, steal / total


class Sampler:
    """A thread that samples beside one load; used once.

    The thread reads and appends, nothing else, so that it costs the load's client and the server little.
    """

    def __init__(
        self,
        reader: Readers,
        host: HostReader | None = None,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], bool] | None = None,
        period_s: float = PERIOD_S,
    ) -> None:
        """Prepare; nothing is read yet.

        Args:
            reader: of the card, or of each card of the server; None on a machine without one.
            host: of the host; by default this one.
            clock: monotonic, s.
            wait: waits at most so many s and returns whether to stop; by default until `stop` is called.
            period_s: between samples, s.

        """
        self._readers = list_readers(reader)
        self._host = host or HostReader()
        self._clock = clock
        self._stopped = threading.Event()
        self._wait = wait or self._stopped.wait
        self._period_s = period_s
        self._thread = threading.Thread(target=self._sample_until_stopped, name="telemetry", daemon=True)
        self._before_ns: Counters = []
        self._rows: list[tuple[float, list[GpuSample], HostSample]] = []

    def start(self) -> None:
        """Read the throttle counters and begin to sample."""
        self._before_ns = self._read_counters()
        self._thread.start()

    def stop(self) -> Telemetry:
        """End the sampling and return what was seen."""
        self._stopped.set()
        self._thread.join(STOP_PATIENCE_S)
        # A driver that hangs one thread would hang this one too.
        hangs = self._thread.is_alive()
        return self._record(list(self._rows), [None] * len(self._readers) if hangs else self._read_counters())

    def _sample_until_stopped(self) -> None:
        start_s = self._clock()
        stopping = False
        while not stopping:
            self._sample()
            elapsed_s = self._clock() - start_s
            # Rounding must not make the deadline that was just met due again.
            due_s = (int(elapsed_s / self._period_s + 1e-6) + 1) * self._period_s
            stopping = self._wait(due_s - elapsed_s)
        self._sample()

    def _sample(self) -> None:
        t_s = self._clock()
        cards = [reader.read() for reader in self._readers]
        self._rows.append((t_s, cards, self._host.read()))

    def _read_counters(self) -> Counters:
        return [reader.throttle_counters_ns() for reader in self._readers]

    def _record(self, rows: Sequence[tuple[float, list[GpuSample], HostSample]], after_ns: Counters) -> Telemetry:
        """Turn samples into columns; a column without any value becomes null, with its reason."""
        cards = [
            _card_columns(reader, [samples[place] for _, samples, _ in rows], self._before_ns[place], after_ns[place])
            for place, reader in enumerate(self._readers)
        ]
        first = cards[0] if cards else _no_card()
        host = {each.name: [getattr(host, each.name) for _, _, host in rows] for each in fields(HostSample)}
        missing = {name: self._host.explain(name) for name, column in host.items() if not _has_value(column)}
        return Telemetry.model_validate(
            {
                **first,
                "period_s": self._period_s,
                "t_s": [t_s for t_s, _, _ in rows],
                **{name: None if name in missing else column for name, column in host.items()},
                "missing": {**first["missing"], **missing},
                "further_cards": [
                    CardColumns(gpu_uuid=reader.uuid, **columns)
                    for reader, columns in zip(self._readers[1:], cards[1:], strict=True)
                ],
            }
        )


def _card_columns(
    reader: GpuReader,
    samples: Sequence[GpuSample],
    before_ns: dict[str, int] | None,
    after_ns: dict[str, int] | None,
) -> dict[str, Any]:
    """Return one card's columns and counters, with the reasons for those that are null."""
    errors = reader.field_errors
    columns = {name: [getattr(sample, name) for sample in samples] for name in GPU_NAMES}
    missing = {
        name: errors.get(name, "no sample was taken") for name, column in columns.items() if not _has_value(column)
    }
    counters = {"throttle_before_ns": before_ns, "throttle_after_ns": after_ns}
    why = errors.get("throttle_counters_ns", HANGS)
    holes = {name for name in GPU_NAMES if None in columns[name]} | reader.fallbacks
    return {
        **{name: None if name in missing else column for name, column in columns.items()},
        **counters,
        "missing": missing | {name: why for name, values in counters.items() if values is None},
        "field_errors": {name: errors[name] for name in GPU_NAMES if name in holes and name in errors},
    }


def _no_card() -> dict[str, Any]:
    """Return the columns of a machine without a card."""
    names = (*GPU_NAMES, "throttle_before_ns", "throttle_after_ns")
    return {**dict.fromkeys(names), "missing": dict.fromkeys(names, NO_GPU)}


def _has_value(column: Sequence[float | None]) -> bool:
    return any(value is not None for value in column)
