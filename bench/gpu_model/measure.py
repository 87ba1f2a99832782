#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes as JSON the machine instructions that the hot kernels issue, and the cycles that one warp needs for them.

  bench/gpu_model/measure.py KERNEL_COUNTS --out FILE [--nvdisasm NVDISASM]

KERNEL_COUNTS is the program of tests/ptx (its counts are exact), nvdisasm that of the toolkit or of PyPI's
nvidia-cuda-nvdisasm (13.2 or later). Rows and units are those of tests/ptx/budgets.py. Cycles are those of one warp alone on
an SM, from the control bits of the machine code for sm_90a and the latencies of each GPU in cards.json; a kernel that waits
for its own loads from memory uses the latency `stream`.
"""
import argparse
import collections
import json
import pathlib
import shutil
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/ptx"))
import budgets  # noqa: E402
import sass  # noqa: E402
from cards import cards  # noqa: E402

STREAMS = ("gemm_small", "strip_", "rms_", "layer_", "swiglu", "gate_codes", "quantize", "qkv_post", "sample_")
# The default launch of attention (attn_plan.c, attn_launch.h): maximum keys of a part; parts per SM that shorter parts aim at (0: all parts have
# the maximum); parts merged in the assumed time of a tile, and parts per SM of which at least one is filled (for longer parts of long
# rows); blocks per SM (0: as many as fit); whether a separate launch merges parts, even if there are none; query rows of a prefill warp.
# It describes the launch, not the model, and changes with the launch.
PLAN = {"part_keys": 1024, "parts_a_processor": 6, "merged_a_tile": 4, "filled_least": 4, "blocks_a_processor": 0, "merge_launched": False, "prefill_warp_rows": 32}
MERGE = "attention, merge of three parts"
FP32 = {"FADD", "FMUL", "FFMA", "HFMA2", "HMUL2", "FADD2"}
SPECIAL = {"MUFU", "I2F", "F2I", "F2F", "POPC", "FLO", "BREV"}
OTHERS = {"HMMA", "LDS", "LDSM", "LDG", "STG", "STS", "LDGSTS", "SHFL", "BRA", "BSSY", "BSYNC", "BAR", "LDC", "ULDC", "EXIT", "NOP",
          "ATOMS", "ATOM", "RED", "S2R", "S2UR", "WARPSYNC", "DEPBAR", "LDGDEPBAR", "MOVM", "CS2R", "VOTE", "R2UR"}


def pipe_of(opcode):
    name = sass.base(opcode)
    if name.startswith("U"):
        return "uniform"
    return ("mma" if name == "HMMA" else "fp32" if name in FP32 else "imad" if name.startswith("IMAD") else
            "special" if name in SPECIAL else "other" if name in OTHERS else "alu")


def issued_of(longer, shorter):
    counts = collections.Counter()
    for line, times in longer["lines"]:
        counts[line] += times
    for line, times in shorter["lines"] if shorter else []:
        counts[line] -= times
    return counts


class Measured:
    def __init__(self, program, nvdisasm, folder):
        self.lines = budgets.counted(program, "--lines", "--texts", folder)
        self.folder, self.nvdisasm, self.code = folder, nvdisasm, {}
        self.ptxas = str(pathlib.Path(shutil.which("nvcc")).resolve().with_name("ptxas"))
        self.resources = budgets.resource_rows(self.lines, folder, "nvcc")

    def code_of(self, one):
        ptx = "%s/%d.ptx" % (self.folder, one["module"])
        if one["entry"] not in self.code:
            found = sass.disassembled(self.ptxas, self.nvdisasm, ptx, [one["entry"]], self.folder)[one["entry"]]
            self.code[one["entry"]] = (*found, pathlib.Path(ptx).read_text().split("\n"))
        return self.code[one["entry"]]

    def kernel(self, one, shorter, units, parts=0):
        """Returns the record of a kernel per unit. parts: if not 0, counts only instructions whose issues grow by less than `parts`
        between the two launches, such as the merge by the last warp."""
        warps = one["warps"] - (shorter["warps"] if shorter else 0)
        instructions, labels, text = self.code_of(one)
        issues = sass.issues_of(instructions, labels, issued_of(one, shorter), text)
        if parts:  # each launch separately: the start of a merge is issued equally often in both
            longer, less = (sass.issues_of(instructions, labels, dict(x["lines"]), text) for x in (one, shorter))
            issues = [a - b if a - b < parts else 0 for a, b in zip(longer, less)]
        pipes = collections.Counter()
        for i, times in zip(instructions, issues):
            pipes[pipe_of(i.opcode)] += times
        name = budgets.short(one["kernel"])
        cycles = {}
        for card, constants in cards().items():
            latency = dict(constants["latency"])
            if name.startswith(STREAMS) or parts:
                latency["LDG"] = latency["stream"]
            cycles[card] = round(sass.alone(instructions, labels, issues, latency) / units, 1)
        counts = {c: (one[c] - (shorter[c] if shorter else 0)) / units
                  for c in ("instructions", "mma", "wavefronts", "conflicts", "sectors")}
        return {"kernel": name, "ptx": round(counts.pop("instructions"), 2), **{k: round(v, 2) for k, v in counts.items()},
                "sass": round(sum(issues) / units, 1), "pipes": {k: round(v / units, 1) for k, v in sorted(pipes.items())},
                "cycles": cycles, "warps": one["warps"] // one["blocks"],
                "warps_a_unit": (one["warps"] - (shorter["warps"] if shorter else 0)) / units, **self.resources["kernel " + name]}

    def merge(self):
        """Returns the record of the merge inside the attention kernel: issues and cycles of its code, and the sectors of the parts'
        states, written and read. For three parts, from the difference of 64 and 32 parts, of which all except the last have no keys."""
        (one,), (shorter,) = (budgets.instances(self.lines, "attn, %d parts" % n, "attn_kernel") for n in (64, 32))
        units = 32 / 3
        ptx = sum(times for times in issued_of(one, shorter).values() if times < 32) / units
        return {**self.kernel(one, shorter, units, 32), "ptx": round(ptx, 2), "mma": 0, "wavefronts": 0, "warps_a_unit": 1}


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("program")
    ask.add_argument("--nvdisasm", default=sass.nvdisasm_here())
    ask.add_argument("--out", required=True)
    options = ask.parse_args()
    if not options.nvdisasm:
        sys.exit("no nvdisasm: give that of the toolkit or of PyPI's nvidia-cuda-nvdisasm by --nvdisasm")
    rows = {}
    with tempfile.TemporaryDirectory() as folder:
        measured = Measured(options.program, options.nvdisasm, folder)
        for what, kernel, case, longer, units in budgets.ROWS:
            before = {one["entry"]: one for one in budgets.instances(measured.lines, case, kernel)}
            rows[what] = [measured.kernel(one, before.get(one["entry"]) if longer else None, units)
                          for one in budgets.instances(measured.lines, longer or case, kernel)]
        rows[MERGE] = [measured.merge()]
        steps = budgets.step_rows(measured.lines)
    out = {"nvcc": budgets.nvcc_version("nvcc"), "plan": PLAN, "rows": rows, "steps": steps}
    pathlib.Path(options.out).write_text(json.dumps(out, indent=1) + "\n")


if __name__ == "__main__":
    main()
