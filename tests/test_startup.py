"""Startup logs: public samples with their right readings, and kinds of faults (A1 to A22 of the field cases)."""

import json
import math
from pathlib import Path

import pytest

from study.analyze.startup import startup_json
from study.analyze.startup_record import FIGURE_KEYS

DATA = Path(__file__).parent / "data"
SAMPLES = sorted((DATA / "startup-logs").glob("*.txt"))
ENGINE = "(EngineCore pid=7) INFO 05-03 23:46:{second:02d} [file.py:1] {message}"
INIT = "init engine (profile, create kv cache, warmup model) took"


def as_list(text):
    result = startup_json(text)
    return result if isinstance(result, list) else [result]


def one(text):
    result = startup_json(text)
    assert isinstance(result, dict), result
    return result


def engine_log(*messages):
    return "\n".join(ENGINE.format(second=index, message=message) for index, message in enumerate(messages))


def same(found, right):
    if isinstance(right, int | float) and isinstance(found, int | float):
        return math.isclose(found, right, abs_tol=1e-9)
    return found == right


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_sample_reads_as_its_record_says(path):
    record = json.loads(path.with_suffix(".json").read_text())
    accepted = record.get("also_accepted", {})
    expected = record.get("startups") or [record["expected"]]
    found = as_list(path.read_text(encoding="utf-8"))
    assert len(found) == len(expected)
    for start, right in zip(found, expected, strict=True):
        wrong = {
            key: (start[key], value)
            for key, value in right.items()
            if not same(start[key], value) and not same(start[key], accepted.get(key, math.nan))
        }
        assert wrong == {}
        for key, value in record.get("wrong_readings", {}).items():
            assert not same(start[key], value)
    for key in ("ranks_seen", "per_rank_complete"):
        assert found[0][key] == record.get(key, found[0][key])
    assert record.get("events", {}).items() <= found[0]["events"].items()


def test_every_missing_figure_has_a_reason_and_none_is_zero():
    for path in SAMPLES:
        for start in as_list(path.read_text(encoding="utf-8")):
            assert {key for key in FIGURE_KEYS if start[key] is None} == set(start["missing"])
            assert all(start[key] != 0 for key in FIGURE_KEYS)


@pytest.mark.parametrize(
    ("name", "figures"),
    [
        # figures as they stand in the log files themselves
        ("O2-cold", {"torch_compile_s": 39.97, "dynamo_s": 7.78, "compile_range_s": 24.82, "kv_cache_gib": 110.26}),
        ("O2-cold", {"graph_capture_s": 7, "graph_capture_gib": 0.45, "init_engine_s": 159.39}),
        ("O2-cold", {"discarded_capture_s": 7, "discarded_capture_gib": 0.62, "compile_cache": "cold"}),
        ("O2-cold", {"status": "ready", "init_engine_compile_s": 39.97, "kv_cache_tokens": 802896}),
        ("O2-warm", {"torch_compile_s": 0.97, "init_engine_s": 20.72, "discarded_capture_s": 6, "graph_capture_s": 7}),
        ("O2-warm", {"compile_cache": "warm", "dynamo_s": None, "graph_capture_gib": 0.45, "status": "ready"}),
        ("O0-cold-kernels", {"init_engine_s": 108.73, "graph_capture_s": None, "torch_compile_s": None}),
        ("O0-cold-kernels", {"eager": False, "cudagraph_mode": "NONE", "vllm_version": "0.31.0"}),
    ],
)
def test_h200_log(name, figures):
    with (DATA / "h200" / f"startup-{name}.log").open(encoding="utf-8") as log:
        start = one(log)
    assert {key: start[key] for key in figures} == figures


def test_h200_reasons_name_the_mode():
    start = one((DATA / "h200" / "startup-O0-cold-kernels.log").read_text())
    assert start["missing"]["graph_capture_s"] == "no CUDA graphs: cudagraph_mode is NONE"
    assert start["missing"]["torch_compile_s"] == "no compilation: mode is NONE"


def line(message, process="EngineCore pid=7", level="INFO", stamp="05-03 23:46:20", source="[file.py:1]"):
    return f"({process}) {level} {stamp} {source} {message}"


