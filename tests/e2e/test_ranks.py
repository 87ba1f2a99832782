# SPDX-License-Identifier: Apache-2.0
"""Models whose weights several ranks share give the recorded answers; ranks and devices that hang, fail or load slowly."""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import tempfile

from harness import MODELS, Server, Skip, WEFT, amount, chat, full, golden, longer, longest, soak, start, text_of, tiny, user
from test_copies import refusal, submitted
from test_golden import TOKENS, record_of
from test_life import CHAT, Faults, wait_for
from test_simt import DEMO_PROMPTS, answer, cached, on, server_on

FAULTY = pathlib.Path(WEFT).resolve().parent / "weft_faulty_cpu"
FAULTY_GPUS = FAULTY.parent / "libweft_faulty.so"


class FaultyServer(Server):
    program = str(FAULTY)


def live(faults, pool, server, model, engines, count=4):
    """Requests to a model of two slots an engine, all submitted before the fault that the caller switches on."""
    faults.on("slow")
    before = sum(submitted(server, engine) for engine in engines)
    jobs = [pool.submit(chat, server, model=model, max_tokens=400, ignore_eos=True) for _ in range(count)]
    wait_for(lambda: sum(submitted(server, engine) for engine in engines) == before + count)
    return jobs


def all_lost(jobs):
    for job in jobs:
        answer = job.result()
        assert (answer.status, answer.error["code"]) == (500, "internal_error"), answer.text


def test_shared_models_answer_as_whole_ones():
    """Thirty requests at once: the three models take turns on the same cores."""
    names = {"one": 1, "two": 2, "four": 4}
    server = start(*(f"{name}={tiny()},tensor-parallel-size={ranks},max-num-seqs=16" for name, ranks in names.items()),
                   "--threads", 4)
    jobs = [(name, case) for case in golden() for name in names]

    def ask(job):
        name, case = job
        return text_of(chat(server, model=name, messages=user(case["prompt"]), max_tokens=TOKENS))

    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        for (name, case), got in zip(jobs, pool.map(ask, jobs)):
            assert got == record_of(case)["text"], (name, case["prompt"], got)
    assert server.stop() == 0


def test_a_shared_model_keeps_grammars_and_prefixes():
    """Masks reach every rank; a prompt whose beginning is cached gives the same answer."""
    server = start(f"two={MODELS / 'weft-demo-chat'},tensor-parallel-size=2", "--threads", 2)
    prompt = user("Once upon a time, " * 12)
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object", "properties": {
        "yes": {"type": "boolean"}}, "required": ["yes"], "additionalProperties": False}}}
    answers = {text_of(chat(server, model="two", messages=prompt, max_tokens=40, response_format=schema, temperature=1,
                            seed=5)).replace(" ", "") for _ in range(2)}
    assert answers in ({'{"yes":true}'}, {'{"yes":false}'}), answers
    first, again = (chat(server, model="two", messages=prompt, max_tokens=20).json for _ in range(2))
    assert first["choices"] == again["choices"]
    assert again["usage"]["prompt_tokens_details"]["cached_tokens"] > 0
    assert server.stop() == 0


