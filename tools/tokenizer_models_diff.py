#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Differential test of SentencePiece models, rank files and tekken.json against their own libraries.

    tools/tokenizer_models_diff.py PROBE [FILE...] [--texts N] [--seed S] [--corpus TEXT]

PROBE is build/.../bin/tokenizer_probe. FILE is a SentencePiece model, a rank file (*.tiktoken) or a tekken*.json.
Without one, models of every kind of setting are trained from --corpus. Random texts of ten scripts and more, with
emoji, runs of blanks and control characters, are encoded and decoded:
  SentencePiece model   sentencepiece; also the classes TokenizersBackend, XLMRobertaTokenizer and CamembertTokenizer of
                        transformers (not LlamaTokenizer, which does not encode like SentencePiece since version 5)
  rank file             tiktoken with the pattern of each class that weft reads
  tekken.json           Tekkenizer of mistral_common
A model with a normalizer is compared with transformers only, whose Precompiled normalizer reads grapheme by grapheme,
as weft does. Prints the differences; the exit status is 1 if there is one.
"""
import argparse
import base64
import json
import pathlib
import random
import shutil
import sys
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as spm
from tokenizer_diff import Probe
from tokenizer_files_diff import text_of

NO_HAN = r"&&[^\p{Han}]]"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}" + NO_HAN, r"[\p{Ll}\p{Lm}\p{Lo}\p{M}" + NO_HAN
CONTRACTIONS, HEAD = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
PATTERNS = {
    "TikTokenTokenizer": r"[\p{Han}]+|" + HEAD + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?|" + HEAD + UPPER + "+" + LOWER +
                         "*" + CONTRACTIONS + r"?|\p{N}{1,3}" + REST,
    "QWenTokenizer": CONTRACTIONS + "|" + HEAD + r"\p{L}+|\p{N}" + REST,
}
# Settings of the models that are trained; each has another property of the format.
TRAINED = {
    "bpe": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "bpe-user": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity",
                 "remove_extra_whitespaces": False, "user_defined_symbols": ["<x>", "\n", "▁▁", "▁▁▁▁", "0", "1", "then", "é"]},
    "bpe-bare": {"model_type": "bpe", "normalization_rule_name": "identity", "add_dummy_prefix": False,
                 "remove_extra_whitespaces": False, "split_digits": True},
    "bpe-collapsed": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity"},
    "unigram": {"model_type": "unigram", "byte_fallback": True, "normalization_rule_name": "identity"},
    "unigram-user": {"model_type": "unigram", "normalization_rule_name": "identity", "user_defined_symbols": ["<x>", "\n", "then"],
                     "control_symbols": ["<c>"], "remove_extra_whitespaces": False},
    "unigram-nfkc": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc"},
    "unigram-bare": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf", "add_dummy_prefix": False},
}


def train(folder, corpus, vocab=2000):
    for name, settings in TRAINED.items():
        sentencepiece.SentencePieceTrainer.train(
            input=str(corpus), model_prefix=str(folder / name), vocab_size=vocab, hard_vocab_limit=False, num_threads=1,
            minloglevel=2, **settings)
    return [folder / f"{name}.model" for name in TRAINED]


class Compare:
    """Counts and prints the differences of one folder and one reference."""

    def __init__(self, args, folder, title):
        self.probe, self.title, self.count, self.args = Probe(args.probe, str(folder)), title, 0, args
        self.rng = random.Random(args.seed)

    def equal(self, text, got, want):
        if got != want:
            self.count += 1
            if self.count < 4:
                print(f"{self.title}: {text!r}\n  reference {want}\n  weft      {got}")

    def run(self, encode, flags, words, decode=None, unknown=-1):
        for _ in range(self.args.texts):
            text = text_of(self.rng, words)
            want = encode(text)
            self.equal(text, self.probe.encode(text, flags), want)
            if decode and unknown not in want:
                self.equal(want, self.probe.decode(want, 8), decode(want))
        return self

    def close(self):
        self.probe.close()
        print(f"{self.title}: {self.args.texts} texts, {self.count} differences")
        return self.count


def folder_of(place, path, name, config):
    folder = pathlib.Path(tempfile.mkdtemp(dir=place))
    shutil.copy(path, folder / name)
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "config.json").write_text("{}")
    return folder


def spm_differences(args, place, path):
    import transformers
    proto = spm.ModelProto.FromString(path.read_bytes())
    processor = sentencepiece.SentencePieceProcessor(model_file=str(path))
    user = [p.piece for p in proto.pieces if p.type == 4]
    words = ["hello", "World", "▁", "  of", "then<x>then", "x\n\ny", "<s>", "<unk>"] + user
    found = 0
    if not proto.normalizer_spec.precompiled_charsmap:
        folder = folder_of(place, path, "tokenizer.model", {"tokenizer_class": "LlamaTokenizer"})
        # sentencepiece also removes a U+2581 of the text at its end, transformers does not
        plain = [w for w in words if not (w == "▁" and proto.normalizer_spec.remove_extra_whitespaces)]
        compare = Compare(args, folder, f"{path.name}, sentencepiece")
        found += compare.run(processor.encode, 0, plain, processor.decode, processor.unk_id()).close()
    classes = [("TokenizersBackend", {}), ("TokenizersBackend", {"add_bos_token": True, "add_eos_token": True, "added_tokens_decoder": {
        str(len(proto.pieces)): {"content": "<|new|>", "special": True}, str(len(proto.pieces) + 1): {"content": "word"}}})]
    # With legacy false transformers cuts at user-defined pieces after the blank at the start, weft before it; and a text
    # whose first blanks are removed gets no blank there.
    if not user and not proto.normalizer_spec.remove_extra_whitespaces:
        classes += [("TokenizersBackend", {"legacy": False, "add_bos_token": True})]
    if proto.trainer_spec.model_type == 1:
        classes += [("XLMRobertaTokenizer", {}), ("CamembertTokenizer", {})]
    for name, config in classes:
        # transformers finds a file by the name that the class gives it
        files = getattr(transformers, name).vocab_files_names
        folder = folder_of(place, path, files["vocab_file"], {"tokenizer_class": name, **config})
        reference = getattr(transformers, name).from_pretrained(folder)
        compare = Compare(args, folder, f"{path.name} as {name} {sorted(config)}")
        more = ["<|new|>", "word", "<s>a", "</s>"] if name == "TokenizersBackend" else ["<mask>", "a</s>"]
        texts = [w for w in words if not (name == "TokenizersBackend" and w == "<unk>")] + more
        for special in (False, True):
            compare.run(lambda text: reference(text, add_special_tokens=special)["input_ids"], 3 if special else 1, texts)
        found += compare.close()
    return found


def rank_differences(args, place, path):
    import tiktoken
    from tiktoken.load import load_tiktoken_bpe
    ranks, found = load_tiktoken_bpe(str(path)), 0
    for name, pattern in PATTERNS.items():
        specials = ([f"<|reserved_token_{len(ranks) + i}|>" for i in range(256)] if name.startswith("Tik") else
                    ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)])
        encoding = tiktoken.Encoding(name, pat_str=pattern, mergeable_ranks=ranks,
                                     special_tokens={s: len(ranks) + i for i, s in enumerate(specials)})
        clean = (lambda t: unicodedata.normalize("NFC", t)) if name == "QWenTokenizer" else (lambda t: t)
        folder = folder_of(place, path, "tiktoken.model", {"tokenizer_class": name})
        words = ["hello", "World", " of", "中文English混合", "HTTPServer's", specials[0], specials[2] + "x", specials[-1]]
        compare = Compare(args, folder, f"{path.name} as {name}, tiktoken")
        compare.run(lambda t: encoding.encode(clean(t), disallowed_special=()), 0, words, encoding.decode)
        compare.run(lambda t: encoding.encode(clean(t), allowed_special="all"), 1, words)
        found += compare.close()
    return found


def tekken_differences(args, place, path):
    from mistral_common.tokens.tokenizers.tekken import Tekkenizer
    reference = Tekkenizer.from_file(path)
    folder = folder_of(place, path, "tekken.json", {})
    compare = Compare(args, folder, f"{path.name}, mistral_common")
    words = ["hello", "World", " of", "[INST]", "HTTPServer", "<s>", "<SPECIAL_999>"]
    compare.run(lambda t: reference.encode(t, bos=False, eos=False), 0, words, reference.decode)
    compare.run(lambda t: reference.encode(t, bos=True, eos=False), 2, words)
    return compare.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("probe")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--corpus", type=pathlib.Path)
    args = parser.parse_args()
    found = 0
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        for path in args.files or train(place, args.corpus):
            kind = rank_differences if path.suffix == ".tiktoken" else tekken_differences if path.suffix == ".json" else spm_differences
            found += kind(args, place, path)
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
