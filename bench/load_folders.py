#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes one Llama of random bytes as folders in bfloat16 and in quantised formats, for bench_load.

  bench/load_folders.py FOLDER [LAYERS]    writes FOLDER/bfloat16, FOLDER/fp8-block, ... (about 0.8 GB with 4 layers)

The codes are random; scales are one constant. The shape is that of a model with 1.1 billion parameters and 22 layers.
"""
import json
import pathlib
import random
import struct
import sys

HIDDEN, INNER, HEADS, KV, DIM, VOCAB = 2048, 5632, 16, 4, 128, 8192
BLOCK = 1 << 20
BYTES = {"BF16": 2, "F16": 2, "F32": 4, "I32": 4, "U8": 1, "I8": 1, "F8_E4M3": 1, "I64": 8}
SCALE = {"BF16": struct.pack("<H", 0x3C00), "F16": struct.pack("<H", 0x1C00), "F32": struct.pack("<f", 2 ** -8),
         "F8_E4M3": b"\x38", "U8": b"\x77"}


def modules(layers):
    """Yields name, rows and columns of each product."""
    for layer in range(layers):
        for name, n, k in (("self_attn.q_proj", HEADS * DIM, HIDDEN), ("self_attn.k_proj", KV * DIM, HIDDEN),
                           ("self_attn.v_proj", KV * DIM, HIDDEN), ("self_attn.o_proj", HIDDEN, HEADS * DIM),
                           ("mlp.gate_proj", INNER, HIDDEN), ("mlp.up_proj", INNER, HIDDEN),
                           ("mlp.down_proj", HIDDEN, INNER)):
            yield f"model.layers.{layer}.{name}", n, k


def order(k, size):
    """Returns the group of each column: neighbours are in different groups."""
    return struct.pack(f"<{k}i", *(i % (k // size) for i in range(k)))


# Tensors of a module in each format: tail, dtype, shape, and "codes" (random), "scales" or the bytes.
FORMATS = {
    "bfloat16": (None, lambda n, k: [(".weight", "BF16", [n, k], "codes")]),
    "fp8-block": ({"quant_method": "fp8", "weight_block_size": [128, 128]},
                  lambda n, k: [(".weight", "F8_E4M3", [n, k], "codes"),
                                (".weight_scale_inv", "F32", [-(-n // 128), -(-k // 128)], "scales")]),
    "awq": ({"quant_method": "awq", "bits": 4},
            lambda n, k: [(".qweight", "I32", [k, n // 8], "codes"), (".qzeros", "I32", [k // 128, n // 8], "codes"),
                          (".scales", "F16", [k // 128, n], "scales")]),
    "gptq": ({"quant_method": "gptq", "bits": 4},
             lambda n, k: [(".qweight", "I32", [k // 8, n], "codes"), (".qzeros", "I32", [k // 128, n // 8], "codes"),
                           (".scales", "F16", [k // 128, n], "scales")]),
    "gptq-order": ({"quant_method": "gptq", "bits": 4, "desc_act": True},
                   lambda n, k: [(".qweight", "I32", [k // 8, n], "codes"),
                                 (".qzeros", "I32", [k // 128, n // 8], "codes"),
                                 (".scales", "F16", [k // 128, n], "scales"), (".g_idx", "I32", [k], order(k, 128))]),
    "pack-4": ({"quant_method": "compressed-tensors", "format": "pack-quantized"},
               lambda n, k: [(".weight_packed", "I32", [n, k // 8], "codes"),
                             (".weight_scale", "BF16", [n, k // 128], "scales"),
                             (".weight_shape", "I64", [2], struct.pack("<2q", n, k))]),
    "int-8": ({"quant_method": "compressed-tensors", "format": "int-quantized"},
              lambda n, k: [(".weight", "I8", [n, k], "codes"), (".weight_scale", "BF16", [n, 1], "scales")]),
    "nvfp4": ({"quant_method": "modelopt", "quant_algo": "NVFP4"},
              lambda n, k: [(".weight", "U8", [n, k // 2], "codes"), (".weight_scale", "F8_E4M3", [n, k // 16], "scales"),
                            (".weight_scale_2", "F32", [], "scales")]),
    "mxfp4": ({"quant_method": "compressed-tensors", "format": "mxfp4-pack-quantized"},
              lambda n, k: [(".weight_packed", "U8", [n, k // 2], "codes"),
                            (".weight_scale", "U8", [n, k // 32], "scales")]),
    "bnb-nf4": ({"quant_method": "bitsandbytes", "load_in_4bit": True},
                lambda n, k: [(".weight", "U8", [n * k // 2, 1], "codes"),
                              (".weight.absmax", "F32", [n * k // 64], "scales"),
                              (".weight.quant_map", "F32", [16], struct.pack("<16f", *(i / 8 - 1 for i in range(16)))),
                              (".weight.quant_state.bitsandbytes__nf4", "U8",
                               None, json.dumps({"shape": [n, k], "blocksize": 64}).encode())]),
}


def folder_write(folder, keys, parts, layers):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": HIDDEN,
              "num_hidden_layers": layers, "num_attention_heads": HEADS, "num_key_value_heads": KV, "head_dim": DIM,
              "intermediate_size": INNER, "max_position_embeddings": 1024, "rms_norm_eps": 1e-5,
              "tie_word_embeddings": False}
    if keys:
        config["quantization_config"] = keys
    tensors = [(name, "BF16", shape, "scales") for name, shape in
               [("model.embed_tokens.weight", [VOCAB, HIDDEN]), ("lm_head.weight", [VOCAB, HIDDEN]),
                ("model.norm.weight", [HIDDEN])] +
               [(f"model.layers.{layer}.{name}.weight", [HIDDEN]) for layer in range(layers)
                for name in ("input_layernorm", "post_attention_layernorm")]]
    for base, n, k in modules(layers):
        tensors += [(base + tail, dtype, shape, content) for tail, dtype, shape, content in parts(n, k)]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    source, header, at = random.Random(1).randbytes(BLOCK), {}, 0
    for index, (name, dtype, shape, content) in enumerate(tensors):
        shape = [len(content)] if shape is None else shape
        size = BYTES[dtype]
        for side in shape:
            size *= side
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + size]}
        tensors[index], at = (dtype, content, size), at + size
    text = json.dumps(header).encode()
    # Random bfloat16 numbers of ordinary size: the exponent's high bits are fixed.
    halves = bytes(b & 0x81 | 0x3C if i % 2 else b for i, b in enumerate(source))
    # FP8 without NaN.
    eights = bytes(b & 0xBF for b in source)
    with open(folder / "model.safetensors", "wb") as out:
        out.write(struct.pack("<Q", len(text)) + text)
        for dtype, content, size in tensors:
            block = {"codes": {"BF16": halves, "F8_E4M3": eights}.get(dtype, source),
                     "scales": SCALE.get(dtype, b"") * (BLOCK // BYTES[dtype])}.get(content, content)
            while size > 0:
                out.write(block[:size])
                size -= min(size, len(block))


def main():
    layers = int(sys.argv[2]) if len(sys.argv) > 2 else 4
    for name, (keys, parts) in FORMATS.items():
        folder_write(pathlib.Path(sys.argv[1]) / name, keys, parts, layers)


if __name__ == "__main__":
    main()
