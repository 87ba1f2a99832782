#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of the patterns of tokenizers against the Python tokenizers library.

    tools/pattern_diff.py PROBE [--texts N] [--random N] [--seed S] [--write FILE]

PROBE is build/.../bin/tokenizer_probe. Every pattern of patterns.py splits random texts in both
programs; --random N adds N patterns of random parts. --write stores the results for a few texts as
the committed vectors of test_patterns. Every difference is printed; the exit status is then 1.
"""
import argparse
import json
import os
import random
import sys
import tempfile

from tokenizers import Tokenizer

from patterns import PATTERNS, RULES
from tokenizer_diff import Probe, random_text

SHIFTED = [b for b in range(256) if not (33 <= b < 127 or 161 <= b < 173 or 174 <= b)]
BYTES = [chr(256 + SHIFTED.index(b)) if b in SHIFTED else chr(b) for b in range(256)]
EDGES = ["", " ", "a", "aab aaab aaaab", "don't DON'T I'LL we'Ve 'ſ", "a\nb a\r\nb\n\n", "x  y   z ",
         "漢字かなカナ漢abc漢", "ʰaʰ漢ªº々〻x", "1234567 12 ١٢٣ Ⅷ²³¹ ¼", "\u0301a\u0301\u0345 é e\u0301",
         "\U00010d50\U00010d70\ua7cb ᲊ \U0001e030 𝼥", "foo(bar|baz).qux, [x]! … 。", "\x0b\x0c\x85\u2028\u180e",
         "<sentinel:12> IMGIMGABZ", "ⓐⓏ🄰 _‿a\u200db", "\U0001171e\U00016d40\U000105c0\u0cf3",
         "if (x == 1) {\n    return;\n}", "ＡＢＣ ａｂｃ ｶﾅ 한국어 ㅎㅏ", "aBACab C K k ſ", "x'ſab I'ſ 'Sx",
         "I're we've they'RE WE'VE 'ren 'vex 's'S 't'T 'm'M 'd'D 'll'LL 'l 'r 'v'e",
         "so?!\r\n\r\nb a\nc", "a\tb\t c\x08\x1b\x07 AaBf\x0c\x01 \x7f"]
RANGES = [(0x20, 0x7E), (0x61, 0x66), (0x80, 0xFF), (0x300, 0x36F), (0x900, 0x9FF), (0x1C80, 0x1C8F),
          (0x2E80, 0x3130), (0xA7C0, 0xA800), (0x10D40, 0x10D8F), (0x11380, 0x113E3), (0x16D40, 0x16D79),
          (0x1E000, 0x1E08F), (0x1E5D0, 0x1E5FF), (0x2EBF0, 0x2EC00), (0x11F00, 0x11F60), (0, 0x110000 - 1)]


def file_of(stages, behavior="Isolated", invert=False):
    """Returns a tokenizer whose ids are bytes, plus 256 for the last byte of a word."""
    pre = [{"type": "Split", "pattern": {"Regex": p}, "behavior": behavior, "invert": invert}
           for p in stages]
    pre.append({"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                "use_regex": False})
    vocab = {c: i for i, c in enumerate(BYTES)}
    vocab.update({c + "</w>": 256 + i for i, c in enumerate(BYTES)})
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [],
            "normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": pre},
            "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "dropout": None, "unk_token": None,
                      "continuing_subword_prefix": None, "end_of_word_suffix": "</w>",
                      "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}


def text_of(rng):
    if rng.random() < 0.2:
        return rng.choice(EDGES)
    if rng.random() < 0.4:
        return random_text(rng, [])
    out = []
    for _ in range(rng.choice([1, 3, 8, 20])):
        low, high = rng.choice(RANGES)
        c = rng.randint(low, high)
        out.append(chr(c) if not 0xD800 <= c < 0xE000 else "\ud7ff")
        if rng.random() < 0.2:
            out.append(rng.choice([" ", "\n", "'s", "1", "a", "字"]))
    return "".join(out)


ATOMS = ["a", "b", "c", "[a-c]", r"\p{L}", r"\p{Lu}", r"\s", r"\S", r"\w", r"\W", r"\d", r"\h", r"\H", ".",
         r"[^a]", r"[a-z&&[^b]]", r"[\p{L}&&[^\p{Han}]]", r"[[a-c][0-9]]", r"[^\s\p{N}]", r"[\W\d]",
         r"[^\W\d]", r"[\S&&[^a]]", r"\p{P}", r"\p{^Ll}", r"[[:punct:]]", r"[[:^alpha:]]", r"\R", "'",
         r"[^[a-c]&&[b-d]]", r"[\p{Mn}\p{Nd}a]", r"[^\p{Mn}b]", r"\p{C}", r"\p{Alnum}", r"[\p{Punct}\-]",
         r"[a-f&&\h&&[^c-d]]", r"\p{Latin}", r"[^\P{L}a-f]", r"\p{Emoji}", r"\n", r"\x{61}", r"\p{Lowercase}"]
ANCHORS = [r"\b", r"\B", "^", "$", r"\A", r"\Z", r"\z", "(?=%s)", "(?!%s)", "(?<=%s)", "(?<!%s)", r"\G"]
REPEATS = ["", "", "", "", "*", "+", "?", "*?", "+?", "??", "*+", "++", "?+", "{2}", "{,2}", "{1,}", "{1,2}",
           "{1,2}?", "{2}?", "{1,2}+", "{2}+"]


def random_pattern(rng, depth=0):
    branches = []
    for _ in range(rng.choice([1, 1, 2, 3]) if depth < 3 else 1):
        parts = []
        for _ in range(rng.choice([1, 1, 2, 3])):
            kind = rng.random()
            if kind < 0.12:
                anchor = rng.choice(ANCHORS)
                parts.append(anchor % rng.choice(ATOMS) if "%" in anchor else anchor)
                continue
            if kind < 0.3 and depth < 1:
                body = rng.choice(["(%s)", "(?:%s)", "(?>%s)", "(?m:%s)", "(?i:%s)"])
                atom = body % random_pattern(rng, depth + 1)
            else:
                atom = rng.choice(ATOMS)
            parts.append(atom + rng.choice(REPEATS))
        branches.append("".join(parts))
    return "|".join(branches)


class Pair:
    """One pattern in both programs; `refused` names the programs that refuse it."""

    def __init__(self, program, folder, content):
        path = os.path.join(folder, "tokenizer.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        self.refused, self.probe, self.texts_refused = "", None, 0
        try:
            self.library = Tokenizer.from_file(path)
        except Exception:  # the library raises no narrower class
            self.refused = "library"
            return
        self.probe = Probe(program, folder, quiet=True)
        self.refused = "" if self.probe.ready() else "weft"

    def compare(self, name, text):
        try:
            want = self.library.encode(text, add_special_tokens=False).ids
        except BaseException as error:  # a panic of the library: too much backtracking
            if isinstance(error, KeyboardInterrupt):
                raise
            return 0
        got = self.probe.encode(text, 1)
        if want == got:
            return 0
        if got is None:  # refused with a sentence: the pattern takes too long on this text
            self.texts_refused += 1
            return 0
        print("DIFFERENT %s: %s\n  want %s\n  got  %s" % (name, ascii(text), ends(want), ends(got)))
        return 1


def ends(ids):
    """Returns the offsets of the bytes after which a word ends."""
    return [i + 1 for i, token in enumerate(ids) if token >= 256]


def walk(args, cases, texts, rng):
    bad = refused = errors = over = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, content in cases:
            pair = Pair(args.probe, folder, content)
            errors += pair.refused == "library"
            refused += pair.refused == "weft"
            if pair.refused and name in {**PATTERNS, **RULES}:
                print("REFUSED by", pair.refused, name)
                bad += 1
            different = 0
            for i in range(0 if pair.refused else texts):
                text = EDGES[i] if i < len(EDGES) else text_of(rng)
                different += pair.compare(name, text)
                if different == 3:
                    break
            bad += different
            over += pair.texts_refused
            if pair.probe is not None:
                pair.probe.close()
    print("%d patterns, %d texts each, %d different; refused by weft %d and %d texts, by the library %d (seed %d)"
          % (len(cases), texts, bad, refused, over, errors, args.seed))
    return bad


def named_cases():
    cases = [(name, file_of(stages)) for name, stages in {**PATTERNS, **RULES}.items()]
    return cases + [(name, file_of(stages, "Removed", True)) for name, stages in PATTERNS.items()]


NORMALIZED = ["\u314e\u314f", "\u314e\u314f\u3134", "\uff8e\uff9f\uffbe\uffc2", "\u1112\u1161\u11ab", "\uac00\u11a8",
              "\u110b\u116a\u11a7\u11c7 \uac00\u11a7", "\u1100\u314f", "\u32ff \u3131 \u326e\u1161", "e\u0323\u0301 \u0344", "\u0e01\u0e33 \u0eb3",
              "\U00010d50\u1c89\ua7cb\u0130\u01c5\u03a3", "\U00011935\U00011930\U000105d2\u0307 \U00016d67",
              "a\u0897\u0301\u1abf\u0323", "a\u0898\u0323", "\u0cc6\u0cc2\u0cd5 \u09c7\u09be", "\ufdfa \u210c \ufb01 \u00bd"]


def cases_written():
    """Returns (name, part of the tokenizer file, texts) of each committed vector."""
    for name, stages in PATTERNS.items():
        yield name, file_of(stages), EDGES
    for name, stages in RULES.items():
        yield name, file_of(stages, "Removed"), EDGES
    for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents"):
        yield name, {**file_of([]), "normalizer": {"type": name}}, NORMALIZED
    for name in ("UnicodeScripts", "Whitespace", "BertPreTokenizer"):
        content = file_of([])
        content["pre_tokenizer"]["pretokenizers"].insert(0, {"type": name})
        yield name, content, EDGES
    for name, stage in stages_written():
        content = file_of([])
        stages = content["pre_tokenizer"]["pretokenizers"]
        stages[:] = [stage] if stage["type"] == "ByteLevel" else [stage] + stages
        yield name, content, EDGES


def stages_written():
    """Returns (name, pre-tokenizer) for each form of the stages before the byte level."""
    for behavior in ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"):
        for invert in (False, True):
            for pattern in ({"Regex": "[ab ]"}, {"String": "a"}, {"Regex": " "}):
                yield ("%s, %s, %s" % (behavior, invert, *pattern.values()),
                       {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert})
        yield "Punctuation " + behavior, {"type": "Punctuation", "behavior": behavior}
    yield "a space", {"type": "CharDelimiterSplit", "delimiter": " "}
    yield "a letter", {"type": "CharDelimiterSplit", "delimiter": "\u6f22"}
    for length in (1, 3, 5):
        yield "length %d" % length, {"type": "FixedLength", "length": length}
    for each in (False, True):
        yield "Digits %s" % each, {"type": "Digits", "individual_digits": each}
    yield "words", {"type": "WhitespaceSplit"}
    for add in (False, True):
        for regex in (False, True):
            yield "ByteLevel %s %s" % (add, regex), {"type": "ByteLevel", "add_prefix_space": add,
                                                     "trim_offsets": True, "use_regex": regex}
    for scheme in ("always", "first", "never"):
        for split in (False, True):
            yield "Metaspace %s %s" % (scheme, split), {"type": "Metaspace", "replacement": "\u2581",
                                                        "prepend_scheme": scheme, "split": split}


def write(path):
    """Writes the words of each case and text, each followed by U+2016."""
    with open(path, "w", encoding="utf-8") as file:
        file.write('{"made_by": "tools/pattern_diff.py --write", "model": %s'
                   % json.dumps(file_of([])["model"], ensure_ascii=False))
        for name, texts in (("texts", EDGES), ("normalized", NORMALIZED)):
            file.write(',\n"%s": %s' % (name, json.dumps(texts)))
        lines = []
        for name, content, texts in cases_written():
            tokenizer = Tokenizer.from_str(json.dumps(content))
            words = []
            for text in texts:
                data = b"".join(bytes([i % 256]) + "\u2016".encode() * (i >= 256)
                                for i in tokenizer.encode(text, add_special_tokens=False).ids)
                words.append(data.decode())
            lines.append(json.dumps({
                "name": name, "texts": "texts" if texts is EDGES else "normalized",
                "normalizer": content["normalizer"], "pre_tokenizer": content["pre_tokenizer"],
                "words": words}))
        file.write(',\n"cases": [\n%s\n]}\n' % ",\n".join(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--write")
    args = parser.parse_args()
    if args.write:
        write(args.write)
        return 0
    rng = random.Random(args.seed)
    bad = walk(args, named_cases(), args.texts, rng) if args.texts else 0
    patterns = [random_pattern(rng) for _ in range(args.random)]
    if patterns:
        cases = [(p, file_of([p], rng.choice(["Isolated", "Removed"]))) for p in patterns]
        bad += walk(args, cases, 60, rng)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
