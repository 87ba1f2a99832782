#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a GGUF file with the shape and the formats of a published model, but random weights.

    bench/gguf_shapes.py SHAPE Q4_K_M|Q4_0|Q8_0|BF16 FILE     (needs gguf and numpy)

SHAPE is llama-3.2-3b, qwen2.5-0.5b, smollm2-135m, the embedder bge-small (only Q8_0 and BF16), or mixture-1b,
a mixture of experts that is not published: 64 experts of 512 columns, 8 of a token, 0.9 B parameters.

Each tensor has the format that llama.cpp's quantizer selects for it: Q4_K_M stores some layers' value and
down projections and the tied table in Q6_K, Q4_0 the table in Q6_K; a tensor whose width is no multiple of 256
gets Q5_0 for Q4_K and Q8_0 for Q6_K. Q8_0 and BF16 are the format of all matrices. Blocks are random bytes with scales that give elements a standard
deviation of 0.03, so speed, memory and time to load are those of the published model, and its text means
nothing. Tokens are bytes and words that stand for themselves.
"""
import sys

import gguf
import numpy as np

KINDS = gguf.GGMLQuantizationType
SHAPES = {  # family, vocabulary, hidden, layers, heads, KV heads, head width, feed forward, positions, base, pre
    "llama-3.2-3b": ("llama", 128256, 3072, 28, 24, 8, 128, 8192, 131072, 500000.0, "llama-bpe"),
    "qwen2.5-0.5b": ("qwen2", 151936, 896, 24, 14, 2, 64, 4864, 32768, 1000000.0, "qwen2"),
    "smollm2-135m": ("llama", 49152, 576, 30, 9, 3, 64, 1536, 8192, 100000.0, "smollm"),
    "mixture-1b": ("qwen3moe", 49152, 1024, 8, 16, 4, 64, 2048, 32768, 1000000.0, "qwen2"),
    "bge-small": ("bert", 30522, 384, 12, 12, 12, 32, 1536, 512, 10000.0, None),
}
EXPERTS, CHOSEN, WIDTH = 64, 8, 512  # of mixture-1b
# Offsets of the float16 values of a block, with the value for elements of standard deviation 1.
HALVES = {
    KINDS.Q4_0: ((0, 1 / 4.6),),
    KINDS.Q5_0: ((0, 1 / 9.2),),
    KINDS.Q8_0: ((0, 1 / 74),),
    KINDS.Q4_K: ((0, 1 / 258), (2, 7.5 / 258)),
    KINDS.Q6_K: ((208, 1 / 342),),
}
DEVIATION = 0.03
FILE_TYPES = {"Q4_K_M": 15, "Q4_0": 2, "Q8_0": 7, "BF16": 32}


def more_bits(layer, layers):
    return layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2


def kind_of(name, layer, layers, cols, scheme):
    if scheme in ("Q8_0", "BF16"):
        return KINDS[scheme]
    better = name == "token_embd" or scheme == "Q4_K_M" and name in ("attn_v", "ffn_down", "ffn_down_exps") and more_bits(layer, layers)
    kind = KINDS.Q6_K if better else KINDS.Q4_K if scheme == "Q4_K_M" else KINDS.Q4_0
    if cols % 256 != 0:
        kind = {KINDS.Q4_K: KINDS.Q5_0, KINDS.Q6_K: KINDS.Q8_0}.get(kind, kind)
    return kind


def blocks_of(kind, rows, cols, random):
    if kind == KINDS.BF16:  # the upper half of a float32
        values = random.standard_normal((rows, cols), np.float32) * np.float32(DEVIATION)
        return (values.view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = np.frombuffer(bytearray(random.bytes(rows * cols // elements * size)), np.uint8).reshape(-1, size)
    if kind == KINDS.Q6_K:  # scales of groups from -32 to 31, so that the block's scale is a normal float16
        blocks[:, 192:208] = (blocks[:, 192:208].view(np.int8) >> 2).view(np.uint8)
    for at, value in HALVES[kind]:
        half = np.array([DEVIATION * value], np.float16)
        blocks[:, at:at + 2] = half.view(np.uint8)
    return blocks.reshape(rows, cols // elements * size)


def byte_tokens():
    """Returns the 256 characters that stand for bytes in vocabularies of this kind."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    chars = {b: chr(b) for b in plain} | {b: chr(256 + i) for i, b in enumerate(rest)}
    return [chars[b] for b in range(256)]


def words_put(out, vocab):
    """Writes a WordPiece vocabulary: letters and digits begin or continue a word; other tokens are fillers."""
    chars = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *("\u2581" + c for c in chars), *chars]
    tokens += [f"\u2581w{i}" for i in range(len(tokens), vocab)]
    out.add_tokenizer_model("bert")
    out.add_tokenizer_pre("default")
    out.add_token_list(tokens)
    out.add_token_types([3] * 5 + [1] * (vocab - 5))
    out.add_token_type_count(2)
    out.add_pad_token_id(0)
    out.add_unk_token_id(1)
    out.add_sep_token_id(3)
    out.add_mask_token_id(4)
    out.add_bos_token_id(2)
    out.add_eos_token_id(3)


