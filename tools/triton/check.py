#!/usr/bin/env python3
"""Validates the interpreter of PTX (tests/ptx) by somebody else's compiler: Triton programs of our own (programs.py)
are compiled for sm_80, which needs no GPU, run by the interpreter at several shapes and compared with float64.

  tools/triton/check.py --program PTX_RUN [--venv FOLDER]      runs all; exits 1 where a result is wrong
  tools/triton/check.py --program PTX_RUN --check              the same, and docs/CUDA.md must say what was seen
  tools/triton/check.py --program PTX_RUN --write              writes the table of docs/CUDA.md anew
  tools/triton/check.py --program PTX_RUN --rows [--write]     without Triton: the table has each row that there is

Triton comes from PyPI into a virtual environment (build/triton-venv); where it cannot be had, one line says so.
An opcode counts as validated where a program issued it and every element of its result lies within its bound.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import sys
import tempfile

TRITON, NUMPY = "3.5.1", "2.2.6"
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/CUDA.md"
FAMILIES = {"ld": ("global", "shared", "param", "local"), "st": ("global", "shared", "local")}


# --- the table of docs/CUDA.md

def row_name(row, shape, written=None):
    """How the table calls a row: mov has several shapes, loads and stores have spaces."""
    if row in FAMILIES and written:
        return "%s.%s" % (row, next((s for s in FAMILIES[row] if s in written.split(".")), "generic"))
    packs = {"w22": " of two", "d44": " of two", "hh4": " into two", "ww8": " into two"}
    return row + (packs.get(shape, "") if row.startswith("mov.") else "")


def rows_of(program):
    """Each name once, in the interpreter's order."""
    out = subprocess.run([program, "--rows"], stdout=subprocess.PIPE, text=True, check=True).stdout
    names = {}
    for line in out.splitlines():
        row, shape = line.split()
        for name in ["%s.%s" % (row, space) for space in FAMILIES[row]] if row in FAMILIES else [row_name(row, shape)]:
            names[name] = True
    return list(names)


def table(rows, validated):
    """A line for each first word of an opcode, and what comes after it by who validated it."""
    words = collections.OrderedDict()
    for name in rows:
        base, _, rest = name.partition(".")
        words.setdefault(base, ([], []))[name not in validated].append("." + rest if rest else base)
    cell = lambda names: " ".join("`%s`" % n for n in names)
    lines = ["| opcode | by Triton | by the manual alone |", "| --- | --- | --- |"]
    lines += ["| `%s` | %s | %s |" % (base, cell(ours), cell(others)) for base, (ours, others) in words.items()]
    return "\n".join(lines)


def table_names(text):
    """(all names, those under Triton) of a table."""
    every, validated = set(), set()
    for line in text.splitlines()[2:]:
        base, ours, others = re.fullmatch(r"\| `(.*?)` \| (.*) \| (.*) \|", line).groups()
        for cell, sets in ((ours, (every, validated)), (others, (every,))):
            for rest in re.findall(r"`(.*?)`", cell):
                for names in sets:
                    names.add(base + rest if rest.startswith(".") else base)
    return every, validated


def place(name):
    return re.compile(r"(?<=<!-- table %s -->\n)(.*?)(?=\n<!-- end -->)" % name, re.S)


def table_settle(name, wanted, write, remedy):
    """Writes the table of docs/CUDA.md, or exits where it is another one."""
    text = PAGE.read_text()
    if write:
        PAGE.write_text(place(name).sub(lambda _: wanted, text))
    elif place(name).search(text).group(1) != wanted:
        sys.exit("docs/CUDA.md: the table of %s is not what was seen: %s" % (name, remedy))


def page_rows(program, write):
    """Exits where the page lacks a row of the interpreter or has one too many; writes it as not validated."""
    every, validated = table_names(place("opcodes").search(PAGE.read_text()).group(1))
    rows = set(rows_of(program))
    if write:
        page_settle(program, validated, True)
    elif every != rows:
        sys.exit("docs/CUDA.md: the table of opcodes lacks %s and has %s too many: tools/triton/check.py --rows --write"
                 % (sorted(rows - every), sorted(every - rows)))


def page_settle(program, validated, write):
    table_settle("opcodes", table(rows_of(program), validated), write, "tools/triton/check.py --write")


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
    if options.rows:
        return page_rows(options.program, options.write)
    if not options.inside:
        environment(options.venv)
    import cases
    with tempfile.TemporaryDirectory() as folder:
        wrong, seen = cases.run(options.program, options.keep or pathlib.Path(folder), options.words)
    validated = {row_name(*row) for row in seen}
    print("%d of %d opcodes were issued by programs that came out right" % (len(validated), len(rows_of(options.program))))
    if wrong:
        sys.exit("wrong: " + ", ".join(wrong))
    if options.check or options.write:
        page_settle(options.program, validated, options.write)


if __name__ == "__main__":
    main()
