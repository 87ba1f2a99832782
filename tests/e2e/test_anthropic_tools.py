# SPDX-License-Identifier: Apache-2.0
"""Tools and thinking through the official Anthropic client: a model that always calls (caller_model.py),
raw events, the stream helper, sync and async, agents of several rounds."""

import asyncio
import json
import tempfile

import anthropic

import caller_model
import harness
from harness import KEY, user

TOOLS = [{"name": "get_weather", "description": "Weather of a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "cache_control": {"type": "ephemeral"}},
    {"type": "custom", "name": "get_time", "input_schema": {"type": "object", "properties": {}}}]
SYSTEM = [{"type": "text", "text": "You have tools.", "cache_control": {"type": "ephemeral"}}]
THOUGHT = "Two tools, then."


@harness.once
def server():
    return harness.start(f"caller={caller_model.caller(tempfile.mkdtemp())}")


def client(kind=anthropic.Anthropic, base=""):
    return kind(base_url=server().base + base, api_key=KEY, max_retries=0)


def args(**more):
    base = {"model": "caller", "max_tokens": 2000, "system": SYSTEM, "tools": TOOLS,
            "messages": user("Weather in Łódź?"), "extra_body": {"temperature": 0}}
    return {**base, **more}


def ask(**more):
    return client().messages.create(**args(**more))


THINKING = {"type": "enabled", "budget_tokens": 1024}


def blocks_of(message):
    """The content without ids and signatures."""
    def plain(block):
        if block.type == "tool_use":
            assert block.id.startswith("toolu_")
            return block.type, block.name, block.input
        return block.type, getattr(block, block.type)
    return [plain(block) for block in message.content]


CALLS = [("text", "Let me see."), ("tool_use", "get_weather", {"city": "Łódź"}),
         ("tool_use", "get_time", {})]


def test_calls():
    answer = ask()
    assert blocks_of(answer) == CALLS  # text comes first: nobody asked for thinking
    assert answer.stop_reason == "tool_use" and answer.stop_sequence is None
    assert len({b.id for b in answer.content[1:]}) == 2
    assert answer.usage.output_tokens == len(caller_model.CHAIN) + 1
    assert answer.usage.output_tokens_details is None


def test_thinking():
    answer = ask(thinking=THINKING)
    assert blocks_of(answer) == [("thinking", THOUGHT)] + CALLS
    assert answer.content[0].signature
    assert answer.usage.output_tokens_details.thinking_tokens == 4
    again = ask(thinking={"type": "adaptive", "display": "omitted"})
    assert blocks_of(again) == [("thinking", "")] + CALLS
    assert again.content[0].signature == answer.content[0].signature
    assert blocks_of(ask(thinking={"type": "disabled"})) == CALLS


def test_events_as_they_come():
    blocks, stops, usage = [], [], None
    for event in ask(stream=True, thinking=THINKING):
        if event.type == "content_block_start":
            assert event.index == len(blocks)
            blocks.append([event.content_block.type, getattr(event.content_block, "name", ""), ""])
        elif event.type == "content_block_delta":
            delta = event.delta
            kinds = {"text_delta": "text", "thinking_delta": "thinking",
                     "input_json_delta": "partial_json"}
            if delta.type == "signature_delta":
                assert blocks[-1][0] == "thinking" and delta.signature
            else:
                blocks[event.index][2] += getattr(delta, kinds[delta.type])
        elif event.type == "content_block_stop":
            stops.append(event.index)
        elif event.type == "message_delta":
            assert event.delta.stop_reason == "tool_use"
            usage = event.usage
    assert stops == list(range(len(blocks))) == [0, 1, 2, 3]
    assert [(kind, name) for kind, name, _ in blocks] == [
        ("thinking", ""), ("text", ""), ("tool_use", "get_weather"), ("tool_use", "get_time")]
    assert [json.loads(text) for _, _, text in blocks[2:]] == [{"city": "Łódź"}, {}]
    assert blocks[0][2] == THOUGHT and blocks[1][2] == "Let me see."
    assert usage.output_tokens == len(caller_model.CHAIN) + 1
    assert usage.output_tokens_details.thinking_tokens == 4


def test_the_helper_puts_a_stream_together():
    with client().messages.stream(**args(thinking=THINKING)) as stream:
        kinds = {event.type for event in stream}
        final = stream.get_final_message()
    assert {"text", "thinking", "signature", "input_json"} <= kinds
    whole = ask(thinking=THINKING)
    assert blocks_of(final) == blocks_of(whole) == [("thinking", THOUGHT)] + CALLS
    assert final.content[0].signature == whole.content[0].signature
    assert final.stop_reason == "tool_use"
    total = final.usage.input_tokens + final.usage.cache_read_input_tokens
    assert total == client().messages.count_tokens(
        model="caller", messages=user("Weather in Łódź?"), tools=TOOLS, system=SYSTEM,
        thinking=THINKING).input_tokens


def results_of(message, content='{"rain": true}', **more):
    return {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": block.id, "content": content, **more}
        for block in message.content if block.type == "tool_use"]}


