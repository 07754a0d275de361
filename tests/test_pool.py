import json

import pytest

from study.design.pool import Prompt, generate_pool, pool_sha256, read_pool, rotate, take, write_prompts
from study.errors import InputError


class Merging:
    """A tokenizer that reads some pairs of words back as one token, as subword tokenizers do."""

    all_special_ids = (0,)

    def __len__(self):
        return 50

    def encode(self, text, add_special_tokens=True):
        ids = [int(word[1:]) for word in text.split()]
        return [token for index, token in enumerate(ids) if not (index and token == 7 and ids[index - 1] == 3)]

    def decode(self, ids):
        return " ".join(f"w{token}" for token in ids)


class Swallowing(Merging):
    def encode(self, text, add_special_tokens=True):
        return [1]


def test_generated_prompts_have_exactly_the_length_asked_for():
    pool = generate_pool(1, 40, Merging(), 64)
    assert {len(Merging().encode(item.prompt)) for item in pool} == {40}
    assert "w0 " not in " ".join(item.prompt for item in pool) + " "  # no special token


def test_a_pool_is_a_function_of_its_seed():
    assert generate_pool(1, 16, Merging(), 8) == generate_pool(1, 16, Merging(), 8)
    assert generate_pool(1, 16, Merging(), 8) != generate_pool(2, 16, Merging(), 8)


def test_a_larger_pool_begins_like_a_smaller_one():
    # levels are sized by time, so they may need more or fewer prompts: the first ones are the same
    assert generate_pool(1, 16, Merging(), 12)[:8] == generate_pool(1, 16, Merging(), 8)


def test_a_tokenizer_that_cannot_reach_the_length_is_refused():
    with pytest.raises(InputError, match="input_tokens 16"):
        generate_pool(1, 16, Swallowing(), 1)


def test_a_users_pool_is_read(tmp_path):
    file = tmp_path / "pool.jsonl"
    file.write_text('{"prompt": "one"}\n\n{"prompt": "zwei – ☃", "output_tokens": 9}\n', encoding="utf-8")
    assert read_pool(file) == [Prompt("one"), Prompt("zwei – ☃", 9)]


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("{", "line 1 is not JSON"),
        ('{"prompt": ""}', "line 1 needs a text"),
        ('{"prompt": 5}', "line 1 needs a text"),
        ("[]", "line 1 needs a text"),
        ('{"prompt": "x", "output_tokens": 1}', "output_tokens 1"),
        ('{"prompt": "x", "output_tokens": "9"}', "output_tokens '9'"),
        ('{"prompt": "x", "tokens": 9}', "'tokens'"),
        ("", "has no prompt"),
    ],
)
def test_an_unusable_line_is_named(tmp_path, line, named):
    file = tmp_path / "pool.jsonl"
    file.write_text(line)
    with pytest.raises(InputError) as caught:
        read_pool(file)
    assert named in str(caught.value)


def test_prompts_begin_again_where_the_pool_ends():
    pool = [Prompt("a"), Prompt("b")]
    assert [item.prompt for item in take(pool, 5)] == list("ababa")


def test_seeds_start_a_users_pool_at_different_places():
    pool = [Prompt(str(index)) for index in range(100)]
    assert sorted(rotate(pool, 1), key=pool.index) == pool
    assert len({rotate(pool, seed)[0] for seed in range(20)}) > 5


def test_the_hash_sees_text_length_and_order():
    pool = [Prompt("a"), Prompt("b", 4)]
    assert pool_sha256(pool) == pool_sha256(list(pool))
    assert pool_sha256(pool) != pool_sha256(pool[::-1])
    assert pool_sha256(pool) != pool_sha256([Prompt("a"), Prompt("b", 5)])


def test_every_line_that_the_benchmark_reads_has_its_output_tokens(tmp_path):
    file = tmp_path / "prompts.jsonl"
    write_prompts(file, [Prompt("a"), Prompt("b", 4)], 192)
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    assert lines == [{"prompt": "a", "output_tokens": 192}, {"prompt": "b", "output_tokens": 4}]
