"""What an edition prints beside its studies: resolved sets, what levels mean in a release, claims that do not hold."""

import hashlib
import json

import pytest
import yaml
from edition_study import make_root, write_study
from make_records import RESOLVED, make_launch, make_outcome

from study.analyze.claims import CheckedClaim, ClaimVerdicts, CorrectForm, Evidence, verdicts_json
from study.analyze.switches_diff import diff_sets
from study.design.card import read_card
from study.design.resolved_set import AtWorker, ResolvedFor, ResolvedLevel, ResolvedSet
from study.errors import InputError
from study.publish.claims_part import list_misleading, say_claims, warn_of_claims
from study.publish.edition import write_edition
from study.publish.switches_part import list_meanings, list_unrecorded, say_set, warn_of_meanings, warn_of_set

HOSTILE = "<script>alert(1)</script>|`x`](javascript:y) **b**"


def make_level(name, *, mode=3, graphs=(2, 1), **more):
    """Make a resolved level; `resolved=None` with a refusal makes one that vLLM refuses."""
    graphs = list(graphs) if isinstance(graphs, tuple) else graphs
    config = {**RESOLVED["compilation_config"], "mode": mode, "cudagraph_mode": graphs}
    given = {"resolved": {**RESOLVED, "compilation_config": config}, "refusal": None, "llm_differs": None}
    return ResolvedLevel(**{"name": name, "at_worker": None, **given, **more})


def make_set(*levels, version="0.31.0", **more):
    card = read_card("sm=9.0,memory=141GiB,tp=1")
    resolved_for = ResolvedFor(platform="cuda", pretended=card, device_name="")
    values = {"vllm_version": version, "resolved_for": resolved_for, "model": "m", "levels": levels}
    return ResolvedSet(**{**values, **more})


def make_claim(name, verdict="false", *, holds=True, says="It was so."):
    correct = CorrectForm(says=f"{name} is otherwise.", holds=holds, evidence=())
    evidence = (Evidence(holds=verdict == "true", said=f"vLLM says {name}"),)
    named = {"id": name, "says": says, "where": "part 1", "card": "cpu", "because": ""}
    return CheckedClaim(**named, verdict=verdict, evidence=evidence, correct=correct)


def make_verdicts(*claims, version="0.31.0"):
    return ClaimVerdicts(title="A text", date="2026-03", claimed_version=None, vllm_version=version, claims=claims)


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    folder = make_root(tmp_path_factory.mktemp("project"))
    store = write_study(folder / "data", "one", blocks=1, costs={"default": 0.0, "O0": 0.05})
    first = store.read().launches[0]
    shared = {name: getattr(first, name) for name in ("study", "fingerprint", "comparable")}
    failed = make_outcome(status="failed", stage="ready", message="out of memory")
    store.write(make_launch("lost", 1, first_token_s=None, resolved=None, outcome=failed, **shared))
    write_study(folder / "data", "two", blocks=1, session="throttled", costs={"default": 0.0, "O3": 0.0})
    return folder


def name_files(root, name, studies=("one",), **files):
    """Write an edition's YAML that names files, which are written too."""
    folder = root / "editions" / name
    folder.mkdir(parents=True, exist_ok=True)
    named = {}
    for key, content in files.items():
        path = f"data/reference/{name}-{key}.json"
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        text = content.dump() if isinstance(content, ResolvedSet) else verdicts_json(content)
        (root / path).write_text(text, encoding="utf-8")
        named[key] = path
    values = {"edition": name, "studies": list(studies), **named}
    (folder / "edition.yaml").write_text(yaml.safe_dump(values), encoding="utf-8")


@pytest.fixture(scope="module")
def edition(root):
    """An edition of two studies that names all four files, hostile texts in them."""
    hostile = make_level("bad", flags=(HOSTILE,), use_for=HOSTILE, resolved=None, refusal=HOSTILE)
    told = [make_level(name) for name in ("default", "O0", "O3")]
    new = make_set(*told, make_level("lost", graphs=1), hostile, version="0.32.0", model=HOSTILE)
    old = make_set(*told, make_level("lost", graphs=2), version="0.31.0", model=HOSTILE)
    claims = make_verdicts(make_claim("flag"), make_claim("hostile", says=HOSTILE), version="0.32.0")
    before = make_verdicts(make_claim("flag", "true"))
    files = {"switches": new, "switches_before": old, "claims": claims, "claims_before": before}
    name_files(root, "all", ("one", "two"), **files)
    return write_edition(root, "all", [])


def section(folder, name="section.md"):
    return (folder / name).read_text(encoding="utf-8")


def rows_of(sheet):
    """Return first cell to the others."""
    return {row[0]: row[1:] for row in sheet.rows}


