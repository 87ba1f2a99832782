#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/MODELS.md, the reference of all models that are served, and the short form in README.md.

  tools/models_table.py --write [PROGRAM]    writes both
  tools/models_table.py --check [PROGRAM]    prints the lines in which they differ and exits 1

PROGRAM (build/release/bin/models_rows) prints the tables in runtime/model/arch.c,
runtime/model/wrapper.c and runtime/source/config_keys.c; the meaning of a flag is its comment in runtime/model/arch.h.
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE, README = ROOT / "docs/MODELS.md", ROOT / "README.md"
DECODERS, ENCODERS = 1, 2

HEAD = """# Models

`tools/models_table.py` generates this page from the tables in `runtime/model/arch.c`,
`runtime/model/wrapper.c` and `runtime/source/config_keys.c`. `weft inspect MODEL` prints for one
model, also for a folder with `config.json` alone, what it is, whether it is served and how much
memory it takes.

- **Formats.** Folders with safetensors or, if there are none, `pytorch_model.bin` (one file, or the
  files of its index, as torch.save has written them since torch 1.6; weft reads tensors from them
  and runs nothing) in float32, bfloat16 or float16, which run as such, as int8, as int4 or (on a
  GPU) as fp8; GGUF files, whose family the tables below name, with the tensor types F32,
  F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q2_K, Q3_K, Q4_K, Q5_K, Q6_K, IQ4_NL, IQ4_XS and MXFP4.
  GGUF files of Mistral's older models are of the family `llama`, those of RoBERTa, XLM-RoBERTa,
  CamemBERT and DistilBERT of the family `bert`, also where the table has "no". Rerankers in GGUF
  files need a head that is completely in the file: that of RoBERTa or ModernBERT, or the tokens of
  Qwen3-Reranker.
- **Quantized folders.** weft reads FP8 (a scale per tensor, row or block of 128 x 128), AWQ (layout
  gemm), GPTQ (2, 3, 4 and 8 bits, also in activation order), AutoRound, compressed-tensors
  (integers, FP8, NVFP4, MXFP4), ModelOpt (FP8, NVFP4, mixed), bitsandbytes (NF4, FP4, int8) and the
  MXFP4 of GPT-OSS, and refuses other methods by name. A CPU holds MXFP4, and integers of 4 bits in
  groups that 32 divides, as they are and others as int8; a GPU holds these and FP8 as they are,
  others as bfloat16 ([`OPERATING.md`](OPERATING.md#how-weights-are-held)).
- **Rerankers without a score head.** `Qwen3ForCausalLM`, `Qwen2ForCausalLM` and `GemmaForCausalLM`
  are rerankers if the folder shows that they are Qwen3-Reranker, mxbai-rerank-v2,
  bge-reranker-v2-gemma or a fine-tune of one ([`OPERATING.md`](OPERATING.md)).
- **Devices.** All families run on `cpu` and on `cuda`.
- **Tensor parallel.** Several GPUs, or ranks on a CPU, can share a model of the families marked
  "yes" ([`SEVERAL_GPUS.md`](SEVERAL_GPUS.md)).
- **Not served.** The tables name what of a family is not served. No model serves images, videos
  and audio, a request with which is an error, and classifiers with several labels.
- **Everything else is refused.** Weft answers as the reference implementation does or refuses the
  model with one sentence: for an unknown name in `architectures`, for a key below whose value it
  would ignore, and for a tensor that no part of the model uses.
"""
PARTS = """## Text parts of multimodal checkpoints

The text part of these checkpoints is a decoder of the table above: `text_config` of `config.json`
describes it, and `model_type` there determines which one. Tensors of the other parts are not
loaded. The server logs a line about this when it starts, and an image or another such input in a
request is a 400 error. Embedders and rerankers made of such checkpoints are refused.

| `architectures` in config.json | text part | not served | tensor parallel |
|---|---|---|---|"""
KEYS = """
## Keys that change what a model computes

weft reads the keys without an entry in the second column for all architectures, or text does not
need them. It refuses a model in which one of the other keys has a value that is not in this column,
unless the architecture reads the key (first tables). `rope.` begins a member of `rope_parameters`
or `rope_scaling`; members that are not listed are refused too. The third column is the key of a
GGUF file after the name of its family.
"""
SHORT = "<!-- tools/models_table.py writes the next five lines -->\n"


def flag_meanings(enum):
    """Returns {bit: meaning} of an enum of arch.h."""
    text = (ROOT / "runtime/model/arch.h").read_text()
    body = re.search(r"enum %s \{.*?\n(.*?)\n\};" % enum, text, re.S)[1]
    found = re.findall(r"(?:ARCH|FORM)_\w+ = (?:1 << )?(\d+),\s*// ([^\n]*)", body)
    shifted = re.findall(r"(?:ARCH|FORM)_\w+ = (1 << )?\d+,", body)
    return {1 << int(value) if shift else int(value): re.sub(r" \([^)]*\)$", "", meaning)
            for (value, meaning), shift in zip(found, shifted)}


def family_of(name):
    return re.sub(r"(For[A-Z].*|Model)$", "", name)


def families(rows):
    """Returns {family: its rows}, in the order of the table."""
    out = {}
    for row in rows:
        out.setdefault(family_of(row["name"]), []).append(row)
    return out


