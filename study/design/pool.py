"""The pool of prompts: made from a seed, or the user's own JSONL. The same pool for every level of a block.

A pool is a sequence of `Prompt`. A generated one is a function of seed, number of tokens and tokenizer alone; a
user's is taken in the order of its file, from a start that the seed draws. When a run needs more prompts than the
pool has, it begins again: prefix caching is off and checked, so a repeated prompt costs what a new one costs.
"""

import hashlib
import io
import json
import os
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from study.design.plain_files import decode_utf8, parse_json, read_bytes, show_value, shown
from study.design.whole_files import open_private
from study.errors import InputError

GENERATED_PROMPTS = 256
WARM_UP_SEED_OFFSET = 1_000_000_007
"""Warm-up prompts come from the block's seed plus this, so that no measured prompt was seen before."""
MOST_POOL_BYTES = 32 * 2**20
MOST_PROMPTS = 100_000
MOST_PROMPT_CHARS = 4_000_000
"""About a million tokens, which is the most that the study asks for."""
MOST_OUTPUT_TOKENS = 1_000_000


@dataclass(frozen=True)
class Prompt:
    """One prompt; `output_tokens` is null where the study's own length counts."""

    prompt: str
    output_tokens: int | None = None


class Tokenizer(Protocol):
    """What making prompts needs of a tokenizer (`transformers` tokenizers have it)."""

    all_special_ids: list[int]

    def __len__(self) -> int: ...

    def encode(self, text: str, add_special_tokens: bool = True) -> list[int]:
        """Return token ids."""

    def decode(self, ids: list[int]) -> str:
        """Return text."""


def generate_pool(seed: int, input_tokens: int, tokenizer: Tokenizer, size: int = GENERATED_PROMPTS) -> list[Prompt]:
    """Make `size` prompts of random tokens, each exactly `input_tokens` long for this tokenizer.

    Raises:
        InputError: no text of that length was found (a tokenizer that merges across any text).

    """
    draw = random.Random(f"pool:{seed}")
    special = set(tokenizer.all_special_ids)
    ordinary = [token for token in range(len(tokenizer)) if token not in special]
    return [Prompt(_text_of_length(draw, ordinary, input_tokens, tokenizer)) for _ in range(size)]


def _text_of_length(draw: random.Random, ordinary: list[int], length: int, tokenizer: Tokenizer) -> str:
    """Draw tokens, read them back as text, and cut or fill until the text has the length."""
    ids = draw.choices(ordinary, k=length)
    for _ in range(64):
        text = tokenizer.decode(ids)
        again = tokenizer.encode(text)
        if len(again) == length and not _reads_as_number(text):
            return text
        again = [] if len(again) == length else again
        ids = again[:length] + draw.choices(ordinary, k=max(0, length - len(again)))
    raise InputError(f"input_tokens {length}: this tokenizer gave no text of that length; try another length")


def _reads_as_number(text: str) -> bool:
    """Say whether vLLM's benchmark would take a prompt as a number, not as text.

    It reads its prompts with pandas, which turns a column of texts into numbers where it can
    (`vllm/benchmarks/datasets/datasets.py`, data set `custom`).
    """
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_pool(path: Path) -> list[Prompt]:
    """Read a user's JSONL pool: one object a line, `prompt` (text) and, if wished, `output_tokens` (2 or more).

    A prompt may stand there more than once. Lines end in LF or CR LF; a byte order mark at the start is passed over.

    Raises:
        InputError: the file, or a line in it (named by number), is unusable.

    """
    text = decode_utf8(read_bytes(path, MOST_POOL_BYTES), f"pool '{shown(path)}'").removeprefix("\ufeff")
    # Not splitlines: JSON lets U+2028, U+0085 and others stand inside of a text.
    count = sum(1 for line in io.StringIO(text, newline="\n") if line.strip())
    if count > MOST_PROMPTS:
        raise InputError(f"pool '{shown(path)}' has {count:,} prompts; at most {MOST_PROMPTS:,} are read")
    numbered = enumerate(io.StringIO(text, newline="\n"), 1)
    prompts = [_read_line(f"pool '{shown(path)}' line {number}", line) for number, line in numbered if line.strip()]
    if not prompts:
        raise InputError(f"pool '{shown(path)}' has no prompt; one JSON object a line: {{\"prompt\": \"...\"}}")
    return prompts


