# SPDX-License-Identifier: Apache-2.0
"""Budgets of reasoning through the server: weft-demo-chat, which writes nonsense and never ends its thoughts, under a
template that opens them."""

import json
import tempfile

import harness
from harness import MODELS, ROOT, chat, expect, messages, user

TEMPLATE = ROOT / "tests/runtime/recorded/templates/thinking.jinja"
LATE = 3  # tokens more that a character may take that was begun
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer", "minimum": 0, "maximum": 99}, "b": {"enum": ["x", "y"]}},
          "required": ["a", "b"], "additionalProperties": False}


@harness.once
def server():
    return harness.start(f"think={MODELS / 'weft-demo-chat'},chat-template={TEMPLATE}", f"plain={MODELS / 'weft-demo-chat'}")


@harness.once
def close_tokens():
    answer = server().post("/tokenize", {"model": "think", "prompt": "</think>", "add_special_tokens": False})
    return answer.json["count"]


def ask(budget, **more):
    body = {"model": "think", "messages": user("What is wool?"), "temperature": 1.5, "seed": 3, "max_tokens": 100,
            "ignore_eos": True, **more}
    if budget is not None:
        body["thinking_token_budget"] = budget
    return expect(chat(server(), **body), 200).json


def spent(answer):
    return answer["usage"]["completion_tokens_details"]["reasoning_tokens"]


def thought(choice):
    return choice["message"].get("reasoning_content", "")


def test_every_choice_ends_its_reasoning():
    free = ask(None, n=3)
    assert spent(free) == 300 and not any(c["message"]["content"] for c in free["choices"]), free
    for budget in (0, 1, 7, 40):
        answer = ask(budget, n=3)
        assert 3 * (budget + 1) <= spent(answer) <= 3 * (budget + close_tokens() + LATE), (budget, answer["usage"])
        for choice, other in zip(answer["choices"], free["choices"]):
            assert choice["message"]["content"], choice
            assert "think>" not in thought(choice), choice
            # Up to the end the tokens are those of an answer without a budget.
            assert thought(other).startswith(thought(choice)[:-1].rstrip()), (choice, other)
    assert not thought(ask(0)["choices"][0])


def test_a_budget_that_is_not_met_changes_nothing():
    assert ask(100)["choices"] == ask(None)["choices"] == ask(-1)["choices"]


def test_names_of_other_servers():
    same = ask(9)["choices"]
    for more in ({"thinking_budget_tokens": 9}, {"thinking_budget": 9}, {"thinking": {"type": "enabled", "budget_tokens": 9}},
                 {"reasoning": {"max_tokens": 9}}):
        assert ask(None, **more)["choices"] == same, more


def test_a_stream_says_the_same():
    whole = ask(12, n=2)
    texts, thoughts = ["", ""], ["", ""]
    body = {"model": "think", "messages": user("What is wool?"), "temperature": 1.5, "seed": 3, "max_tokens": 100,
            "ignore_eos": True, "thinking_token_budget": 12, "n": 2, "stream": True}
    for line in chat(server(), **body).text.splitlines():
        if line.startswith("data: {"):
            for choice in json.loads(line[6:])["choices"]:
                texts[choice["index"]] += choice["delta"].get("content") or ""
                thoughts[choice["index"]] += choice["delta"].get("reasoning_content") or ""
    assert texts == [c["message"]["content"] for c in whole["choices"]]
    assert thoughts == [thought(c) for c in whole["choices"]]


def test_a_form_follows_the_reasoning():
    form = {"type": "json_schema", "json_schema": {"name": "s", "schema": SCHEMA}}
    ended = 0
    for seed in range(4):
        answer = ask(10, seed=seed, response_format=form)
        choice = answer["choices"][0]
        # Thoughts may begin again, which are ended at once: they stay empty.
        assert thought(choice) == thought(ask(10, seed=seed)["choices"][0]), choice
        if choice["finish_reason"] == "stop":
            value = json.loads(choice["message"]["content"])
            assert set(value) == {"a", "b"} and 0 <= value["a"] <= 99 and value["b"] in ("x", "y"), value
            ended += 1
    assert ended > 0


def test_other_fields_hold_after_it():
    answer = ask(10, logprobs=True, top_logprobs=2, min_tokens=40, bad_words=["</think>", "<", "/"])
    choice = answer["choices"][0]
    assert spent(answer) <= 10 + close_tokens() + LATE
    # An entry for each token of the text, none for those of the reasoning and of its end, nor for end tokens.
    assert "".join(e["token"] for e in choice["logprobs"]["content"]) == choice["message"]["content"]
    assert 0 < len(choice["logprobs"]["content"]) <= 100 - spent(answer), answer["usage"]
    assert "<" not in choice["message"]["content"]
    letters = sorted(set(thought(choice)) & set(choice["message"]["content"]))
    stop = letters[0]
    cut = ask(10, stop=stop)["choices"][0]
    assert cut["finish_reason"] == "stop" and stop not in cut["message"]["content"], cut
    assert thought(cut) == thought(ask(10)["choices"][0])


def test_a_cached_prompt_changes_nothing():
    long = user("wool is warm, the sea is cold " * 20)
    first, again = (ask(15, messages=long) for _ in range(2))
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert first["choices"] == again["choices"]


def test_a_continued_thought():
    begun = [*user("Why?"), {"role": "assistant", "content": "<think>It is"}]
    answer = ask(6, messages=begun, continue_final_message=True, add_generation_prompt=False)
    assert answer["choices"][0]["message"]["content"], answer
    assert 7 <= spent(answer) <= 6 + close_tokens() + LATE, answer["usage"]


def test_messages_budget():
    with tempfile.TemporaryDirectory() as folder:  # Messages has no ignore_eos
        endless = harness.start(f"think={harness.endless_model(folder)},chat-template={TEMPLATE}")
    answer = expect(messages(endless, model="think", messages=user("Why?"), max_tokens=1100,
                             thinking={"type": "enabled", "budget_tokens": 1024}), 200).json
    tokens = answer["usage"]["output_tokens_details"]["thinking_tokens"]
    assert 1024 < tokens <= 1024 + close_tokens() + LATE, answer["usage"]
    assert answer["stop_reason"] == "max_tokens" and answer["content"][-1]["type"] == "text", answer


def test_a_model_without_reasoning():
    body = {"model": "plain", "messages": user("a")}
    expect(chat(server(), **body, thinking_token_budget=5), 400, "unsupported_parameter", "thinking_token_budget")
    expect(chat(server(), **body, thinking_token_budget=-1, max_tokens=1), 200)
