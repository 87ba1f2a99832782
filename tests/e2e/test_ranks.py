"""Models whose weights several ranks share, beside one that is whole, on one server: all give the recorded answers."""

import concurrent.futures

from harness import MODELS, chat, golden, start, text_of, tiny, user
from test_golden import TOKENS, record_of


def test_shared_models_answer_as_whole_ones():
    """Thirty requests at once: the three models take turns on the same cores."""
    names = {"one": 1, "two": 2, "four": 4}
    server = start(*(f"{name}={tiny()},tensor-parallel-size={ranks},max-num-seqs=16" for name, ranks in names.items()))
    jobs = [(name, case) for case in golden() for name in names]

    def ask(job):
        name, case = job
        return text_of(chat(server, model=name, messages=user(case["prompt"]), max_tokens=TOKENS))

    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        for (name, case), got in zip(jobs, pool.map(ask, jobs)):
            assert got == record_of(case)["text"], (name, case["prompt"], got)
    assert server.stop() == 0


def test_a_shared_model_keeps_grammars_and_prefixes():
    """Masks reach every rank; a prompt whose beginning is cached gives the same answer."""
    server = start(f"two={MODELS / 'weft-demo-chat'},tensor-parallel-size=2")
    prompt = user("Once upon a time, " * 12)
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {
        "yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}}}
    answers = {text_of(chat(server, model="two", messages=prompt, max_tokens=40, response_format=schema, temperature=1,
                            seed=5)).replace(" ", "") for _ in range(2)}
    assert answers in ({'{"yes":true}'}, {'{"yes":false}'}), answers
    first, again = (chat(server, model="two", messages=prompt, max_tokens=20).json for _ in range(2))
    assert first["choices"] == again["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert server.stop() == 0
