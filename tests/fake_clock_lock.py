"""The holder of a clock lock, on a card that lies in a JSON file: no real card is ever set.

    FAKE_CARD=card.json python tests/fake_clock_lock.py UUID --mhz N | --undo

The file holds `locked_mhz`, `calls` (what was set and reset, in order), `refuse` (an NVML error code for setting) and
`reasons` (event reasons before anything is set).
"""

import json
import os
import sys
from pathlib import Path

import pynvml
from fake_nvml import FakeCard, FakeNvml

from study.measure.clock_lock import main


class CardFile:
    """The state of the one card, on disk, so that several processes share it."""

    def __init__(self, path):
        self.path = Path(path)

    def read(self):
        return json.loads(self.path.read_text()) if self.path.is_file() else {"calls": []}

    def change(self, call, **values):
        state = self.read()
        whole = self.path.with_suffix(".new")
        whole.write_text(json.dumps({**state, **values, "calls": [*state["calls"], call]}))
        whole.replace(self.path)  # a reader never sees a part


class LockableNvml(FakeNvml):
    """The stand-in for NVML with the two calls that set something."""

    def __init__(self, state, card):
        super().__init__(card)
        self.state = state

    def nvmlDeviceGetHandleByUUID(self, uuid):
        return next(card for card in self.cards if card.uuid == uuid)

    def nvmlDeviceGetApplicationsClock(self, card, kind):
        raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

    def nvmlDeviceSetGpuLockedClocks(self, card, low, high):
        refusal = self.state.read().get("refuse")
        if refusal:
            raise pynvml.NVMLError(refusal)
        self.state.change(f"lock {low}-{high}", locked_mhz=high)

    def nvmlDeviceResetGpuLockedClocks(self, card):
        self.state.change("reset", locked_mhz=None)


if __name__ == "__main__":
    card_file = CardFile(os.environ["FAKE_CARD"])
    fake = FakeCard(uuid=sys.argv[1], reasons=card_file.read().get("reasons", 0))
    sys.exit(main(sys.argv[1:], LockableNvml(card_file, fake)))
