# SPDX-License-Identifier: Apache-2.0
"""Predicts decode steps with weights in FP8, and with keys and values in bfloat16 or FP8, next to sums of others' measured kernels;
and products and steps with weights of 4 bits.

Products of layers take weft's own kernels for codes (decisions 0071 and 0072); FP8 above 32 rows takes cuBLASLt's products if they
are faster (decision 0074), and 4 bits above 64 rows cuBLASLt's products of strips (decision 0079); experts always take weft's
kernels. The head and the router stay bfloat16. With keys and values in FP8 attention takes the tiles that are counted for them.
"""
from predict import DIM, SHAPES, WEIGHT_BYTES, Experts, Model, added

KEYS, PROMPT = 1024, 8192
# ms on H100: sums of the best measured kernels of vLLM and TensorRT-LLM (aiconfigurator) and 10 to 18 us a layer for the rest, with
# weights and keys and values in FP8. Nobody measured them as steps.
OTHERS = {("Llama-3.1-8B", 1): 4.2, ("Llama-3.1-8B", 32): 5.4, ("Llama-3.1-8B", 256): 11.8,
          ("Qwen3-30B-A3B", 1): 3.7, ("Qwen3-30B-A3B", 32): 12.5, ("Qwen3-30B-A3B", 256): 19.9}


def dense_step(m, rows, fp8_keys, held="FP8", apart=False, kind="decode", keys=KEYS, shape=SHAPES["Llama-3.1-8B"]):
    """Returns the time, bound and error of a step: one token of `rows` sequences at `keys`, or a prompt of `rows` tokens.
    apart: all activations are rounded to FP8 in launches of their own."""
    step = (kind, rows, keys) if kind == "decode" else (kind, 1, rows)
    layer = m.layer(shape, *step, False)
    width, inter = m.hidden + 2 * m.kv_heads * DIM, shape["inter"]
    codes = held.startswith("FP8") and rows > 32 and not apart
    layer["products"] = added(m.codes_product(rows, n, k, held, rounds or not codes) for n, k, rounds in (
        (width, m.hidden, False), (m.hidden, m.hidden, True), (2 * inter, m.hidden, False), (m.hidden, inter, False)))
    layer["norms"] = added([m.norm(rows, codes)] * 2)
    layer["SwiGLU"] = m.gate(rows, inter, codes)
    if kind == "decode":
        layer["attention"] = m.decode_attention(rows, keys, True) if fp8_keys else m.decode_attention(rows, keys)
    elif fp8_keys:
        layer["attention"] = m.prefill_attention(rows, fp8=True)
    parts, _ = m.step(shape, *step)
    time, bound, error = added([added([added(layer.values())] * shape["layers"]), parts["head and sampling"]])
    return time, bound, error


def rounding_table(kernels):
    """Returns the table of the kernels that write FP8 codes, and of steps with both ways of rounding."""
    lines = ["| Llama-3.1-8B in FP8, keys and values in bfloat16 | rounded apart | with the output |", "| --- | --- | --- |"]

    def row(what, scale, *times):
        lines.append("| %s | %s |" % (what, " | ".join("%.1f ± %.1f" % (t[0] * scale, t[2] * scale) for t in times)))

    inter = SHAPES["Llama-3.1-8B"]["inter"]
    for card in ("H100", "H200"):
        m = Model(card, kernels)
        for rows in (64, 256, 8192):
            row("%s, norm and its codes, %d rows, us" % (card, rows), 1e6, added([m.norm(rows), m.rounding(rows, m.hidden)]), m.norm(rows, True))
            row("%s, SwiGLU and its codes, %d rows, us" % (card, rows), 1e6, added([m.gate(rows, inter), m.rounding(rows, inter)]),
                m.gate(rows, inter, True))
            row("%s, codes of attention's output, %d rows, us" % (card, rows), 1e6, m.rounding(rows, m.hidden), m.rounding(rows, m.hidden))
        for kind, rows in (("decode", 64), ("decode", 256), ("prefill", 8192)):
            what = "decode of %d streams at 1,024 keys" % rows if kind == "decode" else "prefill of 8,192"
            row("%s, %s, ms" % (card, what), 1e3, *(dense_step(m, rows, False, "FP8", apart, kind) for apart in (True, False)))
    return lines


