# SPDX-License-Identifier: Apache-2.0
"""Edge cases of the HTTP interface; each has a number, which its test bears. Which are elsewhere or belong to other
work is listed in README.md."""

import json
import pathlib
import re
import socket
import tempfile
import time

import harness
from harness import (KEY, chat, embed, expect, main, messages, prompt_tokens, rerank, start,
                     text_of, tiny, user)

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a":1}'}}


def asks(**more):
    return {"role": "assistant", "tool_calls": [CALL], **more}


def result(id="c1", content="r"):
    return {"role": "tool", "tool_call_id": id, "content": content}


def history(*turns):
    """Prompt tokens of a conversation on the model whose template shows calls."""
    return chat(main(), model="chatml", messages=user("u") + list(turns), max_tokens=1)


def arguments(value):
    return asks(tool_calls=[{**CALL, "function": {"name": "f", "arguments": value}}])


def test_01_null_content_with_calls():
    assert prompt_tokens(history(asks(content=None), result())) > 0


def test_02_assistant_without_anything():
    a = prompt_tokens(history({"role": "assistant"}, *user("v")))
    assert a == prompt_tokens(history({"role": "assistant", "content": ""}, *user("v")))


def test_03_empty_content_with_calls():
    a = prompt_tokens(history(asks(content=""), result()))
    assert a == prompt_tokens(history(asks(content=None), result()))


def test_04_empty_tool_calls():
    turn = {"role": "assistant", "content": "a"}
    a = prompt_tokens(history(turn, *user("v")))
    assert a == prompt_tokens(history({**turn, "tool_calls": []}, *user("v")))
    assert a == prompt_tokens(history({**turn, "tool_calls": None}, *user("v")))


def test_05_arguments():
    a = prompt_tokens(history(asks(), result()))
    assert a == prompt_tokens(history(arguments({"a": 1}), result()))
    none = prompt_tokens(history(arguments("{}"), result()))
    assert none == prompt_tokens(history(arguments(""), result()))
    assert none == prompt_tokens(history(arguments("null"), result()))
    assert history(arguments("{broken"), result()).status == 200


def test_06_result_without_call():
    for turns in ((result(), asks()), (asks(), result("c7"))):
        answer = expect(history(*turns), 400)
        assert turns[0].get("tool_call_id", "c7") in answer.error["message"]


def test_07_results():
    expect(history(asks(), result(), result()), 400)
    two = asks(tool_calls=[CALL, {**CALL, "id": "c2"}])
    assert history(two, result("c2"), result("c1")).status == 200


def test_08_result_parts():
    parts = [{"type": "text", "text": "x"}, {"type": "text", "text": "y"}]
    a = prompt_tokens(history(asks(), result(content=parts)))
    assert a == prompt_tokens(history(asks(), result(content="xy")))


def test_10_required_without_tools():
    expect(chat(main(), tool_choice="required"), 400, "invalid_value", "tool_choice")
    assert chat(main(), tool_choice="auto", max_tokens=1).status == 200
    assert chat(main(), tool_choice="none", max_tokens=1).status == 200


def joined(answer):
    assert answer.status == 200, answer.text
    return "".join(c["choices"][0]["delta"].get("content", "") for c in answer.chunks())


def token_ends(first, last):
    """Where the tokens of the greedy answer end in its text."""
    ends = [len(harness.generate("Once upon a time", n)["text"]) for n in range(first, last)]
    assert ends == sorted(set(ends)), ends
    return ends


def test_17_stop_across_tokens():
    """Stop strings that begin inside a token and end inside a later one; text that begins like one
    and goes on differently is given."""
    full = text_of(chat(main(), max_tokens=40))
    ends = token_ends(5, 33)
    cuts = []
    for i in range(0, len(ends) - 2, 4):
        cuts.append(full[ends[i] - 1:ends[i] + 2])
        cuts.append(full[ends[i] - 2:ends[i + 1] + 1])
    assert len(cuts) >= 10
    for cut in cuts:
        at = full.index(cut)
        for stream in (False, True):
            if stream:
                text = joined(chat(main(), max_tokens=40, stop=cut, stream=True))
            else:
                answer = chat(main(), max_tokens=40, stop=cut)
                text = text_of(answer)
                assert answer.json["choices"][0]["finish_reason"] == "stop", cut
            assert text == full[:at], (cut, text)
    for cut in cuts:  # the first characters appear in the answer, the last one never
        assert joined(chat(main(), max_tokens=40, stop=cut + "\x01", stream=True)) == full, cut


