#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fits the constants that measurements can give: of products to other engines' times, of attention to weft's own on a H200.

  bench/gpu_model/fit.py     writes fitted.json; to be run when there are new measurements, not when kernels change

Products of cuBLASLt: rate, share of the memory's rate and gap of each GPU, from the better engine of each row of peers.json, for
every second shape of PRODUCTS; the other shapes and weft's own products are held out. Attention: the start of a decode
launch; and for prefill the start of an item and the factor on the cycles of its tiles. They come from the rows FIT_DECODE and FIT_PREFILL
of the measured page; its other rows are held out, and so are all complete steps. Each fit minimises, over a grid, the sum of |log(predicted / measured)|. Attention's constants are
also used for the H100, which has the same processors. The A100 keeps its constants.
"""
import json
import math
import pathlib
import re
import statistics
import sys

import predict
from cards import cards, fitted_file

MEASURED = predict.HERE.parent / "results/2026-11-29-nvidia-h200.md"
PEERS = json.loads((predict.HERE / "peers.json").read_text())
FIT_DECODE, FIT_PREFILL = ((1, 1024), (8, 8192), (256, 1024)), ((8192, 1, 0), (512, 16, 0))
FORMATS = {"bf16": ("product", 2), "fp8": ("fp8_product", 1)}


def measured():
    """Returns weft's own times on the H200: {(rows, n, k): s}, {(rows, keys): s} of decode, {(length, prompts, tokens before): s} of prefill,
    and {(kind, rows, context): (default s, exact s)} of steps."""
    text = MEASURED.read_text()
    number = r"\| ([\d.]+) \|"
    found = lambda pattern: re.findall(r"^\| %s \| [^|]+ %s" % (pattern, number), text, re.M)
    gemm = {(int(m), int(n), int(k)): float(us) * 1e-6 for n, k, m, us in found(r"gemm, n (\d+) k (\d+) rows (\d+)")}
    decode = {(int(r), int(k)): float(us) * 1e-6 for r, k, us in found(r"attn, decode (\d+) x (\d+)")}
    prefill = {(int(k), int(r), 0): float(us) * 1e-6 for r, k, us in found(r"attn, prefill (\d+) x (\d+), dim 128, group 4")}
    prefill.update({(int(new), 1, int(all_) - int(new)): float(us) * 1e-6 for new, all_, us in found(r"attn, chunk (\d+) of (\d+), dim 128, group 4")})
    steps = {}
    for what, fast, exact in re.findall(r"^\| (decode \d+ at \d+|prefill \d+) \| [^|]+ \| ([\d.]+) \| [\d,]+ \| ([\d.]+) \|", text, re.M):
        words = what.split()
        case = ("decode", int(words[1]), int(words[3])) if words[0] == "decode" else ("prefill", 1, int(words[1]))
        steps[case] = float(fast) * 1e-3, float(exact) * 1e-3
    return gemm, decode, prefill, steps


def best(times):
    return min(t for t in times if t is not None)


def peers_products(card, dtype):
    """Returns the best times in seconds of the fitted and of the held out shapes: {(rows, n, k): s} each."""
    out = {}, {}
    for i, (shape, rows) in enumerate(PEERS[card]["gemm"][dtype].items()):
        n, k = map(int, shape.split("x"))
        out[i % 2].update({(int(m), n, k): best(times) * 1e-6 for m, times in rows.items()})
    return out


def errors(model, times):
    """Returns the errors of a model's times, as logarithms of predicted / measured."""
    return [math.log(model(*case) / seconds) for case, seconds in times.items()]


def said(found):
    found = [abs(math.exp(e) - 1) for e in found]
    return "%.0f %% (%.0f)" % (100 * statistics.mean(found), 100 * max(found))


def product_fit(card, dtype):
    fit, _ = peers_products(card, dtype)
    rate, weight = cards(frozen=True)[card]["memory_gbs"] * 1e9, FORMATS[dtype][1]
    work = [(2 * m * n * k / 1e12, (weight * (n * k + m * k) + 2 * m * n) / rate, math.log(t)) for (m, n, k), t in fit.items()]
    tflops = range(640, 900, 20) if dtype == "bf16" else range(900, 1700, 40)
    grid = ((t, s / 100, g / 10) for t in tflops for s in range(76, 100, 2) for g in range(12, 64, 4))
    cost = lambda t, s, g: sum(abs(math.log(predict.together(moved / s, flops / t) + g * 1e-6) - log) for flops, moved, log in work)
    return min(grid, key=lambda p: cost(*p))


