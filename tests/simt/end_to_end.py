#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The complete program on `--device simt`: the CUDA sources, the plugin and the complete server path, compared
with the reference's golden tokens and with the same program on the cpu.

  end_to_end.py WEFT LIBRARY      exits 77 if the program is missing

Standard library only. Tests: ten golden greedy runs token by token in float32; bfloat16 compared with the
cpu up to the first position at which the reference's top-two gap is below the tolerance; eight concurrent
requests equal to single ones; a client that disconnects; prefix hits; embeddings and rerank close to the cpu's.
"""
import concurrent.futures
import http.client
import json
import math
import pathlib
import signal
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))
import story_model  # noqa: E402

MODELS = ROOT / "models"
WEFT, LIBRARY = sys.argv[1], sys.argv[2]
TINY = story_model.stories(pathlib.Path(WEFT).resolve().parents[1])
DEVICE = {"cpu": ["--device", "cpu"], "simt": ["--device", "simt", "--device-library", LIBRARY]}
passed = 0


def expect(holds, what):
    global passed
    if not holds:
        sys.exit(f"FAILED: {what}")
    passed += 1
    print(f"ok  {what}", flush=True)


def generate(device, prompt, tokens, dtype):
    out = subprocess.run([WEFT, "generate", str(TINY), *DEVICE[device], "--raw", "--temperature", "0", "--json",
                          "--dtype", dtype, "--max-tokens", str(tokens), "--prompt", prompt],
                         capture_output=True, text=True, timeout=300)
    if out.returncode != 0:
        sys.exit(f"FAILED: weft generate on {device}: {out.stderr[-500:]}")
    return json.loads(out.stdout)


def golden():
    cases = json.loads((TINY / "golden.json").read_text())["cases"]
    for case in cases:
        want = case["greedy_ids"]
        got = generate("simt", case["prompt"], len(want), "float32")
        expect(got["token_ids"] == want, f"golden {case['prompt'][:30]!r}: {len(want)} greedy tokens, float32")
    for case in cases[:2]:
        tokens = min(24, len(case["greedy_ids"]))
        one = generate("simt", case["prompt"], tokens, "bfloat16")["token_ids"]
        two = generate("cpu", case["prompt"], tokens, "bfloat16")["token_ids"]
        same = next((i for i, (a, b) in enumerate(zip(one, two)) if a != b), tokens)
        expect(same == tokens or case["greedy_min_top1_top2_gap"] < 0.2,
               f"bfloat16 as on the cpu for {same} of {tokens} tokens (gap {case['greedy_min_top1_top2_gap']})")


class Server:
    def __init__(self, device):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.process = subprocess.Popen(
            [WEFT, "serve", f"tiny={TINY},dtype=float32", f"embed={MODELS / 'weft-demo-embed'},dtype=bfloat16",
             f"rerank={MODELS / 'weft-demo-rerank'},dtype=bfloat16", *DEVICE[device], "--port", str(self.port),
             "--api-key", "k", "--max-num-seqs", "16"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        deadline = time.monotonic() + 120
        while self.process.poll() is None and time.monotonic() < deadline:
            try:
                if self.call("GET", "/ready")[0] == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        self.process.kill()
        sys.exit("FAILED: the server did not become ready: " + self.process.communicate()[0][-800:])

    def call(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)
        connection.request(method, path, json.dumps(body) if body is not None else None,
                           {"Authorization": "Bearer k", "Content-Type": "application/json"})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, (json.loads(data) if data[:1] == b"{" else data)

    def chat(self, text, tokens=16, **more):
        status, out = self.call("POST", "/v1/chat/completions", {
            "model": "tiny", "messages": [{"role": "user", "content": text}], "max_tokens": tokens, **more})
        if status != 200:
            sys.exit(f"FAILED: chat: {status} {out}")
        return out

    def leave(self):
        """A stream whose client is gone after the first bytes."""
        s = socket.create_connection(("127.0.0.1", self.port))
        body = json.dumps({"model": "tiny", "stream": True, "max_tokens": 200,
                           "messages": [{"role": "user", "content": "Once upon a time"}]})
        s.sendall((f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer k\r\n"
                   f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}").encode())
        s.recv(64)
        s.close()

    def close(self):
        self.process.send_signal(signal.SIGTERM)
        out = self.process.communicate(timeout=120)[0]
        return self.process.returncode, out


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) * sum(y * y for y in b))


def text_of(out):
    return out["choices"][0]["message"]["content"]


def served():
    simt, cpu = Server("simt"), Server("cpu")
    prompts = [f"Once upon a time there was a little {w}" for w in
               ("dog", "cat", "girl", "boy", "bird", "tree", "fish", "bear")]
    alone = [text_of(simt.chat(p, temperature=0)) for p in prompts]
    expect(alone == [text_of(cpu.chat(p, temperature=0)) for p in prompts], "eight greedy answers as on the cpu")
    simt.leave()
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda p: text_of(simt.chat(p, temperature=0)), prompts))
    expect(together == alone, "eight at once, beside a client that left, equal each alone")
    seeded = [text_of(simt.chat(prompts[0], seed=7, temperature=0.9, top_p=0.9, top_k=40)) for _ in range(2)]
    expect(seeded[0] == seeded[1], "a seed gives the same answer twice")
    long = "The little dog ran to the big tree and saw a red ball. " * 12
    first, second = simt.chat(long, 4, temperature=0), simt.chat(long, 4, temperature=0)
    details = second["usage"].get("prompt_tokens_details") or {}
    expect(details.get("cached_tokens", 0) >= 64, f"a prefix hit of {details.get('cached_tokens')} tokens")
    expect(text_of(first) == text_of(second), "the answer from a warm cache is the answer")
    texts = ["a red ball", "the dog ran home", "rain"]
    one = simt.call("POST", "/v1/embeddings", {"model": "embed", "input": texts})[1]["data"]
    two = cpu.call("POST", "/v1/embeddings", {"model": "embed", "input": texts})[1]["data"]
    least = min(cosine(a["embedding"], b["embedding"]) for a, b in zip(one, two))
    expect(least > 0.999, f"embeddings as on the cpu (cosine {least:.6f})")
    ask = {"model": "rerank", "query": "a dog", "documents": texts}
    ranks = [sorted((r["index"], r["relevance_score"]) for r in s.call("POST", "/v1/rerank", ask)[1]["results"])
             for s in (simt, cpu)]
    apart = max(abs(a[1] - b[1]) for a, b in zip(*ranks))
    expect(apart < 0.02, f"rerank scores as on the cpu (largest difference {apart:.4f})")
    for server in (simt, cpu):
        code, out = server.close()
        expect(code == 0, f"the server ends with 0 on SIGTERM ({out.splitlines()[-1][:60] if out else ''})")


if not pathlib.Path(WEFT).exists():
    print("skipped: no weft program")
    sys.exit(77)
golden()
served()
print(f"{passed} passed")
