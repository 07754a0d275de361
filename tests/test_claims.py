"""Verdicts on claims, the facts that are read from source, and the command's errors."""

import textwrap

import pytest

from study.__main__ import main
from study.analyze.claims import judge_claims, read_verdicts, render_verdicts, verdicts_json
from study.design.claims import Answer, ClaimsFile, DefinedAt, Source, UsedIn, VllmAnswers
from study.errors import InputError
from study.measure.claims_source import check_defined_at, check_source, check_used_in, find_place
from study.measure.claims_words import NotThereError, same_value

CHECK = {"kind": "cannot_tell", "why": "x"}
HOLDS = {"check": (True,), "substance": (True,), "correct": (True,)}


def make_file(**claim):
    named = {"id": "one", "says": "It is so.", "where": "part 1", "check": (CHECK,)}
    return ClaimsFile(title="A text", date="2026-03", claims=({**named, **claim},))


def make_told(answers):
    platforms = {"this machine": "CpuPlatform"}
    return VllmAnswers(vllm_version="0.31.0", platforms=platforms, answers=tuple(answers))


def judge(holds, earlier=None, **claim):
    """Judge one claim whose parts have so many checks, which hold or do not."""
    for part in ("check", "substance"):
        claim[part] = tuple(CHECK for _ in holds.get(part, ()))
    if "correct" in holds:
        claim["correct"] = {"says": "That is so.", "check": tuple(CHECK for _ in holds["correct"])}
    answers = [
        Answer(claim="one", part=part, place=place, holds=one, said=f"{part} {place}")
        for part, all_of_it in holds.items()
        for place, one in enumerate(all_of_it)
    ]
    return judge_claims(make_file(**claim), make_told(answers), earlier=earlier)


def verdict(holds, earlier=None):
    return judge(holds, earlier).claims[0].verdict


@pytest.mark.parametrize(
    ("holds", "expected"),
    [
        ({"check": (True, True)}, "true"),
        ({"check": (True, False)}, "false"),
        ({"check": (True, None)}, "cannot_tell"),
        ({"check": (False, None)}, "false"),
        ({"check": (False,), "substance": (True,)}, "changed"),
        ({"check": (False,), "substance": (True, False)}, "false"),
        ({"check": (False,), "substance": (True, None)}, "false"),
        ({"check": (True,), "substance": (False,)}, "true"),
    ],
)
def test_the_verdicts(holds, expected):
    assert verdict(holds) == expected


@pytest.mark.parametrize(
    ("then", "expected"),
    [
        ({"check": (True,)}, "changed"),
        ({"check": (False,), "substance": (True,)}, "changed"),
        ({"check": (False,)}, "false"),
        ({"check": (None,)}, "false"),
    ],
)
def test_what_was_not_false_before_has_changed(then, expected):
    assert verdict({"check": (False,)}, earlier=judge(then)) == expected


@pytest.mark.parametrize(
    ("claims_card", "asked", "files", "used"),
    [
        ("cpu", "sm=9.0,memory=141GiB,tp=1", None, "cpu"),
        (None, "sm=9.0,memory=141GiB,tp=1", "sm=8.9,memory=24GiB", "sm=9.0,memory=141GiB,tp=1"),
        (None, None, "sm=8.9,memory=24GiB", "sm=8.9,memory=24GiB,tp=1"),
        (None, None, None, "this machine (CpuPlatform)"),
    ],
)
def test_which_card_a_claim_was_asked_for(claims_card, asked, files, used):
    file = make_file(card=claims_card)
    file = ClaimsFile.model_validate({**file.model_dump(), "card": files})
    told = make_told([Answer(claim="one", part="check", place=0, holds=True, said="x")])
    assert judge_claims(file, told, asked).claims[0].card == used


def test_what_has_changed_says_since_when():
    assert judge({"check": (False,)}, judge({"check": (True,)})).claims[0].because == "true in 0.31.0"


def test_what_holds_now_is_true_whatever_was_before():
    assert verdict({"check": (True,)}, earlier=judge({"check": (False,)})) == "true"


@pytest.mark.parametrize(
    ("correct", "holds"), [((True,), True), ((True, False), False), ((True, None), None), ((), None)]
)
def test_the_correct_form_is_checked_too(correct, holds):
    checked = judge({"check": (False,), "correct": correct})
    assert checked.claims[0].correct.holds is holds
    assert bool(checked.wrong_corrections()) is (holds is False)


