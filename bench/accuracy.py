#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures how exact `weft bench` is, against a server of known delays, and prints a page for bench/results/.

  bench/accuracy.py [--aiperf PROGRAM] [--guidellm PROGRAM] > PAGE      (two idle cores, 2 to 3 minutes)

The server (mock_stream) runs on one core and the client on another. It measures the times from the arrival of
a request in its kernel to its first call of send, and between its calls of send; the client's figures are
compared with these. With other work on the two cores the figures are of no use.
"""
import argparse
import contextlib
import datetime
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import tempfile

import serving

ROOT = serving.ROOT
BIN = serving.WEFT.parent
RUNS, STREAMS, SECONDS, GAP_MS, TTFT_MS = 5, 500, 4, 10, 100
BURST = 256  # events of a stream at a time that no client reads in time
CORES = sorted(os.sched_getaffinity(0))[:2]


@contextlib.contextmanager
def mock(ttft, gap, burst=1):
    """The URL of a server, and a dictionary that receives its own figures when it has ended."""
    figures = {}
    server = subprocess.Popen(["taskset", "-c", str(CORES[0]), BIN / "mock_stream", "--ttft", str(ttft), "--gap",
                               str(gap), "--burst", str(burst)], stdout=subprocess.PIPE, text=True)
    try:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}", figures
    finally:
        server.terminate()
        figures.update(json.loads(server.communicate()[0]))


def bench(url, *options):
    done = subprocess.run(["taskset", "-c", str(CORES[-1]), BIN / "weft", "bench", url, "--model", "mock",
                           "--no-metrics", "--no-progress", "--json", *map(str, options)], capture_output=True,
                          text=True, check=False)
    assert done.stdout, done.stderr
    return json.loads(done.stdout)


def own_errors():
    print(f"## Against the server's own time stamps\n\n{STREAMS} streams, an event of each every {GAP_MS} ms, the "
          f"first after {TTFT_MS} ms; {RUNS} runs of {2 * STREAMS} requests. Milliseconds; difference: client less "
          "server, mean over the runs with its 95 % interval.\n")
    runs = []
    for _ in range(RUNS):
        with mock(TTFT_MS, GAP_MS) as (url, server):
            client = bench(url, "--concurrency", STREAMS, "--num-prompts", 2 * STREAMS, "--output-len",
                           SECONDS * 1000 // GAP_MS)
        runs.append((client, server))
    print("| figure | server | client | difference |\n|---|---|---|---|")
    for name, label in (("ttft", "first event"), ("itl", "between events")):
        for part in ("median", "p99"):
            ours = [client[f"{part}_{name}_ms"] for client, _ in runs]
            theirs = [server[name][part] for _, server in runs]
            middle, low, high = serving.interval([a - b for a, b in zip(ours, theirs)])
            print(f"| {label}, {part} | {statistics.mean(theirs):.3f} | {statistics.mean(ours):.3f} | "
                  f"{middle:+.3f} ({low:+.3f} to {high:+.3f}) |")
    clients = [client["client"] for client, _ in runs]
    rates = [client["events"] / client["duration"] for client, _ in runs]
    print(f"\nThe client read {statistics.mean(rates):,.0f} events per second (mean of complete runs, their start and "
          f"end included) with {statistics.mean(c['cpu_share'] for c in clients):.2f} of a core, 99 % of the reads at most "
          f"{max(c['lag_p99_ms'] for c in clients):.2f} ms after the arrival; times of events: {clients[0]['times']}. "
          f"It reported in {sum(c['limited'] for c in clients)} of {RUNS} runs that it was the limit.\n")


def overload():
    with mock(TTFT_MS, GAP_MS, BURST) as (url, _):
        client = bench(url, "--concurrency", STREAMS, "--num-prompts", STREAMS, "--output-len", 6000)
    own = client["client"]
    print("## A server that the client cannot keep up with\n\n"
          f"{STREAMS} streams, {BURST} events of each every {GAP_MS} ms ({STREAMS * BURST * 1000 // GAP_MS:,} events per second "
          f"are offered): the client read {client['events'] / client['duration']:,.0f} events per second and reported: "
          f"`limited: {str(own['limited']).lower()}`, {own.get('why', '')}.\n")


def tokenizer(folder):
    """A folder with a tokenizer in the form that transformers loads."""
    shutil.copy(ROOT / "models/weft-demo-chat/tokenizer.json", folder)
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class":"PreTrainedTokenizerFast"}')
    return folder


def by_weft(url, folder):
    del folder
    found = bench(url, "--concurrency", 8, "--num-prompts", 96, "--output-len", 50)
    return found["median_ttft_ms"], found["median_tpot_ms"], found["median_e2el_ms"]


def by_aiperf(program, url, folder):
    subprocess.run([program, "profile", "--model", "mock", "--url", url, "--endpoint-type", "chat", "--streaming",
                    "--concurrency", "8", "--request-count", "96", "--extra-inputs", "max_tokens:50",
                    "--synthetic-input-tokens-mean", "32", "--tokenizer", str(folder), "--ui", "none",
                    "--output-artifact-dir", str(folder / "out")], capture_output=True, check=True)
    found = json.loads((folder / "out/profile_export_aiperf.json").read_text())
    return [found[name]["p50"] for name in ("time_to_first_token", "inter_token_latency", "request_latency")]


def by_guidellm(program, url, folder):
    subprocess.run([program, "run", "--backend", f"kind=openai_http,target={url},model=mock", "--profile",
                    "kind=concurrent,streams=8", "--constraint", "kind=max_requests,count=96", "--tokenizer",
                    f"kind=hf_auto,model={folder}", "--data", "kind=synthetic_text,prompt_tokens=32,output_tokens=50",
                    "--output", f"kind=json,path={folder}/g.json", "--disable-console"], capture_output=True, check=True)
    found = json.loads((folder / "g.json").read_text())["benchmarks"][0]["metrics"]
    return [found[name]["successful"]["median"] * scale for name, scale in (
        ("time_to_first_token_ms", 1), ("inter_token_latency_ms", 1), ("request_latency", 1000))]


def agreement(peers):
    print("## Next to other load generators\n\nA server that sends the first event after 100 ms and one every 20 ms; "
          "8 clients, 96 requests of 50 tokens. Medians in milliseconds. Agreement with weft bench means differences of "
          "at most 2 % or 2 ms, whichever is larger; where there is none, the server's own stamps of the same run show "
          "which program adds the difference.\n")
    print("| program | first token | per token after the first | end to end | agrees |\n|---|---|---|---|---|")
    ours = None
    for name, measure in peers:
        with tempfile.TemporaryDirectory() as folder, mock(100, 20) as (url, server):
            found = measure(url, tokenizer(pathlib.Path(folder)))
        ours = ours or found
        agrees = all(abs(a - b) <= max(2, 0.02 * b) for a, b in zip(found, ours))
        print(f"| {name} | {found[0]:.2f} | {found[1]:.2f} | {found[2]:.2f} | {'yes' if agrees else '**no**'} |")
        print(f"| the server's own stamps meanwhile | {server['ttft']['median']:.2f} | {server['itl']['median']:.2f} | "
              f"{server['ttft']['median'] + 49 * server['itl']['mean']:.2f} | |", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--aiperf")
    parser.add_argument("--guidellm")
    options = parser.parse_args()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=ROOT,
                            check=False).stdout.strip()
    print(f"# How exact `weft bench` is: two cores, {datetime.date.today()}\n\n{serving.processor()}, cores {CORES[0]} (server) "
          f"and {CORES[-1]} (client), load {os.getloadavg()[0]:.1f} at the start. Commit {commit}, by "
          "`bench/accuracy.py`.\n", flush=True)
    own_errors()
    overload()
    peers = [("weft bench", by_weft)]
    for name, measure in (("aiperf", by_aiperf), ("guidellm", by_guidellm)):
        program = getattr(options, name)
        if program:
            version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
            peers.append((f"{name} {version.split()[-1]}", lambda url, folder, p=program, m=measure: m(p, url, folder)))
    agreement(peers)


if __name__ == "__main__":
    main()
