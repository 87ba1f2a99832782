# SPDX-License-Identifier: Apache-2.0
"""Fill in the middle: /infill of llama-server and `suffix` of completions, with a model whose vocabulary has the marks
and which writes the same text after the mark for the middle, and with one that has no marks."""
import json
import tempfile

import openai

import harness
from caller_model import FAR, TEMPLATE, chain_model
from harness import main

MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"]
TEXTS = {"input_prefix": "def add(a, b):\n    ", "input_suffix": "\n\nprint(add(1, 2))\n"}


@harness.once
def filler():
    """A server of a model that writes two words after <|fim_middle|>, then <|file_sep|>, which is no end token of it."""
    folder = chain_model(tempfile.mkdtemp(), MARKS, ["return a", " + b"],
                         {"<|fim_middle|>": "return a", "return a": " + b", " + b": "<|file_sep|>"}, TEMPLATE, FAR)
    return harness.start(f"filler={folder}", "--max-num-seqs", 4)


def client():
    return openai.OpenAI(base_url=filler().base + "/v1", api_key=harness.KEY, max_retries=0)


def infill(**more):
    answer = filler().post("/infill", {**TEXTS, "temperature": 0, **more})
    assert answer.status == 200, answer.text
    return answer


def test_infill():
    answer = infill().json
    assert answer["content"] == "return a + b" and answer["stop"] and answer["stop_type"] == "eos", answer
    assert answer["model"] == "filler" and answer["tokens_predicted"] == 3 and not answer["truncated"]
    assert answer["tokens_evaluated"] == 3 + sum(map(len, TEXTS.values()))
    assert infill(n_predict=1).json["content"] == "return a"
    assert infill(n_predict=1).json["stop_type"] == "limit"
    assert infill(n_predict=0).json["content"] == ""
    stopped = infill(stop=[" +"]).json
    assert stopped["content"] == "return a" and stopped["stop_type"] == "word" and stopped["stopping_word"] == " +"
    files = [{"filename": "first", "text": "a = 1"}, {"filename": "second", "text": "b = 2"}]
    assert infill(input_extra=files, prompt="    ").json["content"] == "return a + b"


def test_infill_streams():
    lines = [line for line in infill(stream=True).text.split("\n\n") if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert "".join(e["content"] for e in events) == "return a + b"
    assert [e["stop"] for e in events] == [False] * (len(events) - 1) + [True]
    assert events[-1]["stop_type"] == "eos" and events[-1]["tokens_predicted"] == 3


def test_suffix_of_completions():
    args = {"model": "filler", "prompt": TEXTS["input_prefix"], "suffix": TEXTS["input_suffix"], "temperature": 0}
    answer = client().completions.create(**args)
    assert answer.choices[0].text == "return a + b" and answer.choices[0].finish_reason == "stop"
    plain = client().completions.create(model="filler", temperature=0, max_tokens=2, prompt=(
        "<|fim_prefix|>" + args["prompt"] + "<|fim_suffix|>" + args["suffix"] + "<|fim_middle|>"))
    assert plain.choices[0].text == "return a + b"  # marks in a prompt are tokens
    assert plain.usage.prompt_tokens == answer.usage.prompt_tokens
    stream = client().completions.create(**args, stream=True)
    assert "".join(chunk.choices[0].text for chunk in stream) == "return a + b"


def test_a_vocabulary_without_marks():
    answer = main().post("/infill", {"model": "tiny", **TEXTS})
    assert answer.status == 400 and answer.error["code"] == "unsupported_value", answer.text
    assert "no fill-in-the-middle tokens" in answer.error["message"]
    answer = main().post("/v1/completions", {"model": "tiny", "prompt": "a", "suffix": "b"})
    assert answer.status == 400 and answer.error["param"] == "suffix", answer.text