TWO_SERVICES = """\
qwen-a  | (EngineCore pid=194) INFO 04-29 12:01:06 [gpu_worker.py:440] Available KV cache memory: -8.59 GiB
gemma-b  | (EngineCore pid=194) INFO 04-29 12:01:07 [gpu_worker.py:440] Available KV cache memory: 12.5 GiB
qwen-a  | (EngineCore pid=194) ERROR 04-29 12:01:07 [core.py:1129] EngineCore failed to start.
gemma-b  | (EngineCore pid=194) INFO 04-29 12:01:17 [core.py:1] init engine took 13.70 s (compilation: 7.28 s)
gemma-b  | INFO:     Application startup complete.
qwen-a exited with code 1
"""


def test_a12_two_services_with_one_pid_stay_apart():
    qwen, gemma = as_list(TWO_SERVICES)
    assert (qwen["service"], qwen["status"], qwen["kv_cache_gib"]) == ("qwen-a", "failed", -8.59)
    assert qwen["status_reason"].startswith("no KV memory")
    assert (gemma["status"], gemma["kv_cache_gib"], gemma["init_engine_s"]) == ("ready", 12.5, 13.7)


@pytest.mark.parametrize(
    ("text", "figures"),
    [
        # A1, A14: stars and colour codes inside numbers
        (line("torch.compile takes **7.51 s** in total"), {"torch_compile_s": 7.51}),
        (line("Graph capturing finished in ^[[1m3^[[0m secs, took [1m-0.35[0m GiB"), {"graph_capture_gib": -0.35}),
        # A3, A17: units decide
        (line("Loading model weights took 1.4123 GB"), {"model_load_gib": 1.4123, "load_weights_s": None}),
        (line("Model loading took 3481.6 MiB and 902 ms"), {"model_load_gib": 3.4, "model_load_s": 0.902}),
        (line("Available KV cache memory: 0.5 TiB"), {"kv_cache_gib": 512}),
        (line("Graph capturing finished in 69 secs."), {"graph_capture_s": 69, "graph_capture_gib": None}),
        (line("finished in 0.057 secs, took 26.00 MiB"), {"graph_capture_s": None, "graph_capture_gib": None}),
        # A4, A5: bars and block characters in front
        (f"Capturing: 97%|█| 34/35 [00:14<00:00, 2.3it/s]{line(f'{INIT} 21.55 seconds')}", {"init_engine_s": 21.55}),
        (line("Loading weights took 5.5 seconds", process="RayWorkerWrapper pid=3, ip=████"), {"load_weights_s": 5.5}),
        # A9: two compile figures; the new words behind the total
        (line(f"{INIT} 76.4 s (compilation: 9.18 s — encoder: 1 s)"), {"init_engine_compile_s": 9.18}),
        # A11: signs, also typographic ones
        (line("Estimated CUDA graph memory: \u22120.80 GiB total"), {"cudagraph_estimated_gib": -0.8}),
        (line("Graph capturing finished in 79 secs, took -9.96 GiB"), {"graph_capture_gib": -9.96}),
        # A16: foreign prefixes, nested
        (f"2026-04-29T12:00:58.123456789Z {line(f'{INIT} 90 s')}", {"init_engine_s": 90}),
        (f"1400:Aug 19 18:30:22 HOST docker[9]: vllm-1  | {line(f'{INIT} 91 s')} │", {"init_engine_s": 91}),
        (f"MapWorker(MapBatches(X)) pid=41) {line(f'{INIT} 2222.52 seconds')}", {"init_engine_s": 2222.52}),
        (
            "2024-10-07T22:54:54,595 [INFO ] W-9000-m_1.0-stdout MODEL_LOG - INFO 10-07 22:54:54 m.py:1] "
            "Graph capturing finished in 32 secs.",
            {"graph_capture_s": 32, "service": "W-9000-m_1.0"},
        ),
        # A21: words replaced by a redaction tool
        (line("Graph <USER> finished in 12 secs, took 0.50 GiB"), {"graph_capture_s": 12, "graph_capture_gib": 0.5}),
        (line("init <HOST> (profile, create kv cache, warmup model) took 50.1 s"), {"init_engine_s": 50.1}),
        # other eras
        (line("graph compilation takes 14.73 s in total"), {"torch_compile_s": 14.73}),
        (
            line("torch.compile and initial profiling run took 29.93 s in total"),
            {"torch_compile_s": 29.93, "torch_compile_kind": "compile_plus_profiling", "profiling_run_s": None},
        ),
        (line("[backbone] torch.compile took 13.01 s in total"), {"torch_compile_s": 13.01}),
        (line("Memory profiling results: duration=5.10 seconds, kv_cache_size=54.51GiB"), {"kv_cache_gib": 54.51}),
        (line("Initial free memory 139 GiB, reserved 8.00 GiB memory for KV Cache as specified"), {"kv_cache_gib": 8}),
        (line("Explicitly set (2.0/8.34) GiB for KV cache on node 0."), {"kv_cache_gib": 2}),
        ("# GPU blocks: 27846, # CPU blocks: 2340", {"kv_cache_blocks": 27846, "kv_cache_tokens": None}),
        # wrapped by a terminal, between words and inside a number
        ("Model loading took 38.24 GiB memory and 22\n6.512052 seconds", {"model_load_s": 226.512052}),
        (f"{INIT}\n   467.68 s", {"init_engine_s": 467.68}),
        # a request that quotes a log is no log
        (line('Received request x: prompt: "Graph capturing finished in 10 secs"'), {"graph_capture_s": None}),
    ],
)
def test_wording_or_wrapping(text, figures):
    start = one(text)
    assert {key: start[key] for key in figures} == pytest.approx(figures)