def mixture_step(m, rows, fp8_keys):
    """Returns the time, bound and error of a step of Qwen3-30B-A3B."""
    parts, _ = m.step(rows, KEYS, "FP8", fp8_keys)
    return added(parts.values())


def four_bits_table(kernels):
    """Returns the table of products and of steps of Llama-3.1-8B with weights in each format."""
    held = [h for h in WEIGHT_BYTES if h != "FP8_128"]
    lines = ["| weights in | %s |" % " | ".join(held), "| --- |" + " --- |" * len(held)]
    for card in ("H100", "H200"):
        m = Model(card, kernels)
        for rows in (1, 32):
            times = [m.own_product(rows, 6144, 4096, h) for h in held]
            lines.append("| %s, product of %d rows, n 6144 k 4096, us | %s |" % (
                card, rows, " | ".join("%.1f ± %.1f" % (t[0] * 1e6, t[2] * 1e6) for t in times)))
            lines.append("| its part of bfloat16's time | %s |" % " | ".join("%.2f" % (t[0] / times[0][0]) for t in times))
        for rows in (1, 32, 256):
            plain = added(m.step(SHAPES["Llama-3.1-8B"], "decode", rows, KEYS)[0].values())
            times = [plain if h == "bfloat16" else dense_step(m, rows, False, h) for h in held]
            lines.append("| %s, step of Llama-3.1-8B, %d streams, ms | %s |" % (
                card, rows, " | ".join("%.1f ± %.1f" % (t[0] * 1e3, t[2] * 1e3) for t in times)))
        for rows in (256, 8192):
            times = [m.codes_product(rows, 6144, 4096, h) if h != "bfloat16" else m.product(rows, 6144, 4096) for h in held]
            lines.append("| %s, product of %s rows, n 6144 k 4096, default mode, us | %s |" % (
                card, "{:,}".format(rows), " | ".join("%.1f ± %.1f" % (t[0] * 1e6, t[2] * 1e6) for t in times)))
        plain = added(m.step(SHAPES["Llama-3.1-8B"], "prefill", 1, PROMPT)[0].values())
        times = [plain if h == "bfloat16" else dense_step(m, PROMPT, False, h, kind="prefill") for h in held]
        lines.append("| %s, prompt of %s tokens, Llama-3.1-8B, ms | %s |" % (
            card, "{:,}".format(PROMPT), " | ".join("%.0f ± %.0f" % (t[0] * 1e3, t[2] * 1e3) for t in times)))
    return lines


def table(kernels):
    lines = ["| decode at 1,024 keys, weights in FP8 | keys and values in bfloat16, predicted ms | keys and values in FP8, predicted ms | weights and keys in bfloat16, predicted ms | best kernels of others, all in FP8, summed ms |",
             "| --- | --- | --- | --- | --- |"]
    shown = lambda times: "%.1f ± %.1f" % (times[0] * 1e3, times[2] * 1e3)
    keys = (False, True) if "attention, decode, fp8: a tile" in kernels["rows"] else (False,)
    for card in ("H100", "H200"):
        for name, of, model, plain in (
                ("Llama-3.1-8B", dense_step, Model(card, kernels), lambda m, rows: m.step(SHAPES["Llama-3.1-8B"], "decode", rows, KEYS)),
                ("Qwen3-30B-A3B", mixture_step, Experts(card, kernels), lambda m, rows: m.step(rows, KEYS))):
            for rows in (1, 32, 256):
                cells = [shown(of(model, rows, fp8)) for fp8 in keys] + ["–"] * (2 - len(keys))
                before = shown(added(plain(model, rows)[0].values()))
                others = OTHERS.get((name, rows), "–") if card == "H100" else "–"
                lines.append("| %s, %s, %d streams | %s | %s | %s |" % (card, name, rows, " | ".join(cells), before, others))
    return lines
