# SPDX-License-Identifier: Apache-2.0
"""Decoding fields through the official client and as plain HTTP: several choices, log probabilities,
penalties, biases, ends, and /v1/completions."""

import math

import openai

import harness
from harness import KEY, MODELS, chat, expect, main, user


@harness.once
def small():
    """Few places for choices and penalties; a byte-level model with special tokens."""
    return harness.start(f"demo={MODELS / 'weft-demo-chat'},max-n=128,penalty-rows=2",
                         f"tiny={harness.tiny()}")


def client(server=None):
    return openai.OpenAI(base_url=(server or main()).base + "/v1", api_key=KEY, max_retries=0)


def ask(server=None, **more):
    args = {"model": "tiny", "messages": user("Once upon a time"), "temperature": 0, "max_tokens": 24}
    return client(server).chat.completions.create(**{**args, **more})


def test_n():
    answer = ask(n=4, temperature=1, seed=3)
    assert [c.index for c in answer.choices] == [0, 1, 2, 3]
    texts = [c.message.content for c in answer.choices]
    assert len(set(texts)) > 1
    assert answer.usage.completion_tokens == 4 * 24
    # a choice is what it is whatever is asked for beside it
    assert ask(temperature=1, seed=3).choices[0].message.content == texts[0]
    assert len({c.message.content for c in ask(n=3).choices}) == 1  # greedy: equal copies


def test_n_streamed():
    whole = [c.message.content for c in ask(n=3, temperature=1, seed=3).choices]
    texts, ends, roles = [""] * 3, [None] * 3, [0] * 3
    for chunk in ask(n=3, temperature=1, seed=3, stream=True, stream_options={"include_usage": True}):
        for c in chunk.choices:
            assert ends[c.index] is None
            texts[c.index] += c.delta.content or ""
            roles[c.index] += c.delta.role is not None
            ends[c.index] = c.finish_reason
        usage = chunk.usage
    assert texts == whole and ends == ["length"] * 3 and roles == [1] * 3
    assert usage.completion_tokens == 72


def test_a_stop_string_ends_one_choice():
    texts = [c.message.content for c in ask(n=4, temperature=1, seed=3).choices]
    # a word of one answer that no other has
    word = next(w for w in texts[0].split() if len(w) > 2 and not any(w in t for t in texts[1:]))
    answer = ask(n=4, temperature=1, seed=3, stop=[word])
    assert answer.choices[0].message.content == texts[0][: texts[0].index(word)]
    assert answer.choices[0].finish_reason == "stop"
    assert [c.message.content for c in answer.choices[1:]] == texts[1:]
    assert {c.finish_reason for c in answer.choices[1:]} == {"length"}
    shown = ask(n=4, temperature=1, seed=3, stop=[word],
                extra_body={"include_stop_str_in_output": True})
    assert shown.choices[0].message.content == texts[0][: texts[0].index(word) + len(word)]


def test_a_prompt_is_computed_once():
    name = r'weft_prompt_tokens_computed_total\{model_name="demo"'
    server = small()
    before = server.metric(name)
    answer = ask(server, model="demo", messages=user("computed once " * 60), n=8, temperature=1)
    computed = server.metric(name) - before
    prompt = answer.usage.prompt_tokens
    assert prompt > 500
    assert prompt - 64 <= computed <= prompt + 8 * 64, (prompt, computed)


def test_limits():
    expect(chat(main(), n=9), 400, "invalid_value", "n")
    expect(chat(small(), model="demo", n=129), 400, "invalid_value", "n")
    assert len(ask(small(), model="demo", n=128, max_tokens=2).choices) == 128
    ends = {}
    for chunk in ask(small(), model="demo", n=128, max_tokens=3, temperature=1, stream=True):
        for c in chunk.choices:
            assert c.index not in ends
            if c.finish_reason:
                ends[c.index] = c.finish_reason
    assert len(ends) == 128


