#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the model with published times of attention with mma.sync, structured like FlashAttention-2.

  build/triton-venv/bin/python bench/gpu_model/calibrate.py PTX_RUN [--nvdisasm NVDISASM]

Runs with the Python environment of tools/triton/check.py. Triton compiles the attention of cases.py for sm_80 with the tile of
FlashAttention-2 at dim 128 (128 queries, 64 keys, four or eight warps), the interpreter counts instructions, ptxas generates
machine code for sm_90a, and the model predicts the rate of the main loop. Published: FlashAttention-2 without a causal mask at
8,192 tokens and dim 128 reaches 370 TFLOP/s on an H100 SXM5 (arXiv 2407.08608, figures; read from a transcription of them) and
up to 73 % of an A100's peak, 228 TFLOP/s (arXiv 2307.08691, abstract). Exits 1 if the model is off by more than 15 %.
"""
import argparse
import collections
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/triton"), str(ROOT / "tests/ptx")]
import cases  # noqa: E402
import measure  # noqa: E402
import predict  # noqa: E402
import sass  # noqa: E402
from cards import cards  # noqa: E402

OFF = 0.15
PUBLISHED = {"H100": 370, "A100": 228}
KEYS, DIM = 64, 128


class Run:
    def __init__(self, program, folder, queries, warps, length):
        case = cases.attention("bf16", DIM, queries, length, False, heads=1, group=1, bm=queries, bn=KEYS, warps=warps, stages=2)
        self.kernel = case.compile()
        after, said = case.run(program, folder, self.kernel)
        if after is None:
            sys.exit(said)
        self.counts = {name: int(n) for name, n in re.findall(r"^([a-z_]+) (\d+)$", said, re.M)}
        self.lines = collections.Counter({int(line): int(n) for line, n in re.findall(r"^line (\d+) (\d+)$", said, re.M)})


def record(program, nvdisasm, folder, queries, warps):
    """Returns a record of a kernel in the format of measure.py: the slope between two lengths, per tile of one warp."""
    short, long = (Run(program, folder, queries, warps, length) for length in (512, 1024))
    text = long.kernel.asm["ptx"]
    if short.kernel.asm["ptx"] != text:
        sys.exit("two lengths gave two programs")
    ptx, entry, ptxas = folder / "attention.ptx", long.kernel.metadata.name, str(pathlib.Path(shutil.which("nvcc")).with_name("ptxas"))
    ptx.write_text(text)
    instructions, labels = sass.disassembled(ptxas, nvdisasm, str(ptx), [entry], folder)[entry]
    long.lines.subtract(short.lines)
    issues = sass.issues_of(instructions, labels, long.lines, text.split("\n"))
    units = 512 // KEYS * warps
    pipes = collections.Counter()
    for i, times in zip(instructions, issues):
        pipes[measure.pipe_of(i.opcode)] += times / units
    said = subprocess.run([ptxas, "-v", "-arch=sm_90a", str(ptx), "-o", "/dev/null"], stderr=subprocess.PIPE, text=True).stderr
    a_unit = lambda name: (long.counts[name] - short.counts[name]) / units
    return {"warps": warps, "warps_a_unit": 0, "registers": int(re.search(r"Used (\d+) registers", said).group(1)),
            "shared": long.kernel.metadata.shared, "sass": sum(issues) / units, "pipes": pipes,
            "wavefronts": a_unit("shared_passes"), "sectors": a_unit("global_sectors"),
            "cycles": {card: sass.alone(instructions, labels, issues, cards()[card]["latency"]) / units for card in PUBLISHED}}


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("program")
    ask.add_argument("--nvdisasm", default=sass.nvdisasm_here())
    options = ask.parse_args()
    if not options.nvdisasm:
        sys.exit("no nvdisasm: pip install nvidia-cuda-nvdisasm, or name it by --nvdisasm")
    far = False
    with tempfile.TemporaryDirectory() as folder:
        for queries, warps in ((128, 4), (128, 8)):
            one = record(options.program, options.nvdisasm, pathlib.Path(folder), queries, warps)
            for card, published in PUBLISHED.items():
                kernel = predict.Kernel(cards()[card], card, one)
                cycles = kernel.unit(kernel.resident * warps)
                flops = 4 * queries * KEYS * DIM * kernel.resident / cycles * cards()[card]["processors"]
                rate = flops * cards()[card]["clock_ghz"] / 1e3
                print("%s, %d queries on %d warps: predicted %.0f TFLOP/s, published %d: %+.0f %%"
                      % (card, queries, warps, rate, published, 100 * (rate / published - 1)))
                far = far or abs(rate / published - 1) > OFF
    if far:
        sys.exit("the model is off by more than %.0f %%" % (100 * OFF))


if __name__ == "__main__":
    main()
