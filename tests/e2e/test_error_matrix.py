# SPDX-License-Identifier: Apache-2.0
"""The error table of the wire specification for every route, each in its own shape: a row of ROUTES is a route, a
function here is a line of the table. A new route is one row more."""

import concurrent.futures
import dataclasses
import json
import pathlib
import re

from harness import KEY, MODELS, main, user
from test_errors import check_shape
from test_life import Unready, faulty, open_stream, wait_for, wait_log

LONG = "word " * 3000


@dataclasses.dataclass
class Route:
    path: str
    body: dict  # that is answered with 200
    required: str  # a field of it that must be there
    type: tuple  # a wrong type: more fields, and which one is named
    range: tuple
    unsupported: tuple  # with its code: of a parameter or of a value
    kind: str = "tiny"  # a model that it serves
    other: str = "embed"  # a model that it does not serve; None: it serves all
    long: tuple = None  # over the window, and which field is named; None: nothing is too long
    runs: bool = True  # the engine works for it

    @property
    def unknown(self):
        """A path near it that there is not; what is below /v1/responses/ would be a stored answer."""
        return self.path + ("-none" if self.path == "/v1/responses" else "/none")

    @property
    def messages(self):
        return self.path.startswith(("/v1/messages", "/v1/v1/messages"))

    def with_(self, **more):
        return {**self.body, **more}


CHAT = {"model": "tiny", "messages": user("a"), "max_tokens": 2}
COUNT = {"model": "tiny", "messages": user("a")}
FORBIDDEN = ({"best_of": 2}, "best_of", "unsupported_parameter")
RERANK = {"model": "rerank", "query": "q", "documents": ["a"]}


def message_route(path, body, runs=True):
    return Route(path, body, "messages", ({"temperature": "0.7"}, "temperature"), ({"temperature": 1.5}, "temperature"),
                 FORBIDDEN, long=({"messages": user(LONG)}, "messages") if runs else None, runs=runs)


ROUTES = [
    Route("/v1/chat/completions", CHAT, "messages", ({"temperature": "0.7"}, "temperature"),
          ({"temperature": 3}, "temperature"), FORBIDDEN, long=({"messages": user(LONG)}, "messages")),
    Route("/v1/completions", {"model": "tiny", "prompt": "a", "max_tokens": 2}, "prompt",
          ({"echo": "yes"}, "echo"), ({"max_tokens": 0}, "max_tokens"), ({"suffix": "b"}, "suffix", "unsupported_value"),
          long=({"prompt": LONG}, "prompt")),
    Route("/v1/responses", {"model": "tiny", "input": "a", "max_output_tokens": 16}, "input",
          ({"temperature": "0.7"}, "temperature"), ({"temperature": 3}, "temperature"),
          ({"previous_response_id": "resp_1"}, "previous_response_id", "unsupported_parameter"), long=({"input": LONG}, "input")),
    *[message_route(path, CHAT) for path in ("/v1/messages", "/v1/v1/messages")],
    *[message_route(path, COUNT, runs=False)
      for path in ("/v1/messages/count_tokens", "/v1/v1/messages/count_tokens")],
    Route("/v1/embeddings", {"model": "embed", "input": "a"}, "input", ({"input": 5.5}, "input"),
          ({"encoding_format": "int8"}, "encoding_format"), ({"pooling": "max"}, "pooling", "unsupported_parameter"),
          kind="embed", other="tiny", long=({"input": ["a", LONG]}, "input[1]")),
    *[Route(path, RERANK, "query", ({"documents": "a"}, "documents"), ({"top_n": 0}, "top_n"),
            ({"rank_fields": ["title"]}, "rank_fields", "unsupported_parameter"), kind="rerank", other="tiny",
            long=({"documents": ["a", LONG], "truncate": False}, "documents[1]"))
      for path in ("/v1/rerank", "/v2/rerank", "/rerank", "/v1/v1/rerank", "/v1/v2/rerank", "/v2/v1/rerank",
                   "/v2/v2/rerank")],
    Route("/tokenize", {"model": "tiny", "prompt": "a"}, "prompt", ({"prompt": 5}, "prompt"),
          ({"prompt": None, "messages": []}, "messages"), None, other=None, runs=False),
    Route("/detokenize", {"model": "tiny", "tokens": [1]}, "tokens", ({"tokens": "a"}, "tokens"),
          ({"tokens": [-1]}, "tokens[0]"), None, other=None, runs=False),
]
HANDLERS = ("/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/embeddings",
            "/v1/rerank", "/tokenize", "/detokenize", "/v1/responses")  # the others are aliases
