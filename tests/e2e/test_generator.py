# SPDX-License-Identifier: Apache-2.0
"""The load generator itself: what it refuses, and that it notices each thing that can go wrong,
against a scripted server whose model name says how it misbehaves."""

import http.server
import itertools
import json
import os
import pathlib
import random
import resource
import socket
import ssl
import subprocess
import tempfile
import threading
import types

import harness
from harness import MODELS, WEFT, Skip, full_only, start, tiny
from test_flood import bench, nothing_wrong


def test_generator_refuses():
    """Options that it does not understand, or that contradict each other."""
    def refused(*args):
        done = subprocess.run([WEFT, "bench", *args], capture_output=True, text=True)
        return done.returncode == 2 and "weft bench: " in done.stderr

    url = "http://127.0.0.1:1"
    assert refused()
    assert refused("ftp://127.0.0.1:1")
    assert refused(url, "--concurrency", "0")
    assert refused(url, "--concurrency", "3x")
    assert refused(url, "--send", "sing:a")
    assert refused(url, "--send", "chat:a:0")
    assert refused(url, "--backend", "sing")
    assert refused(url, "--trace", "x", "--rate", "3")
    assert refused(url, "--input-len", "uniform:9:3")
    assert refused(url, "--output-len", "0")
    for limits in ("ttft", "ttft:-5", "ttft:nan", "tpot:inf", "e2el:0", "ttft:5;tpot:3"):
        assert refused(url, "--goodput", limits), limits
    for option in (("--concurrency", "4"), ("--runs", "10"), ("--no-progress",), ("--threads", "2")):
        assert refused("compare", "a.json", "b.json", *option), option
    assert refused(url, "--extra-body", "[1]")
    assert refused(url, "--header", "name")
    done = subprocess.run([WEFT, "bench", url, "--model", "a", "--trace", __file__],
                          capture_output=True, text=True)
    assert done.returncode == 1 and "line 1 is not an arrival" in done.stderr
    for option in ("--output", "--report", "--request-log"):  # before a request is sent, or a model is loaded
        for file in ("/no/such/folder/file", "/tmp", ""):
            for measured in ((url, "--model", "a"), ("--model", "a")):
                if measured[0] == url or option == "--output":
                    done = subprocess.run([WEFT, "bench", *measured, option, file], capture_output=True, text=True)
                    assert done.returncode == 1 and f"weft: {file} cannot be written" in done.stderr, done.stderr


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
                           "--duration", 1, "--input-max", 60, "--output-max", 8, "--concurrency",
                           256)
            nothing_wrong(result)
            assert result["loop"] == "open" and result["completed"] == result["sent"] > 10, result["sent"]
            assert result["late_count"] == result["sent"]
            assert 0 < result["total_output_tokens"] <= 8 * result["completed"]


def test_generator_lengths():
    """Prompts have the length that the server counts, on average by its usage and exactly with the
    model's tokenizer; answers have theirs; equal seeds draw equal lengths."""
    server = start(f"chat={MODELS / 'weft-demo-chat'}", f"embed={MODELS / 'weft-demo-embed'}")
    load = "--num-prompts", 24, "--output-len", "uniform:2:9"
    by_usage = bench(server, "--send", "chat:chat", "--input-len", 200, *load)
    assert abs(by_usage["total_input_tokens"] / 24 - 200) < 8, by_usage["total_input_tokens"]
    assert 2 * 24 <= by_usage["total_output_tokens"] <= 9 * 24
    exact = ["--send", "chat:chat", "--tokenizer", MODELS / "weft-demo-chat", *load]
    fixed = bench(server, "--input-len", 100, *exact)
    assert fixed["total_input_tokens"] == 100 * 24, fixed["total_input_tokens"]
    assert fixed["cached_tokens"] == 0, "each prompt differs"
    drawn = [bench(server, "--input-len", "lognormal:60:0.5", "--seed", seed, *exact)
             for seed in (5, 5, 6)]
    counts = [(d["total_input_tokens"], d["total_output_tokens"]) for d in drawn]
    assert counts[0] == counts[1] != counts[2], counts


def chunk(text):
    return b"data: " + json.dumps({"choices": [{"delta": {"content": text}}]}).encode() + b"\n\n"