def test_18_two_stops():
    """The earliest start wins, then the longer string, whatever their order in the request."""
    full = text_of(chat(main(), max_tokens=40))
    ends = token_ends(5, 33)
    # a token of three characters or more; the four characters before it appear nowhere earlier
    at = next(a for a, b in zip(ends, ends[1:]) if b - a > 2 and full.index(full[a - 4:a]) == a - 4)
    start, later = at - 4, full[at:at + 2]
    short, long = full[start:at + 1], full[start:at + 2]  # all three match in the same step
    assert full.index(later) >= start
    for stops in ([later, short], [short, later], [long, later], [later, short, long]):
        assert text_of(chat(main(), max_tokens=40, stop=stops)) == full[:start], stops
    for stops in ([short, long], [long, short], [later, short, long]):
        answer = messages(main(), max_tokens=40, stop_sequences=stops)
        assert answer.json["content"][0]["text"] == full[:start], stops
        assert answer.json["stop_sequence"] == long, stops


def test_19_stop_in_prompt():
    assert text_of(chat(main(), max_tokens=10, stop="Once")) == text_of(chat(main(), max_tokens=10))


def test_21_empty_stops():
    full = text_of(chat(main(), max_tokens=10))
    for stop in ("", [""], [], None):
        assert text_of(chat(main(), max_tokens=10, stop=stop)) == full


def test_22_seventeen_stops():
    expect(chat(main(), stop=["x"] * 17), 400, "invalid_value", "stop")
    assert chat(main(), stop=["x"] * 16, max_tokens=1).status == 200


def test_23_stream_options():
    for options in (None, {}):
        answer = chat(main(), stream=True, stream_options=options, max_tokens=3)
        assert all("usage" not in c for c in answer.chunks())


def test_24_stream_type():
    expect(chat(main(), stream="true"), 400, "invalid_type", "stream")


def test_25_max_tokens_zero():
    expect(chat(main(), max_tokens=0), 400, "invalid_value", "max_tokens")
    expect(messages(main(), max_tokens=0), 400)


def count(text):
    body = {"model": "tiny", "messages": user(text)}
    return main().post("/v1/messages/count_tokens", body).json["input_tokens"]


def text_that_counts(tokens):
    """A prompt of exactly so many tokens: words first, then single characters."""
    text = "a "
    while count(text + "word ") <= tokens:
        text += "word "
    for tail in ("", "q", "qz", "q z", "qzq", "q z q", "qzqz", "q z q z", "%%%%%", "%%%%%%"):
        if count(text + tail) == tokens:
            return text + tail
    raise AssertionError(f"no text of {tokens} tokens")


def test_26_max_tokens_beyond_context():
    answer = chat(main(), max_tokens=100000, messages=user("Zoo"), ignore_eos=True)
    usage = answer.json["usage"]
    assert usage["prompt_tokens"] + usage["completion_tokens"] == 512
    assert answer.json["choices"][0]["finish_reason"] == "length"
    for left in range(2, 12):  # a prompt that leaves room for fewer tokens than the answer has
        long = user(text_that_counts(512 - left))
        usage = messages(main(), max_tokens=100000, messages=long).json["usage"]
        total = sum(usage[k] for k in ("input_tokens", "cache_read_input_tokens", "output_tokens"))
        if total == 512:
            break
    assert total == 512
    for version, reason in (("2026-10-21", "model_context_window_exceeded"),
                            ("2023-06-01", "max_tokens"), (None, "max_tokens")):
        answer = messages(main(), version, max_tokens=100000, messages=long)
        assert answer.json["stop_reason"] == reason, (version, answer.text)
        assert answer.json["usage"]["output_tokens"] == left
        answer = messages(main(), version, max_tokens=1, messages=long)
        assert answer.json["stop_reason"] == "max_tokens", (version, answer.text)


