#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds a line with the license (SPDX) to each source file, or checks that it is present.

  tools/spdx.py --write scripts    Python, shell, CMake, Makefile, workflow and CI files
  tools/spdx.py --write code       C, CUDA, C++, JavaScript and style sheets
  tools/spdx.py --check [scripts] [code]    prints the files without the line and exits 1; default: both

The line is the first of a file, or the second after `#!`. The programs of this repository that
generate files write the line themselves.
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
TAG = "SPDX-License-Identifier: "
LICENSES = {"runtime/text/tokenizer/unicode_tables.c": "Apache-2.0 AND Unicode-3.0"}
KINDS = {
    "scripts": r"\.(py|sh|cmake|yml)$|(^|/)(CMakeLists\.txt|Makefile)$|^\.ci/run$",
    "code": r"\.(c|h|cu|cuh|cpp|inc|js|css)$",
}
# tools/triton/check.py hashes these two files: a changed line would require a run of all programs.
SKIPPED = ("tools/triton/programs.py", "tools/triton/cases.py")


def tracked(kind):
    listed = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    return [path for path in listed.stdout.splitlines()
            if re.search(KINDS[kind], path) and path not in SKIPPED and os.path.isfile(ROOT / path)]


def line_for(path):
    words = TAG + LICENSES.get(path, "Apache-2.0")
    if path.endswith(".css"):
        return "/* %s */\n" % words
    return "%s %s\n" % ("//" if re.search(KINDS["code"], path) else "#", words)


def has_line(text):
    return any(TAG in line for line in text.split("\n")[:2])


def put(path):
    text = (ROOT / path).read_text()
    if has_line(text):
        return False
    at = text.index("\n") + 1 if text.startswith("#!") else 0
    (ROOT / path).write_text(text[:at] + line_for(path) + text[at:])
    return True


def main():
    mode, kinds = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if mode not in ("--write", "--check") or set(kinds) - set(KINDS) or (mode == "--write" and not kinds):
        sys.exit(__doc__)
    paths = [path for kind in kinds or sorted(KINDS) for path in tracked(kind)]
    if mode == "--write":
        print("spdx: %d files changed" % sum(map(put, paths)))
        return 0
    missing = [path for path in paths if not has_line((ROOT / path).read_text())]
    for path in missing:
        print("%s: has no line with %s" % (path, TAG.strip()))
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
