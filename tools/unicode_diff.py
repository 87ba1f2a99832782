#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every normalizer and pre-tokenizer with the tokenizers library for every code point.

    tools/unicode_diff.py PROBE [--seed S]

PROBE is build/.../bin/tokenizer_probe. Each part receives all characters one by one, and with random
neighbours (jamo, marks, letters of all Unicode versions). The exit status is 1 if anything differs.
"""
import argparse
import json
import os
import random
import sys
import tempfile

from tokenizers import Tokenizer

from pattern_diff import ends, file_of
from tokenizer_diff import Probe

BERT = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False,
        "strip_accents": False, "lowercase": False}
NORMALIZERS = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")]
NORMALIZERS += [{**BERT, flag: True} for flag in list(BERT)[1:]]
NORMALIZERS += [{"type": "Strip", "strip_left": True, "strip_right": True}]
PRE = [{"type": t} for t in ("BertPreTokenizer", "Whitespace", "WhitespaceSplit", "UnicodeScripts")]
PRE += [{"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True},
        {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}]
PATTERNS = [r"\p{L}", r"\p{N}", r"\p{M}", r"\p{Mn}", r"\p{P}", r"\p{S}", r"\p{C}", r"\p{Cn}", r"\w", r"[\w]", r"\s",
            r"\d", r"[[:punct:]]", r"[[:graph:]]", r"[[:print:]]", r"\p{Alnum}", r"\p{Lower}", r"\p{Upper}",
            r"\p{Emoji}", r"\p{Cased}", r"\p{LC}", r"\p{Ideographic}", r"\p{Assigned}", r"[[:blank:]]",
            r"\p{Han}", r"\p{Latin}", r"\p{Arab}", r"\p{Common}", r"\p{Inherited}", r"\p{Garay}", r"\p{Cyrillic}",
            r"[\p{L}&&[^\p{Han}]]", r"\b.", r"[^\s\p{L}\p{N}]", r"\p{Emoji_Presentation}", r"\p{XDigit}"]
BLOCKS = [(0x300, 0x370), (0x900, 0x1200), (0x1100, 0x1200), (0x1AB0, 0x1B00), (0x1DC0, 0x1E00), (0x3130, 0x3190),
          (0x3200, 0x3300), (0xA960, 0xA980), (0xAC00, 0xAC40), (0xD7B0, 0xD800), (0xFF60, 0xFFDD), (0x105C0, 0x105F4),
          (0x11000, 0x12000), (0x16100, 0x16140), (0x16D40, 0x16D80), (0x1E000, 0x1E600), (0x41, 0x5B), (0xC0, 0x180)]


def cases():
    for normalizer in NORMALIZERS:
        content = file_of([])
        content["normalizer"] = normalizer
        yield json.dumps(normalizer), content
    for pre in PRE:
        content = file_of([])
        content["pre_tokenizer"]["pretokenizers"].insert(0, pre)
        yield json.dumps(pre), content
    for pattern in PATTERNS:
        yield pattern, file_of([pattern])


def texts(rng):
    codes = [c for c in range(1, 0x110000) if not 0xD800 <= c < 0xE000]
    for i in range(0, len(codes), 64):
        yield "a".join(map(chr, codes[i:i + 64])) + "a"
    for c in (0x61, 0x41, 0x4E00, 0x378):
        for i in range(0, 0x20000, 512):
            yield "".join(chr(k) + chr(c) for k in range(i + 1, i + 513) if not 0xD800 <= k < 0xE000)
    for syllable in ("\u1100", "\u1100\u1161", "\uac00", "\uac01"):
        yield "".join(syllable + chr(c) for c in range(0x1160, 0x1200))
    for _ in range(4000):
        out = []
        for _ in range(rng.choice([2, 3, 12])):
            low, high = rng.choice(BLOCKS)
            out.append(chr(rng.randrange(low, high)))
        yield "".join(out)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    total = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, content in cases():
            with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as file:
                json.dump(content, file)
            library = Tokenizer.from_str(json.dumps(content))
            probe, bad, count = Probe(args.probe, folder), 0, 0
            for text in texts(random.Random(args.seed)):
                want, got = library.encode(text, add_special_tokens=False).ids, probe.encode(text, 1)
                count += 1
                if want != got:
                    bad += 1
                    print("DIFFERENT %s: %s\n  want %s\n  got  %s" % (
                        name, ascii(text)[:300], *(ends(ids) if ends(want) != ends(got) else ids
                                                   for ids in (want, got))))
                    if bad == 3:
                        break
            probe.close()
            print("%s: %d texts, %d different" % (name, count, bad))
            total += bad
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
