"""What reaches the log of a server is one line each, whatever clients send."""

import re
import socket
import time

from harness import MODELS, start


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header(name, value):
    """A literal without indexing and without Huffman; lengths below 127."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def http2_request(server, method, path):
    """Sends one request over HTTP/2 and waits for what comes back."""
    block = b"".join(header(*pair) for pair in (
        (b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"x")))
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") + frame(1, 5, 1, block))
        got = b""
        while got.count(b"\x01\x04\x00\x00\x00\x01") + got.count(b"\x00\x00\x00\x01") == 0:
            more = s.recv(65536)
            if not more:
                return
            got += more


def test_http2_forges_no_line():
    s = start(MODELS / "weft-demo-embed", "--log-level", "debug")
    forged = b"/x\n2026-11-22T00:00:00.000Z info stopped\x1b[2J\xff\xe2\x80\xae"
    http2_request(s, b"GET", forged)
    http2_request(s, b"G\nE\x1bT", b"/y")
    assert s.request("GET", "/z%0a").status == 404
    deadline = time.monotonic() + 30
    while "/z%0a" not in s.output() and time.monotonic() < deadline:
        time.sleep(0.02)
    s.log.seek(0)
    log = s.log.read()
    assert rb"GET /x\n2026-11-22T00:00:00.000Z info stopped\x1b[2J\xff\u{202e} 40" in log, log
    assert rb"G\nE\x1bT /y 40" in log, log
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", log), log
    assert not re.search(rb"(?m)^2026-11-22T00:00:00.000Z", log), log
