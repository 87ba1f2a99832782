#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Registers, spills and shared memory of every kernel for every architecture, as a Markdown table.

  kernels/cuda/spills.py [--archs 80,90a] [--out FILE]     without --archs: all of architectures.cmake that nvcc knows

Compiles each .cu file with `nvcc -Xptxas -v` and exits with 1 if a kernel spills, or spills more than MAY_SPILL allows.
"""
import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# (kernel, architecture): bytes. The attention kernel for any head dim holds 256 columns, whatever the dim.
MAY_SPILL = {(f"attn_kernel<{t}, {t}, 0, 16>", a): 84 for t in ("bf16", "f16") for a in ("80", "86", "89")}
# One word, stored once before the loop over k and loaded once after it (read in the machine code).
MAY_SPILL |= {(f"experts_wide_kernel<{t}, codes<{c}>, {rows}u>", "120"): 8
              for t in ("bf16", "f16") for c, rows in (("1, 1", 64), ("0, 1", 32))}
# One word, the inverse of a row's sum: stored before and after the walk over the keys, loaded once after it (read in the
# machine code).
MAY_SPILL |= {(f"attn_kernel<{t}, e4m3, 128, 128>", a): 12 for t in ("bf16", "f16") for a in ("80", "86")}
FLAGS = ["-std=c++17", "-fmad=false", f"-I{HERE.parents[1]}", "-Xptxas", "-v", "-x", "cu", "-c"]


def short(name):
    """attn_kernel<bf16, bf16, 64, 128> from the demangled entry."""
    name = re.sub(r"\(anonymous namespace\)::|\(int\)|void ", "", name)
    return name.split("(")[0]


def kernels_of(source, archs):
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in archs]
    with tempfile.NamedTemporaryFile(suffix=".o") as out:
        run = subprocess.run(["nvcc", "-t", "1", *codes, *FLAGS, str(source), "-o", out.name],
                             capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(run.stderr)
    entry = arch = None
    for line in run.stderr.splitlines():
        if m := re.search(r"Compiling entry function '(\S+)' for 'sm_(\w+)'", line):
            entry, arch = m.group(1), m.group(2)
        elif m := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+)", line):
            frame, stores, loads = (int(x) for x in m.groups())
        elif m := re.search(r"Used (\d+) registers", line):
            yield entry, arch, int(m.group(1)), stores + loads, frame


def archs_known():
    """The architectures of architectures.cmake that this version of nvcc supports."""
    release = re.search(r"release (\d+)\.(\d+)", subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout)
    since = re.findall(r"^set\(CUDA_ARCHITECTURES_(\d+)_(\d+) (.*)\)$", (HERE / "architectures.cmake").read_text(), re.M)
    return [a for major, minor, archs in since if (int(major), int(minor)) <= tuple(map(int, release.groups())) for a in archs.split()]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--archs")
    parser.add_argument("--out")
    args = parser.parse_args()
    archs = args.archs.split(",") if args.archs else archs_known()
    table = {}
    for source in sorted(HERE.glob("*.cu")):
        for entry, arch, registers, spill, frame in kernels_of(source, archs):
            table.setdefault(entry, {})[arch] = (registers, spill, frame)
    names = subprocess.run(["c++filt", "-p"], input="\n".join(table), capture_output=True,
                           text=True).stdout.splitlines()
    full = subprocess.run(["c++filt"], input="\n".join(table), capture_output=True,
                          text=True).stdout.splitlines()
    lines = ["| kernel | " + " | ".join("sm_" + a for a in archs) + " |", "| --- |" + " --- |" * len(archs)]
    bad = []
    for name, row in sorted(zip(full, table.values())):
        cells = []
        for a in archs:
            registers, spill, frame = row.get(a, (0, 0, 0))
            cells.append(f"{registers}" + (f" (spill {spill} B)" if spill else ""))
            if spill > MAY_SPILL.get((short(name), a), 0):
                bad.append(f"{short(name)} sm_{a}: {spill} B")
        lines.append(f"| `{short(name)}` | " + " | ".join(cells) + " |")
    text = "\n".join(lines) + f"\n\n{len(table)} kernels; attention instances: " + \
        str(sum("attn_" in n for n in names)) + "\n"
    print(text if not args.out else f"{len(table)} kernels; spills where none may be: {bad}")
    if args.out:
        pathlib.Path(args.out).write_text(text)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
