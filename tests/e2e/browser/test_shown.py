# SPDX-License-Identifier: Apache-2.0
"""Panels with known server answers, and exactly what they show."""

import functools
import json
import shlex

from page import answered, opened, sent, setting, until

GENERATOR = {"id": "talks", "kind": "generator", "max_model_len": 8192}
SERVED = [GENERATOR, {"id": "talks2", "kind": "generator", "max_model_len": 64},
          {"id": "vectors", "kind": "embedder", "max_model_len": 512}, {"id": "ranks", "kind": "reranker", "max_model_len": 512}]


def fulfilled(body, route):
    route.fulfill(body=body)


def serving(page, *paths):
    """Replaces answers of the server, (path, JSON or text), and its models by those above; reloads the page."""
    for path, body in (("**/v1/models", {"data": SERVED}), *paths):
        page.route(path, functools.partial(fulfilled, body if isinstance(body, str) else json.dumps(body)))
    page.reload()
    until(page, "document.querySelector('#server-state').textContent.startsWith('4 models on 127.0.0.1:')")


def texts(page, selector):
    return page.evaluate("(selector) => [...document.querySelectorAll(selector)].map((each) => each.textContent)", selector)


def share(page, selector):
    return page.evaluate("(selector) => [...document.querySelectorAll(selector)].map((each) => each.style.getPropertyValue('--share'))", selector)


# Two copies of one model and one of another; %s: counters that grow from reading to reading.
METRICS = """# HELP weft_generation_tokens_total text
weft_generation_tokens_total{model_name="talks",engine="0"} %(a)d
weft_generation_tokens_total{model_name="talks",engine="1"} %(b)d
weft_generation_tokens_total{model_name="talks2",engine="2"} %(c)d
weft_prompt_tokens_computed_total{model_name="talks",engine="0"} %(c)d
weft_requests_submitted_total{model_name="vectors",engine="3"} %(a)d
weft_tokens_computed_total{model_name="vectors",engine="3"} %(c)d
weft_tokens_computed_total{model_name="talks",engine="0"} %(c)d
weft_tokens_computed_total{model_name="talks",engine="1"} %(c)d
weft_time_to_first_token_seconds_sum{model_name="talks",engine="0"} %(a)d
weft_time_to_first_token_seconds_sum{model_name="talks",engine="1"} %(b)d
weft_time_to_first_token_seconds_count{model_name="talks",engine="0"} %(c)d
weft_inter_token_latency_seconds_bucket{model_name="talks",engine="0",le="0.01"} %(a)d
weft_inter_token_latency_seconds_bucket{model_name="talks",engine="0",le="0.02"} %(b)d
weft_inter_token_latency_seconds_bucket{model_name="talks",engine="1",le="0.1"} %(c)d
weft_inter_token_latency_seconds_bucket{model_name="talks",engine="1",le="+Inf"} %(c)d
weft_steps_total{model_name="talks",engine="0"} %(a)d
weft_rows_total{model_name="talks",engine="1"} %(b)d
weft_kv_blocks{model_name="talks",engine="0"} 40
weft_kv_blocks{model_name="talks",engine="1"} 40
weft_kv_blocks_used{model_name="talks",engine="0"} 4
weft_kv_blocks_used{model_name="talks",engine="1"} 12
weft_kv_blocks_cached{model_name="talks",engine="1"} 1
weft_sequences_running{model_name="talks",engine="0"} 2
weft_sequences_running{model_name="talks",engine="1"} 1
weft_sequences_waiting{model_name="talks",engine="1"} 5
weft_prefix_cache_hits_total{model_name="talks",engine="0"} %(a)d
weft_prefix_cache_hits_total{model_name="talks",engine="1"} 1000000
weft_prefix_cache_queries_total{model_name="talks",engine="0"} %(b)d
weft_prefix_cache_queries_total{model_name="talks",engine="1"} 4000000
"""
CHARTS = "[...document.querySelectorAll('.chart')].map((each) => [each.querySelector('h2').textContent, " \
         "...[...each.querySelectorAll('.value')].map((value) => value.textContent), each.querySelector('.scale').textContent])"
