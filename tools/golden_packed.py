#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates tests/golden/packed/*.json: small models whose matrices are codes with scales, in the layout of each
quantised format of safetensors folders, and the outputs of transformers on the dequantised weights.

No weights are stored. Element i of tensor t is the top bits of splitmix64(seed + t * 2^32 + i), masked: `and` and `or`
keep scales positive and of a fixed size. tests/runtime/packed_rig.c generates the same bytes. numpy computes the
elements from the documented layout as (code - zero) * scale in float32; `weights` has a hash of each matrix. With
--check, the library that writes the format dequantises the same bytes, and the results must be equal.

Usage: python tools/golden_packed.py [--check] [NAME...]   (needs torch, transformers and safetensors; --check also
gptqmodel, compressed-tensors and bitsandbytes; run from the root)
"""
import argparse
import json
import os
import pathlib
import shutil
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import save_file

from golden import splitmix

HIDDEN, HEADS, KV, DIM, VOCAB, LENGTHS = 128, 4, 2, 32, 64, [1, 9]
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "golden", "packed")
TYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "F8_E4M3": torch.float8_e4m3fn,
         "U8": torch.uint8, "I8": torch.int8, "I32": torch.int32, "I64": torch.int64}
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, -0., -.5, -1, -1.5, -2, -3, -4, -6], np.float32)
AWQ = [0, 4, 1, 5, 2, 6, 3, 7]  # nibble of each of eight outputs
# Masks: the exponent is fixed, the rest random.
F32, F16, BF16 = ("F32", 0x007FFFFF, 121 << 23), ("F16", 0x03FF, 9 << 10), ("BF16", 0x007F, 121 << 7)
ANY = 0xFFFFFFFF


def tensor_of(seed, index, dtype, shape, *content):
    """Returns the torch tensor: content is a list of values, or two masks."""
    kind = TYPES[dtype]
    if len(content) == 1:
        return torch.tensor(content[0], dtype=kind).reshape(shape)
    bits = 8 * torch.empty((), dtype=kind).element_size()
    keep, add = content
    raw = splitmix(seed, index, int(np.prod(shape, dtype=np.int64))) >> np.uint64(64 - bits)
    raw = (raw & np.uint64(keep) | np.uint64(add)).astype(f"uint{bits}")
    return torch.from_numpy(raw.view(f"int{bits}").copy()).view(kind).reshape(shape)


def floats(tensor):
    return tensor.to(torch.float32).numpy()


def fields(words, bits, count, axis):
    """Returns `count` codes that are packed along an axis, lowest bits first and without gaps."""
    words = np.moveaxis(words.numpy().view(np.uint32), axis, -1)
    every = (words[..., None] >> np.arange(32, dtype=np.uint32) & 1).reshape(*words.shape[:-1], -1)
    every = every[..., :count * bits].reshape(*words.shape[:-1], count, bits)
    return np.moveaxis((every << np.arange(bits, dtype=np.uint32)).sum(-1).astype(np.int64), -1, axis)


def nibbles(data, high_first=False):
    """Returns the codes of bytes, two of each."""
    pair = [data.numpy() & 15, data.numpy() >> 4]
    return np.stack(pair[::-1] if high_first else pair, -1).reshape(data.shape[0], -1)


def groups_of(k, size, order):
    """Returns the group of each input; order: a seed of a permutation, or None."""
    groups = np.arange(k) // size
    return groups if order is None else np.random.default_rng(order).permutation(groups)


class Fp8:
    def __init__(self, scale, shape, library, more=()):
        self.scale, self.shape, self.library, self.more = scale, shape, library, more

    def parts(self, name, n, k):
        shape = {"tensor": [], "row": [n, 1], "block": [-(-n // 128), -(-k // 128)]}[self.shape]
        kind, keep, add = F32 if self.shape != "row" else BF16
        add += 3 << (23 if kind == "F32" else 7)
        made = {".weight": ["F8_E4M3", [n, k], 0xBF, 0], self.scale: [kind, shape, keep, add]}
        for tail in self.more:
            made[tail] = ["F32", [], keep, add]
        if "k_proj" in name and ".input_scale" in self.more:
            made[".k_scale"] = ["F32", [], keep, add]
        return made

    def weight(self, t, n, k):
        scale = floats(t[self.scale])
        if self.shape == "block":
            scale = np.repeat(np.repeat(scale, 128, 0), 128, 1)[:n, :k]
        return floats(t[".weight"]) * scale


def gptqmodel_awq(key, tensors):
    """Returns the weight that gptqmodel makes of AWQ's tensors; its scales stay float32."""
    from gptqmodel.quantization.awq.utils.packing_utils import dequantize_gemm
    codes, zeros, scales = (tensors[key.removesuffix("weight") + part] for part in ("qweight", "qzeros", "scales"))
    return dequantize_gemm(codes, zeros, scales.float(), 4, codes.shape[0] // scales.shape[0]).T.contiguous().numpy()


class Columns:
    """AWQ and GPTQ: codes [columns][rows]."""

    def __init__(self, bits, size, awq=False, full=False, order=None, even=False, scale=F16):
        self.bits, self.size, self.awq, self.order, self.even, self.scale = bits, size, awq, order, even, scale
        self.add, self.library = 0 if awq or full else 1, gptqmodel_awq if awq else "gptqmodel"

    def parts(self, name, n, k):
        groups = k // self.size
        kind, keep, add = self.scale
        words = [[k, n // 8], [groups, n // 8]] if self.awq else [[k * self.bits // 32, n], [groups, n * self.bits // 32]]
        made = {".qweight": ["I32", words[0], ANY, 0], ".scales": [kind, [groups, n], keep, add],
                ".qzeros": ["I32", words[1], 0 if self.even else ANY, 7 * 0x11111111 if self.even else 0]}
        if not self.awq:
            made[".g_idx"] = ["I32", [k], groups_of(k, self.size, self.order).tolist()]
        return made

    def weight(self, t, n, k):
        if self.awq:
            at = np.arange(n) // 8 * 8 + np.array(AWQ)[np.arange(n) % 8]
            codes, zeros = (fields(t[part], 4, n, 1)[:, at] for part in (".qweight", ".qzeros"))
            groups = np.arange(k) // self.size
        else:
            codes, zeros = fields(t[".qweight"], self.bits, k, 0), fields(t[".qzeros"], self.bits, n, 1)
            groups = t[".g_idx"].numpy()
        zeros = (zeros + self.add) % (1 << self.bits)
        return ((codes - zeros[groups]).astype(np.float32) * floats(t[".scales"])[groups]).T


def compressed(key, tensors):
    """Returns the weight that compressed-tensors makes."""
    from compressed_tensors import compressors
    from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
    base = key.removesuffix("weight")
    parts = {name.removeprefix(base): value for name, value in tensors.items() if name.startswith(base)}
    kind, keys = compressed.scheme
    if parts["weight_scale"].dtype == torch.bfloat16:
        parts["weight_scale"] = parts["weight_scale"].float()  # the arithmetic has the type of the scales
    scheme = QuantizationScheme(targets=["Linear"], weights=QuantizationArgs(**keys))
    if "FP4" in kind:  # its decompress rounds to bfloat16 in between
        from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
        from compressed_tensors.quantization.lifecycle.forward import dequantize
        rows, half = parts["weight_packed"].shape
        codes = unpack_fp4_from_uint8(parts["weight_packed"], rows, half * 2, torch.float32)
        scale = getattr(compressors, kind)._decompress_scale(parts["weight_scale"], torch.float32)
        return dequantize(codes, scale, args=scheme.weights, global_scale=parts.get("weight_global_scale"),
                          dtype=torch.float32).numpy()
    return getattr(compressors, kind).decompress(parts, scheme)["weight"].float().numpy()


class Rows:
    """compressed-tensors: integers [rows][columns] in words."""

    def __init__(self, bits, size, zeros=False, order=None):
        self.bits, self.size, self.zeros, self.order = bits, size, zeros, order
        self.library = compressed if order is None else None  # it no longer has groups in activation order

    def parts(self, name, n, k):
        groups = k // self.size if self.size else 1
        kind, keep, add = BF16
        made = {".weight_packed": ["I32", [n, k * self.bits // 32], ANY, 0],
                ".weight_scale": [kind, [n, groups], keep, add - (self.bits == 8 and 4 << 7)],
                ".weight_shape": ["I64", [2], [n, k]]}
        if self.zeros:
            made[".weight_zero_point"] = ["I32", [n * self.bits // 32, groups], ANY, 0]
        if self.order is not None:
            made[".weight_g_idx"] = ["I32", [k], groups_of(k, self.size, self.order).tolist()]
        return made

    def weight(self, t, n, k):
        half = 1 << (self.bits - 1)
        codes, scales = fields(t[".weight_packed"], self.bits, k, 1), floats(t[".weight_scale"])
        zeros = fields(t[".weight_zero_point"], self.bits, n, 0) if self.zeros else np.full(scales.shape, half)
        groups = t[".weight_g_idx"].numpy() if self.order is not None else np.arange(k) // (self.size or k)
        return (codes - zeros[:, groups]).astype(np.float32) * scales[:, groups]


class Int8:
    """compressed-tensors: bytes [rows][columns]."""

    def __init__(self, zeros):
        self.zeros, self.library = zeros, compressed

    def parts(self, name, n, k):
        kind, keep, add = BF16
        made = {".weight": ["I8", [n, k], 0xFF, 0], ".weight_scale": [kind, [n, 1], keep, add - (4 << 7)]}
        if self.zeros:
            made[".weight_zero_point"] = ["I8", [n, 1], 0xFF, 0]
        return made

    def weight(self, t, n, k):
        zeros = t[".weight_zero_point"].numpy().astype(np.int32) if self.zeros else 0
        return (t[".weight"].numpy().astype(np.int32) - zeros).astype(np.float32) * floats(t[".weight_scale"])


class Fp4:
    """NVFP4 of ModelOpt (factor) and of compressed-tensors (divisor), and MXFP4 (neither)."""

    def __init__(self, code, factor, library):
        self.code, self.factor, self.library = code, factor, library

    def parts(self, name, n, k):
        if self.factor is None:
            return {self.code: ["U8", [n, k // 2], 0xFF, 0], ".weight_scale": ["U8", [n, k // 32], 1, 122]}
        made = {self.code: ["U8", [n, k // 2], 0xFF, 0], ".weight_scale": ["F8_E4M3", [n, k // 16], 0x0F, 0x30],
                self.factor: ["F32", [1] if "global" in self.factor else [], 0x7FFFFF, (132 if "global" in self.factor else 121) << 23]}
        made[".input_global_scale" if "global" in self.factor else ".input_scale"] = ["F32", [1], 0x7FFFFF, 127 << 23]
        return made

    def weight(self, t, n, k):
        if self.factor is None:
            scales = np.ldexp(np.float32(1), t[".weight_scale"].numpy().astype(np.int32) - 127)
        elif "global" in self.factor:
            scales = floats(t[".weight_scale"]) / floats(t[self.factor])
        else:
            scales = floats(t[".weight_scale"]) * floats(t[self.factor])
        return E2M1[nibbles(t[self.code])] * np.repeat(scales.astype(np.float32), k // scales.shape[1], 1)


def bitsandbytes(key, tensors):
    """Returns the weight that bitsandbytes makes."""
    from bitsandbytes import functional
    parts = {name.removeprefix(key + "."): value for name, value in tensors.items() if name.startswith(key + ".")}
    if not parts:
        return functional.int8_vectorwise_dequant(tensors[key], tensors[key.removesuffix("weight") + "SCB"]).numpy()
    state = functional.QuantState.from_dict(parts, device="cpu")
    return functional.dequantize_4bit(tensors[key], state).numpy()


class Blocks:
    """bitsandbytes: codes of 4 bits of the flattened matrix."""

    def __init__(self, kind, nested):
        self.kind, self.nested, self.library = kind, nested, bitsandbytes

    def parts(self, name, n, k):
        from bitsandbytes import functional
        count, tail = n * k // 64, f".weight.quant_state.bitsandbytes__{self.kind}"
        state = {"quant_type": self.kind, "blocksize": 64, "dtype": "float32", "shape": [n, k]}
        made = {".weight": ["U8", [n * k // 2, 1], 0xFF, 0],
                ".weight.quant_map": ["F32", [16], functional.get_4bit_type(self.kind, "cpu").tolist()]}
        if self.nested:
            state |= {"nested_blocksize": 256, "nested_dtype": "float32", "nested_offset": 0.0625}
            made |= {".weight.absmax": ["U8", [count], 0x7F, 0x40],
                     ".weight.nested_absmax": ["F32", [-(-count // 256)], 0x7FFFFF, 123 << 23],
                     ".weight.nested_quant_map": ["F32", [256], functional.create_dynamic_map().tolist()]}
        else:
            made[".weight.absmax"] = ["F32", [count], 0x7FFFFF, 124 << 23]
        made[tail] = ["U8", [len(json.dumps(state))], list(json.dumps(state).encode())]
        return made

    def weight(self, t, n, k):
        scales = t[".weight.absmax"]
        if self.nested:
            large = np.repeat(floats(t[".weight.nested_absmax"]), 256)[:len(scales)]
            scales = floats(t[".weight.nested_quant_map"])[scales.numpy()] * large + np.float32(0.0625)
        else:
            scales = floats(scales)
        codes = nibbles(t[".weight"].reshape(n, k // 2), True)
        return floats(t[".weight.quant_map"])[codes] * np.repeat(scales.reshape(n, k // 64), 64, 1)


class Int8Rows:
    """bitsandbytes: bytes with the largest magnitude of each row."""
    library = staticmethod(bitsandbytes)

    def parts(self, name, n, k):
        return {".weight": ["I8", [n, k], 0xFF, 0], ".SCB": ["F32", [n], 0x7FFFFF, 124 << 23],
                ".weight_format": ["U8", [], [0]]}

    def weight(self, t, n, k):
        return floats(t[".weight"]) * floats(t[".SCB"])[:, None] * np.float32(1 / 127)


def columns_config(method, bits, **more):
    return {"quantization_config": {"quant_method": method, "bits": bits, **more}}


def fp8_config(**more):
    return {"quantization_config": {"quant_method": "fp8", "fmt": "e4m3", **more}}


def arrays_config(form, **weights):
    group = {"targets": ["Linear"], "weights": weights}
    return {"quantization_config": {"quant_method": "compressed-tensors", "format": form, "ignore": ["lm_head"],
                                    "config_groups": {"group_0": group}}}


# Name: (format of each module by a part of its name, keys of config.json, other files, inner width, words, held on a
# CPU). The words are those of struct packed.
MODELS = {
    "fp8-tensor": ({"": Fp8(".weight_scale", "tensor", "gptqmodel", (".input_scale",)),
                    "mlp": Fp8(".weight_scale_inv", "tensor", "gptqmodel", (".activation_scale",))},
                   fp8_config(activation_scheme="static"), {}, 256, "FP8, a scale per tensor", "int8"),
    "fp8-row": ({"": Fp8(".weight_scale", "row", "gptqmodel")},
                arrays_config("float-quantized", num_bits=8, type="float", strategy="channel", symmetric=True), {},
                256, "FP8, a scale per row", "int8"),
    "fp8-block": ({"": Fp8(".weight_scale_inv", "block", "gptqmodel")},
                  fp8_config(activation_scheme="dynamic", weight_block_size=[128, 128]), {}, 320,
                  "FP8, blocks of 128 x 128; FP8, a scale per tensor", "int8"),
    "fp8-experts": ({"": Fp8(".weight_scale_inv", "block", None)},
                    fp8_config(activation_scheme="dynamic", weight_block_size=[128, 128]), {}, 256,
                    "FP8, blocks of 128 x 128; FP8, a scale per tensor", "int8"),
    "modelopt-fp8": ({"": Fp8(".weight_scale", "tensor", None, (".input_scale",))}, {},
                     {"hf_quant_config.json": {"producer": {"name": "modelopt"}, "quantization": {
                         "quant_algo": "FP8", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"]}}}, 256,
                     "FP8, a scale per tensor", "int8"),
    "awq": ({"": Columns(4, 32, awq=True)},
            columns_config("awq", 4, group_size=32, zero_point=True, version="gemm"), {}, 256,
            "AWQ, 4 bits, groups of 32", "int4z_32"),
    "gptq-4": ({"": Columns(4, 64)}, columns_config("gptq", 4, group_size=64, desc_act=False), {}, 256,
               "GPTQ, 4 bits, groups of 64", "int4z_64"),
    "gptq-even": ({"": Columns(4, 128, even=True)},
                  {}, {"quantize_config.json": {"bits": 4, "group_size": 128, "desc_act": False, "sym": True}}, 256,
                  "GPTQ, 4 bits, groups of 128; GPTQ, 4 bits, a scale per row", "int4_128"),
    "gptq-order": ({"": Columns(4, 32, order=7)},
                   columns_config("gptq", 4, group_size=32, desc_act=True), {}, 256,
                   "GPTQ, 4 bits, groups in activation order", "int8"),
    "gptq-2": ({"": Columns(2, 32, full=True, scale=("F16", 0x03FF, 10 << 10))},
               columns_config("gptq", 2, group_size=32, checkpoint_format="gptq_v2"), {}, 256,
               "GPTQ, 2 bits, groups of 32", "int8"),
    "gptq-3": ({"": Columns(3, 32)}, columns_config("gptq", 3, group_size=32), {}, 256, "GPTQ, 3 bits, groups of 32",
               "int8"),
    "gptq-8": ({"": Columns(8, 128, scale=("F16", 0x03FF, 5 << 10))}, columns_config("gptq", 8, group_size=128), {}, 256,
               "GPTQ, 8 bits, groups of 128; GPTQ, 8 bits, a scale per row", "int8"),
    "pack-4": ({"": Rows(4, 32)}, arrays_config("pack-quantized", num_bits=4, type="int", strategy="group",
                                                group_size=32, symmetric=True), {}, 256,
               "compressed-tensors, 4 bits, groups of 32", "Q4_0"),
    "pack-4z": ({"": Rows(4, 64, zeros=True)}, arrays_config("pack-quantized", num_bits=4, type="int",
                                                             strategy="group", group_size=64, symmetric=False), {},
                256, "compressed-tensors, 4 bits, groups of 64", "int4z_64"),
    "pack-8": ({"": Rows(8, None)}, arrays_config("pack-quantized", num_bits=8, type="int", strategy="channel",
                                                  symmetric=True), {}, 256, "compressed-tensors, 8 bits, a scale per row",
               "int8"),
    "pack-order": ({"": Rows(4, 32, order=5)},
                   arrays_config("pack-quantized", num_bits=4, type="int", strategy="group", group_size=32,
                                 symmetric=True, actorder="group"), {}, 256,
                   "compressed-tensors, 4 bits, groups in activation order", "int8"),
    "int-8": ({"": Int8(False)}, arrays_config("int-quantized", num_bits=8, type="int", strategy="channel",
                                               symmetric=True), {}, 256, "int8, a scale per row", "int8"),
    "int-8z": ({"": Int8(True)}, arrays_config("int-quantized", num_bits=8, type="int", strategy="channel",
                                               symmetric=False), {}, 256, "int8, a scale per row", "int8"),
    "pack-nvfp4": ({"": Fp4(".weight_packed", ".weight_global_scale", compressed)},
                   arrays_config("nvfp4-pack-quantized", num_bits=4, type="float", strategy="tensor_group",
                                 group_size=16, symmetric=True), {}, 256, "NVFP4, groups of 16", "int8"),
    "pack-mxfp4": ({"": Fp4(".weight_packed", None, compressed)},
                   arrays_config("mxfp4-pack-quantized", num_bits=4, type="float", strategy="group", group_size=32,
                                 symmetric=True), {}, 256, "MXFP4, groups of 32", "MXFP4"),
    "modelopt-mixed": ({"self_attn": Fp8(".weight_scale", "tensor", None, (".input_scale",)),
                        "mlp": Fp4(".weight", ".weight_scale_2", None)},
                       {"quantization_config": {"quant_method": "modelopt", "quant_algo": "MIXED_PRECISION"}}, {}, 320,
                       "NVFP4, groups of 16; FP8, a scale per tensor", "int8"),
    "bnb-nf4": ({"": Blocks("nf4", True)}, {"quantization_config": {
        "quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4",
        "bnb_4bit_use_double_quant": True}}, {}, 256, "bitsandbytes NF4, blocks of 64", "int8"),
    "bnb-fp4": ({"": Blocks("fp4", False)}, {"quantization_config": {
        "quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "fp4"}}, {}, 256,
                "bitsandbytes FP4, blocks of 64", "int8"),
    "bnb-int8": ({"": Int8Rows()}, {"quantization_config": {"quant_method": "bitsandbytes", "load_in_8bit": True}}, {},
                 256, "bitsandbytes, int8", "int8"),
}
# compressed-tensors' class of each of its formats.
COMPRESSORS = {"pack-quantized": "PackedQuantizationCompressor", "int-quantized": "IntQuantizationCompressor",
               "nvfp4-pack-quantized": "NVFP4PackedCompressor", "mxfp4-pack-quantized": "MXFP4PackedCompressor"}


def checked(folder, library, tensors, weights):
    """Compares the weights with those that the library makes of the tensors. Returns the library's name."""
    if library == "gptqmodel":
        from gptqmodel.utils.model_dequant import dequantize_model
        from safetensors import safe_open
        made = pathlib.Path(folder) / "made"
        dequantize_model(folder, made, target_dtype=torch.float32)
        with safe_open(made / "model.safetensors", framework="pt") as file:
            theirs = {key: file.get_tensor(key) for key in weights}
    else:
        theirs = {key: torch.from_numpy(library(key, tensors)) for key in weights}
        library = library.__name__
    for key, ours in weights.items():
        apart = np.abs(ours - floats(theirs[key])).max()
        if not np.array_equal(ours, floats(theirs[key])):  # 0 and -0 are equal
            raise SystemExit(f"{key}: {library} has other weights, apart by {apart:.2g}")
    return library


def hash_of(weight):
    value = 0xCBF29CE484222325
    for word in weight.view(np.uint32).reshape(-1).tolist():
        value = (value ^ word) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return f"{value:016x}"


def matrices(key, tensor):
    """Returns the name in a checkpoint and the tensor of each parameter that a parameter of transformers consists of."""
    if tensor.dim() != 3:  # [experts][rows][columns]
        return [(key, tensor)]
    base, _, kind = key.rpartition(".")
    split = {"gate_up_proj": ("gate_proj", "up_proj"), "down_proj": ("down_proj",)}[kind]
    return [(f"{base}.{expert}.{part}.weight", piece) for expert, whole in enumerate(tensor)
            for part, piece in zip(split, whole.chunk(len(split)))]


def make(name, check):
    formats, keys, files, inner, words, held = MODELS[name]
    seed = sum(ord(c) << (i % 24) for i, c in enumerate(name)) + 1
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": HIDDEN,
              "num_hidden_layers": 1, "num_attention_heads": HEADS, "num_key_value_heads": KV, "head_dim": DIM,
              "intermediate_size": inner, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    family = "Llama"
    if name == "fp8-experts":
        family = "Qwen3Moe"
        config |= {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 4,
                   "num_experts_per_tok": 2, "moe_intermediate_size": inner, "norm_topk_prob": True}
    model = getattr(transformers, family + "ForCausalLM")._from_config(
        getattr(transformers, family + "Config")(**config), experts_implementation="eager").double().eval()
    entries, tensors, weights, libraries, shared = [], {}, {}, set(), {}

    def add(key, dtype, shape, *content):
        tensors[key] = tensor_of(seed, len(entries), dtype, shape, *content)
        if len(content) == 1 and len(content[0]) >= 16:  # many tensors have the same table
            table = f"{len(content[0])} from {content[0][0]}, {content[0][1]}"
            table += "" if shared.setdefault(table, content[0]) == content[0] else " of " + key
            shared[table], content = content[0], [table]
        entries.append([key, dtype, shape, *content])
        return tensors[key]

    with torch.no_grad():
        for key, tensor in (pair for item in sorted(model.state_dict().items()) for pair in matrices(*item)):
            n, k = list(tensor.shape) + [1] * (2 - tensor.dim())
            if "_proj" in key:
                base = key.removesuffix(".weight")
                kind = [value for part, value in formats.items() if part in key][-1]
                parts = {tail: add(base + tail, *spec) for tail, spec in kind.parts(key, n, k).items()}
                weights[key] = np.ascontiguousarray(kind.weight(parts, n, k), np.float32)
                tensor.copy_(torch.from_numpy(weights[key]))
                libraries.add(kind.library)
            elif tensor.dim() == 1:
                tensor.copy_(add(key, "BF16", [n], 0x007F, 0x3F80).double())
            else:
                tensor.copy_(add(key, "BF16", [n, k], 0x807F, 122 << 7).double())
        inputs = [np.random.default_rng(seed).integers(3, VOCAB, count).tolist() for count in LENGTHS]
        expected = [model(input_ids=torch.tensor([ids])).logits[0, -1].tolist() for ids in inputs]
    by = []
    method = keys.get("quantization_config", {})
    if "config_groups" in method and method["format"] in COMPRESSORS:
        compressed.scheme = (COMPRESSORS[method["format"]], method["config_groups"]["group_0"]["weights"])
    for library in sorted(filter(None, libraries), key=str) if check else []:
        folder = tempfile.mkdtemp()
        save_file({key: value.contiguous() for key, value in tensors.items()},
                  os.path.join(folder, "model.safetensors"))
        for file, content in {"config.json": config | keys, **files}.items():
            with open(os.path.join(folder, file), "w", encoding="utf-8") as out:
                json.dump(content, out)
        by.append(checked(folder, library, tensors, weights))
        shutil.rmtree(folder)
    golden = {"config": config | keys, "files": files, "seed": seed, "tensors": entries, "shared": shared, "inputs": inputs,
              "words": words, "held": held,
              "weights": [[key, list(weight.shape), hash_of(weight)] for key, weight in weights.items()],
              "expected": [[float(f"{x:.8g}") for x in row] for row in expected]}
    path = os.path.join(OUT, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    spreads = {key.split(".")[-2]: float(f"{weight.std():.2g}") for key, weight in weights.items()}
    print(f"{name}: logits of deviation {np.std(expected):.3g}, weights {spreads}, {os.path.getsize(path)} bytes, "
          f"{'equal to ' + ', '.join(by) if by else 'not compared with a library'}")


def make_gpt_oss(name):
    """GPT-OSS with its experts in MXFP4, which transformers' own function dequantises."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    seed = sum(ord(c) << (i % 24) for i, c in enumerate(name)) + 1
    config = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "vocab_size": VOCAB, "hidden_size": 64,
              "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
              "intermediate_size": 32, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 4,
              "swiglu_limit": 7.0, "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 150000.0,
              "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16,
                               "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False},
              "tie_word_embeddings": False, "torch_dtype": "bfloat16", "pad_token_id": 0}
    method = {"quantization_config": {"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn"]}}
    model = transformers.GptOssForCausalLM._from_config(
        transformers.GptOssConfig(**config), attn_implementation="eager", experts_implementation="eager")
    model = model.double().eval()
    entries, weights = [], {}

    def add(key, dtype, shape, *content):
        entries.append([key, dtype, shape, *content])
        return tensor_of(seed, len(entries) - 1, dtype, shape, *content)

    with torch.no_grad():
        for key, tensor in sorted(model.state_dict().items()):
            shape = list(tensor.shape)
            if key.endswith(("gate_up_proj", "down_proj")):
                count, columns, rows = shape
                blocks = add(key + "_blocks", "U8", [count, rows, columns // 32, 16], 0xFF, 0)
                scales = add(key + "_scales", "U8", [count, rows, columns // 32], 1, 122)
                made = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).contiguous()
                tensor.copy_(made.double())
                turned = np.ascontiguousarray(made.transpose(1, 2).numpy()).reshape(count * rows, columns)
                weights[key] = turned
            elif len(shape) == 1 and key.endswith("weight"):
                tensor.copy_(add(key, "BF16", shape, 0x007F, 0x3F80).double())
            else:
                exponent = 125 if key.endswith("sinks") else 123 if "router.weight" in key else 121
                tensor.copy_(add(key, "BF16", shape, 0x807F, exponent << 7).double())
        inputs = [np.random.default_rng(seed).integers(3, VOCAB, count).tolist() for count in LENGTHS]
        expected = [model(input_ids=torch.tensor([ids])).logits[0, -1].tolist() for ids in inputs]
    golden = {"config": config | method, "files": {}, "seed": seed, "tensors": entries, "shared": {}, "inputs": inputs,
              "words": "MXFP4, groups of 32", "held": "MXFP4",
              "weights": [[key, list(weight.shape), hash_of(weight)] for key, weight in weights.items()],
              "expected": [[float(f"{x:.8g}") for x in row] for row in expected]}
    path = os.path.join(OUT, name + ".json")
    with open(path, "w", encoding="utf-8") as file:
        file.write(json.dumps(golden, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{name}: logits of deviation {np.std(expected):.3g}, {os.path.getsize(path)} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", default=list(MODELS))
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(1)
    os.makedirs(OUT, exist_ok=True)
    for name in args.names or [*MODELS, "gpt-oss"]:
        make_gpt_oss(name) if name == "gpt-oss" else make(name, args.check)


if __name__ == "__main__":
    main()
