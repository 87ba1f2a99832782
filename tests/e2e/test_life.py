# SPDX-License-Identifier: Apache-2.0
"""From the first signal to the last: a stalled log, reloads, ends of every kind, failing devices."""

import contextlib
import fcntl
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import ssl
import subprocess
import tempfile
import threading
import time

import harness
from harness import KEY, MODELS, Server, Skip
from test_load import open_stream, read_all

CHAT = f"{MODELS / 'weft-demo-chat'},kv-cache-memory=16M"  # the emulator zeroes it
EMBED = MODELS / "weft-demo-embed"
FAULTY = pathlib.Path(harness.WEFT).resolve().parent / "libweft_faulty.so"


class Faults:
    """Turns the faults of faulty_device.c on and off."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)

    def on(self, name):
        (self.folder / name).touch()

    def reached(self, name):
        wait_for(lambda: (self.folder / f"{name}.reached").exists(), name)

    def off(self, name):
        (self.folder / name).unlink(missing_ok=True)


class Unready(Server):
    """Starts a server without waiting until it is ready."""

    def wait_ready(self):
        pass


@contextlib.contextmanager
def faulty(*args, first=(), server=Server):
    """A server whose simt device is faulty_device.c, with `first` faults on from the start."""
    if not FAULTY.exists():
        raise Skip(f"no {FAULTY.name} beside the program")
    with tempfile.TemporaryDirectory() as folder:
        faults = Faults(folder)
        for name in first:
            faults.on(name)
        started = server(*args, "--device-library", FAULTY,
                         env={"WEFT_FAULT_FOLDER": folder})
        try:
            yield started, faults
        finally:
            started.process.kill()
            started.process.wait()


def wait_for(what, text=""):
    deadline = time.monotonic() + 600
    while not (found := what()):
        assert time.monotonic() < deadline, text
        time.sleep(0.02)
    return found


def wait_log(server, text):
    wait_for(lambda: text in server.output(), text)


def ended(server):
    return server.process.wait(600)


class PipedServer(Server):
    """stderr is a small pipe that nobody reads until read_log."""

    def __init__(self, *args, env=None):
        self.reader, writer = os.pipe()
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, 4096)
        command = [harness.WEFT, "serve", *map(str, args), "--port", "0", "--api-key", KEY]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=writer,
                                        env={**os.environ, **(env or {}), "LSAN_OPTIONS":
                                             f"suppressions={harness.LSAN}:print_suppressions=0"})
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
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
        for _ in range(4000):
            connection.request("GET", "/version")
            answer = connection.getresponse()
            assert answer.read() and answer.status == 200
        connection.close()
        dropped = server.metric("weft_log_lines_dropped_total")
        assert dropped > 0
        reading = server.read_log()
        deadline = time.monotonic() + 60
        while b"lines of the log were dropped" not in server.text and time.monotonic() < deadline:
            time.sleep(0.01)  # until then there may be no room for the last line, either
        assert server.stop() == 0
        reading.join()
        text = server.output()
        lines = len(re.findall(r"info request method=GET route=/version status=200", text))
        said = sum(map(int, re.findall(r"warning (\d+) lines of the log were dropped", text)))
        assert said >= dropped and lines + said >= 4000, (lines, said, dropped)
        assert text.rstrip().endswith("info stopped"), text[-200:]
    finally:
        server.process.kill()


def test_log_stalled_by_a_library():
    """libh2o prints a line for each HTTP/2 frame it does not know, on the thread that serves."""
    server = PipedServer(EMBED)
    try:
        unknown = b"\0\0\0" + b"\x63\0" + b"\0\0\0\0"
        with socket.create_connection(("127.0.0.1", server.port), timeout=600) as s:
            s.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0" + b"\0\0\0\0" +
                      unknown * 20000)
            wait_for(lambda: server.metric("weft_log_lines_dropped_total") > 0)
        reading = server.read_log()
        assert server.stop() == 0
        reading.join()
        text = server.output()
        assert " warning library: skipping frame" in text, text[-500:]
        assert not re.search(r"(?m)^skipping frame", text), text[-500:]
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


def test_stop_while_loading():
    """SIGTERM while a weight is being loaded: the end, with 0."""
    for number in signal.SIGTERM, signal.SIGINT:
        with faulty(f"embed={EMBED}", "--device", "simt", first=["load"], server=Unready) as (s, _):
            wait_log(s, "planned: ")
            wait_for(lambda: s.request("GET", "/health").status == 503)
            s.process.send_signal(number)
            assert ended(s) == 0, s.output()
            assert "stopped while the models were being loaded" in s.output()


def test_stop_twice():
    """A second SIGTERM during the drain ends the process at once with 1; the log says what is lost."""
    with faulty(f"tiny={CHAT}", "--device", "simt", "--shutdown-timeout", 600) as (s, faults):
        faults.on("slow")
        streams = [open_stream(s, max_tokens=400, ignore_eos=True) for _ in range(3)]
        wait_for(lambda: s.metric("weft_requests_submitted_total") == 3)
        faults.on("hang")
        faults.reached("hang")
        s.process.send_signal(signal.SIGTERM)
        wait_log(s, "finishing the accepted requests")
        assert s.process.poll() is None
        time.sleep(0.5)  # one within 100 ms would count as the first
        s.process.send_signal(signal.SIGTERM)
        assert ended(s) == 1, s.output()
        assert "for the second time: ending immediately" in s.output()
        assert "error 3 requests were not answered completely" in s.output(), s.output()
        for stream in streams:
            stream.close()


def test_stop_signalled_twice_at_once():
    """Two signals at once, as `timeout` sends them, are one: what was accepted is finished. At once is within 100 ms, which a
    process that is held up between them misses: it tries again."""
    for _ in range(20):
        with faulty(f"tiny={CHAT}", "--device", "simt") as (s, faults):
            faults.on("hang")
            stream = open_stream(s, max_tokens=5)
            wait_for(lambda: s.metric("weft_requests_submitted_total") == 1)
            for number in signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGCONT:
                s.process.send_signal(number)  # the process is stopped, so it gets both at once
            wait_log(s, "finishing the accepted requests")
            faults.off("hang")
            try:
                answer = read_all(stream)
            except ConnectionError:
                answer = b""
            code = ended(s)
            if "for the second time" not in s.output():
                assert b"data: [DONE]" in answer
                assert code == 0, s.output()
                return
    raise AssertionError(s.output())


def reload(server, *expected):
    before = len(server.output())
    server.process.send_signal(signal.SIGHUP)
    wait_for(lambda: all(text in server.output()[before:] for text in expected), str(expected))


def models(server, key):
    return server.request("GET", "/v1/models", headers={"authorization": f"Bearer {key}"}).status


def test_reload_keys():
    """SIGHUP: new keys in, old ones out, what runs goes on; a bad file changes nothing."""
    with tempfile.NamedTemporaryFile("w+") as file:
        def write(text):
            file.seek(0)
            file.truncate()
            file.write(text)
            file.flush()
        write("old-1\nold-2\n")
        with faulty(f"tiny={CHAT}", "--device", "simt", "--api-key-file", file.name) as (s, faults):
            assert [models(s, k) for k in (KEY, "old-1", "old-2", "new")] == [200, 200, 200, 401]
            faults.on("hang")
            stream = open_stream(s, max_tokens=5)
            wait_for(lambda: s.metric("weft_requests_submitted_total") == 1)
            write("# changed\nold-2\nnew\n")
            assert models(s, "new") == 401  # keys are read again only at SIGHUP
            reload(s, f"info reload: the key list of {file.name} is in use now")
            assert [models(s, k) for k in (KEY, "old-1", "old-2", "new")] == [200, 401, 200, 200]
            for bad in "", "# nothing\n", "with space\n", "good\nb\u00e4d\n":
                write(bad)
                reload(s, "error reload: the old key list stays in use: ")
                assert [models(s, k) for k in (KEY, "old-1", "new", "good")] == \
                    [200, 401, 200, 401], bad
            faults.off("hang")
            assert b"data: [DONE]" in read_all(stream)
            s.process.send_signal(signal.SIGTERM)
            assert ended(s) == 0, s.output()


def test_stalled_stdout():
    """Models are served although nobody reads what is printed at the start."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writer, b"x" * 65536)
    os.set_blocking(writer, True)
    server = harness.start(f"embed={EMBED}", stdout=writer)
    os.close(writer)
    assert harness.embed(server, "a").status == 200
    server.process.send_signal(signal.SIGTERM)
    printed = b"".join(iter(lambda: os.read(reader, 1 << 20), b""))
    assert b"curl http" in printed, printed[-1000:]
    os.close(reader)
    assert ended(server) == 0, server.output()


