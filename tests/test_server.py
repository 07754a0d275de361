"""The server's handling, on the stand-in for vLLM."""

import http.client
import json
import socket
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from study.design.parameters import make_parameters, read_parameters
from study.errors import InputError, ServerError
from study.measure.leftovers import LaunchFolder
from study.measure.listening import Listening
from study.measure.model import prepare_model
from study.measure.server import Server, find_port, tail_of
from study.measure.server_spec import (
    ServerSpec,
    command_of,
    environment_of,
    mask_secrets,
    recorded_environment,
)

ROOT = Path(__file__).parent.parent
PARAMETERS = make_parameters({"study": "s", "model": "m", "device": "cpu", "server_flags": ["--max-model-len", "64"]})


def spec(**fields):
    return ServerSpec("some-model", PARAMETERS, ("-O0",), {}, **fields)


@pytest.fixture
def server(fake_vllm, tmp_path):
    server = Server.start(spec(), tmp_path / "log", ROOT)
    yield server
    server.stop()


def test_the_command_is_a_list_without_a_secret():
    command = command_of(spec(), 4711)
    assert command[1:3] == ["-m", "vllm.entrypoints.openai.api_server"]
    assert "--no-enable-prefix-caching" in command
    assert command[-3:] == ["--max-model-len", "64", "-O0"]
    assert "127.0.0.1" in command
    assert not any("api-key" in part for part in command)
    assert command[command.index("--middleware") + 1] == "study.measure.key_gate.KeyGate"


def test_ready_means_our_process_and_a_token(server):
    started = time.monotonic()
    healthy = server.wait_healthy(20)
    assert started <= healthy <= server.first_token("some-model")
    assert server.resolved()["optimization_level"] == 0
    assert server.metrics() == {"prefix_queries": 5.0, "prefix_hits": 0.0, "preemptions": 0.0}


def test_the_server_listens_on_this_machine_alone(server):
    server.wait_healthy(20)
    sockets = [item for pid in server.pids() for item in psutil.Process(pid).net_connections(kind="tcp")]
    assert {item.laddr.ip for item in sockets if item.status == psutil.CONN_LISTEN} == {"127.0.0.1"}


def status_of(url, data=None, **headers):
    """The status of an answer, asked for without a proxy."""
    request = urllib.request.Request(url, data=data, headers=headers)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=30) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


@pytest.mark.parametrize("path", ["/health", "/metrics", "/server_info?config_format=json", "/v1/completions", "/none"])
@pytest.mark.parametrize("key", [None, "Bearer wrong", "Basic {key}", "bearer{key}", "Bearer {key}x", "{key}"])
def test_no_path_answers_without_the_key(server, path, key):
    server.wait_healthy(20)
    headers = {"Authorization": key.format(key=server.secret)} if key else {}
    assert status_of(server.url + path, b"{}" if path.startswith("/v1") else None, **headers) == 401


def test_a_server_that_others_can_reach_is_a_failed_launch(fake_vllm, tmp_path):
    fake_vllm.setenv("FAKE_VLLM_FAULT", "open")
    server = Server.start(spec(), tmp_path / "log", ROOT)
    try:
        with pytest.raises(ServerError, match=r"listens on (0\.0\.0\.0|::):\d+, where others can reach it") as caught:
            server.wait_healthy(20)
        assert caught.value.stage == "ready"
    finally:
        server.stop()


def test_inner_sockets_stay_on_this_machine_whatever_the_shell_says():
    shell = {"VLLM_HOST_IP": "10.0.0.7", "GLOO_SOCKET_IFNAME": "eth0", "NCCL_SOCKET_IFNAME": "eth0", "PATH": "/bin"}
    environment = environment_of(spec(), {**shell, "VLLM_LOOPBACK_IP": "10.0.0.7"}, "the-key")
    assert environment["VLLM_HOST_IP"] == "127.0.0.1"
    assert environment["GLOO_SOCKET_IFNAME"] == environment["NCCL_SOCKET_IFNAME"] == "lo"
    assert "VLLM_LOOPBACK_IP" not in environment
    assert environment["PATH"] == "/bin"


def test_a_server_never_takes_pickled_requests():
    environment = environment_of(spec(), {"VLLM_ALLOW_INSECURE_SERIALIZATION": "1"}, "the-key")
    assert "VLLM_ALLOW_INSECURE_SERIALIZATION" not in environment


