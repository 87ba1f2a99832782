# SPDX-License-Identifier: Apache-2.0
"""Tokens per second and processor time of chat requests with tools, with and without the grammar of optional calls
(the option tool-call-grammar), in interleaved pairs on two servers with the same model and prompts.

    bench/tool_grammar.py [pairs [streams [tokens [model]]]]

Defaults: 10 pairs, 16 streams, 600 tokens each, the built-in chat model with a template of Hermes' dialect. The
answers contain no calls, so that every row should be sampled without a mask. WEFT_BUILD: build folder.
"""
import concurrent.futures
import http.client
import json
import pathlib
import re
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import serving  # noqa: E402

TEMPLATE = serving.ROOT / "tests/e2e/hermes.jinja"
TOOLS = [{"type": "function", "function": {"name": f"tool_{i}", "description": "Looks something up.", "parameters": {
    "type": "object", "properties": {"query": {"type": "string"}, "count": {"type": "integer"}}}}} for i in range(12)]


def request(port, method, path, body=None):
    client = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    client.request(method, path, body and json.dumps(body), serving.HEAD)
    answer = client.getresponse()
    text = answer.read().decode()
    assert answer.status == 200, text
    return text


def ask(port, number, tokens):
    body = {"model": "chat", "max_tokens": tokens, "ignore_eos": True, "seed": number, "temperature": 1, "tools": TOOLS,
            "messages": [{"role": "user", "content": f"Tell me a story about the number {number}."}]}
    return json.loads(request(port, "POST", "/v1/chat/completions", body))


def metric(port, name):
    text = request(port, "GET", "/metrics")
    return sum(float(value) for value in re.findall(rf"^(?:weft_)?{name}(?:{{.*}})? (\S+)$", text, re.M))


def run(port, streams, tokens):
    """Tokens per second of this many requests at a time, the server's processor time in microseconds per token, and
    the texts."""
    with concurrent.futures.ThreadPoolExecutor(streams) as pool:
        begun, used = time.monotonic(), metric(port, "process_cpu_seconds_total")
        answers = list(pool.map(lambda number: ask(port, number, tokens), range(streams)))
        seconds, used = time.monotonic() - begun, metric(port, "process_cpu_seconds_total") - used
    assert not any(a["choices"][0]["message"].get("tool_calls") for a in answers)
    count = sum(a["usage"]["completion_tokens"] for a in answers)
    return count / seconds, 1e6 * used / count, [a["choices"][0]["message"]["content"] for a in answers]


def show(what, digits, on, off):
    """Both series in the order of the runs, and the ratio of each pair."""
    for name, values in (("on", on), ("off", off)):
        print(f"{name + ':':4} {statistics.median(values):.{digits}f} {what} (median), "
              f"{[round(v, digits) for v in values]}")
    ratios = [a / b for a, b in zip(on, off)]
    print(f"on / off: {statistics.median(on) / statistics.median(off):.4f} of medians, "
          f"{statistics.median(ratios):.4f} median of pairs, {[round(r, 3) for r in ratios]}")


def main():
    pairs, streams, tokens = [int(sys.argv[i + 1]) if len(sys.argv) > i + 1 else default
                              for i, default in enumerate((10, 16, 600))]
    model = f"{sys.argv[4] if len(sys.argv) > 4 else serving.DEMO},chat-template={TEMPLATE}"
    with serving.started(model + ",tool-call-grammar=on") as on, \
            serving.started(model + ",tool-call-grammar=off") as off:
        same = run(on, streams, tokens)[2] == run(off, streams, tokens)[2]  # warms both
        runs = {on: [], off: []}
        for pair in range(pairs):
            for port in (on, off) if pair % 2 == 0 else (off, on):
                runs[port].append(run(port, streams, tokens))
        assert metric(on, "grammars_compiled_total") == 1 and metric(off, "grammars_compiled_total") == 0
        masked = metric(on, "mask_rows_total") / metric(on, "rows_total")
    print(f"processor: {serving.processor()}")
    print(f"{pairs} pairs, {streams} streams, {tokens} tokens each; equal answers: {same}")
    show("tokens/s", 0, [r[0] for r in runs[on]], [r[0] for r in runs[off]])
    show("us of processor time per token", 1, [r[1] for r in runs[on]], [r[1] for r in runs[off]])
    print(f"rows with a mask: {100 * masked:.2f} %")


main()
