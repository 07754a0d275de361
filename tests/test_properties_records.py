"""Records that nobody wrote: a file changed anywhere, in any way, is read as it stands or refused in one line."""

import copy
import json
import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from whole_study import write_whole_study

from study.check import check_study
from study.errors import RecordError
from study.records import find_contradictions
from study.store import Store, sha256

NAMES = ("run-b1-default-u1-a1.json", "launch-b1-default-a1.json", "session-1.json")
NUMBERS = [0, -1, 1, 0.5, 1e308, -1e308, 2**64 + 1, 10**400]
ODD = [None, True, False, *NUMBERS, "", "x", "1", "\0", "../x", "\u2028", [], [None], {}]
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which everything fits, its records as JSON, and the places in them."""
    store = write_whole_study(tmp_path_factory.mktemp("whole"), waves=2, tokens=8)
    contents = {name: (store.raw / name).read_bytes() for name in NAMES}
    records = {name: json.loads(content) for name, content in contents.items()}
    return store, contents, records, {name: list(places_of(record)) for name, record in records.items()}


def places_of(value, where=()):
    """Every place in a JSON value: a tuple of keys and indices. Of a long list its ends stand for the rest."""
    if where:
        yield where
    if isinstance(value, dict):
        for name in value:
            yield from places_of(value[name], (*where, name))
    elif isinstance(value, list):
        for index in sorted({0, 1, len(value) - 1} & set(range(len(value)))):
            yield from places_of(value[index], (*where, index))


def change(record, where, how, value):
    """Drop, replace, double, or rename what stands at a place."""
    changed = copy.deepcopy(record)
    item = changed
    for part in where[:-1]:
        item = item[part]
    last = where[-1]
    if how == "drop":
        del item[last]
    elif how == "rename" and isinstance(item, dict):
        item[f"{last}_"] = item.pop(last)
    elif how == "double" and isinstance(item, list):
        item.insert(last, item[last])
    else:
        item[last] = value
    return changed


def check_folder(store, name):
    """Read a folder in which one file was changed: as it stands, or refused; never by another exception."""
    problems = check_study(Store(store.raw.parent.parent, store.study))
    assert all(problem.isprintable() for problem in problems)
    try:
        records = store.read()
    except RecordError as error:
        assert "\n" not in str(error)
        assert problems
        assert any(name.removesuffix(".json").partition("-")[2] in problem for problem in problems)
        return
    assert records.files[name] == sha256(store.raw / name)
    for record in (*records.launches, *records.runs, *records.sessions):
        assert not find_contradictions(record)
        assert finite(record.model_dump())


def finite(value):
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)


@given(data=st.data(), name=st.sampled_from(NAMES), how=st.sampled_from(["drop", "replace", "double", "rename"]))
def test_a_changed_field_is_read_or_refused(whole, data, name, how):
    store, contents, records, places = whole
    where = data.draw(st.sampled_from(places[name]))
    value = data.draw(st.sampled_from(ODD) | ANY_JSON)
    try:
        (store.raw / name).write_text(json.dumps(change(records[name], where, how, value)))
        check_folder(store, name)
    finally:
        (store.raw / name).write_bytes(contents[name])


@given(data=st.data(), name=st.sampled_from(NAMES))
def test_changed_bytes_are_read_or_refused(whole, data, name):
    store, contents, _, _ = whole
    content = contents[name]
    begin = data.draw(st.integers(0, len(content)))
    end = data.draw(st.integers(begin, min(len(content), begin + 40)) | st.just(len(content)))
    try:
        (store.raw / name).write_bytes(content[:begin] + data.draw(st.binary(max_size=20)) + content[end:])
        check_folder(store, name)
    finally:
        (store.raw / name).write_bytes(content)


@given(content=st.binary(max_size=200) | ANY_JSON.map(lambda value: json.dumps(value).encode()))
@example(content=b'{"schema_version":1}')
@example(content=b'{"schema_version":1.0,"x":"\\ud800"}')
@example(content=b'{"schema_version":' + b"1" * 5000 + b"}")
def test_any_content_is_refused(whole, content):
    store, contents, _, _ = whole
    name = NAMES[0]
    try:
        (store.raw / name).write_bytes(content)
        assert any(name in problem for problem in check_study(store))
        with pytest.raises(RecordError):
            store.read()
    finally:
        (store.raw / name).write_bytes(contents[name])