LISTS = ("/v1/models", "/v1/models/tiny")
SHAPES = {"openai": {}, "messages": {"anthropic-version": "2023-06-01"}}


def key_of(route, key=KEY):
    return {"x-api-key": key} if route.messages else {"authorization": f"Bearer {key}"}


def send(server, route, body, **headers):
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
    own = {"content-type": "application/json", **key_of(route)}
    own.update({name.replace("_", "-"): value for name, value in headers.items()})
    return server.request("POST", route.path, body, {k: v for k, v in own.items() if v is not None})


def wants(answer, path, status, code, type_openai="invalid_request_error", type_messages=None, param=..., shape=None):
    """The answer is this line of the table in the shape of its path; status: both, or (OpenAI's, that of Messages)."""
    messages = shape == "messages" or (shape is None and path.startswith(("/v1/messages", "/v1/v1/messages")))
    expected = status if isinstance(status, int) else status[messages]
    assert answer.status == expected, (path, answer.status, answer.text)
    check_shape(answer, "/v1/messages" if messages else path)
    if messages:
        assert answer.error["type"] == (type_messages or type_openai), (path, answer.text)
        if param not in (..., None):
            assert answer.error["message"].startswith(f"{param}"), (path, answer.text)
        return answer
    assert answer.error["type"] == type_openai and answer.error["code"] == code, (path, answer.text)
    if param is not ...:
        assert answer.error["param"] == param, (path, answer.text)
    return answer


def test_every_route_is_in_the_matrix():
    """The routes that the documentation lists are those of the table."""
    text = (pathlib.Path(__file__).parents[2] / "docs/API.md").read_text()
    listed = {path for path in re.findall(r"`POST (/[a-z0-9_/]*[a-z])`", text)}
    listed |= set(re.findall(r"`(/[a-z0-9/]*(?:rerank|tokenize|completions|embeddings|messages))`", text))
    listed.remove("/infill")  # needs a vocabulary with marks: test_infill.py
    listed.remove("/v1/responses/input_tokens")  # below the path of stored answers: test_responses.py
    listed -= {"/v1/models/load", "/v1/models/unload"}  # need a key of --admin-key
    assert listed <= {route.path for route in ROUTES}, listed


def test_bodies_are_answered():
    for route in ROUTES:
        answer = send(main(), route, route.body)
        assert answer.status == 200, (route.path, answer.text)


def test_missing_key():
    for route in ROUTES:
        answer = send(main(), route, b"{", authorization=None, x_api_key=None, content_type="text/plain")
        wants(answer, route.path, 401, "missing_api_key", "authentication_error")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "x-api-key" in answer.error["message"] and "Authorization: Bearer" in answer.error["message"], answer.text
    for path in LISTS:
        for shape, headers in SHAPES.items():
            answer = main().request("GET", path, headers=headers)
            wants(answer, path, 401, "missing_api_key", "authentication_error", shape=shape)


