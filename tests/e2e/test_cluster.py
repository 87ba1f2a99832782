# SPDX-License-Identifier: Apache-2.0
"""A model whose ranks are in two processes: answers as from one process, a process that dies, options that differ."""

import concurrent.futures
import contextlib
import functools
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

from harness import KEY, MODELS, Server, Skip, WEFT, amount, chat, full_only, longer, start, user
from test_life import wait_for

DEMO = MODELS / "weft-demo-chat"
TWO = "--nnodes", "2", "--node-rank", "0", "--tensor-parallel-size", "2", "--device", "cpu"
PROMPTS = ("Once upon a time", "Tell me of the sea. " * 20, "A song")


def port_free():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class Leader(Server):
    """Node 0, which also listens for the other nodes: only the log says which port is that of HTTP."""

    @functools.cached_property
    def port(self):
        listening = wait_for(lambda: self.process.poll() is not None or re.search(r" info listening on \S+ port (\d+)\n", self.output()))
        assert listening is not True, f"weft serve ended: {self.output()}"
        return int(listening[1])


class Node:
    """A process other than node 0: the command line of node 0, and its rank."""

    def __init__(self, *args):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([WEFT, "serve", *map(str, args)], stdout=self.log, stderr=self.log)

    def end(self):
        code = self.process.wait(60)
        self.log.seek(0)
        return code, self.log.read().decode()


@contextlib.contextmanager
def two_nodes(args, of_leader, of_node, **more):
    """Node 0, which is ready, and node 1; args are common, of_leader and of_node those that only one of them has."""
    common = (*args, "--nnodes", 2, "--master-port", port_free())
    node = Node(*common, "--node-rank", 1, "--port", 0, *of_node)
    try:
        server = Leader(*common, "--node-rank", 0, *of_leader, **more)
    except BaseException as reason:
        node.process.kill()
        node.process.wait()
        if isinstance(reason, AssertionError) and "built without libzmq" in str(reason):
            raise Skip("weft was built without libzmq") from None
        raise
    try:
        yield server, node
    finally:
        for process in server.process, node.process:
            if process.poll() is None:
                process.kill()
                process.wait()


def group(*args, other=(), **more):
    """Two nodes on CPUs; other: arguments that only node 1 has."""
    return two_nodes((*args, "--threads", 2, "--device", "cpu"), (), other, **more)


def answers(server, max_tokens=24):
    with concurrent.futures.ThreadPoolExecutor(len(PROMPTS)) as pool:
        jobs = [pool.submit(chat, server, model="demo", messages=user(p), max_tokens=max_tokens, temperature=t, seed=7, logprobs=True, ignore_eos=True)
                for p in PROMPTS for t in (0, 1)]
        return [json.dumps(job.result().json["choices"]) for job in jobs]


def test_two_processes_answer_as_one():
    """Texts and log probabilities equal to the last digit; again from the cache; after preemptions; SIGTERM ends both with 0."""
    split = f"demo={DEMO},tensor-parallel-size=2,max-model-len=320,block-size=16,"
    one = start(split + "kv-cache-memory=32M", "--threads", 2, "--device", "cpu")
    want, want_long = answers(one), answers(one, 120)
    assert one.metric("weft_preemptions_total") == 0
    with group(split + "kv-cache-memory=48K", "--shutdown-delay", 1) as (server, node):
        assert answers(server) == want
        assert answers(server) == want and server.metric("weft_prefix_cache_hits_total") > 0
        assert answers(server, 120) == want_long and server.metric("weft_preemptions_total") > 0
        for process in server.process, node.process:  # --shutdown-delay of node 0 is not shortened
            process.send_signal(signal.SIGTERM)
        wait_for(lambda: "another node got a signal to stop" in server.output())
        assert chat(server, model="demo", max_tokens=1).status == 200
        assert server.process.wait(60) == 0, server.output()
        code, log = node.end()
        assert code == 0 and "this is node 1 (rank 1 of 2)" in log, log