JSON_LOG = """\
{"timestamp": "2026-02-02T18:25:01", "level": "INFO", "process": 99, "message": "GPU KV cache size: 613,024 tokens"}
{"log":"(EngineCore pid=3) INFO 02-02 18:25:02 [m.py:1] Graph capturing finished in 2 secs, took 0.11 GiB\\n"}
{"level":"INFO","message":"\\u001b[31minit engine\\u001b[0m (warmup model) took 34.11 seconds"}
INFO:     Application startup complete.
"""


def test_a22_json_logs_with_plain_uvicorn_lines():
    start = one(JSON_LOG)
    assert (start["kv_cache_tokens"], start["graph_capture_s"], start["init_engine_s"]) == (613024, 2, 34.11)
    assert start["status"] == "ready"


def test_a2_two_starts_without_any_mark_between_them():
    log = [f"INFO 01-01 {hour}:00:00 [l.py:1] Loading weights took {hour} seconds\n" for hour in (10, 11)]
    init = [f"INFO 01-01 {hour}:01:00 [c.py:1] {INIT} 3{hour} seconds\n" for hour in (10, 11)]
    first, second = as_list(log[0] + init[0] + log[1] + init[1])
    assert (first["load_weights_s"], first["init_engine_s"]) == (10, 310)
    assert (second["load_weights_s"], second["init_engine_s"]) == (11, 311)
    assert "2 starts" in first["warnings"][0]


def test_a2_restart_of_a_container_repeats_its_process_ids():
    failed = line("EngineCore failed to start.", level="ERROR", stamp="05-03 10:00:00")
    again = line("Loading weights took 3.1 seconds", stamp="05-03 10:02:00")
    first, second = as_list(f"{failed}\n{again}\nINFO:     Application startup complete.\n")
    assert (first["status"], second["status"], second["load_weights_s"]) == ("failed", "ready", 3.1)


def test_two_engines_side_by_side_are_one_start_and_the_slower_counts():
    log = "\n".join(
        line(message, process=f"EngineCore_DP{rank} pid={rank}")
        for message in ("Loading weights took 5.0 seconds", f"{INIT} 30 s")
        for rank in (0, 1)
    )
    start = one(log.replace("30 s", "31 s", 1))
    assert (start["init_engine_s"], start["load_weights_s"], start["ranks_seen"]) == (31, 5, 2)


def test_weights_loaded_again_by_a_running_engine_are_no_start():
    log = engine_log("Loading weights took 5.0 seconds", f"{INIT} 30 s") + "\nINFO:     Application startup complete.\n"
    start = one(log + ENGINE.format(second=59, message="Loading weights took 0.5 seconds"))
    assert start["load_weights_s"] == 5


def test_a6_ranks_without_prefix_are_not_added():
    log = "".join(f"INFO 04-29 01:07:40 [l.py:1] Loading weights took {s} seconds\n" for s in (558.37, 558.63))
    assert one(log)["load_weights_s"] == 558.63


def test_a7_folded_lines_leave_the_ranks_incomplete():
    start = one(line("Loading weights took 9 seconds\x1b[32m [repeated 7x across cluster]\x1b[0m", "RayWorker pid=3"))
    assert start["per_rank_complete"] is False
    assert any("Ray" in warning for warning in start["warnings"])


def test_a8_old_totals_are_cumulative_and_new_ones_add():
    old = engine_log("torch.compile takes 5.71 s in total", "torch.compile takes 6.25 s in total")
    new = engine_log("torch.compile took 8.97 s in total", "torch.compile took 0.37 s in total")
    assert one(old)["torch_compile_s"] == 6.25
    assert one(new)["torch_compile_s"] == pytest.approx(9.34)
    assert one(new)["events"]["torch_compile_s"] == [8.97, 0.37]


