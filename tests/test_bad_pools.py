"""Pools as people hand them over: bounded, one clear line for what is unusable, a note for what only looks it."""

import codecs
import json
import os
import time
import tracemalloc

import pandas as pd
import pytest

from study.design.levels import Level
from study.design.parameters import make_parameters
from study.design.plan import describe_plan, make_plan
from study.design.pool import MOST_PROMPTS, Prompt, generate_pool, pool_sha256, read_pool, write_prompts
from study.errors import InputError


def pool_of(tmp_path, content):
    file = tmp_path / "pool.jsonl"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    return file


def refusal(file):
    with pytest.raises(InputError) as caught:
        read_pool(file)
    message = str(caught.value)
    assert "pool.jsonl" in message
    assert message.isprintable()
    assert len(message) < 1000
    return message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "has no prompt"),
        (b"\n\r\n  \n", "has no prompt"),
        (b"\x89PNG\r\n", "byte 1 is not UTF-8"),
        ('{"prompt": "x"}\n'.encode("utf-16"), "it is UTF-16"),
        ('{"prompt": "x"}\nhello', "line 2 is not JSON"),
        ('{"prompt": "x\ty"}', "line 1 is not JSON: Invalid control character"),
        ('{"prompt": "x"', "line 1 is not JSON"),
        ('{"prompt": "x"} {"prompt": "y"}', "line 1 is not JSON: Extra data"),
        ('{"prompt": "x", "prompt": "y"}', "the key 'prompt' stands twice"),
        ('{"prompt": "\\ud83d"}', "field 'prompt' holds half a character"),
        ('{"prompt": "a\\u0000b"}', "the character NUL"),
        ('{"prompt": NaN}', "field 'prompt' is NaN"),
        ('{"prompt": "x", "output_tokens": NaN}', "field 'output_tokens' is NaN"),
        ('{"prompt": "x", "output_tokens": 1e3}', "output_tokens 1000.0"),
        ('{"prompt": "x", "output_tokens": -5}', "output_tokens -5"),
        ('{"prompt": "x", "output_tokens": true}', "output_tokens True"),
        ('{"prompt": "x", "output_tokens": 1000001}', "at most 1,000,000"),
        ('{"prompt": "x", "output_tokens": ' + "9" * 5000 + "}", "field 'output_tokens' is of 5000 digits"),
        ('{"prompt": ["x"]}', "needs a text"),
        ('{"prompt": " \\n "}', "needs a text"),
        ('{"\\u001b[2J": 1, "prompt": "x"}', "known: prompt, output_tokens"),
        ("[" * 100_000, "nested too deeply"),
        (json.dumps({"prompt": "x" * 10 * 2**20}), "line 1: the prompt has 10,485,760 characters"),
    ],
)
def test_an_unusable_pool_names_its_line(tmp_path, content, said):
    assert said in refusal(pool_of(tmp_path, content))


@pytest.mark.parametrize(
    "text", ["42", " 7\n", "1e5", "-3.5", "nan", "inf", "1_000", "00012", "\N{ARABIC-INDIC DIGIT THREE}"]
)
def test_a_prompt_that_the_benchmark_would_turn_into_a_number_is_refused(tmp_path, text):
    # vLLM reads its prompts with pandas.read_json(lines=True): alone in a wave, such a text arrives as a number
    file = tmp_path / "one.jsonl"
    write_prompts(file, [Prompt(text)], 8)
    assert not isinstance(pd.read_json(file, lines=True)["prompt"][0], str)
    assert "would be read as a number" in refusal(pool_of(tmp_path, json.dumps({"prompt": text})))


class Digits:
    """A tokenizer whose words are mostly digits."""

    all_special_ids = ()

    def __len__(self):
        return 12

    def encode(self, text, add_special_tokens=True):
        return [10 if word == "a" else 11 if word == "b" else int(word) for word in text.split()]

    def decode(self, ids):
        return " ".join("ab"[token - 10] if token > 9 else str(token) for token in ids)


def test_no_generated_prompt_is_a_number():
    assert {item.prompt for item in generate_pool(1, 1, Digits(), 20)} <= {"a", "b"}


@pytest.mark.parametrize(
    "text",
    [
        *("a\u2028b", "a\x85b", "a\x0cb", "a\x1cb", "a\x7fb", "\ufeffa", "é ☃ \U0001d11e"),
        *('a\\b"c', "true", "null", "2026-01-01", "0x10"),
    ],
)
def test_any_other_text_reaches_the_benchmark_as_it_is(tmp_path, text):
    # raw in the line, as JSON allows: only LF ends a line
    prompts = read_pool(pool_of(tmp_path, json.dumps({"prompt": text}, ensure_ascii=False) + "\r\n"))
    assert prompts == [Prompt(text)]
    assert len(pool_sha256(prompts)) == 64
    file = tmp_path / "prompts.jsonl"
    write_prompts(file, prompts, 8)
    assert pd.read_json(file, lines=True)["prompt"].tolist() == [text]


def test_a_byte_order_mark_is_passed_over(tmp_path):
    assert read_pool(pool_of(tmp_path, codecs.BOM_UTF8 + b'{"prompt": "x"}\n')) == [Prompt("x")]


def test_a_million_lines_are_refused_in_bounded_time_and_memory(tmp_path):
    file = pool_of(tmp_path, b'{"prompt": "w1 w2 w3"}\n' * 1_000_000)
    tracemalloc.start()
    started = time.monotonic()
    assert f"has 1,000,000 prompts; at most {MOST_PROMPTS:,}" in refusal(file)
    assert time.monotonic() - started < 60
    assert tracemalloc.get_traced_memory()[1] < 400 * 2**20
    tracemalloc.stop()


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "device", "huge", "none"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, kind):
    file = tmp_path / "pool.jsonl"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "huge":
        file.touch()
        os.truncate(file, 10**9)
    elif kind != "none":
        file.symlink_to("pool.jsonl" if kind == "loop" else "/dev/zero")
    refusal(file)


def describe(tmp_path, lines):
    (tmp_path / "pool.jsonl").write_text("".join(json.dumps({"prompt": text}) + "\n" for text in lines))
    parameters = make_parameters({"study": "s", "model": "m", "pool": "pool.jsonl"})
    return describe_plan(make_plan(parameters, [Level(name="default")]), parameters, tmp_path)


def test_repeated_prompts_are_a_note_of_the_plan_and_no_fault(tmp_path):
    # METHOD.md: prefix caching is off and checked, so that a repeated prompt costs what a new one costs
    text = describe(tmp_path, ["a", "b", "a", "a"])
    assert "pool: 4 prompts, the longest of 1 characters" in text
    assert "note: 2 of them repeat another; prefix caching is off" in text


def test_a_pool_without_repetitions_needs_no_note(tmp_path):
    assert "note" not in describe(tmp_path, ["a", "bc"])


def test_the_plan_refuses_an_unusable_pool(tmp_path):
    with pytest.raises(InputError, match="line 2 needs a text"):
        describe(tmp_path, ["a", ""])
