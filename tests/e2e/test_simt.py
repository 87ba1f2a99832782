# SPDX-License-Identifier: Apache-2.0
"""The CUDA code path through the server: the emulated device beside the program, held against the
same program on the cpu; and what happens where the CUDA plugin, its driver or cuBLASLt is missing.

float32 answers are equal. bfloat16 ones are equal as far as the reference's two best logits are
further apart than a correct pass can err: that distance is recorded for every position of the
reference's greedy runs, and each comparison asks for just so many tokens.
"""

import concurrent.futures
import functools
import json
import math
import os
import pathlib
import random
import shutil
import socket
import subprocess
import tempfile
import time

import harness
from harness import (KEY, MODELS, WEFT, Skip, amount, chat, embed, full_only, golden, longest, messages, rerank, soak_only,
                     start, text_of, tiny, user)
from test_load import open_stream

BESIDE = pathlib.Path(WEFT).resolve().parent
PLUGIN = pathlib.Path(os.environ.get("WEFT_CUDA_LIBRARY", BESIDE / "libweft_cuda.so"))
GAP = 0.15  # of logits near 17, bfloat16; as tests/runtime/test_golden.c
DEMO_PROMPTS = ["hello", "what is a warp?", "wool", "tell me of the loom"]
TEXTS = ["a red ball", "the dog ran home", "rain", "wool is warm, the sea is cold " * 4]


def server_on(device, *models, **more):
    if device == "simt" and not (BESIDE / "libweft_simt.so").exists():
        raise Skip("no libweft_simt.so beside the program")
    return start(*models, "--device", device, **more)


@harness.once
def on(device):
    """Five models: float32, bfloat16 and the three demo ones."""
    folder = tiny()
    return server_on(device, f"tiny={folder},dtype=float32,block-size=16", f"half={folder},dtype=bfloat16",
                     f"demo={MODELS / 'weft-demo-chat'}", f"embed={MODELS / 'weft-demo-embed'}",
                     f"rerank={MODELS / 'weft-demo-rerank'}", "--max-num-seqs", 16,
                     env={"WEFT_SIMT_HIDE": "1"} if harness.full() else None)  # the host touches no device memory


def answer(server, prompt, **more):
    return text_of(chat(server, messages=user(prompt), **more))


def test_simt_says_what_it_is():
    """Exact by default, and a float32 checkpoint without an option runs in bfloat16, said once."""
    out = on("simt").output()
    device = next(line for line in out.splitlines() if line.startswith("device: "))
    assert device.endswith(", exact"), device
    assert "cpu" not in device, device


@longest
def test_simt_float32_equals_the_reference():
    """The golden prompts: the cpu's text; one (in the soak three) alone, also streamed and as messages, the others at once."""
    simt, cpu = on("simt"), on("cpu")
    prompts = [case["prompt"] for case in golden() if case["prompt"].strip()]  # a message has content
    more = {"max_tokens": amount(6, 6, 16)}
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        wants = list(pool.map(lambda prompt: answer(cpu, prompt, **more), prompts))
        for prompt, want, got in zip(prompts[3:], wants[3:], pool.map(lambda p: answer(simt, p, **more), prompts[3:])):
            assert got == want, prompt
    for prompt, want in zip(prompts[:amount(1, 1, 3)], wants):
        assert answer(simt, prompt, **more) == want, prompt
        streamed = chat(simt, messages=user(prompt), stream=True, **more)
        deltas = [c["choices"][0]["delta"].get("content", "") for c in streamed.chunks()]
        assert "".join(deltas) == want
        out = messages(simt, "2023-06-01", messages=user(prompt), **more)
        assert "".join(part["text"] for part in out.json["content"]) == want


@longest
def test_simt_decoding_fields():
    """Penalties, biases, bans, log probabilities and choices: as the cpu has them."""
    for more in ({"presence_penalty": 1.5, "frequency_penalty": 0.5, "logit_bias": {"100": 3, "101": -100}},
                 {"repetition_penalty": 1.4, "min_tokens": amount(6, 6, 12)},
                 {"temperature": 1, "seed": 3, "n": 3, "min_p": 0.02, "top_k": 40}):
        simt, cpu = (chat(on(d), messages=user("Once upon a time"), max_tokens=amount(6, 6, 12), logprobs=True,
                          top_logprobs=3, **more).json["choices"] for d in ("simt", "cpu"))
        for one, other in zip(simt, cpu):
            assert one["message"] == other["message"], (one, other)
            for a, b in zip(one["logprobs"]["content"], other["logprobs"]["content"]):
                assert a["bytes"] == b["bytes"] and abs(a["logprob"] - b["logprob"]) < 1e-3, (a, b)
                assert [t["bytes"] for t in a["top_logprobs"]] == [
                    t["bytes"] for t in b["top_logprobs"]]


