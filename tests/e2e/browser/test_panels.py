# SPDX-License-Identifier: Apache-2.0
"""Each panel of the web page in headless Chromium: its content and functions, with mouse and keyboard."""

import json
import os
import re
import subprocess
import sys

from page import AT_ONCE, KEY, PHONE, WIDE, WRITTEN, answered, ask, opened, sent, server, serious, setting, until

PANELS = ("chat", "embeddings", "rerank", "live", "models")
TOOL = [{"type": "function", "function": {"name": "paint", "parameters": {
    "type": "object", "properties": {"colour": {"enum": ["red", "blue"]}}, "required": ["colour"],
    "additionalProperties": False}}}]
SCHEMA = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"], "additionalProperties": False}


def test_key_is_asked_for_and_stays_in_the_tab():
    with opened(key=None, allowed=("401",)) as page:
        page.wait_for_selector("#key-dialog[open]")
        assert page.evaluate("document.activeElement.id") == "key-text"
        page.fill("#key-text", "zamek-ł")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#key-fault').textContent.includes('No key has the character “ł”')")
        page.fill("#key-text", "wrong")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('#key-fault').textContent.includes('does not accept')")
        page.fill("#key-text", KEY)
        page.keyboard.press("Enter")
        page.wait_for_selector("#key-dialog:not([open])", state="attached")
        until(page, "document.querySelector('#server-state').textContent.startsWith('3 models')")
        assert page.evaluate("sessionStorage.getItem('weft-key')") == KEY
        stored = page.evaluate("JSON.stringify(localStorage) + document.cookie + document.documentElement.outerHTML + location")
        assert KEY not in stored
        page.reload()
        until(page, "document.querySelector('#server-state').classList.contains('fine')")
        assert not page.is_visible("#key-dialog")


def test_a_key_that_cannot_be_sent_is_asked_for_anew():
    with opened(key=None) as page:
        page.evaluate("sessionStorage.setItem('weft-key', 'zamek-ł')")
        page.goto(f"{server().base}/#__proto__")
        page.reload()
        page.wait_for_selector("#key-dialog[open]")
        assert page.title() == "weft – Chat" and page.is_visible("#panel-chat")


def test_who_sends_without_a_key_is_asked_for_it():
    with opened(key=None) as page:
        page.wait_for_selector("#key-dialog[open]")
        page.keyboard.press("Escape")
        page.fill("#ask-text", "Hello")
        page.press("#ask-text", "Enter")
        page.wait_for_selector("#key-dialog[open]")
        assert page.input_value("#ask-text") == "Hello"


def test_chat_streams_and_is_kept():
    with opened() as page:
        setting(page, "system", "Be brief.")
        setting(page, "temperature", "0.5")
        setting(page, "stop", "one\ntwo")
        with sent(page) as request:
            ask(page, "Hello <b>there</b>")
        body = request.value.post_data_json
        assert body["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello <b>there</b>"}]
        assert body["stream"] and body["temperature"] == 0.5 and body["stop"] == ["one", "two"]
        assert body["model"] == "chat" and body["max_completion_tokens"] == 8 and "seed" not in body
        text = page.inner_text(".turn.assistant > .prose")
        note = page.inner_text(".turn.assistant .note")
        assert "first token" in note and "tokens" in note, note
        page.reload()
        page.wait_for_selector(".turn.assistant .actions")
        assert page.inner_text(".turn.assistant > .prose") == text
        assert page.inner_text(".turn.user > .prose") == "Hello <b>there</b>"
        assert page.inner_text(".conversation") == "Hello <b>there</b>"
        page.click("#chat-new")
        assert page.locator(".turn").count() == 0 and page.locator(".conversation").count() == 2
        page.click("text=Hello <b>there</b>")
        assert page.locator(".turn").count() == 2
        page.click(".turn.assistant >> text=Try again")
        answered(page)
        assert page.locator(".turn").count() == 2
        page.get_by_role("button", name="Rename Hello <b>there</b>").click()
        page.keyboard.type("Greeting")
        page.keyboard.press("Enter")
        assert "Greeting" in page.locator(".conversation").all_inner_texts()
        page.get_by_role("button", name="Delete Greeting").click()
        page.focus("#ask-text")  # it asks first; moving the focus cancels
        assert "Greeting" in page.locator(".conversation").all_inner_texts()
        page.get_by_role("button", name="Delete Greeting").click()
        page.get_by_role("button", name="Really delete Greeting").click()
        assert "Greeting" not in page.locator(".conversation").all_inner_texts()