def _read_line(where: str, line: str) -> Prompt:
    try:
        item = parse_json(line)
    except ValueError as error:
        raise InputError(f"{where} is not JSON: {str(error).replace(' at line 1,', ' at')}") from None
    if not isinstance(item, dict) or not isinstance(item.get("prompt"), str) or not item["prompt"].strip():
        raise InputError(f"{where} needs a text that is not empty under 'prompt'")
    unknown = sorted(set(item) - {"prompt", "output_tokens"})
    if unknown:
        raise InputError(f"{where} has '{shown(unknown[0])}'; known: prompt, output_tokens")
    prompt, tokens = item["prompt"], item.get("output_tokens")
    if len(prompt) > MOST_PROMPT_CHARS:
        raise InputError(f"{where}: the prompt has {len(prompt):,} characters; at most {MOST_PROMPT_CHARS:,} work")
    if _reads_as_number(prompt):
        raise InputError(f"{where}: the prompt {show_value(prompt)} would be read as a number; add a word to it")
    if "\0" in prompt:
        raise InputError(f"{where}: the prompt holds the character NUL, which no tokenizer expects; take it out")
    whole = isinstance(tokens, int) and not isinstance(tokens, bool)
    if tokens is not None and not (whole and 2 <= tokens <= MOST_OUTPUT_TOKENS):
        limits = f"a whole number, 2 or more and at most {MOST_OUTPUT_TOKENS:,}"
        raise InputError(f"{where}: output_tokens {show_value(tokens)} must be {limits}")
    return Prompt(prompt, tokens)


def describe_pool(pool: Sequence[Prompt]) -> list[str]:
    """Return what a plan says of a user's pool: how many prompts it has, and how many of them are repetitions.

    Repetitions are no fault: with prefix caching off, and checked, a prompt that was seen costs what a new one costs.
    """
    same = len(pool) - len({item.prompt for item in pool})
    longest = max(len(item.prompt) for item in pool)
    lines = [f"pool: {len(pool):,} prompts, the longest of {longest:,} characters"]
    if same:
        lines.append(f"note: {same:,} of them repeat another; prefix caching is off, so they cost what new ones cost")
    return lines


def rotate(pool: Sequence[Prompt], seed: int) -> list[Prompt]:
    """Return a user's pool from a start that `seed` draws, so that blocks do not all begin alike."""
    start = random.Random(f"rotate:{seed}").randrange(len(pool))
    return [*pool[start:], *pool[:start]]


def take(pool: Sequence[Prompt], count: int) -> list[Prompt]:
    """Return the first `count` prompts, beginning again where the pool ends."""
    return [pool[index % len(pool)] for index in range(count)]


def pool_sha256(pool: Sequence[Prompt]) -> str:
    """Return the SHA-256 (hex) of the pool's text and lengths, the same for every level that used it."""
    digest = hashlib.sha256()
    for item in pool:
        digest.update(json.dumps([item.prompt, item.output_tokens], ensure_ascii=False).encode())
        digest.update(b"\n")
    return digest.hexdigest()


def write_prompts(path: Path, prompts: Sequence[Prompt], output_tokens: int) -> None:
    """Write the JSONL that vLLM's benchmark reads (data set `custom`), every line with its output tokens."""
    with os.fdopen(open_private(path), "w", encoding="utf-8") as file:
        for item in prompts:
            length = item.output_tokens if item.output_tokens is not None else output_tokens
            file.write(json.dumps({"prompt": item.prompt, "output_tokens": length}, ensure_ascii=False) + "\n")
