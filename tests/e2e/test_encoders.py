# SPDX-License-Identifier: Apache-2.0
"""Encoders, embedders and rerankers of each kind in one server, with the values that transformers and
sentence-transformers gave for tiny models (tests/golden).

The golden inputs are token ids. The tokenizer of these folders knows words such as w17, each the token of its number,
and drops all other text: of a reranker's prompt nothing remains but the query and the document.
"""

import itertools
import json
import math
import pathlib
import struct
import tempfile

from harness import ROOT, embed, once, rerank, start

# Model in tests/golden: name in the server.
EMBEDDERS = {"nomic": "nomic", "modernbert-cls": "modernbert", "new-ntk": "gte", "jina-model": "jina",
             "mpnet-mean": "mpnet", "distilbert-mean": "distilbert", "embeddinggemma": "embeddinggemma"}
RERANKERS = {"modernbert-rerank": "modernbert-rerank", "new-rerank": "gte-rerank", "qwen2-reranker": "mxbai"}
PROMPTED = "nomic"  # has prompts: the first words of its inputs
LOGITS = "qwen2-reranker"  # compares the logits of these tokens, which its inputs then do not have
ANSWERS = {15: "0", 16: "1"}
VOCAB = 96
MASK = (1 << 64) - 1


def noise(start, count):
    """Returns the values of tools/golden.py: the top 7 bits of splitmix64 less 64."""
    out = []
    for z in range(start, start + count):
        z = ((z + 1) & MASK) * 0x9E3779B97F4A7C15 & MASK
        z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
        z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
        out.append(((z ^ z >> 31) >> 57) - 64)
    return out


def tensors_write(path, tensors, seed, index):
    header, parts, end = {}, [], 0
    for name, shape, kind in tensors:
        values = noise((seed + (next(index) << 32)) & MASK, math.prod(shape))
        values = [1 + v / 128 for v in values] if kind < 0 else [v / 2 ** kind for v in values]
        parts.append(struct.pack(f"<{len(values)}f", *values))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [end, end + len(parts[-1])]}
        end += len(parts[-1])
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def golden(name):
    return json.loads((ROOT / f"tests/golden/{name}.json").read_text())


def folder_write(folder, name):
    model, index = golden(name), itertools.count()
    folder.mkdir()
    for file, content in {"config.json": model["config"], **model["files"]}.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(json.dumps(content))
    tensors_write(folder / "model.safetensors", model["tensors"], model["seed"], index)
    for module, tensors in model.get("module_tensors", {}).items():
        tensors_write(folder / module / "model.safetensors", tensors, model["seed"], index)
    answers = ANSWERS if name == LOGITS else {}
    vocab = {answers.get(i, f"w{i}"): i for i in range(VOCAB)}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None, "decoder": None,
        "pre_tokenizer": {"type": "Split", "pattern": {"Regex": "w[0-9]+"}, "behavior": "Removed", "invert": True},
        "model": {"type": "WordLevel", "vocab": vocab, "unk_token": "w0"}}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_input_names": ["input_ids", "attention_mask"]}))
    if name == PROMPTED:
        prompts = {"query": words(model["inputs"][3][:3]), "document": ""}
        (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    return folder


@once
def serving():
    keep = tempfile.TemporaryDirectory()
    server = start(*(f"{served}={folder_write(pathlib.Path(keep.name) / served, name)}"
                     for name, served in {**EMBEDDERS, **RERANKERS}.items()), "--dtype", "float32")
    server.keep = keep
    return server


def words(ids):
    return "".join(f"w{i} " for i in ids)


def unit(vector):
    length = math.hypot(*vector)
    return [v / length for v in vector]


def check_vectors(answer, expected, model):
    assert answer.status == 200, answer.text
    got = [entry["embedding"] for entry in answer.json["data"]]
    worst = max(abs(a - b) for g, e in zip(got, expected, strict=True) for a, b in zip(g, unit(e), strict=True))
    assert worst < 1e-5, (model, worst)


def test_embeddings_of_each_encoder():
    for name, served in EMBEDDERS.items():
        model = golden(name)
        check_vectors(embed(serving(), [words(ids) for ids in model["inputs"]], model=served), model["expected"], name)
        check_vectors(embed(serving(), model["inputs"], model=served), model["expected"], name)


def test_prompts_precede_inputs():
    model = golden(PROMPTED)
    ids, expected = model["inputs"][3], model["expected"][3]
    rest = words(ids[3:])
    check_vectors(embed(serving(), rest, model=PROMPTED, prompt_name="query"), [expected], PROMPTED)
    check_vectors(embed(serving(), words(ids), model=PROMPTED, prompt_name="document"), [expected], PROMPTED)
    check_vectors(embed(serving(), rest, model=PROMPTED, prompt=words(ids[:3])), [expected], PROMPTED)


def test_scores_of_each_reranker():
    for name, served in RERANKERS.items():
        model = golden(name)
        cases = [(ids, want[0]) for ids, want in zip(model["inputs"], model["expected"])
                 if 7 <= len(ids) <= 40 and not ANSWERS.keys() & set(ids)]
        assert len(cases) >= 4, name
        for ids, want in cases[:6]:
            half = len(ids) // 2
            answer = rerank(serving(), words(ids[:half]), [words(ids[half:])], model=served, raw_scores=True)
            assert answer.status == 200, answer.text
            got = answer.json["results"][0]["relevance_score"]
            assert abs(got - want) < 1e-4 * max(1, abs(want)), (name, got, want)
