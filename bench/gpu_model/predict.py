# SPDX-License-Identifier: Apache-2.0
"""The model: predicts the times of the hot kernels and of complete steps, with their bounds.

The input is a file of measure.py (exact counts, cycles of one warp from the machine code, launch of attention) and the constants of
cards.py with their sources. page.py writes the predictions, fit.py fits the constants that measurements can give.

The model. Registers, shared memory and warps determine how many warps an SM runs together. For each unit of work these warps
need the longest of: one warp's own cycles; instructions, one per cycle and scheduler; each pipe's cycles (mma, fp32, integer,
integer multiply-add, special); passes over shared memory, one per cycle; sectors from the L2 cache. One warp's cycles and the
rest do not overlap completely: the root of the sum of their squares replaces the longer one. This is the only choice that was
made from published times (calibrate.py). Blocks get their items as the launch distributes them, and the last block ends the
kernel. Memory traffic at the published share of the GPU's bandwidth overlaps with all that (combined by fourth powers). A
launch costs a gap. Products of cuBLASLt are not modelled: their rates are fitted to measurements. The bound of a kernel is the
longer of its bytes at the GPU's specified bandwidth and its products at the specified peak. Errors (ERRORS) are estimates from
comparisons of the model; those of a step's parts are added.
"""
import heapq
import json
import math
import pathlib

from cards import cards

