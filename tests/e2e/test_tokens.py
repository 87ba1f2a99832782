# SPDX-License-Identifier: Apache-2.0
"""/tokenize and /detokenize beside the tokenizer that made the models' files."""


import tokenizers
from harness import KEY, MODELS, chat, main, once, start

TEXTS = ["Hello, world!", "  two  spaces\n", "naïve — 日本語 🙂", "", "<s> is text", "a" * 5000]


@once
def reference(folder):
    return tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))


def test_texts_have_the_tokens_of_the_reference():
    own = reference(MODELS / "weft-demo-embed")
    for text in TEXTS:
        answer = main().post("/tokenize", {"model": "embed", "prompt": text, "return_token_strs": True})
        assert answer.status == 200, answer.text
        want = own.encode(text)
        assert answer.json["tokens"] == want.ids and answer.json["token_strs"] == want.tokens
        assert answer.json["count"] == len(want.ids) and answer.json["max_model_len"] > 0
        bare = own.encode(text, add_special_tokens=False).ids
        for body in ({"prompt": text, "add_special_tokens": False}, {"content": text}):
            assert main().post("/tokenize", {"model": "embed", **body}).json["tokens"] == bare
        back = main().post("/detokenize", {"model": "embed", "tokens": bare}).json
        assert back["prompt"] == back["content"] == own.decode(bare, skip_special_tokens=False)


def test_a_conversation_has_as_many_tokens_as_its_prompt():
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hi <|im_end|>"}]
    answer = main().post("/tokenize", {"model": "chatml", "messages": messages})
    assert answer.status == 200, answer.text
    reply = chat(main(), messages=messages, model="chatml", max_tokens=1)
    assert answer.json["count"] == reply.json["usage"]["prompt_tokens"] == len(answer.json["tokens"])
    text = main().post("/detokenize", {"model": "chatml", "tokens": answer.json["tokens"]}).json["prompt"]
    assert "Be kind." in text and text.rstrip().endswith("assistant")
    shorter = main().post("/tokenize", {"model": "chatml", "messages": messages, "add_generation_prompt": False})
    assert shorter.json["tokens"] == answer.json["tokens"][:shorter.json["count"]] != answer.json["tokens"]


def test_the_model_is_named_where_there_are_several():
    assert main().post("/tokenize", {"prompt": "a"}).error["param"] == "model"
    alone = start(f"embed={MODELS / 'weft-demo-embed'}")
    assert alone.post("/tokenize", {"prompt": "a"}).status == 200
    assert alone.post("/v1/embeddings", {"input": "a"}).json["model"] == "embed"
    assert alone.post("/embeddings", {"input": "a"}).status == 200
    names = start(f"embed={MODELS / 'weft-demo-embed'},served-model-name=text-embedding-3-small,served-model-name=b")
    for name in ("text-embedding-3-small", "b", "embed"):
        assert names.post("/v1/embeddings", {"input": "a", "model": name}).json["model"] == "text-embedding-3-small"
    assert names.post("/v1/embeddings", {"input": "a", "model": "weft-demo-embed"}).status == 404
    assert names.request("GET", "/models/b", headers={"api-key": KEY}).json["id"] == "text-embedding-3-small"


def test_texts_are_for_those_with_a_key():
    for path in ("/tokenize", "/detokenize"):
        assert main().post(path, {"prompt": "a"}, authorization=None).status == 401
        assert main().request("GET", path, headers={"authorization": f"Bearer {KEY}"}).headers["allow"] == "POST"


def test_a_long_text_comes_back_whole():
    text = "The sea is cold. " * 60000
    answer = main().post("/tokenize", {"model": "tiny", "content": text})
    assert answer.status == 200 and answer.json["count"] == len(answer.json["tokens"]) > 100000
    back = main().post("/detokenize", {"model": "tiny", "tokens": answer.json["tokens"]})
    assert back.json["prompt"].strip() == text.strip()


def test_models_say_their_kind_and_window():
    answer = main().request("GET", "/v1/models", headers={"authorization": f"Bearer {KEY}"})
    models = {m["id"]: m for m in answer.json["data"]}
    kinds = {"tiny": "generator", "chatml": "generator", "embed": "embedder", "rerank": "reranker"}
    assert {name: models[name]["kind"] for name in kinds} == kinds
    for name in kinds:
        one = main().request("GET", f"/v1/models/{name}", headers={"authorization": f"Bearer {KEY}"})
        assert one.json == models[name]
        counted = main().post("/tokenize", {"model": name, "content": "a"}).json
        assert one.json["max_model_len"] == counted["max_model_len"] > 0