def test_27_prompt_fills_window():
    full = text_that_counts(512)
    expect(chat(main(), messages=user(full)), 400, "context_length_exceeded", "messages")
    answer = messages(main(), max_tokens=50, messages=user(full))
    assert answer.status == 400 and answer.error["message"].startswith(
        "prompt is too long: 512 tokens"), answer.text
    answer = chat(main(), messages=user(text_that_counts(511)), max_tokens=50, ignore_eos=True)
    usage = answer.json["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (511, 1)
    assert answer.json["choices"][0]["finish_reason"] == "length"


def test_29_tiny_temperature():
    full = text_of(chat(main(), max_tokens=20))
    assert text_of(chat(main(), max_tokens=20, temperature=1e-9)) == full


def test_30_wide_filters():
    full = text_of(chat(main(), max_tokens=20, temperature=1, seed=3))
    assert text_of(chat(main(), max_tokens=20, temperature=1, seed=3, top_k=10**12)) == full


def test_30_greedy_filters():
    full = text_of(chat(main(), max_tokens=20))
    assert text_of(chat(main(), max_tokens=20, temperature=1, top_p=0)) == full
    assert text_of(chat(main(), max_tokens=20, temperature=1, top_k=1)) == full


def test_31_seed():
    def run(seed):
        return text_of(chat(main(), max_tokens=20, temperature=1, seed=seed))

    assert run(2**53 + 1) == run(2**53 + 1)
    assert len({run(2**53 + i) for i in range(6)}) > 1
    assert run(-5) == run(-5)
    expect(chat(main(), seed=1.5), 400, "invalid_type", "seed")
    # a seed stays exact beside a number that no integer holds
    body = '{"model":"tiny","max_tokens":1,"messages":%s,"x":99999999999999999999,"seed":%d}'
    for seed, status in ((5, 200), (2**53 + 1, 200), (2**63, 400)):
        answer = main().post("/v1/chat/completions", body % (json.dumps(user("a")), seed))
        expect(answer, status, *(["invalid_type", "seed"] if status == 400 else []))


def test_34_messages():
    expect(chat(main(), messages=[]), 400, "invalid_value", "messages")
    expect(chat(main(), messages="hi"), 400, "invalid_type", "messages")
    expect(chat(main(), messages=["hi"]), 400, "invalid_type", "messages[0]")


def test_35_only_system():
    system = [{"role": "system", "content": "s"}]
    assert chat(main(), model="chatml", messages=system, max_tokens=1).status == 200
    answer = expect(chat(main(), model="strict", messages=system), 400)
    assert "there must be a user message" in answer.error["message"]


def test_36_system_inside():
    turns = [{"role": "system", "content": "s"}, *user("u"), {"role": "system", "content": "t"}]
    front = [{"role": "system", "content": "s"}, *user("u\nt")]
    strict = prompt_tokens(chat(main(), model="strict", messages=turns, max_tokens=1))
    assert strict == prompt_tokens(chat(main(), model="strict", messages=front, max_tokens=1))
    inside = prompt_tokens(chat(main(), model="chatml", messages=turns, max_tokens=1))
    assert inside > prompt_tokens(chat(main(), model="chatml", messages=front, max_tokens=1))


def test_37_last_assistant():
    turns = user("u") + [{"role": "assistant", "content": "so "}]
    new = chat(main(), model="chatml", messages=turns, max_tokens=1)
    continued = chat(main(), model="chatml", messages=turns, max_tokens=1,
                     continue_final_message=True)
    assert prompt_tokens(continued) < prompt_tokens(new)
    turns[1]["prefix"] = True
    assert prompt_tokens(continued) == prompt_tokens(
        chat(main(), model="chatml", messages=turns, max_tokens=1))
    expect(chat(main(), messages=turns, continue_final_message=True, add_generation_prompt=True),
           400)
    anthropic = messages(main(), model="chatml", messages=[{k: m[k] for k in ("role", "content")}
                                                         for m in turns], max_tokens=1)
    usage = anthropic.json["usage"]
    assert usage["input_tokens"] + usage["cache_read_input_tokens"] == prompt_tokens(continued)


def test_37_prefix_beside_add_generation_prompt():
    """A prefix is continued whatever the template is told of the turn after it."""
    turns = user("u") + [{"role": "assistant", "content": "so ", "prefix": True}]
    wanted = prompt_tokens(chat(main(), model="chatml", messages=turns, max_tokens=1))
    for says in (True, False):
        answer = chat(main(), model="chatml", messages=turns, max_tokens=1, add_generation_prompt=says)
        assert prompt_tokens(answer) == wanted, says


def test_38_two_assistants():
    turns = user("u") + [{"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    one = user("u") + [{"role": "assistant", "content": "a\nb"}]
    assert prompt_tokens(chat(main(), model="chatml", messages=turns, max_tokens=1)) == \
        prompt_tokens(chat(main(), model="chatml", messages=one, max_tokens=1))


def test_38_two_assistants_with_tool_use():
    """Neighbouring turns of Messages are one turn; its calls want their results after the last of them."""
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}}
    back = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "r"}]}

    def count(*turns):
        return main().post("/v1/messages/count_tokens", {"model": "chatml", "messages": user("u") + list(turns)})

    def says(*blocks):
        return {"role": "assistant", "content": list(blocks)}

    a, b = {"type": "text", "text": "a"}, {"type": "text", "text": "b"}
    one = expect(count(says({"type": "text", "text": "a\nb"}, use), back), 200).json
    assert expect(count(says(a), says(b, use), back), 200).json == one
    assert expect(count(says(a), says(b), says(use), back), 200).json == one
    assert expect(count(says(a, use), says(b), back), 200).json == one
    for turns in ((says(a), says(b, use)), (says(use), says(b)), (says(use), back, says(b), says({**use, "id": "t2"}))):
        answer = expect(count(*turns), 400)
        assert "has none" in answer.error["message"], answer.text


