# SPDX-License-Identifier: Apache-2.0
"""Hundreds of connections at once, each with a large body that does not end. Without a key they are
refused and hold no memory; with one, resident memory stays within the budget and other clients are
answered. Asserts no time."""

import concurrent.futures
import re
import selectors
import socket
import threading
import time

import harness
from harness import KEY, MODELS, chat, embed, start
from test_load import resident

CONNECTIONS, BODY = harness.amount(100, 500), 30 << 20
BUDGET = 128 << 20
SLACK = 64 << 20  # what one turn of the loop reads beyond it, and the program's own


class Uploads(threading.Thread):
    """All connections at once; each sends all but the end of its body, or until it is closed."""

    def __init__(self, server, heads):
        super().__init__()
        self.stop = threading.Event()
        self.closed = 0
        self.selector = selectors.DefaultSelector()
        for i in range(CONNECTIONS):
            s = socket.create_connection(("127.0.0.1", server.port))
            s.sendall(heads[i % len(heads)])
            s.setblocking(False)
            self.selector.register(s, selectors.EVENT_WRITE, [BODY - 1])
        self.start()

    def run(self):
        piece = b" " * (1 << 20)
        while not self.stop.is_set() and self.selector.get_map():
            for key, _ in self.selector.select(0.1):
                try:
                    key.data[0] -= key.fileobj.send(piece[: key.data[0]])
                    ended = key.data[0] == 0
                except OSError:
                    ended = True
                    self.closed += 1
                if ended:
                    self.selector.unregister(key.fileobj)


def peak(server):
    status = open(f"/proc/{server.process.pid}/status").read()
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) << 10


def upload(key):
    """A flood with this header; returns the server, connections closed, memory at the peak."""
    server = start(f"embed={MODELS / 'weft-demo-embed'}", "-v", "--max-body-memory", BUDGET)
    before = resident(server)
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\n{key}"
    chunked = f"{head}Transfer-Encoding: chunked\r\n\r\n{BODY:x}\r\n"
    uploads = Uploads(server, [f"{head}Content-Length: {BODY}\r\n\r\n".encode(), chunked.encode()])
    answered = 0
    while uploads.is_alive():
        assert embed(server, f"wool {answered}").status == 200
        answered += 1
    more = peak(server) - before
    print(f"{CONNECTIONS} uploads: {uploads.closed} closed, {answered} answers meanwhile, "
          f"{more >> 20} MiB more at the peak with a budget of {BUDGET >> 20}")
    assert answered
    return server, uploads.closed, more


@harness.longer
def test_uploads_without_a_key():
    server, closed, more = upload("x-api-key: no\r\n")
    assert closed == CONNECTIONS
    assert server.metric("weft_body_floods_total") == 0
    assert harness.sanitized() or more <= SLACK, more


@harness.longer
def test_uploads_with_a_key():
    server, closed, more = upload(f"x-api-key: {KEY}\r\n")
    assert closed >= CONNECTIONS - BUDGET // (4 << 20)
    assert closed <= server.metric("weft_body_floods_total")
    assert harness.sanitized() or more <= BUDGET + SLACK, (more, BUDGET)
    assert re.search(r"^http: .* 0\.12 GiB for request bodies", server.output(), re.M)


def test_memory_falls_after_a_peak():
    """Parsed bodies of many values take hundreds of MiB; afterwards resident memory is that of before, within 64 MiB."""
    server = start(MODELS / "weft-demo-chat")
    small = [{"role": "user", "content": [{"type": "text", "text": "a"}]}]
    assert chat(server, model="weft-demo-chat", messages=small, max_tokens=2).status == 200
    before = resident(server)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        large = [pool.submit(chat, server, model="weft-demo-chat", messages=small * 90000) for _ in range(2)]
        assert [answer.result().status for answer in large] == [400] * 2  # longer than the context
    more = peak(server) - before
    assert harness.sanitized() or more > 128 << 20, more
    deadline = time.monotonic() + 600
    while not harness.sanitized() and (now := resident(server)) > before + (64 << 20):
        assert time.monotonic() < deadline, (before, more, now)
        time.sleep(0.05)


def test_the_plan_names_the_budget():
    server = start(f"embed={MODELS / 'weft-demo-embed'}", "-v")
    line = re.search(r"^http: .* up to (\S+) GiB in addition to the models, including (\S+) GiB for request bodies",
                     server.output(), re.M)
    assert line and 0.25 <= float(line[2]) < float(line[1]) < 64, server.output()
