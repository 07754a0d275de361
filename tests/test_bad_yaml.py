"""Parameter files, level files and `edition.yaml` as people and programs spoil them: one clear line, field and all."""

import os
import time
import tracemalloc
from pathlib import Path

import pytest

from study.design.levels import read_levels, select_levels
from study.design.parameters import make_parameters, read_parameters, read_yaml
from study.design.plain_yaml import MOST_YAML_CHARS, parse_yaml
from study.errors import InputError
from study.publish.edition_file import read_edition_file

ROOT = Path(__file__).parent.parent


def refusal(read, *arguments):
    with pytest.raises(InputError) as caught:
        read(*arguments)
    message = str(caught.value)
    assert message.isprintable(), message
    assert len(message) < 1000
    return message


LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

TRAPS = [
    ("waves: 010", "field 'waves': 010 is a number in another notation"),
    ("waves: 0x10", "field 'waves': 0x10"),
    ("waves: 0b11", "field 'waves': 0b11"),
    ("min_run_s: 1:30", "field 'min_run_s': 1:30"),
    ("min_run_s: 1:30.5", "field 'min_run_s': 1:30.5"),
    ("min_run_s: .nan", "field 'min_run_s': .nan is no finite number"),
    ("min_run_s: -.inf", "field 'min_run_s': -.inf is no finite number"),
    ("min_run_s: 1.0e+999", "field 'min_run_s': 1.0e+999 is no finite number"),
    ("min_run_s: 1e2", "field 'min_run_s': 1e2 is text to YAML"),
    ("study: 2026-11-01", "field 'study': 2026-11-01 is a date to YAML; put it in quotes"),
    ("users: [1, 2026-11-01]", "field 'users[1]': 2026-11-01 is a date"),
    (f"waves: {'9' * 5000}", "field 'waves': 999"),
    ("no: 1", "the name no is true or false to YAML; put it in quotes"),
    ("1: x", "the name 1 is a number to YAML"),
    ("~: x", "the name ~ is null to YAML"),
    ("? [a, b]\n: x", "has a name that is no text (line 1)"),
    ("study: a\nstudy: b", "'study' stands twice"),
    ("a:\n  b:\n    c: 1\n    c: 2", "'c' stands twice"),
    ("a: &x 1\nb: *x", "the alias '*x' is not read; write its value out"),
    ("a: {<<: {b: 1}}", "field 'a': merge keys (<<) are not read"),
    (LAUGHS, "the alias '*a' is not read"),
    ("a: &a [*a]", "the alias '*a' is not read"),
    ("--- {a: 1}\n--- {b: 2}", "single document"),
    ("a: !!python/object/apply:os.system [x]", "field 'a' has the tag"),
    ("a: !!binary aGk=", "field 'a' has the tag"),
    ("a: !!set {x, y}", "field 'a' has the tag"),
    ("a: !!omap [x: 1]", "field 'a' has the tag"),
    ("a: !mine x", "field 'a' has the tag"),
    ("a: !!int x", "field 'a': x is a number in another notation"),
    ("a: !!bool x", "field 'a': x is neither true nor false"),
    ("a: !!float x", "field 'a': x is a number in another notation"),
    ("a:\tb\n\tc: d", "not readable YAML"),
    ("\ta: b", "not readable YAML"),
    ("a: x\0y", "not readable YAML"),
    ("a: x\x1by", "not readable YAML"),
    ('a: "x\\0y"', "field 'a' holds NUL"),
    ('a: "\\ud800"', "field 'a' holds NUL or half a character"),
    ("[" * 100_000, "nested more than 30 deep"),
    ("".join(f"{' ' * depth}a:\n" for depth in range(60)), "nested more than 30 deep"),
    ("x: " + "y" * MOST_YAML_CHARS, "characters; at most"),
    ("a: [1", "not readable YAML"),
    ("a: b: c", "not readable YAML"),
    ("just text", "must hold 'name: value' lines, not str"),
    ("- a", "must hold 'name: value' lines, not list"),
    ("", "must hold 'name: value' lines, not NoneType"),
    ("# nothing\n", "must hold 'name: value' lines, not NoneType"),
]