@pytest.mark.server
def test_every_route_of_the_real_server_asks_for_the_key(tmp_path):
    model = prepare_model("notebooks/parameters/models/rehearsal.yaml", "dummy", ROOT)
    parameters = read_parameters(ROOT / "notebooks/parameters/rehearsal.yaml")
    folder = LaunchFolder()
    private = folder.server_environment  # vLLM's sockets stay in it
    asked = ServerSpec(model, parameters, ("-O0", "--enforce-eager"), {}, private_environment=private)
    server = Server.start(asked, tmp_path / "log", ROOT)
    try:
        server.wait_healthy(300)
        server.first_token(model)
        paths = json.loads(server._request("/openapi.json", None, 30))["paths"]
        routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
        assert {("POST", "/v1/completions"), ("GET", "/server_info"), ("POST", "/collective_rpc")} <= routes
        routes |= {("GET", path) for path in ("/openapi.json", "/docs", "/redoc", "/metrics", "/metrics/", "/nothing")}
        routes |= {("OPTIONS", "/v1/completions"), ("HEAD", "/health"), ("POST", "/invocations")}
        answers = {route: status_without_key(server.port, *route) for route in sorted(routes)}
        assert {route: status for route, status in answers.items() if status != 401} == {}
        resolved = server.resolved()  # with the key it answers
        assert resolved["model_config"]["enforce_eager"] is True
        assert "KeyGate" not in json.dumps(resolved)  # nor is the gate a part of what is compared or compiled
        assert server.metrics()["preemptions"] == 0
    finally:
        stopped = server.stop()
        folder.remove()
    assert stopped.left_over == []


def status_without_key(port, method, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request(method, path, body=b"{}" if method == "POST" else None)
        return connection.getresponse().status
    finally:
        connection.close()


def test_no_process_shows_the_key(server):
    server.wait_healthy(20)
    for pid in (*server.pids(), server._guard.pid):
        assert server.secret not in " ".join(psutil.Process(pid).cmdline())


def test_another_process_that_answers_health_is_not_ours(fake_vllm, tmp_path):
    class Healthy(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *arguments):
            pass

    other = HTTPServer(("127.0.0.1", 0), Healthy)
    threading.Thread(target=other.serve_forever, daemon=True).start()
    fake_vllm.setenv("FAKE_VLLM_START_S", "30")
    server = Server.start(spec(), tmp_path / "log", ROOT)
    try:
        server.port = other.server_address[1]  # as if the port had been taken in between
        with pytest.raises(ServerError, match="not ready within 1 s"):
            server.wait_healthy(1)
    finally:
        server.stop()
        other.shutdown()
        other.server_close()


def test_a_stop_leaves_no_process_of_the_group(fake_vllm, tmp_path):
    fake_vllm.setenv("FAKE_VLLM_FAULT", "orphan")
    server = Server.start(spec(), tmp_path / "log", ROOT)
    server.wait_healthy(20)
    pids = server.pids()
    assert len(pids) == 2  # the server and a child that would outlive it
    facts = server.stop()
    assert facts.stopped_by in ("SIGINT", "SIGTERM")
    assert facts.left_over == []
    assert not any(psutil.pid_exists(pid) and psutil.Process(pid).status() != "zombie" for pid in pids)
    assert not server.alive()


def test_a_port_that_is_taken_is_named():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} on 127.0.0.1 is taken"):
            find_port(port)


def test_secrets_stay_out_of_what_is_recorded(monkeypatch):
    monkeypatch.setenv("VLLM_API_KEY", "very-secret")
    monkeypatch.setenv("HF_TOKEN", "very-secret")
    monkeypatch.setenv("VLLM_LOGGING_LEVEL", "INFO")
    recorded = recorded_environment({"MY_LEVEL_SWITCH": "1"})
    assert recorded["VLLM_LOGGING_LEVEL"] == "INFO"
    assert recorded["MY_LEVEL_SWITCH"] == "1"
    assert "very-secret" not in str(recorded)
    config = {"model_config": {"hf_token": "very-secret", "max_model_len": 5}, "list": [{"api_key": "very-secret"}]}
    assert mask_secrets(config) == {
        "model_config": {"hf_token": "<masked>", "max_model_len": 5},
        "list": [{"api_key": "<masked>"}],
    }


def test_the_tail_of_a_log_is_its_last_lines(tmp_path):
    log = tmp_path / "log"
    log.write_text("\n".join(map(str, range(100))))
    assert tail_of(log, 3) == ["97", "98", "99"]
    assert tail_of(tmp_path / "none") == []


def test_the_cause_of_a_failed_start_is_named_not_what_followed(server):
    server.wait_healthy(20)
    with server.log.open("a") as log:
        log.write(
            "(APIServer pid=1) WARNING 11-29 19:48:27 [x.py:1] errors like `OSError: [Errno 24] Too many open files`\n"
            "(VllmWorker-0 pid=2) ERROR 11-29 19:48:41 [x.py:9] ValueError: Available memory on node 0 is too small.\n"
            "    raise RuntimeError(\n"
            "RuntimeError: Engine core initialization failed. See root cause above. Failed core proc(s): {}\n"
        )
    assert server.last_error() == "ValueError: Available memory on node 0 is too small."


@pytest.mark.parametrize(
    ("ip", "is_open"),
    [
        ("127.0.0.1", False),
        ("127.8.0.1", False),
        ("::1", False),
        ("::ffff:127.0.0.1", False),
        ("0.0.0.0", True),
        ("::", True),
        ("192.168.1.5", True),
        ("::ffff:192.168.1.5", True),
        ("fe80::1%eth0", True),
    ],
)
def test_an_address_that_other_machines_reach_is_open(ip, is_open):
    assert Listening(1, ip, 4711).open is is_open
