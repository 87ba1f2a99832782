#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions with measurements: rows of bench/gpu.sh's bench.jsonl with the model of predict.py.

  bench/gpu_model/beside.py BENCH_JSONL

The rows are those of gpu_ops (kernels), bench_step (complete steps of qwen3-8b and qwen3-30b-a3b, default mode) and
gpu_torch.py (ignored). The
model, its counts (after.json), constants (cards.json) and errors are those of bench/gpu_predictions.md. A prediction is right
if the measured time is within its error. Not judged: a kernel so short that the host's launches determine its time (measured
by the run's row of launches), and a time below the bound, which makes the measurement doubtful. Rows without a prediction are
counted by name. The column 'others' has public measurements of other engines (peers.json). Exits with 77 if the model has no
constants of the GPU (cards.json), and with 1 if a row cannot be read.
"""
import argparse
import collections
import json
import pathlib
import re
import sys

import formats
import predict
from cards import cards

HOST_BOUND = 1.5  # times the interval between two nearly empty launches
QWEN3 = predict.SHAPES["Qwen3-8B"]
Row = collections.namedtuple("Row", "what seconds predicted exact graph")  # predicted: (seconds, bound, error), or None


def numbers(pattern, text):
    found = re.fullmatch(pattern, text)
    return [n and int(n) for n in found.groups()] if found else None


def experts_of(model):
    return predict.Experts(model.name, model.kernels)


def expert_op(mixture, op, shape):
    """Returns the prediction for an op of a mixture, or None if its shape is not that of the model."""
    tokens, chosen, experts, n, k, _ = shape
    if (chosen, experts) != (mixture.chosen, mixture.experts):
        return None
    return mixture.experts_product(tokens, n, k) if op == "gemm_experts" else mixture.mixture(tokens)[op]


def kernel(model, op, shape, exact):
    """Returns the prediction for a row of gpu_ops, or None. The shapes of norms, SwiGLU and heads are those of decision 0040's records."""
    if op == "gemm":
        held, _, shape = shape.rpartition("n ")
        n, k, rows = numbers(r"(\d+) k (\d+) rows (\d+)", shape)
        if held:
            return (model.own_product if exact else model.codes_product)(rows, n, k, {"fp8 ": "FP8"}.get(held, held.strip()))
        return (model.own_product if exact else model.product)(rows, n, k)
    if op == "attn":
        if exact:  # its parts differ from the model's plan
            return None
        fp8, shape = shape.startswith("fp8 "), shape.removeprefix("fp8 ")
        if one := numbers(r"decode (\d+) x (\d+)", shape):
            return model.decode_attention(*one, fp8)
        one = numbers(r"prefill 1 x (\d+), dim 128, group 4", shape)
        return model.prefill_attention(*one, fp8=fp8) if one else None
    if op in ("add_rms_norm", "add_rms_norm before fp8"):
        rows, width = numbers(r"rows (\d+) width (\d+)", shape)
        return model.norm(rows, op != "add_rms_norm") if width == 4096 else None
    if op == "swiglu before fp8":
        return model.gate(*numbers(r"rows (\d+) width (\d+)", shape), True)
    if op == "swiglu":
        rows, width = (65536, 8192) if shape.startswith("large: ") else numbers(r"rows (\d+) width (\d+)", shape)
        return model.rows("SwiGLU of 14336: a row", rows * width / 14336, rows * width * 6)
    if op == "qkv_post":
        return model.layer(QWEN3, "decode", *numbers(r"tokens (\d+) heads 32/8 dim 128, QK-norm", shape), 64, False)["heads and KV"]
    if op == "sample":
        one = numbers(r"temperature, rows (\d+), vocabulary (\d+)", shape)
        return model.sampling(*one) if one else None
    if op in ("route", "gemm_experts", "combine"):
        return expert_op(experts_of(model), op, numbers(r"tokens (\d+), (\d+) of (\d+) experts(?:, n (\d+) k (\d+)|, width (\d+))?", shape))
    if op in ("launch gap", "signal", "copy in", "load", "all_reduce"):
        return None
    raise ValueError("no op of the model is called %s" % op)


def step(model, case, shape, exact, dtype="bfloat16"):
    """Returns the prediction for a row of bench_step. dtype: of the weights; in fp8 only steps of Qwen3-8B are predicted."""
    if exact or shape not in ("qwen3-8b", "qwen3-30b-a3b"):
        return None
    one = numbers(r"decode (\d+) at (\d+)", case)
    if shape == "qwen3-30b-a3b":
        if not one or dtype == "fp8":
            return None
        parts, bound = experts_of(model).step(*one)
        time, _, error = predict.added(parts.values())
        return time, bound, error
    if not one and case != "prefill 8192":
        return None
    if dtype == "fp8":
        kind, rows, keys = ("decode", *one) if one else ("prefill", 8192, 0)
        return formats.dense_step(model, rows, False, kind=kind, keys=keys, shape=QWEN3)
    parts, bound = model.step(QWEN3, *(("decode", *one) if one else ("prefill", 1, 8192)))
    time, _, error = predict.added(parts.values())
    return time, bound, error


def card_of(rows):
    """Returns the name of the measured GPU in the model, and the name in the rows."""
    names = [row["card"] for row in rows if "card" in row]
    if not names:
        sys.exit("no row names a card: nothing was measured")
    return next((card for card, constants in cards().items() if constants["device"] == names[0]), None), names[0]