def test_a_correct_form_that_fails_is_named():
    text = render_verdicts(judge({"check": (False,), "correct": (True, False)}))
    assert "correct (FAILS TOO): That is so." in text
    assert "vLLM: correct 1" in text
    assert text.splitlines()[-1].endswith("1 claims: 1 false. The correct form fails too: one.")


def test_only_the_evidence_that_decided_is_printed():
    text = render_verdicts(judge({"check": (True, False)}))
    assert "check 1" in text
    assert "check 0" not in text


def test_verdicts_are_read_back(tmp_path):
    checked = judge({**HOLDS, "check": (False,)})
    (tmp_path / "v.json").write_text(verdicts_json(checked), encoding="utf-8")
    assert read_verdicts(tmp_path / "v.json") == checked


@pytest.mark.parametrize(
    ("text", "said"),
    [("{}", "title"), ('{"schema_version": 2}', "schema_version"), ("no", "is no file of verdicts")],
)
def test_what_are_no_verdicts_is_refused_in_one_line(tmp_path, text, said):
    (tmp_path / "v.json").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said) as error:
        read_verdicts(tmp_path / "v.json")
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("value", "wanted", "same"),
    [((2, 1), [2, 1], True), (1, True, False), (True, True, True), (0, False, False), ("a", "A", False)],
)
def test_values_are_compared_as_yaml_has_them(value, wanted, same):
    assert same_value(value, wanted) is same


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package whose modules could not be imported."""
    folder = tmp_path / "some_package" / "inner"
    folder.mkdir(parents=True)
    (folder.parent / "__init__.py").write_text("", encoding="utf-8")
    code = """\
    import no_such_module
    from elsewhere import Helper

    LIMIT: int = 3


    class Runner:
        def run(self):
            return Helper(
                LIMIT
            )
    """
    (folder / "runner.py").write_text(textwrap.dedent(code), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    return "some_package.inner.runner"


@pytest.mark.parametrize(("name", "lines"), [("Runner", (7, 11)), ("Runner.run", (8, 11)), ("LIMIT", (4, 4))])
def test_an_object_is_found_in_source_that_cannot_run(package, name, lines):
    place = find_place(f"{package}:{name}")
    assert (place.file, place.first, place.last) == ("some_package/inner/runner.py", *lines)


@pytest.mark.parametrize(("lines", "holds"), [(None, True), ((7, 11), True), ((5, 9), False)])
def test_lines_count_where_they_are_asked_for(package, lines, holds):
    assert check_defined_at(DefinedAt(kind="defined_at", object=f"{package}:Runner", lines=lines))[0] is holds


@pytest.mark.parametrize(
    ("has", "lacks", "holds"),
    [
        (("Helper( LIMIT )",), (), True),
        (("Helper( LIMIT )",), ("def run",), False),
        (("import no_such_module",), (), False),
        ((), ("import no_such_module",), True),
    ],
)
def test_source_is_compared_without_its_spaces(package, has, lacks, holds):
    assert check_source(Source(kind="source", of=f"{package}:Runner", has=has, lacks=lacks))[0] is holds


@pytest.mark.parametrize(("name", "holds"), [("Helper", True), ("LIMIT", True), ("Help", False)])
def test_a_name_is_used_where_code_refers_to_it(package, name, holds):
    assert check_used_in(UsedIn(kind="used_in", name=name, module=package))[0] is holds


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("some_package.inner.runer", "the nearest is runner"),
        ("some_package.inner.runner:Runer.run", "the nearest is Runner"),
        ("no_such_package.part", "there is no package no_such_package"),
    ],
)
def test_what_is_not_there_is_named_with_the_nearest(package, name, said):
    with pytest.raises(NotThereError, match=said):
        find_place(name)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--check", "none.yaml"], "none.yaml"),
        (["--check", "none.yaml", "--json"], "leave out --diff, --json and --vllm-args"),
        (["--check", "none.yaml", "--out", "."], "exists already"),
        (["--earlier", "verdicts.json"], "--earlier goes with --check"),
    ],
)
def test_the_command_refuses_what_it_cannot_use(capsys, arguments, said):
    assert main(["switches", *arguments]) == 2
    assert said in capsys.readouterr().err