def test_only_levels_of_which_no_record_tells_are_taken_from_the_set():
    given = make_set(make_level("default"), make_level("O0", mode=0, graphs=0), make_level("lost", graphs=1))
    sheet = list_unrecorded(given, {"default", "O0"})
    assert sheet.title.startswith("Resolved without a running server")
    assert {name: cells[1:3] for name, cells in rows_of(sheet).items()} == {
        "lost": ("on (VLLM_COMPILE, inductor)", "PIECEWISE")
    }


def test_a_set_that_adds_nothing_has_no_table():
    assert list_unrecorded(make_set(make_level("default")), {"default"}) is None


def test_the_set_says_what_it_was_resolved_for():
    said = say_set(make_set(make_level("lost")))
    assert "a pretended card (sm=9.0,memory=141GiB,tp=1), no GPU asked, model m" in said


def test_levels_that_resolved_alike_are_named_though_a_record_tells_of_one():
    given = make_set(make_level("O2"), make_level("O3"), make_level("O1", graphs=1))
    rows = rows_of(list_unrecorded(given, {"O3"}))
    assert "resolved like O3" in rows["O2"][3]
    assert "resolved like" not in rows["O1"][3]


def test_levels_that_show_the_same_and_are_not_alike_say_in_what():
    config = {**RESOLVED["compilation_config"], "splitting_ops": []}
    other = make_level("whole", resolved={**RESOLVED, "compilation_config": config})
    rows = rows_of(list_unrecorded(make_set(make_level("default"), other, make_level("O1", graphs=1)), {"default"}))
    assert rows["whole"][3] == "differs from default in compilation_config.splitting_ops"
    assert rows["O1"][3] == "nothing"


def test_a_changed_request_and_a_refusal_are_said():
    worker = AtWorker(backend="FLASH_ATTN", graph_support="UNIFORM_BATCH", cudagraph_mode=[2, 1])
    given = make_set(
        make_level("none", mode=0, graphs=0, requested={"compilation_config.cudagraph_mode": 1}),
        make_level("full", graphs=2, at_worker=worker),
        make_level("bad", resolved=None, refusal="no such backend"),
    )
    rows = rows_of(list_unrecorded(given, set()))
    assert "compilation_config.cudagraph_mode asked PIECEWISE, became NONE" in rows["none"][3]
    assert "FULL would become FULL_AND_PIECEWISE at a worker (FLASH_ATTN supports UNIFORM_BATCH)" in rows["full"][3]
    assert rows["bad"][3] == "refused by vLLM: no such backend"


@pytest.mark.parametrize(("ran", "warned"), [({"0.32.0"}, True), ({"0.31.0", "0.32.0"}, True), ({"0.31.0"}, False)])
def test_another_release_than_the_studies_ran_is_a_warning(ran, warned):
    assert bool(warn_of_set(make_set(make_level("lost")), ran)) is warned
    assert bool(warn_of_claims(make_verdicts(make_claim("flag")), frozenset(ran))) is warned


def test_what_each_level_means_in_this_release():
    old = make_set(make_level("O1", graphs=1), make_level("O0", mode=0, graphs=0), make_level("gone"), version="0.30.2")
    new = make_set(make_level("O1"), make_level("O0", mode=0, graphs=0), make_level("O9"))
    sheet = list_meanings(diff_sets(old, new))
    rows = rows_of(sheet)
    assert sheet.title.startswith("What each level means in this release: vLLM 0.30.2 to 0.31.0.")
    assert rows["O1"][0] == "cudagraph_mode: PIECEWISE → FULL_AND_PIECEWISE"
    assert rows["O0"][0] == "the same"
    assert rows["O9"][0].startswith("new in this set")
    assert rows["gone"][0].startswith("no longer in this set")


@pytest.mark.parametrize(
    ("new", "said"),
    [
        (["a", "b", "d"], "splitting_ops gains d and loses c"),
        (["c", "b", "a"], "splitting_ops is in another order"),
        (None, "splitting_ops: ['a', 'b', 'c'] → none"),
    ],
)
def test_lists_that_differ_say_what_they_gain_and_lose(new, said):
    sides = [
        make_level("O1", resolved={**RESOLVED, "compilation_config": {"mode": 3, "splitting_ops": ops}})
        for ops in (["a", "b", "c"], new)
    ]
    sheet = list_meanings(diff_sets(make_set(sides[0]), make_set(sides[1])))
    assert rows_of(sheet)["O1"] == ("the same", f"compilation_config.{said}")


@pytest.mark.parametrize(
    ("model", "said"), [("a", ()), ("b", ("Not every difference is of the release: model: a → b.",))]
)
def test_sets_of_other_models_are_not_set_beside_each_other_in_silence(model, said):
    assert (
        warn_of_meanings(diff_sets(make_set(make_level("O1"), model="a"), make_set(make_level("O1"), model=model)))
        == said
    )


