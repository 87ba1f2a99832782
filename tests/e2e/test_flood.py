# SPDX-License-Identifier: Apache-2.0
"""Floods by the load generator (weft bench): answers stay what they are alone,
engines take turns, overload is refused politely, memory stays flat, a stop loses nothing.

Nothing here asserts a time. WEFT_E2E_SECONDS (1.5 in the fast form, 6 in the full one) is how long a flood lasts.
"""

import json
import re
import signal
import socket
import subprocess
import threading
import time

import harness
from harness import KEY, MODELS, amount, chat, embed, longer, start, text_of, tiny
from test_load import (SECONDS, STREAMS, Flood, open_stream, read_all, request_bytes, resident,
                       text_of_stream, until_flat)

EMBED = f"embed={MODELS / 'weft-demo-embed'}"
RERANK = f"rerank={MODELS / 'weft-demo-rerank'}"


class Bench:
    """The load generator in the background; `result` waits for its figures."""

    def __init__(self, server, *args):
        self.process = subprocess.Popen(
            [harness.WEFT, "bench", server.base, "--api-key", KEY, "--json", "--no-progress",
             *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def result(self):
        out, errors = self.process.communicate(timeout=600)
        assert out, errors
        return json.loads(out)


def bench(server, *args):
    return Bench(server, *args).result()


FAULTS = "unconnected", "lost", "timed_out", "oversized", "incomplete", "event_errors", "malformed"


def nothing_wrong(result, *counts):
    for name in counts or FAULTS:
        assert result["outcomes"][name] == 0, (name, result["outcomes"], result["lost_why"])
    assert result["differing"] == 0, result["differing"]


@longer
def test_answers_under_load_equal_those_alone():
    """32 clients, eight an endpoint, three models: bytes of text, vectors and scores."""
    server = start(f"tiny={tiny()}", EMBED, RERANK)
    for form in ((), ("--no-stream",)):
        result = bench(server, "--send", "chat:tiny", "--send", "messages:tiny", "--send",
                       "embeddings:embed", "--send", "rerank:rerank", "--check", "--concurrency",
                       32, "--duration", SECONDS / 3, *form)
        nothing_wrong(result)
        assert result["completed"] == result["sent"]
        assert all(t["completed"] for t in result["targets"]), [t["completed"] for t in result["targets"]]


def snapshot(server):
    """(steps, sequences that wait for room) of each model."""
    text = server.request("GET", "/metrics").text
    pattern = r'^weft_(\w+)\{model_name="(\w+)".*\} (\d+)$'
    values = {(m[2], m[1]): int(m[3]) for m in re.finditer(pattern, text, re.M)}
    models = sorted({model for model, _ in values})
    return ([values[m, "steps_total"] for m in models],
            [values[m, "sequences_waiting"] for m in models])


def turns(server, seconds, least):
    """Steps of each model while sequences waited for all, at least so many together."""
    end = time.monotonic() + seconds
    steps, wait = snapshot(server)
    taken = [0] * len(steps)
    while time.monotonic() < end or sum(taken) < least:
        assert time.monotonic() < end + 300, taken
        time.sleep(0.05)
        before, waited = steps, wait
        steps, wait = snapshot(server)
        if all(waited) and all(wait):
            taken = [t + now - then for t, now, then in zip(taken, steps, before)]
    return taken


def wait_idle(server):
    deadline = time.monotonic() + 600
    while server.metric("weft_sequences_(running|waiting)"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


@longer
def test_engines_take_turns():
    """A flood on one model, two more with work: each of k engines gets one of every k + 1 steps."""
    server = start(f"tiny={tiny()},max-num-seqs=32", EMBED, RERANK)
    length = ("--duration", 3600)
    floods = [
        Bench(server, "--send", "chat:tiny", "--concurrency", 64, "--output-len", 400, *length),
        Bench(server, "--send", "embeddings:embed", "--concurrency", 8, "--inputs", 200, *length),
        Bench(server, "--send", "rerank:rerank", "--concurrency", 8, "--inputs", 200, *length),
    ]
    try:
        deadline = time.monotonic() + 600
        while not all(snapshot(server)[1]):
            assert time.monotonic() < deadline, "an engine has nothing that waits"
            assert all(flood.process.poll() is None for flood in floods)
            time.sleep(0.05)
        taken = turns(server, SECONDS / 2, 40)
        share = min(taken) / sum(taken)
        print(f"turns: {taken}, the smallest share of three engines is {share:.3f}")
        assert share >= 1 / 4
    finally:
        for flood in floods:
            flood.process.terminate()
            flood.process.communicate()


@longer
def test_flood_leaves_others_their_turn():
    """A flood of short steps beside pooling with long ones: one of every three is the pooler's."""
    server = start(f"tiny={tiny()},max-num-seqs=6", EMBED)
    many = [f"a text about wool and ships, number {i}, " * 10 for i in range(2048)]
    generate = [lambda: chat(server, max_tokens=400, ignore_eos=True).status == 200] * 12
    pooled = [lambda: embed(server, many, encoding_format="base64").status == 200] * 2
    with Flood(*generate, *pooled):
        taken = turns(server, SECONDS / 2, 40)
    share = min(taken) / sum(taken)
    print(f"turns: {taken}, the smaller share of two engines is {share:.3f}")
    assert share >= 1 / 3


@longer
def test_overload_is_refused_politely():
    """Ten times as many clients as fit: 200, 503 or 529 and nothing else, each refusal says when
    to come again, memory stays flat, and afterwards the server is as before."""
    limits = "max-queued-requests=8"
    server = start(f"tiny={tiny()},{limits},max-num-seqs=4",
                   f"{EMBED},{limits}", f"{RERANK},{limits}")
    want, seen = text_of(chat(server, max_tokens=16)), {}

    def flood():
        result = bench(server, "--send", "chat:tiny", "--send", "messages:tiny", "--send",
                       "embeddings:embed", "--send", "rerank:rerank", "--concurrency", 320,
                       "--duration", SECONDS / 3, "--output-len", 32)
        nothing_wrong(result)
        assert result["without_retry_after"] == 0, result["without_retry_after"]
        for target in result["targets"]:
            seen.setdefault(target["backend"], set()).update(target["statuses"])

    until_flat(server, flood, 1)
    for endpoint, statuses in seen.items():
        assert statuses == {"200", "529" if endpoint == "messages" else "503"}, seen
    assert text_of(chat(server, max_tokens=16)) == want


@longer
def test_clients_that_leave_from_a_thousand():
    """A thousand streams at once, every third leaves after its first piece: the others are complete
    and equal to their runs alone, those that left cost little more than what they read, memory
    stays flat."""
    most = 64
    server = start(f"tiny={tiny()},max-queued-requests=1200")
    left, told = 0, 0

    def thousand():
        nonlocal left, told
        result = bench(server, "--send", "chat:tiny", "--concurrency", STREAMS, "--num-prompts",
                       STREAMS, "--output-len", most, "--check", "--prompts", 8, "--leave-every", 3,
                       "--leave-after", 1)
        nothing_wrong(result)
        assert result["max_concurrent_requests"] == STREAMS
        assert result["completed"] + result["outcomes"]["left"] == STREAMS == result["sent"], result
        left += result["outcomes"]["left"]
        told += (result["completed"] + 8) * most

    until_flat(server, thousand, amount(1, 1, 3))
    wait_idle(server)
    further = server.metric("weft_generation_tokens_total") - told
    print(f"leavers: {left} left after one piece, {further / left:.1f} tokens computed for each")
    assert left >= STREAMS // 3 and further <= left * most / 2, (left, further)
    assert server.metric("weft_rows_after_cancel_total") <= left


def test_stop_answers_what_was_accepted():
    """SIGTERM with streams, whole answers, vectors and scores under way: all come whole, exit 0."""
    server = start(f"tiny={tiny()}", EMBED, RERANK, "--shutdown-timeout", 300)
    body = {"ignore_eos": True, "max_tokens": 480}
    want = text_of(chat(server, temperature=0, **body))
    streams = [open_stream(server, **body) for _ in range(24)]
    texts = [f"text {i} about wool " * 8 for i in range(400)]
    others = []
    for path, more in (("/v1/embeddings", {"model": "embed", "input": texts}),
                       ("/v1/rerank", {"model": "rerank", "query": "wool", "documents": texts}),
                       ("/v1/messages", {"model": "tiny", "messages": harness.user("Zoo"),
                                         "max_tokens": 400})):
        s = socket.create_connection(("127.0.0.1", server.port))
        s.sendall(request_bytes(path, more))
        others.append(s)
    for s in streams:
        assert s.recv(1, socket.MSG_PEEK)  # accepted: its answer has begun
    deadline = time.monotonic() + 600
    while server.metric("weft_requests_submitted_total") < 1 + len(streams) + len(others):
        assert time.monotonic() < deadline
    server.process.send_signal(signal.SIGTERM)
    raws = [None] * len(streams + others)

    def read(i, s):
        raws[i] = read_all(s)

    readers = [threading.Thread(target=read, args=pair) for pair in enumerate(streams + others)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert server.process.wait(600) == 0, server.output()[-1000:]
    assert all(text_of_stream(raw) == want for raw in raws[: len(streams)])
    for raw in raws[len(streams):]:
        head, _, rest = raw.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        assert json.loads(rest)


@longer
def test_stop_in_a_flood():
    """SIGTERM while clients ask again and again: an answer is 200 or 503, a connection is taken
    and answered or not taken at all."""
    server = start(f"tiny={tiny()}", EMBED)
    flood = Bench(server, "--send", "chat:tiny", "--send", "messages:tiny", "--send",
                  "embeddings:embed", "--concurrency", 48, "--duration", 60, "--output-len", 48)
    while not server.metric("weft_finished_total"):
        time.sleep(0.05)
    time.sleep(SECONDS / 4)
    code = server.stop()
    result = flood.result()
    assert code == 0, (code, server.output()[-1000:])
    nothing_wrong(result, "lost", "incomplete", "event_errors")
    assert set(result["statuses"]) <= {"200", "503"} and result["completed"] > 0, result["statuses"]
    assert result["without_retry_after"] == 0
