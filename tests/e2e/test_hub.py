# SPDX-License-Identifier: Apache-2.0
"""Models by name: found in the hub's cache or downloaded from a stand-in hub, complete or absent, whatever fails."""

import contextlib
import hashlib
import importlib.util
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time

import harness
from harness import MODELS, WEFT, Server, Skip
from hub import Hub, etag_of

MEGABYTE = 1 << 20
TOKEN = "hf_stand_in_token"


def files_of(folder):
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def embedder(**more):
    """The demo embedder with files that weft does not read."""
    return {**files_of(MODELS / "weft-demo-embed"), "README.md": b"x", ".gitattributes": b"y", "pytorch_model.bin": b"z" * 20_000,
            "onnx/model.onnx": b"o" * 20_000, **more}


UNREAD = {"README.md", ".gitattributes", "pytorch_model.bin", "onnx/model.onnx"}


class Place:
    """A hub, an empty cache and a working directory."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.cache = self.folder / "home/hub"
        self.hub = Hub()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.hub.__exit__()
        shutil.rmtree(self.folder)

    def env(self, **more):
        env = {k: v for k, v in os.environ.items() if not k.upper().startswith(("HF_", "HUGGING")) and "proxy" not in k.lower()}
        return {**env, "HF_HOME": str(self.folder / "home"), "HF_ENDPOINT": self.hub.base, **more}

    def start(self, *args, env=None, **more):
        return subprocess.Popen([WEFT, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.PIPE,
                                cwd=self.folder, env=self.env(**(env or {})), text=True, **more)

    def weft(self, *args, feed="", env=None, **more):
        process = self.start(*args, env=env, **more)
        out, err = process.communicate(feed, timeout=120)
        return subprocess.CompletedProcess(args, process.returncode, out, err)

    def works(self, *args, **more):
        done = self.weft(*args, **more)
        assert done.returncode == 0, done.stderr
        return done

    def fails(self, says, *args, code=1, **more):
        done = self.weft(*args, **more)
        assert done.returncode == code and says in done.stderr, (done.returncode, done.stderr)
        assert done.stderr.count("\n") <= 2, done.stderr
        return done

    def repo(self, name):
        return self.cache / f"models--{name.replace('/', '--')}"

    def is_absent(self, name):
        snapshots = list((self.repo(name) / "snapshots").rglob("*.safetensors"))
        return not snapshots and not list((self.repo(name) / "refs").rglob("*"))


def test_a_name_is_fetched_once_and_runs():
    with Place() as place:
        repo = place.hub.add("org/embed", embedder())
        first = place.works("embed", "org/embed", "--device", "cpu", feed="hello\n")
        assert f"fetching org/embed at commit {repo.commit} (main): " in first.stderr, first.stderr
        assert set(place.hub.fetched()) == set(repo.files) - UNREAD
        folder = place.repo("org/embed")
        assert (folder / "refs/main").read_text() == repo.commit
        for name in set(repo.files) - UNREAD:
            link = folder / "snapshots" / repo.commit / name
            assert link.is_symlink() and link.resolve() == (folder / "blobs" / etag_of(name, repo.files[name])).resolve(), name
            assert link.read_bytes() == repo.files[name], name
        assert not list((folder / "blobs").glob("*.weft.*")) and not list(folder.glob(".weft-*"))
        for env in {}, {"HF_HUB_OFFLINE": "1"}:
            count = len(place.hub.requests)
            again = place.works("embed", "org/embed@main", "--device", "cpu", feed="hello\n", env=env)
            assert again.stdout == first.stdout and len(place.hub.requests) == count, again.stderr
        with_options = place.works("embed", "x=org/embed,dtype=bfloat16", "--device", "cpu", feed="hello\n")
        assert with_options.stdout.startswith("[")
        assert place.works("tokenize", "org/embed", feed="hello\n").stdout.startswith("[")


def test_every_command_takes_a_name():
    with Place() as place:
        place.hub.add("org/chat", files_of(MODELS / "weft-demo-chat"))
        assert place.works("inspect", "org/chat", "--device", "cpu").stdout.startswith("org/chat: ")
        ask = json.dumps({"messages": [{"role": "user", "content": "hello"}]})
        assert "hello" in place.works("render", "org/chat", feed=ask).stdout
        place.works("generate", "org/chat", "--prompt", "hello", "--max-tokens", "2", "--device", "cpu")
        text = place.folder / "text"
        text.write_text("hello hello hello\n")
        place.works("perplexity", "org/chat", text, "--device", "cpu")
        place.works("chat", "org/chat", "--max-tokens", "2", "--device", "cpu", feed="hello\n")
        ids = place.works("tokenize", "org/chat", feed="hello").stdout
        assert place.works("detokenize", "org/chat", feed=ids).stdout == "hello"


def test_a_server_serves_a_name():
    with Place() as place:
        repo = place.hub.add("org/embed", embedder())
        server = Server("org/embed", "--device", "cpu", "--admin-key", "admin", env=place.env(HF_HUB_OFFLINE="", HF_HUB_CACHE=""))

        def load(name):
            return server.post("/v1/models/load", {"model": name}, authorization="Bearer admin")
        try:
            listed = server.request("GET", "/v1/models", headers={"authorization": f"Bearer {harness.KEY}"}).json
            assert [m["id"] for m in listed["data"]] == ["org/embed"]
            assert server.post("/v1/embeddings", {"model": "org/embed", "input": "hello"}).status == 200
            assert repo.commit in server.output()
            place.hub.add("org/big", big())
            place.hub.sizes["model.safetensors"] = 1 << 49
            answer = harness.expect(load("org/big"), 507, "insufficient_storage")
            assert "org/big needs " in answer.error["message"] and "GB are free in" in answer.error["message"], answer.text
            place.hub.sizes.clear()
            place.hub.token, place.hub.gated = TOKEN, True
            answer = harness.expect(load("org/big"), 400, "unsupported_value")
            assert "org/big is gated: accept its terms at" in answer.error["message"], answer.text
            place.hub.token, place.hub.faults["/revision/"] = None, [(429, {"Retry_After": "3600"})]
            answer = harness.expect(load("org/big"), 503, "unavailable")
            assert "limits the number of requests: wait 3600 s" in answer.error["message"], answer.text
            # a stop does not wait for a download
            place.hub.pause, answers = True, []
            thread = threading.Thread(target=lambda: answers.append(load("org/big")))
            thread.start()
            assert place.hub.paused.wait(60)
            begun = time.monotonic()
        finally:
            assert server.stop() == 0
        thread.join()
        assert time.monotonic() - begun < 20
        answer = harness.expect(answers[0], 503)
        assert "the download of org/big was stopped" in answer.error["message"], answer.text


def test_refusals_say_what_to_do():
    with Place() as place:
        hub = place.hub
        hub.add("org/embed", embedder())
        place.fails("there is no folder org/none here and no public model of this name on http://127", "embed", "org/none")
        place.fails("org/embed has no revision 'dev': see ", "pull", "org/embed@dev")
        hub.token = TOKEN
        place.fails("no public model of this name", "pull", "org/embed")
        hub.gated = True
        place.fails("org/embed is gated: accept its terms at http://", "pull", "org/embed")
        place.fails("(the token in use has no access)", "pull", "org/embed", env={"HF_TOKEN": "hf_other"})
        hub.token, hub.gated = None, False
        for code, says in ((401, "does not accept the token of HF_TOKEN"), (403, "may not be read with this token: request access at"),
                           (429, "limits the number of requests: wait 3600 s")):
            hub.faults["/revision/"] = [(code, {"Retry_After": "3600"})]
            place.fails(says, "pull", "org/embed", env={"HF_TOKEN": TOKEN})
        hub.faults["/revision/"] = [(500, {})] * 9
        place.fails("answered 500 for org/embed: try again later", "pull", "org/embed")
        hub.faults.clear()
        place.fails("is not complete in", "pull", "org/embed", env={"HF_HUB_OFFLINE": "1"})
        place.fails("HTTPS_PROXY names a proxy, HF_ENDPOINT another hub", "pull", "org/embed", env={"HF_ENDPOINT": "http://127.0.0.1:1"})
        place.fails("HF_ENDPOINT must be the http or https address", "pull", "org/embed", code=2,
                    env={"HF_ENDPOINT": "file:///etc"})
        place.fails("is not ORG/NAME", "pull", "embed", code=2)
        place.fails("of the Hugging Face hub, which has the form ORG/NAME", "embed", "gpt2")
        hub.sizes["config.json"] = 1 << 40
        place.fails("config.json has 1099512 MB, and at most 134 MB are read", "pull", "org/embed")
        hub.sizes.clear()
        assert place.is_absent("org/embed")
        (place.folder / "org").mkdir()
        place.fails("there is no folder org/embed (No such file or directory): give the path", "embed", "org/embed")


def test_files_of_torch_are_fetched_if_there_are_no_safetensors():
    with Place() as place:
        rest = {k: v for k, v in files_of(MODELS / "weft-demo-embed").items() if "safetensors" not in k}
        index = {"weight_map": {"a": "pytorch_model-00001-of-00002.bin", "b": "pytorch_model-00002-of-00002.bin"}}
        shards = {file: file.encode() * 1000 for file in index["weight_map"].values()}
        one = {**rest, "pytorch_model.bin": b"x" * 20_000}
        several = {**rest, "pytorch_model.bin.index.json": json.dumps(index).encode(), **shards}
        for name, files in ("org/one", one), ("org/several", several):
            repo = place.hub.add(name, {**files, "training_args.bin": b"x", "README.md": b"x"})
            place.hub.requests.clear()
            folder = pathlib.Path(place.works("pull", name).stdout.strip())
            assert set(place.hub.fetched()) == set(files), place.hub.fetched()
            assert all((folder / file).read_bytes() == repo.files[file] for file in files)
            assert "pytorch" in place.works("list").stdout
            count = len(place.hub.requests)
            place.fails("pytorch_model", "embed", name, "--device", "cpu", feed="hello\n")  # the cache is complete, the files are not weights
            assert len(place.hub.requests) == count
        place.hub.add("org/both", {**embedder(), **several})
        place.hub.requests.clear()
        place.works("pull", "org/both")
        assert not [f for f in place.hub.fetched() if "pytorch" in f], place.hub.fetched()


def test_other_tokenizer_files_are_fetched_if_there_is_no_tokenizer_json():
    with Place() as place:
        bare = {k: v for k, v in files_of(MODELS / "weft-demo-chat").items() if k != "tokenizer.json"}
        for name, more in ("merges", {"vocab.json": b'{"a": 0}', "merges.txt": b"#version: 0.2\n"}), ("spm", {"tokenizer.model": b"x"}):
            files = {**bare, **more}
            place.hub.add(f"org/{name}", {**files, "merges.txt.old": b"x"})
            place.hub.requests.clear()
            place.works("pull", f"org/{name}")
            assert set(place.hub.fetched()) == set(files), place.hub.fetched()


def test_an_unsupported_model_is_refused_before_its_weights_are_fetched():
    with Place() as place:
        config = json.loads((MODELS / "weft-demo-chat/config.json").read_text())
        chat = files_of(MODELS / "weft-demo-chat")
        other = {**chat, "config.json": json.dumps({**config, "architectures": ["WhisperModel"], "model_type": "whisper"}).encode()}
        place.hub.add("org/whisper", other)
        place.fails("weft: org/whisper: the architecture WhisperModel is not served", "pull", "org/whisper")
        assert not [f for f in place.hub.fetched() if f in ("model.safetensors", "tokenizer.json")]
        place.hub.add("org/pth", {**{k: v for k, v in chat.items() if "safetensors" not in k}, "consolidated.00.pth": b"x" * 20_000})
        place.fails("has its weights only in files such as consolidated.00.pth", "pull", "org/pth")
        place.hub.add("org/lora", {"adapter_config.json": b"{}", "adapter_model.safetensors": b"x"})
        place.hub.add("org/merged", {**chat, "adapter_config.json": b"{}", "adapter_model.safetensors": b"x"})
        for name in "org/lora", "org/merged":
            place.fails(f"{name} is an adapter, not a model (adapter_config.json), and weft serves no adapters", "pull", name)
        place.hub.add("org/words", {k: v for k, v in chat.items() if k != "tokenizer.json"})
        place.fails("has no tokenizer.json", "pull", "org/words")
        place.hub.add("org/data", {"README.md": b"x"})
        place.fails("is not a model that weft reads", "pull", "org/data")
        for name in "whisper", "pth", "lora", "words", "data":
            assert place.is_absent(f"org/{name}"), name


def big(size=33 * MEGABYTE + 12345):
    """A model whose weights have several segments; only its download is tested."""
    seed = hashlib.sha256(b"weights").digest()
    return {**files_of(MODELS / "weft-demo-chat"), "model.safetensors": (seed * (size // 32 + 1))[:size]}


def test_passing_faults_are_survived():
    with Place() as place:
        hub = place.hub
        repo = hub.add("org/big", big())
        hub.faults = {"/revision/": [(503, {}), (429, {"Retry_After": "1"})], "/resolve/": [None, (502, {})],
                      "/cdn/": ["cut", "cut", (500, {}), None, "cut", (403, {})]}
        done = place.works("pull", "org/big")
        weights = pathlib.Path(done.stdout.strip()) / "model.safetensors"
        assert weights.read_bytes() == repo.files["model.safetensors"]
        size = len(repo.files["model.safetensors"])
        assert size <= hub.sent < size + 2 * MEGABYTE, hub.sent  # no byte that arrived is fetched again
        segments = {r.range for r in hub.requests if r.role == "cdn"}
        assert len(segments) >= 3, segments


def test_a_signed_address_that_expires_for_all_connections():
    with Place() as place:
        repo = place.hub.add("org/big", big())
        both = threading.Barrier(2, timeout=30)  # the first segment comes alone, then two at once

        def expired():
            both.wait()
            return 403, {}
        place.hub.faults = {etag_of("model.safetensors", repo.files["model.safetensors"]): [None, expired, expired]}
        done = place.works("pull", "org/big")
        assert (pathlib.Path(done.stdout.strip()) / "model.safetensors").read_bytes() == repo.files["model.safetensors"]


@harness.full_only
def test_a_server_that_ignores_ranges():
    with Place() as place:
        place.hub.no_ranges = True
        repo = place.hub.add("org/big", big())
        place.hub.faults = {"/cdn/": ["cut"]}
        done = place.works("pull", "org/big")
        assert (pathlib.Path(done.stdout.strip()) / "model.safetensors").read_bytes() == repo.files["model.safetensors"]


def test_wrong_contents_are_never_there():
    for name in "model.safetensors", "tokenizer_config.json":
        with Place() as place:
            hub = place.hub
            repo = hub.add("org/chat", files_of(MODELS / "weft-demo-chat"))
            path = "/cdn/" if name == "model.safetensors" else name
            hub.faults = {path: ["wrong"] * 9}
            place.fails("but the hub names", "pull", "org/chat")
            assert place.is_absent("org/chat")
            assert not (place.repo("org/chat") / "blobs" / etag_of(name, repo.files[name])).exists()
            hub.faults.clear()
            place.works("pull", "org/chat")


def test_a_killed_download_is_continued():
    with Place() as place:
        hub = place.hub
        repo = hub.add("org/big", big())
        hub.slow = 0.05
        process = place.start("pull", "org/big")
        notes = place.repo("org/big") / "blobs"
        while not any(int(note.read_text() or 0) >= 16 * MEGABYTE for note in notes.glob("*.weft.prefix")):
            time.sleep(0.01)
        process.kill()
        process.communicate()
        assert place.is_absent("org/big")
        time.sleep(0.5)  # until the hub has seen that its connections are closed
        hub.slow, hub.sent = 0, 0
        done = place.works("pull", "org/big")
        assert (pathlib.Path(done.stdout.strip()) / "model.safetensors").read_bytes() == repo.files["model.safetensors"]
        assert hub.sent <= len(repo.files["model.safetensors"]) - 16 * MEGABYTE, hub.sent


@harness.full_only
def test_wrong_first_bytes_of_an_earlier_process():
    with Place() as place:
        repo = place.hub.add("org/big", big())
        blobs = place.repo("org/big") / "blobs"
        blobs.mkdir(parents=True)
        etag = etag_of("model.safetensors", repo.files["model.safetensors"])
        (blobs / f"{etag}.weft.incomplete").write_bytes(bytes(20 * MEGABYTE))
        (blobs / f"{etag}.weft.prefix").write_text(f"{16 * MEGABYTE}\n")
        done = place.works("pull", "org/big")
        assert (pathlib.Path(done.stdout.strip()) / "model.safetensors").read_bytes() == repo.files["model.safetensors"]


def test_a_full_disk():
    with Place() as place:
        hub = place.hub
        hub.add("org/big", big())
        hub.sizes["model.safetensors"] = 1 << 49
        place.fails("GB are free in", "pull", "org/big")
        assert not [r for r in hub.requests if r.role == "cdn"]
        hub.sizes.clear()

        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (20 * MEGABYTE, 20 * MEGABYTE))
        place.fails("free space, and the next start continues the download", "pull", "org/big", preexec_fn=limit)
        assert place.is_absent("org/big")
        place.works("pull", "org/big")


def test_what_a_listing_and_a_cache_may_not_do():
    """Sizes whose sum would overflow are refused; a link in a snapshot is not followed when a model is removed."""
    with Place() as place:
        place.hub.add("org/big", big())
        place.hub.sizes["model.safetensors"] = (1 << 63) - 1
        place.fails("org/big", "pull", "org/big")
        place.hub.sizes.clear()
        place.hub.add("org/chat", files_of(MODELS / "weft-demo-chat"))
        snapshot = pathlib.Path(place.works("pull", "org/chat").stdout.strip())
        outside = place.folder / "outside"
        outside.mkdir()
        (outside / "kept").write_text("x")
        (snapshot / "extra").symlink_to(outside)
        place.works("rm", "org/chat@main")
        assert (outside / "kept").read_text() == "x"


def test_the_token_goes_to_the_hub_only():
    with Place() as place:
        hub = place.hub
        hub.token = TOKEN
        hub.add("org/chat", files_of(MODELS / "weft-demo-chat"))
        done = place.works("pull", "org/chat", "--log-level", "debug", env={"HF_TOKEN": TOKEN})
        assert {r.token for r in hub.requests if r.role == "hub"} == {f"Bearer {TOKEN}"}
        assert {r.token for r in hub.requests if r.role == "cdn"} == {None}
        assert TOKEN not in done.stdout + done.stderr
        for process in [done]:
            assert TOKEN not in str(process.args)
        shutil.rmtree(place.cache)
        (place.folder / "home/token").write_text(TOKEN + "\n")
        place.works("pull", "org/chat")
        place.works("rm", "org/chat")
        # a login in HF_ENDPOINT goes to the hub only, too; the token has precedence
        login = hub.base.replace("://", "://me:pa%40ss@")
        (place.folder / "home/token").unlink()
        hub.token, count = None, len(hub.requests)
        done = place.works("pull", "org/chat", "--log-level", "debug", env={"HF_ENDPOINT": login + "//"})
        assert {(r.role, r.token) for r in hub.requests[count:]} == {("hub", "Basic bWU6cGFAc3M="), ("cdn", None)}
        away = login.split("127.0.0.1")[0] + "127.0.0.1:1"
        for name, env in ("org/none", login), ("org/chat@dev", login), ("org/none", away), ("org/none", login + "?"):
            failed = place.weft("pull", name, env={"HF_ENDPOINT": env})
            assert failed.returncode and "ss@" not in failed.stderr and "me:" not in failed.stderr, failed.stderr
        (place.folder / "home/token").write_text("two\nlines\n")
        failed = place.fails("has characters that no token has", "pull", "org/chat", code=2)
        assert "two" not in failed.stderr


def test_two_processes_download_once():
    with Place() as place:
        hub = place.hub
        repo = hub.add("org/big", big())
        hub.slow = 1  # until the second process waits
        first = place.start("pull", "org/big")
        while hub.sent < MEGABYTE:
            time.sleep(0.01)
        second = place.start("pull", "org/big")
        lines = iter(second.stderr.readline, "")
        assert any("waiting for another process that downloads org/big" in line for line in lines)
        hub.slow = 0
        path, _ = second.communicate(timeout=60)
        out, err = first.communicate(timeout=60)
        assert first.returncode == 0 and second.returncode == 0 and out == path, err
        assert hub.sent < sum(map(len, repo.files.values())) + MEGABYTE
        (place.cache / ".locks").exists()


def test_a_newer_revision_is_fetched_by_pull_alone():
    with Place() as place:
        old = place.hub.add("org/chat", files_of(MODELS / "weft-demo-chat"))
        place.works("pull", "org/chat")
        digits = old.commit[:7]
        assert f"org/chat at commit {old.commit} ({digits})" in place.works("pull", f"org/chat@{digits}").stderr
        assert [p.name for p in (place.repo("org/chat") / "refs").iterdir()] == ["main"]
        new = place.hub.add("org/chat", {**old.files, "generation_config.json": b'{"temperature": 0.5}'})
        place.works("tokenize", "org/chat", feed="x")
        assert (place.repo("org/chat") / "refs/main").read_text() == old.commit
        sent = place.hub.sent
        assert new.commit in place.works("pull", "org/chat").stdout
        assert place.hub.sent - sent < 1000  # contents that are there are not fetched again
        assert (place.repo("org/chat") / "refs/main").read_text() == new.commit
        assert old.commit in place.works("inspect", f"org/chat@{old.commit}", "--log-level", "info").stderr
        # the beginning of a commit, as list shows it
        shown = next(l.split()[1] for l in place.works("list", "--device", "cpu").stdout.splitlines() if old.commit[:12] in l)
        count = len(place.hub.requests)
        for digits in shown, old.commit[:7]:
            assert old.commit in place.works("inspect", f"org/chat@{digits}", "--log-level", "info").stderr
        assert len(place.hub.requests) == count
        place.fails("org/chat has no revision", "tokenize", f"org/chat@{old.commit[:6]}")
        twin = place.repo("org/chat") / "snapshots" / (old.commit[:39] + ("0" if old.commit[39] != "0" else "1"))
        twin.mkdir()
        place.fails(f"org/chat has several cached commits that begin with {shown}: give more digits", "rm", f"org/chat@{shown}", code=2)
        twin.rmdir()
        place.hub.repos.clear()
        place.fails("no public model of this name", "pull", "org/chat")
        with contextlib.closing(place.hub.servers[0].socket):
            pass
        assert new.commit in place.works("pull", "org/chat").stdout  # the cache, if the hub is away


def test_damaged_contents_are_fetched_again():
    with Place() as place:
        repo = place.hub.add("org/embed", embedder())
        snapshot = pathlib.Path(place.works("pull", "org/embed").stdout.strip())
        first = place.works("embed", "org/embed", "--device", "cpu", feed="hello\n").stdout

        def damage(name, content):
            blob = (snapshot / name).resolve()
            blob.unlink()  # it may be mapped
            blob.write_bytes(content)
        for name in "model.safetensors", "tokenizer_config.json":
            good = repo.files[name]
            damage(name, good[:-1])  # noticed by its size at each use
            place.fails("is not complete in", "embed", "org/embed", env={"HF_HUB_OFFLINE": "1"})
            assert "no: it is not complete" in place.works("list").stdout
            assert place.works("embed", "org/embed", "--device", "cpu", feed="hello\n").stdout == first
            damage(name, bytes([good[0] ^ 1]) + good[1:])  # and by its digest
            place.hub.requests.clear()
            done = place.works("pull", "org/embed")
            assert f"org/embed: {name} in the cache is damaged and is fetched again" in done.stderr, done.stderr
            assert place.hub.fetched() == [name]
            assert (snapshot / name).read_bytes() == good
            assert f"org/embed at commit {repo.commit} (main)" in done.stderr


@harness.full_only
def test_a_listing_without_an_end():
    with Place() as place:
        place.hub.add("org/embed", embedder())
        place.hub.endless = True
        place.fails("org/embed has more than 1000 pages of files", "pull", "org/embed")
        assert place.is_absent("org/embed")


def gguf_files(*names):
    return {name: b"GGUF" + name.encode() * 10 for name in names}


def test_the_quant_of_a_gguf_repository():
    with Place() as place:
        add = place.hub.add
        add("org/one-GGUF", {**gguf_files("one-Q8_0.gguf", "mmproj-one-F16.gguf"), "config.json": b"{}"})
        add("org/many-GGUF", gguf_files("m-Q4_K_M.gguf", "m-UD-Q4_K_M.gguf", "m-Q8_0.gguf", "Q6_K/m-Q6_K-00001-of-00002.gguf",
                                        "Q6_K/m-Q6_K-00002-of-00002.gguf", "m.BF16.gguf"))
        add("org/list-GGUF", gguf_files("m-Q5_K_M.gguf", "m-Q8_0.gguf"))
        for name, file in (("org/one-GGUF", "one-Q8_0.gguf"), ("org/many-GGUF", "m-Q4_K_M.gguf"), ("org/many-GGUF:q8_0", "m-Q8_0.gguf"),
                           ("org/many-GGUF:UD-Q4_K_M", "m-UD-Q4_K_M.gguf"), ("org/many-GGUF:BF16", "m.BF16.gguf"),
                           ("org/many-GGUF:Q6_K@main", "Q6_K/m-Q6_K-00001-of-00002.gguf")):
            place.hub.requests.clear()
            path = place.works("pull", name).stdout.strip()
            assert path.endswith("/" + file), (name, path)
            assert all(f.startswith(file[:-22] if "-of-" in file else file) for f in place.hub.fetched()), place.hub.fetched()
        assert (pathlib.Path(path).parent / "m-Q6_K-00002-of-00002.gguf").exists()
        place.fails("org/list-GGUF has no file for Q4_K_M: give the end of one of these as org/list-GGUF:QUANT: m-Q5_K_M, m-Q8_0",
                    "pull", "org/list-GGUF")
        place.fails("has no file for Q2_K", "pull", "org/many-GGUF:Q2_K")
        count = len([r for r in place.hub.requests if r.role == "cdn"])
        add("org/unread-GGUF", gguf_files("m-IQ2_XS.gguf", "m-IQ3_S_L-00001-of-00001.gguf", "m.tq1_0.gguf"))
        for quant, type_ in ("IQ2_XS", "IQ2_XS"), ("IQ3_S_L", "IQ3_S"), ("TQ1_0", "TQ1_0"):
            place.fails(f" has tensors in {type_}, which weft does not read: choose another file", "pull", f"org/unread-GGUF:{quant}")
        assert count == len([r for r in place.hub.requests if r.role == "cdn"])
        place.hub.add("org/chat", files_of(MODELS / "weft-demo-chat"))
        place.fails("has no GGUF file: give its name without :Q8_0", "pull", "org/chat:Q8_0")


def test_list_and_rm():
    with Place() as place:
        assert "no models in" in place.works("list").stderr
        place.fails("is not in", "rm", "org/none")
        repo = place.hub.add("org/embed", embedder())
        place.hub.add("org/q-GGUF", gguf_files("q-Q4_K_M.gguf", "q-Q8_0.gguf"))
        for name in "org/embed", "org/q-GGUF:Q4_K_M", "org/q-GGUF:Q8_0":
            place.works("pull", name)
        listed = place.works("list", "--device", "cpu").stdout.splitlines()
        assert listed[0].split() == ["NAME", "REVISION", "SIZE", "KIND", "FORMAT", "MEMORY", "RUNS"]
        assert listed[1].split()[:2] == ["org/embed", "main"] and "embedder" in listed[1] and listed[1].endswith("yes"), listed
        assert [l.split()[0] for l in listed[2:]] == ["org/q-GGUF:Q4_K_M", "org/q-GGUF:Q8_0"] and "  no: " in listed[2], listed
        place.works("rm", "org/q-GGUF:Q8_0")
        names = [p.name for p in place.repo("org/q-GGUF").rglob("*") if p.suffix == ".gguf"]
        assert names == ["q-Q4_K_M.gguf"] and len(list((place.repo("org/q-GGUF") / "blobs").iterdir())) == 1
        newer = place.hub.add("org/embed", embedder(**{"tokenizer_config.json": b"{}"}))
        place.works("pull", "org/embed")
        place.works("rm", f"org/embed@{repo.commit}")
        assert sorted(p.name for p in (place.repo("org/embed") / "snapshots").iterdir()) == [newer.commit]
        place.works("embed", "org/embed", "--device", "cpu", feed="x\n", env={"HF_HUB_OFFLINE": "1"})
        (place.repo("org/embed") / "snapshots" / newer.commit / "model.safetensors").resolve().unlink()
        assert "no: it is not complete, 'weft pull' completes it" in place.works("list").stdout
        place.works("pull", "org/embed")
        outside = place.folder / "outside"
        outside.write_text("stays")
        (place.repo("org/embed") / "snapshots" / newer.commit / "link").symlink_to(outside)
        place.works("rm", "org/embed")
        assert not place.repo("org/embed").exists() and outside.exists()


def hugging_face(place, code, **env):
    """Runs Python code with the package huggingface_hub and the cache of the place."""
    if not importlib.util.find_spec("huggingface_hub"):
        raise Skip("huggingface_hub is not installed")
    env = place.env(HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_PROGRESS_BARS="1", **env)
    return subprocess.Popen([sys.executable, "-c", f"from huggingface_hub import *\n{code}"], env=env, cwd=place.folder, text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def output_of(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    return out.strip()


@harness.full_only
def test_huggingface_hub_reads_what_weft_wrote():
    with Place() as place:
        repo = place.hub.add("org/embed", embedder())
        path = place.works("pull", "org/embed").stdout.strip()
        for env in {"HF_HUB_OFFLINE": "1"}, {}:
            sent = place.hub.sent
            got = output_of(hugging_face(place, "print(hf_hub_download('org/embed', 'model.safetensors'))", **env))
            assert got == f"{path}/model.safetensors", (got, path)
            assert place.hub.sent == sent
        assert output_of(hugging_face(place, "print(snapshot_download('org/embed'))", HF_HUB_OFFLINE="1")) == path
        seen = output_of(hugging_face(place, """