def test_escape_leaves_a_title_as_it_was():
    with opened() as page:
        ask(page, "The first")
        page.get_by_role("button", name="Rename The first").click()
        page.keyboard.type("Other")
        page.keyboard.press("Escape")
        assert page.locator(".conversation").all_inner_texts() == ["The first"]
        page.reload()
        assert page.locator(".conversation").all_inner_texts() == ["The first"]
        page.get_by_role("button", name="Rename The first").click()
        page.keyboard.type("Other")
        page.focus("#ask-text")  # moving the focus keeps the typed text
        assert page.locator(".conversation").all_inner_texts() == ["Other"]


# Collects timers in window.timers instead of running them.
HELD = """() => { window.timers = new Map(); window.setTimeout = (run, ms) => { const id = Math.random(); window.timers.set(id, [run, ms]);
  return id; }; window.clearTimeout = (id) => window.timers.delete(id); }"""


def test_a_server_that_starts_is_asked_by_one_timer():
    with opened(allowed=("503", "401")) as page:
        status = 503
        page.route("**/v1/models", lambda route: route.fulfill(status=status, json={"error": {"message": "Loading."}}))
        page.evaluate(HELD)
        waiting = "[...window.timers.values()].filter(([, ms]) => ms === 2000)"
        for _ in range(3):
            page.click("#key-change")
            page.fill("#key-text", KEY)
            page.keyboard.press("Enter")
            page.wait_for_selector("#key-dialog:not([open])", state="attached")
            assert page.inner_text("#server-state") == "Loading."
        assert page.evaluate(f"{waiting}.length") == 1
        status = 401
        page.evaluate(f"{waiting}[0][0]()")
        page.wait_for_selector("#key-dialog[open]")
        assert "no longer accepts" in page.inner_text("#key-fault")


def test_the_built_in_model_says_what_it_is():
    with opened() as page:
        assert page.locator("#welcome .fault").count() == 0
        served = [{"id": name, "kind": "generator", "max_model_len": 64} for name in ("talks", "weft-demo-chat")]
        page.route("**/v1/models", lambda route: route.fulfill(json={"data": served}))
        page.reload()
        until(page, "document.querySelectorAll('#chat-model option').length === 2")
        assert page.locator("#welcome .fault").count() == 0
        page.select_option("#chat-model", "weft-demo-chat")
        assert "writes nonsense" in page.inner_text("#welcome .fault")


def test_a_message_is_edited_or_kept():
    with opened() as page:
        ask(page, "first")
        ask(page, "second")
        page.hover(".turn.user >> nth=0")
        page.locator(".turn.user").first.get_by_role("button", name="Edit").click()
        assert page.input_value("#ask-text") == "first" and page.locator(".turn").count() == 4
        page.keyboard.press("Escape")
        assert page.input_value("#ask-text") == "" and not page.is_visible("#ask-cancel")
        page.locator(".turn.user").first.get_by_role("button", name="Edit").click()
        page.click("#ask-cancel")
        assert page.locator(".turn").count() == 4
        page.locator(".turn.user").first.get_by_role("button", name="Edit").click()
        with sent(page) as request:
            page.fill("#ask-text", "instead")
            page.keyboard.press("Enter")
        answered(page)
        assert [each["content"] for each in request.value.post_data_json["messages"]] == ["instead"]
        assert page.locator(".turn").count() == 2 and not page.is_visible("#ask-cancel")


def edit_first(page):
    page.hover(".turn.user >> nth=0")
    page.locator(".turn.user").first.get_by_role("button", name="Edit").click()


