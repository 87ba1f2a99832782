#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the table of models that fit on GPUs to docs/OPERATING.md: plans of `weft inspect` for a device of the cuda code.

  tools/card_plans.py WEFT [--check | --write]     WEFT: build/release/bin/weft, with libweft_simt.so next to it

The emulated device plans as a GPU does. Each model is a folder with config.json alone, whose weights are planned as it declares
them: in bfloat16, which --dtype changes, or in the format of its quantization_config. Formats of weights and of keys and values
that this build refuses have no row or column. A card's memory is what nvidia-smi prints, less 600 MiB of the driver's context and
what weft leaves free: 5 %, at least 1 GiB.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/OPERATING.md"
CARDS = {"24 GB": 24564, "48 GB": 46068, "80 GB": 81559, "141 GB": 143771}  # MiB: RTX 4090, L40S, H100, H200
CONTEXT_MIB, LENGTH = 600, 8192
KEYS = ("bfloat16", "fp8")
WEIGHTS = {  # name: (--dtype, quantization_config)
    "bfloat16": ("bfloat16", None), "fp8": ("fp8", None), "int8": ("int8", None), "int4": ("int4", None),
    "AWQ, groups of 128": ("auto", {"quant_method": "awq", "bits": 4, "group_size": 128, "zero_point": True, "version": "gemm"}),
    "MXFP4 of its checkpoint": ("auto", {"quant_method": "mxfp4"}),
}
DENSE = {"head_dim": 128, "max_position_embeddings": 131072, "rope_theta": 500000.0, "tie_word_embeddings": False,
         "torch_dtype": "bfloat16", "eos_token_id": 2, "rms_norm_eps": 1e-5, "num_key_value_heads": 8}


def gpt_oss(layers, experts):
    return {**DENSE, "architectures": ["GptOssForCausalLM"], "vocab_size": 201088, "hidden_size": 2880, "num_hidden_layers": layers,
            "num_attention_heads": 64, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": experts,
            "num_experts_per_tok": 4, "sliding_window": 128, "attention_bias": True, "swiglu_limit": 7.0}


MODELS = {  # name: (config, numbers of GPUs)
    "Llama-3.1-8B": ({**DENSE, "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096, "num_hidden_layers": 32,
                      "num_attention_heads": 32, "intermediate_size": 14336}, (1,)),
    "Qwen3-30B-A3B": ({**DENSE, "architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 151936, "hidden_size": 2048, "num_hidden_layers": 48,
                       "num_attention_heads": 32, "num_key_value_heads": 4, "intermediate_size": 6144, "moe_intermediate_size": 768,
                       "num_experts": 128, "num_experts_per_tok": 8, "norm_topk_prob": True}, (1, 2)),
    "Llama-3.1-70B": ({**DENSE, "architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 8192, "num_hidden_layers": 80,
                       "num_attention_heads": 64, "intermediate_size": 28672}, (1, 2, 4, 8)),
    "gpt-oss-20b": (gpt_oss(24, 32), (1, 2)),
    "gpt-oss-120b": (gpt_oss(36, 128), (1, 2, 4, 8)),
}


def published(name, weights):
    """Returns whether checkpoints of the model exist in this format, or weft rounds to it."""
    return not WEIGHTS[weights][1] or name.startswith("gpt-oss") == weights.startswith("MXFP4")


def plan_of(weft, folder, dtype, keys, gpus):
    """Returns the MiB of a plan without keys and values, and the KiB of a token's keys and values; both of all GPUs. None: refused."""
    command = [weft, "inspect", folder, "--device", "simt", "--no-exact", "--dtype", dtype, "--kv-cache-dtype", keys, "--max-model-len", str(LENGTH)]
    done = subprocess.run(command + (["--tensor-parallel-size", str(gpus)] if gpus > 1 else []), capture_output=True, text=True)
    found = re.findall(r"^  ([a-z][a-z ,]+?) +([\d.]+) MiB", re.split("weights.*:\n", done.stdout)[0], re.M)
    parts = {what: float(mib) for what, mib in found if what != "scheduler"}
    keys_mib = parts.pop("keys and values, at least", parts.pop("keys and values", None))
    if "weights" not in parts or keys_mib is None:
        if "dtype" not in done.stderr and "bits" not in done.stderr and "ranks" not in done.stderr:
            sys.exit("card_plans: %s\n%s%s" % (" ".join(command), done.stdout, done.stderr))
        return None
    return sum(parts.values()), keys_mib * 1024 / LENGTH


def fitting(plan, token_kib, gpus, card):
    """Returns the tokens of keys and values that fit on `gpus` cards, as text."""
    free = CARDS[card] - CONTEXT_MIB
    room = gpus * (free - max(1024, free / 20)) - plan
    tokens = room * 1024 / token_kib
    return "{:,.0f} K".format(tokens / 1000) if tokens >= LENGTH else "–"


def table(weft):
    lines = ["| model | weights | GPUs | plan without keys and values, GiB | a token's keys and values, KiB | " +
             " | ".join("tokens on %s" % card for card in CARDS) + " |", "| --- |" + " --- |" * (4 + len(CARDS))]
    kinds = set()
    with tempfile.TemporaryDirectory() as folder:
        for name, (config, numbers) in MODELS.items():
            for weights, (dtype, declared) in WEIGHTS.items():
                if not published(name, weights):
                    continue
                more = {"quantization_config": declared} if declared else {}
                (pathlib.Path(folder) / "config.json").write_text(json.dumps({**config, **more}))
                before = []
                for gpus in numbers:
                    plans = {keys: plan_of(weft, folder, dtype, keys, gpus) for keys in KEYS}
                    plans = {keys: plan for keys, plan in plans.items() if plan}
                    if not plans:
                        continue
                    kinds |= set(plans)
                    cells = [", ".join(fitting(*plan, gpus, card) for plan in plans.values()) for card in CARDS]
                    if any(cell != old and set(old) <= set("–, ") for cell, old in zip(cells, before)) or not before:
                        lines.append("| %s | %s | %d | %.1f | %s | %s |" % (
                            name, weights, gpus, plans["bfloat16"][0] / 1024, ", ".join("%.0f" % plan[1] for plan in plans.values()), " | ".join(cells)))
                    before = cells
    return lines, kinds


def main():
    if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"], ["--write"]):
        sys.exit("usage: tools/card_plans.py WEFT [--check | --write]")
    lines, _ = table(sys.argv[1])
    first, last = "<!-- card plans -->\n", "<!-- end card plans -->"
    text = PAGE.read_text()
    before, rest = text.split(first, 1)
    new = before + first + "\n".join(lines) + "\n" + last + rest.split(last, 1)[1]
    if sys.argv[2:] == ["--write"]:
        PAGE.write_text(new)
    elif sys.argv[2:] == ["--check"]:
        if new != text:
            sys.exit("docs/OPERATING.md has other plans than weft inspect: tools/card_plans.py WEFT --write")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
