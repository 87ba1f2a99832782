#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a Llama GGUF file in float32 whose columns are in another order, and which computes the same.

  tools/permute_gguf.py IN.gguf OUT.gguf       needs PyPI's gguf and numpy

A checkpoint that was published in 4 bits has all its weights on the grid of its groups, so quantizing
it again in these groups costs nothing. Here the columns of the hidden state, of the gated activation
and of each head's values are shuffled, with the rows that make them: a group of 32 columns then has
weights of many former groups, and the model is the same function. The numbers of a row stay the same
numbers, which a rotation would change.
"""
import sys

import gguf
import numpy as np

SEED = 1


def orders(reader):
    """Returns the arguments that reorder rows and columns, by kind of tensor."""
    def field(name):
        return int(reader.fields[f"llama.{name}"].contents())
    rng = np.random.default_rng(SEED)
    heads, groups = field("attention.head_count"), field("attention.head_count_kv")
    hidden, middle = field("embedding_length"), field("feed_forward_length")
    dim = hidden // heads
    column = rng.permutation(hidden)
    gate = rng.permutation(middle)
    inside = [rng.permutation(dim) for _ in range(groups)]
    value = np.concatenate([g * dim + inside[g] for g in range(groups)])
    output = np.concatenate([h * dim + inside[h // (heads // groups)] for h in range(heads)])
    return {"token_embd": (None, column), "output": (None, column), "output_norm": (column,),
            "attn_norm": (column,), "ffn_norm": (column,), "attn_q": (None, column), "attn_k": (None, column),
            "attn_v": (value, column), "attn_output": (column, output),
            "ffn_gate": (gate, column), "ffn_up": (gate, column), "ffn_down": (column, gate)}


def main(source, target):
    reader = gguf.GGUFReader(source)
    order = orders(reader)
    writer = gguf.GGUFWriter(target, "llama")
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name in ("general.architecture", "general.file_type"):
            continue
        kind = field.types[0]
        writer.add_key_value(name, field.contents(), kind, field.types[-1] if len(field.types) > 1 else None)
    for tensor in reader.tensors:
        data = gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
        kind = tensor.name.removesuffix(".weight").split(".")[-1]
        for axis, index in enumerate(order[kind]):
            if index is not None:
                data = np.take(data, index, axis)
        writer.add_tensor(tensor.name, np.ascontiguousarray(data))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(sys.argv[1], sys.argv[2])
