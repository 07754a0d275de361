"""Every command in the guides can be typed as it stands: subcommands, flags, targets and files exist."""

import contextlib
import io
import re
import shlex
import shutil
from pathlib import Path

import nbformat
import pytest
import yaml

from study.__main__ import main
from study.analyze.validity import CHECKS
from study.check import check_study
from study.design.parameters import Parameters, make_parameters, read_parameters
from study.publish.edition_file import check_edition_name
from study.session import follow_session
from study.store import Store

ROOT = Path(__file__).parents[1]
GUIDES = sorted((ROOT / "docs" / "guide").glob("*.md"))
PAGES = [*GUIDES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`((?:python -m study|make|papermill) [^`]+)`")
KNOWN = {"python", "make", "papermill", "cp", "source", "nohup", "rsync", "ray", "export"}
WORDS = {"FILE", "EDITION", "STUDY", "COMMAND", "A", "B", "LOG", "DIR"}
"""What stands in a command for something of the reader's own."""


def read(page):
    return page.read_text(encoding="utf-8")


def commands_of(page):
    """Return every command of a page, without its comment."""
    text = read(page)
    blocks = [block for _, language, block in FENCE.findall(text) if language in ("", "sh", "bash")]
    lines = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    typed = [line for line in lines if line.split()[0] in KNOWN]
    return [shlex.split(line, comments=True) for line in [*typed, *INLINE.findall(FENCE.sub("", text))]]


def all_commands(*first):
    """Return (page, what follows) for every command that begins so."""
    found = []
    for page in PAGES:
        for command in commands_of(page):
            words = [word for word in command if word not in ("nohup", "&")]
            if tuple(words[: len(first)]) == first:
                found.append(pytest.param(page, words[len(first) :], id=f"{page.stem}: {' '.join(words)[:60]}"))
    return found


def files_made(page):
    """Return files that the page's own commands make."""
    return {command[-1] for command in commands_of(page) if command[0] == "cp"}


def exists(name, page):
    return name in WORDS or (ROOT / name).exists() or name in files_made(page)


def test_the_guides_are_there():
    names = {"first-study", "own-model-levels-pool", "reading-verdicts", "undecided", "throttled", "rented-card"}
    assert {path.stem for path in GUIDES} == names | {"cluster", "republish", "several-gpus"}


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_has_one_title_and_a_command(page):
    outside = FENCE.sub("", read(page))
    assert [line for line in outside.splitlines() if line.startswith("# ")] == [outside.splitlines()[0]]
    assert commands_of(page)


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_every_line_of_a_command_block_is_a_known_program(page):
    for _, language, block in FENCE.findall(read(page)):
        if not language:
            assert {line.split()[0] for line in block.splitlines() if line.strip()} <= KNOWN


def parse(arguments):
    """Let the command line read arguments without carrying them out; return what it says on standard error."""
    said = io.StringIO()
    with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()), pytest.raises(SystemExit) as end:
        main([*arguments, "--help"])
    return end.value.code, said.getvalue()


def flags_of(command):
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
        main([command, "--help"])
    return set(re.findall(r"(?<![\w-])--[a-z-]+", shown.getvalue()))


@pytest.mark.parametrize(("page", "words"), all_commands("python", "-m", "study"))
def test_a_command_of_the_study_has_its_subcommand_and_flags(page, words):
    if words[0] in WORDS:
        return
    code, said = parse([words[0]])
    assert code == 0, said
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= flags_of(words[0])


@pytest.mark.parametrize(("page", "words"), all_commands("python", "-m", "study"))
def test_its_parameter_file_is_there_and_takes_what_is_set(page, words):
    if "--parameters" not in words:
        return
    name = words[words.index("--parameters") + 1]
    assert exists(name, page)
    sets = [words[place + 1].partition("=") for place, word in enumerate(words) if word == "--set"]
    values = {name: yaml.safe_load(value) for name, _, value in sets}
    if (ROOT / name).is_file():
        read_parameters(ROOT / name, values)
    assert set(values) <= set(Parameters.model_fields)


@pytest.mark.parametrize(("page", "words"), all_commands("make"))
def test_a_target_of_make_exists_and_takes_its_variables(page, words):
    makefile = read(ROOT / "Makefile")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    assert words[0] in targets
    for word in words[1:]:
        name, _, value = word.partition("=")
        assert f"$({name})" in makefile
        if name == "PARAMETERS":
            assert exists(value, page)
        if name == "EDITION":
            check_edition_name(value)


@pytest.mark.parametrize(("page", "words"), all_commands("papermill"))
def test_a_notebook_exists_and_has_the_parameters_that_are_given(page, words):
    notebook = nbformat.read(ROOT / words[0], as_version=4)
    cell = next(cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    for place, word in enumerate(words):
        if word == "-y":
            (name,) = yaml.safe_load(words[place + 1])
            assert re.search(rf"^{name} = ", cell.source, re.MULTILINE)
        if word == "-f":
            assert exists(words[place + 1], page)


@pytest.mark.parametrize(("page", "words"), all_commands("cp"))
def test_what_is_copied_exists(page, words):
    assert (ROOT / words[0]).is_file()


@pytest.mark.parametrize("page", [*GUIDES, ROOT / "CONTRIBUTING.md"], ids=lambda page: page.stem)
def test_files_and_links_that_are_named_exist(page):
    text = FENCE.sub("", read(page))
    for name in re.findall(r"`((?:notebooks|study|data|tests|requirements)/[^`<>* ]*)`", text):
        assert exists(name, page), name
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        assert (page.parent / target).is_file(), target


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_parameters_named_in_a_guide_exist(page):
    known = set(Parameters.model_fields)
    shown = re.findall(
        r"`(cool_to_c|cool_deadline_s|throttled_below_share|clock_lock_mhz|min_run_s|\w+_tokens|load_format|server_flags)`",
        read(page),
    )
    assert set(shown) <= known


def test_reasons_named_in_the_guides_are_those_of_validity():
    text = read(ROOT / "docs/guide/reading-verdicts.md").partition("## Runs that do not count")[2]
    named = set(re.findall(r"`(\w+_\w+)`", text))
    assert named
    assert named <= set(CHECKS)


def test_the_example_level_is_the_one_on_file():
    (block,) = re.findall(r"```yaml\n(.*?)```", read(ROOT / "docs/guide/own-model-levels-pool.md"), re.DOTALL)
    (name,) = shown = yaml.safe_load(block)
    files = (ROOT / "notebooks/parameters/levels").glob("*.yaml")
    known = [levels[name] for path in files if name in (levels := yaml.safe_load(read(path)))]
    assert any(shown[name].items() <= one.items() for one in known)


@pytest.mark.usefixtures("fake_vllm")
def test_blocks_of_two_machines_gathered_together_are_whole(small_study, tmp_path):
    """What docs/guide/cluster.md says of machines without Ray, step by step."""
    asked = {**small_study, "levels": ["O0"], "users": [1]}
    for name, seed in (("node1", 1), ("node2", 2)):
        follow_session(make_parameters({**asked, "seeds": [seed], "data_dir": str(tmp_path / name)}))
        shutil.copytree(tmp_path / name / "raw" / "small", tmp_path / "incoming" / name / "raw" / "small")
    incoming = [str(tmp_path / "incoming" / name) for name in ("node1", "node2")]
    assert main(["gather", "small", *incoming, "--data-dir", str(tmp_path / "home")]) == 0
    store = Store(tmp_path / "home", "small")
    assert check_study(store) == []
    assert [session.session_id for session in store.read().sessions] == ["1", "2"]
    assert {run.seed for run in store.read().runs} == {1, 2}


def test_the_citation_is_valid_cff():
    cff = yaml.safe_load(read(ROOT / "CITATION.cff"))
    assert {"cff-version", "message", "title", "authors"} <= set(cff)  # required by the 1.2.0 schema
    assert cff["cff-version"] == "1.2.0"
    assert cff["authors"] == [{"name": "The vllm-compile-study authors"}]
    assert cff["type"] == "software"
    pyproject = read(ROOT / "pyproject.toml")
    assert f'version = "{cff["version"]}"' in pyproject
    assert f'license = "{cff["license"]}"' in pyproject
