#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares dynamic PTX instruction counts of weft's kernels with Triton's at equal shapes, compiled for sm_80 and interpreted.

  tools/triton/counts.py --program PTX_RUN [--check | --write] [--keep FOLDER]

Needs nvcc and a Python with Triton (check.py creates build/triton-venv). --check: checks the table of
bench/gpu_predictions.md; --write: writes it. --keep: keeps the PTX of weft's kernels in FOLDER and reuses it.

A tile of attention is one warp, 16 query rows, 64 keys, dim 128; a tile of a product is one warp and 64 of k, of 128
features x 64 tokens on eight warps. The printed numbers are slopes over the length, so the start and end of a kernel do
not count. PTX is not SASS: ptxas drops moves and expands divisions, so these numbers can be compared with each other,
not with SASS counts. If a result of weft's kernels is wrong, the script exits with 1.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

import numpy as np

import cases
import check

ROOT = pathlib.Path(__file__).resolve().parents[2]
NVCC = ["nvcc", "-ptx", "-std=c++17", "-fmad=false", "-I%s" % ROOT, "-arch=compute_80"]
DIM, PAGE_UNIT, WALK = 128, 256, 0xFFFF
BF16 = 1  # of enum dtype


class Kernel:
    """One of weft's kernels, as the PTX of its source."""

    def __init__(self, folder, source, name):
        self.text, self.name = folder / (source + ".ptx"), name
        if not self.text.exists():
            subprocess.run([*NVCC, ROOT / "kernels/cuda" / (source + ".cu"), "-o", self.text], check=True)

    def run(self, program, grid, warps, shared, words):
        command = [program, self.text, self.name, grid, str(32 * warps), str(shared), *map(str, words)]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def numbers(lines):
    return {name: int(value) for name, value in re.findall(r"^([a-z_]+) (\d+)$", lines, re.M)}


def put(folder, name, array, written=False):
    array.tofile(folder / name)
    return "%s:%s" % ("io" if written else "in", folder / name)


def words_of(*values):
    return ["i32:%d" % v for v in values]