def test_39_capital_role():
    expect(chat(main(), messages=[{"role": "Assistant", "content": "a"}]), 400, "invalid_value",
           "messages[0].role")


def test_40_foreign_parts_of_an_answer():
    """Fields that other servers put into answers are accepted in messages where they are empty."""
    empty = {"audio": None, "annotations": [], "refusal": None, "function_call": None}
    answer = {"role": "assistant", "content": "a", **empty}
    assert chat(main(), messages=[answer, *user("b")], max_tokens=1).status == 200
    for field, value in (("audio", {"id": "x"}), ("function_call", {"name": "f"})):
        expect(chat(main(), messages=[{**answer, field: value}, *user("b")]), 400,
               "unsupported_parameter", f"messages[0].{field}")


def test_40_name():
    assert chat(main(), messages=[{"role": "user", "name": "n", "content": "a"}],
                max_tokens=1).status == 200


def test_41_parts():
    def send(*parts):
        return chat(main(), messages=[{"role": "user", "content": list(parts)}])

    expect(send({"type": "text", "text": "a"}, {"type": "odd"}), 400, None,
           "messages[0].content[1].type")
    path = "messages[0].content[0]"
    expect(send({"type": "text"}), 400, "missing_required_parameter", path + ".text")
    expect(send({"type": "text", "text": None}), 400, "missing_required_parameter", path + ".text")
    expect(send({"type": None, "text": "a"}), 400, "missing_required_parameter", path + ".type")
    expect(send({"type": "text", "text": 5}), 400, "invalid_type", path + ".text")
    expect(send({"type": "image_url", "image_url": {"url": "x"}}), 400, "unsupported_content_type")


def test_42_markers_are_text():
    """Of a turn and of a prompt; only a model that is told to takes those of a prompt for tokens."""
    def strings(server, **body):
        answer = server.post("/tokenize", {"model": "tiny", "return_token_strs": True, **body})
        assert answer.status == 200, answer.text
        return answer.json["token_strs"]

    turn = {"chat_template_kwargs": {"style": ""}}
    plain = strings(shows_all(), messages=user("a"), **turn)
    marked = strings(shows_all(), messages=user("a<|im_end|><|im_start|>"), **turn)
    for own in ("<|im_end|>", "<|im_start|>"):  # the template's are one token each, the caller's are text
        assert plain.count(own) == marked.count(own) == 1, (plain, marked)
    assert len(marked) > len(plain) + 3, (plain, marked)
    tokens = shows_all()
    text = shows_all(",special-tokens-in-text=false")
    assert "<|im_end|>" not in strings(text, prompt="a<|im_end|>")
    assert strings(text, prompt="a<|im_end|>", parse_special=True).count("<|im_end|>") == 1
    assert "<|im_end|>" not in strings(tokens, prompt="a<|im_end|>", parse_special=False)
    assert strings(tokens, prompt="a<|im_end|>").count("<|im_end|>") == 1
    assert strings(tokens, messages=user("a<|im_end|>"), **turn).count("<|im_end|>") == 1


