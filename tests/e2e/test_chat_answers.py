# SPDX-License-Identifier: Apache-2.0
"""Single commands, parameters and answers of `weft chat`, with a server that answers as a test says."""

import base64
import contextlib
import http.server
import json
import os
import pathlib
import socket
import ssl
import subprocess
import tempfile
import threading

import caller_model
from harness import KEY, ROOT, WEFT, Skip, start
from terminals import terminal_open
from test_life import certificate
from test_chat import CHAT, LIMIT, Handler, environment, event, piped, serving, terminal, whole

FAULTY = pathlib.Path(WEFT).resolve().parent / "weft_faulty_cpu"
THINKING = ROOT / "tests/runtime/recorded/templates/thinking.jinja"
CUT = "[cut: the answer reached max-tokens or the end of the context]\n"


def ends(out, reason="stop", **usage):
    out.write(b"data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}).encode() +
              b"\n\ndata: [DONE]\n\n")


def chatted(server, *lines, options=(), code=0):
    """What comes on stdout, and the lines of stderr."""
    out, said = piped("--url", server.base, *options, feed="".join(f"{line}\n" for line in lines), code=code)
    return out, said.splitlines()


def test_the_end_of_the_context():
    made = subprocess.run([WEFT, "generate", CHAT, "--json", "--temperature", "0", "--prompt", "This red river", "--max-tokens", "1"],
                          capture_output=True, check=True)
    context = len(json.loads(made.stdout)["prompt_token_ids"]) + 2
    for options in ("--max-tokens", 50), (), ("--max-tokens", 2):
        out, said = piped(CHAT, "--temperature", 0, "--max-model-len", context, *options, feed="This red river\n")
        assert said == CUT and len(out) > 1, (options, out, said)
    _, said = piped(CHAT, "--max-model-len", context - 2, feed="This red river\n", code=1)
    assert said == f"weft: prompt is too long: {context - 2} tokens > {context - 3} maximum (one is left to generate)\n", said


def test_the_speed_of_answers():
    with serving(whole("x.")) as server:
        _, said = chatted(server, "/speed", "/speed on", "go", "/speed off", "go", "/speed", "/speed maybe", code=1)
        assert [line.split(",")[0] for line in said] == [
            "there is no answer yet", "[7 tokens", "[7 tokens", "weft: /speed prints the speed of the last answer"], said
        assert " tokens per second, the first after 0." in said[1], said
        server.answer = lambda out: (out.write(event("x")), ends(out, completion_tokens=1))
        _, said = chatted(server, "go", "/speed")
        assert len(said) == 1 and said[0].startswith("[1 tokens, the first after 0."), said
        server.answer = lambda out: (out.write(event("x") + event("") + event("y")), ends(out))  # without usage pieces count
        assert chatted(server, "go", "/speed")[1][0].startswith("[2 tokens, ")


def test_parameters_are_shown_and_sent():
    with serving(whole("x.")) as server:
        _, said = chatted(server, "go", "/params temperature=0   top_p=0 top-k=5 max-tokens=3 seed=0", "go", "/params top_k=0 max_tokens=0", "go",
                          options=("--temperature", "1.5", "--top-p", "0.25", "--seed", "9"))
        assert said == ["temperature=0 top-p=0 top-k=5 max-tokens=3 seed=0", "temperature=0 top-p=0 top-k=off max-tokens=unlimited seed=0"], said
        for body in server.bodies:
            del body["messages"]
        common = {"model": "first", "stream": True, "stream_options": {"include_usage": True}}
        assert server.bodies == [{**common, "temperature": 1.5, "top_p": 0.25, "seed": 9},
                                 {**common, "temperature": 0, "top_p": 0, "top_k": 5, "max_tokens": 3, "seed": 0},
                                 {**common, "temperature": 0, "top_p": 0, "seed": 0}], server.bodies


