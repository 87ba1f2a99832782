# SPDX-License-Identifier: Apache-2.0
"""`weft chat`: a conversation on a terminal and in a pipe, with a model of its own process and with a server."""

import codecs
import concurrent.futures
import contextlib
import http.server
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import tempfile
import termios
import threading
import time

import harness
from harness import KEY, MODELS, WEFT
from progress import without_progress
from terminals import terminal_open

CHAT = str(MODELS / "weft-demo-chat")
LIMIT = 180
GREEDY = ("--temperature", "0", "--top-p", "1", "--max-tokens", "12")


def environment():
    kept = {name: value for name, value in os.environ.items() if name not in ("OPENAI_API_KEY", "HOME", "NO_COLOR")}
    return {**kept, "TERM": "xterm", "HOME": "/nonexistent", "LC_ALL": "C"}


def piped(*options, feed="", code=0, env=None):
    done = subprocess.run([WEFT, "chat", *map(str, options)], input=feed.encode(), capture_output=True, timeout=LIMIT,
                          env={**environment(), **(env or {})})
    assert done.returncode == code, done
    return done.stdout.decode(), without_progress(done.stderr).decode()


class Terminal:
    """The program on a terminal. What it prints is kept; `until` looks at what was not looked at before."""

    def __init__(self, *options, env=None):
        self.ours, theirs = terminal_open(harness.Skip)
        self.before = self.modes()
        self.process = subprocess.Popen([WEFT, "chat", *map(str, options)], stdin=theirs, stdout=theirs, stderr=theirs,
                                        env={**environment(), **(env or {})}, start_new_session=True, preexec_fn=self.control)
        os.close(theirs)
        self.said, self.at = "", 0
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")  # a piece may end inside of a character

    @staticmethod
    def control():
        import fcntl
        import resource
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C is a signal
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # Ctrl-\\ leaves no file
        for each in signal.SIGHUP, signal.SIGINT, signal.SIGQUIT:
            signal.signal(each, signal.SIG_DFL)  # the shell that runs the tests may ignore them

    def read(self, seconds):
        """What came within that time; None: nothing, empty: the program has ended."""
        if not select.select([self.ours], [], [], seconds)[0]:
            return None
        try:
            piece = os.read(self.ours, 65536)
        except OSError:
            piece = b""
        self.said += self.decoder.decode(piece)
        return piece

    def until(self, pattern):
        deadline = time.monotonic() + LIMIT
        while not (found := re.compile(pattern, re.S).search(self.said, self.at)):
            assert time.monotonic() < deadline, self.said
            assert self.read(1) != b"", (pattern, self.said)
        self.at = found.end()
        return found

    def type(self, text):
        if self.said[:self.at].endswith("> "):  # the prompt is printed before keys are read singly
            self.edited()
        os.write(self.ours, text.encode())

    def modes(self):
        return termios.tcgetattr(self.ours)

    def edited(self):
        """Waits until the program reads single keys."""
        deadline = time.monotonic() + LIMIT
        while self.modes()[3] & termios.ICANON:
            assert time.monotonic() < deadline, self.said
            time.sleep(0.01)

    def ends(self, code=0):
        deadline = time.monotonic() + LIMIT
        while self.process.poll() is None:
            assert time.monotonic() < deadline, self.said
            self.read(0.1)
        while self.read(0):
            pass
        after = self.modes()
        os.close(self.ours)
        assert self.process.returncode == code, (self.process.returncode, self.said)
        assert after == self.before, (after, self.before)


@contextlib.contextmanager
def terminal(*options, env=None):
    shown = Terminal(*options, env=env)
    try:
        yield shown
    finally:
        if shown.process.poll() is None:
            shown.process.kill()
            shown.process.wait()


def event(content):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": {"content": content}}]}).encode() + b"\n\n"


class Server(http.server.ThreadingHTTPServer):
    """Answers as a script says: `answer` writes the events of a chat. Bodies and keys that came are kept."""
    daemon_threads = True

    def __init__(self, answer):
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer, self.bodies, self.keys, self.left = answer, [], [], threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()  # shutdown waits for a poll

    @property
    def base(self):
        return f"http://127.0.0.1:{self.server_port}"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.server.keys.append(self.headers["Authorization"])
        body = json.dumps({"data": [{"id": "vectors", "kind": "embedder"}, {"id": "first"}, {"id": "second"}]}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self):
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        try:
            self.server.answer(self.wfile)
        except OSError:
            self.server.left.set()

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def serving(answer):
    server = Server(answer)
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def whole(*pieces):
    def answer(out):
        for piece in pieces:
            out.write(event(piece))
        out.write(b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"completion_tokens":7}}\n\n'
                  b"data: [DONE]\n\n")
    return answer