def test_level_from_the_first_line():
    """--log-level holds from the start: the warning of a key file that others can read, too."""
    for level in "error", "warning":
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write("other\n")
            file.flush()
            os.chmod(file.name, 0o644)
            server = harness.start(EMBED, "--api-key-file", file.name, "--log-level", level)
        try:
            warned = "can be read by other users" in server.output()
            assert warned == (level == "warning"), server.output()
        finally:
            assert server.stop() == 0


def test_reload_loses_nothing():
    """40 reloads while four clients ask: each answer is 200."""
    with tempfile.NamedTemporaryFile("w+") as file:
        file.write("other\n")
        file.flush()
        server = harness.start(EMBED, "--api-key-file", file.name, "--http-threads", 2)
        stop, statuses = threading.Event(), []

        def ask():
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
            while not stop.is_set():
                connection.request("GET", "/v1/models", headers={"authorization": "Bearer other"})
                answer = connection.getresponse()
                answer.read()
                statuses.append(answer.status)
        clients = [threading.Thread(target=ask) for _ in range(4)]
        for client in clients:
            client.start()
        for _ in range(40):
            reload(server, "is in use now")
        stop.set()
        for client in clients:
            client.join()
        assert len(statuses) > 40 and set(statuses) == {200}, set(statuses)