def test_lines_and_commands():
    with serving(whole("x.")) as server:
        _, said = chatted(server, "", "   ", "  one  ", "/system    -", "/system", "/system  two  words ", "/system", "/clear", "/clear now",
                          "//", "three\\")
        assert said == ["the system message is removed", "system message: none",
                        "the system message is set", "system message: two  words",
                        *2 * ["the conversation is cleared, the system message is kept"]], said
        assert [[m["content"] for m in body["messages"]] for body in server.bodies] == [["one"], ["two  words", "/"],
                                                                                       ["two  words", "/", "x.", "three\n"]], server.bodies
        assert chatted(server, "/sys", code=1) == ("", ["weft: there is no command /sys: /help lists the commands"])
        _, said = chatted(server, "/help")
        assert [line.split()[0] for line in said[:-1]] == ["/help", "/system", "/params", "/save", "/save!", "/load", "/clear", "/speed", "/quit"], said
        assert said[1] == "  /system [TEXT|-]          shows, sets or (-) removes the system message" and said[-1].startswith("  a line that ends"), said
    for line, words in ((b"a\0b", "the line contains a NUL byte"), (b"a\xff", "the line is not valid UTF-8")):
        with serving(whole("x.")) as server:
            done = subprocess.run([WEFT, "chat", "--url", server.base], input=line + b"\nnext\n", capture_output=True, timeout=LIMIT, env=environment())
            assert done.returncode == 1 and words in done.stderr.decode() and not server.bodies, done


