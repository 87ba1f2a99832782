# SPDX-License-Identifier: Apache-2.0
"""Requests as programs send them that nobody here wrote: benchmark tools on /v1/completions and chat, agents on the
command line in three interfaces. Everything that changes nothing is taken."""

import concurrent.futures
import json

import test_tools as tools
from harness import expect, main, text_of

PROMPTS = [f"Once upon a time there was a {word} who lived in house {i}" for i in range(16)
           for word in ("dog", "cat", "girl", "boy", "bird", "tree", "fish", "bear")]


def streamed(answer):
    """(text, usage) of a stream, whose last chunk before [DONE] has the usage alone."""
    assert answer.status == 200, answer.text
    chunks = answer.chunks()
    assert chunks[-1]["choices"] == [] and all(c["choices"] for c in chunks[:-1])
    parts = [c["choices"][0] for c in chunks[:-1]]
    return "".join(p.get("text") or p.get("delta", {}).get("content") or "" for p in parts), chunks[-1]["usage"]


def test_recorded_serving_benchmarks():
    """vLLM's and SGLang's: streams of completions and of chats with an exact number of tokens, many at once."""
    completion = {"model": "tiny", "temperature": 0.0, "repetition_penalty": 1.0, "max_tokens": 16, "logprobs": None,
                  "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True}
    other = {"model": "tiny", "temperature": 0.0, "best_of": 1, "max_tokens": 16, "stream": True, "ignore_eos": True,
             "stream_options": {"include_usage": True}}
    talk = {"model": "tiny", "temperature": 0.0, "max_completion_tokens": 16, "stream": True, "ignore_eos": True,
            "stream_options": {"include_usage": True}}

    def ask(i):
        if i % 3 == 2:
            body = {**talk, "messages": [{"role": "user", "content": [{"type": "text", "text": PROMPTS[i]}]}]}
            return streamed(main().post("/v1/chat/completions", body))
        body = {**(completion if i % 3 else other), "prompt": PROMPTS[i]}
        return streamed(main().post("/v1/completions", body))
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(ask, range(48)))
    assert all(text and usage["completion_tokens"] == 16 for text, usage in answers)


def test_recorded_evaluations():
    """lm-evaluation-harness: generations of many prompts in one body; log probabilities of prompts are refused in
    words that name them."""
    body = {"model": "tiny", "prompt": PROMPTS, "max_tokens": 8, "temperature": 0, "stop": ["\n\n"], "seed": 1234}
    answer = main().post("/v1/completions", body)
    assert answer.status == 200, answer.text
    choices = answer.json["choices"]
    assert len(PROMPTS) == 128 and [c["index"] for c in choices] == list(range(128))
    one = main().post("/v1/completions", {**body, "prompt": PROMPTS[77]}).json["choices"][0]
    assert choices[77]["text"] == one["text"]
    ids = main().post("/tokenize", {"model": "tiny", "prompt": PROMPTS[3]}).json["tokens"]
    as_ids = main().post("/v1/completions", {**body, "prompt": [ids, ids]})
    assert [c["text"] for c in as_ids.json["choices"]] == [choices[3]["text"]] * 2
    likelihood = {"model": "tiny", "prompt": [ids], "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234,
                  "echo": True}
    assert "echo" in expect(main().post("/v1/completions", likelihood), 400).error["message"]


SCHEMA = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "additionalProperties": False,
          "properties": {"city": {"type": "string", "description": "Name"}}, "required": ["city"]}
NOTHING = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {},
           "additionalProperties": False}