@pytest.mark.parametrize(("text", "said"), TRAPS, ids=[said[:40] for _, said in TRAPS])
def test_a_trap_is_one_line_with_file_and_field(tmp_path, text, said):
    file = tmp_path / "mine.yaml"
    file.write_text(text)
    message = refusal(read_yaml, file)
    assert said in message
    assert "mine.yaml" in message


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 0", 0),
        ("a: -12", -12),
        ("a: 1_000", 1000),
        ("a: 1.5", 1.5),
        ("a: 1.0e+3", 1000.0),
        ("a: yes", True),
        ("a: OFF", False),
        ("a: 'no'", "no"),
        ("a: '010'", "010"),
        ("a: !!str 5", "5"),
        ("a: v1e2x", "v1e2x"),
        ("a:", None),
        ("a: {b: [1, {c: x}]}", {"b": [1, {"c": "x"}]}),
        ("\N{BYTE ORDER MARK}a: é", "é"),
        ("a: |\n  two\n  lines\n", "two\nlines\n"),
    ],
)
def test_plain_yaml_is_read_as_it_stands(tmp_path, text, value):
    file = tmp_path / "mine.yaml"
    file.write_text(text, encoding="utf-8")
    assert read_yaml(file) == {"a": value}


def test_json_is_plain_yaml():
    # the notebook hands its parameters over as JSON
    assert parse_yaml('{"a": [1, 2.5, null, true, "x"]}', "it") == {"a": [1, 2.5, None, True, "x"]}


@pytest.mark.parametrize(
    ("content", "said"), [("a: x".encode("utf-16"), "UTF-16"), (b"a: \xff", "byte 4 is not UTF-8"), (b"\x00\x01", "")]
)
def test_other_bytes_than_utf_8_are_refused(tmp_path, content, said):
    file = tmp_path / "mine.yaml"
    file.write_bytes(content)
    assert said in refusal(read_yaml, file)


@pytest.mark.parametrize("kind", ["folder", "pipe", "loop", "device", "huge"])
def test_what_is_no_file_is_refused_and_not_waited_for(tmp_path, kind):
    file = tmp_path / "mine.yaml"
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "huge":
        file.touch()
        os.truncate(file, 10**9)
    else:
        file.symlink_to("mine.yaml" if kind == "loop" else "/dev/zero")
    assert "mine.yaml" in refusal(read_yaml, file)
    assert refusal(read_edition_file, _edition_at(tmp_path, file), "e", ["s"])


def _edition_at(tmp_path, file):
    """Put what `file` is in the place of an edition's file."""
    folder = tmp_path / "e"
    folder.mkdir()
    file.rename(folder / "edition.yaml")
    return folder


@pytest.mark.parametrize("name", ["a" * 300 + ".yaml", "a\0b.yaml"])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, name):
    refusal(read_yaml, tmp_path / name)
    refusal(select_levels, name, tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        *(LAUGHS, "[" * 200_000, "{" * 200_000, "a: " * 80_000, "? " * 100_000, "- " * 100_000),
        *("a1: \n" * 10_000, "'" * 99_999),
    ],
    ids=["laughs", "[", "{", "a:", "?", "-", "same key", "quotes"],
)
def test_no_small_text_takes_long_or_much_memory(text):
    tracemalloc.start()
    started = time.monotonic()
    refusal(parse_yaml, text, "it")
    assert time.monotonic() - started < 60  # a second or two; a parser gone wild takes hours
    assert tracemalloc.get_traced_memory()[1] < 300 * 2**20
    tracemalloc.stop()


def test_many_keys_are_read_in_a_time_that_grows_with_their_number():
    values = parse_yaml("".join(f"k{number}: 1\n" for number in range(15_000)), "it")
    assert len(values) == 15_000


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ("load_format: no", "parameter 'load_format': False does not fit"),
        ("load_format: no", "put text in quotes: to YAML yes, no, on and off are true or false"),
        ("study: 2026.10", "put text in quotes"),
        ("levels: [O0, on]", "parameter 'levels[1]': True does not fit"),
        ("users: {a: 1}", "parameter 'users'"),
        ("users: 1", "a list is needed"),
        ("waves: 1000000000000000000000", "parameter 'waves'"),
        ("kv_cache_memory_bytes: 9" + "9" * 300, "parameter 'kv_cache_memory_bytes'"),
        ("fresh_server_per_seed: 1", "parameter 'fresh_server_per_seed'"),
        ("min_run_s: '10'", "parameter 'min_run_s'"),
        ("margin: -0.01", "parameter 'margin'"),
        ("server_flags: --x", "parameter 'server_flags'"),
        ("server_flags: [1]", "parameter 'server_flags[0]'"),
        ("gpu: [0, 0]", "parameter 'gpu'"),
        ("gpu: [[0]]", "parameter 'gpu'"),
        ("gpu: {a: 0}", "parameter 'gpu'"),
        ("'a\\nb': 1", "is unknown"),
        (f"? {'x' * 5000}\n: 1", "is unknown"),
    ],
)
def test_a_wrong_type_names_the_parameter(tmp_path, lines, said):
    file = tmp_path / "mine.yaml"
    base = {"study": "s", "model": "m"}
    base.pop(lines.split(":")[0], None)
    file.write_text("".join(f"{name}: {value}\n" for name, value in base.items()) + lines)
    assert said in refusal(read_parameters, file)