def test_what_is_loaded_replaces_what_was():
    turn = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with serving(whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
        file, saved = pathlib.Path(folder) / "f", pathlib.Path(folder) / "saved"
        for content, loaded in ((turn, turn), ({"messages": turn}, turn), ([{"role": "system", "content": "s"}, *turn], None)):
            file.write_text(json.dumps(content))
            _, said = chatted(server, "go", f"/load {file}", "c", f"/save! {saved}", options=("--system", "old"))
            assert said[0] == "2 messages are loaded", said
            before = loaded or content
            assert server.bodies[-1]["messages"] == [*before, {"role": "user", "content": "c"}], server.bodies[-1]
            assert saved.read_text().endswith("\n}\n") and len(json.loads(saved.read_text())["messages"]) == len(before) + 2
            assert said[1] == f"{len(before) + 2} messages are in {saved}", said


def test_why_a_conversation_is_not_saved():
    with serving(whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
        pipe = pathlib.Path(folder) / "pipe"
        os.mkfifo(pipe)
        for file, why in ((folder, "Is a directory: name a file in this folder"), (f"{folder}/none/f", "No such file or directory: create its folder first"),
                          (f"{pipe}/f", "Not a directory: create its folder first"), ("/dev/full", "No space left on device: free some space, or name a file on another disk"),
                          (pipe, "No such device or address: no process reads the pipe"), (f"{folder}/{'f' * 300}", "File name too long")):
            _, said = chatted(server, "go", f"/save {file}", code=1)
            assert said == [f"weft: 2 messages cannot be written to {file}: {why}"], said
        if os.geteuid() != 0:
            pathlib.Path(folder).chmod(0o500)
            _, said = chatted(server, "go", f"/save {folder}/f", code=1)
            assert said == [f"weft: 2 messages cannot be written to {folder}/f: Permission denied: name a file where you may write"], said
        assert os.listdir(folder) == ["pipe"]


def test_a_file_of_something_else_is_not_replaced_unasked():
    turn = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with serving(whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
        notes, talk, empty = (pathlib.Path(folder) / name for name in ("notes", "talk", "empty"))
        notes.write_text("Dear diary")
        talk.write_text(json.dumps(turn))
        empty.touch()
        foreign = lambda file: f"weft: {file} exists and contains something else: /save! {file} replaces it"
        assert chatted(server, "go", f"/save {notes}", "on", code=1) == ("x.\n", [foreign(notes)])
        _, said = chatted(server, "go", f"/save {empty}", "on", f"/save {empty}", f"/load {talk}", f"/save {talk}", f"/save {empty}", code=1)
        assert said == [f"2 messages are in {empty}", f"4 messages are in {empty}", "2 messages are loaded", f"2 messages are in {talk}", foreign(empty)], said
        assert notes.read_text() == "Dear diary" and json.loads(talk.read_text()) == {"messages": turn}
        assert chatted(server, f"/load {talk}", "/clear", f"/save {talk}", code=1)[1][2:] == [foreign(talk)]
        said = chatted(server, f"/save! {notes}", f"/save {notes}", "/save!", code=1)[1]
        assert said == 2 * [f"0 messages are in {notes}"] + ["weft: /save! needs the name of a file"], said


def reply(status, body):
    def answer(handler):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    return answer


def test_what_a_server_answers():
    """Thoughts are told apart and not kept; lines may end as on Windows; the words of a refusal are those of the server."""
    def thinking(out):
        out.write(b": comment\r\nevent: x\r\ndata: " + json.dumps({"choices": [{"delta": {"reasoning_content": "Hm. "}}]}).encode() + b"\r\n\r\n")
        out.write(event("Yes.").replace(b"\n", b"\r\n"))
        out.write(b'data:{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\r\n\r\ndata: [DONE]\r\n\r\n')
    with serving(thinking) as server:
        assert chatted(server, "go", "on") == (2 * "Yes.\n", 2 * ["[reasoning] Hm. ", CUT.strip()])
        assert [m["content"] for m in server.bodies[1]["messages"]] == ["go", "Yes.", "on"]
        server.answer = lambda out: out.write(event("All.") + b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
        assert chatted(server, "go") == ("All.\n", [])  # complete without [DONE]
        server.answer = lambda out: (out.write(event("Half")), out.write(b'data: {"error":"no wool"}\n\n'))
        assert piped("--url", server.base, feed="go\n", code=1) == ("Half\n", "weft: the server ended the answer: no wool\n")
        server.answer = lambda out: out.write(b'data: {"error":{}}\n\n')
        assert piped("--url", server.base, feed="go\n", code=1) == ("", "weft: the server ended the answer: it sent no reason\n")
        posted = Handler.do_POST
        try:
            for status, body, words in ((500, b'{"error":{"message":"broken"}}', "the server answers 500: broken"),
                                        (503, b'{"error":"later"}', "the server answers 503: later"),
                                        (400, b'{"message":"bad"}', "the server answers 400: bad"), (502, b"<html>", "the server answers 502"),
                                        (403, b"{}", "the server refuses the key (403): set its key with --api-key or OPENAI_API_KEY"),
                                        (404, b"", f"{server.base}/v1 answers 404: set the address of an API such as http://127.0.0.1:8000 with --url")):
                Handler.do_POST = reply(status, body)
                assert piped("--url", server.base, "m", feed="go\n", code=1) == ("", f"weft: {words}\n"), status
        finally:
            Handler.do_POST = posted


def delta(**texts):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": texts}]}).encode() + b"\n\n"


def test_thoughts_are_no_answers():
    """In a pipe they are on stderr, on a terminal dim, without colours named; under either name, also beside text, and alone."""
    def thinking(out):
        out.write(delta(reasoning="A\u202e, ") + delta(reasoning_content="be", reasoning="be") + delta(reasoning_content=", so", content="Yes, "))
        out.write(delta(content="no.") + delta(reasoning="d") + delta(content=" Well."))
        ends(out)

    def silent(out):
        out.write(delta(reasoning="Hm."))
        ends(out)
    with serving(thinking) as server:
        assert piped("--url", server.base, feed="go\n") == ("Yes, no. Well.\n", "[reasoning] A\u202e, be, so\n[reasoning] d\n")
        for options, words in (({}, "\x1b[2mA\\u{202e}, be, so\x1b[0m\r\n\r\nYes, no.\r\n\x1b[2md\x1b[0m\r\n\r\n Well.\r\n"),
                               ({"NO_COLOR": "1"}, "[reasoning] A\\u{202e}, be, so\r\n[answer] Yes, no.\r\n[reasoning] d\r\n[answer]  Well.\r\n")):
            with terminal("--url", server.base, env=options) as t:
                t.until("answers.*> ")
                t.type("go\r")
                assert t.until("go\r\n(.*?)(\x1b\\[\\?2004h)?> ")[1] == words, t.said
                t.type("/quit\r")
                t.ends()
        ours, theirs = terminal_open(Skip)  # each of the two streams is a terminal or not
        done = subprocess.run([WEFT, "chat", "--url", server.base], input=b"go\n", stdout=subprocess.PIPE, stderr=theirs,
                              timeout=LIMIT, env=environment())
        os.close(theirs)
        said = os.read(ours, 4096).decode()
        assert done.stdout == b"Yes, no. Well.\n" and "A\\u{202e}, be, so" in said and "\u202e" not in said, (done, said)
        os.close(ours)
        server.answer = silent
        out, said = chatted(server, "go", "on")
        assert (out, said[0]) == ("", "[reasoning] Hm.") and "the answer has no text" in said[1], (out, said)
        assert [m["content"] for m in server.bodies[-1]["messages"]] == ["on"]


def test_thoughts_of_a_model():
    """Those of a model of the process are told apart as a server tells them; weft generate prints what the model writes."""
    with tempfile.TemporaryDirectory() as folder:
        caller_model.caller(f"{folder}/thinks")
        args = (f"{folder}/thinks", "--temperature", 0)
        out, said = piped(*args, feed="go\n/save " + f"{folder}/saved\n")
        assert said == f"[reasoning] Two tools, then.\n2 messages are in {folder}/saved\n", said
        assert out.startswith("Let me see.\n<tool_call>") and out.endswith("</tool_call>\n") and "think>" not in out, out
        assert json.loads(pathlib.Path(f"{folder}/saved").read_text())["messages"][1]["content"] + "\n" == out
        server = start(f"{folder}/thinks")
        assert piped("--url", server.base, "--api-key", KEY, "--temperature", 0, feed="go\n") == (out, "[reasoning] Two tools, then.\n")
        made = subprocess.run([WEFT, "generate", f"{folder}/thinks", "--temperature", "0", "--prompt", "go"], capture_output=True, check=True)
        assert made.stdout.decode().startswith("<think>Two tools, then.</think>"), made
        tokenizer = pathlib.Path(folder, "thinks/tokenizer.json")  # marks that are special tokens
        tokens = json.loads(tokenizer.read_text())
        for token in tokens["added_tokens"]:
            token["special"] = token["special"] or "think>" in token["content"]
        tokenizer.write_text(json.dumps(tokens))
        assert piped(*args, feed="go\n") == (out, "[reasoning] Two tools, then.\n")
        opened = ("--chat-template", THINKING)  # the prompt opens the reasoning
        assert piped(CHAT, *opened, "--temperature", 0, "--max-tokens", 4, feed="go\n")[0] == ""


def test_addresses_and_models_of_a_server():
    paths, listed = [], Handler.do_GET
    try:
        Handler.do_GET = lambda handler: (paths.append(handler.path), reply(200, b'{"data":[{"id":"v","kind":"embedder"}]}')(handler))
        with serving(whole("x.")) as server:
            for address, path in (server.base, "/v1"), (f"{server.base}///", "/v1"), (f"{server.base}/api/x/", "/api/x"):
                _, said = piped("--url", address, feed="go\n", code=1)
                base = server.base + path
                assert said == f"weft: {base} lists no model that chats: name one, weft chat --url {base} MODEL\n", said
            assert paths == ["/v1/models", "/v1/models", "/api/x/models"], paths
    finally:
        Handler.do_GET = listed
    _, said = piped("--url", "https://127.0.0.1:1", feed="go\n", code=1)
    assert said.startswith("weft: no server answers at https://127.0.0.1:1/v1 ("), said
    done = subprocess.run([WEFT, "chat", "--url", "http://x", "--system", b"a\xff"], capture_output=True, timeout=LIMIT, env=environment(), input=b"")
    assert done.returncode == 2 and b"--system is not valid UTF-8" in done.stderr, done


def test_a_password_in_an_address_is_not_shown():
    """It is sent, and no sentence has it."""
    sent, posted = [], Handler.do_POST
    with serving(whole("x.")) as server:
        address = server.base.replace("//", "//us:pa%40ss@")
        def answer(handler):
            sent.append(handler.headers["Authorization"])
            posted(handler)
        try:
            Handler.do_POST = answer
            assert piped("--url", address, feed="go\n") == ("x.\n", "")
            assert sent == ["Basic " + base64.b64encode(b"us:pa@ss").decode()], sent
            shown = server.base.replace("//", "//***@") + "/v1"
            for answer, words in (reply(404, b""), f"{shown} answers 404: set the address"), (lambda handler: handler.wfile.write(b"SSH\r\n\r\n"), f"{shown} sent no answer ("):
                Handler.do_POST = answer
                _, said = piped("--url", address, "m", feed="go\n", code=1)
                assert said.startswith(f"weft: {words}") and "pa" not in said, said
        finally:
            Handler.do_POST = posted
        server.answer = lambda out: out.write(event("Half"))
        _, said = piped("--url", address, feed="go\n", code=1)
        assert said == f"weft: {shown} ended its answer before it was complete: send the message again\n", said
    _, said = piped("--url", address + "/a@b", "m", feed="go\n", code=1)
    assert said.startswith(f"weft: no server answers at {shown[:-3]}/a@b (") and "pa%40" not in said, said


def talking(*said):
    """The port of a server that writes this to each connection, whatever it is asked, and closes it."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve():
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listening.accept()
                with connection:
                    connection.recv(65536)
                    for each in said:
                        connection.sendall(each)
    threading.Thread(target=serve, daemon=True).start()
    return listening


def test_why_a_server_cannot_be_asked():
    """Each cause has its sentence, which says what to do."""
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
    half = b"%x\r\n%s" % (len(event("Half")) + 9, event("Half"))
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        open_ = lambda listening: stack.enter_context(listening).getsockname()[1]
        mute = open_(socket.create_server(("127.0.0.1", 0)))  # TCP, and not a word of TLS
        late = stack.enter_context(subprocess.Popen([FAULTY, "chat", "m", "--url", f"https://127.0.0.1:{mute}"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                                    stderr=subprocess.PIPE, env=environment()))
        late.stdin.write(b"go\n")
        late.stdin.close()
        plain, empty, shell = open_(talking(b"HTTP/1.1 400 Bad\r\n\r\n")), open_(talking()), open_(talking(b"SSH-2.0-x\r\n"))
        broken, chunks = open_(talking(head, half)), open_(talking(head, b"zzz\r\n"))
        causes = [("https://127.0.0.1:%d" % plain, {}, "sent no answer", "for a server without TLS, --url begins with http://"),
                  ("http://127.0.0.1:%d" % empty, {}, "sent no answer", "check that it is an HTTP server; for one with TLS, --url begins with https://"),
                  ("http://127.0.0.1:%d" % shell, {}, "sent no answer", "check that it is an HTTP server; for one with TLS, --url begins with https://"),
                  ("http://127.0.0.1:%d" % broken, {}, "closed the connection before its answer was complete", "send the message again"),
                  ("http://127.0.0.1:%d" % chunks, {}, "closed the connection before its answer was complete", "send the message again"),
                  ("http://127.0.0.1:1", {}, "no server answers at", "start one with 'weft serve', or set its address with --url"),
                  ("http://no-such-name.invalid", {}, "no server answers at", "check the name in --url and the network"),
                  ("http://x.invalid", {"http_proxy": "http://no-such-name.invalid:1"}, "no server answers at", "the environment names a proxy (http_proxy, https_proxy)")]
        try:
            certificate(pathlib.Path(folder), "elsewhere")
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(f"{folder}/cert", f"{folder}/key")
            secure = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
            secure.socket = context.wrap_socket(secure.socket, server_side=True)
            secure.handle_error = lambda *_: None
            threading.Thread(target=secure.serve_forever, args=(0.01,), daemon=True).start()
            causes.append((f"https://127.0.0.1:{secure.server_port}", {}, "sent no answer", "--url must have the name that the certificate has, and this machine "
                           "must trust the issuer of the certificate (Debian: update-ca-certificates)"))
        except FileNotFoundError:
            pass  # no program to make a certificate with
        for address, env, words, advice in causes:
            _, said = piped("--url", address, "m", feed="go\n", code=1, env=env)
            assert words in said and f"{address}/v1" in said and said.endswith(f"): {advice}\n") and said.count("\n") == 1, (address, said)
        said = late.stderr.read().decode()
        assert late.wait() == 1 and said.startswith(f"weft: no server answers at https://127.0.0.1:{mute}/v1 (") and \
            said.endswith("): check the address, and that this machine can reach it\n"), said
        whole_ = b"%x\r\n%s" % (999, event("All.") + b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
        done = open_(talking(head, whole_))
        assert piped("--url", f"http://127.0.0.1:{done}", "m", feed="go\n") == ("All.\n", "")  # broken after its end


def test_a_fault_of_libcurl_is_no_answer():
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "curl").touch()
        done = subprocess.run([FAULTY, "chat", "m", "--url", "http://x.invalid"], input=b"go\n", capture_output=True, timeout=LIMIT,
                              env={**environment(), "WEFT_FAULT_FOLDER": folder})
        assert (done.returncode, done.stderr) == (1, b"weft: no request can be sent to http://x.invalid/v1: Internal error\n"), done


def test_lines_of_a_terminal_are_remembered_once():
    with serving(whole("x.")) as server, terminal("--url", server.base) as t:
        t.until("^.*first answers. /help lists commands, Ctrl-C stops an answer, Ctrl-D ends.\r\n.*> ")
        for line in "one", "two", "two", "  ":
            t.type(f"{line}\r")
            t.until("> " if line == "  " else "x\\.\r\n.*> ")
        t.type("\x1b[A\x1b[A\r")
        t.until("x\\.\r\n.*> ")
        t.type("and\\\r")
        t.until("\\| ")
        t.type("more\r")
        t.until("x\\.\r\n.*> ")
        t.type("\x04")
        t.ends()
        assert [body["messages"][-1]["content"] for body in server.bodies] == ["one", "two", "two", "one", "and\nmore"]
