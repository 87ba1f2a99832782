#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests gpu_words.py with the words of a healthy card, and with wrong ones.

  tests/simt/test_gpu_words.py GPU_PROBE     uses the words of the emulator as those of a card, and changes them
"""
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench"))
import gpu_words  # noqa: E402

VECTORS = str(pathlib.Path(__file__).with_name("mma_vectors.txt"))
PROBE = ""
EMULATED, FEW = [], []  # all lines; those whose numbers end with 0


def changed(name, number, by):
    """The emulator's lines with one word moved away from zero by this many units in the last place."""
    out = []
    for line in FEW:
        words = line.split()
        if words[:2] == [name, str(number)]:
            line = "%s %s %08x" % (*words[:2], int(words[2], 16) + by)
        out.append(line)
    return out


class Words(unittest.TestCase):
    def test_each_function_has_its_part_of_the_words(self):
        names = [name for name, _ in gpu_words.words_of(EMULATED)]
        for name in gpu_words.BOUNDS:
            self.assertEqual(names.count(name), 512, name)
        self.assertEqual(len(names), 16 * 4096)

    def test_the_same_words_are_right(self):
        self.assertEqual(gpu_words.compared(EMULATED, EMULATED), [])

    def test_a_driver_may_warn_between_the_words(self):
        self.assertEqual(gpu_words.compared(FEW, ["some driver warns of something", *FEW]), [])

    def test_approximate_functions_may_be_off_by_their_bounds_alone(self):
        for name, number in (("ex2", 10), ("rcp", 600), ("rsqrt", 1100), ("expf", 2050), ("logf", 2570), ("erff", 3080), ("tanhf", 4000)):
            for by in (1, -1):
                self.assertEqual(gpu_words.compared(FEW, changed(name, number, by)), [], name)
            for by in (8, -8, 1 << 23):  # units of the last place; twice the value
                (said,) = gpu_words.compared(FEW, changed(name, number, by))
                self.assertIn("%s: 1 words are wrong; %d: " % (name, number), said)

    def test_the_bound_is_that_of_the_function(self):
        one = ["%s 7 3f800000" % name for name in ("ex2", "logf")]
        off = ["%s 7 %s" % (name, struct.pack(">f", 1 + 3 * 2.0**-23).hex()) for name in ("ex2", "logf")]
        (said,) = gpu_words.compared(one, off)
        self.assertTrue(said.startswith("logf: "), said)

    def test_every_other_word_must_be_the_same(self):
        for name, number in (("mma_bf16", 30), ("convert", 90), ("fmaf", 1600), ("vector", 0), ("last_arriver", 510)):
            (said,) = gpu_words.compared(FEW, changed(name, number, 1))
            self.assertIn("%s: 1 words are wrong; %d: " % (name, number), said)

    def test_nothing_may_be_missing_or_more(self):
        (said,) = gpu_words.compared(FEW, FEW[:-1])
        self.assertIn("fma_bf16x2: 1 words are wrong; 4090: nothing", said)
        self.assertEqual(gpu_words.compared(FEW, [*FEW, "mma_new 3 00000000"]),
                         ["mma_new 3 is a word that the emulator does not print"])
        self.assertEqual(gpu_words.compared([], FEW), ["the emulator printed no word"])

    def test_no_number_is_near_nothing(self):
        self.assertFalse(gpu_words.same("ex2", "3f800000", "7fc00000"))
        self.assertFalse(gpu_words.same("ex2", "7f800000", "3f800000"))


class Sums(unittest.TestCase):
    """gpu_probe finds the arithmetic that WEFT_SIMT_MMA selects."""

    def run_probe(self, path, **variables):
        return subprocess.run([PROBE, "sums", path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env=dict(os.environ, **variables))

    def test_the_selected_arithmetic_is_found(self):
        for rule, bits in (("rounded", "rounded to nearest"), ("hopper", "25 bits toward zero"), ("ampere", "24 bits toward zero")):
            run = self.run_probe(VECTORS, WEFT_SIMT_MMA=rule)
            self.assertEqual(run.returncode, 0, run.stdout)
            for kind in ("bf16", "f16"):
                self.assertIn("sums of %s: 256 of 256 words equal those of %s" % (kind, bits), run.stdout)
                self.assertIn("sums of %s: this device follows %s" % (kind, bits), run.stdout)
                self.assertEqual(run.stdout.count("sums of %s: 256 of 256" % kind), 1)

    def test_an_unknown_arithmetic_is_not_an_error(self):
        """Moves each first result of a vector, so that every rule misses it."""
        with open(VECTORS, encoding="utf-8") as file:
            text = re.sub(r"^(rounded|hopper|ampere) [0-9a-f]{8}", r"\1 01234567", file.read(), flags=re.M)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(text)
            file.flush()
            run = self.run_probe(file.name, WEFT_SIMT_MMA="ampere")
        self.assertEqual(run.returncode, 0, run.stdout)
        self.assertIn("sums of f16: no rule fits; the nearest is 24 bits toward zero", run.stdout)
        self.assertIn("finite, row 0, column 0: ", run.stdout)

    def test_bad_input_is_reported(self):
        with open(VECTORS, encoding="utf-8") as file:
            text = file.read()
        for damaged in (text[:-20], text.replace("hopper", "turing", 1), text.replace("bf16", "bf15", 1)):
            with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
                file.write(damaged)
                file.flush()
                run = self.run_probe(file.name)
            self.assertEqual((run.returncode, "is damaged" in run.stdout), (2, True), run.stdout)
        self.assertIn("cannot open", self.run_probe("nowhere.txt").stdout)
        self.assertIn("must be rounded, hopper or ampere, not 'volta'", self.run_probe(VECTORS, WEFT_SIMT_MMA="volta").stdout)


if __name__ == "__main__":
    PROBE = sys.argv.pop()
    EMULATED = subprocess.run([PROBE], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()
    FEW = [line for line in EMULATED if line.split()[1].endswith("0")]
    unittest.main()
