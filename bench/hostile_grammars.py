#!/usr/bin/env python3
"""The gaps between the tokens of a running stream, alone and while hostile schemas are compiled one after another.

  bench/hostile_grammars.py [runs]    WEFT_BUILD: build folder

Prints median, 99th percentile and longest gap of each in milliseconds, and how many schemas were compiled meanwhile;
nothing is asserted. The schemas take as much work as a compile may (docs/STRUCTURED_OUTPUT.md).
"""
import http.client
import json
import sys
import threading
import time

import serving

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3


def body(**more):
    return json.dumps({"model": "chat", "messages": [{"role": "user", "content": "Hello"}], **more})


def hostile(i):
    return {"oneOf": [{"type": "object", "properties": {f"k{j}": {"type": "string", "maxLength": i + j}}}
                      for j in range(200)]}


def stream(port):
    """Milliseconds between the chunks of 3,000 tokens."""
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    client.request("POST", "/v1/chat/completions", body(stream=True, ignore_eos=True, max_tokens=3000), serving.HEAD)
    answer, times = client.getresponse(), []
    while line := answer.readline():
        if line.startswith(b"data: {"):
            times.append(time.monotonic())
    return sorted(1000 * (b - a) for a, b in zip(times, times[1:]))


def report(name, gaps, more=""):
    print(f"{name}: p50 {gaps[len(gaps) // 2]:.2f} p99 {gaps[len(gaps) * 99 // 100]:.2f} most {gaps[-1]:.2f} ms{more}")


def compile_until(port, done, count):
    while not done.is_set():
        client = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
        client.request("POST", "/v1/chat/completions", body(guided_json=hostile(len(count)), max_tokens=1), serving.HEAD)
        client.getresponse().read()
        count.append(1)


with serving.started(serving.DEMO) as port:
    compiled = []
    for _ in range(RUNS):
        report("alone  ", stream(port))
        done, before = threading.Event(), len(compiled)
        threads = [threading.Thread(target=compile_until, args=(port, done, compiled)) for _ in range(2)]
        for thread in threads:
            thread.start()
        gaps = stream(port)
        done.set()
        for thread in threads:
            thread.join()
        report("hostile", gaps, f", {len(compiled) - before} schemas")
