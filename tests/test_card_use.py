"""What an edition says of the card: power, energy, host load, and what a compile level could still win."""

import json
import re
import shutil
import statistics

import pytest

from study.analyze.reference_line import ReferenceLine
from study.design.root import find_root
from study.publish.card_use import list_card_use, list_reference, read_reference_lines, say_reference
from study.publish.start_parts import read_level_parts
from study.publish.study_view import ViewOptions, read_view
from study.store import Store

ROOT = find_root()
H200 = "2026-11-h200-cooled"
CARDS = (("GPU-a", 4300.0, 3.5), ("GPU-b", 4400.0, 3.42))


@pytest.fixture(scope="module")
def view():
    return read_view(ROOT, Store(ROOT / "data", H200), ViewOptions())


def test_each_card_has_its_line_from_its_own_canary(view):
    lines = {line.machine: line for line in view.reference_lines}
    assert set(lines) == {launch.machine.unit for launch in view.records.launches}
    for line in lines.values():
        # 15.15 GB of weights at the 4.2 to 4.5 TB/s that H200s were seen to read
        assert 15.2 / 4.5 < line.least_ms < 15.2 / 4.2


def test_a_level_stands_beside_the_line_of_the_card_it_ran_on(view):
    rows = {row[0]: row for row in list_reference(view.found, view.reference_lines).rows}
    runs = view.found.runs
    eager = runs[(runs["level"] == "eager") & (runs["users"] == 1)]
    least = {line.machine: line.least_ms for line in view.reference_lines}
    times = [row.median_tpot_ms / least[row.machine] for row in eager.itertuples()]
    assert rows["eager"][3] == f"{statistics.median(times):.2f} x"
    assert rows["eager"][4] == str(len(eager))


def test_energy_of_a_token_is_power_times_time_over_tokens(view):
    rows = {(row[0], row[1]): row for row in list_card_use(view.found).rows}
    power_w = float(rows["1", "eager"][2].removesuffix(" W"))
    token_j = float(rows["1", "eager"][3].removesuffix(" J"))
    step_s = view.found.runs.query("level == 'eager' and users == 1")["n_over_throughput_ms"].median() / 1e3
    assert token_j == pytest.approx(power_w * step_s, rel=0.1)


def test_a_left_out_run_enters_no_figure(view):
    runs = view.found.runs
    assert not runs[(runs["level"] == "O0") & (runs["block"] == 1)]["counts"].any()
    counted = {(row[0], row[1]): row[-1] for row in list_card_use(view.found).rows}
    blocks = runs[(runs["level"] == "O0") & (runs["users"] == 8)]["block"].nunique()
    assert counted["8", "O0"] == str(blocks - 1)


def test_without_logs_there_is_no_line_and_the_text_says_why(tmp_path, view):
    lines = read_reference_lines(ROOT, view.records, "default", lambda launch_id: tmp_path / f"{launch_id}.log")
    assert all("no log" in text for text in say_reference(lines))
    assert list_reference(view.found, lines) is None


def test_cards_that_read_alike_are_one_paragraph():
    alike = [ReferenceLine(card, 15.0, 0.05, read_gb_s, least_ms) for card, read_gb_s, least_ms in CARDS]
    other = ReferenceLine("GPU-c", 7.5, 0.05, 4300.0, 1.76)
    without = ReferenceLine("GPU-d", reason="no canary read it")
    one, two, three = say_reference([*alike, other, without, ReferenceLine("host", reason="no GPU")])
    assert one.startswith(
        "Reference line: a token for one user reads 15.00 GB of weights and 0.05 GB of KV cache, which takes, at the "
        "bandwidth that the canary read, 3.50 ms on GPU-a (4.30 TB/s) and 3.42 ms on GPU-b (4.40 TB/s). "
    )
    assert "1.76 ms on GPU-c (4.30 TB/s). " in two
    assert three == "No reference line on GPU-d: no canary read it."


def test_a_model_folder_on_file_serves_as_well_as_a_shape(tmp_path, view):
    (tmp_path / "model").mkdir()
    shape = {"vocab_size": 151936, "hidden_size": 4096, "tie_word_embeddings": False}
    (tmp_path / "model/config.json").write_text(json.dumps(shape))
    raw = tmp_path / "raw"
    shutil.copytree(ROOT / "data/raw" / H200, raw)
    renamed = {**view.records.launches[0].comparable, "model": "model"}
    moved = [one.model_copy(update={"comparable": renamed}) for one in view.records.launches]
    records = type(view.records)(H200, tuple(moved), view.records.runs, {})
    lines = read_reference_lines(tmp_path, records, "default", lambda launch_id: raw / f"launch-{launch_id}.log")
    assert [line.least_ms for line in lines] == [line.least_ms for line in view.reference_lines]


def test_a_log_that_was_changed_since_gives_no_figure(tmp_path, view):
    raw = tmp_path / "raw"
    shutil.copytree(ROOT / "data/raw" / H200, raw)
    for log in raw.glob("launch-b*-default-a1.log"):
        log.write_text(log.read_text().replace("15.27 GiB", "1.27 GiB"))
    path = lambda launch_id: raw / f"launch-{launch_id}.log"  # noqa: E731
    lines = read_reference_lines(ROOT, view.records, "default", path)
    assert all("no log" in line.reason for line in lines)
    parts, lost = read_level_parts(view.records.launches, ["default", "eager"], path)
    (said,) = [one for one in lost if one.startswith("default")]
    assert re.fullmatch(r"default, warm: the log of launch b\d-default-a1 is not the one that was recorded", said)
    measured = {launch.level for launch in view.records.launches if not launch.fills_caches}
    assert {part.level for part in parts} == measured - {"default"}


@pytest.mark.parametrize("model", ["../outside", "x" * 5000, "a\0b", ""])
def test_a_record_that_names_anything_as_its_model_is_not_followed(tmp_path, view, model):
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/config.json").write_text("{}")
    (tmp_path / "root").mkdir()
    named = {**view.records.launches[0].comparable, "model": model}
    launches = tuple(one.model_copy(update={"comparable": named}) for one in view.records.launches)
    records = type(view.records)(H200, launches, view.records.runs, {})
    lines = read_reference_lines(tmp_path / "root", records, "default", view.store.log_path)
    assert all(line.reason == "the model's configuration is not on file here" for line in lines)