PATHS = "[...document.querySelectorAll('.chart')].map((each) => [...each.querySelectorAll('.line:not(.dots)')].map((line) => line.getAttribute('d')))"


def readings(page):
    """Serves METRICS with counters that grow by 100, 200 and 400 per second. The page's clock advances a second per reading,
    and its timers wait a tenth of their time."""
    counted = [0]

    def answer(route):
        counted[0] += 1
        route.fulfill(body=METRICS % {"a": 100 * counted[0], "b": 200 * counted[0], "c": 400 * counted[0]})
    page.context.add_init_script("""{ let now = 0; const later = setTimeout;
      performance.now = () => (now += 1000);
      window.setTimeout = (what, ms) => later(what, ms / 10); }""")
    page.route("**/metrics?*", answer)


def test_charts_say_what_the_metrics_say():
    with opened("live", allowed=("ERR_FAILED",)) as page:
        readings(page)
        serving(page)
        assert texts(page, "#live-model option") == ["talks", "talks2", "vectors", "ranks"]
        until(page, "Number(document.querySelector('.chart')?.dataset.points) >= 2")
        assert page.evaluate(CHARTS) == [
            ["Throughput", "300generated/s", "400prompt/s", "500 tokens/s"],
            ["Time to first token", "750mean ms", "1,000 ms"],
            ["Time between tokens", "20.0median ms", "92.095 % ms", "100 ms"],
            ["Batch size", "2.0rows per step", "8.0tokens per step", "10 rows"],
            ["Keys and values", "20 %in use", "1.3 %kept for reuse", "100 % "],
            ["Queue", "3running", "5waiting", "5 sequences"],
            ["Cache hits", "50 %of new prompts", "25 %in all", "100 % "]], page.evaluate(CHARTS)
        page.click("#live-pause")
        assert page.inner_text("#live-pause") == "Continue"
        page.wait_for_timeout(200)  # a requested reading has arrived
        points = page.get_attribute(".chart", "data-points")
        page.wait_for_timeout(300)
        assert page.get_attribute(".chart", "data-points") == points
        page.click("#live-pause")
        assert page.inner_text("#live-pause") == "Pause"
        until(page, f"Number(document.querySelector('.chart').dataset.points) > {points}")
        assert page.evaluate(CHARTS)[0] == ["Throughput", "300generated/s", "400prompt/s", "500 tokens/s"]
        page.select_option("#live-model", "vectors")
        until(page, "Number(document.querySelector('.chart')?.dataset.points) >= 1")
        assert page.evaluate(CHARTS) == [["Throughput", "400tokens/s", "100requests/s", "500 tokens/s"],
                                         ["Batch size", "0.0rows per step", "0.0tokens per step", "5.0 rows"],
                                         ["Queue", "0running", "0waiting", "5 sequences"]], page.evaluate(CHARTS)
        page.unroute("**/metrics?*")
        page.route("**/metrics?*", lambda route: route.abort())
        until(page, "document.querySelector('#live-fault').textContent === 'The server does not respond. Is it still running?'")


QUANTILES = """async () => {
  const {quantile, mean, difference, rate, value} = await import("/ui/metrics.js");
  const of = (at, buckets, sum, count) => ({at, values: new Map([...buckets.map(([le, n]) => [`x_bucket|${le}`, n]),
    ["x_sum", sum], ["x_count", count]])});
  const none = of(0, [[1, 0], [2, 0], ["+Inf", 0]], 0, 0), before = of(0, [[1, 5], [2, 5], ["+Inf", 5]], 5, 5);
  const now = of(4000, [[2, 13], ["+Inf", 15], [1, 9]], 25, 15);
  const reset = of(5000, [[1, 1], [2, 1], ["+Inf", 1]], 1, 1);
  return [0, 0.2, 0.4, 0.6, 0.8, 0.9, 1].map((share) => quantile(before, now, "x", share)).concat([quantile(none, none, "x", 0.5),
    quantile(now, reset, "x", 0.5), mean(before, now, "x"), mean(now, now, "x"), difference(now, reset, "x_sum"), rate(before, now, "x_count"),
    rate(now, now, "x_count"), value(now, "y")]);
}"""