@longest
def test_ranks_on_emulated_gpus():
    """A model over two GPUs, whole ones beside it: recorded answers at once, also from the cache; a part of the plan on each GPU."""
    if soak():
        wants = {case["prompt"]: record_of(case)["text"] for case in golden()[:5] if case["prompt"].strip()}
    else:
        wants = {prompt: answer(on("cpu"), prompt, model="demo", max_tokens=4) for prompt in DEMO_PROMPTS[:2]}
    more = f"{amount(MODELS / 'weft-demo-chat', MODELS / 'weft-demo-chat', tiny())},dtype=float32,kv-cache-memory=48M"
    server = server_on("simt:2,0", f"two={more},tensor-parallel-size=2", f"one={more},device=simt:0", f"far={more},device=simt:1",
                       "--max-num-seqs", 8, "--max-num-batched-tokens", 64)
    table = [line.split() for line in server.output().splitlines() if line.startswith("  ")]
    rows = {row[0]: row[1:] for row in table if len(row) == 4}
    assert ["GiB", "simt:2", "simt:0", "simt:1"] in table, table
    assert rows["two"][0] == rows["two"][1] and rows["two"][2] == "-" and rows["one"][::2] == ["-", "-"], rows
    wait_for(lambda: "simt:1" in server.output().split("API key:")[-1])  # the list comes after `ready`
    left = re.findall(r"model 'two': [0-9.]+ GiB of memory are left on (simt:\d)", server.output())
    assert left == ["simt:2", "simt:0"], server.output()  # of each rank
    planned, keys = map(int, re.search(r"planned: (\d+) MiB of \d+ MiB, (\d+) MiB of it for keys", server.output()).groups())
    whole = 1024 * float(re.search(r"  two +generator float32  simt:2,0 +(\S+) GiB", server.output()).group(1))
    assert keys == 24 and abs(2 * planned - whole) < 6, (planned, whole)  # simt:2 has the shared model alone
    assert abs(1024 * float(rows["two"][0]) - planned) < 6, rows  # 0.01 GiB is shown
    for engine, device in enumerate(("simt:2,0", "simt:0", "simt:1")):
        assert server.metric(rf'weft_model_info{{.*engine="{engine}",.*,device="{device}"}}') == 1
    jobs = [(name, prompt) for prompt in wants for name in ("two", "one", "far")]
    for _ in range(2):
        with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
            for (name, prompt), got in zip(jobs, pool.map(lambda job: answer(server, job[1], model=job[0], max_tokens=4), jobs)):
                assert got and wants[prompt].startswith(got), (name, prompt, got)
    assert server.stop() == 0
    eager = "a model is split over GPUs: they load all code at startup"
    assert eager not in server_on("simt:0", f"one={CHAT}", "-v").output()
    half = f"{MODELS / 'weft-demo-chat'},dtype=float32"  # of the first GPU it gets little, of the other one all
    rules = server_on("simt:0,1", f"one={half},device=simt:0,max-num-seqs=2", "-v",
                      f"two={half},tensor-parallel-size=2,kv-share=0.1,max-num-seqs=128").output()
    assert eager in rules.split("simt:0")[0], rules
    assert re.findall(r"keys and values .*; (.*)\)", rules) == ["all that --max-num-seqs can fill", "a share of the free memory"], rules
    both = (f"a={more}", f"b={more}", "--tensor-parallel-size", 2)
    assert "models 'a' and 'b' are both split over simt:1: assign separate GPUs" in refusal(
        *both[:1], f"b={more},device=simt:1\\,2", *both[2:], "--device", "simt:0,1")
    assert "are not supported: omit --data-parallel-size" in refusal(*both, "--device", "simt", "--data-parallel-size", 2)


@longer
def test_preempted_and_cached_answers_on_emulated_gpus():
    """Two and four ranks, blocks for two sequences, three that want more: each text is that of it alone; so is one from cached blocks."""
    more = f"{tiny()},dtype=bfloat16,block-size=16,max-model-len=96,kv-cache-memory={7 * 16 * 512}"
    ranks = {"two": f"two={more},tensor-parallel-size=2,device=simt:0\\,1",
             **({"four": f"four={more},tensor-parallel-size=4,device=simt:2\\,3\\,4\\,5"} if full() else {})}
    server = server_on("simt", *ranks.values())
    prompts = [f"The {word} was very" for word in ("dog", "cat", "bird")]
    long = "The little dog ran to the big tree and saw a red ball. " * 5
    for engine, name in enumerate(ranks):
        def ask(prompt, tokens=amount(32, 40)):
            return chat(server, model=name, messages=user(prompt), max_tokens=tokens, ignore_eos=True)
        alone = [text_of(ask(prompt)) for prompt in prompts]
        preempted = f'weft_preemptions_total{{.*engine="{engine}"'
        assert len(set(alone)) == len(alone) and server.metric(preempted) == 0
        with concurrent.futures.ThreadPoolExecutor(len(prompts)) as pool:
            assert [text_of(answer) for answer in pool.map(ask, prompts)] == alone, name
        assert server.metric(preempted) > 0
        first, again = ask(long, 12), ask(long, 12)
        assert cached(first) == 0 and cached(again) >= 32, (cached(first), cached(again))
        assert text_of(again) == text_of(first), name