def test_a_draft_outlives_an_edit():
    with opened() as page:
        ask(page, "first")
        ask(page, "second")
        page.fill("#ask-text", "half a thou")
        for end in (lambda: page.keyboard.press("Escape"), lambda: page.click("#ask-cancel")):
            edit_first(page)
            assert page.input_value("#ask-text") == "first"
            page.fill("#ask-text", "fir")
            page.hover(".turn.user >> nth=1")
            page.locator(".turn.user").nth(1).get_by_role("button", name="Edit").click()
            assert page.input_value("#ask-text") == "second"
            end()
            assert page.input_value("#ask-text") == "half a thou"
        edit_first(page)
        page.fill("#ask-text", "instead")
        page.keyboard.press("Enter")
        answered(page)
        assert page.locator(".turn").count() == 2 and page.input_value("#ask-text") == "half a thou"
        page.keyboard.press("Enter")
        answered(page)
        assert page.locator(".turn").count() == 4 and page.input_value("#ask-text") == ""


def test_an_edit_lasts_as_long_as_its_sign():
    with opened() as page:
        ask(page, "first")
        ask(page, "second")
        edit_first(page)
        setting(page, "system", "Be brief.")
        assert "replaces this message" in page.inner_text("#ask-modes")
        page.click("text=Try again")
        answered(page)
        assert page.inner_text("#ask-modes") == "system prompt" and not page.is_visible("#ask-cancel")
        assert page.locator(".replaced").count() == 0 and page.input_value("#ask-text") == ""
        ask(page, "third", tokens=None)
        assert page.locator(".turn").count() == 6


def test_an_answer_goes_on_in_its_own_conversation():
    with opened() as page:
        page.evaluate(WRITTEN)
        for number, text in enumerate(("first", "second")):
            page.fill("#ask-text", text)
            page.keyboard.press("Enter")
            until(page, f"window.streams.length === {number + 1}")
            page.evaluate(f"window.streams[{number}].say('{text} begins')")
            until(page, f"document.querySelector('.turn.assistant > .prose').textContent === '{text} begins'")
            assert page.is_visible("#ask-stop")
            page.click("#chat-new")
            assert page.is_visible("#ask-send") and not page.is_visible("#ask-stop") and page.locator(".turn").count() == 0
        assert page.locator(".conversation.answering").all_inner_texts() == ["second", "first"]
        page.evaluate("window.streams[0].say(' and ends'); window.streams[0].end()")
        until(page, "document.querySelectorAll('.conversation.answering').length === 1")
        assert page.locator(".turn").count() == 0
        assert "in first is complete" in page.inner_text("#chat-said")
        page.click(".conversation >> text=first")
        assert page.inner_text(".turn.assistant > .prose") == "first begins and ends"
        assert page.is_visible("#ask-send") and page.locator(".turn.assistant .actions").count() == 1
        page.click(".conversation >> text=second")
        assert page.is_visible("#ask-stop")
        page.evaluate("window.streams[1].say(', goes on')")
        until(page, "document.querySelector('.turn.assistant > .prose').textContent === 'second begins, goes on'")
        page.keyboard.press("Escape")
        answered(page)
        assert page.evaluate("window.streams.map((each) => each.left)") == [False, True]
        page.click("text=Try again")
        until(page, "window.streams.length === 3")
        page.click(".conversation >> text=first")
        page.get_by_role("button", name="Delete second").click()
        page.get_by_role("button", name="Really delete second").click()
        until(page, "window.streams[2].left")
        page.reload()
        page.wait_for_selector(".turn.assistant .actions")
        assert page.inner_text(".turn.assistant > .prose") == "first begins and ends"
        assert page.locator(".conversation").count() == 1


def test_what_is_typed_goes_into_the_composer():
    with opened() as page:
        page.keyboard.type("Hello there")
        assert page.input_value("#ask-text") == "Hello there"
        page.focus("#settings-open")
        page.keyboard.type("x")
        assert page.input_value("#ask-text") == "Hello there"


