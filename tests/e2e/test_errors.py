# SPDX-License-Identifier: Apache-2.0
"""The error table of the wire specification, in both shapes, and the headers that go with it."""

import json

from harness import KEY, chat, embed, expect, main, messages, rerank, start, tiny, user

BOTH = (("/v1/chat/completions", "openai"), ("/v1/messages", "messages"))


def check_shape(answer, path):
    assert answer.headers["content-type"] == "application/json", answer.headers
    assert int(answer.headers["content-length"]) == len(answer.bytes)
    assert answer.headers["x-request-id"] == answer.headers["request-id"]
    assert answer.headers["cache-control"] == "no-store"
    int(answer.headers["openai-processing-ms"])
    body = answer.json
    if path.startswith("/v1/messages") or path.startswith("/v1/v1/messages"):
        assert set(body) == {"type", "error", "request_id"} and body["type"] == "error"
        assert set(body["error"]) == {"type", "message"}
        assert body["request_id"] == answer.headers["request-id"]
    else:
        assert set(body) == {"error"}
        assert set(body["error"]) >= {"message", "type", "param", "code"}
        assert body["error"]["code"] is None or isinstance(body["error"]["code"], str)


def both(send, status_openai, code, type_openai, type_messages, status_messages=None):
    for path, shape in BOTH:
        answer = send(path)
        wanted = status_messages if shape == "messages" and status_messages else status_openai
        assert answer.status == wanted, (path, answer.status, answer.text)
        check_shape(answer, path)
        if shape == "openai":
            assert answer.error["code"] == code and answer.error["type"] == type_openai
        else:
            assert answer.error["type"] == type_messages, answer.text


def test_keys():
    s = main()
    both(lambda p: s.post(p, {}, authorization=None, x_api_key=None), 401, "missing_api_key",
         "authentication_error", "authentication_error")
    both(lambda p: s.post(p, {}, **({"x_api_key": "no"} if "messages" in p
                                    else {"authorization": "Bearer no"})),
         401, "invalid_api_key", "authentication_error", "authentication_error")
    answer = s.post("/v1/chat/completions", {}, authorization=None)
    assert answer.headers["www-authenticate"] == "Bearer"


def test_json():
    s = main()
    for body in ("", "{", "[1", '{"a":NaN}', "{} {}", "\xff"):
        both(lambda p: s.post(p, body.encode("latin-1")), 400, "invalid_json",
             "invalid_request_error", "invalid_request_error")


def test_missing_type_range():
    s = main()
    for body, code in (({}, "missing_required_parameter"),
                       ({"model": "tiny"}, "missing_required_parameter"),
                       ({"model": 5}, "invalid_type"),
                       ({"model": "tiny", "messages": user("a"), "temperature": "0.7"},
                        "invalid_type"),
                       ({"model": "tiny", "messages": user("a"), "temperature": 3},
                        "invalid_value"),
                       ({"model": "tiny", "messages": user("a"), "best_of": 2},
                        "unsupported_parameter")):
        both(lambda p: s.post(p, body), 400, code, "invalid_request_error",
             "invalid_request_error")


def test_model():
    s = main()
    both(lambda p: s.post(p, {"model": "none", "messages": user("a")}), 404, "model_not_found",
         "invalid_request_error", "not_found_error")
    both(lambda p: s.post(p, {"model": "embed", "messages": user("a")}), 400, "unsupported_model",
         "invalid_request_error", "invalid_request_error")
    for path, model in (("/v1/embeddings", "tiny"), ("/v1/embeddings", "rerank"),
                        ("/v1/rerank", "tiny"), ("/v1/rerank", "embed")):
        answer = s.post(path, {"model": model, "input": "a", "query": "a", "documents": ["a"]})
        expect(answer, 400, "unsupported_model", "model")
        assert "/v1/" in answer.error["message"]


def test_context():
    s = main()
    long = user("word " * 3000)
    both(lambda p: s.post(p, {"model": "tiny", "messages": long, "stream": True}), 400,
         "context_length_exceeded", "invalid_request_error", "invalid_request_error")
    error = chat(s, messages=long).error
    assert error["n_ctx"] == 512 and error["n_prompt_tokens"] > 512 and error["param"] == "messages"
    message = messages(s, messages=long).error["message"]
    assert message.startswith(f"prompt is too long: {error['n_prompt_tokens']} tokens > 511 maximum")
    answer = embed(s, ["a", "word " * 3000])
    expect(answer, 400, "context_length_exceeded", "input[1]")


