# SPDX-License-Identifier: Apache-2.0
"""Two nodes in two network namespaces that a veth pair connects: lost nodes and links, nodes that differ.

Each process is started again after an error, as `Restart=on-failure` of systemd does. Needs root and iproute2.
"""

import contextlib
import ctypes
import http.client
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from harness import KEY, Server, Skip, WEFT, chat, soak_only, text_of
from test_cluster import DEMO, lost_streams
from test_life import wait_for

STREAMS = 200
HEARTBEAT = 3  # --heartbeat-timeout, in seconds
WITHIN = 5  # seconds after a closed connection, or after the heartbeat limit, in which each request has ended
PORT = 8000
ADDRESSES = "192.0.2.1", "192.0.2.2"  # of nodes 0 and 1; a network for documentation
SPLIT = "--tensor-parallel-size", 2, "--kv-cache-memory", "96M"
CLONE_NEWNET = 0x40000000


class Namespace:
    """A network namespace that a sleeping process holds: it ends with the process."""

    def __init__(self):
        self.process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"], stderr=subprocess.PIPE, text=True)
        self.path = f"/proc/{self.process.pid}/ns/net"
        own = os.readlink("/proc/self/ns/net")
        while os.readlink(self.path) == own:
            if self.process.poll() is not None:
                raise Skip(f"no network namespace can be created: {self.process.stderr.read().strip()}")
            time.sleep(0.01)

    def ip(self, *args):
        with self.entered():
            subprocess.run(["ip", *map(str, args)], check=True)

    @contextlib.contextmanager
    def entered(self):
        """The calling thread, and the processes and sockets that it creates, are in the namespace."""
        before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
        namespace_set(self.path)
        try:
            yield
        finally:
            namespace_set(f"/proc/self/fd/{before}")
            os.close(before)


def namespace_set(path):
    fd = os.open(path, os.O_RDONLY)
    libc = ctypes.CDLL(None, use_errno=True)
    result = libc.setns(fd, CLONE_NEWNET)
    os.close(fd)
    if result != 0:
        raise OSError(ctypes.get_errno(), "setns")


@contextlib.contextmanager
def namespaces():
    """Two namespaces, each with its end of a veth pair, the device "wire"."""
    if os.geteuid() != 0 or not shutil.which("ip") or not shutil.which("unshare"):
        raise Skip("network namespaces need root, iproute2 and util-linux")
    pair = []
    try:
        for _ in ADDRESSES:
            pair.append(Namespace())
        made = subprocess.run(["ip", "link", "add", "wire", "netns", str(pair[0].process.pid), "type", "veth",
                               "peer", "name", "wire", "netns", str(pair[1].process.pid)], capture_output=True, text=True)
        if made.returncode != 0:
            raise Skip(f"no veth pair can be created: {made.stderr.strip()}")
        for namespace, address in zip(pair, ADDRESSES):
            namespace.ip("link", "set", "lo", "up")
            namespace.ip("address", "add", f"{address}/24", "dev", "wire")
            namespace.ip("link", "set", "wire", "up")
        yield pair
    finally:
        for namespace in pair:
            namespace.process.kill()
            namespace.process.wait()


class Supervised:
    """A process that a thread starts again each time it ends with an error."""

    def __init__(self, namespace, args):
        self.namespace, self.args = namespace, args
        self.log = tempfile.TemporaryFile()
        self.codes = []  # exit codes of the processes that have ended
        self.process, self.stopping = None, False
        self.started = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        self.started.wait()

    def run(self):
        with self.namespace.entered():
            while not self.stopping:
                self.process = subprocess.Popen([WEFT, "serve", *map(str, self.args)], stdout=self.log, stderr=self.log)
                self.started.set()
                code = self.process.wait()
                self.codes.append(code)
                if code == 0:
                    return
                time.sleep(0.3)

    def output(self):
        return os.pread(self.log.fileno(), 1 << 26, 0).decode(errors="replace")

    def stop(self):
        self.stopping = True
        if self.process.poll() is None:
            self.process.kill()
        self.thread.join()


class Group(Server):
    """Node 0 in the namespace of the calling thread, and node 1."""

    port = PORT

    def __init__(self, pair, secret):
        common = (DEMO, "--served-model-name", "demo", *SPLIT, "--device", "cpu", "--threads", 2, "--nnodes", 2,
                  "--master-addr", ADDRESSES[0], "--cluster-secret-file", secret, "--heartbeat-timeout", HEARTBEAT,
                  "--api-key", KEY)
        self.nodes = [Supervised(namespace, (*common, "--port", PORT, "--node-rank", rank)) for rank, namespace in enumerate(pair)]

    def output(self):
        return self.nodes[0].output()

    def answer(self):
        """The text of the group's answer, once it serves."""
        def ready():
            with contextlib.suppress(OSError, http.client.HTTPException):
                return self.request("GET", "/ready").status == 200
        wait_for(ready, "the group does not serve")
        return text_of(chat(self, model="demo", max_tokens=24))

    def errors(self, codes, sentences, fault):
        """Causes a fault and waits until each node has ended with its code and has logged its sentence (a regular expression)."""
        begun = [(len(node.codes), len(node.output())) for node in self.nodes]
        fault()
        for node, (count, at), code, sentence in zip(self.nodes, begun, codes, sentences):
            if code is not None:
                wait_for(lambda: len(node.codes) > count, f"no end with {code}")
                assert node.codes[count] == code, (node.codes[count:], node.output()[at:])
            if sentence:
                wait_for(lambda: re.search(sentence, node.output()[at:]), f"no {sentence}")


