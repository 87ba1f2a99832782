# SPDX-License-Identifier: Apache-2.0
"""Runs a server with one chat model for the Python benchmarks: `with serving.started(model) as port`."""
import contextlib
import http.client
import os
import pathlib
import socket
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WEFT = ROOT / os.environ.get("WEFT_BUILD", "build/release") / "bin/weft"
DEMO = str(ROOT / "models/weft-demo-chat")
HEAD = {"Content-Type": "application/json", "Authorization": "Bearer bench"}


@contextlib.contextmanager
def started(model, program=WEFT, environment=()):
    """The port of a server with this model, called `chat`, once it is ready; model: a folder and its options."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen([program, "serve", "--port", str(port), "--api-key", "bench", f"chat={model}"],
                                  stdout=log, stderr=log, env={**os.environ, **dict(environment)})
        try:
            while True:
                try:
                    client = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
                    client.request("GET", "/ready")
                    if client.getresponse().status == 200:
                        break
                except OSError:
                    pass
                time.sleep(0.1)
            yield port
        finally:
            server.terminate()
            server.wait()
