# SPDX-License-Identifier: Apache-2.0
"""What agents do with the official clients: tools in several rounds, whole and through the stream helpers, several
choices, tools made of classes, tool runners, parse with classes, lists of models."""

import json

import anthropic
import cohere
import openai
import pydantic

import test_structured as structured
import test_tools as tools
from harness import KEY, dreamer, main, user


def api(server):
    return openai.OpenAI(base_url=server.base + "/v1", api_key=KEY, max_retries=0)


def claude(server):
    return anthropic.Anthropic(base_url=server.base, api_key=KEY, max_retries=0)


def answers_of(calls):
    return [{"role": "tool", "tool_call_id": call.id, "content": json.dumps({"of": call.function.name})}
            for call in calls]


def whole(messages):
    return tools.ask(messages=messages).choices[0].message


def streamed(messages):
    with tools.client().chat.completions.stream(model="caller", messages=messages, temperature=0,
                                                tools=tools.TOOLS) as stream:
        return stream.get_final_completion().choices[0].message


def history_of(message):
    """The assistant's turn as agents send it back."""
    turn = {"role": "assistant", "content": message.content}
    if message.tool_calls:
        turn["tool_calls"] = [{"id": c.id, "type": "function", "function": {
            "name": c.function.name, "arguments": c.function.arguments}} for c in message.tool_calls]
    return turn


def test_agent_of_three_rounds():
    for ask in (whole, streamed):
        messages = user("Weather in Łódź?")
        for turn in range(3):
            message = ask(messages)
            tools.calls_are_right(message.tool_calls)
            messages += [history_of(message)] + answers_of(message.tool_calls)
            message = ask(messages)
            assert message.content == "It rains at noon." and not message.tool_calls
            messages += [history_of(message)] + user(f"And on day {turn}?")


def test_agent_several_choices():
    """Each of n choices has its own calls, with ids of their own, whole and streamed."""
    answer = tools.ask(n=3)
    assert [c.index for c in answer.choices] == [0, 1, 2]
    for choice in answer.choices:
        tools.calls_are_right(choice.message.tool_calls)
    ids = {call.id for c in answer.choices for call in c.message.tool_calls}
    assert len(ids) == 6
    with tools.client().chat.completions.stream(model="caller", messages=user("a"), temperature=0, n=3,
                                                tools=tools.TOOLS) as stream:
        final = stream.get_final_completion()
    assert sorted(c.index for c in final.choices) == [0, 1, 2]
    for choice in final.choices:
        tools.calls_are_right(choice.message.tool_calls)
        assert choice.finish_reason == "tool_calls"



class Visit(pydantic.BaseModel):
    """Plan a visit."""
    city: structured.Colour
    days: int = pydantic.Field(ge=1, le=9)
    guide: bool | None


def test_agent_tools_of_classes():
    """pydantic_function_tool makes a strict function; parse gives an instance of the class."""
    tool = openai.pydantic_function_tool(Visit, name="visit")
    assert tool["function"]["strict"] is True
    args = {"model": "chat", "messages": user("Plan."), "temperature": 1.5, "max_tokens": 300, "tools": [tool],
            "tool_choice": {"type": "function", "function": {"name": "visit"}}, "parallel_tool_calls": False}
    for seed in range(4):
        message = api(dreamer()).chat.completions.parse(**args, seed=seed).choices[0].message
        visit = message.tool_calls[0].function.parsed_arguments
        assert isinstance(visit, Visit) and 1 <= visit.days <= 9
        with api(dreamer()).chat.completions.stream(**args, seed=seed) as stream:
            events = [e for e in stream if e.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion().choices[0].message
        assert final.tool_calls[0].function.parsed_arguments == visit
        assert [e.name for e in events] == ["visit"] and events[0].parsed_arguments == visit


def test_agent_runner_of_messages():
    """The client's own loop: it calls the functions and sends their results until the model is done."""
    asked = []

    @anthropic.beta_tool
    def get_weather(city: str) -> str:
        """Weather of a city

        Args:
            city: its name
        """
        asked.append(city)
        return "rain"

    @anthropic.beta_tool
    def get_time() -> str:
        """The time"""
        return "noon"

    for stream in (False, True):
        more = {"stream": True} if stream else {}
        runner = claude(tools.server()).beta.messages.tool_runner(
            model="caller", max_tokens=2000, messages=user("Weather in Łódź?"), tools=[get_weather, get_time],
            extra_body={"temperature": 0}, **more)
        if stream:
            turns = [part.get_final_message() for part in runner]
        else:
            turns = list(runner)
        assert [t.stop_reason for t in turns] == ["tool_use", "end_turn"]
        assert turns[-1].content[0].text == "It rains at noon."
    assert asked == ["Łódź", "Łódź"]


class Reading(pydantic.BaseModel):
    colour: structured.Colour
    wet: bool
    degrees: int = pydantic.Field(description="of Celsius")


def test_agent_parse_of_messages():
    """.parse() and .stream() with a class, which the client makes an output_config of."""
    one = claude(structured.server())
    args = {"model": structured.MODEL, "messages": user("Write."), "max_tokens": 400, "output_format": Reading}
    for _ in range(3):
        answer = one.messages.parse(**args)
        assert answer.stop_reason == "end_turn" and isinstance(answer.parsed_output, Reading), answer
        with one.messages.stream(**args) as stream:
            text = "".join(stream.text_stream)
            final = stream.get_final_message()
        assert final.parsed_output == Reading.model_validate_json(text)


def test_agent_models_of_all_clients():
    names = ["tiny", "chatml", "strict", "embed", "rerank"]
    first, second = api(main()), claude(main())
    assert [m.id for m in first.models.list()] == [m.id for m in second.models.list()] == names
    for name in names:
        one, two = first.models.retrieve(name), second.models.retrieve(name)
        assert one.id == two.id == name and one.object == "model" and two.type == "model"
        assert two.display_name == name and int(two.created_at.timestamp()) == one.created
    for call, kind in ((lambda: first.models.retrieve("none"), openai.NotFoundError),
                       (lambda: second.models.retrieve("none"), anthropic.NotFoundError)):
        try:
            call()
            raise AssertionError(kind)
        except kind as error:
            assert "none" in str(error)
    for kind in (cohere.Client, cohere.ClientV2):
        one = kind(api_key=KEY, base_url=main().base)
        assert [m["id"] for m in one.models.list().data] == names  # the body of the others; its own names are not there
        assert one.models.get("tiny").id == "tiny"
