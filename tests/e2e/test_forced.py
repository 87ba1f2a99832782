# SPDX-License-Identifier: Apache-2.0
"""Forced calls through the official client: weft-demo-chat, which writes nonsense, in the syntax of many dialects.

Its answers at temperature 1.5 are calls because the grammar leaves nothing else. WEFT_FORCED sets how many answers each
dialect gives (4; in the fast form one, of one call, which has an end), as tools/soak.sh does.
"""

import concurrent.futures
import json
import os
import pathlib
import tempfile

import openai
from openai.types.chat import ChatCompletionMessageFunctionToolCall

import caller_model
import harness
from harness import ASSETS, KEY, MODELS, ROOT, amount, expect, longest, user

TEMPLATES = ASSETS / "chat/templates"
# A template of the shared data, or None: none of them is of this dialect.
DIALECTS = {
    "hermes": "Qwen-Qwen3-0.6B", "qwen3-coder": "Qwen3-Coder", "seed": "ByteDance-Seed-OSS", "glm": "GLM-4.6",
    "minicpm": "openbmb-MiniCPM5-1B", "minimax-m2": "MiniMax-M2", "minimax-m3": "MiniMax-M3", "kimi": "Kimi-K2-Instruct",
    "dsml": "deepseek-ai-DeepSeek-V4", "deepseek-v3.1": "deepseek-ai-DeepSeek-V3.1", "solar": "upstage-Solar-Open-100B",
    "functionary-v3.2": "meetkai-functionary-medium-v3.2", "mistral-list": "mistralai-Mistral-Nemo-Instruct-2407",
    "gemma": "google-gemma-4-31B-it-interleaved", "lfm2": "LFM2.5-8B-A1B", "llama-json": "meta-llama-Llama-3.1-8B-Instruct",
    "granite": "ibm-granite-granite-3.3-2B-Instruct", "apertus": "Apertus-8B-Instruct",
    "apriel": "Apriel-1.6-15b-Thinker-fixed", "nemotron": "NVIDIA-Nemotron-Nano-v2", "hunyuan": "tencent-Hy3",
    # The prompts of their templates fill the window of a model whose tokens are bytes.
    "command-r7b": None, "mistral-args": None, "gigachat": None, "gigachat-3.1": None,
    "deepseek-v3": None, "harmony": None, "command-r": None, "functionary-v3.1": None, "mistral": None,
    "llama-pythonic": None, "json": None,
}
# It refuses a message with two calls, as those of Llama 3.x do.
ONE_CALL = ROOT / "tests/runtime/recorded/templates/headers.jinja"
# Where a template is not there, one is made whose only sign of its dialect is this.
SIGNS = {
    "hermes": "<tool_call> arguments", "qwen3-coder": "<function= <parameter=", "seed": "<seed:tool_call>",
    "glm": "<arg_key> <arg_value>", "minicpm": '<function name=" <param name="', "minimax-m2": "<minimax:tool_call>",
    "minimax-m3": "]<]minimax[>[", "kimi": "<|tool_call_argument_begin|>", "dsml": "DSML",
    "deepseek-v3.1": "<\uff5ctool\u2581sep\uff5c>", "deepseek-v3": "<\uff5ctool\u2581sep\uff5c> ```json",
    "harmony": "<|channel|> <|message|>", "solar": "<|tool_call:begin|>", "command-r7b": "<|START_ACTION|>",
    "command-r": 'Action: ```json "tool_name"', "functionary-v3.2": ">>>all", "functionary-v3.1": "<function=",
    "mistral-args": "[TOOL_CALLS] [ARGS]", "mistral-list": '"[TOOL_CALLS]["', "mistral": "[TOOL_CALLS]",
    "gemma": "<|tool_call>call:", "lfm2": "<|tool_call_start|>", "granite": "<|tool_call|>", "apertus": "<|tools_prefix|>",
    "apriel": "<tool_calls>[", "nemotron": "<TOOLCALL>", "gigachat-3.1": "<|function_call|>",
    "gigachat": "function call <|role_sep|>", "hunyuan": "<arg_key <tool_sep",
    "llama-pythonic": "func_name1( params_name1=", "llama-json": "<|python_tag|>", "json": "",
}
MADE = """{%% if tools %%}{{ tools | tojson }}
{%% endif %%}{%% for message in messages %%}{{ message.role }}: {{ message.content or '' }}
{%% endfor %%}{%% if add_generation_prompt %%}assistant: {%% endif %%}{%% if false %%}%s{%% endif %%}"""
# What calls begin with; marks that are special tokens in the models of the dialect stand alone.
MARKS = {
    "hermes": ["<tool_call>"], "qwen3-coder": ["<tool_call>"], "seed": ["<seed:tool_call>"], "glm": ["<tool_call>"],
    "minicpm": ['<function name="'], "minimax-m2": ["<minimax:tool_call>"], "minimax-m3": ["]<]minimax[>[", "<tool_call>"],
    "kimi": ["<|tool_calls_section_begin|>"], "dsml": ["<\uff5cDSML\uff5ctool_calls>"],
    "deepseek-v3.1": ["<\uff5ctool\u2581calls\u2581begin\uff5c>"], "deepseek-v3": ["<\uff5ctool\u2581calls\u2581begin\uff5c>"],
    "harmony": ["<|channel|>", "commentary to=functions."], "solar": ["<|tool_calls|>"],
    "command-r7b": ["<|START_ACTION|>"], "command-r": ["Action: ```json"], "functionary-v3.2": [">>>get_weather"],
    "functionary-v3.1": ["<function="], "mistral-args": ["[TOOL_CALLS]"], "mistral-list": ["[TOOL_CALLS]"],
    "mistral": ["[TOOL_CALLS]"], "gemma": ["<|tool_call>", "call:"], "lfm2": ["<|tool_call_start|>"], "granite": ["<|tool_call|>"],
    "apertus": ["<|tools_prefix|>"], "apriel": ["<tool_calls>["], "nemotron": ["<TOOLCALL>"],
    "gigachat-3.1": ["<|function_call|>"], "gigachat": ["<|message_sep|>", "\n\nfunction call", "<|role_sep|>", "\n{"],
    "hunyuan": ["<tool_calls:opensource>"], "llama-pythonic": ["[get_weather("], "llama-json": ['{"name": "get_weather"'],
    "json": ['{"name": "get_weather"'],
}
# The marks around the parameters of one call take most of 512 tokens that are bytes.
LONG_MARKS = {"dsml", "hunyuan"}
SPECIAL = ("<|", "<\uff5ctool", "[TOOL_CALLS]", "]<]minimax[>[")
# Their templates begin the answer with thoughts, which a model that writes nonsense seldom ends: a budget does.
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


