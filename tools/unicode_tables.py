#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes runtime/text/tokenizer/unicode_tables.c: Unicode data that Debian's PCRE2 and utf8proc lack.

    tools/unicode_tables.py > runtime/text/tokenizer/unicode_tables.c

The reference library uses Unicode 16.0 for patterns and cases and 9.0 for decompositions; some of its
rules were frozen at other versions. Unicode 16.0 is read from unicodedata2==16.0.0 and
fonttools==4.58.0, the base 14.0.0 from Python 3.11, and the frozen rules from the library
(tokenizers==0.21.4), which is queried for every code point.
"""
import sys
import unicodedata as old

import unicodedata2 as new
from fontTools import unicodedata as scripts
from tokenizers import Regex, normalizers as N, pre_tokenizers as P

assert old.unidata_version == "14.0.0", "run this with Python 3.11"
assert new.unidata_version == "16.0.0"
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORIES = "Cn Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co"
CATEGORIES = {name: i for i, name in enumerate(CATEGORIES.split())}  # numbers as in utf8proc
BINARIES = ("Alphabetic", "Cased", "Emoji", "Emoji_Modifier_Base", "Emoji_Presentation",
            "Ideographic", "Lowercase", "Unified_Ideograph", "Uppercase")
# Characters of Unicode 14.0 that received a property in a later version.
CHANGED = {"Alphabetic": {*range(0x363, 0x370), 0xC04, 0xF82, 0xF83, *range(0x1DD3, 0x1DE7), 0x11080,
                          0x11081},
           "Lowercase": {0x10FC, 0xA7F2, 0xA7F3, 0xA7F4, 0xAB69},
           "Cased": {0x10FC, 0xA7F2, 0xA7F3, 0xA7F4, 0xAB69}}


def ranges(values):
    """Returns [(first, last, value)] of {code: value}; neighbours with equal values are joined."""
    out = []
    for c in sorted(values):
        if out and out[-1][1] == c - 1 and out[-1][2] == values[c]:
            out[-1][1] = c
        else:
            out.append([c, c, values[c]])
    return out


def table(comment, name, values, inner=False):
    cells = ["{0x%x, 0x%x, %d}," % tuple(r) for r in ranges(values)]
    print("\n// %s\nstatic const struct unicode_range %s_ranges[] = {" % (comment, name))
    line = "   "
    for cell in cells:
        if len(line) + len(cell) > 96:
            print(line)
            line = "   "
        line += " " + cell
    print(line + "\n};")
    if not inner:
        print("const struct unicode_table %s = {\n    %s_ranges, %d};" % (name, name, len(cells)))


def members(pattern):
    """Returns the characters that a pattern of the library matches."""
    split, out = P.Split(Regex(pattern), "removed"), set()
    for base in range(0, 0x110000, 0x1000):
        block = [c for c in range(base, base + 0x1000) if not 0xD800 <= c < 0xE000]
        kept = set()
        for _, (a, b) in split.pre_tokenize_str("".join(map(chr, block))):
            kept.update(range(a, b))
        out.update(c for i, c in enumerate(block) if i not in kept)
    return out


def is_new(c):
    return old.category(chr(c)) != new.category(chr(c))


def added_tables():
    print("\n// Names of scripts and binary properties, loosely written; the position is the value.")
    names = sorted((name.lower().replace("_", ""), code.lower(), code)
                   for code, name in scripts.Scripts.NAMES.items() if code not in ("Hrkt", "Zzzz"))
    known = {scripts.script(chr(c)) for c in CODES if old.category(chr(c)) != "Cn"}
    print("const struct unicode_script unicode_scripts[] = {")
    cells = ['{"%s", "%s", %d},' % (long, short, code in known) for long, short, code in names]
    for i in range(0, len(cells), 2):
        print("    " + " ".join(cells[i:i + 2]))
    print("};\nconst uint32_t unicode_scripts_count = %d;" % len(names))
    print("const char *const unicode_binaries[] = {")
    for name in BINARIES:
        print('    "%s",' % name.lower().replace("_", ""))
    print("};")
    print("const uint32_t unicode_binaries_count = %d;" % len(BINARIES))
    table("Categories (numbers of utf8proc) that are new or different since 14.0.", "unicode_added",
          {c: CATEGORIES[new.category(chr(c))] for c in CODES if is_new(c)})
    index = {code: i for i, (_, _, code) in enumerate(names)}
    table("Scripts of what was added since 14.0.", "unicode_added_scripts",
          {c: index[scripts.script(chr(c))] for c in CODES if old.category(chr(c)) == "Cn"
           and scripts.script(chr(c)) != "Zzzz"})
    counts = []
    for name in BINARIES:
        fresh = {c: 1 for c in members("\\p{%s}" % name)
                 if old.category(chr(c)) == "Cn" or c in CHANGED.get(name, ())}
        table("%s since 14.0." % name, "added_" + name.lower(), fresh, True)
        counts.append(len(ranges(fresh)))
    print("const struct unicode_table unicode_added_binaries[] = {")
    for name, count in zip(BINARIES, counts):
        print("    {added_%s_ranges, %d}," % (name.lower(), count))
    print("};")
    lower = N.Lowercase()
    table("Lower case since 14.0: what is added to the code (modulo 65536).", "unicode_added_lower",
          {c: (ord(lower.normalize_str(chr(c))) - c) % 65536 for c in CODES if c != 0x130
           and lower.normalize_str(chr(c)) != chr(c).lower()})


def unknown_to_forms():
    """Returns characters that the library's Unicode 9.0 neither decomposes, orders nor composes."""
    forms = {f: getattr(N, f)().normalize_str for f in ("NFC", "NFD", "NFKD")}
    out = set()
    for c in CODES:
        s = chr(c)
        if forms["NFKD"](s) != new.normalize("NFKD", s):
            out.add(c)
        parts = new.normalize("NFD", s)
        if len(parts) > 1 and new.normalize("NFC", parts) == s and forms["NFC"](parts) != s:
            first = new.decomposition(s).split()[0]
            out.add(int(first, 16))
        for mark in "\u0301\u0323":
            for text in ("a" + s + mark, "a" + mark + s):
                if c > 0x2FF and new.combining(s) and \
                        forms["NFD"](text) != new.normalize("NFD", text):
                    out.add(c)
    return dict.fromkeys(out, 1)


