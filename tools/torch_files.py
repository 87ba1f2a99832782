#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/runtime/torch: files of torch.save, which test_torch reads.

  one/     a tiny BERT: config.json and pytorch_model.bin
  shards/  the same weights in two files with an index
  twin/    the same weights in model.safetensors, and the vectors of transformers in expected.json
  odd/     files with other contents; the names say which

Usage: python tools/torch_files.py   (needs torch, transformers and safetensors; run from the root)
"""
import collections
import json
import pathlib
import shutil

import safetensors.torch
import torch
import transformers

OUT = pathlib.Path(__file__).resolve().parents[1] / "tests/runtime/torch"
TEXTS = [[2, 5, 9, 3], [2, 11, 4, 4, 13, 7, 3]]


def bert():
    """Returns a BERT with random weights that float16 holds exactly."""
    torch.manual_seed(20261129)
    config = transformers.BertConfig(
        vocab_size=16, hidden_size=16, num_hidden_layers=1, num_attention_heads=1, intermediate_size=24,
        max_position_embeddings=16, hidden_act="gelu", pad_token_id=0)
    config.architectures = ["BertModel"]
    model = transformers.BertModel(config, add_pooling_layer=False).eval()
    with torch.no_grad():
        for name, value in model.named_parameters():
            scale = 0.1 if value.dim() == 1 else 0.3
            value.copy_((torch.randn_like(value) * scale + ("LayerNorm.weight" in name)).half().float())
    return config, model


def stored(model):
    """Returns the state_dict as checkpoints have it: two dtypes, and a buffer of integers."""
    state = model.state_dict()
    for i, name in enumerate(state):
        if state[name].dim() == 2 or i % 3 == 0:
            state[name] = state[name].half()
    state["embeddings.position_ids"] = torch.arange(16).expand((1, -1))
    return state


def vectors(model):
    with torch.no_grad():
        return [model(torch.tensor([ids])).last_hidden_state[0].mean(0).tolist() for ids in TEXTS]


def bert_write():
    config, model = bert()
    state = stored(model)
    about = json.dumps({k: v for k, v in config.to_dict().items() if v is not None}, indent=1, sort_keys=True) + "\n"
    for name in "one", "shards", "twin":
        (OUT / name).mkdir(parents=True)
        (OUT / name / "config.json").write_text(about)
    torch.save(state, OUT / "one/pytorch_model.bin")
    names, index = list(state), {}
    for part in range(2):
        file = f"pytorch_model-{part + 1:05}-of-00002.bin"
        torch.save({name: state[name] for name in names[part::2]}, OUT / "shards" / file)
        index.update({name: file for name in names[part::2]})
    (OUT / "shards/pytorch_model.bin.index.json").write_text(
        json.dumps({"metadata": {"total_size": 0}, "weight_map": index}, indent=1) + "\n")
    safetensors.torch.save_file({k: v.contiguous() for k, v in state.items()}, OUT / "twin/model.safetensors")
    (OUT / "twin/expected.json").write_text(json.dumps({"inputs": TEXTS, "expected": vectors(model)}) + "\n")


def odd_write():
    (OUT / "odd").mkdir()
    base = torch.arange(24, dtype=torch.float32)
    kinds = [torch.float32, torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.int16,
             torch.int8, torch.uint8, torch.bool]
    state = collections.OrderedDict((f"kind.{str(kind)[6:]}", torch.tensor([0, 1, 1], dtype=kind)) for kind in kinds)
    state["all"] = base
    state["part"] = base[6:14].view(2, 4)            # shares bytes with "all"
    state["row"] = base.view(1, 24)[:, :24]
    state["column"] = base.view(24, 1)[3:5]          # strides [1, 1]
    state["scalar"] = base[7]
    state["none"] = torch.empty(0, 4)
    state["tall"] = torch.zeros(2, 1, 1, 1, 1, 1, 1, 3, dtype=torch.int8)
    torch.save(state, OUT / "odd/kinds.bin")
    torch.save({"w": base.view(4, 6).t()}, OUT / "odd/transposed.bin")
    torch.save({"w": base[::2]}, OUT / "odd/every_second.bin")
    torch.save({"w": torch.ones(1).expand(4)}, OUT / "odd/expanded.bin")
    torch.save({"w": base}, OUT / "odd/legacy.bin", _use_new_zipfile_serialization=False)
    torch.save({"w": base}, OUT / "odd/protocol_4.bin", pickle_protocol=4)
    torch.save({"epoch": 3, "state_dict": {"w": base}}, OUT / "odd/training.bin")
    torch.save(torch.nn.Linear(2, 2), OUT / "odd/module.bin")
    torch.save({"w": torch.nn.Parameter(base)}, OUT / "odd/parameter.bin")
    torch.save({"w": torch.ones(2, dtype=torch.float8_e4m3fn)}, OUT / "odd/float8.bin")
    torch.save({"w": torch.ones(2, dtype=torch.complex64).conj()}, OUT / "odd/conjugate.bin")
    torch.save({"w": torch.sparse_coo_tensor([[0]], [1.0], (2,))}, OUT / "odd/sparse.bin")
    torch.save([base], OUT / "odd/list.bin")
    torch.jit.script(torch.nn.Linear(1, 1)).save(str(OUT / "odd/script.bin"))


if __name__ == "__main__":
    shutil.rmtree(OUT, ignore_errors=True)
    bert_write()
    odd_write()