def lost_streams(server, count, fault):
    """Streams of which each has begun when fault() is called; each must end with one error event. Returns the seconds it took."""
    body = json.dumps({"model": "demo", "messages": user("Once upon a time"), "max_tokens": 700, "ignore_eos": True, "stream": True})
    lines = [http.client.HTTPConnection("127.0.0.1", server.port, timeout=60) for _ in range(count)]
    for line in lines:
        line.request("POST", "/v1/chat/completions", body, {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json"})
    streams = [line.getresponse() for line in lines]  # returns when the stream's headers are there, with its first token
    assert [stream.status for stream in streams] == [200] * count
    assert server.metric(r"vllm:num_requests_running.*demo") == count
    begun = time.monotonic()
    fault()
    for stream, line in zip(streams, lines):
        events = [block.removeprefix("data: ") for block in stream.read().decode().split("\n\n")]
        errors = [data for data in events if '"error"' in data]
        assert len(errors) == 1 and events[-2:] == [errors[0], ""], events[-3:]
        assert json.loads(errors[0])["error"]["code"] == "internal_error", errors
        line.close()
    return time.monotonic() - begun


@longer
def test_a_process_that_dies_ends_the_requests():
    """SIGKILL of node 1: one error event per stream; the other model is served; /ready names the failed one; exit code 1."""
    with group(f"demo={DEMO},tensor-parallel-size=2,kv-cache-memory=32M", f"embed={MODELS / 'weft-demo-embed'}") as (server, node):
        lost_streams(server, amount(4, 40), node.process.kill)
        assert server.request("GET", "/ready").json["models"] == {"demo": "failed", "embed": "ready"}
        assert server.post("/v1/embeddings", {"model": "embed", "input": "a"}).status == 200
        assert chat(server, model="demo").status == 503
        wait_for(lambda: "node 1 (rank 1 of 2) closed its connection" in server.output())
        assert server.stop() == 1


@full_only
def test_a_stopped_process_is_lost():
    """SIGSTOP of node 1: within the heartbeat's limit and 5 s; the process ends with 1 when it continues. Node 0 that dies."""
    args = f"demo={DEMO},tensor-parallel-size=2,kv-cache-memory=32M", "--heartbeat-timeout", 2
    with group(*args) as (server, node):
        lost_streams(server, 4, lambda: node.process.send_signal(signal.SIGSTOP))
        assert server.process.wait(30) == 1  # it serves no other model; the fault is logged after the streams end
        assert "node 1 (rank 1 of 2) has not responded for" in server.output(), server.output()
        node.process.send_signal(signal.SIGCONT)
        code, log = node.end()
        assert code == 1 and "node 1 (rank 1 of 2) ends: node 0 (rank 0 of 2)" in log, log
    with group(*args) as (server, node):
        server.process.kill()
        code, log = node.end()
        assert code == 1 and "node 0 (rank 0 of 2) closed its connection" in log, log


def test_nodes_that_differ_do_not_start():
    """The first difference is one sentence on both nodes; both end with 1. Contradictory options end with 2."""
    try:
        with group(f"demo={DEMO},tensor-parallel-size=2", "--kv-cache-memory", "32M", other=("--kv-cache-memory", "16M")) as (server, _):
            raise AssertionError(f"starts: {server.output()}")
    except AssertionError as reason:
        assert "node 1 (rank 1 of 2): model 'demo': --kv-cache-memory is " in str(reason), reason
    for more, sentence in (
            (("--nnodes", "2"), "--nnodes is 2, so each node needs --node-rank, from 0 on"),
            (("--nnodes", "2", "--node-rank", "0"), "--nnodes is 2 and no model is split over the nodes"),
            (("--nnodes", "2", "--node-rank", "0", "--tensor-parallel-size", "3"), "--tensor-parallel-size 3 cannot be divided among 2 nodes")):
        done = subprocess.run([WEFT, "serve", f"demo={DEMO}", *more], capture_output=True, text=True, timeout=60)
        assert done.returncode == 2 and sentence in done.stderr, done.stderr
    with tempfile.NamedTemporaryFile("w") as secret:
        secret.write("abc")
        secret.flush()
        os.chmod(secret.name, 0o644)
        for path, sentences in ((secret.name, (f"{secret.name} can be read by other users: chmod 600 it",
                                               f"--cluster-secret-file {secret.name} must contain 64 hexadecimal digits")),
                                ("/nowhere", ("--cluster-secret-file: cannot open /nowhere",))):
            done = subprocess.run([WEFT, "serve", f"demo={DEMO}", *TWO, "--cluster-secret-file", path],
                                  capture_output=True, text=True, timeout=60)
            assert done.returncode != 0 and all(s in done.stderr for s in sentences), done.stderr
    done = subprocess.run([WEFT, "serve", f"demo={DEMO}", "--tensor-parallel-size", "2", "--nnodes", "2", "--node-rank", "1",
                           "--master-addr", "192.0.2.1", "--device", "cpu", "--api-key", KEY],
                          capture_output=True, text=True, timeout=60)
    assert done.returncode == 1 and ("--cluster-secret-file" in done.stderr or "libzmq" in done.stderr), done.stderr
