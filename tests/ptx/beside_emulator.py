#!/usr/bin/env python3
"""The conformance walk on the device ptx, and the bits of each op beside those of the emulator.

  beside_emulator.py CONFORMANCE LIBWEFT_SIMT.SO LIBWEFT_PTX.SO [OP]

Both run the same kernels: the emulator as the host compiler understands the sources, the interpreter as nvcc
does. Rounding is fixed in exact mode, so that every op and type must give the same bits, but those of
APPROXIMATE. Prints the cases, and exits 1 where a case fails or bits differ.
"""
import re
import subprocess
import sys

# Their exponential is the library's: of the host's C there, of the toolkit's device code here.
APPROXIMATE = ("activate", "swiglu")


def walk(program, device, library, op):
    """{(type, op): bits}, and the summary's line; None where the walk fails."""
    out = subprocess.run([program, device, library, *op], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, errors="replace")
    if out.returncode != 0:
        sys.exit(f"conformance {device} fails:\n{out.stdout[-4000:]}")
    lines = out.stdout.splitlines()
    found = [re.fullmatch(r"ok +\w+, (\w+): (\w+), bits (\w+)", line) for line in lines]
    return {m.group(1, 2): m.group(3) for m in found if m}, lines[-1]


def main():
    program, simt, ptx, *op = sys.argv[1:]
    emulated, first = walk(program, "simt", simt, op)
    interpreted, second = walk(program, "ptx", ptx, op)
    print(first, second, sep="\n")
    if not emulated or emulated.keys() != interpreted.keys():
        sys.exit("the two devices did not walk the same ops")
    differing = [f"{name} in {dtype}" for (dtype, name), bits in emulated.items() if interpreted[dtype, name] != bits]
    print(f"{len(emulated) - len(differing)} of {len(emulated)} ops and types give equal bits; others: {differing}")
    if any(text.split(" in ")[0] not in APPROXIMATE for text in differing):
        sys.exit("other bits than the emulator: " + ", ".join(differing))


if __name__ == "__main__":
    main()
