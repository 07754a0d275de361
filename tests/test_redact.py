import hashlib
import sys
from pathlib import Path

from study.measure.redact import redact, redact_log


def test_folders_of_this_machine_are_replaced_everywhere(tmp_path):
    root = tmp_path / "project"
    value = {
        "command": [sys.executable, "-m", "x", f"{root}/models/m"],
        "cache": f"{Path.home()}/.cache/vllm",
        "scratch": f"{tmp_path}/other",
        "number": 3,
        "nothing": None,
    }
    plain = redact(value, root)
    assert plain["command"] == ["python", "-m", "x", "./models/m"]
    assert plain["cache"] == "~/.cache/vllm"
    assert str(tmp_path) not in str(plain)
    assert (plain["number"], plain["nothing"]) == (3, None)


def test_a_log_loses_keys_folders_and_lines_of_requests(tmp_path):
    log = tmp_path / "log"
    log.write_text(
        f'INFO loading {tmp_path}/m with key-123\nINFO: 127.0.0.1 - "POST /v1/completions HTTP/1.1" 200 OK\nINFO done\n'
    )
    digest = redact_log(log, tmp_path, "key-123")
    assert log.read_text() == "INFO loading ./m with <key>\nINFO done\n"
    assert digest == hashlib.sha256(log.read_bytes()).hexdigest()


def test_a_missing_log_has_no_hash(tmp_path):
    assert redact_log(tmp_path / "none", tmp_path) is None
