#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests bench/gpu_model/beside.py: it reads the rows that the real programs print, its predictions are those of
bench/gpu_predictions.md, and its verdicts on measured rows.

  tests/simt/test_beside.py GPU_OPS_SIMT [BENCH_STEP]
"""
import json
import pathlib
import re
import subprocess
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "bench/gpu_model")]
import beside  # noqa: E402
import cluster  # noqa: E402
import fit  # noqa: E402
import predict  # noqa: E402
from cards import cards  # noqa: E402

H100 = "NVIDIA H100 80GB HBM3"
PROGRAMS = []
MODEL = predict.Model("H100", json.loads((predict.HERE / "after.json").read_text()))


def rows_of(*command):
    """Rows of JSON of a real program, as if an H100 had been measured."""
    said = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    return [{**row, **({"card": H100} if "card" in row else {})} for row in rows]


def ops(*measured, exact=False):
    return [{"card": H100, "exact": exact}, *[{"op": op, "shape": shape, "us": us} for op, shape, us in measured]]


def steps(*measured, **head):
    return [{"card": H100, "shape": "qwen3-8b", "exact": False, "serial": False, **head},
            *[{"step": case, "shape": "qwen3-8b", "exact": head.get("exact", False), "ms": ms} for case, ms in measured]]


def verdicts(rows):
    lines, known = beside.report(rows)
    assert known
    return [line.split(" | ")[-1].rstrip(" |") for line in lines if line.startswith("| ") and "---" not in line and "predicted" not in line]


def documented(place):
    """{what: (time, error)} of a table of bench/gpu_predictions.md."""
    table = predict.PAGE.read_text().split("<!-- model after %s -->" % place)[1].split("<!-- end model -->")[0]
    return {m.group(1): (float(m.group(2)), float(m.group(3))) for m in re.finditer(r"^\| ([^|]+) \| ([\d.]+) ± ([\d.]+) \|", table, re.M)}


class Beside(unittest.TestCase):
    def test_rows_of_the_real_programs_are_read(self):
        measured = rows_of(PROGRAMS[0], "fast", "small")
        kernels, _, apart = beside.read(measured, MODEL)
        self.assertEqual(len(kernels), sum("op" in row for row in measured))
        self.assertGreater(apart, 0)
        known = {row.what.split(", ")[0] for row in kernels if row.predicted}
        self.assertEqual(known, {"swiglu", "gemm", "attn", "qkv_post", "sample", "add_rms_norm before fp8", "swiglu before fp8"})  # no other norm of 4096 among the small ones
        if PROGRAMS[1:]:
            measured = rows_of(PROGRAMS[1], "--shape", "tiny", "--no-exact")
            _, found, _ = beside.read([{**row, **({"shape": "qwen3-8b"} if "shape" in row else {})} for row in measured], MODEL)
            self.assertEqual(sum(row.predicted is not None for row in found), sum("decode" in r.what and "more" not in r.what for r in found) + 1)
            split = rows_of(PROGRAMS[1], "--shape", "tiny", "--ranks", "2", "--cases", "1")
            self.assertTrue(split[0]["ranks"] == 2 and any("step" in row for row in split))
            self.assertEqual(beside.read(split, MODEL)[1], [])  # the model predicts one GPU

    def test_experts_of_the_model_are_predicted_and_others_not(self):
        mixture = predict.Experts("H100", MODEL.kernels)
        ops = mixture.mixture(32)
        one, other = (beside.kernel(MODEL, "gemm_experts", "tokens 32, 8 of 128 experts, n %d k %d" % nk, False) for nk in ((1536, 2048), (2048, 768)))
        self.assertAlmostEqual(one[0] + other[0], ops["products"][0])
        self.assertEqual(beside.kernel(MODEL, "route", "tokens 32, 8 of 128 experts", False), ops["route"])
        self.assertEqual(beside.kernel(MODEL, "combine", "tokens 32, 8 of 128 experts, width 2048", False), ops["combine"])
        self.assertIsNone(beside.kernel(MODEL, "route", "tokens 32, 2 of 32 experts", False))
        parts, bound = mixture.step(32, 1024)
        self.assertEqual(beside.step(MODEL, "decode 32 at 1024", "qwen3-30b-a3b", False), (predict.added(parts.values())[0], bound, predict.added(parts.values())[2]))
        self.assertIsNone(beside.step(MODEL, "prefill 8192", "qwen3-30b-a3b", False))

    def test_every_predicted_case_of_the_programs_has_its_name(self):
        source = (ROOT / "bench/gpu_ops.c").read_text() + (ROOT / "bench/step_cases.c").read_text()
        for rows in (1, 32, 256):
            for context in (1024, 8192):
                self.assertIn('"decode %d x %d"' % (rows, context), source)
        for case in ("decode 1 at 1024", "decode 32 at 1024", "decode 256 at 1024", "decode 1 at 8192", "decode 32 at 8192", "prefill 8192"):
            self.assertIn('"%s"' % case, source)
        self.assertIn('"prefill 1 x 8192, dim 128, group 4"', source)

    def test_predictions_are_those_of_the_page(self):
        page = documented("kernels")
        for op, shape, exact, what in (
                ("attn", "decode 32 x 8192", False, "attention and merge, decode 32 at 8192"),
                ("attn", "prefill 1 x 8192, dim 128, group 4", False, "attention, prefill 8192"),
                ("attn", "fp8 decode 32 x 8192", False, "attention and merge, fp8 keys, decode 32 at 8192"),
                ("gemm", "n 6144 k 4096 rows 256", True, "exact product, 256 tokens, n 6144 k 4096 (both)"),
                ("gemm", "n 24576 k 4096 rows 1", True, "exact product, 1 tokens, n 24576 k 4096 (Qwen3)"),
                ("gemm", "fp8 n 6144 k 4096 rows 256", True, "product of FP8, 256 tokens, n 6144 k 4096"),
                ("gemm", "fp8 n 6144 k 4096 rows 8192", False,
                 "product of FP8 in the default mode, x rounded to FP8, 8192 tokens, n 6144 k 4096"),
                ("gemm", "int4_128 n 6144 k 4096 rows 1", False, "product of int4_128, 1 tokens, n 6144 k 4096"),
                ("gemm", "MXFP4 n 6144 k 4096 rows 256", True, "product of MXFP4, 256 tokens, n 6144 k 4096"),
                ("add_rms_norm", "rows 8192 width 4096", False, "add and norm, 8192 tokens"),
                ("qkv_post", "tokens 256 heads 32/8 dim 128, QK-norm", False, "heads and KV, 256 tokens"),
                ("swiglu", "rows 256 width 12288", False, "SwiGLU, 256 tokens (Qwen3)"),
                ("sample", "temperature, rows 256, vocabulary 151936", False, "sampling with temperature, 256 rows (Qwen3)")):
            time, _, error = beside.kernel(MODEL, op, shape, exact)
            self.assertAlmostEqual(time * 1e6, page[what][0], delta=0.5 if time > 1e-4 else 0.05, msg=what)
            self.assertAlmostEqual(error * 1e6, page[what][1], delta=0.5 if time > 1e-4 else 0.05, msg=what)
        page = documented("steps")
        for case, what in (("decode 1 at 1024", "decode 1 at 1024"), ("decode 32 at 8192", "decode 32 at 8192"), ("prefill 8192", "prefill 8192")):
            time, _, error = beside.step(MODEL, case, "qwen3-8b", False)
            self.assertAlmostEqual(time * 1e3, page["Qwen3-8B, " + what][0], delta=0.5 if time > 0.1 else 0.05, msg=what)

    def test_right_is_within_the_error_on_either_side(self):
        shape = "decode 256 x 8192"
        time, bound, error = (1e6 * x for x in beside.kernel(MODEL, "attn", shape, False))
        said = verdicts(ops(*[("attn", shape, us) for us in (time, time + 0.99 * error, time - 0.9 * error, time + 1.01 * error, 0.99 * bound)]))
        self.assertEqual(said, ["right", "right", "right", "slower", "below its bound: it lies in L2, or was measured wrong"])
        time, bound, error = (1e6 * x for x in beside.kernel(MODEL, "gemm", "n 6144 k 4096 rows 8192", True))
        self.assertEqual(verdicts(ops(("gemm", "n 6144 k 4096 rows 8192", time - 1.01 * error), exact=True)), ["faster"])

    def test_what_the_host_launches_slower_is_not_judged(self):
        short = ("add_rms_norm", "rows 1 width 4096", 4.0)
        self.assertEqual(verdicts(ops(short)), ["slower"])
        self.assertEqual(verdicts(ops(short, ("launch gap", "400 launches, each", 3.0))), ["host: launches take as long"])

    def test_steps_with_weights_in_fp8(self):
        plain, fp8 = (beside.step(MODEL, "decode 256 at 1024", "qwen3-8b", False, dtype)[0] for dtype in ("bfloat16", "fp8"))
        self.assertLess(fp8, 0.97 * plain)
        self.assertIsNone(beside.step(MODEL, "decode 1 at 1024", "qwen3-30b-a3b", False, "fp8"))
        self.assertEqual(verdicts(steps(("decode 256 at 1024", 1e3 * fp8), dtype="fp8")), ["right"])

    def test_steps_one_after_another_and_exact_ones_are_not_predicted(self):
        self.assertEqual(verdicts(steps(("decode 1 at 1024", 6.2))), ["right"])
        self.assertEqual(verdicts(steps(("decode 1 at 1024", 9.9))), ["slower"])
        self.assertEqual(verdicts(steps(("decode 1 at 1024", 6.2), exact=True)), [])
        self.assertEqual(verdicts(steps(("decode 1 at 1024", 6.2), serial=True)), [])

    def test_times_of_others_have_the_names_of_the_rows(self):
        for card in ("H100", "H200"):
            others = beside.others_of(card)
            source = (ROOT / "bench/gpu_ops.c").read_text()
            for what in ("gemm, n 6144 k 4096 rows 8", "attn, decode 32 x 8192", "attn, prefill 1 x 8192, dim 128, group 4"):
                self.assertEqual(len(others[what]), 2, what)
                self.assertTrue(what.startswith("gemm") or '"%s"' % what[6:] in source)
        self.assertEqual(beside.others_of("A100"), {})

    def test_measured_times_are_those_of_the_page(self):
        gemm, decode, prefill, steps = fit.measured()
        self.assertEqual((len(gemm), len(decode), len(prefill), len(steps)), (36, 9, 4, 10))
        found = (gemm[8, 4096, 4096] * 1e6, prefill[1024, 1, 15360] * 1e6, *(1e3 * s for s in steps["decode", 8, 1024]))
        for seconds, expected in zip(found, (11.5, 808.5, 5.93, 6.72)):
            self.assertAlmostEqual(seconds, expected)

    def test_held_out_shapes_are_not_fitted(self):
        for card in ("H100", "H200"):
            for dtype in fit.FORMATS:
                used, held = fit.peers_products(card, dtype)
                self.assertFalse({case[1:] for case in used} & {case[1:] for case in held})
                self.assertGreater(len(held), 60)

    def test_frozen_constants_are_those_before_the_run(self):
        frozen = predict.Model("H200", MODEL.kernels, frozen=True)
        self.assertAlmostEqual(frozen.product(8, 6144, 4096)[0] * 1e6, 13.67, delta=0.01)  # as the page of the run says
        self.assertAlmostEqual(frozen.library_product(8192, 4096, 4096)[0] * 1e6, 405.48, delta=0.01)
        self.assertEqual(frozen.card["prefill_factor"], 1)

    def test_sums_of_ranks_take_the_measured_time_and_the_network(self):
        link = cluster.Link("H100", 8, 1)
        self.assertAlmostEqual(link.sum(16384) * 1e6, 19.0)  # measured: 8,192 elements of float16
        self.assertTrue(link.sum(8192) < link.sum(12000) < link.sum(16384))
        over = cluster.Link("H100", 16, 2).sum(4 << 20) - link.sum(4 << 20)
        self.assertAlmostEqual(over * 1e6, 2 * 8.5 + (4 << 20) / 400e3, delta=0.1)  # half of the bytes twice, over eight cards of 50 GB/s
        self.assertEqual(cluster.Split("H100", MODEL.kernels, cluster.SHAPES["Llama-3.1-70B"], 8).parameters() // 10**8, 705)

    def test_counts_come_last(self):
        lines, _ = beside.report(ops(("attn", "encoder 64 x 512, dim 64", 9.0), ("sample", "greedy, rows 1, vocabulary 151936", 3.0),
                                     ("attn", "decode 256 x 8192", 2849.0)) + steps(("prefill 8192", 500.0)))
        self.assertIn("kernels: 1 right", lines)
        self.assertIn("2 rows without a prediction, of: attn; sample", lines)
        self.assertIn("steps: 1 slower", lines)

    def test_another_card_has_no_predictions(self):
        lines, known = beside.report([{"card": "NVIDIA H100 PCIe", "exact": False}, {"op": "attn", "shape": "decode 1 x 1024", "us": 1.0}])
        self.assertFalse(known)
        self.assertTrue(lines[0].startswith("skipped: nothing is predicted for NVIDIA H100 PCIe, cards.json has " + H100), lines)

    def test_what_it_cannot_read_it_does_not_pass_over(self):
        for row in ({"op": "new", "shape": "", "us": 1}, {"other": 1}, {"op": "gemm", "shape": "8 by 8", "us": 1}, {"op": "gemm", "shape": "n 1 k 1 rows 1"}):
            with self.assertRaises((ValueError, TypeError, KeyError)):
                beside.report([{"card": H100, "exact": False}, row])
        with self.assertRaises(SystemExit):
            beside.report([])

    def test_no_card_multiplies_faster_than_its_peak(self):
        for name, card in cards().items():
            peak = card["peak_tflops"] * 1e12 / (card["processors"] * card["clock_ghz"] * 1e9)  # operations a cycle and processor
            cycles = 4 * 2 * 16 * 8 * 16 / peak  # of an m16n8k16 on a quarter of a processor
            self.assertGreater(card["mma_cycles"], 0.99 * cycles, name)


if __name__ == "__main__":
    PROGRAMS += sys.argv[1:]
    unittest.main(argv=sys.argv[:1])
