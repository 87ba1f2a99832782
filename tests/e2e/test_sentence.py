# SPDX-License-Identifier: Apache-2.0
"""Embeddings beside sentence-transformers: prompts, what the pooling leaves out, raw vectors, lengths.

sentence_vectors.json was recorded by tools/sentence_vectors.py; the models are made by sentence_model.py.
"""

import json
import math
import pathlib
import subprocess
import tempfile

from harness import WEFT, embed, expect, once, start
from sentence_model import TEXTS, VARIANTS, sentence_model

RECORDED = json.loads((pathlib.Path(__file__).parent / "sentence_vectors.json").read_text())["variants"]
folders = []


@once
def folder(variant):
    keep = tempfile.TemporaryDirectory()
    folders.append(keep)  # lives as long as the run
    path = pathlib.Path(keep.name) / variant
    sentence_model(path, variant)
    return path


@once
def serving():
    return start(*(f"{variant}={folder(variant)}" for variant in VARIANTS), "--matryoshka")


def vectors(answer):
    assert answer.status == 200, answer.text
    return [entry["embedding"] for entry in answer.json["data"]]


def check_close(got, want):
    worst = max(abs(a - b) for g, w in zip(got, want, strict=True) for a, b in zip(g, w))
    assert worst < 2e-5, worst


def test_every_prompt_gives_what_sentence_transformers_gives():
    s = serving()
    for variant, cases in RECORDED.items():
        for case in cases:
            def ask(**more):
                return vectors(embed(s, TEXTS, model=variant, **case["request"], **more))
            unit, raw = ask(), ask(normalize=False)
            check_close(unit, case["unit"])
            check_close(raw, case["raw"])
            check_close(ask(dimensions=len(case["short"][0])), case["short"])
            for vector, length in zip(raw, case["lengths"], strict=True):
                assert math.isclose(math.dist(vector, [0] * len(vector)), length, rel_tol=1e-5)
            for vector in unit:
                assert math.isclose(math.dist(vector, [0] * len(vector)), 1, rel_tol=1e-5)


def test_the_prompt_counts_as_tokens():
    s = serving()
    alone = embed(s, "warm", model="named").json["usage"]["prompt_tokens"]
    asked = embed(s, "warm", model="named", prompt_name="query").json["usage"]["prompt_tokens"]
    assert (alone, asked) == (3, 6), (alone, asked)
    expect(embed(s, "warm", model="named", prompt_name="q"), 400, "invalid_value", "prompt_name")
    expect(embed(s, [5, 6], model="named", prompt="q"), 400, "invalid_value", "prompt")


def test_the_command_line_gives_the_same():
    def command(variant, *options):
        out = subprocess.run([WEFT, "embed", str(folder(variant)), *options], check=True, capture_output=True,
                             text=True, input="".join(text + "\n" for text in TEXTS))
        return [json.loads(line) for line in out.stdout.splitlines()]
    s = serving()
    for variant in ("default", "left-out"):
        assert command(variant) == vectors(embed(s, TEXTS, model=variant))
        assert command(variant, "--prompt-name", "passage") == vectors(
            embed(s, TEXTS, model=variant, prompt_name="passage"))
        assert command(variant, "--prompt", "a ", "--raw") == vectors(
            embed(s, TEXTS, model=variant, prompt="a ", normalize=False))
    assert command("default", "--default-prompt-name", "") == vectors(embed(s, TEXTS, model="named"))


def test_the_server_s_default_prompt():
    s = start(f"named={folder('named')},default-prompt-name=query", f"none={folder('default')},default-prompt-name=")
    plain = serving()
    assert vectors(embed(s, TEXTS, model="named")) == vectors(embed(plain, TEXTS, model="default"))
    assert vectors(embed(s, TEXTS, model="none")) == vectors(embed(plain, TEXTS, model="named"))
    s.stop()
    wrong = subprocess.run([WEFT, "serve", str(folder("named")), "--default-prompt-name", "nobody"],
                           capture_output=True, text=True)
    assert wrong.returncode == 1 and "it has: 'query', 'document', 'passage'" in wrong.stderr, wrong.stderr


def test_lengths_that_the_folder_declares():
    path = folder("cls").parent / "declared"
    sentence_model(path, "cls")
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps({**config, "matryoshka_dimensions": [16, 32]}))
    s = start(path)
    for length in (16, 32, 64):
        assert [len(v) for v in vectors(embed(s, TEXTS, model="declared", dimensions=length))] == [length] * len(TEXTS)
    expect(embed(s, TEXTS, model="declared", dimensions=17), 400, "unsupported_value", "dimensions")
    s.stop()