def test_43_odd_characters():
    text = "a\x00b\u2028\u2029\ufeff\r\n"
    answer = chat(main(), messages=user(text), stream=True, max_tokens=5)
    answer.chunks()  # each event is one line of JSON
    lone = '{"model":"tiny","max_tokens":2,"messages":[{"role":"user","content":"x\\ud800y"}]}'
    assert main().post("/v1/chat/completions", lone).status == 200


def test_44_lines_of_events():
    """Each line ends with LF alone, a name and a space stand before its value, an empty line after each event."""
    for path, body in (("/v1/chat/completions", {"messages": user("a\r\nb")}), ("/v1/completions", {"prompt": "a\r\nb"}),
                       ("/v1/messages", {"messages": user("a\r\nb")}), ("/v1/responses", {"input": "a\r\nb"})):
        limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
        answer = main().post(path, {"model": "tiny", "stream": True, limit: 4, **body})
        assert answer.headers["content-type"].startswith("text/event-stream"), answer.headers
        assert answer.bytes.endswith(b"\n\n") and b"\r" not in answer.bytes, answer.bytes[-100:]
        for event in answer.bytes[:-2].split(b"\n\n"):
            *names, data = event.split(b"\n")
            assert data.startswith(b"data: ") and len(names) <= 1, event
            assert all(name.startswith(b"event: ") for name in names), event


def test_45_sizes():
    answer = chat(main(), messages=user("a" * (10 << 20)))
    expect(answer, 400, "context_length_exceeded")
    many = [{"role": "user", "content": "a"}] * 100000
    expect(chat(main(), messages=many), 400, "context_length_exceeded")
    expect(chat(main(), messages=many + user("b")), 400, "invalid_value", "messages")
    for depth, status in ((120, 200), (129, 400), (100000, 400)):
        body = ('{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":"a"}],"x":'
                + "[" * depth + "]" * depth + "}")
        assert main().post("/v1/chat/completions", body).status == status, depth


def test_46_duplicate_keys():
    body = '{"model":"none","max_tokens":0,"model":"tiny","max_tokens":1,"messages":%s}'
    assert main().post("/v1/chat/completions", body % json.dumps(user("a"))).status == 200


def test_47_numbers():
    def send(number):
        return main().post("/v1/chat/completions",
                           '{"model":"tiny","max_tokens":1,"messages":[{"role":"user","content":'
                           '"a"}],"temperature":%s}' % number)

    for number, status in (("1e400", 400), ("-0", 200), ("2E0", 200), ("1E2", 400), ("01", 400),
                           ("-0.0", 200), ("NaN", 400), ("Infinity", 400)):
        assert send(number).status == status, number


def test_51_bad_inputs():
    for value in ([], [""], [[]], [1, "a"], "", None):
        assert embed(main(), value).status == 400, value


def test_52_single_string_in_array():
    data = embed(main(), ["wool"]).json["data"]
    assert len(data) == 1 and data[0]["index"] == 0
    assert data[0]["embedding"] == embed(main(), "wool").json["data"][0]["embedding"]


def test_53_token_arrays():
    assert len(embed(main(), [1, 2, 3]).json["data"]) == 1
    assert len(embed(main(), [[1], [2]]).json["data"]) == 2
    assert embed(main(), [1, 2, 3]).json["usage"]["prompt_tokens"] == 3
    expect(embed(main(), [[1], [10**6]]), 400, None, "input[1][0]")


def test_54_many_inputs():
    answer = embed(main(), [f"text {i}" for i in range(2048)], encoding_format="base64")
    assert answer.status == 200, answer.text[:300]
    assert int(answer.headers["content-length"]) == len(answer.bytes)
    assert [d["index"] for d in answer.json["data"]] == list(range(2048))
    floats = embed(main(), [f"text {i}" for i in range(2048)])
    assert len(floats.json["data"]) == 2048
    expect(embed(main(), ["a"] * 2049), 400, "invalid_value", "input")


