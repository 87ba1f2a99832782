#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of weft's tokenizer against the Python tokenizers library.

    tools/tokenizer_diff.py PROBE FOLDER... [--texts N] [--seed S]

PROBE is build/.../bin/tokenizer_probe. Random texts of every kind are encoded with and without
special tokens, alone and as pairs, and decoded again. Every difference is printed; the exit status
is 1 if there is one.
"""
import argparse
import os
import random
import struct
import subprocess
import sys

from tokenizers import Tokenizer


REFUSED = 0xFFFFFFFF


class Probe:
    def __init__(self, program, folder, quiet=False):
        self.pipe = subprocess.Popen([program, folder], stdin=subprocess.PIPE,
                                     stdout=subprocess.PIPE,
                                     stderr=subprocess.DEVNULL if quiet else None)

    def ready(self):
        """Returns False if the probe has ended because it refused the folder."""
        try:
            self.ask(0, b"")
        except BrokenPipeError:
            return False
        return len(self.pipe.stdout.read(4)) == 4

    def close(self):
        try:
            self.pipe.stdin.close()
        except BrokenPipeError:
            pass
        self.pipe.stdout.close()
        self.pipe.wait()

    def ask(self, operation, payload):
        self.pipe.stdin.write(struct.pack("<II", operation, len(payload)) + payload)
        self.pipe.stdin.flush()

    def answer(self, each):
        head = self.pipe.stdout.read(4)
        if len(head) < 4:
            raise SystemExit("the probe ended early")
        count = struct.unpack("<I", head)[0]
        return count, b"" if count == REFUSED else self.pipe.stdout.read(count * each)

    def ids(self):
        """Returns the ids of a text, or None if the text is refused."""
        count, data = self.answer(4)
        return None if count == REFUSED else list(struct.unpack("<%di" % count, data))

    def encode(self, text, flags):
        self.ask(flags, text.encode())
        return self.ids()

    def pair(self, first, second, flags):
        a, b = first.encode(), second.encode()
        self.ask(16 + flags, struct.pack("<I", len(a)) + a + b)
        return self.ids(), list(self.answer(1)[1])

    def decode(self, ids, operation):
        self.ask(operation, struct.pack("<%di" % len(ids), *ids))
        return self.answer(1)[1].decode("utf-8")


WORDS = ("the of and to in is it that for was on are as with his they at be this from I'm don't "
         "we'll SHE'S can't they've I'D été naïve Straße İstanbul ﬁne Ⅷ ½ x² 北京 東京都 한국어 "
         "привет Ελλάδα שלום مرحبا नमस्ते ไทย 123 4567 3.14 1,000,000 foo_bar http://a.b/c?d=e "
         "if(x==1){return;} <s> </s> <|im_end|> ... --- ### !!?? (a) [b] {c} 😀 👨‍👩‍👧 🇩🇪 ❤️ é "
         "ａｂｃ ｶﾞ ① ㎏ ſ 'ſ ǅ ﷺ").split(" ")
SPACES = [" ", "  ", "   ", "\n", "\n\n", "\t", "\r\n", " \n ", "\u00a0", "\u3000", "\u2028",
          "\u200b", "\x0b", "\x85", " " * 9, "\t\t", "\n" * 5]
RANGES = [(0x20, 0x7e), (0, 0x1f), (0x7f, 0xff), (0x100, 0x24f), (0x300, 0x36f), (0x370, 0x5ff),
          (0x600, 0x6ff), (0x900, 0x97f), (0xe00, 0xe7f), (0x1100, 0x11ff), (0x1e00, 0x1fff),
          (0x2000, 0x206f), (0x2070, 0x218f), (0x2190, 0x2bff), (0x3000, 0x30ff), (0x4e00, 0x5200),
          (0xac00, 0xad00), (0xf900, 0xfaff), (0xfe00, 0xfeff), (0xff00, 0xffef),
          (0x1f300, 0x1f6ff), (0x1f900, 0x1f9ff), (0x20000, 0x20100), (0xe000, 0xe010)]


def random_text(rng, added):
    kind = rng.random()
    if kind < 0.05:
        piece = rng.choice(["a", "ab", " ", "\n", "😀", "é", "0", "字", "'", "▁", "e\u0301"])
        return piece * rng.choice([1, 2, 3, 10, 100, 300])
    parts = []
    for _ in range(rng.choice([0, 1, 2, 5, 12, 40])):
        which = rng.random()
        if which < 0.45:
            parts.append(rng.choice(WORDS))
            if rng.random() < 0.7:
                parts.append(" ")
        elif which < 0.6:
            parts.append(rng.choice(SPACES))
        elif which < 0.7 and added:
            parts.append(rng.choice(added))
        else:
            low, high = rng.choice(RANGES)
            parts += [chr(rng.randint(low, high)) for _ in range(rng.choice([1, 1, 2, 4, 8]))]
    return "".join(parts)


def show(what, text, want, got):
    print("DIFFERENT %s: %s\n  want %s\n  got  %s" % (what, ascii(text)[:600], ascii(want)[:600],
                                                      ascii(got)[:600]))


def load(folder):
    """Returns the library's tokenizer, or None if the library cannot read the file."""
    try:
        tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    except Exception as error:  # the library raises no narrower class
        print("%s: skipped, the library says: %s" % (folder, error))
        return None
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def compare(probe, tokenizer, text, other):
    bad = 0
    for flags in (1, 3):
        want = tokenizer.encode(text, add_special_tokens=flags == 3).ids
        got = probe.encode(text, flags)
        if want != got:
            show("ids", text, want, got)
            return 1
    whole = tokenizer.encode(text, other)
    ids, types = probe.pair(text, other, 3)
    if (whole.ids, whole.type_ids) != (ids, types):
        show("pair", text + " | " + other, (whole.ids, whole.type_ids), (ids, types))
        bad += 1
    for skip in (0, 1):
        text_want = tokenizer.decode(want, skip_special_tokens=bool(skip))
        text_got = probe.decode(want, 8 + skip)
        if text_want != text_got:
            show("text", text, text_want, text_got)
            bad += 1
        streamed = probe.decode(want, 10 + skip)
        if "\ufffd" not in text_want and text_want != streamed:
            show("stream", text, text_want, streamed)
            bad += 1
    return bad