def test_invalid_key():
    texts = set()
    for route in ROUTES:
        for key in ("no", KEY + "x", KEY[:-1]):
            answer = send(main(), route, {}, **{k.replace("-", "_"): v for k, v in key_of(route, key).items()})
            wants(answer, route.path, 401, "invalid_api_key", "authentication_error")
            assert KEY not in answer.text and answer.headers["www-authenticate"] == "Bearer"
            texts.add(answer.error["message"])
    assert len(texts) <= 2, texts  # the same for all wrong keys
    for path in LISTS:
        for shape, headers in SHAPES.items():
            answer = main().request("GET", path, headers={**headers, "authorization": "Bearer no"})
            wants(answer, path, 401, "invalid_api_key", "authentication_error", shape=shape)


def test_header_of_the_other_family():
    """Every route reads each of the headers."""
    for route in ROUTES:
        for header in ({"x-api-key": KEY}, {"api-key": KEY}, {"authorization": f"Bearer {KEY}"}):
            body = json.dumps({**route.body, "model": "none"}).encode()
            answer = main().request("POST", route.path, body, {"content-type": "application/json", **header})
            assert answer.status == 404, (route.path, answer.text)


def test_malformed_json():
    for route in ROUTES:
        for body in (b"", b"{", b"[1", b'{"a":NaN}', b"{} {}", b"\xff", b'{"a":"\xff"}'):
            wants(send(main(), route, body), route.path, 400, "invalid_json")
        for body in (b"[]", b"5", b'"a"', b"null"):
            wants(send(main(), route, body), route.path, 400, "invalid_type")
        answer = send(main(), route, b'{"model": tiny}')
        assert re.search(r"at byte \d+", answer.error["message"]), answer.text


def test_missing_field():
    for route in ROUTES:
        body = {k: v for k, v in route.body.items() if k != route.required}
        wants(send(main(), route, body), route.path, 400, "missing_required_parameter", param=route.required)
        wants(send(main(), route, {**body, route.required: None}), route.path, 400, "missing_required_parameter",
              param=route.required)
        # the only embedder and the only reranker need no name
        param = route.required if route.path == "/v1/embeddings" or "rerank" in route.path else "model"
        wants(send(main(), route, {}), route.path, 400, "missing_required_parameter", param=param)


def test_wrong_type():
    for route in ROUTES:
        more, param = route.type
        wants(send(main(), route, route.with_(**more)), route.path, 400, "invalid_type", param=param)
        wants(send(main(), route, route.with_(model=5)), route.path, 400, "invalid_type", param="model")


def test_out_of_range():
    for route in ROUTES:
        more, param = route.range
        wants(send(main(), route, route.with_(**more)), route.path, 400, "invalid_value", param=param)


def test_unsupported():
    for route in ROUTES:
        if route.unsupported:
            more, param, code = route.unsupported
            wants(send(main(), route, route.with_(**more)), route.path, 400, code, param=param)


def test_wrong_kind_of_model():
    for route in ROUTES:
        if route.other:
            answer = send(main(), route, route.with_(model=route.other))
            wants(answer, route.path, 400, "unsupported_model", param=... if route.messages else "model")
            assert "/v1/" in answer.error["message"], answer.text


def test_unknown_model():
    for route in ROUTES:
        wants(send(main(), route, route.with_(model="none")), route.path, 404, "model_not_found",
              type_messages="not_found_error", param="model")
    for shape, headers in SHAPES.items():
        answer = main().request("GET", "/v1/models/none", headers={**headers, "authorization": f"Bearer {KEY}"})
        wants(answer, "/v1/models/none", 404, "model_not_found", type_messages="not_found_error", shape=shape)


def test_longer_than_the_window():
    for route in ROUTES:
        if not route.long:
            continue
        more, param = route.long
        for stream in (False, True) if route.kind == "tiny" else (False,):
            answer = send(main(), route, route.with_(**more, **({"stream": True} if stream else {})))
            if route.messages:
                wants(answer, route.path, 400, None)
                assert answer.error["message"].startswith("prompt is too long: "), answer.text
            else:
                wants(answer, route.path, 400, "context_length_exceeded", param=param)
                assert answer.error["n_prompt_tokens"] > answer.error["n_ctx"] > 0


