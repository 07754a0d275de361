"""A fake API server: answers the paths that the study asks, after a delay, with faults on demand.

Faults come by environment, `FAKE_VLLM_FAULT`: `die` (ends while loading), `hang` (never healthy), `no_token`,
`leave` (SIGTERM after the first token), `stubborn` (ignores SIGINT and SIGTERM), `orphan` (a child outlives it),
`open` (a second socket on all addresses). `FAKE_VLLM_FAULT_LEVEL` limits them to servers whose command line has that
flag. `FAKE_VLLM_SAY` is printed, its `$VARIABLES` replaced.
"""

import asyncio
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from vllm.engine import Engine, trace


def option(name, default=None):
    arguments = sys.argv
    return arguments[arguments.index(name) + 1] if name in arguments else default


LEVEL = next((int(item[2:]) for item in sys.argv if item.startswith("-O")), 2)
EAGER = "--enforce-eager" in sys.argv
FAULT = os.environ.get("FAKE_VLLM_FAULT", "")
if os.environ.get("FAKE_VLLM_FAULT_LEVEL", "") not in ["", *sys.argv]:
    FAULT = ""


def config():
    plain = LEVEL == 0 or EAGER
    return {
        "vllm_config": {
            "model_config": {"enforce_eager": EAGER, "model": option("--model")},
            "cache_config": {"enable_prefix_caching": False, "num_gpu_blocks": 64, "kv_cache_size_tokens": 8192},
            "compilation_config": {"mode": 0 if plain else 2, "cudagraph_mode": 0, "cudagraph_capture_sizes": []},
            "kernel_config": {"enable_flashinfer_autotune": LEVEL > 0, "enable_jit_warmup": not EAGER},
            "optimization_level": LEVEL,
            "instance_id": str(time.time_ns()),
        }
    }


def gate():
    module, _, name = option("--middleware").rpartition(".")
    return getattr(importlib.import_module(module), name)


class Handler(BaseHTTPRequestHandler):
    engine = None

    def passes(self):
        """Whether the middleware of the command line hands the request on, as it would in vLLM's application."""
        said = []

        async def application(scope, receive, send):
            said.append("passed")

        async def send(message):
            said.append(message)

        headers = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        asyncio.run(self.gate(application)({"type": "http", "path": self.path, "headers": headers}, None, send))
        if said != ["passed"]:
            self.reply(said[1]["body"].decode(), said[0]["status"])
        return said == ["passed"]

    def do_GET(self):
        if not self.passes():
            return
        if self.path.startswith("/server_info"):
            self.reply(config())
        elif self.path == "/metrics":
            self.reply(
                'vllm:prefix_cache_queries_total{engine="0"} 5.0\nvllm:prefix_cache_hits_total{engine="0"} 0.0\n'
                'vllm:num_preemptions_total{engine="0"} 0.0\n'
            )
        else:
            self.reply({}, 503 if FAULT == "hang" or (self.engine and self.engine.dead) else 200)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.passes():
            trace("first_token")
            time.sleep(float(os.environ.get("FAKE_VLLM_FIRST_TOKEN_S", "0")))
            self.reply({"usage": {"completion_tokens": 0 if FAULT == "no_token" else 1}})
            if FAULT == "leave":
                os.kill(os.getpid(), signal.SIGTERM)

    def reply(self, body, status=200):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    print("INFO 11-29 12:00:00 [api_server.py:1] fake server starting", flush=True)
    said = os.path.expandvars(os.environ.get("FAKE_VLLM_SAY", ""))
    print(said, flush=True)
    if FAULT == "stubborn":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAULT == "orphan":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    trace("spawn")
    start_s = float(os.environ.get("FAKE_VLLM_START_S", "0.1"))
    engine = Engine() if os.environ.get("FAKE_VLLM_ENGINE") else None
    trace("loading")
    engine.load(start_s) if engine else time.sleep(start_s)
    if FAULT == "die":
        print("ValueError: the fake model does not fit", " ".join(said.split()), flush=True)
        sys.exit(1)
    other = socket.create_server(("", 0)) if FAULT == "open" else None
    Handler.gate = gate()
    if engine:
        engine.watch()
        Handler.engine = engine
    server = ThreadingHTTPServer((option("--host"), int(option("--port"))), Handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        trace("stop")
        time.sleep(float(os.environ.get("FAKE_VLLM_STOP_S", "0")))
        print("INFO:     Shutting down", flush=True)
        if engine:
            engine.stop()
    if other:
        other.close()


if __name__ == "__main__":
    main()