def test_a_rank_that_hangs_ends_its_models_alone():
    """Every live request of the shared model gets one error, new ones 503; the model beside it serves on the same cores."""
    if not FAULTY.exists():
        raise Skip(f"no {FAULTY.name} beside the program")
    case = golden()[0]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(8) as pool:
        faults = Faults(folder)
        server = FaultyServer(f"one={tiny()}", f"two={tiny()},tensor-parallel-size=2,max-num-seqs=2", "--threads", 2,
                              env={"WEFT_FAULT_FOLDER": folder, "WEFT_STEP_MS": "10000"})
        try:
            ask = dict(messages=user(case["prompt"]), max_tokens=TOKENS)
            assert text_of(chat(server, model="two", **ask)) == record_of(case)["text"]
            lost = live(faults, pool, server, "two", [1])
            faults.on("hang")
            faults.reached("hang")
            others = [pool.submit(chat, server, model="one", **ask) for _ in range(2)]
            all_lost(lost)
            for job in others:
                assert text_of(job.result()) == record_of(case)["text"]
            assert chat(server, model="two", **ask).status == 503
            assert text_of(chat(server, model="one", **ask)) == record_of(case)["text"]
            wait_for(lambda: "the model 'two' has failed and is not served any more" in server.output(), server.output())
            assert "rank 1 of 2 did not end step" in server.output()
            assert "the model 'one' has failed and is not served any more" not in server.output()
            faults.off("hang")  # the late rank comes back and does no harm
            assert text_of(chat(server, model="one", **ask)) == record_of(case)["text"]
            assert server.stop() == 1  # a model was lost
        finally:
            server.process.kill()


def test_copies_of_a_shared_model_fail_together():
    """Copies with ranks on one CPU: both answer, a rank that hangs ends both, which is told once, and a whole model serves on."""
    if not FAULTY.exists():
        raise Skip(f"no {FAULTY.name} beside the program")
    case = golden()[0]
    ask = dict(messages=user(case["prompt"]), max_tokens=TOKENS)
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(4) as pool:
        faults = Faults(folder)
        server = FaultyServer(f"one={tiny()}", f"two={tiny()},tensor-parallel-size=2,data-parallel-size=2,max-num-seqs=2",
                              "--threads", 2, env={"WEFT_FAULT_FOLDER": folder, "WEFT_STEP_MS": "10000"})
        try:
            for answer in pool.map(lambda _: chat(server, model="two", **ask), range(4)):
                assert text_of(answer) == record_of(case)["text"]
            assert submitted(server, 1) > 0 and submitted(server, 2) > 0
            lost = live(faults, pool, server, "two", [1, 2])
            faults.on("hang")  # in the second copy, while the first waits for its turn
            all_lost(lost)
            assert chat(server, model="two", **ask).status == 503
            assert text_of(chat(server, model="one", **ask)) == record_of(case)["text"]
            assert server.request("GET", "/ready").json == {
                "status": "ready", "models": {"one": "ready", "two": "failed"}, "copies": {"two": ["failed", "failed"]}}
            wait_for(lambda: "the model 'two' has failed and is not served any more" in server.output(), server.output())
            assert server.output().count("the model 'two' has failed and is not served any more") == 1
            assert "other copies continue to serve" not in server.output() and "the model 'one' is not served" not in server.output()
            faults.off("hang")
            assert server.stop() == 1
        finally:
            server.process.kill()


