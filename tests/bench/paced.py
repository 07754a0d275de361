"""A stand-in for a server that streams tokens at a steady pace: `python -m tests.bench.paced PORT TOKEN_S`.

It sleeps between tokens, as an engine computes between them, so that whatever keeps it or its client from running in
time adds up in TPOT; nothing else does. It answers one path, and any number of requests at once.
"""

import asyncio
import json
import signal
import sys

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"


async def answer(reader, writer, token_s):
    """Answer one streamed completion."""
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    lengths = [int(line.split(":")[1]) for line in head.splitlines() if line.lower().startswith("content-length")]
    if not lengths:  # the benchmark asks for metrics too, and goes without
        writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        await writer.drain()
        writer.close()
        return
    (length,) = lengths
    asked = json.loads(await reader.readexactly(length))
    writer.write(HEAD)
    for number in range(asked["max_tokens"]):
        await asyncio.sleep(token_s)
        send(writer, {"choices": [{"text": f"w{number + 5} "}]})
        await writer.drain()
    usage = {"prompt_tokens": len(asked["prompt"].split()), "completion_tokens": asked["max_tokens"]}
    send(writer, {"choices": [], "usage": usage})
    writer.write(b"data: [DONE]\n\n")
    await writer.drain()
    writer.close()


def send(writer, data):
    writer.write(f"data: {json.dumps(data)}\n\n".encode())


async def serve(port, token_s):
    server = await asyncio.start_server(lambda reader, writer: answer(reader, writer, token_s), "127.0.0.1", port)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # behind a shell it may be ignored
    try:
        asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
    except KeyboardInterrupt:
        sys.exit(0)
