"""Clock locks on several cards: all are held, or none. On fakes alone."""

import json
import sys
from pathlib import Path

import pynvml
import pytest
from fake_nvml import OTHER_UUID, UUID

from study.errors import InputError
from study.measure.clock_lock import ClockLocks

HOLDER = str(Path(__file__).parent / "fake_clock_lock.py")


@pytest.fixture
def cards(tmp_path, monkeypatch):
    """Two cards in files of their own: which one a holder gets is told by its UUID."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    script = tmp_path / "holder.py"
    script.write_text(
        "import os, runpy, sys\n"
        f"sys.path.insert(0, {str(Path(__file__).parent)!r})\n"
        f"os.environ['FAKE_CARD'] = os.path.join({str(tmp_path)!r}, sys.argv[1] + '.json')\n"
        f"runpy.run_path({HOLDER!r}, run_name='__main__')\n"
    )
    return tmp_path


def calls(cards, uuid):
    path = cards / f"{uuid}.json"
    return json.loads(path.read_text())["calls"] if path.is_file() else []


def hold(cards):
    return ClockLocks.hold([UUID, OTHER_UUID], 600, (sys.executable, str(cards / "holder.py")))


def test_every_card_is_locked_and_set_free(cards):
    locks = hold(cards)
    assert locks.held()
    assert [calls(cards, uuid) for uuid in (UUID, OTHER_UUID)] == [["lock 600-600"]] * 2
    locks.release()
    assert [calls(cards, uuid) for uuid in (UUID, OTHER_UUID)] == [["lock 600-600", "reset"]] * 2
    assert not locks.held()


def test_a_card_that_refuses_is_named_and_leaves_none_locked(cards):
    refusal = {"calls": [], "refuse": pynvml.NVML_ERROR_NO_PERMISSION}
    (cards / f"{OTHER_UUID}.json").write_text(json.dumps(refusal))
    with pytest.raises(InputError) as caught:
        hold(cards)
    assert str(caught.value).startswith(f"card 2 of 2 ({OTHER_UUID}): clock_lock_mhz 600: the clock cannot be set")
    assert "\n" not in str(caught.value)
    assert calls(cards, UUID) == ["lock 600-600", "reset"]
    assert calls(cards, OTHER_UUID) == []
