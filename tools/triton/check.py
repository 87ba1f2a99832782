#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates the interpreter of PTX (tests/ptx) by somebody else's compiler: Triton programs of our own (programs.py)
are compiled for sm_80, which needs no GPU, run by the interpreter at several shapes and compared with float64.

  tools/triton/check.py --program PTX_RUN [--venv FOLDER]      runs all; exits 1 where a result is wrong
  tools/triton/check.py --program PTX_RUN --check              the same, and tests/ptx/README.md must say what was seen
  tools/triton/check.py --program PTX_RUN --write              writes the table of tests/ptx/README.md anew
  tools/triton/check.py --program PTX_RUN --rows [--write]     without Triton: the table has each row that there is, and
                                                               who validated it is what the last run of all wrote

Triton comes from PyPI into a virtual environment (build/triton-venv); where it cannot be had, one line says so.
A row of the interpreter's table (an opcode with the shape of its operands, and of loads and stores with space, vector
and type) counts as validated where a program issued it and every element of its result lies within its bound.
"""
import argparse
import collections
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TRITON, NUMPY = "3.5.1", "2.2.6"
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = {"opcodes": "tests/ptx/README.md", "counts": "bench/gpu_predictions.md"}  # by table
# What tells the rows of one opcode apart, where it has several.
SHAPES = {"w22": "of two", "d44": "of two", "hh4": "into two", "ww8": "into two", "4": "", "44": "of some warps",
          "w4": "", "d8": "", "aaA": "of 4", "aaB": "of 8", "aaC": "of 16", "aaA4": "of up to 4", "aaB4": "of up to 8",
          "aaC4": "of up to 16"}


# --- the tables of the pages

def names_of(program):
    """{(opcode, shape): its name in the table} of each row, in the interpreter's order; no two have one name."""
    out = subprocess.run([program, "--rows"], stdout=subprocess.PIPE, text=True, check=True).stdout
    rows = [tuple(line.split()) for line in out.splitlines()]
    several = collections.Counter(opcode for opcode, _ in rows)
    names = {(opcode, shape): ("%s %s" % (opcode, SHAPES.get(shape, shape)) if several[opcode] > 1 else opcode).strip()
             for opcode, shape in rows}
    if len(set(names.values())) != len(rows):
        sys.exit("rows of the interpreter's table have one name: %s" %
                 collections.Counter(names.values()).most_common(3))
    return names


def seal(validated):
    """Of the programs and of what they validated: nobody moves a row, or changes a program, without a run of all."""
    digest = hashlib.sha256()
    for name in ("programs.py", "cases.py"):
        digest.update((pathlib.Path(__file__).parent / name).read_bytes())
    digest.update("\n".join([TRITON, *sorted(validated)]).encode())
    return "<!-- seen by check.py --write: %s -->" % digest.hexdigest()[:16]


def table(rows, validated):
    """A line for each first word of an opcode, or its first two where the second is a space, and what comes after by who
    validated it."""
    words = collections.OrderedDict()
    for name in rows:
        base = re.match(r"(ld|st|atom)\.(global|shared|local|param)|\w+", name).group()
        words.setdefault(base, ([], []))[name not in validated].append(name[len(base):] or base)
    cell = lambda names: " ".join("`%s`" % n for n in names)
    lines = [seal(validated), "| opcode | by Triton | by the manual alone |", "| --- | --- | --- |"]
    lines += ["| `%s` | %s | %s |" % (base, cell(ours), cell(others)) for base, (ours, others) in words.items()]
    return "\n".join(lines)


def table_names(text):
    """(all names, those under Triton) of a table."""
    every, validated = set(), set()
    for line in text.splitlines()[3:]:
        base, ours, others = re.fullmatch(r"\| `(.*?)` \| (.*) \| (.*) \|", line).groups()
        for cell, sets in ((ours, (every, validated)), (others, (every,))):
            for rest in re.findall(r"`(.*?)`", cell):
                for names in sets:
                    names.add(base + rest if rest.startswith(".") else base)
    return every, validated


def place(name):
    return re.compile(r"(?<=<!-- table %s -->\n)(.*?)(?=\n<!-- end -->)" % name, re.S)


def table_settle(name, wanted, write, remedy):
    """Writes a table of its page, or exits if the page has another one."""
    page = ROOT / PAGES[name]
    text = page.read_text()
    if write:
        page.write_text(place(name).sub(lambda _: wanted, text))
    elif place(name).search(text).group(1) != wanted:
        sys.exit("%s: the table of %s is not what was seen: %s" % (PAGES[name], name, remedy))


def page_rows(program, write):
    """Exits where the page lacks a row of the interpreter, has one too many, or says that Triton validated what the last
    run of all did not see; writes new rows as not validated."""
    text = place("opcodes").search((ROOT / PAGES["opcodes"]).read_text()).group(1)
    every, validated = table_names(text)
    rows = set(names_of(program).values())
    if text.splitlines()[0] != seal(validated):
        sys.exit("tests/ptx/README.md: who validated an opcode, or tools/triton, is not what was run: tools/triton/check.py --write")
    if write:
        page_settle(program, validated, True)
    elif every != rows:
        sys.exit("tests/ptx/README.md: the table of opcodes lacks %s and has %s too many: tools/triton/check.py --rows --write"
                 % (sorted(rows - every), sorted(every - rows)))


def page_settle(program, validated, write):
    rows = names_of(program).values()
    table_settle("opcodes", table(rows, validated & set(rows)), write, "tools/triton/check.py --write")


# --- the environment

def environment(venv):
    """Runs this script again by the Python that has Triton, which it installs if need be."""
    python = venv / "bin/python"
    want = "import triton, numpy; raise SystemExit(triton.__version__ != %r)" % TRITON
    if not python.exists() or subprocess.run([python, "-c", want], stderr=subprocess.DEVNULL).returncode != 0:
        made = subprocess.run([sys.executable, "-m", "venv", venv]).returncode == 0
        wants = ["triton==" + TRITON, "numpy==" + NUMPY]
        if not made or subprocess.run([python, "-m", "pip", "install", "-q", *wants]).returncode != 0:
            print("triton: skipped: triton %s cannot be had from PyPI here" % TRITON)
            sys.exit(0)
    os.execv(python, [python, __file__, *sys.argv[1:], "--inside"])


def main():
    ask = argparse.ArgumentParser()
    ask.add_argument("--program", required=True)
    ask.add_argument("--venv", type=pathlib.Path, default=ROOT / "build/triton-venv")
    ask.add_argument("--words", default="", help="only cases whose name has these")
    ask.add_argument("--keep", type=pathlib.Path, help="leave the PTX in this folder")
    for flag in ("check", "write", "rows", "inside"):
        ask.add_argument("--" + flag, action="store_true")
    options = ask.parse_args()
    if options.words and (options.check or options.write):
        ask.error("--check and --write want all cases")
    if options.rows:
        return page_rows(options.program, options.write)
    if not options.inside:
        environment(options.venv)
    import cases
    with tempfile.TemporaryDirectory() as folder:
        wrong, seen = cases.run(options.program, options.keep or pathlib.Path(folder), options.words)
    names = names_of(options.program)
    validated = {names[row] for row in seen}
    print("%d of %d rows were issued by programs that came out right" % (len(validated), len(names)))
    if wrong:
        sys.exit("wrong: " + ", ".join(wrong))
    if options.check or options.write:
        page_settle(options.program, validated, options.write)


if __name__ == "__main__":
    main()
