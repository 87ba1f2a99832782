#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Encoding speed of weft compared with the Rust tokenizers library, one thread each, in one run.

    tools/bench_text.py BENCH TEXTFILE FOLDER...

BENCH is build/.../bin/bench_text. Both encode the file line by line and as one text, alternately, and
the best pass of each counts. The library's word cache is warm, as in a server.
"""
import json
import os
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
from tokenizers import Tokenizer  # noqa: E402  the settings must come first

SECONDS = 2.0


def measure(run, size):
    best, begin = 0.0, time.perf_counter()
    while time.perf_counter() - begin < SECONDS:
        before = time.perf_counter()
        run()
        best = max(best, size / 1e6 / (time.perf_counter() - before))
    return best


def compare(program, path, folder):
    with open(path, encoding="utf-8", newline="") as file:
        text = file.read()
    lines = text.splitlines(keepends=True)
    size = len(text.encode())
    ours = json.loads(subprocess.check_output([program, folder, path, str(SECONDS)]))
    try:
        tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    except Exception as error:  # the library raises no narrower class
        print("%s: the library cannot read it (%s); weft %s" % (folder, error, ours))
        return
    tokenizer.no_padding()
    tokenizer.no_truncation()
    by_line = measure(lambda: tokenizer.encode_batch(lines), size)
    whole = measure(lambda: tokenizer.encode(text), size)
    same = len(tokenizer.encode(text).ids) == ours["whole_tokens"]
    print("%s: open %.3f s; lines %.1f against %.1f MB/s (%.1f x); whole %.1f against %.1f MB/s "
          "(%.1f x); tokens %s" % (
              folder, ours["open_seconds"], ours["lines_mb_s"], by_line,
              ours["lines_mb_s"] / by_line, ours["whole_mb_s"], whole, ours["whole_mb_s"] / whole,
              "equal" if same else "DIFFER"))


def main():
    if len(sys.argv) < 4:
        raise SystemExit(__doc__)
    for folder in sys.argv[3:]:
        compare(sys.argv[1], sys.argv[2], folder)


if __name__ == "__main__":
    main()
