# SPDX-License-Identifier: Apache-2.0
"""Connections when there are more clients than open files: many event loops with a small limit, and
clients without a key that never end their bodies. Asserts no time."""

import pathlib
import re
import socket
import tempfile

import harness
from harness import MODELS, embed

FILES = 256
HEAD = b"POST /v1/embeddings HTTP/1.1\r\nHost: a\r\n"


class Limited(harness.Server):
    """A server with this many open files."""

    def __init__(self, *args):
        self.folder = tempfile.TemporaryDirectory()
        script = pathlib.Path(self.folder.name) / "weft"
        script.write_text(f'#!/bin/sh\nulimit -n {FILES}\nexec "{harness.WEFT}" "$@"\n')
        script.chmod(0o755)
        self.program = script
        super().__init__(*args)


def limited(loops):
    server = Limited(f"embed={MODELS / 'weft-demo-embed'}", "--http-threads", loops)
    harness.servers.append(server)
    line = re.search(r"open files \(ulimit -n\), of which weft itself uses (\d+), allows at most (\d+) ",
                     server.output())
    assert line, server.output()
    own, most = int(line[1]), int(line[2])
    assert own > 9 * loops and own + most < FILES, line[0]
    return server, most


def connected(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=600)


def all_of(s):
    got = b""
    while part := s.recv(65536):
        got += part
    return got


def test_many_loops_with_few_files():
    """All promised connections are answered, and then one more after another."""
    for loops in (13, 22):
        server, most = limited(loops)
        held = [connected(server) for _ in range(most - 1)]
        for s in held:
            s.sendall(b"GET /version HTTP/1.1\r\nHost: a\r\n\r\n")
        for s in held:
            assert s.recv(65536).startswith(b"HTTP/1.1 200 OK"), loops
        for i in range(5):
            assert embed(server, f"wool {i}").status == 200
        assert " accept: " not in server.output()
        for s in held:
            s.close()


def test_unfinished_bodies_without_a_key():
    """Twice as many as there are connections: each gets 401, and clients with a key get in."""
    server, most = limited(22)
    tails = (b"Content-Length: 100\r\n\r\n", b"Content-Length: 100\r\n\r\n{", b"Transfer-Encoding: chunked\r\n\r\n",
             b"Authorization: Bearer no\r\nContent-Length: 100\r\n\r\n{")
    flood = [connected(server) for _ in range(2 * most)]
    for i, s in enumerate(flood):
        s.sendall(HEAD + tails[i % len(tails)])
    for i in range(5):
        assert embed(server, f"wool {i}").status == 200
    for s in flood:
        assert all_of(s).startswith(b"HTTP/1.1 401 "), "not refused"
        s.close()
    assert server.metric("weft_connections ") == 1
