#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains a small tokenizer of every kind with the Python tokenizers library, for tokenizer_diff.py.

    tests/runtime/tokenizer_kinds.py TEXTFILE OUTPUT

Each folder under OUTPUT holds one tokenizer.json: every normalizer, pre-tokenizer, split behaviour,
model option and decoder that weft reads occurs in at least one of them.
"""
import json
import os
import sys

from tokenizers import AddedToken, Regex, Tokenizer, models, trainers
from tokenizers import decoders as D, normalizers as N, pre_tokenizers as P
from tokenizers.processors import BertProcessing

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
          r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
TAIL = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + TAIL +
         r"|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + TAIL +
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
BEHAVIORS = ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous")
ALPHABET = {"initial_alphabet": P.ByteLevel.alphabet()}
UNK = {"unk_token": "<unk>"}


def corpus(path):
    with open(path, encoding="utf-8") as file:
        lines = file.read()[:60000].split("\n")
    return lines + ["naïve café déjà vu 1234 5678", "北京大学 東京都", "😀 ❤️ Ⅷ ½ ﬁne"] * 5


class Maker:
    def __init__(self, path, output):
        self.lines, self.output = corpus(path), output

    def save(self, name, tokenizer):
        folder = os.path.join(self.output, name)
        os.makedirs(folder, exist_ok=True)
        path = os.path.join(folder, "tokenizer.json")
        tokenizer.save(path)
        return path

    def parts(self, tokenizer, normalizer, pre, decoder):
        if normalizer:
            tokenizer.normalizer = normalizer
        if pre:
            tokenizer.pre_tokenizer = pre
        if decoder:
            tokenizer.decoder = decoder
        return tokenizer

    def bpe(self, name, normalizer, pre, decoder, trainer=None, **model):
        tokenizer = self.parts(Tokenizer(models.BPE(**model)), normalizer, pre, decoder)
        settings = {"vocab_size": 900, "show_progress": False,
                    "special_tokens": ["<unk>", "<s>", "</s>"], **(trainer or {})}
        tokenizer.train_from_iterator(self.lines, trainers.BpeTrainer(**settings))
        self.save(name, tokenizer)

    def wordpiece(self, name, normalizer, **model):
        tokenizer = self.parts(Tokenizer(models.WordPiece(unk_token="[UNK]", **model)), normalizer,
                               P.BertPreTokenizer(), D.WordPiece())
        tokenizer.train_from_iterator(self.lines, trainers.WordPieceTrainer(
            vocab_size=900, show_progress=False, special_tokens=["[UNK]", "[CLS]", "[SEP]"]))
        tokenizer.post_processor = BertProcessing(("[SEP]", 2), ("[CLS]", 1))
        self.save(name, tokenizer)

    def unigram(self, name, normalizer, pre, decoder, fallback=False):
        tokenizer = self.parts(Tokenizer(models.Unigram()), normalizer, pre, decoder)
        special = ["<unk>"] + (["<0x%02X>" % i for i in range(256)] if fallback else [])
        tokenizer.train_from_iterator(self.lines, trainers.UnigramTrainer(
            vocab_size=1200, show_progress=False, special_tokens=special, unk_token="<unk>"))
        path = self.save(name, tokenizer)
        with open(path, encoding="utf-8") as file:
            root = json.load(file)
        root["model"]["byte_fallback"] = fallback
        if fallback:
            root["added_tokens"] = root["added_tokens"][:1]
        with open(path, "w", encoding="utf-8") as file:
            json.dump(root, file)

    def added(self, base):
        tokenizer = Tokenizer.from_file(os.path.join(self.output, base, "tokenizer.json"))
        tokenizer.add_tokens([
            AddedToken("foo", single_word=True), AddedToken("<l>", lstrip=True),
            AddedToken("<r>", rstrip=True, normalized=False), AddedToken("NÉ", normalized=True),
            AddedToken("  ", normalized=True),
            AddedToken("<lr>", lstrip=True, rstrip=True, single_word=True)])
        tokenizer.add_special_tokens([AddedToken("<|x|>", normalized=False),
                                      AddedToken("<|xy|>", normalized=False)])
        self.save(base + "_added", tokenizer)


def byte_level(m):
    bl = lambda regex, prefix=False: P.ByteLevel(add_prefix_space=prefix, use_regex=regex)
    split = lambda pattern: P.Sequence([P.Split(Regex(pattern), "isolated"), bl(False)])
    m.bpe("llama3", N.NFC(), split(LLAMA3), D.ByteLevel(), ALPHABET)
    m.bpe("qwen2", N.NFC(), split(LLAMA3.replace("{1,3}", "")), D.ByteLevel(), ALPHABET)
    m.bpe("o200k", N.NFC(), split(O200K), D.ByteLevel(), ALPHABET)
    m.bpe("whole", None, split(LLAMA3), D.ByteLevel(), ALPHABET, ignore_merges=True)
    m.bpe("prefix", N.NFKC(), bl(True, True), D.ByteLevel(), ALPHABET)
    m.bpe("few_bytes", None, bl(True), D.ByteLevel(), **UNK)
    m.bpe("byte_normalizer", N.ByteLevel(), P.Split(Regex("Ġ?[a-zA-Z]+"), "isolated"),
          D.ByteLevel(), ALPHABET)
    m.bpe("clip", N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
          P.Sequence([P.Split(Regex(CLIP), "removed", invert=True), bl(False)]), D.ByteLevel(),
          {"end_of_word_suffix": "</w>"}, end_of_word_suffix="</w>", **UNK)
    m.bpe("bytes_in_the_middle", None, P.Sequence([
        P.Punctuation("contiguous"), bl(True), P.Digits(False),
        P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]), D.ByteLevel(), ALPHABET)


def characters(m):
    m.bpe("word_end", N.BertNormalizer(), P.BertPreTokenizer(), D.BPEDecoder(suffix="</w>"),
          {"end_of_word_suffix": "</w>"}, end_of_word_suffix="</w>", **UNK)
    m.bpe("word_rest", N.NFKD(), P.Whitespace(), D.WordPiece(prefix="##"),
          {"continuing_subword_prefix": "##"}, continuing_subword_prefix="##", **UNK)
    for scheme in ("always", "first", "never"):
        for whole in (True, False):
            m.bpe("metaspace_%s_%s" % (scheme, whole), None,
                  P.Metaspace(prepend_scheme=scheme, split=whole),
                  D.Metaspace(prepend_scheme=scheme), fuse_unk=True, **UNK)
    m.bpe("spm", N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]), None,
          D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)]), **UNK)
    m.bpe("no_unknown", N.Nmt(), P.WhitespaceSplit(), None)
    for behavior in BEHAVIORS:
        for invert in (False, True):
            m.bpe("split_%s_%s" % (behavior, invert), N.StripAccents(),
                  P.Split(Regex(r"[aeiou]|\d|\s"), behavior, invert=invert), D.Fuse(), **UNK)
        m.bpe("punctuation_" + behavior, N.Strip(), P.Sequence([
            P.Punctuation(behavior), P.Digits(individual_digits=behavior == "removed")]),
            D.Sequence([D.Fuse(), D.Strip(" ", 2, 0)]), **UNK)
    m.bpe("split_text", None, P.Split("th", "merged_with_next"), D.Replace("e", "E"), **UNK)
    m.bpe("split_empty", None, P.Split(Regex(r"(?=[A-Z])"), "isolated"), D.Fuse(), **UNK)
    m.bpe("split_classes", None, P.Split(Regex(r"\w+|[^\w\s]+"), "isolated"), D.Fuse(), **UNK)
    m.bpe("delimiter", N.NFD(), P.CharDelimiterSplit("e"), D.CTC(pad_token="a"), **UNK)


def main():
    m = Maker(sys.argv[1], sys.argv[2])
    byte_level(m)
    characters(m)
    m.wordpiece("wordpiece", N.BertNormalizer())
    m.wordpiece("wordpiece_cased", N.BertNormalizer(lowercase=False))
    m.wordpiece("wordpiece_short", N.BertNormalizer(
        lowercase=False, strip_accents=True, handle_chinese_chars=False, clean_text=False),
        max_input_chars_per_word=6)
    m.unigram("unigram", N.Sequence([N.NFKC(), N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(),
              D.Metaspace())
    m.unigram("unigram_bytes", N.NFKC(), P.Metaspace(prepend_scheme="first"),
              D.Sequence([D.ByteFallback(), D.Metaspace()]), True)
    for base in ("llama3", "metaspace_first_True", "wordpiece", "unigram"):
        m.added(base)
    words = Tokenizer(models.WordLevel({"the": 0, "of": 1, "<unk>": 2, "a": 3}, unk_token="<unk>"))
    words.pre_tokenizer = P.Whitespace()
    m.save("words", words)


if __name__ == "__main__":
    main()