def frozen_tables():
    table("What the forms leave alone, because they know Unicode 9.0 only.", "unicode_inert",
          unknown_to_forms())
    strip = N.StripAccents().normalize_str
    table("Marks (M) otherwise to StripAccents.", "unicode_marks_otherwise",
          {c: 1 for c in CODES if (strip(chr(c)) == "") != (new.category(chr(c))[0] == "M")})
    bert = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False)
    strip = N.BertNormalizer(**{**bert, "strip_accents": True}).normalize_str
    nfd = N.NFD().normalize_str
    table("Marks (Mn) otherwise to BertNormalizer.", "unicode_nonspacing_otherwise",
          {c: 1 for c in CODES if nfd(chr(c)) == chr(c)
           and (strip(chr(c)) == "") != (new.category(chr(c)) == "Mn")})
    clean = N.BertNormalizer(**{**bert, "clean_text": True}).normalize_str
    table("Control characters (Cc, Cf, Cs, Co) otherwise to BertNormalizer.",
          "unicode_control_otherwise",
          {c: 1 for c in CODES if chr(c) not in "\0\t\n\r\ufffd" and
           (clean(chr(c)) == "") != (new.category(chr(c)) in ("Cc", "Cf", "Cs", "Co"))})
    marks = P.Punctuation("removed").pre_tokenize_str
    table("Punctuation (P) otherwise to Punctuation and BertPreTokenizer.",
          "unicode_punctuation_otherwise",
          {c: 1 for c in CODES if c > 127
           and (marks(chr(c)) == []) != (new.category(chr(c))[0] == "P")})


def script_table():
    """Returns the table of scripts as in UnicodeScripts; characters without a script are in no range."""
    split = P.UnicodeScripts().pre_tokenize_str
    samples, values, last = [], {}, None
    for c in CODES:
        s = chr(c)
        if [t for t, _ in split("a" + s + "\u6f22")] == ["a" + s, "\u6f22"] and \
                [t for t, _ in split(s + "a")] == ["a"]:
            continue
        if last is None or len(split(samples[last] + s)) != 1:
            last = next((i for i, t in enumerate(samples) if len(split(t + s)) == 1), None)
            if last is None:
                samples.append(s)
                last = len(samples) - 1
        values[c] = last
    table("Scripts as the UnicodeScripts pre-tokenizer sees them.", "unicode_script_runs", values)


def main():
    print("// SPDX-License-Identifier: Apache-2.0 AND Unicode-3.0")
    print("// Written by tools/unicode_tables.py; do not edit it. Unicode 16.0.0 beside 14.0.0, and what")
    print("// the reference library (tokenizers 0.21.4) has frozen; see unicode_tables.h.")
    print("// clang-format off")
    print('#include "runtime/text/tokenizer/unicode_tables.h"')
    added_tables()
    frozen_tables()
    script_table()


if __name__ == "__main__":
    sys.exit(main())