ODD_VALUES = [10**5000, [10**5000], float("nan"), float("inf"), {1: 2}, b"x", object(), "\ud800"]


@pytest.mark.parametrize("value", ODD_VALUES, ids=range(len(ODD_VALUES)))
def test_any_value_from_a_notebook_is_refused_in_one_line(value):
    assert "'users" in refusal(make_parameters, {"study": "s", "model": "m", "users": value})
    assert "'study'" in refusal(make_parameters, {"study": value, "model": "m"})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("no: {flags: [-O1]}", "the name no is true or false"),
        ("on:", "the name on is true or false"),
        ("fast: {flags: -O1}", "level 'fast' in"),
        ("fast: {flags: [1]}", "field 'flags.0' 1"),
        ("fast: {flags: [no]}", "field 'flags.0' False"),
        ("fast: {flag: [-O1]}", "field 'flag'"),
        ("fast: {name: slow}", "field 'name' is its own name"),
        ("fast: [-O1]", "it needs lines such as"),
        ("fast: ''", "it needs lines such as"),
        ("fast: 0", "it needs lines such as"),
        ("fast: {environment: {A: 1}}", "field 'environment.A' 1"),
        ("fast: {environment: {A=B: x}}", "field 'environment.A=B"),
        ("fast: {environment: [A]}", "field 'environment'"),
        ("fast: {fills_caches: 'yes'}", "field 'fills_caches' 'yes'"),
        ("fast: {run_length_factor: '6'}", "field 'run_length_factor' '6'"),
        ("fast: {run_length_factor: 0}", "field 'run_length_factor' 0"),
        ("fast: {run_length_factor: .inf}", "field 'fast.run_length_factor': .inf"),
        ("fast: {run_length_factor: 1000000}", "field 'run_length_factor'"),
        ("fast: {expect: {a.b: 2026-01-01}}", "field 'fast.expect.a.b': 2026-01-01 is a date"),
        ("../up:", "level '../up' in"),
        ("'':", "level '' in"),
        (f"{'x' * 41}:", "level 'xxx"),
        ("fast: {flags: [-O1]}\nfast: {flags: [-O2]}", "'fast' stands twice"),
    ],
)
def test_an_unusable_level_names_its_field(tmp_path, text, said):
    file = tmp_path / "levels.yaml"
    file.write_text(text)
    message = refusal(read_levels, file)
    assert said in message
    assert "levels.yaml" in message


def test_a_level_named_like_a_boolean_works_in_quotes(tmp_path):
    file = tmp_path / "levels.yaml"
    file.write_text("'no': {flags: [-O1]}\n'on':\n")
    assert list(read_levels(file)) == ["no", "on"]
    assert make_parameters({"study": "s", "model": "m", "levels": ["no", "on"]}).levels == ["no", "on"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("edition: 2026.10\nstudies: [s]", "put it in quotes"),
        ("edition: x\nstudies: s", "studies 's'"),
        ("edition: x\nstudies: [no]", "studies.0 False"),
        ("edition: x\nstudies: [2026-11-01]", "field 'studies[0]': 2026-11-01 is a date"),
        ("edition: x\nstudies: [s]\nmargin: .nan", "field 'margin': .nan"),
        ("edition: x\nstudies: [s]\nmargin: '0.01'", "margin '0.01'"),
        ("edition: x\nstudies: [s]\nusers: {s: [8.0]}", "users.s.0 8.0"),
        ("edition: x\nstudies: [s]\nusers: {s: [08]}", "users.s.0 '08'"),
        ("edition: x\nstudies: [s]\nusers: [8]", "users [8]"),
        ("edition: x\nstudies: []", "studies []"),
        ("edition: x", "studies: Field required"),
        (LAUGHS, "the alias '*a' is not read"),
    ],
)
def test_an_unusable_edition_file_names_its_field(tmp_path, text, said):
    (tmp_path / "edition.yaml").write_text(text)
    message = refusal(read_edition_file, tmp_path, "x", [])
    assert said in message
    assert "edition.yaml" in message


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks/parameters").rglob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_of_ours_is_plain_yaml(path):
    assert read_yaml(path)
