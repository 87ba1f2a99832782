# SPDX-License-Identifier: Apache-2.0
"""Structured output through the official clients and as plain HTTP: what comes validates, whole and streamed,
and what cannot be served is refused by name. The demo model draws at temperature 1.5, so that only the grammar
holds it."""

import concurrent.futures
import enum
import json
import os
import random
import re
import threading
import time

import harness
from harness import KEY, MODELS, Skip, expect, user

try:
    import anthropic
    import jsonschema
    import openai
    import pydantic
except ImportError as e:
    raise Skip(f"{e.name} is not installed")

MODEL = "chat"


@harness.once
def server():
    return harness.start(f"{MODEL}={MODELS / 'weft-demo-chat'}", f"tiny={harness.tiny()}")


@harness.once
def client():
    return openai.OpenAI(base_url=server().base + "/v1", api_key=KEY, max_retries=0)


def claude():
    return anthropic.Anthropic(base_url=server().base, api_key=KEY, max_retries=0)


ARGS = {"model": MODEL, "messages": user("Write."), "temperature": 1.5, "max_tokens": 400}


def text_of(seed=1, path="/v1/chat/completions", **more):
    """(text, reason of its end) of one answer."""
    body = {**ARGS, "seed": seed, **more}
    if path == "/v1/completions":
        body["prompt"] = body.pop("messages")[0]["content"]
    answer = server().post(path, body)
    assert answer.status == 200, answer.text
    choice = answer.json["choices"][0]
    return choice["text" if "text" in choice else "message"], choice["finish_reason"]


def content(seed=1, **more):
    message, reason = text_of(seed, **more)
    return message["content"], reason


class Colour(str, enum.Enum):
    RED = "red"
    BLUE = "blue"


class Part(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    sizes: list[int] = pydantic.Field(max_length=3)
    colour: Colour


class Order(pydantic.BaseModel):
    """What .parse() and .stream() of the clients make of a class."""
    number: int = pydantic.Field(ge=0, le=9999)
    parts: list[Part] = pydantic.Field(max_length=2)
    note: str | None = pydantic.Field(max_length=20)


# Of the class without what the client's strict form does not take.
PLAIN = {"type": "object", "required": ["id", "tags"], "additionalProperties": False, "properties": {
    "id": {"type": "integer", "minimum": 1, "maximum": 500},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 6}, "maxItems": 3}}}


def test_parse_whole():
    for seed in range(5):
        answer = client().chat.completions.parse(**ARGS, seed=seed, response_format=Order)
        choice = answer.choices[0]
        assert choice.finish_reason == "stop", choice
        assert isinstance(choice.message.parsed, Order)
        assert list(json.loads(choice.message.content)) == ["number", "parts", "note"]  # schema order
        assert choice.message.parsed == Order.model_validate_json(choice.message.content)


def test_parse_streamed():
    for seed in range(3):
        whole = client().chat.completions.parse(**ARGS, seed=seed, response_format=Order)
        with client().chat.completions.stream(**ARGS, seed=seed, response_format=Order) as stream:
            deltas = [e.delta for e in stream if e.type == "content.delta"]
            final = stream.get_final_completion()
        assert "".join(deltas) == whole.choices[0].message.content
        assert final.choices[0].message.parsed == whole.choices[0].message.parsed


def test_anthropic_structured():
    config = {"format": {"type": "json_schema", "schema": PLAIN}}
    args = {"model": MODEL, "messages": user("Write."), "max_tokens": 400}
    for _ in range(3):
        answer = claude().messages.create(**args, output_config=config)
        assert answer.stop_reason == "end_turn"
        jsonschema.validate(json.loads(answer.content[0].text), PLAIN)
        with claude().messages.stream(**args, output_config=config) as stream:
            text = "".join(stream.text_stream)
        jsonschema.validate(json.loads(text), PLAIN)
    older = server().post("/v1/messages", {**args, "output_format": config["format"]})
    assert older.status == 200, older.text
    jsonschema.validate(json.loads(older.json["content"][0]["text"]), PLAIN)