def test_three_rounds():
    """The whole history comes back each time, thinking with its signature, as agents send it."""
    messages = user("Weather in Łódź?")
    for turn in range(3):
        answer = ask(messages=messages, thinking=THINKING)
        assert blocks_of(answer) == [("thinking", THOUGHT)] + CALLS
        messages.append({"role": "assistant",
                         "content": [b.model_dump(exclude_none=True) for b in answer.content]})
        messages.append(results_of(answer))
        answer = ask(messages=messages, thinking=THINKING)
        assert blocks_of(answer) == [("text", "It rains at noon.")]
        assert answer.stop_reason == "end_turn"
        messages += [{"role": "assistant", "content": answer.content[0].text},
                     {"role": "user", "content": f"And on day {turn}?"}]
    assert ask(messages=messages).usage.cache_read_input_tokens > 0


def test_a_streamed_agent():
    """An agent as command line tools write them: streams, runs its tools, until there is no call."""
    async def agent():
        messages, texts = user("Weather in Łódź?"), []
        async with client(anthropic.AsyncAnthropic) as api:
            for _ in range(5):
                async with api.messages.stream(**args(messages=messages)) as stream:
                    async for text in stream.text_stream:
                        texts.append(text)
                    answer = await stream.get_final_message()
                messages.append({"role": "assistant", "content": answer.content})
                if answer.stop_reason != "tool_use":
                    return "".join(texts), len(messages)
                messages.append(results_of(answer))
        raise AssertionError("no end")
    assert asyncio.run(agent()) == ("Let me see.It rains at noon.", 4)


def test_many_at_once():
    async def all_of():
        async with client(anthropic.AsyncAnthropic) as api:
            return await asyncio.gather(*[api.messages.create(**args()) for _ in range(6)])
    answers = asyncio.run(all_of())
    assert all(blocks_of(answer) == CALLS for answer in answers)
    assert len({b.id for a in answers for b in a.content[1:]}) == 12


def test_71_forms_of_results():
    answer = ask()
    turns = user("Weather in Łódź?") + [{"role": "assistant", "content": answer.content}]
    ids = [block.id for block in answer.content if block.type == "tool_use"]
    first = {"type": "tool_result", "tool_use_id": ids[0]}
    second = {"type": "tool_result", "tool_use_id": ids[1], "content": "12:00"}
    forms = [[first, second],
             [second, {**first, "content": "rain"}],
             [{**first, "content": [{"type": "text", "text": "rain"},
                                    {"type": "text", "text": "wind"}]}, second],
             [{**first, "content": "no network", "is_error": True}, second],
             [first, second, {"type": "text", "text": "Well?"}],
             [{"type": "text", "text": "Here:"}, first, second]]
    for form in forms:
        text = ask(messages=turns + [{"role": "user", "content": form}]).content[0].text
        assert text == ("It rains at noon." if len(form) == 2 else "Let me see.")
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": ""}}
    wrong = [([first], "has none"), ([first, first, second], "twice"),
             ([{**first, "content": [image]}, second], "the content type 'image'"),
             ([{**first, "tool_use_id": "toolu_x"}, second], "'toolu_x' is not a call id")]
    for form, says in wrong:
        try:
            ask(messages=turns + [{"role": "user", "content": form}])
            raise AssertionError(says)
        except anthropic.BadRequestError as error:
            assert says in error.body["error"]["message"], error


def test_choices_of_tools():
    assert blocks_of(ask(tool_choice={"type": "auto", "disable_parallel_tool_use": True})) == CALLS[:2]
    answer = ask(tool_choice={"type": "none"})
    assert [b.type for b in answer.content] == ["text"] and answer.stop_reason == "end_turn"
    assert answer.content[0].text.startswith("Let me see.\n<tool_call>")
    assert [b.type for b in ask(tools=TOOLS[:1]).content] == ["text", "tool_use", "text"]
    assert blocks_of(ask(tools=TOOLS[:1]))[1] == CALLS[1]


def test_limits():
    answer = ask(max_tokens=3)
    assert blocks_of(answer) == [("text", "")] and answer.stop_reason == "max_tokens"
    answer = ask(max_tokens=8)  # inside of the first call
    assert blocks_of(answer)[1] == ("tool_use", "get_weather", {"city": "Łódź"})
    assert answer.stop_reason == "max_tokens"
    with client().messages.stream(**args(max_tokens=8)) as stream:
        final = stream.get_final_message()
    assert blocks_of(final) == blocks_of(answer) and final.stop_reason == "max_tokens"


def test_tokens_are_counted_as_they_cost():
    body = {k: v for k, v in args().items() if k not in ("max_tokens", "extra_body")}
    with_tools = client().messages.count_tokens(**body).input_tokens
    usage = ask().usage
    assert with_tools == usage.input_tokens + usage.cache_read_input_tokens
    del body["tools"]
    assert client().messages.count_tokens(**body).input_tokens < with_tools


def test_a_model_without_thinking():
    api = anthropic.Anthropic(base_url=harness.main().base, api_key=KEY, max_retries=0)
    more = {"model": "tiny", "max_tokens": 1100, "messages": user("Once")}
    assert api.messages.create(**more, thinking=THINKING).content[0].type == "text"
    more["max_tokens"] = 4
    assert api.messages.create(**more, thinking={"type": "adaptive"}).content[0].type == "text"