def template(folder, dialect):
    file = TEMPLATES / f"{DIALECTS[dialect]}.jinja"
    if not file.exists():
        file = pathlib.Path(folder) / f"{dialect}.jinja"
        file.write_text(MADE % SIGNS[dialect])
    return file


@harness.once
def server():
    with tempfile.TemporaryDirectory() as folder:
        templates = {**{name: template(folder, name) for name in DIALECTS}, "one-call": ONE_CALL}
        return harness.start(*[f"{name}={MODELS / 'weft-demo-chat'},chat-template={file}"
                               for name, file in templates.items()])


def test_every_dialect_with_calls_is_here():
    """By the table that reads answers."""
    names = []
    for line in (ROOT / "runtime/text/dialect/table.c").read_text().splitlines():
        if ".name = " in line:
            names.append(line.split('"')[1])
    assert set(names) - {"none"} == set(DIALECTS) == set(SIGNS), (set(names) ^ set(DIALECTS), set(SIGNS) ^ set(DIALECTS))


@harness.once
def client():
    return openai.OpenAI(base_url=server().base + "/v1", api_key=KEY, max_retries=0)


def extra_of(model):
    thinks = model in THINKING and (TEMPLATES / f"{DIALECTS[model]}.jinja").exists()
    return {"chat_template_kwargs": {"enable_thinking": False}, **({"thinking_token_budget": 32} if thinks else {})}


def args_of(model, seed):
    return {"model": model, "messages": user("Weather in Oslo?"), "temperature": 1.5, "seed": seed,
            "max_tokens": 768 if model in LONG_MARKS else 512, "tools": TOOLS, "tool_choice": "required"}


def ask(model, seed, **more):
    return client().chat.completions.create(**{**args_of(model, seed), "extra_body": extra_of(model), **more})


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


