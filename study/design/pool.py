"""The pool of prompts: made from a seed, or the user's own JSONL. The same pool for every level of a block.

A pool is a sequence of `Prompt`. A generated one is a function of seed, number of tokens and tokenizer alone; a
user's is taken in the order of its file, from a start that the seed draws. When a run needs more prompts than the
pool has, it begins again: prefix caching is off and checked, so a repeated prompt costs what a new one costs.
"""

import hashlib
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from study.errors import InputError

GENERATED_PROMPTS = 256
WARM_UP_SEED_OFFSET = 1_000_000_007
"""Warm-up prompts come from the block's seed plus this, so that no measured prompt was seen before."""


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
        if len(again) == length:
            return text
        ids = again[:length] + draw.choices(ordinary, k=max(0, length - len(again)))
    raise InputError(f"input_tokens {length}: this tokenizer gave no text of that length; try another length")


def read_pool(path: Path) -> list[Prompt]:
    """Read a user's JSONL pool: one object a line, `prompt` (text) and, if wished, `output_tokens` (2 or more).

    Raises:
        InputError: the file, or a line in it (named by number), is unusable.

    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"pool '{path}' is not readable text: {error}") from None
    prompts = [_read_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    if not prompts:
        raise InputError(f"pool '{path}' has no prompt; one JSON object a line: {{\"prompt\": \"...\"}}")
    return prompts


def _read_line(path: Path, number: int, line: str) -> Prompt:
    try:
        item: Any = json.loads(line)
    except json.JSONDecodeError as error:
        raise InputError(f"pool '{path}' line {number} is not JSON: {error.msg}") from None
    if not isinstance(item, dict) or not isinstance(item.get("prompt"), str) or not item["prompt"].strip():
        raise InputError(f"pool '{path}' line {number} needs a text that is not empty under 'prompt'")
    unknown = sorted(set(item) - {"prompt", "output_tokens"})
    if unknown:
        raise InputError(f"pool '{path}' line {number} has '{unknown[0]}'; known: prompt, output_tokens")
    tokens = item.get("output_tokens")
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool) or tokens < 2):
        raise InputError(f"pool '{path}' line {number}: output_tokens {tokens!r} must be a whole number, 2 or more")
    return Prompt(item["prompt"], tokens)


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
    with path.open("w", encoding="utf-8") as file:
        for item in prompts:
            length = item.output_tokens if item.output_tokens is not None else output_tokens
            file.write(json.dumps({"prompt": item.prompt, "output_tokens": length}, ensure_ascii=False) + "\n")
