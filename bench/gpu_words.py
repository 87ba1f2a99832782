#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the words that gpu_probe printed on a GPU with those of the emulator.

  bench/gpu_words.py EMULATED CARD     files of lines "name number word"; exits 1 if a word is wrong

A word of an approximate function is a float, whose error may be the documented one of the GPU plus one unit of the
emulator's C library; every other word must be the same. Other lines (warnings of a driver) are ignored, but no word may
be missing.
"""
import math
import re
import struct
import sys

UNIT = 2.0**-23  # a unit in the last place, relative to the value: at most this
# Maximum relative errors. From the PTX manual: ex2.approx.ftz, rcp.approx.ftz and rsqrt.approx.ftz. From the CUDA guide, where editions
# differ the larger value, in units: expf, logf, erff, tanhf.
BOUNDS = {"ex2": 2.0**-22, "rcp": UNIT, "rsqrt": 2.0**-22.4, "expf": 2 * UNIT, "logf": UNIT, "erff": 2 * UNIT, "tanhf": 2 * UNIT}
LINE = re.compile(r"(\w+) (\d+) ([0-9a-f]{8})$")


def words_of(lines):
    """Returns {(name, number): word}."""
    found = (LINE.match(line.rstrip()) for line in lines)
    return {(m.group(1), int(m.group(2))): m.group(3) for m in found if m}


def value(word):
    return struct.unpack(">f", bytes.fromhex(word))[0]


def same(name, emulated, card):
    if emulated == card or name not in BOUNDS:
        return emulated == card
    x, y = value(emulated), value(card)
    return math.isfinite(x) and abs(x - y) <= (BOUNDS[name] + UNIT) * abs(x)


def compared(emulated, card):
    """Returns sentences about errors: first the number of wrong words per name."""
    these, those = words_of(emulated), words_of(card)
    if not these:
        return ["the emulator printed no word"]
    wrong = {}
    for (name, number), word in these.items():
        other = those.pop((name, number), "nothing")
        if other == "nothing" or not same(name, word, other):
            wrong.setdefault(name, []).append("%d: %s, the emulator has %s" % (number, other, word))
    said = ["%s: %d words are wrong; %s" % (name, len(list_), "; ".join(list_[:3])) for name, list_ in wrong.items()]
    return said + ["%s %d is a word that the emulator does not print" % key for key in list(those)[:3]]


def main():
    emulated, card = (open(name, encoding="utf-8", errors="replace").read().splitlines() for name in sys.argv[1:])
    said = compared(emulated, card)
    print("\n".join(said) or "%d words: those of approximate functions near the emulator's, all others the same" % len(words_of(card)))
    return 1 if said else 0


if __name__ == "__main__":
    sys.exit(main())