def test_raw_forms():
    text, reason = content(response_format={"type": "json_object", "schema": PLAIN})
    jsonschema.validate(json.loads(text), PLAIN)
    assert reason == "stop"
    text, _ = content(guided_json=json.dumps(PLAIN))
    jsonschema.validate(json.loads(text), PLAIN)
    text, _ = content(structured_outputs={"json": PLAIN})
    jsonschema.validate(json.loads(text), PLAIN)
    for more in ({"guided_regex": "[a-f]{3,9}-\\d{2}"},
                 {"structured_outputs": {"regex": "[a-f]{3,9}-\\d{2}"}}):
        for seed in range(4):
            text, reason = content(seed, **more)
            assert re.fullmatch(r"[a-f]{3,9}-\d{2}", text) and reason == "stop", text
    choices = ["Łódź", "Oslo", "Os", "a\nb"]
    seen = {content(seed, guided_choice=choices)[0] for seed in range(12)}
    assert seen <= set(choices) and len(seen) > 1, seen
    for seed in range(4):
        text, _ = content(seed, guided_grammar='root ::= "<" [a-z]{1,8} ">" ("," root)?', max_tokens=64)
        assert re.match(r"<[a-z]{1,8}>", text) and set(text) <= set("<>,abcdefghijklmnopqrstuvwxyz"), text
    text, reason = text_of(path="/v1/completions", guided_regex="\\d{4}")
    assert re.fullmatch(r"\d{4}", text) and reason == "stop"


def test_json_object():
    """Any object, which may have no end in the tokens it is given: then it is a beginning of one."""
    for seed in range(6):
        text, reason = content(seed, response_format={"type": "json_object"}, max_tokens=150)
        assert text.startswith("{")
        if reason == "stop":
            assert isinstance(json.loads(text), dict)


def test_the_grammar_wins():
    """ignore_eos, min_tokens and a bias against its only token have nothing to say."""
    args = {"guided_choice": ["ok"]}
    assert content(**args) == ("ok", "stop")
    assert content(ignore_eos=True, **args) == ("ok", "stop")
    assert content(min_tokens=30, **args) == ("ok", "stop")
    ids = {str(i): -100 for i in range(503)}
    assert content(logit_bias=ids, **args) == ("ok", "stop")
    assert content(temperature=0, **args) == ("ok", "stop")


def test_the_grammar_and_bans():
    """Both hold where they can; where together they forbid every token the grammar has its way."""
    def ids(letters):
        answer = server().post("/tokenize", {"model": MODEL, "prompt": letters, "add_special_tokens": False})
        return answer.json["tokens"]

    for seed in range(3):
        assert re.fullmatch("[ab]{8}", content(seed, guided_regex="[a-f]{8}", allowed_token_ids=ids("abxyz"))[0])
        assert re.fullmatch("[c-f]{8}", content(seed, guided_regex="[a-f]{8}", bad_words=["a", "b"])[0])
        both = {"allowed_token_ids": ids("abc"), "bad_words": ["b"]}
        assert re.fullmatch("[ac]{8}", content(seed, guided_regex="[a-f]{8}", **both)[0])
        for ban in ({"allowed_token_ids": ids("xyz")}, {"bad_words": list("abcdef")},
                    {"allowed_token_ids": ids("ax"), "bad_words": ["a"]}):
            text, reason = content(seed, guided_regex="[a-f]{8}", **ban)
            assert re.fullmatch("[a-f]{8}", text) and reason == "stop", (ban, text)
        # Forbidden in a string, and no way around it in a key.
        value = json.loads(content(seed, guided_json=PLAIN, bad_words=["t", "a"])[0])
        jsonschema.validate(value, PLAIN)
        assert not set("".join(value["tags"])) & set("ta"), value


def deltas_of(path, body):
    """The pieces of text of a stream, in the shape of its route."""
    answer = server().post(path, {"model": MODEL, "stream": True, **body})
    assert answer.status == 200, answer.text
    for name, data in answer.events():
        event = json.loads(data) if name != ":" and data != "[DONE]" else {}
        if path == "/v1/messages":
            yield event.get("delta", {}).get("text", "")
        elif path == "/v1/responses":
            yield event["delta"] if event.get("type") == "response.output_text.delta" else ""
        else:
            for choice in event.get("choices", []):
                yield choice.get("text") or choice.get("delta", {}).get("content") or ""


