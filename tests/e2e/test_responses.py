# SPDX-License-Identifier: Apache-2.0
"""POST /v1/responses: the official client (of either major version), and every object and event
against the types of its package."""

import asyncio
import json
import tempfile

import openai
import pydantic
from openai.types.responses import Response, ResponseStreamEvent

import caller_model
import harness
from harness import KEY, expect, main

STORY = "Once upon a time"
TOOLS = [{"type": "function", "name": "get_weather", "description": "Weather of a city",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}},
                         "required": ["city"]}},
         {"type": "function", "name": "get_time"}]
ASK = [{"role": "user", "content": "Weather in Łódź?"}]


@harness.once
def caller():
    return harness.start(f"caller={caller_model.caller(tempfile.mkdtemp())}",
                         f"demo={harness.MODELS / 'weft-demo-chat'}")


def client(server=None, kind=openai.OpenAI):
    return kind(base_url=(server or main()).base + "/v1", api_key=KEY, max_retries=0)


def create(**more):
    args = {"model": "tiny", "input": STORY, "temperature": 0, "max_output_tokens": 24}
    return client().responses.create(**{**args, **more})


def ask(**more):
    args = {"model": "caller", "input": ASK, "temperature": 0, "tools": TOOLS}
    return client(caller()).responses.create(**{**args, **more})


def post(server, **body):
    args = {"model": "tiny", "input": STORY, "temperature": 0, "max_output_tokens": 24}
    return server.post("/v1/responses", {k: v for k, v in {**args, **body}.items() if v is not ...})


def calls_are_right(items):
    calls = [item for item in items if item.type == "function_call"]
    assert [(c.name, json.loads(c.arguments)) for c in calls] == [
        ("get_weather", {"city": "Łódź"}), ("get_time", {})]
    assert len({c.call_id for c in calls}) == 2 and len({c.id for c in calls}) == 2
    assert all(c.status == "completed" for c in calls)


def typed(kind, data):
    """What the package's types read in strict mode has all that was sent."""
    read = pydantic.TypeAdapter(kind).validate_json(json.dumps(data), strict=True)
    back = read.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert back == data, (back, data)
    return read


def typed_stream(answer):
    """The typed events of a stream whose frame is checked, too."""
    assert answer.status == 200, answer.text
    out = []
    for name, data in answer.events():
        if name == ":":
            continue
        data = json.loads(data)
        assert name == data["type"] and data["sequence_number"] == len(out)
        out.append(typed(ResponseStreamEvent, data))
        assert out[-1].type == name
    return out


def test_text():
    answer = create()
    assert answer.object == "response" and answer.id.startswith("resp_") and answer.model == "tiny"
    assert answer.output_text == harness.generate(STORY, 24)["text"]
    assert answer.status == "incomplete" and answer.incomplete_details.reason == "max_output_tokens"
    (item,) = answer.output
    assert item.type == "message" and item.role == "assistant" and item.status == "incomplete"
    assert answer.usage.output_tokens == 24
    assert answer.usage.total_tokens == answer.usage.input_tokens + 24
    assert answer.to_dict()["store"] is False and answer.error is None


def test_an_answer_that_ends_by_itself():
    prompt = next(c["prompt"] for c in harness.golden() if c["greedy_ids"][-1] == 2)
    answer = client().responses.create(model="tiny", input=prompt, temperature=0)
    assert answer.status == answer.output[0].status == "completed"
    assert answer.incomplete_details is None
    with client().responses.stream(model="tiny", input=prompt, temperature=0) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == final.output_text == answer.output_text


def test_answers_and_events_are_those_of_the_package():
    whole = post(main(), include=["message.output_text.logprobs"], top_logprobs=2,
                 instructions="Tell a story.", metadata={"a": "b"}, user="u")
    typed(Response, whole.json)
    events = typed_stream(post(main(), stream=True))
    assert [e.type for e in events if not e.type.endswith(".delta")] == [
        "response.created", "response.in_progress", "response.output_item.added",
        "response.content_part.added", "response.output_text.done", "response.content_part.done",
        "response.output_item.done", "response.incomplete"]
    body = {"model": "caller", "input": ASK, "tools": TOOLS, "max_output_tokens": ...}
    whole = typed(Response, post(caller(), **body).json)
    assert [item.type for item in whole.output] == [
        "reasoning", "message", "function_call", "function_call"]
    events = typed_stream(post(caller(), stream=True, **body))
    assert [e.type for e in events if not e.type.endswith(".delta")] == [
        "response.created", "response.in_progress",
        *(f"response.{kind}" for kind in (
            "output_item.added", "content_part.added", "reasoning_text.done", "content_part.done",
            "output_item.done",
            "output_item.added", "content_part.added", "output_text.done", "content_part.done",
            "output_item.done",
            *2 * ("output_item.added", "function_call_arguments.done", "output_item.done"))),
        "response.completed"]
    assert without_ids(events[-1].response.output) == without_ids(whole.output)


def without_ids(items):
    return [item.model_dump(exclude={"id", "call_id"}) for item in items]


