# SPDX-License-Identifier: Apache-2.0
"""A chat model made by hand that reasons, writes a sentence and calls two tools, whatever it is asked;
after a tool's result it answers with a sentence. Its dialect is Hermes'.

Each token is followed by one other: the embedding says where in the chain it stands, attention and MLP
are nought, the head says what comes next. caller(path) writes the folder; chain_model() any chain.
"""
import math
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tools"))
from demo_models import Folder, byte_alphabet  # noqa: E402

CHAIN = ["<think>", "Two tools, ", "then.", "</think>", "\n\nLet me see.\n", "<tool_call>",
         '\n{"name": "get_weather", "arguments": {"city": ', '"Łódź"', "}}\n", "</tool_call>",
         '\n<tool_call>{"name": "get_time", ', '"arguments": {}}</tool_call>']
ANSWER = ["<|answer|>", "It rains", " at noon."]
TEMPLATE = """{%- if tools %}<|im_start|>system
{% for tool in tools %}{{ tool | tojson }}
{% endfor %}Call with <tool_call>{"name": ..., "arguments": ...}</tool_call>.<|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{% if message.reasoning_content %}<think>{{ message.reasoning_content }}</think>{% endif %}
{{- message.content or '' }}
{%- for call in message.tool_calls or [] %}<tool_call>{{ call.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% if messages[-1].role == 'tool' %}<|answer|>{% endif %}{% endif %}"""
HIDDEN, FFN = 64, 64
WINDOW = 8192  # of bytes: for as many tools as a request may have
FAR = -2.2  # of a logit of 8 times as much


def caller(path):
    follows = {"<|answer|>": ANSWER[1], ANSWER[1]: ANSWER[2], ANSWER[2]: "<|im_end|>",
               CHAIN[-1]: "<|im_end|>", "\n": CHAIN[0]}
    follows.update(zip(CHAIN, CHAIN[1:]))
    return chain_model(path, ["<|answer|>"], CHAIN + ANSWER[1:], follows, TEMPLATE, FAR)


def gpt_oss_layer(p, one, zero):
    """The tensors of a layer of GPT-OSS that adds zeros, and the further members of its config.json."""
    experts, width = 2, 16

    def stack(*shape):
        return list(shape), [0.0] * math.prod(shape)

    tensors = {p + f"self_attn.{name}_proj.{part}": shape for name in "qkvo"
               for part, shape in (("weight", zero(HIDDEN, HIDDEN)), ("bias", stack(HIDDEN)))}
    tensors.update({
        p + "self_attn.sinks": stack(4), p + "mlp.router.weight": stack(experts, HIDDEN),
        p + "mlp.router.bias": stack(experts),
        p + "mlp.experts.gate_up_proj": stack(experts, HIDDEN, 2 * width),
        p + "mlp.experts.gate_up_proj_bias": stack(experts, 2 * width),
        p + "mlp.experts.down_proj": stack(experts, width, HIDDEN),
        p + "mlp.experts.down_proj_bias": stack(experts, HIDDEN)})
    return tensors, {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "head_dim": 16,
                     "intermediate_size": width, "num_local_experts": experts, "num_experts_per_tok": 1,
                     "sliding_window": 64, "rope_scaling": None, "attention_bias": True}


def chain_model(path, specials, texts, follows, template, far, window=WINDOW, ends=("<|im_end|>",), gpt_oss=False):
    """Bytes, special tokens and texts are its tokens; follows: token -> the next, or a list of equally likely next ones,
    fewer than HIDDEN. far: the logit of others, by eight, after a token that is followed by one; after those that are
    not all are alike. ends: end tokens; config.json has the first, generation_config.json has all."""
    folder, alphabet = Folder(path), byte_alphabet()
    vocab = {alphabet[b]: i for i, b in enumerate(sorted(alphabet))}
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", *specials]
    added = specials + texts
    ids = {"\n": vocab[alphabet[10]], **{t: len(vocab) + i for i, t in enumerate(added)}}
    size = len(vocab) + len(added)
    place = {t: i + 1 for i, t in enumerate(follows)}
    assert len(place) < HIDDEN and len(set(added)) == len(added)
    embed, head = [0.0] * (size * HIDDEN), [far] * (size * HIDDEN)
    by_id = {ids[t]: i for t, i in place.items()}
    for token in range(size):
        embed[token * HIDDEN + by_id.get(token, 0)] = 1.0
    for before, after in follows.items():
        for one_of in [after] if isinstance(after, str) else after:
            head[ids[one_of] * HIDDEN + place[before]] = 0.0
    zero, one = lambda r, c: ([r, c], [0.0] * (r * c)), ([HIDDEN], [1.0] * HIDDEN)
    p = "model.layers.0."
    layer = {p + f"self_attn.{name}_proj.weight": zero(HIDDEN, HIDDEN) for name in "qkvo"}
    layer.update({p + "mlp.gate_proj.weight": zero(FFN, HIDDEN), p + "mlp.up_proj.weight": zero(FFN, HIDDEN),
                  p + "mlp.down_proj.weight": zero(HIDDEN, FFN)})
    more = {}
    if gpt_oss:
        layer, more = gpt_oss_layer(p, one, zero)
    folder.tensors({
        "model.embed_tokens.weight": ([size, HIDDEN], embed),
        p + "input_layernorm.weight": one,
        **layer,
        p + "post_attention_layernorm.weight": one,
        "model.norm.weight": one,
        "lm_head.weight": ([size, HIDDEN], head)}, "BF16")
    folder.json("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": HIDDEN, "intermediate_size": FFN, "num_hidden_layers": 1,
        "num_attention_heads": 4, "num_key_value_heads": 4, "hidden_act": "silu",
        "max_position_embeddings": window, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "vocab_size": size, "bos_token_id": ids["<|endoftext|>"], "eos_token_id": ids[ends[0]],
        "tie_word_embeddings": False, **more})
    if len(ends) > 1:
        folder.json("generation_config.json", {"eos_token_id": [ids[end] for end in ends]})
    folder.json("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": ids[t], "content": t, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": t in specials}
                         for t in added],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "vocab": vocab, "merges": []}})
    folder.json("tokenizer_config.json", {
        "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "add_bos_token": False,
        "chat_template": template, "model_max_length": window,
        "tokenizer_class": "PreTrainedTokenizerFast"})
    folder.write()
    return path
