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
tests/e2e, or browser:NAME, one of tests/e2e/browser. --jobs (two for each processor, because many tests
wait): so many copies of the tree are judged in, side by side. They and their builds (preset release) stay
under build/mutants, so a second run builds only what changed. Exits 1 where a fault is missed, does not
build, or its text is gone.
"""
import argparse
import contextlib
import os
import pathlib
import re
import runpy
import signal
import subprocess
import sys
import tempfile
import time

import plant

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutants"
SECONDS = 300  # a test that takes longer counts as having found the fault
SECONDS_TWICE = 5  # a failure that comes sooner must come twice: a wall clock beside another place may fail once


def faults(words):
    for path in sorted((ROOT / "tests/mutants").glob("*.py")):
        for fault in runpy.run_path(str(path))["FAULTS"]:
            if len(fault) != 6:
                sys.exit(f"{path.name}: not six texts: {fault}")
            if not words or any(w in text for w in words for text in (path.stem, *fault)):
                yield fault


running = set()  # groups of processes, which end with this one


def end(number, _):
    for process in list(running):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    os._exit(128 + number)


def run(command, seconds=None, **more):
    """(exit status, output), both None where the time is up; the whole group of processes ends with it."""
    with tempfile.TemporaryFile() as said:  # no pipe: a server that outlives its test would keep it open
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, start_new_session=True, **more)
        running.add(process)
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            return None, None
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            running.discard(process)
        said.seek(0)
        return process.returncode, said.read().decode(errors="replace")


class Place:
    """A copy of the tree and its build, with the data beside the checkout beside it."""

    def __init__(self, folder):
        self.tree, self.build = folder / "tree", folder / "build"
        plant.copy_tree(ROOT, self.tree)
        beside = folder / "shared"
        if (ROOT.parent / "shared").exists() and not beside.is_symlink():
            beside.symlink_to((ROOT.parent / "shared").resolve())
        status, output = run(["cmake", "--preset", "release", "-B", str(self.build), "-DWEFT_TESTS=ON",
                              "-DWEFT_WARNINGS_AS_ERRORS=OFF", *plant.launchers()], cwd=self.tree)
        if status != 0:
            sys.exit(output)
        self.commands = self.read_commands()

    def read_commands(self):
        """The words of each test of CTest (asking ctest itself leaves out programs not built yet)."""
        found = {}
        for path in self.build.rglob("CTestTestfile.cmake"):
            for name, words in re.findall(r"^add_test\((?:\[=\[)?([\w.-]+)(?:\]=\])? (.*)\)$",
                                          path.read_text(), re.M):
                found[name] = re.findall(r'"([^"]*)"', words)
        return found

    def targets_of(self, test):
        if test.startswith("browser:"):
            return ["weft"]
        if test.startswith("e2e:"):
            return ["weft", "weft_faulty", "weft_faulty_cpu"]
        name = test.split()[0]
        if name not in self.commands:
            sys.exit(f"no test {name} in CTest")
        inside = [str(pathlib.Path(w).relative_to(self.build)) for w in self.commands[name]
                  if pathlib.Path(w).is_relative_to(self.build)]
        return inside or ["weft"]

    def make(self, targets, jobs):
        return run(["ninja", "-C", str(self.build), f"-j{jobs}", *targets], env=plant.shared_cache(WORK))

    def passes(self, test):
        name, *more = test.split()
        room, _, e2e = test.partition(":")
        if e2e:
            venvs = {name: os.environ.get(name, str(ROOT / "build/release" / folder)) for name, folder in
                     (("WEFT_E2E_VENV", "e2e-venv"), ("WEFT_E2E_VENV_BROWSER", "e2e-venv-browser"))}
            where = ["--browser"] if room == "browser" else []
            status, output = run([str(self.tree / "tests/e2e/run.sh"), *where, e2e], SECONDS,
                                 env={**os.environ, "WEFT_BIN": str(self.build / "bin/weft"), **venvs})
            if where and output and "\n0 passed" in "\n" + output:  # skipped: no chromium here
                return False, output
        elif more:
            status, output = run([*self.commands[name], *more], SECONDS, cwd=self.build)
        else:
            status, output = run(["ctest", "--test-dir", str(self.build), "-R", f"^{test}$",
                                  "--output-on-failure", "--timeout", str(SECONDS)])
            if "***Skipped" in output:
                return False, output
            if "***Timeout" in output:
                return False, None
        return status == 0, output

    def judge(self, fault, jobs):
        """(the verdict, the seconds it took)"""
        _, name, function, old, new, test = fault
        start = time.monotonic()
        try:
            with plant.Planted(self.tree, name, function, old, new):
                status, output = self.make(self.targets_of(test), jobs)
                if status != 0:
                    verdict = "DOES NOT BUILD: " + output[-1500:]
                else:
                    begun = time.monotonic()
                    good, output = self.passes(test)
                    if not good and time.monotonic() - begun < SECONDS_TWICE:
                        good, output = self.passes(test)
                    verdict = "MISSED" if good else "found by the time limit" if output is None else "found"
        except plant.Stale as error:
            verdict = f"STALE: {error}"
        return verdict, time.monotonic() - start


def check_clean(chosen, places, jobs):
    """Every test named must pass without a fault; otherwise its failure shows nothing. All places are built, and
    they are alike: each runs its share of the tests."""
    tests = sorted({f[5] for f in chosen})
    for place in places:
        status, output = place.make(sorted({t for test in tests for t in place.targets_of(test)}), jobs)
        if status != 0:
            sys.exit(output[-4000:])

    def failure(place):
        for test in tests[places.index(place) :: len(places)]:
            good, output = place.passes(test)
            if not good:
                return f"{(output or '')[-4000:]}\n{test} fails, is skipped or not done in time, without any fault"
        return None

    plant.must_be_clean(places, failure)


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
    parser.add_argument("--jobs", type=int, default=2 * os.cpu_count())
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
    for number in signal.SIGINT, signal.SIGTERM:
        signal.signal(number, end)
    places = [Place(WORK / str(i)) for i in range(1, min(args.jobs, len(chosen)) + 1)]
    check_clean(chosen, places, args.jobs)
    lost = 0
    each = max(1, args.jobs // len(places))
    for fault, (verdict, seconds) in plant.judged(chosen, places, lambda place, f: place.judge(f, each)):
        lost += not verdict.startswith("found")
        print(f"{fault[1]:32} {fault[0]:60} {fault[5]}: {verdict}, {seconds:.0f} s", flush=True)
    print(f"{len(chosen)} faults, {len(chosen) - lost} found, {lost} not")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
