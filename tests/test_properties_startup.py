"""Startup logs that nobody wrote: whatever stands in a log, reading it gives figures or none, never an exception."""

import io
import json
import math
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from study.analyze.startup import read_startup, startup_json
from study.analyze.startup_parts import read_parts
from study.analyze.startup_record import FIGURE_KEYS

DATA = Path(__file__).parent / "data"
LOGS = [*sorted((DATA / "startup-logs").glob("*.txt")), *sorted((DATA / "h200").glob("*.log"))]
LINES = [
    [line for line in path.read_text(encoding="utf-8", errors="replace").splitlines() if len(line) < 2000][:400]
    for path in LOGS
]
NUMBERS = ["0", "-1.5", "1e999", "-1e999", "9" * 400, "9" * 5000, "1,2,3", "1e-999", "nan", "٣", "7.", ""]
TEMPLATES = [
    "(EngineCore pid={}) INFO 06-19 23:05:01 [a.py:1] Loading weights took {} seconds",
    "Model loading took {} GiB and {} seconds",
    "torch.compile took {} s in total",
    "torch.compile and initial profiling run took {} s in total",
    "Graph capturing finished in {} secs, took {} GiB",
    "GPU KV cache size: {} tokens",
    "# GPU blocks: {}",
    "Maximum concurrency for {} tokens per request: {}x",
    "Available KV cache memory: {} GiB",
    "init engine (profile, create kv cache, warmup model) took {} seconds (compilation: {} s)",
    "CUDA graph pool memory: {} GiB (actual), {} GiB (estimated), difference: 0.04 GiB (8.7%).",
    "Estimated CUDA graph memory: {} GiB total",
    "JIT kernel warmup finished in {} s",
    "(Worker rank={} pid={}, ip=10.0.0.1) x [repeated {}x across cluster]",
    '{{"message": "Loading weights took {} seconds", "pid": {}, "asctime": "2026-01-01 00:00:{}"}}',
    "INFO {}-{} 00:00:00 [a.py:1] Starting to load model",
    "Application startup complete.",
]


def check_reading(source):
    """Read a log in every way that there is, and hold what any result must be."""
    started = time.monotonic()
    starts = read_startup(source)
    assert starts
    for start in starts:
        figures = {key: getattr(start, key) for key in FIGURE_KEYS}
        numbers = [value for value in figures.values() if isinstance(value, float)]
        assert all(math.isfinite(value) for value in numbers), figures
        assert all(key in start.missing for key, value in figures.items() if value is None)
    json.dumps(startup_json(source), allow_nan=False)
    parts = read_parts(source)
    assert all(math.isfinite(part.seconds) for part in parts.parts)
    assert time.monotonic() - started < 30  # milliseconds here; a pattern gone wild takes minutes


@st.composite
def made_lines(draw):
    """A line of a start with any number in it."""
    template = draw(st.sampled_from(TEMPLATES))
    numbers = st.sampled_from(NUMBERS) | st.floats().map(str)
    return template.format(*(draw(numbers) for _ in range(template.count("{}"))))


@st.composite
def spoiled_logs(draw):
    """A part of a real log with its lines moved, cut, doubled and mixed with others."""
    lines = draw(st.sampled_from(LINES))
    begin = draw(st.integers(0, max(0, len(lines) - 1)))
    lines = lines[begin : begin + draw(st.integers(1, 60))]
    for _ in range(draw(st.integers(1, 6))):
        place = draw(st.integers(0, len(lines) - 1))
        lines = draw(st.sampled_from([_shuffle, _cut, _double, _insert, _glue, _renumber]))(draw, list(lines), place)
    return draw(st.sampled_from(["\n", "\r\n", "\r", " "])).join(lines)


def _shuffle(draw, lines, place):
    return draw(st.permutations(lines))


def _cut(draw, lines, place):
    lines[place] = lines[place][: draw(st.integers(0, 200))]
    return lines


def _double(draw, lines, place):
    return [*lines[:place], lines[place], *lines[place:]]


def _insert(draw, lines, place):
    at = draw(st.integers(0, 200))
    marks = st.sampled_from(["(" * 50, "pid=", "{" * 30, "\x1b[", "**", "│ "])
    junk = draw(st.text(max_size=20) | made_lines() | marks)
    lines[place] = lines[place][:at] + junk + lines[place][at:]
    return lines


def _glue(draw, lines, place):
    return [*lines[:place], "".join(lines[place : place + 2]), *lines[place + 2 :]]


def _renumber(draw, lines, place):
    digits = draw(st.sampled_from(NUMBERS))[:400]
    line = enumerate(lines[place][:300])
    lines[place] = "".join(digits if one.isdigit() and index % 3 == 0 else one for index, one in line)
    return lines


@given(st.text(max_size=300))
@example("Loading weights took 1e999 seconds")
@example("GPU KV cache size: 1e999 tokens")
@example(f"# GPU blocks: {'9' * 400}")
@example(f"(EngineCore pid={'9' * 5000}) INFO 06-19 23:05:01 [a.py:1] Loading weights took 5 seconds")
@example(f"(Worker pid=1) Loading weights took 5 seconds [repeated {'9' * 5000}x across cluster]")
def test_any_text_is_read(text):
    check_reading(text)


@given(st.binary(max_size=300))
def test_any_bytes_are_read(content):
    # as the command line opens a log
    check_reading(content.decode("utf-8", errors="replace"))
    assert read_startup(io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", errors="replace", newline=""))


@given(st.lists(made_lines(), min_size=1, max_size=8).map("\n".join))
def test_any_number_in_a_line_is_read(text):
    check_reading(text)


@given(spoiled_logs())
def test_spoiled_logs_are_read(text):
    check_reading(text)


@pytest.mark.parametrize("text", ["(" * 60_000, "(pid=" * 12_000, "{" * 60_000, '{"message":' * 6_000, "a:1]" * 15_000])
@pytest.mark.parametrize("end", ["", " Loading weights took 5 seconds"])
def test_no_line_takes_long(text, end):
    check_reading(text + end)
