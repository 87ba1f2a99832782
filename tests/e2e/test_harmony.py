# SPDX-License-Identifier: Apache-2.0
"""Harmony with a small GPT-OSS (experts, sinks, biases): channels, calls and their end tokens, reasoning levels."""
import json
import tempfile

import harness
from caller_model import FAR, chain_model
from harness import chat, user

SPECIAL = ["<|start|>", "<|end|>", "<|message|>", "<|channel|>", "<|constrain|>", "<|return|>", "<|call|>"]
ENDS = ("<|return|>", "<|endoftext|>", "<|call|>")
TOOLS = [{"type": "function", "function": {"name": "get_weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]
CALL = ["<|channel|>", "commentary to=functions.get_weather ", "<|constrain|>", "json", "<|message|>",
        '{"city": "Łódź"}', "<|call|>"]
TEMPLATE = """<|start|>system<|message|>Reasoning: {{ reasoning_effort or 'medium' }}
# Valid channels: analysis, commentary, final.<|end|>
{%- if tools %}<|start|>developer<|message|>{{ tools | tojson }}<|end|>{% endif %}
{%- for m in messages %}
{%- if m.role == 'assistant' and m.tool_calls %}<|start|>assistant<|channel|>commentary to=functions.
{{- m.tool_calls[0].function.name }} <|constrain|>json<|message|>{{ m.tool_calls[0].function.arguments | tojson }}<|call|>
{%- elif m.role == 'assistant' %}{% if m.thinking %}<|start|>assistant<|channel|>analysis<|message|>{{ m.thinking }}<|end|>{% endif %}
{{- '' }}<|start|>assistant<|channel|>final<|message|>{{ m.content }}<|end|>
{%- elif m.role == 'tool' %}<|start|>functions.tool to=assistant<|channel|>commentary<|message|>{{ m.content }}<|end|>
{%- else %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endif %}{% endfor %}
{%- if add_generation_prompt %}<|start|>assistant{% endif %}"""


def harmony(follows):
    texts = list(dict.fromkeys(t for before, after in follows.items()
                               for t in [before, *([after] if isinstance(after, str) else after)]
                               if t not in SPECIAL))
    return chain_model(tempfile.mkdtemp(), SPECIAL, texts, follows, TEMPLATE, FAR, ends=ENDS, gpt_oss=True)


@harness.once
def server():
    """caller always calls; talker writes in either channel, one of two sentences, and begins another message or ends."""
    caller = harmony({"assistant": CALL[0], **dict(zip(CALL, CALL[1:]))})
    talker = harmony({
        "assistant": "<|channel|>", "<|channel|>": ["analysis", "final"], "analysis": "<|message|>", "final": "<|message|>",
        "<|message|>": ["Hm, noon.", "It is noon."], "Hm, noon.": "<|end|>", "It is noon.": "<|return|>",
        "<|end|>": "<|start|>", "<|start|>": "assistant"})
    return harness.start(f"caller={caller}", f"talker={talker}", "--max-num-seqs", 16)


def test_calls_end_with_their_token():
    answer = chat(server(), model="caller", messages=user("Weather?"), tools=TOOLS, max_tokens=40, temperature=0)
    choice = answer.json["choices"][0]
    assert choice["finish_reason"] == "tool_calls", answer.text
    call = choice["message"]["tool_calls"][0]["function"]
    assert call["name"] == "get_weather" and json.loads(call["arguments"]) == {"city": "Łódź"}, answer.text
    assert answer.json["usage"]["completion_tokens"] == len(CALL), answer.text
    # The call and its result go back into a prompt.
    turns = [*user("Weather?"), choice["message"], {
        "role": "tool", "tool_call_id": choice["message"]["tool_calls"][0]["id"], "content": "rain"}]
    again = chat(server(), model="caller", messages=turns, tools=TOOLS, max_tokens=40, temperature=0)
    assert again.json["choices"][0]["finish_reason"] == "tool_calls", again.text


def test_channels_are_reasoning_and_content():
    seen = set()
    for seed in range(16):
        answer = chat(server(), model="talker", messages=user("Time?"), max_tokens=40, n=8, seed=seed, temperature=1)
        assert answer.status == 200, answer.text
        for choice in answer.json["choices"]:
            message = choice["message"]
            text = (message.get("reasoning_content") or "") + (message["content"] or "")
            assert "<|" not in text and "assistant" not in text, choice
            assert choice["finish_reason"] == "length" or "It is noon." in text, choice
            seen.add((message.get("reasoning_content"), message["content"]))
        if ("Hm, noon.", "It is noon.") in seen:
            return
    raise AssertionError(seen)


def test_levels_of_reasoning_reach_the_prompt():
    for effort, level in ("low", "low"), ("high", "high"), (None, "medium"):
        body = {"model": "talker", "messages": user("Time?"), **({"reasoning_effort": effort} if effort else {})}
        tokens = server().post("/tokenize", body)
        assert tokens.status == 200, tokens.text
        text = server().post("/detokenize", {"model": "talker", "tokens": tokens.json["tokens"]})
        prompt = text.json.get("prompt") or text.json.get("text")
        assert f"Reasoning: {level}\n" in prompt and prompt.endswith("<|start|>assistant"), text.text
