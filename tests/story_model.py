#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A small replacement for the model TinyStories-656K, for machines without the shared test data.

It has that model's shape (2 layers, 8 heads, 4 of K and V, 512 positions, SentencePiece-like pieces
with byte fallback) and generates stories according to a grammar of word classes. Random weights,
including attention over the entire text, choose the word of a class, so a wrong K or V, a wrong
position or a block of another row changes the output. Nothing is trained; every number comes from one
seed and the standard library.

  tests/story_model.py FOLDER      makes the model, with golden.json next to it
  tests/story_model.py --golden    recomputes tests/story_golden.json in double precision (needs numpy)
"""
import hashlib
import json
import math
import os
import pathlib
import random
import struct
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Extra data for tests: published models, tokenizers, templates and traces.
ASSETS = pathlib.Path(os.environ.get("WEFT_ASSETS") or "WEFT_ASSETS is not set").absolute()
sys.path.insert(0, str(HERE.parent / "tools"))
import demo_models  # noqa: E402

GOLDEN = HERE / "story_golden.json"
HIDDEN, FFN, LAYERS, HEADS, KV_HEADS, WINDOW, THETA, EPS = 128, 384, 2, 8, 4, 512, 10000.0, 1e-6
DIM = HIDDEN // HEADS
SPECIALS = ["<unk>", "<|start_story|>", "<|end_story|>"]
START, END = 1, 2
GRAMMAR = {  # class -> its pieces
    "upon": [" upon"], "once": [" Once"], "time": [" time", " day"], "comma": [","],
    "article": [" a", " the", " every"],
    "adjective": [" little", " big", " red", " small", " happy", " old", " kind", " sad"],
    "noun": [" girl", " boy", " dog", " cat", " bird", " tree", " ball", " house", " fish", " bear"],
    "named": [" named"], "name": [" Lily", " Tom", " Sam", " Spot", " Mia"],
    "verb": [" saw", " found", " loved", " wanted", " took", " liked", " lost"],
    "and": [" and"], "stop": ["."], "open": [" The", " One", " Every"], "pronoun": [" She", " They"],
}
NEXT = {  # class -> [(class, share)]
    "other": [("open", 1)], "once": [("upon", 1)], "upon": [("article", 1)],
    "time": [("comma", 1)], "comma": [("article", .6), ("name", .4)],
    "article": [("adjective", .5), ("noun", .5)], "adjective": [("noun", 1)],
    "noun": [("verb", .5), ("named", .05), ("and", .1), ("stop", .35)],
    "named": [("name", 1)], "name": [("verb", .6), ("and", .2), ("stop", .2)],
    "verb": [("article", 1)], "and": [("article", .7), ("name", .3)],
    "stop": [("open", .4), ("pronoun", .3), ("end", .3)],
    "open": [("adjective", .5), ("noun", .5)], "pronoun": [("verb", 1)],
}
MORE = """asked away ball dogs far has her is it jumps lazy lived needle over park quick ran room says
that there they this told upon very was went what where who wool""".split()
PROMPTS = ["Once upon a time", "One day, a little girl named Lily found a needle in her room.", "Zoo",
           "The dog was very", "Tom and Sam went to the park. They saw a big",
           '"What is that?" asked', "", "   three spaces", "Äpfel 😀 çé", "a\nb\tc"]
TOKENS = 48


def pieces():
    """Returns (vocabulary, merges, class of each id). Every word is a chain of merges from its left,
    so a text is split at spaces, and each part becomes its longest known prefix and single characters."""
    vocab = {s: i for i, s in enumerate(SPECIALS)}
    for byte in range(256):
        vocab[f"<0x{byte:02X}>"] = len(vocab)
    for c in ["▁"] + [chr(c) for c in range(33, 127)]:
        vocab[c] = len(vocab)
    merges, class_of = [], {}

    def add(word):
        left = word[0]
        for c in word[1:]:
            if left + c not in vocab:
                merges.append(f"{left} {c}")
                vocab[left + c] = len(vocab)
            left += c
        return vocab[left]

    for name, words in GRAMMAR.items():
        for word in words:
            class_of[add(word.replace(" ", "▁"))] = name
    for word in demo_models.STOP_WORDS + demo_models.WORDS + MORE:
        add("▁" + word)
    return vocab, merges, class_of


def encode(vocab, text):
    """Returns the ids of a text, without the merges: a space before the text, then the longest known
    prefix of each part."""
    ids, text = [START], ("▁" + text.replace(" ", "▁")) if text else ""
    at = 0
    while at < len(text):
        end = at + 1
        while text[at] == "▁" and end < len(text) and text[at:end + 1] in vocab:
            end += 1
        piece = text[at:end]
        ids += [vocab[piece]] if piece in vocab else [vocab[f"<0x{b:02X}>"] for b in piece.encode()]
        at = end
    return ids


def weights(vocab, class_of):
    rng = random.Random(12)
    size, classes = len(vocab), ["other", *GRAMMAR]
    index = {c: i for i, c in enumerate(classes)}
    first = len(classes)  # first dimension with random values
    group = {c: [t for t, k in class_of.items() if k == c] for c in classes}
    group["end"] = [END]
    embed, head = [], []
    for token in range(size):
        row = [0.0] * first + [rng.gauss(0, 0.2) for _ in range(HIDDEN - first)]
        row[index[class_of.get(token, "other")]] = 4.0
        embed += row
    for token in range(size):
        deviation = 0.5 if token in class_of or token == END else 0.05
        head.append([-4.0] * first + [rng.gauss(0, deviation) for _ in range(HIDDEN - first)])
    for before, follow in NEXT.items():
        for after, share in follow:
            for token in group[after]:
                head[token][index[before]] = math.log(share / len(group[after])) / 10

    def noise(rows, columns, deviation, keep=0):
        """Returns random values; the first `keep` rows are 0, so that the class dimensions keep their values."""
        return [rows, columns], [0.0] * (keep * columns) + [
            rng.gauss(0, deviation) for _ in range((rows - keep) * columns)]

    tensors = {"model.embed_tokens.weight": ([size, HIDDEN], embed)}
    for layer in range(LAYERS):
        p = f"model.layers.{layer}."
        tensors[p + "input_layernorm.weight"] = ([HIDDEN], [1.0] * HIDDEN)
        tensors[p + "self_attn.q_proj.weight"] = noise(HIDDEN, HIDDEN, 0.12)
        tensors[p + "self_attn.k_proj.weight"] = noise(KV_HEADS * DIM, HIDDEN, 0.12)
        tensors[p + "self_attn.v_proj.weight"] = noise(KV_HEADS * DIM, HIDDEN, 0.10)
        tensors[p + "self_attn.o_proj.weight"] = noise(HIDDEN, HIDDEN, 0.05, first)
        tensors[p + "post_attention_layernorm.weight"] = ([HIDDEN], [1.0] * HIDDEN)
        tensors[p + "mlp.gate_proj.weight"] = noise(FFN, HIDDEN, 0.06)
        tensors[p + "mlp.up_proj.weight"] = noise(FFN, HIDDEN, 0.06)
        tensors[p + "mlp.down_proj.weight"] = noise(HIDDEN, FFN, 0.03, first)
    tensors["model.norm.weight"] = ([HIDDEN], [1.0] * HIDDEN)
    tensors["lm_head.weight"] = ([size, HIDDEN], sum(head, []))
    return tensors


def special(token):
    return {"id": token, "content": SPECIALS[token], "single_word": False, "lstrip": False,
            "rstrip": False, "normalized": True, "special": True}


def folder_of(path):
    vocab, merges, class_of = pieces()
    folder = demo_models.Folder(path)
    folder.tensors(weights(vocab, class_of), "F32")
    folder.json("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "float32",
        "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": LAYERS,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "hidden_act": "silu",
        "max_position_embeddings": WINDOW, "rms_norm_eps": EPS, "rope_theta": THETA,
        "vocab_size": len(vocab), "bos_token_id": START, "eos_token_id": END,
        "tie_word_embeddings": False})
    folder.json("generation_config.json", {"bos_token_id": START, "eos_token_id": END})
    bos = {"SpecialToken": {"id": SPECIALS[START], "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    folder.json("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [special(token) for token in range(len(SPECIALS))],
        "normalizer": {"type": "Sequence", "normalizers": [
            {"type": "Prepend", "prepend": "▁"},
            {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
        "pre_tokenizer": None,
        "post_processor": {
            "type": "TemplateProcessing", "single": [bos, text],
            "pair": [bos, text, bos, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {SPECIALS[START]: {"id": SPECIALS[START], "ids": [START],
                                                 "tokens": [SPECIALS[START]]}}},
        "decoder": {"type": "Sequence", "decoders": [
            {"type": "Replace", "pattern": {"String": "▁"}, "content": " "},
            {"type": "ByteFallback"}, {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
        "model": {"type": "BPE", "dropout": None, "unk_token": "<unk>",
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": True,
                  "byte_fallback": True, "vocab": vocab, "merges": merges}})
    folder.json("tokenizer_config.json", {
        "add_bos_token": True, "add_eos_token": False, "bos_token": SPECIALS[START],
        "eos_token": SPECIALS[END], "unk_token": SPECIALS[0], "legacy": False,
        "clean_up_tokenization_spaces": False, "tokenizer_class": "LlamaTokenizer"})
    return folder


def digest(folder):
    total = hashlib.sha256()
    for name in sorted(folder.files):
        total.update(name.encode() + folder.files[name])
    return total.hexdigest()


def make(path):
    """Makes the folder with one rename, because several tests may make it at the same time."""
    path = pathlib.Path(path)
    folder = folder_of(str(path) + f".{os.getpid()}")
    golden = GOLDEN.read_bytes()
    if json.loads(golden)["sha256"] != digest(folder):
        raise SystemExit("tests/story_golden.json belongs to another model: make it anew with "
                         "tests/story_model.py --golden")
    folder.files["golden.json"] = golden
    folder.write()
    try:
        os.rename(folder.path, path)
    except OSError:  # another process made it first
        for name in folder.files:
            os.unlink(os.path.join(folder.path, name))
        os.rmdir(folder.path)


def stories(beside):
    """Returns the folder of TinyStories-656K in WEFT_ASSETS (WEFT_STORY=made ignores it), otherwise
    that of the replacement, which is made in the folder `beside`."""
    real = ASSETS / "decoder/tinystories-656k"
    if (real / "model.safetensors").exists() and os.environ.get("WEFT_STORY") != "made":
        return real
    made = pathlib.Path(beside) / f"story-{hashlib.sha256(GOLDEN.read_bytes()).hexdigest()[:12]}"
    if not made.exists():
        make(made)
    return made


# ---- the independent forward ---------------------------------------------------------------------

def forward(np, t, ids):
    """Returns the logits of the last position in double precision."""
    def norm(x):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS)

    def rope(x):  # [positions, heads, DIM]
        angle = np.arange(len(ids))[:, None] / THETA ** (np.arange(0, DIM, 2) / DIM)[None, :]
        cos, sin = np.cos(angle)[:, None, :], np.sin(angle)[:, None, :]
        a, b = x[..., :DIM // 2], x[..., DIM // 2:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    x = t["model.embed_tokens.weight"][ids]
    count = len(ids)
    mask = np.triu(np.full((count, count), -np.inf), 1)
    for layer in range(LAYERS):
        def w(name, layer=layer):
            return t[f"model.layers.{layer}.{name}.weight"]
        y = norm(x)
        q = rope((y @ w("self_attn.q_proj").T).reshape(count, HEADS, DIM))
        k = rope((y @ w("self_attn.k_proj").T).reshape(count, KV_HEADS, DIM))
        v = (y @ w("self_attn.v_proj").T).reshape(count, KV_HEADS, DIM)
        out = []
        for h in range(HEADS):
            s = q[:, h] @ k[:, h // (HEADS // KV_HEADS)].T / math.sqrt(DIM) + mask
            p = np.exp(s - s.max(-1, keepdims=True))
            out.append(p / p.sum(-1, keepdims=True) @ v[:, h // (HEADS // KV_HEADS)])
        x = x + np.concatenate(out, -1) @ w("self_attn.o_proj").T
        y = norm(x)
        gate = y @ w("mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
    return norm(x[-1]) @ t["lm_head.weight"].T


def golden():
    import numpy as np
    vocab, _, class_of = pieces()
    folder = folder_of("")
    raw = folder.files["model.safetensors"]
    head = struct.unpack("<Q", raw[:8])[0]
    t = {}
    for name, at in json.loads(raw[8:8 + head]).items():
        if name != "__metadata__":
            begin, end = (8 + head + n for n in at["data_offsets"])
            t[name] = np.frombuffer(raw[begin:end], "<f4").astype(np.float64).reshape(at["shape"])
    names = {i: p for p, i in vocab.items()}
    cases = []
    for prompt in PROMPTS:
        ids = encode(vocab, prompt)
        out, gaps, top = [], [], 0.0
        while len(out) < TOKENS and END not in out:
            logits = forward(np, t, ids + out)
            best = np.argsort(-logits)[:2]
            gaps.append(round(float(logits[best[0]] - logits[best[1]]), 3))
            top = max(top, float(logits[best[0]]))
            out.append(int(best[0]))
        print(repr(prompt), "".join(names[i] for i in out).replace("▁", " "), min(gaps), round(top, 1))
        cases.append({"prompt": prompt, "input_ids": ids, "greedy_ids": out,
                      "greedy_min_top1_top2_gap": min(gaps), "gaps": gaps})
    lines = ",\n".join("  " + json.dumps(c, ensure_ascii=False) for c in cases)
    GOLDEN.write_text('{\n "note": "tests/story_model.py --golden: greedy runs in double, and how far '
                      'the two best logits of each position are apart",\n'
                      f' "sha256": "{digest(folder)}",\n "eos": {END},\n "cases": [\n{lines}\n ]\n}}\n')


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    golden() if sys.argv[1] == "--golden" else make(sys.argv[1])
