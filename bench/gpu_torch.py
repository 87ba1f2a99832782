# SPDX-License-Identifier: Apache-2.0
"""The baselines of bench/gpu.sh if torch is installed: the shapes of gpu_ops, one JSON row each."""
import json
import time

import torch
import torch.nn.functional as F


def timed(work, repeats=20):
    work(0)
    torch.cuda.synchronize()
    start = time.perf_counter()
    for i in range(repeats):
        work(i)
    torch.cuda.synchronize()
    return (time.perf_counter() - start) / repeats


def row(op, shape, seconds, bytes_, flops):
    print(json.dumps({"baseline": "torch", "op": op, "shape": shape, "us": round(seconds * 1e6, 2),
                      "GBps": round(bytes_ / seconds * 1e-9, 1),
                      "TFLOPs": round(flops / seconds * 1e-12, 2)}), flush=True)


def random(*shape):
    return torch.randn(*shape, device="cuda", dtype=torch.bfloat16) * 0.02


def products():
    for n, k in ((6144, 4096), (4096, 4096), (24576, 4096), (4096, 12288)):
        copies = min(32, 1 + (200 << 20) // (n * k * 2))
        weights = [random(n, k) for _ in range(copies)]
        for m in (1, 8, 16, 32, 64, 128, 256, 2048, 8192):
            x = random(m, k)
            seconds = timed(lambda i: F.linear(x, weights[i % copies]))
            row("gemm", f"n {n} k {k} rows {m}", seconds, 2.0 * (n * k + m * (n + k)), 2.0 * n * k * m)


def attention():
    for name, rows, q, heads, kv_heads, dim, causal in (
            ("prefill 1 x 8192, dim 128, group 4", 1, 8192, 32, 8, 128, True),
            ("prefill 4 x 2048, dim 128, group 4", 4, 2048, 32, 8, 128, True),
            ("prefill 16 x 512, dim 128, group 4", 16, 512, 32, 8, 128, True),
            ("encoder 64 x 512, dim 64", 64, 512, 16, 16, 64, False)):
        query, key, value = random(rows, heads, q, dim), random(rows, kv_heads, q, dim), random(rows, kv_heads, q, dim)
        seconds = timed(lambda i: F.scaled_dot_product_attention(
            query, key, value, is_causal=causal, enable_gqa=heads != kv_heads))
        pairs = rows * q * ((q + 1) / 2 if causal else q)
        row("attn", name, seconds, 4.0 * rows * q * kv_heads * dim, 4.0 * dim * heads * pairs)
    for rows, kv in ((1, 32768), (8, 8192), (64, 4096), (256, 1024), (1, 1024), (1, 8192), (32, 1024), (32, 8192), (256, 8192)):
        query, key, value = random(rows, 32, 1, 128), random(rows, 8, kv, 128), random(rows, 8, kv, 128)
        seconds = timed(lambda i: F.scaled_dot_product_attention(query, key, value, enable_gqa=True))
        row("attn", f"decode {rows} x {kv}", seconds, 4.0 * rows * kv * 8 * 128, 4.0 * 128 * 32 * rows * kv)


products()
attention()