def test_copying_with_and_without_a_clipboard():
    with opened() as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server().base)
        ask(page, "copy me")
        copy = page.locator(".turn.user button").first
        for clipboard in True, False:
            if not clipboard:
                page.evaluate("navigator.clipboard.writeText('')")
                page.evaluate("window.board = navigator.clipboard; "
                              "Object.defineProperty(navigator, 'clipboard', {value: undefined, configurable: true})")
            copy.click()
            until(page, "document.querySelector('.turn.user button').textContent === 'Copied'")
            copy.click()
            assert page.evaluate("(window.board || navigator.clipboard).readText()") == "copy me"
            until(page, "document.querySelector('.turn.user button').textContent === 'Copy'")
        assert page.locator("textarea.unseen").count() == 0


# An answer that starts and continues until it is aborted, so that a test does not depend on the model's speed.
ENDLESS = """() => { window.fetch = (url, init) => Promise.resolve(new Response(new ReadableStream({start(out) {
  out.enqueue(new TextEncoder().encode('data: {"choices":[{"delta":{"content":"on and on"}}]}\\n\\n'));
  init.signal.addEventListener("abort", () => out.error(new DOMException("left", "AbortError")));
}}), {headers: {"content-type": "text/event-stream"}})); }"""


def test_escape_stops_an_answer():
    with opened() as page:
        page.evaluate(ENDLESS)
        page.fill("#ask-text", "Talk on and on")
        page.keyboard.press("Enter")
        until(page, "document.querySelector('.turn.assistant > .prose')?.textContent === 'on and on'")
        assert page.is_visible("#ask-stop") and not page.is_visible("#ask-send")
        page.keyboard.press("Escape")
        answered(page)
        assert "stopped" in page.inner_text(".turn.assistant .note")
        assert page.is_visible("#ask-send") and page.inner_text(".turn.assistant > .prose") == "on and on"


def test_an_answer_in_one_piece_has_no_speed():
    with opened() as page:
        page.evaluate(AT_ONCE)
        ask(page, tokens=None)
        note = page.inner_text(".turn.assistant .note")
        assert "90 tokens" in note and "per second" not in note, note


def test_an_error_of_the_server_is_shown():
    with opened(allowed=("400",)) as page:
        setting(page, "temperature", "9")
        page.fill("#ask-text", "Hello")
        page.keyboard.press("Enter")
        answered(page)
        assert "temperature" in page.inner_text(".turn.assistant .fault")
        page.click("[data-wire=chat]")
        assert page.locator("#wire-dialog h3").last.inner_text() == "Error"
        assert page.evaluate("(pre => pre.scrollWidth <= pre.clientWidth)([...document.querySelectorAll('#wire-dialog pre')].at(-1))")


def test_a_tool_is_called_and_answered():
    with opened() as page:
        setting(page, "tools", "{")
        setting(page, "tools_on", True)
        assert "not valid JSON" in page.inner_text("#set-tools-fault")
        page.fill("#ask-text", "Paint")
        page.click("#ask-send")
        assert "Tools" in page.inner_text("#ask-modes") and page.locator(".turn").count() == 0
        setting(page, "tools", json.dumps(TOOL))
        setting(page, "tool_choice", "required")
        ask(page, "Paint", "80")
        assert page.inner_text(".call-name code") == "paint"
        assert json.loads(page.inner_text(".call pre"))["colour"] in ("red", "blue")
        page.click("[data-wire=chat]")
        assert page.locator("#wire-dialog h3").all_inner_texts() == ["Request", "Event stream"]
        page.keyboard.press("Escape")
        setting(page, "tool_choice", "none")
        page.fill(".results textarea", "It is painted.")
        with sent(page) as request:
            page.click("text=Send results")
        answered(page)
        messages = request.value.post_data_json["messages"]
        assert [each["role"] for each in messages] == ["user", "assistant", "tool"]
        assert messages[2]["content"] == "It is painted."
        assert messages[2]["tool_call_id"] == messages[1]["tool_calls"][0]["id"]
        page.reload()
        until(page, "document.querySelectorAll('.turn').length === 4")
        page.fill("#ask-text", "Thanks")
        with sent(page) as request:
            page.click("#ask-send")
        assert request.value.post_data_json["messages"][:3] == messages


