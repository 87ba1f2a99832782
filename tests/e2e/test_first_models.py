# SPDX-License-Identifier: Apache-2.0
"""What `make serve` gives its models: a chat template that takes tools and sampling defaults of a file."""

import json
import re
import subprocess
import tempfile

from harness import MODELS, ROOT, WEFT, start

TEMPLATE = ROOT / "models/first-chat.jinja"
TOOL = {"type": "function", "function": {"name": "paint", "parameters": {
    "type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"], "additionalProperties": False}}}


def rendered(**more):
    asked = json.dumps({"add_generation_prompt": False, **more})
    return subprocess.run([WEFT, "render", "--template", TEMPLATE], input=asked, capture_output=True, text=True, check=True).stdout


def test_the_template():
    turns = [{"role": "user", "content": "Hi"}]
    own = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"
    assert rendered(messages=turns) == own + "<|im_start|>user\nHi<|im_end|>\n"
    assert rendered(messages=[{"role": "system", "content": "S"}] + turns + [{"role": "assistant", "content": "x"}]) == \
        "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nx<|im_end|>\n"
    call = {"id": "1", "type": "function", "function": {"name": "paint", "arguments": '{"colour": "red"}'}}
    with_tools = rendered(messages=turns + [{"role": "assistant", "content": None, "tool_calls": [call]},
                                            {"role": "tool", "tool_call_id": "1", "content": "done"}], tools=[TOOL])
    assert json.dumps(TOOL) in with_tools
    assert '<tool_call>\n{"name": "paint", "arguments": {"colour": "red"}}\n</tool_call><|im_end|>' in with_tools
    assert "<|im_start|>user\nThe function returned: done\nSay it in a sentence.<|im_end|>" in with_tools


def test_a_tool_is_called_and_answered():
    server = start(f"chat={MODELS / 'weft-demo-chat'},chat-template={TEMPLATE}")
    messages = [{"role": "user", "content": "Paint"}]
    body = {"model": "chat", "tools": [TOOL], "max_tokens": 120}
    answer = server.post("/v1/chat/completions", {**body, "messages": messages, "tool_choice": "required"})
    assert answer.status == 200, answer.text
    said = answer.json["choices"][0]["message"]
    call = said["tool_calls"][0]
    assert call["function"]["name"] == "paint" and json.loads(call["function"]["arguments"])["colour"] in ("red", "blue")
    messages += [said, {"role": "tool", "tool_call_id": call["id"], "content": "done"}]
    answer = server.post("/v1/chat/completions", {**body, "messages": messages, "max_tokens": 4})
    assert answer.status == 200, answer.text


def test_sampling_defaults_of_a_file():
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write('{"temperature": 0}')
        file.flush()
        server = start(f"chat={MODELS / 'weft-demo-chat'},generation-config={file.name}")

    def text(**more):
        answer = server.post("/v1/completions", {"model": "chat", "prompt": "a", "max_tokens": 16, **more})
        assert answer.status == 200, answer.text
        return answer.json["choices"][0]["text"]

    likeliest = text(temperature=0)
    assert [text(seed=seed) for seed in range(4)] == [likeliest] * 4
    assert len({text(seed=seed, temperature=2) for seed in range(4)}) > 1


def test_penalties_and_lengths_of_a_file():
    """With a penalty by default every sequence has a penalty row, and the plan says what they take."""
    def said(server, **more):
        answer = server.post("/v1/completions", {"model": "chat", "prompt": "a a a a", "temperature": 0, "ignore_eos": True, **more})
        assert answer.status == 200, answer.text
        return answer.json["choices"][0]["text"], answer.json["usage"]["completion_tokens"]

    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write('{"repetition_penalty": 2, "max_new_tokens": 24}')
        file.flush()
        folder = f"{MODELS / 'weft-demo-chat'}"
        server = start(f"chat={folder},generation-config={file.name}", f"few={folder},generation-config={file.name},penalty-rows=3",
                       f"plain={folder}", "--max-num-seqs", "80")
    plain, length = said(server, max_tokens=24, repetition_penalty=1)
    assert said(server) == said(server, model="plain", repetition_penalty=2, max_tokens=24) != (plain, length)
    assert said(server, max_tokens=24, repetition_penalty=1) == said(server, model="plain", max_tokens=24)
    assert said(server, max_tokens=2)[1] == 2
    page = server.request("GET", "/metrics?name[]=weft_model_memory_bytes").text
    of = {int(engine): int(size) for engine, size in re.findall(r'engine="(\d)",part="penalty rows"} (\d+)', page)}
    row = 2 * json.loads((MODELS / "weft-demo-chat/config.json").read_text())["vocab_size"]
    assert [of[engine] // row for engine in range(3)] == [80, 3, 64]
