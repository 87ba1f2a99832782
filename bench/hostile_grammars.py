#!/usr/bin/env python3
"""The gaps between the tokens of a running stream, alone, while hostile schemas are compiled one after another, and while
prompts of 100,000 tokens are tokenized.

  bench/hostile_grammars.py [runs]    WEFT_BUILD: build folder

The server is weft_paced, whose model waits without using a processor until a step has taken about 10 ms, so that the gaps
say what else holds a step up. Prints median, 99th percentile and longest gap of each in milliseconds, and how much was done meanwhile.
Ends with 1 where a 99th percentile, each the median of the runs, is more than one step over that of the stream alone.
The schemas take as much work as a compile may (docs/STRUCTURED_OUTPUT.md).
"""
import http.client
import json
import statistics
import sys
import threading
import time

import serving

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
STEP_MS, TOKENS, PROMPT_TOKENS = 10, 1000, 100_000
PACED = serving.WEFT.parent / "weft_paced"


def post(port, path, data):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    client.request("POST", path, data, serving.HEAD)
    answer = client.getresponse()
    return answer, client


def chat(**more):
    return json.dumps({"model": "chat", "messages": [{"role": "user", "content": "Hello"}], **more})


def hostile(i):
    return {"oneOf": [{"type": "object", "properties": {f"k{j}": {"type": "string", "maxLength": i + j}}}
                      for j in range(200)]}


def stream(port, tokens=TOKENS):
    """Milliseconds between the chunks of so many tokens."""
    answer, _client = post(port, "/v1/chat/completions", chat(stream=True, ignore_eos=True, max_tokens=tokens))
    times = []
    while line := answer.readline():
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
    return sorted(1000 * (b - a) for a, b in zip(times, times[1:]))


def compile_one(port, i):
    answer, _client = post(port, "/v1/chat/completions", chat(guided_json=hostile(i), max_tokens=1))
    answer.read()
    return 1


# Made once and not parsed: the clients share an interpreter with the stream that is measured.
PROMPT = json.dumps({"model": "chat", "prompt": "".join(f"{k} the quick brown fox. " for k in range(PROMPT_TOKENS // 15))})


def tokenize_one(port, _):
    answer, _client = post(port, "/tokenize", PROMPT)
    head = answer.read(32)
    while answer.read(1 << 16):
        pass
    return int(head.split(b":")[1].split(b",")[0])


def repeat(work, port, done, made):
    while not done.is_set():
        made.append(work(port, len(made)))


def beside(port, work, made):
    """The gaps while two clients do the work again and again."""
    done = threading.Event()
    threads = [threading.Thread(target=repeat, args=(work, port, done, made)) for _ in range(2)]
    for thread in threads:
        thread.start()
    gaps = stream(port)
    done.set()
    for thread in threads:
        thread.join()
    return gaps


def report(name, gaps, more=""):
    p99 = gaps[len(gaps) * 99 // 100]
    print(f"{name}: p50 {gaps[len(gaps) // 2]:.2f} p99 {p99:.2f} most {gaps[-1]:.2f} ms{more}", flush=True)
    return p99


def main():
    p99 = {"alone": [], "schemas": [], "prompts": []}
    with serving.started(serving.DEMO, PACED) as port:
        own = statistics.median(stream(port, 200))
    print(f"a step takes {own:.2f} ms by itself", flush=True)
    longer = {"WEFT_PACED_US": str(max(0, int(1000 * (STEP_MS - own))))}
    with serving.started(serving.DEMO, PACED, longer) as port:
        for _ in range(RUNS):
            p99["alone"].append(report("alone  ", stream(port)))
            schemas, tokens = [], []
            p99["schemas"].append(report("schemas", beside(port, compile_one, schemas), f", {len(schemas)} schemas"))
            gaps = beside(port, tokenize_one, tokens)
            p99["prompts"].append(report("prompts", gaps, f", {len(tokens)} of {max(tokens)} tokens at most"))
    most = statistics.median(p99["alone"]) + STEP_MS
    over = [name for name in p99 if statistics.median(p99[name]) > most]
    print(f"more than one step over the stream alone: {', '.join(over) or 'none'}")
    return 1 if over else 0


sys.exit(main())
