# SPDX-License-Identifier: Apache-2.0
"""Jina's BERT v2 for tools/golden.py: transformers does not have it.

The structure follows the documentation of the published checkpoints and their config.json (jinaai/jina-embeddings-v2-*):
BERT without a table of positions; the scores of attention get minus a slope times the distance of query and key (ALiBi,
Press et al. 2022, symmetric); the feed-forward part multiplies act(first half) by the second half of mlp.gated_layers,
which has no bias; the norms follow the residual sums. Modules have the names of the published tensors.
"""
import math
import types

import torch
from torch import nn


def slopes(heads):
    """Slopes of ALiBi: powers of 2^(-8 / n) for n = 2^k heads; further heads take every second one of 2n."""
    whole = 2 ** math.floor(math.log2(heads))
    of = [2.0 ** (-8.0 * (i + 1) / whole) for i in range(whole)]
    more = [2.0 ** (-8.0 * (i + 1) / (2 * whole)) for i in range(2 * whole)]
    return of + more[0::2][:heads - whole]


def group(**modules):
    out = nn.Module()
    for name, module in modules.items():
        setattr(out, name, module)
    return out


class JinaBert(nn.Module):
    def __init__(self, config):
        super().__init__()
        width, inner, eps = config["hidden_size"], config["intermediate_size"], config["layer_norm_eps"]
        self.heads = config["num_attention_heads"]
        self.embeddings = group(word_embeddings=nn.Embedding(config["vocab_size"], width),
                                token_type_embeddings=nn.Embedding(config["type_vocab_size"], width),
                                LayerNorm=nn.LayerNorm(width, eps))
        self.encoder = group(layer=nn.ModuleList(
            group(attention=group(self=group(query=nn.Linear(width, width), key=nn.Linear(width, width),
                                             value=nn.Linear(width, width)),
                                  output=group(dense=nn.Linear(width, width), LayerNorm=nn.LayerNorm(width, eps))),
                  mlp=group(gated_layers=nn.Linear(width, 2 * inner, bias=False), wo=nn.Linear(inner, width),
                            layernorm=nn.LayerNorm(width, eps)))
            for _ in range(config["num_hidden_layers"])))

    def attend(self, module, x):
        parts = [f(x).unflatten(-1, (self.heads, -1)).transpose(0, 1)
                 for f in (module.query, module.key, module.value)]
        query, key, value = parts
        at = torch.arange(len(x))
        bias = -torch.tensor(slopes(self.heads), dtype=x.dtype)[:, None, None] * (at[:, None] - at[None, :]).abs()
        scores = query @ key.transpose(1, 2) / math.sqrt(query.shape[-1]) + bias
        return (scores.softmax(-1) @ value).transpose(0, 1).flatten(1)

    def forward(self, input_ids, token_type_ids=None):
        ids = input_ids[0]
        kinds = torch.zeros_like(ids) if token_type_ids is None else token_type_ids[0]
        x = self.embeddings.LayerNorm(self.embeddings.word_embeddings(ids) +
                                      self.embeddings.token_type_embeddings(kinds))
        for layer in self.encoder.layer:
            output = layer.attention.output
            x = output.LayerNorm(x + output.dense(self.attend(getattr(layer.attention, "self"), x)))
            gate, up = layer.mlp.gated_layers(x).chunk(2, -1)
            x = layer.mlp.layernorm(x + layer.mlp.wo(nn.functional.gelu(gate) * up))
        return types.SimpleNamespace(last_hidden_state=x[None])
