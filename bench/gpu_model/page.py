#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the predictions and the errors of the model to bench/gpu_predictions.md, and those of several GPUs to docs/CLUSTER.md.

  bench/gpu_model/page.py [--kernels FILE | --check | --write]

The input is FILE, or after.json (measure.py), the model of predict.py, and the fits of fit.py. --write writes the tables; --check
fails if they differ, or if the counts of after.json differ from the budgets of tests/ptx.
"""
import argparse
import json
import pathlib
import sys

import cluster
import fit
import formats
from predict import HERE, OTHERS_STEPS, PAGE, SHAPES, STEPS, WEIGHT_BYTES, Experts, Model, added

sys.path.insert(0, str(HERE.parents[1] / "tests/ptx"))
import budgets  # noqa: E402


def shown(time, bound, error):
    """Returns the time with its error, and the share of the bound with the range that results from the error."""
    shares = [100 * bound / t for t in (time + error, time, time - error)]
    return "%s ± %s" % tuple(("%.0f" if time >= 100 else "%.1f") % x for x in (time, error)), "%.0f %% (%.0f to %.0f)" % (
        shares[1], shares[0], min(100, shares[2]))


def experts_tables(kernels):
    """Returns the table of a mixture's steps; fit.peers_table has its layers next to others."""
    lines = ["| Qwen3-30B-A3B, bfloat16, default mode | predicted ms | its limit ms | predicted share | experts, attention of it | best kernels of others, summed |",
             "| --- | --- | --- | --- | --- | --- |"]
    for name in ("H100", "H200"):
        m = Experts(name, kernels)
        for rows in (1, 8, 32, 64, 256):
            if name == "H100" and rows > 128:  # 61 GB of weights and 27 GB of keys and values
                continue
            parts, bound = m.step(rows, 1024)
            time, _, error = added(parts.values())
            cells = shown(time * 1e3, bound * 1e3, error * 1e3)
            others = OTHERS_STEPS.get(name, {}).get(("qwen3-30b-a3b", "decode %d at 1024" % rows), "")
            lines.append("| %s, decode %d at 1024 | %s | %.1f | %s | %.1f, %.1f | %s |" % (
                name, rows, cells[0], bound * 1e3, cells[1], parts["experts"][0] * 1e3, parts["attention"][0] * 1e3, others))
    return lines


def kernel_table(m):
    """Returns the table of hot kernels at the shapes of both models: time of a launch, bound, and share of the bound."""
    lines = ["| kernel, %s | predicted us | its bound us | predicted share |" % m.name, "| --- | --- | --- | --- |"]

    def row(what, times):
        time, bound, error = (x * 1e6 for x in times)
        lines.append("| %s | %s | %.1f | %s |" % (what, shown(time, bound, error)[0], bound, shown(time, bound, error)[1]))

    for rows in (1, 32, 256):
        for context in (1024, 8192):
            row("attention and merge, decode %d at %d" % (rows, context), m.decode_attention(rows, context))
    row("attention, prefill 8192", m.prefill_attention(8192))
    if "attention, decode, fp8: a tile" in m.kernels["rows"]:
        for rows, context in ((1, 1024), (1, 8192), (32, 1024), (32, 8192), (256, 1024), (256, 8192)):
            row("attention and merge, fp8 keys, decode %d at %d" % (rows, context), m.decode_attention(rows, context, True))
        row("attention, fp8 keys, prefill 8192", m.prefill_attention(8192, fp8=True))
    for tokens in (1, 32, 256, 8192):
        for n, k, which in ((6144, 4096, "both"), (28672, 4096, "Llama"), (24576, 4096, "Qwen3")):
            row("exact product, %d tokens, n %d k %d (%s)" % (tokens, n, k, which), m.own_product(tokens, n, k))
    for held in list(WEIGHT_BYTES)[1:]:
        for tokens in (1, 32, 256):
            row("product of %s, %d tokens, n 6144 k 4096" % (held, tokens), m.own_product(tokens, 6144, 4096, held))
    for tokens in (256, 8192):
        row("product of FP8 in the default mode, x rounded to FP8, %d tokens, n 6144 k 4096" % tokens, m.codes_product(tokens, 6144, 4096))
    for held in list(WEIGHT_BYTES)[3:]:
        for tokens in (256, 8192):
            row("product of %s in the default mode, by strips, %d tokens, n 6144 k 4096" % (held, tokens), m.strips_product(tokens, 6144, 4096, held))
    for tokens in (1, 256, 8192):
        parts = [(name.split("-")[0], m.layer(shape, "decode", tokens, 64, False)) for name, shape in SHAPES.items()]
        row("add and norm, %d tokens" % tokens, tuple(x / 2 for x in parts[0][1]["norms"]))
        row("heads and KV, %d tokens" % tokens, parts[0][1]["heads and KV"])
        for name, layer in parts:
            row("SwiGLU, %d tokens (%s)" % (tokens, name), layer["SwiGLU"])
    for rows in (1, 256):
        for name, shape in SHAPES.items():
            row("sampling with temperature, %d rows (%s)" % (rows, name.split("-")[0]), m.sampling(rows, shape["vocab"]))
    return lines


