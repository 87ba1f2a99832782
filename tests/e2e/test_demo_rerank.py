# SPDX-License-Identifier: Apache-2.0
"""The trained demo reranker: how often the running server puts the right passage first, by tools/demo/evaluate.py."""

import os
import re
import subprocess
import sys

import harness
from harness import KEY, WEFT, main

EVALUATE = harness.ROOT / "tools/demo/evaluate.py"
QUESTIONS = int(os.environ.get("WEFT_E2E_QUESTIONS", "40"))
FLOOR = 80  # of all questions 91 % were right, of the forty 87.5 %


def evaluate(*options):
    return subprocess.run([sys.executable, EVALUATE, "--url", main().base, "--key", KEY, "--limit", str(QUESTIONS), *options],
                          capture_output=True, text=True)


def test_right_passage_first():
    done = evaluate("--floor", str(FLOOR))
    assert done.returncode == 0, done.stdout + done.stderr
    shares = {name: float(share) for name, share in re.findall(r"(?m)^(\S+) +([\d.]+) % first", done.stdout)}
    assert list(shares) == ["rerank", "BM25", "embed"], done.stdout
    assert shares["rerank"] >= shares["BM25"] + 10, done.stdout
    assert f"{QUESTIONS} questions, 20 passages each" in done.stdout


def test_below_the_floor():
    done = evaluate("--floor", "100.1", "--limit", "4")
    assert done.returncode == 1 and done.stderr == "below 100.1 %\n", done.stderr


def test_no_reranker_no_server():
    done = subprocess.run([sys.executable, EVALUATE, "--url", main().base, "--key", "wrong"], capture_output=True, text=True)
    assert done.returncode == 1 and "401" in done.stderr and "--key KEY, or WEFT_API_KEY" in done.stderr and "Traceback" not in done.stderr, done.stderr
    done = subprocess.run([sys.executable, EVALUATE, "--url", "http://127.0.0.1:1"], capture_output=True, text=True)
    assert done.returncode == 1 and "refused" in done.stderr and "--url names another" in done.stderr and "Traceback" not in done.stderr, done.stderr


def test_the_server_that_is_asked_unless_another_is_named():
    port = re.search(r"--port .*?default: (\d+)", subprocess.run([WEFT, "help", "serve"], capture_output=True, text=True, check=True).stdout, re.S)[1]
    said = subprocess.run([sys.executable, EVALUATE, "--help"], capture_output=True, text=True, check=True).stdout
    assert f"http://127.0.0.1:{port} where none is given" in " ".join(said.split()), said
