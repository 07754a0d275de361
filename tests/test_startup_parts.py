"""Parts of a start: disjoint, adding up to the wall time, silences found and named."""

import datetime as dt
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from study.analyze.startup_clock import infer_utc_offset, seconds_between, stamp_in_year, stamp_to_unix
from study.analyze.startup_parts import MODULE_BUILD, OwnStamps, read_parts

H200 = Path(__file__).parent / "data" / "h200"
COLD, WARM, O0 = (H200 / f"startup-{name}.log" for name in ("O2-cold", "O2-warm", "O0-cold-kernels"))
# first stamp to "Starting vLLM server", as they stand in the files
WALL_S = {COLD: 206, WARM: 47, O0: 161}


def parts_of(path, stamps=None):
    with path.open(encoding="utf-8") as log:
        return read_parts(log, stamps)


def seconds_of(result):
    return {part.name: part.seconds for part in result.parts}


@pytest.mark.parametrize("path", WALL_S, ids=lambda path: path.stem)
def test_parts_add_up_to_the_wall_time(path):
    result = parts_of(path)
    assert result.wall_s == pytest.approx(WALL_S[path], abs=1)
    assert sum(part.seconds for part in result.parts) + result.unaccounted_s == pytest.approx(result.wall_s, abs=1e-3)
    assert result.unaccounted_s < 1
    assert all(part.seconds >= 0 for part in result.parts)
    assert len(seconds_of(result)) == len(result.parts)


def test_figures_of_the_cold_start_stand_as_printed():
    seconds = seconds_of(parts_of(COLD))
    assert (seconds["weights"], seconds["compile"]) == (3.276884, 39.97)
    assert (seconds["discarded capture"], seconds["capture"]) == (7, 7)
    # 16:24:40 to 16:24:51, less the discarded capture
    assert seconds["memory profiling"] == 4


@pytest.mark.parametrize(("path", "seconds"), [(COLD, 20), (WARM, 0)])
def test_looking_at_the_models_class_is_a_part_that_a_warm_start_is_spared(path, seconds):
    # vllm/model_executor/models/registry.py keeps what it finds in VLLM_CACHE_ROOT/modelinfos.
    assert seconds_of(parts_of(path))["model inspection"] == seconds


def test_figures_of_the_warm_start_stand_as_printed():
    seconds = seconds_of(parts_of(WARM))
    assert (seconds["compile"], seconds["discarded capture"], seconds["capture"]) == (0.97, 6, 7)


@pytest.mark.parametrize(("path", "between_stamps_s"), [(COLD, "102.533"), (O0, "99.937")], ids=["O2", "O0"])
def test_the_jit_build_of_a_cold_start_is_found_and_named(path, between_stamps_s):
    built = [part for part in parts_of(path).parts if part.name == MODULE_BUILD]
    assert len(built) == 1
    assert 90 < built[0].seconds < 105
    assert "Building JIT module sampling" in built[0].evidence[0]
    assert built[0].source == "gap between stamps"
    assert between_stamps_s in built[0].evidence[-1]


def test_the_warm_start_has_no_silence():
    assert not [part for part in parts_of(WARM).parts if part.name.startswith("silent") or part.name == MODULE_BUILD]


def test_o0_has_no_compile_and_no_capture_part():
    assert {"compile", "capture", "discarded capture"}.isdisjoint(seconds_of(parts_of(O0)))


@pytest.mark.parametrize("utc_offset_s", [0, 3600, -5 * 3600, 20_700])
@pytest.mark.parametrize("given_offset", [True, False])
def test_own_stamps_bound_the_start(utc_offset_s, given_offset):
    spawned = dt.datetime(2026, 11, 29, 16, 22, 56, 500_000, tzinfo=dt.UTC).timestamp() - utc_offset_s
    stamps = OwnStamps(spawned - 1000, 1000.0, 1224.0, 1224.75, utc_offset_s if given_offset else None)
    result = parts_of(COLD, stamps)
    seconds = seconds_of(result)
    assert result.wall_s == pytest.approx(224.75)
    assert seconds["first token"] == pytest.approx(0.75)
    # 16:22:56.5 to the first line and on to the engine's at 16:23:33, less 20 s until "Resolved architecture".
    assert seconds["imports and configuration"] == pytest.approx(36.5 - 20)
    assert seconds["model inspection"] == 20
    assert seconds["ready"] == pytest.approx(1.5)
    assert [part.source for part in result.parts[-2:]] == ["own stamp", "own stamp"]


def test_own_stamps_without_a_stamped_log():
    result = read_parts("no stamps here", OwnStamps(1e9, 1.0, 5.0, 7.0))
    assert (result.wall_s, result.unaccounted_s, seconds_of(result)) == (6, 4, {"first token": 2})


def test_nothing_known_is_none():
    result = read_parts("")
    assert (result.parts, result.wall_s, result.unaccounted_s) == ((), None, None)


def at(stamp, message, process="EngineCore pid=7"):
    return f"({process}) INFO {stamp} [file.py:1] {message}"


NEW_YEAR = "\n".join(
    (
        at("12-31 23:59:30", "non-default args: {}", "APIServer pid=1"),
        at("12-31 23:59:40", "Initializing a V1 LLM engine (v0.31.0) with config: x"),
        at("12-31 23:59:45", "Starting to load model x..."),
        at("12-31 23:59:55", "Model loading took 1.0 GiB memory and 9.50 seconds"),
        at("01-01 00:00:15", "torch.compile took 19.00 s in total"),
        at("01-01 00:00:20", "Available KV cache memory: 3.0 GiB"),
        at("01-01 00:00:30", "init engine (profile, create kv cache, warmup model) took 35 s"),
        at("01-01 00:00:31", "Starting vLLM server on http://127.0.0.1:1", "APIServer pid=1"),
    )
)


