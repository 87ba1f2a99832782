# SPDX-License-Identifier: Apache-2.0
"""What an answer says of who made it."""

import json
import pathlib
import re
import shutil
import struct
import tempfile

from harness import CHATML, KEY, MODELS, chat, start


def fingerprint(*options, folder=MODELS / "weft-demo-chat"):
    server = start(f"a={folder}", *options)
    body = chat(server, model="a", max_tokens=1).json
    chunks = chat(server, model="a", max_tokens=1, stream=True).chunks()
    assert {c["system_fingerprint"] for c in chunks} == {body["system_fingerprint"]}
    assert server.stop() == 0
    return body["system_fingerprint"]


def test_fingerprints():
    """Equal for servers that are equal; another with another type of weights, or of keys and values, or ranks."""
    first = fingerprint()
    assert re.fullmatch("fp_[0-9a-f]{10}", first), first
    assert fingerprint() == first
    others = [fingerprint(*o) for o in (("--dtype", "int8"), ("--kv-cache-dtype", "float16"),
                                        ("--tensor-parallel-size", "2"), ("--chat-template", CHATML))]
    assert len({first, *others}) == 5, (first, others)


def test_fingerprints_of_checkpoints():
    """Another where a tensor has other values, or a file that says how they and texts are read."""
    demo, seen = MODELS / "weft-demo-chat", {fingerprint()}
    with tempfile.TemporaryDirectory() as keep:
        for name in ("weights", "config", "tokenizer", "generation_config"):
            folder = pathlib.Path(keep) / name
            shutil.copytree(demo, folder)
            if name != "weights":
                more = {"config": {"rms_norm_eps": 2e-6}, "tokenizer": {"version": "1.0 "},
                        "generation_config": {"temperature": 0.25}}[name]
                file = folder / f"{name}.json"
                old = json.loads(file.read_text()) if file.exists() else {}
                file.write_text(json.dumps({**old, **more}))
            else:
                file = folder / "model.safetensors"
                data = bytearray(file.read_bytes())
                header = json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])
                at, end = header["model.norm.weight"]["data_offsets"]
                base = 8 + struct.unpack("<Q", data[:8])[0]
                data[base + at:base + end] = b"\x00\x40" * ((end - at) // 2)  # bfloat16 2
                file.write_bytes(data)
            seen.add(fingerprint(folder=folder))
            assert fingerprint(folder=folder) in seen
    assert len(seen) == 5, seen


def test_fingerprints_of_defaults():
    """Each default that a generation config may set changes the fingerprint."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        def of(**defaults):
            file.seek(0)
            file.truncate()
            json.dump(defaults, file)
            file.flush()
            return fingerprint("--generation-config", file.name)
        each = {"temperature": 0.25, "top_p": 0.5, "top_k": 7, "min_p": 0.125, "repetition_penalty": 1.5, "max_new_tokens": 9}
        seen = {of(), *(of(**{name: value}) for name, value in each.items())}
    assert len(seen) == 1 + len(each), seen


def test_a_file_that_the_fingerprint_cannot_read_is_told():
    """The folder of the weights alone has it, so the model is loaded without it."""
    with tempfile.TemporaryDirectory() as keep:
        folder = pathlib.Path(keep) / "embed"
        shutil.copytree(MODELS / "weft-demo-embed", folder)
        inner = folder / "0_Transformer"
        (inner / "tokenizer_config.json").mkdir(parents=True)
        for name in ("config.json", "model.safetensors"):
            (folder / name).rename(inner / name)
        modules = json.loads((folder / "modules.json").read_text())
        for module in modules:
            if module["type"].endswith("Transformer"):
                module["path"] = inner.name
        (folder / "modules.json").write_text(json.dumps(modules))
        s = start(f"a={folder}")
        told = [line for line in s.output().splitlines() if "system_fingerprint" in line]
        assert s.stop() == 0
    assert len(told) == 1 and "0_Transformer/tokenizer_config.json is not a regular file" in told[0], told


def test_models_in_pages_and_by_encoded_ids():
    """What both client families ask: a slash of a name encoded or not, the kind, pages."""
    s = start(f"org/name={MODELS / 'weft-demo-embed'}", f"b={MODELS / 'weft-demo-rerank'}")

    def get(path, **more):
        return s.request("GET", path, headers={"authorization": f"Bearer {KEY}", **more})
    for path in ("/v1/models/org%2Fname", "/v1/models/org/name", "/v1/v1/models/org%2fname"):
        model = get(path).json
        assert (model["id"], model["kind"]) == ("org/name", "embedder"), model
    page = get("/v1/models?limit=1").json
    assert ([m["id"] for m in page["data"]], page["has_more"]) == (["org/name"], True), page
    page = get("/v1/models?limit=1&after_id=org%2Fname").json
    assert ([m["id"] for m in page["data"]], page["has_more"], page["last_id"]) == (["b"], False, "b")
    wrong = get("/v1/models?after_id=nobody", **{"anthropic-version": "2023-06-01"})
    assert wrong.status == 400 and wrong.error["message"] == "after_id: must be the id of a model", wrong.text
    assert s.request("GET", "/ping").json == s.request("GET", "/health").json == {"status": "ok"}