def test_an_answer_follows_a_schema():
    with opened() as page:
        setting(page, "schema", json.dumps(SCHEMA))
        setting(page, "schema_on", True)
        ask(page, "Sure?", "60")
        assert json.loads(page.inner_text(".turn.assistant .code pre"))["sure"] in (True, False)


def test_token_probabilities():
    with opened() as page:
        setting(page, "logprobs", True)
        ask(page)
        page.get_by_role("button", name="Tokens", exact=True).click()
        assert 1 <= page.locator(".token").count() <= 8
        page.locator(".token").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("Home")
        assert page.evaluate("document.activeElement === document.querySelector('.token')")
        assert page.locator(".token-detail li").count() >= 5
        assert page.locator(".token-detail [aria-current]").count() == 1
        assert "%" in page.inner_text(".token-detail")
        assert page.locator(".token[tabindex='0']").count() == 1
        assert not serious(page)


def test_what_went_over_the_wire():
    with opened() as page:
        ask(page, "It's \"quoted\" \\ and $HOME `x`")
        page.click("[data-wire=chat]")
        shown = page.inner_text("#wire-dialog")
        assert "POST /v1/chat/completions" in shown and "data: [DONE]" in shown and '"delta"' in shown
        assert KEY not in page.content()
        assert page.locator("#wire-dialog button", has_text="Copy as").count() == 3
        assert not serious(page)
        page.keyboard.press("Escape")
        assert not page.is_visible("#wire-dialog")
        code = page.evaluate("""async () => {
          const wire = await import("/ui/wire.js");
          const record = {path: "/v1/completions", body: {model: "chat", prompt: `It's "quoted" \\\\ $HOME \\n`, max_tokens: 3,
            echo: true, stop: null, stream: false}};
          return [wire.asCurl(record), wire.asPython(record), wire.asJavaScript(record)];
        }""")
    environment = {**os.environ, "WEFT_API_KEY": KEY}
    for command in ["sh", "-c", code[0]], [sys.executable, "-c", code[1]]:
        out = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
        answer = json.loads(out.stdout)
        assert answer["choices"][0]["text"].startswith("It's \"quoted\" \\ $HOME \n"), (command, out)
    assert "process.env.WEFT_API_KEY" in code[2] and "/v1/completions" in code[2]


MAKE = """async (body) => {
  const wire = await import("/ui/wire.js");
  return [wire.asPython({path: "/v1/chat/completions", body}), wire.asJavaScript({path: "/v1/chat/completions", body})];
}"""
RUN = """async () => { const out = [], process = {env: {WEFT_API_KEY: "%s"}, stdout: {write: (text) => out.push(text)}};
  try { %s } catch (error) { return error.message; }
  return out.join(""); }"""


def test_code_of_a_stream_prints_text_calls_and_errors():
    with opened(allowed=("400",)) as page:
        ask(page)
        page.click("[data-wire=chat]")
        assert "WEFT_API_KEY" in page.inner_text("#wire-dialog .hint")
        body = {"model": "chat", "stream": True, "temperature": 0, "max_tokens": 12, "messages": [{"role": "user", "content": "a"}]}
        whole = server().post("/v1/chat/completions", {**body, "stream": False}).json["choices"][0]["message"]["content"]
        called = {**body, "max_tokens": 80, "tools": TOOL, "tool_choice": "required"}
        for wanted, asked in (whole, body), ('paint {"colour":', called), ("temperature", {**body, "temperature": 9}):
            python, javascript = page.evaluate(MAKE, asked)
            out = subprocess.run([sys.executable, "-c", python], env={**os.environ, "WEFT_API_KEY": KEY}, capture_output=True,
                                 text=True, timeout=120)
            for printed in out.stdout + out.stderr, page.evaluate(RUN % (KEY, javascript)):
                assert " ".join(wanted.split()) in " ".join(printed.split()), (wanted, printed)
                assert "Traceback" not in printed