def endless(out):
    while True:
        out.write(event("more "))
        out.flush()
        time.sleep(0.01)


def test_a_conversation_in_a_pipe():
    """Two turns with a model of the process, the same with a server that has it, and the first beside weft generate."""
    feed = "This red river\n\nThe warm song\n"
    here, said = piped(CHAT, *GREEDY, feed=feed)
    assert said == "" and here.count("\n") >= 2, (here, said)  # both answers end by themselves
    first = subprocess.run([WEFT, "generate", CHAT, "--prompt", "This red river", *GREEDY], capture_output=True,
                           check=True).stdout.decode()
    assert here.startswith(first), (here, first)
    server = harness.start(f"chat={CHAT}", f"embed={MODELS / 'weft-demo-embed'}")
    there = piped("--url", server.base, "--api-key", KEY, *GREEDY, feed=feed)
    assert there == (here, said)
    cut = [piped(*asked, "--temperature", 0, "--max-tokens", 2, feed=feed)
           for asked in ((CHAT,), ("--url", server.base, "--api-key", KEY))]
    assert cut == 2 * [(cut[0][0], 2 * "[cut: the answer reached max-tokens or the end of the context]\n")], cut
    named, _ = piped("--url", f"{server.base}/v1/", "chat", *GREEDY, feed=feed, env={"OPENAI_API_KEY": KEY})
    assert named == here


def test_chat_commands():
    """What the commands do, by what the server is sent afterwards."""
    with serving(whole("An ", "answer.")) as server, tempfile.TemporaryDirectory() as folder:
        saved = pathlib.Path(folder) / "it's saved"
        out, said = piped("--url", server.base, "--system", "Be brief.", feed=(
            "one \\\ntwo\n/params temperature=0.25 max_tokens=9\n//three\n/speed\n"
            f"/save {saved}\n/system Be long.\n/clear\nfour\n/system -\n/load {saved}\nfive\n"
            "/system\n/help\n/quit\nsix\n"))
        assert out == 4 * "An answer.\n", out
        turn = [{"role": "user", "content": "one \ntwo"}, {"role": "assistant", "content": "An answer."}]
        system = [{"role": "system", "content": "Be brief."}]
        three = [{"role": "user", "content": "/three"}]
        asked = [body["messages"] for body in server.bodies]
        assert asked[:3] == [system + turn[:1], system + turn + three,
                             [{"role": "system", "content": "Be long."}, {"role": "user", "content": "four"}]], asked
        kept = system + turn + three + turn[1:]
        assert json.loads(saved.read_text()) == {"messages": kept}
        assert saved.stat().st_mode & 0o777 == 0o600 and os.listdir(folder) == [saved.name]
        assert asked[3] == kept + [{"role": "user", "content": "five"}], asked[3]
        assert server.bodies[0]["model"] == "first" and "temperature" not in server.bodies[0], server.bodies[0]
        assert (server.bodies[1]["temperature"], server.bodies[1]["max_tokens"]) == (0.25, 9)
        for words in ("[7 tokens, ", "temperature=0.25 top-p=default top-k=off max-tokens=9 seed=random", "system message: Be brief.",
                      "5 messages are in", "4 messages are loaded", "the conversation is cleared", "/params "):
            assert words in said, (words, said)
        assert server.keys == [None], server.keys
        failures = (("/params seed=x", "seed must be a whole number"), ("/none", "there is no command /none: /help lists the commands"),
                    ("/laod", "there is no command /laod, did you mean '/load'?"), ("/load /nonexistent", "/nonexistent"),
                    ("/params top-k=1 temprature=1 x=1", "there is no parameter 'temprature', did you mean 'temperature'?"),
                    ("/params nothing=1", "there is no parameter 'nothing' (the parameters are temperature, top-p, top-k, max-tokens, seed)"),
                    ("/load", "/load needs the name of a file"), ("/load /", "/ is not a regular file"), ("/save", "/save needs the name of a file"))
        for line, words in failures:  # in a pipe "the first failure ends it with 1", on a terminal it is told
            _, said = piped("--url", server.base, feed=f"{line}\n/quit\n", code=1)
            assert said.startswith("weft: ") and words in said and said.count("\n") == 1, (line, said)
        with terminal("--url", server.base) as t:
            t.until("> ")
            for line, words in failures:
                t.type(f"{line}\r")
                t.until(re.escape(words) + ".*> ")
            t.type("/quit\r")
            t.ends()


