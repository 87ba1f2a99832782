# SPDX-License-Identifier: Apache-2.0
"""Embedders with prompts: the demo model with other settings of sentence-transformers.

VARIANTS are read by tools/sentence_vectors.py, which records what sentence-transformers gives, and by
test_sentence.py, which asks weft for the same.
"""
import json
import pathlib
import shutil

DEMO = pathlib.Path(__file__).resolve().parents[2] / "models/weft-demo-embed"
PROMPTS = {"query": "warm river: ", "document": "", "passage": "the cold stone and "}
SENTENCE = {"prompts": PROMPTS, "default_prompt_name": None}
VARIANTS = {  # name -> files of the folder that differ
    "named": {"config_sentence_transformers.json": SENTENCE},
    "default": {"config_sentence_transformers.json": {**SENTENCE, "default_prompt_name": "query"}},
    "left-out": {"config_sentence_transformers.json": SENTENCE,
                 "1_Pooling/config.json": {"word_embedding_dimension": 128, "include_prompt": False,
                                           "pooling_mode_mean_tokens": True}},
    "sqrt": {"config_sentence_transformers.json": SENTENCE,
             "1_Pooling/config.json": {"word_embedding_dimension": 128, "include_prompt": False,
                                       "pooling_mode_mean_tokens": False,
                                       "pooling_mode_mean_sqrt_len_tokens": True}},
    "cls": {"config_sentence_transformers.json": SENTENCE,
            "1_Pooling/config.json": {"word_embedding_dimension": 128, "include_prompt": False,
                                      "pooling_mode_mean_tokens": False,
                                      "pooling_mode_cls_token": True}},
}
TEXTS = ["a quiet road", "warm", "The river is long and the stone is cold."]
REQUESTS = [{}, {"prompt_name": "query"}, {"prompt_name": "document"}, {"prompt_name": "passage"},
            {"prompt": "a small bird, "}, {"prompt": ""}]


def sentence_model(path, variant):
    """Writes the folder; without a Normalize module, so that vectors can be had raw."""
    shutil.copytree(DEMO, path)
    modules = json.loads((DEMO / "modules.json").read_text())
    modules = [m for m in modules if not m["type"].endswith("Normalize")]
    width = json.loads((DEMO / "config.json").read_text())["hidden_size"]
    for name, value in {"modules.json": modules, **VARIANTS[variant]}.items():
        if "word_embedding_dimension" in value:
            value = {**value, "word_embedding_dimension": width}
        (pathlib.Path(path) / name).write_text(json.dumps(value))
