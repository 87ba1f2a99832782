# SPDX-License-Identifier: Apache-2.0
"""The async forms of the official clients: answers, streams, tools, parse, embeddings, rerank, models, and many at once."""

import asyncio
import json
import time

import anthropic
import cohere
import openai
import pydantic

import test_agents as agents
import test_anthropic_tools as claude_tools
import test_structured as structured
import test_tools as tools
from harness import KEY, chat, dreamer, main, text_of, user


def api(server=None):
    return openai.AsyncOpenAI(base_url=(server or main()).base + "/v1", api_key=KEY, max_retries=0)


def claude(server=None):
    return anthropic.AsyncAnthropic(base_url=(server or main()).base, api_key=KEY, max_retries=0)


def run(function):
    """Runs an async test; its clients are closed in the loop they lived in."""
    return asyncio.run(function())


STORY = {"model": "tiny", "messages": user("Once upon a time"), "max_tokens": 24}


def test_async_chat_and_completions():
    async def all_of():
        async with api() as one:
            answer = await one.chat.completions.create(**STORY, temperature=0)
            chunks = await one.chat.completions.create(**STORY, temperature=0, stream=True)
            text = "".join([c.choices[0].delta.content or "" async for c in chunks])
            plain = await one.completions.create(model="tiny", prompt="Once upon a time", temperature=0, max_tokens=24)
            chunks = await one.completions.create(model="tiny", prompt="Once upon a time", temperature=0,
                                                  max_tokens=24, stream=True)
            streamed = "".join([c.choices[0].text async for c in chunks])
        return answer.choices[0].message.content, text, plain.choices[0].text, streamed
    whole, text, plain, streamed = run(all_of)
    assert whole == text and plain == streamed and whole and plain


def test_async_messages():
    async def all_of():
        async with claude() as one:
            answer = await one.messages.create(**STORY, extra_body={"temperature": 0})
            async with one.messages.stream(**STORY, extra_body={"temperature": 0}) as stream:
                text = "".join([t async for t in stream.text_stream])
                final = await stream.get_final_message()
            count = await one.messages.count_tokens(model="tiny", messages=STORY["messages"])
        return answer, text, final, count
    answer, text, final, count = run(all_of)
    assert answer.content[0].text == text == final.content[0].text
    assert count.input_tokens == answer.usage.input_tokens + answer.usage.cache_read_input_tokens


def test_async_tools():
    """Two rounds."""
    async def rounds():
        async with api(tools.server()) as one:
            args = {"model": "caller", "temperature": 0, "tools": tools.TOOLS}
            messages = user("Weather in Łódź?")
            chunks = await one.chat.completions.create(**args, messages=messages, stream=True)
            streamed = "".join([c.function.arguments async for chunk in chunks
                                for c in chunk.choices[0].delta.tool_calls or []])
            message = (await one.chat.completions.create(**args, messages=messages)).choices[0].message
            messages.append(message.to_dict(exclude_unset=True))
            messages += [{"role": "tool", "tool_call_id": call.id, "content": "rain"} for call in message.tool_calls]
            last = await one.chat.completions.create(**args, messages=messages)
        return streamed, message, last.choices[0].message
    streamed, message, last = run(rounds)
    tools.calls_are_right(message.tool_calls)
    assert streamed == "".join(c.function.arguments for c in message.tool_calls)
    assert last.content == "It rains at noon."


def test_async_tools_of_classes():
    """Through the stream helper, whose older form takes strict functions only."""
    tool = openai.pydantic_function_tool(agents.Visit, name="visit")
    args = {"model": "chat", "messages": user("Plan."), "temperature": 1.5, "seed": 2, "max_tokens": 300,
            "tools": [tool], "tool_choice": "required", "parallel_tool_calls": False}

    async def all_of():
        async with api(dreamer()) as one:
            whole = await one.chat.completions.parse(**args)
            async with one.chat.completions.stream(**args) as stream:
                kinds = {event.type async for event in stream}
                final = await stream.get_final_completion()
        return kinds, whole.choices[0].message.tool_calls[0], final.choices[0].message.tool_calls[0]
    kinds, whole, final = run(all_of)
    assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    assert isinstance(whole.function.parsed_arguments, agents.Visit)
    assert final.function.parsed_arguments == whole.function.parsed_arguments