def forced(model, seed):
    """(whether one call was asked for, whether the answer ended by itself); what is there of it is right."""
    one = (list(DIALECTS).index(model) + seed) % 2 == 0
    body = {**args_of(model, seed), "tool_choice": NAMED if one else "required", "parallel_tool_calls": not one,
            **extra_of(model)}
    answer = server().post("/v1/chat/completions", body)  # the client would take most of the time
    assert answer.status == 200, answer.text
    choice = answer.json["choices"][0]
    message = choice["message"]
    if choice["finish_reason"] == "length":
        return one, False
    assert choice["finish_reason"] == "tool_calls" and not message["content"], choice
    calls = [ChatCompletionMessageFunctionToolCall.model_validate(call) for call in message["tool_calls"]]
    assert len(calls) == 1 or (calls and not one), choice
    calls_fit(calls, {"get_weather"} if one else {"get_weather", "get_time"})
    return one, True


@longest
def test_forced_calls_fit_in_every_dialect():
    """Many answers of one dialect at a time, so that they share steps."""
    count = int(os.environ.get("WEFT_FORCED", amount(1, 1, 4)))

    def answer(job):
        try:
            return job, forced(*job)
        except (AssertionError, ValueError) as error:
            return job, error
    jobs = [(model, seed) for i, model in enumerate(DIALECTS) for seed in (range(count) if count > 1 else [i % 2])]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        ended = list(pool.map(answer, jobs))
    failed = [(job, error) for job, error in ended if isinstance(error, Exception)]
    assert not failed, (len(failed), failed[:3])
    every = []
    for model in DIALECTS:
        # Where there may be many calls the answer has no end of its own, so only those of one are counted.
        ends = [is_end for job, (one, is_end) in ended if job[0] == model and one]
        every += ends
        if len(ends) >= 50:
            print(f"{model}: {sum(ends)} of {len(ends)} forced calls ended by themselves")
            assert sum(ends) >= len(ends) * 0.95, (model, sum(ends), len(ends))
    # Few answers say little.
    assert sum(every) >= len(every) * (0.95 if len(every) >= 100 else 0.7), (sum(every), len(every))


@harness.once
def opener():
    """A model that begins each answer with the mark of a call and goes on with whatever it may, under a template a
    dialect, which says which mark."""
    folder, follows, pieces, templates = tempfile.mkdtemp(), {}, [], []
    for dialect, marks in MARKS.items():
        begin = f"<|begin {dialect}|>"
        # A mark that several dialects share would be followed by several: all but the last are followed by none.
        follows.update(zip([begin, *marks], marks))
        pieces += [begin, *marks]
        template = pathlib.Path(folder) / f"{dialect}.jinja"
        template.write_text((MADE % SIGNS[dialect]).replace("assistant: {% endif", f"assistant: {begin}{{% endif"))
        templates.append(template)
    pieces = list(dict.fromkeys(pieces))
    special = [piece for piece in pieces if piece.startswith(SPECIAL)]
    caller_model.chain_model(folder, special, [p for p in pieces if p not in special], follows, "{{ messages }}", -6)
    return harness.start(*[f"{template.stem}={folder},chat-template={template}" for template in templates])


@longest
def test_strict_functions_under_auto_in_every_dialect():
    """The grammar begins at the mark that the model writes by itself: one call comes, whose arguments fit."""
    assert set(MARKS) == set(DIALECTS)
    strict = [{"type": "function", "function": {**tool["function"], "strict": True}} for tool in TOOLS]

    def called(job):
        dialect, seed = job
        body = {**args_of(dialect, seed), "tools": strict, "tool_choice": "auto", "parallel_tool_calls": False}
        answer = opener().post("/v1/chat/completions", body)
        assert answer.status == 200, (job, answer.text)
        choice = answer.json["choices"][0]
        if choice["finish_reason"] == "length":
            return False
        assert choice["finish_reason"] == "tool_calls" and not choice["message"]["content"], (job, choice)
        calls = [ChatCompletionMessageFunctionToolCall.model_validate(c) for c in choice["message"]["tool_calls"]]
        assert len(calls) == 1, (job, choice)
        calls_fit(calls, {"get_weather", "get_time"})
        return True
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        ended = {}
        for seed in range(2):  # in the shorter form another answer only where the first has no end
            jobs = [(dialect, seed) for dialect in MARKS if harness.soak() or not ended.get((dialect, 0))]
            ended.update(zip(jobs, pool.map(called, jobs)))
    for dialect in MARKS:
        assert any(ended.get((dialect, seed)) for seed in range(2)), dialect
    assert sum(ended.values()) >= len(ended) * 0.9, ended


