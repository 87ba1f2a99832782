#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the counts of the hot kernels on the device ptx with their budgets: tests/ptx/budgets.txt.

  budgets.py --nvcc=NVCC KERNEL_COUNTS [--counts | --write | --print | --older]
  budgets.py --registers LOG

Exits 1, with a sentence for each count, if a count is more than 3 % above or below its budget (below, because a stale
budget would hide a later increase); 77 if nvcc is missing or has another version than the one in the file, because it
would generate other code. --write renews the file; the commit states the reason. A row that is missing in the file, or
that is no longer counted, is a failure, too. --older: for a KERNEL_COUNTS whose PTX is for an older architecture, without
the instructions for overlapping kernels: only counts above a budget fail; registers and steps are not compared.
--counts: without registers and spills, for which ptxas compiles for a minute. --registers: those alone, as ptxas reported
them (-Xptxas=-v) in the log of the plugin's compilation, for sm_90a.

Units: attention, a tile of one warp: 16 query rows, 64 keys, dim 128 unless the row states another; few tokens
(gemm_small): one warp, 16 features, 32 of k; many (gemm_wide) and experts: one warp, 32 features x 32 tokens, 64 of k;
conversions: one warp, 512 codes; others: a row. These are slopes over two lengths, so the start and end of a kernel
are not included; rows without a unit are complete launches. Instructions are those of PTX, issued by warps;
registers, spills (bytes per thread) and shared memory (bytes per block) are reported by ptxas.
"""
import argparse
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

FILE = pathlib.Path(__file__).resolve().with_name("budgets.txt")
ALLOWED = 0.03
COUNTS = ("instructions", "mma", "ldmatrix", "wavefronts", "conflicts", "sectors", "barriers")
GEMM = "gemm, n %d k %d rows %d"
EXPERT = "gemm_experts, n %d k %d rows %d"
HELD = {"FP8": "fp8", "FP8_128": "fp8_128", "int4_128": "codes<0, 4>", "int4z_128": "codes<1, 4>", "MXFP4": "codes<3, 1>"}


STRIPS = {"int8": "strip_bytes<bf16, int8>", "FP8": "strip_bytes<bf16, fp8>", "FP8_128": "strip_bytes<bf16, fp8_128>",
          "int4_128": "strip_codes<bf16, 0, 4>", "int4z_128": "strip_codes<bf16, 1, 4>", "MXFP4": "strip_codes<bf16, 3, 1>"}


def attention(what, form, units, first=512):
    return ("attention, %s" % what, r"attn_kernel", "attn, %s, %d" % (form, first), "attn, %s, %d" % (form, 2 * first), units)


# (what, kernel, case, longer case or None, units between them)
ROWS = [
    *[attention("decode, pages of %d: a tile" % n, "decode, pages of %d" % n, 8) for n in (16, 32, 64)],
    *[attention("prefill, pages of %d: a tile" % n, "prefill, pages of %d" % n, 64) for n in (16, 64)],
    attention("decode, dim 64: a tile", "decode, dim 64", 8),
    attention("decode, fp8: a tile", "decode, fp8", 8),
    attention("prefill, fp8: a tile", "prefill, fp8", 64),
    attention("decode, fp8, dim 64: a tile", "decode, fp8, dim 64", 8),
    attention("encoder, dim 64: a tile", "encoder, dim 64", 48, 128),
    ("attention, three parts and their merge", "attn_kernel", "attn, three parts", None, 1),
    ("attention, 64 parts and their merge", "attn_kernel", "attn, 64 parts", None, 1),
    *[("product, %d tokens, bfloat16: a slab" % m, "gemm_small_kernel<bf16, bf16", GEMM % (16, 2048, m),
       GEMM % (16, 4096, m), 64) for m in (1, 16, 32)],
    *[("product, %d tokens, int8: a slab" % m, "gemm_small_kernel<bf16, int8", GEMM % (16, 2048, m),
       GEMM % (16, 4096, m), 64) for m in (1, 32)],
    *[("product, %d tokens, %s: a slab" % (m, name), "gemm_small_kernel<bf16, %s," % held, GEMM % (16, 2048, m),
       GEMM % (16, 4096, m), 64) for name, held in HELD.items() for m in (1, 32)],
    *[("product, %d tokens, bfloat16: all of k 2048" % m, "gemm_small_kernel<bf16, bf16", GEMM % (16, 2048, m), None, 1)
      for m in (1, 16, 32)],  # the slopes above leave out how the parts are added
    *[row for name, held in {"bfloat16": "bf16", "int8": "int8", **HELD}.items() for row in (
        ("product, many tokens, %s: a step" % name, "gemm_wide_kernel<bf16, %s, 64" % held, GEMM % (128, 512, 64), GEMM % (128, 1024, 64), 64),
        ("product, 32 tokens, wide, %s: a step" % name, "gemm_wide_kernel<bf16, %s, 32" % held, GEMM % (512, 512, 32), GEMM % (512, 1024, 32), 128),
        ("expert of 32 rows, %s: a step" % name, "experts_wide_kernel<bf16, %s, 32" % held, EXPERT % (128, 512, 32), EXPERT % (128, 1024, 32), 32))],
    *[("conversion of %s: 512 codes" % name, kernel, "strip, n 16 k 4096", "strip, n 16 k 8192", 128) for name, kernel in STRIPS.items()],
    ("add and norm of 4096: a row", "rms_kernel", "add_rms_norm, rows 4 width 4096", "add_rms_norm, rows 8 width 4096", 4),
    ("SwiGLU of 14336: a row", "swiglu_kernel", "swiglu, rows 4 width 14336", "swiglu, rows 8 width 14336", 4),
    *[("%s of %d, %s: a row" % (what, width, held), kernel, "%s %s, rows 36 width %d" % (case, held.lower(), width),
       "%s %s, rows 40 width %d" % (case, held.lower(), width), 4)
      for held in ("FP8", "FP8_128") for what, width, kernel, case in (
          ("add, norm and codes", 4096, "rms_codes_kernel", "add_rms_norm before"),
          ("SwiGLU and codes", 14336, "gate_codes_kernel", "swiglu before"),
          ("rounding", 4096, "quantize_kernel", "rounding"))],
    ("heads and KV, 32 and 8 of 128: a row", "qkv_post_kernel", "qkv_post, tokens 4 heads 32/8 dim 128, QK-norm",
     "qkv_post, tokens 8 heads 32/8 dim 128, QK-norm", 4),
    *[("sampling of 32768, %s: a row" % form, "sample_", "sample, %s, rows 1, vocabulary 32768" % form, None, 1)
      for form in ("greedy", "temperature", "top-k 50, top-p 0.9", "penalties", "20 logprobs")],
]
STEPS = ("decode 1", "decode 256", "decode 256 at 8000", "prefill 64", "decode 1, exact", "decode 256, exact",
         "decode 256 at 8000, exact", "prefill 64, exact")


def nvcc_version(nvcc):
    if not nvcc or nvcc.endswith("NOTFOUND"):
        return None
    said = subprocess.run([nvcc, "--version"], stdout=subprocess.PIPE, text=True, check=True).stdout
    return re.search(r"V(\d+\.\d+\.\d+)", said).group(1)


def counted(program, *arguments):
    run = subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit("%s ends with %d: %s" % (program, run.returncode, run.stdout[-500:]))
    return [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]


def short(kernel):
    """attn_kernel<bf16, bf16, 128, 16> of a kernel as it is printed."""
    name = re.sub(r"\(anonymous namespace\)::", "", kernel)
    return re.sub(r"\(.*", "", name.replace("(int)", "").replace("> >", ">>"))


def instances(lines, case, kernel):
    return [one for one in lines if one["case"] == case and short(one["kernel"]).startswith(kernel)]


def summed(lines, case, kernel, count):
    found = instances(lines, case, kernel)
    if not found:
        sys.exit("no kernel %s... ran in the case '%s'" % (kernel, case))
    return sum(one[count] for one in found)


def kernel_rows(lines):
    rows = {}
    for what, kernel, case, longer, units in ROWS:
        rows[what] = {}
        for count in COUNTS:
            value = summed(lines, longer or case, kernel, count)
            value -= summed(lines, case, kernel, count) if longer else 0
            rows[what][count] = round(value / units, 2)
    return rows


def resource_rows(lines, folder, nvcc):
    """Returns shared memory, registers and spills by ptxas of each instance that a row ran; without nvcc nothing."""
    ran = {}
    for what, kernel, case, longer, units in ROWS:
        for one in instances(lines, longer or case, kernel):
            before = ran.get(one["entry"], one)
            ran[one["entry"]] = one if one["shared"] >= before["shared"] else before
    names = {"kernel " + short(one["kernel"]): (entry, one["shared"])
             for entry, one in sorted(ran.items(), key=lambda item: short(item[1]["kernel"]))}
    if not nvcc:
        return {what: {"shared": shared} for what, (entry, shared) in names.items()}
    ptxas = str(pathlib.Path(shutil.which(nvcc)).resolve().with_name("ptxas"))
    said, works = "", []
    for module in sorted({one["module"] for one in ran.values()}):
        entries = [entry for entry, one in ran.items() if one["module"] == module]
        works.append(subprocess.Popen([ptxas, "-v", "-arch=sm_90a", "-e", ",".join(entries), "%s/%d.ptx" % (folder, module),
                                       "-o", "/dev/null"], stderr=subprocess.PIPE, text=True))
    for work in works:
        said += work.communicate()[1]
        if work.returncode != 0:
            sys.exit("ptxas failed: " + said[-500:])
    found = reported(said)
    return {what: {**found[entry], "shared": shared} for what, (entry, shared) in names.items()}


def reported(said):
    """Returns registers and spills of each entry in the output of ptxas -v."""
    return {m.group(1): {"registers": int(m.group(4)), "spills": int(m.group(2)) + int(m.group(3))} for m in re.finditer(
        r"Compiling entry function '(\S+)' for.*?(\d+) bytes spill stores, (\d+) bytes spill loads.*?Used (\d+) registers",
        said, re.S)}


def register_rows(log):
    """Returns the rows of registers and spills of all kernels in a log of ptxas."""
    found = reported(log)
    names = subprocess.run(["c++filt"], input="\n".join(found), stdout=subprocess.PIPE, text=True, check=True).stdout
    return {"kernel " + short(name.removeprefix("void ")): row for name, row in zip(names.splitlines(), found.values())}


def step_rows(lines):
    rows = {}
    for case in STEPS:
        two, four = (next(one for one in lines if one["case"] == case and one["layers"] == n) for n in (2, 4))
        name = "nodes" if four["nodes"] else "launches"  # a graph has a node for each launch
        rows["step, " + case] = {"launches a layer": (four[name] - two[name]) / 2, "graph nodes of 32 layers":
                                 two["nodes"] + (four["nodes"] - two["nodes"]) * 15, "copied bytes": four["bytes"],
                                 "begin early a layer": (four["early"] - two["early"]) / 2}
    return rows


def measured(program, nvcc):
    with tempfile.TemporaryDirectory() as folder:
        lines = counted(program, "--texts", folder)
        return {**kernel_rows(lines), **resource_rows(lines, folder, nvcc), **step_rows(lines)}


def text_of(rows, version):
    head = ["# Budgets of the hot kernels, checked by budgets.py in `make test`; units are explained there. Renewed by",
            "# python3 tests/ptx/budgets.py --nvcc=nvcc build/release/bin/kernel_counts --write", "nvcc " + version]
    counts = lambda row: "; ".join("%s %s" % (name, ("%.2f" % value).removesuffix(".00")) for name, value in row.items())
    return "\n".join(head + ["%s: %s" % (what, counts(row)) for what, row in rows.items()]) + "\n"


def read(text):
    """The version, and the rows."""
    version, rows = None, {}
    for line in text.splitlines():
        if line.startswith("nvcc "):
            version = line[5:]
        elif not line.startswith("#"):
            what, counts = re.fullmatch(r"(.*): ([^:]*)", line).groups()
            rows[what] = {name: float(value) for name, value in (one.rsplit(" ", 1) for one in counts.split("; "))}
    return version, rows


def judge(rows, budgets, falls=True):
    """Sentences on what is above its budget or (falls) below it, and on rows that are in one of the two alone."""
    wrong = ["%s is in budgets.txt, but nothing counts it any more: renew" % what for what in budgets.keys() - rows.keys()]
    for what, row in rows.items():
        for count, value in row.items():
            budget = budgets.get(what, {}).get(count)
            if budget is None:
                wrong.append("%s: %s (%g) have no budget: renew" % (what, count, value))
            elif value > budget * (1 + ALLOWED):
                wrong.append("%s: %s are %g, the budget is %g" % (what, count, value, budget))
            elif falls and value < budget * (1 - ALLOWED):
                wrong.append("%s: %s are %g and have fallen below the budget of %g: renew" % (what, count, value, budget))
    return wrong


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--nvcc", default="nvcc")
    ask.add_argument("program", nargs="?")
    ask.add_argument("--write", action="store_true")
    ask.add_argument("--print", action="store_true")
    ask.add_argument("--older", action="store_true")
    ask.add_argument("--counts", action="store_true")
    ask.add_argument("--registers")
    options = ask.parse_args()
    if options.registers:
        budgets = {what: {name: row[name] for name in ("registers", "spills")}
                   for what, row in read(FILE.read_text())[1].items() if what.startswith("kernel ")}
        rows = register_rows(pathlib.Path(options.registers).read_text())
        return verdict({what: row for what, row in rows.items() if what in budgets}, budgets)
    version = nvcc_version(options.nvcc)
    wanted, budgets = read(FILE.read_text()) if FILE.exists() else (version, {})
    if version is None:
        print("skipped: no nvcc here, whose code the budgets are about")
        return 77
    if version != wanted and not (options.write or options.print):
        print("skipped: the budgets are those of nvcc %s, here is %s: renew them with --write" % (wanted, version))
        return 77
    if options.older:
        rows = kernel_rows(counted(options.program))
        wrong = judge(rows, {what: counts for what, counts in budgets.items() if what in rows}, falls=False)
        print("\n".join(wrong) or "%d rows are within their budgets" % len(rows))
        return 1 if wrong else 0
    rows = measured(options.program, None if options.counts else options.nvcc)
    if options.print:
        print(text_of(rows, version), end="")
        return 0
    if options.write:
        FILE.write_text(text_of(rows, version))
        return 0
    if options.counts:
        budgets = {what: {name: value for name, value in row.items() if name not in ("registers", "spills")}
                   for what, row in budgets.items()}
    return verdict(rows, budgets)


def verdict(rows, budgets):
    wrong = judge(rows, budgets)
    for sentence in wrong:
        print("not the budget: " + sentence)
    if wrong:
        print("make it cheaper, or renew tests/ptx/budgets.txt with --write and say why in the commit")
        return 1
    print("%d rows within their budgets" % len(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