def test_logprobs():
    answer = ask(logprobs=True, top_logprobs=5)
    content = answer.choices[0].logprobs.content
    assert len(content) == 24
    text = b"".join(bytes(e.bytes) for e in content).decode()
    assert text.strip() == answer.choices[0].message.content.strip()
    for entry in content:
        tops = [t.logprob for t in entry.top_logprobs]
        assert len(tops) == 5 and tops == sorted(tops, reverse=True) and tops[0] <= 0
        assert entry.logprob == tops[0]  # greedy: the likeliest
        assert sum(math.exp(t) for t in tops) <= 1.0001
    # of the raw distribution: neither temperature nor a bias of all others changes them
    hot = ask(logprobs=True, top_logprobs=5, temperature=2, seed=1, max_tokens=1)
    assert [t.logprob for t in hot.choices[0].logprobs.content[0].top_logprobs] == [
        t.logprob for t in content[0].top_logprobs]


def test_logprobs_streamed():
    whole = ask(logprobs=True, top_logprobs=2, n=2, temperature=1, seed=5, stop=["the"])
    text, entries = [b"", b""], [[], []]
    for chunk in ask(logprobs=True, top_logprobs=2, n=2, temperature=1, seed=5, stop=["the"],
                     stream=True):
        for c in chunk.choices:
            text[c.index] += (c.delta.content or "").encode()
            if c.logprobs:
                entries[c.index] += c.logprobs.content
                got = b"".join(bytes(e.bytes) for e in entries[c.index])
                assert text[c.index].lstrip().startswith(got.lstrip()) or not got.strip()
    for c, own, bytes_ in zip(whole.choices, entries, text):
        assert c.logprobs.content == own
        assert c.message.content.encode() == bytes_


def test_bias_and_stop_ids():
    first = ask(logprobs=True, top_logprobs=1, max_tokens=1)
    names = client(small()).completions.create(model="tiny", prompt="x", max_tokens=1)
    assert names.object == "text_completion"
    forced = ask(logit_bias={"100": 100}, max_tokens=5, logprobs=True)
    assert len({e.token for e in forced.choices[0].logprobs.content}) == 1
    assert forced.choices[0].message.content != first.choices[0].message.content
    stopped = ask(logit_bias={"100": 100}, extra_body={"stop_token_ids": [100]})
    assert stopped.choices[0].finish_reason == "stop"
    assert stopped.choices[0].message.content == ""
    later = ask(logit_bias={"100": 100}, extra_body={"stop_token_ids": [100], "min_tokens": 7})
    assert later.usage.completion_tokens == 8


def test_least_tokens_hold_back_every_stop_id():
    """The last of many, too; one that nothing else may stand for comes and does not end the answer."""
    def tokens(allowed, stops):
        answer = ask(logit_bias={"100": 100}, logprobs=True, extra_body={
            "allowed_token_ids": allowed, "stop_token_ids": stops, "min_tokens": 7,
            "include_stop_str_in_output": True})
        assert answer.choices[0].finish_reason == "stop" and answer.usage.completion_tokens == 8
        return [e.token for e in answer.choices[0].logprobs.content]

    other, last = tokens([100, 101], [*range(200, 263), 100])[-2:]
    assert other != last
    assert tokens([100, 101], [*range(200, 263), 100]) == [other] * 7 + [last]
    assert tokens([100], [100]) == [last] * 8


def test_allowed_ids_and_bad_words():
    """Only the ids that are allowed come; a word is never written by its own tokens."""
    def tokens(**body):
        answer = ask(small(), model="demo", temperature=1.5, seed=3, max_tokens=60, logprobs=True,
                     extra_body=body)
        return [e.token for e in answer.choices[0].logprobs.content]

    ids = list(range(30, 130))
    forced = {ask(small(), model="demo", logit_bias={str(i): 100}, max_tokens=1, logprobs=True
                  ).choices[0].logprobs.content[0].token for i in ids[:4]}
    few = tokens(allowed_token_ids=ids[:4])
    assert len(few) == 60 and set(few) <= forced
    many = tokens(allowed_token_ids=ids)
    letter = next(t for t in many if len(t) == 1 and t.isascii() and t.isalpha())
    without = tokens(allowed_token_ids=ids, bad_words=[letter])
    assert len(without) == 60 and letter not in without