def test_quantiles_means_and_rates():
    with opened() as page:
        assert page.evaluate(QUANTILES) == [0, 0.5, 1, 1.5, 2, 2, 2, None, None, 2, None, 0, 2.5, 0, 0], page.evaluate(QUANTILES)


CHART = """async ([columns, more]) => {
  const {chart} = await import("/ui/charts.js");
  const one = chart({title: "t", unit: "u", lines: columns.map((_, at) => `l${at}`), format: (x) => x.toFixed(1), ...more});
  columns[0].forEach((_, at) => one.push(columns.map((values) => values[at])));
  const all = (name) => [...one.node.querySelectorAll(name)];
  return {lines: all(".line:not(.dots)").map((each) => each.getAttribute("d")), dots: all(".dots").map((each) => each.getAttribute("d")),
    area: all(".area")[0].getAttribute("d"), scale: all(".scale")[0].textContent, words: all(".value .number").map((each) => each.textContent),
    old: all(".value .number").map((each) => each.classList.contains("old")), points: one.node.dataset.points};
}"""


def test_a_chart_draws_its_values():
    def drawn(*columns, **more):
        return page.evaluate(CHART, [columns, more])
    with opened() as page:
        assert drawn([0, 1, 2], [None, 2, None]) == {
            "lines": ["M347.8 96.0L353.9 48.0L360.0 0.0", "M353.9 0.0"], "dots": ["", "M353.9 0.0h0"],
            "area": "M347.8 96.0L353.9 48.0L360.0 0.0V96H347.8Z", "scale": "2.0 u", "words": ["2.0", "2.0"], "old": [False, True], "points": "3"}
        gap = drawn([1, None, 3, 4])
        assert gap["lines"] == ["M341.7 76.8M353.9 38.4L360.0 19.2"] and gap["dots"] == ["M341.7 76.8h0"] and gap["area"] == ""
        assert drawn([None])["words"] == ["–"] and drawn([None])["scale"] == "1.0 u"
        for value, scale in (0.3, "1.0 u"), (1.5, "2.0 u"), (2.1, "5.0 u"), (5.1, "10.0 u"), (10, "10.0 u"), (11, "20.0 u"), (734, "1000.0 u"):
            assert drawn([value])["scale"] == scale, (value, drawn([value]))
        assert drawn([3], least=10)["scale"] == "10.0 u" and drawn([250], top=100)["scale"] == "100.0 u"
        assert drawn([250], top=100)["lines"] == ["M360.0 0.0"]
        long = drawn(list(range(70)))
        assert long["points"] == "60" and long["scale"] == "100.0 u" and long["lines"][0].startswith("M0.0 86.4L6.1 85.4L")


MIB = 1 << 20
MEMORY = "".join('weft_model_memory_bytes{model_name="%s",engine="%d",part="%s"} %d\n' % each for each in (
    ("talks", 0, "activations", 30 * MIB), ("talks", 0, "weights", 10 * MIB), ("talks", 0, "staging", 5 * MIB), ("talks", 0, "scheduler", 4 * MIB),
    ("talks", 0, "tables", 1.5 * MIB), ("talks", 0, "keys and values", 2 * MIB), ("talks", 1, "keys and values", 2 * MIB),
    ("talks", 1, "a \\\"b\\\\\\n", 512), ("vectors", 2, "weights", 3 * 1024 * MIB))) + \
    'weft_model_info{model_name="talks",engine="0",architecture="Tall",parameters="134515008",dtype="int8",kv_dtype="bfloat16",' \
    'block_size="64",device="gpu0"} 1\nweft_model_info{model_name="talks",engine="1",device="gpu1",block_size="64"} 1\n' \
    'weft_model_info{model_name="vectors",engine="2",parameters="7200000000",device="cpu"} 1\n' \
    'weft_model_info{model_name="ranks",engine="3",parameters="1234567",device="cpu"} 1\n' \
    'weft_kv_blocks{model_name="talks",engine="0"} 100\nweft_kv_blocks{model_name="talks",engine="1"} 50\n' \
    'weft_engine_failed{model_name="talks",engine="0"} 0\nweft_engine_failed{model_name="talks",engine="1"} 1\n' \
    'weft_engine_failed{model_name="vectors",engine="2"} 1\nprocess_resident_memory_bytes 157286400\n'


