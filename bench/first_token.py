#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time from `make serve` to the first token, for a user who has just cloned weft.

    bench/first_token.py [--starts 5] [--built] [--offline]

Clones this checkout's last commit into a temporary folder, starts `make serve` there and requests a streamed chat with
the key that it prints. Installing packages and downloading models are not measured: models/fetched is copied if this
checkout has it, otherwise the built-in models are served. The first start builds (without ccache); --built uses this
checkout and measures only starts. Prints each start with the CPU time of the start and its answer, the load of the
machine, and the median of the starts after the first.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import statistics
import subprocess
import tempfile
import time

import serving

ROOT = serving.ROOT


def first_token(port, key, model):
    """Returns the time at which the first text of a streamed answer arrives."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    body = {"model": model, "stream": True, "max_tokens": 16, "messages": [{"role": "user", "content": "Hello"}]}
    connection.request("POST", "/v1/chat/completions", json.dumps(body),
                       {"authorization": f"Bearer {key}", "content-type": "application/json"})
    response = connection.getresponse()
    if response.status != 200:
        raise SystemExit(f"first_token.py: {response.status} {response.read().decode()}")
    for line in response:
        if not line.startswith(b"data: {"):
            continue
        choices = json.loads(line[6:]).get("choices")
        if choices and choices[0]["delta"].get("content"):
            at = time.monotonic()
            connection.close()
            return at
    raise SystemExit("first_token.py: the answer has no text")


def processor_time():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def start(folder, offline):
    """Returns seconds from the command to the start message and to the first token, and the model's name."""
    port = serving.free_port()
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith("CMAKE_") and name not in ("WEFT_API_KEY", "MAKEFLAGS", "MAKELEVEL")}
    begun = time.monotonic()
    with subprocess.Popen(["make", "-s", "serve", f"PORT={port}", *(["OFFLINE=1"] if offline else [])], cwd=folder,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment,
                          start_new_session=True) as server:
        said = []
        for line in server.stdout:
            said.append(line)
            if line.startswith("curl "):
                break
        else:
            raise SystemExit(f"first_token.py: make serve ended: {''.join(said)}")
        ready = time.monotonic()
        key = re.search(r"^API key: (\S+)$", "".join(said), re.M)[1]
        model = re.search(r"^  (\S+) +generator ", "".join(said), re.M)[1]
        first = first_token(port, key, model)
        os.killpg(server.pid, signal.SIGTERM)
        server.stdout.read()
    return ready - begun, first - begun, model


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--starts", type=int, default=5)
    parser.add_argument("--built", action="store_true")
    parser.add_argument("--offline", action="store_true")
    options = parser.parse_args()
    fetched = ROOT / "models/fetched"
    offline = options.offline or not fetched.is_dir()
    with tempfile.TemporaryDirectory(prefix="first-token-") as held:
        folder = ROOT if options.built else pathlib.Path(held) / "weft"
        if not options.built:
            subprocess.run(["git", "clone", "-q", ROOT, folder], check=True)
            if not offline:
                shutil.copytree(fetched, folder / "models/fetched")
        later = []
        for i in range(options.starts + (not options.built)):
            before, load = processor_time(), os.getloadavg()[0]
            ready, first, model = start(folder, offline)
            builds = i == 0 and not options.built
            print(f"{'first start, with the build' if builds else 'start':28} ready {ready:7.2f} s   "
                  f"first token {first:7.2f} s   processor {processor_time() - before:7.2f} s   load {load:.1f}   {model}",
                  flush=True)
            if not builds:
                later.append(first)
        if later:
            print(f"median of {len(later)} starts after the build: first token {statistics.median(later):.2f} s")


if __name__ == "__main__":
    main()
