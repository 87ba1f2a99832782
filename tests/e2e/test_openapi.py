# SPDX-License-Identifier: Apache-2.0
"""docs/openapi.yaml beside the server: the document is valid and served, and what the server answers to generated
requests, sound and not, has the statuses, headers and bodies that the document gives.

schemathesis makes the requests from the document. Of those that fit it, models are those that are served and answers are
kept short, else hardly one would come to a model. WEFT_OPENAPI_REQUESTS (80, in the soak 500) says
how many; with more the seed is drawn and printed, WEFT_OPENAPI_SEED sets it.
"""

import collections
import json
import multiprocessing
import os
import random
import traceback
import warnings
import zlib

import hypothesis
import jsonschema
import openapi_spec_validator
import schemathesis
import schemathesis.checks
import yaml

import harness

REQUESTS = int(os.environ.get("WEFT_OPENAPI_REQUESTS", harness.amount(80, 80, 500)))
SEED = int(os.environ.get("WEFT_OPENAPI_SEED", 1 if REQUESTS <= 500 else random.randrange(1 << 30)))
# Requests that fit the document and requests that do not, of 500; what is not named has two of each. Making one of the
# second kind takes up to 0.2 s.
SHARES = {
    "POST /v1/chat/completions": (55, 20), "POST /v1/messages": (40, 10), "POST /v1/completions": (45, 35),
    "POST /v1/embeddings": (45, 35), "POST /v1/rerank": (35, 25), "POST /tokenize": (12, 4), "POST /detokenize": (10, 10),
    "POST /v1/messages/count_tokens": (8, 2), "POST /v1/responses": (30, 10),
}
MODELS = {"embeddings": ["embed"], "rerank": ["rerank"]}
GENERATORS = ["chat", "plain"]
LEAST = 400  # of 500, after those that come twice
SELDOM, SELDOM_SERVED = 2, {"POST /v1/embeddings", "POST /v1/rerank", "POST /v1/responses"}
STREAMED = ["POST /v1/chat/completions", "POST /v1/completions", "POST /v1/messages", "POST /v1/responses"]
schemathesis.checks.load_all_checks()
CHECKS = schemathesis.checks.CHECKS.get_by_names([
    "not_a_server_error", "status_code_conformance", "content_type_conformance", "response_headers_conformance",
    "response_schema_conformance", "negative_data_rejection",
])


@harness.once
def demo():
    """The demo models, two of each kind, so that 'model' must be there; each byte has a token, so any grammar can be followed."""
    chat, embed, rerank = (harness.MODELS / f"weft-demo-{kind}" for kind in ("chat", "embed", "rerank"))
    return harness.start(f"chat={chat}", f"plain={chat},chat-template={harness.CHATML}", f"embed={embed}", f"rerank={rerank}",
                         f"embed2={embed}", f"rerank2={rerank}")


@harness.once
def document():
    return demo().request("GET", "/openapi.json").json


def resolved(schema):
    while "$ref" in schema:
        where = document()
        for name in schema["$ref"].split("/")[1:]:
            where = where[name]
        schema = where
    return schema


def test_document_is_valid():
    openapi_spec_validator.validate(document())


def test_document_is_served():
    server = demo()
    answer = server.request("GET", "/openapi.json")
    assert answer.status == 200 and answer.headers["content-type"] == "application/json", answer.headers
    source = yaml.safe_load((harness.ROOT / "docs/openapi.yaml").read_text())
    assert answer.json == source
    head = server.request("HEAD", "/openapi.json")
    assert head.status == 200 and not head.bytes and head.headers["content-length"] == str(len(answer.bytes))
    refused = harness.expect(server.request("POST", "/openapi.json", "{}"), 405, "method_not_allowed")
    assert refused.headers["allow"] == "GET, HEAD"


# Requests


