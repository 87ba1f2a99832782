#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes what the hot kernels issue, in machine code, and what one warp needs for it, as JSON.

  bench/gpu_model/measure.py KERNEL_COUNTS --out FILE [--nvdisasm NVDISASM]

KERNEL_COUNTS is tests/ptx's program (its counts are exact), nvdisasm that of the toolkit or of PyPI's nvidia-cuda-nvdisasm
(13.2 or later). Rows and units are those of tests/ptx/budgets.py. Cycles are of one warp with nothing else on the
processor, by the control bits of the machine code for sm_90a and the latencies of each card in cards.json; a kernel that
waits for its own loads from memory takes the latency `stream`.
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

STREAMS = ("gemm_small", "rms_", "layer_", "swiglu", "qkv_post", "sample_")
# How attention is launched by default (attn_plan.c, attn.h): keys of a part at most, parts a processor that smaller parts aim at
# (0: all parts are that long), parts that a merge is taken to weigh in the time of a tile and processors' parts of which one is filled at
# least (longer parts of long rows), blocks a processor (0: as many as fit), whether a launch of its own merges parts, with nothing to
# merge, too, and query rows of a prefill warp. Of the launch, not of the model: it changes with it.
PLAN = {"part_keys": 1024, "parts_a_processor": 6, "merged_a_tile": 4, "filled_least": 4, "blocks_a_processor": 0, "merge_launched": False, "prefill_warp_rows": 32}
MERGE = "attention, merge of three parts"
FP32 = {"FADD", "FMUL", "FFMA", "HFMA2", "FADD2"}
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
        """parts: only what is issued less often than that many parts more are computed, as the merge by the warp that comes last."""
        warps = one["warps"] - (shorter["warps"] if shorter else 0)
        instructions, labels, text = self.code_of(one)
        issues = sass.issues_of(instructions, labels, issued_of(one, shorter), text)
        if parts:  # each launch by itself: what begins a merge is issued as often in both
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
        """The merge inside of attention's kernel as a record of its own: its code's issues and cycles, and the sectors of parts' states,
        written and read; of three parts, by the difference of 64 parts and 32, of which all but the last have no keys."""
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