HERE = pathlib.Path(__file__).resolve().parent
PAGE = HERE.parent / "gpu_predictions.md"
SHAPES = {"Llama-3.1-8B": {"layers": 32, "inter": 14336, "vocab": 128256}, "Qwen3-8B": {"layers": 36, "inter": 12288, "vocab": 151936}}
HIDDEN, HEADS, KV_HEADS, DIM, GROUP = 4096, 32, 8, 128, 4
STEPS = [("decode", rows, context) for context in (1024, 8192) for rows in (1, 32, 256)] + [("prefill", 1, 8192)]
STRIP_BYTES = 32 << 20  # kernels/cuda/internal.h
PARTIALS = (64 << 20) // (16 * DIM * 4)
TILE = 64
# Bytes of an element of a weight, with its part of a scale and zero point (kernels/cuda/codes.h).
WEIGHT_BYTES = {"bfloat16": 2, "FP8": 1, "FP8_128": 1, "int4_128": 0.5 + 2 / 128, "int4z_128": 0.5 + 4 / 128, "MXFP4": 0.5 + 2 / 32}
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

    def __init__(self, name, kernels, frozen=False):
        self.name, self.card, self.kernels, self.frozen = name, cards(frozen)[name], kernels, frozen
        self.rate = self.card["memory_gbs"] * 1e9

    def seconds(self, cycles):
        return cycles / (self.card["clock_ghz"] * 1e9)

    def kernel(self, row, instance=None):
        found = [k for k in self.kernels["rows"][row] if instance is None or k["kernel"].startswith(instance)]
        return Kernel(self.card, self.name, found[0])

    def timed(self, work, bound, kind, gap="gap_us"):
        """Returns (seconds with the gap of the launch, seconds of the bound, error of the first)"""
        time = work + self.card[gap] * 1e-6
        return time, bound, time * ERRORS[kind]

    def finished(self, cycles, moved, bound):
        own, memory = self.seconds(cycles), moved / (self.rate * self.card["memory_share"])
        return self.timed(together(own, memory), bound, "memory" if memory > own else "instructions")

    def rows(self, row, units, moved):
        return self.finished(self.kernel(row).pool(units), moved, moved / self.rate)

    def library_product(self, tokens, n, k, dtype="bf16"):
        """Returns the time of a product of cuBLASLt at its fitted (A100: assumed) rates."""
        name, weight = ("product_", 2) if dtype == "bf16" else ("fp8_product_", 1)
        moved, flops = weight * (n * k + tokens * k) + 2 * tokens * n, 2 * tokens * n * k
        bound = max(moved / self.rate, flops * weight / 2 / (self.card["peak_tflops"] * 1e12))
        work = flops / (self.card[name + "tflops"] * 1e12)
        return self.timed(together(moved / (self.rate * self.card[name + "share"]), work), bound, "library", name + "gap_us")

    def product(self, tokens, n, k):
        """Returns the time of a product in the default mode, which tunes: the faster of cuBLASLt and, up to 32 tokens, gemm_small."""
        library = self.library_product(tokens, n, k)
        return library if self.frozen or tokens > 32 else min(library, self.own_product(tokens, n, k))

    def own_product(self, tokens, n, k, held="bfloat16"):
        """Returns the time of a product in exact mode: gemm_small up to 32 tokens, otherwise gemm_wide, which also has products of 17 to 32
        tokens if there are as many tiles as processors. Weights held as codes are counted for 1 to 8 and 17 to 32 tokens."""
        moved, flops = n * k * WEIGHT_BYTES[held] + 2 * tokens * (n + k), 2 * tokens * n * k
        few, wide = tokens <= 32, 16 < tokens <= 32 and n // 128 >= self.card["processors"] and not self.frozen
        if few and not wide:
            kernel = self.kernel("product, %d tokens, %s: a slab" % (1 if tokens <= 8 else 16 if tokens <= 16 else 32, held))
            items = [k / 32 / 8] * (n // 16)
        else:
            kernel = self.kernel("product, %s, %s: a step" % ("32 tokens, wide" if wide else "many tokens", held))
            items = [k / 64] * (n // 128 * math.ceil(tokens / (32 if wide else 64)))
        return self.finished(kernel.dealt(items, len(items)), moved, max(moved / self.rate, flops / (self.card["peak_tflops"] * 1e12)))

    def rounding(self, tokens, k):
        """Returns the time of the kernel that rounds x[tokens][k] to FP8."""
        return self.rows("rounding of 4096, FP8: a row", tokens * k / 4096, 3 * tokens * k)

    def norm(self, tokens, codes=False):
        """Returns the time of add and norm. codes: it also writes its output as FP8 codes (decision 0076)."""
        units = tokens * self.hidden / 4096
        if codes:
            return self.rows("add, norm and codes of 4096, FP8: a row", units, tokens * self.hidden * 9)
        return self.rows("add and norm of 4096: a row", units, tokens * self.hidden * 8)

    def gate(self, tokens, inter, codes=False):
        """Returns the time of SwiGLU. codes: it also writes its output as FP8 codes."""
        units = tokens * inter / 14336
        if codes:
            return self.rows("SwiGLU and codes of 14336, FP8: a row", units, tokens * inter * 7)
        return self.rows("SwiGLU of 14336: a row", units, tokens * inter * 6)

    def strips_product(self, tokens, n, k, held):
        """Returns the time of a product by strips of converted features (decision 0079). A conversion is counted, with its writes to L2;
        cuBLASLt's products of strips are taken as if they read them from memory, because nobody has measured how fast it reads L2."""
        fit = STRIP_BYTES // 2 // k // 128 * 128
        strips = math.ceil(n / fit)
        features = math.ceil(n / strips / 128) * 128
        moved = features * k * WEIGHT_BYTES[held]
        conversion = self.finished(self.kernel("conversion of %s: 512 codes" % held).pool(features * k / 512), moved, moved / self.rate)
        time, _, error = added([added([conversion, self.library_product(tokens, features, k)])] * strips)
        return time, self.own_product(tokens, n, k, held)[1], error

    def codes_product(self, tokens, n, k, held="FP8", apart=True):
        """Returns the time of a product with weights held as codes in the default mode: of weft's kernel, or, if that is faster, of
        cuBLASLt: in FP8 above 32 tokens its FP8 product, otherwise above 64 tokens that of strips. apart: the FP8 product includes the
        kernel that rounds x; else the op before wrote codes."""
        own = self.own_product(tokens, n, k, held)
        if tokens > 64 and not held.startswith("FP8"):
            return min(own, self.strips_product(tokens, n, k, held))
        if tokens <= 32 or not held.startswith("FP8"):
            return own
        time, bound, error = self.library_product(tokens, n, k, "fp8")
        rounding = self.rounding(tokens, k) if apart else (0, 0, 0)
        return min(own, (time + rounding[0], bound, error + rounding[2]))

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

    def decode_attention(self, rows, context, fp8=False):
        plan = self.kernels["plan"]
        kernel = self.kernel("attention, decode, fp8: a tile" if fp8 else "attention, decode, pages of 64: a tile")
        items, merges, parts = self.decode_items(rows, context)
        slots = self.card["processors"] * kernel.resident
        items = [units / kernel.warps for units in items]  # the warps of a block share its tiles
        start = self.card["attention_start_us"] * 1e-6
        blocks = plan["blocks_a_processor"] * self.card["processors"] or slots
        moved = (1 if fp8 else 2) * 2 * rows * context * self.kv_heads * DIM
        merge = self.kernel("attention, merge of three parts").dealt([parts / 3] * merges, blocks) if merges else 0
        own = kernel.dealt(items, blocks)
        if plan["merge_launched"]:
            return added([self.finished(own, moved, moved / self.rate), self.finished(merge, 0, 0)])
        time, bound, error = self.finished(own + merge, moved, moved / self.rate)
        return time + start, bound, error

    def prefill_attention(self, length, prompts=1, before=0, fp8=False):
        """Returns the time of attention of `prompts` rows of `length` tokens each, after `before` tokens."""
        kernel = self.kernel("attention, prefill, fp8: a tile" if fp8 else "attention, prefill, pages of 64: a tile")
        each = self.kernels["plan"]["prefill_warp_rows"] // 16  # tiles of 16 rows that a warp computes for 64 keys
        rows = 16 * each * kernel.warps
        count = math.ceil(length * GROUP / rows)
        start = self.card["prefill_start_tiles"]
        items = [each * (start + math.ceil((before + (t + 1) * rows / GROUP) / TILE)) for t in reversed(range(count)) for _ in range(self.kv_heads * prompts)]
        blocks = self.kernels["plan"]["blocks_a_processor"] * self.card["processors"] or self.card["processors"] * kernel.resident
        flops = 4 * DIM * self.heads * length * (before + length / 2) * prompts
        return self.finished(kernel.dealt(items, blocks) * self.card["prefill_factor"], 0, flops / (self.card["peak_tflops"] * 1e12))

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
        norm = self.norm(tokens)
        return {"products": added([product(tokens, width, self.hidden), product(tokens, self.hidden, self.hidden),
                                   product(tokens, 2 * inter, self.hidden), product(tokens, self.hidden, inter)]),
                "attention": self.decode_attention(rows, context) if kind == "decode" else self.prefill_attention(context),
                "norms": added([norm, norm]),
                "SwiGLU": self.gate(tokens, inter),
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
    """A mixture of experts: the shape of Qwen3-30B-A3B in bfloat16. Where gemm_experts uses the tiles of gemm_small and gemm_wide, it has
    their records, with the warps, registers and shared memory of its own kernels (ptxas, sm_90a). Tokens choose experts uniformly and
    independently. CYCLES are counted by hand from the source and the latencies of cards.json: the search for a tile in each block; the
    rounds of a token's choice; the sort's two passes; and of combine, for each chosen expert, a read of its id and then of its row, from L2."""
    hidden, heads, kv_heads = 2048, 32, 4
    layers, experts, chosen, inner, vocab = 48, 128, 8, 768, 151936
    CYCLES = {"search": 700, "route": 3500, "sort": 1900, "combine": 600}  # combine: for each chosen expert

    def used(self, tokens):
        """Returns the expected number of experts that have rows."""
        return self.experts * (1 - (1 - self.chosen / self.experts) ** tokens)

    def experts_product(self, tokens, n, k, share=None, held="bfloat16"):
        """share: (pairs, experts used) of a rank that holds some of the experts; None: all of them. The kernel is chosen as in
        kernels/cuda/experts.cu. That of few pairs has the records of gemm_small, with its own four warps and as many registers as nine
        blocks of an SM can have (with codes of 4 bits seven); that of 64 rows has the records of gemm_wide."""
        pairs, used = share or (tokens * self.chosen, self.used(tokens))
        moved, flops = used * n * k * WEIGHT_BYTES[held] + 2 * pairs * (n + k), 2 * pairs * n * k
        if tokens * self.chosen <= 16:
            own = {"warps": 4, "registers": 44 if held == "bfloat16" else 56 if held.startswith("FP8") else 72, "shared": 2048}
            row, rows, features, units = "product, 1 tokens, %s: a slab" % held, 8, 16, 16 * math.ceil(k / 2048)  # a part of 16 slabs for each warp
        elif tokens * self.chosen <= 32 * self.experts:
            row, own, rows, features, units = "expert of 32 rows, %s: a step" % held, {}, 32, 128, k / 64
        else:
            row, own, rows, features, units = "product, many tokens, %s: a step" % held, {"registers": 128}, 64, 128, k / 64
        tiles = round(used + max(0, pairs - used * (rows + 1) / 2) / rows) if pairs > used else math.ceil(pairs)  # the last of each expert is half full
        kernel = Kernel(self.card, self.name, {**self.kernels["rows"][row][0], **own})
        cycles = kernel.dealt([units] * (tiles * (n // features)), tiles * (n // features)) + self.CYCLES["search"]
        return self.finished(cycles, moved, max(moved / self.rate, flops / (self.card["peak_tflops"] * 1e12)))

    def by_hand(self, name, moved=0):
        return self.finished(self.CYCLES[name] * (self.chosen if name == "combine" else 1), moved, moved / self.rate)

    def mixture(self, tokens, held="bfloat16"):
        """Returns the times of the ops of a layer's experts, without the router's product."""
        pairs = tokens * self.chosen
        gate = self.rows("SwiGLU of 14336: a row", pairs * self.inner / 14336, pairs * self.inner * 6)
        return {"route": added([self.by_hand("route", tokens * self.experts * 4), self.by_hand("sort")]),
                "products": added([self.experts_product(tokens, n, k, None, held) for n, k in ((2 * self.inner, self.hidden), (self.hidden, self.inner))]),
                "gate": gate, "combine": self.by_hand("combine", 2 * (pairs + tokens) * self.hidden)}

    def step(self, rows, context, held="bfloat16", fp8_keys=False):
        """Returns {part: (seconds, bound, error)} of a decode step in the default mode, and its bound. held: of the weights of layers,
        without the router; experts held as codes have weft's own kernels."""
        product = self.product if held == "bfloat16" else lambda tokens, n, k: self.codes_product(tokens, n, k, held)
        codes = held.startswith("FP8") and rows > 32  # the norm before q, k and v writes them
        first = (lambda tokens, n, k: self.codes_product(tokens, n, k, held, False)) if codes else product
        heads = (self.heads + 2 * self.kv_heads) * DIM
        norm = [self.norm(rows, codes), self.norm(rows)]
        norms = self.rows("heads and KV, 32 and 8 of 128: a row", rows * (self.heads + 2 * self.kv_heads) / 48, rows * heads * 4)
        dense = [first(rows, heads, self.hidden), product(rows, self.hidden, self.heads * DIM), self.product(rows, self.experts, self.hidden)]
        attention = self.decode_attention(rows, context, True) if fp8_keys else self.decode_attention(rows, context)
        layer = {"experts": added(self.mixture(rows, held).values()), "other products": added(dense), "attention": attention,
                 "norms, heads and KV": added([*norm, norms])}
        out = {name: added([times] * self.layers) for name, times in layer.items()}
        others = [self.timed(0, 0, "instructions")] * 6
        out["head and sampling"] = added([self.product(rows, self.vocab, self.hidden), self.sampling(rows, self.vocab), *others])
        weights = self.layers * self.hidden * (heads + self.heads * DIM + 3 * self.inner * self.used(rows)) * WEIGHT_BYTES[held]
        floats = 2 * (self.layers * self.hidden * self.experts + self.vocab * self.hidden)
        moved = weights + floats + self.layers * (2 if fp8_keys else 4) * rows * context * self.kv_heads * DIM
        return out, moved / self.rate


# Decode steps of others, milliseconds: sums of the best measured kernels of vLLM and TensorRT-LLM (aiconfigurator) with 10 to 18 us a
# layer for the rest. Nobody measured them as steps. FP8 has keys and values in FP8 too.
OTHERS_STEPS = {"H100": {("qwen3-8b", "decode 1 at 1024"): 6.2, ("qwen3-8b", "decode 32 at 1024"): 8.3, ("qwen3-8b", "decode 256 at 1024"): 19.4,
                         ("qwen3-8b", "prefill 8192"): 192, ("qwen3-30b-a3b", "decode 1 at 1024"): 4.7, ("qwen3-30b-a3b", "decode 32 at 1024"): 20.8,
                         ("qwen3-30b-a3b", "decode 256 at 1024"): 33.6}}


def added(times):
    return tuple(sum(x) for x in zip(*times))