def test_async_parse():
    args = {**structured.ARGS, "seed": 3}

    async def all_of():
        async with api(structured.server()) as one:
            whole = await one.chat.completions.parse(**args, response_format=structured.Order)
            async with one.chat.completions.stream(**args, response_format=structured.Order) as stream:
                async for _ in stream:
                    pass
                final = await stream.get_final_completion()
        async with claude(structured.server()) as one:
            message = await one.messages.parse(model=structured.MODEL, messages=user("Write."), max_tokens=400,
                                               output_format=Reading)
        return whole.choices[0].message.parsed, final.choices[0].message.parsed, message
    whole, final, message = run(all_of)
    assert isinstance(whole, structured.Order) and whole == final
    assert message.stop_reason == "end_turn" and isinstance(message.parsed_output, Reading)


class Reading(pydantic.BaseModel):
    """Without limits: the client of Messages takes them out of the schema and checks them itself."""
    place: structured.Colour
    wet: bool


def test_async_embeddings_and_rerank():
    texts, documents = ["wool", "sea"], ["Wool is warm.", "The sea is cold."]

    async def all_of():
        async with api() as one:
            vectors = await one.embeddings.create(model="embed", input=texts)
        scores = []
        for kind in (cohere.AsyncClient, cohere.AsyncClientV2):
            async with kind(api_key=KEY, base_url=main().base) as one:
                scores.append(await one.rerank(model="rerank", query="warm", documents=documents))
        return vectors, scores
    vectors, scores = run(all_of)
    sync = openai.OpenAI(base_url=main().base + "/v1", api_key=KEY)
    assert [v.embedding for v in vectors.data] == [
        v.embedding for v in sync.embeddings.create(model="embed", input=texts).data]
    assert [(r.index, r.relevance_score) for r in scores[0].results] == [
        (r.index, r.relevance_score) for r in scores[1].results]
    assert sorted(r.index for r in scores[0].results) == [0, 1]


def test_async_models():
    async def all_of():
        async with api() as one, claude() as two:
            return [[m.id async for m in await one.models.list()], [m.id async for m in two.models.list()],
                    (await one.models.retrieve("embed")).id, (await two.models.retrieve("embed")).id]
    names = ["tiny", "chatml", "strict", "embed", "rerank"]
    assert run(all_of) == [names, names, "embed", "embed"]


def test_async_errors():
    async def all_of():
        async with api() as one, claude() as two:
            for call, kind in ((one.chat.completions.create(**{**STORY, "model": "none"}), openai.NotFoundError),
                               (one.embeddings.create(model="tiny", input="a"), openai.BadRequestError),
                               (two.messages.create(**{**STORY, "model": "none"}), anthropic.NotFoundError),
                               (two.messages.create(**{**STORY, "max_tokens": 0}), anthropic.BadRequestError)):
                try:
                    await call
                except kind:
                    continue
                raise AssertionError(kind)
    run(all_of)


def test_async_many_at_once():
    """Sixteen streams of both clients in one loop: each is the answer alone."""
    alone = text_of(chat(main(), max_tokens=24))

    async def by_openai(one):
        chunks = await one.chat.completions.create(**STORY, temperature=0, stream=True)
        return "".join([c.choices[0].delta.content or "" async for c in chunks])

    async def by_anthropic(one):
        async with one.messages.stream(**STORY, extra_body={"temperature": 0}) as stream:
            return await stream.get_final_text()

    async def all_of():
        async with api() as one, claude() as two:
            return await asyncio.gather(*[f for _ in range(8) for f in (by_openai(one), by_anthropic(two))])
    assert run(all_of) == [alone] * 16


def test_async_a_stream_that_is_left():
    """The client closes it; the server's sequence ends."""
    async def leave():
        async with api() as one:
            chunks = await one.chat.completions.create(**{**STORY, "max_tokens": 400}, stream=True,
                                                       extra_body={"ignore_eos": True})
            async for chunk in chunks:
                assert chunk.choices
                break
            await chunks.close()
    run(leave)
    deadline = time.monotonic() + 600
    while main().metric("weft_sequences_(running|waiting)"):
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_async_tools_of_messages():
    async def all_of():
        async with claude(claude_tools.server()) as one:
            args = claude_tools.args()
            whole = await one.messages.create(**args)
            async with one.messages.stream(**args) as stream:
                deltas = "".join([e.partial_json async for e in stream if e.type == "input_json"])
                final = await stream.get_final_message()
        return whole, final, deltas
    whole, final, deltas = run(all_of)
    assert claude_tools.blocks_of(whole) == claude_tools.blocks_of(final) == claude_tools.CALLS
    assert json.loads(deltas[:deltas.index("}") + 1]) == {"city": "Łódź"}