def test_models_and_their_memory():
    with opened("models") as page:
        serving(page, ("**/metrics?*", MEMORY))
        page.wait_for_selector(".card")
        assert texts(page, ".card h2") == ["talks", "talks2", "vectors", "ranks"]
        assert texts(page, ".card:nth-of-type(1) dl div") == [
            "Serveschat, responses, messages, completions", "ArchitectureTall", "Parameters135 million", "Weightsint8", "Context8,192 tokens",
            "Keys and valuesbfloat16"]
        assert texts(page, ".card:nth-of-type(1) h3") == ["Copy 0 on gpu0, 52.5 MiB", "Copy 1 on gpu1, 2.00 MiB"]
        assert texts(page, ".card:nth-of-type(1) section:nth-of-type(1) .legend li") == [
            "weights10.0 MiB", "keys and values, 6,400 tokens2.00 MiB", "activations30.0 MiB", "staging5.00 MiB", "other5.50 MiB"]
        assert texts(page, ".card:nth-of-type(1) .fault") == ["The device of copy 1 has failed; the other copies still work."]
        assert texts(page, ".card:nth-of-type(1) .hint") == ["This copy shares the weights of the previous copy."]
        assert texts(page, ".card:nth-of-type(1) section:nth-of-type(2) .legend li") == ["keys and values, 3,200 tokens2.00 MiB", 'a "b\\\n512 B']
        assert texts(page, ".card:nth-of-type(3) dl div") == ["Servesembeddings", "Parameters7.2 billion", "Context512 tokens"]
        assert texts(page, ".card:nth-of-type(3) .fault") == ["The device of this model has failed. Restart weft to use the model again."]
        assert texts(page, ".card:nth-of-type(3) h3") == ["Memory plan on cpu, 3.00 GiB"]
        assert texts(page, ".card:nth-of-type(4) dl div") == ["Servesrerank", "Parameters1.2 million", "Context512 tokens"]
        assert share(page, ".card:nth-of-type(1) section:nth-of-type(2) .stack span")[0].startswith("99.9")
        assert texts(page, "#models-out > .note") == ["The process holds 150 MiB now; the plan is its maximum."]


def test_a_matrix_of_known_vectors():
    with opened("embeddings") as page:
        vectors = [[1, 0], [0, 2], [3, 3], [0, 0], [-1, 0.001]]
        serving(page, ("**/v1/embeddings", {"data": [{"embedding": each} for each in vectors], "usage": {"prompt_tokens": 17}}))
        page.fill("#embeddings-text", " a \n\nb\nc\nd\ne")
        with sent(page, "/v1/embeddings") as request:
            page.click("#embeddings-go")
        assert request.value.post_data_json == {"model": "vectors", "input": ["a", "b", "c", "d", "e"]}
        page.wait_for_selector(".matrix")
        assert [text.split() for text in texts(page, ".matrix tbody tr")] == [[text] for text in (
            "1a1.000.000.710.00-1.00", "2b0.001.000.710.000.00", "3c0.710.711.000.00-0.71", "4d0.000.000.000.000.00", "5e-1.000.00-0.710.001.00")]
        assert texts(page, ".matrix thead th") == ["1", "2", "3", "4", "5"]
        assert texts(page, ".pairs li") == ["0.71ac", "0.71bc", "0.00be"], texts(page, ".pairs li")
        assert share(page, ".matrix tbody tr:nth-child(1) td") == ["100%", "50%", "85%", "50%", "0%"]
        assert texts(page, ".matrix tbody tr:nth-child(1) td.strong") == ["1.00", "0.71"]
        assert texts(page, ".matrix td.same") == ["1.00", "1.00", "1.00", "0.00", "1.00"]
        assert texts(page, "#embeddings-out .note") == ["5 vectors of 2 numbers from 17 tokens"]
        for count, said in (1, "Write 2 to 40 texts, one per line; there are 1."), (41, "Write 2 to 40 texts, one per line; there are 41."):
            page.fill("#embeddings-text", "\n".join(["x"] * count))
            page.click("#embeddings-go")
            assert texts(page, "#embeddings-out .fault") == [said]
        page.click("[data-wire=embeddings]")
        assert '"prompt_tokens": 17' in page.inner_text("#wire-dialog")


