#!/usr/bin/env python3
"""Plants faults into the rooms http, runtime, cli and kernels/cpu, one at a time, in a copy of the tree,
and runs the one test that must find each.

  tests/mutants.py [--jobs N] [--part I/N] [--list] [WORDS...]     WORDS: only faults that have one of
                                                       them anywhere; --part: every N-th from the I-th
  tests/mutants.py --stand                             checks that the texts of all lists are in the sources (CTest)

The lists stand in tests/mutants/, one file a room, one fault a line, sorted by file:

  (what, file, function, old text, new text, test)

`function`: the function, table or macro whose body holds the old text exactly once (white space does
not count); "" is the whole file. `test`: a name of CTest, or e2e:NAME, a file or function of
tests/e2e, or browser:NAME, one of tests/e2e/browser. The copy and its build (preset release) stay under build/mutants, so a second run builds
only what changed. Exits 1 where a fault is missed, does not build, or its text is gone.
"""
import argparse
import contextlib
import os
import pathlib
import re
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import plant

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutants"
TREE, BUILD = WORK / "tree", WORK / "build"
SECONDS = 300  # a test that takes longer counts as having found the fault


def faults(words):
    for path in sorted((ROOT / "tests/mutants").glob("*.py")):
        for fault in runpy.run_path(str(path))["FAULTS"]:
            if len(fault) != 6:
                sys.exit(f"{path.name}: not six texts: {fault}")
            if not words or any(w in text for w in words for text in (path.stem, *fault)):
                yield fault


def run(command, seconds=None, **more):
    """(exit status, output), both None where the time is up; the whole group of processes ends with it."""
    with tempfile.TemporaryFile() as said:  # no pipe: a server that outlives its test would keep it open
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True, **more)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said.seek(0)
        return process.returncode, said.read().decode(errors="replace")


def prepare():
    plant.copy_tree(ROOT, TREE)
    beside = WORK / "shared"  # data beside the checkout
    if (ROOT.parent / "shared").exists() and not beside.is_symlink():
        beside.symlink_to((ROOT.parent / "shared").resolve())
    cache = shutil.which("ccache")
    launcher = [f"-DCMAKE_{x}_COMPILER_LAUNCHER={cache}" for x in ("C", "CXX")] if cache else []
    status, output = run(["cmake", "--preset", "release", "-B", str(BUILD), "-DWEFT_TESTS=ON",
                          "-DWEFT_WARNINGS_AS_ERRORS=OFF", *launcher], cwd=TREE)
    if status != 0:
        sys.exit(output)


def commands():
    """The words of each test of CTest (asking ctest itself leaves out programs not built yet)."""
    found = {}
    for path in BUILD.rglob("CTestTestfile.cmake"):
        for name, words in re.findall(r"^add_test\((?:\[=\[)?([\w.-]+)(?:\]=\])? (.*)\)$",
                                      path.read_text(), re.M):
            found[name] = re.findall(r'"([^"]*)"', words)
    return found


def targets_of(test, known):
    if test.startswith("browser:"):
        return ["weft"]
    if test.startswith("e2e:"):
        return ["weft", "weft_faulty", "weft_faulty_cpu"]
    name = test.split()[0]
    if name not in known:
        sys.exit(f"no test {name} in CTest")
    inside = [str(pathlib.Path(w).relative_to(BUILD)) for w in known[name]
              if pathlib.Path(w).is_relative_to(BUILD)]
    return inside or ["weft"]


def build(targets, jobs):
    return run(["ninja", "-C", str(BUILD), f"-j{jobs}", *targets])


def passes(test, known):
    name, *more = test.split()
    room, _, e2e = test.partition(":")
    if e2e:
        venvs = {name: os.environ.get(name, str(ROOT / "build/release" / folder)) for name, folder in
                 (("WEFT_E2E_VENV", "e2e-venv"), ("WEFT_E2E_VENV_BROWSER", "e2e-venv-browser"))}
        where = ["--browser"] if room == "browser" else []
        status, output = run([str(TREE / "tests/e2e/run.sh"), *where, e2e], SECONDS,
                             env={**os.environ, "WEFT_BIN": str(BUILD / "bin/weft"), **venvs})
        if where and output and "\n0 passed" in "\n" + output:  # skipped: no chromium here
            return False, output
    elif more:
        status, output = run([*known[name], *more], SECONDS, cwd=BUILD)
    else:
        status, output = run(["ctest", "--test-dir", str(BUILD), "-R", f"^{test}$",
                              "--output-on-failure", "--timeout", str(SECONDS)])
        if "***Skipped" in output:
            return False, output
        if "***Timeout" in output:
            return False, None
    return status == 0, output


def check_clean(chosen, known, jobs):
    """Every test named must pass without a fault; otherwise its failure shows nothing."""
    tests = sorted({f[5] for f in chosen})
    status, output = build(sorted({t for test in tests for t in targets_of(test, known)}), jobs)
    if status != 0:
        sys.exit(output[-4000:])
    for test in tests:
        good, output = passes(test, known)
        if not good:
            sys.exit(f"{(output or '')[-4000:]}\n{test} fails, is skipped or not done in time, without any fault")


def judge(fault, known, jobs):
    _, name, function, old, new, test = fault
    try:
        with plant.Planted(TREE, name, function, old, new):
            status, output = build(targets_of(test, known), jobs)
            if status != 0:
                return "DOES NOT BUILD: " + output[-1500:]
            good, output = passes(test, known)
            return "MISSED" if good else "found by the time limit" if output is None else "found"
    except plant.Stale as error:
        return f"STALE: {error}"


def stand():
    """Names the faults of all lists whose text is no longer in this tree."""
    every = [f[:4] for f in faults([])]
    for script, name in (("tests/sim/mutate.py", "FAULTS"), ("tests/simt/mutants.py", "MUTANTS"),
                         ("tests/ptx/mutants.py", "MUTANTS")):
        every += [f[:4] for f in runpy.run_path(str(ROOT / script))[name]]
    lost = 0
    for what, name, function, old in every:
        try:
            plant.locate(ROOT, name, function, old)
        except plant.Stale as error:
            print(f"{name}: {what}: {error}")
            lost += 1
    print(f"{len(every)} faults, the texts of {lost} are gone")
    return 1 if lost else 0


def main():
    parser = argparse.ArgumentParser(usage="tests/mutants.py [--jobs N] [--part I/N] [--list|--stand] [WORDS...]")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--part", default="", help="I/N: every N-th fault from the I-th")
    parser.add_argument("--list", action="store_true", help="show the faults, plant none")
    parser.add_argument("--stand", action="store_true", help="look for the texts only")
    parser.add_argument("words", nargs="*")
    args = parser.parse_args()
    if args.stand:
        return stand()
    chosen = plant.part_of(list(faults(args.words)), args.part)
    if args.list:
        for fault in chosen:
            print(f"{fault[1]:32} {fault[0]:60} {fault[5]}")
        return 0
    if not chosen:
        sys.exit("no fault has these words")
    prepare()
    known = commands()
    check_clean(chosen, known, args.jobs)
    lost = 0
    for fault in chosen:
        start = time.monotonic()
        verdict = judge(fault, known, args.jobs)
        lost += not verdict.startswith("found")
        print(f"{fault[1]:32} {fault[0]:60} {fault[5]}: {verdict}, {time.monotonic() - start:.0f} s",
              flush=True)
    print(f"{len(chosen)} faults, {len(chosen) - lost} found, {lost} not")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
