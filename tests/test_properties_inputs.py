"""Parameter files, level files, `edition.yaml` and pools that nobody wrote: read, or refused in one line."""

import json
import time
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from study.design.levels import Level, read_levels
from study.design.parameters import Parameters, fingerprint, make_parameters, read_parameters
from study.design.plan import describe_plan, make_plan
from study.design.pool import pool_sha256, read_pool, rotate, write_prompts
from study.errors import InputError
from study.publish.edition_file import EditionFile, edition_yaml, read_edition_file

ROOT = Path(__file__).parent.parent
FILES = [path.read_text() for path in sorted((ROOT / "notebooks/parameters").rglob("*.yaml"))]
MARKS = [
    *("&a ", "*a", "<<: ", "!!set ", "? ", "- ", "[", "{", "]", "}", ": ", "\t", "#", "|", ">", "'", '"', "---\n"),
    *("%", "@", "no", "on", "~", "010", "1:30", "1e5", ".nan", "-.inf", "2026-11-01", "9" * 500),
    *('"\\ud800"', "\\x00", "é", "true"),
]
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(sorted(Parameters.model_fields))


@st.composite
def spoiled_yaml(draw):
    """A file of ours with a piece taken out and another put in, some times."""
    text = draw(st.sampled_from(FILES))
    for _ in range(draw(st.integers(1, 4))):
        begin = draw(st.integers(0, len(text)))
        end = min(len(text), begin + draw(st.sampled_from([0, 0, 1, 5, 30])))
        text = text[:begin] + draw(st.sampled_from(MARKS) | st.text(max_size=5)) + text[end:]
    return text


@st.composite
def written_yaml(draw):
    """Any mapping as a library writes it: dates, tags, aliases and all."""
    return yaml.dump(draw(st.dictionaries(NAMES | st.text(max_size=8), PLAIN, max_size=5)), allow_unicode=True)


TEXTS = spoiled_yaml() | written_yaml() | st.text(max_size=200)


def read_or_refuse(read, *arguments):
    """Return what was read, None where it was refused; anything else fails the test."""
    started = time.monotonic()
    try:
        return read(*arguments)
    except InputError as error:
        assert str(error).isprintable(), str(error)
        assert len(str(error)) < 2000
    finally:
        assert time.monotonic() - started < 30  # milliseconds here
    return None


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("inputs")


def write(path, text):
    path.write_bytes(text.encode("utf-8", errors="surrogatepass"))
    return path


@given(text=TEXTS)
@example(text="study: a\nmodel: m\ngpu: " + "9" * 390)
@example(text="study: a\nmodel: m\nkv_cache_memory_bytes: " + "9" * 390)
def test_a_parameter_file_is_read_or_refused(folder, text):
    parameters = read_or_refuse(read_parameters, write(folder / "p.yaml", text))
    if parameters is not None:
        assert len(fingerprint(parameters.comparable())) == 16
        assert make_parameters(json.loads(parameters.model_dump_json())) == parameters


@given(values=st.dictionaries(NAMES, PLAIN, max_size=4))
@example(values={"levels": [["x"] * 3]})
@example(values={"users": {"a": [1]}})
@example(values={"model": "\ud800"})
def test_any_parameters_are_taken_or_refused(values):
    parameters = read_or_refuse(make_parameters, {"study": "s", "model": "m", **values})
    if parameters is not None and parameters.pool == "generated":
        assert describe_plan(make_plan(parameters, [Level(name="default")]), parameters)


@given(text=TEXTS)
@example(text="a: {expect: {x: 1}, flags: [-O1]}")
def test_a_level_file_is_read_or_refused(folder, text):
    levels = read_or_refuse(read_levels, write(folder / "l.yaml", text))
    for name, level in (levels or {}).items():
        assert level.name == name
        assert Level(**json.loads(level.model_dump_json())) == level


EDITIONS = st.fixed_dictionaries({"edition": PLAIN, "studies": PLAIN}, optional={"users": PLAIN}).map(yaml.dump)


@given(text=TEXTS | EDITIONS)
@example(text="edition: x\nstudies: [a]\nusers: {a: [1, 8]}")
def test_an_edition_file_is_read_or_refused(folder, text):
    place = folder / "edition"
    place.mkdir(exist_ok=True)
    write(place / "edition.yaml", text)
    found = read_or_refuse(read_edition_file, place, "x", [])
    if found is not None:
        assert isinstance(found, EditionFile)
        write(place / "edition.yaml", edition_yaml(found))
        again = read_edition_file(place, "x", [])
        assert again.studies == found.studies


TOKENS = {"output_tokens": st.integers(0, 3)}
LINES = (
    st.fixed_dictionaries({"prompt": st.text(max_size=20)}, optional=TOKENS).map(json.dumps)
    | st.dictionaries(st.sampled_from(["prompt", "output_tokens", "x"]), PLAIN, max_size=3).map(json.dumps)
    | st.text(max_size=30)
)


@given(lines=st.lists(LINES, max_size=4), end=st.sampled_from(["\n", "\r\n", "\u2028"]))
@example(lines=['{"prompt": "\\ud800"}'], end="\n")
@example(lines=['{"prompt": "x", "output_tokens": 1e999}'], end="\n")
@example(lines=['{"prompt": "5"}'], end="\n")
def test_a_pool_is_read_or_refused(folder, lines, end):
    pool = read_or_refuse(read_pool, write(folder / "pool.jsonl", end.join(lines)))
    if pool is not None:
        assert len(pool_sha256(rotate(pool, 1))) == 64
        write_prompts(folder / "prompts.jsonl", pool, 8)
        assert [item.prompt for item in read_pool(folder / "prompts.jsonl")] == [item.prompt for item in pool]


@given(content=st.binary(max_size=100))
@example(content=b"\xef\xbb\xbf")
@example(content=b"\xff\xfea\x00")
def test_any_bytes_are_read_or_refused(folder, content):
    for name, read in (("p.yaml", read_parameters), ("l.yaml", read_levels), ("pool.jsonl", read_pool)):
        (folder / name).write_bytes(content)
        read_or_refuse(read, folder / name)