def test_bars_of_known_scores():
    with opened("rerank") as page:
        results = [{"index": 2, "relevance_score": 0.8}, {"index": 0, "relevance_score": 0.2}, {"index": 1, "relevance_score": -0.1}]
        serving(page, ("**/v1/rerank", {"results": results}))
        page.fill("#rerank-query", " q ")
        page.fill("#rerank-text", "a\n\n b \nc\n")
        with sent(page, "/v1/rerank") as request:
            page.click("#rerank-go")
        assert request.value.post_data_json == {"model": "ranks", "query": "q", "documents": ["a", "b", "c"]}
        page.wait_for_selector(".ranks")
        assert texts(page, ".ranks li") == ["c0.800", "a0.200", "b-0.100"]
        assert share(page, ".ranks .meter-fill") == ["100%", "25%", "0%"]
        assert texts(page, "#rerank-out .note") == ["3 documents; the highest score is 0.800, and the bars are relative to it"]
        for query, documents in ("", "a"), ("q", " \n"):
            page.fill("#rerank-query", query)
            page.fill("#rerank-text", documents)
            page.click("#rerank-go")
            assert texts(page, "#rerank-out .fault") == ["Write a query and at least one document."]


STREAM = """(events) => { window.fetch = () => Promise.resolve(new Response(
  [...events.map((each) => JSON.stringify(each)), "[DONE]"].map((each) => `: a comment\\n\\ndata: ${each}\\n\\n`).join(""),
  {headers: {"content-type": "text/event-stream"}})); }"""

ASKED = "() => { const old = window.fetch; window.fetch = (url, init) => { window.asked = JSON.parse(init.body); return old(url, init); }; }"


def chunk(finish=None, logprobs=None, **delta):
    return {"choices": [{"delta": delta, "finish_reason": finish, "logprobs": logprobs and {"content": logprobs}}]}


def candidate(text, logprob, *top):
    return {"token": text, "logprob": logprob, "top_logprobs": [{"token": each, "logprob": value} for each, value in top]}


def written(page, *events, text="Hello"):
    page.evaluate(STREAM, list(events))
    page.fill("#ask-text", text)
    page.press("#ask-text", "Enter")
    answered(page)


def test_thoughts_calls_and_the_reason_of_an_end():
    with opened() as page:
        page.evaluate("performance.now = () => 5000")
        function = [[0, "a", "paint", '{"co'], [1, "b", "stop", ""], [0, None, None, 'lour":1}'], [1, None, None, "[]"]]
        parts = [{"index": at, "function": {**({"name": name} if name else {}), "arguments": said}, **({"id": i} if i else {})}
                 for at, i, name, said in function]
        written(page, chunk(role="assistant", content=""), chunk(reasoning_content="First "), chunk(reasoning_content="*this*."),
                chunk(tool_calls=parts[:2]), chunk(tool_calls=parts[2:3]), chunk("tool_calls", tool_calls=parts[3:]),
                {"choices": [], "usage": {"completion_tokens": 1}})
        assert page.inner_html(".assistant .thoughts .prose") == "<p>First <em>this</em>.</p>"
        assert texts(page, ".call-name code") == ["paint", "stop"]
        assert texts(page, ".call pre") == ['{\n  "colour": 1\n}', "[]"]
        assert texts(page, ".turn .note") == ["first token 0.00 s · 1 tokens · calls tools"]
        assert texts(page, ".results .field span") == ["Result of paint", "Result of stop"]
        page.fill(".results textarea >> nth=0", "red")
        page.fill(".results textarea >> nth=1", "done")
        page.evaluate(ASKED)
        page.click("text=Send results")
        until(page, "document.querySelectorAll('.turn').length === 5")
        answered(page)
        calls = [{"id": i, "type": "function", "function": {"name": name, "arguments": said}}
                 for i, name, said in (("a", "paint", '{"colour":1}'), ("b", "stop", "[]"))]
        assert page.evaluate("window.asked.messages") == [
            {"role": "user", "content": "Hello"}, {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "content": "red", "tool_call_id": "a"}, {"role": "tool", "content": "done", "tool_call_id": "b"}]
        assert texts(page, ".turn .who") == ["You", "chat", "Result of paint", "Result of stop", "chat"]
        page.click("#chat-new")
        for reason, said in ("length", " · stopped at the token limit"), ("content_filter", " · filtered"), ("stop", ""):
            written(page, chunk(content="x"), chunk(reason))
            assert texts(page, ".turn .note")[-1] == "first token 0.00 s" + said
            assert page.inner_text("#chat-said") == f"The answer is complete: first token 0.00 s{said}."
        page.evaluate("{ let now = 0; performance.now = () => (now += 500); }")
        written(page, chunk(content="x"), chunk(content="y"), {"choices": [], "usage": {"completion_tokens": 5}})
        assert texts(page, ".turn .note")[-1] == "first token 0.50 s · 5 tokens · 2.0 tokens per second", texts(page, ".turn .note")


