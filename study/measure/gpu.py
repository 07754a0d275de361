"""Readings of one card through NVML (`nvidia-ml-py`, imported as `pynvml`). Nothing on the card is ever set here.

Every reading is nullable and asked alone: cards differ in what they answer (GB10 has no memory figure, a MIG slice no
utilisation, Jetson hardly anything), so one failing field must not stop another. A field that the card does not
support is asked once.
"""

import contextlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import ModuleType
from typing import Any, NamedTuple

import pynvml

from study.design.clock_events import POLICY_COUNTERS, SLOWDOWN_COUNTERS
from study.errors import InputError

GIB = 2**30

START_ADVICE = {
    "LIBRARY_NOT_FOUND": "install the NVIDIA driver, or give the container GPU access; without a card: device cpu",
    "DRIVER_NOT_LOADED": "load the NVIDIA driver until nvidia-smi works; without a card: device cpu",
    "LIB_RM_VERSION_MISMATCH": "the driver was updated under a running system: reboot, or reload the nvidia modules",
    "NO_PERMISSION": "give this user access to /dev/nvidia*",
}
"""NVML's error at the start: what would work."""

FINAL_ERRORS = "NOT_SUPPORTED NO_PERMISSION FUNCTION_NOT_FOUND INVALID_ARGUMENT ARGUMENT_VERSION_MISMATCH DEPRECATED"
"""Errors that a second try cannot cure; after any other one (a timeout, a lost card) the field is asked again."""

OLDER_SLOWDOWN_IDS = (251, 252, 253)
"""Field numbers of `SLOWDOWN_COUNTERS` in drivers older than nvidia-ml-py 13.615, which names 269 to 271."""


@dataclass(frozen=True)
class GpuSample:
    """One reading; None where the card gave none. Power is NVML's moving average of about 1 s."""

    sm_clock_mhz: float | None
    memory_clock_mhz: float | None
    temperature_c: float | None
    memory_temperature_c: float | None
    power_w: float | None
    energy_j: float | None
    event_reasons: int | None
    gpu_utilisation: float | None


@dataclass(frozen=True)
class GpuIdentity:
    """Which card this is; a field that is None has its reason in `missing`.

    `uuid` is the MIG slice's where one is read, and `mig` then names its card; `index` is NVML's, by bus, which need
    not be CUDA's.
    """

    name: str | None
    uuid: str
    index: int | None
    memory_gib: float | None
    compute_capability: str | None
    max_sm_clock_mhz: float | None
    power_limit_enforced_w: float | None
    power_limit_requested_w: float | None
    power_limit_default_w: float | None
    driver_version: str | None
    mig: str
    missing: dict[str, str] = field(default_factory=dict)


class _Source(NamedTuple):
    """One NVML call that can answer a field, and how its answer becomes the field's value."""

    call: str
    arguments: tuple[Any, ...]
    convert: Callable[[Any], Any]


