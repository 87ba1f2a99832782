# SPDX-License-Identifier: Apache-2.0
"""How a server gets its models: a configuration file, loading and unloading at run time; recommended sampling."""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time

import harness
from harness import MODELS, WEFT, Server, amount, chat, embed, endless_model, expect, text_of

SAMPLING = {"temperature": 0.6, "top_p": 0.9, "top_k": 20, "min_p": 0.05}


def models_of(server):
    return server.request("GET", "/v1/models", headers={"authorization": f"Bearer {harness.KEY}"}).json["data"]


def recommending(folder):
    """A copy of the demo model that recommends a sampling."""
    model = os.path.join(folder, "chat")
    shutil.copytree(MODELS / "weft-demo-chat", model)
    with open(os.path.join(model, "generation_config.json"), "w") as file:
        json.dump({"eos_token_id": 0, "do_sample": True, **SAMPLING, "repetition_penalty": 1.1}, file)
    return model


def test_a_configuration_file():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "weft.json")
        chat = str(MODELS / "weft-demo-chat")
        config = {"port": 1, "device": "cpu", "max-model-len": 128, "api-key": [harness.KEY, "second"], "ui": False,
                  "models": [f"first={chat}", {"model": chat, "name": "second", "max-model-len": 64, "served-model-name": ["other"]},
                             {"model": str(MODELS / "weft-demo-embed")}]}
        with open(path, "w") as file:
            json.dump(config, file)
        server = Server(f"last={chat}", "--config", path, "--max-model-len", "96", key=None)  # and --port 0 has precedence
        try:
            found = [(m["id"], m["max_model_len"]) for m in models_of(server)]
            assert found[:2] == [("first", 96), ("other", 64)] and found[3] == ("last", 96), found
            assert found[2][0] == "weft-demo-embed"
            assert server.request("GET", "/").status == 404
            assert server.request("GET", "/v1/models/second", headers={"x-api-key": "second"}).status == 200
        finally:
            assert server.stop() == 0
        for content, says in (({"modles": []}, "there is no option 'modles'"), ({"port": "x"}, "--port must be a whole number"),
                              ({"port": {}}, "'port' must be a text, a number, true, false or a list"), ([], "must hold a JSON object"),
                              ({"models": {}}, "'models' must be a list"), ({"models": []}, "lists no model"),
                              ({"models": [{"name": "x"}]}, "an object with 'model'"),
                              ({"models": [{"model": chat, "dtyp": "int8"}]}, "unknown model option 'dtyp'"),
                              ({"models": [chat, chat]}, "two models are named"), ({"config": path}, "there is no option 'config'")):
            with open(path, "w") as file:
                json.dump(content, file)
            done = subprocess.run([WEFT, "serve", "--config", path, "--port", "0"], capture_output=True, text=True, timeout=60)
            assert done.returncode == 2 and says in done.stderr and done.stderr.count("\n") == 1, (content, done.stderr)


def test_recommended_sampling_is_listed():
    with tempfile.TemporaryDirectory() as folder:
        server = Server(f"a={recommending(folder)}", f"b={MODELS / 'weft-demo-embed'}", "--device", "cpu")
        try:
            listed = {m["id"]: m["sampling_defaults"] for m in models_of(server)}
            assert listed == {"a": {**SAMPLING, "repetition_penalty": 1.1}, "b": None}, listed
        finally:
            assert server.stop() == 0


class Standing(http.server.BaseHTTPRequestHandler):
    """A server whose model recommends a sampling."""

    def log_message(self, *_):
        pass

    def answer(self, kind, body):
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer("application/json", json.dumps({"data": [{"id": "m", "kind": "generator", "sampling_defaults": SAMPLING}]}).encode())

    def do_POST(self):
        self.server.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        self.answer("text/event-stream", b'data: {"choices":[{"delta":{"content":"x"},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n')


