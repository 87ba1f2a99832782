#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compiles of JSON schemas and masks of their states beside xgrammar and llguidance, in one run: the same schemas, the same
documents, the same vocabulary of 150,000 tokens, one thread, time of the processor.

  bench/grammar_peers.py [TIKTOKEN]      WEFT_BUILD: build folder; WEFT_PEERS_VENV: where the peers are installed from
                                         PyPI (a folder of the system's temporary files)

TIKTOKEN is a rank file (WEFT_ASSETS/tokenizer/cl100k_base.tiktoken), which joins of its tokens fill up. The schemas are
those of CASES and, where WEFT_ASSETS/schema is there, of the JSON Schema test suite with their valid instances. A mask
is counted with the token that is accepted after it: the first time that a document is followed, with nothing computed
before, and the second time. Where documents are compared, all three take them; xgrammar and llguidance are called from
Python, which is about a microsecond a call. Prints median, 99th percentile and longest, and asserts nothing.
"""
import base64
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[1]
BENCH = ROOT / os.environ.get("WEFT_BUILD", "build/release") / "bin/bench_grammar"
ASSETS = pathlib.Path(os.environ.get("WEFT_ASSETS") or "WEFT_ASSETS is not set").absolute()
RANKS = ASSETS / "tokenizer/cl100k_base.tiktoken"
SUITE = ASSETS / "schema/JSON-Schema-Test-Suite/tests"
VENV = pathlib.Path(os.environ.get("WEFT_PEERS_VENV", pathlib.Path(tempfile.gettempdir()) / "weft-grammar-peers"))
VOCAB, LONGEST = 150_000, 64
END = VOCAB - 1


def person(**more):
    return {"type": "object", "additionalProperties": False, "required": ["name", "tags"], "properties": {
        "name": {"type": "string"}, "age": {"type": "integer"}, "score": {"type": "number"},
        "tags": {"type": "array", "items": {"enum": ["red", "green", "blue"]}}, **more}}


TREE = {"$defs": {"node": {"type": "object", "additionalProperties": False, "required": ["label", "children"], "properties": {
    "label": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}}}}, "$ref": "#/$defs/node"}
CALL = {"type": "object", "additionalProperties": False, "required": ["name", "arguments"], "properties": {
    "name": {"const": "search"}, "arguments": {"type": "object", "additionalProperties": False, "required": ["query"],
                                               "properties": {"query": {"type": "string"}, "count": {"type": "integer"},
                                                              "exact": {"type": "boolean"}}}}}
LEAF = {"label": "a leaf, which has a longer label than others", "children": []}
CASES = [
    (person(), [{"name": "Grace Brewster Murray Hopper", "age": 85, "score": 17.25, "tags": ["blue", "red"]},
                {"name": "Z\u00fcrich \u4e2d\u6587 \U0001F600", "tags": []}]),
    (person(mail={"type": "string", "format": "email"}, born={"type": "string", "format": "date"}),
     [{"name": "A", "tags": ["green"], "mail": "grace.hopper@navy.example", "born": "1906-12-09"}]),
    (person(code={"type": "string", "pattern": "^[A-Z]{2}-[0-9]{4}$"}), [{"name": "B", "tags": [], "code": "AB-1234"}]),
    (person(note={"type": "string", "maxLength": 200}), [{"name": "C", "tags": [], "note": "A sentence of some words. " * 6}]),
    (person(more={"anyOf": [{"type": "null"}, {"type": "object", "properties": {"x": {"type": "number"}},
                                               "required": ["x"], "additionalProperties": False}]}),
     [{"name": "D", "tags": [], "more": {"x": 2.5}}, {"name": "D", "tags": [], "more": None}]),
    (TREE, [{"label": "root", "children": [LEAF, {"label": "inner", "children": [LEAF, LEAF]}]}]),
    (CALL, [{"name": "search", "arguments": {"query": "weather in Oslo, \"tomorrow\"", "count": 3, "exact": False}}]),
    ({"type": "object"}, [{"any": {"thing": [1, 2.5e-3, None, True, "a string"], "deep": [[[{}]]]}}]),
    ({"type": "object", "additionalProperties": {"type": "integer"}}, [{"one": 1, "two": 2, "a longer key": -30}]),
    ({"type": "array", "items": {"type": "object", "additionalProperties": False, "required": ["id"], "properties": {
        "id": {"type": "integer", "minimum": 0, "maximum": 99999}}}}, [[{"id": n * 7919 % 99999} for n in range(12)]]),
]


def installed():
    """Runs this file again in an environment with the peers. torch and transformers, which xgrammar requires but does not
    need for masks on the CPU, are left out."""
    python = VENV / "bin/python"
    if not (VENV / ".made").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", VENV], check=True)
        for more in (["numpy", "llguidance", "apache-tvm-ffi", "pydantic", "typing-extensions"], ["--no-deps", "xgrammar"]):
            subprocess.run([python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *more], check=True)
        (VENV / ".made").touch()
    if pathlib.Path(sys.prefix).resolve() != VENV.resolve():
        os.execv(python, [python, "-B", __file__, *sys.argv[1:]])


def vocabulary(path):
    tokens = [base64.b64decode(line.split()[0]) for line in path.read_bytes().splitlines() if line]
    read, known, i = len(tokens), set(tokens), 0
    while len(tokens) < VOCAB - 1:
        joined = tokens[(1000 + i) % read] + tokens[i * 7919 % read]
        if joined not in known and len(joined) <= LONGEST:
            known.add(joined)
            tokens.append(joined)
        i += 1
    return tokens[:VOCAB - 1]


def ordered(value, schema):
    """Returns the value with known keys in the order of the schema, which is the generated order."""
    if isinstance(value, dict) and isinstance(schema, dict):
        known = schema.get("properties") if isinstance(schema.get("properties"), dict) else {}
        keys = [k for k in known if k in value] + [k for k in value if k not in known]
        return {k: ordered(value[k], known.get(k)) for k in keys}
    if isinstance(value, list) and isinstance(schema, dict):
        return [ordered(each, schema.get("items")) for each in value]
    return value


def tokenized(data, ids):
    """Returns the ids of the longest matches."""
    out, at = [], 0
    while at < len(data):
        bytes_ = next(n for n in range(min(LONGEST, len(data) - at), 0, -1) if data[at:at + n] in ids)
        out.append(ids[data[at:at + bytes_]])
        at += bytes_
    return out


def cases(tokens):
    ids = {token: i for i, token in enumerate(tokens)}
    listed = list(CASES)
    for file in sorted(SUITE.glob("draft2020-12/*.json")) if SUITE.exists() else []:
        for group in json.loads(file.read_text()):
            good = [t["data"] for t in group["tests"] if t["valid"] and isinstance(t["data"], (dict, list))]
            listed.append((group["schema"], good))

    def text(value):
        return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
    return [{"schema": schema, "documents": [tokenized(text(ordered(d, schema)), ids) for d in documents]}
            for schema, documents in listed]


class Xgrammar:
    name = "xgrammar"

    def __init__(self, tokens):
        import tvm_ffi  # noqa: F401 - looks for the real torch
        torch = unittest.mock.MagicMock(Tensor=type("Tensor", (), {}))
        with unittest.mock.patch.dict(sys.modules, {"torch": torch, "transformers": unittest.mock.MagicMock()}):
            import xgrammar
        self.library = xgrammar
        info = xgrammar.TokenizerInfo([*tokens, b"<|end|>"], vocab_type=xgrammar.VocabType.RAW, vocab_size=VOCAB,
                                      stop_token_ids=[END])
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1, cache_enabled=False)

    def compile(self, schema):
        return self.compiler.compile_json_schema(json.dumps(schema), any_whitespace=False, separators=(",", ":"),
                                                 strict_mode=False)

    def start(self, compiled):
        matcher = self.library.GrammarMatcher(compiled)
        return matcher.fill_next_token_bitmask, matcher.accept_token


class Llguidance:
    name = "llguidance"

    def __init__(self, tokens):
        import llguidance
        import llguidance.numpy
        self.library, self.fill = llguidance, llguidance.numpy.fill_next_token_bitmask
        known = {token: i for i, token in enumerate(tokens)}

        class Words:
            eos_token_id, bos_token_id, special_token_ids = END, None, [END]

            def __call__(self, text):  # its masks contain only the first token of forced text
                return tokenized(text, known)
        Words.tokens = [*tokens, b"<|end|>"]
        self.tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(Words()), n_vocab=VOCAB)

    def compile(self, schema):
        grammar = self.library.LLMatcher.grammar_from_json_schema(schema, overrides={"whitespace_flexible": False})
        matcher = self.library.LLMatcher(self.tokenizer, grammar)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, matcher):
        matcher.reset()
        return (lambda mask: self.fill(matcher, mask)), matcher.consume_token


def followed(peer, compiled, ids, mask):
    """Returns the microseconds of each mask, or None if the grammar refuses the document."""
    fill, accept = peer.start(compiled)
    out = []
    for token in ids:
        begun = time.thread_time_ns()
        fill(mask)
        good = accept(token)
        out.append((time.thread_time_ns() - begun) / 1000)
        if not good or not mask[0, token // 32] >> (token % 32) & 1:
            return None
    fill(mask)
    return out if mask[0, END // 32] >> (END % 32) & 1 else None


def measured(peer, listed):
    """Returns the measurements in the format of bench_grammar."""
    import numpy
    mask, out = numpy.zeros((1, (VOCAB + 31) // 32), dtype=numpy.int32), []
    for case in listed:
        begun = time.process_time_ns()
        try:
            compiled = peer.compile(case["schema"])
        except Exception:  # noqa: B902 - any exception: the schema is refused
            out.append(None)
            continue
        row = [(time.process_time_ns() - begun) / 1000]
        for ids in case["documents"]:
            try:
                twice = [followed(peer, compiled, ids, mask) for _ in range(2)]
            except Exception:  # noqa: B902
                twice = [None]
            row.append(None if None in twice else twice)
        out.append(row)
    return out


def weft(tokens, listed):
    with tempfile.TemporaryDirectory() as folder:
        ranks, given = pathlib.Path(folder) / "ranks", pathlib.Path(folder) / "cases.json"
        ranks.write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % i for i, t in enumerate(tokens)))
        given.write_text(json.dumps(listed))
        done = subprocess.run([BENCH, ranks, str(VOCAB), given], stdout=subprocess.PIPE, check=True)
        return json.loads(done.stdout)["cases"]


def said(name, values):
    values = sorted(values)
    return f"{name} p50 {values[len(values) // 2]:.1f} p99 {values[len(values) * 99 // 100]:.1f} most {values[-1]:.1f}"


def report(title, rows, numbers):
    """Prints one table. rows: {name: results of all cases}; numbers: the cases that count."""
    compiled = [n for n in numbers if all(row[n] for row in rows.values())]
    taken = [(n, d) for n in compiled for d in range(1, len(rows["weft"][n])) if all(row[n][d] for row in rows.values())]
    if not taken:
        return
    print(f"{title}: {len(compiled)} of {len(numbers)} schemas compiled by all, {len(taken)} documents taken by all; microseconds")
    for name, row in rows.items():
        parts = [said("compile", [row[n][0] for n in compiled])]
        for again, what in enumerate(("first masks", "again")):
            parts.append(said(what, [us for n, d in taken for us in row[n][d][again]]))
        total = sum(row[n][0] for n in compiled) + sum(sum(row[n][d][0]) for n, d in taken)
        own = sum(1 for n in numbers if row[n])
        print(f"  {name:10s} {'; '.join(parts)}; compiles and first masks {total / 1000:.1f} ms; takes {own} of the schemas")


def main():
    ranks = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else RANKS
    if not ranks.exists() or not BENCH.exists():
        sys.exit(f"{ranks if not ranks.exists() else BENCH} is missing: name a rank file, or build the benchmarks")
    installed()
    tokens = vocabulary(ranks)
    listed = cases(tokens)
    rows = {"weft": weft(tokens, listed)}
    errors = os.dup(2)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # a peer prints a line for each schema with a warning
    try:
        for peer in (Xgrammar, Llguidance):
            rows[peer.name] = measured(peer(tokens), listed)
    finally:
        os.dup2(errors, 2)
    report("schemas of tools and answers", rows, range(len(CASES)))
    report("JSON Schema test suite, 2020-12", rows, range(len(CASES), len(listed)))


main()
