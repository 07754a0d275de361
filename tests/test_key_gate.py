"""The middleware that asks for the key on every path."""

import asyncio
import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from study.measure.key_gate import CONFIGURATION_PATH, KeyGate
from study.measure.model import prepare_model

ROOT = Path(__file__).parent.parent
KEY = "a-key-of-this-launch"


class Application:
    """What stands behind the gate: remembers what reached it."""

    def __init__(self):
        self.seen = []

    async def __call__(self, scope, receive, send):
        self.seen.append((scope, receive, send))


@pytest.fixture
def gate(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", KEY)
    application = Application()
    return KeyGate(application), application


def ask(gate, scope):
    """What the gate itself answers to a scope."""
    sent = []

    async def send(message):
        sent.append(message)

    asyncio.run(gate(scope, None, send))
    return sent


def scope_of(*authorizations, kind="http", method="GET"):
    headers = [(b"host", b"127.0.0.1"), *((b"authorization", value) for value in authorizations)]
    return {"type": kind, "method": method, "path": "/metrics", "headers": headers}


HOSTILE = (
    (),
    (b"",),
    (b"Bearer ",),
    (b"Bearer wrong",),
    (f"Bearer {KEY}x".encode(),),
    (f"Bearer {KEY}"[:-1].encode(),),
    (f"Basic {KEY}".encode(),),
    (KEY.encode(),),
    (f"Bearer {KEY}\x00".encode(),),
    (b"Bearer \xff\xfe",),
    (b"Bearer wrong", f"Bearer {KEY}".encode()),
)


@pytest.mark.parametrize("authorizations", HOSTILE)
def test_a_request_without_the_key_is_answered_401_and_goes_no_further(gate, authorizations):
    start, body = ask(gate[0], scope_of(*authorizations))
    assert (start["type"], start["status"]) == ("http.response.start", 401)
    assert dict(start["headers"])[b"content-length"] == str(len(body["body"])).encode()
    assert gate[1].seen == []


def test_a_preflight_request_is_no_way_around(gate):
    assert ask(gate[0], scope_of(method="OPTIONS"))[0]["status"] == 401


@pytest.mark.parametrize("kind", ["http", "websocket"])
def test_with_the_key_everything_is_handed_on_as_it_came(gate, kind):
    async def receive():
        raise AssertionError("the gate read a body")

    async def send(message):
        raise AssertionError("the gate answered")

    scope = scope_of(f"Bearer {KEY}".encode(), kind=kind)
    asyncio.run(gate[0](scope, receive, send))
    assert gate[1].seen[0][0] is scope
    assert gate[1].seen[0][1:] == (receive, send)  # not wrapped: no token passes through the gate


def test_a_websocket_without_the_key_is_closed_before_it_opens(gate):
    assert ask(gate[0], scope_of(kind="websocket")) == [{"type": "websocket.close", "code": 1008}]
    assert gate[1].seen == []


def test_the_start_and_end_of_the_server_need_no_key(gate):
    asyncio.run(gate[0]({"type": "lifespan"}, None, None))
    assert len(gate[1].seen) == 1


@pytest.mark.parametrize("key", [None, ""])
def test_a_server_without_a_key_does_not_start(monkeypatch, key):
    monkeypatch.delenv("VLLM_API_KEY", raising=False)
    if key is not None:
        monkeypatch.setenv("VLLM_API_KEY", key)
    with pytest.raises(RuntimeError, match="VLLM_API_KEY is not set"):
        KeyGate(Application())


@pytest.mark.parametrize("authorizations", HOSTILE)
def test_the_configuration_needs_the_key_too(gate, authorizations):
    assert ask(gate[0], {**scope_of(*authorizations), "path": CONFIGURATION_PATH})[0]["status"] == 401


def test_a_release_that_cannot_tell_its_configuration_answers_404(gate):
    """Here nothing is behind the gate that has one; the server is asked at vLLM's own endpoint then."""
    start, body = ask(gate[0], {**scope_of(f"Bearer {KEY}".encode()), "path": CONFIGURATION_PATH})
    assert start["status"] == 404
    assert json.loads(body["body"])["error"]
    assert gate[1].seen == []


BOTH_WAYS = """
import asyncio, json, os, sys, types
os.environ |= {"VLLM_API_KEY": "k", "VLLM_SERVER_DEV_MODE": "1"}
from vllm.engine.arg_utils import AsyncEngineArgs
from vllm.entrypoints.serve.dev.server_info import api_router
from study.measure.key_gate import CONFIGURATION_PATH, KeyGate
config = AsyncEngineArgs(model=sys.argv[1], load_format="dummy", enforce_eager=True).create_engine_config()
app = types.SimpleNamespace(state=types.SimpleNamespace(vllm_config=config))
api_router._get_system_env_info_cached = dict
vllms = json.loads(asyncio.run(api_router.show_server_info(types.SimpleNamespace(app=app), "json")).body)
sent = []
async def send(message):
    sent.append(message)
scope = {"type": "http", "app": app, "path": CONFIGURATION_PATH, "headers": [(b"authorization", b"Bearer k")]}
asyncio.run(KeyGate(None)(scope, None, send))
ours = json.loads(sent[1]["body"])
print(json.dumps([sent[0]["status"], ours == {"vllm_config": vllms["vllm_config"]}, len(ours["vllm_config"])]))
"""


def test_the_configuration_is_the_one_that_vllms_own_endpoint_tells():
    model = prepare_model("notebooks/parameters/models/rehearsal.yaml", "dummy", ROOT)
    command = [sys.executable, "-c", BOTH_WAYS, model]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=300)
    assert done.returncode == 0, done.stderr[-1000:]
    status, equal, fields = json.loads(done.stdout.splitlines()[-1])
    assert (status, equal) == (200, True)
    assert fields > 20


def test_the_gate_brings_nothing_heavy_into_the_server():
    heavy = {"pydantic", "psutil", "yaml", "numpy"}
    code = f"import sys, study.measure.key_gate as _\nprint(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, timeout=30)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_request_costs_microseconds(gate):
    scope = scope_of(f"Bearer {KEY}".encode())
    scope["headers"] = [(b"name-%d" % number, b"value") for number in range(10)] + scope["headers"]
    fastest_s = min(time_calls(gate[0], scope) for _ in range(20))
    assert fastest_s < 50e-6  # a token takes milliseconds


def time_calls(gate, scope, calls=200):
    started = time.perf_counter()
    for _ in range(calls):
        gate(scope, None, None).close()
    return (time.perf_counter() - started) / calls
