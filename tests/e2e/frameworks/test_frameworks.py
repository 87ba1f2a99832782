# SPDX-License-Identifier: Apache-2.0
"""Agent frameworks with weft as their server: chat, streams, tools and structured output of each, with a model that always
calls tools (caller_model.py) and a model that writes nonsense, whose output only a grammar makes valid."""

import asyncio
import json
import os
import typing

import pydantic

import test_tools as tools
from harness import KEY, dreamer, main

os.environ.update(OPENAI_API_KEY=KEY, ANTHROPIC_API_KEY=KEY, LITELLM_LOCAL_MODEL_COST_MAP="True",
                  OPENAI_AGENTS_DISABLE_TRACING="1", LANGSMITH_TRACING="false")
END = "It rains at noon."


class Visit(pydantic.BaseModel, extra="forbid"):
    """Plan a visit. Closed, or the model would add members of its own until max_tokens."""
    city: typing.Literal["Oslo", "Łódź", "Rome"]
    days: typing.Literal[1, 2, 3]
    guide: bool


def v1(server):
    return server.base + "/v1"


def get_weather(city: str) -> str:
    """Weather of a city"""
    assert city == "Łódź"
    return "rain"


def get_time() -> str:
    """The time"""
    return "noon"


# instructor


def test_instructor():
    import instructor
    import openai
    for mode in (instructor.Mode.TOOLS, instructor.Mode.TOOLS_STRICT, instructor.Mode.JSON_SCHEMA):
        client = instructor.from_openai(openai.OpenAI(base_url=v1(dreamer()), api_key=KEY), mode=mode)
        visit = client.chat.completions.create(model="chat", messages=tools.user("Plan."), response_model=Visit,
                                               max_tokens=300, temperature=1.5, max_retries=0)
        assert isinstance(visit, Visit), mode
        parts = list(client.chat.completions.create_partial(
            model="chat", messages=tools.user("Plan."), response_model=Visit, max_tokens=300, max_retries=0))
        assert parts[-1].days in range(1, 10), mode


def test_instructor_messages():
    import anthropic
    import instructor
    client = instructor.from_anthropic(anthropic.Anthropic(base_url=dreamer().base, api_key=KEY),
                                       mode=instructor.Mode.ANTHROPIC_TOOLS)
    visit = client.messages.create(model="chat", messages=tools.user("Plan."), response_model=Visit, max_tokens=300,
                                   max_retries=0)
    assert isinstance(visit, Visit)


# langchain


def langchain_models(server, model, **more):
    import langchain_anthropic
    import langchain_openai
    yield langchain_openai.ChatOpenAI(model=model, base_url=v1(server), api_key=KEY, temperature=0, **more)
    yield langchain_anthropic.ChatAnthropic(model=model, base_url=server.base, api_key=KEY, **more)


def test_langchain_chat():
    for llm in langchain_models(main(), "tiny", max_tokens=16):
        answer = llm.invoke("Once upon a time")
        assert answer.text and answer.usage_metadata["output_tokens"] == 16
        parts = list(llm.stream("Once upon a time"))
        assert "".join(part.text for part in parts)
        assert all(a.text for a in llm.batch(["Once", "One day"]))
        assert asyncio.run(llm.ainvoke("Once upon a time")).text


def test_langchain_tools():
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool
    offered = [tool(get_weather), tool(get_time)]
    for llm in langchain_models(tools.server(), "caller", max_tokens=2000):
        bound = llm.bind_tools(offered)
        messages = [HumanMessage("Weather in Łódź?")]
        answer = bound.invoke(messages)
        assert [(c["name"], c["args"]) for c in answer.tool_calls] == [("get_weather", {"city": "Łódź"}), ("get_time", {})]
        streamed = None
        for part in bound.stream(messages):
            streamed = part if streamed is None else streamed + part
        assert [c["name"] for c in streamed.tool_calls] == ["get_weather", "get_time"]
        by_name = {t.name: t for t in offered}
        messages += [answer] + [ToolMessage(by_name[c["name"]].invoke(c["args"]), tool_call_id=c["id"])
                                for c in answer.tool_calls]
        assert bound.invoke(messages).text == END


