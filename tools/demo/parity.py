#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the reranker's logits of `weft rerank` in float32 with those of transformers, on held-out questions.

    tools/demo/parity.py --weft build/release/bin/weft [MODEL]
"""

import argparse
import json
import subprocess
import sys

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import heldout

MOST_APART, EVERY = 1e-4, 10


def by_weft(weft, model, question):
    done = subprocess.run([weft, "rerank", model, "--dtype", "float32", "--raw-scores", "--query", question.item.query],
                          input="\n".join(question.candidates) + "\n", capture_output=True, text=True, check=True)
    return [json.loads(line)["relevance_score"] for line in done.stdout.splitlines()]


def by_transformers(model, tokenizer, question):
    pairs = tokenizer([question.item.query] * len(question.candidates), question.candidates, padding=True, return_tensors="pt")
    with torch.no_grad():
        return model(**pairs).logits[:, 0].tolist()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--weft", required=True)
    parser.add_argument("model", nargs="?", default="models/weft-demo-rerank")
    options = parser.parse_args()
    model = AutoModelForSequenceClassification.from_pretrained(options.model).eval()
    tokenizer = AutoTokenizer.from_pretrained(options.model)
    apart = []
    for question in heldout.questions()[::EVERY]:
        both = zip(by_weft(options.weft, options.model, question), by_transformers(model, tokenizer, question), strict=True)
        apart += [abs(ours - theirs) for ours, theirs in both]
    print(f"{len(apart)} logits, at most {max(apart):.1e} apart")
    sys.exit(max(apart) > MOST_APART)


if __name__ == "__main__":
    main()
