"""Single commands, parameters and answers of `weft chat`, with a server that answers as a test says."""

import json
import pathlib
import subprocess
import tempfile

from harness import WEFT
from test_chat import CHAT, LIMIT, Handler, environment, event, piped, serving, terminal, whole

CUT = "[cut: the answer reached max-tokens or the end of the context]\n"


def ends(out, reason="stop", **usage):
    out.write(b"data: " + json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": usage}).encode() +
              b"\n\ndata: [DONE]\n\n")


def chatted(server, *lines, options=()):
    """What comes on stdout, and the lines of stderr."""
    out, said = piped("--url", server.base, *options, feed="".join(f"{line}\n" for line in lines))
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
        _, said = chatted(server, "/speed", "/speed on", "go", "/speed off", "go", "/speed maybe", "/speed")
        assert [line.split(",")[0] for line in said] == [
            "there is no answer yet", "[7 tokens", "/speed tells the speed of the last answer", "[7 tokens"], said
        assert " a second, the first after 0." in said[1], said
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
        _, said = chatted(server, "", "   ", "  one  ", "/sys", "/system    -", "/system", "/system  two  words ", "/system", "/clear", "/clear now",
                          "//", "three\\")
        assert said == ["there is no command /sys: /help lists them", "the system message is removed", "system message: none",
                        "the system message is set", "system message: two  words",
                        *2 * ["the conversation is forgotten, the system message stays"]], said
        assert [[m["content"] for m in body["messages"]] for body in server.bodies] == [["one"], ["two  words", "/"],
                                                                                       ["two  words", "/", "x.", "three\n"]], server.bodies
        _, said = chatted(server, "/help")
        assert [line.split()[0] for line in said[:-1]] == ["/help", "/system", "/params", "/save", "/load", "/clear", "/speed", "/quit"], said
        assert said[1] == "  /system [TEXT|-]          shows, sets or (-) removes the system message" and said[-1].startswith("  a line that ends"), said
    for line, words in ((b"a\0b", "the line holds a NUL"), (b"a\xff", "the line is not valid UTF-8")):
        with serving(whole("x.")) as server:
            done = subprocess.run([WEFT, "chat", "--url", server.base], input=line + b"\nnext\n", capture_output=True, timeout=LIMIT, env=environment())
            assert done.returncode == 1 and words in done.stderr.decode() and not server.bodies, done


def test_what_is_loaded_replaces_what_was():
    turn = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    with serving(whole("x.")) as server, tempfile.TemporaryDirectory() as folder:
        file, saved = pathlib.Path(folder) / "f", pathlib.Path(folder) / "saved"
        for content, loaded in ((turn, turn), ({"messages": turn}, turn), ([{"role": "system", "content": "s"}, *turn], None)):
            file.write_text(json.dumps(content))
            _, said = chatted(server, "go", f"/load {file}", "c", f"/save {saved}", options=("--system", "old"))
            assert said[0] == "2 messages are loaded", said
            before = loaded or content
            assert server.bodies[-1]["messages"] == [*before, {"role": "user", "content": "c"}], server.bodies[-1]
            assert saved.read_text().endswith("\n}\n") and len(json.loads(saved.read_text())["messages"]) == len(before) + 2
            assert said[1] == f"{len(before) + 2} messages are in {saved}", said
        _, said = chatted(server, "go", f"/save {folder}")
        assert said == [f"2 messages cannot be written to {folder}: is the folder there, and may you write in it?"], said
        assert sorted(path.name for path in pathlib.Path(folder).iterdir()) == ["f", "saved"]


def reply(status, body):
    def answer(handler):
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)
    return answer


def test_what_a_server_answers():
    """Thoughts are shown and not kept; lines may end as on Windows; the words of a refusal are those of the server."""
    def thinking(out):
        out.write(b": comment\r\nevent: x\r\ndata: " + json.dumps({"choices": [{"delta": {"reasoning_content": "Hm. "}}]}).encode() + b"\r\n\r\n")
        out.write(event("Yes.").replace(b"\n", b"\r\n"))
        out.write(b'data:{"choices":[{"index":0,"delta":{},"finish_reason":"length"}]}\r\n\r\ndata: [DONE]\r\n\r\n')
    with serving(thinking) as server:
        assert chatted(server, "go", "on") == (2 * "Hm. Yes.\n", 2 * [CUT.strip()])
        assert [m["content"] for m in server.bodies[1]["messages"]] == ["go", "Yes.", "on"]
        server.answer = lambda out: out.write(event("All.") + b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\n')
        assert chatted(server, "go") == ("All.\n", [])  # complete without [DONE]
        server.answer = lambda out: (out.write(event("Half")), out.write(b'data: {"error":"no wool"}\n\n'))
        assert piped("--url", server.base, feed="go\n", code=1) == ("Half\n", "weft: the server ended the answer: no wool\n")
        server.answer = lambda out: out.write(b'data: {"error":{}}\n\n')
        assert piped("--url", server.base, feed="go\n", code=1) == ("", "weft: the server ended the answer: it does not say why\n")
        posted = Handler.do_POST
        try:
            for status, body, words in ((500, b'{"error":{"message":"broken"}}', "the server answers 500: broken"),
                                        (503, b'{"error":"later"}', "the server answers 503: later"),
                                        (400, b'{"message":"bad"}', "the server answers 400: bad"), (502, b"<html>", "the server answers 502"),
                                        (403, b"{}", "the server refuses the key (403): give its key with --api-key or OPENAI_API_KEY"),
                                        (404, b"", f"{server.base}/v1 answers 404: give the address of an API such as http://127.0.0.1:8000 with --url")):
                Handler.do_POST = reply(status, body)
                assert piped("--url", server.base, "m", feed="go\n", code=1) == ("", f"weft: {words}\n"), status
        finally:
            Handler.do_POST = posted


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
