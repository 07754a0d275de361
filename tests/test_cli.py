"""The command line as a person meets it: exit codes, and one line that says what would work."""

import json
import shutil
import signal
import statistics
import subprocess
import sys
from pathlib import Path

import pytest

from study.record_files import PACKED, read_unpacked
from study.store import Store

ROOT = Path(__file__).parent.parent
REHEARSAL = "notebooks/parameters/rehearsal.yaml"
H200 = "2026-11-h200-cooled"


def study(*arguments, cwd=ROOT, text=None):
    command = [sys.executable, "-m", "study", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, input=text, timeout=120)


def test_the_plan_names_launches_runs_and_time():
    done = study("plan", "--parameters", REHEARSAL, "--set", "data_dir=none")
    assert done.returncode == 0
    assert "9 measured launches, 18 runs, 1 unmeasured start" in done.stdout
    assert done.stdout.count("block") == 9


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["plan", "--parameters", "none.yaml"], "none.yaml"),
        (["plan", "--parameters", REHEARSAL, "--set", "users=[0]"], "users[0]"),
        (["plan", "--parameters", REHEARSAL, "--set", "user=[1]"], "did you mean 'users'"),
        (["plan", "--parameters", REHEARSAL, "--set", "users"], "name=value"),
        (["plan", "--parameters", REHEARSAL, "--set", "users=[1"], "not readable YAML"),
        (["plan", "--parameters", REHEARSAL, "--set", "waves=010"], "waves=010"),
        (["plan", "--parameters", REHEARSAL, "--set", "waves=" + "9" * 5000], "waves=999"),
        (["plan", "--parameters", REHEARSAL, "--set", "levels=[O9]"], "level 'O9' is unknown"),
        (["tables", "none"], "none"),
        (["check", "none"], "none"),
        (["decide", "none"], "none"),
        (["edition", "x", "none"], "none"),
        (["edition", "../x", H200], "../x"),
        (["startup", "none.log"], "none.log"),
        (["compare", "none", H200], "none"),
        (["calibrate", "--blocks", "1"], "blocks"),
        (["calibrate", "--margin", "0"], "margin"),
        (["calibrate", "--seed", "-1"], "seed -1"),
    ],
)
def test_unusable_input_is_one_line_and_exit_code_2(arguments, named):
    done = study(*arguments)
    assert done.returncode == 2, done.stderr
    assert named in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1
    assert done.stdout == ""


def test_an_unreadable_raw_file_is_named_and_nothing_is_lost(tmp_path):
    folder = tmp_path / "raw" / H200
    shutil.copytree(ROOT / "data/raw" / H200, folder)
    spoiled = folder / "run-b1-O3-u1-a1.json"
    held = read_unpacked(spoiled)
    spoiled.with_name(f"{spoiled.name}{PACKED}").unlink(missing_ok=True)
    spoiled.write_bytes(held[:100])
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    for command in ("tables", "decide", "check"):
        done = study(command, H200, "--data-dir", tmp_path)
        assert done.returncode in (1, 2)
        assert spoiled.name in done.stderr + done.stdout
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_startup_log_comes_back_as_json():
    log = ROOT / "tests/data/h200/startup-O2-cold.log"
    done = study("startup", log)
    assert json.loads(done.stdout)["init_engine_s"] == 159.39
    assert json.loads(study("startup", "-", text=log.read_text()).stdout) == json.loads(done.stdout)


def test_advice_from_one_block_is_not_enough_evidence():
    done = study("decide", H200)
    assert done.returncode == 0
    assert "not enough evidence" in done.stdout


def test_commands_work_from_the_notebooks_folder():
    done = study("plan", "--parameters", "parameters/rehearsal.yaml", cwd=ROOT / "notebooks")
    assert done.returncode == 0


def test_the_committed_records_are_whole():
    done = study("check", H200)
    assert (done.returncode, done.stdout.strip()) == (0, "every record is whole and belongs here")


def test_the_committed_tables_come_from_the_committed_records(tmp_path):
    shutil.copytree(ROOT / "data/raw" / H200, tmp_path / "raw" / H200)
    assert study("tables", H200, "--data-dir", tmp_path).returncode == 0
    built = {path.name: path.read_bytes() for path in (tmp_path / "processed" / H200).iterdir()}
    kept = {path.name: path.read_bytes() for path in (ROOT / "data/processed" / H200).iterdir()}
    assert built == kept


def median_tpot_ms(run):
    """Return a run's median TPOT by its definition, from the record itself."""
    load = run.load.requests
    seconds = zip(load.latency_s, load.ttft_s, load.output_tokens, strict=True)
    return statistics.median(1e3 * (latency - first) / (tokens - 1) for latency, first, tokens in seconds)


def test_the_h200_beside_the_last_edition_is_of_other_cards_and_no_verdict():
    done = study("compare", "2026.10", H200)
    assert done.returncode == 0, done.stderr
    assert "60.36" in done.stdout
    runs = [run for run in Store(ROOT / "data", H200).read().runs if (run.level, run.users) == ("default", 1)]
    assert f"{statistics.median(map(median_tpot_ms, runs)):.2f} ms" in done.stdout
    assert study("compare", "2026.10", H200, "--markdown").stdout.startswith("#")


def test_calibration_tells_the_error_rates_in_under_a_minute():
    done = study("calibrate", "--blocks", "5", "--effect", "0.02")
    assert done.returncode == 0
    assert "20,000 simulated studies" in done.stdout


TELLING = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # behind a shell it may be ignored
from study.__main__ import main
from study.analyze import calibrate
draw = calibrate.draw_log_times
def tell(*given):
    print("drawing", flush=True)
    return draw(*given)
calibrate.draw_log_times = tell
sys.exit(main(["calibrate", "--studies", "2000000"]))
"""
"""A long calibration that tells when it computes: C extensions make an ImportError of an interrupt of their import."""


def test_an_interrupt_is_one_line():
    command = [sys.executable, "-c", TELLING]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "drawing\n"
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert (process.returncode, said) == (130, "study: interrupted\n")
