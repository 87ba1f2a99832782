#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/simt/mma_vectors.txt: inputs of mma.m16n8k16 and the results of each arithmetic of tests/simt/mma.h.

  mma_vectors.py                  writes the file
  mma_vectors.py --check          exits 1 if the file is not what this program writes
  mma_vectors.py --random N SEED  prints N random pairs of vectors in the file's format, for `gpu_probe_simt sums FILE`

The results of tensor cores come from PyPI's mmasim (2.1.1; needs torch), the rounded ones from numpy. A vector is one product
of 16 x 16 and 16 x 8 elements. "finite" has wide exponents, products that cancel each other or c, and c much larger or smaller
than the products; "special" has subnormal numbers, zeros, overflow, infinities and NaN.
"""
import argparse
import pathlib
import random
import struct
import sys

import numpy
import torch
from mmasim.nv_ptx import MMA

FILE = pathlib.Path(__file__).resolve().parents[1] / "tests/simt/mma_vectors.txt"
HEAD = """# SPDX-License-Identifier: Apache-2.0
# Written by tools/mma_vectors.py with mmasim 2.1.1. Each vector: a [16][16] and b [16][8] as 16-bit words, c [16][8] and the
# results as float32 words, all row-major. The bits of a NaN are fixed on tensor cores only.
"""
CARDS = {"hopper": "Hopper", "ampere": "Ampere"}
TYPES = {"bf16": (torch.bfloat16, 8, 127), "f16": (torch.float16, 11, 15)}  # significand bits, bias
NAN32 = 0x7FC00000


class Numbers:
    """Random 16-bit and 32-bit words of one type."""

    def __init__(self, kind, seed):
        self.random = random.Random(f"{kind} {seed}")
        self.dtype, self.digits, self.bias = TYPES[kind]

    def word(self, exponent):
        """A number of this exponent (unbiased) with random sign and significand; subnormal if the exponent is too small."""
        fraction = self.digits - 1
        biased = max(0, min(exponent + self.bias, 2 * self.bias))
        return self.random.getrandbits(1) << 15 | biased << fraction | self.random.getrandbits(fraction)

    def special(self, subnormal):
        """An infinity, NaN, zero or extreme number."""
        fraction = self.digits - 1
        infinity = (2 * self.bias + 1) << fraction
        sign = self.random.getrandbits(1) << 15
        return sign | self.random.choice([1, (1 << fraction) - 1, 1 << fraction] if subnormal else [infinity, infinity, infinity | 1])

    def value(self, word):
        return torch.tensor([word - (word >> 15 << 16)], dtype=torch.int16).view(self.dtype).double().item()


def float_word(x):
    return struct.unpack("<I", struct.pack("<f", numpy.float32(x)))[0]


def finite(numbers, reach):
    rand = numbers.random
    a = [[numbers.word(rand.randint(-reach, reach)) for _ in range(16)] for _ in range(16)]
    b = [[numbers.word(rand.randint(-reach, reach)) for _ in range(8)] for _ in range(16)]
    for k in range(0, 16, 2):
        for j in range(4, 8):  # with a pair of rows 4 to 9 the products cancel, but for a few
            b[k + 1][j] = b[k][j]
        for i in range(4, 10):
            a[i][k + 1] = a[i][k] ^ 0x8000 ^ (rand.random() < 0.2)
    c = [[0] * 8 for _ in range(16)]
    for i in range(16):
        for j in range(8):
            products = [numbers.value(a[i][k]) * numbers.value(b[k][j]) for k in range(16)]
            top = max(map(abs, products))
            if i in (10, 11, 12):
                c[i][j] = float_word(-sum(products))
            else:
                by = rand.choice([-30, -26, -24, 24, 26, 30]) if i > 12 else rand.randint(-20, 4)
                c[i][j] = float_word(rand.choice([-1, 1]) * top * 2.0**by * (1 + rand.random()))
    return a, b, c


def special(numbers):
    rand, bias = numbers.random, numbers.bias
    tiny, huge = (lambda: rand.randint(-bias - 3, -bias // 2)), (lambda: rand.randint(bias - 3, bias))
    a = [[numbers.word(tiny() if i < 6 else huge() if i < 10 else rand.randint(-3, 3)) for _ in range(16)] for i in range(16)]
    b = [[numbers.word(tiny() if j < 2 else huge() if j > 5 else rand.randint(-3, 3)) for j in range(8)] for _ in range(16)]
    c = [[0] * 8 for _ in range(16)]
    for i in range(16):
        for k in range(16):
            if (i == 0 or 10 <= i < 13) and rand.random() < 0.9:
                a[i][k] = rand.getrandbits(1) << 15
            elif i < 6 and rand.random() < 0.3:
                a[i][k] = numbers.special(True)
            elif i > 12 and rand.random() < 0.06:
                a[i][k] = numbers.special(False)
        for j in range(8):
            sign = rand.getrandbits(1) << 31
            near_zero = [0, 1, 0x007FFFFF, 0x00800000, rand.getrandbits(23), rand.getrandbits(26)]
            near_all = [0x7F7FFFFF, 0x7F000000 | rand.getrandbits(23), float_word(rand.random())]
            rare = [0x7F800000, NAN32, 0x3F800000, float_word(rand.random()), float_word(rand.random())]
            c[i][j] = sign | rand.choice(near_zero if i < 6 or 10 <= i < 13 else near_all if i < 10 else rare)
    if rand.random() < 0.5:
        b[rand.randrange(16)][7] = numbers.special(False)
    return a, b, c


def tensor(words, dtype):
    signed = numpy.array(words, dtype=numpy.uint32 if dtype == torch.float32 else numpy.uint16)
    return torch.from_numpy(signed.view(numpy.int32 if dtype == torch.float32 else numpy.int16)).view(dtype)


def words_of(x):
    return x.contiguous().view(torch.int32).numpy().view(numpy.uint32)


def rounded(a, b, c):
    """Products added in ascending order of k, each sum rounded to float32."""
    a, b, d = a.float().numpy(), b.float().numpy(), c.numpy().copy()
    with numpy.errstate(all="ignore"):
        for k in range(16):
            d += a[:, k : k + 1] * b[k : k + 1, :]
    return d.view(numpy.uint32)


def lines_of(name, words, digits):
    flat = ["%0*x" % (digits, w) for row in words for w in row]
    per_line = 24 if digits == 4 else 14
    return [" ".join([name] * (at == 0) + flat[at : at + per_line]) for at in range(0, len(flat), per_line)]


def vector(kind, name, words):
    dtype = TYPES[kind][0]
    a, b, c = tensor(words[0], dtype), tensor(words[1], dtype), tensor(words[2], torch.float32)
    lines = [f"vector {kind} {name}"]
    for part, digits in zip("abc", (4, 4, 8)):
        lines += lines_of(part, words["abc".index(part)], digits)
    lines += lines_of("rounded", rounded(a, b, c), 8)
    for rule, card in CARDS.items():
        lines += lines_of(rule, words_of(MMA(card, f"m16n8k16.f32.{kind}.{kind}.f32")(a, b, c)), 8)
    return lines


def vectors(seeds):
    lines = HEAD.splitlines()
    for seed in seeds:
        for kind in TYPES:
            numbers = Numbers(kind, seed)
            reach = numbers.random.choice([3, 8, 20, 30]) if seed else 10
            lines += vector(kind, "finite", finite(numbers, min(reach, 14) if kind == "f16" else reach))
            lines += vector(kind, "special", special(numbers))
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--random", nargs=2, type=int)
    options = parser.parse_args()
    if options.random:
        count, seed = options.random
        sys.stdout.write(vectors(range(seed, seed + count)))
    elif options.check:
        sys.exit(0 if FILE.read_text() == vectors([0]) else f"{FILE} is not what this program writes")
    else:
        FILE.write_text(vectors([0]))


if __name__ == "__main__":
    main()
