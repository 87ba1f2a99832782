#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Validates the PTX interpreter (tests/ptx) with an independent compiler: the Triton programs of programs.py are compiled
for sm_80, which needs no GPU, run by the interpreter for several shapes and compared with float64.

  tools/triton/check.py --program PTX_RUN [--venv FOLDER]      runs all; exits 1 if a result is wrong
  tools/triton/check.py --program PTX_RUN --check              the same, and checks the table of tests/ptx/README.md
  tools/triton/check.py --program PTX_RUN --write              rewrites the table of tests/ptx/README.md
  tools/triton/check.py --program PTX_RUN --rows [--write]     without Triton: checks that the table contains each row, and
                                                               that its validations are those of the last full run

Triton is installed from PyPI into a virtual environment (build/triton-venv); if that fails, one line reports it. A row of
the interpreter's table (an opcode with the shape of its operands; for loads and stores also space, vector and type)
counts as validated if a program issued it and every element of the program's result is within its bound.
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
# Names that distinguish several rows of one opcode.
SHAPES = {"w22": "of two", "d44": "of two", "hh4": "into two", "ww8": "into two", "4": "", "44": "of some warps",
          "w4": "", "d8": "", "aaA": "of 4", "aaB": "of 8", "aaC": "of 16", "aaA4": "of up to 4", "aaB4": "of up to 8",
          "aaC4": "of up to 16"}


# --- the tables of the pages

def names_of(program):
    """Returns {(opcode, shape): name in the table} of each row, in the interpreter's order; names are unique."""
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
    """Returns a hash of the programs and the rows they validated: a change of either requires a full run."""
    digest = hashlib.sha256()
    for name in ("programs.py", "cases.py"):
        digest.update((pathlib.Path(__file__).parent / name).read_bytes())
    digest.update("\n".join([TRITON, *sorted(validated)]).encode())
    return "<!-- seen by check.py --write: %s -->" % digest.hexdigest()[:16]


def table(rows, validated):
    """Returns the table: a line per first word of an opcode (first two if the second is an address space), with the
    endings grouped by how they were validated."""
    words = collections.OrderedDict()
    for name in rows:
        base = re.match(r"(ld|st|atom)\.(global|shared|local|param)|\w+", name).group()
        words.setdefault(base, ([], []))[name not in validated].append(name[len(base):] or base)
    cell = lambda names: " ".join("`%s`" % n for n in names)
    lines = [seal(validated), "| opcode | by Triton | by the manual alone |", "| --- | --- | --- |"]
    lines += ["| `%s` | %s | %s |" % (base, cell(ours), cell(others)) for base, (ours, others) in words.items()]
    return "\n".join(lines)


def table_names(text):
    """Returns (all names, those validated by Triton) of a table."""
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
    """Writes a table to its page, or exits if the page contains a different one."""
    page = ROOT / PAGES[name]
    text = page.read_text()
    if write:
        page.write_text(place(name).sub(lambda _: wanted, text))
    elif place(name).search(text).group(1) != wanted:
        sys.exit("%s: the table of %s is not what was seen: %s" % (PAGES[name], name, remedy))


def page_rows(program, write):
    """Exits if the page lacks a row of the interpreter, has an extra one, or marks a row as validated that the last full
    run did not validate; writes new rows as not validated."""
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
    """Runs this script again with a Python that has Triton; installs it if necessary."""
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
