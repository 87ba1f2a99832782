#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the conformance test on the device ptx and compares the bits of each op with those of the emulator.

  beside_emulator.py CONFORMANCE LIBWEFT_SIMT.SO LIBWEFT_PTX.SO [OP|types]    types: few cases of each op in each type
  beside_emulator.py --seeds CONFORMANCE LIBWEFT_PTX.SO OP ...     with three seeds, compared with the bits without a seed
  beside_emulator.py --words GPU_PROBE_SIMT GPU_PROBE_PTX          each wrapper of dev.h

Both run the same kernels: the emulator as the host compiler translates the sources, the interpreter as nvcc
does. Rounding is fixed in exact mode, so every op and type must give the same bits, except those of
APPROXIMATE. A seed randomizes the order of warps, the sides of branches and unwritten memory: no bits may depend
on it. Prints the cases, and exits 1 if a case fails or bits differ.
"""
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import gpu_words  # noqa: E402

# They use exp() and tanh() of a library: of the host's C library in the emulator, of the toolkit's device code in
# nvcc's PTX. The 16-bit outputs of swiglu, whose gate may be the tanh form of GELU, round the difference away.
APPROXIMATE = ("activate in float32", "activate in float16", "swiglu in float32")
VECTORS = pathlib.Path(__file__).resolve().parents[1] / "simt/mma_vectors.txt"
KINDS = 54  # ops with types
CASES = {"": 2040, "types": 1572}  # of the complete run, and of few of each kind
SEEDED = ("prep", "rms_norm", "layer_norm", "pool", "gather")  # the fast ops; make soak runs the others


def lines_of(command, **more):
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", **more)
    if out.returncode != 0:
        print(f"{' '.join(command)} ends with {out.returncode}:\n{out.stdout[-4000:]}")
        sys.exit(1 if out.returncode > 0 or "check failed: " in out.stdout else 3)  # 3: a crash
    return out.stdout.splitlines()


def walk(program, device, library, op, seed=0):
    """{(type, op): bits}, and the summary's line."""
    lines = lines_of([program, device, library, *op], env=dict(os.environ, WEFT_PTX_SEED=str(seed)))
    found = [re.fullmatch(r"ok +\w+, (\w+): (\w+), bits (\w+)", line) for line in lines]
    return {m.group(1, 2): m.group(3) for m in found if m}, lines[-1]


def differing(these, those):
    if not these or these.keys() != those.keys():
        sys.exit("the two did not walk the same ops")
    return [f"{name} in {dtype}" for (dtype, name), bits in these.items() if those[dtype, name] != bits]


def seeds(program, ptx, ops, numbers, known=None):
    for op in ops:
        plain = {k: v for k, v in known.items() if k[1] == op} if known else walk(program, "ptx", ptx, [op])[0]
        for seed in numbers:
            other = differing(plain, walk(program, "ptx", ptx, [op], seed)[0])
            if other:
                sys.exit(f"other bits by the seed {seed}: {', '.join(other)}")
    print(f"by seed the same bits: {', '.join(ops)}")


def words(emulated, interpreted):
    these, those = lines_of([emulated]), lines_of([interpreted])
    wrong = gpu_words.compared(these, those)
    if wrong:
        sys.exit("\n".join(wrong))
    print(f"{len(these)} words of the wrappers are the emulator's, or as near as a card's must be")
    for rule in ("rounded", "hopper", "ampere"):  # each arithmetic of tests/simt/mma.h
        env = dict(os.environ, WEFT_SIMT_MMA=rule)
        these, those = (lines_of([program, "sums", str(VECTORS)], env=env) for program in (emulated, interpreted))
        if these != those or sum("this device follows" in line for line in those) != 2:
            sys.exit("\n".join([f"mma as {rule}: the emulator, then the interpreter:", *these, *those]))
    print("mma has the words of each arithmetic of tests/simt/mma.h")


def main():
    if sys.argv[1] == "--words":
        return words(*sys.argv[2:])
    if sys.argv[1] == "--seeds":
        return seeds(*sys.argv[2:4], sys.argv[4:], (1, 2, 3))
    program, simt, ptx, *op = sys.argv[1:]
    emulated, first = walk(program, "simt", simt, op)
    interpreted, second = walk(program, "ptx", ptx, op)
    print(first, second, sep="\n")
    other = differing(emulated, interpreted)
    print(f"{len(emulated) - len(other)} of {len(emulated)} ops and types give equal bits; others: {other}")
    if any(text not in APPROXIMATE for text in other):
        sys.exit("other bits than the emulator: " + ", ".join(other))
    if cases := CASES.get("".join(op)):
        if len(emulated) != KINDS or any(f" {cases} cases" not in line for line in (first, second)):
            sys.exit(f"this walk is {KINDS} ops and types in {cases} cases")
        seeds(program, ptx, SEEDED, (1,), interpreted)  # these ops have the same cases in both walks


if __name__ == "__main__":
    main()
