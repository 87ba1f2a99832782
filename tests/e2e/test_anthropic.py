# SPDX-License-Identifier: Apache-2.0
"""The official Anthropic client: raw events, its stream helper, count_tokens, its error classes."""

import anthropic

import harness
from harness import KEY, main, user


def client(base="", key=KEY):
    return anthropic.Anthropic(base_url=main().base + base, api_key=key, max_retries=0)


ARGS = {"model": "tiny", "messages": user("Once upon a time"), "max_tokens": 24}


def create(**more):
    return client().messages.create(**{**ARGS, "extra_body": {"temperature": 0}, **more})


def test_message():
    answer = create()
    assert answer.type == "message" and answer.role == "assistant" and answer.id.startswith("msg_")
    assert answer.content[0].type == "text"
    assert answer.content[0].text == harness.generate("Once upon a time", 24)["text"]
    assert answer.stop_reason == "max_tokens" and answer.stop_sequence is None
    usage = answer.usage
    assert usage.output_tokens == 24
    total = usage.input_tokens + usage.cache_read_input_tokens + usage.cache_creation_input_tokens
    assert total == client().messages.count_tokens(
        model="tiny", messages=ARGS["messages"]).input_tokens


def test_stream_raw():
    events = list(create(stream=True))
    types = [e.type for e in events]
    assert types[0] == "message_start" and types[-1] == "message_stop"
    kept = [t for t in types if t not in ("ping", "content_block_delta")]
    assert kept == ["message_start", "content_block_start", "content_block_stop", "message_delta",
                    "message_stop"]
    text = "".join(e.delta.text for e in events if e.type == "content_block_delta")
    assert text == create().content[0].text


def test_stream_helper():
    with client().messages.stream(**ARGS, extra_body={"temperature": 0}) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == final.content[0].text == create().content[0].text
    assert final.usage.output_tokens == 24 and final.stop_reason == "max_tokens"


def test_stop_sequence():
    full = create().content[0].text
    word = harness.inner_word(full)
    answer = create(stop_sequences=["zebra", word])
    assert answer.stop_reason == "stop_sequence" and answer.stop_sequence == word
    assert answer.content[0].text == full[: full.index(word)]


def test_prefill_holds_only_new_text():
    words = "Once upon a time, a little girl"
    answer = create(messages=user(words[:4]) + [{"role": "assistant", "content": words[5:]}])
    assert answer.content[0].text and not answer.content[0].text.startswith("upon")


def test_base_url_that_ends_in_v1():
    answer = client("/v1").messages.create(**ARGS)
    assert answer.content[0].text
    assert client("/v1").messages.count_tokens(
        model="tiny", messages=ARGS["messages"]).input_tokens > 0


def test_system_and_blocks():
    answer = create(model="chatml", system=[{"type": "text", "text": "Be kind.",
                                              "cache_control": {"type": "ephemeral"}}],
                    messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}]}])
    same = create(model="chatml", system="Be kind.", messages=user("Hello"))
    assert answer.content[0].text == same.content[0].text


def test_errors():
    def raises(kind, function):
        try:
            function()
        except kind as error:
            return error
        raise AssertionError(f"no {kind.__name__}")

    error = raises(anthropic.BadRequestError, lambda: create(extra_body={"temperature": 1.5}))
    assert error.body["error"]["type"] == "invalid_request_error"
    assert error.body["error"]["message"].startswith("temperature: ")
    assert error.body["request_id"] == error.request_id
    raises(anthropic.NotFoundError, lambda: create(model="none"))
    raises(anthropic.AuthenticationError, lambda: client(key="x").messages.create(**ARGS))
    error = raises(anthropic.BadRequestError, lambda: create(messages=user("word " * 4000)))
    assert error.body["error"]["message"].startswith("prompt is too long: ")
    error = raises(anthropic.BadRequestError, lambda: create(
        tools=[{"type": "bash_20250124", "name": "bash"}]))
    assert "tools.0.type" in error.body["error"]["message"]
