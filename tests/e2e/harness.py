# SPDX-License-Identifier: Apache-2.0
"""What the end-to-end tests share: servers, plain HTTP, streams, the model folders.

One server with all kinds of models is started at the first use and serves every test; tests that
need other options start their own. A server that does not exit with 0 on SIGTERM is a failure.
"""

import atexit
import contextlib
import functools
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import story_model  # noqa: E402

ASSETS = story_model.ASSETS
os.environ.update(HF_HUB_OFFLINE="1", HF_HUB_CACHE="/nowhere")  # no test reaches a hub or uses a user's models

WEFT = os.environ.get("WEFT_BIN", str(ROOT / "build/release/bin/weft"))
MODELS = ROOT / "models"
CHATML = pathlib.Path(__file__).parent / "chatml.jinja"
STRICT = pathlib.Path(__file__).parent / "strict.jinja"
LSAN = pathlib.Path(__file__).parent / "lsan.supp"
KEY = "test-key"
TCP_LISTEN = "0A"  # in /proc/net/tcp


class Skip(Exception):
    pass


def once(function):
    """functools.cache for threads: the others wait while the first one makes the value."""
    lock, kept = threading.RLock(), functools.cache(function)

    @functools.wraps(function)
    def value(*args):
        with lock:
            return kept(*args)
    return value


def level():
    """fast: `make test`; full: `run.sh --full`, a stage of .ci/run; soak: `run.sh --soak`, a stage of `make soak`."""
    return os.environ.get("WEFT_TEST_LEVEL", "fast")


def full():
    """True at the levels full and soak."""
    return level() != "fast"


def soak():
    return level() == "soak"


def amount(fast, full_, soak_=None):
    """How much a test does at each level; its decorator is `longer`, or `longest` if fast and full_ are equal."""
    return fast if not full() else soak_ if soak() and soak_ is not None else full_


def longer(function):
    """Marks a test that does more at the full level."""
    function.level_from, function.longer = "full", True
    return function


def longest(function):
    """Marks a test that does more in the soak only."""
    function.level_from, function.longer = "soak", True
    return function


def full_only(function):
    """Marks a test that runs at the levels full and soak only."""
    function.level_from, function.longer = "full", False
    return function


def soak_only(function):
    """Marks a test that runs in the soak only."""
    function.level_from, function.longer = "soak", False
    return function


@once
def tiny():
    """A model with a window of 512 that tells stories: TinyStories-656K, or the one that a script makes in its place."""
    return story_model.stories(pathlib.Path(WEFT).resolve().parents[1])


def port_listened_on(process):
    """The port that a server begun with --port 0 was given, once it listens; None before."""
    with contextlib.suppress(OSError):  # a file or the process is gone
        held = {os.readlink(fd) for fd in pathlib.Path(f"/proc/{process.pid}/fd").iterdir()}
        for table in "tcp", "tcp6":
            for line in pathlib.Path(f"/proc/{process.pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                local, state, inode = fields[1], fields[3], fields[9]
                if state == TCP_LISTEN and f"socket:[{inode}]" in held:
                    return int(local.rsplit(":", 1)[1], 16)
    return None


class Server:
    program = WEFT

    def __init__(self, *args, key=KEY, env=None, stdout=None):
        self.args = args
        self.log = tempfile.TemporaryFile()
        command = [self.program, "serve", *map(str, args), "--port", "0"]
        if key:
            command += ["--api-key", key]
        if "--log-level" in args:
            command.append("--core-dumps")  # else /proc hides the descriptors that port_listened_on reads
        self.process = subprocess.Popen(
            command, stdout=stdout or self.log, stderr=self.log,
            env={"LSAN_OPTIONS": f"suppressions={LSAN}", **os.environ, **(env or {})},
        )
        try:
            self.wait_ready()
        except BaseException:
            self.kill()
            raise

    @functools.cached_property
    def port(self):
        begun = time.monotonic()
        while True:
            if listening := re.search(r" info listening on \S+ port (\d+)\n", self.output()):
                return int(listening[1])
            waited = time.monotonic() - begun
            if waited > 0.1 and (port := port_listened_on(self.process)):  # the log may be without the line
                return port
            assert self.process.poll() is None, f"weft serve ended: {self.output()}"
            assert waited < 600, f"does not listen: {self.output()}"
            time.sleep(0.005 if waited < 0.1 else 0.05)

    @property
    def base(self):
        return f"http://127.0.0.1:{self.port}"

    def output(self):
        # The server writes at the offset that both share: it must not move here.
        return os.pread(self.log.fileno(), 1 << 26, 0).decode(errors="replace")

    def wait_ready(self):
        begun = time.monotonic()
        while (waited := time.monotonic() - begun) < 600:
            if self.process.poll() is not None:
                raise AssertionError(f"weft serve ended: {self.output()}")
            logged = " info ready: " in self.output()
            try:
                if (logged or waited > 0.1) and self.request("GET", "/ready").status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.005 if waited < 0.1 else 0.03)
        raise AssertionError(f"not ready: {self.output()}")

    def request(self, method, path, body=None, headers=None, timeout=600):
        return Answer(self, method, path, body, headers or {}, timeout)

    def post(self, path, body, **headers):
        """A POST with the key in the header of the path; body: an object, str or bytes."""
        if not isinstance(body, (bytes, str)):
            body = json.dumps(body)
        if isinstance(body, str):
            body = body.encode()
        if path.startswith("/v1/messages"):
            own = {"x-api-key": KEY}
        else:
            own = {"authorization": f"Bearer {KEY}"}
        own["content-type"] = "application/json"
        own.update({k.replace("_", "-"): v for k, v in headers.items()})
        own = {k: v for k, v in own.items() if v is not None}
        return self.request("POST", path, body, own)

    def metric(self, pattern):
        """Sum of the samples whose line matches."""
        text = self.request("GET", "/metrics").text
        lines = [l for l in text.splitlines() if re.match(pattern, l)]
        assert lines, f"no metric {pattern}"
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines)

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(600)
        except subprocess.TimeoutExpired:
            self.kill()
            return -1

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Answer:
    def __init__(self, server, method, path, body, headers, timeout):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=timeout)
        connection.request(method, path, body=body, headers=headers)
        response = connection.getresponse()
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.bytes = response.read()
        connection.close()

    @property
    def text(self):
        return self.bytes.decode()

    @property
    def json(self):
        return json.loads(self.bytes)

    @property
    def error(self):
        return self.json["error"]

    def events(self):
        """[(event name or None, data as text)] of an SSE body; comments as (':', text)."""
        out = []
        assert self.bytes.endswith(b"\n\n"), self.bytes[-100:]
        for block in self.text.split("\n\n")[:-1]:
            name, data = None, None
            for line in block.split("\n"):
                if line.startswith(":"):
                    name, data = ":", line[1:]
                elif line.startswith("event: "):
                    name = line[7:]
                else:
                    assert line.startswith("data: "), line
                    data = line[6:]
            out.append((name, data))
        return out

    def chunks(self):
        events = self.events()
        assert events[-1] == (None, "[DONE]"), events[-1]
        return [json.loads(data) for name, data in events[:-1] if name != ":"]