def test_files_that_are_no_conversation():
    with serving(whole("x")) as server, tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "f"
        for text in ("{", "3", "{}", '[{"role":"user"}]', '[{"role":"tool","content":"x"}]', "[1]",
                     '[{"role":"user","content":"a"},{"role":"system","content":"b"}]',
                     '{"messages":[{"role":"user","content":[]}]}'):
            file.write_text(text)
            _, said = piped("--url", server.base, feed=f"/load {file}\n", code=1)
            assert str(file) in said and "are loaded" not in said, (text, said)
        file.write_text("[]")
        assert "0 messages are loaded" in piped("--url", server.base, feed=f"/load {file}\n")[1]


def test_a_terminal():
    """Editing, history, UTF-8, commands, Ctrl-C at the prompt, Ctrl-D."""
    with serving(whole("Grüße, ", "\U0001f99c!", "\nA\tline.")) as server, terminal("--url", server.base) as t:
        t.until("first answers.*> ")
        t.type("h\u00e9llo x\u00df\x7f\x7fw\u00f6rld\r")  # Backspace takes characters, not bytes
        t.until("Gr\u00fc\u00dfe, \U0001f99c!\r\nA\tline\\.\r\n.*> ")
        t.type("\x1b[A\r")  # the line before
        t.until("line\\.\r\n.*> ")
        t.type("never sent\x03")
        t.until("> ")
        t.type("/speed\r")
        t.until(r"\[7 tokens, .*> ")
        t.type("\x04")
        t.ends()
        asked = [body["messages"][-1]["content"] for body in server.bodies]
        assert asked == 2 * ["h\u00e9llo w\u00f6rld"], asked


def test_keys_of_a_terminal():
    """Ctrl-Left, Ctrl-Right, page up and down, the marks around what is pasted."""
    with serving(whole("x.")) as server, terminal("--url", server.base) as t:
        t.until("answers.*> ")
        t.type("one two\r")
        t.until("x\\.\r\n.*> ")
        t.type("\x1b[5~\x1b[1;5D\x1b[1;5Dthe \x1b[1;5C,\x1b[200~ then\x1b[201~\r")
        t.until("x\\.\r\n.*> ")
        t.type("lost\x1b[5~\x1b[5~\x1b[6~\x1b[6~\x15never\x15/quit\r")
        t.ends()
        asked = [body["messages"][-1]["content"] for body in server.bodies]
        assert asked == ["one two", "the one, then two"], asked


def test_what_is_pasted_is_one_message():
    """Its lines, too, also where an answer was coming; the terminal is asked for the marks, and not any more at the end."""
    pasted = threading.Event()

    def slow(out):
        out.write(event("One "))
        out.flush()
        assert pasted.wait(LIMIT)
        whole("two.")(out)
    with serving(slow) as server, terminal("--url", server.base) as t:
        t.until("answers.*\x1b\\[\\?2004h> ")
        t.type("go\r")
        t.until("One ")
        t.type("\x1b[200~while\rit\x00 came\x1b[201~\r")
        pasted.set()
        t.until("two\\..*One two\\..*> ")
        t.type("see: \x1b[200~one\r\ttwo \U0001f99c\r\r/quit\x1b[201~, three\r")
        t.until("One two\\.\r\n.*> ")
        t.type("\x1b[A\r")
        t.until("One two\\.\r\n.*> ")
        t.type("\x1b[200~never\rsent\x03")
        t.until("> ")
        t.type("\x04")
        t.ends()
        asked = [body["messages"][-1]["content"] for body in server.bodies]
        assert asked == ["go", "while\nit came", *2 * ["see: one\n\ttwo \U0001f99c\n\n/quit, three"]], asked
        assert t.said.endswith("\x1b[?2004l"), t.said
    with serving(slow) as server, terminal("--url", server.base) as t:
        t.until("> ")
        t.edited()
        t.process.send_signal(signal.SIGTERM)
        t.ends(-signal.SIGTERM)
        assert "\x1b[?2004l" in t.said, t.said
    with serving(slow) as server, terminal("--url", server.base, env={"TERM": "dumb"}) as t:
        t.until("> ")
        t.type("/quit\r")
        t.ends()
        assert "\x1b" not in t.said, t.said