def test_token_probabilities_are_those_of_the_answer():
    with opened() as page:
        ln = {100: 0, 95: -0.0513, 50: -0.6931, 9.5: -2.3539, 26: -1.3471, 0.001: -11.6}
        written(page, chunk(content="a b\nc", logprobs=[candidate("a", ln[100], ("a", ln[100]), ("z", ln[0.001])), candidate(" b", ln[95], ("q", ln[9.5]))]),
                chunk(logprobs=[candidate("\n", ln[50]), candidate("", ln[9.5]), candidate("c", ln[26])], content=""))
        page.get_by_role("button", name="Tokens", exact=True).click()
        assert texts(page, ".token") == ["a", "·b", "↵", "∅", "c"]
        assert page.evaluate("[...document.querySelectorAll('.token')].map((each) => each.className)") == [
            "token sure", "token sure", "token open", "token rare", "token open"]
        assert page.evaluate("[...document.querySelectorAll('.token')].map((each) => each.ariaLabel)") == [
            "a, 100 %", "·b, 95.0 %", "↵, 50.0 %", "∅, 9.50 %", "c, 26.0 %"]
        assert texts(page, ".token-detail li") == ["a100 %", "zunder 0.01 %"]
        page.locator(".token").first.focus()
        for key, at in ("ArrowRight", 1), ("ArrowLeft", 0), ("ArrowLeft", 0), ("End", 4), ("ArrowUp", 0), ("ArrowDown", 4), ("Home", 0), ("ArrowRight", 1):
            page.keyboard.press(key)
            assert page.evaluate("[...document.querySelectorAll('.token')].indexOf(document.activeElement)") == at, key
            assert page.evaluate("[...document.querySelectorAll('.token')].findIndex((each) => each.tabIndex === 0)") == at
        assert texts(page, ".token-detail li") == ["·b95.0 %", "q9.50 %"]
        assert texts(page, ".token-detail [aria-current]") == ["·b95.0 %"]
        assert share(page, ".token-detail .meter-fill")[0].startswith("94.99")
        page.get_by_role("button", name="Tokens", exact=True).click()
        assert page.locator(".token").count() == 0