found = scan_cache_dir()
print(found.warnings, [(r.repo_id, [(v.commit_hash, sorted(v.refs), len(v.files)) for v in r.revisions]) for r in found.repos])"""))
        assert seen == f"[] [('org/embed', [('{repo.commit}', ['main'], {len(set(repo.files) - UNREAD)})])]", seen


@harness.full_only
def test_weft_reads_what_huggingface_hub_wrote():
    with Place() as place:
        place.hub.add("org/embed", embedder())
        path = output_of(hugging_face(place, "print(snapshot_download('org/embed'))"))
        count, sent = len(place.hub.requests), place.hub.sent
        place.works("embed", "org/embed", "--device", "cpu", feed="hello\n")
        assert len(place.hub.requests) == count
        assert place.works("pull", "org/embed").stdout.strip() == path and place.hub.sent == sent
        # a cut file is noticed by the sizes that the package stored
        blob = (pathlib.Path(path) / "model.safetensors").resolve()
        good = blob.read_bytes()
        blob.write_bytes(good[:-1])
        place.works("embed", "org/embed", "--device", "cpu", feed="hello\n")
        assert blob.read_bytes() == good
        # a part of a model is completed
        place.hub.add("org/chat", files_of(MODELS / "weft-demo-chat"))
        for name in "config.json", "tokenizer.json":
            output_of(hugging_face(place, f"hf_hub_download('org/chat', '{name}')"))
        place.hub.requests.clear()
        place.works("tokenize", "org/chat", feed="hello")
        fetched = place.hub.fetched()
        assert "model.safetensors" in fetched and "config.json" not in fetched and "tokenizer.json" not in fetched, fetched


@harness.full_only
def test_locks_exclude_in_both_directions():
    with Place() as place:
        hub = place.hub
        repo = hub.add("org/big", big())
        etag = etag_of("model.safetensors", repo.files["model.safetensors"])
        lock = place.cache / f".locks/models--org--big/{etag}.lock"
        release = place.cache / "release"
        holder = hugging_face(place, f"""
import pathlib, time
from huggingface_hub.utils import WeakFileLock
pathlib.Path({str(lock.parent)!r}).mkdir(parents=True)
with WeakFileLock({str(lock)!r}):
    print("held", flush=True)
    while not pathlib.Path({str(release)!r}).exists():
        time.sleep(0.01)
    print("released", flush=True)""")
        assert holder.stdout.readline() == "held\n"
        hub.slow = 0.02
        process = place.start("pull", "org/big")
        assert any("waiting for another process that downloads org/big" in line for line in iter(process.stderr.readline, ""))
        assert not [r for r in hub.requests if r.role == "cdn"]
        release.touch()
        assert output_of(holder) == "released"
        while not [r for r in hub.requests if r.role == "cdn"]:
            time.sleep(0.01)
        other = hugging_face(place, "print(hf_hub_download('org/big', 'model.safetensors'))")
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert output_of(other) == f"{out.strip()}/model.safetensors"
        assert hub.sent < len(repo.files["model.safetensors"]) + MEGABYTE