def attention_fit(kernels):
    _, decode, prefill, _ = measured()
    model = predict.Model("H200", kernels, frozen=True)
    cost = lambda times, model: sum(map(abs, errors(model, times)))
    start = min((s / 10 for s in range(0, 61)), key=lambda s: cost(
        {case: decode[case] for case in FIT_DECODE}, lambda *case: model.decode_attention(*case)[0] + s * 1e-6))
    costs = {}
    for factor in range(80, 160, 2):
        for tiles in range(0, 17):
            model.card.update(prefill_factor=factor / 100, prefill_start_tiles=tiles / 2)
            costs[factor / 100, tiles / 2] = cost({case: prefill[case] for case in FIT_PREFILL}, lambda *case: model.prefill_attention(*case)[0])
    return start, *min(costs, key=costs.get)


def fitted():
    kernels = json.loads((predict.HERE / "after.json").read_text())
    start, factor, tiles = attention_fit(kernels)
    out = {"sources": {"peers": PEERS["source"] + "; fitted by fit.py", "own": "weft's own rows in bench/results/2026-11-29-nvidia-h200.md; fitted by fit.py"}}
    for card in ("H100", "H200"):
        own = out[card] = {}
        for dtype, (name, _) in FORMATS.items():
            for key, value in zip(("tflops", "share", "gap_us"), product_fit(card, dtype)):
                own["%s_%s" % (name, key)] = [value, "peers"]
        own.update(attention_start_us=[start, "own"], prefill_factor=[factor, "own"], prefill_start_tiles=[tiles, "own"])
    return out


def text_of(constants):
    return "{\n%s\n}\n" % ",\n".join(' "%s": %s' % (name, json.dumps(value)) for name, value in constants.items())


def held_out_table(kernels):
    """Returns the table of errors on the rows that the fits used, and on others."""
    gemm, decode, prefill, _ = measured()
    lines = ["| constants of | fitted on: mean error (worst) | held out: mean error (worst) |", "| --- | --- | --- |"]
    for card in ("H100", "H200"):
        model = predict.Model(card, kernels)
        for dtype in FORMATS:
            product = lambda m, n, k: model.library_product(m, n, k, dtype)[0]
            fit, held = peers_products(card, dtype)
            lines.append("| %s, products in %s | %d rows of others, seven or eight shapes: %s | %d rows of others, other shapes: %s |" % (
                card, dtype, len(fit), said(errors(product, fit)), len(held), said(errors(product, held))))
    attention, prompts = lambda rows, keys: model.decode_attention(rows, keys)[0], lambda *case: model.prefill_attention(*case)[0]
    split = lambda times, fit: ({c: t for c, t in times.items() if c in fit}, {c: t for c, t in times.items() if c not in fit})
    lines.append("| H200, products in bf16 | – | %d rows of weft: %s |" % (len(gemm), said(errors(lambda m, n, k: model.product(m, n, k)[0], gemm))))
    for name, times, fit, of in (("decode", decode, FIT_DECODE, attention), ("prefill", prefill, FIT_PREFILL, prompts)):
        used, held = split(times, fit)
        lines.append("| H200, %s attention | %d rows of weft: %s | %d rows of weft: %s |" % (name, len(used), said(errors(of, used)), len(held), said(errors(of, held))))
    return lines


def renewed_table(kernels):
    """Returns the table of errors on the H200 run with the frozen and with the renewed constants."""
    gemm, decode, prefill, steps = measured()
    old, new = predict.Model("H200", kernels, frozen=True), predict.Model("H200", kernels)
    step = lambda m: lambda *case: predict.added(m.step(predict.SHAPES["Qwen3-8B"], *case)[0].values())[0]
    exact = lambda m: lambda *case: predict.added(m.step(predict.SHAPES["Qwen3-8B"], *case, exact=True)[0].values())[0]
    groups = [("products of up to 128 rows", lambda m: lambda *c: m.product(*c)[0], {c: t for c, t in gemm.items() if c[0] <= 128}),
              ("products of 256 to 8,192 rows", lambda m: lambda *c: m.product(*c)[0], {c: t for c, t in gemm.items() if c[0] > 128}),
              ("decode attention", lambda m: lambda *c: m.decode_attention(*c)[0], decode),
              ("prefill attention", lambda m: lambda *c: m.prefill_attention(*c)[0], prefill),
              ("decode steps, default mode", step, {c: fast for c, (fast, _) in steps.items() if c[0] == "decode"}),
              ("prefill step, default mode", step, {c: fast for c, (fast, _) in steps.items() if c[0] == "prefill"}),
              ("decode steps, exact mode", exact, {c: slow for c, (_, slow) in steps.items() if c[0] == "decode"}),
              ("prefill step, exact mode", exact, {c: slow for c, (_, slow) in steps.items() if c[0] == "prefill"})]
    lines = ["| measured on the H200 | rows | frozen constants: measured / predicted, mean error | renewed constants |", "| --- | --- | --- | --- |"]
    for name, of, times in groups:
        cells = []
        for model in (old, new):
            ratios = [math.exp(-e) for e in errors(of(model), times)]
            cells.append("%.2f to %.2f, %.0f %%" % (min(ratios), max(ratios), 100 * statistics.mean(abs(1 / r - 1) for r in ratios)))
        lines.append("| %s | %d | %s | %s |" % (name, len(times), *cells))
    return lines


