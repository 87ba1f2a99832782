# SPDX-License-Identifier: Apache-2.0
"""Many clients: a thousand streams, readers that stop, clients that leave, floods and overload.

Nothing here asserts a time. WEFT_E2E_SECONDS (1.5 in the fast form, 6 in the full one) is how long each
flood lasts; the long runs set it to 60.
"""

import asyncio
import json
import os
import resource
import socket
import threading
import time

import harness
from harness import KEY, amount, chat, embed, longer, main, messages, rerank, start, text_of, tiny, user

SECONDS = float(os.environ.get("WEFT_E2E_SECONDS", amount(1.5, 6)))
STREAMS = amount(250, 1000)


def request_bytes(path, body):
    data = json.dumps(body).encode()
    key = f"x-api-key: {KEY}" if "messages" in path else f"Authorization: Bearer {KEY}"
    return (f"POST {path} HTTP/1.1\r\nHost: a\r\n{key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(data)}\r\nConnection: close\r\n\r\n").encode() + data


def stream_body(**more):
    return {"model": "tiny", "messages": user("Once upon a time"), "temperature": 0,
            "stream": True, "max_tokens": 24, **more}


def resident(server):
    with open(f"/proc/{server.process.pid}/statm") as f:
        return int(f.read().split()[1]) * resource.getpagesize()


def until_flat(server, load, rounds):
    """Repeats a load until so many rounds have not let memory grow: allocators fill their free lists
    first, to a height that chance finds in some rounds; then nothing may come on top."""
    sizes = []
    for _ in range(40):  # a leak grows in each
        load()
        sizes.append(resident(server))
        flat = len(sizes) > rounds + 1 and sizes[-1] <= sizes[-1 - rounds] * 1.005
        if harness.sanitized() or flat:
            return
    raise AssertionError(f"memory grows with every round: {sizes}")


def text_of_stream(raw):
    assert raw.startswith(b"HTTP/1.1 200"), raw[:300]
    text = ""
    for line in raw.split(b"\r\n\r\n", 1)[1].split(b"\n"):
        if line.startswith(b"data: {"):
            choices = json.loads(line[6:])["choices"]
            text += choices[0]["delta"].get("content", "") if choices else ""
    assert b"data: [DONE]\n\n" in raw, raw[-300:]
    return text


async def one_stream(port, connected, count, gate):
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    connected.append(writer)
    if len(connected) == count:
        gate.set()
    await gate.wait()
    writer.write(request_bytes("/v1/chat/completions", stream_body()))
    raw = await reader.read(-1)
    writer.close()
    return raw


async def streams(port, count):
    connected, gate = [], asyncio.Event()
    return await asyncio.gather(*[one_stream(port, connected, count, gate) for _ in range(count)])