def compare_random_ids(probe, tokenizer, rng):
    ids = [rng.randrange(tokenizer.get_vocab_size()) for _ in range(rng.choice([1, 3, 20]))]
    bad = 0
    for skip in (0, 1):
        want = tokenizer.decode(ids, skip_special_tokens=bool(skip))
        got = probe.decode(ids, 8 + skip)
        if want != got:
            show("text of ids", str(ids), want, got)
            bad += 1
        streamed = probe.decode(ids, 10 + skip)
        if "\ufffd" not in want and want != streamed:
            show("stream of ids", str(ids), want, streamed)
            bad += 1
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("probe")
    parser.add_argument("folders", nargs="+")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    args = parser.parse_args()
    total = 0
    for folder in args.folders:
        rng = random.Random(args.seed)
        tokenizer = load(folder)
        if tokenizer is None:
            continue
        probe = Probe(args.probe, folder)
        added = [t.content for t in tokenizer.get_added_tokens_decoder().values()]
        bad = done = 0
        while done < args.texts and bad < 5:
            text, other = random_text(rng, added), random_text(rng, added)
            bad += compare(probe, tokenizer, text, other)
            bad += compare_random_ids(probe, tokenizer, rng)
            done += 1
        print("%s: %d texts, %d different (seed %d)" % (folder, done, bad, args.seed))
        total += bad
    return 1 if total else 0


if __name__ == "__main__":
    sys.exit(main())