def test_content_type():
    s = main()
    for kind in ("text/plain", "application/x-www-form-urlencoded"):
        both(lambda p: s.post(p, "{}", content_type=kind), 415, "unsupported_media_type",
             "invalid_request_error", "invalid_request_error")
    for kind in ("application/json; charset=utf-8", "application/vnd.x+json", None):
        assert s.post("/v1/chat/completions", {}, content_type=kind).status == 400
    answer = s.post("/v1/chat/completions", "{}", content_encoding="gzip")
    expect(answer, 415, "unsupported_content_encoding")


def test_method_and_path():
    s = main()
    for path in ("/v1/chat/completions", "/v1/messages", "/v1/embeddings", "/v1/rerank"):
        answer = s.request("GET", path, headers={"authorization": f"Bearer {KEY}"})
        assert answer.status == 405 and answer.headers["allow"] == "POST", answer.text
        check_shape(answer, path)
    answer = s.request("GET", "/v1/none", headers={"authorization": f"Bearer {KEY}"})
    expect(answer, 404, "unknown_url")
    answer = s.request("POST", "/v1/messages/none", "{}", {"x-api-key": KEY})
    assert answer.status == 404 and answer.error["type"] == "not_found_error"


def test_too_large():
    s = main()
    body = b'{"model":"tiny","x":"' + b"a" * (32 << 20) + b'"}'
    both(lambda p: s.post(p, body), 413, "request_too_large", "invalid_request_error",
         "request_too_large")


def test_never_fits():
    s = start(f"tiny={tiny()},max-queued-tokens=64")
    answer = chat(s, messages=user("word " * 100))
    expect(answer, 400)
    assert "max-queued-tokens" in answer.error["message"]
    assert chat(s, max_tokens=3).status == 200


def test_request_ids():
    s = main()
    answer = s.post("/v1/chat/completions", {}, x_request_id="my-id_1.2")
    assert answer.headers["x-request-id"] == "my-id_1.2"
    answer = s.post("/v1/chat/completions", {}, x_request_id="not fine")
    assert answer.headers["x-request-id"].startswith("req_")
    answer = s.post("/v1/messages", {}, x_request_id="mine")
    assert answer.json["request_id"] == "mine"


def test_overload():
    """A full queue: 503 and 529 with both retry headers, and later everything is served again."""
    import concurrent.futures

    s = start(f"tiny={tiny()},max-queued-requests=4,max-num-seqs=1")
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        jobs = [pool.submit(chat if i % 2 else messages, s, max_tokens=300, temperature=1)
                for i in range(48)]
        answers = [(i, j.result()) for i, j in enumerate(jobs)]
    refused = [(i, a) for i, a in answers if a.status != 200]
    assert refused and len(refused) < 48
    for i, answer in refused:
        assert answer.status == (503 if i % 2 else 529), answer.text
        assert 1 <= int(answer.headers["retry-after"]) <= 60
        assert int(answer.headers["retry-after-ms"]) >= 1
        if i % 2:
            assert answer.error["type"] == "server_error" and answer.error["code"] == "overloaded"
        else:
            assert answer.error["type"] == "overloaded_error"
    assert chat(s, max_tokens=3).status == 200


def test_order_of_checks():
    """Route, method, key, content type, JSON, model, fields, context: the first check that fails decides."""
    s = main()
    answer = s.request("POST", "/v1/none", "{", {"content-type": "text/plain"})
    assert answer.status == 404
    answer = s.request("GET", "/v1/rerank", headers={"content-type": "text/plain"})
    assert answer.status == 405
    answer = s.post("/v1/rerank", "{", content_type="text/plain", authorization="Bearer no")
    assert answer.status == 401
    assert s.post("/v1/rerank", "{", content_type="text/plain").status == 415
    answer = s.post("/v1/chat/completions", {"model": "none", "temperature": 9, "messages": 5})
    assert answer.status == 404
    answer = s.post("/v1/chat/completions",
                    {"model": "tiny", "temperature": 9, "messages": user("word " * 3000)})
    assert answer.error["param"] == "temperature"
    json.loads(answer.text)


def test_rerank_errors():
    s = main()
    expect(rerank(s, "", ["a"]), 400, "invalid_value", "query")
    expect(rerank(s, "q", "a"), 400, "invalid_type", "documents")
    expect(rerank(s, "q", ["a"], rank_fields=["title"]), 400, "unsupported_parameter",
           "rank_fields")
    expect(rerank(s, "word " * 600, ["a"]), 400, None, "query")
