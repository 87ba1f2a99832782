# SPDX-License-Identifier: Apache-2.0
"""What reaches the log of a server is one line each, whatever clients send."""

import json
import re
import socket
import subprocess
import time

from harness import KEY, MODELS, chat, embed, messages, once, start, tiny

NAME = 'wé"x\\y\u202e z'  # of a model: what could end a line or a string of it


def frame(kind, flags, stream, payload):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def header(name, value):
    """A literal without indexing and without Huffman; lengths below 127."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def http2_request(server, method, path, body=None, until=None, id=b""):
    """Sends one request over HTTP/2; waits for the end of the answer, or leaves after some bytes."""
    pairs = [(b":method", method), (b":scheme", b"http"), (b":path", path), (b":authority", b"x"),
             (b"authorization", b"Bearer " + KEY.encode()), (b"content-type", b"application/json")]
    pairs += [(b"x-request-id", id)] if id else []
    block = b"".join(header(*pair) for pair in pairs)
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as s:
        s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"") +
                  frame(1, 4 if body else 5, 1, block) + (frame(0, 1, 1, body) if body else b""))
        got = b""
        while got.count(b"\x01\x04\x00\x00\x00\x01") + got.count(b"\x00\x00\x00\x01") == 0 or \
                body and (until or b"\0\1\0\0\0\1") not in got:
            more = s.recv(65536)
            if not more:
                return
            got += more


def http1_leave(server, body, id):
    """Reads the beginning of a stream over HTTP/1.1 and closes the connection."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=600) as s:
        s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " +
                  KEY.encode() + b"\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n"
                  % (id, len(body)) + body)
        while b"data: " not in s.recv(65536):
            pass


@once
def json_server():
    return start(f"{NAME}={tiny()}", f"embed={MODELS / 'weft-demo-embed'}", "--log-format", "json",
                 stdout=subprocess.DEVNULL)


def requests_of(server):
    """The access lines; every line of the log is an object with time, level and message. What
    follows the last line end is a line that is being written."""
    lines = [json.loads(line) for line in server.output().split("\n")[:-1]]
    assert all({"ts", "level", "message"} <= set(line) for line in lines), lines
    return [line for line in lines if line["message"] == "request"]


def line_of(server, **wanted):
    """Waits for the one access line that has these values."""
    deadline = time.monotonic() + 600
    while True:
        found = [line for line in requests_of(server) if wanted.items() <= line.items()]
        if found:
            assert len(found) == 1, found
            return found[0]
        assert time.monotonic() < deadline, requests_of(server)
        time.sleep(0.02)


def shown(name):
    return name.replace("\u202e", "\\u{202e}")


def test_access_lines_of_answers():
    s = json_server()
    answer = chat(s, model=NAME, max_tokens=5)
    usage = answer.json["usage"]
    line = line_of(s, id=answer.headers["x-request-id"])
    assert (line["method"], line["route"], line["status"]) == ("POST", "/v1/chat/completions", 200)
    assert (line["tokens_in"], line["tokens_out"]) == (usage["prompt_tokens"], 5), line
    assert line["model"] == shown(NAME) and line["key"] == 0 and line["client_gone"] is False, line
    assert "code" not in line, line
    assert 0 <= line["queue_ms"] and 0 < line["first_token_ms"] <= line["total_ms"], line
    assert line["protocol"] == "HTTP/1.1" and line["bytes_in"] > 0 < line["bytes_out"], line
    assert KEY not in s.output()

    answer = messages(s, model=NAME, max_tokens=7, stream=True)
    line = line_of(s, id=answer.headers["request-id"])
    assert (line["route"], line["status"], line["tokens_out"]) == ("/v1/messages", 200, 7), line

    answer = embed(s, ["one", "two"])
    line = line_of(s, id=answer.headers["x-request-id"])
    assert line["model"] == "embed" and line["tokens_in"] == answer.json["usage"]["prompt_tokens"]
    assert "tokens_out" not in line and "first_token_ms" not in line, line

    body = json.dumps({"model": NAME, "stream": True, "max_tokens": 6,
                       "messages": [{"role": "user", "content": "Once"}]}).encode()
    http2_request(s, b"POST", b"/v1/chat/completions", body)
    line = line_of(s, protocol="HTTP/2", method="POST")
    assert (line["status"], line["tokens_out"], line["client_gone"]) == (200, 6, False), line