class Scripted(http.server.BaseHTTPRequestHandler):
    """Two pieces and the end, unless the model's name says otherwise."""

    seen = 0
    bodies = []

    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        model = body["model"]
        Scripted.bodies.append(body)
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
    return bench(scripted, "--send", f"chat:{model}", "--num-prompts", 12, "--concurrency", 3,
                 "--prompts", 2, *args)


scripted = types.SimpleNamespace()


def test_generator_notices():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    scripted.base = f"http://127.0.0.1:{server.server_port}"
    good = misbehaving("good", "--check")
    nothing_wrong(good)
    assert good["completed"] == good["sent"] == 12 and good["events"] == 24
    assert good["itl_count"] == 12 == good["ttft_count"] and good["without_usage"] == 12
    assert misbehaving("varies", "--check")["differing"] == 12
    for model, outcome in (("cuts", "incomplete"), ("errs", "event_errors"), ("junk", "malformed"),
                           ("closes", "lost")):
        found = misbehaving(model)
        assert found["outcomes"][outcome] == 12 == found["failed"], (model, found["outcomes"])
    busy, rude = misbehaving("busy"), misbehaving("rude")
    assert busy["statuses"] == rude["statuses"] == {"503": 12} and busy["completed"] == 0
    assert busy["outcomes"]["refused"] == 12
    assert busy["without_retry_after"] == 0 and rude["without_retry_after"] == 12
    assert misbehaving("good", "--leave-every", 4, "--leave-after", 1)["completed"] >= 9
    server.shutdown()
    server.server_close()
    assert misbehaving("good")["outcomes"]["unconnected"] == 3, "each client gives up once"