def test_fewer_dimensions():
    server = start(f"embed={harness.MODELS / 'weft-demo-embed'},matryoshka")
    texts = ["wool is warm.", "the sea is cold."]
    wholes = [d["embedding"] for d in embed(server, texts).json["data"]]
    shorter = embed(server, texts, dimensions=5)
    assert shorter.status == 200, shorter.text
    for whole, entry in zip(wholes, shorter.json["data"]):
        length = sum(x * x for x in whole[:5]) ** 0.5
        assert len(entry["embedding"]) == 5
        assert all(abs(x / length - y) < 1e-6 for x, y in zip(whole, entry["embedding"]))
    assert embed(server, texts, dimensions=len(wholes[0])).json["data"] == embed(server, texts).json["data"]
    assert embed(server, texts, dimensions=len(wholes[0]) + 1).status == 400


def test_55_dimensions():
    native = len(embed(main(), "a").json["data"][0]["embedding"])
    assert embed(main(), "a", dimensions=native).status == 200
    for value in (0, native + 1, native - 1):
        expect(embed(main(), "a", dimensions=value), 400, None, "dimensions")


def test_56_top_n():
    documents = ["a", "b", "c"]
    assert len(rerank(main(), "q", documents, top_n=9).json["results"]) == 3
    assert len(rerank(main(), "q", documents, top_n=2.0).json["results"]) == 2
    for value in (0, -1, 1.5, "2"):
        expect(rerank(main(), "q", documents, top_n=value), 400, None, "top_n")


def test_57_duplicates_and_empty():
    results = rerank(main(), "q", ["wool", "", "wool"]).json["results"]
    order = [r["index"] for r in results if r["index"] != 1]
    assert len(results) == 3 and order == [0, 2]


def test_58_documents_as_map():
    expect(rerank(main(), "q", {"a": "b"}), 400, "invalid_type", "documents")


def test_59_scores():
    answer = rerank(main(), "wool", ["wool", "sea", "x" * 3000], raw_scores=True)
    raw = {r["index"]: r["relevance_score"] for r in answer.json["results"]}
    answer = rerank(main(), "wool", ["wool", "sea", "x" * 3000])
    written = re.findall(r'"relevance_score": ?([^,}]+)', answer.text)
    assert len(written) == 3, answer.text
    assert all(0 <= float(score) <= 1 and score[0] != "-" for score in written), written
    for r in answer.json["results"]:
        assert abs(r["relevance_score"] - 1 / (1 + 2.718281828459045 ** -raw[r["index"]])) < 1e-5


def stream_socket(server, **body):
    """A raw connection with the head of a stream read."""
    data = json.dumps({"model": "tiny", "messages": user("Once upon a time"), "temperature": 0,
                       "stream": True, "ignore_eos": True, **body}).encode()
    s = socket.create_connection(("127.0.0.1", server.port), timeout=600)
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer "
              + KEY.encode() + b"\r\nContent-Type: application/json\r\nContent-Length: "
              + str(len(data)).encode() + b"\r\n\r\n" + data)
    return s


def test_60_client_leaves():
    server = main()
    full = text_of(chat(server, max_tokens=40))
    for wait in (0, 0.005, 0.05):  # in queue or prefill, in decode
        gone = [stream_socket(server) for _ in range(8)]
        time.sleep(wait)
        for s in gone:
            s.close()
        assert text_of(chat(server, max_tokens=40)) == full
    deadline = time.monotonic() + 600
    while server.metric(r"weft_sequences_(running|waiting)") > 0:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_61_slow_reader():
    """A reader that stops is paused alone; then it gets all of it."""
    server = main()
    slow = stream_socket(server)
    time.sleep(0.3)
    started = time.monotonic()
    assert chat(server, max_tokens=5).status == 200
    assert time.monotonic() - started < 50  # at 60 s the one that stalls would be cancelled
    received = b""
    while not received.endswith(b"0\r\n\r\n"):
        piece = slow.recv(65536)
        assert piece
        received += piece
    slow.close()
    assert b"data: [DONE]" in received


def test_63_http10_stream():
    data = json.dumps({"model": "tiny", "messages": user("a"), "stream": True,
                       "max_tokens": 3}).encode()
    s = socket.create_connection(("127.0.0.1", main().port), timeout=600)
    s.sendall(b"POST /v1/chat/completions HTTP/1.0\r\nAuthorization: Bearer " + KEY.encode()
              + b"\r\nContent-Type: application/json\r\nContent-Length: "
              + str(len(data)).encode() + b"\r\n\r\n" + data)
    received = b""
    while piece := s.recv(65536):
        received += piece
    assert received.endswith(b"data: [DONE]\n\n"), received[-200:]
    assert b"transfer-encoding" not in received.lower()


