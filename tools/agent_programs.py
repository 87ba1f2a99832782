#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs Codex CLI and Claude Code with their default settings against `weft serve`: a first request, one executed tool
call whose result comes back, and a second turn.

  tools/agent_programs.py --weft build/release/bin/weft --packages build/agents-venv

The model is a chain of tokens (tests/e2e/caller_model.py): it calls the program's own shell tool once and then answers
with a sentence. The packages openai-codex-cli-bin and claude-agent-sdk contain the programs. If one cannot be had, it is
skipped with the reason.
"""
import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import caller_model  # noqa: E402

KEY, PORT, WINDOW, LIMIT_S = "sk-agents", 18736, 262144, 120
ANSWER = "The shell works."
TEMPLATE = caller_model.TEMPLATE.replace(
    "{% if messages[-1].role == 'tool' %}",
    "{% if messages | selectattr('role', 'equalto', 'tool') | list %}")


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


def run(command, home, proof, **environment):
    """Runs a turn of a program; proof: a file that its tool call must have written, or None."""
    done = subprocess.run(command, cwd=home, timeout=LIMIT_S, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, env={**os.environ, "HOME": str(home), **environment})
    if done.returncode or ANSWER not in done.stdout or (proof and proof not in done.stdout):
        sys.exit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stdout[-4000:]}")


def codex(program, home):
    (home / "config.toml").write_text(
        'model = "agent"\nmodel_provider = "weft"\n[model_providers.weft]\nname = "weft"\n'
        f'base_url = "http://127.0.0.1:{PORT}/v1"\nwire_api = "responses"\nenv_key = "WEFT_KEY"\n')
    more = {"CODEX_HOME": str(home), "WEFT_KEY": KEY}
    run([program, "exec", "--skip-git-repo-check", "Try the shell."], home, "weft-7", **more)
    run([program, "exec", "resume", "--last", "--skip-git-repo-check", "Again?"], home, None, **more)


def claude(program, home):
    more = {"ANTHROPIC_BASE_URL": f"http://127.0.0.1:{PORT}", "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": "agent"}
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
    for name, path, tool, arguments, turns in PROGRAMS:
        found = sorted(args.packages.glob(f"lib/python3*/site-packages/{path}"))
        if not found:
            print(f"{name}: skipped: {args.packages} has no {path}")
            continue
        home = pathlib.Path(tempfile.mkdtemp())
        with open(home / "server.log", "w") as log:
            server = serve(args.weft.resolve(), model(tempfile.mkdtemp(), tool, arguments), log)
            try:
                turns(found[0].resolve(), home)
            finally:
                server.terminate()
                server.wait()
        print(f"{name}: first answer, executed tool call, second turn")
        shutil.rmtree(home)


main()
