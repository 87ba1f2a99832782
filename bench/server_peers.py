#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures weft next to llama.cpp's server by `weft bench --against`, and next to OpenVINO GenAI.

    bench/server_peers.py FOLDER [SECONDS [ROW...]]   (SECONDS: length of all rows together, 380; ROW: only this row,
                                                       such as smollm2-135m-BF16-16 or openvino-Q8_0-4)
    bench/server_peers.py experts FOLDER [SECONDS]    (340)
    bench/server_peers.py llama FILE PORT [embed] | openvino FILE     (the peers' processes)

FOLDER contains smollm2-135m-BF16.gguf, bge-small-BF16.gguf and both with Q8_0, written by gguf_shapes.py;
every program reads the same file. `experts` measures weft next to llama.cpp's server only, with the mixtures of
experts mixture-1b-Q4_K_M.gguf and mixture-1b-Q8_0.gguf of FOLDER: answers for 1 and 16 clients, and prompts. Both
servers run all the time; the one that is not measured is idle. The client of a root user has a
real-time priority. Results are JSON files in FOLDER/results and Markdown
rows on stdout; an interval is of 95 % by Student's t. Needs idle cores: the threads of llama.cpp spin. PEER_LLAMA and
PEER_OPENVINO name the Python programs (python3) of environments with the PyPI packages xllamacpp and openvino-genai.
WEFT_BUILD names the build folder.
"""
import json
import math
import os
import pathlib
import random
import signal
import statistics
import subprocess
import sys
import time

import serving

SLOTS, CONTEXT, TOKENS, THREADS = 32, 512, 16, 2
CHAT = {1: 13, 4: 20, 16: 40, 32: 55}  # clients: seconds of the row, of 380 together
EMBED = {1: 7, 4: 9}
OPENVINO = 52
PARTS, KINDS = (("bge-small", EMBED), ("smollm2-135m", CHAT)), ("Q8_0", "BF16")
MIXTURE, PROMPTS, LETTERS = {1: 45, 16: 65}, 45, 448  # as CHAT; seconds of the row of prompts, and their length


def serve_llama(file, port, embed):
    import xllamacpp
    p = xllamacpp.CommonParams()
    p.model.path, p.port, p.hostnames = file, port, ["127.0.0.1"]
    p.n_parallel, p.n_ctx, p.n_gpu_layers, p.fit_params = SLOTS, SLOTS * CONTEXT, 0, False
    p.cpuparams.n_threads = p.cpuparams_batch.n_threads = THREADS
    p.cache_prompt, p.cache_ram_mib, p.verbosity = False, 0, 1
    if embed:
        p.embedding, p.n_batch, p.n_ubatch = True, 2048, 2048
        p.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
    server = xllamacpp.Server(p)
    signal.sigwait([signal.SIGTERM])
    os._exit(0 if server else 1)


def prompts(letters=32):
    """Returns 512 prompts of letters, each of which is a token in the files of gguf_shapes.py."""
    source = random.Random(1)
    return ["".join(source.choices("efghijklmnopqrstuvwxyz", k=letters)) for _ in range(512)]


def batches_openvino(file):
    """Reads lines 'CLIENTS REQUESTS' from stdin and answers each with the tokens per second."""
    import openvino_genai
    pipe = openvino_genai.LLMPipeline(file, "CPU", INFERENCE_NUM_THREADS=THREADS)
    texts, at = prompts(), 0
    config = openvino_genai.GenerationConfig(max_new_tokens=TOKENS, min_new_tokens=TOKENS, ignore_eos=True,
                                             do_sample=False, apply_chat_template=False)
    pipe.generate(texts[:1], config)
    print("ready", openvino_genai.__version__, flush=True)
    for line in sys.stdin:
        clients, requests = map(int, line.split())
        begin, tokens = time.monotonic(), 0
        for _ in range(0, requests, clients):
            batch = [texts[(at + k) % len(texts)] for k in range(clients)]
            tokens += pipe.generate(batch, config).perf_metrics.get_num_generated_tokens()
            at += clients
        print(tokens / (time.monotonic() - begin), flush=True)


class Run:
    def __init__(self, folder, seconds, rows):
        self.folder, self.out, self.rows = folder, folder / "results", rows
        self.scale, self.end = seconds / 380, time.monotonic() + seconds
        self.out.mkdir(exist_ok=True)
        self.data, self.long = self.out / "prompts.jsonl", self.out / "long.jsonl"
        for file, letters in ((self.data, 32), (self.long, LETTERS)):
            file.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in prompts(letters)))
        self.log = open(self.out / "servers.log", "ab")

    def left(self):
        return self.end - time.monotonic()

    def weft(self, file):
        return serving.started(f"{file},max-model-len={CONTEXT},max-num-seqs={SLOTS}", log=self.log,
                               options=("--threads", THREADS, "--no-enable-prefix-caching"))

    def bench(self, name, port, *options):
        file = self.out / f"{name}.json"
        # it shares the cores with two threads that compute, and must read each event when it arrives
        first = ["chrt", "-f", "1"] if os.geteuid() == 0 else []
        command = [*first, serving.WEFT, "bench", f"http://127.0.0.1:{port}", "--api-key", "bench",
                   "--model", "chat", "--no-progress", "--no-metrics", "--output", file, *options]
        subprocess.run([str(c) for c in command], stdout=subprocess.DEVNULL, stderr=self.log, check=True)
        return json.loads(file.read_text())

    def chat(self, clients):
        return ("--dataset", self.data, "--ignore-eos", "--output-len", TOKENS, "--concurrency", clients,
                "--num-prompts", requests_of(clients))

    def row(self, name, seconds, port, peer, *options):
        """Two pairs that warm up and show the time of one, then as many as fit, at least 5 and at most 12."""
        options += ("--against", f"http://127.0.0.1:{peer}", "--against-model", "m")
        if self.left() < seconds * self.scale:
            print(f"{name}: left out, no time", flush=True)
            return
        begin = time.monotonic()
        self.bench("first", port, "--runs", 2, *options)
        pair = (time.monotonic() - begin) / 2
        pairs = max(5, min(12, int(seconds * self.scale / pair) - 2))
        compared = self.bench(name, port, "--runs", pairs, *options)["comparison"]
        figures = {f["name"]: f for f in compared["figures"]}
        shown = ("inputs_per_s", "mean_e2el_ms") if "embeddings" in options else ("mean_ttft_ms",) \
            if self.long in options else ("output_throughput", "mean_ttft_ms", "mean_tpot_ms")
        cells = [f"{f['a']:.1f} / {f['b']:.1f} = {ratio_text(*(1 / (1 + f[k]) for k in ('difference', 'high', 'low')))}"
                 f", {f['verdict']}" for f in (figures[s] for s in shown)]
        print(f"| {name} | {pairs} | {' | '.join(cells)} |", flush=True)

    def chosen(self, prefix, clients):
        """The numbers of clients whose rows are measured, all if the command line names no row."""
        return [n for n in clients if not self.rows or f"{prefix}-{n}" in self.rows]

    def next_to_llama(self, shape, kind, rows):
        chosen = self.chosen(f"{shape}-{kind}", rows)
        if not chosen:
            return
        file, embed = self.folder / f"{shape}-{kind}.gguf", shape == "bge-small"
        python, peer = os.environ.get("PEER_LLAMA", "python3"), serving.free_port()
        llama = [python, __file__, "llama", file, peer, *(["embed"] if embed else [])]
        with self.weft(file) as port, serving.running(llama, peer, "/health", self.log):
            for clients in chosen:
                options = ("--backend", "embeddings", "--concurrency", clients, "--num-prompts", 4 * clients,
                           "--input-len", 64, "--inputs", 4) if embed else self.chat(clients)
                self.row(f"{shape}-{kind}-{clients}", rows[clients], port, peer, *options)

    def mixtures(self):
        for kind in ("Q4_K_M", "Q8_0"):
            file, peer = self.folder / f"mixture-1b-{kind}.gguf", serving.free_port()
            llama = [os.environ.get("PEER_LLAMA", "python3"), __file__, "llama", file, peer]
            with self.weft(file) as port, serving.running(llama, peer, "/health", self.log):
                for clients, seconds in MIXTURE.items():
                    self.row(f"mixture-1b-{kind}-{clients}", seconds, port, peer, *self.chat(clients))
                self.row(f"mixture-1b-{kind}-prompts", PROMPTS, port, peer, "--dataset", self.long, "--ignore-eos",
                         "--output-len", 1, "--concurrency", 1, "--num-prompts", 4)

    def next_to_openvino(self, kind):
        chosen = self.chosen(f"openvino-{kind}", CHAT)
        if not chosen:
            return
        file = self.folder / f"smollm2-135m-{kind}.gguf"
        peer = subprocess.Popen([os.environ.get("PEER_OPENVINO", "python3"), __file__, "openvino", str(file)],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, text=True)
        try:
            if not peer.stdout.readline().startswith("ready"):
                sys.exit(f"OpenVINO is not ready: see {self.log.name}")
            with self.weft(file) as port:
                for clients in chosen:
                    self.openvino_row(f"openvino-{kind}-{clients}", clients, port, peer)
        finally:
            peer.terminate()
            peer.wait()

    def openvino_row(self, name, clients, port, peer):
        pairs = []
        for _ in range(6):
            ours = self.bench("openvino", port, "--runs", 1, *self.chat(clients))["output_throughput"]
            peer.stdin.write(f"{clients} {requests_of(clients)}\n")
            peer.stdin.flush()
            pairs.append((ours, float(peer.stdout.readline())))
        del pairs[0]  # it warms up
        ratio = ratio_text(*map(math.exp, serving.interval([math.log(a / b) for a, b in pairs])))
        a, b = (statistics.mean(p[i] for p in pairs) for i in (0, 1))
        print(f"| {name} | {len(pairs)} | {a:.1f} / {b:.1f} = {ratio} |", flush=True)


def requests_of(clients):
    return {1: 3, 4: 8}.get(clients, clients)


def ratio_text(middle, low, high):
    return f"{middle:.2f} ({low:.2f} to {high:.2f})"


def main():
    if sys.argv[1:2] == ["llama"]:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
        serve_llama(sys.argv[2], int(sys.argv[3]), sys.argv[4:] == ["embed"])
    elif sys.argv[1:2] == ["openvino"]:
        batches_openvino(sys.argv[2])
    elif sys.argv[1:2] == ["experts"] and len(sys.argv) in (3, 4):
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        run = Run(pathlib.Path(sys.argv[2]), float(sys.argv[3]) if len(sys.argv) > 3 else 340, [])
        run.scale *= 380 / 340
        run.mixtures()
    elif len(sys.argv) >= 2:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # ends the servers too
        known = {f"{shape}-{kind}-{n}" for shape, rows in PARTS for kind in KINDS for n in rows}
        known |= {f"openvino-Q8_0-{n}" for n in CHAT}
        if not known.issuperset(sys.argv[3:]):
            sys.exit(f"unknown row: {', '.join(set(sys.argv[3:]) - known)}; rows are {', '.join(sorted(known))}")
        run = Run(pathlib.Path(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else 380, sys.argv[3:])
        run.end -= OPENVINO * run.scale
        for shape, rows in PARTS:
            for kind in KINDS:
                run.next_to_llama(shape, kind, rows)
        run.end += OPENVINO * run.scale
        run.next_to_openvino("Q8_0")
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