def test_simt_budgets():
    """Reasoning ends after the same tokens as on the cpu, in each choice."""
    template = harness.ROOT / "tests/runtime/recorded/templates/thinking.jinja"
    demo = f"demo={MODELS / 'weft-demo-chat'},chat-template={template}"
    servers = [server_on(device, demo) for device in ("simt", "cpu")]
    for budget in (0, 5):
        simt, cpu = (chat(s, model="demo", max_tokens=24, temperature=1.5, seed=3, n=2, ignore_eos=True,
                          thinking_token_budget=budget).json
                     for s in servers)
        spent = cpu["usage"]["completion_tokens_details"]["reasoning_tokens"]
        assert simt["usage"]["completion_tokens_details"]["reasoning_tokens"] == spent and 2 * budget < spent < 48, simt["usage"]
        for one, other in zip(simt["choices"], cpu["choices"]):
            assert one["message"] == other["message"] and one["message"]["content"], (one, other)


@harness.once
def caller_on(device):
    template = pathlib.Path(__file__).parent / "hermes.jinja"
    return server_on(device, f"demo={MODELS / 'weft-demo-chat'},chat-template={template}", "--max-num-seqs", 20)


def at_once(body_of, check):
    """Eight answers (in the soak twenty) at once at temperature 1.5: those of the cpu; most end by themselves and fit."""
    count = amount(8, 8, 20)
    def ask(device, i):
        answer = chat(caller_on(device), model="demo", messages=user("Write."), temperature=1.5, seed=i, **body_of(i))
        assert answer.status == 200, answer.text
        return answer.json["choices"][0]
    with concurrent.futures.ThreadPoolExecutor(20) as pool:
        simt, cpu = (  # the first alone: the others have its prompt's blocks
            [ask(device, 0), *pool.map(functools.partial(ask, device), range(1, count))] for device in ("simt", "cpu"))
    ended = 0
    for i, (one, other) in enumerate(zip(simt, cpu)):
        for call in (one["message"].get("tool_calls") or []) + (other["message"].get("tool_calls") or []):
            del call["id"]
        assert one == other, (i, one, other)
        if one["finish_reason"] != "length":
            check(i, one["message"])
            ended += 1
    assert ended >= count * 0.7, ended


@longest
def test_simt_schemas():
    import test_structured as structured  # needs the clients, which the other tests here do not

    def schema(i):
        return structured.random_schema(random.Random(i), depth=1) if i % 2 else structured.PLAIN

    def fits(i, message):
        structured.jsonschema.validate(json.loads(message["content"]), schema(i))
    at_once(lambda i: {"guided_json": schema(i), "max_tokens": 96}, fits)


@longest
def test_simt_forced_calls():
    import jsonschema

    visit = {"type": "object", "required": ["city", "days"], "additionalProperties": False, "properties": {
        "city": {"type": "string", "maxLength": 8}, "days": {"type": "integer", "minimum": 1, "maximum": 99},
        "guide": {"enum": [True, None, "a \"b\""]}}}
    named = {"type": "function", "function": {"name": "visit"}}

    def fits(i, message):
        [call] = message["tool_calls"]
        assert call["function"]["name"] == "visit", call
        jsonschema.validate(json.loads(call["function"]["arguments"]), visit)
    at_once(lambda i: {"tools": [{"type": "function", "function": {"name": "visit", "parameters": visit}}],
                      "tool_choice": named, "parallel_tool_calls": False, "max_tokens": 96}, fits)


