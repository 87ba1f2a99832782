#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/e2e/sentence_vectors.json: the vectors of sentence-transformers for the models of
tests/e2e/sentence_model.py, with each prompt, normalised and raw.

Usage: python tools/sentence_vectors.py [--check]   (needs torch and sentence-transformers, see
tools/soak.sh; run from the root). --check compares with the file instead of writing it.
"""
import json
import os
import sys
import tempfile

import numpy as np
import sentence_transformers

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
sys.path.insert(0, os.path.join(ROOT, "tests/e2e"))
from sentence_model import REQUESTS, TEXTS, VARIANTS, sentence_model  # noqa: E402

FILE = os.path.join(ROOT, "tests/e2e/sentence_vectors.json")
SHOWN = 12  # number of values kept of a vector, in addition to its norm


def recorded(variant):
    with tempfile.TemporaryDirectory() as keep:
        folder = os.path.join(keep, "model")
        sentence_model(folder, variant)
        model = sentence_transformers.SentenceTransformer(folder, device="cpu")
        for request in REQUESTS:
            raw = model.encode(TEXTS, normalize_embeddings=False, **request).astype(np.float64)
            unit = model.encode(TEXTS, normalize_embeddings=True, **request).astype(np.float64)
            cut = model.truncate_sentence_embeddings(SHOWN)
            with cut:
                short = model.encode(TEXTS, normalize_embeddings=True, **request)
            yield {"request": request, "raw": raw[:, :SHOWN].tolist(),
                   "lengths": np.linalg.norm(raw, axis=1).tolist(),
                   "unit": unit[:, :SHOWN].tolist(), "short": short.astype(np.float64).tolist()}


def main():
    found = {"made_with": "sentence-transformers " + sentence_transformers.__version__,
             "variants": {variant: list(recorded(variant)) for variant in VARIANTS}}
    if sys.argv[1:] == ["--check"]:
        with open(FILE) as file:
            kept = json.load(file)
        for variant, cases in found["variants"].items():
            for now, then in zip(cases, kept["variants"][variant], strict=True):
                for name in ("raw", "lengths", "unit", "short"):
                    np.testing.assert_allclose(now[name], then[name], rtol=0, atol=1e-5)
        print(f"{len(found['variants'])} models as recorded")
        return
    text = json.dumps(found, separators=(",", ":"))
    text = json.dumps(json.loads(text, parse_float=lambda x: float(f"{float(x):.7g}")),
                      separators=(",", ":"))
    with open(FILE, "w") as file:
        file.write(text + "\n")
    print(f"{os.path.getsize(FILE)} bytes")


main()
