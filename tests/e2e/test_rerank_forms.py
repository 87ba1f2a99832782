"""Both reranker forms and embeddings: the server gives what the command line gives.

The yes/no form runs on a model of random weights with a small word list, made here.
"""

import functools
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


@functools.cache
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