def test_a_rank_on_a_gpu_that_fails_or_hangs_ends_its_model_alone():
    """Every live request of the shared model gets one error, new ones 503; models on other GPUs serve on (emulated)."""
    if not FAULTY.exists() or not FAULTY_GPUS.exists():
        raise Skip(f"no {FAULTY.name} or {FAULTY_GPUS.name} beside the program")
    ask = dict(messages=user("hello"), max_tokens=4)
    model = f"{CHAT},max-num-seqs=2"
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(8) as pool:
        faults = Faults(folder)
        server = FaultyServer(f"fails={model},tensor-parallel-size=2,device=simt:0\\,1", f"one={model},device=simt:4",
                              f"hangs={model},tensor-parallel-size=2,device=simt:2\\,3", "--device-library", FAULTY_GPUS,
                              env={"WEFT_FAULT_FOLDER": folder, "WEFT_STEP_MS": "15000"})
        try:
            want = text_of(chat(server, model="one", **ask))
            for name in "fails", "hangs":
                assert text_of(chat(server, model=name, **ask)) == want
                if name == "fails":
                    lost = live(faults, pool, server, name, [0])
                    faults.on("fault.1")
                else:
                    lost = live(faults, pool, server, name, [2], count=1)
                    faults.on("late.3")  # recorded steps have no collective of their own: one is met with the next prompt
                    lost.append(pool.submit(chat, server, model=name, **ask))
                all_lost(lost)
                faults.off("slow")
                assert chat(server, model=name, **ask).status == 503
                wait_for(lambda: f"the model '{name}' has failed and is not served any more" in server.output(), server.output())
                assert text_of(chat(server, model="one", **ask)) == want
            assert re.search(r"the device failed: a fault that the test has planted \(simt:0,1\)", server.output()), server.output()
            assert re.search(r"rank 1 of 2 \(simt:3\) did not end step.* \(simt:2,3\)", server.output()), server.output()
            assert "the model 'one' has failed and is not served any more" not in server.output()
            faults.off("late.3")  # the late rank comes back and does no harm
            assert text_of(chat(server, model="one", **ask)) == want
            assert server.stop() == 1
        finally:
            server.process.kill()


def test_a_command_ends_where_a_rank_hangs():
    """One sentence and 1; nothing waits for the rank."""
    if not FAULTY.exists():
        raise Skip(f"no {FAULTY.name} beside the program")
    with tempfile.TemporaryDirectory() as folder:
        Faults(folder).on("hang")
        book = pathlib.Path(folder) / "book.txt"
        book.write_text("Once upon a time there was a little dog.")
        for command in ("generate", tiny(), "--prompt", "Once"), ("chat", tiny()), ("perplexity", tiny(), book):
            done = subprocess.run([FAULTY, *command, "--tensor-parallel-size", "2", "--threads", "2"], input=b"Once\n",
                                  env={**os.environ, "WEFT_FAULT_FOLDER": folder, "WEFT_STEP_MS": "5000"},
                                  capture_output=True, timeout=600)
            assert done.returncode == 1, done
            assert b"rank 1 of 2 did not end step" in done.stderr, done.stderr
            assert done.stderr.count(b"weft: ") == 1, done.stderr


def test_a_command_ends_where_a_device_hangs():
    """While it starts, or once nothing can be written to stdout: the command says what failed first."""
    if not FAULTY_GPUS.exists() or not os.path.exists("/dev/full"):
        raise Skip(f"no {FAULTY_GPUS.name} beside the program, or no /dev/full")
    for fault, stdout, says in (("stuck", os.devnull, "a fault that the test has planted"),
                                ("full", "/dev/full", "writing to stdout failed")):
        with tempfile.TemporaryDirectory() as folder, open(stdout, "wb") as out:
            Faults(folder).on(fault)
            done = subprocess.run([WEFT, "generate", MODELS / "weft-demo-chat", "--prompt", "Once", "--kv-cache-memory", "16M",
                                   "--device", "simt", "--device-library", FAULTY_GPUS], stdout=out, stderr=subprocess.PIPE,
                                  text=True, env={**os.environ, "WEFT_FAULT_FOLDER": folder}, timeout=120, check=False)
            assert (pathlib.Path(folder) / "stuck.reached").exists(), done
        assert (done.returncode, done.stderr.count("weft: ")) == (1, 1) and says in done.stderr, done


