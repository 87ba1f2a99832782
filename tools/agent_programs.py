#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Codex CLI and Claude Code with their default settings against `weft serve`: a first request, one executed tool
call whose result comes back, and a second turn. A proxy reads the usage of each answer: the number of cached tokens must
grow with the conversation.

  tools/agent_programs.py --weft build/release/bin/weft --packages build/agents-venv

The model is a chain of tokens (tests/e2e/caller_model.py): it calls the program's own shell tool once and then answers
with a sentence. The packages openai-codex-cli-bin and claude-agent-sdk contain the programs. If one cannot be had, it is
skipped with the reason.
"""
import argparse
import http.client
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import caller_model  # noqa: E402

KEY, PORT, PROXY_PORT, WINDOW, LIMIT_S = "sk-agents", 18736, 18737, 262144, 120
ANSWER = "The shell works."
FIRST = "{%- for message in messages %}"
TEMPLATE = caller_model.TEMPLATE.replace(
    "{% if messages[-1].role == 'tool' %}",
    "{% if messages | selectattr('role', 'equalto', 'tool') | list %}").replace(
    FIRST, FIRST + "{% if message.role == 'system' and not loop.first %}"
    "{{ raise_exception('System message must be at the beginning.') }}{% endif %}")


def model(folder, name, arguments):
    """A model that calls the tool and, once the conversation has a result, answers."""
    chain = ["<tool_call>", f'\n{{"name": "{name}", "arguments": ', arguments, "}\n", "</tool_call>"]
    follows = {"\n": chain[0], chain[-1]: "<|im_end|>", "<|answer|>": ANSWER, ANSWER: "<|im_end|>"}
    follows.update(zip(chain, chain[1:]))
    return caller_model.chain_model(str(folder), ["<|answer|>"], chain + [ANSWER], follows, TEMPLATE, caller_model.FAR,
                                    WINDOW)


def serve(weft, folder, log):
    server = subprocess.Popen([weft, "serve", f"m={folder},served-model-name=m,served-model-name=agent", "--port", str(PORT),
                               "--api-key", KEY], stdout=log, stderr=log)
    for _ in range(300):
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{PORT}/ready")
            return server
        except OSError:
            time.sleep(0.1)
    server.kill()
    sys.exit("the server is not ready after 30 s")


def usage_of(body):
    """The tokens of the prompt and those of them that were cached, from an answer or the events of one; or None."""
    found = {}
    for line in body.decode(errors="replace").splitlines():
        data = line.removeprefix("data: ")
        if not data.startswith("{"):
            continue
        event = json.loads(data)
        for part in (event, event.get("message") or {}, event.get("response") or {}):
            found.update(part.get("usage") or {})
    if "input_tokens" not in found:
        return None
    read = found.get("cache_read_input_tokens")
    if read is not None:  # Messages: input_tokens does not include them
        return found["input_tokens"] + read, read
    return found["input_tokens"], found.get("input_tokens_details", {}).get("cached_tokens", 0)


class Proxy(http.server.BaseHTTPRequestHandler):
    """Passes requests to the server and notes the usage of those with tools: titles and the like have none."""
    usages = []

    def log_message(self, *_):
        pass

    def relay(self):
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        server = http.client.HTTPConnection("127.0.0.1", PORT, timeout=LIMIT_S)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in ("host", "connection", "accept-encoding")}
        server.request(self.command, self.path, body, headers)
        answer = server.getresponse()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("transfer-encoding", "content-length", "connection", "server", "date"):
                self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        read = b""
        while piece := answer.read1(65536):
            read += piece
            self.wfile.write(piece)
            self.wfile.flush()
        usage = usage_of(read) if answer.status == 200 and b'"tools":[{' in body else None
        if usage:
            self.usages.append(usage)
        self.close_connection = True

    do_GET = do_POST = do_HEAD = relay


def check_cached(name):
    """The conversation has at least three requests: the first, the result of the tool, the second turn."""
    shown = ", ".join(f"{cached} of {prompt}" for prompt, cached in Proxy.usages)
    cached = [cached for _, cached in Proxy.usages]
    if len(cached) < 3 or any(after <= before for before, after in zip(cached, cached[1:])):
        sys.exit(f"{name}: the cached tokens do not grow: {shown}")
    return shown


def run(command, home, proof, **environment):
    """Runs a turn of a program; proof: a file that its tool call must have written, or None."""
    done = subprocess.run(command, cwd=home, timeout=LIMIT_S, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, "HOME": str(home), **environment})
    if done.returncode or ANSWER not in done.stdout or (proof and proof not in done.stdout):
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-4000:]}")


def codex(program, home):
    (home / "config.toml").write_text(
        'model = "agent"\nmodel_provider = "weft"\n[model_providers.weft]\nname = "weft"\n'
        f'base_url = "http://127.0.0.1:{PROXY_PORT}/v1"\nwire_api = "responses"\nenv_key = "WEFT_KEY"\n')
    more = {"CODEX_HOME": str(home), "WEFT_KEY": KEY}
    run([program, "exec", "--skip-git-repo-check", "Try the shell."], home, "weft-7", **more)
    run([program, "exec", "resume", "--last", "--skip-git-repo-check", "Again?"], home, None, **more)


def claude(program, home):
    more = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{PROXY_PORT}", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "agent"}
    run([program, "-p", "--verbose", "--output-format", "stream-json", "Try the shell."], home, "weft-7", **more)
    run([program, "-p", "--continue", "Again?"], home, None, **more)


PROGRAMS = [  # name, path in the packages, shell tool, its arguments, how to run it. The shell computes the 7
    ("Codex CLI", "codex_cli_bin/bin/codex", "exec_command", '{"cmd": "echo weft-$((3+4))"}', codex),
    ("Claude Code", "claude_agent_sdk/_bundled/claude", "Bash",
     '{"command": "echo weft-$((3+4))", "description": "try"}', claude)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weft", required=True, type=pathlib.Path)
    parser.add_argument("--packages", required=True, type=pathlib.Path, help="virtual environment with the packages")
    args = parser.parse_args()
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", PROXY_PORT), Proxy)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    for name, path, tool, arguments, turns in PROGRAMS:
        found = sorted(args.packages.glob(f"lib/python3*/site-packages/{path}"))
        if not found:
            print(f"{name}: skipped: {args.packages} has no {path}")
            continue
        home = pathlib.Path(tempfile.mkdtemp())
        Proxy.usages.clear()
        with open(home / "server.log", "w") as log:
            server = serve(args.weft.resolve(), model(tempfile.mkdtemp(), tool, arguments), log)
            try:
                turns(found[0].resolve(), home)
            finally:
                server.terminate()
                server.wait()
        print(f"{name}: first answer, executed tool call, second turn; cached tokens: {check_cached(name)}")
        shutil.rmtree(home)


main()
