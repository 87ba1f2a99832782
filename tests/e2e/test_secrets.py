# SPDX-License-Identifier: Apache-2.0
"""Where API keys lie: nowhere in the memory of a server that has its hashes."""

import os
import pathlib
import re
import signal
import tempfile
import time

from harness import MODELS, Skip, start

MODEL = f"embed={MODELS / 'weft-demo-embed'},max-queued-requests=4,max-result-bytes=1M"  # little memory to search


def held(pid, *words):
    """Those of the words that are in the memory of the process."""
    found, seen = set(), 0
    try:
        with open(f"/proc/{pid}/mem", "rb", 0) as memory:
            for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
                span = re.match(r"(\w+)-(\w+) rw", line)
                if not span:
                    continue
                begin, end = (int(x, 16) for x in span.groups())
                try:
                    memory.seek(begin)
                    content = memory.read(end - begin)
                except (OSError, ValueError, OverflowError):
                    continue  # reserved, not there
                seen += len(content)
                found.update(word for word in words if word.encode() in content)
    except PermissionError as reason:
        raise Skip(f"no look into the memory of another process: {reason}")
    assert seen > 1 << 20, seen
    return found


def key_file(text, mode=0o600):
    file = tempfile.NamedTemporaryFile("w", suffix=".keys")
    file.write(text)
    file.flush()
    os.chmod(file.name, mode)
    return file


def test_keys_are_not_in_memory():
    words = {name: f"{name}-{os.urandom(12).hex()}" for name in ("option", "file", "old", "env")}
    with key_file(f"# {words['old']}\n{words['file']}\n") as file:
        server = start(MODEL, "--api-key-file", file.name, key=words["option"],
                       env={"WEFT_API_KEY": words["env"]})
    word = words.pop("file")
    answer = server.request("GET", "/v1/models", headers={"authorization": f"Bearer {word}x"})
    assert answer.status == 401  # what was sent is found, so the search works
    assert held(server.process.pid, f"{word}x", *words.values()) == {f"{word}x"}
    command = pathlib.Path(f"/proc/{server.process.pid}/cmdline").read_bytes()
    assert words["option"].encode() not in command
    answer = server.request("GET", "/v1/models",
                            headers={"authorization": f"Bearer {words['option']}"})
    assert answer.status == 200


def test_reloaded_keys_are_not_in_memory():
    sent, kept = (f"{name}-{os.urandom(12).hex()}" for name in ("sent", "kept"))
    with key_file("first\n") as file:
        server = start(MODEL, "--api-key-file", file.name, key=None)
        pathlib.Path(file.name).write_text(f"{sent}\n{kept}\n")
        server.process.send_signal(signal.SIGHUP)
        bearer = {"authorization": f"Bearer {sent}"}
        deadline = time.monotonic() + 600
        while server.request("GET", "/v1/models", headers=bearer).status != 200:
            assert time.monotonic() < deadline, server.output()
            time.sleep(0.05)
    deadline = time.monotonic() + 600
    while "key list" not in server.output():  # logged after the wipe
        assert time.monotonic() < deadline, server.output()
    assert not held(server.process.pid, kept)


def test_a_made_key_is_not_in_memory():
    server = start(MODEL, key=None, env={"WEFT_API_KEY": ""})
    deadline = time.monotonic() + 600
    while not (line := re.search(r"^API key: (\S+)$", server.output(), re.M)):
        assert time.monotonic() < deadline, server.output()
    made = line[1]
    while held(server.process.pid, made):  # it is wiped once the curl lines are printed
        assert time.monotonic() < deadline, "it is still there"
        time.sleep(0.05)
    answer = server.request("GET", "/v1/models", headers={"authorization": f"Bearer {made}"})
    assert answer.status == 200


def test_a_file_that_others_read_is_warned_of():
    for mode, warnings in ((0o600, 0), (0o640, 1), (0o604, 1), (0o400, 0)):
        with key_file("one\ntwo\n", mode) as file:
            server = start(MODEL, "--api-key-file", file.name, key=None)
            lines = [l for l in server.output().splitlines() if file.name in l and "warning" in l]
        assert len(lines) == warnings, (oct(mode), lines)
        assert all("chmod 600" in line for line in lines), lines
        assert server.stop() == 0