def test_reload_without_files():
    server = harness.start(EMBED)
    reload(server, "there is nothing to reload")
    assert models(server, KEY) == 200


def certificate(folder, name):
    made = subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "1", "-subj", f"/CN={name}", "-keyout", folder / "key",
         "-out", folder / "cert"], capture_output=True)
    assert made.returncode == 0, made.stderr


class TlsServer(Server):
    def connect(self):
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=600)
        return context.wrap_socket(raw)

    def get(self, connection, path="/ready"):
        connection.sendall(f"GET {path} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        answer = http.client.HTTPResponse(connection)
        answer.begin()
        answer.read()
        return answer.status

    def wait_ready(self):
        def ready():
            assert self.process.poll() is None, self.output()
            try:
                with self.connect() as connection:
                    return self.get(connection) == 200
            except OSError:
                return False
        wait_for(ready)

    def certificate(self):
        with self.connect() as connection:
            return connection.getpeercert(binary_form=True)


def test_reload_certificate():
    """New connections get the new one, open ones go on; a bad file changes nothing."""
    try:
        subprocess.run(["openssl", "version"], capture_output=True, check=True)
    except OSError:
        raise Skip("no openssl program to make a certificate with") from None
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        certificate(folder, "first")
        (folder / "keys").write_text("one\n")  # both files are read again at a signal
        server = TlsServer(EMBED, "--ssl-certfile", folder / "cert", "--ssl-keyfile", folder / "key",
                           "--api-key-file", folder / "keys")
        try:
            first = server.certificate()
            waiting = socket.create_connection(("127.0.0.1", server.port))  # no handshake yet
            with server.connect() as open_one:
                assert server.get(open_one) == 200
                certificate(folder, "second")
                reload(server, "info reload: the key list of", "info reload: the certificate of")
                second = server.certificate()
                assert second != first
                assert server.get(open_one) == 200
                locked = subprocess.run(["openssl", "ec", "-in", folder / "key", "-aes128", "-passout",
                                         "pass:abcd"], capture_output=True, check=True).stdout
                for key in b"no key", locked:  # nobody is asked for a passphrase
                    (folder / "key").write_bytes(key)
                    reload(server, "error reload: the old certificate stays in use: --ssl-keyfile")
                assert "bad password read" in server.output()
                assert "phrase" not in server.output(), server.output()
                (folder / "cert").unlink()
                os.mkfifo(folder / "cert")  # no writer comes
                reload(server, "error reload: the old certificate stays in use: ", "regular file")
                assert server.certificate() == second
                assert server.get(open_one) == 200
            context = ssl.create_default_context()
            context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
            with context.wrap_socket(waiting) as late:  # accepted before the reload
                assert server.get(late) == 200
            server.process.send_signal(signal.SIGTERM)
            assert ended(server) == 0, server.output()
        finally:
            server.process.kill()


def stream_of(server, path, **body):
    """An HTTP response whose events are read one by one; the first has text."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=600)
    connection.request("POST", path, json.dumps(
        {"messages": harness.user("hello"), "max_tokens": 400, **body}),
        {"authorization": f"Bearer {KEY}", "x-api-key": KEY, "content-type": "application/json"})
    return connection.getresponse()


def test_stop_cuts_streams():
    """At --shutdown-timeout a stream gets the error event of its shape, the others a 503."""
    with tempfile.TemporaryDirectory() as folder, faulty(f"tiny={harness.endless_model(folder)},kv-cache-memory=16M", "--device", "simt",
                                                         "--shutdown-timeout", 0.2) as (s, faults):
        faults.on("slow")
        chat = stream_of(s, "/v1/chat/completions", model="tiny", stream=True, ignore_eos=True)
        messages = stream_of(s, "/v1/messages", model="tiny", stream=True, ignore_eos=True)
        assert chat.status == messages.status == 200
        whole = {}

        def ask(name, path):
            whole[name] = stream_of(s, path, model="tiny", ignore_eos=True)
        waiting = [threading.Thread(target=ask, args=a) for a in
                   (("chat", "/v1/chat/completions"), ("messages", "/v1/messages"))]
        for thread in waiting:
            thread.start()
        wait_for(lambda: s.metric("weft_requests_submitted_total") == 4)
        s.process.send_signal(signal.SIGTERM)
        says = "The server shut down before the answer was complete."
        *before, last, end = chat.read().decode().split("\n\n")
        assert len(before) > 1 and end == "" and "[DONE]" not in last
        assert json.loads(last.removeprefix("data: ")) == {"error": {
            "message": says, "type": "server_error", "param": None, "code": "unavailable"}}
        *before, last, end = messages.read().decode().split("\n\n")
        assert len(before) > 1 and end == ""
        name, data = last.split("\n")
        assert name == "event: error", last
        event = json.loads(data.removeprefix("data: "))
        assert event["type"] == "error" and event["request_id"] == messages.headers["request-id"]
        assert event["error"] == {"type": "api_error", "message": says}
        for thread in waiting:
            thread.join()
        for name, type_ in ("chat", "server_error"), ("messages", "api_error"):
            body = json.loads(whole[name].read())
            assert whole[name].status == 503 and whole[name].headers["retry-after"] == "1"
            assert body["error"]["message"] == says and body["error"]["type"] == type_
        assert ended(s) == 1, s.output()
        out = s.output()
        assert "4 requests were not answered within --shutdown-timeout" in out, out
        for status in 200, 503:
            assert len(re.findall(rf"route=/v1/\S+ status={status} code=unavailable ", out)) == 2, out


def test_stop_with_an_engine_that_stands():
    """An engine that hangs between steps: the shutdown waits no longer than --shutdown-timeout."""
    with faulty(f"tiny={CHAT}", "--device", "simt", "--shutdown-timeout", 0.5) as (s, faults):
        faults.on("still")
        stream = open_stream(s, max_tokens=5)
        faults.reached("still")
        stream.close()  # nobody waits for an answer
        wait_for(lambda: s.metric("weft_clients_gone_total") == 1)
        s.process.send_signal(signal.SIGTERM)
        assert ended(s) == 1, s.output()
        assert "were not answered" not in s.output(), s.output()
        assert "the engine of 'tiny' did not end within --shutdown-timeout" in s.output(), s.output()


def test_stop_with_an_engine_that_hangs():
    """An engine that hangs in its device: its client gets an error, the log says how many, exit 1."""
    with faulty(f"tiny={CHAT}", "--device", "simt", "--shutdown-timeout", 0.5) as (s, faults):
        faults.on("hang")
        stream = open_stream(s, max_tokens=5)
        wait_for(lambda: s.metric("weft_requests_submitted_total") == 1)
        s.process.send_signal(signal.SIGTERM)
        answer = read_all(stream)
        assert b" 503 " in answer.split(b"\r\n")[0], answer
        assert ended(s) == 1, s.output()
        assert "1 requests were not answered" in s.output(), s.output()
        assert "the engine of 'tiny' did not end" in s.output(), s.output()


def failed(server, model):
    return server.metric(f'weft_engine_failed{{model_name="{model}"')


def refused(server, model, answer):
    assert answer.status == 503, answer.text
    assert "unavailable" in answer.text or answer.error["type"] == "api_error", answer.text
    assert answer.error["message"] == \
        f"the device of model '{model}' has failed; the model is unavailable", answer.text
    assert answer.headers["retry-after"]


def test_fault_of_one_device():
    """Two models on the device that fails, one on the cpu: the latter keeps serving."""
    with faulty(f"here={CHAT},device=cpu", f"there={CHAT},device=simt", f"embed={EMBED}",
                "--device", "simt") as (s, faults):
        out = s.output()
        assert out.count("device: ") == out.count("planned: ") == 2, out
        want = harness.text_of(harness.chat(s, model="here"))
        assert harness.embed(s, "a").status == 200
        faults.on("fault")
        answer = harness.chat(s, model="there")
        assert answer.status == 500 and answer.error["code"] == "internal_error", answer.text
        refused(s, "there", harness.chat(s, model="there"))
        wait_for(lambda: failed(s, "embed"))  # the engine that found it tells the others
        refused(s, "there", harness.messages(s, model="there"))
        refused(s, "embed", harness.embed(s, "a"))
        faults.off("fault")
        refused(s, "there", harness.chat(s, model="there"))
        assert harness.text_of(harness.chat(s, model="here")) == want
        ready = s.request("GET", "/ready")
        assert ready.status == 200 and ready.json == {"status": "ready", "models": {
            "here": "ready", "there": "failed", "embed": "failed"}}, ready.text
        assert s.request("GET", "/health").json == {"status": "ok"}
        assert [failed(s, m) for m in ("here", "there", "embed")] == [0, 1, 1]
        s.process.send_signal(signal.SIGTERM)
        assert ended(s) == 1, s.output()
        out = s.output()
        assert out.count("the device failed: a fault that the test has planted") == 1, out
        for model in "there", "embed":
            assert f"error the model '{model}' has failed and is not served any more: restart the server" in out, out
        assert "the model 'here' is not served" not in out and "all models have failed" not in out, out


def test_fault_while_another_engine_hangs():
    """One engine hangs in the device when another finds that it failed: its clients get an error,
    too, and the shutdown does not wait for it."""
    for cpu in True, False:
        models = [f"finds={CHAT},device=simt"]
        models += [f"here={CHAT},device=cpu"] if cpu else []
        with tempfile.TemporaryDirectory() as folder, \
                faulty(f"hangs={harness.endless_model(folder)},kv-cache-memory=16M,device=simt", *models) as (s, faults):
            faults.on("slow")
            stream = stream_of(s, "/v1/messages", model="hangs", stream=True, ignore_eos=True)
            whole = open_stream(s, model="hangs", stream=False, max_tokens=400, ignore_eos=True)
            wait_for(lambda: s.metric('weft_requests_submitted_total{model_name="hangs"') == 2)
            faults.on("hang")
            faults.reached("hang")
            faults.on("fault")
            assert harness.chat(s, model="finds").status == 500
            *before, last, end = stream.read().decode().split("\n\n")
            assert before and end == "" and last.startswith("event: error\n"), last
            assert "The device of the model failed." in last
            wait_log(s, "route=/v1/messages status=200 code=internal_error ")
            assert b" 500 " in read_all(whole).split(b"\r\n")[0]
            if cpu:
                assert harness.chat(s, model="here").status == 200
                assert s.request("GET", "/ready").json["models"]["hangs"] == "failed"
                s.process.send_signal(signal.SIGTERM)
            assert ended(s) == 1, s.output()
            assert ("all models have failed: the server ends" in s.output()) == (not cpu), s.output()