class GpuReader:
    """Reads one card, or one MIG slice and the card that it is part of.

    Attributes:
        uuid: of the card or slice.
        field_errors: field to the last NVML error text.
        fallbacks: fields that another call than the usual one answers; `field_errors` says what the usual one said.

    """

    def __init__(self, nvml: ModuleType, device: object) -> None:
        self._nvml = nvml
        self._final = {getattr(nvml, f"NVML_ERROR_{name}") for name in FINAL_ERRORS.split()}
        self._is_open = True
        self._slowdown_ids: tuple[int, ...] = ()
        self.field_errors: dict[str, str] = {}
        self.fallbacks: set[str] = set()
        self.uuid = str(nvml.nvmlDeviceGetUUID(device))
        is_slice = self.uuid.startswith("MIG-")
        self._card = nvml.nvmlDeviceGetDeviceHandleFromMigDeviceHandle(device) if is_slice else device
        self._mig = f"slice of {nvml.nvmlDeviceGetUUID(self._card)}" if is_slice else "disabled"
        self._sources = _list_sources(nvml, device, self._card)

    @classmethod
    def open(
        cls, gpu: str | int | None = None, nvml: ModuleType = pynvml, environ: Mapping[str, str] = os.environ
    ) -> "GpuReader":
        """Open a card by UUID (`GPU-...`, `MIG-...`), by NVML index, or, for None, the only one.

        Raises:
            InputError: NVML does not start, there is no such card, or several fit.

        """
        try:
            nvml.nvmlInit()
        except nvml.NVMLError as error:
            advice = {getattr(nvml, f"NVML_ERROR_{name}"): text for name, text in START_ADVICE.items()}
            said = str(error).rstrip(".")
            raise InputError(f"NVML: {said}; {advice.get(error.value, 'nvidia-smi must work first')}") from None
        try:
            return cls(nvml, _find_device(nvml, gpu, environ))
        except nvml.NVMLError as error:
            _shut_down(nvml)
            raise InputError(f"gpu {gpu!r}: NVML: {error}; nvidia-smi must work for this user first") from None
        except InputError:
            _shut_down(nvml)
            raise

    def close(self) -> None:
        """Let go of NVML; a second call does nothing."""
        if self._is_open:
            self._is_open = False
            _shut_down(self._nvml)

    def read(self) -> GpuSample:
        """Read every field once; does not raise for a card that does not answer."""
        return GpuSample(**{each.name: self._ask(each.name) for each in fields(GpuSample)})

    def memory_used_gib(self) -> float | None:
        """Return the memory in use on the card or slice, GiB, by whatever process; None where NVML has no figure."""
        used: float | None = self._ask("memory_used_gib")
        return used

    def process_ids(self) -> list[int] | None:
        """Return the ids of compute processes on the card or slice, as NVML knows them; None where it does not tell.

        In a container they can be the host's ids: a process whose id is not among them is not proven absent.
        """
        ids: list[int] | None = self._ask("process_ids")
        return ids

    def throttle_counters_ns(self) -> dict[str, int] | None:
        """Return how long each limiter has held the clock down, ns since some fixed start; None where none is kept.

        The names are those of `POLICY_COUNTERS` and `SLOWDOWN_COUNTERS`.
        """
        self._slowdown_ids = self._slowdown_ids or self._find_slowdown_ids()
        counters = {name: self._ask(name) for name in POLICY_COUNTERS}
        counters |= zip(SLOWDOWN_COUNTERS, self._read_slowdowns(self._slowdown_ids), strict=False)
        kept = {name: value for name, value in counters.items() if value is not None}
        if not kept:
            self.field_errors["throttle_counters_ns"] = self.field_errors.get("thermal_policy", "no counter is kept")
        return kept or None

    def identity(self) -> GpuIdentity:
        """Read which card this is and its limits; read again after a run, a daemon may have changed the limits."""
        names = [each.name for each in fields(GpuIdentity) if each.name in self._sources]
        values = {name: self._ask(name) for name in names}
        missing = {name: self.field_errors[name] for name, value in values.items() if value is None}
        return GpuIdentity(**values, uuid=self.uuid, mig=self._mig, missing=missing)

    def _ask(self, name: str) -> Any:  # noqa: ANN401 (NVML's own types, converted by the source)
        """Return a field's value from the first source that answers, and drop sources that never will."""
        sources = self._sources[name]
        while sources:
            call, arguments, convert = sources[0]
            try:
                return convert(getattr(self._nvml, call)(*arguments))
            except self._nvml.NVMLError as error:
                self.field_errors[name] = f"{call}: {error}"
                if error.value not in self._final:
                    return None
            except UnicodeDecodeError:
                # Seen under WSL: nvidia-ml-py decodes text that is not UTF-8.
                self.field_errors[name] = f"{call}: unreadable text"
            del sources[0]
            (self.fallbacks.add if sources else self.fallbacks.discard)(name)
        return None

    def _find_slowdown_ids(self) -> tuple[int, ...]:
        """Return the field numbers of this driver's slowdown counters; empty if that is not certain.

        To some drivers either set of numbers means power smoothing, so exactly one must answer, whole, as counters.
        """
        prefix = "NVML_FI_DEV_CLOCKS_EVENT_REASON"
        named = (getattr(self._nvml, f"{prefix}_{name}", 0) for name in SLOWDOWN_COUNTERS.values())
        candidates = {OLDER_SLOWDOWN_IDS, tuple(named)}
        answering = [ids for ids in candidates if None not in self._read_slowdowns(ids)]
        return answering[0] if len(answering) == 1 else ()

    def _read_slowdowns(self, ids: tuple[int, ...]) -> list[int | None]:
        """Read fields that are 64-bit counters; None for each that is not."""
        try:
            answers = self._nvml.nvmlDeviceGetFieldValues(self._card, list(ids)) if ids else []
        except self._nvml.NVMLError:
            return [None] * len(ids)
        good = (self._nvml.NVML_SUCCESS, self._nvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
        return [one.value.ullVal if (one.nvmlReturn, one.valueType) == good else None for one in answers]


def _list_sources(nvml: ModuleType, device: object, card: object) -> dict[str, list[_Source]]:
    """Return, for each field, the calls that can answer it, the usual one first.

    `device` is the card or the slice; clocks, heat and power belong to the `card` as a whole.
    """

    def ask(call: str, *arguments: object, convert: Callable[[Any], Any] = float) -> list[_Source]:
        # A binding of another age lacks some calls; those are no sources.
        return [_Source(call, arguments, convert)] if hasattr(nvml, call) else []

    def ask_field(name: str, convert: Callable[[Any], Any] = float) -> list[_Source]:
        number = getattr(nvml, f"NVML_FI_DEV_{name}")
        return ask("nvmlDeviceGetFieldValues", card, [number], convert=lambda got: convert(_read_value(nvml, got[0])))

    def ask_memory(figure: str) -> list[_Source]:
        call, convert = "nvmlDeviceGetMemoryInfo", lambda memory: _read_memory(nvml, memory, figure)
        return ask(call, device, nvml.nvmlMemory_v2, convert=convert) + ask(call, device, convert=convert)

    def ask_counter(policy: str) -> list[_Source]:
        number = getattr(nvml, f"NVML_PERF_POLICY_{policy}")
        older = ask("nvmlDeviceGetViolationStatus", card, number, convert=lambda status: int(status.violationTime))
        return ask_field(f"PERF_POLICY_{policy}", int) + older

    sources = {
        "sm_clock_mhz": ask("nvmlDeviceGetClockInfo", card, nvml.NVML_CLOCK_SM),
        "memory_clock_mhz": ask("nvmlDeviceGetClockInfo", card, nvml.NVML_CLOCK_MEM),
        "temperature_c": ask("nvmlDeviceGetTemperature", card, nvml.NVML_TEMPERATURE_GPU)
        + ask("nvmlDeviceGetTemperatureV", card, nvml.NVML_TEMPERATURE_GPU),
        "memory_temperature_c": ask_field("MEMORY_TEMP"),
        "power_w": ask("nvmlDeviceGetPowerUsage", card, convert=_milli) + ask_field("POWER_AVERAGE", _milli),
        "energy_j": ask("nvmlDeviceGetTotalEnergyConsumption", card, convert=_milli),
        "event_reasons": ask("nvmlDeviceGetCurrentClocksEventReasons", card, convert=int)
        + ask("nvmlDeviceGetCurrentClocksThrottleReasons", card, convert=int),
        "gpu_utilisation": ask("nvmlDeviceGetUtilizationRates", device, convert=lambda rates: float(rates.gpu)),
        "process_ids": ask("nvmlDeviceGetComputeRunningProcesses", device, convert=_list_ids)
        + ask("nvmlDeviceGetComputeRunningProcesses_v2", device, convert=_list_ids),
        "memory_used_gib": ask_memory("used"),
        "memory_gib": ask_memory("total"),
        "name": ask("nvmlDeviceGetName", device, convert=str),
        "index": ask("nvmlDeviceGetIndex", card, convert=int),
        "compute_capability": ask("nvmlDeviceGetCudaComputeCapability", card, convert=lambda two: f"{two[0]}.{two[1]}"),
        "max_sm_clock_mhz": ask("nvmlDeviceGetMaxClockInfo", card, nvml.NVML_CLOCK_SM),
        "power_limit_enforced_w": ask("nvmlDeviceGetEnforcedPowerLimit", card, convert=_milli),
        "power_limit_requested_w": ask("nvmlDeviceGetPowerManagementLimit", card, convert=_milli),
        "power_limit_default_w": ask("nvmlDeviceGetPowerManagementDefaultLimit", card, convert=_milli),
        "driver_version": ask("nvmlSystemGetDriverVersion", convert=str),
    }
    return sources | {name: ask_counter(policy) for name, policy in POLICY_COUNTERS.items()}


def _milli(value: float) -> float:
    return value / 1000


def _list_ids(processes: list[Any]) -> list[int]:
    return sorted({int(process.pid) for process in processes})


def _read_memory(nvml: ModuleType, memory: Any, figure: str) -> float:  # noqa: ANN401 (a ctypes structure)
    """Return a memory figure in GiB; a card of 0 bytes has no figure."""
    if not memory.total:
        raise nvml.NVMLError(nvml.NVML_ERROR_NOT_SUPPORTED)
    return float(getattr(memory, figure)) / GIB


def _read_value(nvml: ModuleType, answer: Any) -> float:  # noqa: ANN401 (a ctypes structure)
    """Return the number in one answer of `nvmlDeviceGetFieldValues`; each answer has its own error and type."""
    if answer.nvmlReturn != nvml.NVML_SUCCESS:
        raise nvml.NVMLError(answer.nvmlReturn)
    member = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")[answer.valueType]
    value: float = getattr(answer.value, member)
    return value


def _find_device(nvml: ModuleType, gpu: str | int | None, environ: Mapping[str, str]) -> object:
    """Return NVML's handle of the one card or slice that `gpu` fits."""
    devices = _list_devices(nvml)
    fitting = [(uuid, device) for uuid, names, device in devices if gpu is None or gpu in names]
    if len(fitting) == 1:
        return fitting[0][1]
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    hint = f" (CUDA_VISIBLE_DEVICES={visible} is not followed here)" if visible else ""
    if fitting:
        raise InputError(f"gpu {gpu!r} fits {len(fitting)}; name one of {', '.join(uuid for uuid, _ in fitting)}{hint}")
    here = ", ".join(uuid for uuid, _, _ in devices) or "none that answers"
    raise InputError(f"gpu {gpu!r} is not here; a whole UUID or an NVML index as a number works: {here}{hint}")


def _list_devices(nvml: ModuleType) -> list[tuple[str, tuple[str | int, ...], object]]:
    """Return UUID, names and handle of each card or, of a card in MIG mode, of each slice: CUDA cannot use the whole.

    A card that does not answer (lost, or not allowed for this user) is left out, so that the others can be used.
    """
    devices: list[tuple[str, tuple[str | int, ...], object]] = []
    for index in range(nvml.nvmlDeviceGetCount()):
        with contextlib.suppress(nvml.NVMLError):
            card = nvml.nvmlDeviceGetHandleByIndex(index)
            parent = str(nvml.nvmlDeviceGetUUID(card))
            here = _list_slices(nvml, card) or [(parent, card)]
            devices += [(uuid, (index, parent, uuid), device) for uuid, device in here]
    return devices


def _list_slices(nvml: ModuleType, card: object) -> list[tuple[str, object]]:
    """Return UUID and handle of each MIG slice of a card; empty where it is not in MIG mode."""
    slices: list[tuple[str, object]] = []
    with contextlib.suppress(nvml.NVMLError):
        enabled = nvml.nvmlDeviceGetMigMode(card)[0] == nvml.NVML_DEVICE_MIG_ENABLE
        for place in range(nvml.nvmlDeviceGetMaxMigDeviceCount(card) if enabled else 0):
            with contextlib.suppress(nvml.NVMLError):
                device = nvml.nvmlDeviceGetMigDeviceHandleByIndex(card, place)
                slices.append((str(nvml.nvmlDeviceGetUUID(device)), device))
    return slices


def _shut_down(nvml: ModuleType) -> None:
    with contextlib.suppress(nvml.NVMLError):
        nvml.nvmlShutdown()
