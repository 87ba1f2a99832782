#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts phrases in C comments that docs/STYLE.md replaces; tools/tidy.py compares the counts with tools/voice_counts.txt.

A comment consists of consecutive // lines; comments of fewer than four words are ignored.
    tools/voice.py [PATH...]    prints each hit under these paths as path:line: kind: comment, then the rate per 1,000 comments
    tools/voice.py --write      records the current counts; no recorded count may rise
"""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
RECORD = "tools/voice_counts.txt"
SOURCE = (".c", ".h", ".cu", ".cuh", ".cpp", ".inc")
SKIPPED = ("unicode_tables.c",)
PHRASES = {
    "report verb": re.compile(r"\b(told|tells?|says?|said)\b", re.I),
    "so many": re.compile(r"\bso (many|long|few|much)\b(?! (?:as|that))", re.I),
    "start of a sentence": re.compile(r"^(One that|Those that|Those|What|Who|Of)\b"),
    "nobody": re.compile(r"\b(nobody|whoever|somebody)\b", re.I),
    "place": re.compile(r"\b(beside|behind|in front)\b", re.I),
    "contract by reference": re.compile(r"^(likewise|the same)\b", re.I),
    "stands": re.compile(r"\b(stands|stood)\b", re.I),
    "private word": re.compile(r"\b(gives? way|mends?|newcomers?|twins?|planted)\b", re.I),
}
COMMENT = re.compile(r"""(?:^|[^:"'])//+(.*)$""")


def comments(text):
    """Returns (line, text) of each comment; consecutive // lines are one comment."""
    found, previous = [], None
    for number, line in enumerate(text.split("\n"), 1):
        match = COMMENT.search(line)
        if not match:
            previous = None
            continue
        alone = line.lstrip().startswith("//")
        if alone and previous:
            previous[1] += " " + match[1].strip()
        else:
            found.append([number, match[1].strip()])
            previous = found[-1] if alone else None
    return [(number, words) for number, words in found if len(words.split()) >= 4]


def hits(text):
    """Returns (line, kind, comment) of each phrase found; a comment can contain several."""
    return [(number, kind, words) for number, words in comments(text)
            for kind, pattern in PHRASES.items() if pattern.search(words)]


def sources(prefixes=()):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines()
            if path.endswith(SOURCE) and not path.endswith(SKIPPED) and os.path.exists(os.path.join(ROOT, path))
            and (not prefixes or path.startswith(tuple(prefixes)))]


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        return file.read()


def recorded():
    """Returns {path: count} of the record; a file that is not listed may contain none."""
    if not os.path.exists(os.path.join(ROOT, RECORD)):
        return {}
    rows = [line.split() for line in read(RECORD).splitlines() if line and line[0] != "#"]
    return {path: int(count) for count, path in rows}


def counts():
    found = {path: len(hits(read(path))) for path in sources()}
    return {path: count for path, count in found.items() if count}


def write():
    before, now = recorded(), counts()
    risen = [path for path, count in now.items() if before and count > before.get(path, 0)]
    for path in risen:
        print("%s: %d phrases, the record allows %d" % (path, now[path], before.get(path, 0)))
    if risen:
        return 1
    with open(os.path.join(ROOT, RECORD), "w", encoding="utf-8") as file:
        file.write("# Phrases per file that docs/STYLE.md replaces. Written by tools/voice.py --write; a count may fall.\n")
        for path, count in sorted(now.items()):
            file.write("%d %s\n" % (count, path))
    return 0


def main():
    if sys.argv[1:] == ["--write"]:
        return write()
    total = {}
    for path in sources(sys.argv[1:]):
        text = read(path)
        group = total.setdefault("tests" if path.startswith(("tests/", "bench/")) else "product", [0, 0])
        group[0] += len(comments(text))
        for number, kind, words in hits(text):
            group[1] += 1
            print("%s:%d: %s: %s" % (path, number, kind, words))
    for name, (all_comments, found) in sorted(total.items()):
        print("%s: %d phrases in %d comments, %.1f per 1,000" %
              (name, found, all_comments, 1000.0 * found / max(1, all_comments)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
