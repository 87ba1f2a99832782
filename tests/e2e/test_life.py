"""From the first signal to the last: a stalled log, reloads, ends of every kind, failing devices."""

import fcntl
import http.client
import os
import re
import subprocess
import threading

import harness
from harness import KEY, MODELS, Server

EMBED = MODELS / "weft-demo-embed"


class PipedServer(Server):
    """stderr is a small pipe that nobody reads until read_log."""

    def __init__(self, *args, env=None):
        self.port = harness.free_port()
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        command = [harness.WEFT, "serve", *map(str, args), "--port", str(self.port),
                   "--api-key", KEY]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer,
                                        env={**os.environ, **(env or {})})
        os.close(writer)
        self.args = args
        self.text = b""
        self.wait_ready()

    def output(self):
        return self.text.decode(errors="replace")

    def read_log(self):
        def read():
            while piece := os.read(self.reader, 65536):
                self.text += piece
            os.close(self.reader)
        thread = threading.Thread(target=read)
        thread.start()
        return thread


def test_log_stalled_reader():
    """4,000 requests, each with its line in a log that nobody reads: all are answered."""
    server = PipedServer(EMBED, "--log-level", "debug")
    try:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
        for _ in range(4000):
            connection.request("GET", "/version")
            answer = connection.getresponse()
            assert answer.read() and answer.status == 200
        connection.close()
        dropped = server.metric("weft_log_lines_dropped_total")
        assert dropped > 0
        reading = server.read_log()
        assert server.stop() == 0
        reading.join()
        text = server.output()
        lines = len(re.findall(r"debug GET /version 200", text))
        said = sum(map(int, re.findall(r"warning (\d+) lines of the log were dropped", text)))
        assert said >= dropped and lines + said >= 4000, (lines, said, dropped)
        assert text.rstrip().endswith("info stopped"), text[-200:]
    finally:
        server.process.kill()


def test_log_stalled_at_the_end():
    """A reader that never comes back does not keep the process from ending."""
    server = PipedServer(EMBED, "--log-level", "debug")
    try:
        for _ in range(100):
            assert server.request("GET", "/version").status == 200
        assert server.stop() == 0
    finally:
        server.process.kill()
        os.close(server.reader)
