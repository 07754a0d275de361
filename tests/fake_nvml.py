"""A stand-in for the `pynvml` module: cards in memory, with failures by call.

Constants, structures and errors are the real module's, and a call exists here only if the real module has it, so that
a misspelt name fails. Nothing that would set something on a card is here: asking for it is an AttributeError.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace

import pynvml

UUID = "GPU-11111111-2222-3333-4444-555555555555"
OTHER_UUID = "GPU-99999999-8888-7777-6666-555555555555"
GIB = 2**30


class FakeClock:
    """A clock that moves when somebody sleeps."""

    def __init__(self, now_s: float = 100.0):
        self.now_s = now_s
        self.on_sleep: list[Callable[[float], None]] = []

    def __call__(self) -> float:
        return self.now_s

    def sleep(self, length_s: float) -> None:
        self.now_s += length_s
        for act in self.on_sleep:
            act(length_s)


@dataclass
class FakeCard:
    """One card (or MIG slice); `failures` maps a call, or a field number, to the NVML error code that it gives."""

    uuid: str = UUID
    name: str = "NVIDIA Test Card"
    index: int = 0
    sm_clock_mhz: int = 1980
    max_sm_clock_mhz: int = 1980
    memory_clock_mhz: int = 3201
    temperature_c: int = 40
    memory_temperature_c: int = 45
    power_w: float = 120.0
    energy_j: float = 1000.0
    reasons: int = 0
    utilisation: int = 100
    memory_gib: float = 140.0
    used_gib: float = 2.0
    pids: list[int] = field(default_factory=list)
    counters_ns: dict[int, int] = field(default_factory=dict)
    failures: dict[str | int, int] = field(default_factory=dict)
    mig: list["FakeCard"] | None = None
    parent: "FakeCard | None" = None
    cooling_c_per_s: float = 0.0
    floor_c: float = 0.0

    def __post_init__(self):
        self.exact_c = float(self.temperature_c)
        for one in self.mig or []:
            one.parent = self

    def pass_time(self, length_s: float) -> None:
        """Let the card use energy and get cooler, down to its floor."""
        self.energy_j += self.power_w * length_s
        if self.cooling_c_per_s:
            self.exact_c = max(self.floor_c, self.exact_c - self.cooling_c_per_s * length_s)
            self.temperature_c = round(self.exact_c)

    def vanish(self) -> None:
        """Fall off the bus: every call fails from now on."""
        self.failures["*"] = pynvml.NVML_ERROR_GPU_IS_LOST


POLICY_FIELDS = {
    pynvml.NVML_FI_DEV_PERF_POLICY_POWER: pynvml.NVML_PERF_POLICY_POWER,
    pynvml.NVML_FI_DEV_PERF_POLICY_THERMAL: pynvml.NVML_PERF_POLICY_THERMAL,
    pynvml.NVML_FI_DEV_PERF_POLICY_SYNC_BOOST: pynvml.NVML_PERF_POLICY_SYNC_BOOST,
    pynvml.NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT: pynvml.NVML_PERF_POLICY_BOARD_LIMIT,
    pynvml.NVML_FI_DEV_PERF_POLICY_RELIABILITY: pynvml.NVML_PERF_POLICY_RELIABILITY,
}


def _milli(value: float) -> int:
    return round(value * 1000)


class FakeNvml:
    """The module, as far as reading goes."""

    def __init__(self, *cards: FakeCard, init_error: int | None = None, lacks: tuple[str, ...] = ()):
        self.cards = list(cards)
        self.init_error = init_error
        self.lacks = lacks
        self.calls: list[str] = []
        self.open = 0

    def __getattribute__(self, name: str):
        if name.startswith("nvmlDevice") or name.startswith("nvmlSystem"):
            if name in object.__getattribute__(self, "lacks"):
                raise AttributeError(name)
            assert hasattr(pynvml, name), f"the real module has no {name}"
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str):
        if name.startswith(("NVML_", "NVMLError", "nvmlMemory_")):
            return getattr(pynvml, name)
        raise AttributeError(name)

    def nvmlInit(self):
        if self.init_error is not None:
            raise pynvml.NVMLError(self.init_error)
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def _answer(self, call: str, card: FakeCard | None = None, number: int | None = None):
        """Note the call; fail as the card's (or, for a slice's whole, the card's) table says."""
        assert self.open > 0, f"{call} outside nvmlInit"
        self.calls.append(call)
        failures = card.failures if card else {}
        code = failures.get("*", failures.get(call, failures.get(number)))
        if code is not None:
            raise pynvml.NVMLError(code)


def _define(call: str, answer: Callable):
    def method(self, card, *arguments, **keywords):
        self._answer(call, card)
        return answer(card, *arguments, **keywords)

    setattr(FakeNvml, call, method)


def _count(self):
    self._answer("nvmlDeviceGetCount")
    return len(self.cards)