def test_a10_stamps_that_deny_the_total_are_told():
    log = line("Dynamo bytecode transform time: 7.00 s", stamp="05-03 10:00:07")
    start = one(f"{log}\n{line('torch.compile takes 47.72 s in total', stamp='05-03 10:07:58')}")
    assert (start["torch_compile_s"], start["compile_span_s"]) == (47.72, 478)
    assert any("478 s" in warning for warning in start["warnings"])


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        (line("WorkerProc hit an exception: %s", level="ERROR"), "worker exception"),
        (line("torch.OutOfMemoryError: CUDA out of memory. Tried to", level="ERROR"), "out of GPU memory"),
        (line("ValueError: No available memory for the cache blocks.", level="ERROR"), "no KV memory"),
        (line("Available KV cache memory: -1.5 GiB"), "no KV memory"),
        ("vllm: error: unrecognized arguments: --cudagraph-mode", "unusable argument"),
        ("Traceback (most recent call last):\nRuntimeError: boom", "exception"),
    ],
)
def test_a13_failed_starts_name_their_cause(log, cause):
    capture = line("Graph capturing finished in 78 secs, took 2.28 GiB", stamp="05-03 23:40:00")
    start = one(f"{capture}\n{log}\n")
    assert start["status"] == "failed"
    assert start["status_reason"].startswith(cause)


def test_an_exception_that_was_survived_is_no_failure():
    log = f"ImportError: no such kernel\n{line('Loading weights took 5 seconds')}\nINFO:  Application startup complete."
    assert one(log)["status"] == "ready"


def test_a15_carriage_returns_end_lines():
    bar = "\rCapturing CUDA graphs:  10%|█| 5/51 [00:00<00:01, 28.97it/s]" * 3
    assert one(f"{bar}\r{line('Loading weights took 5 seconds')}\r\n")["load_weights_s"] == 5


def test_a18_eager_is_a_reason_and_v0_advice_is_not_eager():
    start = one(line("Cudagraph is disabled under eager mode") + "\n" + line(f"{INIT} 2.6 s"))
    assert (start["eager"], start["missing"]["graph_capture_s"], start["graph_capture_s"]) == (True, "eager", None)
    advice = line("To run the model in eager mode, set 'enforce_eager=True' or use '--enforce-eager' in the CLI.")
    assert one(f"{advice}\n{line('Graph capturing finished in 9 secs.')}")["eager"] is None


def test_a19_cache_state():
    load = "Directly load the compiled graph(s) for compile range (1, 8192) from the cache, took 4.190 s"
    make = "Compiling a graph for compile range (1, 8192) takes 24.82 s"
    assert one(line(load))["compile_cache"] == "warm"
    assert one(line(load))["compile_load_s"] == 4.19
    assert one(line(load))["compile_range_s"] is None
    assert one(line(make))["compile_cache"] == "cold"
    assert one(line("saved AOT compiled function to /x"))["compile_cache"] is None  # a warm CPU start has it too


def test_a20_the_effective_mode_is_kept():
    start = one(
        line("CUDAGraphMode.FULL is not supported with X backend (support: AttentionCGSupport.NEVER); setting "
             "cudagraph_mode=FULL_DECODE_ONLY")
        + "\n"
        + line("Cudagraph mode FULL_AND_PIECEWISE is not compatible with compilation mode 0.Overriding to NONE.")
    )  # fmt: skip
    assert [(c["asked"], c["effective"]) for c in start["cudagraph_mode_changes"]] == [
        ("FULL", "FULL_DECODE_ONLY"),
        ("FULL_AND_PIECEWISE", "NONE"),
    ]
    assert start["cudagraph_mode"] == "NONE"


def test_two_captures_of_one_process_without_a_memory_line():
    start = one(engine_log(*(f"Graph capturing finished in {s} secs, took 0.5 GiB" for s in (39, 38))))
    assert (start["graph_capture_s"], start["discarded_capture_s"]) == (38, 39)


def test_a_text_without_a_start_is_one_incomplete_record():
    start = one("")
    assert (start["status"], start["status_reason"]) == ("incomplete", "no line of a vLLM start in this text")


def test_results_go_through_json():
    assert json.loads(json.dumps(startup_json(TWO_SERVICES))) == startup_json(TWO_SERVICES)
