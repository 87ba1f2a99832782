"""What an answer says of who made it."""

import re

from harness import MODELS, chat, start


def fingerprint(*options):
    server = start(f"a={MODELS / 'weft-demo-chat'}", *options)
    body = chat(server, model="a", max_tokens=1).json
    chunks = chat(server, model="a", max_tokens=1, stream=True).chunks()
    assert {c["system_fingerprint"] for c in chunks} == {body["system_fingerprint"]}
    assert server.stop() == 0
    return body["system_fingerprint"]


def test_fingerprints():
    """Equal for servers that are equal; another with another type of weights, or of keys and values."""
    first = fingerprint()
    assert re.fullmatch("fp_[0-9a-f]{10}", first), first
    assert fingerprint() == first
    others = [fingerprint(*o) for o in (("--dtype", "int8"), ("--kv-cache-dtype", "float16"))]
    assert len({first, *others}) == 3, (first, others)
