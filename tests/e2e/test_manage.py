# SPDX-License-Identifier: Apache-2.0
"""How a server gets its models: a configuration file, recommended sampling."""

import http.server
import json
import os
import shutil
import subprocess
import tempfile
import threading

import harness
from harness import MODELS, WEFT, Server

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
