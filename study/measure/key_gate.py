"""The key gate: every path of a served model asks for the launch's key, not `/v1` alone.

vLLM's own check lets `/metrics`, `/server_info`, `/docs`, `/health` and the developer paths through without a key. The
server gets this class by `--middleware study.measure.key_gate.KeyGate`, and vLLM puts it around all its own layers.

    request -> KeyGate -> vLLM's layers -> path          no key: 401 from here, nothing behind it runs

A request that has the key is handed on as it came: `receive` and `send` are not wrapped, so that neither a body nor a
stream passes through this code and the time of a token cannot depend on it. It runs once a request, on its headers.
Standard library only: the server imports it while it starts.

One path it answers itself: the configuration that the server resolved, made as `/server_info?config_format=json` makes
it (vllm/entrypoints/serve/dev/server_info/api_router.py) but without the report on the machine that comes with it
there, for which vLLM starts some forty programs, pip three times among them. Where a release has no such router, that
path is a 404 as it would be without the gate, and `/server_info` is asked.
"""

import hmac
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

KEY_NAME = "VLLM_API_KEY"
REFUSAL = b'{"error": "Unauthorized"}'
HEADERS = (
    (b"content-type", b"application/json"),
    (b"content-length", str(len(REFUSAL)).encode()),
    (b"www-authenticate", b"Bearer"),
    (b"connection", b"close"),
)
"""Of a refusal. The connection is closed, so that a body that nobody reads is no next request."""

POLICY_VIOLATION = 1008

CONFIGURATION_PATH = "/study/configuration"


class KeyGate:
    """ASGI middleware that answers 401 to whatever comes without `Authorization: Bearer KEY`."""

    def __init__(self, app: Application) -> None:
        """Take the key from the environment.

        Raises:
            RuntimeError: there is no key; a server that anyone could ask must not start.

        """
        key = os.environ.get(KEY_NAME, "")
        if not key:
            raise RuntimeError(f"{KEY_NAME} is not set: a server without a key would answer everyone")
        self._app = app
        self._expected = f"Bearer {key}".encode()

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Hand on what has the key, and the server's own start and end; refuse everything else."""
        if scope["type"] == "lifespan":
            return self._app(scope, receive, send)
        if not self._has_key(scope):
            return _refuse(scope["type"], send)
        if scope.get("path") == CONFIGURATION_PATH:
            return _tell_configuration(scope, send)
        return self._app(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        """Compare the first Authorization header with the key, in a time that does not tell how much of it is right."""
        for name, value in scope["headers"]:
            if name == b"authorization":
                return hmac.compare_digest(value, self._expected)
        return False


async def _refuse(kind: str, send: Send) -> None:
    """Answer 401; close a websocket before it opens, which a client sees as 403."""
    if kind == "websocket":
        await send({"type": "websocket.close", "code": POLICY_VIOLATION})
        return
    await send({"type": "http.response.start", "status": 401, "headers": list(HEADERS)})
    await send({"type": "http.response.body", "body": REFUSAL})


async def _tell_configuration(scope: Scope, send: Send) -> None:
    """Answer with `vllm_config`, the only part of `/server_info` that is kept."""
    try:
        from vllm.entrypoints.serve.dev.server_info.api_router import PydanticVllmConfig

        config = PydanticVllmConfig.dump_python(scope["app"].state.vllm_config, mode="json", fallback=str)
        status, body = 200, json.dumps({"vllm_config": config}, allow_nan=False).encode()
    except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:  # another release: not these names
        status, body = 404, json.dumps({"error": f"{type(error).__name__}: {error}"}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
