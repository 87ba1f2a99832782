"""Forced calls through the official client: weft-demo-chat, which writes nonsense, in the syntax of many dialects.

Its answers at temperature 1.5 are calls because the grammar leaves nothing else. WEFT_FORCED sets how many answers each
dialect gives (1), as tools/soak.sh does.
"""

import functools
import json
import os

import openai

import harness
from harness import KEY, MODELS, ROOT, expect, user

TEMPLATES = ROOT.parent / "shared/assets/chat/templates"
DIALECTS = {
    "hermes": "Qwen-Qwen3-0.6B", "qwen3-coder": "Qwen3-Coder", "seed": "ByteDance-Seed-OSS", "glm": "GLM-4.6",
    "minicpm": "openbmb-MiniCPM5-1B", "minimax-m2": "MiniMax-M2", "minimax-m3": "MiniMax-M3", "kimi": "Kimi-K2-Instruct",
    "dsml": "deepseek-ai-DeepSeek-V4", "deepseek-v31": "deepseek-ai-DeepSeek-V3.1", "solar": "upstage-Solar-Open-100B",
    "functionary": "meetkai-functionary-medium-v3.2", "mistral-list": "mistralai-Mistral-Nemo-Instruct-2407",
    "gemma": "google-gemma-4-31B-it-interleaved", "lfm2": "LFM2.5-8B-A1B", "llama-json": "meta-llama-Llama-3.1-8B-Instruct",
    "granite": "ibm-granite-granite-3.3-2B-Instruct", "apertus": "Apertus-8B-Instruct",
    "apriel": "Apriel-1.6-15b-Thinker-fixed", "nemotron": "NVIDIA-Nemotron-Nano-v2",
    "hunyuan": "tencent-Hy3",
}
# Their templates begin the answer with thoughts, which a model that writes nonsense seldom ends.
THINKING = {"minimax-m2", "apriel", "nemotron"}
CITY = {"type": "object", "properties": {
    "city": {"type": "string", "minLength": 1, "maxLength": 12},
    "days": {"type": "integer", "minimum": -5, "maximum": 20},
    "unit": {"enum": ["celsius", "true", "a <b> \"c\""]},
    "note": {"anyOf": [{"type": "string", "maxLength": 6}, {"type": "null"}, {"type": "integer", "minimum": 7, "maximum": 9}]},
    "tags": {"type": "array", "items": {"type": "string", "maxLength": 5}, "maxItems": 2},
    "deep": {"type": "object", "properties": {"on": {"type": "boolean"}}, "required": ["on"], "additionalProperties": False},
}, "required": ["city", "unit", "note"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Weather of a city", "parameters": CITY}},
         {"type": "function", "function": {"name": "get_time", "description": "The time", "parameters": {
             "type": "object", "properties": {}, "additionalProperties": False}}}]
NAMED = {"type": "function", "function": {"name": "get_weather"}}


@functools.cache
def server():
    models = [f"{name}={MODELS / 'weft-demo-chat'},chat-template={TEMPLATES / file}.jinja" for name, file in DIALECTS.items()]
    return harness.start(*models)


def ask(model, seed, **more):
    client = openai.OpenAI(base_url=server().base + "/v1", api_key=KEY, max_retries=0)
    args = {"model": model, "messages": user("Weather in Oslo?"), "temperature": 1.5, "seed": seed, "max_tokens": 512,
            "tools": TOOLS, "tool_choice": "required", "extra_body": {"chat_template_kwargs": {"enable_thinking": False}}}
    return client.chat.completions.create(**{**args, **more})


def fits(value):
    """What CITY says, written out; and jsonschema says the same where it is there."""
    try:
        import jsonschema
        jsonschema.validate(value, CITY)
    except ModuleNotFoundError:
        pass
    rows = {"city": lambda v: isinstance(v, str) and 1 <= len(v) <= 12,
            "days": lambda v: type(v) is int and -5 <= v <= 20,
            "unit": lambda v: v in CITY["properties"]["unit"]["enum"],
            "note": lambda v: v is None or (isinstance(v, str) and len(v) <= 6) or (type(v) is int and 7 <= v <= 9),
            "tags": lambda v: isinstance(v, list) and len(v) <= 2 and all(isinstance(t, str) and len(t) <= 5 for t in v),
            "deep": lambda v: isinstance(v, dict) and list(v) == ["on"] and type(v["on"]) is bool}
    assert {"city", "unit", "note"} <= set(value) <= set(rows), value
    assert all(rows[key](each) for key, each in value.items()), value


def calls_fit(calls, names):
    for call in calls:
        assert call.function.name in names, call
        value = json.loads(call.function.arguments)
        if call.function.name == "get_weather":
            fits(value)
        else:
            assert value == {}, value


def test_forced_calls_fit_in_every_dialect():
    count, ended, asked = int(os.environ.get("WEFT_FORCED", 1)), 0, 0
    for number, model in enumerate(DIALECTS):
        for seed in range(count):
            one = (number + seed) % 2 == 0
            choice = ask(model, seed, tool_choice=NAMED if one else "required", parallel_tool_calls=not one).choices[0]
            counts = one and model not in THINKING
            asked += counts
            if choice.finish_reason == "length":
                continue
            ended += counts
            assert choice.finish_reason == "tool_calls", (model, choice)
            assert not choice.message.content, (model, choice)
            assert not one or len(choice.message.tool_calls) == 1, (model, choice)
            calls_fit(choice.message.tool_calls, {"get_weather"} if one else {"get_weather", "get_time"})
    # Few answers say little.
    assert ended >= asked * (0.95 if asked >= 100 else 0.7), (ended, asked)


def test_allowed_tools():
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        {"type": "function", "function": {"name": "get_time"}}]}}
    for model in ("hermes", "qwen3-coder", "lfm2"):
        choice = ask(model, 1, tool_choice=allowed).choices[0]
        assert choice.message.tool_calls or choice.finish_reason == "length", choice
        calls_fit(choice.message.tool_calls or [], {"get_time"})


def test_streamed_calls_are_the_same():
    whole = ask("glm", 4, tool_choice=NAMED, parallel_tool_calls=False).choices[0].message.tool_calls
    arguments = ""
    for chunk in ask("glm", 4, tool_choice=NAMED, parallel_tool_calls=False, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            arguments += call.function.arguments or ""
    assert whole and arguments == whole[0].function.arguments


def test_strict_functions_leave_text_free():
    """Under auto the demo model writes no mark of a call: its tokens are those without a grammar."""
    strict = [{"type": "function", "function": {**TOOLS[0]["function"], "strict": True}}]
    free = ask("hermes", 7, tools=[TOOLS[0]], tool_choice="auto", max_tokens=60).choices[0]
    kept = ask("hermes", 7, tools=strict, tool_choice="auto", max_tokens=60).choices[0]
    # Templates print the whole tool, so the prompts may differ: what is checked is that there is text.
    assert kept.message.content and free.message.content
    assert not kept.message.tool_calls


def test_a_schema_that_cannot_be_forced_is_named():
    tools = [{"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"k": {"type": "array", "uniqueItems": True}}}}}]
    body = {"model": "hermes", "messages": user("a"), "tools": tools, "tool_choice": "required"}
    answer = expect(server().post("/v1/chat/completions", body), 400, "unsupported_value", "tools")
    assert "uniqueItems" in answer.error["message"] and "tool 'f'" in answer.error["message"], answer.text
