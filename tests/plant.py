"""Planting faults, for tests/mutants.py, tests/sim/mutate.py, tests/simt/mutants.py and tests/ptx/mutants.py.

A fault is anchored to a function (a table, a macro): its text is looked for in that body only, with
white space left out of account, and must stand there exactly once. Where the file has lost the
function, the rest of its room is looked through, so that moving a function between files does not invalidate its faults.
"""
import concurrent.futures
import os
import pathlib
import queue
import re
import shutil
import subprocess


class Stale(Exception):
    """The text of a fault is no longer where its list says."""


def bodies(text, name):
    """(from, to) of every definition of `name`: a function, a table, a struct, a macro."""
    word = re.compile(rf"\b{re.escape(name)}\b")
    lines = text.split("\n")
    at, number = 0, 0
    starts = []
    for line in lines:
        starts.append(at)
        at += len(line) + 1
    while number < len(lines):
        line = lines[number]
        first = number
        number += 1
        if not line[:1].strip() or line.startswith(("//", "/*", "*")) or not word.search(line):
            continue
        if line.startswith("}") and not line.endswith("{"):  # "} table[] = {" begins one
            continue
        if line.startswith("#define"):
            while lines[number - 1].endswith("\\"):
                number += 1
            yield starts[first], starts[number - 1] + len(lines[number - 1])
            continue
        if line.startswith("#"):
            continue
        last = first  # the head ends at "{" or ";", the body at a "}" in the first column
        while last < len(lines) - 1 and not re.search(r"[{;]\s*(//.*)?$", lines[last]):
            last += 1
        opened = "{" in " ".join(lines[first:last + 1])
        if not opened:
            continue
        if not re.search(r"\}[;,]?\s*(//.*)?$", lines[last]):
            last += 1
            while last < len(lines) - 1 and not lines[last].startswith("}"):
                last += 1
        yield starts[first], starts[last] + len(lines[last])
        number = last + 1


def compact(text, start, end):
    places = [i for i in range(start, end) if not text[i].isspace()]
    return "".join(text[i] for i in places), places


def spots(text, function, old):
    """(from, to) of every place of `old` in the bodies of `function` ("": in the whole file)."""
    wanted = "".join(old.split())
    found = []
    for start, end in bodies(text, function) if function else [(0, len(text))]:
        body, places = compact(text, start, end)
        at = body.find(wanted)
        while at >= 0:
            found.append((places[at], places[at + len(wanted) - 1] + 1))
            at = body.find(wanted, at + 1)
    return found


def candidates(tree, name):
    yield tree / name
    room = pathlib.PurePath(name).parts[0]
    for path in sorted((tree / room).rglob("*")):
        if path.suffix in (".c", ".h", ".cu", ".inc", ".cuh") and path != tree / name:
            yield path


def locate(tree, name, function, old):
    """(path, text, from, to) of the one place of the fault in the tree."""
    first = True
    for path in candidates(tree, name):
        text = path.read_text() if path.exists() else ""
        found = spots(text, function, old)
        if len(found) == 1:
            return path, text, *found[0]
        if found and first:
            raise Stale(f"its text stands {len(found)} times in {function or name}")
        first = False
        if not function:
            break
    raise Stale(f"its text stands no longer in {function or name}")


def part_of(faults, part):
    """Every n-th fault for part "i/n", so that parts take about as long; all of them for ""."""
    if not part:
        return faults
    number, count = map(int, part.split("/"))
    if not 1 <= number <= count:
        raise SystemExit(f"--part {part}: 1/{count} to {count}/{count}")
    return faults[number - 1::count]


def judged(faults, places, judge):
    """(fault, what judge(place, fault) returns), in the order of the list. Each place, a tree with a build of
    its own, judges one fault at a time, all places side by side."""
    free = queue.SimpleQueue()
    for place in places:
        free.put(place)

    def one(fault):
        place = free.get()
        try:
            return judge(place, fault)
        finally:
            free.put(place)

    pool = concurrent.futures.ThreadPoolExecutor(len(places))
    try:
        yield from zip(faults, pool.map(one, faults))
    finally:
        pool.shutdown(cancel_futures=True)


def must_be_clean(places, failure):
    """Ends where failure(place) says what fails without a fault: in each place, all of them side by side."""
    with concurrent.futures.ThreadPoolExecutor(len(places)) as pool:
        for failed in filter(None, list(pool.map(failure, places))):
            raise SystemExit(failed)


def launchers():
    """Options of CMake that put a compiler cache before the compilers, where there is one."""
    cache = shutil.which("ccache")
    return [f"-DCMAKE_{x}_COMPILER_LAUNCHER={cache}" for x in ("C", "CXX")] if cache else []


def shared_cache(folder):
    """The environment in which that cache takes equal sources in the places under `folder` for the same."""
    return {**os.environ, "CCACHE_BASEDIR": str(folder), "CCACHE_NOHASHDIR": "1"}


class Planted:
    """with Planted(tree, file, function, old, new): the fault is in the tree inside the block."""

    def __init__(self, tree, name, function, old, new):
        self.tree, self.fault, self.new = tree, (name, function, old), new

    def __enter__(self):
        self.path, self.good, start, end = locate(self.tree, *self.fault)
        new = self.new.rstrip("\n") if "//" in self.new else self.new.strip()
        self.path.write_text(self.good[:start] + new + self.good[end:])
        return self

    def __exit__(self, *_):
        self.path.write_text(self.good)


def copy_tree(root, tree, parts=("",)):
    """The files that git tracks or would track, as they are now, of these folders. What is unchanged
    is left alone: its date tells a build that it is older, or newer than what was made of a fault."""
    listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                            check=True, capture_output=True, text=True).stdout.split("\0")
    wanted = {f for f in listed if f.startswith(tuple(parts)) and (root / f).is_file()}
    for path in sorted(tree.rglob("*")) if tree.exists() else ():
        if path.is_file() and str(path.relative_to(tree)) not in wanted:
            path.unlink()
    for name in wanted:
        source, copy = root / name, tree / name
        if copy.exists() and copy.stat().st_size == source.stat().st_size \
                and copy.read_bytes() == source.read_bytes():
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.unlink(missing_ok=True)
        shutil.copy(source, copy)  # with the date of now: what depends on it is built again
