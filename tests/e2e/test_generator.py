# SPDX-License-Identifier: Apache-2.0
"""The load generator itself: what it refuses, and that it notices each thing that can go wrong,
against a scripted server whose model name says how it misbehaves."""

import http.server
import json
import pathlib
import random
import subprocess
import tempfile
import threading
import types

import harness
from harness import Skip, start, tiny
from test_flood import BENCH, bench, nothing_wrong


def test_generator_refuses():
    """Addresses that are not loopback, and what it does not understand."""
    def refused(*args):
        done = subprocess.run([BENCH, *args], capture_output=True, text=True)
        return done.returncode == 2 and "bench_load: " in done.stderr

    if not BENCH.exists():
        raise Skip(f"no {BENCH.name} beside the program")
    assert refused("--send", "chat:a", "--url", "http://192.0.2.1:80")
    assert refused("--send", "chat:a", "--url", "http://example.org")
    assert refused("--send", "chat:a", "--concurrency", "0")
    assert refused("--send", "chat:a", "--concurrency", "3x")
    assert refused("--send", "sing:a")
    assert refused("--send", "chat:a:0")
    assert refused("--send", "chat:a", "--trace", "x", "--rate", "3")
    assert refused()
    done = subprocess.run([BENCH, "--send", "chat:a", "--trace", __file__], capture_output=True,
                          text=True)
    assert done.returncode == 1 and "line 1 is not an arrival" in done.stderr


def traces(folder):
    """The two recorded traces where they are, else short ones of the same forms: bursts and pauses."""
    recorded = harness.ASSETS / "trace"
    names = "AzureLLMInferenceTrace_conv.csv", "mooncake_conversation_trace.jsonl"
    if all((recorded / name).exists() for name in names):
        return [recorded / name for name in names]
    made = [pathlib.Path(folder) / name for name in names]
    rng = random.Random(27)
    at = [0.0]
    while at[-1] < 60:
        at.append(at[-1] + rng.choice((0.0, 0.01, 0.1, 1.5)) + rng.random() / 4)
    sizes = [(rng.randint(1, 9000), rng.randint(1, 800)) for _ in at]
    made[0].write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:{15 + int(t) // 60:02}:{t % 60:010.7f},{size[0]},{size[1]}\n"
        for t, size in zip(at, sizes)))
    made[1].write_text("".join(
        json.dumps({"timestamp": int(t * 1000), "input_length": size[0], "output_length": size[1],
                    "hash_ids": list(range(size[0] // 512 + 1))}) + "\n"
        for t, size in zip(at, sizes)))
    return made


def test_generator_traces():
    """Both traces, faster than life: every arrival is sent and answered."""
    server = start(f"tiny={tiny()},max-queued-requests=512")
    with tempfile.TemporaryDirectory() as folder:
        for trace in traces(folder):
            result = bench(server, "--send", "chat:tiny", "--trace", trace, "--rate-scale", 20,
                           "--seconds", 1, "--input-max", 60, "--output-max", 8, "--concurrency",
                           256)
            nothing_wrong(result)
            assert result["loop"] == "open" and result["ok"] == result["sent"] > 10, result["sent"]
            assert result["late_ms"]["count"] == result["sent"]
            assert 0 < result["tokens"] <= 8 * result["ok"]


def chunk(text):
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


class Scripted(http.server.BaseHTTPRequestHandler):
    """Two pieces and the end, unless the model's name says otherwise."""

    seen = 0

    def log_message(self, *_):
        pass

    def do_POST(self):
        model = json.loads(self.rfile.read(int(self.headers["content-length"])))["model"]
        Scripted.seen += 1
        status = 503 if model in ("busy", "rude") else 200
        text = f"answer {Scripted.seen}" if model == "varies" else "answer"
        tail = {"cuts": b"", "errs": b'data: {"error":{"message":"x"}}\n\n',
                "junk": b"data: {not json}\n\ndata: [DONE]\n\n"}.get(model, b"data: [DONE]\n\n")
        body = b"{}" if status == 503 else chunk(text) + chunk(" more") + tail
        self.send_response(status)
        if model == "busy":
            self.send_header("Retry-After", "1")
        self.send_header("Content-Length", str(len(body) + (9 if model == "closes" else 0)))
        self.end_headers()
        self.wfile.write(body)


def misbehaving(model, *args):
    """Figures of twelve requests by three clients."""
    return bench(scripted, "--send", f"chat:{model}", "--requests", 12, "--concurrency", 3,
                 "--prompts", 2, *args)


scripted = types.SimpleNamespace()


def test_generator_notices():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    scripted.base = f"http://127.0.0.1:{server.server_port}"
    good = misbehaving("good", "--check")
    nothing_wrong(good)
    assert good["ok"] == good["sent"] == 12 and good["pieces"] == 24
    assert good["inter_token_ms"]["count"] == 12 == good["first_token_ms"]["count"]
    assert misbehaving("varies", "--check")["differing"] == 12
    assert misbehaving("cuts")["incomplete"] == 12
    assert misbehaving("errs")["event_errors"] == 12
    assert misbehaving("junk")["event_errors"] == 12
    assert misbehaving("closes")["lost"] == 12
    busy, rude = misbehaving("busy"), misbehaving("rude")
    assert busy["statuses"] == rude["statuses"] == {"503": 12} and busy["ok"] == 0
    assert busy["without_retry_after"] == 0 and rude["without_retry_after"] == 12
    assert misbehaving("good", "--leave-every", 4, "--leave-after", 1)["ok"] >= 9
    server.shutdown()
    server.server_close()
    assert misbehaving("good")["unconnected"] == 3, "each client gives up once"