def test_chat_starts_from_the_recommended_sampling():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Standing)
    server.bodies = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for arguments in [], ["m", "--temperature", "0.1"]:
        done = subprocess.run([WEFT, "chat", *arguments, "--url", url], input="hello\n", capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout == "x\n", done.stderr
    server.shutdown()
    sent = [{name: body.get(name) for name in SAMPLING} for body in server.bodies]
    assert sent == [SAMPLING, {**SAMPLING, "temperature": 0.1}], sent


ADMIN = "admin-key"
MEGABYTE = 1 << 20


def manage(server, what, key=ADMIN, **body):
    return server.post(f"/v1/models/{what}", body, authorization=f"Bearer {key}")


@contextlib.contextmanager
def managed(*args):
    server = Server(*args, "--device", "cpu", "--admin-key", ADMIN)
    try:
        yield server
    finally:
        assert server.stop() == 0, server.output()


def resident(server):
    return int(pathlib.Path(f"/proc/{server.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@harness.longer
def test_loading_and_unloading_under_traffic():
    model, extra, rounds = harness.tiny(), str(MODELS / "weft-demo-embed"), amount(20, 100)
    with managed(f"tiny={model}") as server:
        expected, ended, answers = text_of(chat(server, max_tokens=60)), threading.Event(), []

        def stream():
            while not ended.is_set():
                answer = chat(server, max_tokens=60, stream=True)
                answers.append("".join(c["choices"][0]["delta"].get("content") or "" for c in answer.chunks() if c["choices"]))
        threads = [threading.Thread(target=stream) for _ in range(2)]
        for thread in threads:
            thread.start()
        sizes, vectors = [], set()
        for round_ in range(rounds):
            loaded = expect(manage(server, "load", model=extra, name="embed"), 200).json
            assert loaded["id"] == "embed" and loaded["status"] == "loaded" and loaded["kind"] == "embedder", loaded
            vectors.add(str(expect(embed(server, "hello"), 200).json["data"]))
            if round_ % 5 == 0:
                assert [m["id"] for m in models_of(server)] == ["tiny", "embed"]
                assert server.metric(r'weft_model_info\{.*model_name="embed"') == 1
            assert expect(manage(server, "unload", model="embed"), 200).json["status"] == "unloaded"
            expect(embed(server, "hello"), 404, "model_not_found")
            sizes.append(resident(server))
        ended.set()
        for thread in threads:
            thread.join()
        assert answers and set(answers) == {expected}, (len(answers), set(answers))
        assert len(vectors) == 1
        if not harness.sanitized():
            assert sizes[-1] - sizes[rounds // 2] < 4 * MEGABYTE, [size // MEGABYTE for size in sizes]


def test_unloading_waits_for_the_requests_of_the_model():
    with tempfile.TemporaryDirectory() as folder, managed(f"tiny={harness.tiny()}") as server:
        endless = str(endless_model(folder))
        expect(manage(server, "load", model=endless, name="endless"), 200)
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        body = {"model": "endless", "messages": harness.user("a"), "max_tokens": 100, "stream": True, "seed": 1}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), {"authorization": f"Bearer {harness.KEY}",
                                                                              "content-type": "application/json"})
        response = connection.getresponse()
        assert response.status == 200
        first = response.read(40)
        done = []
        thread = threading.Thread(target=lambda: done.append(manage(server, "unload", model="endless")))
        thread.start()
        while chat(server, model="endless").status != 404:  # new requests do not find it any more
            time.sleep(0.01)
        rest = first + response.read()
        assert rest.endswith(b"data: [DONE]\n\n") and b'"finish_reason":"length"' in rest, rest[-300:]
        thread.join()
        expect(done[0], 200)
        # a client that leaves does not keep the model
        expect(manage(server, "load", model=endless, name="endless"), 200)
        connection.request("POST", "/v1/chat/completions", json.dumps({**body, "max_tokens": 4000}),
                           {"authorization": f"Bearer {harness.KEY}", "content-type": "application/json"})
        connection.getresponse().read(40)
        connection.close()
        expect(manage(server, "unload", model="endless"), 200)
        expect(manage(server, "unload", model="tiny"), 200)  # the last one, loaded at startup
        assert models_of(server) == [] and server.request("GET", "/health").status == 200
        expect(manage(server, "load", model=str(harness.tiny()), name="tiny"), 200)
        expect(chat(server, max_tokens=1), 200)


def test_what_is_not_loaded():
    with managed(f"tiny={harness.tiny()}") as server:
        extra = str(MODELS / "weft-demo-embed")
        expect(manage(server, "load", key=harness.KEY, model=extra), 403, "admin_key_required")
        expect(manage(server, "load", key="other", model=extra), 401)
        body = {"messages": harness.user("a"), "max_tokens": 1}
        expect(server.post("/v1/chat/completions", body, authorization=f"Bearer {ADMIN}"), 200)
        for body, status, says in (({"model": extra, "name": "tiny"}, 400, "a model named 'tiny' is served"),
                                   ({"model": extra, "dtyp": "int8"}, 400, "unknown model option 'dtyp'"),
                                   ({"model": extra, "dtype": "int3"}, 400, "--dtype must be one of"),
                                   ({"model": extra, "tensor-parallel-size": 2}, 400, "can only be loaded at startup"),
                                   ({"model": "/none"}, 404, "there is no folder /none"),
                                   ({"model": "org/none"}, 404, "HF_HUB_OFFLINE is set"),
                                   ({"model": 1}, 400, "'model' must be"), ({}, 400, "'model' must be")):
            answer = expect(manage(server, "load", **body), status)
            assert says in answer.error["message"], answer.text
        for body, code in (("[1", "invalid_json"), ("[1]", None), (b'{"model":"' + b"a" * 100_000, "invalid_json")):
            expect(server.post("/v1/models/load", body, authorization=f"Bearer {ADMIN}"), 400, code)
        for param, body in (("model", {"model": "a\0b"}), ("name", {"model": extra, "name": "x\ny"}),
                            ("served-model-name", {"model": extra, "served-model-name": ["x", "\x7f"]})):
            answer = expect(manage(server, "load", **body), 400, "invalid_value")
            assert answer.error["param"] == param and "control characters" in answer.error["message"], answer.text
        expect(manage(server, "unload", model="tiny\0x"), 400, "invalid_value")
        answer = expect(manage(server, "load", model=str(MODELS / "weft-demo-chat"), **{"kv-cache-memory": "1000T"}), 507,
                        "insufficient_memory")
        assert "GiB are free" in answer.error["message"] and "; its plan: weights " in answer.error["message"], answer.text
        expect(manage(server, "unload", model="none"), 404, "model_not_found")
        assert [m["id"] for m in models_of(server)] == ["tiny"]
        expect(chat(server, max_tokens=1), 200)
    server = Server(f"tiny={harness.tiny()}", "--device", "cpu")
    try:
        expect(manage(server, "load", key=harness.KEY, model=extra), 403, "admin_key_required")
    finally:
        assert server.stop() == 0


CUT = r"model\.safetensors was truncated while it was loaded, from \d+ to 4096 bytes; load it again when the file is complete"


def test_a_file_that_is_cut_while_it_is_loaded():
    """The server refuses the model and serves the others; a start ends with one sentence."""
    program = pathlib.Path(WEFT).resolve().parent / "weft_faulty_cpu"
    if not program.exists():
        raise harness.Skip(f"no {program.name} beside the program")
    with tempfile.TemporaryDirectory() as folder:
        model, faults = pathlib.Path(folder) / "model", {"WEFT_FAULT_FOLDER": folder}

        def cut(name):
            shutil.rmtree(model, ignore_errors=True)
            shutil.copytree(MODELS / name, model)
            (pathlib.Path(folder) / "cut").symlink_to(model / "model.safetensors")

        class Faulty(Server):
            program = str(pathlib.Path(WEFT).resolve().parent / "weft_faulty_cpu")
        server = Faulty(f"tiny={harness.tiny()}", "--device", "cpu", "--admin-key", ADMIN, "--core-dumps", env=faults)
        try:
            want = text_of(chat(server, max_tokens=20))
            for _ in range(2):
                cut("weft-demo-embed")
                answer = expect(manage(server, "load", model=str(model), name="embed"), 500)
                assert re.search(CUT, answer.error["message"]), answer.text
                assert [m["id"] for m in models_of(server)] == ["tiny"]
                assert text_of(chat(server, max_tokens=20)) == want
            process = pathlib.Path(f"/proc/{server.process.pid}")
            assert folder not in (process / "maps").read_text()
            assert not [fd for fd in (process / "fd").iterdir() if fd.is_symlink() and folder in os.readlink(fd)]
            shutil.copy(MODELS / "weft-demo-embed" / "model.safetensors", model)
            expect(manage(server, "load", model=str(model), name="embed"), 200)
            expect(embed(server, "hello"), 200)
        finally:
            assert server.stop() == 0, server.output()
        for name, ranks in ("embed", "1"), ("chat", "2"):
            cut(f"weft-demo-{name}")
            done = subprocess.run([program, "serve", model, "--port", "0", "--device", "cpu", "--tensor-parallel-size", ranks],
                                  env={**os.environ, **faults}, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 1 and re.search(f"^weft: .*{CUT}$", done.stderr, re.M), done
            assert done.stderr.count("weft: ") == 1, done
