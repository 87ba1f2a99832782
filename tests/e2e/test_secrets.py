# SPDX-License-Identifier: Apache-2.0
"""What others can learn: where API keys lie, whose prompts are cached, what a crash leaves on the disk."""

import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

from harness import KEY, MODELS, WEFT, Skip, start, user

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
        server = start(MODEL, "--core-dumps", "--api-key-file", file.name, key=words["option"],
                       env={"WEFT_API_KEY": words["env"]})  # else /proc may hide the memory
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
        server = start(MODEL, "--core-dumps", "--api-key-file", file.name, key=None)
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


def crashed(folder, *command):
    """Starts a program with every limit of core dumps lifted, ends it with SIGSEGV once it listens or sleeps.
    Returns (limit of core dumps while it ran, whether it left a core dump)."""
    def limits_lift():
        hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
        resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))

    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*map(str, command)], cwd=folder, stdout=log, stderr=log, preexec_fn=limits_lift)
        deadline = time.monotonic() + 600
        while b"listening on " not in os.pread(log.fileno(), 1 << 20, 0):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        limits = pathlib.Path(f"/proc/{process.pid}/limits").read_text()
        os.kill(process.pid, signal.SIGSEGV)
        _, status = os.waitpid(process.pid, 0)
        process.returncode = status
    assert os.WTERMSIG(status) == signal.SIGSEGV, status
    return re.search(r"Max core file size +(\w+)", limits)[1], os.WCOREDUMP(status)


def test_a_crash_leaves_no_prompts():
    """Core dumps are off if a key is given; with --core-dumps, and without a key of the operator, they are as the system has them."""
    serve = [WEFT, "serve", MODEL, "--port", "0"]
    with tempfile.TemporaryDirectory() as folder, key_file("one\n") as file:
        assert crashed(folder, *serve, "--api-key", KEY) == ("0", False)
        assert crashed(folder, *serve, "--api-key-file", file.name) == ("0", False)
        assert crashed(folder, "env", "WEFT_API_KEY=x", *serve) == ("0", False)
        assert crashed(folder, "env", "-u", "WEFT_API_KEY", *serve, "--no-core-dumps") == ("0", False)
        wanted = crashed(folder, sys.executable, "-c", "print('listening on nothing', flush=True); import time; time.sleep(600)")
        for more in ("--api-key", KEY, "--core-dumps"), ():
            limit, dumped = crashed(folder, "env", "-u", "WEFT_API_KEY", *serve, *more)
            if limit == "0" != wanted[0]:
                raise Skip("a sanitizer turns core dumps off")
            assert (limit, dumped) == wanted, more


PROMPT = "The quick brown fox jumps over the lazy dog. " * 12
CACHED = {  # path: (body, cached tokens in the usage of its answer)
    "/v1/chat/completions": ({"messages": user(PROMPT)}, lambda u: u["prompt_tokens_details"]["cached_tokens"]),
    "/v1/completions": ({"prompt": PROMPT}, lambda u: u["prompt_tokens_details"]["cached_tokens"]),
    "/v1/responses": ({"input": PROMPT}, lambda u: u["input_tokens_details"]["cached_tokens"]),
    "/v1/messages": ({"messages": user(PROMPT)}, lambda u: u["cache_read_input_tokens"]),
}


def cached(server, model, path, key, **more):
    body, tokens = CACHED[path]
    limit = "max_output_tokens" if path == "/v1/responses" else "max_tokens"
    answer = server.post(path, {"model": model, limit: 1, **body, **more}, authorization=f"Bearer {key}", x_api_key=None)
    assert answer.status == 200, answer.text
    return tokens(answer.json["usage"])


def test_prompts_of_other_keys():
    """By default a key finds its own prompts in the cache and those of no other; a salt separates prompts of one key; all: shared."""
    folder = MODELS / "weft-demo-chat"
    server = start(f"own={folder}", f"shared={folder},prefix-cache-scope=all", "--api-key", "other")
    for path in CACHED:
        salts = [{"cache_salt": path + str(i)} for i in range(2)]  # a cache that no other path has filled
        assert cached(server, "own", path, KEY, **salts[0]) == 0, path
        assert cached(server, "own", path, "other", **salts[0]) == 0, path
        assert cached(server, "own", path, KEY, **salts[1]) == 0, path
        for key in KEY, "other":
            assert cached(server, "own", path, key, **salts[0]) >= 64, path
        assert cached(server, "shared", path, KEY, **salts[0]) == 0, path
        assert cached(server, "shared", path, "other", **salts[0]) >= 64, path
        assert cached(server, "shared", path, "other", **salts[1]) == 0, path
    assert cached(server, "own", "/v1/chat/completions", KEY) == 0
    assert cached(server, "own", "/v1/messages", "other") == 0
    assert cached(server, "own", "/v1/messages", KEY) >= 64


def test_a_new_key_inherits_no_prompts():
    """A key that takes the place of another in the file does not find that one's prompts; a key that stays finds its own."""
    with key_file("first\nsecond\n") as file:
        server = start(MODELS / "weft-demo-chat", "--api-key-file", file.name, key=None)
        model, path = "weft-demo-chat", "/v1/chat/completions"

        def reload(text):
            done = server.output().count("key list")
            pathlib.Path(file.name).write_text(text)
            server.process.send_signal(signal.SIGHUP)
            deadline = time.monotonic() + 600
            while server.output().count("key list") == done:
                assert time.monotonic() < deadline, server.output()
                time.sleep(0.01)

        assert cached(server, model, path, "first") == 0 == cached(server, model, path, "second")
        reload("third\nfirst\n")
        assert cached(server, model, path, "first") >= 64
        assert cached(server, model, path, "third") == 0
        assert cached(server, model, path, "third") >= 64