def test_what_is_typed_into_an_answer():
    """It is not seen there; the next prompts take it, Backspace, a second line and Ctrl-D included."""
    typed = threading.Event()

    def slow(out):
        out.write(event("One "))
        out.flush()
        assert typed.wait(LIMIT)
        whole("two.")(out)
    with serving(slow) as server, terminal("--url", server.base) as t:
        t.until("answers.*> ")
        t.type("go\r")
        t.until("One ")
        t.type("nexx\x7ft\rthird\r\x04")
        deadline = time.monotonic() + 2
        while time.monotonic() < deadline and select.select([t.ours], [], [], 0.1)[0]:
            t.said += t.decoder.decode(os.read(t.ours, 65536))
        typed.set()
        assert t.until("(.*?)\x1b\\[\\?2004h> ")[1] == "two.\r\n", t.said
        t.ends()
        assert [body["messages"][-1]["content"] for body in server.bodies] == ["go", "next", "third"]


def test_ctrl_c_stops_the_answer_of_a_server():
    with serving(endless) as server, terminal("--url", server.base) as t:
        t.until("answers.*> ")
        t.type("go\r")
        t.until("more more ")
        t.type("\x03")
        t.until(r"\[stopped\].*> ")
        assert server.left.wait(LIMIT)  # the connection is closed
        server.answer = whole("well")
        t.type("and now?\r")
        t.until("well\r\n.*> ")
        t.type("/quit\r")
        t.ends()
        roles = [message["role"] for message in server.bodies[-1]["messages"]]
        assert roles == ["user", "assistant", "user"] and "more " in server.bodies[-1]["messages"][1]["content"]


def test_ctrl_c_stops_the_answer_of_a_model():
    """A model that never ends by itself and has room for minutes of it."""
    with tempfile.TemporaryDirectory() as folder:
        with terminal(harness.endless_model(folder, max_position_embeddings=1 << 20)) as t:
            t.until("endless answers.*> ")
            for _ in range(2):  # and again, in the same conversation
                t.type("go\r")
                t.until(r"go\r\n.*\w\w\w")
                t.type("\x03")
                t.until(r"\[stopped\].*> ")
            t.type("/clear\r")
            t.until("cleared.*> ")
            t.type("/params max-tokens=2\r")
            t.until("max-tokens=2.*> ")
            t.type("go\r")
            t.until(r"\[cut.*> ")
            t.type("\x04")
            t.ends()


def test_answers_that_fail_take_no_room():
    """More of them than the engine takes requests: each is told the same."""
    with tempfile.TemporaryDirectory() as folder:
        model = pathlib.Path(shutil.copytree(CHAT, pathlib.Path(folder) / "broken"))
        weights = model / "model.safetensors"
        raw = weights.read_bytes()
        head = 8 + int.from_bytes(raw[:8], "little")
        weights.write_bytes(raw[:head] + b"\xff" * (len(raw) - head))  # all values are NaN
        with terminal(model) as t:
            t.until("answers.*> ")
            for _ in range(21):
                t.type(100 * "x\r")
                for _ in range(100):
                    t.until("the result of the model is not finite\r\n.*?> ")
            t.type("/quit\r")
            t.ends()
        assert "accepts no further request" not in t.said, t.said[-2000:]


def test_what_a_model_says_is_safe_on_a_terminal():
    evil = "a\x1b]0;owned\x07b\u202ec\u009bd\re" + "\u00e9" * 700
    with serving(whole(evil)) as server:
        with terminal("--url", server.base) as t:
            t.until("> ")
            t.type("go\r")
            t.until(r"a\\x1b]0;owned\\x07b\\u\{202e\}c\\u\{9b\}d\\re\u00e9{700}\r\n\x1b\[\?2004h> ")
            t.type("\x04")
            t.ends()
        assert piped("--url", server.base, feed="go\n")[0] == evil + "\n"