def test_15_16_characters_of_many_tokens():
    """A token is a byte here: a piece of a stream has whole characters."""
    text = "na\u00efve \U0001F469\U0001F3FD\u200D\U0001F680 e\u0301 \u5B57"
    form = {"type": "json_schema", "name": "n", "schema": {"const": text}}
    chat_form = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"const": text}}}
    for path, body in (("/v1/chat/completions", {"messages": user("a"), "max_tokens": 200, "response_format": chat_form}),
                       ("/v1/completions", {"prompt": "a", "max_tokens": 200, "guided_choice": [json.dumps(text, ensure_ascii=False)]}),
                       ("/v1/messages", {"messages": user("a"), "max_tokens": 200, "output_config": {"format": {
                           "type": "json_schema", "schema": {"const": text}}}}),
                       ("/v1/responses", {"input": "a", "text": {"format": form}})):
        pieces = list(deltas_of(path, body))
        assert json.loads("".join(pieces)) == text and "\ufffd" not in "".join(pieces), (path, pieces)
        # How many come in one piece depends on how fast they are read; none is cut.
        assert not any(0xD800 <= ord(char) <= 0xDFFF for char in "".join(pieces)), (path, pieces)


def test_integers_of_any_length():
    wide = 10**40 + 1
    for schema in ({"const": wide}, {"enum": [-wide]}, {"type": "integer", "minimum": wide, "maximum": wide}):
        text, reason = content(response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": schema}})
        assert (abs(int(text)), reason) == (wide, "stop"), (schema, text)


def test_choices_and_neighbours():
    """n answers of one grammar beside free ones; a free answer is what it is alone."""
    alone = content(7, max_tokens=40)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        forms = [pool.submit(client().chat.completions.create, **{**ARGS, "max_tokens": 60}, n=3, seed=i,
                             extra_body={"guided_regex": "[xyz]{5,10}"}) for i in range(4)]
        free = [pool.submit(content, 7, max_tokens=40) for _ in range(4)]
        for form in forms:
            texts = [c.message.content for c in form.result().choices]
            assert len(texts) == 3 and all(re.fullmatch("[xyz]{5,10}", t) for t in texts), texts
        assert all(f.result() == alone for f in free)


def test_48_recursion():
    tree = {"$ref": "#/$defs/node", "$defs": {"node": {
        "type": "object", "required": ["v"], "additionalProperties": False, "properties": {
            "v": {"type": "integer", "maximum": 9, "minimum": 0}, "next": {"$ref": "#/$defs/node"}}}}}
    ended = 0
    for seed in range(6):
        text, reason = content(seed, guided_json=tree)
        if reason == "stop":
            jsonschema.validate(json.loads(text), tree)
            ended += 1
    assert ended
    nothing = server().post("/v1/chat/completions", {**ARGS, "max_tokens": 20, "guided_json": {"$ref": "#"}})
    assert nothing.status in (200, 400), nothing.text


def test_48_recursion_of_tools_and_of_messages():
    """The same through strict functions of each interface and Messages' output_config: an answer or 400, in time that
    one compile may take."""
    tree = {"type": "object", "required": ["v"], "additionalProperties": False, "properties": {
        "v": {"type": "integer", "maximum": 9, "minimum": 0}, "next": {"$ref": "#"}}}
    endless = [{"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"anyOf": [{"$ref": "#"}, {"$ref": "#"}]},
               {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}},
               {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
               {"type": "object", "additionalProperties": {"allOf": [{"$ref": "#"}, {"$ref": "#"}]}}]
    strict = {"name": "f", "strict": True}
    forms = {
        "/v1/chat/completions": lambda s: {"messages": user("a"), "tool_choice": "required", "max_tokens": 60, "tools": [
            {"type": "function", "function": {**strict, "parameters": s}}]},
        "/v1/responses": lambda s: {"input": "a", "tool_choice": "required", "max_output_tokens": 60, "tools": [
            {"type": "function", **strict, "parameters": s}]},
        "/v1/messages": lambda s: {"messages": user("a"), "max_tokens": 60, "tool_choice": {"type": "any"}, "tools": [
            {**strict, "input_schema": s}]},
        "output_config": lambda s: {"messages": user("a"), "max_tokens": 60, "output_config": {
            "format": {"type": "json_schema", "schema": s}}},
    }
    for name, form in forms.items():
        path = "/v1/messages" if name == "output_config" else name
        answer = harness.dreamer().post(path, {"model": "chat", **form(tree)})
        assert answer.status == 200, (name, answer.text)
        for schema in endless:
            answer = harness.dreamer().post(path, {"model": "chat", **form(schema)})
            assert answer.status in (200, 400), (name, schema, answer.text)
            assert answer.status == 200 or "schema" in answer.text or "tools" in answer.text, answer.text


def test_49_schema_order():
    keys = ["zeta", "alpha", "mid"]
    schema = {"type": "object", "required": sorted(keys), "additionalProperties": False,
              "properties": {k: {"enum": [1, 2]} for k in keys}}
    assert list(json.loads(content(guided_json=schema)[0])) == keys
    other = {**schema, "properties": {k: {"enum": [1, 2]} for k in reversed(keys)}}
    assert list(json.loads(content(guided_json=other)[0])) == keys[::-1]


def test_strict_objects_end():
    """A strict object without additionalProperties ends after the members it names."""
    schema = {"type": "object", "required": ["result"], "properties": {"result": {"type": "integer", "maximum": 99}}}
    for seed in range(4):
        text, reason = content(seed, response_format={
            "type": "json_schema", "json_schema": {"name": "n", "schema": schema, "strict": True}})
        assert list(json.loads(text)) == ["result"] and reason == "stop", text


def test_refused():
    unique = {"type": "object", "properties": {"k": {"type": "array", "uniqueItems": True}}}
    body = {**ARGS, "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": unique}}}
    refused = server().metric(r"weft_grammars_refused_total")
    compiled = server().metric(r"weft_grammars_compiled_total")
    for stream in (False, True):
        answer = server().post("/v1/chat/completions", {**body, "stream": stream})
        expect(answer, 400, "unsupported_value", "response_format.json_schema.schema")
        assert "uniqueItems" in answer.error["message"] and "#/properties/k" in answer.error["message"]
    assert server().metric(r"weft_grammars_refused_total") == refused + 2
    assert server().metric(r"weft_grammars_compiled_total") == compiled + 1
    try:
        claude().messages.create(model=MODEL, messages=user("a"), max_tokens=5, output_config={
            "format": {"type": "json_schema", "schema": unique}})
        raise AssertionError("taken")
    except anthropic.BadRequestError as e:
        assert "output_config.format.schema" in str(e) and "uniqueItems" in str(e), e
    both = {**ARGS, "guided_regex": "a", "guided_choice": ["a"]}
    expect(server().post("/v1/chat/completions", both), 400, "invalid_value", "guided_choice")


