# SPDX-License-Identifier: Apache-2.0
"""Runs every test_* function of every test_*.py beside it and prints one closing line.

  run.py [NAMES...]                names of files or functions; without them all
  run.py --full [NAMES...]         the full level: without names the tests that are longer there or run only there
  run.py --soak [NAMES...]         the same for the level of `make soak`
  run.py --older [NAMES...]        only what also runs with the clients' older major versions (OLDER)
  run.py --frameworks [NAMES...]   the files in frameworks/
  run.py --browser [NAMES...]      the files in browser/

Without names WORKERS processes with servers of their own run a file at a time each; named tests run in one process.
WEFT_E2E_DURATIONS=N prints the N slowest tests and files: elapsed and processor seconds.

If WEFT_OLDER_PYTHON names a Python with the older clients, --older follows there, and its counts are added. A
test that raises harness.Skip is skipped, any other exception fails it.
"""

import contextlib
import gc
import importlib
import itertools
import multiprocessing
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import traceback

import harness

OUTCOMES = ("passed", "failed", "skipped")
HERE = pathlib.Path(__file__).parent
CLIENTS = ("openai", "anthropic", "cohere", "httpx", "jsonschema", "tokenizers", "hypothesis", "schemathesis",
           "openapi_spec_validator", "yaml")
WORKERS = 3  # on two processors: many tests wait
# Begun first, in this order: a long file that begins last runs alone.
LONGEST = ("test_simt", "test_ranks", "test_hub", "test_flood", "test_edges", "test_openapi", "test_copies", "test_panels")
# Files and functions: each kind of call of each client at least once.
OLDER = {"test_openai", "test_responses", "test_anthropic", "test_cohere", "test_tools", "test_anthropic_tools", "test_async",
         "test_agents", "test_retries", "test_parse_whole", "test_parse_streamed", "test_anthropic_structured"}


def collect(folder, wanted):
    gc.disable()  # what is imported stays
    for path in sorted(folder.glob("test_*.py")):
        try:
            module = importlib.import_module(path.stem)
        except ModuleNotFoundError as error:
            if error.name in CLIENTS:
                yield f"{path.stem}", None, f"no module {error.name}"
                continue
            raise
        except harness.Skip as reason:
            yield path.stem, None, str(reason)
            continue
        for name, function in list(vars(module).items()):
            if name.startswith("test_") and callable(function) and wanted(path.stem, name, function):
                yield f"{path.stem}.{name}", function, None
    gc.freeze()
    gc.enable()


def one_certificate():
    """Clients read all certificates of certifi each time one is created, 19 ms; no test needs them, so there is one."""
    with contextlib.suppress(ModuleNotFoundError):
        import certifi
        end = "-----END CERTIFICATE-----\n"
        file = tempfile.NamedTemporaryFile("w", suffix=".pem")
        file.write(pathlib.Path(certifi.where()).read_text().split(end)[0] + end)
        file.flush()
        os.environ["SSL_CERT_FILE"] = file.name
        return file


def file_of(name):
    return name.split(".")[0]


