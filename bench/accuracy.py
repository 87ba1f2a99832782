#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the latencies that `weft bench` reports with those that a server of known delays has measured at
its own calls of send. The server runs on one core and the client on another; with more work on these cores
the figures are of no use.

  bench/accuracy.py [STREAMS] [GAP_MS] [TTFT_MS]     500 streams, an event each 10 ms: 50,000 events per second

Prints both sides and their differences, and whether the client reported that it was the limit.
"""
import json
import os
import pathlib
import subprocess
import sys

BIN = pathlib.Path(os.environ.get("WEFT_BUILD", "build/release")) / "bin"
SECONDS = 10  # length of a stream


def main():
    values = sys.argv[1:] + ["500", "10", "100"][len(sys.argv) - 1:]
    streams, gap, ttft = int(values[0]), values[1], values[2]
    tokens = max(2, round(SECONDS * 1000 / float(gap)))
    cores = sorted(os.sched_getaffinity(0))[:2]
    mock = subprocess.Popen(["taskset", "-c", str(cores[0]), BIN / "mock_stream", "--ttft", ttft, "--gap", gap],
                            stdout=subprocess.PIPE, text=True)
    port = mock.stdout.readline().strip()
    done = subprocess.run(
        ["taskset", "-c", str(cores[-1]), BIN / "weft", "bench", f"http://127.0.0.1:{port}", "--model", "mock",
         "--concurrency", str(streams), "--num-prompts", str(2 * streams), "--output-len", str(tokens),
         "--no-progress", "--json"], capture_output=True, text=True, check=False)
    mock.terminate()
    server = json.loads(mock.communicate()[0])
    client = json.loads(done.stdout)
    print(f"cores {cores}, {streams} streams, {client['events'] / client['duration']:.0f} events per second")
    for name in ("ttft", "itl"):
        for part in ("median", "p99"):
            ours, theirs = client[f"{part}_{name}_ms"], server[name][part]
            print(f"{name} {part}: server {theirs:.3f} ms, client {ours:.3f} ms, difference {ours - theirs:+.3f} ms")
    own = client["client"]
    print(f"client: {own['cpu_share']:.2f} of a core, limited: {own['limited']} {own.get('why', '')}")


if __name__ == "__main__":
    main()