@contextlib.contextmanager
def group(pair, secret):
    server = Group(pair, secret)
    try:
        yield server
    finally:
        for node in server.nodes:
            node.stop()


def streams_lost(server, what, seconds, fault):
    """The live streams end with one error event each, within the limit."""
    took = lost_streams(server, STREAMS, fault)
    print(f"{what}: {STREAMS} streams ended within {took:.2f} s", flush=True)
    assert took < seconds, (what, took)


def secret_write(folder, name, digit):
    path = pathlib.Path(folder) / name
    path.write_text(64 * digit)
    return path


@soak_only
def test_lost_nodes_and_links():
    """SIGKILL, SIGSTOP, a link that is down: one error event per stream in time, sentences, exit code 1; the group serves again."""
    lost = r"error .*node 1 \(rank 1 of 2\) has not responded for \d"
    with tempfile.TemporaryDirectory() as folder, namespaces() as pair, pair[0].entered():
        with group(pair, secret_write(folder, "secret", "5")) as server:
            want = server.answer()
            follower = server.nodes[1]

            def killed():
                streams_lost(server, "SIGKILL of node 1", WITHIN, follower.process.kill)
            server.errors((1, -signal.SIGKILL), (r"error .*node 1 \(rank 1 of 2\) closed its connection", None), killed)
            assert server.answer() == want

            def stopped():
                process = follower.process
                streams_lost(server, "SIGSTOP of node 1", HEARTBEAT + WITHIN, lambda: process.send_signal(signal.SIGSTOP))
                process.send_signal(signal.SIGCONT)
            server.errors((1, 1), (lost, r"error .*node 1 \(rank 1 of 2\) ends: node 0 \(rank 0 of 2\)"), stopped)
            assert server.answer() == want

            def unplugged():
                streams_lost(server, "link down", HEARTBEAT + WITHIN, lambda: pair[0].ip("link", "set", "wire", "down"))
            server.errors((1, 1), (lost, r"error .*node 1 \(rank 1 of 2\) ends: node 0 \(rank 0 of 2\) has not responded"), unplugged)
            pair[0].ip("link", "set", "wire", "up")
            assert server.answer() == want

            server.errors((-signal.SIGKILL, 1), (None, r"error .*node 1 \(rank 1 of 2\) ends: node 0 \(rank 0 of 2\) closed its"),
                          server.nodes[0].process.kill)
            assert server.answer() == want
            server.nodes[0].process.send_signal(signal.SIGTERM)
            for node in server.nodes:
                node.thread.join(60)
                assert node.codes[-1] == 0, node.output()


def weights_changed(folder):
    """A copy of the model with other bits in the first tensor."""
    model = pathlib.Path(shutil.copytree(DEMO, pathlib.Path(folder) / "other"))
    with open(model / "model.safetensors", "r+b") as file:
        header = int.from_bytes(file.read(8), "little")
        file.seek(8 + header + 10)
        byte = file.read(1)[0]
        file.seek(8 + header + 10)
        file.write(bytes([byte ^ 1]))
    return model


@soak_only
def test_nodes_that_differ_between_two_starts():
    """A node that comes back with another option, other weights or another secret: sentences, exit code 1; then as before."""
    with tempfile.TemporaryDirectory() as folder, namespaces() as pair, pair[0].entered():
        secret, other = secret_write(folder, "secret", "5"), secret_write(folder, "other-secret", "6")
        with group(pair, secret) as server:
            want = server.answer()
            node = server.nodes[1]
            right = node.args
            wrong = tuple(other if value == secret else value for value in right)

            def returns_with(args):
                node.args = args
                node.process.kill()
            for args, sentence in (((*right, "--block-size", 32), "--block-size is 32, on node 0 it is 64"),
                                   ((weights_changed(folder), *right[1:]), "the digest of the first 64 KiB of each tensor is ")):
                sentences = (rf"error .*node 1 \(rank 1 of 2\): model 'demo': {sentence}", rf"error .*node 0 refuses: node 1 .*{sentence}")
                server.errors((1, -signal.SIGKILL), sentences,
                              lambda: streams_lost(server, "SIGKILL of node 1", WITHIN, lambda: returns_with(args)))
                node.args = right
                assert server.answer() == want

            refused = r"error .*node 0 at tcp://192.0.2.1:29501 does not accept the connection: give all nodes the same"
            server.errors((1, -signal.SIGKILL), (r"warning a connection to the port of the nodes was refused: it has another secret", refused),
                          lambda: returns_with(wrong))
            wait_for(lambda: node.codes[-1] == 1, "no end with 1")
            node.args = right
            assert server.answer() == want

            # processes that do not belong to a running group do not disturb it
            for args, sentence in (wrong, refused), (right, "error .*node 0 refuses: the group of node 0 is complete or has ended"):
                with pair[1].entered():
                    done = subprocess.run([WEFT, "serve", *map(str, args)], capture_output=True, text=True, timeout=60)
                assert done.returncode == 1 and re.search(sentence, done.stderr), done.stderr
                assert server.answer() == want
