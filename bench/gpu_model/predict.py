#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Predicts the times of the hot kernels and of complete steps, with their bounds. Nothing here was measured on a GPU.

  bench/gpu_model/predict.py [--kernels FILE | --check | --write]

The input is FILE, or after.json (measure.py: exact counts, cycles of one warp from the machine code, launch of attention), and
cards.json (constants with their sources). --write writes the tables of before.json and after.json to bench/gpu_predictions.md;
--check fails if they differ, or if the counts of after.json differ from the budgets of tests/ptx.

The model. Registers, shared memory and warps determine how many warps an SM runs together. For each unit of work these warps
need the longest of: one warp's own cycles; instructions, one per cycle and scheduler; each pipe's cycles (mma, fp32, integer,
integer multiply-add, special); passes over shared memory, one per cycle; sectors from the L2 cache. One warp's cycles and the
rest do not overlap completely: the root of the sum of their squares replaces the longer one. This is the only choice that was
made from published times (calibrate.py). Blocks get their items as the launch distributes them, and the last block ends the
kernel. Memory traffic at the published share of the GPU's bandwidth overlaps with all that (combined by fourth powers). A
launch costs a gap. Products of cuBLASLt are not modelled: the design page assumes their rates. The bound of a kernel is the
longer of its bytes at the GPU's specified bandwidth and its products at the specified peak. Errors (ERRORS) are estimates from
comparisons of the model; those of a step's parts are added.
"""
import argparse
import heapq
import json
import math
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tests/ptx"))
import budgets  # noqa: E402
from cards import cards  # noqa: E402

PAGE = HERE.parent / "gpu_predictions.md"
SHAPES = {"Llama-3.1-8B": {"layers": 32, "inter": 14336, "vocab": 128256}, "Qwen3-8B": {"layers": 36, "inter": 12288, "vocab": 151936}}
HIDDEN, HEADS, KV_HEADS, DIM, GROUP = 4096, 32, 8, 128, 4
STEPS = [("decode", rows, context) for context in (1024, 8192) for rows in (1, 32, 256)] + [("prefill", 1, 8192)]
PARTIALS = (64 << 20) // (16 * DIM * 4)
TILE = 64
# Relative errors of a kernel's time if it is bound by instructions (the latencies are known to 30 %; calibrate.py is off by 13 %)
# or by memory, and of products of cuBLASLt.
ERRORS = {"instructions": 0.3, "memory": 0.1, "library": 0.15}


def together(*times, power=4):
    """Returns about the longest of times that mostly overlap."""
    return sum(t**power for t in times) ** (1 / power)


class Kernel:
    """One kernel on one card: `one` is a record of measure.py."""

    def __init__(self, card, name, one):
        self.card, self.one, self.warps = card, one, one["warps"]
        threads = 32 * one["warps"]
        registers = math.ceil(one["registers"] / 8) * 8 * threads
        self.resident = max(1, int(min(card["registers"] // registers, card["blocks"], card["warps"] // one["warps"],
                                       card["shared_kb"] * 1024 // (one["shared"] + 1024))))
        self.alone = one["cycles"][name]
        pipes = one["pipes"]
        fourth = max(one["sass"], pipes.get("mma", 0) * card["mma_cycles"], pipes.get("fp32", 0) * card["fp32_cycles"],
                     pipes.get("alu", 0) * card["alu_cycles"], pipes.get("imad", 0) * card["imad_cycles"],
                     pipes.get("special", 0) * card["special_cycles"]) / 4
        self.shared = max(fourth, one["wavefronts"], one["sectors"] * 32 / card["l2_bytes"])

    def unit(self, warps):
        """Returns the cycles in which each of `warps` warps of an SM completes one unit; `alone` counts a warp's share of a unit."""
        share = self.one["warps_a_unit"] or 1
        return together(self.alone / share, warps * self.shared / share, power=2)

    def dealt(self, items, blocks):
        """Returns the cycles until blocks that take the items (units each) one after another are done."""
        blocks = min(blocks, len(items))
        slots = self.card["processors"] * self.resident
        at_once = min(self.resident, math.ceil(blocks / self.card["processors"]))
        each = self.unit(at_once * self.warps)
        ends = [0.0] * min(slots, blocks)
        for first in range(blocks):
            heapq.heapreplace(ends, ends[0] + sum(items[first::blocks]) * each)
        return max(ends)

    def pool(self, units):
        """Returns the cycles for equal units, each on its own warps."""
        warps = units * self.one["warps_a_unit"]
        most = self.card["processors"] * self.resident * self.warps
        now = min(most, warps)
        return max(1, warps / most) * self.unit(now / self.card["processors"])