def not_served(rows):
    """Returns the classes of a family that are not served, and what of a class is not."""
    kinds = {row["serves"] for row in rows}
    out = ["`%s`" % name for kind, name in (("embedder", "...Model"), ("reranker", "...ForSequenceClassification"))
           if kind not in kinds]
    if any("ForMaskedLM" in row["name"] for row in rows):
        out.append("masked tokens: `...ForMaskedLM` gives vectors")
    return ", ".join(out) or "–"


def family_line(name, rows, meanings, forms):
    serves = []
    for kind in ("generator", "embedder", "reranker"):
        names = ["`%s`" % row["name"] for row in rows if row["serves"] == kind]
        if names:
            serves.append("%s: %s" % (kind, ", ".join(names)))
    common = form = -1
    for row in rows:
        common &= row["flags"]
        form &= row["form"]
    notes = [meaning for bit, meaning in sorted(meanings.items()) if common & bit]
    notes += [meaning for bit, meaning in sorted(forms.items()) if form & bit]
    notes += sorted({"reads `%s`" % key for row in rows for key in (row["reads"] or "").split()})
    gguf = sorted({row["gguf"] for row in rows if row["gguf"]})
    return "| %s | %s | %s | %s | %s | %s |" % (
        name, "; ".join(serves), not_served(rows), ", ".join("`%s`" % g for g in gguf) or "no",
        "yes" if all(row["split"] for row in rows) else "no", "; ".join(notes) or "–")


def wrapper_line(wrapper, split):
    """Returns the row of a multimodal checkpoint. split: {architecture: whether ranks can share it}."""
    texts = sorted(wrapper["texts"])
    return "| `%s` | %s | %s | %s |" % (
        wrapper["name"], ", ".join("`%s`" % name for name in texts), wrapper["media"],
        "yes" if all(split[name] for name in texts) else "no")


def neutral_text(key):
    value = "%g" % key["value"]
    texts = ["", "null", "%s, null" % {"0": "0, false", "1": "1, true"}.get(value, value), "not 0, null",
             "at most %s, null" % value, ", ".join(key["words"].split()) + ", null" if key["words"] else "",
             "the columns of a head", "1 / sqrt(columns of a head)", "`hidden_size`",
             "0, null, at least the positions",
             "0, null, at least the positions; any with `use_sliding_window` false"]
    return texts[key["neutral"]]


def page_make(data):
    lines = [HEAD]
    meanings, forms = flag_meanings("arch_flag"), flag_meanings("arch_form")
    for title, decoder in (("Decoders", True), ("Encoders", False)):
        lines += ["## %s" % title, "", "| family | `architectures` in config.json | not served | GGUF | tensor parallel | properties |",
                  "|---|---|---|---|---|---|"]
        for name, rows in families(data["architectures"]).items():
            if rows[0]["decoder"] == decoder:
                lines.append(family_line(name, rows, meanings, forms))
        lines.append("")
        if decoder:
            split = {row["name"]: row["split"] for row in data["architectures"]}
            lines += [PARTS] + [wrapper_line(wrapper, split) for wrapper in data["wrappers"]] + [""]
    lines[-1:] = [KEYS, "| key | values that change nothing | GGUF | meaning | families |", "|---|---|---|---|---|"]
    for key in sorted(data["keys"], key=lambda key: (key["name"].startswith("rope."), key["name"])):
        lines.append("| `%s` | %s | %s | %s | %s |" % (
            key["name"], neutral_text(key), "`%s`" % key["gguf"] if key["gguf"] else "", key["meaning"],
            {1: "decoders", 2: "encoders", 3: "all"}[key["families"]]))
    return re.sub(r"\n\n\n+", "\n\n", "\n".join(lines)) + "\n"


def readme_make(data, old):
    """Returns README.md with the current short form."""
    found = families(data["architectures"])
    answers = {name: any(row["serves"] == "generator" for row in rows) for name, rows in found.items()}
    decoders = ", ".join(name for name in found if answers[name])
    encoders = ", ".join(name for name in found if not answers[name])
    parts = ", ".join(family_of(wrapper["name"]) for wrapper in data["wrappers"])
    short = ("| task | families of models |\n|---|---|\n"
             "| chat, completions, responses, messages | %s |\n"
             "| the same, as the text part of multimodal checkpoints | %s |\n"
             "| embeddings, rerank | %s, and the same decoders |\n" % (decoders, parts, encoders))
    return re.sub(re.escape(SHORT) + r"(\|[^\n]*\n)*", lambda _: SHORT + short, old)


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in ("--write", "--check"):
        sys.exit(__doc__)
    program = sys.argv[2] if len(sys.argv) > 2 else str(ROOT / "build/release/bin/models_rows")
    data = json.loads(subprocess.run([program], check=True, capture_output=True).stdout)
    if SHORT not in README.read_text():
        sys.exit("README.md lacks the line %s" % SHORT)
    differs = False
    for path, text in ((PAGE, page_make(data)), (README, readme_make(data, README.read_text()))):
        old = path.read_text() if path.exists() else ""
        if sys.argv[1] == "--write":
            path.write_text(text)
            continue
        for line in text.split("\n"):
            if line not in old.split("\n"):
                print("%s does not have: %s" % (path.relative_to(ROOT), line))
        if text != old:
            differs = True
            print("%s differs from the tables: tools/models_table.py --write writes it" % path.relative_to(ROOT))
    return differs


if __name__ == "__main__":
    sys.exit(main())
