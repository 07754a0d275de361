"""A fake API server: answers the paths that the study asks, after a delay, with faults on demand.

Faults come by environment, `FAKE_VLLM_FAULT`: `die` (ends while loading), `hang` (never healthy), `no_token`,
`stubborn` (ignores SIGINT and SIGTERM), `orphan` (a child outlives the server). `FAKE_VLLM_FAULT_LEVEL` limits them to
servers whose command line has that flag.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


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


class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path.startswith("/server_info"):
            self.reply(config())
        elif self.path == "/metrics":
            self.reply(
                'vllm:prefix_cache_queries_total{engine="0"} 5.0\nvllm:prefix_cache_hits_total{engine="0"} 0.0\n'
                'vllm:num_preemptions_total{engine="0"} 0.0\n'
            )
        else:
            self.reply({}, 503 if FAULT == "hang" else 200)

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.headers.get("Authorization") != f"Bearer {os.environ['VLLM_API_KEY']}":
            self.reply({"error": "Unauthorized"}, 401)
        else:
            self.reply({"usage": {"completion_tokens": 0 if FAULT == "no_token" else 1}})

    def reply(self, body, status=200):
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main():
    print("INFO 11-29 12:00:00 [api_server.py:1] fake server starting", flush=True)
    if FAULT == "stubborn":
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if FAULT == "orphan":
        subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
    time.sleep(float(os.environ.get("FAKE_VLLM_START_S", "0.1")))
    if FAULT == "die":
        print("ValueError: the fake model does not fit", flush=True)
        sys.exit(1)
    server = ThreadingHTTPServer((option("--host"), int(option("--port"))), Handler)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        time.sleep(float(os.environ.get("FAKE_VLLM_STOP_S", "0")))
        print("INFO:     Shutting down", flush=True)


if __name__ == "__main__":
    main()
