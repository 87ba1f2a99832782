"""A server of one chat model for the benchmarks in Python: `with serving.started(model) as port`."""
import contextlib
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
def started(model):
    """The port of a server with this model, called `chat`; model: a folder and its options."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen([WEFT, "serve", "--port", str(port), "--api-key", "bench", f"chat={model}"],
                                  stdout=log, stderr=log)
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), 1).close()
                    break
                except OSError:
                    time.sleep(0.1)
            yield port
        finally:
            server.terminate()
            server.wait()
