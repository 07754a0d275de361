"""A fake benchmark with the arguments and the result keys of vLLM's own; its times are made up.

`FAKE_VLLM_LOAD`: `fail` (every request fails), `some` (the second request fails), `short` (a token too few), `crash`
(raises), `bunch` (tokens arrive together), `slow` (takes 5 s), `hang` (never answers). A server that is gone at the end
fails every request.
"""

import json
import os
import time
import urllib.request

from vllm.engine import trace


def add_cli_args(parser):
    for name in ("--backend", "--endpoint", "--dataset-name", "--dataset-path", "--base-url", "--model"):
        parser.add_argument(name)
    for name in ("--custom-output-len", "--num-prompts", "--max-concurrency", "--temperature", "--seed"):
        parser.add_argument(name, type=float)
    for name in ("--disable-shuffle", "--no-oversample", "--skip-chat-template", "--ignore-eos", "--save-detailed"):
        parser.add_argument(name, action="store_true")
    for name in ("--disable-tqdm", "--trust-remote-code"):
        parser.add_argument(name, action="store_true")


def gone(request):
    """Say why a server does not answer any more, None where it does."""
    try:
        with urllib.request.urlopen(request, timeout=5):
            return None
    except OSError as error:
        return str(error)


def main(args):
    fault = os.environ.get("FAKE_VLLM_LOAD", "")
    with open(args.dataset_path) as file:
        lines = [json.loads(line) for line in file]
    assert len(lines) == args.num_prompts
    request = urllib.request.Request(args.base_url + "/health")
    request.add_header("Authorization", f"Bearer {os.environ.get('OPENAI_API_KEY', '')}")
    with urllib.request.urlopen(request, timeout=5) as answer:
        assert answer.status == 200
    trace("warm_up" if len(lines) == int(args.max_concurrency) else "load")
    if fault == "crash":
        raise RuntimeError(f"the fake benchmark broke on {args.dataset_path}")
    time.sleep({"slow": 5, "hang": 3600}.get(fault, 0.35))
    error = gone(request) or "broken"
    fault = "fail" if error != "broken" else fault
    now, step, users = time.perf_counter() - 0.35, 0.002, int(args.max_concurrency)
    tokens = [line["output_tokens"] - (fault == "short") for line in lines]
    bad = [fault == "fail" or (fault == "some" and index == 1) for index in range(len(lines))]
    gaps = [[1e-6 if fault == "bunch" and i % 8 else step for i in range(count - 1)] for count in tokens]
    return {
        "duration": 0.3,
        "start_times": [now + 0.01 * (index // users) for index in range(len(lines))],
        "ttfts": [0.0 if failed else 0.01 for failed in bad],
        "itls": [[] if failed else gap for failed, gap in zip(bad, gaps, strict=True)],
        "latencies": [0.0 if failed else 0.01 + sum(gap) for failed, gap in zip(bad, gaps, strict=True)],
        "input_lens": [len(line["prompt"].split()) for line in lines],
        "output_lens": [0 if failed else count for failed, count in zip(bad, tokens, strict=True)],
        "errors": [error if failed else "" for failed in bad],
    }