def test_simt_bans():
    """allowed_token_ids and bad_words are masks without a grammar: the cpu's answers, and nothing else in them."""
    def texts(**fields):
        both = [[text_of(chat(caller_on(device), seed=seed, model="demo", messages=user("Write."), temperature=1.5,
                              max_tokens=24, **fields)) for seed in range(3)] for device in ("simt", "cpu")]
        assert both[0] == both[1] and any(both[0]), (fields, both)
        return both[0]
    letters = caller_on("cpu").post("/tokenize", {"model": "demo", "prompt": "a b c d e f",
                                                  "add_special_tokens": False}).json["tokens"]
    assert all(set(text) <= set("abcdef ") for text in texts(allowed_token_ids=letters))
    assert all(set(text) <= set("abcdf ") for text in texts(allowed_token_ids=letters, bad_words=["e", " e"]))
    word = texts()[0].split()[1]
    assert all(word not in text.split() for text in texts(bad_words=[word, " " + word]))


@full_only
def test_simt_bfloat16_as_far_as_gaps_are_clear():
    simt, cpu = on("simt"), on("cpu")
    compared = 0
    for case, apart in zip(golden(), harness.recorded_gaps()):
        clear = next((i for i, gap in enumerate(apart) if gap < GAP), len(apart))
        if clear == 0 or not case["prompt"].strip():
            continue
        more = {"model": "half", "max_tokens": min(clear, 24)}
        want = answer(cpu, case["prompt"], model="tiny", max_tokens=min(clear, 24))
        assert answer(cpu, case["prompt"], **more) == want
        assert answer(simt, case["prompt"], **more) == want, (case["prompt"], clear)
        compared += min(clear, 24)
    assert compared >= 50, compared


@full_only  # test_simt_blas has the choices of products
def test_simt_fast_products():
    """--no-exact: products by (the stand-in of) cuBLASLt. Its algorithms are kept in a file; a
    second start reads it and gives the same text, and a broken file does no harm."""
    prompt = "One day, a little girl named Lily found a needle in her room."
    folder = amount(MODELS / "weft-demo-chat", MODELS / "weft-demo-chat", tiny())
    want = answer(on("cpu"), prompt, model=amount("demo", "demo", "tiny"), max_tokens=8)
    with tempfile.TemporaryDirectory() as cache:
        for start_number in range(3):
            server = server_on("simt", f"tiny={folder},dtype=bfloat16", "--no-exact",
                               "--device-cache", cache, "--max-num-seqs", amount(4, 4, 16), "--max-num-batched-tokens", amount(32, 32, 64))
            assert answer(server, prompt, max_tokens=8) == want
            files = list(pathlib.Path(cache).iterdir())
            assert len(files) == 1 and files[0].stat().st_size > 0, files
            if start_number == 0:
                kept = files[0].read_bytes()
            elif start_number == 1:
                assert files[0].read_bytes() == kept  # nothing was chosen anew
                files[0].write_bytes(b"\xff" * 1000)
            assert server.stop() == 0


def test_simt_demo_chat_as_cpu():
    """The demo model's answers are far from ties: whole answers, end token found on the device."""
    simt, cpu = on("simt"), on("cpu")
    for prompt in DEMO_PROMPTS:
        one, two = (chat(server, model="demo", messages=user(prompt), max_tokens=32)
                    for server in (simt, cpu))
        assert text_of(one) == text_of(two), prompt
        assert one.json["choices"][0]["finish_reason"] == two.json["choices"][0]["finish_reason"]
        assert one.json["usage"]["completion_tokens"] == two.json["usage"]["completion_tokens"]


@full_only
def test_simt_seeds_draw_as_cpu():
    """Philox, top-k and top-p on the device: the cpu's draws, and the same ones twice."""
    drawn = {}
    for seed in (1, 7):
        more = {"temperature": 0.9, "top_p": 0.95, "top_k": 40, "seed": seed, "max_tokens": amount(8, 8, 16)}
        drawn[seed] = answer(on("simt"), "The dog was very", **more)
        assert drawn[seed] == answer(on("cpu"), "The dog was very", **more)
        assert drawn[seed] == answer(on("simt"), "The dog was very", **more)
    assert drawn[1] != drawn[7]


