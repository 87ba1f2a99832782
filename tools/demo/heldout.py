# SPDX-License-Identifier: Apache-2.0
"""Reads heldout.txt, questions with their candidates, and ranks the candidates with BM25.

A question has twenty candidates: its answer, the other passages of the subject, up to seven passages that answer the
same question about other subjects, four passages of other subjects that share most words with it, and others. Random
choices use a hash, so the candidates are the same on every machine.
"""

import collections
import hashlib
import math
import pathlib
import re

FILE = pathlib.Path(__file__).with_name("heldout.txt")
CANDIDATES, SAME_ASPECT, SAME_WORDS = 20, 7, 4
K1, B = 1.2, 0.75

Item = collections.namedtuple("Item", "subject kind aspect query passage")
Question = collections.namedtuple("Question", "item candidates answer")  # answer: index in candidates


def words(text):
    return re.findall(r"[a-z0-9]+", text.lower())


def items(file=FILE):
    blocks = re.split(r"\n\s*\n", re.sub(r"(?m)^#.*\n", "", file.read_text()).strip())
    found = []
    for block in blocks:
        subject, kind, *lines = block.split("\n")
        for aspect, query, passage in zip(lines[::3], lines[1::3], lines[2::3], strict=True):
            if (aspect[0], query[:2], passage[:2]) != ("@", "? ", "= "):
                raise ValueError(f"{file.name}: not @, ?, = under {subject}: {query}")
            found.append(Item(subject, kind, aspect[1:], query[2:], passage[2:]))
    return found


def chance(*texts):
    return hashlib.sha256("\0".join(texts).encode()).digest()


def candidates(item, everything):
    """Returns the other candidates, without the answer."""
    by_chance = sorted((each for each in everything if each != item), key=lambda each: chance(item.query, each.passage))
    own = [each for each in by_chance if each.subject == item.subject]
    others = [each for each in by_chance if each.subject != item.subject]
    chosen = own + [each for each in others if each.aspect == item.aspect][:SAME_ASPECT]
    asked = set(words(item.query))
    by_words = sorted((each for each in others if each not in chosen), key=lambda each: -len(asked & set(words(each.passage))))
    chosen += by_words[:SAME_WORDS]
    chosen += [each for each in others if each not in chosen]
    return [each.passage for each in chosen[:CANDIDATES - 1]]


def questions(file=FILE):
    everything = items(file)
    made = []
    for item in everything:
        texts = sorted([item.passage] + candidates(item, everything), key=lambda text: chance("order", item.query, text))
        made.append(Question(item, texts, texts.index(item.passage)))
    return made


class Bm25:
    """Okapi BM25 with the statistics of all passages of the set."""

    def __init__(self, passages):
        self.count = len(passages)
        self.mean = sum(len(words(passage)) for passage in passages) / self.count
        self.documents = collections.Counter(word for passage in passages for word in set(words(passage)))

    def scores(self, query, passages):
        return [self.score(query, passage) for passage in passages]

    def score(self, query, passage):
        counts, length = collections.Counter(words(passage)), len(words(passage))
        return sum(self.idf(word) * counts[word] * (K1 + 1) / (counts[word] + K1 * (1 - B + B * length / self.mean))
                   for word in words(query) if word in counts)

    def idf(self, word):
        return math.log(1 + (self.count - self.documents[word] + 0.5) / (self.documents[word] + 0.5))


def place(scores, answer):
    """Returns the rank of the answer, from 1; candidates with the same score count as better."""
    return sum(score >= scores[answer] for score in scores)