def read(rows, model):
    """Returns rows of kernels and of steps, and the seconds between two launches."""
    kernels, steps, apart, head = [], [], 0, {}
    for row in rows:
        if "baseline" in row or "filled_blocks" in row:
            continue
        if "card" in row:
            head = row
        elif head.get("ways"):  # not the defaults, which are what is predicted
            continue
        elif "op" in row:
            what = "%s, %s" % (row["op"], row["shape"])
            if what == "launch gap, 400 launches, each":
                apart = row["us"] * 1e-6
            kernels.append(Row(what, row["us"] * 1e-6, kernel(model, row["op"], row["shape"], head["exact"]), head["exact"],
                               head.get("graphs", False)))
        elif "step" in row:
            if not head.get("serial") and head.get("ranks", 1) == 1:
                steps.append(Row("%s, %s%s" % (row["shape"], "fp8, " * (head.get("dtype") == "fp8"), row["step"]), row["ms"] * 1e-3,
                                 step(model, row["step"], row["shape"], row["exact"], head.get("dtype")), row["exact"], True))
        else:
            raise ValueError("no row of gpu_ops or bench_step: %s" % row)
    return kernels, steps, apart


def judged(row, apart):
    time, bound, error = row.predicted
    if row.seconds < bound:
        return "below its bound: it lies in L2, or was measured wrong"
    if not row.graph and row.seconds <= HOST_BOUND * apart:
        return "host: launches take as long"
    if abs(row.seconds - time) <= error:
        return "right"
    return "slower" if row.seconds > time else "faster"


def others_of(card):
    """Returns {name of a row: measured times of other engines on a card}: us of kernels (peers.json), ms of steps, which are sums."""
    tables = json.loads((predict.HERE / "peers.json").read_text()).get(card, {})
    found = {}
    for shape, times in tables.get("gemm", {}).get("bf16", {}).items():
        for rows, each in times.items():
            found["gemm, n %s k %s rows %s" % (*shape.split("x"), rows)] = each
    for case, each in tables.get("decode", {}).get("32/8 bf16", {}).items():
        found["attn, decode %s x %s" % tuple(case.split("x"))] = each
    for case, each in tables.get("prefill", {}).get("32/8 bf16", {}).items():
        found["attn, prefill %s x %s, dim 128, group 4" % tuple(case.split("x"))] = each
    for (shape, case), ms in predict.OTHERS_STEPS.get(card, {}).items():
        found["%s, %s" % (shape, case)] = [ms]
    return {what: [one for one in each if one] for what, each in found.items()}


def table(name, rows, unit, scale, apart, others_times):
    """Returns the lines of a table, and the number of its verdicts of each kind."""
    known = [row for row in rows if row.predicted]
    verdicts = collections.Counter()
    lines = ["| %s | predicted %s | measured %s | measured / predicted | others %s | |" % (name, unit, unit, unit),
             "| --- | --- | --- | --- | --- | --- |"]
    for row in known:
        time, _, error = row.predicted
        verdict = judged(row, apart)
        verdicts[verdict.split(":")[0]] += 1
        others = "; ".join("%g" % one for one in others_times.get(row.what, []))
        name = row.what + (", exact" if row.exact else "") + (", graph" if row.graph and unit == "us" else "")
        lines.append("| %s | %.2f ± %.2f | %.2f | %.2f | %s | %s |" % (name, time * scale, error * scale, row.seconds * scale,
                                                                    row.seconds / time, others or "–", verdict))
    return (lines if known else []), verdicts


def report(rows):
    card, name = card_of(rows)
    if not card:
        return ["skipped: nothing is predicted for %s, cards.json has %s" % (name, ", ".join(c["device"] for c in cards().values()))], False
    model = predict.Model(card, json.loads((predict.HERE / "after.json").read_text()))
    kernels, steps, apart = read(rows, model)
    lines = ["predicted beside measured: %s, constants of %s" % (name, card)]
    for what, found, unit, scale, gap in (("kernel", kernels, "us", 1e6, apart), ("step", steps, "ms", 1e3, 0)):
        one, verdicts = table(what, found, unit, scale, gap, others_of(card))
        lines += one
        kinds = [kind for kind in ("right", "slower", "faster", "host", "below its bound") if verdicts[kind]]
        lines.append("%ss: %s" % (what, ", ".join("%d %s" % (verdicts[kind], kind) for kind in kinds) or "none was measured that is predicted"))
        others = sorted({row.what.split(", ")[0] + (", exact" if row.exact else "") for row in found if not row.predicted})
        if others:
            lines.append("%d rows without a prediction, of: %s" % (sum(not row.predicted for row in found), "; ".join(others)))
    if apart:
        lines.append("between two launches of the host %.2f us; the model takes %.2f for the gap of a graph's node" % (apart * 1e6, model.card["gap_us"]))
    return lines, True


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("rows", type=pathlib.Path)
    options = ask.parse_args()
    lines, known = report([json.loads(line) for line in options.rows.read_text().splitlines() if line.startswith("{")])
    print("\n".join(lines))
    return 0 if known else 77


if __name__ == "__main__":
    sys.exit(main())