def test_a_start_that_hangs_is_given_up():
    """In a weight, where ranks are joined, in the first collective: one sentence that names the GPU where it is one, and 1."""
    if not FAULTY.exists() or not FAULTY_GPUS.exists():
        raise Skip(f"no {FAULTY.name} or {FAULTY_GPUS.name} beside the program")
    split = (f"two={CHAT},max-num-seqs=2,max-model-len=64", "--tensor-parallel-size", "2",
             "--device", "simt:2,3")
    alone = (split[0], "--device", "simt:3")
    late = r"model 'two' on simt:2,3: rank 1 of 2 \(simt:3\) did not end the warm-up steps within 15.0 s"
    failed = r"model 'two' on simt:2,3: rank 0 of 2 \(simt:2\): the warm-up steps: a fault that the test has planted"
    stands, joins = (f"model 'two': on {gpus} nothing has been loaded for 20.0 s" for gpus in ("simt:3", "simt:2,3"))

    def given_up(case):
        faults, models, wanted, start_ms = case
        with tempfile.TemporaryDirectory() as folder:
            for fault in faults.split():
                Faults(folder).on(fault)
            env = {**os.environ, "WEFT_FAULT_FOLDER": folder, "WEFT_START_MS": str(start_ms)}
            done = subprocess.run([FAULTY, "serve", *models, "--port", "0", "--device-library", FAULTY_GPUS], env=env,
                                  capture_output=True, text=True, timeout=300, check=False)
        assert done.returncode == 1 and re.search(f"^weft: {wanted}", done.stderr, re.M), (faults, done)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:  # they wait most of the time
        list(pool.map(given_up, (("load.3", split, stands, 4000), ("load.3", alone, stands, 4000), ("join", split, joins, 4000),
                                 ("late.3", split, late, 15000), ("fault.2 late.3", split, failed, 15000))))


def test_a_slow_load_is_not_given_up():
    """It takes longer than a load may be without a sign, and is never without one for so long."""
    if not FAULTY.exists() or not FAULTY_GPUS.exists():
        raise Skip(f"no {FAULTY.name} or {FAULTY_GPUS.name} beside the program")
    with tempfile.TemporaryDirectory() as folder:
        Faults(folder).on("heavy")
        server = FaultyServer(f"a={MODELS / 'weft-demo-embed'},device=simt:0", "--device-library", FAULTY_GPUS,
                              env={"WEFT_FAULT_FOLDER": folder, "WEFT_START_MS": "2000"})
        try:  # five times two seconds; a line comes every two
            assert server.output().count("loading a: ") > 6, server.output()
            assert server.stop() == 0
        finally:
            server.process.kill()


def test_what_is_on_a_failed_gpu_fails_with_it():
    """A model over two GPUs and whole ones beside it: the failed GPU takes all that is on it; where nobody knows which, both do."""
    if not FAULTY.exists() or not FAULTY_GPUS.exists():
        raise Skip(f"no {FAULTY.name} or {FAULTY_GPUS.name} beside the program")
    model = f"{CHAT},max-num-seqs=2,max-model-len=64"
    models = (f"two={model},tensor-parallel-size=2,device=simt:0\\,1", *(f"{name}={model},device=simt:{gpu}" for gpu, name in enumerate("abc")))
    for fault, asked, failed in ("late.1", "two", {"two", "b"}), ("fault.1", "b", {"b", "two"}), ("fault.1", "two", {"two", "a", "b"}):
        with tempfile.TemporaryDirectory() as folder:
            faults = Faults(folder)
            server = FaultyServer(*models, "--device-library", FAULTY_GPUS, env={"WEFT_FAULT_FOLDER": folder, "WEFT_STEP_MS": "15000"})
            try:
                ask = dict(messages=user("Once"), max_tokens=2)
                faults.on(fault)
                assert chat(server, model=asked, **ask).status == 500
                wait_for(lambda: server.output().count("is not served any more") == len(failed), server.output())
                for name in ("two", "a", "b", "c"):
                    assert chat(server, model=name, **ask).status == (503 if name in failed else 200), (fault, name, server.output())
                assert server.request("GET", "/ready").json["models"] == {
                    name: "failed" if name in failed else "ready" for name in ("two", "a", "b", "c")}
                assert server.output().count("the device failed: ") == 1, server.output()
                faults.off(fault)
                assert server.stop() == 1
            finally:
                server.process.kill()