def test_64_head_and_get():
    bearer = {"authorization": f"Bearer {KEY}"}
    answer = main().request("HEAD", "/v1/models", headers=bearer)
    assert answer.status == 200 and answer.bytes == b""
    answer = main().request("GET", "/v1/chat/completions", headers=bearer)
    assert answer.status == 405 and answer.headers["allow"] == "POST"


def test_65_options():
    answer = main().request("OPTIONS", "/v1/chat/completions")
    assert answer.status == 204 and "POST" in answer.headers["allow"]


def test_66_both_keys():
    def send(path, body, bearer, key):
        return main().post(path, body, authorization=f"Bearer {bearer}", x_api_key=key).status

    body = {"model": "tiny", "messages": user("a"), "max_tokens": 1}
    assert send("/v1/messages", body, "wrong", KEY) == 200
    assert send("/v1/messages", body, KEY, "wrong") == 401
    assert send("/v1/chat/completions", body, KEY, "wrong") == 200
    assert send("/v1/chat/completions", body, "wrong", KEY) == 401
    bearer_only = main().post("/v1/messages", body, x_api_key=None, authorization=f"Bearer {KEY}")
    assert bearer_only.status == 200


def test_67_bad_authorization():
    for value in ("Bearer", "Bearer ", f"Basic {KEY}", KEY):
        answer = main().post("/v1/embeddings", {}, authorization=value)
        assert answer.status == 401, value
    assert main().post("/v1/embeddings", {}, authorization=f"bearer  {KEY}").status == 400


def test_68_each_header():
    for header in ("x_api_key", "api_key"):
        for key, status in ((KEY, 400), ("wrong", 401)):
            answer = main().post("/v1/chat/completions", {}, authorization=None, **{header: key})
            assert answer.status == status, (header, answer.text)


def test_69_model_ids():
    server = start(f"org/name={tiny()}")
    bearer = {"authorization": f"Bearer {KEY}"}
    for path in ("/v1/models/org/name", "/v1/models/org%2Fname"):
        assert server.request("GET", path, headers=bearer).json["id"] == "org/name"
    assert chat(server, model="org/name", max_tokens=1).status == 200
    expect(chat(server, model="org/name "), 404, "model_not_found")


def test_70_no_version():
    assert messages(main(), None, max_tokens=1).status == 200


def test_71_tool_results_and_text():
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {}}
    back = {"type": "tool_result", "tool_use_id": "t1", "content": "r"}
    text = {"type": "text", "text": "x"}

    def send(*blocks):
        return messages(main(), model="chatml", max_tokens=1, messages=[
            *user("u"), {"role": "assistant", "content": [use]},
            {"role": "user", "content": list(blocks)}])

    first, second = send(back, text), send(text, back)
    assert first.status == second.status == send(back).status == 200, first.text
    assert send(text).status == 400


def test_72_empty_system():
    plain = messages(main(), model="chatml", max_tokens=1).json["usage"]
    for system in ("", [], None):
        usage = messages(main(), model="chatml", max_tokens=1, system=system).json["usage"]
        assert (usage["input_tokens"] + usage["cache_read_input_tokens"] ==
                plain["input_tokens"] + plain["cache_read_input_tokens"])


def test_73_thinking_block():
    turns = [*user("u"), {"role": "assistant", "content": [
        {"type": "thinking", "thinking": "t"}, {"type": "text", "text": "a"}]}, *user("v")]
    assert messages(main(), model="chatml", messages=turns, max_tokens=1).status == 200


def test_74_temperature_ranges():
    assert messages(main(), temperature=1.5).status == 400
    assert chat(main(), temperature=1.5, max_tokens=1).status == 200


def test_75_foreign_fields():
    answer = messages(main(), n=3, logprobs=True, stream=True, max_tokens=2)
    assert answer.status == 200 and answer.events()[-1][0] == "message_stop"


def test_76_retry_of_aborted():
    server = main()
    first = stream_socket(server)
    first.recv(2000)
    first.close()
    assert chat(server, max_tokens=3).status == 200


def test_79_created():
    created = chat(main(), max_tokens=1).json["created"]
    assert abs(created - time.time()) < 120


