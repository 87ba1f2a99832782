#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how long a chat body of 2 MB waits for its 400 after three bodies of 12 MB, with a window of 512 tokens.

  bench/large_bodies.py [runs [folder]]    WEFT_BUILD: build folder; folder: model folder (the demo model)

Prints the seconds of each body; asserts nothing.
"""
import http.client
import json
import sys
import threading
import time

import serving

RUNS = int(sys.argv[1]) if len(sys.argv) > 1 else 3
FOLDER = sys.argv[2] if len(sys.argv) > 2 else serving.DEMO


def body(megabytes, letters):
    text = "a" if letters else "The quick brown fox jumps over the lazy dog. "
    text = (text * (megabytes * 1000000 // len(text)))
    return json.dumps({"model": "chat", "messages": [{"role": "user", "content": text}]}).encode()


def post(port, data, took, name):
    start = time.monotonic()
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    client.request("POST", "/v1/chat/completions", data, serving.HEAD)
    answer = client.getresponse()
    answer.read()
    took[name] = (answer.status, time.monotonic() - start)


def run(port, letters):
    took, large, small = {}, body(12, letters), body(2, letters)
    threads = [threading.Thread(target=post, args=(port, large, took, f"12 MB {i}")) for i in "abc"]
    for thread in threads:
        thread.start()
    time.sleep(0.2)  # they arrive first
    post(port, small, took, "2 MB")
    for thread in threads:
        thread.join()
    print("one word:" if letters else "prose:   ",
          ", ".join(f"{name} {status} {seconds:.2f} s" for name, (status, seconds) in sorted(took.items())))


with serving.started(f"{FOLDER},max-model-len=512") as port:
    for _ in range(RUNS):
        run(port, False)
        run(port, True)