def step_table(models, measured):
    """measured: {(kind, rows, context): (default s, exact s)} of Qwen3-8B on the H200."""
    lines = ["| step, default mode | " + " | ".join("%s, predicted ms | predicted share of its limit" % m.name for m in models) +
             " | attention of it, %s | H200, measured ms |" % models[0].name, "| --- |" + " --- |" * (2 * len(models) + 2)]
    for name, shape in SHAPES.items():
        for kind, rows, context in STEPS:
            cells, attention = [], ""
            for m in models:
                parts, bound = m.step(shape, kind, rows, context)
                time, _, error = added(parts.values())
                cells += shown(time * 1e3, bound * 1e3, error * 1e3)
                attention = attention or "%.1f" % (parts["attention"][0] * 1e3)
            what = "decode %d at %d" % (rows, context) if kind == "decode" else "prefill %d" % context
            own = measured.get((kind, rows, context)) if name == "Qwen3-8B" else None
            lines.append("| %s, %s | %s | %s | %s |" % (name, what, " | ".join(cells), attention, "%.1f" % (own[0] * 1e3) if own else "–"))
    return lines


def decided(aim, after):
    """Returns the target of a count, and whether it is reached."""
    return "%s: %s" % (aim, "reached" if after else "missed") if aim else ""


def counts_table(before, after):
    """Returns the table of counts before and after, with their targets."""
    lines = ["| counted | before | after | aim |", "| --- | --- | --- | --- |"]

    def row(what, count, aim="", reached=lambda old, new: True, said="{:,.0f}".format):
        old, new = count(before), count(after)
        lines.append("| %s | %s | %s | %s |" % (what, said(old), said(new), decided(aim, reached(old, new))))

    one = lambda form, name: lambda kernels: kernels["rows"]["attention, %s: a tile" % form][0][name]
    for form, aim, most in (("decode, pages of 16", "1,150", lambda old: 1150), ("decode, pages of 32", "1,150", lambda old: 1150),
                            ("decode, pages of 64", "850", lambda old: 850), ("prefill, pages of 16", "a third", lambda old: old / 3),
                            ("prefill, pages of 64", "a third", lambda old: old / 3)):
        row("machine instructions of a tile: %s" % form, one(form, "sass"), "at most " + aim, lambda old, new: new <= most(old))
        row("PTX instructions of it", one(form, "ptx"))
        row("cycles of it, one warp alone (H100)", lambda kernels: one(form, "cycles")(kernels)["H100"])
        row("sectors that it reads", one(form, "sectors"))
        row("registers of its kernel", one(form, "registers"))
    for context in 1024, 8192:
        def items(kernels):
            m = Model("H100", kernels)
            return len(m.decode_items(1, context)[0]), m.card["processors"]
        row("items of attention at batch 1, %s keys; processors that work" % "{:,}".format(context), items,
            "100 of 132" if context == 1024 else "", lambda old, new: min(new) >= 100, lambda n: "%d; %d of %d" % (n[0], min(n), n[1]))
    step = lambda case, name: lambda kernels: kernels["steps"].get("step, " + case, {}).get(name)
    row("launches a decode layer", step("decode 1", "launches a layer"))
    row("nodes of a decode graph of 32 layers", step("decode 1", "graph nodes of 32 layers"))
    for case, what in (("decode 1", "one row of 64 keys"), ("decode 256", "256 rows of 64 keys"), ("decode 256 at 8000", "256 rows of 8,000 keys")):
        row("bytes copied a decode step of " + what, step(case, "copied bytes"), "at most 65,536", lambda old, new: new <= 65536,
            lambda n: "not counted" if n is None else "{:,.0f}".format(n))
    return lines


