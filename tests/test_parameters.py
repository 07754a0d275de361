from pathlib import Path

import pytest

from study.design.parameters import (
    COMPARABLE,
    Parameters,
    describe_parameters,
    fingerprint,
    make_parameters,
    read_parameters,
    read_yaml,
)
from study.errors import InputError

LEAST = {"study": "s", "model": "m"}


def refusal(**values):
    with pytest.raises(InputError) as caught:
        make_parameters({**LEAST, **values})
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_defaults_are_those_of_the_method():
    parameters = make_parameters(LEAST)
    assert parameters.users == [1, 2, 4, 8, 16, 32, 64]
    assert (parameters.waves, parameters.min_run_s, parameters.margin) == (8, 10.0, 0.01)
    assert parameters.throttled_below_share == 0.35
    assert len(parameters.seeds) == 5  # five blocks earn a verdict
    assert parameters.fresh_server_per_seed


def test_unknown_parameter_names_the_nearest():
    assert refusal(user=[1]) == "parameter 'user' is unknown; did you mean 'users'?"


def test_a_number_for_users_says_how_to_give_a_list():
    # papermill's -p turns 8 into a number and leaves a list as text
    assert '-y "users: [8]"' in refusal(users=8)
    assert '-y "users: [8]"' in refusal(users="[8]")


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"users": [0]}, "users[0]"),
        ({"users": []}, "users"),
        ({"users": [1, 1]}, "users"),
        ({"users": [1.5]}, "users[0]"),
        ({"seeds": [-1]}, "seeds[0]"),
        ({"session": "hot"}, "session"),
        ({"fresh_server_per_seed": "true"}, "fresh_server_per_seed"),
        ({"min_run_s": float("nan")}, "min_run_s"),
        ({"min_run_s": float("inf")}, "min_run_s"),
        ({"min_run_s": True}, "min_run_s"),
        ({"waves": 8.0}, "waves"),
        ({"study": "../elsewhere"}, "study"),
        ({"study": "with space"}, "study"),
        ({"margin": 0}, "margin"),
        ({"model": None}, "model"),
        ({"users_published": [3]}, "users_published"),
        ({"throttle": "clock_lock"}, "clock_lock"),
        ({"cache": "cold"}, "cache"),
    ],
)
def test_wrong_values_are_refused_by_name(values, named):
    assert named in refusal(**values)


def test_a_missing_parameter_is_named():
    with pytest.raises(InputError, match="parameter 'model' is missing"):
        make_parameters({"study": "s"})


def test_the_fingerprint_leaves_out_what_may_be_added():
    # blocks, levels and cards can be added to a study; what is measured may not change
    base = make_parameters(LEAST)
    same = make_parameters({**LEAST, "seeds": [9], "users": [3], "levels": ["O0"], "margin": 0.02, "gpu": 1})
    other = make_parameters({**LEAST, "output_tokens": 64})
    assert fingerprint(base.comparable()) == fingerprint(same.comparable())
    assert fingerprint(base.comparable()) != fingerprint(other.comparable())
    assert set(COMPARABLE) <= set(Parameters.model_fields)


def test_files_are_read_with_overrides(tmp_path):
    file = tmp_path / "p.yaml"
    file.write_text("study: s\nmodel: m\nusers: [1, 2]\n")
    assert read_parameters(file, {"users": [4]}).users == [4]


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("study: a\nstudy: b\n", "'study' stands twice"),
        ("study:\ta\n  - x", "not readable YAML"),
        ("[1, 2]", "must hold 'name: value' lines"),
        ("", "must hold 'name: value' lines"),
        ("study: !!python/object:os.system x", "not readable YAML"),
    ],
)
def test_unusable_files_are_refused_in_one_line(tmp_path, text, named):
    file = tmp_path / "p.yaml"
    file.write_text(text)
    with pytest.raises(InputError) as caught:
        read_yaml(file)
    assert named in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named():
    with pytest.raises(InputError, match=r"none\.yaml"):
        read_yaml(Path("none.yaml"))


def test_every_parameter_has_help():
    assert all(row["help"] for row in describe_parameters())


def test_several_cards_are_named_by_a_list():
    assert make_parameters({**LEAST, "gpu": [0, "GPU-2"]}).gpu == [0, "GPU-2"]
    assert make_parameters({**LEAST, "gpu": 1}).gpu == 1
    assert "0 stands twice" in refusal(gpu=[0, 0])
    assert "the list is empty" in refusal(gpu=[])
    assert "[True]" in refusal(gpu=[True])
