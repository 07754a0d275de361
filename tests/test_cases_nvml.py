"""What NVML gives in public that misleads: cards that tell nothing, the wrong card, patterns that stand for no value.

`test_gpu` holds the reader against each kind; here is what becomes of a run that was measured on such a card.
"""

from pathlib import Path

import pynvml
import pytest
from fake_nvml import OTHER_UUID, UUID, FakeCard, FakeClock, FakeNvml
from make_records import make_launch, make_run, make_server_view

from study.analyze.evidence import resolved_value
from study.analyze.runs import figures_of
from study.analyze.validity import judge_run
from study.design.clock_events import decode_event_reasons
from study.measure.gpu import GpuReader
from study.measure.machine import describe_gpu
from study.measure.telemetry import Sampler
from study.store import Store

ROOT = Path(__file__).parent.parent
UNSUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NO_VALUE = 2**32 - 1
"""What a 32-bit field holds where a driver has no value and gives no error."""


def sample(card, samples=5):
    """Read a card beside a load of half a second, without waiting for it."""
    clock = FakeClock(1000.0)
    reader = GpuReader.open(None, FakeNvml(card), {})
    left = iter(range(samples))

    def wait(length_s):
        clock.sleep(length_s)
        return next(left, None) is None

    sampler = Sampler(reader, clock=clock, wait=wait)
    sampler.start()
    sampler._thread.join(10)
    return sampler.stop()


def run_with(telemetry):
    return make_run(tpot_ms=1.0, waves=2, telemetry=telemetry)


def faults(run, launch=None):
    return judge_run(run, launch or make_launch()).reasons


def test_b4_a_card_that_answers_nothing_is_unknown_and_no_pass():
    # Orin, Thor: init and count succeed, every reading fails, and a count of samples alone would say "0 missing"
    card = FakeCard(failures={name: UNSUPPORTED for name in dir(FakeNvml) if name.startswith("nvmlDevice")})
    for name in ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID", "nvmlDeviceGetMigMode", "nvmlDeviceGetIndex"):
        card.failures.pop(name, None)
    telemetry = sample(card)
    assert len(telemetry.t_s) >= 5
    assert telemetry.sm_clock_mhz is None
    run = run_with(telemetry)
    assert {"telemetry_gap (unavailable)", "throttled_in_cooled_session (unavailable)"} <= set(faults(run))
    assert figures_of(run, make_launch()).median_sm_clock_mhz is None


def test_b4_every_field_has_its_own_reason():
    card = FakeCard(failures={"nvmlDeviceGetPowerUsage": UNSUPPORTED, pynvml.NVML_FI_DEV_POWER_AVERAGE: UNSUPPORTED})
    telemetry = sample(card)
    assert telemetry.power_w is None
    assert "Not Supported" in telemetry.missing["power_w"]
    assert telemetry.temperature_c is not None


def test_b1_a_card_without_a_memory_figure_has_none_and_never_0():
    card = FakeCard(failures={"nvmlDeviceGetMemoryInfo": UNSUPPORTED})
    facts, missing = describe_gpu(GpuReader.open(None, FakeNvml(card), {}).identity())
    assert facts["gpu_memory_gib"] is None
    assert "Not Supported" in missing["gpu_memory_gib"]


def test_b1_what_vllm_chose_without_that_figure_stands_in_the_record():
    # vLLM falls back to small batches in silence (2048 and 256 instead of 8192 and 1024); the server tells what it took
    (launch, *_) = Store(ROOT / "data", "2026-11-h200-cooled").read().launches
    for path in ("scheduler_config.max_num_batched_tokens", "scheduler_config.max_num_seqs"):
        assert isinstance(resolved_value(launch.resolved, path), int)


@pytest.mark.parametrize("field", ["temperature_c", "memory_temperature_c", "sm_clock_mhz", "utilisation", "reasons"])
def test_a_pattern_that_stands_for_no_value_does_not_end_the_session(field):
    telemetry = sample(FakeCard(**{field: NO_VALUE}))
    run = run_with(telemetry)
    assert judge_run(run, make_launch()).evidence
    assert type(run).model_validate_json(run.model_dump_json()) == run


def test_b8_another_card_than_the_servers_is_no_evidence():
    # CUDA orders cards by speed, NVML by bus: the watched card lists no process of ours and idles through the run
    view = make_server_view(foreign_gpu_processes=None, missing={"foreign_gpu_processes": "ids of another namespace"})
    assert "foreign_gpu_process (unavailable)" in faults(make_run(server=view))


def test_b8_the_record_names_the_card_that_was_read():
    nvml = FakeNvml(FakeCard(), FakeCard(uuid=OTHER_UUID, index=1))
    reader = GpuReader.open(1, nvml, {"CUDA_VISIBLE_DEVICES": "0"})
    assert describe_gpu(reader.identity())[0]["gpu_uuid"] == OTHER_UUID
    assert GpuReader.open(UUID, nvml, {}).identity().index == 0


def test_b9_a_process_that_nvml_knows_by_another_id_is_absence_and_no_0_bytes():
    # memory is read for the card as a whole: no call asks for a process's own
    nvml = FakeNvml(FakeCard(pids=[4_000_001], used_gib=12.5))
    reader = GpuReader.open(None, nvml, {})
    assert reader.memory_used_gib() == 12.5
    assert reader.process_ids() == [4_000_001]


def test_b10_bits_that_nobody_named_stay_visible():
    assert decode_event_reasons(0x88 | 0x4000) == ["hw_slowdown", "power_brake", "0x4000"]


def test_e8_limits_are_read_anew_each_time_so_that_a_daemon_shows():
    limits_mw = iter([72_000, 60_000])
    nvml = FakeNvml(FakeCard())
    nvml.nvmlDeviceGetEnforcedPowerLimit = lambda _card: next(limits_mw)
    reader = GpuReader.open(None, nvml, {})
    assert [reader.identity().power_limit_enforced_w for _ in range(2)] == [72.0, 60.0]


def test_e8_the_enforced_limit_is_the_one_that_is_recorded():
    # seen: enforced 500 W where 700 W were requested
    facts, _ = describe_gpu(GpuReader.open(None, FakeNvml(FakeCard()), {}).identity())
    assert facts["power_limit_w"] == 500.0