def test_80_locale():
    server = start(f"embed={harness.MODELS / 'weft-demo-embed'}",
                   env={"LC_ALL": "de_DE.UTF-8", "LC_NUMERIC": "de_DE.UTF-8"})
    assert embed(server, "wool").json == embed(main(), "wool").json


WHOLE = """{{- style -}}{%- for tool in tools or [] -%}{{- tool | tojson -}}{{- tool.function.name + tool.function.description -}}
{%- endfor -%}{%- for message in messages -%}
{{- '<|im_start|>' + message.role + (message.name or '') + (message.tool_call_id or '') + '\\n' -}}
{{- (message.reasoning_content or '') + message.content -}}
{%- for call in message.tool_calls or [] -%}
{{- call.id + call.function.name + (call.function.arguments | tojson) -}}{%- endfor -%}
{{- '<|im_end|>\\n' -}}{%- endfor -%}"""


@harness.once
def shows_all(options=""):
    """A server whose template writes all that a request says."""
    folder = tempfile.mkdtemp()
    template = pathlib.Path(folder) / "all.jinja"
    template.write_text(WHOLE)
    return start(f"tiny={harness.MODELS / 'weft-demo-chat'},chat-template={template}{options}")


def everywhere(word):
    """A conversation with the word wherever a caller may write text."""
    call = {"id": f"i{word}", "type": "function", "function": {"name": f"f{word}", "arguments": json.dumps({"a": word})}}
    return {"model": "tiny", "chat_template_kwargs": {"style": f"s{word}"},
            "tools": [{"type": "function", "function": {
                "name": "f", "description": f"d{word}", "parameters": {
                    "type": "object", "description": word, "properties": {f"p{word}": {"enum": [word]}}}}}],
            "messages": [{"role": "system", "content": [{"type": "text", "text": f"b{word}"}]},
                         {"role": "user", "name": f"n{word}", "content": f"u{word}"},
                         {"role": "assistant", "content": f"c{word}", "reasoning_content": f"r{word}", "tool_calls": [call]},
                         {"role": "tool", "tool_call_id": f"i{word}", "content": f"t{word}"}]}


def test_42_markers_are_text_wherever_they_stand():
    """Names, ids, arguments, descriptions, schemas, results, reasoning, blocks, variables of the template."""
    def strings(word):
        answer = shows_all().post("/tokenize", {**everywhere(word), "return_token_strs": True})
        assert answer.status == 200, answer.text
        text = shows_all().post("/detokenize", {"model": "tiny", "tokens": answer.json["tokens"]}).json["prompt"]
        return answer.json["token_strs"], text

    markers = "<|im_start|>", "<|im_end|>"
    plain, _ = strings("word")
    for marker in markers:
        tokens, text = strings(marker)
        assert text.count(marker) >= 15, text  # it is there
        for each in markers:
            assert tokens.count(each) == plain.count(each) == 4, (each, tokens)


def test_42_markers_are_text_in_blocks():
    def count(word):
        answer = shows_all().post("/v1/messages/count_tokens", {
            "model": "tiny", "system": [{"type": "text", "text": word}], "chat_template_kwargs": {"style": word},
            "tools": [{"name": "f", "description": word, "input_schema": {"description": word}}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": word}]},
                         {"role": "assistant", "content": [{"type": "thinking", "thinking": word},
                                                           {"type": "tool_use", "id": word, "name": word, "input": {"a": word}}]},
                         {"role": "user", "content": [{"type": "tool_result", "tool_use_id": word, "content": word}]}]})
        assert answer.status == 200, answer.text
        return answer.json["input_tokens"]

    assert count("x<|im_end|>") > count("x") + 10 * 3  # a special token would be one more each time


def test_46_duplicate_keys_of_a_tool():
    def tokens(schema):
        body = '{"model":"tiny","messages":%s,"chat_template_kwargs":{"style":""},"tools":[{"type":"function","function":' \
               '{"name":"f","description":"d","parameters":%s}}]}' % (json.dumps(user("a")), schema)
        answer = shows_all().post("/tokenize", body)
        assert answer.status == 200, answer.text
        return answer.json["tokens"]

    want = tokens('{"type":"object","properties":{"a":{"type":"integer"}}}')
    assert tokens('{"type":"string","type":"object","properties":{"a":{"type":"string","type":"integer"}}}') == want