def test_langchain_structured():
    for llm in langchain_models(dreamer(), "chat", max_tokens=300):
        for method in ("json_schema", "function_calling"):
            visit = llm.with_structured_output(Visit, method=method).invoke("Plan.")
            assert isinstance(visit, Visit), (llm, method)


def test_langchain_embeddings():
    import langchain_openai
    embed = langchain_openai.OpenAIEmbeddings(model="embed", base_url=v1(main()), api_key=KEY,
                                              check_embedding_ctx_length=False)
    vectors = embed.embed_documents(["wool", "sea"])
    assert len(vectors) == 2 and vectors[0] == embed.embed_query("wool")


# llama-index


def llama_index(server, model, **more):
    from llama_index.llms.openai_like import OpenAILike
    return OpenAILike(model=model, api_base=v1(server), api_key=KEY, is_chat_model=True, is_function_calling_model=True,
                      context_window=4096, temperature=0, **more)


def test_llama_index_chat():
    from llama_index.core.llms import ChatMessage
    llm = llama_index(main(), "tiny", max_tokens=16)
    messages = [ChatMessage(role="user", content="Once upon a time")]
    answer = llm.chat(messages)
    assert answer.message.content
    assert [part.message.content for part in llm.stream_chat(messages)][-1] == answer.message.content
    assert llm.complete("Once upon a time").text


def test_llama_index_tools():
    from llama_index.core.llms import ChatMessage
    from llama_index.core.tools import FunctionTool
    llm = llama_index(tools.server(), "caller", max_tokens=2000)
    offered = [FunctionTool.from_defaults(get_weather), FunctionTool.from_defaults(get_time)]
    messages = [ChatMessage(role="user", content="Weather in Łódź?")]
    answer = llm.chat_with_tools(offered, chat_history=messages, allow_parallel_tool_calls=True)
    calls = llm.get_tool_calls_from_response(answer)
    assert [(c.tool_name, c.tool_kwargs) for c in calls] == [("get_weather", {"city": "Łódź"}), ("get_time", {})]
    messages += [answer.message] + [ChatMessage(role="tool", content="rain", additional_kwargs={"tool_call_id": c.tool_id})
                                    for c in calls]
    assert llm.chat(messages).message.content == END


def test_llama_index_structured():
    llm = llama_index(dreamer(), "chat", max_tokens=300)
    visit = llm.as_structured_llm(Visit).complete("Plan.").raw
    assert isinstance(visit, Visit)


# openai-agents


def agents_model(server, model, kind):
    import agents
    import openai
    client = openai.AsyncOpenAI(base_url=v1(server), api_key=KEY)
    return getattr(agents, kind)(model=model, openai_client=client)


def agents_run(kind):
    import agents
    # Not strict: the model's second call starts with a token that the grammar of strict tools does not allow.
    offered = [agents.function_tool(f, strict_mode=False) for f in (get_weather, get_time)]

    async def all_of():
        agent = agents.Agent(name="a", instructions="You have tools.", tools=offered,
                             model=agents_model(tools.server(), "caller", kind))
        whole = await agents.Runner.run(agent, "Weather in Łódź?")
        streamed = agents.Runner.run_streamed(agent, "Weather in Łódź?")
        kinds = {event.type async for event in streamed.stream_events()}
        planner = agents.Agent(name="b", output_type=Visit, model=agents_model(dreamer(), "chat", kind),
                               model_settings=agents.ModelSettings(max_tokens=300))
        return whole, streamed, kinds, await agents.Runner.run(planner, "Plan.")
    whole, streamed, kinds, plan = asyncio.run(all_of())
    assert whole.final_output == streamed.final_output == END
    assert "run_item_stream_event" in kinds
    assert isinstance(plan.final_output, Visit)


def test_openai_agents_chat():
    agents_run("OpenAIChatCompletionsModel")


def test_openai_agents_responses():
    agents_run("OpenAIResponsesModel")


# pydantic-ai


