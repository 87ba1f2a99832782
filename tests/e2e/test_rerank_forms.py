# SPDX-License-Identifier: Apache-2.0
"""Both reranker forms and embeddings: the server gives what the command line gives.

The yes/no form runs on a model of random weights with a small word list, made here.
"""

import json
import pathlib
import subprocess
import tempfile

import harness
from harness import WEFT, embed, main, rerank, start

WORDS = ["[PAD]", "[UNK]", "yes", "no", "wool", "is", "warm", "the", "sea", "cold", "query",
         "document", "instruct", *".?:<>|_\"", *"abcdefghijklmnopqrstuvwxyz",
         *("##" + c for c in "abcdefghijklmnopqrstuvwxyz")]
DOCUMENTS = ["wool is warm.", "the sea is cold.", "", "warm sea", "wool is warm."]
folders = []


@harness.once
def yes_no_folder():
    keep = tempfile.TemporaryDirectory()
    folders.append(keep)  # lives as long as the run
    folder = pathlib.Path(keep.name) / "tiny-reranker"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "BertPreTokenizer"}, "post_processor": None,
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 100,
                  "continuing_subword_prefix": "##",
                  "vocab": {word: i for i, word in enumerate(WORDS)}}}))
    (folder / "config.json").write_text(json.dumps({
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64,
        "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 16, "vocab_size": len(WORDS),
        "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000,
        "hidden_act": "silu", "tie_word_embeddings": True, "torch_dtype": "float32",
        "bos_token_id": 0, "eos_token_id": 0}))
    return folder


def command(*args, lines):
    out = subprocess.run([WEFT, *map(str, args)], check=True, capture_output=True, text=True,
                         input="".join(line + "\n" for line in lines))
    return [json.loads(line) for line in out.stdout.splitlines()]


def check_scores(answer, expected):
    assert answer.status == 200, answer.text
    results = answer.json["results"]
    assert sorted(results, key=lambda r: (-r["relevance_score"], r["index"])) == results
    assert sorted((r["index"], r["relevance_score"]) for r in results) == [
        (r["index"], r["relevance_score"]) for r in expected]


def test_yes_no():
    folder = yes_no_folder()
    server = start(f"rerank={folder},load-format=dummy")
    expected = command("rerank", folder, "--load-format", "dummy", "--query", "warm wool?",
                       lines=DOCUMENTS)
    assert len({r["relevance_score"] for r in expected}) == 4  # two documents are the same
    check_scores(rerank(server, "warm wool?", DOCUMENTS), expected)
    long = rerank(server, "warm wool?", ["wool " * 2000, "wool " * 2001])
    first, second = long.json["results"]
    assert first["relevance_score"] == second["relevance_score"]  # both are cut to the same
    assert long.json["usage"]["prompt_tokens"] == 2 * 512
    assert rerank(server, "warm wool?", ["wool " * 2000], truncate=False).status == 400
    assert rerank(server, "wool " * 300, ["a"]).error["param"] == "query"
    short = rerank(server, "warm wool?", ["wool " * 2000], max_tokens_per_doc=3)
    same = rerank(server, "warm wool?", ["wool wool wool"])
    assert short.json["results"] == same.json["results"]


def test_instruction():
    server = start(f"rerank={yes_no_folder()},load-format=dummy")
    plain, own, again = (rerank(server, "warm wool?", ["wool is warm."], **more).json["results"][0]["relevance_score"]
                         for more in ({}, {"instruction": "the sea is cold"}, {"instruction": None}))
    assert plain == again != own
    assert rerank(main(), "q", ["a"], instruction="i").error["param"] == "instruction"


def test_texts_as_text_embeddings_inference_sends_them():
    wanted = rerank(main(), "warm wool", DOCUMENTS).json["results"]
    answer = main().post("/rerank", {"query": "warm wool", "texts": DOCUMENTS, "raw_scores": False,
                                     "return_text": True, "truncate": False})
    assert answer.status == 200, answer.text
    assert answer.json == [{"index": r["index"], "score": r["relevance_score"],
                            "text": DOCUMENTS[r["index"]]} for r in wanted]
    bare = main().post("/rerank", {"query": "warm wool", "texts": DOCUMENTS, "raw_scores": True}).json
    assert all(set(r) == {"index", "score"} for r in bare) and any(not 0 <= r["score"] <= 1 for r in bare)


