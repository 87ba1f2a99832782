#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Changes the product's code in one place at a time and prints the changes that no test notices. For occasional use.

    tools/mutate.py --since COMMIT [PATH...]   functions of product C files that changed since COMMIT
        --max N (40)    mutants that are tested, drawn at random
        --seed S        of the draw; it is printed

universalmutator (PyPI) makes the mutants: conditions, operators, constants, deleted statements. Each is built in a copy
of the tree under build/mutate; then the fast tests run whose programs contain the file. A mutant that does not compile is
not counted. A survivor is either a missing test or a change without effect.
"""
import argparse
import difflib
import pathlib
import random
import re
import shutil
import subprocess
import sys

import test_some
import tidy

ROOT = pathlib.Path(__file__).resolve().parents[1]
WORK = ROOT / "build/mutate"
COPY = WORK / "tree"
VENV = ROOT / "build/mutate-venv"
PRODUCT = ("base/", "kernels/", "runtime/", "scheduler/", "http/", "cli/")
TEST_SECONDS = 60


def output(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def generator():
    program = VENV / "bin/mutate"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/pip", "install", "-q", "universalmutator==1.14.1"], check=True)
    return program


def changed_lines(since, paths):
    """{file: numbers of the lines of functions that changed since the commit}"""
    found, file = {}, None
    for line in output("git", "diff", "-U0", since, "--", *(paths or PRODUCT)).splitlines():
        if line.startswith("+++ "):
            file = line[6:] if line.endswith(".c") and line[6:].startswith(PRODUCT) else None
        elif file and (hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line)):
            first, count = int(hunk[1]), int(hunk[2] or 1)
            found.setdefault(file, set()).update(range(first, first + max(1, count)))
    for file, lines in found.items():
        code = tidy.strip_comments((ROOT / file).read_text())
        bodies = [range(first, first + count) for _, first, count in tidy.functions(code)]
        found[file] = {number for body in bodies if lines & set(body) for number in body}
    return {file: lines for file, lines in found.items() if lines}


def mutants_of(file, lines):
    """Texts of the file with one change each."""
    made = WORK / "mutants"
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    (WORK / "lines").write_text("".join("%d\n" % number for number in sorted(lines)))
    subprocess.run([generator(), ROOT / file, "--noCheck", "--lines", WORK / "lines", "--mutantDir", made],
                   check=True, stdout=subprocess.DEVNULL, cwd=WORK)
    return [path.read_text() for path in sorted(made.glob("*.c"))]


def copy_make():
    COPY.mkdir(parents=True, exist_ok=True)
    files = output("git", "ls-files", "-z").split("\0")
    for file in filter(lambda name: name and (ROOT / name).is_file(), files):
        there = COPY / file
        if not there.exists() or there.read_bytes() != (ROOT / file).read_bytes():
            there.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, there)
    subprocess.run(["git", "init", "-q"], cwd=COPY, check=True)
    (COPY / "build").mkdir(exist_ok=True)
    if (ROOT / "build/deps").exists() and not (COPY / "build/deps").exists():  # a libh2o that tools/deps.sh unpacked
        (COPY / "build/deps").symlink_to(ROOT / "build/deps")
    subprocess.run(["cmake", "--preset", "release", "-DWEFT_TESTS=ON"], cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", "build/release", "fast_tests"], cwd=COPY, check=True, stdout=subprocess.DEVNULL)
    test_some.ROOT, test_some.BUILD = COPY, COPY / "build/release"


def verdict(file, text, tests):
    """"survives", "found", or "does not compile"."""
    original = (COPY / file).read_text()
    (COPY / file).write_text(text)
    try:
        targets = {target for test in tests for target in test.targets}
        if subprocess.run(["ninja", "-C", "build/release", *targets], cwd=COPY, capture_output=True).returncode:
            return "does not compile"
        pattern = "^(%s)$" % "|".join(re.escape(test.name) for test in tests)
        done = subprocess.run(["ctest", "-R", pattern, "-j", "2", "--timeout", str(TEST_SECONDS), "--stop-on-failure"],
                              cwd=COPY / "build/release", capture_output=True)
        return "found" if done.returncode else "survives"
    finally:
        (COPY / file).write_text(original)


def difference(file, text):
    old, new = (ROOT / file).read_text().splitlines(), text.splitlines()
    for tag, a, b, c, d in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            short = lambda lines: " ".join(line.strip() for line in lines)
            return "%s:%d: %s  ->  %s" % (file, a + 1, short(old[a:b]), short(new[c:d]))
    return "%s: no difference" % file


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--since", required=True)
    parser.add_argument("--max", type=int, default=40)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("paths", nargs="*")
    args = parser.parse_args()
    WORK.mkdir(parents=True, exist_ok=True)
    mutants = [(file, text) for file, lines in sorted(changed_lines(args.since, args.paths).items())
               for text in mutants_of(file, lines)]
    print("%d mutants, seed %d" % (len(mutants), args.seed), flush=True)
    random.Random(args.seed).shuffle(mutants)
    copy_make()
    counts, tests = {}, {}
    for file, text in mutants:
        if counts.get("found", 0) + counts.get("survives", 0) >= args.max:
            break
        if file not in tests:
            fast = [test for test in test_some.tests_read() if "fast" in test.labels]
            tests[file] = test_some.tests_linking(fast, {file})
        result = verdict(file, text, tests[file]) if tests[file] else "survives"
        counts[result] = counts.get(result, 0) + 1
        if result == "survives":
            print(difference(file, text), flush=True)
    print("%d found, %d survive, %d do not compile" %
          tuple(counts.get(name, 0) for name in ("found", "survives", "does not compile")))


if __name__ == "__main__":
    main()