def test_body_too_large():
    body = b'{"model":"tiny","x":"' + b"a" * (32 << 20) + b'"'  # which is no JSON either
    for route in (route for route in ROUTES if route.path in HANDLERS):
        answer = send(main(), route, body)
        wants(answer, route.path, 413, "request_too_large", type_messages="request_too_large")
        assert answer.headers["connection"] == "close"


def test_media_type():
    for route in ROUTES:
        for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"):
            wants(send(main(), route, route.body, content_type=kind), route.path, 415, "unsupported_media_type")
        for coding in ("gzip", "br"):
            wants(send(main(), route, route.body, content_encoding=coding), route.path, 415,
                  "unsupported_content_encoding")
        for fine in ({"content_type": None}, {"content_type": "application/json;charset=UTF-8"},
                     {"content_type": "application/vnd.x+json"}, {"content_encoding": "identity"}):
            answer = send(main(), route, route.body, **fine)
            assert answer.status == 200, (route.path, fine, answer.text)


def test_wrong_method():
    for route in ROUTES:
        for method in ("GET", "PUT", "DELETE", "PATCH"):
            answer = wants(main().request(method, route.path, headers=key_of(route)), route.path, 405,
                           "method_not_allowed")
            assert answer.headers["allow"] == "POST", answer.headers
    for path in LISTS:
        for shape, headers in SHAPES.items():
            answer = main().request("POST", path, b"{}", {**headers, "authorization": f"Bearer {KEY}"})
            wants(answer, path, 405, "method_not_allowed", shape=shape)
            assert answer.headers["allow"] == "GET, HEAD", answer.headers


def test_unknown_path():
    for route in ROUTES:
        path = route.unknown
        answer = main().request("POST", path, b"{}", {**key_of(route), "content-type": "application/json"})
        wants(answer, path, 404, "unknown_url", type_messages="not_found_error")
        answer = main().request("POST", route.path + "/?beta=true", json.dumps(route.body).encode(),
                                {**key_of(route), "content-type": "application/json"})
        assert answer.status == 200, (path, answer.text)  # the same route


def retry_headers(answer):
    assert 1 <= int(answer.headers["retry-after"]) <= 60, answer.headers
    assert int(answer.headers["retry-after-ms"]) >= 1, answer.headers


DEMO = [f"tiny={MODELS / 'weft-demo-chat'},kv-cache-memory=16M", f"embed={MODELS / 'weft-demo-embed'}",
        f"rerank={MODELS / 'weft-demo-rerank'}"]


def test_loading():
    """503 after the checks of route, method, key, content type, and before all that is in the body."""
    with faulty(*DEMO, "--device", "simt", first=["load"], server=Unready) as (s, faults):
        wait_log(s, "planned: ")
        wait_for(lambda: s.request("GET", "/health").status == 503)
        for route in ROUTES:
            for body in (route.body, b"{"):
                answer = wants(send(s, route, body), route.path, 503, "unavailable", "server_error", "api_error")
                retry_headers(answer)
            assert send(s, route, route.body, authorization=None, x_api_key=None).status == 401
            assert send(s, route, route.body, content_type="text/plain").status == 415
            assert s.request("GET", route.path, headers=key_of(route)).status == 405
        for path in LISTS:
            for shape, headers in SHAPES.items():
                answer = s.request("GET", path, headers={**headers, "authorization": f"Bearer {KEY}"})
                wants(answer, path, 503, "unavailable", "server_error", "api_error", shape=shape)
        faults.off("load")


ENGINES = [route for route in ROUTES if route.runs]


def fill(pool, server, route):
    """The device stands, so what is accepted stays; once one is refused the queue is full."""
    jobs = [pool.submit(send, server, route, route.body) for _ in range(8)]
    wait_for(lambda: any(job.done() for job in jobs), route.path)
    return jobs