def test_a_grammar_that_cannot_be_followed():
    """It compiles, and then can be read in so many ways that no mask is made within its bound: refused by name like
    one that does not compile, in a stream by its last event, and no client tries again."""
    dear = {**ARGS, "max_tokens": 300, "seed": 1, "guided_regex": "(.{1,999}){1,999}"}
    answer = server().post("/v1/chat/completions", dear)
    error = expect(answer, 400, "unsupported_value", "guided_regex").error
    assert error["message"].startswith("'guided_regex' is refused: the grammar is too ambiguous"), error
    assert answer.headers["x-should-retry"] == "false", answer.headers
    stream = server().post("/v1/chat/completions", {**dear, "stream": True})
    assert stream.status == 200, stream.text
    last = [line for line in stream.text.splitlines() if line.startswith("data: ")][-1]
    assert json.loads(last[6:])["error"] == error, last


def test_equal_schemas_compile_once():
    """A hundred at a time, which all arrive while the first is compiled or later."""
    compiled = server().metric(r"weft_grammars_compiled_total")
    hits = server().metric(r"weft_grammars_hits_total")
    schema = {**PLAIN, "description": "compiled once"}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        texts = list(pool.map(lambda i: content(i, guided_json=schema)[0], range(32)))
    for text in texts:
        jsonschema.validate(json.loads(text), schema)
    assert server().metric(r"weft_grammars_compiled_total") == compiled + 1
    assert server().metric(r"weft_grammars_hits_total") == hits + 31


def hostile(i):
    """Takes as much work as a compile may: overlapping schemas in oneOf."""
    return {"oneOf": [{"type": "object", "properties": {f"k{j}": {"type": "string", "maxLength": j + i}}}
                      for j in range(200)]}


def test_hostile_schemas_hold_nobody_up():
    """While schemas are compiled that take as long as may be: free requests and known grammars are answered, and
    a client that leaves takes nothing with it. At the end the process still answers all."""
    known = content(3, guided_json=PLAIN)
    free = content(3, max_tokens=20)
    done = threading.Event()

    def send(i):
        deadline, status = time.monotonic() + 600, 503
        while status == 503 and time.monotonic() < deadline:  # it waited too long for the others: it comes again
            answer = server().post("/v1/chat/completions", {**ARGS, "max_tokens": 5, "guided_json": hostile(i)})
            status = answer.status
        assert answer.status in (200, 400), answer.text
        return answer.status

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        sent = [pool.submit(send, i) for i in range(4)]
        answered = 0
        while not done.is_set():
            assert content(3, guided_json=PLAIN) == known
            assert content(3, max_tokens=20) == free
            answered += 1
            if all(s.done() for s in sent):
                done.set()
        assert answered > 0 and all(s.result() in (200, 400) for s in sent)
    leaver = harness.http.client.HTTPConnection("127.0.0.1", server().port)
    leaver.request("POST", "/v1/chat/completions", json.dumps({**ARGS, "guided_json": hostile(9)}),
                   {"authorization": f"Bearer {KEY}", "content-type": "application/json"})
    leaver.close()
    assert content(3, guided_json=PLAIN) == known


