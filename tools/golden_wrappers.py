#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates tests/golden/*.json of multimodal checkpoints, whose text part alone is served.

The reference is the published class (...ForConditionalGeneration) with text as its only input. A
checkpoint has the tensor names with which transformers saves it, or, with "renamed", those of other
files, which transformers must load completely. Of the other parts (images) only one
small tensor of each is kept, because text does not need them. See tools/golden.py for the file.

Usage: python tools/golden_wrappers.py [NAME...]   (needs torch and transformers)
"""
import json
import os
import re
import sys
import tempfile

import numpy as np
import safetensors.torch
import torch
import transformers

import golden
from golden import decoder

OTHER = re.compile(r"(^|\.)(visual|vision_tower|vision_model|multi_modal_projector|connector|image_newline)(\.|$)")
LENGTHS, DRAWN = [1, 9, 24], 3  # few: the decoders have golden models of their own
SMALL = dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
             image_size=4, patch_size=2)
QWEN = dict(depth=1, num_heads=2, in_channels=1, patch_size=2, spatial_merge_size=1,
            temporal_patch_size=1)
# Names of the modules, with which versions 4.52 to 4.57 saved checkpoints.
MODULES = {"language_model.model.": "model.language_model.", "language_model.lm_head.": "lm_head.",
           "vision_tower.": "model.vision_tower.", "multi_modal_projector.": "model.multi_modal_projector."}


def text(kind, **more):
    """Returns a text_config, which has no fields of the other levels."""
    return {"model_type": kind, **decoder(**more)}


def wrapped(name, kind, text_config, vision_config, **more):
    return dict(arch=name + "ForConditionalGeneration", config={
        "model_type": kind, "text_config": text_config, "vision_config": vision_config, **more})


def clip(**more):
    return dict(model_type="clip_vision_model", projection_dim=16, **SMALL, **more)


MODELS = {
    # The form in which these models were published: no text_config.
    "qwen2-vl": dict(arch="Qwen2VLForConditionalGeneration", config=dict(
        model_type="qwen2_vl", image_token_id=90, video_token_id=91,
        vision_config=dict(embed_dim=16, hidden_size=64, mlp_ratio=1, **QWEN),
        **decoder(use_sliding_window=False, sliding_window=8, max_window_layers=2,
                  rope_scaling={"type": "mrope", "mrope_section": [2, 3, 3]}))),
    "qwen2-5-vl": wrapped(
        "Qwen2_5_VL", "qwen2_5_vl",
        text("qwen2_5_vl_text", num_hidden_layers=3, use_sliding_window=True, sliding_window=8,
             max_window_layers=1, tie_word_embeddings=True, rope_theta=1000000.0, rope_scaling={
                 "type": "yarn", "mrope_section": [2, 3, 3], "factor": 4.0,
                 "original_max_position_embeddings": 16}),
        dict(hidden_size=16, intermediate_size=16, out_hidden_size=64, fullatt_block_indexes=[0],
             window_size=8, **QWEN)),
    "qwen3-vl": wrapped(
        "Qwen3VL", "qwen3_vl",
        text("qwen3_vl_text", head_dim=24, rope_theta=5000000.0, use_sliding_window=True,
             sliding_window=4, rope_scaling={
                 "rope_type": "default", "mrope_interleaved": True, "mrope_section": [4, 4, 4]}),
        dict(hidden_size=16, intermediate_size=16, out_hidden_size=64, num_position_embeddings=4,
             deepstack_visual_indexes=[0], **QWEN), tie_word_embeddings=True),
    # Layer 0 has the stacks of experts as published, layer 1 as transformers saves them.
    "qwen3-vl-moe": dict(turned="layers.0.mlp.experts", **wrapped(
        "Qwen3VLMoe", "qwen3_vl_moe",
        text("qwen3_vl_moe_text", head_dim=24, rope_theta=5000000.0, num_experts=4, num_experts_per_tok=2,
             moe_intermediate_size=48, norm_topk_prob=False, rope_scaling={
                 "rope_type": "default", "mrope_interleaved": True, "mrope_section": [4, 4, 4]}),
        dict(hidden_size=16, intermediate_size=16, out_hidden_size=64, num_position_embeddings=4,
             deepstack_visual_indexes=[0], **QWEN))),
    # text_config has few fields; the others are defaults of the class.
    "gemma3-vision": {**wrapped(
        "Gemma3", "gemma3",
        dict(model_type="gemma3_text", vocab_size=96, hidden_size=64, intermediate_size=96, head_dim=16,
             num_hidden_layers=6, sliding_window=8, rope_scaling={"rope_type": "linear", "factor": 8.0}),
        dict(model_type="siglip_vision_model", **SMALL), mm_tokens_per_image=4,
        image_token_index=95, boi_token_index=93, eoi_token_index=94, eos_token_id=[1, 2]),
        "max_model_len": 64, "lengths": [3, 12]},
    # config.json ties the head; the checkpoint has another one, which is then used.
    "mistral3": wrapped(
        "Mistral3", "mistral3", text("mistral", head_dim=32, sliding_window=None, rope_theta=1e9),
        dict(model_type="pixtral", head_dim=8, **SMALL), spatial_merge_size=1,
        tie_word_embeddings=True, own_head=True),
    "mistral3-ministral3": {**wrapped(
        "Mistral3", "mistral3",
        text("ministral3", head_dim=32, sliding_window=None, rope_parameters={
            "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 16,
            "llama_4_scaling_beta": 0.1}),
        dict(model_type="pixtral", head_dim=8, **SMALL), spatial_merge_size=1,
        tie_word_embeddings=False), "lengths": [1, 20, 40]},
    "llava": {**wrapped("Llava", "llava", text("llama", num_key_value_heads=4, rms_norm_eps=1e-5),
                        clip(), image_token_index=95), "renamed": MODULES},
    # The class does not divide the logits by logits_scaling.
    "llava-next": wrapped(
        "LlavaNext", "llava_next",
        text("granite", embedding_multiplier=12.0, residual_multiplier=0.22,
             attention_multiplier=0.0625, logits_scaling=8.0), clip(), image_token_index=95,
        tie_word_embeddings=True),
    "llava-onevision": wrapped(
        "LlavaOnevision", "llava_onevision", text("qwen2", tie_word_embeddings=True),
        dict(model_type="siglip_vision_model", **SMALL), image_token_index=94, video_token_index=95),
    "internvl": wrapped(
        "InternVL", "internvl", text("qwen3", head_dim=24),
        {**SMALL, "image_size": [4, 4], "patch_size": [2, 2]}, downsample_ratio=1.0,
        image_token_id=95, tie_word_embeddings=False),
    "idefics3": wrapped("Idefics3", "idefics3", text("llama"), dict(**SMALL), scale_factor=1,
                        image_token_id=95),
    "smolvlm": wrapped("SmolVLM", "smolvlm", text("llama", num_key_value_heads=4), dict(**SMALL),
                       scale_factor=1, image_token_id=95, tie_word_embeddings=True),
}


def file_tensors(folder, spec):
    """Returns {name in the file: shape} of what transformers saves, without most of the other parts."""
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    model = getattr(transformers, spec["arch"])(transformers.AutoConfig.from_pretrained(folder))
    model.save_pretrained(folder)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file)
    shapes = {}
    for name, tensor in safetensors.torch.load_file(os.path.join(folder, "model.safetensors")).items():
        for old, new in spec.get("renamed", {}).items():
            if name.startswith(old):
                name = new + name[len(old):]
                break
        shapes[name] = list(tensor.shape)
        if spec.get("turned", "no") in name:  # as published: [experts, columns, rows]
            shapes[name] = [shapes[name][i] for i in (0, 2, 1)]
    if spec["own_head"]:
        shapes["language_model.lm_head.weight"] = [96, 64]
    others = sorted(name for name in shapes if OTHER.search(name))
    starts = {name: ".".join(name.split(".")[:2 if name.startswith("model.") else 1]) for name in others}
    for start in set(starts.values()):
        of = [name for name in others if starts[name] == start]
        of.sort(key=lambda name: (int(np.prod(shapes[name])), name))
        for name in of[1:]:
            del shapes[name]
    return shapes


def load(folder, spec, dtype):
    model, info = getattr(transformers, spec["arch"]).from_pretrained(
        folder, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    missing = [name for name in info["missing_keys"] if not OTHER.search(name)]
    assert not missing and not info["unexpected_keys"], (missing, info["unexpected_keys"])
    return model.eval()


@torch.no_grad()
def outputs(model, inputs):
    return [model(input_ids=torch.tensor([ids])).logits[0, -1].float().tolist() for ids in inputs]


def make(name, spec):
    seed = sum(ord(c) << (i % 24) for i, c in enumerate(name)) + 1
    config = {"architectures": [spec["arch"]], "torch_dtype": "float32", **spec["config"]}
    spec = {**spec, "own_head": config.pop("own_head", False)}
    generator = np.random.default_rng(seed)
    inputs = [generator.integers(3, 90, n).tolist() for n in spec.get("lengths", LENGTHS)]
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "config.json"), "w") as file:
            json.dump(config, file)
        shapes = file_tensors(folder, spec)
        tensors, values = [], {}
        for key in sorted(shapes):
            kind = golden.kind_of(key, shapes[key])
            values[key] = golden.fill(seed, len(tensors), kind, shapes[key])
            tensors.append([key, shapes[key], kind])
        safetensors.torch.save_file(values, os.path.join(folder, "model.safetensors"), {"format": "pt"})
        full = load(folder, spec, torch.float32)
        expected = outputs(full, inputs)
        rough = outputs(load(folder, spec, torch.bfloat16), inputs)
        drawn = [golden.greedy(full, ids, DRAWN) for ids in inputs]
    e, r = np.array(expected), np.array(rough)
    out = {"config": config, "files": {}, "seed": seed, "tensors": tensors,
           "max_model_len": spec.get("max_model_len", 0), "inputs": inputs,
           "types_from": [None] * len(inputs), "answers": [-1, -1],
           "bf16_error": float(np.linalg.norm(r - e) / np.linalg.norm(e)),
           "expected": [[float(f"{x:.7g}") for x in row] for row in expected],
           "greedy": [ids for ids, _ in drawn], "gaps": [gaps for _, gaps in drawn]}
    path = os.path.join(golden.OUT, name + ".json")
    with open(path, "w") as file:
        file.write(json.dumps(out, separators=(",", ":"), sort_keys=True) + "\n")
    print(f"{name}: bf16 error {out['bf16_error']:.2e}, {os.path.getsize(path)} bytes, "
          f"names {sorted({re.sub(r'[.]layers[.].*|[.]embed_tokens.*|[.]norm[.].*', '', t[0]) for t in tensors})}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for model_name in sys.argv[1:] or MODELS:
        make(model_name, MODELS[model_name])
