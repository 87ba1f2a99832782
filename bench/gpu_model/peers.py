#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Extracts other engines' measured kernel times on H100 and H200 from PyPI's aiconfigurator-core into peers.json.

  pip download --no-deps aiconfigurator-core==0.12.0 && pip install pyarrow
  bench/gpu_model/peers.py aiconfigurator_core-0.12.0-*.whl

The package (NVIDIA, Apache-2.0) has tables of single kernels, each measured alone on the named GPU. Only the shapes that fit.py
and predict.py read are kept: microseconds, of vLLM 0.24.0 (attention: FlashAttention 3) and TensorRT-LLM 1.3.0rc20, null where
one of them was not measured; all-reduce by NCCL 2.29.2 (nccl-tests, float16) by the number of bytes of a rank.
"""
import io
import json
import pathlib
import sys
import zipfile

import pyarrow.parquet

OUT = pathlib.Path(__file__).with_name("peers.json")
ENGINES = (("vllm", "0.24.0"), ("trtllm", "1.3.0rc20"))
ROWS = (1, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192)
# Products of dense models and mixtures, (n, k), and of the ranks of split ones.
PRODUCTS = ((6144, 4096), (4096, 4096), (4096, 12288), (16384, 4096), (8192, 8192), (5120, 5120), (10240, 8192), (12288, 4096),
            (8192, 2048), (2048, 4096), (7168, 2048), (4096, 16384), (65536, 4096), (1536, 2048), (2048, 2048))
DECODE = [(rows, keys) for rows in (1, 8, 32, 64, 256) for keys in (1024, 4096, 8192)]
PREFILL = ((1, 8192), (4, 2048), (16, 512), (1, 16384))
TOKENS = (1, 8, 32, 64, 256, 2048, 8192)
TYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8 blocks", "int4_wo": "int4"}


def rows_of(wheel, card, what, engine, version, name, **wanted):
    path = "aiconfigurator_core/systems/data/%s/%s/%s/%s/%s_perf.parquet" % (card, what, engine, version, name)
    table = pyarrow.parquet.read_table(io.BytesIO(wheel.read(path)), filters=[(key, "=", value) for key, value in wanted.items()] or None)
    return table.to_pylist()


def both(found, keys):
    """found: a dictionary of times per engine. Returns {key: [vLLM's, TensorRT-LLM's]} without keys that none has."""
    out = {key: [round(one[key], 2) if key in one else None for one in found] for key in keys}
    return {"x".join(map(str, key)) if isinstance(key, tuple) else str(key): times for key, times in out.items() if any(times)}


def times(rows, key, **wanted):
    return {key(row): row["latency"] * 1e3 for row in rows if all(row[k] == v for k, v in wanted.items())}


def card_of(wheel, card):
    read = lambda what, name, **wanted: [rows_of(wheel, card, what, *engine, name, **wanted) for engine in ENGINES]
    out = {"gemm": {}, "decode": {}, "prefill": {}, "experts": {}, "all_reduce": {}}
    gemm = read("gemm", "gemm")
    for dtype in ("bfloat16", "fp8", "fp8_block"):
        chosen = [times(rows, lambda r: (r["n"], r["k"], r["m"]), gemm_dtype=dtype) for rows in gemm]
        out["gemm"][TYPES[dtype]] = {"%dx%d" % nk: both([{m: one[(*nk, m)] for m in ROWS if (*nk, m) in one} for one in chosen], ROWS) for nk in PRODUCTS}
    for heads in ((32, 8), (32, 4)):
        shape = {"num_heads": heads[0], "num_key_value_heads": heads[1], "head_dim": 128, "window_size": 0}
        decode, prefill = read("attention", "generation_attention", **shape), read("attention", "context_attention", **shape)
        for dtype in ("bfloat16", "fp8"):
            name = "%d/%d %s" % (*heads, TYPES[dtype])
            out["decode"][name] = both([times(r, lambda r: (r["batch_size"], r["step"] + 1), kv_cache_dtype=dtype) for r in decode], DECODE)
            out["prefill"][name] = both([times(r, lambda r: (r["batch_size"], r["isl"]), kv_cache_dtype=dtype, attn_dtype="bfloat16") for r in prefill], PREFILL)
    experts = read("moe", "moe", hidden_size=2048, inter_size=768, topk=8, num_experts=128, moe_tp_size=1, moe_ep_size=1)
    for dtype, name in TYPES.items():
        found = both([times(r, lambda r: r["num_tokens"], moe_dtype=dtype, distribution="power_law_1.01") for r in experts], TOKENS)
        if found:
            out["experts"][name] = found
    nccl = rows_of(wheel, card, "comm", "nccl", "2.29.2", "nccl", nccl_dtype="half", op_name="all_reduce")
    for gpus in (2, 4, 8):  # message_size counts elements
        out["all_reduce"][str(gpus)] = {str(2 * r["message_size"]): round(r["latency"] * 1e3, 1) for r in nccl if r["num_gpus"] == gpus}
    return out


def main():
    if len(sys.argv) != 2:
        sys.exit("usage: bench/gpu_model/peers.py WHEEL of aiconfigurator-core 0.12.0")
    with zipfile.ZipFile(sys.argv[1]) as wheel:
        cards = {"H100": card_of(wheel, "h100_sxm"), "H200": card_of(wheel, "h200_sxm")}
    lines = []
    for card, tables in cards.items():
        parts = ["  %s: {\n%s\n  }" % (json.dumps(name), ",\n".join("   %s: %s" % (json.dumps(key), json.dumps(value)) for key, value in table.items()))
                 for name, table in tables.items()]
        lines.append(" %s: {\n%s\n }" % (json.dumps(card), ",\n".join(parts)))
    source = "PyPI's aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0), extracted by peers.py: microseconds of vLLM 0.24.0 and TensorRT-LLM 1.3.0rc20"
    OUT.write_text("{\n \"source\": %s,\n%s\n}\n" % (json.dumps(source), ",\n".join(lines)))


if __name__ == "__main__":
    main()
