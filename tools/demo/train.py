#!/usr/bin/env python3
"""Trains weft-demo-rerank from scratch on what corpus.py makes; stopped, it goes on from its last checkpoint.

    tools/demo/train.py [--work build/demo-rerank] [--steps N] [--minutes M] [--export FOLDER]

It needs torch, transformers and tokenizers. Every two minutes it saves. It ends after N steps or M
minutes in all and takes smaller and smaller steps towards that end. --export writes the model folder of the last
checkpoint and trains nothing.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # each of our threads does its own products
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import BertConfig, BertForSequenceClassification

import corpus

PIECES, WINDOW, LONGEST = 6000, 512, 64
HIDDEN, HEADS = 128, 4
GROUPS, THREADS, PEAK, WARM_UP, DROPPED = 8, 2, 1e-3, 100, 0.05
FILLED, BAG_STEPS = 150, 600  # texts of an aspect, and steps, by which the words get their first vectors
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SAVED_EVERY = 120


def train_tokenizer(path):
    """The words that the corpus uses often, and the letters for all others."""
    maker, counts = corpus.Maker(corpus.Corpus(), "words"), collections.Counter()
    for _ in range(6000):
        question, passages = maker.group()
        for text in (question, *passages):
            counts.update(re.findall(r"[a-z]+", text))
    for word in re.findall(r"[a-z]+", corpus.FILE.read_text().lower()):
        counts[word] += 3
    tokenizer = BertWordPieceTokenizer(lowercase=True)
    tokenizer.train_from_iterator([word for word, count in sorted(counts.items()) for _ in range(min(count, 50))],
                                  vocab_size=PIECES, min_frequency=3, special_tokens=SPECIALS)
    pieces = sorted(tokenizer.get_vocab(), key=tokenizer.get_vocab().get)
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces += [piece for letter in letters for piece in (letter, "##" + letter) if piece not in set(pieces)]
    made = BertWordPieceTokenizer({piece: i for i, piece in enumerate(pieces)}, lowercase=True)
    made.save(str(path))


def meanings(tokenizer, size):
    """A vector a piece, close where two pieces speak of the same: learned by guessing a text's aspect from its bag."""
    source, texts, aspects = corpus.Corpus(), [], []
    maker = corpus.Maker(source, "meanings")
    for number, aspect in enumerate(source.aspects):
        for make in [maker.question, maker.passage] * FILLED:
            texts.append(make(aspect, maker.subject(maker.random.choice(aspect.kinds))))
            aspects.append(number)
    bags = tokenizer.encode_batch(texts, add_special_tokens=False)
    width = max(len(bag.ids) for bag in bags)
    ids = torch.tensor([bag.ids + [0] * (width - len(bag.ids)) for bag in bags])
    aspects = torch.tensor(aspects)
    vectors = torch.nn.Embedding(tokenizer.get_vocab_size(), size, padding_idx=0)
    torch.nn.init.normal_(vectors.weight, 0, 0.01)
    guess = torch.nn.Linear(size, len(source.aspects), bias=False)
    optimizer = torch.optim.Adam([*vectors.parameters(), *guess.parameters()], lr=0.01)
    for _ in range(BAG_STEPS):
        chosen = torch.randint(len(ids), (512,))
        bag = ids[chosen].masked_fill(torch.rand(512, width) < 0.3, 0)
        loss = torch.nn.functional.cross_entropy(guess(vectors(bag).sum(1)), aspects[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"meanings: loss {loss.item():.3f}", flush=True)
    learned = vectors.weight.detach()
    lengths = learned.norm(dim=1, keepdim=True)
    return learned / lengths.clamp(min=lengths.quantile(0.9).item()) * size ** 0.5


def empty_model(size):
    return BertForSequenceClassification(BertConfig(
        vocab_size=size, hidden_size=HIDDEN, num_hidden_layers=3, num_attention_heads=HEADS, intermediate_size=256,
        max_position_embeddings=WINDOW, num_labels=1, initializer_range=0.08, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0))


def new_model(tokenizer):
    """Begins where little is left to find: words of like meaning have like vectors, and in the first layer tokens look
    for their like on the other side, half of the heads for the same word, half for the same meaning."""
    model = empty_model(tokenizer.get_vocab_size())
    side = torch.randn(HEADS, HIDDEN // HEADS)
    side = side / side.norm(dim=1, keepdim=True)
    learned = meanings(tokenizer, HIDDEN // 2)
    with torch.no_grad():
        words = model.bert.embeddings.word_embeddings.weight
        words[:, :HIDDEN // 2].normal_(0, 1)
        words[:, HIDDEN // 2:] = learned
        model.bert.embeddings.token_type_embeddings.weight.copy_(torch.stack([3 * side.flatten(), -3 * side.flatten()]))
        first = model.bert.encoder.layer[0].attention.self
        first.query.weight.add_(torch.eye(HIDDEN) - 2 * torch.block_diag(*(torch.outer(each, each) for each in side)))
        first.key.weight.add_(torch.eye(HIDDEN))
        first.value.weight.copy_(torch.eye(HIDDEN))
        torch.nn.init.orthogonal_(model.bert.encoder.layer[0].attention.output.dense.weight)
        for part in (first.query, first.key):
            part.bias.zero_()
        model.bert.embeddings.position_embeddings.weight.mul_(0.25)
    return model


def tensors_of(pairs, draw):
    width = max(len(pair.ids) for pair in pairs)
    ids, kinds, seen = (torch.tensor([getattr(pair, part) + [0] * (width - len(pair.ids)) for pair in pairs])
                        for part in ("ids", "type_ids", "attention_mask"))
    lost = (torch.rand(ids.shape, generator=draw) < DROPPED) & (ids >= len(SPECIALS))
    return {"input_ids": ids.masked_fill(lost, SPECIALS.index("[UNK]")), "token_type_ids": kinds, "attention_mask": seen}


def scores_of(model, tokenizer, groups, draw):
    """A row of scores a group, the answer's first. Short pairs and long ones go apart, which saves padding."""
    pairs = tokenizer.encode_batch([(question, passage) for question, passages in groups for passage in passages])
    for pair in pairs:
        pair.truncate(LONGEST)
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].ids))
    parts = [order[:len(order) // 2], order[len(order) // 2:]]
    scores = torch.cat([model(**tensors_of([pairs[i] for i in part], draw)).logits for part in parts])
    return scores[torch.tensor(order).argsort()].view(len(groups), -1)


def losses(scores):
    """The answer, first of its group, before the others; and each score by itself, as a probability."""
    right = torch.zeros_like(scores)
    right[:, 0] = 1
    first = torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
    alone = torch.nn.functional.binary_cross_entropy_with_logits(scores, right, pos_weight=torch.tensor(3.0))
    return first + 0.5 * alone, (scores.argmax(1) == 0).float().mean()


def train(work, steps, minutes):
    tokenizer = BertWordPieceTokenizer(str(work / "vocab.txt"), lowercase=True)
    torch.manual_seed(1)
    state = torch.load(work / "state.pt") if (work / "state.pt").exists() else {"step": 0, "seconds": 0}
    model = empty_model(tokenizer.get_vocab_size()) if state["step"] else new_model(tokenizer)
    optimizer = torch.optim.AdamW(model.parameters(), lr=PEAK, betas=(0.9, 0.98), weight_decay=0.01)
    if state["step"]:
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
    saved = time.monotonic()
    begun = saved - state["seconds"]
    source, shares, pool = corpus.Corpus(), [], concurrent.futures.ThreadPoolExecutor(THREADS)
    torch.set_num_threads(1)

    def part(number):
        maker, draw = corpus.Maker(source, number), torch.Generator().manual_seed(number)
        loss, share = losses(scores_of(model, tokenizer, [maker.group() for _ in range(GROUPS)], draw))
        return loss.item(), share.item(), torch.autograd.grad(loss, list(model.parameters()))

    for step in range(state["step"], steps):
        done = max(step / steps, (time.monotonic() - begun) / (60 * minutes))
        for each in optimizer.param_groups:
            each["lr"] = PEAK * min((step + 1) / WARM_UP, max(0.01, 1 - done))
        parts = list(pool.map(part, range(step * THREADS, (step + 1) * THREADS)))
        for parameter, *gradients in zip(model.parameters(), *(each[2] for each in parts)):
            parameter.grad = sum(gradients) / THREADS
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        shares += [each[:2] for each in parts]
        now = time.monotonic()
        if (step + 1) % 20 == 0:
            loss, share = (sum(each) / len(shares) for each in zip(*shares))
            print(f"step {step + 1}  loss {loss:.3f}  first {100 * share:.1f} %  {now - begun:.0f} s", flush=True)
            shares = []
        last = step + 1 == steps or now - begun > 60 * minutes
        if last or now - saved > SAVED_EVERY:
            saved = now
            torch.save({"step": step + 1, "seconds": now - begun, "model": model.state_dict(),
                        "optimizer": optimizer.state_dict()}, work / "new.pt")
            (work / "new.pt").replace(work / "state.pt")
        if last:
            break


def export(work, folder):
    tokenizer = BertWordPieceTokenizer(str(work / "vocab.txt"), lowercase=True)
    model = empty_model(tokenizer.get_vocab_size())
    model.load_state_dict(torch.load(work / "state.pt")["model"])
    model.save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    written = json.loads(tokenizer.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(written, ensure_ascii=False, separators=(",", ":")) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]",
        "do_lower_case": True, "model_max_length": WINDOW, "tokenizer_class": "BertTokenizer"}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("build/demo-rerank"))
    parser.add_argument("--steps", type=int, default=10000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--export", type=pathlib.Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.export:
        return export(options.work, options.export)
    if not (options.work / "vocab.txt").exists():
        train_tokenizer(options.work / "tokenizer.json")
        pieces = json.loads((options.work / "tokenizer.json").read_text())["model"]["vocab"]
        (options.work / "vocab.txt").write_text("\n".join(sorted(pieces, key=pieces.get)) + "\n")
    train(options.work, options.steps, options.minutes)


if __name__ == "__main__":
    main()
