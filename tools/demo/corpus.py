#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates the questions and passages that the reranker is trained on, from corpus.txt.

    tools/demo/corpus.py [N]          prints N groups: a question, its answer, five passages that do not answer it
    tools/demo/corpus.py --check      checks that the corpus contains nothing of the held-out set
"""

import collections
import itertools
import pathlib
import random
import re
import sys

import heldout

FILE = pathlib.Path(__file__).with_name("corpus.txt")
NEGATIVES = 5
RUN = 5  # a template and the held-out set must not share this many consecutive words
# Aspects whose answers may answer each other's questions: never used as wrong answers for the same subject.
CLOSE = ["age founder opening", "cost price petcost", "visit rules parking", "look leaf", "route transport crossing",
         "disaster flood history", "death lifespan", "death health", "animals fish", "size height", "season weather",
         "hours feeding", "author publication", "economy products fame", "storage prevent", "owner resident",
         "habitat location", "home birth childhood", "weather snow", "injury health", "job invention", "danger disaster",
         "look bloom", "director founder", "diet feeding", "replace disposal prevent", "directions address location",
         "transport location", "shelter route", "use collection", "money invention", "athlete record", "travel discovery",
         "repair prevent", "washing prevent", "winter weather", "plants season", "food shopping", "legend name",
         "soil water", "cargo sinking", "wreck sinking", "hero plot", "cook ingredients failure", "battery operation"]

Aspect = collections.namedtuple("Aspect", "name kinds asks answers")


class Held:
    """What of the held-out set the corpus must not have: its questions, and runs of words, its subjects being one."""

    def __init__(self):
        items = heldout.items()
        names = "|".join(sorted((re.escape(item.subject.lower().removeprefix("the ")) for item in items), key=len, reverse=True))
        masked = re.compile(rf"\b(?:(?:the|a|an) )?(?:{names})s?\b")
        self.asked = {self.plain(masked.sub("~", item.query.lower())) for item in items}
        told = {self.plain(masked.sub("~", item.passage.lower())) for item in items}
        self.runs = set().union(*map(self.runs_of, self.asked | told))

    @staticmethod
    def plain(text):
        return tuple(re.findall(r"~|[a-z0-9']+", text.lower()))

    @staticmethod
    def runs_of(split):
        return {split[i:i + RUN] for i in range(len(split) - RUN + 1)}

    def shares(self, text):
        split = self.plain(text)
        return split in self.asked or not self.runs.isdisjoint(self.runs_of(split))


class Corpus:
    def __init__(self):
        self.lists, self.subjects, self.aspects = {}, {}, []
        for line in FILE.read_text().split("\n"):
            self.read(line)
        self.of_kind = {kind: [each for each in self.aspects if kind in each.kinds] for kind in self.subjects}
        self.held = Held()
        self.close = {frozenset(pair) for line in CLOSE for pair in itertools.combinations(line.split(), 2)}

    def read(self, line):
        if line.startswith("%"):
            name, options = line[1:].split(" ", 1)
            self.lists[name] = options.split("|")
        elif line.startswith("@"):
            name, *kinds = line[1:].split()
            self.aspects.append(Aspect(name, kinds, [], []))
        elif line.startswith("? "):
            self.aspects[-1].asks.append(line[2:])
        elif line.startswith("= "):
            self.aspects[-1].answers.append(line[2:])
        elif line.startswith("="):
            kind, options = line[1:].split(" ", 1)
            self.subjects[kind] = options.split("|")


class Maker:
    """Draws from a corpus; the same seed gives the same results."""

    def __init__(self, corpus, seed):
        self.corpus, self.random = corpus, random.Random(seed)
        self.kinds = list(corpus.subjects)
        self.weights = [len(corpus.of_kind[kind]) ** 0.7 for kind in self.kinds]

    def slot(self, match):
        name, draw = match[1], self.random
        if name == "n":
            return str(draw.randint(2, 99))
        if name == "big":
            return draw.choice(["{}", "{:,}"]).format(draw.choice([draw.randint(100, 999), draw.randint(100, 9999)]))
        if name == "huge":
            return draw.choice([f"{draw.randint(10, 900)},000", f"{draw.randint(10_000, 900_000)}",
                                f"{draw.randint(2, 60)} million", f"{draw.randint(1, 9)}.{draw.randint(1, 9)} million"])
        if name == "year":
            return str(draw.randint(900, 2022))
        if name == "person":
            return f"{draw.choice(self.corpus.lists['first'])} {draw.choice([*self.corpus.lists['last'], self.word()])}"
        if name in ("place", "word"):
            return self.word()
        return draw.choice(self.corpus.lists[name])

    def word(self):
        lists, draw = self.corpus.lists, self.random
        if draw.random() < 0.4:
            return draw.choice(lists["stem"]) + draw.choice(lists["ending"])
        return "".join(draw.choices(lists["syllable"], k=draw.randint(1, 3))) + draw.choice(lists["tail"])

    def fill(self, template, subject="~"):
        text = re.sub(r"\[([^][]*)\]", lambda match: self.random.choice(match[1].split("|")), template)
        text = re.sub(r"\{(\w+)\}", self.slot, text)
        text = re.sub(r"\{(\w+)\}", self.slot, text)
        return re.sub(r" ([,:;]|'s)", r"\1", re.sub(r"\s+", " ", text.replace("~", subject))).strip()

    def draw(self, templates, subject):
        """Returns one of the templates, filled with a subject, that resembles nothing in the held-out set."""
        while True:
            text = self.fill(self.random.choice(templates), "~")
            if not self.corpus.held.shares(text):
                return text.replace("~", subject)

    def subject(self, kind, like=None):
        """Returns a subject; with `like`, in half the cases one that shares a word with it."""
        made = self.fill(self.random.choice(self.corpus.subjects[kind]))
        if like and self.random.random() < 0.5:
            old, new = like.split(), made.split()
            if len(old) > 1 and len(new) > 1:
                place = self.random.randrange(-1, 1)
                new[place] = old[place]
            elif kind in ("river", "city", "mountain", "lake"):
                new = self.random.choice(["lake ~", "mount ~", "~ castle", "the ~ museum", "new ~"]).replace("~", old[-1]).split()
            made = " ".join(new)
        return made

    def question(self, aspect, subject):
        text = self.draw(aspect.asks, subject)
        if self.random.random() < 0.08:
            text = f"{self.random.choice(self.corpus.lists['ask'])} {text}"
        return text + ("?" if self.random.random() < 0.8 else "")

    def passage(self, aspect, subject):
        text, chance = self.draw(aspect.answers, subject), self.random.random()
        if chance < 0.1:
            text = f"{self.random.choice(self.corpus.lists['before'])} {text}"
        elif chance < 0.25:
            text += self.random.choice(self.corpus.lists["after"])
        return re.sub(r" ([,:;])", r"\1", text) + "."

    def group(self):
        """Returns a question, its answer, and passages that do not answer it."""
        kind = self.random.choices(self.kinds, self.weights)[0]
        aspects = self.corpus.of_kind[kind]
        aspect, subject = self.random.choice(aspects), self.subject(kind)
        others = [each for each in aspects if each.name != aspect.name
                  and frozenset((each.name, aspect.name)) not in self.corpus.close]
        numbers = [aspect] + self.random.sample(others, min(4, len(others)))
        passages = [self.passage(each, subject) for each in numbers]
        while len(passages) < 1 + NEGATIVES:
            where = self.random.choice(aspect.kinds)
            other = self.subject(where, subject)
            if other != subject:
                numbers.append(aspect)
                passages.append(self.passage(aspect, other))
        return self.question(aspect, subject), passages, [self.corpus.aspects.index(each) for each in numbers]


def check(groups):
    """Returns faults: subjects of the held-out set in the corpus, and questions or runs of words of it in the groups."""
    names = {item.subject.lower().removeprefix("the ") for item in heldout.items()}
    whole, held, faults = FILE.read_text().lower(), Held(), []
    faults += [f"the subject {name}" for name in sorted(names) if re.search(rf"\b{re.escape(name)}\b", whole)]
    maker = Maker(Corpus(), "check")
    made = [maker.draw(texts, "~") for aspect in maker.corpus.aspects for texts in (aspect.asks, aspect.answers)
            for _ in range(groups)]
    return faults + [text for text in made if held.shares(text)]


def main():
    if sys.argv[1:] == ["--check"]:
        faults = check(200)
        for fault in faults:
            print(fault)
        sys.exit(f"{len(faults)} of the held-out set stand in the corpus" if faults else 0)
    maker = Maker(Corpus(), 1)
    for _ in range(int((sys.argv[1:] or ["5"])[0])):
        question, passages, _ = maker.group()
        print(question, *passages, sep="\n    ")


if __name__ == "__main__":
    main()