@longest
def test_simt_eight_at_once():
    """Each of eight, in both precisions, beside clients that leave, equals itself alone."""
    simt = on("simt")
    prompts = [f"Once there was a little {w}" for w in
               ("dog", "cat", "girl", "boy", "bird", "tree", "fish", "bear who lived far away")]
    for model, tokens in ("tiny", amount(2, 2, 8)), ("half", amount(4, 4, 24)):
        def ask(prompt, model=model, tokens=tokens):
            return answer(simt, prompt, model=model, max_tokens=tokens)
        alone = [ask(p) for p in prompts]
        leaving = [open_stream(simt, model=model, max_tokens=300, ignore_eos=True)
                   for _ in range(2)]
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            together = pool.map(ask, prompts)
            for s in leaving:
                assert s.recv(20)
                s.close()
            assert list(together) == alone, model


def idle(server):
    deadline = time.monotonic() + 600
    while server.metric("weft_sequences_(running|waiting)"):
        assert time.monotonic() < deadline, "sequences run on"
        time.sleep(0.02)


def test_simt_cancel():
    """A client that leaves: its sequence ends within a step, long before its 400 tokens."""
    server = server_on("simt", f"tiny={MODELS / 'weft-demo-chat'}")
    want = answer(server, "One day", max_tokens=12)
    before = server.metric("weft_generation_tokens_total")
    gone = [open_stream(server, max_tokens=400, ignore_eos=True) for _ in range(4)]
    for s in gone:
        assert s.recv(20)
        s.close()
    idle(server)
    assert server.metric("weft_rows_after_cancel_total") <= 4
    assert server.metric("weft_generation_tokens_total") - before < 4 * 400
    assert server.metric("weft_clients_gone_total") == 4
    assert server.metric("weft_kv_blocks_used") == 0
    assert answer(server, "One day", max_tokens=12) == want  # rows and blocks serve again


@soak_only  # test_ranks.py preempts on emulated GPUs, too
def test_simt_preemption():
    """Blocks for two sequences, five that want more: the text of each is that of it alone."""
    kv = 12 * 16 * 512  # 12 blocks of 16 tokens: 2 layers x K, V x 4 heads x 16 x 2 bytes a token
    server = server_on("simt", f"tiny={tiny()},dtype=bfloat16,block-size=16,max-model-len=96,"
                       f"kv-cache-memory={kv}", "--no-enable-prefix-caching")
    assert server.metric("weft_kv_blocks{") == 12
    prompts = [f"The {w} was very" for w in ("dog", "cat", "bird", "fish", "girl")]

    def ask(prompt):
        return answer(server, prompt, max_tokens=56, ignore_eos=True)
    alone = [ask(p) for p in prompts]
    assert server.metric("weft_preemptions_total") == 0
    with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
        assert list(pool.map(ask, prompts)) == alone
    assert server.metric("weft_preemptions_total") > 0


def cached(out):
    return (out.json["usage"].get("prompt_tokens_details") or {}).get("cached_tokens", 0)


@soak_only  # test_ranks.py has cached prompts on emulated GPUs, too
def test_simt_prefix_hits():
    """From blocks of prefill and of decode steps: the text is that of a cold start."""
    server, cold = on("simt"), on("cpu")
    long = "The little dog ran to the big tree and saw a red ball. " * amount(5, 5, 9)
    tokens = amount(20, 20, 40)
    first, second = (chat(server, messages=user(long), max_tokens=tokens, ignore_eos=True)
                     for _ in range(2))
    assert cached(first) == 0 and cached(second) >= amount(32, 32, 64), cached(second)
    assert text_of(first) == text_of(second) == answer(cold, long, max_tokens=tokens, ignore_eos=True)
    more = long + text_of(first)  # a prompt that goes on through what decode steps wrote
    warm = chat(server, messages=user(more), max_tokens=amount(4, 4, 12))
    assert cached(warm) >= cached(second) + 16, (cached(warm), cached(second))
    assert text_of(warm) == answer(cold, more, max_tokens=amount(4, 4, 12))


def cosine(a, b):
    return sum(x * y for x, y in zip(a, b)) / math.sqrt(sum(x * x for x in a) *
                                                        sum(y * y for y in b))


def test_simt_embeddings():
    """Near the cpu's, and bit-equal alone and among 64 texts."""
    def vectors(server, texts):
        answer = embed(server, texts)
        assert answer.status == 200, answer.text
        return [item["embedding"] for item in answer.json["data"]]
    simt = vectors(on("simt"), TEXTS)
    for one, two in zip(simt, vectors(on("cpu"), TEXTS)):
        assert cosine(one, two) > 0.999
    many = vectors(on("simt"), [f"text {i}" for i in range(60)] + TEXTS)
    assert many[60:] == simt
    assert [vectors(on("simt"), [text])[0] for text in TEXTS] == simt


