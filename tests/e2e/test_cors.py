# SPDX-License-Identifier: Apache-2.0
"""Web pages in a browser: what they may read with --allowed-origins, and that nothing is said without."""

import contextlib
import http.client
import subprocess

from harness import KEY, MODELS, WEFT, main, once, start, user

PAGE, OTHER = "https://app.example", "https://evil.example"
ASKED = "authorization,content-type,anthropic-dangerous-direct-browser-access"


def preflight(server, origin, path="/v1/embeddings"):
    return server.request("OPTIONS", path, headers={
        "origin": origin, "access-control-request-method": "POST",
        "access-control-request-headers": ASKED})


def own(answer):
    return {k: v for k, v in answer.headers.items() if k.startswith("access-control") or k == "vary"}


def test_listed_pages_read_answers():
    server = start(f"embed={MODELS / 'weft-demo-embed'}", "--allowed-origins", PAGE)
    asked = preflight(server, PAGE)
    assert asked.status == 204 and asked.headers["allow"] == "POST"
    assert own(asked) == {
        "vary": "origin", "access-control-allow-origin": PAGE, "access-control-max-age": "600",
        "access-control-allow-methods": "GET, POST, DELETE, OPTIONS", "access-control-allow-headers": ASKED,
        "access-control-expose-headers": "x-request-id, request-id, retry-after"}
    read = {"vary": "origin", "access-control-allow-origin": PAGE,
            "access-control-expose-headers": "x-request-id, request-id, retry-after"}
    body = {"model": "embed", "input": "a"}
    assert own(server.post("/v1/embeddings", body, origin=PAGE)) == read
    refused = server.post("/v1/embeddings", body, origin=PAGE, authorization="Bearer wrong")
    assert refused.status == 401 and own(refused) == read
    assert own(server.post("/nowhere", body, origin=PAGE)) == read
    early = {"content-length": str(1 << 40)}  # is answered before any body and route
    for origin, said in ((PAGE, read), (OTHER, {"vary": "origin"}), (None, {"vary": "origin"})):
        answer = server.request("POST", "/v1/embeddings", None, {**early, **({"origin": origin} if origin else {})})
        assert answer.status == 413 and own(answer) == said, (origin, answer.headers)
    # http.client alone would put other headers before the Origin
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)) as first:
        first.putrequest("POST", "/v1/embeddings", skip_host=True, skip_accept_encoding=True)
        for name, value in {"origin": PAGE, "host": "a", **early}.items():
            first.putheader(name, value)
        first.endheaders()
        answer = first.getresponse()
        assert answer.status == 413 and answer.headers["access-control-allow-origin"] == PAGE, answer.headers
    assert own(server.request("GET", "/health", headers={"origin": PAGE})) == read
    for answer in (preflight(server, OTHER), server.post("/v1/embeddings", body, origin=OTHER),
                   server.post("/v1/embeddings", body)):
        assert answer.status in (200, 204) and own(answer) == {"vary": "origin"}


@once
def open_to_three():
    """Listed by a comma and by the option twice, one in capitals."""
    return start(f"chat={MODELS / 'weft-demo-chat'}", "--allowed-origins", "HTTPS://App.Example,http://localhost:3000",
                 "--allowed-origins", "tauri://localhost")


def test_streams_and_every_kind_of_answer():
    server = open_to_three()
    for origin, own_form in ((PAGE, PAGE), ("HTTPS://APP.EXAMPLE", PAGE), ("http://localhost:3000", None),
                             ("tauri://localhost", None)):
        allowed = own_form or origin
        body = {"model": "chat", "max_tokens": 2, "stream": True}
        key = {"authorization": f"Bearer {KEY}", "origin": origin}
        for answer, status in (
                (server.post("/v1/chat/completions", {**body, "messages": user("a")}, origin=origin), 200),
                (server.post("/v1/messages", {**body, "messages": user("a")}, origin=origin), 200),
                (server.post("/v1/completions", {**body, "prompt": "a"}, origin=origin), 200),
                (server.post("/v1/responses", {"model": "chat", "input": "a", "stream": True, "max_output_tokens": 2},
                             origin=origin), 200),
                (server.request("GET", "/v1/models", headers=key), 200),
                (server.request("HEAD", "/v1/models", headers=key), 200),
                (server.request("GET", "/v1/messages", headers=key), 405),
                (server.post("/v1/chat/completions", "{", origin=origin), 400),
                (server.post("/v1/chat/completions", {**body, "model": "none", "messages": user("a")}, origin=origin), 404),
                (server.post("/v1/chat/completions", "{}", origin=origin, content_type="text/plain"), 415)):
            assert answer.status == status, (answer.status, answer.text)
            assert answer.headers["access-control-allow-origin"] == allowed, (origin, answer.headers)
            assert answer.headers["vary"] == "origin" and "access-control-allow-methods" not in answer.headers


def test_pages_that_are_like_a_listed_one():
    server = open_to_three()
    for origin in ("https://app.example.evil", "https://app.example:8443", "http://app.example", "https://xapp.example",
                   "http://localhost", "http://localhost:30000", "null", "https://app.example, https://evil.example"):
        for answer in (preflight(server, origin), server.request("GET", "/health", headers={"origin": origin})):
            assert answer.status in (200, 204) and own(answer) == {"vary": "origin"}, (origin, answer.headers)


def test_headers_that_a_page_asks_for():
    """Names alone are said back, and of no more than a line of them."""
    server = open_to_three()
    for names, said in (("X-Api-Key, anthropic-version", True), ("x" * 1024, True), ("x" * 1025, False),
                        ("a: b", False), ("<script>", False)):
        answer = server.request("OPTIONS", "/v1/messages", headers={
            "origin": PAGE, "access-control-request-method": "POST", "access-control-request-headers": names})
        assert answer.status == 204 and answer.headers["access-control-allow-origin"] == PAGE
        assert (answer.headers.get("access-control-allow-headers") == names) == said, (names, answer.headers)
        assert said or "script" not in str(answer.headers) and "a: b" not in str(answer.headers)


def test_a_star_lets_all_pages_in():
    server = start(f"embed={MODELS / 'weft-demo-embed'}", "--allowed-origins", "*")
    answer = preflight(server, OTHER)
    assert own(answer)["access-control-allow-origin"] == "*" and "vary" not in own(answer)


def test_without_a_list_no_page_reads():
    assert own(preflight(main(), PAGE)) == {}
    headers = {"origin": PAGE, "authorization": f"Bearer {KEY}"}
    assert own(main().request("GET", "/v1/models", headers=headers)) == {}


def test_what_is_no_origin_ends_the_start():
    done = subprocess.run([WEFT, "serve", f"embed={MODELS / 'weft-demo-embed'}", "--port", "0", "--api-key", KEY,
                           "--allowed-origins", "app.example"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "--allowed-origins: 'app.example' is not an origin" in done.stderr