def test_embeddings_as_a_matrix():
    with opened("embeddings") as page:
        page.fill("#embeddings-text", "warm wool\nwarm wool\n<i>cold</i> sea")
        page.click("#embeddings-go")
        page.wait_for_selector(".matrix")
        cells = [row.locator("td").all_inner_texts() for row in page.locator(".matrix tbody tr").all()]
        assert len(cells) == 3 and all(len(row) == 3 for row in cells)
        assert cells[0][0] == cells[0][1] == "1.00" and cells[0][2] == cells[2][0]
        assert page.locator(".pairs li").count() == 3
        assert page.locator(".matrix tbody th").nth(2).inner_text().endswith("<i>cold</i> sea")
        page.fill("#embeddings-text", "one")
        page.click("#embeddings-go")
        assert "2 to 40" in page.inner_text("#embeddings-out .fault")


def test_rerank_as_bars():
    with opened("rerank") as page:
        with page.expect_response(lambda response: response.url.endswith("/v1/rerank")) as answer:
            page.click("#rerank-go")
        page.wait_for_selector(".ranks")
        results = answer.value.json()["results"]
        shown = page.locator(".ranks .number").all_inner_texts()
        assert shown == [f"{each['relevance_score']:.3f}" for each in results] and len(shown) == 6
        widths = page.evaluate("[...document.querySelectorAll('.ranks .meter-fill')].map((e) => e.getBoundingClientRect().width)")
        assert widths == sorted(widths, reverse=True) and widths[0] > 100
        page.click("[data-wire=rerank]")
        assert "relevance_score" in page.inner_text("#wire-dialog")


def test_live_charts_move():
    with opened("live") as page:
        with page.expect_response(lambda response: "/metrics?" in response.url) as read:
            until(page, "Number(document.querySelector('.chart')?.dataset.points) >= 2")
        asked = set(re.findall(r"name\[\]=(\w+)", read.value.url))
        assert asked >= set(re.findall(r'"(weft_\w+)"', server().request("GET", "/ui/live.js").text))
        assert set(re.findall(r"# TYPE (\S+)", read.value.text())) == asked
        titles = page.locator(".chart h2").all_inner_texts()
        assert titles == ["Throughput", "Time to first token", "Time between tokens", "Batch size", "Keys and values", "Queue", "Cache hits"]
        server().post("/v1/chat/completions", {"model": "chat", "max_tokens": 100, "messages": [{"role": "user", "content": "a"}]})
        until(page, "document.querySelectorAll('.line-0')[2].getAttribute('d').includes('M')")
        page.click("a[data-panel=chat]")
        ask(page)
        page.click("a[data-panel=live]")  # values from the time when another panel was shown are there
        until(page, "document.querySelectorAll('.chart')[1].querySelector('.number').textContent !== '–'")
        drawn = "[...document.querySelectorAll('.chart')[1].querySelectorAll('.line')].map((line) => line.getAttribute('d')).join('')"
        assert re.search(r"M\S+ \S+(h0|L)", page.evaluate(drawn)), page.evaluate(drawn)
        page.select_option("#live-model", "embed")
        assert page.locator(".chart h2").all_inner_texts() == ["Throughput", "Batch size", "Queue"]
        page.click("#live-pause")
        assert page.get_attribute("#live-pause", "aria-pressed") == "true"


def test_models():
    with opened("models") as page:
        page.wait_for_selector(".card")
        assert page.locator(".card h2").all_inner_texts() == ["chat", "embed", "rerank"]
        chat, embed = (page.inner_text(f".card >> nth={at}") for at in (0, 1))
        assert "4,096 tokens" in chat and "LlamaForCausalLM" in chat and "embeddings" in embed
        plans = [card.locator("h3").all_inner_texts() for card in page.locator(".card").all()]
        assert [len(each) for each in plans] == [1, 2, 1], plans
        for engine, said in enumerate(sum(plans, [])):
            name = "Copy %d" % (engine - 1) if engine in (1, 2) else "Memory plan"
            planned = server().metric(f'weft_model_memory_bytes{{.*engine="{engine}"') / 2**20
            assert re.fullmatch(rf"{name} on cpu, {planned:.{0 if planned >= 100 else 1 if planned >= 10 else 2}f} MiB", said), (said, planned)
        blocks = server().metric('weft_kv_blocks{model_name="chat"')
        assert f"keys and values, {64 * blocks:,.0f} tokens" in chat, chat
        assert "weights" in embed and embed.count("shares the weights of the previous copy") == 1


