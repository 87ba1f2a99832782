#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of folders with vocab.json and merges.txt against the classes of transformers.

    tools/tokenizer_files_diff.py PROBE TOKENIZER_JSON... [--texts N] [--seed S]

PROBE is build/.../bin/tokenizer_probe. Vocabulary and merges of each byte-level tokenizer.json become a
folder for each class that weft reads. Random texts of ten scripts and more, with emoji, runs of blanks and the
replacement character that stands for invalid UTF-8, are encoded with and without special tokens.
Prints every difference; the exit status is 1 if there is one.
"""
import argparse
import json
import pathlib
import random
import sys
import tempfile

import transformers
from tokenizer_diff import Probe

CLASSES = ("GPT2Tokenizer", "RobertaTokenizer", "Qwen2Tokenizer")
SCRIPTS = ((0x41, 0x7A), (0xC0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x531, 0x58F), (0x5D0, 0x5EA), (0x620, 0x6FF),
           (0x900, 0x97F), (0xE01, 0xE5B), (0x10A0, 0x10FF), (0x3041, 0x30FF), (0x4E00, 0x9FFF), (0xAC00, 0xD7A3))
BLANKS = (" ", "  ", "     ", "\t", "\n", "\n\n", "\r\n", " \n ", "\u00a0", "\u2003", "\u3000")
OTHERS = ("\U0001F600", "\U0001F469\u200d\U0001F4BB", "\U0001F1E9\U0001F1EA", "'s", "'LL", "don't", "1234567", "\u0664\u0665", "...", "!?",
          "e\u0301", "\ufb01", "\ufffd", "\x00", "\x7f", "{[()]}", "http://a.b/c?d=e")


def text_of(rng, words):
    parts = []
    for _ in range(rng.randrange(1, 24)):
        kind = rng.random()
        if kind < 0.4:
            first, last = rng.choice(SCRIPTS)
            parts.append("".join(chr(rng.randint(first, last)) for _ in range(rng.randrange(1, 9))))
        elif kind < 0.65:
            parts.append(rng.choice(BLANKS))
        elif kind < 0.8:
            parts.append(rng.choice(OTHERS))
        else:
            parts.append(rng.choice(words))
    return "".join(parts)


def folder_make(folder, source, name):
    """Writes the files of the class; its special tokens replace the last words of the vocabulary."""
    model = json.loads(pathlib.Path(source).read_text())["model"]
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    usual = ["<s>", "</s>", "<unk>", "<pad>", "<mask>"] if name.startswith("Roberta") else ["<|endoftext|>"]
    vocab = dict(model["vocab"])
    for word in usual:
        vocab.setdefault(word, len(vocab))
    (folder / "vocab.json").write_text(json.dumps(vocab, ensure_ascii=False))
    (folder / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))


def differences(probe_path, source, name, texts, seed):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        folder_make(folder, source, name)
        tokenizer = getattr(transformers, name).from_pretrained(folder)
        probe = Probe(probe_path, str(folder))
        rng, words, count = random.Random(seed), list(tokenizer.all_special_tokens) + ["hello", "World", "of"], 0
        for _ in range(texts):
            text = text_of(rng, words)
            for operation, special in ((1, False), (3, True)):
                want = tokenizer(text, add_special_tokens=special)["input_ids"]
                probe.ask(operation, text.encode())
                got = list(probe.ids())
                if got != want:
                    count += 1
                    if count < 4:
                        print(f"{source} as {name}: {text!r}\n  transformers {want}\n  weft         {got}")
        probe.close()
        print(f"{source} as {name}: {texts} texts, {count} differences")
        return count


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("sources", nargs="+")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    found = [differences(args.probe, source, name, args.texts, args.seed) for source in args.sources for name in CLASSES]
    return any(found)


if __name__ == "__main__":
    sys.exit(main())
