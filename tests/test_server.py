"""The server's handling, on the stand-in for vLLM."""

import socket
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import psutil
import pytest

from study.design.parameters import make_parameters
from study.errors import InputError, ServerError
from study.measure.server import Server, find_port, tail_of
from study.measure.server_spec import (
    ServerSpec,
    check_server_flags,
    command_of,
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
    assert not any("key" in part for part in command)


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


def test_a_request_without_the_key_is_refused(server):
    server.wait_healthy(20)
    request = urllib.request.Request(server.url + "/v1/completions", data=b"{}")
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(request, timeout=5)
    assert caught.value.code == 401
    caught.value.close()


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


@pytest.mark.parametrize("flag", ["--port=1", "--host", "--model", "--api-key", "--no-enable-prefix-caching"])
def test_flags_that_the_study_sets_are_refused(flag):
    with pytest.raises(InputError, match="the study sets itself"):
        check_server_flags([flag, "x"])


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
