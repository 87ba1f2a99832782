#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates tests/golden/codes/*.json: the outputs of transformers for small models whose matrices are blocks of
GGUF's quantised formats. The widths are multiples of 256, so that Q4_K, Q5_K and Q6_K are possible.

No weights are stored. Byte i of the blocks of tensor t is the top 8 bits of splitmix64(seed + t * 2^32 + i), except
that the high byte of each float16 scale and minimum is as the file's `halves` says (see HALVES). tests/runtime/gguf_rig.c generates the same bytes. PyPI's gguf computes the
elements, in the order of llama.cpp's converter, and transformers computes with them in float64.

A file contains what those of tools/golden.py contain; an entry of `tensors` with blocks also has the number of its
format. rounded_error is the relative Frobenius error of the same model if the inputs of all products are rounded to
int8 in groups of 32, the arithmetic that kernels/cpu/codes.h defines.

Usage: python tools/golden_codes.py [--files FOLDER] [NAME...]   (needs torch, transformers and gguf; run from the root)

--files FOLDER also writes each model as FOLDER/NAME.gguf, with a vocabulary of words, for other programs.
"""
import argparse
import json
import os

import gguf
import numpy as np
import torch
import transformers

VOCAB, HIDDEN, LAYERS, HEADS, KV, INNER, LENGTHS = 256, 256, 2, 4, 2, 512, [1, 7, 33, 60]
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "codes")
KINDS = gguf.GGMLQuantizationType
# For each float16 of a block: its offset, and of its high byte (sign, exponent, two bits of the mantissa) the bits that
# stay random and those that are set. Elements then have a mean near 0 and a deviation near 0.06.
HALVES = {"Q4_0": [[0, 0x83, 8 << 2]], "Q4_1": [[0, 3, 8 << 2], [2, 0, 0x81 | 11 << 2]], "Q5_0": [[0, 0x83, 7 << 2]],
          "Q5_1": [[0, 3, 7 << 2], [2, 3, 0x80 | 11 << 2]], "Q8_0": [[0, 0x83, 4 << 2]],
          "Q4_K": [[0, 3, 2 << 2], [2, 0, 1 | 5 << 2]], "Q5_K": [[0, 3, 1 << 2], [2, 3, 5 << 2]],
          "Q6_K": [[208, 0x83, 0]],
          "MXFP4": [[-1, 1, 0x78]]}  # its scale is byte 0, an exponent
MODELS = {name.lower().replace("_", "-"): {"": name} for name in HALVES}
# The mixture of Q4_K_M: v and down projections of some layers, the table and the head in Q6_K.
MODELS["q4-k-m"] = {"": "Q4_K", "layers.1.self_attn.v_proj": "Q6_K", "layers.1.mlp.down_proj": "Q6_K",
                    "embed_tokens": "Q6_K", "lm_head": "Q6_K"}
NAMES = {"model.embed_tokens.": "token_embd.", "model.norm.": "output_norm.", "lm_head.": "output.",
         "self_attn.q_proj.": "attn_q.", "self_attn.k_proj.": "attn_k.", "self_attn.v_proj.": "attn_v.",
         "self_attn.o_proj.": "attn_output.", "input_layernorm.": "attn_norm.",
         "post_attention_layernorm.": "ffn_norm.", "mlp.gate_proj.": "ffn_gate.", "mlp.up_proj.": "ffn_up.",
         "mlp.down_proj.": "ffn_down.", "model.layers.": "blk."}


def noise(seed, tensor, count):
    """Returns splitmix64(seed + tensor * 2^32 + i) for i below count."""
    z = np.arange(count, dtype=np.uint64) + np.uint64(seed + (tensor << 32))
    with np.errstate(over="ignore"):
        z = (z + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def blocks_of(seed, index, kind, rows, cols):
    elements, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = (noise(seed, index, rows * cols // elements * size) >> np.uint64(56)).astype(np.uint8).reshape(-1, size)
    for at, random, fixed in HALVES[kind.name]:
        blocks[:, at + 1] = blocks[:, at + 1] & random | fixed
    return blocks.reshape(rows, -1)


def rows_of_model(values, heads):
    """Returns q's or k's rows in transformers' order: a GGUF file has the two rows of a rotary pair together."""
    rows, cols = values.shape
    return values.reshape(heads, rows // heads // 2, 2, cols).swapaxes(1, 2).reshape(rows, cols)


def rounded(x):
    """Rounds to int8 in groups of 32 with the scale max |x| / 127."""
    groups = x.reshape(-1, 32)
    scale = groups.abs().amax(1, keepdim=True) / 127
    return (torch.round(groups / scale.clamp(min=1e-300)) * scale).reshape(x.shape)


@torch.no_grad()
def outputs(model, inputs):
    return np.array([model(input_ids=torch.tensor([ids])).logits[0, -1].tolist() for ids in inputs])


def file_write(path, config, tensors):
    out = gguf.GGUFWriter(path, "llama")
    out.add_context_length(config.max_position_embeddings)
    out.add_embedding_length(HIDDEN)
    out.add_block_count(LAYERS)
    out.add_feed_forward_length(INNER)
    out.add_head_count(HEADS)
    out.add_head_count_kv(KV)
    out.add_layer_norm_rms_eps(config.rms_norm_eps)
    out.add_rope_freq_base(config.rope_theta)
    out.add_rope_dimension_count(HIDDEN // HEADS)
    out.add_tokenizer_model("gpt2")
    out.add_tokenizer_pre("smollm")
    out.add_token_list([f"w{i}" for i in range(VOCAB)])
    out.add_token_types([1] * VOCAB)
    out.add_token_merges(["w 0"])
    out.add_bos_token_id(1)
    out.add_eos_token_id(2)
    for name, data, kind in tensors:
        for old, new in NAMES.items():
            name = name.replace(old, new)
        out.add_tensor(name, data, raw_dtype=kind)
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


def make(name, formats, files):
    seed = sum(ord(c) << (i % 24) for i, c in enumerate(name)) + 1
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB,
              "hidden_size": HIDDEN, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
              "num_key_value_heads": KV, "intermediate_size": INNER, "max_position_embeddings": 64,
              "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}
    inputs = [np.random.default_rng(seed).integers(3, VOCAB, n).tolist() for n in LENGTHS]
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**config)).double().eval()
    entries, written = [], []
    with torch.no_grad():
        for index, (key, tensor) in enumerate(sorted(model.state_dict().items())):
            shape = list(tensor.shape)
            if len(shape) == 1:
                values = 1 + ((noise(seed, index, shape[0]) >> np.uint64(57)).astype(np.int64) - 64) / 128
                entries.append([key, shape, -1])
                written.append((key, values.astype(np.float32), None))
            else:
                kind = KINDS[[value for part, value in formats.items() if part in key][-1]]
                blocks = blocks_of(seed, index, kind, *shape)
                values = gguf.quants.dequantize(blocks, kind).astype(np.float64)
                if "q_proj" in key or "k_proj" in key:
                    values = rows_of_model(values, HEADS if "q_proj" in key else KV)
                entries.append([key, shape, 0, int(kind)])
                written.append((key, blocks, kind))
            tensor.copy_(torch.from_numpy(values))
    expected = outputs(model, inputs)
    for module in model.modules():
        if isinstance(module, torch.nn.Linear):
            module.register_forward_pre_hook(lambda _, args: (rounded(args[0]),))
    rough = outputs(model, inputs)
    golden = {"config": config, "seed": seed, "tensors": entries, "inputs": inputs,
              "halves": {str(int(KINDS[kind])): HALVES[kind] for kind in set(formats.values())},
              "rounded_error": float(f"{np.linalg.norm(rough - expected) / np.linalg.norm(expected):.4g}"),
              "expected": [[float(f"{x:.7g}") for x in row] for row in expected]}
    path = os.path.join(OUT, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    if files:
        file_write(os.path.join(files, name + ".gguf"), model.config, written)
    print(f"{name}: logits of deviation {expected.std():.3g}, error with rounded inputs {golden['rounded_error']:.2e}, "
          f"{os.path.getsize(path)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--files")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    for name in args.names or MODELS:
        make(name, MODELS[name], args.files)


if __name__ == "__main__":
    main()
