# SPDX-License-Identifier: Apache-2.0
"""The page of /metrics by the rules of the text format, and by promtool where that is installed."""

import os
import pathlib
import re
import shutil
import subprocess

from harness import MODELS, ROOT, chat, embed, rerank, start

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = r'[a-zA-Z_][a-zA-Z0-9_]*="(?:[^"\\\n]|\\["\\n])*"'
SAMPLE = re.compile(rf"({NAME})(?:\{{({LABEL}(?:,{LABEL})*)\}})? (\+Inf|-?[0-9.]+(?:e[+-]?[0-9]+)?)")
SUFFIXES = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("_sum", "_count"),
            "counter": ("",), "gauge": ("",)}
TOKEN_COUNTS = ("request_prompt_tokens", "request_generation_tokens", "request_params_max_tokens",
                "request_max_num_generation_tokens", "request_prefill_kv_computed_tokens")
# Names that vLLM and text-embeddings-inference prescribe, and the linter's findings about them.
LINTS = {
    (r"vllm:\w+", "metric names should not contain ':'"),
    ("vllm:iteration_tokens_total", 'non-counter metrics should not have "_total" suffix'),
    ("te_request_(count|success|failure)", 'counter metrics should have "_total" suffix'),
    ("te_request_count", 'non-histogram and non-summary metrics should not have "_count" suffix'),
}


def families_of(page):
    """{family: (type, [(sample name, labels as a dict, value)])}; asserts the format line by line."""
    assert page.endswith("\n")
    families, lines = {}, page.split("\n")[:-1]
    at = 0
    while at < len(lines):
        help_line = re.fullmatch(rf"# HELP ({NAME}) ([^\\]*\S)", lines[at])
        assert help_line, lines[at]
        name = help_line[1]
        kind = re.fullmatch(rf"# TYPE {name} (counter|gauge|histogram|summary)", lines[at + 1])
        assert kind, lines[at + 1]
        assert name not in families, f"{name} comes twice"
        samples, seen, at = [], set(), at + 2
        while at < len(lines) and not lines[at].startswith("#"):
            parts = SAMPLE.fullmatch(lines[at])
            assert parts, lines[at]
            assert parts[1] in [name + s for s in SUFFIXES[kind[1]]], lines[at]
            assert (parts[1], parts[2]) not in seen, lines[at]
            seen.add((parts[1], parts[2]))
            labels = dict(l.split("=", 1) for l in re.findall(LABEL, parts[2] or ""))
            samples.append((parts[1], {k: v[1:-1] for k, v in labels.items()}, float(parts[3])))
            at += 1
        families[name] = (kind[1], samples)
    return families


def histograms_of(samples):
    """{labels without le: ([edges], [cumulative counts], count)} of a histogram's samples."""
    out = {}
    for name, labels, value in samples:
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        edges, counts, whole = out.setdefault(key, ([], [], []))
        if name.endswith("_bucket"):
            edges.append(float(labels["le"]))
            counts.append(value)
        elif name.endswith("_count"):
            whole.append(value)
    return out


def lint(page):
    """promtool's findings that nobody allowed; None where it is not installed."""
    here = ROOT / "build/promtool/usr/bin/promtool"
    tool = os.environ.get("WEFT_PROMTOOL") or shutil.which("promtool")
    tool = tool or (str(here) if here.exists() else None)
    if not tool:
        return None
    done = subprocess.run([tool, "check", "metrics"], input=page, capture_output=True, text=True,
                          timeout=600)
    assert done.returncode in (0, 3), done.stderr  # 3: it could read the page and has findings
    findings = (done.stdout + done.stderr).strip().split("\n")
    return [f for f in findings if f and not any(
        re.fullmatch(name, f.split(" ", 1)[0]) and f.split(" ", 1)[1] == text
        for name, text in LINTS)]


def call_all(s):
    """Every method of every path that the server's description has, without a key."""
    for path in s.request("GET", "/openapi.json").json["paths"]:
        for method in ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS"):
            s.request(method, path.replace("{id}", "x"), "{}" if method == "POST" else None)


def names_deployed():
    """The metrics that the alerts, their tests, the dashboard and the manifests name."""
    texts = [(ROOT / "deploy" / name).read_text() for name in (
        "prometheus/weft-rules.yaml", "prometheus/weft-rules-test.yaml", "grafana/weft.json", "kubernetes/inferencepool.yaml")]
    names = set(re.findall(r"(?<![\w:.])((?:weft_|http_|process_|vllm:|te_)\w+)", "\n".join(texts)))
    assert len(names) > 30, names
    return names


def test_the_page():
    small = f'small "\\one={MODELS / "weft-demo-chat"},max-model-len=300'
    s = start(MODELS / "weft-demo-chat", small, MODELS / "weft-demo-embed",
              MODELS / "weft-demo-rerank")
    for model in ("weft-demo-chat", 'small "\\one'):
        assert chat(s, model=model, max_tokens=9000).status == 200
        assert chat(s, model=model, max_tokens=3, seed="x").status == 400
    assert embed(s, ["a", "b"], model="weft-demo-embed").status == 200
    assert embed(s, ["a b c d"] * 120, model="weft-demo-embed").status == 200  # over the window
    assert rerank(s, "a", ["b"], model="weft-demo-rerank").status == 200
    call_all(s)
    windows = {m["id"].replace("\\", "\\\\").replace('"', '\\"'): m["max_model_len"]
               for m in s.request("GET", "/v1/models",
                                  headers={"authorization": "Bearer test-key"}).json["data"]}
    assert sorted(windows.values())[0] == 300
    page = s.request("GET", "/metrics").text
    families = families_of(page)
    for name, (kind, samples) in families.items():
        assert samples, f"{name} has no sample"
        if kind != "histogram":
            continue
        for labels, (edges, counts, whole) in histograms_of(samples).items():
            assert edges == sorted(set(edges)) and edges[-1] == float("inf"), (name, edges)
            assert counts == sorted(counts) and whole == counts[-1:], (name, labels, counts, whole)
            if name.split("_", 1)[-1] in TOKEN_COUNTS or name.split(":", 1)[-1] in TOKEN_COUNTS:
                window = windows[dict(labels)["model_name"]]
                assert edges[-2] == window and len(edges) < 24, (name, labels, edges)
    name, samples = "small \\\"\\\\one", families["weft_request_params_max_tokens"][1]
    ends = [v for _, l, v in samples if l["model_name"] == name and "le" in l][-3:]
    assert ends == [0, 1, 1], ends  # one request, cut to what the window of 300 left
    ends = [v for _, l, v in families["weft_request_prompt_tokens"][1]
            if l["model_name"] == "weft-demo-embed" and "le" in l][-3:]
    assert ends == [1, 1, 2], ends
    looked_up = {l["model_name"]: v for _, l, v in families["weft_prefix_cache_queries_total"][1]}
    assert looked_up["weft-demo-chat"] > 0 == looked_up["weft-demo-embed"] == looked_up["weft-demo-rerank"], looked_up
    assert families["http_requests_total"][1] and families["te_queue_size"][0] == "gauge"
    rest = {kind: sum(v for n, l, v in families[kind][1] if l["handler"] == "/v1/responses/" and not n.endswith("_sum"))
            for kind in ("http_requests_total", "http_response_size_bytes")}
    assert len(set(rest.values())) == 1 and rest["http_requests_total"] >= 3, rest  # GET, POST, DELETE
    assert not lint(page), lint(page)
    for name in names_deployed():
        assert any(name in [family + s for s in SUFFIXES[kind]] for family, (kind, _) in families.items()), name