def test_a_server_that_goes_away():
    """In the middle of an answer: the terminal goes on, a pipe ends with 1; before: what to do is said."""
    def half(out):
        out.write(event("Half an "))

    def broken(out):
        out.write(event("Half an ") + b'data: {"error":{"message":"out of wool"}}\n\n')
    for answer, words in ((half, "ended its answer before it was complete"), (broken, "ended the answer: out of wool"),
                          (lambda out: out.write(b"data: {\n\n"), "an event that is not JSON")):
        with serving(answer) as server:
            out, said = piped("--url", server.base, feed="go\nagain\n", code=1)
            assert words in said and len(server.bodies) == 1, said
            with terminal("--url", server.base) as t:
                t.until("> ")
                t.type("go\r")
                t.until(f"{words}.*> ")
                server.answer = whole("whole")
                t.type("again\r")
                t.until("whole\r\n.*> ")
                assert [m["content"] for m in server.bodies[-1]["messages"]] == ["again"]
                t.type("/quit\r")
                t.ends()
            gone = server.base
    _, said = piped("--url", gone, feed="go\n", code=1)
    assert "no server answers at " in said and "weft serve" in said, said


def test_keys_and_addresses():
    server = harness.start(f"chat={CHAT}")
    for options in (), ("--api-key", "wrong"), ("chat", "--api-key", "wrong"):
        _, said = piped("--url", server.base, *options, feed="go\n", code=1)
        assert "refuses the key (401" in said and "--api-key or OPENAI_API_KEY" in said, said
    _, said = piped("--url", server.base, "none", "--api-key", KEY, feed="go\n", code=1)
    assert "answers 404" in said and "none" in said, said
    for says, *options in (("must be an address such as http://", "--url", "localhost:8000"),
                           ("must be an address such as http://", "--url", "http://"),
                           ("must be an address such as http://", "--url", "https:///"), ("MODEL or --url is missing",),
                           ("--api-key needs --url", CHAT, "--api-key", "x"),
                           ("one line", "--url", "http://x", "--api-key", "a\nb"),
                           ("argument too many", CHAT, CHAT)):
        _, said = piped(*options, code=2)
        assert says in said and said.count("\n") == 1, said
    _, said = piped(MODELS / "weft-demo-embed", code=1)
    assert "is an embedder: use 'weft embed'" in said, said


