# SPDX-License-Identifier: Apache-2.0
"""Several engines behind one model name: answers, routing, faults of one copy, ends; and what is said at the start."""

import concurrent.futures
import json
import re
import signal
import subprocess

import harness
from harness import KEY, MODELS, WEFT, chat, embed, golden, rerank, start, text_of, tiny, user
from test_golden import TOKENS, record_of
from test_life import CHAT, ended, faulty, stream_of, wait_for
from test_load import open_stream, read_all
from test_simt import DEMO_PROMPTS, answer, on, server_on

TEXTS = ["a red ball", "the dog ran home", "rain"]


def submitted(server, engine):
    return server.metric(f'weft_requests_submitted_total{{.*engine="{engine}"')


def running(server, engine):
    return server.metric(f'weft_sequences_running{{.*engine="{engine}"')


def test_copies_answer_as_one():
    """Two copies of a generator, an embedder and a reranker beside one of each: the same answers, from both copies."""
    folders = {"chat": f"{tiny()},max-num-seqs=16", "embed": MODELS / "weft-demo-embed", "rerank": MODELS / "weft-demo-rerank"}
    server = start(*(f"{name}{n}={folder},data-parallel-size={n}" for name, folder in folders.items() for n in (1, 2)))
    states = {f"{name}2": ["ready", "ready"] for name in folders}
    assert server.request("GET", "/ready").json == {"status": "ready", "copies": states}
    assert server.request("GET", "/health").status == 200
    assert [m["id"] for m in server.request("GET", "/v1/models", headers={"authorization": f"Bearer {KEY}"}).json["data"]] == [
        f"{name}{n}" for name in folders for n in (1, 2)]
    cases = golden()

    def ask(job):
        name, case = job
        return text_of(chat(server, model=name, messages=user(case["prompt"]), max_tokens=TOKENS))

    jobs = [(name, case) for case in cases for name in ("chat1", "chat2")]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        for (name, case), got in zip(jobs, pool.map(ask, jobs)):
            assert got == record_of(case)["text"], (name, case["prompt"], got)
    for more in ({"n": 3, "seed": 5, "temperature": 1}, {"guided_regex": "(yes|no){2,5}", "seed": 2, "temperature": 1}):
        one, two = (chat(server, model=f"chat{n}", messages=user("Write."), max_tokens=24, **more).json["choices"] for n in (1, 2))
        assert one == two
    for path in (lambda name: embed(server, TEXTS, model=f"embed{name}").json["data"],
                 lambda name: rerank(server, "a dog", TEXTS, model=f"rerank{name}").json["results"]):
        answers = [path(2) for _ in range(4)]  # one after the other: equals take turns
        assert answers == [path(1)] * 4
    for engine in (1, 2, 4, 5, 7, 8):  # 0, 3 and 6 are the models of one copy
        assert submitted(server, engine) > 0, engine
    planned = re.findall(r'engine="(\d)",part="([a-z ]+)"} (\d+)', server.request("GET", "/metrics?name[]=weft_model_memory_bytes").text)
    kept = {int(engine): int(size) for engine, part, size in planned if part == "keys and values"}
    assert kept.keys() == {0, 1, 2} and min(kept.values()) > 0, planned
    assert {int(engine) for engine, part, _ in planned if part == "weights"} == {0, 1, 3, 4, 6, 7}, planned  # the others read theirs
    assert server.metric(r'weft_model_info{.*engine="8",architecture="\w+",.*,device="cpu"}') == 1
    finished = server.metric(r'weft_finished_total{model_name="chat2"')
    assert finished == server.metric(r'weft_finished_total{model_name="chat1"') >= len(cases)
    assert server.stop() == 0


def test_a_conversation_stays_where_its_beginning_is():
    """The next turn goes to the copy that has the turn before; short ones take turns."""
    server = start(f"m={MODELS / 'weft-demo-chat'},data-parallel-size=2")
    long = [user("Once upon a time, " * 40 + str(i)) for i in range(4)]
    for messages in long:
        assert chat(server, model="m", messages=messages, max_tokens=4).status == 200
    counts = [submitted(server, engine) for engine in (0, 1)]
    assert sum(counts) == 4, counts
    for messages in long * 3:
        cached = chat(server, model="m", messages=messages, max_tokens=4).json["usage"]["prompt_tokens_details"]["cached_tokens"]
        assert cached >= 64, cached
    for i in range(6):
        assert chat(server, model="m", messages=user(str(i)), max_tokens=4).status == 200
    assert all(submitted(server, engine) >= before + 3 for engine, before in enumerate(counts))
    assert server.stop() == 0