servers = []


def start(*args, **more):
    server = Server(*args, **more)
    servers.append(server)
    return server


@atexit.register
def kill_servers():
    """Without run.py, or after an interrupt, nobody else ends them: who waits for all processes would wait forever."""
    for server in servers:
        server.kill()


def stop_servers():
    """Ends all servers; yields what is wrong with those that did not end well."""
    for server in servers:
        if server.process.poll() is None:
            code = server.stop()
        else:
            code = server.process.returncode
        if code != 0:
            yield f"a server ended with {code}: {server.args}: {server.output()[-2000:]}"


@once
def main():
    """tiny: plain template. chatml, strict: the same with templates. embed, rerank: demo models."""
    folder = tiny()
    return start(
        f"tiny={folder}",
        f"chatml={folder},chat-template={CHATML}",
        f"strict={folder},chat-template={STRICT}",
        f"embed={MODELS / 'weft-demo-embed'}",
        f"rerank={MODELS / 'weft-demo-rerank'}",
    )


@once
def dreamer():
    """A model, chat, that writes nonsense, whose template has tools."""
    template = pathlib.Path(__file__).parent / "hermes.jinja"
    return start(f"chat={MODELS / 'weft-demo-chat'},chat-template={template}")


@once
def sanitized():
    """A program with a sanitizer keeps freed memory for a while: its size says nothing."""
    program = pathlib.Path(WEFT).read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


def endless_model(folder, **config):
    """A copy of weft-demo-chat in the folder, whose answers never end by themselves."""
    model = pathlib.Path(shutil.copytree(MODELS / "weft-demo-chat", pathlib.Path(folder) / "endless"))
    for name in "config.json", "generation_config.json", "tokenizer_config.json":
        settings = json.loads((model / name).read_text())
        for ending in "eos_token_id", "eos_token":
            settings.pop(ending, None)
        (model / name).write_text(json.dumps({**settings, **(config if name == "config.json" else {})}))
    return model


def user(text):
    return [{"role": "user", "content": text}]


def chat(server, **body):
    body = {"model": "tiny", "messages": user("Once upon a time"), "temperature": 0, **body}
    return server.post("/v1/chat/completions", {k: v for k, v in body.items() if v is not ...})


def messages(server, version=None, **body):
    body = {"model": "tiny", "messages": user("Once upon a time"), "temperature": 0, **body}
    return server.post("/v1/messages", {k: v for k, v in body.items() if v is not ...},
                       anthropic_version=version)


def embed(server, input, **body):
    return server.post("/v1/embeddings", {"model": "embed", "input": input, **body})


def rerank(server, query, documents, **body):
    return server.post(
        "/v1/rerank", {"model": "rerank", "query": query, "documents": documents, **body}
    )


def text_of(answer):
    assert answer.status == 200, (answer.status, answer.text)
    return answer.json["choices"][0]["message"]["content"]


def prompt_tokens(answer):
    assert answer.status == 200, (answer.status, answer.text)
    return answer.json["usage"]["prompt_tokens"]


def expect(answer, status, code=None, param=None):
    assert answer.status == status, (answer.status, answer.text)
    if code:
        assert answer.error["code"] == code, answer.text
    if param:
        assert answer.error["param"] == param, answer.text
    return answer


@once
def golden():
    return json.loads((tiny() / "golden.json").read_text())["cases"]


def recorded_gaps():
    """For each golden case the difference of the two best logits at each position."""
    if "gaps" in golden()[0]:
        return [case["gaps"] for case in golden()]
    return json.loads((pathlib.Path(__file__).parent / "tiny_gaps.json").read_text())["gaps"]


def inner_word(text):
    """A word of four letters or more that stands after the text's first quarter."""
    words = [m for m in re.finditer(r"[a-z]{4,}", text) if m.start() > len(text) // 4]
    assert words, text
    return words[0].group()


@once
def generate(prompt, max_tokens):
    """The program's own answer to a raw prompt, without a server."""
    out = subprocess.run(
        [WEFT, "generate", str(tiny()), "--raw", "--json", "--temperature", "0",
         "--prompt", prompt, "--max-tokens", str(max_tokens)],
        check=True, capture_output=True,
    )
    return json.loads(out.stdout)