def results(**more):
    answer = rerank(main(), "warm wool", more.pop("documents", DOCUMENTS), **more)
    assert answer.status == 200, answer.text
    return answer.json["results"]


def test_every_option_of_rerank():
    plain = results()
    assert results(documents=[{"text": text} for text in DOCUMENTS], rank_fields=["text"]) == plain
    assert results(top_k=2) == results(top_n=2) == plain[:2]
    raw = results(raw_scores=True)
    assert results(use_activation=False) == results(activation=False) == raw
    assert results(use_activation=True) == plain
    for one, other in zip(plain, raw):
        assert one["index"] == other["index"]
        assert abs(one["relevance_score"] - 1 / (1 + 2.718281828459045 ** -other["relevance_score"])) < 1e-5
    for name in ("return_documents", "return_text"):
        assert [r["document"]["text"] for r in results(**{name: True})] == [DOCUMENTS[r["index"]] for r in plain]
    assert all("document" not in r for r in plain)
    long = ["sea " * 40 + "rain", "rain " + "sea " * 40]
    short = results(documents=long, max_tokens_per_doc=3)
    assert sorted(results(documents=["sea sea sea", "rain sea sea"]), key=lambda r: r["index"]) == sorted(
        short, key=lambda r: r["index"])
    left = results(documents=long, max_tokens_per_doc=3, truncation_side="left")
    assert left == results(documents=long, max_tokens_per_doc=3, truncation_direction="left")
    assert sorted(results(documents=["sea sea rain", "sea sea sea"]), key=lambda r: r["index"]) == sorted(
        left, key=lambda r: r["index"])


def test_what_rerank_refuses():
    for more, param in (({"rank_fields": ["title"]}, "rank_fields"), ({"softmax": True}, "softmax"),
                        ({"top_n": 1, "top_k": 1}, "top_k"), ({"texts": ["a"]}, "texts"),
                        ({"raw_scores": True, "use_activation": False}, "use_activation"),
                        ({"truncate": False, "truncate_prompt_tokens": 5}, "truncate_prompt_tokens"),
                        ({"truncation_direction": "up"}, "truncation_direction"),
                        ({"documents": [{"title": "a"}]}, "documents[0].text"), ({"documents": ["a", 5]}, "documents[1]"),
                        ({"max_tokens_per_doc": 0}, "max_tokens_per_doc"), ({"documents": ["a"] * 1001}, "documents")):
        answer = rerank(main(), "q", more.pop("documents", ["a"]), **more)
        assert answer.status == 400 and answer.error["param"] == param, (more, answer.text)


def test_every_address_of_rerank():
    body = {"model": "rerank", "query": "warm wool", "documents": DOCUMENTS, "top_n": 1}
    wanted = main().post("/v1/rerank", body).json["results"]
    for path in ("/rerank", "/v2/rerank", "/v1/v1/rerank", "/v1/v2/rerank", "/v2/v1/rerank", "/v2/v2/rerank"):
        answer = main().post(path, body)
        assert answer.status == 200 and answer.json["results"] == wanted, (path, answer.text)


def test_pair():
    expected = command("rerank", harness.MODELS / "weft-demo-rerank", "--query", "warm wool",
                       lines=DOCUMENTS)
    check_scores(rerank(main(), "warm wool", DOCUMENTS), expected)


def test_embed():
    lines = [line for line in DOCUMENTS if line]
    expected = command("embed", harness.MODELS / "weft-demo-embed", lines=lines)
    got = [d["embedding"] for d in embed(main(), lines).json["data"]]
    assert got == expected


def test_generator_refuses_what_rerankers_do():
    answer = rerank(main(), "q", ["a"], model="tiny")
    assert answer.status == 400 and answer.error["code"] == "unsupported_model"