def test_allowed_tools():
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [
        {"type": "function", "function": {"name": "get_time"}}]}}
    for model in ("hermes", "qwen3-coder", "lfm2"):
        choice = ask(model, 1, tool_choice=allowed).choices[0]
        assert choice.message.tool_calls or choice.finish_reason == "length", choice
        calls_fit(choice.message.tool_calls or [], {"get_time"})


def sent_back(model, seed):
    """The next round of an agent: the answer and results of its calls. Returns how many calls there were."""
    body = {**args_of(model, seed), "max_tokens": 300}
    message = server().post("/v1/chat/completions", body).json["choices"][0]["message"]
    calls = message.get("tool_calls") or []
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "{}"} for call in calls]
    next_body = {**body, "messages": [*body["messages"], message, *results], "max_tokens": 1, "tool_choice": "none"}
    answer = server().post("/v1/chat/completions", next_body)
    assert answer.status == 200, (model, seed, answer.text)
    return len(calls)


def test_a_forced_answer_can_be_sent_back():
    """Also where the template refuses a message with two calls."""
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        for model in ("one-call", "llama-json"):
            counts = list(pool.map(lambda seed, model=model: sent_back(model, seed), range(10)))
            assert sum(counts) >= 5, (model, counts)
            assert model != "one-call" or max(counts) == 1, counts


def test_a_forced_answer_of_messages_and_responses_can_be_sent_back():
    schema = {"type": "object", "properties": {}, "additionalProperties": False}
    body = {"model": "one-call", "messages": user("Time?"), "max_tokens": 300, "tool_choice": {"type": "any"},
            "tools": [{"name": "get_time", "input_schema": schema}]}
    message = server().post("/v1/messages", body).json
    uses = [block for block in message["content"] if block["type"] == "tool_use"]
    assert len(uses) == 1 and message["stop_reason"] == "tool_use", message
    results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "12"} for use in uses]
    turns = [{"role": "assistant", "content": message["content"]}, {"role": "user", "content": results}]
    expect(server().post("/v1/messages", {**body, "messages": body["messages"] + turns, "max_tokens": 1}), 200)

    body = {"model": "one-call", "input": user("Time?"), "max_output_tokens": 300, "tool_choice": "required",
            "tools": [{"type": "function", "name": "get_time", "parameters": schema, "strict": True}]}
    output = server().post("/v1/responses", body).json["output"]
    assert [item["type"] for item in output] == ["function_call"], output
    result = {"type": "function_call_output", "call_id": output[0]["call_id"], "output": "12"}
    expect(server().post("/v1/responses", {**body, "input": [*body["input"], *output, result], "max_output_tokens": 1}), 200)


def test_streamed_calls_are_the_same():
    whole = ask("glm", 4, tool_choice=NAMED, parallel_tool_calls=False).choices[0].message.tool_calls
    arguments = ""
    for chunk in ask("glm", 4, tool_choice=NAMED, parallel_tool_calls=False, stream=True):
        for call in chunk.choices[0].delta.tool_calls or []:
            arguments += call.function.arguments or ""
    assert whole and arguments == whole[0].function.arguments


def test_a_named_tool_is_called_once():
    """A model that writes nonsense may write many calls; a named choice is one, also if several may be parallel."""
    tool = {"type": "function", "name": "get_time", "parameters": {"type": "object", "properties": {}}}
    body = {"model": "hermes", "input": user("Time?"), "max_output_tokens": 300, "parallel_tool_calls": True,
            "temperature": 1.5, "tools": [tool], "tool_choice": {"type": "function", "name": "get_time"}, **extra_of("hermes")}
    for seed in range(4):
        calls = ask("hermes", seed, tool_choice={"type": "function", "function": {"name": "get_time"}},
                    parallel_tool_calls=True).choices[0].message.tool_calls
        assert [(call.function.name, call.function.arguments) for call in calls] == [("get_time", "{}")], calls
        output = expect(server().post("/v1/responses", {**body, "seed": seed}), 200).json["output"]
        calls = [item for item in output if item["type"] == "function_call"]
        assert [(call["name"], call["arguments"]) for call in calls] == [("get_time", "{}")], output


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