def test_copies_on_emulated_devices():
    """A copy on each of two devices, numbered or not: the cpu's answers; streams end before the process does."""
    wants = [answer(on("cpu"), prompt, model="demo", max_tokens=4) for prompt in DEMO_PROMPTS]
    for device in ("simt:2,1", "simt"):
        server = server_on(device, f"tiny={CHAT}", "--data-parallel-size", 2,
                           "--shutdown-timeout", 600)
        table = [line.split() for line in server.output().splitlines() if line.startswith("  ")]
        columns = ["simt:2", "simt:1"] if ":" in device else ["simt:0", "simt:1"]
        assert ["GiB", *columns] in table, table
        rows = [row for row in table if row[:2] == ["tiny", "copy"]]
        for engine, name in enumerate(columns):
            assert server.metric(rf'weft_model_info{{.*engine="{engine}",.*,device="{name}"}}') == 1
        assert [row[2] for row in rows] == ["0", "1"] and rows[0][4] == rows[1][3] == "-", rows
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            got = pool.map(lambda prompt: answer(server, prompt, max_tokens=4), DEMO_PROMPTS * 2)
            assert list(got) == wants * 2
        streams = [stream_of(server, "/v1/chat/completions", model="tiny", stream=True, max_tokens=8, ignore_eos=True)
                   for _ in range(4)]
        wait_for(lambda: submitted(server, 0) + submitted(server, 1) == 12)
        assert submitted(server, 0) > 0 and submitted(server, 1) > 0
        server.process.send_signal(signal.SIGTERM)
        for stream in streams:
            assert stream.read().endswith(b"data: [DONE]\n\n")
        assert ended(server) == 0, server.output()


def test_a_client_that_leaves_frees_its_copy():
    with faulty(f"m={CHAT}", "--device", "simt:0,1", "--data-parallel-size", 2) as (server, faults):
        faults.on("slow")  # neither ends by itself
        streams = [open_stream(server, model="m", ignore_eos=True, max_tokens=4000) for _ in range(2)]
        for stream in streams:
            assert stream.recv(20)
        wait_for(lambda: [running(server, engine) for engine in (0, 1)] == [1, 1])
        streams[0].close()
        wait_for(lambda: sum(running(server, engine) for engine in (0, 1)) == 1)
        assert chat(server, model="m", messages=user("a"), max_tokens=2).status == 200
        streams[1].close()
        wait_for(lambda: [running(server, engine) for engine in (0, 1)] == [0, 0])


def test_fault_of_one_copy():
    """Its requests end with an error; the others' streams are untouched, and new requests get no 5xx, until the last one fails."""
    body = {"model": "m", "messages": user("hello"), "max_tokens": 6, "ignore_eos": True, "temperature": 0}
    engines = range(3)
    with faulty(f"m={CHAT}", "--device", "simt:0,1,2", "--data-parallel-size", 3) as (s, faults):
        want = text_of(chat(s, **body))
        faults.on("hang")  # none ends before the fault
        streams = {}
        pool = concurrent.futures.ThreadPoolExecutor(3)
        for _ in engines:
            before = [submitted(s, engine) for engine in engines]
            stream = pool.submit(lambda: stream_of(s, "/v1/chat/completions", **body, stream=True).read().decode())
            wait_for(lambda: [submitted(s, engine) for engine in engines] != before)
            streams[next(engine for engine in engines if submitted(s, engine) > before[engine])] = stream
        assert sorted(streams) == [0, 1, 2]  # each goes where nothing waits
        faults.on("fault.1")
        faults.off("hang")
        lost = streams[1].result()
        assert "The device" in lost or '"error"' in lost, lost
        wait_for(lambda: s.metric('weft_engine_failed{model_name="m",engine="1"') == 1)
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda _: chat(s, **body), range(4)))
        assert [answer.status for answer in answers] == [200] * 4
        assert {text_of(answer) for answer in answers} == {want}
        for engine in (0, 2):
            kept = [json.loads(event[6:]) for event in streams[engine].result().split("\n\n") if event.startswith("data: {")]
            assert "".join(event["choices"][0]["delta"].get("content", "") for event in kept if event["choices"]) == want
        assert s.metric('weft_engine_failed{model_name="m",engine="0"') == 0
        ready = s.request("GET", "/ready")
        assert ready.status == 200 and ready.json == {"status": "ready", "copies": {"m": ["ready", "failed", "ready"]}}, ready.text
        assert s.request("GET", "/health").json == {"status": "ok"}
        assert "the device failed: a fault that the test has planted (simt:1)" in s.output()
        assert "copy 1 of the model 'm' has failed, other copies continue to serve" in s.output()
        faults.on("fault.0")
        assert 500 in {chat(s, **body).status for _ in range(2)}  # equals take turns
        assert chat(s, **body).status == 200
        assert "copy 0 of the model 'm' has failed, other copies continue to serve" in s.output()
        assert "not served any more" not in s.output()
        faults.on("fault.2")
        assert chat(s, **body).status == 500
        assert ended(s) == 1, s.output()
        assert "the model 'm' has failed and is not served any more" in s.output() and "all models have failed" in s.output()


