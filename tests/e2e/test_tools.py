# SPDX-License-Identifier: Apache-2.0
"""Tools and reasoning through the official client: a model that always calls (caller_model.py)."""

import json
import re
import tempfile

import openai

import caller_model
import harness
from harness import KEY, expect, user

TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "Weather of a city", "parameters": {
        "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}},
    {"type": "function", "function": {"name": "get_time"}}]


@harness.once
def server():
    return harness.start(f"caller={caller_model.caller(tempfile.mkdtemp())}")


def client():
    return openai.OpenAI(base_url=server().base + "/v1", api_key=KEY, max_retries=0)


def ask(**more):
    args = {"model": "caller", "messages": user("Weather in Łódź?"), "temperature": 0, "tools": TOOLS}
    return client().chat.completions.create(**{**args, **more})


def calls_are_right(calls):
    assert [(c.type, c.function.name, json.loads(c.function.arguments)) for c in calls] == [
        ("function", "get_weather", {"city": "Łódź"}), ("function", "get_time", {})]
    assert len({c.id for c in calls}) == 2 and all(c.id.startswith("call_") for c in calls)


def test_calls():
    answer = ask()
    choice = answer.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content == "Let me see."
    assert choice.message.reasoning_content == choice.message.reasoning == "Two tools, then."
    calls_are_right(choice.message.tool_calls)
    # <think>, two of its text and </think>
    assert answer.usage.completion_tokens_details.reasoning_tokens == 4
    assert answer.usage.completion_tokens == len(caller_model.CHAIN) + 1


def test_numbers_in_prompts_keep_their_digits():
    """Those of schemas and of earlier calls, whatever their length, as Python writes them."""
    wide, real = 123456789012345678901234567890, 1e23
    tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {
        "n": {"type": "integer", "minimum": -wide, "enum": [2**64 - 1, wide], "default": real}}}}}]
    arguments = {"n": 2**70, "x": [10**40, 0.1, 5]}
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": json.dumps(arguments)}}
    chat = [*user("a"), {"role": "assistant", "tool_calls": [call]}, {"role": "tool", "tool_call_id": "c", "content": "b"}]
    answer = server().post("/tokenize", {"model": "caller", "messages": chat, "tools": tools})
    text = server().post("/detokenize", {"model": "caller", "tokens": answer.json["tokens"]}).json["prompt"]
    assert json.dumps(tools[0]) in text, text
    assert json.dumps(arguments) in text, text


def test_13_calls_streamed():
    content, thought, calls, ends = "", "", [], []
    for chunk in ask(stream=True):
        delta = chunk.choices[0].delta
        content += delta.content or ""
        thought += getattr(delta, "reasoning_content", None) or ""
        for call in delta.tool_calls or []:
            if call.id:
                assert call.index == len(calls) and call.function.arguments == ""
                calls.append([call.id, call.function.name, ""])
            calls[call.index][2] += call.function.arguments
        ends += [chunk.choices[0].finish_reason] if chunk.choices[0].finish_reason else []
    assert (content, thought, ends) == ("Let me see.", "Two tools, then.", ["tool_calls"])
    assert [(name, json.loads(a)) for _, name, a in calls] == [
        ("get_weather", {"city": "Łódź"}), ("get_time", {})]


def test_the_helper_puts_a_stream_together():
    with client().chat.completions.stream(model="caller", messages=user("a"), temperature=0,
                                          tools=TOOLS) as stream:
        kinds = {event.type for event in stream}
        message = stream.get_final_completion().choices[0].message
    calls_are_right(message.tool_calls)
    assert message.content == "Let me see."
    assert "tool_calls.function.arguments.done" in kinds


def test_two_rounds():
    messages = user("Weather in Łódź?")
    message = ask().choices[0].message
    messages.append(message.model_dump(exclude_none=True))
    for call in message.tool_calls:
        messages.append({"role": "tool", "tool_call_id": call.id, "content": '{"rain": true}'})
    choice = ask(messages=messages).choices[0]
    assert choice.message.content == "It rains at noon." and choice.finish_reason == "stop"
    assert choice.message.tool_calls is None


def test_a_custom_tool():
    more = {"tools": [{"type": "custom", "custom": {"name": "pick", "format": {
        "type": "grammar", "grammar": {"syntax": "regex", "definition": "(ab|cd){2}"}}}}],
        "tool_choice": {"type": "custom", "custom": {"name": "pick"}}}
    message = ask(**more).choices[0].message
    call = message.tool_calls[0]
    assert call.type == "custom" and call.custom.name == "pick"
    assert re.fullmatch("(ab|cd){2}", call.custom.input)
    streamed = ""
    for chunk in ask(stream=True, **more):
        for delta in chunk.choices[0].delta.tool_calls or []:
            streamed += delta.custom["input"]
    assert streamed == call.custom.input
    more["tool_choice"] = "none"
    answer = ask(messages=user("a") + [message.to_dict(), {"role": "tool", "tool_call_id": call.id, "content": "ok"}], **more)
    assert answer.choices[0].message.content == "It rains at noon."


def test_09_the_model_may_not_call():
    choice = ask(tool_choice="none").choices[0]
    assert choice.message.tool_calls is None and choice.finish_reason == "stop"
    assert choice.message.content.startswith("Let me see.\n<tool_call>")
    assert ask(tool_choice="none").usage.prompt_tokens < ask().usage.prompt_tokens
    choice = ask(tools=openai.NOT_GIVEN).choices[0]
    assert choice.message.tool_calls is None


def test_one_call_at_a_time():
    answer = ask(parallel_tool_calls=False)
    assert [c.function.name for c in answer.choices[0].message.tool_calls] == ["get_weather"]
    assert answer.choices[0].finish_reason == "tool_calls"