def test_generator_conversations():
    """Turns follow the answer and contain it; later runs continue in the data set; the warm-up has its own prompts."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    load = (f"http://127.0.0.1:{server.server_port}", "--model", "good", "--no-progress", "--no-metrics", "--json")
    with tempfile.TemporaryDirectory() as folder:
        talks, single = pathlib.Path(folder) / "talks.json", pathlib.Path(folder) / "single.jsonl"
        talks.write_text(json.dumps([{"conversations": [
            {"from": "gpt" if k % 2 else "human", "value": f"{i} says {k}"} for k in range(6)]} for i in range(3)]))
        single.write_text("".join(json.dumps({"prompt": f"prompt {i}"}) + "\n" for i in range(5)))
        Scripted.bodies.clear()
        found = json.loads(run(*load, "--dataset", talks, "--multi-turn", "--num-prompts", 3, "--concurrency", 2,
                               "--request-log", f"{folder}/log"))
        assert found["completed"] == 9 and found["multi_turn"], found
        by_turn = {n: [b["messages"] for b in Scripted.bodies if len(b["messages"]) == n] for n in (1, 3, 5)}
        assert all(len(bodies) == 3 for bodies in by_turn.values()), by_turn
        for messages in by_turn[5]:
            who = messages[0]["content"][0]
            assert [m["content"] for m in messages] == [f"{who} says 0", "answer more", f"{who} says 2", "answer more",
                                                        f"{who} says 4"], messages
            assert [m["role"] for m in messages] == ["user", "assistant"] * 2 + ["user"]
        log = [json.loads(line)["turn"] for line in pathlib.Path(f"{folder}/log").read_text().splitlines()]
        assert sorted(log) == [0, 0, 0, 1, 1, 1, 2, 2, 2], log
        for series in (("--runs", 2), ("--sweep", "concurrency:1,2")):
            Scripted.bodies.clear()
            run(*load, "--dataset", single, "--num-prompts", 2, "--concurrency", 1, "--warmup", 1, *series)
            assert sorted(b["messages"][0]["content"] for b in Scripted.bodies) == [f"prompt {i}" for i in range(5)]
        done = subprocess.run([WEFT, "bench", *load, "--dataset", single, "--num-prompts", "6"], capture_output=True,
                              text=True, check=True)
        assert "has 5 prompts for 6 requests: prompts repeat" in done.stderr, done.stderr
        done = subprocess.run([WEFT, "bench", *load, "--dataset", single], capture_output=True, text=True, check=True)
        found = json.loads(done.stdout)
        assert found["completed"] == found["num_prompts"] == 5 and "repeat" not in done.stderr, done
        for wrong in (("--backend", "completions"), ("--prompts", 2), ("--check",)):
            run(*load, "--dataset", talks, "--multi-turn", *wrong, code=2)
        run(*load, "--multi-turn", code=2)
        run(*load, "--prefix-len", 40, code=2)
    server.shutdown()
    server.server_close()


def run(*args, code=0, **options):
    """Runs weft bench and returns its stdout."""
    done = subprocess.run([WEFT, "bench", *map(str, args)], capture_output=True, text=True, timeout=600,
                          check=False, **options)
    assert done.returncode == code, (done.returncode, done.stderr[-1000:])
    return done.stdout


def test_generator_apis_and_files():
    """All APIs of one server in one run; keys by option, environment and file; the files of a run."""
    server = start(f"tiny={tiny()}", f"embed={MODELS / 'weft-demo-embed'}",
                   f"rerank={MODELS / 'weft-demo-rerank'}")
    sends = [f"{api}:tiny" for api in ("chat", "completions", "responses", "messages")]
    sends += ["embeddings:embed", "cohere:rerank", "jina:rerank", "tei:rerank"]
    for form in ((), ("--no-stream",)):
        result = bench(server, *[word for send in sends for word in ("--send", send)], "--num-prompts", 32,
                       "--concurrency", 8, "--output-len", 5, *form)
        nothing_wrong(result)
        for target in result["targets"]:
            assert target["completed"] == target["sent"] > 0, target
            generates = target["model_id"] == "tiny"
            assert target["total_output_tokens"] > 0 or not generates, target
            assert target["total_input_tokens"] > 0 or target["backend"] == "tei", target
            assert ("ttft_count" in target) == (generates and not form), target
    load = "--model", "tiny", "--num-prompts", 6, "--concurrency", 2, "--output-len", 4, "--no-progress"
    with tempfile.TemporaryDirectory() as folder:
        files = {name: f"{folder}/{name}" for name in ("b.json", "b.html", "log", "key", "set")}
        pathlib.Path(files["key"]).write_text(harness.KEY + "\n")
        pathlib.Path(files["set"]).write_text("".join(
            json.dumps({"messages": harness.user(f"question {i}"), "max_tokens": i + 1}) + "\n" for i in range(3)))
        run(server.base, *load, "--api-key-file", files["key"], "--output", files["b.json"], "--report",
            files["b.html"], "--request-log", files["log"])
        result = json.loads(pathlib.Path(files["b.json"]).read_text())
        assert result["completed"] == 6 and result["max_concurrency"] == 2 and result["mean_ttft_ms"] > 0
        assert result["server_metrics"] and result["total_output_tokens"] == 24
        page = pathlib.Path(files["b.html"]).read_text()
        assert page.count("<svg") == page.count("</svg>") > 2 and "http" not in page.replace(server.base, "")
        log = [json.loads(line) for line in pathlib.Path(files["log"]).read_text().splitlines()]
        assert len(log) == 6 and all(line["outcome"] == "ok" and line["output_tokens"] == 4 for line in log)
        environment = {**os.environ, "OPENAI_API_KEY": harness.KEY}
        printed = run(server.base + "/v1", *load, "--dataset", files["set"], "--ignore-eos", env=environment)
        assert "6 ok" in printed and "tokens/s out" in printed, printed
        assert "6 refused" in run(server.base, *load, "--api-key", "wrong", code=1)
        assert json.loads(run(server.base, *load, "--dataset", files["set"], "--ignore-eos", "--json", "--api-key",
                              harness.KEY))["total_output_tokens"] == 2 * (1 + 2 + 3)


def test_generator_series():
    """Pairs of two servers, repetitions, a sweep and the search of a rate; comparison of files."""
    server = start(f"tiny={tiny()}")
    load = ("--model", "tiny", "--api-key", harness.KEY, "--concurrency", 2, "--num-prompts", 6, "--output-len", 3,
            "--no-progress")
    done = subprocess.run([str(word) for word in (WEFT, "bench", server.base, *load, "--against", server.base, "--runs", 2,
                                                  "--json")], capture_output=True, text=True, check=True)
    assert "both sides are the same server" in done.stderr, done.stderr
    both = json.loads(done.stdout)
    assert len(both["a"]["runs"]) == len(both["b"]["runs"]) == 2 and both["a"]["completed"] == 12
    comparison = both["comparison"]
    assert comparison["primary"] == "output_throughput" and comparison["pairs"] == 2
    assert not any("loads differ" in note for note in comparison["notes"]), comparison["notes"]
    for name, rise in both["a"]["runs"][0]["server_metrics"].items():
        assert both["a"]["server_metrics"][name] >= rise > 0, name
    figure = comparison["figures"][0]
    assert figure["low"] <= figure["difference"] <= figure["high"]
    with tempfile.TemporaryDirectory() as folder:
        one, other = f"{folder}/a.json", f"{folder}/b.json"
        run(server.base, *load, "--runs", 2, "--output", one)
        run(server.base, *load, "--concurrency", 1, "--output", other)
        printed = run("compare", one, other, "--report", f"{folder}/c.html")
        assert "the loads differ: max_concurrency" in printed and "no verdict" in printed, printed
        page = pathlib.Path(f"{folder}/c.html").read_text()
        assert "Comparison" in page and page.count("</i>A</li>") == page.count("</i>B</li>") == 4, page.count("</i>A</li>")
        run("compare", one, one, "--interval", "bootstrap", code=1)
        result = json.loads(pathlib.Path(one).read_text())
        for k in range(10):
            result["runs"][k:k + 1] = [{**result["runs"][0], "output_throughput": 100.0 + k, "client": {"limited": False}}]
        pathlib.Path(other).write_text(json.dumps(result))
        found = json.loads(run("compare", other, other, "--interval", "bootstrap", "--json"))["comparison"]
        assert found["interval"] == "bootstrap" and found["pairs"] == 10 and found["figures"][0]["verdict"] == "no difference"
        assert "mean_e2el_ms" in run("compare", one, one, "--primary", "mean_e2el_ms").splitlines()[1]
        run("compare", one, __file__, code=1)
        run("compare", one, one, "--primary", "no_such_figure", code=1)
        run("compare", one, code=2)
    swept = json.loads(run(server.base, *load, "--sweep", "concurrency:1,3", "--json"))
    assert [point["max_concurrency"] for point in swept["points"]] == [1, 3]
    assert [point["max_concurrent_requests"] for point in swept["points"]] == [1, 3]
    found = json.loads(run(server.base, *load, "--find-rate", "--rate", 1000, "--goodput", "e2el:0.001", "--json"))
    assert found["search"]["best_rate"] == 0  # no request is that fast
    assert all(point["request_goodput"] == 0 for point in found["points"])
    run(server.base, *load, "--find-rate", code=2)
    run(server.base, *load, "--against", server.base, "--runs", 9, "--interval", "bootstrap", code=2)
    run(server.base, *load, "--sweep", "concurrency:1,x", code=2)
    run(server.base, *load, "--dtype", "int8", code=2)


def test_generator_offline():
    """Without a server: speeds of each batch as a table and as JSON; what has no effect or cannot run is refused."""
    folder, lengths = MODELS / "weft-demo-chat", ("--input-len", 40, "--output-len", 6, "--runs", 2)
    with tempfile.TemporaryDirectory() as place:
        table = run("--model", folder, *lengths, "--batch", "1,3", "--output", f"{place}/r").splitlines()
        result = json.loads(pathlib.Path(f"{place}/r").read_text())
    assert [line.split()[:3] for line in table[1:]] == [["1", "40", "6"], ["3", "40", "6"]], table
    assert [b["batch"] for b in result["batches"]] == [1, 3], result
    for batch in result["batches"]:
        for part in ("prefill", "decode"):
            speeds = batch[f"{part}_tokens_per_s"]
            assert len(speeds) == 2 and min(speeds) > 0, batch
    assert json.loads(run("--model", folder, *lengths, "--batch", 300, "--json"))["batches"][0]["batch"] == 300
    run("--model", MODELS / "weft-demo-embed", code=1)
    run("--model", folder, "--input-len", 4000, "--output-len", 200, code=1)
    for wrong in (("--batch", "0"), ("--batch", "1,x"), ("--input-len", "uniform:3:5"), ("--concurrency", 4)):
        run("--model", folder, *wrong, code=2)


class Hostile:
    """Answers each connection with the next of some byte strings, then closes or waits."""

    REPLIES = {
        "lost": [b"", b"garbage\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ndata: {"],
        "oversized": [b"HTTP/1.1 200 OK\r\n" + b"x-header: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy\r\n" * 8000,
                      b"HTTP/1.1 200 OK\r\n\r\ndata: " + b"a" * (5 << 20)],
        "malformed": [b"HTTP/1.1 200 OK\r\n\r\ndata: {\"a\": \"\xff\xfe\"}\n\n",
                      b"HTTP/1.1 200 OK\r\n\r\ndata: {]\n\ndata: [DONE]\n\n"],
        "refused": [b"HTTP/1.1 404 No\r\n\r\n{\"message\": \"\xff\n\"}" + b"x" * 5000],
        "incomplete": [b"HTTP/1.1 200 OK\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nid: 3\n\n\n:\n" + b"\x00" * 999],
    }

    def __init__(self, replies, drip=False):
        self.replies, self.drip = replies, drip
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.base = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        self.ended = threading.Event()
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        for number in itertools.count():
            try:
                connection = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.answer, args=(connection, number), daemon=True).start()

    def answer(self, connection, number):
        with connection:
            try:
                connection.recv(65536)
                connection.sendall(self.replies[number % len(self.replies)])
                while self.drip and not self.ended.wait(0.02):
                    connection.sendall(b":\n")
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):
                    pass
            except OSError:
                pass

    def close(self):
        self.ended.set()
        self.listener.close()


def test_generator_hostile():
    """Cut streams, endless headers, bad UTF-8, wrong events and slow drips are counted."""
    for outcome, replies in Hostile.REPLIES.items():
        server = Hostile(replies)
        result = bench(server, "--model", "x", "--num-prompts", 6, "--concurrency", 2, "--no-metrics")
        assert result["outcomes"][outcome] == 6, (outcome, result["outcomes"], result["lost_why"])
        start = '{"message": "??"}xxx' if outcome == "refused" else ""
        assert result["refused_why"][:20] == start and len(result["refused_why"]) < 256, result["refused_why"]
        server.close()
    server = Hostile([b"HTTP/1.1 200 OK\r\nContent-Type: text/html\xff\r\n\r\n<!doctype html>"])
    result = bench(server, "--model", "x", "--num-prompts", 2, "--concurrency", 2, "--no-metrics")
    assert result["lost_why"] == "the reply is text/html?, not text/event-stream", result["lost_why"]
    server.close()
    page = b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n<!doctype html>", b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"
    for reply, says in zip(page, ("something else than JSON", "without the path of an API")):
        server = Hostile([reply])
        done = subprocess.run([WEFT, "bench", server.base], capture_output=True, text=True)
        assert done.returncode == 1 and says in done.stderr, done.stderr
        server.close()
    server = Hostile([b"HTTP/1.1 200 OK\r\n\r\n"], drip=True)
    result = bench(server, "--model", "x", "--num-prompts", 2, "--concurrency", 2, "--timeout", 0.5, "--no-metrics")
    assert result["outcomes"]["timed_out"] == 2, result["outcomes"]
    server.close()


def test_generator_tls():
    """HTTPS with a certificate that is trusted, one that is not, and without a check."""
    with tempfile.TemporaryDirectory() as folder:
        cert, key = f"{folder}/cert.pem", f"{folder}/key.pem"
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
                        "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost", "-addext",
                        "subjectAltName=DNS:localhost,IP:127.0.0.1"], check=True, capture_output=True)
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Scripted)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        base = types.SimpleNamespace(base=f"https://127.0.0.1:{server.server_port}")
        load = "--model", "good", "--num-prompts", 3, "--concurrency", 1, "--no-metrics"
        for option in (("--cacert", cert), ("--insecure",)):
            assert bench(base, *load, *option)["completed"] == 3
        refused = bench(base, *load)
        assert refused["outcomes"]["unconnected"] == 1 and "ertificate" in refused["lost_why"], refused["lost_why"]
        server.shutdown()
        server.server_close()


@full_only
def test_generator_ten_thousand():
    """10,000 streams at the same time run to their end."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    mock = pathlib.Path(WEFT).parent / "mock_stream"
    if limit < 10100 or not mock.exists():
        raise Skip(f"{mock.name} is missing, or the limit of open files is {limit}")
    server = subprocess.Popen([mock, "--ttft", "10000", "--gap", "1000"], stdout=subprocess.PIPE, text=True)
    base = types.SimpleNamespace(base=f"http://127.0.0.1:{server.stdout.readline().strip()}")
    result = bench(base, "--model", "mock", "--concurrency", 10000, "--num-prompts", 10000, "--output-len", 3)
    server.terminate()
    server.communicate()
    nothing_wrong(result)
    assert result["completed"] == 10000 == result["max_concurrent_requests"] and result["events"] == 30000
