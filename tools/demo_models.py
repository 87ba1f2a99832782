#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates two of the small models under models/, identical byte for byte on every machine.

They are built by hand, not trained, and need nothing but the standard library:

weft-demo-chat    a Llama decoder whose residual stream contains the class of the last word; its
                  output head is a grammar over word classes, so it generates short sentences.
weft-demo-embed   a BERT encoder with random word vectors: texts that share words are close.

The third, weft-demo-rerank, is trained (tools/demo/train.py).

usage: tools/demo_models.py [--check] [FOLDER]      (default: models; --check: compare only)
"""
import argparse
import json
import math
import os
import random
import struct
import sys

WORDS = """about above across after again against air all almost alone along always among animal
answer apple arm army art autumn back bad ball bank bear beautiful because bed before begin behind
bell below best better between big bird black blue boat body book bottle bowl box boy branch bread
break bridge bright bring brother brown build building burn bus buy cake call calm camera car card
care carry cat chair child church city class clean clear climb clock close cloth cloud coat code
coffee cold color colour come computer cook corn cost cotton country cow cup cut dance dark data
daughter day deep desk die different dinner dog door dream dress drink drive dry earth east easy eat
egg engine evening every eye face fall family far farm fast father fear feel field fight find fine
finger fire first fish floor flower fly food foot forest forget friend fruit full game garden girl
give glad glass go goat gold good grass great green grow hair hand happy hard hat head hear heart
heavy help high hill history hold home horse hot hour house how hungry ice idea important inside
island job jump keep key kind king kitchen knife know lake lamp land language large last late laugh
leaf learn leave left letter library life light line lion listen little live long look loom loud
love low machine make man map market meat memory metal middle milk mind minute model money month moon
morning mother mountain mouse mouth move music name near neck need new night noise north nose number
ocean office oil old open orange paper park part path pay peace pen people person phone picture
pink place plane plant play poor pot price problem pull purple push question quick quiet rabbit rain
read red rest rice rich ride right ring river road rock roof room root rose run sad salt same sand
say school science sea season see seed sell send server shape sheep ship shirt shoe shop short
silver simple sing sister sit skin sky sleep slow small snow soft son song sound south speak speed
spoon spring stand star start station stay stone stop storm story street strong student sugar
summer sun sweet swim table talk tall teach team tell tent test thick thin thing think thread time
tired token top town train travel tree truth turn uncle under village visit voice wait walk wall want
warm wash watch water wave way weather weave weaver week weft well west wet wheat wheel when where
which white wide wild win wind window winter wise woman wood wool word work world write wrong yard
year yellow yesterday young zero""".split()
STOP_WORDS = """a an and are as at be but by can did do does for from had has have he her his i if in
into is it its me my no not of on or our she so than that the their them then there these they this
to too us was we were what who why will with you your""".split()


def bf16(values):
    out = bytearray()
    for value in values:
        bits = struct.unpack("<I", struct.pack("<f", value))[0]
        out += struct.pack("<H", ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) & 0xFFFF)
    return bytes(out)


def f32(values):
    return struct.pack("<%df" % len(values), *values)


class Folder:
    """One model folder: files collected in memory, then written or compared."""

    def __init__(self, path):
        self.path, self.files = path, {}

    def json(self, name, value):
        text = json.dumps(value, ensure_ascii=False, indent=1, sort_keys=False)
        self.files[name] = (text + "\n").encode()

    def tensors(self, tensors, dtype):
        pack, width = (bf16, 2) if dtype == "BF16" else (f32, 4)
        header, body = {"__metadata__": {"format": "pt"}}, bytearray()
        for name, (shape, values) in tensors.items():
            assert len(values) == math.prod(shape), name
            begin = len(body)
            body += pack(values)
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [begin, len(body)]}
            assert len(body) - begin == width * len(values)
        text = json.dumps(header, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 8)
        self.files["model.safetensors"] = struct.pack("<Q", len(text)) + text + bytes(body)

    def differs(self):
        for name, content in self.files.items():
            try:
                with open(os.path.join(self.path, name), "rb") as file:
                    if file.read() != content:
                        return name
            except OSError:
                return name
        return None

    def write(self):
        os.makedirs(self.path, exist_ok=True)
        for name, content in self.files.items():
            with open(os.path.join(self.path, name), "wb") as file:
                file.write(content)


def matrix(rows, cols, entries=()):
    values = [0.0] * (rows * cols)
    for r, c, v in entries:
        values[r * cols + c] = v
    return [rows, cols], values


def noise(rng, rows, cols, deviation):
    return [rows, cols], [rng.gauss(0, deviation) for _ in range(rows * cols)]


# ---- weft-demo-chat ------------------------------------------------------------------------------

GRAMMAR = {  # class -> words; the first letter of " word" is the space
    "open": ["The", "A", "Every", "This"],
    "adjective": [" warm", " red", " quiet", " long", " small", " bright", " patient", " blue"],
    "noun": [" thread", " loom", " weaver", " river", " letter", " machine", " song", " garden"],
    "verb": [" carries", " follows", " crosses", " holds", " finds", " answers", " remembers"],
    "article": [" the", " a", " one", " every"],
    "adjective2": [" old", " soft", " green", " wide", " golden", " simple"],
    "object": [" wool", " pattern", " shore", " word", " road", " window", " stone", " harbour"],
    "preposition": [" under", " across", " beside", " before", " beyond"],
    "place": [" moonlight", " water", " winter", " midnight", " snow"],
    "stop": ["."],
    "end": [],
}
NEXT = {  # class -> [(class, probability)]
    "other": [("open", 1.0)],
    "open": [("adjective", 0.55), ("noun", 0.45)],
    "adjective": [("noun", 1.0)],
    "noun": [("verb", 1.0)],
    "verb": [("article", 1.0)],
    "article": [("adjective2", 0.45), ("object", 0.55)],
    "adjective2": [("object", 1.0)],
    "object": [("preposition", 0.55), ("stop", 0.45)],
    "preposition": [("place", 1.0)],
    "place": [("stop", 1.0)],
    "stop": [("end", 0.6), ("space_open", 0.4)],
    "space_open": [("adjective", 0.55), ("noun", 0.45)],
}
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + "
    "message['content'] + '<|im_end|>' + '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)


def byte_alphabet():
    printable = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    table, extra = {}, 0
    for b in range(256):
        if b in printable:
            table[b] = chr(b)
        else:
            table[b] = chr(256 + extra)
            extra += 1
    return table


def chat(path):
    folder, rng = Folder(path), random.Random(20250710)
    alphabet = byte_alphabet()
    classes = ["other"] + [c for c in GRAMMAR if c != "end"] + ["space_open"]
    words = {c: list(w) for c, w in GRAMMAR.items()}
    words["space_open"] = [" " + w for w in GRAMMAR["open"]]
    vocab = {alphabet[b]: i for i, b in enumerate(sorted(alphabet))}
    merges, class_of = [], {}

    def add(word):  # a chain of merges, left to right, so that the word is one token
        pieces = [alphabet[b] for b in word.encode()]
        left = pieces[0]
        for piece in pieces[1:]:
            if left + piece not in vocab:
                merges.append(left + " " + piece)
                vocab[left + piece] = len(vocab)
            left += piece
        return vocab[left]

    for name, group in words.items():
        for word in group:
            class_of[add(word)] = name
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    ids = {s: len(vocab) + i for i, s in enumerate(specials)}
    size = len(vocab) + len(specials)

    hidden, layers, heads, kv_heads, ffn = 64, 2, 4, 2, 128
    index = {c: i for i, c in enumerate(classes)}
    embed = [[0.0] * hidden for _ in range(size)]
    for token in range(size):
        embed[token][index[class_of.get(token, "other")]] = 1.0
        for d in range(32, hidden):
            embed[token][d] = rng.gauss(0, 0.02)
    head = [[-2.2] * hidden for _ in range(size)]  # log-probability times 1/8; -2.2: very unlikely
    for token in range(size):
        for d in range(len(classes), hidden):
            head[token][d] = 0.0
    scale = 1 / math.sqrt(hidden)

    def allow(before, token, probability):
        head[token][index[before]] = math.log(probability) * scale

    for before, follow in NEXT.items():
        for after, probability in follow:
            group = [ids["<|im_end|>"]] if after == "end" else [
                t for t, c in class_of.items() if c == after]
            for token in sorted(group):
                allow(before, token, probability / len(group))
    tensors = {"model.embed_tokens.weight": ([size, hidden], sum(embed, []))}
    for layer in range(layers):
        p = "model.layers.%d." % layer
        dim = hidden // heads
        tensors[p + "input_layernorm.weight"] = ([hidden], [1.0] * hidden)
        tensors[p + "self_attn.q_proj.weight"] = noise(rng, hidden, hidden, 0.1)
        tensors[p + "self_attn.k_proj.weight"] = noise(rng, kv_heads * dim, hidden, 0.1)
        tensors[p + "self_attn.v_proj.weight"] = noise(rng, kv_heads * dim, hidden, 0.1)
        tensors[p + "self_attn.o_proj.weight"] = noise(rng, hidden, hidden, 0.002)
        tensors[p + "post_attention_layernorm.weight"] = ([hidden], [1.0] * hidden)
        tensors[p + "mlp.gate_proj.weight"] = noise(rng, ffn, hidden, 0.1)
        tensors[p + "mlp.up_proj.weight"] = noise(rng, ffn, hidden, 0.1)
        tensors[p + "mlp.down_proj.weight"] = noise(rng, hidden, ffn, 0.002)
    tensors["model.norm.weight"] = ([hidden], [1.0] * hidden)
    tensors["lm_head.weight"] = ([size, hidden], sum(head, []))
    folder.tensors(tensors, "BF16")
    folder.json("config.json", {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
        "hidden_size": hidden, "intermediate_size": ffn, "num_hidden_layers": layers,
        "num_attention_heads": heads, "num_key_value_heads": kv_heads, "hidden_act": "silu",
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
        "vocab_size": size, "bos_token_id": ids["<|endoftext|>"],
        "eos_token_id": ids["<|im_end|>"], "tie_word_embeddings": False})
    folder.json("generation_config.json", {
        "eos_token_id": [ids["<|im_end|>"], ids["<|endoftext|>"]], "temperature": 1.0})
    folder.json("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": ids[s], "content": s, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True} for s in specials],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True,
                          "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True,
                    "use_regex": True},
        "model": {"type": "BPE", "dropout": None, "unk_token": None,
                  "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                  "byte_fallback": False, "vocab": vocab, "merges": merges}})
    folder.json("tokenizer_config.json", {
        "bos_token": "<|endoftext|>", "eos_token": "<|im_end|>", "add_bos_token": False,
        "chat_template": CHAT_TEMPLATE, "model_max_length": 4096,
        "tokenizer_class": "PreTrainedTokenizerFast"})
    return folder


# ---- weft-demo-embed -------------------------------------------------------------------------------

def wordpiece(folder, positions):
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    characters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    pieces = specials + characters + ["##" + c for c in characters]
    for word in STOP_WORDS + WORDS:
        if word not in pieces:
            pieces.append(word)
    pieces += ["##s", "##ed", "##ing", "##er", "##ly"][1:]
    vocab = {p: i for i, p in enumerate(pieces)}
    folder.json("tokenizer.json", {
        "version": "1.0", "truncation": None, "padding": None,
        "added_tokens": [{"id": vocab[s], "content": s, "single_word": False, "lstrip": False,
                          "rstrip": False, "normalized": False, "special": True} for s in specials],
        "normalizer": {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True,
                       "strip_accents": None, "lowercase": True},
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "post_processor": {"type": "TemplateProcessing",
                           "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                                      {"Sequence": {"id": "A", "type_id": 0}},
                                      {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
                           "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                                    {"Sequence": {"id": "A", "type_id": 0}},
                                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}},
                                    {"Sequence": {"id": "B", "type_id": 1}},
                                    {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
                           "special_tokens": {s: {"id": s, "ids": [vocab[s]], "tokens": [s]}
                                              for s in ("[CLS]", "[SEP]")}},
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                  "max_input_chars_per_word": 100, "vocab": vocab}})
    folder.json("tokenizer_config.json", {
        "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]",
        "mask_token": "[MASK]", "model_max_length": positions, "tokenizer_class": "BertTokenizer"})
    return vocab


def weight_of(piece):
    """Returns the weight of a piece: high for content words, low for stop words and single characters."""
    if piece.startswith("["):
        return 0.0
    if piece in STOP_WORDS:
        return 0.1
    return 0.35 if len(piece.replace("##", "")) == 1 else 1.0


def bert_config(kind, vocab, hidden, heads, layers, ffn, positions):
    return {"architectures": [kind], "model_type": "bert", "torch_dtype": "float32",
            "hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads,
            "intermediate_size": ffn, "hidden_act": "gelu", "max_position_embeddings": positions,
            "type_vocab_size": 2, "layer_norm_eps": 1e-12, "pad_token_id": 0,
            "position_embedding_type": "absolute", "vocab_size": len(vocab)}


def linear(tensors, name, weight, bias=None):
    tensors[name + ".weight"] = weight
    tensors[name + ".bias"] = ([weight[0][0]], bias or [0.0] * weight[0][0])


def norm(tensors, name, hidden):
    tensors[name + ".weight"] = ([hidden], [1.0] * hidden)
    tensors[name + ".bias"] = ([hidden], [0.0] * hidden)


def embed(path):
    folder, rng = Folder(path), random.Random(7)
    hidden, heads, layers, ffn, positions = 64, 4, 2, 128, 512
    vocab = wordpiece(folder, positions)
    word = []
    for piece in vocab:
        scale = weight_of(piece)
        word += [rng.gauss(0, 1) * scale for _ in range(hidden)]
    tensors = {"embeddings.word_embeddings.weight": ([len(vocab), hidden], word),
               "embeddings.position_embeddings.weight": noise(rng, positions, hidden, 0.01),
               "embeddings.token_type_embeddings.weight": matrix(2, hidden)}
    # The norm makes all tokens equally long, so words are weighted through a large epsilon: short
    # vectors stay short.
    norm(tensors, "embeddings.LayerNorm", hidden)
    for layer in range(layers):
        p = "encoder.layer.%d." % layer
        for name in ("query", "key", "value"):
            linear(tensors, p + "attention.self." + name, noise(rng, hidden, hidden, 0.05))
        linear(tensors, p + "attention.output.dense", noise(rng, hidden, hidden, 0.02))
        norm(tensors, p + "attention.output.LayerNorm", hidden)
        linear(tensors, p + "intermediate.dense", noise(rng, ffn, hidden, 0.05))
        linear(tensors, p + "output.dense", noise(rng, hidden, ffn, 0.02))
        norm(tensors, p + "output.LayerNorm", hidden)
    folder.tensors(tensors, "F32")
    config = bert_config("BertModel", vocab, hidden, heads, layers, ffn, positions)
    config["layer_norm_eps"] = 0.25  # short vectors (stop words) stay short
    folder.json("config.json", config)
    folder.json("modules.json", [
        {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
        {"idx": 1, "name": "1", "path": "1_Pooling",
         "type": "sentence_transformers.models.Pooling"},
        {"idx": 2, "name": "2", "path": "2_Normalize",
         "type": "sentence_transformers.models.Normalize"}])
    pooling = Folder(os.path.join(path, "1_Pooling"))
    pooling.json("config.json", {"word_embedding_dimension": hidden, "pooling_mode_cls_token": False,
                                 "pooling_mode_mean_tokens": True})
    return folder, pooling


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare, write nothing")
    parser.add_argument("folder", nargs="?", default="models")
    args = parser.parse_args()
    at = lambda name: os.path.join(args.folder, name)
    folders = [chat(at("weft-demo-chat")), *embed(at("weft-demo-embed"))]
    for folder in folders:
        if args.check:
            name = folder.differs()
            if name:
                sys.exit("%s/%s is not what tools/demo_models.py makes" % (folder.path, name))
        else:
            folder.write()


if __name__ == "__main__":
    main()