def test_queue_full():
    """503 or 529, after all that is wrong in the request itself."""
    bounds = ",max-queued-requests=2,max-num-seqs=1"
    with faulty(*(model + bounds for model in DEMO), "--device", "simt") as (s, faults), \
            concurrent.futures.ThreadPoolExecutor(24) as pool:
        faults.on("hang")
        jobs = []
        for kind in ("tiny", "embed", "rerank"):
            routes = [route for route in ENGINES if route.kind == kind]
            jobs += fill(pool, s, routes[0])
            for route in routes:
                for more in ({}, {"stream": True}) if kind == "tiny" else ({},):
                    answer = send(s, route, route.with_(**more))
                    wants(answer, route.path, (503, 529), "overloaded", "server_error", "overloaded_error")
                    retry_headers(answer)
                assert send(s, route, route.with_(model="none")).status == 404
                wants(send(s, route, route.with_(**route.range[0])), route.path, 400, "invalid_value")
                long = {k: user(LONG * 3) if k == "messages" else LONG * 3 for k in route.long[0]}
                if kind == "tiny":
                    wants(send(s, route, route.with_(**long)), route.path, 400, "context_length_exceeded")
        for route in ROUTES:
            if not route.runs:  # these need no place
                assert send(s, route, route.body).status == 200, route.path
        faults.off("hang")
        answers = [job.result() for job in jobs]
        assert {answer.status for answer in answers} == {200, 503}


def test_deadlines():
    """A request that still waits at its client's deadline: 504, also of a stream, which has not begun."""
    with faulty(DEMO[0] + ",max-num-seqs=1", "--device", "simt") as (s, faults):
        faults.on("slow")  # 4,000 tokens then take 80 s and more
        running = open_stream(s, max_tokens=4000, ignore_eos=True)
        wait_for(lambda: s.metric("weft_requests_submitted_total") == 1)
        jobs = [(route, more) for route in ENGINES if route.kind == "tiny" for more in ({}, {"stream": True})]
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            answers = pool.map(lambda job: send(s, job[0], job[0].with_(**job[1]), x_stainless_timeout="0.3"), jobs)
            for (route, _), answer in zip(jobs, answers):
                wants(answer, route.path, 504, "timeout", "server_error", "timeout_error")
        running.close()
        faults.off("slow")


def test_internal():
    """The device fails under a request of each route: 500 there, afterwards 503 until somebody starts the server again."""
    for kind in ("tiny", "embed", "rerank"):
        for route in (r for r in ENGINES if r.kind == kind and r.path in HANDLERS):
            with faulty(DEMO[("tiny", "embed", "rerank").index(kind)],
                        f"cpu={MODELS / 'weft-demo-embed'},device=cpu", "--device", "simt") as (s, faults):
                faults.on("fault")
                answer = wants(send(s, route, route.body), route.path, 500, "internal_error", "server_error", "api_error")
                assert "planted" not in answer.text, answer.text  # nothing of the inside
                answer = wants(send(s, route, route.body), route.path, 503, "unavailable", "server_error", "api_error")
                retry_headers(answer)


def test_order_of_checks():
    """Of two things that are wrong the earlier check decides: route, method, key, content type, size, JSON, model,
    fields, context."""
    for route in ROUTES:
        own = key_of(route)
        nothing = main().request("PUT", route.unknown, b"{", {"content-type": "text/plain"})
        assert nothing.status == 404, (route.path, nothing.text)
        assert main().request("PUT", route.path, b"{", {"content-type": "text/plain"}).status == 405
        assert send(main(), route, b"{", content_type="text/plain", authorization=None, x_api_key=None).status == 401
        answer = main().request("POST", route.path, b"{model: none", {**own, "content-type": "application/json"})
        wants(answer, route.path, 400, "invalid_json")
        more, param = route.range
        answer = send(main(), route, route.with_(**more, model="none"))
        assert answer.status == 404, (route.path, answer.text)
        if route.long:
            long = {**route.long[0], **more}
            wants(send(main(), route, route.with_(**long)), route.path, 400, "invalid_value", param=param)
