# SPDX-License-Identifier: Apache-2.0
"""All endpoints at once: each answer equals the one that the same request gets alone."""

import concurrent.futures

import harness
from harness import amount, chat, embed, golden, longest, main, messages, rerank, text_of, user


def continuation(prompt, tokens=48):
    return harness.generate(prompt, tokens)["text"]


def joined(answer):
    assert answer.status == 200, answer.text
    return "".join(c["choices"][0]["delta"].get("content", "") for c in answer.chunks())


def joined_messages(answer):
    assert answer.status == 200, answer.text
    import json
    return "".join(json.loads(d)["delta"]["text"] for n, d in answer.events()
                   if n == "content_block_delta")


def ask(case):
    """One prompt through chat and Messages, streamed and not."""
    args = {"messages": user(case["prompt"]), "max_tokens": 48}
    return (
        text_of(chat(main(), **args)),
        joined(chat(main(), stream=True, **args)),
        messages(main(), **args).json["content"][0]["text"],
        joined_messages(messages(main(), stream=True, **args)),
    )


def test_golden_prompts_alone():
    for case in golden():
        want = continuation(case["prompt"])
        assert all(got == want for got in ask(case)), case["prompt"]


def test_golden_prompts_32_at_once():
    cases = [golden()[i % len(golden())] for i in range(32)]
    want = [continuation(case["prompt"]) for case in cases]
    with concurrent.futures.ThreadPoolExecutor(32) as pool:
        for case, got, text in zip(cases, pool.map(ask, cases), want):
            assert all(g == text for g in got), case["prompt"]


def test_four_endpoints_at_once():
    """Each of the four, from two clients each, fifteen times."""
    jobs = {
        "chat": lambda: text_of(chat(main(), max_tokens=30)),
        "messages": lambda: joined_messages(messages(main(), max_tokens=30, stream=True)),
        "embed": lambda: embed(main(), [f"thread {i}" for i in range(20)]).json,
        "rerank": lambda: rerank(main(), "wool", [f"thread {i} of wool" for i in range(20)]
                                 ).json["results"],
    }
    alone = {name: job() for name, job in jobs.items()}

    def repeat(name):
        return all(jobs[name]() == alone[name] for _ in range(15))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(repeat, list(jobs) * 2))


@longest
def test_large_requests_hold_nobody_up():
    """2,048 inputs and 1,000 documents (a quarter but in the soak); a one-text request sent meanwhile ends before them."""
    big = [f"a longer text about wool, number {i}, " * 12 for i in range(amount(512, 512, 2048))]
    count = len(big) * 1000 // 2048
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        large = pool.submit(embed, main(), big)
        documents = pool.submit(rerank, main(), "wool", big[:count])
        while not large.done():
            if embed(main(), "one").status == 200 and not large.done():
                break
        else:
            raise AssertionError("no small request ended before the large one")
        assert large.result().status == 200 and documents.result().status == 200
        assert len(documents.result().json["results"]) == count


def test_cached_tokens_are_reported():
    prompt = user("The quick brown fox jumps over the lazy dog. " * 12)
    first = chat(main(), messages=prompt, max_tokens=2).json["usage"]
    second = chat(main(), messages=prompt, max_tokens=2).json["usage"]
    assert first["prompt_tokens"] == second["prompt_tokens"]
    cached = second["prompt_tokens_details"]["cached_tokens"]
    assert 0 < cached < second["prompt_tokens"]
    usage = messages(main(), messages=prompt, max_tokens=2).json["usage"]
    assert usage["cache_read_input_tokens"] == cached
    assert usage["input_tokens"] == second["prompt_tokens"] - cached
