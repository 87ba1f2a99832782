# SPDX-License-Identifier: Apache-2.0
"""What the official clients retry by themselves, and what they do not: a full queue (503, 529) with Retry-After, a
fault that stays (x-should-retry: false), a connection that breaks before the answer. A relay between client and
server counts the requests and breaks connections."""

import concurrent.futures
import contextlib
import json
import pathlib
import shutil
import socket
import struct
import tempfile
import threading
import time

import anthropic
import openai

import harness
from harness import KEY, MODELS, chat, main, tiny, user

STORY = {"model": "tiny", "messages": user("Once upon a time"), "max_tokens": 8}


class Relay:
    """Passes bytes between clients and a server; heads are the requests' heads. The first `broken` connections are
    reset once their request is there."""

    def __init__(self, server, broken=0):
        self.server, self.broken, self.heads = server, broken, []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        first = connection.recv(1 << 20)
        if self.broken > 0:
            self.broken -= 1
            self.note(first)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            return
        beyond = socket.create_connection(("127.0.0.1", self.server.port))
        threading.Thread(target=self.pump, args=(beyond, connection), daemon=True).start()
        while first:
            self.note(first)
            beyond.sendall(first)
            try:
                first = connection.recv(1 << 20)
            except OSError:
                break
        with contextlib.suppress(OSError):
            beyond.shutdown(socket.SHUT_WR)

    def note(self, part):
        if part.startswith((b"POST ", b"GET ")):
            self.heads.append(part.split(b"\r\n\r\n")[0].decode().lower())

    def pump(self, beyond, connection):
        with contextlib.suppress(OSError):
            while part := beyond.recv(1 << 20):
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)

    def retries(self):
        """The retry counts that the requests name."""
        return [int(head.split("x-stainless-retry-count: ")[1].split()[0]) for head in self.heads]

    def close(self):
        self.socket.close()


@contextlib.contextmanager
def relay(server, broken=0):
    made = Relay(server, broken)
    try:
        yield made
    finally:
        made.close()


def calls(base, retries):
    """A chat answer's text from each client, whole and streamed."""
    one = openai.OpenAI(base_url=base + "/v1", api_key=KEY, max_retries=retries)
    two = anthropic.Anthropic(base_url=base, api_key=KEY, max_retries=retries)
    more = {"extra_body": {"temperature": 0}}
    yield lambda: one.chat.completions.create(**STORY, **more).choices[0].message.content
    yield lambda: "".join(
        c.choices[0].delta.content or "" for c in one.chat.completions.create(**STORY, **more, stream=True))
    yield lambda: two.messages.create(**STORY, **more).content[0].text

    def helper():
        with two.messages.stream(**STORY, **more) as stream:
            return stream.get_final_text()
    yield helper


def keep_full(server, done):
    """Sends answers of 400 tokens until it is told to stop."""
    while not done.is_set():
        chat(server, max_tokens=400, ignore_eos=True)


def test_a_full_queue_is_tried_again():
    """One sequence runs, one waits, and no more may: clients are refused, come again after what Retry-After says, and
    are served."""
    server = harness.start(f"tiny={tiny()},max-num-seqs=1,max-queued-requests=1")
    want, done = harness.generate("Once upon a time", 8)["text"], threading.Event()

    def ask(between, call):
        while True:
            assert call() == want
            if max(between.retries()) > 0 or done.is_set():
                return max(between.retries())

    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(12) as pool:
        busy = [pool.submit(keep_full, server, done) for _ in range(8)]
        relays = [stack.enter_context(relay(server)) for _ in range(4)]
        clients = [pool.submit(ask, between, list(calls(between.base, 1000))[number])
                   for number, between in enumerate(relays)]
        late = time.monotonic() + 600
        while not all(r.retries() and max(r.retries()) > 0 or c.done() for r, c in zip(relays, clients)):
            if time.monotonic() > late:
                done.set()
                raise AssertionError(f"not every client was refused in 600 s: {[r.retries() for r in relays]}")
            time.sleep(0.02)
        done.set()
        assert all(client.result() > 0 for client in clients)
        for job in busy:
            job.result()


def broken_embedder(folder):
    """weft-demo-embed with a weight that is no number: each of its vectors is refused as not finite."""
    copy = pathlib.Path(folder) / "model"
    shutil.copytree(MODELS / "weft-demo-embed", copy)
    file = copy / "model.safetensors"
    data = bytearray(file.read_bytes())
    head = int.from_bytes(data[:8], "little")
    for name, tensor in json.loads(data[8:8 + head]).items():
        if "norm" in name.lower():
            at = 8 + head + tensor["data_offsets"][0]
            width = 2 if tensor["dtype"] == "BF16" else 4
            data[at:at + width] = (b"\xc0\x7f" if width == 2 else b"\x00\x00\xc0\x7f")
    file.write_bytes(data)
    return copy


def test_a_fault_that_stays_is_not_tried_again():
    """The answer says x-should-retry: false, which the client obeys although its status is 500."""
    with tempfile.TemporaryDirectory() as folder:
        server = harness.start(f"embed={broken_embedder(folder)}")
        with relay(server) as between:
            one = openai.OpenAI(base_url=between.base + "/v1", api_key=KEY, max_retries=3)
            try:
                one.embeddings.create(model="embed", input="wool")
                raise AssertionError("an answer")
            except openai.InternalServerError as error:
                assert error.response.headers["x-should-retry"] == "false", error.response.headers
            assert between.retries() == [0]


def test_a_connection_that_breaks_is_tried_again():
    want = harness.generate("Once upon a time", 8)["text"]

    def ask(number):
        with relay(main(), broken=2) as between:
            assert list(calls(between.base, 2))[number]() == want
            return between.retries()

    def ask_in_vain(number):
        with relay(main(), broken=2) as between:
            try:
                list(calls(between.base, 1))[number]()
                raise AssertionError("an answer")
            except (openai.APIConnectionError, anthropic.APIConnectionError):
                return between.retries()

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        served, failed = pool.map(ask, range(4)), pool.map(ask_in_vain, range(4))
        assert list(served) == [[0, 1, 2]] * 4
        assert list(failed) == [[0, 1]] * 4


def test_what_is_wrong_is_not_tried_again():
    with relay(main()) as between:
        one = openai.OpenAI(base_url=between.base + "/v1", api_key=KEY, max_retries=5)
        two = anthropic.Anthropic(base_url=between.base, api_key=KEY, max_retries=5)
        for call in (lambda: one.chat.completions.create(**{**STORY, "model": "none"}),
                     lambda: two.messages.create(**{**STORY, "model": "none"}),
                     lambda: one.embeddings.create(model="embed", input="word " * 4000)):
            try:
                call()
                raise AssertionError("an answer")
            except (openai.APIStatusError, anthropic.APIStatusError):
                pass
        assert between.retries() == [0, 0, 0]

