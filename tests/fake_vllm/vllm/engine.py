"""A fake engine process, and what it leaves: only where `FAKE_VLLM_ENGINE` asks for it.

The parts of a launch write where they are to the file `FAKE_VLLM_TRACE`, a line `<stage> <process id>` each.
"""

import os
import signal
import sys
import tempfile
import threading
import time
import uuid
from multiprocessing import resource_tracker, shared_memory


def trace(stage):
    """Tell that a stage has begun."""
    path = os.environ.get("FAKE_VLLM_TRACE")
    if path:
        with open(path, "a") as file:
            file.write(f"{stage} {os.getpid()}\n")


class Engine:
    """A process of its own that lives until a signal ends it, as vLLM's does even without its API server."""

    def __init__(self):
        self.dead = False
        memory = shared_memory.SharedMemory(create=True, size=64)
        with open(os.path.join(tempfile.gettempdir(), f"vllm_dist_{uuid.uuid4().hex}"), "w"):
            pass
        self.pid = os.fork()
        if self.pid == 0:
            trace("engine")
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            while memory.size:
                time.sleep(60)
        # As vLLM's reader ends do, the parent lets go: the engine alone has it mapped, their tracker removes it.
        memory.close()
        self._memory = memory

    def poll(self):
        """Return the engine's exit code, None while it lives."""
        ended, status = os.waitpid(self.pid, os.WNOHANG)
        return os.waitstatus_to_exitcode(status) if ended else None

    def watch(self):
        """End the server a moment after the engine, in vLLM's words."""
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self):
        while self.poll() is None:
            time.sleep(0.02)
        self.dead = True
        print(
            "(APIServer pid=1) ERROR 11-29 12:00:01 [async_llm.py:871] EngineDeadError: EngineCore encountered an"
            " issue. See stack trace (above) for the root cause.",
            flush=True,
        )
        time.sleep(0.3)
        self.remove_memory()
        os._exit(0)

    def stop(self):
        """End the engine and remove what it had."""
        os.kill(self.pid, signal.SIGKILL)
        self.remove_memory()

    def remove_memory(self):
        """Remove the shared memory, as an orderly end does."""
        try:
            self._memory.unlink()
        except FileNotFoundError:
            resource_tracker.unregister(self._memory._name, "shared_memory")

    def load(self, length_s):
        """Wait as long as loading takes; an engine that dies meanwhile ends the server, in vLLM's words."""
        deadline = time.monotonic() + length_s
        while time.monotonic() < deadline:
            code = self.poll()
            if code is not None:
                said = "Engine core initialization failed. See root cause above. Failed core proc(s):"
                print(f"RuntimeError: {said} {{'EngineCore': {code}}}", flush=True)
                self.remove_memory()
                sys.exit(1)
            time.sleep(0.02)
