#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the results of the reference libraries for small templates and tokenizers of this
repository, so that test_chat_assets and test_tokenizer have a reference without the shared data.

    tools/record_text.py templates      tests/runtime/recorded/templates.json (needs jinja2)
    tools/record_text.py tokenizers     tests/runtime/recorded/tokenizers.json (needs tokenizers)

The templates are written for this purpose (tests/runtime/recorded/templates), the tokenizers trained
on sentences made from the demo models' words. Nothing here comes from a published model.
"""
import json
import pathlib
import random
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
OUT = HERE.parent / "tests/runtime/recorded"

# ---- templates -----------------------------------------------------------------------------------

CALL = {"id": "c1", "type": "function",
        "function": {"name": "get_<weather>", "arguments": {"city": "Łódź", "days": [1, None, True],
                                                            "at": 1.5}}}
TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "What the sky\ndoes", "parameters": {
        "type": "object", "required": ["city"], "properties": {
            "city": {"type": "string", "description": "\"name\" & <tag>"},
            "unit": {"type": "string", "enum": ["c", "f"]},
            "deep": {"type": "object", "properties": {"x": {"type": ["number", "null"]}}}}}}},
    {"type": "function", "function": {"name": "stop"}}]
SYSTEM = {"role": "system", "content": "  Be brief.  "}
ASKS = {"role": "user", "content": "What is 'that' & <this>? 😀\nline two"}
TELLS = {"role": "assistant", "content": "<think>\nhm, é\n</think>\n\nA thread."}
CONTEXTS = {
    "user": {"messages": [ASKS], "add_generation_prompt": True},
    "system": {"messages": [SYSTEM, ASKS], "add_generation_prompt": True},
    "turns": {"messages": [SYSTEM, ASKS, TELLS, {"role": "user", "content": " and more "}],
              "add_generation_prompt": True},
    "continued": {"messages": [ASKS, {"role": "assistant", "content": "So ",
                                      "reasoning_content": " why\n"}],
                  "add_generation_prompt": False},
    "tools": {"messages": [ASKS], "tools": TOOLS, "add_generation_prompt": True,
              "enable_thinking": False},
    "call": {"messages": [ASKS, {"role": "assistant", "content": None, "tool_calls": [CALL]},
                          {"role": "tool", "tool_call_id": "c1", "content": "rain"}],
             "tools": TOOLS[:1], "add_generation_prompt": True},
    "two calls": {"messages": [ASKS, {"role": "assistant", "content": "", "tool_calls": [CALL, CALL]}],
                  "add_generation_prompt": False},
    "two users": {"messages": [ASKS, ASKS], "add_generation_prompt": True},
    "parts": {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "look: "}, {"type": "image"}]}], "add_generation_prompt": True},
    "number": {"messages": [{"role": "user", "content": 5}], "add_generation_prompt": True},
}


def templates():
    from template_diff import ENV, Refusal
    import jinja2
    cases = []
    for path in sorted((OUT / "templates").glob("*.jinja")):
        for name, context in CONTEXTS.items():
            try:
                expected = ENV.from_string(path.read_text()).render(
                    **json.loads(json.dumps(context)), bos_token="<s>", eos_token="</s>")
            except (Refusal, jinja2.TemplateError, TypeError) as error:
                expected = {"refused": str(error)}
            cases.append({"template_file": path.name, "context_name": name, "expected": expected})
    contexts = {n: {**c, "bos_token": "<s>", "eos_token": "</s>"} for n, c in CONTEXTS.items()}
    note = "tools/record_text.py templates: made by Python jinja2, set up as checkpoints expect it"
    write("templates.json", {"note": note, "contexts": contexts, "cases": cases})


# ---- tokenizers ----------------------------------------------------------------------------------

TEXTS = ["", " ", "  ", "\n", "\t\n  x", "a", " a", "a ", "The river carries a letter.",
         "the  quick   brown    fox", "It's we'll I'd THEY'RE don’t", "3.14159 and 1,000,000 or 007",
         "snake_case camelCase kebab-case", "e-mail@example.org https://example.org/a?b=c#d",
         "fn main() {\n    let x = 1;\n\treturn x;\n}\n", "Äpfel, Öl und Übermut: Straße", "naïve café",
         "e\u0301 vs \u00e9; \u1e9b\u0323; ﬁ ligature; ½ ²", "Ελληνικά και русский язык", "中文字符，日本語の文",
         "한국어 조합 \u1112\u1161\u11ab", "العربية עברית", "हिन्दी ไทย", "😀👍🏽👨\u200d👩\u200d👧 🇫🇷",
         "\u00a0\u2003\u3000\u200b\ufeff|", "a\u0300\u0301b", "\x00\x01\x7f", "\U0001f9f5 thread",
         "<s> </s> <unk> [CLS] [SEP]", "x<s>y", "wool" * 12, "ſ İ ı ẞ", "\r\n\r\n a \r b",
         "!!!???...,,,;;;", "---- ==== ____ ****", "100% of $5.00 = £4€3"]


def sentences():
    import demo_models as demo
    rng = random.Random(5)
    words = demo.WORDS + demo.STOP_WORDS
    for _ in range(4000):
        text = " ".join(rng.choice(words) for _ in range(rng.randint(3, 12)))
        yield text[0].upper() + text[1:] + rng.choice([".", "!", "?", ", it's so.", " 12 3.5"])


def kinds():
    from tokenizers import (Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                            trainers)

    byte_level = Tokenizer(models.BPE())
    byte_level.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    byte_level.decoder = decoders.ByteLevel()
    byte_level.post_processor = processors.ByteLevel(trim_offsets=True)
    yield "bytes", byte_level, trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<s>", "</s>"])

    pieces = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    pieces.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    pieces.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(),
                                        decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    pieces.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    yield "pieces", pieces, trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])

    words = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    words.normalizer = normalizers.BertNormalizer()
    words.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    words.decoder = decoders.WordPiece()
    words.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 1), ("[SEP]", 2)])
    yield "words", words, trainers.WordPieceTrainer(
        vocab_size=500, special_tokens=["[UNK]", "[CLS]", "[SEP]"])

    unigram = Tokenizer(models.Unigram())
    unigram.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Replace("``", '"')])
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    unigram.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    yield "unigram", unigram, trainers.UnigramTrainer(
        vocab_size=400, unk_token="<unk>", special_tokens=["<unk>", "</s>"])

    digits = Tokenizer(models.BPE())
    digits.normalizer = normalizers.NFC()
    digits.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(__import__("tokenizers").Regex(
            r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
            r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    digits.decoder = decoders.ByteLevel()
    yield "split", digits, trainers.BpeTrainer(
        vocab_size=600, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        special_tokens=["<s>"])


def tokenizers():
    out = {"note": "tools/record_text.py tokenizers: trained and applied by the tokenizers library",
           "texts": TEXTS, "kinds": {}}
    for name, tokenizer, trainer in kinds():
        trainer.show_progress = False
        tokenizer.train_from_iterator(list(sentences()), trainer)
        ids = [{"special": tokenizer.encode(t).ids,
                "plain": tokenizer.encode(t, add_special_tokens=False).ids,
                "decoded": tokenizer.decode(tokenizer.encode(t).ids)} for t in TEXTS]
        out["kinds"][name] = {"tokenizer": json.loads(tokenizer.to_str()), "vectors": ids}
    write("tokenizers.json", out)


def write(name, value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    (OUT / name).write_text(text + "\n")
    print(OUT / name, len(text))


if __name__ == "__main__":
    if sys.argv[1:] == ["templates"]:
        templates()
    elif sys.argv[1:] == ["tokenizers"]:
        tokenizers()
    else:
        sys.exit(__doc__)