def _handle_by_index(self, index):
    self._answer("nvmlDeviceGetHandleByIndex")
    card = self.cards[index]
    self._answer("nvmlDeviceGetHandleByIndex", card)
    return card


def _driver_version(self):
    self._answer("nvmlSystemGetDriverVersion")
    return "580.159.04"


def _field_values(self, card, numbers):
    self._answer("nvmlDeviceGetFieldValues", card)
    return [_field_value(card, number) for number in numbers]


def _field_value(card, number):
    kind = {"valueType": pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, "nvmlReturn": pynvml.NVML_SUCCESS}
    if number in card.failures:
        return SimpleNamespace(nvmlReturn=card.failures[number], valueType=0, value=SimpleNamespace())
    if number == pynvml.NVML_FI_DEV_MEMORY_TEMP:
        return SimpleNamespace(value=SimpleNamespace(uiVal=card.memory_temperature_c), **kind)
    if number == pynvml.NVML_FI_DEV_POWER_AVERAGE:
        return SimpleNamespace(value=SimpleNamespace(uiVal=_milli(card.power_w)), **kind)
    if number in card.counters_ns:
        value = SimpleNamespace(ullVal=card.counters_ns[number])
        return SimpleNamespace(value=value, **{**kind, "valueType": pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG})
    return SimpleNamespace(nvmlReturn=pynvml.NVML_ERROR_NOT_SUPPORTED, valueType=0, value=SimpleNamespace())


def _violation(card, policy):
    number = next(number for number, one in POLICY_FIELDS.items() if one == policy)
    if number not in card.counters_ns:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return SimpleNamespace(referenceTime=1, violationTime=card.counters_ns[number])


def _memory(card, version=None):
    if card.failures.get("memory v2" if version else "memory v1") is not None:
        raise pynvml.NVMLError(card.failures["memory v2" if version else "memory v1"])
    return SimpleNamespace(total=int(card.memory_gib * GIB), used=int(card.used_gib * GIB))


def _mig_mode(card):
    if card.mig is None:
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
    return [int(bool(card.mig))] * 2


def _mig_device(card, place):
    if place >= len(card.mig):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
    return card.mig[place]


def _clock(card, kind):
    return {pynvml.NVML_CLOCK_SM: card.sm_clock_mhz, pynvml.NVML_CLOCK_MEM: card.memory_clock_mhz}[kind]


FakeNvml.nvmlDeviceGetCount = _count
FakeNvml.nvmlDeviceGetHandleByIndex = _handle_by_index
FakeNvml.nvmlSystemGetDriverVersion = _driver_version
FakeNvml.nvmlDeviceGetFieldValues = _field_values
_define("nvmlDeviceGetUUID", lambda card: card.uuid)
_define("nvmlDeviceGetName", lambda card: card.name)
_define("nvmlDeviceGetIndex", lambda card: card.index)
_define("nvmlDeviceGetMigMode", _mig_mode)
_define("nvmlDeviceGetMaxMigDeviceCount", lambda _card: 7)
_define("nvmlDeviceGetMigDeviceHandleByIndex", _mig_device)
_define("nvmlDeviceGetDeviceHandleFromMigDeviceHandle", lambda card: card.parent)
_define("nvmlDeviceGetClockInfo", _clock)
_define("nvmlDeviceGetMaxClockInfo", lambda card, _kind: card.max_sm_clock_mhz)
_define("nvmlDeviceGetTemperature", lambda card, _sensor: card.temperature_c)
_define("nvmlDeviceGetTemperatureV", lambda card, _sensor: card.temperature_c)
_define("nvmlDeviceGetPowerUsage", lambda card: _milli(card.power_w))
_define("nvmlDeviceGetTotalEnergyConsumption", lambda card: _milli(card.energy_j))
_define("nvmlDeviceGetCurrentClocksEventReasons", lambda card: card.reasons)
_define("nvmlDeviceGetCurrentClocksThrottleReasons", lambda card: card.reasons)
_define("nvmlDeviceGetUtilizationRates", lambda card: SimpleNamespace(gpu=card.utilisation, memory=1))
_define("nvmlDeviceGetMemoryInfo", _memory)
_define("nvmlDeviceGetComputeRunningProcesses", lambda card: [SimpleNamespace(pid=pid) for pid in card.pids])
_define("nvmlDeviceGetComputeRunningProcesses_v2", lambda card: [SimpleNamespace(pid=pid) for pid in card.pids])
_define("nvmlDeviceGetCudaComputeCapability", lambda _card: (9, 0))
_define("nvmlDeviceGetEnforcedPowerLimit", lambda _card: 500_000)
_define("nvmlDeviceGetPowerManagementLimit", lambda _card: 700_000)
_define("nvmlDeviceGetPowerManagementDefaultLimit", lambda _card: 700_000)
_define("nvmlDeviceGetViolationStatus", _violation)