def test_recorded_agent_of_messages():
    """The command line agent of the Messages family: its query, betas, system blocks, cache marks, context management,
    adaptive thinking and effort; then the turn with the results."""
    mark = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    body = {
        "model": "caller", "max_tokens": 32000, "stream": True, "temperature": 1,
        "system": [{"type": "text", "text": "x-billing: version=2.1"}, {"type": "text", "text": "You help.", **mark}],
        "messages": [{"role": "user", "content": [
            {"type": "text", "text": "<system-reminder>\nToday is Sunday.\n</system-reminder>"},
            {"type": "text", "text": "Weather in Łódź?", **mark}]}],
        "tools": [{"name": "get_weather", "description": "Weather of a city", "input_schema": SCHEMA},
                  {"name": "get_time", "description": "The time", "input_schema": NOTHING, **mark}],
        "metadata": {"user_id": json.dumps({"device_id": "d", "session_id": "s"})},
        "thinking": {"type": "adaptive"}, "output_config": {"effort": "medium"},
        "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    }
    headers = {"anthropic_version": "2023-06-01", "anthropic_dangerous_direct_browser_access": "true", "x_app": "cli",
               "anthropic_beta": "interleaved-thinking-2025-05-14,context-management-2025-06-27,effort-2025-11-24"}

    def send():
        answer = tools.server().post("/v1/messages?beta=true", body, **headers)
        assert answer.status == 200, answer.text
        blocks = []
        for name, data in answer.events():
            event = json.loads(data) if name != ":" else {}
            assert name != "error", data
            if event.get("type") == "content_block_start":
                blocks.append({**event["content_block"], "json": ""})
            elif event.get("type") == "content_block_delta":
                for key, value in event["delta"].items():
                    if key in ("text", "thinking", "signature"):
                        blocks[-1][key] += value
                    elif key == "partial_json":
                        blocks[-1]["json"] += value
        return blocks
    blocks = send()
    assert [b["type"] for b in blocks] == ["thinking", "text", "tool_use", "tool_use"], blocks
    for block in blocks:
        text = block.pop("json")
        if block["type"] == "tool_use":
            block["input"] = json.loads(text or "{}")
    body["messages"] += [
        {"role": "assistant", "content": blocks},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": b["id"], "content": "rain", "is_error": False}
                                     for b in blocks if b["type"] == "tool_use"]}]
    assert [(b["type"], b["text"]) for b in send()] == [("text", "It rains at noon.")]
    count = {k: body[k] for k in ("model", "messages", "system", "tools", "thinking")}
    answer = tools.server().post("/v1/messages/count_tokens?beta=true", count, **headers)
    assert answer.status == 200 and answer.json["input_tokens"] > 100, answer.text


def test_recorded_agent_of_chat():
    """Agents of the chat interface: their tools, cache keys and hints, and what they send back of an answer."""
    body = {
        "model": "caller", "stream": True, "stream_options": {"include_usage": True}, "temperature": 0, "top_p": 1,
        "max_tokens": 32000, "tool_choice": "auto", "parallel_tool_calls": True, "store": False,
        "prompt_cache_key": "ses_1", "user": "u", "metadata": {"sessionId": "s", "promptId": "p"},
        "messages": [{"role": "system", "content": [{"type": "text", "text": "You help.",
                                                     "cache_control": {"type": "ephemeral"}}]},
                     {"role": "user", "content": [{"type": "text", "text": "Weather in Łódź?"}]}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "description": "W", "parameters": SCHEMA}},
                  {"type": "function", "function": {"name": "get_time", "description": "T", "parameters": NOTHING,
                                                    "strict": False}}],
    }
    answer = tools.server().post("/v1/chat/completions", body)
    assert answer.status == 200, answer.text
    calls = []
    for chunk in answer.chunks()[:-1]:
        for part in chunk["choices"][0]["delta"].get("tool_calls") or []:
            if part.get("id"):
                calls.append({"id": part["id"], "type": "function", "function": {
                    "name": part["function"]["name"], "arguments": ""}})
            calls[-1]["function"]["arguments"] += part["function"].get("arguments") or ""
    assert [json.loads(c["function"]["arguments"]) for c in calls] == [{"city": "Łódź"}, {}]
    body["messages"] += [{"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "Two tools."}]
    body["messages"] += [{"role": "tool", "tool_call_id": c["id"], "content": [{"type": "text", "text": "rain"}]}
                         for c in calls]
    again = {**body, "stream": False}
    del again["stream_options"]
    assert text_of(tools.server().post("/v1/chat/completions", again)) == "It rains at noon."


def test_recorded_agent_of_responses():
    """The command line agent of the Responses interface: nothing is stored, reasoning comes back with its items."""
    body = {
        "model": "caller", "instructions": "You help.", "stream": True, "store": False, "tool_choice": "auto",
        "parallel_tool_calls": False, "reasoning": {"effort": "medium", "summary": "auto"},
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "0199-1",
        "input": [{"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "Sandboxed."}]},
                  {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Weather in Łódź?"}]}],
        "tools": [{"type": "function", "name": "get_weather", "description": "W", "strict": False, "parameters": SCHEMA},
                  {"type": "function", "name": "get_time", "description": "T", "strict": False, "parameters": NOTHING}],
    }

    def send():
        answer = tools.server().post("/v1/responses", body, openai_beta="responses=experimental", originator="cli_rs")
        assert answer.status == 200, answer.text
        events = [json.loads(data) for name, data in answer.events() if name != ":"]
        assert [e["sequence_number"] for e in events] == list(range(len(events)))
        assert events[-1]["type"] == "response.completed", events[-1]
        return events[-1]["response"]["output"]
    items = send()
    assert [i["type"] for i in items] == ["reasoning", "message", "function_call"], items
    assert json.loads(items[-1]["arguments"]) == {"city": "Łódź"}
    body["input"] += items + [{"type": "function_call_output", "call_id": items[-1]["call_id"], "output": "rain"}]
    items = send()
    assert [i["type"] for i in items] == ["message"] and items[0]["content"][0]["text"] == "It rains at noon."
