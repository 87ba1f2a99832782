"""Web pages in a browser: what they may read with --allowed-origins, and that nothing is said without."""

import subprocess

from harness import KEY, MODELS, WEFT, main, start

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
        "access-control-allow-methods": "GET, POST, OPTIONS", "access-control-allow-headers": ASKED,
        "access-control-expose-headers": "x-request-id, request-id, retry-after"}
    read = {"vary": "origin", "access-control-allow-origin": PAGE,
            "access-control-expose-headers": "x-request-id, request-id, retry-after"}
    body = {"model": "embed", "input": "a"}
    assert own(server.post("/v1/embeddings", body, origin=PAGE)) == read
    refused = server.post("/v1/embeddings", body, origin=PAGE, authorization="Bearer wrong")
    assert refused.status == 401 and own(refused) == read
    assert own(server.post("/nowhere", body, origin=PAGE)) == read
    assert own(server.request("GET", "/health", headers={"origin": PAGE})) == read
    for answer in (preflight(server, OTHER), server.post("/v1/embeddings", body, origin=OTHER),
                   server.post("/v1/embeddings", body)):
        assert answer.status in (200, 204) and own(answer) == {"vary": "origin"}


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
    assert done.returncode != 0 and "--allowed-origins: 'app.example' is no origin" in done.stderr