def test_penalties():
    """Where a penalty first changes a greedy text, a token that had come gives way to one that had come less often."""
    def tokens(**more):
        answer = ask(logprobs=True, max_tokens=120, logit_bias={"100": 4, "101": 4}, **more)
        return [e.token for e in answer.choices[0].logprobs.content]

    plain = tokens()
    penalised = {"frequency": tokens(frequency_penalty=2), "presence": tokens(presence_penalty=2),
                 "repetition": tokens(extra_body={"repetition_penalty": 2})}
    for penalty, other in penalised.items():
        at = next(i for i, (a, b) in enumerate(zip(plain, other)) if a != b)
        left, taken = plain[:at].count(plain[at]), plain[:at].count(other[at])
        in_prompt = penalty == "repetition" and plain[at].strip() in "Once upon a time"
        assert taken < left or in_prompt, (penalty, plain[: at + 1], other[at])
        assert taken == 0 or penalty == "frequency"


def test_penalised_requests_wait_their_turn():
    """Six choices with penalties and two rows for them: all come, as they are without the wait."""
    many = ask(small(), model="demo", n=6, presence_penalty=1, temperature=1, seed=9,
               extra_body={"ignore_eos": True})
    assert [c.finish_reason for c in many.choices] == ["length"] * 6
    one = ask(small(), model="demo", presence_penalty=1, temperature=1, seed=9,
              extra_body={"ignore_eos": True})
    assert one.choices[0].message.content == many.choices[0].message.content


def test_special_tokens():
    """The end token of the demo model, made likely and shown."""
    more = {"ignore_eos": True, "skip_special_tokens": False}
    answer = ask(small(), model="demo", max_tokens=4, logit_bias={"502": 100}, extra_body=more)
    assert answer.choices[0].message.content == "<|im_end|>" * 4
    hidden = ask(small(), model="demo", max_tokens=4, logit_bias={"502": 100}, logprobs=True,
                 extra_body={"ignore_eos": True})
    assert hidden.choices[0].message.content == "" and hidden.choices[0].logprobs.content == []


def test_28_temperature_0_with_n():
    answer = ask(n=3, temperature=0)
    assert len({c.message.content for c in answer.choices}) == 1


def test_32_a_bias_against_everything():
    """All tokens of the demo model, the end token, too: the answer is that without any bias."""
    body = {"model": "demo", "max_tokens": 8}
    plain = ask(small(), **body).choices[0].message.content
    assert ask(small(), logit_bias={str(i): -100 for i in range(503)},
               **body).choices[0].message.content == plain


def test_33_logprobs_without_alternatives():
    answer = chat(main(), logprobs=True, top_logprobs=None, max_tokens=3)
    entries = answer.json["choices"][0]["logprobs"]["content"]
    assert len(entries) == 3 and all(e["top_logprobs"] == [] for e in entries)


def test_completions():
    plain = client().completions.create(model="tiny", prompt="Once upon a time", temperature=0,
                                        max_tokens=24)
    assert plain.id.startswith("cmpl-")
    assert plain.choices[0].text.lstrip() == harness.generate("Once upon a time", 24)["text"].lstrip()
    assert plain.usage.completion_tokens == 24
    stream = client().completions.create(model="tiny", prompt="Once upon a time", temperature=0,
                                         max_tokens=24, stream=True)
    chunks = list(stream)
    assert "".join(c.choices[0].text for c in chunks) == plain.choices[0].text
    assert chunks[-1].choices[0].finish_reason == "length"
    echo = client().completions.create(model="tiny", prompt="Once upon a time", temperature=0,
                                       max_tokens=24, echo=True)
    assert echo.choices[0].text == "Once upon a time" + plain.choices[0].text