def test_access_lines_of_failures():
    s = json_server()
    answer = s.request("GET", "/v1/models")
    line = line_of(s, id=answer.headers["x-request-id"])
    assert (line["route"], line["status"]) == ("/v1/models", 401) and "key" not in line, line
    assert line["code"] == "missing_api_key", line
    answer = s.request("GET", "/%22%7d%0a?secret=1", headers={"x-request-id": "mine"})
    line = line_of(s, id="mine")
    assert (line["route"], line["status"]) == ("/%22%7d%0a", 404), line
    answer = chat(s, model=NAME, temperature=9, **{NAME: 1})
    line = line_of(s, id=answer.headers["x-request-id"])
    assert (line["status"], line["code"], line["model"]) == (400, "invalid_value", shown(NAME)), line
    answer = messages(s, model="n" * 300, max_tokens=1)
    line = line_of(s, id=answer.headers["request-id"])
    assert (line["status"], line["code"], line["model"]) == (404, "model_not_found", "n" * 200), line
    http2_request(s, b"GET", b"/\"\\\n\xff\xe2\x80\xae")
    assert line_of(s, protocol="HTTP/2", method="GET")["route"] == '/"\\\\n\\xff\\u{202e}'
    with socket.create_connection(("127.0.0.1", s.port), timeout=600) as c:
        c.sendall(b"POST /\"x HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n")
        c.recv(65536)
    line = line_of(s, route='/"x')  # refused by the HTTP library
    assert (line["status"], line["code"]) == (400, "invalid_value"), line


def test_access_lines_count_the_upload():
    """What a body takes to arrive is a part of the request's time."""
    s = json_server()
    begin = b" " * 300000
    body = json.dumps({"model": NAME, "max_tokens": 1, "messages": [
        {"role": "user", "content": "slow"}]}).encode()
    with socket.create_connection(("127.0.0.1", s.port), timeout=600) as c:
        c.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nX-Request-Id: slow\r\n"
                  b"Authorization: Bearer %s\r\nContent-Length: %d\r\n\r\n"
                  % (KEY.encode(), len(begin + body)) + begin)
        while s.metric("weft_body_bytes") < 100000:
            time.sleep(0.02)  # the server has not begun with it
        time.sleep(0.6)
        c.sendall(body)
        assert c.recv(65536).startswith(b"HTTP/1.1 200")
    line = line_of(s, id="slow")
    assert 500 <= line["first_token_ms"] <= line["total_ms"], line


def line_of_leaver(server, protocol, leave):
    """The line of a client that leaves before all is computed, which takes a tenth of a second: one that is held up tries again."""
    for i in range(20):
        id = f"left-{protocol.replace('/', '-')}-{i}"
        leave(id.encode())
        line = line_of(server, id=id, protocol=protocol)
        if line["client_gone"] and line["tokens_out"] < 400:
            break
    assert line["client_gone"] is True, line
    return line


def test_access_lines_of_clients_that_leave():
    s = json_server()
    body = json.dumps({"model": NAME, "stream": True, "max_tokens": 400, "ignore_eos": True,
                       "messages": [{"role": "user", "content": "One left"}]}).encode()
    line = line_of_leaver(s, "HTTP/1.1", lambda id: http1_leave(s, body, id))
    assert line["status"] == 499 and line["tokens_in"] > 0 and 0 < line["tokens_out"] < 400, line
    line = line_of_leaver(s, "HTTP/2", lambda id: http2_request(
        s, b"POST", b"/v1/chat/completions", body, until=b"data: ", id=id))
    assert line["status"] == 499 and line["tokens_in"] > 0, line


def test_access_lines_are_off_below_info():
    s = start(MODELS / "weft-demo-embed", "--log-level", "warning")
    assert s.request("GET", "/not-there").status == 404
    assert s.stop() == 0
    assert " info " not in s.output(), s.output()


def test_http2_forges_no_line():
    s = start(MODELS / "weft-demo-embed")
    forged = b"/x\n2026-11-22T00:00:00.000Z info stopped\x1b[2J\xff\xe2\x80\xae"
    http2_request(s, b"GET", forged)
    http2_request(s, b"G\nE\x1bT", b"/y")
    assert s.request("GET", "/z%0a").status == 404
    deadline = time.monotonic() + 600
    while "/z%0a" not in s.output() and time.monotonic() < deadline:
        time.sleep(0.02)
    s.log.seek(0)
    log = s.log.read()
    assert rb'method=GET route="/x\\n2026-11-22T00:00:00.000Z info stopped\\x1b[2J\\xff' in log, log
    assert rb"method=G\nE\x1bT route=/y status=40" in log, log
    assert not re.search(rb"[\x00-\x09\x0b-\x1f\x7f]", log), log
    assert not re.search(rb"(?m)^2026-11-22T00:00:00.000Z", log), log