def test_every_setting_is_sent():
    with opened() as page:
        page.evaluate(STREAM, [chunk(content="x")])
        page.evaluate(ASKED)
        numbers = {"temperature": 0, "top_p": 0.5, "top_k": -1, "min_p": 0.25, "max_completion_tokens": 5, "seed": 0, "frequency_penalty": -1.5,
                   "presence_penalty": 1.5}
        for name, value in numbers.items():
            setting(page, name, str(value))
        setting(page, "stop", "a\n\nb")
        setting(page, "logprobs", True)
        setting(page, "system", "  S")
        page.click("#set-tools_on ~ span")
        page.locator(".group", has_text="Send these").get_by_role("button").click()
        page.click("#set-schema_on ~ span")
        page.locator(".group", has_text="must match this").get_by_role("button").click()
        assert page.inner_text("#ask-modes") == "system prompt · tools auto · JSON schema · token probabilities"
        page.fill("#ask-text", "Hello")
        page.press("#ask-text", "Enter")
        answered(page)
        body = page.evaluate("window.asked")
        tools, form = body.pop("tools"), body.pop("response_format")
        assert body == {"model": "chat", "messages": [{"role": "system", "content": "  S"}, {"role": "user", "content": "Hello"}], "stream": True,
                        "stream_options": {"include_usage": True}, **numbers, "stop": ["a", "b"], "logprobs": True, "top_logprobs": 5,
                        "tool_choice": "auto"}
        assert tools[0]["function"]["name"] == "weather" and tools[0]["function"]["parameters"]["required"] == ["city"]
        assert form["type"] == "json_schema" and form["json_schema"]["name"] == "answer" and form["json_schema"]["strict"] is True
        assert form["json_schema"]["schema"]["required"] == ["name", "age", "likes"]
        setting(page, "schema", "3")
        page.fill("#ask-text", "again")
        page.press("#ask-text", "Enter")
        assert page.inner_text("#ask-modes") == "Schema: This is not a JSON object."
        page.evaluate("window.asked = null")
        page.click("text=Try again")
        assert page.inner_text("#ask-modes") == "Schema: This is not a JSON object."
        assert page.evaluate("window.asked") is None and page.locator(".turn").count() == 2
        setting(page, "tools", "{}")
        assert page.inner_text("#set-tools-fault") == "This is not a JSON array."
        page.press("#ask-text", "Enter")
        assert page.inner_text("#ask-modes") == "Tools: This is not a JSON array."
        page.click("#chat-new")  # settings are copied, and belong to this conversation
        assert page.input_value("#set-temperature") == "0" and page.input_value("#set-tool_choice") == "auto"
        page.fill("#set-temperature", "1")
        page.click(".conversation >> text=Hello")
        assert page.input_value("#set-temperature") == "0"


def test_the_order_of_conversations():
    def one(name, updated, text="x"):
        return {"id": name, "title": f"T {name}", "model": "chat", "settings": {}, "updated": updated,
                "messages": [{"role": "user", "content": text}, {"role": "assistant", "content": "y"}]}
    kept = {f"weft-conversation-{name}": one(name, updated) for name, updated in (("a", 5), ("b", 9), ("c", 1))}
    with opened(stored={**kept, "weft-conversation-d": one("e", 99), "weft-conversations": [one("f", 7), one("a", 50)]}) as page:
        assert texts(page, ".conversation") == ["T b", "T f", "T a", "T c"]  # an entry stored under another conversation's name is ignored
        assert texts(page, ".conversation[aria-current]") == ["T b"]
        page.click(".conversation >> text=T c")
        assert texts(page, ".conversation[aria-current]") == ["T c"]
        page.reload()
        until(page, "document.querySelectorAll('.conversation').length === 4")
        assert texts(page, ".conversation[aria-current]") == ["T c"] and texts(page, ".conversation") == ["T b", "T f", "T a", "T c"]
        written(page, chunk(content="z"), text="more")
        assert texts(page, ".conversation") == ["T c", "T b", "T f", "T a"]
        page.reload()
        until(page, "document.querySelectorAll('.turn').length === 4")
        assert texts(page, ".conversation") == ["T c", "T b", "T f", "T a"]
        page.click("#chat-new")
        page.click("#chat-new")  # there is at most one empty conversation
        assert texts(page, ".conversation") == ["New conversation", "T c", "T b", "T f", "T a"]
        written(page, chunk(content="z"), text="x" * 70 + "\nsecond line")
        assert texts(page, ".conversation")[0] == "x" * 60
        assert json.loads(page.evaluate("localStorage.getItem('weft-conversation-c')"))["messages"][-1]["content"] == "z"


