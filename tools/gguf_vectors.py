#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/runtime/gguf_vectors.json: random blocks of each quantised type of GGUF and the float32
elements that the reference (gguf.quants of PyPI's gguf) computes from them, both in hexadecimal. Also
writes small complete files with the reference's writer: the corpus of fuzz_gguf, which test_gguf opens.

Usage: python tools/gguf_vectors.py   (needs gguf and numpy; run from the root)
"""
import json

import gguf
import numpy as np

BLOCKS = 3
TYPES = "Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q4_K Q5_K Q6_K Q2_K Q3_K IQ4_NL IQ4_XS MXFP4".split()
HALVES = {"Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q4_K": [0, 2],
          "Q5_K": [0, 2], "Q6_K": [208], "Q2_K": [80, 82], "Q3_K": [108], "IQ4_NL": [0], "IQ4_XS": [0],
          "MXFP4": []}


def model(path, family, kind, random):
    """Writes a model of one layer whose tensors alternate between the types with 32 elements per block."""
    out = gguf.GGUFWriter(path, family)
    width, vocab, bert = 32, 40, family == "bert"
    out.add_context_length(64)
    out.add_embedding_length(width)
    out.add_block_count(1)
    out.add_feed_forward_length(width)
    out.add_head_count(2)
    if bert:
        out.add_layer_norm_eps(1e-12)
        out.add_pooling_type(gguf.PoolingType.MEAN)
    else:
        out.add_head_count_kv(1)
        out.add_layer_norm_rms_eps(1e-5)
        out.add_rope_freq_base(10000.0)
    out.add_tokenizer_model(kind)
    tokens = [chr(97 + i) for i in range(26)] + ["ab", "cd"] + [f"<{i}>" for i in range(28, vocab)]
    out.add_token_list(tokens)
    out.add_token_types([1] * 28 + [3] * (vocab - 28))
    if kind == "gpt2":
        out.add_tokenizer_pre("smollm")
        out.add_token_merges(["a b", "c d"])
    if kind == "llama":
        out.add_token_scores([-float(i) for i in range(vocab)])
    if bert:
        out.add_uint32("tokenizer.ggml.cls_token_id", 30)  # without a method of its own in newer versions
        out.add_sep_token_id(31)
    out.add_bos_token_id(30)
    out.add_eos_token_id(31)
    out.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")
    types = "F16 BF16 Q8_0 Q4_0 Q4_1 Q5_0 Q5_1 F32".split()
    shapes = {"token_embd": (vocab, width), "blk.0.attn_q": (width, width),
              "blk.0.attn_k": (width if bert else 16, width),
              "blk.0.attn_v": (width if bert else 16, width), "blk.0.attn_output": (width, width),
              "blk.0.ffn_up": (width, width), "blk.0.ffn_down": (width, width)}
    if bert:
        shapes.update(position_embd=(64, width), token_types=(2, width))
        norms = ["token_embd_norm", "blk.0.attn_output_norm", "blk.0.layer_output_norm"]
        norms += ["blk.0.attn_q", "blk.0.attn_k", "blk.0.attn_v", "blk.0.attn_output",
                  "blk.0.ffn_up", "blk.0.ffn_down"]
        biases = norms
        norms = norms[:3]
    else:
        shapes["blk.0.ffn_gate"] = (width, width)
        norms, biases = ["blk.0.attn_norm", "blk.0.ffn_norm", "output_norm"], []
    for name in norms:
        out.add_tensor(name + ".weight", np.ones(width, dtype=np.float32))
    for name in biases:
        out.add_tensor(name + ".bias", np.zeros(width, dtype=np.float32))
    for i, (name, shape) in enumerate(shapes.items()):
        values = random.normal(0, 0.1, shape).astype(np.float32)
        kind = gguf.GGMLQuantizationType[types[i % len(types)]]
        out.add_tensor(name + ".weight", gguf.quants.quantize(values, kind), raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def main():
    random = np.random.default_rng(20261123)
    out = {}
    for name in TYPES:
        if name == "Q2_K":  # the types after it leave the bytes of the files below unchanged
            files, random = random, np.random.default_rng(20261129)
        kind = gguf.GGMLQuantizationType[name]
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        blocks = random.integers(0, 256, (BLOCKS, size), dtype=np.uint8)
        for at in HALVES[name]:  # scales are finite, as in models
            halves = random.normal(0, 0.02, BLOCKS).astype(np.float16)
            blocks[:, at:at + 2] = halves.view(np.uint8).reshape(BLOCKS, 2)
        if name == "MXFP4":  # exponents, the first two of denormal scales
            blocks[:, 0] = [0, 1, 122]
        values = gguf.quants.dequantize(blocks.reshape(-1), kind).astype(np.float32)
        assert values.size == BLOCKS * elements and np.isfinite(values).all()
        out[name] = {"type": int(kind), "halves": HALVES[name], "blocks": blocks.tobytes().hex(),
                     "values": values.tobytes().hex()}
    with open("tests/runtime/gguf_vectors.json", "w", encoding="utf-8") as file:
        json.dump(out, file, indent=1)
        file.write("\n")
    for name, family, kind in (("llama", "llama", "gpt2"), ("scores", "llama", "llama"),
                               ("bert", "bert", "bert")):
        model(f"tests/fuzz/corpus/gguf/{name}", family, kind, files)


if __name__ == "__main__":
    main()
