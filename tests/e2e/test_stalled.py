# SPDX-License-Identifier: Apache-2.0
"""Readers that take nothing give their places up to those who wait, and go on where they were.

Nothing here asserts a time: a reader that stalls is cancelled after a minute, and the tests assert
that nobody was cancelled when the others had their answers.
"""

import json
import socket
import struct
import time

from harness import KEY, chat, start, text_of, tiny, user

PLACES = 4
STREAMS, SOCKETS = 2 * PLACES, 5 * PLACES  # streams of a connection; no more, so that a slow machine is done within the minute
SETTINGS, DATA, HEADERS, WINDOW_UPDATE = 4, 0, 1, 8
END_STREAM, END_HEADERS, ACK = 1, 4, 1
BODY = {"messages": user("Once upon a time"), "temperature": 0, "stream": True, "max_tokens": 300,
        "ignore_eos": True}


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header(name, value):
    """A literal without indexing and without Huffman; lengths below 127."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


class ZeroWindow:
    """An HTTP/2 connection with streaming chats that lets nothing of an answer come."""

    def __init__(self, server, streams):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=600)
        window = struct.pack(">HI", 4, 0)  # SETTINGS_INITIAL_WINDOW_SIZE
        self.socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS, 0, 0, window))
        body = json.dumps({"model": "tiny", **BODY}).encode()
        block = b"".join(header(*pair) for pair in (
            (b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/v1/chat/completions"),
            (b":authority", b"x"), (b"authorization", b"Bearer " + KEY.encode()),
            (b"content-type", b"application/json")))
        for i in range(streams):
            self.socket.sendall(frame(HEADERS, END_HEADERS, 2 * i + 1, block) +
                                frame(DATA, END_STREAM, 2 * i + 1, body))

    def read_stream(self, stream):
        """Opens the window of one stream and reads it to its end."""
        more = struct.pack(">I", 1 << 24)
        self.socket.sendall(frame(WINDOW_UPDATE, 0, 0, more) + frame(WINDOW_UPDATE, 0, stream, more))
        got, text = b"", b""
        while True:
            while len(got) < 9 or len(got) < 9 + int.from_bytes(got[:3], "big"):
                part = self.socket.recv(65536)
                assert part, "the connection was lost"
                got += part
            length, kind, flags = int.from_bytes(got[:3], "big"), got[3], got[4]
            number, payload, got = got[5:9], got[9:9 + length], got[9 + length:]
            if kind == SETTINGS and not flags & ACK:
                self.socket.sendall(frame(SETTINGS, ACK, 0, b""))
            if int.from_bytes(number, "big") != stream:
                continue
            assert kind in (HEADERS, DATA, WINDOW_UPDATE), (kind, payload)
            text += payload if kind == DATA else b""
            if kind == DATA and flags & END_STREAM:
                return text.decode()


def story_of(sse):
    chunks = [json.loads(line[6:]) for line in sse.split("\n")
              if line.startswith("data: ") and line != "data: [DONE]"]
    assert sse.rstrip().endswith("data: [DONE]"), sse[-300:]
    return "".join(c["choices"][0]["delta"].get("content") or "" for c in chunks if c["choices"])


def cancelled(server):
    return server.metric(r"vllm:request_success_total\{.*abort")


def tokens(server):
    return server.metric(r"weft_generation_tokens_total")


def wait_quiet(server, least):
    """Until so many tokens were generated and no more come."""
    deadline, before = time.monotonic() + 600, -1
    while True:
        now = tokens(server)
        if now >= least and now == before:
            return
        assert cancelled(server) == 0, f"{now} of {least} tokens, and a reader was cancelled"
        assert time.monotonic() < deadline, f"{now} of {least} tokens"
        before = now
        time.sleep(0.2)


def test_stalled_http2_readers_hold_nobody_up():
    server = start(f"tiny={tiny()},max-num-seqs={PLACES}")
    connections = [ZeroWindow(server, STREAMS) for _ in range(3)]
    # Each of them has its ring of tokens: none waited for another one to be cancelled.
    wait_quiet(server, 3 * STREAMS * 60)
    want = text_of(chat(server, max_tokens=300, ignore_eos=True))
    for _ in range(3):
        assert text_of(chat(server, max_tokens=5)) == text_of(chat(server, max_tokens=5))
    assert cancelled(server) == 0
    for connection in connections:  # a reader that goes on gets the whole story
        assert story_of(connection.read_stream(2 * STREAMS - 1)) == want
        connection.socket.close()


def test_stalled_sockets_hold_nobody_up():
    """As above with HTTP/1.1: sockets with small buffers that are never read."""
    name = "tiny" + "y" * 180  # stands in each event, so that few of them fill the buffers
    server = start(f"{name}={tiny()},max-num-seqs={PLACES}")
    body = json.dumps({"model": name, **BODY, "max_tokens": 480}).encode()
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {KEY}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n").encode()
    stalled = []
    for _ in range(SOCKETS):
        s = socket.socket()
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        s.connect(("127.0.0.1", server.port))
        s.sendall(head + body)
        stalled.append(s)
    wait_quiet(server, SOCKETS * 60)
    assert chat(server, model=name, max_tokens=5).status == 200
    assert cancelled(server) == 0
    for s in stalled:
        s.close()
