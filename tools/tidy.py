#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the rules of the repository that a program can check, on the tracked files.

- modules include downwards only (docs/ARCHITECTURE.md); only a folder itself includes its internal.h
- files at most 800 lines, headers 200, functions 70 (CUDA 120), lines 100
- lines of pages (*.md) at most 100, except in tables and code; targets of links do not count
- banned calls, with what to use instead; no leftover markers; no absolute paths of a machine
- NULL is tested by !p; a file that a comment or a page names is tracked
- every source file is in a CMake list and starts with a paragraph that describes it
- the tag of a struct names one struct in production code
- phrases that docs/STYLE.md replaces: at most as many per file as tools/voice_counts.txt records
- no two places of production code share 20 lines; the names of tests begin with test_

Exceptions are in tools/tidy_exceptions.txt, one "rule path [name]" per line; the list may only shrink.
Prints one line per finding and exits 1 if there is any.
"""
import os
import re
import subprocess
import sys

import voice

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MAY_INCLUDE = {  # module -> modules (prefixes of paths) that it may include
    "base": ["base/"],
    "kernels": ["kernels/", "base/"],
    "runtime/grammar": ["runtime/grammar/", "base/"],
    "runtime/source": ["runtime/source/", "base/"],
    "runtime/text": ["runtime/text/", "runtime/grammar/", "runtime/source/", "base/"],
    "runtime/model": ["runtime/model/", "runtime/source/", "kernels/", "base/"],
    "cluster": ["cluster/", "runtime/model/", "kernels/", "base/"],
    "scheduler": ["scheduler/", "runtime/model/", "runtime/grammar/", "kernels/", "base/"],
    "http": ["http/", "scheduler/", "runtime/text/", "runtime/grammar/", "runtime/model/model.h",
             "base/"],
    "loadgen": ["loadgen/", "runtime/text/", "base/"],
    "cli": [""],
}
# http may include only these headers of the scheduler (contracts, no state).
HTTP_SCHEDULER = {"scheduler/port.h", "scheduler/stats.h", "scheduler/engine.h"}
BANNED = {
    r"\bstrcpy\(": "memcpy with a length", r"\bsprintf\(": "snprintf", r"\batoi\(": "strtol",
    r"\bgets\(": "fgets", r"\bstrtok\(": "strtok_r", r"\bassert\(": "check()",
    r"\balloca\(": "the arena",
}
ONLY_IN = {  # call -> the files that may make it
    r"\bgetenv\(": ["cli/options.c"],
    r"\b(malloc|calloc|realloc)\(": ["base/arena.c", "kernels/cpu/", "kernels/cuda/"],
}
SOURCE = (".c", ".h", ".cu", ".cuh", ".cpp", ".inc")
TWIN_LINES = 20  # lines of equal code in two places
COMMENT = re.compile(r'//[^\n]*|/\*.*?\*/|("(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\')', re.S)
REFERRING = (".md", ".py", ".sh", ".cmake", "CMakeLists.txt")


def tracked():
    out = subprocess.run(["git", "-C", ROOT, "ls-files"], capture_output=True, text=True, check=True)
    return [f for f in out.stdout.split("\n") if f and os.path.exists(os.path.join(ROOT, f))]


def room_of(path):
    for room in sorted(MAY_INCLUDE, key=len, reverse=True):
        if path.startswith(room + "/"):
            return room
    return None


def strip_comments(text):
    keep_lines = lambda m: re.sub(r"[^\n]", " ", m.group(0))
    pattern = r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, keep_lines, text, flags=re.S)


def functions(code):
    """Returns (name, first line, lines) of each function body that starts at column 0."""
    lines = code.split("\n")
    start, name = None, None
    for number, line in enumerate(lines):
        if line.startswith("{") and start is None:
            head = " ".join(lines[max(0, number - 6):number])
            found = re.findall(r"([A-Za-z_]\w*)\s*\(", head)
            start, name = number, found[-1] if found else "?"
            for candidate in reversed(found):
                if candidate not in ("__attribute__", "format", "__launch_bounds__"):
                    name = candidate
                    break
        elif line.startswith("}") and start is not None:
            yield name, start + 1, number - start + 1
            start = None


def check_file(path, findings):
    with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    license_line = re.match(r"// SPDX-License-Identifier: [^\n]*\n", text)
    opening = text[license_line.end():] if license_line else text
    lines = opening.count("\n")
    limit = 200 if path.endswith(".h") and not path.startswith("tests/") else 800
    if lines > limit:
        findings.append(("size", path, "", "%d lines, at most %d" % (lines, limit)))
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > 100:
            findings.append(("width", path, str(number), "line %d has %d columns" % (number, len(line))))
    room = room_of(path)
    for target in re.findall(r'^#include "([^"]+)"', text, flags=re.M):
        if room is None or "/" not in target:
            continue
        allowed = any(target.startswith(prefix) for prefix in MAY_INCLUDE[room])
        if room == "http" and target.startswith("scheduler/"):
            allowed = target in HTTP_SCHEDULER
        if target.endswith("/internal.h") and os.path.dirname(target) != os.path.dirname(path):
            allowed = False
        if not allowed:
            findings.append(("include", path, target, "may not include %s" % target))
    if not opening.startswith("//"):
        findings.append(("opening", path, "", "does not begin with a paragraph that says what it is"))
    code = strip_comments(text)
    limit = 120 if path.startswith("kernels/") or path.startswith("tests/") else 70
    for name, first, count in functions(code):
        if count > limit:
            findings.append(("function", path, name, "%s at line %d has %d lines, at most %d" %
                             (name, first, count, limit)))
    for number, line in enumerate(code.split("\n"), 1):
        if re.search(r"== NULL|if \(\w+ != NULL", line) and not path.endswith("cmocka.h"):
            findings.append(("null", path, str(number), "line %d: say !p, or p" % number))
    for name in [] if path.endswith(".h") else re.findall(r"\bcmocka_unit_test\w*\(\s*(\w+)", text):
        if not name.startswith("test_") and name != "name":
            findings.append(("name", path, name, "the test %s does not begin with test_" % name))
    if path.startswith("tests/") or path.startswith("bench/"):
        return
    for pattern, instead in BANNED.items():
        if re.search(pattern, code):
            findings.append(("banned", path, pattern, "%s: use %s" % (pattern, instead)))
    for pattern, places in ONLY_IN.items():
        if re.search(pattern, code) and not any(path.startswith(p) for p in places):
            findings.append(("banned", path, pattern, "%s belongs to %s" % (pattern, places)))
    if re.search(r"\b(TODO|FIXME|XXX)\b", text):
        findings.append(("marker", path, "", "leftover marker"))


def suffixes(path):
    parts = path.split("/")
    return {"/".join(parts[i:]) for i in range(len(parts))}


def check_references(paths, findings):
    """Source files and pages that comments and pages name exist."""
    known = set().union(*map(suffixes, paths))
    name = r"(?<![\w./*{}$-])((?:[\w-]+/)*[\w-]+\.(?:c|h|cu|cuh|inc|md|py|sh))\b(?![\w(*/])"
    for path in paths:
        if path in ("tools/tidy.py", "tools/patterns.py") or not path.endswith(SOURCE + REFERRING):
            continue
        with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
            for number, line in enumerate(file, 1):
                if path.endswith(SOURCE):
                    line = line[line.find("//"):] if "//" in line else ""
                for target in re.findall(name, line):
                    if target not in known and not target.startswith(("h2o/", "build/")) \
                            and not re.search("NAME|_x", target):
                        findings.append(("reference", path, target, "line %d names %s, which is not here"
                                         % (number, target)))


def check_listed(paths, findings):
    lists = ""
    for path in paths:
        if path.endswith("CMakeLists.txt") or path.endswith(".cmake"):
            with open(os.path.join(ROOT, path)) as file:
                lists += file.read()
    words = set(re.findall(r"[\w.]+", lists))  # "a.c", or its stem in a loop over names
    for path in paths:
        stem = os.path.splitext(os.path.basename(path))[0]
        names = {os.path.basename(path), stem, stem.removeprefix("test_")}
        if path.endswith((".c", ".cu")) and not path.startswith("tests/fuzz/") \
                and not names & words:
            findings.append(("listed", path, "", "is in no CMake list"))


def check_records(paths, findings):
    """Each decision record has a different number."""
    numbers = {}
    for path in paths:
        found = re.match(r"docs/adr/(\d{4})-", path)
        if found and numbers.setdefault(found[1], path) != path:
            findings.append(("record", path, "", "has the number of %s" % numbers[found[1]]))


def check_tags(paths, findings):
    """Each tag names one struct."""
    seen = {}
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            tags = re.findall(r"^\s*(?:typedef )?(?:struct|union|enum) (\w+) \{", strip_comments(file.read()), re.M)
        for tag in tags:
            if seen.setdefault(tag, path) != path:
                findings.append(("tag", path, tag, "%s is also in %s" % (tag, seen[tag])))


def code_lines(text):
    """Returns (line number, line without comments and extra blanks) of each line with code."""
    bare = COMMENT.sub(lambda m: m[1] or re.sub(r"[^\n]", "", m[0]), text)
    for number, line in enumerate(bare.split("\n"), 1):
        line = " ".join(line.split())
        if line and not line.startswith("#include"):
            yield number, line


def check_pages(paths, findings):
    """Lines of pages are at most 100 columns wide outside tables and code."""
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            fenced = False
            for number, line in enumerate(file, 1):
                if line.lstrip().startswith("```"):
                    fenced = not fenced
                if fenced or line.startswith(("|", "    ")):
                    continue
                width = len(re.sub(r"\]\([^)]*\)|<?https?://\S+", "]", line.rstrip("\n")))
                if width > 100:
                    findings.append(("page", path, str(number), "line %d has %d columns" % (number, width)))


def check_twins(paths, findings):
    """No two places share 20 lines of code."""
    files = []
    for path in paths:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            files.append((path, list(code_lines(file.read()))))
    seen = {}
    for path, lines in files:
        skip = 0
        for i in range(len(lines) - TWIN_LINES + 1):
            key = tuple(line for _, line in lines[i:i + TWIN_LINES])
            first = seen.setdefault(key, (path, lines, i))
            if first[1] is lines and first[2] == i or i < skip:
                continue
            other, there, j = first
            count = TWIN_LINES
            while (i + count < len(lines) and j + count < len(there)
                   and lines[i + count][1] == there[j + count][1]):
                count += 1
            skip = i + count
            findings.append(("twin", path, other, "the %d lines from %d on are those of %s:%d" %
                             (count, lines[i][0], other, there[j][0])))


def check_voice(findings):
    """No file contains more phrases that docs/STYLE.md replaces than recorded."""
    allowed = voice.recorded()
    for path, count in voice.counts().items():
        if count > allowed.get(path, 0):
            findings.append(("voice", path, "", "%d phrases that docs/STYLE.md replaces, at most %d: tools/voice.py %s"
                             % (count, allowed.get(path, 0), path)))


def main():
    paths = tracked()
    sources = [p for p in paths if p.endswith(SOURCE)]
    findings = []
    for path in sources:
        check_file(path, findings)
    check_listed(paths, findings)
    check_references(paths, findings)
    check_records(paths, findings)
    check_pages([p for p in paths if p.endswith(".md")], findings)
    production = [p for p in sources if not p.startswith(("tests/", "bench/"))]
    check_tags(production, findings)
    check_twins(production, findings)
    check_voice(findings)
    exceptions = set()
    listing = os.path.join(ROOT, "tools/tidy_exceptions.txt")
    if os.path.exists(listing):
        with open(listing) as file:
            exceptions = {tuple(line.split()) for line in file if line.strip() and line[0] != "#"}
    shown = 0
    for rule, path, name, text in findings:
        if (rule, path) in exceptions or (rule, path, name) in exceptions:
            continue
        print("%s: %s (%s)" % (path, text, rule))
        shown += 1
    print("tidy: %d files, %d findings" % (len(sources), shown))
    sys.exit(1 if shown else 0)


if __name__ == "__main__":
    main()