def test_history_is_kept_in_a_file():
    with serving(whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "lines"
        for keys in "first line\r", "\x1b[A\r":
            with terminal("--url", server.base, "--history", file) as t:
                t.until("> ")
                t.type(keys)
                t.until("x\\.\r\n.*> ")
                t.type("\x04")
                t.ends()
        assert [body["messages"][-1]["content"] for body in server.bodies] == 2 * ["first line"]
        assert file.stat().st_mode & 0o777 == 0o600


def test_what_is_no_history_is_not_written_over():
    with serving(whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
        notes = pathlib.Path(folder) / "notes"
        notes.write_text("Dear diary\n")
        for file, words in (notes, "exists and is not a history of weft chat: name another file"), ("/dev/null", "is not a history"), \
                (f"{folder}/none/x", "cannot be written: No such file"):
            with terminal("--url", server.base, "--history", file) as t:
                t.until(words)
                t.ends(1)
        assert notes.read_text() == "Dear diary\n" and os.listdir(folder) == ["notes"]
        notes.write_text("")
        with terminal("--url", server.base, "--history", notes) as t:
            t.until("> ")
            t.type("go\r")
            t.until("x\\.\r\n.*> ")
            t.type("\x04")
            t.ends()
        assert "go" in notes.read_text()
        gone = pathlib.Path(folder) / "gone"
        gone.mkdir()
        with terminal("--url", server.base, "--history", gone / "lines") as t:
            t.until("> ")
            t.type("go\r")
            t.until("x\\.\r\n.*> ")
            shutil.rmtree(gone)
            t.type("\x04")
            t.until("the history cannot be written to .*/gone/lines: No such file or directory")
            t.ends()


def test_what_is_saved_keeps_its_mode_and_waits_for_nobody():
    with serving(whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
        file, pipe = pathlib.Path(folder) / "file", pathlib.Path(folder) / "pipe"
        file.write_text("before")
        file.chmod(0o640)
        os.mkfifo(pipe)
        target, link = pathlib.Path(folder) / "target", pathlib.Path(folder) / "link"
        target.write_text("before" * 1000)
        link.symlink_to(target)
        out, said = piped("--url", server.base, feed=f"go\n/save! {file}\n/save! {link}\n/save /dev/stdout\n/save {pipe}\n", code=1)
        assert f"2 messages cannot be written to {pipe}" in said and f"2 messages are in {file}" in said, said
        assert file.stat().st_mode & 0o777 == 0o640 and json.loads(file.read_text()) == json.loads(out[out.index("{"):])
        assert link.is_symlink() and target.read_text() == file.read_text()


def test_a_server_that_is_no_api():
    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(self.server.status)
            self.send_header("Content-Length", "6")
            self.end_headers()
            self.wfile.write(b"<html>")

        def log_message(self, *_):
            pass
    for status, words in (200, "/v1 is not an API: set the address of one such as http://"), (302, "/v1 answers 302: set the address of an API"):
        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
            server.status = status
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            _, said = piped("--url", f"http://127.0.0.1:{server.server_port}", feed="go\n", code=1)
            server.shutdown()
        assert words in said and said.count("\n") == 1, said


def test_a_signal_leaves_the_terminal_as_it_was():
    """At the prompt and in an answer: the history is written, and the process ends by the signal."""
    for answering in False, True:
        for end in signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT:
            with serving(endless if answering else whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder) / "lines"
                with terminal("--url", server.base, "--history", file) as t:
                    t.until("> ")
                    t.type("kept\r")
                    if answering:
                        t.until("more more ")
                    else:
                        t.until("x\\.\r\n.*> ")
                        t.edited()
                    if end == signal.SIGQUIT:
                        t.type("\x1c")
                    else:
                        t.process.send_signal(end)
                    t.ends(-end)
                assert "kept" in file.read_text()


def test_a_server_without_measure():
    """Text without end, silence, silence with comments, and a connection that is kept after the end of the answer."""
    over = threading.Event()

    def flood(out):
        for _ in range(64):
            out.write(event("x" * (1 << 20)))

    def silent(out):
        out.flush()
        over.wait(LIMIT)

    def muttering(out):
        while not over.wait(0.05):
            out.write(b": still here\n\ndata: {}\n\n")
            out.flush()

    def kept(out):
        whole("All of it.")(out)
        silent(out)

    def complete(out):
        out.write(event("All of it.") + b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n')
        silent(out)

    def slow(out):
        for word in "A", " slow", " answer.":
            out.write(event(word))
            out.flush()
            time.sleep(0.8)
        whole("All of it.")(out)

    def quiet(answer):
        with serving(answer) as server:
            _, said = piped("--url", server.base, "--timeout", 1, feed="go\n", code=1)
            assert f"{server.base}/v1 sent no text for 1 s: send the message again, or raise --timeout" in said, said

    def complete_at(timeout, answer, text="All of it.\n"):
        with serving(answer) as server:
            assert piped("--url", server.base, "--timeout", timeout, feed="go\n")[0] == text
    try:
        with concurrent.futures.ThreadPoolExecutor(6) as pool:  # they wait
            waits = [pool.submit(quiet, silent), pool.submit(quiet, muttering), pool.submit(complete_at, 0, kept),
                     pool.submit(complete_at, 600, kept), pool.submit(complete_at, 2, complete),
                     pool.submit(complete_at, 2, slow, "A slow answer.All of it.\n")]
            for wait in waits:
                wait.result()
        with serving(flood) as server:
            out, said = piped("--url", server.base, feed="go\n", code=1)
            assert "the server's answer has over 16 MiB" in said and len(out) == (16 << 20) + 1, (len(out), said)
        with serving(silent) as server, terminal("--url", server.base) as t:
            t.until("> ")
            t.type("go\r")
            deadline = time.monotonic() + LIMIT
            while not server.bodies:
                assert time.monotonic() < deadline, t.said
                time.sleep(0.01)
            t.until("go\r\n")
            t.type("\x03")
            t.until(r"\[stopped\].*> ")
            t.type("/quit\r")
            t.ends()
    finally:
        over.set()


def test_answers_with_a_nul_or_without_text():
    with serving(whole("before\0after")) as server:
        out, said = piped("--url", server.base, feed="one\ntwo\n")
        assert out == 2 * "before\0after\n" and "no text" not in said, said
        assert server.bodies[1]["messages"][1] == {"role": "assistant", "content": "before\0after"}
        server.answer = whole()
        _, said = piped("--url", server.base, feed="one\ntwo\n")
        assert said.count("[the answer has no text: the message and the answer are dropped]") == 2, said
        assert [m["content"] for m in server.bodies[-1]["messages"]] == ["two"]


def test_a_server_of_this_machine_needs_no_proxy():
    with serving(whole("x.")) as server:
        for name in "127.0.0.1", "localhost":
            out, _ = piped("--url", f"http://{name}:{server.server_port}", feed="go\n",
                           env={"http_proxy": "http://127.0.0.1:1", "no_proxy": "", "NO_PROXY": ""})
            assert out == "x.\n"