def small(schema):
    """The schema with scalars alone where any JSON may stand: making that takes most of the time."""
    if isinstance(schema, list):
        return [small(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    out = {name: small(each) for name, each in schema.items()}
    if "object" in out.get("type", "") and "additionalProperties" not in out:
        out["additionalProperties"] = {"type": ["string", "integer", "boolean", "null"]}
    return out


def joined(schema):
    """The schema with the properties of those that its allOf names."""
    out = {**schema, "properties": dict(schema.get("properties", {}))}
    for each in out.pop("allOf", []):
        more = joined(resolved(each))
        out["properties"] = {**more["properties"], **out["properties"]}
        out["required"] = more.get("required", []) + out.get("required", [])
    return out


def small_document():
    schemas = document()["components"]["schemas"]
    own = {name: small(joined(schema)) for name, schema in schemas.items() if "x-fields" in schema}
    components = {**document()["components"], "schemas": {**schemas, **own}}
    return {**document(), "components": components}


def steered(case, sound):
    """The case with a key (but for some), a served model, and limits for answers; chosen by what it has."""
    choice = zlib.crc32(repr(case.body).encode())
    case.headers = {k: v for k, v in (case.headers or {}).items() if k.lower() != "x-stainless-timeout"}
    if choice % 16:
        case.headers["Authorization"] = "Bearer " + harness.KEY
        case.headers.pop("x-api-key", None)
    if "id" in (case.path_parameters or {}) and sound:
        case.path_parameters["id"] = (GENERATORS + ["none"])[zlib.crc32(repr(case.path_parameters).encode()) % 3]
    if not isinstance(case.body, dict):
        return
    path = case.operation.path
    ids = next((ids for word, ids in MODELS.items() if word in path), GENERATORS)
    if choice % 11 and (isinstance(case.body.get("model"), str) or sound):
        case.body["model"] = ids[choice % len(ids)]
    if sound and choice % 3 == 0:
        case.body["stream"] = True
    if sound and choice % 5 and isinstance(case.body.get("tokens"), list):
        case.body["tokens"] = [token % 256 for token in case.body["tokens"]]
    if sound and choice % 7:
        short(case.body, choice)
    if sound and isinstance(case.body.get("messages"), list):  # a result is of a call before, which is seldom made
        case.body["messages"] = [m for m in case.body["messages"] if m.get("role") != "tool"] or case.body["messages"]


def short(body, choice):
    """Half of the optional fields go: with all of them hardly a request is served."""
    for name in sorted(body):
        if name not in ("model", "messages", "prompt", "input", "query", "documents", "texts", "tokens", "stream") and \
                zlib.crc32(name.encode(), choice) % 4:
            del body[name]


def limited(body, path):
    """No answer is long, whatever else the body says."""
    for name in ("max_tokens", "max_completion_tokens", "max_output_tokens"):
        if isinstance(body.get(name), (int, float)) and body[name] > 8:
            body[name] = 8
    own = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    if body.get(own) is None:
        body[own] = 4


def events_conform(case, answer):
    """Each event of a stream has the schema that the document names for it. Returns how many there are."""
    content = resolved(case.operation.definition.raw)["responses"]["200"]["content"]
    schema = {**content["text/event-stream"]["x-event"], "components": document()["components"]}
    check = jsonschema.Draft202012Validator(schema)
    blocks = answer.content.decode().split("\n\n")
    assert blocks.pop() == "", blocks
    events = [line[6:] for block in blocks for line in block.split("\n")
              if line.startswith("data: ") and line != "data: [DONE]"]
    for event in events:
        check.validate(json.loads(event))
    return len(events)


def run(operation, mode, seen):
    sound = mode == schemathesis.GenerationMode.POSITIVE
    count = REQUESTS * SHARES.get(operation.label, (2, 2))[not sound] // 500

    @hypothesis.seed(SEED)
    @hypothesis.settings(max_examples=max(1, count), database=None, deadline=None, phases=[hypothesis.Phase.generate],
                         suppress_health_check=list(hypothesis.HealthCheck))
    @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
    def each(case):
        steered(case, sound)
        if isinstance(case.body, dict) and operation.method == "post":
            limited(case.body, operation.path)
        answer = case.call(base_url=demo().base, timeout=600)
        seen[operation.label, sound, answer.status_code] += 1
        case.validate_response(answer, checks=CHECKS)
        if any("text/event-stream" in value for value in answer.headers.get("content-type", [])):
            seen[operation.label, sound, "events"] += events_conform(case, answer)

    try:
        each()
    except hypothesis.errors.Unsatisfiable:
        assert not sound, operation.label  # a route without parameters has no unsound request


def run_all(mode):
    """How often each route answered with each status, and how many events were checked."""
    seen = collections.Counter()
    sound = mode == schemathesis.GenerationMode.POSITIVE
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for result in schemathesis.openapi.from_dict(small_document() if sound else document()).get_all_operations():
            run(result.ok(), mode, seen)
    return seen


def run_into(pipe, mode):
    try:
        pipe.send(run_all(mode))
    except BaseException:  # noqa: B902 - told by the parent
        pipe.send(traceback.format_exc())
    os._exit(0)  # the server is the parent's


def enough_was_served(seen):
    """Else answers would conform where nothing is ever served: no key, no model, every sound request refused. Few requests
    are judged in sum, many for each route."""
    requests = sum(n for (_, _, status), n in seen.items() if status != "events")
    assert requests >= REQUESTS * LEAST // 500, requests
    if REQUESTS < 500:
        served, events = (sum(n for (_, sound, what), n in seen.items() if sound and what == wanted) for wanted in (200, "events"))
        assert served >= REQUESTS // 6 and events > 0, (served, events)
        return
    for label, (count, _) in SHARES.items():
        sent = sum(n for (name, sound, status), n in seen.items() if (name, sound) == (label, True) and status != "events")
        served = seen[label, True, 200]
        assert sent >= count * REQUESTS // 500 // 2, (label, sent)
        least = SELDOM if label in SELDOM_SERVED else sent // 6
        assert served >= least, f"{label}: {served} of {sent} sound requests were served"
    for label in STREAMED:
        assert seen[label, True, "events"] > 0, f"{label}: no event was checked"


@harness.longest
def test_answers_conform():
    """Sound requests from this process, unsound ones from another at the same time: making them is the work."""
    print(f"seed {SEED}") if REQUESTS > 500 else None
    document()
    here, there = multiprocessing.Pipe(False)
    context = multiprocessing.get_context("fork")
    other = context.Process(target=run_into, args=(there, schemathesis.GenerationMode.NEGATIVE))
    other.start()
    there.close()
    try:
        seen = run_all(schemathesis.GenerationMode.POSITIVE)
        refused = here.recv()
    finally:
        other.join()
    assert not isinstance(refused, str), refused
    seen.update(refused)
    if os.environ.get("WEFT_OPENAPI_SEEN"):
        for key, n in sorted(seen.items(), key=repr):
            print(*key, n)
    enough_was_served(seen)