@pytest.mark.parametrize("anchored", [True, False])
def test_new_year_between_two_lines(anchored):
    spawned = dt.datetime(2026, 12, 31, 23, 59, 30, tzinfo=dt.UTC).timestamp()
    result = read_parts(NEW_YEAR, OwnStamps(spawned, 0.0) if anchored else None)
    assert (result.wall_s, result.unaccounted_s) == (61, pytest.approx(1.5))
    seconds = seconds_of(result)
    assert (seconds["weights"], seconds["compile"], seconds["memory profiling"]) == (9.5, 19, 5)


def test_a_figure_that_the_stamps_deny_is_cut_and_told():
    result = read_parts(NEW_YEAR.replace("took 19.00 s", "took 99.00 s"))
    compiled = next(part for part in result.parts if part.name == "compile")
    assert compiled.seconds == 20
    assert "99 s" in compiled.evidence[-1]
    assert result.wall_s == 61


def test_heartbeats_of_the_front_end_do_not_hide_a_silence():
    beat = at("01-01 00:00:25", "Waiting for 1 local, 0 remote core engine proc(s) to start.", "APIServer pid=1")
    lines = NEW_YEAR.replace("00:00:30", "00:00:50").replace("00:00:31", "00:00:51").splitlines()
    silent = [p for p in read_parts([*lines[:6], beat, *lines[6:]]).parts if p.name.startswith("silent")]
    assert [part.seconds for part in silent] == [30]


def test_a_line_of_another_worker_at_the_same_time_does_not_hide_a_build():
    built = [
        *NEW_YEAR.splitlines()[:6],
        at("01-01 00:00:21", "Building JIT module sampling; this can take several minutes.", "Worker_TP0 pid=8"),
        at("01-01 00:00:21", "JIT kernel warmup finished in 0.00s.", "Worker_TP1 pid=9"),
        at("01-01 00:01:21", "init engine (profile, create kv cache, warmup model) took 77 s"),
    ]
    result = read_parts(built)
    assert seconds_of(result)[MODULE_BUILD] == 60
    assert not [part for part in result.parts if part.name.startswith("silent")]


def test_two_builds_of_a_start_are_one_part_that_names_both():
    builds = "000 - INFO - core.py:564 - flashinfer.jit: Building JIT module"
    built = [
        *NEW_YEAR.splitlines()[:6],
        f"2027-01-01 00:00:21,{builds} sampling; this can take several minutes on first use.",
        at("01-01 00:00:41", "something else"),
        f"2027-01-01 00:00:42,{builds} norm; this can take several minutes on first use.",
        at("01-01 00:01:12", "init engine (profile, create kv cache, warmup model) took 77 s"),
    ]
    result = read_parts(built)
    (part,) = (part for part in result.parts if part.name == MODULE_BUILD)
    assert part.seconds == 20 + 30
    assert all(f"module {name}" in " ".join(part.evidence) for name in ("sampling", "norm"))
    assert sum(one.seconds for one in result.parts) + result.unaccounted_s == pytest.approx(result.wall_s)


def test_compile_on_a_cpu_is_the_gap_between_its_two_lines():
    log = "\n".join(
        (
            at("05-01 10:00:00", "Starting to load model x..."),
            at("05-01 10:00:05", "Warming up model for the compilation..."),
            at("05-01 10:00:47", "Warming up done."),
            at("05-01 10:00:48", "init engine (profile, create kv cache, warmup model) took 48.71 s"),
        )
    )
    compiled = next(part for part in read_parts(log).parts if part.name == "compile")
    assert (compiled.seconds, compiled.source) == (42, "gap between stamps")


def test_a_start_that_failed_ends_at_its_last_line():
    lines = [*NEW_YEAR.splitlines()[:6], at("01-01 00:00:23", "EngineCore failed to start.")]
    assert read_parts(lines).wall_s == 53


def test_february_without_a_29th_is_not_a_day_long():
    before, after = stamp_in_year(2, 28, 23, 59, 59), stamp_in_year(3, 1, 0, 0, 1)
    assert seconds_between(before, after) == 2
    assert seconds_between(after, before) == -2
    for year in (2026, 2028):
        near = dt.datetime(year, 3, 1, 0, 0, 1, tzinfo=dt.UTC).timestamp()
        assert stamp_to_unix(after, near, 0) == near
    assert infer_utc_offset(after, near - 3600 - 20) == 3600


def test_dates_that_do_not_exist_have_no_stamp():
    assert stamp_in_year(2, 30, 0, 0, 0) is None
    assert stamp_in_year(13, 1, 0, 0, 0) is None
    assert stamp_in_year(1, 1, 24, 0, 0) is None


@given(st.lists(st.sampled_from([*NEW_YEAR.splitlines(), *COLD.read_text().splitlines()[:40]]), max_size=15))
@settings(deadline=None, max_examples=60)
def test_parts_of_any_lines_are_disjoint_and_add_up(lines):
    result = read_parts(lines)
    if result.wall_s is not None:
        total_s = sum(part.seconds for part in result.parts) + result.unaccounted_s
        assert total_s == pytest.approx(result.wall_s, abs=1e-3)
        assert all(part.seconds >= 0 for part in result.parts)
