#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/runtime/tokenizer_models.json: small tokenizer files, and ids of texts by the files' own libraries.

    tools/tokenizer_model_vectors.py

SentencePiece models are trained on README.md by sentencepiece, byte-level ranks by tiktoken. The ids are those of
sentencepiece, tiktoken and mistral_common, and of transformers for the tokens that a class adds. Needs sentencepiece,
tiktoken, mistral-common and transformers.
"""
import base64
import json
import pathlib
import random
import re
import tempfile
import unicodedata

import mistral_common.tokens.tokenizers.tekken as tekken
import sentencepiece
import tiktoken
import transformers
from tiktoken._educational import bpe_train
from tokenizer_files_diff import text_of
from tokenizer_models_diff import PATTERNS

ROOT = pathlib.Path(__file__).resolve().parent.parent
OUT = ROOT / "tests/runtime/tokenizer_models.json"
TEXTS = ["", " ", "hello world", "  two  blanks  ", "a\nb\n\nc", "tab\tx", "then<x>then 0110", "<s>x</s> <c> <unk> <0x41>",
         "naïve Straße", "ABC abc 123456", "北京 中文English混合", "한국어 привет שלום नमस्ते", "😀👩\u200d💻", "\u00a0\u3000x\u200b",
         "\x00\x01\x7f", "HTTPServer's IT'S don't", "e\u0301 é", "▁x▁▁y", "<|im_start|>a<|extra_3|>", "[INST]a[/INST]", "then"]
IDENTITY = {"normalization_rule_name": "identity", "hard_vocab_limit": False, "num_threads": 1, "minloglevel": 2,
            "character_coverage": 1.0}
# name: file, tokenizer_config.json, settings of the trainer, reference of the tokens that are added
MODELS = {
    "bpe": ("tokenizer.model", {"tokenizer_class": "LlamaTokenizer"},
            {"model_type": "bpe", "vocab_size": 420, "byte_fallback": True, "remove_extra_whitespaces": False,
             "user_defined_symbols": ["<x>", "\n", "▁▁", "0", "then"], "control_symbols": ["<c>"]}),
    "bpe-backend": ("tokenizer.model", {"tokenizer_class": "TokenizersBackend", "add_bos_token": True, "add_eos_token": True,
                                        "added_tokens_decoder": {"160": {"content": "<|im_start|>", "special": True},
                                                                 "3": {"content": "<c>", "special": True}}},
                    {"model_type": "bpe", "vocab_size": 160, "add_dummy_prefix": False, "control_symbols": ["[control]"]}),
    "unigram": ("spiece.model", {"tokenizer_class": "PreTrainedTokenizerFast"},
                {"model_type": "unigram", "vocab_size": 420, "byte_fallback": True, "user_defined_symbols": ["<x>", "then"]}),
    "xlm-r": ("sentencepiece.bpe.model", {"tokenizer_class": "XLMRobertaTokenizer"},
              {"model_type": "unigram", "vocab_size": 160, "rules": "41\t61\n42\t62\nA0\t20\n3000\t20\n65 301\tE9\n"}),
    "camembert": ("sentencepiece.bpe.model", {"tokenizer_class": "CamembertTokenizer"}, {"model_type": "unigram", "vocab_size": 160}),
}


def spm_case(place, name, file, config, settings):
    settings = dict(settings)
    corpus = place / "corpus.txt"
    rules = settings.pop("rules", None)
    if rules:
        (place / "rules.tsv").write_text(rules)
        settings["normalization_rule_tsv"] = str(place / "rules.tsv")
    sentencepiece.SentencePieceTrainer.train(input=str(corpus), model_prefix=str(place / name), **{**IDENTITY, **settings})
    model = (place / f"{name}.model").read_bytes()
    folder = place / f"folder-{name}"
    folder.mkdir()
    names = {**config, "tokenizer_class": config["tokenizer_class"].replace("PreTrainedTokenizerFast", "TokenizersBackend")}
    (folder / "tokenizer_config.json").write_text(json.dumps(names))
    reference = getattr(transformers, names["tokenizer_class"])
    (folder / reference.vocab_files_names["vocab_file"]).write_bytes(model)
    reference = reference.from_pretrained(folder)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    # transformers makes a byte piece of its name, sentencepiece does not
    special = lambda text: None if "<0x" in text else reference(text)["input_ids"]
    if name == "bpe":  # transformers' class does not encode like SentencePiece; BOS is what the class adds
        special = None
    plain = processor.encode if not rules and config["tokenizer_class"][0] not in "XC" else None
    return {"file": file, "config": json.dumps(config), "base64": base64.b64encode(model).decode()}, plain, special


def ranks_of(place):
    words = re.findall(r"\s?\w+|\s+|[^\s\w]+", (ROOT / "README.md").read_text())[:1500]
    return bpe_train(data="".join(words), vocab_size=330, pat_str=r"\s?\w+|\s+|[^\s\w]+", visualise=None)


def rank_case(place, ranks, name, config):
    text = "".join(f"{base64.b64encode(t).decode()} {r}\n" for t, r in ranks.items())
    specials = ([f"<|reserved_token_{len(ranks) + i}|>" for i in range(256)] if name.startswith("Tik") else
                ["<|endoftext|>", "<|im_start|>", "<|im_end|>"] + [f"<|extra_{i}|>" for i in range(205)])
    decoder = {int(i): t["content"] for i, t in config.get("added_tokens_decoder", {}).items()}
    specials = [decoder.get(len(ranks) + i, s) for i, s in enumerate(specials)]
    encoding = tiktoken.Encoding(name, pat_str=PATTERNS[name], mergeable_ranks=ranks,
                                 special_tokens={s: len(ranks) + i for i, s in enumerate(specials)})
    clean = (lambda t: unicodedata.normalize("NFC", t)) if name == "QWenTokenizer" else (lambda t: t)
    one = {"file": "tiktoken.model" if name.startswith("Tik") else "qwen.tiktoken", "text": text,
           "config": json.dumps({"tokenizer_class": name, **config})}
    # an added token that is not special is a word, also in a client's text
    words = {t["content"] for t in config.get("added_tokens_decoder", {}).values() if not t["special"]}
    return (one, lambda t: encoding.encode(clean(t), allowed_special=words, disallowed_special=()),
            lambda t: encoding.encode(clean(t), allowed_special="all"))


def tekken_case(place, ranks, listed):
    specials = [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(("<unk>", "<s>", "</s>", "[INST]", "[/INST]"))]
    vocab = [{"rank": r, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for t, r in ranks.items()]
    pattern = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+|\p{L}"
    count = 8 if listed else 22
    text = json.dumps({"config": {"pattern": pattern, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) - 3 + count,
                                  "default_num_special_tokens": count, "version": "v11" if listed else "v3"},
                       "vocab": vocab, **({"special_tokens": specials} if listed else {})})
    path = place / "tekken.json"
    path.write_text(text)
    reference = tekken.Tekkenizer.from_file(path)
    def special(text):
        parts = re.split(r"(\[INST\]|\[/INST\]|<s>|</s>|<unk>)", text)
        ids = [[reference.get_special_token(p)] if i % 2 else reference.encode(p, bos=False, eos=False) for i, p in enumerate(parts)]
        return [reference.bos_id] + sum(ids, [])
    return {"file": "tekken.json", "config": "{}", "text": text}, lambda t: reference.encode(t, bos=False, eos=False), special


def main():
    rng = random.Random(7)
    texts = TEXTS + [text_of(rng, ["hello", " of", "World"]) for _ in range(12)]
    cases = []
    with tempfile.TemporaryDirectory() as place:
        place = pathlib.Path(place)
        (place / "corpus.txt").write_text((ROOT / "README.md").read_text())
        made = [(name, spm_case(place, name, *row)) for name, row in MODELS.items()]
        ranks = ranks_of(place)
        kimi = {"added_tokens_decoder": {str(len(ranks)): {"content": "[BOS]", "special": True},
                                         str(len(ranks) + 2): {"content": "<|im_start|>", "special": False}}}
        made += [("kimi", rank_case(place, ranks, "TikTokenTokenizer", kimi)), ("qwen", rank_case(place, ranks, "QWenTokenizer", {})),
                 ("tekken", tekken_case(place, ranks, True)), ("tekken-v3", tekken_case(place, ranks, False))]
        for name, (one, plain, special) in made:
            one = {"name": name, **one}
            if plain:
                one["plain"] = [plain(t) for t in texts]
            if special:
                one["special"] = [special(t) for t in texts]
            cases.append(one)
    lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in cases)
    OUT.write_text('{"texts":' + json.dumps(texts) + ',\n"cases":[\n' + lines + "\n]}\n")
    print(f"{OUT}: {OUT.stat().st_size} bytes")


if __name__ == "__main__":
    main()
