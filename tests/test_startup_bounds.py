"""Startup logs: what must hold for any text, and the bounds of time and memory."""

import io
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from study.analyze.startup import read_startup, startup_json
from study.analyze.startup_lines import MAX_LINE_CHARS
from study.analyze.startup_record import FIGURE_KEYS

DATA = Path(__file__).parent / "data"
SERVING = '(APIServer pid=1) INFO:     127.0.0.1:51234 - "POST /v1/completions HTTP/1.1" 200 OK\n' * 9 + (
    "(APIServer pid=1) INFO 11-29 16:28:30 [loggers.py:320] Engine 000: Avg prompt throughput: 331.2 tokens/s, Avg "
    "generation throughput: 168.6 tokens/s, Running: 8 reqs, Waiting: 0 reqs, GPU KV cache usage: 0.3%\n"
)
COLD = (DATA / "h200" / "startup-O2-cold.log").read_text(encoding="utf-8")
COLD_LINES = [text for text in COLD.splitlines() if text.startswith("(EngineCore")]


FRAGMENTS = ("{", '{"message": 3}', "(((pid=", "took -", "\x1b[", "$ x", "Graph capturing finished", "and 3 seconds")
PREFIXES = ("", "vllm-1  | ", "12:", "2026-04-29T12:00:58.123456789Z ", "│ ", "Aug 19 18:30:22 HOST vllm[8]: ")


def figures_of(text):
    return [{key: getattr(start, key) for key in FIGURE_KEYS} for start in read_startup(text)]


@given(st.text(max_size=400))
@settings(deadline=None)
def test_any_text_gives_a_result_without_zeros(text):
    for start in figures_of(text):
        assert all(start[key] is None for key in FIGURE_KEYS) or any(character.isdigit() for character in text)


@given(st.lists(st.sampled_from([*COLD_LINES, *FRAGMENTS]), max_size=12))
@settings(deadline=None, max_examples=60)
def test_any_order_of_lines_gives_a_result(lines):
    assert read_startup(lines)
    assert startup_json("\n".join(lines)) is not None


@given(
    prefix=st.sampled_from(PREFIXES),
    colours=st.sampled_from([("", ""), ("\x1b[0;36m", "\x1b[0;0m"), ("[1;36m", "[0;0m"), ("^[[36m", "^[[0m")]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
)
@settings(deadline=None, max_examples=40)
def test_wrapping_does_not_change_the_figures(prefix, colours, end):
    begin, stop = colours
    wrapped = (f"{prefix}{begin}{text.replace(') ', f'){stop} ', 1)}{end}" for text in COLD_LINES)
    assert figures_of("".join(wrapped)) == figures_of(COLD)


def test_one_mib_of_a_serving_log_is_read_fast():
    text = COLD + SERVING * ((2**20 - len(COLD)) // len(SERVING))
    begin = time.perf_counter()
    assert read_startup(text)[0].init_engine_s == 159.39
    assert time.perf_counter() - begin < 1.0  # about 0.04 s on the machine this was written on


class _Generated(io.TextIOBase):
    """A stream of `chars` characters that never exists as a whole."""

    def __init__(self, chars, block):
        self._left, self._block = chars, block

    def read(self, size=-1):
        size = min(size, self._left)
        self._left -= size
        return (self._block * (size // len(self._block) + 1))[:size]


@pytest.mark.parametrize("block", [SERVING, "x"], ids=["lines", "one line"])
def test_memory_stays_bounded(block):
    tracemalloc.start()
    read_startup(_Generated(20 * 2**20, block))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * 2**20


def test_a_figure_behind_an_overlong_piece_is_found():
    assert read_startup("x" * (3 * MAX_LINE_CHARS) + " Loading weights took 5 seconds")[0].load_weights_s == 5