def aims_table(before, after):
    """Returns the table of shares of the limit on the H100 and their targets: reached, missed by less than the error, or missed. Old and
    new kernels with the frozen constants, and the new ones with the renewed constants, which are compared with the target."""
    aims = {("decode", 1): 85, ("decode", 32): 80, ("decode", 256): 80, ("prefill", 1): 55}
    models = (Model("H100", before, frozen=True), Model("H100", after, frozen=True), Model("H100", after))
    lines = ["| step, H100, predicted share of its limit | kernels of 23 November, frozen constants | today's kernels, frozen constants | today's kernels, renewed constants | aim |",
             "| --- | --- | --- | --- | --- |"]
    for name, shape in SHAPES.items():
        for kind, rows, context in STEPS:
            cells = []
            for model in models:
                parts, bound = model.step(shape, kind, rows, context)
                time, _, error = added(parts.values())
                cells.append(shown(time, bound, error)[1])
            aim = aims[kind, rows]
            word = "reached" if bound >= aim / 100 * time else "missed, by less than the error" if bound >= aim / 100 * (time - error) else "missed"
            what = "decode %d at %s" % (rows, "{:,}".format(context)) if kind == "decode" else "prefill {:,}".format(context)
            lines.append("| %s, %s | %s | %s | %s | %d %%: %s |" % (name, what, *cells, aim, word))
    return lines


def aged(kernels):
    """Returns sentences on counts in the records that differ from budgets.txt, which `make test` compares with the kernels."""
    version, counts = budgets.read(budgets.FILE.read_text())
    if kernels["nvcc"] != version:
        return ["it is measured with nvcc %s, the budgets with %s" % (kernels["nvcc"], version)]
    counts = {what: row for what, row in counts.items() if not what.startswith("kernel ")}
    names = {"ptx": "instructions", "mma": "mma", "wavefronts": "wavefronts", "conflicts": "conflicts", "sectors": "sectors"}
    rows = {what: {new: sum(one[old] for one in found) for old, new in names.items()}
            for what, found in kernels["rows"].items() if what in counts}
    return budgets.judge({**rows, **kernels["steps"]}, counts)


def settle(text, place, lines):
    first, last = "<!-- model %s -->\n" % place, "<!-- end model -->"
    before, rest = text.split(first, 1)
    return before + first + "\n".join(lines) + "\n" + last + rest.split(last, 1)[1]


def tables_of(before, after):
    """Returns the lines of each table of the page."""
    models = [Model(name, after) for name in ("H100", "H200", "A100")]
    return {"after kernels": kernel_table(models[0]), "after steps": step_table(models, fit.measured()[3]), "counts": counts_table(before, after),
            "aims": aims_table(before, after), "experts": experts_tables(after), "formats": formats.table(after), "rounding": formats.rounding_table(after), "four bits": formats.four_bits_table(after),
            "constants": fit.constants_table(),
            "held out": fit.held_out_table(after), "renewed": fit.renewed_table(after), "peers": fit.peers_table(after)}


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--kernels", type=pathlib.Path, default=HERE / "after.json")
    ask.add_argument("--check", action="store_true")
    ask.add_argument("--write", action="store_true")
    options = ask.parse_args()
    after = json.loads(options.kernels.read_text())
    pages = {PAGE: tables_of(json.loads((HERE / "before.json").read_text()), after), cluster.PAGE: cluster.tables()}
    for page, tables in pages.items():
        text = new = page.read_text()
        for place, lines in tables.items():
            new = settle(new, place, lines)
        if options.write:
            page.write_text(new)
        elif not options.check:
            print("\n".join(line for lines in tables.values() for line in lines))
        elif new != text:
            sys.exit("%s has other predictions than the model: bench/gpu_model/page.py --write" % page.relative_to(HERE.parents[1]))
    if options.check and (old := aged(after)):
        sys.exit("bench/gpu_model/after.json is of other kernels, tools/gpu_tables.sh renews it:\n" + "\n".join(old))
    return 0


if __name__ == "__main__":
    sys.exit(main())
