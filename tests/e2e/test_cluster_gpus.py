# SPDX-License-Identifier: Apache-2.0
"""A model whose ranks are on the emulated GPUs of two processes: answers as from one process, a process that is lost."""

import concurrent.futures
import json
import re
import signal
import time

from harness import MODELS, Skip, chat, full_only, soak, soak_only, tiny, user
from test_cluster import lost_streams, two_nodes
from test_life import wait_for
from test_simt import BESIDE, server_on

CHAT = f"demo={MODELS / 'weft-demo-chat'},dtype=bfloat16,kv-cache-memory=32M,max-num-seqs=4,max-num-batched-tokens=64"


def gpu_group(*args, devices=("simt", "simt"), other=()):
    """Node 0, which is ready, and node 1; devices: --device of each; other: arguments that only node 1 has."""
    if not (BESIDE / "libweft_simt.so").exists():
        raise Skip("no libweft_simt.so beside the program")
    return two_nodes(args, ("--device", devices[0]), ("--device", devices[1], *other))


def answers(server, together=1, prompts=("Once upon a time", "Tell me of the sea. " * 12), **more):
    """together: number of requests at once."""
    def ask(job):
        prompt, temperature = job
        return json.dumps(chat(server, model="demo", messages=user(prompt), temperature=temperature, seed=7, logprobs=True,
                               **{"max_tokens": 6, **more}).json["choices"])
    with concurrent.futures.ThreadPoolExecutor(together) as pool:
        return list(pool.map(ask, [(prompt, t) for prompt in prompts for t in (0, 1)]))


@full_only
def test_gpus_of_two_processes_answer_as_those_of_one():
    """Texts and log probabilities equal to the last digit: alone, in chunks, at once from the cache; SIGTERM ends both with 0."""
    for ranks in (2, 4) if soak() else (2,):
        split = f"{CHAT},tensor-parallel-size={ranks}"
        want = answers(server_on("simt", split))
        with gpu_group(split, devices=("simt:4" if ranks == 2 else "simt:4,5", "simt")) as (server, node):
            assert answers(server) == want
            assert answers(server, together=4) == want
            assert server.stop() == 0, server.output()
            code, log = node.end()
            assert code == 0 and f"this is node 1 (rank{'s' if ranks > 2 else ''} {ranks // 2}" in log, log


@soak_only
def test_preempted_answers_on_gpus_of_two_processes():
    """Blocks for two sequences and three that want more: answers as of each alone in one process."""
    model = f"demo={tiny()},dtype=bfloat16,block-size=16,max-model-len=96,tensor-parallel-size=2"
    ask = dict(prompts=[f"The {word} was very" for word in ("dog", "cat", "bird")], max_tokens=40, ignore_eos=True)
    want = answers(server_on("simt", model), **ask)
    with gpu_group(model, "--kv-cache-memory", 7 * 16 * 512 // 2) as (server, _):
        assert answers(server, together=6, **ask) == want
        assert server.metric("weft_preemptions_total") > 0
        assert server.stop() == 0, server.output()


@full_only
def test_the_node_with_the_least_memory_decides():
    """A model on node 0 alone leaves less memory there: node 1 has as many KV blocks as node 0."""
    chats = f"{MODELS / 'weft-demo-chat'},dtype=float32"
    with gpu_group(f"demo={chats},tensor-parallel-size=2,kv-share=0.1,max-num-seqs=128",
                   f"one={chats},device=simt:0,max-num-seqs=2") as (server, node):
        texts = [chat(server, model=name, messages=user("hello"), max_tokens=4).json["choices"][0]["message"]["content"]
                 for name in ("demo", "one")]
        assert texts[0] == texts[1] and texts[0]
        assert server.stop() == 0, server.output()
        code, log = node.end()
        assert code == 0 and re.search(r"model 'demo': \d+ KV blocks as on the node with the least memory, not \d+", log), log


@full_only
def test_a_lost_node_ends_the_requests_on_gpus():
    """SIGKILL of node 1: one error event per stream, in time; a model on the same GPU is served; exit code 1."""
    models = f"{CHAT},tensor-parallel-size=4", f"embed={MODELS / 'weft-demo-embed'},device=simt:0"
    with gpu_group(*models, devices=("simt:0,1", "simt")) as (server, node):
        times = []
        lost_streams(server, 3, lambda: times.append(time.monotonic()) or node.process.kill())
        assert time.monotonic() - times[0] < 5
        wait_for(lambda: "node 1 (ranks 2 to 3 of 4) closed its connection: its process has ended" in server.output())
        assert server.request("GET", "/ready").json["models"] == {"demo": "failed", "embed": "ready"}
        assert server.post("/v1/embeddings", {"model": "embed", "input": "a"}).status == 200
        assert server.stop() == 1


@full_only
def test_a_stopped_node_ends_the_requests_on_gpus():
    """SIGSTOP of node 1: within the heartbeat's limit and 5 s; both processes end with 1, node 1 when it continues."""
    with gpu_group(f"{CHAT},tensor-parallel-size=2", "--heartbeat-timeout", 2) as (server, node):
        times = []
        lost_streams(server, 3, lambda: times.append(time.monotonic()) or node.process.send_signal(signal.SIGSTOP))
        assert time.monotonic() - times[0] < 2 + 5
        assert server.process.wait(30) == 1  # it serves no other model; the fault is logged after the streams end
        assert "node 1 (rank 1 of 2) has not responded for" in server.output(), server.output()
        node.process.send_signal(signal.SIGCONT)
        code, log = node.end()
        assert code == 1 and "node 1 (rank 1 of 2) ends: node 0 (rank 0 of 2)" in log, log