def pydantic_ai_models(server, model):
    import anthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile
    from pydantic_ai.providers.anthropic import AnthropicProvider
    from pydantic_ai.providers.openai import OpenAIProvider
    # Not strict, as above.
    profile = OpenAIModelProfile(openai_supports_strict_tool_definition=False)
    yield OpenAIChatModel(model, provider=OpenAIProvider(base_url=v1(server), api_key=KEY), profile=profile)
    yield AnthropicModel(model, provider=AnthropicProvider(
        anthropic_client=anthropic.AsyncAnthropic(base_url=server.base, api_key=KEY)))


def test_pydantic_ai_tools():
    from pydantic_ai import Agent

    async def run(model):
        agent = Agent(model, tools=[get_weather, get_time], model_settings={"temperature": 0})
        whole = await agent.run("Weather in Łódź?")
        async with agent.run_stream("Weather in Łódź?") as stream:
            return whole.output, await stream.get_output()
    for model in pydantic_ai_models(tools.server(), "caller"):
        assert asyncio.run(run(model))[0] == END, model


def test_pydantic_ai_structured():
    from pydantic_ai import Agent, NativeOutput, ToolOutput
    by_chat, by_messages = pydantic_ai_models(dreamer(), "chat")
    # It uses output formats of the Messages API only with model names that it knows.
    for model, form in ((by_chat, ToolOutput), (by_chat, NativeOutput), (by_messages, ToolOutput)):
        agent = Agent(model, output_type=form(Visit), model_settings={"max_tokens": 300}, retries=0)
        assert isinstance(agent.run_sync("Plan.").output, Visit), (model, form)


# litellm


def litellm_calls(server, model):
    yield {"model": f"openai/{model}", "api_base": v1(server), "api_key": KEY}
    yield {"model": f"hosted_vllm/{model}", "api_base": v1(server), "api_key": KEY}
    yield {"model": f"anthropic/{model}", "api_base": server.base, "api_key": KEY}


def test_litellm_chat():
    import litellm
    for call in litellm_calls(main(), "tiny"):
        args = {**call, "messages": tools.user("Once upon a time"), "max_tokens": 16, "temperature": 0}
        text = litellm.completion(**args).choices[0].message.content
        assert text, call
        parts = litellm.completion(**args, stream=True)
        assert "".join(part.choices[0].delta.content or "" for part in parts) == text, call
    args = {"model": "text-completion-openai/tiny", "api_base": v1(main()), "api_key": KEY}
    assert litellm.text_completion(**args, prompt="Once upon a time", max_tokens=8).choices[0].text
    args = {"model": "openai/embed", "api_base": v1(main()), "api_key": KEY}
    assert len(litellm.embedding(**args, input=["wool", "sea"]).data) == 2
    found = litellm.rerank(model="cohere/rerank", api_base=main().base + "/v2/rerank", api_key=KEY, query="warm",
                           documents=["Wool is warm.", "The sea is cold."], top_n=1)
    assert len(found.results) == 1


def test_litellm_tools():
    import litellm
    for call in litellm_calls(tools.server(), "caller"):
        messages = tools.user("Weather in Łódź?")
        args = {**call, "tools": tools.TOOLS, "temperature": 0, "max_tokens": 2000}
        message = litellm.completion(**args, messages=messages).choices[0].message
        assert [c.function.name for c in message.tool_calls] == ["get_weather", "get_time"], call
        parts = list(litellm.completion(**args, messages=messages, stream=True))
        whole = litellm.stream_chunk_builder(parts, messages=messages).choices[0].message
        for one in (message, whole):
            assert [json.loads(c.function.arguments) for c in one.tool_calls] == [{"city": "Łódź"}, {}], call
        messages += [message.model_dump(exclude_none=True)]
        messages += [{"role": "tool", "tool_call_id": c.id, "content": "rain"} for c in message.tool_calls]
        assert litellm.completion(**args, messages=messages).choices[0].message.content == END


def test_litellm_structured():
    import litellm
    for call in litellm_calls(dreamer(), "chat"):
        text = litellm.completion(**call, messages=tools.user("Plan."), response_format=Visit,
                                  max_tokens=300).choices[0].message.content
        assert isinstance(Visit.model_validate_json(text), Visit), call