def test_completions_of_many_prompts():
    prompts = ["Once upon a time", "The sea", "A"]
    alone = [client().completions.create(model="tiny", prompt=p, temperature=1, seed=4, n=2,
                                         max_tokens=12) for p in prompts]
    both = client().completions.create(model="tiny", prompt=prompts, temperature=1, seed=4, n=2,
                                       max_tokens=12)
    assert [c.text for c in both.choices] == [c.text for a in alone for c in a.choices]
    assert both.usage.prompt_tokens == sum(a.usage.prompt_tokens for a in alone)
    assert both.usage.completion_tokens == sum(a.usage.completion_tokens for a in alone)
    ids = client().completions.create(model="tiny", prompt=[[5, 6, 7], [8]], max_tokens=3)
    assert len(ids.choices) == 2 and ids.usage.prompt_tokens == 4


def test_completions_logprobs():
    answer = client().completions.create(model="tiny", prompt="Once upon a time", temperature=0,
                                         max_tokens=12, logprobs=3)
    got = answer.choices[0].logprobs
    assert len(got.tokens) == len(got.token_logprobs) == len(got.top_logprobs) == 12
    assert "".join(got.tokens).strip() == answer.choices[0].text.strip()
    for token, value, top in zip(got.tokens, got.token_logprobs, got.top_logprobs):
        assert top[token] == value == max(top.values())
    offsets = got.text_offset
    assert offsets[0] == 0 and offsets == sorted(offsets)


def test_text_offsets_of_bytes():
    """A byte that begins a character is given up by what follows, which begins after it."""
    server = harness.start(f"demo={MODELS / 'weft-demo-chat'}")
    for seed in range(4):
        choice = server.post("/v1/completions", {
            "model": "demo", "prompt": "A", "seed": seed, "temperature": 1, "max_tokens": 16, "logprobs": 0,
            "allowed_token_ids": [0xF0, 65], "logit_bias": {"240": 100, "65": 100}}).json["choices"][0]
        made, want = b"", []
        for token in choice["logprobs"]["tokens"]:
            want.append(len(made.decode(errors="replace")))
            made += b"A" if token == "A" else b"\xf0"
        assert choice["logprobs"]["text_offset"] == want and choice["text"] == made.decode(errors="replace"), choice
    assert server.stop() == 0


def test_completions_errors():
    def post(**body):
        return main().post("/v1/completions", {"model": "tiny", "prompt": "x", **body})

    expect(post(suffix="y"), 400, "unsupported_value", "suffix")
    expect(post(best_of=2), 400, "unsupported_parameter", "best_of")
    expect(post(echo=True, logprobs=1), 400, "unsupported_value", "logprobs")
    expect(post(prompt=["a"] * 129), 400, "invalid_value", "prompt")
    expect(post(prompt="word " * 4000), 400, "context_length_exceeded", "prompt")
    expect(post(prompt=[99999999]), 400, "invalid_value", "prompt[0]")
    expect(post(model="embed"), 400, "unsupported_model", "model")
    expect(post(max_tokens=0), 400, "invalid_value", "max_tokens")


def test_template_variables():
    """A thinking switch and an effort that the template writes into the prompt."""
    plain = harness.prompt_tokens(chat(main(), model="chatml", max_tokens=1))
    same = harness.prompt_tokens(chat(main(), model="chatml", max_tokens=1, reasoning_effort="high",
                                      chat_template_kwargs={"anything": [1, {"a": None}]}))
    assert same == plain  # a template that asks for none of them
    expect(chat(main(), chat_template_kwargs={"messages": []}), 400, "unsupported_parameter",
           "chat_template_kwargs.messages")


def test_equal_prompts_draw_differently_without_a_seed():
    def texts(**more):
        answer = client().completions.create(model="tiny", prompt=["Once upon"] * 16, max_tokens=12,
                                             temperature=1, **more)
        assert [choice.index for choice in answer.choices] == list(range(16))
        return {choice.text for choice in answer.choices}
    assert len(texts()) > 1
    assert len(texts(seed=3)) == 1
