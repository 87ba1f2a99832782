#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the gaps between the tokens of a stream without other load, while hostile schemas are compiled one after another,
and while prompts of 100,000 tokens are tokenized.

  bench/hostile_grammars.py [runs [BUILD...]]    BUILD: build folders that alternate in each run (WEFT_BUILD)

The server is weft_paced, whose model sleeps until a step has taken about 10 ms, so that longer gaps show other delays of a
step. Each token is a letter, which is sent immediately. The other clients are processes of low priority, because they
represent other machines. Prints median, 99th percentile and longest gap of each case in milliseconds, and the amount of other
work done. Exits with 1 if a 99th percentile of the last build (median of the runs) exceeds that of its stream without load by
more than one step. The schemas need as much work as a compile may use (docs/STRUCTURED_OUTPUT.md).
"""
import http.client
import json
import multiprocessing
import os
import statistics
import sys
import time

import serving

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
STEP_MS, TOKENS, PROMPT_TOKENS, CLIENTS = 10, 1000, 100_000, 2
BUILDS = [serving.ROOT / build for build in sys.argv[2:]] or [serving.WEFT.parents[1]]


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
    """Returns the milliseconds between the chunks of a stream of `tokens` tokens."""
    answer, _client = post(port, "/tokenize", json.dumps({"model": "chat", "prompt": "a", "add_special_tokens": False}))
    [letter] = json.loads(answer.read())["tokens"]
    answer, _client = post(port, "/v1/chat/completions", chat(stream=True, ignore_eos=True, max_tokens=tokens,
                                                              logit_bias={letter: 100}))
    times = []
    while line := answer.readline():
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
    return sorted(1000 * (b - a) for a, b in zip(times, times[1:]))


def compile_one(port, i):
    answer, _client = post(port, "/v1/chat/completions", chat(guided_json=hostile(i), max_tokens=1))
    answer.read()
    return 1


PROMPT = json.dumps({"model": "chat", "prompt": "".join(f"{k} the quick brown fox. " for k in range(PROMPT_TOKENS // 15))})


def tokenize_one(port, _):
    answer, _client = post(port, "/tokenize", PROMPT)
    return len(json.loads(answer.read())["tokens"])


def repeat(work, port, of, made):
    os.nice(19)
    for i in range(of, 1 << 30, CLIENTS):
        made.put(work(port, i))


def beside(port, work):
    """Returns the gaps while clients repeat the work, and how often they completed it."""
    made = multiprocessing.SimpleQueue()
    clients = [multiprocessing.Process(target=repeat, args=(work, port, of, made)) for of in range(CLIENTS)]
    for client in clients:
        client.start()
    done = [made.get()]
    gaps = stream(port)
    for client in clients:
        client.kill()
        client.join()
    while not made.empty():
        done.append(made.get())
    return gaps, done


def report(name, gaps, more=""):
    p99 = gaps[len(gaps) * 99 // 100]
    print(f"{name}: p50 {gaps[len(gaps) // 2]:.2f} p99 {p99:.2f} most {gaps[-1]:.2f} ms{more}", flush=True)
    return p99


def measure(build, longer, p99):
    with serving.started(serving.DEMO, build / "bin/weft_paced", longer) as port:
        p99["alone"].append(report("alone  ", stream(port)))
        gaps, made = beside(port, compile_one)
        p99["schemas"].append(report("schemas", gaps, f", {len(made)} schemas"))
        gaps, made = beside(port, tokenize_one)
        p99["prompts"].append(report("prompts", gaps, f", {len(made)} of {max(made)} tokens at most"))


def main():
    p99 = {build: {"alone": [], "schemas": [], "prompts": []} for build in BUILDS}
    with serving.started(serving.DEMO, BUILDS[0] / "bin/weft_paced") as port:
        own = statistics.median(stream(port, 200))
    print(f"a step takes {own:.2f} ms by itself", flush=True)
    longer = {"WEFT_PACED_US": str(max(0, int(1000 * (STEP_MS - own))))}
    for _ in range(RUNS):
        for build in BUILDS:
            print(f"{build.name}, load {os.getloadavg()[0]:.1f}", flush=True)
            measure(build, longer, p99[build])
    for build in BUILDS:
        middle = {name: statistics.median(values) for name, values in p99[build].items()}
        print(f"{build.name}, p99, median of {RUNS}:", ", ".join(f"{name} {ms:.2f} ms" for name, ms in middle.items()))
    over = [name for name, ms in middle.items() if ms > middle["alone"] + STEP_MS]
    print(f"more than one step over the stream alone: {', '.join(over) or 'none'}")
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
