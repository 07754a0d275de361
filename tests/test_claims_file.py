"""Claims files: what is read, and the one line that says what does not fit."""

import json
from pathlib import Path

import pytest

from study.design.claims import KINDS, DefaultIs
from study.design.claims_file import read_claims
from study.errors import InputError

FILE = {
    "title": "A text",
    "date": "2026-03",
    "claims": [
        {
            "id": "one",
            "says": "The default is 3.",
            "where": "part 1",
            "check": {"kind": "default_is", "field": "compilation_config.mode", "value": 3},
        }
    ],
}


def read(tmp_path, values):
    path = tmp_path / "claims.yaml"
    path.write_text(json.dumps(values), encoding="utf-8")  # JSON is YAML
    return read_claims(path)


def with_claim(**changes):
    return {**FILE, "claims": [{**FILE["claims"][0], **changes}]}


def test_a_single_check_is_a_list_of_one(tmp_path):
    (claim,) = read(tmp_path, FILE).claims
    assert claim.check == (DefaultIs(kind="default_is", field="compilation_config.mode", value=3),)


def test_a_card_is_written_in_one_form(tmp_path):
    assert read(tmp_path, {**FILE, "card": "memory=24GiB,sm=8.9"}).card == "sm=8.9,memory=24GiB,tp=1"


def test_checks_come_with_their_part_and_place(tmp_path):
    flag = {"kind": "flag_exists", "flags": ["-O0"]}
    (claim,) = read(tmp_path, with_claim(substance=flag, correct={"says": "x", "check": [flag, flag]})).claims
    assert [(part, place) for part, place, _ in claim.checks()] == [
        *(("check", 0), ("substance", 0), ("correct", 0), ("correct", 1)),
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({**FILE, "titel": "x"}, "'titel' is unknown; did you mean 'title'?"),
        (with_claim(chek=[]), "claim 'one': 'chek' is unknown; did you mean 'check'?"),
        (
            with_claim(check={"kind": "defaults_is"}),
            "check 1: kind 'defaults_is' is unknown; did you mean 'default_is'?",
        ),
        (with_claim(check={"kind": "default_is", "feild": "x", "field": "x", "value": 1}), "did you mean 'field'?"),
        (with_claim(check={"field": "x"}), "claim 'one': check 1: a check needs its kind; known: accepts"),
        (with_claim(check={"kind": "resolves", "flags": ["-O0"]}), "claim 'one': check 1: 'expect' is missing"),
        (
            with_claim(correct={"sais": "x", "says": "x"}),
            "claim 'one': correct: 'sais' is unknown; did you mean 'says'?",
        ),
        (with_claim(card="sm=8.9,memory=lots"), "claim 'one': card: card 'sm=8.9,memory=lots': memory is 'lots'"),
        (with_claim(check={"kind": "source", "of": "vllm.config"}), "give has, lacks or both"),
        (with_claim(check={"kind": "accepts", "call": "LLM", "flags": ["-O0"]}), "arguments to what else is called"),
        ({**FILE, "claims": FILE["claims"] * 2}, "claim 'one' stands twice"),
        ({**FILE, "claims": []}, "claims: "),
    ],
)
def test_what_does_not_fit_is_one_line(tmp_path, values, said):
    with pytest.raises(InputError) as error:
        read(tmp_path, values)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_every_kind_has_a_name_of_its_own():
    assert set(KINDS) == {
        *("flag_exists", "resolves", "default_is", "log_line", "accepts", "refuses", "enum_has", "imports"),
        *("attribute_has", "defined_at", "source", "used_in", "cannot_tell"),
    }


def test_the_claims_on_file_are_readable():
    path = Path(__file__).parents[1] / "data" / "reference" / "claims-2026-03.yaml"
    file = read_claims(path)
    assert file.date == "2026-03"
    assert all(claim.correct is None or claim.correct.check for claim in file.claims)