def bytes_put(out, vocab, pre):
    """Writes a byte-level BPE vocabulary and a chat template."""
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre(pre)
    tokens = byte_tokens() + ["ab", "cd"]
    tokens += [f"w{i}" for i in range(len(tokens), vocab - 2)] + ["<|begin|>", "<|end|>"]
    out.add_token_list(tokens)
    out.add_token_types([1] * (vocab - 2) + [3, 3])
    out.add_token_merges(["a b", "c d"])
    out.add_bos_token_id(vocab - 2)
    out.add_eos_token_id(vocab - 1)
    out.add_chat_template("{% for m in messages %}{{ m.content }}{% endfor %}")


def keys_write(out, shape):
    family, vocab, hidden, layers, heads, kv, dim, ffn, positions, base, pre = shape
    out.add_context_length(positions)
    out.add_embedding_length(hidden)
    out.add_block_count(layers)
    out.add_feed_forward_length(ffn)
    out.add_head_count(heads)
    if family == "bert":
        out.add_layer_norm_eps(1e-12)
        out.add_causal_attention(False)
        out.add_pooling_type(gguf.PoolingType.MEAN)
        out.add_vocab_size(vocab)
        words_put(out, vocab)
        return
    out.add_head_count_kv(kv)
    out.add_key_length(dim)
    out.add_value_length(dim)
    out.add_rope_dimension_count(dim)
    out.add_layer_norm_rms_eps(1e-5)
    out.add_rope_freq_base(base)
    if family == "qwen3moe":
        out.add_expert_count(EXPERTS)
        out.add_expert_used_count(CHOSEN)
        out.add_expert_feed_forward_length(WIDTH)
    out.add_vocab_size(vocab)
    bytes_put(out, vocab, pre)


def tensors_put(out, shape, scheme):
    family, vocab, hidden, layers, heads, kv, dim, ffn, positions = shape[:9]
    bert = family == "bert"
    random = np.random.default_rng(1)
    matrices = {"attn_q": (heads * dim, hidden), "attn_k": (kv * dim, hidden), "attn_v": (kv * dim, hidden),
                "attn_output": (hidden, heads * dim), "ffn_gate": (ffn, hidden), "ffn_up": (ffn, hidden),
                "ffn_down": (hidden, ffn)}
    if bert:
        del matrices["ffn_gate"]
    mixture = family == "qwen3moe"
    if mixture:
        for name, size in (("gate", (WIDTH, hidden)), ("up", (WIDTH, hidden)), ("down", (hidden, WIDTH))):
            del matrices[f"ffn_{name}"]
            matrices[f"ffn_{name}_exps"] = size
    biased = matrices if bert else ("attn_q", "attn_k", "attn_v") if family == "qwen2" else ()

    def add(prefix, name, layer, rows, cols):
        kind = kind_of(name, layer, layers, cols, scheme)
        count = EXPERTS if name.endswith("_exps") else 1
        blocks = blocks_of(kind, count * rows, cols, random)
        out.add_tensor(f"{prefix}{name}.weight", blocks.reshape(count, rows, -1) if count > 1 else blocks, raw_dtype=kind)

    def norm(name):
        out.add_tensor(name + ".weight", np.ones(hidden, np.float32))
        if bert:
            out.add_tensor(name + ".bias", np.zeros(hidden, np.float32))

    add("", "token_embd", 0, vocab, hidden)
    if bert:
        for name, rows in (("position_embd", positions), ("token_types", 2)):
            table = random.standard_normal((rows, hidden), np.float32) * np.float32(DEVIATION)
            out.add_tensor(f"{name}.weight", table)
    norm("token_embd_norm" if bert else "output_norm")
    for layer in range(layers):
        prefix = f"blk.{layer}."
        norm(prefix + ("attn_output_norm" if bert else "attn_norm"))
        norm(prefix + ("layer_output_norm" if bert else "ffn_norm"))
        if mixture:
            router = random.standard_normal((EXPERTS, hidden), np.float32) * np.float32(DEVIATION)
            out.add_tensor(f"{prefix}ffn_gate_inp.weight", router)
            for name in "qk":
                out.add_tensor(f"{prefix}attn_{name}_norm.weight", np.ones(dim, np.float32))
        for name, (rows, cols) in matrices.items():
            add(prefix, name, layer, rows, cols)
            if name in biased:
                out.add_tensor(f"{prefix}{name}.bias", np.zeros(rows, np.float32))


def main():
    if len(sys.argv) != 4 or sys.argv[1] not in SHAPES or sys.argv[2] not in FILE_TYPES:
        sys.exit(__doc__)
    shape, scheme = SHAPES[sys.argv[1]], sys.argv[2]
    if shape[0] == "bert" and scheme not in ("Q8_0", "BF16"):
        sys.exit(__doc__)
    out = gguf.GGUFWriter(sys.argv[3], shape[0], use_temp_file=True)
    out.add_file_type(FILE_TYPES[scheme])
    out.add_quantization_version(2)
    keys_write(out, shape)
    tensors_put(out, shape, scheme)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main()