def test_a_server_stops_while_it_compiles():
    own = harness.Server(f"{MODEL}={MODELS / 'weft-demo-chat'}", "--shutdown-timeout", 300)
    answers = []

    def send(i):
        try:
            answers.append(own.post("/v1/chat/completions",
                                    {**ARGS, "max_tokens": 5, "guided_json": hostile(i)}).status)
        except OSError:
            answers.append(0)

    threads = [threading.Thread(target=send, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    while own.metric(r"weft_connections ") < 4 and not answers:  # its own and three
        time.sleep(0.01)
    assert own.stop() == 0, own.output()
    for thread in threads:
        thread.join()
    assert len(answers) == 3 and set(answers) <= {0, 200, 400, 503}, answers


def random_schema(rng, depth=0):
    """Bounded in every length, so that most instances end within 512 tokens of a byte each."""
    kinds = ["string", "integer", "number", "boolean", "null", "enum", "const"]
    kind = rng.choice(kinds + (["object"] * 5 + ["array"] * 2 if depth < 2 else []) if depth else ["object"])
    if kind == "string":
        form = rng.randrange(4)
        if form == 0:
            return {"type": "string", "pattern": rng.choice(["^[a-z]{2,6}$", "^\\d{3}-\\d{2}$", "^(ab|cd){1,3}$"])}
        if form == 1:
            return {"type": "string", "format": rng.choice(["date", "time", "uuid", "ipv4"])}
        low = rng.randrange(4)
        return {"type": "string", "minLength": low, "maxLength": low + rng.randrange(8)}
    if kind == "integer":
        low = rng.randrange(-100, 100)
        return {"type": "integer", "minimum": low, "maximum": low + rng.randrange(1000)}
    if kind == "number":
        return {"type": "number", "minimum": 0, "exclusiveMaximum": 10, "multipleOf": 0.25}
    if kind in ("boolean", "null"):
        return {"type": kind}
    if kind == "enum":
        return {"enum": rng.sample(["a", "b\n", 1, 2.5, None, True, {"k": [1]}, "Ł"], 3)}
    if kind == "const":
        return {"const": rng.choice(["x", 7, [1, 2], {"a": None}])}
    if kind == "array":
        return {"type": "array", "items": random_schema(rng, depth + 1), "maxItems": rng.randrange(1, 4)}
    keys = rng.sample(["id", "name", "kind", "tags", "Ärger", "a b", "q\"q"], rng.randrange(1, 4))
    return {"type": "object", "properties": {k: random_schema(rng, depth + 1) for k in keys},
            "required": [k for k in keys if rng.random() < 0.7], "additionalProperties": False}


def is_prefix(text, schema, seed):
    """Whether the model's grammar goes on from this text to a whole instance: the answer to the same request
    with more room is the same text first, and validates."""
    for room in (1024, 2048, 3500):
        longer, reason = content(seed, guided_json=schema, max_tokens=room)
        assert longer.startswith(text.rstrip("\ufffd")), (text, longer)
        if reason == "stop":
            jsonschema.validate(json.loads(longer), schema)
            return
    raise AssertionError(f"no end in 3500 tokens: {schema}")


def generations(count, first=0):
    """At least 95 of 100 end by themselves and validate, the rest are beginnings of valid ones."""

    def one(i):
        schema = random_schema(random.Random(i))
        text, reason = content(i, guided_json=schema, max_tokens=512)
        try:
            if reason == "stop":
                jsonschema.validate(json.loads(text), schema)
                return True
            assert reason == "length", reason
            is_prefix(text, schema, i)
            return False
        except (AssertionError, ValueError, jsonschema.ValidationError) as e:
            raise AssertionError(f"schema {i}: {json.dumps(schema)}: {text!r}: {e}")

    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        ended = sum(pool.map(one, range(first, first + count)))
    assert ended >= count * 95 // 100, f"{ended} of {count} ended by themselves"
    return ended


@harness.longer
def test_generations():
    generations(int(os.environ.get("WEFT_E2E_GENERATIONS", harness.amount(200, 1000))))
