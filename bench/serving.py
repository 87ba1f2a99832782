# SPDX-License-Identifier: Apache-2.0
"""What the Python benchmarks share: a server with one model (`with serving.started(model) as port`), and intervals."""
import contextlib
import http.client
import math
import os
import pathlib
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
WEFT = ROOT / os.environ.get("WEFT_BUILD", "build/release") / "bin/weft"
DEMO = str(ROOT / "models/weft-demo-chat")
HEAD = {"Content-Type": "application/json", "Authorization": "Bearer bench"}
T95 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571}  # samples: quantile 0.975 of Student's t for their mean


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@contextlib.contextmanager
def running(command, port, path, log, environment=()):
    """A server's process while it runs, once a GET of this path is answered with 200."""
    server = subprocess.Popen([str(c) for c in command], stdout=log, stderr=log,
                              env={**os.environ, **dict(environment)})
    try:
        while server.poll() is None:
            try:
                client = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
                client.request("GET", path)
                if client.getresponse().status == 200:
                    break
            except OSError:
                pass
            time.sleep(0.1)
        else:
            sys.exit(f"the server of port {port} has ended before it was ready")
        yield server
    finally:
        server.terminate()
        server.wait()


@contextlib.contextmanager
def started(model, program=WEFT, environment=(), options=(), log=None):
    """The port of a server with this model, called `chat`, once it is ready; model: a folder and its options."""
    port = free_port()
    command = [program, "serve", "--port", port, "--api-key", "bench", *options, f"chat={model}"]
    with tempfile.TemporaryFile() as own, running(command, port, "/ready", log or own, environment):
        yield port


def interval(values):
    """Returns the mean and both ends of its 95 % interval by Student's t."""
    middle = statistics.mean(values)
    reach = T95[len(values)] * statistics.stdev(values) / math.sqrt(len(values))
    return middle, middle - reach, middle + reach


def processor():
    names = re.findall(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())
    return f"{names[0] if names else 'unknown'}, {len(names)} threads"