def test_simt_rerank():
    def scores(server, documents):
        answer = rerank(server, "where is the dog?", documents)
        assert answer.status == 200, answer.text
        return [r["relevance_score"] for r in sorted(answer.json["results"],
                                                     key=lambda r: r["index"])]
    simt = scores(on("simt"), TEXTS)
    for one, two in zip(simt, scores(on("cpu"), TEXTS)):
        assert abs(one - two) < 0.02, (one, two)
    many = scores(on("simt"), [f"document {i}" for i in range(40)] + TEXTS)
    assert many[40:] == simt


def alone_in_folder():
    """The program with no device library beside it."""
    folder = tempfile.TemporaryDirectory()
    program = pathlib.Path(folder.name) / "weft"
    shutil.copy(WEFT, program)
    return folder, program


def serve(command, *args):
    """Starts, waits for /ready or the end, stops; (exit code or None if it was ready, output)."""
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            [*map(str, command), "serve", str(MODELS / "weft-demo-embed"), "--port", "0",
             "--api-key", KEY, "--core-dumps", *map(str, args)], stdout=log, stderr=log)  # for port_listened_on
        ready = False
        while process.poll() is None and not ready:
            try:
                with socket.create_connection(("127.0.0.1", harness.port_listened_on(process) or 0), timeout=5) as s:
                    s.sendall(b"GET /ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                    ready = b" 200 " in s.recv(64)
            except OSError:
                pass
            time.sleep(0.02)
        if ready:
            process.terminate()
        code = process.wait(600)
        log.seek(0)
        out = log.read().decode(errors="replace")
    assert not ready or code == 0, (code, out)
    return (None if ready else code), out


def falls_back(command, reason, *args, auto=None):
    """auto: one line with the reason, served by the cpu. cuda: exit 1 with the reason, one line."""
    code, out = serve(command, "--device", "auto", *args)
    assert code is None, out
    lines = [line for line in out.splitlines() if "no GPU is used" in line]
    assert len(lines) == 1 and (auto or reason) in lines[0], out
    assert "device: cpu" in out, out
    code, out = serve(command, "--device", "cuda", *args)
    assert code == 1, (code, out)
    lines = out.strip().splitlines()
    assert len(lines) == 1 and reason in lines[0], out


def test_cuda_without_plugin():
    folder, program = alone_in_folder()
    with folder:
        falls_back([program], "libweft_cuda.so", auto="the CUDA plugin is not built (make cuda)")
        code, out = serve([program], "--device", "simt")
        assert code == 1 and "libweft_simt.so" in out, (code, out)
        code, out = serve([program], "--device", "cpu")
        assert code is None and "no GPU" not in out, out


def plugin():
    if not PLUGIN.exists():
        raise Skip(f"no {PLUGIN.name} beside the program (make cuda; needs nvcc)")
    return PLUGIN


def test_cuda_without_driver():
    library = plugin()
    if pathlib.Path("/dev/nvidia0").exists():
        raise Skip("this machine has a GPU")
    falls_back([WEFT], "driver", "--device-library", library)
    folder, program = alone_in_folder()
    with folder:  # the library is also found beside the program
        shutil.copy(library, pathlib.Path(folder.name))
        falls_back([program], "driver")


def test_cuda_without_cublaslt():
    """The library's folder is hidden in a mount namespace of the test's own."""
    library = plugin()
    needs = subprocess.run(["ldd", str(library)], capture_output=True, text=True).stdout.split("\n")
    found = [line.split()[2] for line in needs if "libcublasLt" in line and "/" in line]
    command = [WEFT]
    if found:
        hidden = pathlib.Path(found[0]).resolve().parent
        hide = f'mount -t tmpfs none "{hidden}" && exec "$0" "$@"'
        command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", hide, WEFT]
        if subprocess.run([*command, "--help"], capture_output=True).returncode != 0:
            command = ["unshare", "--mount", "sh", "-c", hide, WEFT]
        if subprocess.run([*command, "--help"], capture_output=True).returncode != 0:
            raise Skip("no mount namespace to hide cuBLASLt in")
    falls_back(command, "libcublasLt", "--device-library", library)