def attention_ours(kernel, program, folder, case, warps, page):
    """Returns the counts of one item on `warps` warps: the single head of the case, with pages of `page` tokens."""
    q, k, v = (case.arguments[n][1][0] for n in "qkv")
    (lq, _), (lk, _) = q.shape, k.shape
    pages = -(-lk // page)
    pool = np.zeros((pages, 2, page, DIM), np.uint16)
    for n, x in enumerate((k, v)):
        padded = np.zeros((pages * page, DIM), np.uint16)
        padded[:lk] = x
        pool[:, n] = padded.reshape(pages, page, DIM)
    step = np.zeros(72, np.uint32)
    step[16] = 256  # layout.rows
    step[64:68] = 0, 0, lq, lk
    item = [WALK << 16, 0]  # row and merge, tile
    work = np.array([warps == 4, warps == 1, 0, 0, 36, 36, 0, 0, 1024, *item], np.uint32)
    scale = 1 / DIM**0.5
    name = lambda n: "%s.bin" % n
    scratch = np.zeros(1 << 16, np.float32)
    out = put(folder, name("out"), np.zeros((lq, DIM), np.uint16), True)
    words = [*words_of(0, 0), put(folder, name("qkv"), np.concatenate([q, q, q], 1)), out,
             put(folder, name("step"), step), "null",
             put(folder, name("table"), np.arange(pages, dtype=np.uint32) * np.uint32(pool[0].nbytes // PAGE_UNIT)),
             put(folder, name("pool"), pool), "i64:0", "i64:%d" % (page * DIM * 2), "i64:0", "i64:%d" % (DIM * 2),
             *words_of(1, 1, DIM, 0), "f32:%r" % scale, *words_of(256, pages, page.bit_length() - 1, 1, lq), "null",
             put(folder, name("work"), work), *[put(folder, name(n), scratch, True) for n in ("sums", "state", "walk", "arrived")],
             *words_of(1), "f32:%r" % (scale * 1.4426950408889634), *words_of(0, 0), "null", *words_of(0, 0)]  # each last is padding
    lines = kernel.run(program, "1", warps, (max(lq, 16) + 128) * DIM * 2, words)
    wanted, bound = case.judge(None)["o"]
    got = cases.widened(np.fromfile(folder / name("out"), np.uint16).reshape(lq, DIM), "bf16")
    if not cases.far(got, wanted[0], 2 * bound[0]) <= 1:
        sys.exit("our attention is wrong: %g of twice the bound" % cases.far(got, wanted[0], 2 * bound[0]))
    return numbers(lines)


def triton_counts(program, folder, case):
    after, lines = case.run(program, folder, case.compile())
    if after is None:
        sys.exit(lines)
    return numbers(lines)


def slope(make, short, long, tiles):
    """Returns the slope of each count between two lengths, per tile."""
    first, last = make(short), make(long)
    return {name: (last[name] - first[name]) / tiles for name in first}


def row(what, ours, theirs):
    return ("| %s | %.0f | %.0f | %.2f | %.0f, %.0f | %.0f, %.0f |" % (
        what, ours["instructions"], theirs["instructions"], ours["instructions"] / theirs["instructions"],
        ours["mma"], theirs["mma"], ours["ldmatrix"], theirs["ldmatrix"]))


def attention(program, folder):
    """Returns the lines of the table."""
    for what, warps, bm in (("prefill, four warps", 4, 128), ("one warp", 1, 16)):
        case = lambda lk: cases.attention("bf16", DIM, bm, lk, False, heads=1, group=1, bm=bm, warps=warps)
        kernel = Kernel(folder, "attn_d128", "_Z11attn_kernelI4bf16S0_Li128ELi%dEEv8attn_run" % bm)
        theirs = slope(lambda lk: triton_counts(program, folder, case(lk)), 256, 512, bm // 4)
        for page in (16, 64):
            ours = slope(lambda lk: attention_ours(kernel, program, folder, case(lk), warps, page), 256, 512, bm // 4)
            yield row("attention, %s, pages of %d" % (what, page), ours, theirs)


def product(program, folder):
    kernel = Kernel(folder, "gemm_wide", "_Z16gemm_wide_kernelI4bf16S0_Ev8gemm_run")
    case = lambda k: cases.product("bf16", "bf16", 64, 128, k, (64, 128, 64), True, True, warps=8)

    def ours(k):
        one = case(k)
        words = [put(folder, "x.bin", one.arguments["a"][1]), put(folder, "w.bin", one.arguments["b"][1]), "null",
                 "null", put(folder, "y.bin", np.zeros((64, 128), np.uint16), True),
                 *words_of(BF16, 64, 128, k, k, k, 128, 1)]
        lines = kernel.run(program, "1,1", 8, 3 * (128 + 64) * 64 * 2, words)
        wanted, bound = one.judge(None)["c"]
        got = cases.widened(np.fromfile(folder / "y.bin", np.uint16).reshape(64, 128), "bf16")
        if not cases.far(got, wanted, bound) <= 1:
            sys.exit("our product is wrong: %g of its bound" % cases.far(got, wanted, bound))
        return numbers(lines)

    yield row("product, 128 x 64 on eight warps", slope(ours, 512, 1024, 64),
        slope(lambda k: triton_counts(program, folder, case(k)), 512, 1024, 64))


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--program", required=True)
    ask.add_argument("--keep", type=pathlib.Path)
    ask.add_argument("--check", action="store_true")
    ask.add_argument("--write", action="store_true")
    options = ask.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.keep or pathlib.Path(scratch)
        lines = ["| a tile of | ours | Triton's | ratio | mma | ldmatrix |", "| --- | --- | --- | --- | --- | --- |"]
        lines += [*attention(options.program, folder), *product(options.program, folder)]
    print("\n".join(lines))
    if options.check or options.write:
        check.table_settle("counts", "\n".join(lines), options.write, "tools/triton/counts.py --write")


if __name__ == "__main__":
    main()