def test_a_stream_says_what_a_whole_answer_says():
    whole = create()
    events = list(create(stream=True))
    final = events[-1].response
    assert without_ids(final.output) == without_ids(whole.output)
    # the second may find the prompt in the cache
    assert final.usage.output_tokens == whole.usage.output_tokens
    text = "".join(e.delta for e in events if e.type == "response.output_text.delta")
    assert text == whole.output_text
    done = next(e for e in events if e.type == "response.output_text.done")
    assert done.text == text and done.item_id == final.output[0].id


def test_calls():
    answer = ask()
    assert answer.status == "completed" and answer.output_text == "Let me see."
    assert answer.output[0].content[0].text == "Two tools, then."
    calls_are_right(answer.output)
    assert answer.usage.output_tokens_details.reasoning_tokens == 4


def test_calls_streamed():
    with client(caller()).responses.stream(model="caller", input=ASK, temperature=0,
                                           tools=TOOLS) as stream:
        snapshots = {e.output_index: e.snapshot for e in stream
                     if e.type == "response.function_call_arguments.delta"}
        final = stream.get_final_response()
    calls_are_right(final.output)
    assert [json.loads(s) for s in snapshots.values()] == [{"city": "Łódź"}, {}]


def test_two_rounds_with_the_items_as_they_came():
    history = list(ASK)
    answer = ask()
    history += answer.output
    history += [{"type": "function_call_output", "call_id": item.call_id, "output": '{"rain": true}'}
                for item in answer.output if item.type == "function_call"]
    answer = ask(input=history)
    assert answer.output_text == "It rains at noon." and answer.status == "completed"
    assert all(item.type != "function_call" for item in answer.output)


def test_parse():
    class Animal(pydantic.BaseModel):
        kind: str = pydantic.Field(max_length=8)
        legs: int = pydantic.Field(ge=0, le=9)

    args = {"model": "demo", "input": STORY, "text_format": Animal}
    for seed in range(3):
        own = client(caller()).responses
        whole = own.parse(**args, extra_body={"seed": seed})
        with own.stream(**args, extra_body={"seed": seed}) as stream:
            final = stream.get_final_response()
        assert isinstance(whole.output_parsed, Animal), whole.output_text
        assert final.output_parsed == whole.output_parsed


def test_async():
    async def run():
        async with client(kind=openai.AsyncOpenAI) as own:
            whole = await own.responses.create(model="tiny", input=STORY, temperature=0,
                                               max_output_tokens=8)
            stream = await own.responses.create(model="tiny", input=STORY, temperature=0,
                                                max_output_tokens=8, stream=True)
            return whole, [event async for event in stream]

    whole, events = asyncio.run(run())
    assert events[-1].response.output_text == whole.output_text


def test_log_probabilities():
    chat = harness.chat(main(), max_tokens=8, logprobs=True, top_logprobs=3).json
    content = chat["choices"][0]["logprobs"]["content"]
    include = ["message.output_text.logprobs"]
    answer = post(main(), max_output_tokens=8, include=include, top_logprobs=3).json
    assert answer["output"][0]["content"][0]["logprobs"] == content
    assert answer["top_logprobs"] == 3
    events = typed_stream(post(main(), max_output_tokens=8, top_logprobs=3, stream=True))
    deltas = [e for e in events if e.type == "response.output_text.delta"]
    assert [l.token for e in deltas for l in e.logprobs] == [c["token"] for c in content]
    assert events[-1].response.output[0].content[0].to_dict()["logprobs"] == content
    assert create().output[0].content[0].logprobs == []


def raises(kind, function):
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_errors():
    error = raises(openai.BadRequestError, lambda: create(previous_response_id="resp_1"))
    assert error.param == "previous_response_id" and error.code == "unsupported_parameter"
    error = raises(openai.BadRequestError, lambda: create(tools=[{"type": "teleport"}]))
    assert error.param == "tools[0].type" and error.code == "unsupported_value"
    error = raises(openai.BadRequestError, lambda: create(input="word " * 4000, stream=True))
    assert error.param == "input" and error.code == "context_length_exceeded"
    error = raises(openai.NotFoundError, lambda: create(model="none"))
    assert error.code == "model_not_found"
    expect(main().request("GET", "/v1/responses"), 405, "method_not_allowed")
    expect(main().request("GET", "/v1/responses/resp_1", headers={"authorization": f"Bearer {KEY}"}),
           404, "response_not_found")
    stored = client().responses
    for call in (stored.retrieve, stored.delete, stored.cancel, stored.input_items.list):
        error = raises(openai.NotFoundError, lambda: call("resp_1"))
        assert error.code == "response_not_found" and "nothing is stored" in str(error), error
    expect(main().post("/v1/responses", {}, authorization=None), 401, "missing_api_key")
    expect(main().post("/v1/responses", {"model": "embed", "input": "a"}), 400, "unsupported_model",
           "model")


def test_the_tokens_of_an_input_are_counted():
    for more in ({}, {"input": ASK}):
        count = main().post("/v1/responses/input_tokens", {"model": "tiny", "input": STORY, **more}).json
        assert count == {"object": "response.input_tokens",
                         "input_tokens": create(**more).usage.input_tokens}, count


def test_the_route_is_counted():
    before = create() and main().metric(r'http_requests_total\{handler="/v1/responses"')
    create()
    assert main().metric(r'http_requests_total\{handler="/v1/responses"') == before + 1