def refusal(*args):
    done = subprocess.run([WEFT, "serve", *map(str, args), "--port", "0"], capture_output=True, text=True, timeout=600)
    assert done.returncode != 0, done.stderr
    return done.stderr.strip().splitlines()[-1]


def test_wrong_devices_are_one_sentence():
    model = f"m={MODELS / 'weft-demo-chat'}"
    assert refusal(model, "--device", "simt:0", "--data-parallel-size", 2) == (
        "weft: model 'm': --data-parallel-size 2 needs as many GPUs and --device or ,device= names 1: name more, or append ,data-parallel-size=1 to the model argument")
    assert refusal(f"{model},device=simt:9") == "weft: model 'm': device simt:9: " \
        "there is no CUDA device 9: 8 here, counted from 0"
    assert refusal(model, "--device", "simt", "--data-parallel-size", 9) == "weft: model 'm': --data-parallel-size 9 needs as many GPUs: " \
        "lower it to at most 8: there is no CUDA device 8: 8 here, counted from 0"
    more = "serve fewer models, smaller ones or with --dtype int8, or lower --kv-cache-memory, --max-num-batched-tokens, --max-num-seqs " \
        "or --max-model-len, or split"
    assert re.fullmatch(f"weft: the plan needs \\S+ GiB of simt:1 and \\S+ GiB are free: {more} the model over the GPUs: "
                        "--tensor-parallel-size in place of --data-parallel-size",
                        refusal(f"{model},kv-cache-memory=500M,data-parallel-size=2",
                                f"beside={MODELS / 'weft-demo-embed'},device=simt:1", f"b={MODELS / 'weft-demo-chat'},device=simt:1,kv-cache-memory=500M",
                                "--device", "simt:0,1"))
    assert re.fullmatch(f"weft: the plan needs \\S+ GiB and \\S+ GiB are free: {more} a model over several GPUs: --tensor-parallel-size",
                        refusal(f"{model},kv-cache-memory=2G", "--device", "simt"))
    assert re.search("there are .* MiB on simt:1: raise --kv-cache-memory", refusal(
        f"{model},device=simt:1,kv-cache-memory=9K", f"b={MODELS / 'weft-demo-chat'},device=simt:0"))
    assert "'cpu' accepts no numbers" in refusal(model, "--device", "cpu:0")
    assert re.search("cuda.*--device cpu computes without a GPU", refusal(model, "--device", "cuda:1"))


def test_models_are_spread_over_the_devices():
    """What names its device gets it, the others go where most memory is left, but for copies: each has a device."""
    full = [f"{name}={CHAT},device=simt:0" for name in ("pinned", "second", "third")]  # less is left there than beside a copy
    server = server_on("simt:0,1,2", f"big={CHAT}", *full, f"small={MODELS / 'weft-demo-embed'}",
                       f"both={MODELS / 'weft-demo-rerank'},data-parallel-size=3")
    rows = {row[0] + (row[2] if row[1] == "copy" else ""): row[3 if row[1] == "copy" else 1:]
            for line in server.output().splitlines() if line.startswith("  ") and len(row := line.split()) >= 4 and re.search(r" [-0-9.]+$", line)}
    places = {name: [i for i, cell in enumerate(cells) if cell != "-"] for name, cells in rows.items()}
    assert places["pinned"] == [0] and places["big"] in ([1], [2]) and len(places["small"]) == 1, rows
    assert sorted(places[f"both{copy}"] for copy in range(3)) == [[0], [1], [2]], rows
    assert chat(server, model="big", messages=user("a"), max_tokens=2).status == 200
    assert chat(server, model="pinned", messages=user("a"), max_tokens=2).status == 200
    assert embed(server, TEXTS, model="small").status == 200
    for _ in range(3):
        assert rerank(server, "a dog", TEXTS, model="both").status == 200
    assert server.stop() == 0


if __name__ == "__main__":
    harness.main()
