"""Runs every test_* function of every test_*.py beside it and prints one closing line.

Names given as arguments choose files or functions. A test that raises harness.Skip is skipped, any
other exception fails it.
"""

import importlib
import pathlib
import sys
import time
import traceback

import harness


def collect(names):
    for path in sorted(pathlib.Path(__file__).parent.glob("test_*.py")):
        try:
            module = importlib.import_module(path.stem)
        except ModuleNotFoundError as error:
            if error.name in ("openai", "anthropic", "cohere", "httpx", "jsonschema", "tokenizers"):
                yield f"{path.stem}", None, f"no module {error.name}"
                continue
            raise
        except harness.Skip as reason:
            yield path.stem, None, str(reason)
            continue
        for name, function in list(vars(module).items()):
            if not name.startswith("test_") or not callable(function):
                continue
            if names and path.stem not in names and name not in names:
                continue
            yield f"{path.stem}.{name}", function, None


def main():
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for name, function, missing in collect(set(sys.argv[1:])):
        started = time.monotonic()
        try:
            if missing:
                raise harness.Skip(missing)
            function()
            outcome, text = "passed", ""
        except harness.Skip as reason:
            outcome, text = "skipped", str(reason)
        except BaseException as error:  # noqa: B902 - everything else is a failure
            outcome, text = "failed", traceback.format_exc()
            if isinstance(error, KeyboardInterrupt):
                raise
        counts[outcome] += 1
        if outcome != "passed":
            print(f"{outcome}: {name}: {text}", flush=True)
        elif time.monotonic() - started > 5:
            print(f"slow: {name}: {time.monotonic() - started:.1f} s", flush=True)
    for server in harness.stop_servers():
        counts["failed"] += 1
        print(f"failed: {server}", flush=True)
    print(f"{counts['passed']} passed, {counts['failed']} failed, {counts['skipped']} skipped")
    return 1 if counts["failed"] or not counts["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
