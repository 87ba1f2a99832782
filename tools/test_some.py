#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs some of the tests in build/release. `make t` calls it.

    tools/test_some.py --match WORD   the tests, end-to-end files and end-to-end functions whose names contain WORD
    tools/test_some.py --diff         the fast tests that link a file which differs from HEAD, and changed Python tests
    --list                            prints the names instead

A changed header selects every object that includes it, after a first build has recorded the includes.
"""
import argparse
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / "build/release"
E2E = ROOT / "tests/e2e"


def output(*command, **options):
    return subprocess.run(command, capture_output=True, text=True, check=True, **options).stdout


def configure():
    cache = BUILD / "CMakeCache.txt"
    home = re.findall("^CMAKE_HOME_DIRECTORY:INTERNAL=(.+)", cache.read_text(), re.M) if cache.exists() else []
    here = any(os.path.exists(path) and os.path.samefile(path, ROOT) for path in home)
    if not here or not (BUILD / "CTestTestfile.cmake").exists():
        if subprocess.run(["tools/configure.sh", "-DWEFT_TESTS=ON"], cwd=ROOT, stdout=subprocess.DEVNULL).returncode != 0:
            sys.exit(1)


class Test:
    """A test of CTest: its name, labels, and the files of the build folder that its command names."""

    def __init__(self, row, command, known):
        properties = {p["name"]: p["value"] for p in row.get("properties", [])}
        self.name = row["name"]
        self.labels = properties.get("LABELS", [])
        inside = [pathlib.Path(word) for word in command]
        self.targets = [str(path.relative_to(BUILD)) for path in inside if path.is_relative_to(BUILD)]
        self.targets = [target for target in self.targets if target in known]
        self.sources = [str(path.relative_to(ROOT)) for path in inside
                        if path.is_relative_to(ROOT) and not path.is_relative_to(BUILD)]
        if "simt" in self.labels and "bin/libweft_simt.so" in known:
            self.targets.append("bin/libweft_simt.so")


def tests_read():
    lines = output("ninja", "-C", str(BUILD), "-t", "targets", "all").splitlines()
    known = {line.rsplit(":", 1)[0] for line in lines if ":" in line}
    rows = json.loads(output("ctest", "--show-only=json-v1", cwd=BUILD))["tests"]
    commands = commands_read()
    return [Test(row, commands[row["name"]], known) for row in rows]


def commands_read():
    """{test: words of its command}. CTest's JSON leaves out the commands of programs that are not built yet."""
    found = {}
    for path in BUILD.rglob("CTestTestfile.cmake"):
        for name, words in re.findall(r"^add_test\(\[=\[(.+?)\]=\] (.*)\)$", path.read_text(), re.M):
            found[name] = re.findall(r'"((?:[^"\\]|\\.)*)"', words)
    return found


def changed_files():
    names = output("git", "diff", "-z", "--name-only", "HEAD", cwd=ROOT).split("\0")
    names += output("git", "ls-files", "-z", "-o", "--exclude-standard", cwd=ROOT).split("\0")
    return set(filter(None, names))


def objects_of(files):
    """Returns the objects that were compiled from these files or include them, according to ninja."""
    paths = {str(ROOT / file) for file in files}
    paths |= {str(BUILD / f"tests/simt/cu/{pathlib.Path(file).stem}.cpp") for file in files if file.endswith(".cu")}
    found, current = set(), None
    for line in output("ninja", "-C", str(BUILD), "-t", "deps").splitlines():
        if line and not line[0].isspace() and not line.startswith("ninja:"):
            current = line.split(":", 1)[0]
        elif line.strip() in paths or str((BUILD / line.strip()).resolve()) in paths:
            found.add(current)
    return found | paths


def inputs(target):
    lines = output("ninja", "-C", str(BUILD), "-t", "inputs", target).splitlines()  # quoted for a shell
    return {word for line in lines for word in shlex.split(line)}


def symbols(file):
    lines = subprocess.run(["nm", "--defined-only", file], cwd=BUILD, capture_output=True, text=True).stdout
    return {line.split()[-1] for line in lines.splitlines() if re.search(r" [TDBRV] ", line)}


def contains(target, objects):
    """True if a program contains one of these objects: a linker omits unused members of an archive."""
    found = inputs(target) & objects
    if not found or target.endswith(".so") or not (BUILD / target).exists():
        return bool(found)
    there = symbols(target)
    return any(not (BUILD / name).exists() or symbols(name) & there for name in found if name.endswith(".o"))


def tests_linking(tests, files):
    """Returns the tests whose programs contain one of these files."""
    objects = objects_of(files)
    made_from = {target: contains(target, objects)
                 for target in {target for test in tests for target in test.targets}}
    return [test for test in tests
            if any(made_from[target] for target in test.targets) or files & set(test.sources)]


def end_to_end(matches):
    """Returns names of files and functions of tests/e2e: the file if its name matches, otherwise functions."""
    names = []
    for path in sorted(E2E.glob("test_*.py")):
        if matches(path.stem):
            names.append(path.stem)
        else:
            names += filter(matches, re.findall(r"^def (test_\w+)", path.read_text(), re.M))
    return names


def select(args):
    tests = tests_read()
    if args.diff:
        files = changed_files()
        return (tests_linking([test for test in tests if "fast" in test.labels], files),
                [pathlib.Path(file).stem for file in files if re.fullmatch(r"tests/e2e/test_\w+\.py", file)])
    matches = lambda name: args.match in name
    return [test for test in tests if matches(test.name)], end_to_end(matches)


def build(targets):
    command = ["tools/build.sh", *sorted(targets)]
    return not targets or subprocess.run(command, cwd=ROOT).returncode == 0


def main():
    parser = argparse.ArgumentParser()
    group = parser.add_mutually_exclusive_group(required=True)
    group.add_argument("--match")
    group.add_argument("--diff", action="store_true")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.match == "" and not args.list:
        sys.exit("which tests? make t T=plan runs those whose names contain plan, make t DIFF=1 those that link a changed file")
    configure()
    tests, files = select(args)
    if args.diff and not (tests or files):
        print("no fast test links a file that differs from HEAD")
        return 0
    if args.list or not (tests or files):
        print("\n".join([test.name for test in tests] + files) or "no test matches")
        return 0 if tests or files else 1
    targets = {target for test in tests for target in test.targets} | ({"e2e_programs"} if files else set())
    if not build(targets):
        return 1
    failed = False
    if tests:
        pattern = "^(%s)$" % "|".join(re.escape(test.name) for test in tests)
        failed = subprocess.run(["ctest", "-R", pattern, "-j", "4", "--output-on-failure"], cwd=BUILD).returncode != 0
    if files:
        failed |= subprocess.run(["tests/e2e/run.sh", *files], cwd=ROOT).returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
