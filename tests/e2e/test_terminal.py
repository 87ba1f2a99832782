# SPDX-License-Identifier: Apache-2.0
"""What `weft serve` says at its start: one screen on a terminal, no escapes in a pipe."""

import fcntl
import os
import re
import signal
import struct
import subprocess
import termios

from harness import MODELS, WEFT, Skip
from terminals import terminal_open

ROWS, COLUMNS = 24, 80
KINDS = ("chat", "embed", "rerank")
FOLDERS = [str(MODELS / f"weft-demo-{kind}") for kind in KINDS]
LAST_LINE = b"\ncurl "


def ended(process, read):
    """All that is printed until the last line to paste stands there, then SIGTERM."""
    said = b""
    try:
        while LAST_LINE not in said or not said.endswith(b"\n"):
            piece = read()
            assert piece, said
            said += piece
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(600) == 0, said
    return said.decode()


def environment(more):
    kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "WEFT_API_KEY")}
    return {**kept, "TERM": "xterm", **more}


def on_a_terminal(*options, **more):
    terminal, side = terminal_open(Skip)
    fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen([WEFT, "serve", "--port", "0", *FOLDERS, *options], stdin=side, stdout=side,
                               stderr=side, env=environment(more))
    os.close(side)
    try:
        return ended(process, lambda: os.read(terminal, 65536))
    finally:
        os.close(terminal)


def in_a_pipe(*options, **more):
    process = subprocess.Popen([WEFT, "serve", "--port", "0", *FOLDERS, *options], stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT, env=environment(more))
    with process.stdout:
        said = ended(process, lambda: os.read(process.stdout.fileno(), 65536))
        return said + process.stdout.read().decode()  # lines of the log, which a thread of its own writes


def rows(text):
    """Rows of a terminal that the text takes: long lines wrap, a line may be written over."""
    count = 0
    for line in re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n").rstrip("\n").split("\n"):
        seen = max(map(len, line.split("\r")))
        count += max(1, -(-seen // COLUMNS))
    return count


def test_the_start_fits_one_screen():
    said = on_a_terminal()
    assert rows(said) <= ROWS, said
    assert re.search(r"planned: [\d.]+ MiB of [\d.]+ [GM]iB", said) and "activations" not in said, said
    said = said[said.index("weft 0."):] if "weft 0." in said else said
    first, second, *_ = re.sub(r"\x1b\[[0-9;]*m", "", said).splitlines()
    assert re.fullmatch(r"weft \S+ serves at http://127\.0\.0\.1:\d+/", first), said
    assert re.fullmatch(r"API key: weft-\w{32}", second), said
    for kind, task in zip(KINDS, ("generator", "embedder", "reranker")):
        line = rf"^ +weft-demo-{kind} +{task} +(bfloat16|float32) +cpu +\d+ MiB\r?$"
        assert len(re.findall(line, said, re.M)) == 1, said
    assert len(re.findall(r"^curl http://\S+/v1/chat/completions ", said, re.M)) == said.count("curl ") == 1, said


def test_the_whole_plan_on_demand():
    for option in ("-v",), ("--log-level", "debug"):
        said = in_a_pipe(*option)
        for entry in "activations", "keys and values", "scheduler", "http: connections, request bodies":
            assert entry in said, said
    for folder in FOLDERS:
        done = subprocess.run([WEFT, "inspect", folder], capture_output=True, text=True, check=True)
        for entry in "weights ", "activations ", "staging ", "scheduler ", "tensors (-v ":
            assert entry in done.stdout, done.stdout


def test_colour_on_a_terminal_only():
    assert "\x1b[" in on_a_terminal()
    assert "\x1b[" in on_a_terminal(NO_COLOR="")  # no-color.org: empty says nothing
    assert "\x1b" not in on_a_terminal(NO_COLOR="0")
    assert "\x1b" not in on_a_terminal(TERM="dumb")
    assert not re.search(r"[\x1b\r]", in_a_pipe())
