#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a tokenizer.json from the vocabulary of a GGUF file: gguf_vocab.py FILE.gguf FOLDER.

For tests only: the vocabularies of the vectors in WEFT_ASSETS/tokenizer/gguf-vocab are GGUF files.
Settings that such a file lacks follow from the name of its pre-tokenizer.
"""
import json
import os
import struct
import sys

SIMPLE = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
CONTROL, USER_DEFINED, UNKNOWN = 3, 4, 2


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        value = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value[0]

    def text(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length:self.at].decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind == STRING:
            return self.text()
        if kind == ARRAY:
            inner, count = self.take("I"), self.take("Q")
            if inner in SIMPLE:
                form = "<%d%s" % (count, SIMPLE[inner])
                values = list(struct.unpack_from(form, self.data, self.at))
                self.at += struct.calcsize(form)
                return values
            return [self.value(inner) for _ in range(count)]
        return self.take(SIMPLE[kind])


def read_facts(path):
    with open(path, "rb") as file:
        reader = Reader(file.read())
    if reader.take("I") != 0x46554747:
        raise SystemExit("%s is no GGUF file" % path)
    reader.take("I")
    reader.take("Q")
    count = reader.take("Q")
    facts = {}
    for _ in range(count):
        key = reader.text()
        facts[key] = reader.value(reader.take("I"))
    return {k[len("tokenizer.ggml."):]: v for k, v in facts.items()
            if k.startswith("tokenizer.ggml.")}


def split(pattern):
    return {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated",
            "invert": False}


def byte_level(use_regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
            "use_regex": use_regex}


def pre_tokenizer(name):
    if name == "deepseek-coder":
        stages = [split("[\r\n]"), split("\\s?\\p{L}+"), split("\\s?\\p{P}+"),
                  split("[一-龥ࠀ-一가-퟿]+"), {"type": "Digits", "individual_digits": True},
                  byte_level(False)]
    elif name == "falcon":
        stages = [{"type": "Punctuation", "behavior": "Contiguous"}, byte_level(True),
                  {"type": "Digits", "individual_digits": False}, split("[0-9][0-9][0-9]")]
    else:
        return byte_level(True)
    return {"type": "Sequence", "pretokenizers": stages}


def spm_merges(tokens, scores):
    """Returns all merges: each way to join two tokens to a third, best scores first."""
    ids = {token: i for i, token in enumerate(tokens)}
    merges = []
    for token, score in zip(tokens, scores):
        ways = [(token[:i], token[i:]) for i in range(1, len(token))
                if token[:i] in ids and token[i:] in ids]
        ways.sort(key=lambda way: (ids[way[0]], ids[way[1]]))
        merges += [(left, right, score) for left, right in ways]
    merges.sort(key=lambda way: (way[2], len(way[0]), len(way[1])), reverse=True)
    return [[left, right] for left, right, _ in merges]


def bert(tokens, types):
    names = []
    for token, kind in zip(tokens, types):
        plain = kind in (CONTROL, UNKNOWN) or (token.startswith("[") and token.endswith("]"))
        names.append(token[1:] if token.startswith("\u2581") else
                     token if plain else "##" + token)
    return {"normalizer": {"type": "BertNormalizer", "clean_text": True, "lowercase": True,
                           "handle_chinese_chars": True, "strip_accents": None},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
            "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                      "max_input_chars_per_word": 100,
                      "vocab": {name: i for i, name in enumerate(names)}}}, names


def sentence_pieces(facts):
    tokens = facts["tokens"]
    bpe = {"type": "BPE", "unk_token": "<unk>", "fuse_unk": True, "byte_fallback": True, "dropout": None,
           "continuing_subword_prefix": None, "end_of_word_suffix": None,
           "vocab": {token: i for i, token in enumerate(tokens)},
           "merges": spm_merges(tokens, facts["scores"])}
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}
    back = {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}
    bos = facts["bos_token_id"]
    return {"post_processor": {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "bos", "type_id": 0}},
                           {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"SpecialToken": {"id": "bos", "type_id": 0}},
                         {"Sequence": {"id": "A", "type_id": 0}},
                         {"SpecialToken": {"id": "bos", "type_id": 1}},
                         {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {"bos": {"id": "bos", "ids": [bos], "tokens": [tokens[bos]]}}},
            "normalizer": {"type": "Sequence", "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"}, space]},
            "decoder": {"type": "Sequence", "decoders": [
                back, {"type": "ByteFallback"}, {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
            "model": bpe}


def byte_pairs(facts):
    return {"pre_tokenizer": pre_tokenizer(facts.get("pre", "")),
            "decoder": byte_level(True),
            "model": {"type": "BPE", "merges": facts["merges"],
                      "vocab": {token: i for i, token in enumerate(facts["tokens"])}}}


def main():
    facts = read_facts(sys.argv[1])
    tokens, types = facts["tokens"], facts.get("token_type", [1] * len(facts["tokens"]))
    names = tokens
    if facts["model"] == "bert":
        root, names = bert(tokens, types)
    elif facts["model"] == "llama":
        root = sentence_pieces(facts)
    else:
        root = byte_pairs(facts)
    root["added_tokens"] = [
        {"id": i, "content": name, "special": kind != USER_DEFINED, "normalized": False,
         "single_word": False, "lstrip": False, "rstrip": False}
        for i, (name, kind) in enumerate(zip(names, types))
        if kind in (CONTROL, USER_DEFINED, UNKNOWN)]
    os.makedirs(sys.argv[2], exist_ok=True)
    with open(os.path.join(sys.argv[2], "tokenizer.json"), "w", encoding="utf-8") as file:
        json.dump(root, file, ensure_ascii=False)


if __name__ == "__main__":
    main()