@longer
def test_thousand_streams():
    """Nothing is lost, and the last thousands take no more memory than those before."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8192), hard))
    server = start(f"tiny={tiny()},max-queued-requests=1200")
    want = text_of(chat(server, max_tokens=24))

    def thousand():
        for raw in asyncio.run(streams(server.port, STREAMS)):
            assert text_of_stream(raw) == want

    until_flat(server, thousand, amount(1, 1, 3))


def open_stream(server, receive_bytes=None, **more):
    s = socket.socket()
    if receive_bytes:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    s.settimeout(600)
    s.connect(("127.0.0.1", server.port))
    s.sendall(request_bytes("/v1/chat/completions", stream_body(**more)))
    return s


def read_all(s):
    raw = b""
    while piece := s.recv(65536):
        raw += piece
    s.close()
    return raw


def test_client_that_leaves_costs_one_step():
    server = start(f"tiny={tiny()}")
    gone = [open_stream(server, ignore_eos=True, max_tokens=500) for _ in range(32)]
    for s in gone:
        assert s.recv(20)
    for s in gone:
        s.close()
    deadline = time.monotonic() + 600
    while server.metric("weft_sequences_(running|waiting)"):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert server.metric("weft_rows_after_cancel_total") <= 32
    assert server.metric("weft_clients_gone_total") <= 32


def test_stopped_reader_is_paused_alone():
    server = start(f"tiny={tiny()}")
    body = {"ignore_eos": True, "max_tokens": 480, "temperature": 0}
    # One token a chunk makes about 120 kB: more than what kernel and server buffer together.
    slow = [open_stream(server, receive_bytes=2048, **body) for _ in range(4)]
    want = text_of(chat(server, **body))
    deadline = time.monotonic() + 600
    while not server.metric("weft_pauses_total"):
        if server.metric("weft_sequences_running") == 0:
            break  # the kernel took it all
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert text_of(chat(server, **body)) == want
    for s in slow:
        assert text_of_stream(read_all(s)) == want


class Flood:
    """Threads that repeat a job until told to stop; what went wrong is kept."""

    def __init__(self, *jobs):
        self.over = threading.Event()
        self.wrong = []
        self.counts = [0] * len(jobs)
        self.threads = [threading.Thread(target=self.run, args=(i, job))
                        for i, job in enumerate(jobs)]

    def run(self, i, job):
        while not self.over.is_set():
            try:
                assert job()
                self.counts[i] += 1
            except Exception as error:  # noqa: B902 - told by the one who started it
                self.wrong.append(repr(error))
                return

    def __enter__(self):
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self.threads:
            thread.join()
        assert not self.wrong, self.wrong[:3]


def test_small_body_overtakes_large_ones():
    """Bodies of megabytes take the tokenizer seconds; small ones do not wait for them."""
    server = main()
    order = []

    def ask(name, repeats):
        answer = chat(server, messages=user("a " * repeats), max_tokens=1)
        assert answer.status == 400, (answer.status, answer.text[:200])
        assert answer.error["code"] == "context_length_exceeded", answer.text[:200]
        order.append(name)

    large = [threading.Thread(target=ask, args=("large", 2 << 20)) for _ in range(3)]
    for thread in large:
        thread.start()
    time.sleep(0.2)  # all are there; the first takes longer
    for _ in range(3):
        ask("small", 20 << 10)  # over what an event loop does itself
    for thread in large:
        thread.join()
    assert order[:4].count("small") == 3, order


@harness.full_only
def test_middle_sized_body_overtakes_large_ones():
    """Large bodies that are not done share the text workers with one of two megabytes."""
    server = start(f"chat={harness.MODELS / 'weft-demo-chat'},max-model-len=512")
    order = []

    def ask(name, repeats):
        answer = chat(server, model="chat", messages=user("a " * repeats), max_tokens=1)
        assert answer.error["code"] == "context_length_exceeded", answer.text[:200]
        order.append(name)

    large = [threading.Thread(target=ask, args=("large", 15_000_000)) for _ in range(3)]
    for thread in large:
        thread.start()
    while not order and server.metric("weft_body_bytes") < 90_000_000:
        time.sleep(0.01)
    ask("middle", 900_000)
    for thread in large:
        thread.join()
    assert order[-1] == "large" and order.count("large") == 3, order


@longer
def test_four_endpoints_for_a_while():
    """One client an endpoint, three models: each result equal to its run alone."""
    server = main()

    def chat_text():
        return text_of(chat(server, max_tokens=40))

    def messages_text():
        answer = messages(server, max_tokens=40, stream=True)
        return "".join(json.loads(data)["delta"]["text"] for name, data in answer.events()
                       if name == "content_block_delta")

    def vectors():
        return embed(server, [f"thread {i}" for i in range(16)]).json

    def scores():
        return rerank(server, "wool", [f"thread {i}" for i in range(16)]).json["results"]

    jobs = []
    for job in (chat_text, messages_text, vectors, scores):
        jobs.append(lambda job=job, alone=job(): job() == alone)
    with Flood(*jobs) as flood:
        end = time.monotonic() + SECONDS / 2
        while time.monotonic() < end or not all(flood.counts):
            assert not flood.wrong and time.monotonic() < end + 300, (flood.wrong[:3], flood.counts)
            time.sleep(0.05)


@longer
def test_overload():
    """Ten times what fits: every answer is 200, 503 or 529, and memory stays flat."""
    folder = tiny()
    server = start(f"tiny={folder},max-queued-requests=8,max-num-seqs=4",
                   f"embed={harness.MODELS / 'weft-demo-embed'},max-queued-requests=2")
    statuses = set()

    def job(send):
        statuses.add(send().status)
        return True

    jobs = []
    for _ in range(32):
        jobs.append(lambda: job(lambda: chat(server, max_tokens=40, temperature=1)))
        jobs.append(lambda: job(lambda: messages(server, max_tokens=40, stream=True)))
    for _ in range(16):
        jobs.append(lambda: job(lambda: embed(server, ["wool"] * 64)))
    with Flood(*jobs):
        sizes = []
        while len(sizes) < 2 or sizes[-1] > sizes[-2] * 1.02 or 200 not in statuses or len(statuses) < 2:
            assert len(sizes) < 32, f"memory grows, or all are served: {sizes}, {statuses}"
            time.sleep(SECONDS / 4)
            sizes.append(0 if harness.sanitized() else resident(server))
    assert statuses <= {200, 503, 529} and 200 in statuses and len(statuses) > 1, statuses
    assert chat(server, max_tokens=3).status == 200