def test_claims_that_do_not_hold_are_listed_with_their_correct_form():
    claims = (make_claim("flag"), make_claim("fine", "true"), make_claim("lines", "changed", holds=None))
    sheet = list_misleading(make_verdicts(*claims))
    assert sheet.rows == (
        ("It was so.", "false", "flag is otherwise. (checked)", "vLLM says flag"),
        ("It was so.", "changed", "lines is otherwise. (not checked)", "vLLM says lines"),
    )
    assert say_claims(make_verdicts(*claims))[0].endswith("3 claims: 1 true, 1 false, 1 changed.")


def test_a_correct_form_that_fails_is_not_printed_as_right():
    verdicts = make_verdicts(make_claim("flag", holds=False))
    assert list_misleading(verdicts).rows[0][2] == "flag is otherwise. (fails too)"
    assert say_claims(verdicts)[0].endswith("The correct form fails too: flag.")


@pytest.mark.parametrize(
    ("then", "said"), [("true", "flag: true, now false."), ("false", "every verdict is the same.")]
)
def test_verdicts_that_moved_since_an_earlier_release_are_said(then, said):
    before = make_verdicts(make_claim("flag", then), version="0.30.0")
    assert say_claims(make_verdicts(make_claim("flag")), before)[1] == f"Compared with vLLM 0.30.0: {said}"


def test_an_edition_prints_what_it_names(edition):
    text = section(edition)
    assert [line[3:] for line in text.splitlines() if line.startswith("## ")][-3:] == [
        *("Decide", "What changed since 2026-03", "Stamp"),
    ]
    part = text.split("## What each level switches")[1].split("## What the start costs")[0]
    assert [line[4:] for line in part.splitlines() if line.startswith("### ")] == [
        *("one", "two", "Resolved without a running server", "What each level means in this release"),
    ]
    marked = part.split("**Resolved without a running server")[1].split("###")[0]
    assert [line.split(" |")[0] for line in marked.splitlines() if line.startswith("| ")][2:] == ["| lost", "| bad"]
    assert r"cudagraph\_mode: FULL → PIECEWISE" in part
    assert "> **These levels were resolved by vLLM 0.32.0; the studies ran 0.31.0.**" in part
    assert "| It was so. | false | flag is otherwise. (checked) | vLLM says flag |" in text
    assert "Compared with vLLM 0.31.0: flag: true, now false." in text
    assert '<section id="claims">' in section(edition, "index.html")


def test_hostile_text_is_shown_and_not_carried_out(edition):
    text, page = section(edition), section(edition, "index.html")
    assert "<script>" not in text
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)" in page
    assert text.count(r"\<script\>alert(1)\</script\>\|\`x\`\](javascript:y) \*\*b\*\*") == 5


def test_the_manifest_names_the_files(root, edition):
    found = json.loads(section(edition, "manifest.json"))["references"]
    assert sorted(found) == [
        *("data/reference/all-claims.json", "data/reference/all-claims_before.json"),
        *("data/reference/all-switches.json", "data/reference/all-switches_before.json"),
    ]
    for path, digest in found.items():
        assert hashlib.sha256((root / path).read_bytes()).hexdigest() == digest


def test_without_the_keys_nothing_of_it_is_there(root):
    folder = write_edition(root, "plain", ["one"])
    assert "switches" not in section(folder, "edition.yaml")
    assert "claims" not in section(folder, "edition.yaml")
    assert "references" not in json.loads(section(folder, "manifest.json"))
    assert "What changed since" not in section(folder, "index.html")
    assert "without a running server" not in section(folder)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"switches": "data/reference/none.json"}, "none.json"),
        ({"claims": "/etc/hostname"}, "a path from the project's root works"),
        ({"claims": "../x.json"}, "a path from the project's root works"),
        ({"claims_before": "data/reference/x.json"}, "claims_before needs claims beside it"),
        ({"switches_before": "data/reference/x.json"}, "switches_before needs switches beside it"),
        ({"claims": "edition.yaml"}, "edition.yaml"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_line(root, values, said):
    folder = root / "editions" / "unusable"
    folder.mkdir(parents=True, exist_ok=True)
    text = yaml.safe_dump({"edition": "unusable", "studies": ["one"], **values})
    (folder / "edition.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as error:
        write_edition(root, "unusable", [])
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_earlier_verdicts_on_another_text_are_refused(root):
    claims = {"claims": make_verdicts(make_claim("a")), "claims_before": make_verdicts(make_claim("b"))}
    name_files(root, "no-claim", **claims)
    with pytest.raises(InputError, match="has no claim of"):
        write_edition(root, "no-claim", [])