def constants_table():
    old, new = cards(frozen=True), cards()
    lines = ["| constant | frozen, all GPUs | H100 | H200 |", "| --- | --- | --- | --- |"]
    for key, what in (("product_tflops", "products, TFLOP/s"), ("product_share", "products, share of the memory's rate"), ("product_gap_us", "products, gap us"),
                      ("fp8_product_tflops", "FP8 products, TFLOP/s"), ("fp8_product_share", "FP8 products, share of the memory's rate"),
                      ("fp8_product_gap_us", "FP8 products, gap us"), ("attention_start_us", "attention, start us"),
                      ("prefill_start_tiles", "prefill attention, start of an item in tiles"), ("prefill_factor", "prefill attention, factor on cycles")):
        lines.append("| %s | %s | %g | %g |" % (what, "%g" % old["H100"][key] if key in old["H100"] else "–", new["H100"][key], new["H200"][key]))
    return lines


def peers_table(kernels):
    """Returns weft's times next to the best measured times of others."""
    gemm, decode, prefill, _ = measured()
    lines = ["| kernel, bfloat16 | H100: weft, predicted us | H100: best of others, measured us | H200: weft us | H200: best of others, measured us | weft / others |",
             "| --- | --- | --- | --- | --- | --- |"]
    models = {card: predict.Model(card, kernels) for card in ("H100", "H200")}

    def row(what, predicted, own, times):
        h100, h200 = (predicted(models[card])[0] * 1e6 for card in ("H100", "H200"))
        weft = own * 1e6 if own else h200
        lines.append("| %s | %.1f | %.1f | %.1f, %s | %.1f | %.2f |" % (what, h100, times["H100"], weft, "measured" if own else "predicted", times["H200"], weft / times["H200"]))

    def of(*path):
        return {card: best(value_at(PEERS[card], path)) for card in ("H100", "H200")}

    for n, k in ((6144, 4096), (4096, 4096), (4096, 12288)):
        for m in (1, 32, 256, 8192):
            row("product, %d rows, n %d k %d" % (m, n, k), lambda x: x.product(m, n, k), gemm.get((m, n, k)), of("gemm", "bf16", "%dx%d" % (n, k), str(m)))
    for rows, keys in ((1, 1024), (1, 8192), (8, 8192), (32, 1024), (32, 8192), (64, 4096), (256, 1024)):
        row("attention, decode %d at %d" % (rows, keys), lambda x: x.decode_attention(rows, keys), decode.get((rows, keys)), of("decode", "32/8 bf16", "%dx%d" % (rows, keys)))
    for rows, length in ((1, 8192), (4, 2048), (16, 512)):
        row("attention, prefill %d x %d" % (rows, length), lambda x: x.prefill_attention(length, rows), prefill.get((length, rows, 0)), of("prefill", "32/8 bf16", "%dx%d" % (rows, length)))
    mixtures = {card: predict.Experts(card, kernels) for card in models}
    for tokens in (1, 8, 32, 64, 256, 2048, 8192):
        row("experts of a layer, %d tokens (128 of 768, 8 chosen)" % tokens, lambda x: predict.added(mixtures[x.name].mixture(tokens).values()), None, of("experts", "bf16", str(tokens)))
    return lines


def value_at(table, path):
    for key in path:
        table = table[key]
    return table


def main():
    if sys.argv[1:]:
        sys.exit("usage: bench/gpu_model/fit.py")
    fitted_file().write_text(text_of(fitted()))


if __name__ == "__main__":
    main()