def processor_seconds():
    """User and system seconds of this process, of its children that ended and of the servers that run."""
    ticks = 0
    for server in harness.servers:
        if server.process.poll() is None:
            fields = pathlib.Path(f"/proc/{server.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    return sum(os.times()[:4]) + ticks / os.sysconf("SC_CLK_TCK")


def durations_print(took):
    files = {}
    for name, (seconds, processor) in took.items():
        before = files.get(file_of(name), (0, 0))
        files[file_of(name)] = before[0] + seconds, before[1] + processor
    print("elapsed, processor")
    for what in took, files:
        for name in sorted(what, key=what.get, reverse=True)[:int(os.environ["WEFT_E2E_DURATIONS"])]:
            print("{:7.2f} s {:7.2f} s  {}".format(*what[name], name))
    print("{:7.2f} s {:7.2f} s  together".format(*map(sum, zip(*files.values()))), flush=True)


def run_all(tests, counts, took):
    for name, function, missing in tests:
        started, processor = time.monotonic(), processor_seconds()
        try:
            if missing:
                raise harness.Skip(missing)
            function()
            outcome, text = "passed", ""
        except harness.Skip as reason:
            outcome, text = "skipped", str(reason)
        except ModuleNotFoundError as error:
            outcome = "skipped" if error.name in CLIENTS else "failed"
            text = str(error)
        except BaseException as error:  # noqa: B902 - everything else is a failure
            outcome, text = "failed", traceback.format_exc()
            if isinstance(error, KeyboardInterrupt):
                raise
        counts[outcome] += 1
        took[name] = time.monotonic() - started, processor_seconds() - processor
        if outcome != "passed":
            print(f"{outcome}: {name}: {text}", flush=True)
        elif took[name][0] > 5:
            print(f"slow: {name}: {took[name][0]:.1f} s", flush=True)


def servers_end(counts):
    for server in harness.stop_servers():
        counts["failed"] += 1
        print(f"failed: {server}", flush=True)


def worker(parts, next_part, results):
    counts, took = dict.fromkeys(OUTCOMES, 0), {}
    while True:
        with next_part.get_lock():
            at = next_part.value
            next_part.value += 1
        if at >= len(parts):
            break
        run_all(parts[at], counts, took)
    servers_end(counts)
    results.send((counts, took))


def run_shared(tests, counts, took, part_of):
    """Runs parts of the tests in WORKERS processes; tests of equal part_of(name) run in one process."""
    fork = multiprocessing.get_context("fork")
    parts = [list(group) for _, group in itertools.groupby(tests, key=lambda test: part_of(test[0]))]
    rank = {file: at for at, file in enumerate(LONGEST)}
    parts.sort(key=lambda part: rank.get(file_of(part[0][0]), len(LONGEST)))
    harness.tiny()  # may have to be made, once
    next_part, workers = fork.Value("i", 0), []
    for _ in range(WORKERS):
        results, theirs = fork.Pipe(duplex=False)
        workers.append((fork.Process(target=worker, args=(parts, next_part, theirs)), results))
        workers[-1][0].start()
        theirs.close()  # the end of the worker is the end of the pipe
    for process, results in workers:
        try:
            its_counts, its_took = results.recv()
            took.update(its_took)
            for outcome in OUTCOMES:
                counts[outcome] += its_counts[outcome]
        except EOFError:
            counts["failed"] += 1
            process.join()
            print(f"failed: a process that runs tests ended with {process.exitcode}", flush=True)
        process.join()


def run_older(python, names, counts):
    """The same with the older clients, in a process of its own; its closing line becomes part of ours."""
    print("with the older clients:", flush=True)
    process = subprocess.Popen([python, "-B", __file__, "--older", *names], stdout=subprocess.PIPE, text=True)
    closing = None
    for line in process.stdout:
        closing = re.fullmatch(r"(\d+) passed, (\d+) failed, (\d+) skipped\n", line)
        if not closing:
            print(line, end="", flush=True)
    code = process.wait()
    if not closing or (code and not int(closing[2])) or (not names and not int(closing[1])):
        counts["failed"] += 1
        print(f"failed: the run with the older clients ended with {code}", flush=True)
    if closing:
        for outcome, count in zip(OUTCOMES, closing.groups()):
            counts[outcome] += int(count)
            print(f"{count} {outcome}", end=", " if outcome != "skipped" else " with the older clients\n")


def main():
    mode = sys.argv[1] if sys.argv[1:] and sys.argv[1].startswith("--") else ""
    names = set(sys.argv[2 if mode else 1:])
    folder, left = HERE, {}
    if mode in ("--full", "--soak"):
        os.environ["WEFT_TEST_LEVEL"] = mode[2:]
    if mode in ("--frameworks", "--browser"):
        folder = HERE / mode[2:]
        sys.path.insert(0, str(folder))

    def wanted(file, name, function):
        level, longer = getattr(function, "level_from", ""), getattr(function, "longer", False)
        only_above = level and not longer
        if mode in ("--full", "--soak"):
            left_out = level == "soak" and mode == "--full"
            return {file, name} & names and not (left_out and only_above and name not in names) if names else \
                level and not left_out
        if mode == "--older" and not {file, name} & OLDER or names and not {file, name} & names:
            return False
        if level == "full":
            left[file, name] = only_above
        return not only_above or name in names
    counts, took = dict.fromkeys(OUTCOMES, 0), {}
    certificate = one_certificate()  # noqa: F841 - the file is there as long as this is
    tests = collect(folder, wanted)
    if mode == "--older":
        tests = (t for t in tests if t[1] or t[0] in OLDER)
    if names or mode not in ("", "--full", "--soak", "--browser"):
        run_all(tests, counts, took)
        servers_end(counts)
    else:
        run_shared(tests, counts, took, str if mode == "--browser" else file_of)  # in a browser all share one server
    if os.environ.get("WEFT_E2E_DURATIONS"):
        durations_print(took)
    older = os.environ.get("WEFT_OLDER_PYTHON") if mode in ("", "--full") else None
    if older:
        run_older(older, sorted(names), counts)
    if left and not (names or mode):
        alone = sum(left.values())
        print(f"left for run.sh --full: {alone} tests, longer forms of {len(left) - alone}, the run with the older clients")
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not (counts["passed"] or mode == "--older") else 0


if __name__ == "__main__":
    sys.exit(main())
