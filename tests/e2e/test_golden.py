# SPDX-License-Identifier: Apache-2.0
"""The ten recorded greedy runs of TinyStories-656K (or of what stands in for it), whole: `weft
generate` gives their ids, the end token included, and all forms of both conversation endpoints give
its text, 32 at once.

The record was computed in double by an independent program; its smallest gap between the two best
tokens is far above the error of a correct float32 pass, so equality is exact.
"""

import concurrent.futures

import harness
from harness import chat, golden, messages, start, text_of, tiny, user

TOKENS = 48  # the record stops there or at the end token


def record_of(case):
    return harness.generate(case["prompt"], TOKENS)


def test_ids_whole():
    assert len(golden()) == 10
    for case in golden():
        got = record_of(case)
        assert got["prompt_token_ids"] == case["input_ids"], case["prompt"]
        assert got["token_ids"] == case["greedy_ids"], case["prompt"]
        ended = case["greedy_ids"][-1] == 2
        assert got["finish_reason"] == ("stop" if ended else "length"), case["prompt"]
    assert any(case["greedy_ids"][-1] == 2 for case in golden())


def joined(answer, piece):
    assert answer.status == 200, answer.text
    return "".join(filter(None, map(piece, answer.events())))


def chat_piece(event):
    if event[1] == "[DONE]":
        return ""
    choices = harness.json.loads(event[1])["choices"]
    return choices[0]["delta"].get("content") if choices else ""


def messages_piece(event):
    name, data = event
    return harness.json.loads(data)["delta"]["text"] if name == "content_block_delta" else ""


FORMS = (
    lambda server, args: text_of(chat(server, **args)),
    lambda server, args: joined(chat(server, stream=True, **args), chat_piece),
    lambda server, args: messages(server, **args).json["content"][0]["text"],
    lambda server, args: joined(messages(server, stream=True, **args), messages_piece),
)


def test_every_form_32_at_once():
    """Forty requests, every prompt in every form, in a mixed order with 32 in flight."""
    server = start(f"tiny={tiny()},max-num-seqs=32")
    jobs = [(form, case) for form in FORMS for case in golden()]
    jobs = [jobs[i * 17 % len(jobs)] for i in range(len(jobs))]

    def ask(job):
        form, case = job
        return form(server, {"messages": user(case["prompt"]), "max_tokens": TOKENS})

    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for (form, case), got in zip(jobs, pool.map(ask, jobs)):
            assert got == record_of(case)["text"], (FORMS.index(form), case["prompt"], got)