def test_12_a_name_that_is_no_tool_is_text():
    choice = ask(tools=TOOLS[:1]).choices[0]
    assert [c.function.name for c in choice.message.tool_calls] == ["get_weather"]
    assert '<tool_call>{"name": "get_time"' in choice.message.content


def test_20_stop_strings_are_for_visible_text():
    assert ask(stop=["tools", "city"]).choices[0].message.content == "Let me see."
    calls_are_right(ask(stop=["tools", "city"]).choices[0].message.tool_calls)
    choice = ask(stop=["see"]).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("Let me ", "stop")


def test_25_one_token_of_reasoning():
    choice = ask(max_tokens=1).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("", "length")


def test_77_reasoning_that_never_closes():
    choice = ask(max_tokens=3).choices[0]
    assert (choice.message.content, choice.finish_reason) == ("", "length")
    assert choice.message.reasoning_content == "Two tools, then."


def test_the_limit_inside_of_a_call():
    for limit in range(1, len(caller_model.CHAIN) + 1):
        whole = ask(max_tokens=limit).choices[0]
        content, arguments = "", []
        for chunk in ask(max_tokens=limit, stream=True):
            delta = chunk.choices[0].delta
            content += delta.content or ""
            for call in delta.tool_calls or []:
                arguments += [""] if call.id else []
                arguments[-1] += call.function.arguments
        assert whole.finish_reason == "length"
        assert (whole.message.content or "") == content
        assert [c.function.arguments for c in whole.message.tool_calls or []] == arguments


def test_as_many_tools_as_there_may_be():
    many = TOOLS + [{"type": "function", "function": {"name": f"t{i}"}} for i in range(127)]
    calls_are_right(ask(tools=many[:128]).choices[0].message.tool_calls)
    for last in ("get_time", "t125"):
        named = {"type": "function", "function": {"name": last}}
        choice = ask(tools=many[:128], tool_choice=named, parallel_tool_calls=False).choices[0]
        assert [(c.function.name, c.function.arguments) for c in choice.message.tool_calls] == [(last, "{}")]
        assert choice.finish_reason == "tool_calls"
    body = {"model": "caller", "messages": user("a"), "tools": many}
    expect(server().post("/v1/chat/completions", body), 400, "invalid_value", "tools")


def test_what_is_refused():
    body = {"model": "caller", "messages": user("a")}
    post = lambda **more: server().post("/v1/chat/completions", {**body, **more})
    expect(post(tools=TOOLS, tool_choice="any"), 400, "invalid_value", "tool_choice")
    expect(post(tools=[{"type": "web_search"}]), 400, "unsupported_value", "tools[0].type")
    expect(post(tools=[TOOLS[0], TOOLS[0]]), 400, "invalid_value", "tools[1].function.name")
    expect(post(tool_choice="required"), 400, "invalid_value", "tool_choice")


def test_a_template_without_tools():
    """The generic form: a forced call follows its grammar on any model whose tokens can spell it."""
    plain = harness.start(f"plain={harness.MODELS / 'weft-demo-chat'},chat-template={harness.STRICT}")
    answer = plain.post("/v1/chat/completions", {
        "model": "plain", "messages": user("a"), "max_tokens": 100, "tool_choice": "required", "tools": [
            {"type": "function", "function": {"name": "f", "parameters": {
                "type": "object", "properties": {"a": {"enum": [1]}}, "required": ["a"], "additionalProperties": False}}}]})
    call = answer.json["choices"][0]["message"]["tool_calls"][0]["function"]
    assert (call["name"], json.loads(call["arguments"])) == ("f", {"a": 1}), answer.text


CUT = ["<tool_call>", '\n{"name": "get_time", "arguments": {}}', " oops"]


def cutter(path):
    """Begins a call and forgets its end."""
    follows = {"\n": CUT[0], CUT[0]: CUT[1], CUT[1]: CUT[2], CUT[2]: "<|im_end|>"}
    return caller_model.chain_model(path, [], CUT, follows, caller_model.TEMPLATE, caller_model.FAR)


@harness.once
def cut_server():
    folder = cutter(tempfile.mkdtemp())
    return harness.start(f"held={folder}", f"free={folder},tool-call-grammar=off")


def cut_calls(choice):
    return [(c["function"]["name"], c["function"]["arguments"]) for c in choice["message"].get("tool_calls") or []]


def test_optional_calls_are_held_to_their_form():
    """From the marker on no token is sampled that does not continue a call, and then text may follow."""
    body = {"messages": user("Time?"), "temperature": 0, "tools": TOOLS, "max_tokens": 40, "n": 3}
    answer = expect(cut_server().post("/v1/chat/completions", {**body, "model": "held"}), 200).json
    for choice in answer["choices"]:
        assert cut_calls(choice) == [("get_time", "{}")] and choice["message"]["content"], choice
    answer = expect(cut_server().post("/v1/chat/completions", {**body, "model": "free"}), 200).json
    for choice in answer["choices"]:  # the model's own tokens
        assert choice["message"]["content"] == "oops" and answer["usage"]["completion_tokens"] == 3 * 4, answer


def test_optional_calls_of_other_endpoints():
    tools = [{"name": "get_time", "input_schema": {"type": "object"}}]
    body = {"model": "held", "messages": user("Time?"), "max_tokens": 40, "temperature": 0, "tools": tools}
    blocks = expect(cut_server().post("/v1/messages", body), 200).json["content"]
    assert [(b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"] == [("get_time", {})], blocks
    body = {"model": "held", "input": user("Time?"), "max_output_tokens": 40, "temperature": 0,
            "tools": [{"type": "function", "name": "get_time"}]}
    items = expect(cut_server().post("/v1/responses", body), 200).json["output"]
    assert [i["name"] for i in items if i["type"] == "function_call"] == ["get_time"], items
