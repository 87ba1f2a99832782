# SPDX-License-Identifier: Apache-2.0
"""The official OpenAI client: raw iteration and its stream helper, embeddings, its error classes."""

import base64
import math
import struct

import openai

import harness
from harness import KEY, main, user


def client(**more):
    return openai.OpenAI(base_url=main().base + "/v1", api_key=KEY, max_retries=0, **more)


def complete(**more):
    args = {"model": "tiny", "messages": user("Once upon a time"), "temperature": 0,
            "max_tokens": 24}
    return client().chat.completions.create(**{**args, **more})


def test_chat():
    answer = complete()
    assert answer.object == "chat.completion" and answer.id.startswith("chatcmpl-")
    assert answer.model == "tiny"
    choice = answer.choices[0]
    assert choice.finish_reason == "length" and choice.message.role == "assistant"
    assert choice.message.content == harness.generate("Once upon a time", 24)["text"]
    assert choice.message.tool_calls is None and choice.message.refusal is None
    assert answer.usage.completion_tokens == 24
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + 24


def test_chat_stream_raw():
    chunks = list(complete(stream=True, stream_options={"include_usage": True}))
    assert len({c.id for c in chunks}) == 1 and len({c.created for c in chunks}) == 1
    assert chunks[0].choices[0].delta.role == "assistant"
    assert all(c.usage is None for c in chunks[:-1])
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == 24
    reasons = [c.choices[0].finish_reason for c in chunks[:-1]]
    assert reasons[-1] == "length" and not any(reasons[:-1])
    text = "".join(c.choices[0].delta.content or "" for c in chunks[:-1])
    assert text == complete().choices[0].message.content


def test_chat_stream_without_usage():
    assert all(c.choices and c.usage is None for c in complete(stream=True))


def test_chat_stream_helper():
    # its answer ends by itself: a length would be an exception of the helper
    prompt = next(c["prompt"] for c in harness.golden() if c["greedy_ids"][-1] == 2)
    with client().chat.completions.stream(
        model="tiny", messages=user(prompt), temperature=0
    ) as stream:
        deltas = [e.delta for e in stream if e.type == "content.delta"]
        final = stream.get_final_completion()
    assert final.choices[0].finish_reason == "stop"
    assert "".join(deltas) == final.choices[0].message.content


def test_stop():
    full = complete().choices[0].message.content
    word = harness.inner_word(full)
    answer = complete(stop=[word])
    assert answer.choices[0].finish_reason == "stop"
    assert answer.choices[0].message.content == full[: full.index(word)]


def test_seed():
    texts = {complete(temperature=1, seed=7).choices[0].message.content for _ in range(3)}
    assert len(texts) == 1
    assert len({complete(temperature=1, seed=s).choices[0].message.content for s in range(5)}) > 1


def test_models():
    ids = [m.id for m in client().models.list()]
    assert ids == ["tiny", "chatml", "strict", "embed", "rerank"]


def test_embeddings_default_is_base64():
    """The client asks for base64 when the caller names no format, and decodes it."""
    texts = ["a thread of wool", "the sea is cold"]
    answer = client().embeddings.create(model="embed", input=texts)
    floats = client().embeddings.create(model="embed", input=texts, encoding_format="float")
    assert [d.index for d in answer.data] == [0, 1]
    for one, other in zip(answer.data, floats.data):
        assert [struct.pack("<f", v) for v in one.embedding] == [
            struct.pack("<f", v) for v in other.embedding
        ]
        assert abs(math.sqrt(sum(v * v for v in other.embedding)) - 1) < 1e-5
    assert answer.usage.prompt_tokens == answer.usage.total_tokens > 0


def test_embeddings_base64_text():
    answer = client().embeddings.create(model="embed", input="wool", encoding_format="base64")
    floats = client().embeddings.create(model="embed", input="wool", encoding_format="float")
    packed = base64.b64decode(answer.data[0].embedding, validate=True)
    assert packed == struct.pack(f"<{len(floats.data[0].embedding)}f", *floats.data[0].embedding)


def raises(kind, function):
    try:
        function()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def test_errors():
    error = raises(openai.BadRequestError, lambda: complete(temperature=3.5))
    assert error.param == "temperature" and error.code == "invalid_value"
    assert error.type == "invalid_request_error" and error.request_id
    assert raises(openai.NotFoundError, lambda: complete(model="none")).code == "model_not_found"
    wrong = openai.OpenAI(base_url=main().base + "/v1", api_key="x", max_retries=0)
    error = raises(openai.AuthenticationError, lambda: wrong.models.list())
    assert error.code == "invalid_api_key"
    error = raises(openai.BadRequestError, lambda: complete(messages=user("word " * 4000), stream=True))
    assert error.code == "context_length_exceeded"


def test_async():
    import asyncio

    async def run():
        one = openai.AsyncOpenAI(base_url=main().base + "/v1", api_key=KEY)
        stream = await one.chat.completions.create(
            model="tiny", messages=user("Once upon a time"), temperature=0, max_tokens=24,
            stream=True,
        )
        return "".join([c.choices[0].delta.content or "" async for c in stream])

    assert asyncio.run(run()) == complete().choices[0].message.content