TEXTS = """async () => {
  const {bytes} = await import("/ui/dom.js"), {coloured} = await import("/ui/code.js"), {asCurl, asPython} = await import("/ui/wire.js");
  const kinds = (text, language) => coloured(text, language).filter((each) => each.tagName).map((each) => [each.className.slice(-1), each.textContent]);
  const record = {path: "/v1/x", body: {stream: true, a: [], b: {}, c: [true, false, null], d: "it's"}};
  const quotes = {path: "/v1/x", body: {text: "it's 'so', isn't it?"}};
  return [[0, 1023, 1024, 10240, 102400, 1 << 20, 1.5 * 2 ** 30, 2 ** 50].map(bytes), kinds("if (x1 == 0x1F) { return 'a\\\\'b'; } // c\\n/* d\\ne */ iffy `f`", "js"),
    kinds("x = 5 # c\\n// 2", "py"), kinds("if 1", "text"), asCurl(record).split("\\n").slice(0, 3), asPython(record).split("\\n").slice(4, 14), asCurl(quotes)];
}"""


def test_sizes_colours_and_code():
    with opened() as page:
        sizes, javascript, python, plain, curl, body, quotes = page.evaluate(TEXTS)
        assert sizes == ["0 B", "1023 B", "1.00 KiB", "10.0 KiB", "100 KiB", "1.00 MiB", "1.50 GiB", "1024 TiB"]
        assert javascript == [["k", "if"], ["n", "0x1F"], ["k", "return"], ["s", "'a\\'b'"], ["c", "// c"], ["c", "/* d\ne */"], ["s", "`f`"]]
        assert python == [["n", "5"], ["c", "# c"], ["n", "2"]] and plain == []
        assert curl == [f"curl -N {page.evaluate('location.origin')}/v1/x \\", '  -H "Authorization: Bearer $WEFT_API_KEY" \\',
                        "  -H 'Content-Type: application/json' \\"]
        words = shlex.split(quotes)  # parsed like a shell
        assert json.loads(words[words.index("-d") + 1]) == {"text": "it's 'so', isn't it?"}, quotes
        assert "\n".join(body) == '    data=json.dumps({\n        "stream": True,\n        "a": [],\n        "b": {},\n        "c": [\n' \
                                  '            True,\n            False,\n            None,\n        ],\n        "d": "it\'s",', body


def test_a_long_stream_is_shown_up_to_a_limit():
    with opened() as page:
        shown = page.evaluate("""async () => {
          const {wireBegin, wireShow} = await import("/ui/wire.js");
          const wire = wireBegin("chat", "/v1/x", {stream: true});
          for (let at = 0; at < 4003; at++) { wire.line(`data: ${at}`); wire.line(""); }
          wireShow("chat");
          return [...document.querySelectorAll("#wire-dialog pre")].at(-1).textContent;
        }""").split("\n")
        assert shown[0] == "data: 0" and shown[-2:] == ["data: 3999", "… and 3 more lines"] and len(shown) == 4001
        page.click("#wire-dialog .dialog-head button")
        page.click("a[data-panel=rerank]")
        page.click("[data-wire=rerank]")
        assert "Nothing was sent yet" in page.inner_text("#wire-dialog")


def test_tabs_title_and_the_theme_that_is_none():
    with opened("live", stored={"weft-preferences": {"theme": "purple"}}) as page:
        assert page.title() == "weft – Live" and texts(page, ".tabs [aria-current]") == ["Live"]
        assert page.input_value("#theme") == "auto" and page.evaluate("document.documentElement.dataset.theme") is None
        page.select_option("#theme", "dark")
        page.select_option("#theme", "auto")
        assert page.evaluate("document.documentElement.dataset.theme") is None
        page.route("**/v1/models", lambda route: route.fulfill(json={"data": [SERVED[0]]}))
        page.reload()
        until(page, "document.querySelector('#server-state').textContent.startsWith('1 model on ')")
        page.click("a[data-panel=embeddings]")
        assert "This server has no embedder" in page.inner_text("#embeddings-out") and page.is_disabled("#embeddings-go")