class Model:
    hidden, heads, kv_heads = HIDDEN, HEADS, KV_HEADS

    def __init__(self, name, kernels):
        self.name, self.card, self.kernels = name, cards()[name], kernels
        self.rate = self.card["memory_gbs"] * 1e9

    def seconds(self, cycles):
        return cycles / (self.card["clock_ghz"] * 1e9)

    def kernel(self, row, instance=None):
        found = [k for k in self.kernels["rows"][row] if instance is None or k["kernel"].startswith(instance)]
        return Kernel(self.card, self.name, found[0])

    def timed(self, work, bound, kind):
        """Returns (seconds with the gap of the launch, seconds of the bound, error of the first)"""
        time = work + self.card["gap_us"] * 1e-6
        return time, bound, time * ERRORS[kind]

    def finished(self, cycles, moved, bound):
        own, memory = self.seconds(cycles), moved / (self.rate * self.card["memory_share"])
        return self.timed(together(own, memory), bound, "memory" if memory > own else "instructions")

    def rows(self, row, units, moved):
        return self.finished(self.kernel(row).pool(units), moved, moved / self.rate)

    def product(self, tokens, n, k):
        """Returns the time of a product of cuBLASLt at the assumed rates."""
        moved, flops = 2 * (n * k + tokens * (n + k)), 2 * tokens * n * k
        bound = max(moved / self.rate, flops / (self.card["peak_tflops"] * 1e12))
        work = flops / (self.card["product_tflops"] * 1e12)
        return self.timed(together(moved / (self.rate * self.card["product_share"]), work), bound, "library")

    def own_product(self, tokens, n, k):
        """Returns the time of a product in exact mode: gemm_small up to 32 tokens, otherwise gemm_wide."""
        moved, flops = 2 * (n * k + tokens * (n + k)), 2 * tokens * n * k
        if tokens <= 32:
            kernel = self.kernel("product, %d tokens, bfloat16: a slab" % (1 if tokens <= 8 else 16 if tokens <= 16 else 32))
            items = [k / 32 / 8] * (n // 16)
        else:
            kernel = self.kernel("product, many tokens, bfloat16: a step")
            items = [k / 64] * (n // 128 * math.ceil(tokens / 64))
        return self.finished(kernel.dealt(items, len(items)), moved, max(moved / self.rate, flops / (self.card["peak_tflops"] * 1e12)))

    def part_keys(self, tiles, longest):
        """Returns the keys of a part as attn_plan.c splits a step of `tiles` tiles, of which a row has at most `longest`."""
        plan = self.kernels["plan"]
        workers = plan["parts_a_processor"] * self.card["processors"]
        if not workers:
            return plan["part_keys"]
        balanced = min(math.isqrt(longest // plan["merged_a_tile"]), plan["filled_least"] * tiles // workers)
        return min(plan["part_keys"], TILE * max(math.ceil(tiles / workers), balanced))

    def decode_items(self, rows, context):
        """Returns the tiles of each item, the number of merged rows and heads, and the number of their parts."""
        tiles, items, merges, free = math.ceil(context / TILE), [], 0, PARTIALS
        part = self.part_keys(rows * self.kv_heads * tiles, tiles)
        parts = math.ceil(context / part)
        for _ in range(rows * self.kv_heads):
            if parts > 1 and free >= parts:
                free, merges = free - parts, merges + 1
                items += [min(part, context - p * part) / TILE for p in range(parts)]
            else:
                items.append(tiles)
        return items, merges, parts

    def decode_attention(self, rows, context):
        plan = self.kernels["plan"]
        kernel = self.kernel("attention, decode, pages of 64: a tile")
        items, merges, parts = self.decode_items(rows, context)
        slots = self.card["processors"] * kernel.resident
        items = [units / kernel.warps for units in items]  # the warps of a block share its tiles
        blocks = plan["blocks_a_processor"] * self.card["processors"] or slots
        moved = 2 * 2 * rows * context * self.kv_heads * DIM
        merge = self.kernel("attention, merge of three parts").dealt([parts / 3] * merges, blocks) if merges else 0
        own = kernel.dealt(items, blocks)
        if plan["merge_launched"]:
            return added([self.finished(own, moved, moved / self.rate), self.finished(merge, 0, 0)])
        return self.finished(own + merge, moved, moved / self.rate)

    def prefill_attention(self, length):
        kernel = self.kernel("attention, prefill, pages of 64: a tile")
        each = self.kernels["plan"]["prefill_warp_rows"] // 16  # tiles of 16 rows that a warp computes for 64 keys
        rows = 16 * each * kernel.warps
        count = math.ceil(length * GROUP / rows)
        items = [each * math.ceil((t + 1) * rows / GROUP / TILE) for t in reversed(range(count)) for _ in range(self.kv_heads)]
        blocks = self.kernels["plan"]["blocks_a_processor"] * self.card["processors"] or self.card["processors"] * kernel.resident
        flops = 4 * DIM * self.heads * length * length / 2
        return self.finished(kernel.dealt(items, blocks), 0, flops / (self.card["peak_tflops"] * 1e12))

    def sampling(self, rows, vocab):
        """Returns the time of sampling with temperature only: the kernels of one row at 32,768, scaled to the vocabulary."""
        out = []
        for one in self.kernels["rows"]["sampling of 32768, temperature: a row"]:
            kernel = Kernel(self.card, self.name, one)
            scale = vocab / 32768 if one["kernel"] in ("sample_process", "sample_draw") else 1
            out.append(self.finished(kernel.pool(rows * scale), 0, 0))
        time, _, error = added(out)
        return time, rows * vocab * 4 / self.rate, error

    def layer(self, shape, kind, rows, context, exact):
        product = self.own_product if exact else self.product
        tokens = rows if kind == "decode" else context
        inter = shape["inter"]
        width = self.hidden + 2 * self.kv_heads * DIM
        norm = self.rows("add and norm of 4096: a row", tokens, tokens * self.hidden * 8)
        return {"products": added([product(tokens, width, self.hidden), product(tokens, self.hidden, self.hidden),
                                   product(tokens, 2 * inter, self.hidden), product(tokens, self.hidden, inter)]),
                "attention": self.decode_attention(rows, context) if kind == "decode" else self.prefill_attention(context),
                "norms": added([norm, norm]),
                "SwiGLU": self.rows("SwiGLU of 14336: a row", tokens * inter / 14336, tokens * inter * 6),
                "heads and KV": self.rows("heads and KV, 32 and 8 of 128: a row", tokens,
                                          tokens * DIM * (2 * (2 * (self.heads + self.kv_heads) + 2 * self.kv_heads) + 4))}

    def step(self, shape, kind, rows, context, exact=False):
        """Returns {part: (seconds, bound, error)} of a complete step, and its bound: weights and KV at the memory's bandwidth, or
        the products."""
        out = {name: added([times] * shape["layers"]) for name, times in self.layer(shape, kind, rows, context, exact).items()}
        head = (self.own_product if exact else self.product)(rows, shape["vocab"], self.hidden)
        sample = self.sampling(rows, shape["vocab"])
        others = [self.timed(0, 0, "instructions")] * 6  # prep, embedding, first norm, gather, signal, the graph itself
        out["head and sampling"] = added([head, sample, *others])
        tokens = rows if kind == "decode" else context
        weights = shape["layers"] * self.hidden * ((self.hidden + 2 * self.kv_heads * DIM) + self.hidden + 3 * shape["inter"])
        moved = 2 * (weights + shape["vocab"] * self.hidden) + shape["layers"] * 4 * rows * context * self.kv_heads * DIM * (kind == "decode")
        flops = 2 * weights * tokens + 2 * rows * shape["vocab"] * self.hidden
        if kind == "prefill":
            flops += shape["layers"] * 2 * DIM * self.heads * context * context
        return out, max(moved / self.rate, flops / (self.card["peak_tflops"] * 1e12))


class Experts(Model):
    """A mixture of experts: the shape of Qwen3-30B-A3B in bfloat16. gemm_experts uses the tiles of gemm_small and gemm_wide, so it has
    their records, with the warps, registers and shared memory of its own kernels (ptxas, sm_90a). Tokens choose experts uniformly and
    independently. CYCLES are counted by hand from the source and the latencies of cards.json: the search for a tile in each block; the
    rounds of a token's choice; the sort's two passes; and of combine, for each chosen expert, a read of its id and then of its row, from L2."""
    hidden, heads, kv_heads = 2048, 32, 4
    layers, experts, chosen, inner, vocab = 48, 128, 8, 768, 151936
    CYCLES = {"search": 700, "route": 3500, "sort": 1900, "combine": 600}  # combine: for each chosen expert

    def used(self, tokens):
        """Returns the expected number of experts that have rows."""
        return self.experts * (1 - (1 - self.chosen / self.experts) ** tokens)

    def experts_product(self, tokens, n, k):
        pairs, used = tokens * self.chosen, self.used(tokens)
        moved, flops = 2 * (used * n * k + pairs * (n + k)), 2 * pairs * n * k
        if pairs <= 32 * self.experts:
            few = pairs <= 4 * self.experts
            row, own = "product, %d tokens, bfloat16: a slab" % (1 if few else 32), {"warps": 4, "registers": 44 if few else 76, "shared": 2048 if few else 8192}
            rows, features, units = 8 if few else 32, 16, 16 * math.ceil(k / 2048)  # four warps, a part of 16 slabs in each round
        else:
            row, own, rows, features, units = "product, many tokens, bfloat16: a step", {"registers": 128}, 64, 128, k / 64
        tiles = round(used + max(0, pairs - used * (rows + 1) / 2) / rows) if pairs > used else pairs  # the last of each expert is half full
        kernel = Kernel(self.card, self.name, {**self.kernels["rows"][row][0], **own})
        cycles = kernel.dealt([units] * (tiles * (n // features)), tiles * (n // features)) + self.CYCLES["search"]
        return self.finished(cycles, moved, max(moved / self.rate, flops / (self.card["peak_tflops"] * 1e12)))

    def by_hand(self, name, moved=0):
        return self.finished(self.CYCLES[name] * (self.chosen if name == "combine" else 1), moved, moved / self.rate)

    def mixture(self, tokens):
        """Returns the times of the ops of a layer's experts, without the router's product."""
        pairs = tokens * self.chosen
        gate = self.rows("SwiGLU of 14336: a row", pairs * self.inner / 14336, pairs * self.inner * 6)
        return {"route": added([self.by_hand("route", tokens * self.experts * 4), self.by_hand("sort")]),
                "products": added([self.experts_product(tokens, 2 * self.inner, self.hidden), self.experts_product(tokens, self.hidden, self.inner)]),
                "gate": gate, "combine": self.by_hand("combine", 2 * (pairs + tokens) * self.hidden)}

    def step(self, rows, context):
        """Returns {part: (seconds, bound, error)} of a decode step in the default mode, and its bound."""
        heads = (self.heads + 2 * self.kv_heads) * DIM
        norm = self.rows("add and norm of 4096: a row", rows * self.hidden / 4096, rows * self.hidden * 8)
        norms = self.rows("heads and KV, 32 and 8 of 128: a row", rows * (self.heads + 2 * self.kv_heads) / 48, rows * heads * 4)
        dense = [self.product(rows, heads, self.hidden), self.product(rows, self.hidden, self.heads * DIM), self.product(rows, self.experts, self.hidden)]
        layer = {"experts": added(self.mixture(rows).values()), "other products": added(dense), "attention": self.decode_attention(rows, context),
                 "norms, heads and KV": added([norm, norm, norms])}
        out = {name: added([times] * self.layers) for name, times in layer.items()}
        others = [self.timed(0, 0, "instructions")] * 6
        out["head and sampling"] = added([self.product(rows, self.vocab, self.hidden), self.sampling(rows, self.vocab), *others])
        weights = self.layers * self.hidden * (heads + self.heads * DIM + self.experts + 3 * self.inner * self.used(rows)) + self.vocab * self.hidden
        moved = 2 * weights + self.layers * 4 * rows * context * self.kv_heads * DIM
        return out, moved / self.rate


# Others' measured times on H100 SXM (aiconfigurator, Apache-2.0): a layer of 128 experts of 768, 8 chosen, hidden 2048, bfloat16, microseconds;
# and decode steps of Qwen3-30B-A3B at 1,024 keys, milliseconds: sums of the best measured kernels, with 10 to 18 us a layer for the rest.
PEERS = {"layer": {1: "49, 49", 32: "359, 364", 256: "453, 452"}, "step": {1: "4.7", 32: "20.8"}}


def experts_tables(kernels):
    m = Experts("H100", kernels)
    lines = ["| experts of a layer, %s | predicted us | its bound us | of it products | TensorRT-LLM, vLLM: measured by others |" % m.name,
             "| --- | --- | --- | --- | --- |"]
    for tokens, others in PEERS["layer"].items():
        parts = m.mixture(tokens)
        time, bound, error = (x * 1e6 for x in added(parts.values()))
        lines.append("| %d tokens, %.0f experts used | %s | %.1f | %.1f | %s |" % (
            tokens, m.used(tokens), shown(time, bound, error)[0], bound, parts["products"][0] * 1e6, others))
    lines += ["", "| Qwen3-30B-A3B, bfloat16, default mode | predicted ms | its limit ms | predicted share | experts, attention of it | best kernels of others, summed |",
              "| --- | --- | --- | --- | --- | --- |"]
    for name in ("H100", "H200"):
        m = Experts(name, kernels)
        for rows, others in PEERS["step"].items():
            parts, bound = m.step(rows, 1024)
            time, _, error = added(parts.values())
            cells = shown(time * 1e3, bound * 1e3, error * 1e3)
            lines.append("| %s, decode %d at 1024 | %s | %.1f | %s | %.1f, %.1f | %s |" % (
                name, rows, cells[0], bound * 1e3, cells[1], parts["experts"][0] * 1e3, parts["attention"][0] * 1e3, others if name == "H100" else ""))
    return lines


def added(times):
    return tuple(sum(x) for x in zip(*times))


def shown(time, bound, error):
    """Returns the time with its error, and the share of the bound with the range that results from the error."""
    shares = [100 * bound / t for t in (time + error, time, time - error)]
    return "%s ± %s" % tuple(("%.0f" if time >= 100 else "%.1f") % x for x in (time, error)), "%.0f %% (%.0f to %.0f)" % (
        shares[1], shares[0], min(100, shares[2]))


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
    for tokens in (1, 32, 256, 8192):
        for n, k, which in ((6144, 4096, "both"), (28672, 4096, "Llama"), (24576, 4096, "Qwen3")):
            row("exact product, %d tokens, n %d k %d (%s)" % (tokens, n, k, which), m.own_product(tokens, n, k))
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


def step_table(models):
    lines = ["| step, default mode | " + " | ".join("%s, predicted ms | predicted share of its limit" % m.name for m in models) +
             " | attention of it |", "| --- |" + " --- |" * (2 * len(models) + 1)]
    for name, shape in SHAPES.items():
        for kind, rows, context in STEPS:
            cells, attention = [], ""
            for m in models:
                parts, bound = m.step(shape, kind, rows, context)
                time, _, error = added(parts.values())
                cells += shown(time * 1e3, bound * 1e3, error * 1e3)
                attention = attention or "%.1f" % (parts["attention"][0] * 1e3)
            what = "decode %d at %d" % (rows, context) if kind == "decode" else "prefill %d" % context
            lines.append("| %s, %s | %s | %s |" % (name, what, " | ".join(cells), attention))
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
    """Returns the table of shares of the limit on the H100 and their targets: reached, missed by less than the error, or missed."""
    aims = {("decode", 1): 85, ("decode", 32): 80, ("decode", 256): 80, ("prefill", 1): 55}
    lines = ["| step, H100, predicted share of its limit | before | after | aim |", "| --- | --- | --- | --- |"]
    for name, shape in SHAPES.items():
        for kind, rows, context in STEPS:
            cells = []
            for kernels in before, after:
                parts, bound = Model("H100", kernels).step(shape, kind, rows, context)
                time, _, error = added(parts.values())
                cells.append(shown(time, bound, error)[1])
            aim = aims[kind, rows]
            word = "reached" if bound >= aim / 100 * time else "missed, by less than the error" if bound >= aim / 100 * (time - error) else "missed"
            what = "decode %d at %s" % (rows, "{:,}".format(context)) if kind == "decode" else "prefill {:,}".format(context)
            lines.append("| %s, %s | %s | %s | %d %%: %s |" % (name, what, *cells, aim, word))
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


def tables_of(kernels):
    models = [Model(name, kernels) for name in ("H100", "H200", "A100")]
    return {"kernels": kernel_table(models[0]), "steps": step_table(models)}


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--kernels", type=pathlib.Path, default=HERE / "after.json")
    ask.add_argument("--check", action="store_true")
    ask.add_argument("--write", action="store_true")
    options = ask.parse_args()
    if not options.check and not options.write:
        print("\n".join(line for lines in tables_of(json.loads(options.kernels.read_text())).values() for line in lines))
        return 0
    text = new = PAGE.read_text()
    measured = {place: json.loads((HERE / (place + ".json")).read_text()) for place in ("before", "after")}
    for place, kernels in measured.items():
        for what, lines in tables_of(kernels).items():
            new = settle(new, "%s %s" % (place, what), lines)
    new = settle(new, "counts", counts_table(**measured))
    new = settle(new, "aims", aims_table(**measured))
    new = settle(new, "experts", experts_tables(measured["after"]))
    if options.write:
        PAGE.write_text(new)
        return 0
    old = aged(measured["after"])
    if old:
        sys.exit("bench/gpu_model/after.json is of other kernels, tools/gpu_tables.sh renews it:\n" + "\n".join(old))
    if new != text:
        sys.exit("bench/gpu_predictions.md has other predictions than the model: bench/gpu_model/predict.py --write")
    return 0


if __name__ == "__main__":
    sys.exit(main())