def test_nothing_serious_for_screen_readers():
    """Every rule on a wide window; in dark on a phone, where the document is the same, those of colours and sizes."""
    shown = ["color-contrast", "link-in-text-block", "scrollable-region-focusable", "meta-viewport"]
    for theme, size, rules in (("light", WIDE, None), ("dark", PHONE, shown)):
        for panel in PANELS:
            with opened(panel, size, theme) as page:
                if panel == "chat":
                    ask(page)
                if panel in ("embeddings", "rerank"):
                    page.click(f"#{panel}-go")
                    page.wait_for_selector(".matrix, .ranks")
                if panel == "models":
                    page.wait_for_selector(".card")
                if panel == "live":
                    page.wait_for_selector(".chart")
                found = serious(page, rules)
                assert not found, (panel, theme, found)


def test_nothing_is_wider_than_the_window():
    for width in 390, 620, 860, 1100, 1440:
        with opened(size=(width, 800)) as page:
            for panel in PANELS:
                page.evaluate(f"location.hash = '{panel}'")
                page.wait_for_selector(f"#panel-{panel}:not([hidden])")
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (panel, width)


def test_wide_tables_scroll_and_break_no_word():
    table = "| Algorithm | Best | Average | Worst | Method | Notes |\n|---|---|---|---|---|---|\n" \
            "| Quicksort | n log n | n log n | n^2 | Partitioning | In practice the fastest of them for data in memory |"
    stored = [{"id": "a", "title": "t", "model": "chat", "settings": {}, "updated": 1,
               "messages": [{"role": "user", "content": "x"}, {"role": "assistant", "content": table}]}]
    with opened(size=PHONE, stored={"weft-conversations": stored}) as page:
        page.wait_for_selector(".table")
        lines = page.evaluate("[...document.querySelectorAll('th')].slice(0, 5).map((cell) => cell.getBoundingClientRect().height)")
        assert len(set(lines)) == 1
        inner, outer = page.evaluate("(box => [box.scrollWidth, box.clientWidth])(document.querySelector('.table'))")
        assert inner > outer
        words = page.evaluate("""[...document.querySelectorAll('th, td')].slice(0, 11).map((cell) => {
          const text = document.createRange(); text.selectNodeContents(cell); return text.getClientRects().length; })""")
        assert words == [1] * 11, words


def test_the_bar_of_a_phone():
    with opened(size=PHONE) as page:
        page.evaluate("document.querySelector('#chat-model option').textContent = 'a-model-with-a-long-name-instruct'")
        boxes = page.evaluate("[...document.querySelectorAll('#panel-chat .bar > :not(h1)')].map((node) => node.matches('.pick') ? "
                              "node.firstElementChild.nextElementSibling.getBoundingClientRect() : node.getBoundingClientRect())"
                              ".map((box) => [box.left, box.right])")
        assert len(boxes) == 4 and all(a[1] <= b[0] for a, b in zip(boxes, boxes[1:])) and boxes[-1][1] <= PHONE[0], boxes


def test_all_by_keyboard():
    with opened() as page:
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        seen = set()
        for _ in range(30):
            page.keyboard.press("Tab")
            seen.add(page.evaluate("document.activeElement.id || document.activeElement.textContent"))
        for each in "chat-model", "settings-open", "ask-text", "ask-send", "Request":
            assert each in seen, seen
        page.focus("#settings-open")
        page.keyboard.press("Enter")
        assert page.evaluate("document.querySelector('#settings').contains(document.activeElement)")
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.id") == "settings-open" and not page.is_visible("#settings")


def test_theme_is_kept():
    with opened() as page:
        light = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.select_option("#theme", "dark")
        dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
        page.reload()
        page.wait_for_selector("#ask-text")
        assert light != dark == page.evaluate("getComputedStyle(document.body).backgroundColor")
